//! The compiled kernels and how they are launched. Shapes and meanings of the arguments: `kernels.cu`.

use std::ffi::c_void;
use std::sync::Arc;

use candle_core::cuda_backend::cudarc::driver::{CudaContext, CudaFunction, CudaStream, sys};
use candle_core::cuda_backend::cudarc::nvrtc::Ptx;
use candle_core::{Error, Result};

/// Machine code made by build.rs.
const CUBIN: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/kernels.cubin"));

pub(super) struct Kernels {
    pub(super) fill_dummy: CudaFunction,
    pub(super) embed: CudaFunction,
    pub(super) rms_norm: CudaFunction,
    pub(super) rotate_and_store: CudaFunction,
    pub(super) attention_128: CudaFunction,
    pub(super) attention_any: CudaFunction,
    pub(super) silu_times_up: CudaFunction,
    pub(super) choose: CudaFunction,
    pub(super) skinny_norm: [CudaFunction; 2],
    pub(super) skinny_add: [CudaFunction; 2],
    pub(super) skinny_gate: [CudaFunction; 2],
    pub(super) skinny_logits: [CudaFunction; 2],
}

impl Kernels {
    pub(super) fn load(context: &Arc<CudaContext>) -> Result<Self> {
        let module = context.load_module(Ptx::from_binary(CUBIN.to_vec())).map_err(Error::wrap)?;
        let get =
            |name: &str| module.load_function(name).map_err(|error| Error::msg(format!("kernel {name}: {error}")));
        let both = |name: &str| Ok::<_, Error>([get(&format!("{name}_8"))?, get(&format!("{name}_16"))?]);
        Ok(Self {
            fill_dummy: get("fill_dummy")?,
            embed: get("embed")?,
            rms_norm: get("rms_norm")?,
            rotate_and_store: get("rotate_and_store")?,
            attention_128: get("attention_128")?,
            attention_any: get("attention_any")?,
            silu_times_up: get("silu_times_up")?,
            choose: get("choose")?,
            skinny_norm: both("skinny_norm")?,
            skinny_add: both("skinny_add")?,
            skinny_gate: both("skinny_gate")?,
            skinny_logits: both("skinny_logits")?,
        })
    }
}

/// Blocks in each direction and threads per block.
#[derive(Clone, Copy)]
pub(super) struct Grid {
    pub(super) blocks: [usize; 3],
    pub(super) threads: usize,
}

impl Grid {
    pub(super) fn line(blocks: usize, threads: usize) -> Self {
        Self { blocks: [blocks, 1, 1], threads }
    }
}

/// A size as the kernels' `int`.
pub(super) fn int(value: usize) -> i32 {
    i32::try_from(value).expect("no size that a kernel takes as int reaches 2^31")
}

/// Where kernels go, and how.
#[derive(Clone, Copy)]
pub(super) struct Queue<'a> {
    pub(super) stream: &'a CudaStream,
    /// Whether a kernel may start before the kernel ahead of it has ended. Every kernel waits by itself where it must.
    pub(super) dependent: bool,
}

impl Queue<'_> {
    /// Launches a kernel whose arguments lie at these addresses. The context must be current.
    ///
    /// # Safety
    /// The arguments must be those that the kernel declares, and the buffers behind them large enough for the grid.
    pub(super) unsafe fn launch(
        self,
        function: &CudaFunction,
        grid: Grid,
        arguments: &mut [*mut c_void],
    ) -> Result<()> {
        let int = |value: usize| u32::try_from(value).expect("no grid has 2^32 blocks");
        let [x, y, z] = grid.blocks.map(int);
        let mut attribute = sys::CUlaunchAttribute {
            id: sys::CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
            pad: [0; 4],
            value: sys::CUlaunchAttributeValue { programmaticStreamSerializationAllowed: 1 },
        };
        let config = sys::CUlaunchConfig {
            gridDimX: x,
            gridDimY: y,
            gridDimZ: z,
            blockDimX: int(grid.threads),
            blockDimY: 1,
            blockDimZ: 1,
            sharedMemBytes: 0,
            hStream: self.stream.cu_stream(),
            attrs: &raw mut attribute,
            numAttrs: u32::from(self.dependent),
        };
        // SAFETY: the caller's promise; the configuration and its attribute outlive the call.
        unsafe {
            sys::cuLaunchKernelEx(
                &raw const config,
                function.cu_function(),
                arguments.as_mut_ptr(),
                std::ptr::null_mut(),
            )
        }
        .result()
        .map_err(Error::wrap)
    }
}

/// Launches a kernel: queue, function, grid, then its arguments in order and of the very types that the kernel declares (pointers as `u64`).
macro_rules! launch {
    ($queue:expr, $function:expr, $grid:expr, $($argument:expr),+ $(,)?) => {{
        let mut arguments: Vec<*mut std::ffi::c_void> = Vec::new();
        $(
            let mut argument = $argument;
            arguments.push((&raw mut argument).cast());
        )+
        // SAFETY: the arguments match the kernel's, and the buffers behind them are as large as buffers.rs made them.
        unsafe { $queue.launch($function, $grid, &mut arguments) }
    }};
}
pub(super) use launch;
