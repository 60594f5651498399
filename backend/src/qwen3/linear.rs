//! Matrix products whose rows do not depend on each other.

use candle_core::{CpuStorage, CustomOp2, Layout, Result, Shape, Tensor, bail};
use rayon::prelude::*;

use super::attention::Real;

/// `x` times the transpose of `weight`: `[rows, inputs]` and `[outputs, inputs]` give `[rows, outputs]`.
///
/// Every output is one dot product, summed in one fixed order, so a row's result has the same bits whatever else is in its batch. A blocked
/// matrix product would not promise that, and the same request could then take another greedy token in another batch.
///
/// # Errors
/// If the shapes do not fit or the type is not F32 or F64.
pub fn linear(x: &Tensor, weight: &Tensor) -> Result<Tensor> {
    x.contiguous()?.apply_op2_no_bwd(weight, &RowLinear)
}

/// Sum of products in a fixed order: sixteen partial sums, so that the processor may work on all at once.
pub fn dot<T: Real>(left: &[T], right: &[T]) -> T {
    const LANES: usize = 16;
    debug_assert_eq!(left.len(), right.len());
    let (left_chunks, right_chunks) = (left.chunks_exact(LANES), right.chunks_exact(LANES));
    let tail = left_chunks.remainder().iter().zip(right_chunks.remainder());
    let mut sums = [T::ZERO; LANES];
    for (left, right) in left_chunks.zip(right_chunks) {
        for lane in 0..LANES {
            sums[lane] += left[lane] * right[lane];
        }
    }
    let mut sum = T::ZERO;
    for lane in sums {
        sum += lane;
    }
    for (&left, &right) in tail {
        sum += left * right;
    }
    sum
}

struct RowLinear;

impl CustomOp2 for RowLinear {
    fn name(&self) -> &'static str {
        "row-linear"
    }

    fn cpu_fwd(
        &self,
        x: &CpuStorage,
        x_layout: &Layout,
        weight: &CpuStorage,
        weight_layout: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        let (rows, inputs) = x_layout.shape().dims2()?;
        let (outputs, weight_inputs) = weight_layout.shape().dims2()?;
        if inputs != weight_inputs {
            bail!("row-linear: {inputs} inputs do not fit a weight for {weight_inputs}");
        }
        let storage = match (x, weight) {
            (CpuStorage::F32(x), CpuStorage::F32(w)) => {
                CpuStorage::F32(product(slice(x, x_layout)?, slice(w, weight_layout)?, rows, inputs))
            }
            (CpuStorage::F64(x), CpuStorage::F64(w)) => {
                CpuStorage::F64(product(slice(x, x_layout)?, slice(w, weight_layout)?, rows, inputs))
            }
            _ => bail!("row-linear: both tensors must be F32, or both F64"),
        };
        Ok((storage, Shape::from((rows, outputs))))
    }
}

fn slice<'a, T>(storage: &'a [T], layout: &Layout) -> Result<&'a [T]> {
    match layout.contiguous_offsets() {
        Some((start, end)) => Ok(&storage[start..end]),
        None => bail!("row-linear: the tensors must be contiguous"),
    }
}

fn product<T: Real>(x: &[T], weight: &[T], rows: usize, inputs: usize) -> Vec<T> {
    let outputs = weight.len() / inputs;
    // Output-major first: threads then write disjoint pieces, and each weight is read once for all rows.
    let mut by_output = vec![T::ZERO; rows * outputs];
    by_output.par_chunks_mut(rows).zip(weight.par_chunks(inputs)).with_min_len(16).for_each(|(column, weight)| {
        for (value, x) in column.iter_mut().zip(x.chunks_exact(inputs)) {
            *value = dot(x, weight);
        }
    });
    if rows == 1 {
        return by_output;
    }
    let mut by_row = Vec::with_capacity(rows * outputs);
    for row in 0..rows {
        by_row.extend((0..outputs).map(|output| by_output[output * rows + row]));
    }
    by_row
}

#[cfg(test)]
mod tests {
    use candle_core::{DType, Device};

    use super::*;

    fn pair(dtype: DType) -> (Tensor, Tensor) {
        let make = |rows, shift: f64| {
            let values: Vec<f64> = (0..rows * 37).map(|idx| (f64::from(idx) * 0.7 + shift).sin()).collect();
            Tensor::from_vec(values, (rows as usize, 37), &Device::Cpu).unwrap().to_dtype(dtype).unwrap()
        };
        (make(5, 0.1), make(11, 2.0))
    }

    #[test]
    fn agrees_with_candles_matrix_product() {
        for (dtype, limit) in [(DType::F32, 1e-5), (DType::F64, 1e-13)] {
            let (x, weight) = pair(dtype);
            let ours = linear(&x, &weight).unwrap();
            let theirs = x.matmul(&weight.t().unwrap()).unwrap();
            let difference = (ours - theirs).unwrap().abs().unwrap().to_dtype(DType::F64).unwrap();
            assert!(difference.max_all().unwrap().to_scalar::<f64>().unwrap() < limit);
        }
    }

    #[test]
    fn a_row_has_the_same_bits_alone() {
        let (x, weight) = pair(DType::F32);
        let all = linear(&x, &weight).unwrap();
        for row in 0..5 {
            let alone = linear(&x.narrow(0, row, 1).unwrap(), &weight).unwrap();
            assert_eq!(alone.to_vec2::<f32>().unwrap()[0], all.to_vec2::<f32>().unwrap()[row]);
        }
    }

    #[test]
    fn shapes_and_types_must_fit() {
        let (x, weight) = pair(DType::F32);
        assert!(linear(&x, &weight.narrow(1, 0, 36).unwrap().contiguous().unwrap()).is_err());
        assert!(linear(&x, &weight.to_dtype(DType::F64).unwrap()).is_err());
    }
}
