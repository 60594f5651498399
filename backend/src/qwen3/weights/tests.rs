use std::fs;
use std::path::Path;

use safetensors::tensor::{Dtype, TensorView};
use tempfile::TempDir;

use super::*;

/// A folder with one file of one tensor `a`, 2 x 3, f32, holding 0..6.
fn folder() -> TempDir {
    let folder = TempDir::new().unwrap();
    write(&folder.path().join("model.safetensors"), Dtype::F32);
    folder
}

fn write(path: &Path, dtype: Dtype) {
    let bytes: Vec<u8> = (0..6).flat_map(|value| (value as f32).to_le_bytes()).collect();
    let wide = vec![0_u8; 6 * dtype.bitsize() / 8];
    let data = if dtype == Dtype::F32 { &bytes } else { &wide };
    let view = TensorView::new(dtype, vec![2, 3], data).unwrap();
    safetensors::serialize_to_file([("a", &view)], None, path).unwrap();
}

fn open(folder: &TempDir) -> Result<Weights, WeightsError> {
    Weights::open(folder.path())
}

/// Checks that opening or reading fails with a text that has all of `parts`.
fn expect_error(folder: &TempDir, shape: &[usize], parts: &[&str]) {
    let result = open(folder).and_then(|weights| weights.tensor("a", shape, DType::F32));
    let text = result.expect_err("the checkpoint is damaged").to_string();
    for part in parts {
        assert!(text.contains(part), "`{text}` lacks `{part}`");
    }
}

#[test]
fn a_tensor_is_read() {
    let tensor = open(&folder()).unwrap().tensor("a", &[2, 3], DType::F64).unwrap();
    assert_eq!(tensor.to_vec2::<f64>().unwrap(), [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]);
    let narrow = open(&folder()).unwrap().bf16("a", &[2, 3]).unwrap();
    assert_eq!(narrow[5], bf16::from_f32(5.0));
}

#[test]
fn an_empty_folder_is_refused() {
    expect_error(&TempDir::new().unwrap(), &[2, 3], &["holds neither model.safetensors nor"]);
}

#[test]
fn a_missing_folder_is_refused() {
    let error = Checkpoint::open(Path::new("no/such/folder")).unwrap_err().to_string();
    assert!(error.contains("no/such/folder"), "{error}");
}

#[test]
fn a_missing_tensor_is_named() {
    let error = open(&folder()).unwrap().tensor("b", &[2, 3], DType::F32).unwrap_err().to_string();
    assert!(error.contains("model.safetensors") && error.contains("no tensor `b`"), "{error}");
}

#[test]
fn a_wrong_shape_is_named() {
    expect_error(&folder(), &[3, 2], &["model.safetensors", "`a`", "[2, 3]", "[3, 2]"]);
}

#[test]
fn a_wrong_type_is_named() {
    let folder = folder();
    write(&folder.path().join("model.safetensors"), Dtype::I32);
    expect_error(&folder, &[2, 3], &["model.safetensors", "`a`", "I32", "BF16"]);
}

#[test]
fn a_file_cut_inside_its_data_is_refused() {
    let folder = folder();
    let path = folder.path().join("model.safetensors");
    let bytes = fs::read(&path).unwrap();
    fs::write(&path, &bytes[..bytes.len() - 1]).unwrap();
    let (has, should) = (format!("{}", bytes.len() - 1), format!("{}", bytes.len()));
    expect_error(&folder, &[2, 3], &["model.safetensors", &has, &should, "truncated"]);
}

#[test]
fn a_file_cut_inside_its_header_is_refused() {
    let folder = folder();
    let path = folder.path().join("model.safetensors");
    let bytes = fs::read(&path).unwrap();
    fs::write(&path, &bytes[..20]).unwrap();
    expect_error(&folder, &[2, 3], &["has 20 bytes", "truncated"]);
}

#[test]
fn a_file_of_a_few_bytes_is_refused() {
    let folder = folder();
    fs::write(folder.path().join("model.safetensors"), b"abc").unwrap();
    expect_error(&folder, &[2, 3], &["not a safetensors file", "3 bytes"]);
}

#[test]
fn a_file_of_another_kind_is_refused() {
    let folder = folder();
    fs::write(folder.path().join("model.safetensors"), b"this is a text, not a tensor file").unwrap();
    expect_error(&folder, &[2, 3], &["not a safetensors file", "claims a header of"]);
}

#[test]
fn a_header_that_is_no_json_is_refused() {
    let folder = folder();
    let mut bytes = 4_u64.to_le_bytes().to_vec();
    bytes.extend(b"nope");
    fs::write(folder.path().join("model.safetensors"), bytes).unwrap();
    expect_error(&folder, &[2, 3], &["not a safetensors file", "column"]);
}

#[test]
fn bytes_after_the_data_are_refused() {
    let folder = folder();
    let path = folder.path().join("model.safetensors");
    let mut bytes = fs::read(&path).unwrap();
    bytes.push(0);
    fs::write(&path, bytes).unwrap();
    expect_error(&folder, &[2, 3], &["truncated or damaged"]);
}

fn sharded(index: &str) -> TempDir {
    let folder = TempDir::new().unwrap();
    write(&folder.path().join("one.safetensors"), Dtype::F32);
    fs::write(folder.path().join("model.safetensors.index.json"), index).unwrap();
    folder
}

#[test]
fn shards_are_found_through_the_index() {
    let weights = open(&sharded(r#"{"weight_map": {"a": "one.safetensors"}}"#)).unwrap();
    assert!(!weights.are_dummy());
    let folder = sharded(r#"{"metadata": {"total_size": 24}, "weight_map": {"a": "one.safetensors"}}"#);
    assert_eq!(open(&folder).unwrap().tensor("a", &[2, 3], DType::F32).unwrap().dims(), [2, 3]);
}

#[test]
fn a_missing_shard_is_named() {
    expect_error(&sharded(r#"{"weight_map": {"a": "two.safetensors"}}"#), &[2, 3], &["two.safetensors"]);
}

#[test]
fn a_tensor_that_the_index_omits_is_named_with_the_index() {
    expect_error(&sharded(r#"{"weight_map": {"b": "one.safetensors"}}"#), &[2, 3], &["index.json", "no tensor `a`"]);
}

#[test]
fn a_tensor_that_its_shard_lacks_is_named_with_the_shard() {
    let folder = sharded(r#"{"weight_map": {"b": "one.safetensors"}}"#);
    let error = open(&folder).unwrap().tensor("b", &[2, 3], DType::F32).unwrap_err().to_string();
    assert!(error.contains("one.safetensors") && error.contains("`b`"), "{error}");
}

#[test]
fn a_damaged_index_is_refused() {
    expect_error(&sharded("{\"weight_map\": 3}"), &[2, 3], &["index.json", "expected a map"]);
}

fn dummy(weights: &Weights, name: &str) -> Vec<f32> {
    weights.tensor(name, &[64, 100], DType::F32).unwrap().flatten_all().unwrap().to_vec1().unwrap()
}

#[test]
fn dummy_weights_depend_on_seed_and_name_only() {
    let weights = Weights::dummy(1);
    assert_eq!(dummy(&weights, "a"), dummy(&Weights::dummy(1), "a"));
    assert_ne!(dummy(&weights, "a"), dummy(&weights, "b"));
    assert_ne!(dummy(&weights, "a"), dummy(&Weights::dummy(2), "a"));
}

#[test]
fn dummy_weights_are_uniform_in_their_range_and_never_zero() {
    let values = dummy(&Weights::dummy(1), "a");
    assert!(values.iter().all(|value| value.abs() <= 1e-3 && *value != 0.0));
    let n = values.len() as f32;
    let mean = values.iter().sum::<f32>() / n;
    let variance = values.iter().map(|value| value * value).sum::<f32>() / n;
    // Six standard errors of the mean, and the variance of a uniform number in +-w.
    assert!(mean.abs() < 6.0 * (1e-6_f32 / 3.0 / n).sqrt(), "{mean}");
    assert!((variance / (1e-6 / 3.0) - 1.0).abs() < 0.05, "{variance}");
    assert!(values.iter().all(|&value| bf16::from_f32(value).to_f32() == value));
}

#[test]
fn dummy_norms_lie_around_one() {
    let norm: Vec<f32> = Weights::dummy_sensitive(3).tensor("n", &[50], DType::F32).unwrap().to_vec1().unwrap();
    assert!(norm.iter().all(|value| (0.79..=1.21).contains(value)));
}

/// Elements of the CUDA kernel `fill_dummy`, run under an emulation: both devices must make the same weights.
#[test]
fn dummy_elements_are_those_of_the_kernel() {
    let range = DummyRange { key: 0x1234_5678_90ab_cdef, centre: 1.0, half_width: 0.2 };
    let found = [0, 1, 2, 500, 999].map(|idx| range.element(idx));
    assert_eq!(found, [1.140_625, 1.023_437_5, 1.101_562_5, 0.957_031_25, 0.949_218_75]);
}
