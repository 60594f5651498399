//! The executor on a CPU: computes at once, keeps the logits.

use candle_core::{DType, Result, Tensor};

use super::{Executor, RowOutput, RunnerError};
use crate::qwen3::attention::KvStore;
use crate::qwen3::{FlatBatch, Qwen3, Qwen3Config, Weights};
use crate::sampling::{Sampling, choose, normalised_entropy};

pub(super) struct CpuExecutor {
    model: Qwen3,
    kv: KvStore,
    logits: Option<Tensor>,
    outputs: Vec<RowOutput>,
}

impl CpuExecutor {
    pub(super) fn new(
        config: &Qwen3Config,
        weights: &Weights,
        dtype: DType,
        n_pages: usize,
    ) -> std::result::Result<Self, RunnerError> {
        let kv = KvStore::new(config, dtype, n_pages)?;
        Ok(Self { model: Qwen3::load(config, weights, dtype)?, kv, logits: None, outputs: Vec::new() })
    }
}

impl Executor for CpuExecutor {
    fn launch(&mut self, batch: &FlatBatch, sampling: &[Sampling]) -> Result<()> {
        let logits = self.model.forward(&mut self.kv, batch)?;
        self.outputs.clear();
        for (row, &sampling) in logits.to_dtype(DType::F64)?.to_vec2::<f64>()?.iter().zip(sampling) {
            self.outputs.push(RowOutput { token: choose(row, sampling), entropy: normalised_entropy(row) as f32 });
        }
        self.logits = Some(logits);
        Ok(())
    }

    fn poll(&mut self, _wait: bool, outputs: &mut Vec<RowOutput>) -> Result<bool> {
        outputs.clone_from(&self.outputs);
        Ok(true)
    }

    fn logits(&mut self, row_idx: usize) -> Result<Vec<f32>> {
        let logits = self.logits.as_ref().expect("asked only after a finished step");
        logits.get(row_idx)?.to_dtype(DType::F32)?.to_vec1()
    }
}
