//! Which GPUs there are, and what is free on them.

use candle_core::cuda_backend::cudarc::driver::CudaContext;
use candle_core::{Error, Result};

/// A GPU before anything is loaded.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DeviceInfo {
    /// Its name without the maker's: `H200`.
    pub name: String,
    /// Memory that nobody uses, bytes.
    pub free_bytes: u64,
}

/// How many GPUs the driver sees.
///
/// # Errors
/// If there is no driver, or it does not answer.
pub fn device_count() -> Result<usize> {
    let count = CudaContext::device_count().map_err(Error::wrap)?;
    Ok(usize::try_from(count).unwrap_or(0))
}

/// What GPU number `ordinal` is.
///
/// # Errors
/// If it is not there.
pub fn device_info(ordinal: usize) -> Result<DeviceInfo> {
    let context = CudaContext::new(ordinal).map_err(Error::wrap)?;
    let name = context.name().map_err(Error::wrap)?;
    let (free_bytes, _) = context.mem_get_info().map_err(Error::wrap)?;
    Ok(DeviceInfo { name: name.trim_start_matches("NVIDIA ").to_owned(), free_bytes: free_bytes as u64 })
}
