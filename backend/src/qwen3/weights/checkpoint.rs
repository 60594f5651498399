//! A folder of safetensors, in one file or in shards. Only headers are kept in memory: each tensor is read when asked for.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use candle_core::DType;
use safetensors::Dtype as StoredType;
use safetensors::tensor::Metadata;
use serde::Deserialize;

use super::WeightsError;

/// Bytes before the JSON header: its length.
const LENGTH_BYTES: u64 = 8;
/// No sensible header is longer; a longer one means that the file is something else.
const HEADER_BYTES_MAX: u64 = 100_000_000;

/// A checkpoint whose headers have been read and checked against the sizes of their files.
#[derive(Debug)]
pub struct Checkpoint {
    /// The index, or the only file: named where a tensor is missing.
    root: String,
    shards: Vec<Shard>,
    /// Which shard the index gives for a tensor; empty without an index.
    shard_of_tensor: BTreeMap<String, usize>,
}

#[derive(Debug)]
struct Shard {
    path: PathBuf,
    metadata: Metadata,
    data_start: u64,
}

#[derive(Deserialize)]
struct Index {
    weight_map: BTreeMap<String, String>,
}

impl Checkpoint {
    /// Opens `model.safetensors.index.json` with its shards, or else `model.safetensors`.
    ///
    /// # Errors
    /// Everything of [`WeightsError`] that concerns a whole file.
    pub fn open(folder: &Path) -> Result<Self, WeightsError> {
        let index_path = folder.join("model.safetensors.index.json");
        let single = folder.join("model.safetensors");
        if index_path.is_file() {
            return Self::open_sharded(folder, &index_path);
        }
        if !single.is_file() {
            return Err(WeightsError::NoWeights { folder: folder.display().to_string() });
        }
        Ok(Self { root: name(&single), shards: vec![Shard::open(single)?], shard_of_tensor: BTreeMap::new() })
    }

    /// Type and bytes of a tensor.
    ///
    /// # Errors
    /// `Missing`, `Shape`, `DType` or `Read`.
    pub fn read(&self, tensor: &str, shape: &[usize]) -> Result<(DType, Vec<u8>), WeightsError> {
        let missing = |file: &str| WeightsError::Missing { file: file.into(), tensor: tensor.into() };
        let shard = if self.shard_of_tensor.is_empty() {
            &self.shards[0]
        } else {
            &self.shards[*self.shard_of_tensor.get(tensor).ok_or_else(|| missing(&self.root))?]
        };
        let file = name(&shard.path);
        let info = shard.metadata.info(tensor).ok_or_else(|| missing(&file))?;
        if info.shape != shape {
            return Err(WeightsError::Shape {
                file,
                tensor: tensor.into(),
                shape: info.shape.clone(),
                expected: shape.into(),
            });
        }
        let dtype = match info.dtype {
            StoredType::BF16 => DType::BF16,
            StoredType::F16 => DType::F16,
            StoredType::F32 => DType::F32,
            StoredType::F64 => DType::F64,
            other => return Err(WeightsError::DType { file, tensor: tensor.into(), dtype: other.to_string() }),
        };
        let (start, end) = info.data_offsets;
        let mut bytes = vec![0; end - start];
        File::open(&shard.path)
            .and_then(|mut open| {
                open.seek(SeekFrom::Start(shard.data_start + start as u64))?;
                open.read_exact(&mut bytes)
            })
            .map_err(|source| WeightsError::Read { file, source })?;
        Ok((dtype, bytes))
    }

    fn open_sharded(folder: &Path, index_path: &Path) -> Result<Self, WeightsError> {
        let root = name(index_path);
        let text =
            std::fs::read_to_string(index_path).map_err(|source| WeightsError::Read { file: root.clone(), source })?;
        let index: Index =
            serde_json::from_str(&text).map_err(|source| WeightsError::Index { file: root.clone(), source })?;
        let mut names: Vec<&String> = index.weight_map.values().collect();
        names.sort_unstable();
        names.dedup();
        let shards = names.iter().map(|&shard| Shard::open(folder.join(shard))).collect::<Result<Vec<_>, _>>()?;
        let shard_of_tensor = index
            .weight_map
            .iter()
            .map(|(tensor, shard)| (tensor.clone(), names.binary_search(&shard).expect("the names come from this map")))
            .collect();
        Ok(Self { root, shards, shard_of_tensor })
    }
}

impl Shard {
    fn open(path: PathBuf) -> Result<Self, WeightsError> {
        let file = name(&path);
        let read_error = |source| WeightsError::Read { file: file.clone(), source };
        let header_error = |reason: String| WeightsError::Header { file: file.clone(), reason };
        let mut open = File::open(&path).map_err(read_error)?;
        let bytes = open.metadata().map_err(read_error)?.len();
        if bytes < LENGTH_BYTES {
            return Err(header_error(format!("it has {bytes} bytes and needs at least {LENGTH_BYTES}")));
        }
        let mut length = [0; 8];
        open.read_exact(&mut length).map_err(read_error)?;
        let header_bytes = u64::from_le_bytes(length);
        if header_bytes > HEADER_BYTES_MAX {
            return Err(header_error(format!("it claims a header of {header_bytes} bytes")));
        }
        let data_start = LENGTH_BYTES + header_bytes;
        if bytes < data_start {
            return Err(WeightsError::Size { file: file.clone(), bytes, expected_bytes: data_start });
        }
        let mut header = vec![0; usize::try_from(header_bytes).expect("checked against the limit above")];
        open.read_exact(&mut header).map_err(read_error)?;
        let metadata: Metadata = serde_json::from_slice(&header).map_err(|error| header_error(error.to_string()))?;
        let expected_bytes = data_start + metadata.data_len() as u64;
        if bytes != expected_bytes {
            return Err(WeightsError::Size { file: file.clone(), bytes, expected_bytes });
        }
        Ok(Self { path, metadata, data_start })
    }
}

fn name(path: &Path) -> String {
    path.display().to_string()
}
