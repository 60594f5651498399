//! What is behind a device: the processor always, a GPU where the build and the machine have one.

use handoff_backend::{Qwen3Config, Runner, RunnerError, RunnerOptions, Weights};

use super::DeviceKind;
use crate::failure::Failure;

/// A device before anything is loaded.
pub(super) struct Found {
    pub(super) name: String,
    pub(super) free_bytes: u64,
}

/// Looks for device number `device`.
pub(super) fn look(kind: DeviceKind, device: u16) -> Result<Found, Failure> {
    match kind {
        DeviceKind::Cpu => Ok(Found { name: "cpu".to_owned(), free_bytes: free_memory_bytes() }),
        DeviceKind::Cuda => gpu(device),
    }
}

/// What the system says is available. Where it says nothing, the models have to be tried.
fn free_memory_bytes() -> u64 {
    let available = |text: String| {
        let line = text.lines().find(|line| line.starts_with("MemAvailable:"))?.to_owned();
        line.split_whitespace().nth(1)?.parse::<u64>().ok()
    };
    std::fs::read_to_string("/proc/meminfo").ok().and_then(available).map_or(u64::MAX / 2, |kib| kib * 1024)
}

#[cfg(feature = "cuda")]
fn gpu(device: u16) -> Result<Found, Failure> {
    use handoff_backend::cuda::{device_count, device_info};
    let failed = |error| Failure::Argument(format!("--device cuda: no GPU can be used: {error}"));
    let n_devices = device_count().map_err(failed)?;
    if usize::from(device) >= n_devices {
        return Err(Failure::Argument(format!(
            "the scenario places a model on device {device}, but the machine has {n_devices} GPUs, expected a number below that"
        )));
    }
    let info = device_info(usize::from(device)).map_err(failed)?;
    Ok(Found { name: info.name, free_bytes: info.free_bytes })
}

/// Hidden width from which on a model counts as wide.
#[cfg(feature = "cuda")]
const WIDE_HIDDEN: usize = 4_096;

/// Tokens up to which a wide model's products are skinny ones; more go to cuBLAS. Measured on an H200: at 16 tokens the skinny products win on
/// narrow models and lose to cuBLAS on wide ones (22.2 against 19.2 ms for 32B).
pub(crate) const WIDE_SKINNY_TOKENS_MAX: u32 = 8;

#[cfg(feature = "cuda")]
pub(super) fn cuda_runner(
    config: &Qwen3Config,
    weights: &Weights,
    options: RunnerOptions,
    device: u16,
    graphs: bool,
) -> Result<Runner, RunnerError> {
    use handoff_backend::cuda::CudaOptions;
    let skinny_tokens_max = if config.hidden < WIDE_HIDDEN { 16 } else { WIDE_SKINNY_TOKENS_MAX as usize };
    let ordinal = usize::from(device);
    let cuda = CudaOptions { ordinal, graphs, skinny_tokens_max, dependent_launch: true, ..CudaOptions::default() };
    Runner::cuda(config, weights, options, cuda)
}

#[cfg(not(feature = "cuda"))]
fn gpu(_device: u16) -> Result<Found, Failure> {
    Err(Failure::Argument(
        "--device cuda: this program was built without CUDA, expected a build with `--features cuda`".to_owned(),
    ))
}

#[cfg(not(feature = "cuda"))]
pub(super) fn cuda_runner(
    _config: &Qwen3Config,
    _weights: &Weights,
    _options: RunnerOptions,
    _device: u16,
    _graphs: bool,
) -> Result<Runner, RunnerError> {
    unreachable!("without the feature no plan has a GPU")
}
