//! One model's view of a GPU: a stream, a cuBLAS handle with its workspace, and memory.

use std::ffi::c_void;
use std::sync::Arc;

use candle_core::cuda_backend::cudarc::cublas::{result as cublas, sys as cublas_sys};
use candle_core::cuda_backend::cudarc::driver::{
    CudaContext, CudaSlice, CudaStream, DevicePtr, DeviceRepr, ValidAsZeroBits, result, sys,
};
use candle_core::{CudaDevice, Device, Error, Result};

/// Bytes that cuBLAS may use for split sums. With memory of its own it never allocates, which a captured graph could not bear.
const WORKSPACE_BYTES: usize = 32 << 20;

pub(super) struct Gpu {
    device: CudaDevice,
    stream: Arc<CudaStream>,
    _workspace: CudaSlice<u8>,
}

/// Memory on the GPU with a fixed address.
pub(super) struct Buffer<T> {
    slice: CudaSlice<T>,
    address: u64,
}

/// Page-locked memory on the host, which the GPU reads and writes by itself.
pub(super) struct Pinned {
    words: *mut u32,
    n_words: usize,
    context: Arc<CudaContext>,
}

// SAFETY: the memory belongs to this value alone.
unsafe impl Send for Pinned {}

/// What a matrix product does to its output.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Product {
    /// Overwrites it, in bf16.
    Store,
    /// Adds to it, in f32.
    Add,
    /// Overwrites it, in f32.
    StoreF32,
}

/// A weight `[outputs, inputs]`.
#[derive(Clone, Copy)]
pub(super) struct Matrix {
    pub(super) weight: u64,
    pub(super) inputs: usize,
    pub(super) outputs: usize,
}

/// From where to where a product goes: `x` is `[tokens, inputs]`, `y` is `[tokens, outputs]`.
#[derive(Clone, Copy)]
pub(super) struct Ends {
    pub(super) x: u64,
    pub(super) y: u64,
    pub(super) tokens: usize,
}

impl Gpu {
    /// A new stream and handle on the GPU. All runners of a process share its context.
    pub(super) fn open(ordinal: usize) -> Result<Self> {
        let device = Device::new_cuda_with_stream(ordinal)?.as_cuda_device()?.clone();
        // SAFETY: every buffer of this module lives on this one stream, so the order of the stream is all that is needed. Tracking would record
        // events during capture, which breaks it.
        unsafe { device.disable_event_tracking() };
        let stream = device.cuda_stream();
        keep_pool_memory(stream.context())?;
        // SAFETY: nobody reads the workspace but cuBLAS.
        let workspace = unsafe { stream.alloc::<u8>(WORKSPACE_BYTES) }.map_err(Error::wrap)?;
        let address = workspace.device_ptr(&stream).0;
        // SAFETY: the workspace lives as long as the handle.
        unsafe {
            cublas_sys::cublasSetWorkspace_v2(*device.cublas_handle().handle(), address as *mut c_void, WORKSPACE_BYTES)
        }
        .result()
        .map_err(|error| Error::msg(format!("cublasSetWorkspace: {error:?}")))?;
        Ok(Self { device, stream, _workspace: workspace })
    }

    pub(super) fn stream(&self) -> &Arc<CudaStream> {
        &self.stream
    }

    pub(super) fn context(&self) -> &Arc<CudaContext> {
        self.stream.context()
    }

    /// Memory with unset content.
    pub(super) fn alloc<T: DeviceRepr>(&self, len: usize) -> Result<Buffer<T>> {
        // SAFETY: every user fills a buffer before it is read, or does not care.
        let slice = unsafe { self.stream.alloc::<T>(len.max(1)) }.map_err(Error::wrap)?;
        Ok(self.buffer(slice))
    }

    /// Memory that is all zeros.
    pub(super) fn zeros<T: DeviceRepr + ValidAsZeroBits>(&self, len: usize) -> Result<Buffer<T>> {
        let slice = self.stream.alloc_zeros::<T>(len.max(1)).map_err(Error::wrap)?;
        Ok(self.buffer(slice))
    }

    /// Memory that holds a copy of `host`.
    pub(super) fn upload<T: DeviceRepr>(&self, host: &[T]) -> Result<Buffer<T>> {
        let buffer = self.alloc(host.len())?;
        self.copy_in(&buffer, 0, host)?;
        Ok(buffer)
    }

    /// Copies `host` to a place in a buffer and waits for the end of the copy.
    pub(super) fn copy_in<T: DeviceRepr>(&self, buffer: &Buffer<T>, offset: usize, host: &[T]) -> Result<()> {
        assert!(offset + host.len() <= buffer.slice.len(), "the copy must fit the buffer");
        self.context().bind_to_thread().map_err(Error::wrap)?;
        // SAFETY: the bounds were just checked, and the host's memory outlives the copy because of the wait.
        unsafe { result::memcpy_htod_async(buffer.at(offset), host, self.stream.cu_stream()) }.map_err(Error::wrap)?;
        self.stream.synchronize().map_err(Error::wrap)
    }

    /// Copies a part of a buffer to the host and waits.
    pub(super) fn copy_out<T: DeviceRepr + Default + Clone>(
        &self,
        buffer: &Buffer<T>,
        offset: usize,
        len: usize,
    ) -> Result<Vec<T>> {
        assert!(offset + len <= buffer.slice.len(), "the copy must stay in the buffer");
        let mut host = vec![T::default(); len];
        self.context().bind_to_thread().map_err(Error::wrap)?;
        // SAFETY: as in `copy_in`.
        unsafe { result::memcpy_dtoh_async(&mut host, buffer.at(offset), self.stream.cu_stream()) }
            .map_err(Error::wrap)?;
        self.stream.synchronize().map_err(Error::wrap)?;
        Ok(host)
    }

    /// `y[token][output]` from `x[token][input]` and `weight[output][input]`, by cuBLAS.
    pub(super) fn product(&self, kind: Product, ends: Ends, matrix: Matrix) -> Result<()> {
        let (inputs, outputs) = (matrix.inputs, matrix.outputs);
        let int = |value: usize| i32::try_from(value).expect("no side of a matrix reaches 2^31");
        let (alpha, beta) = (1.0_f32, if kind == Product::Add { 1.0_f32 } else { 0.0 });
        let y_type = match kind {
            Product::StoreF32 | Product::Add => cublas_sys::cudaDataType_t::CUDA_R_32F,
            Product::Store => cublas_sys::cudaDataType_t::CUDA_R_16BF,
        };
        // cuBLAS counts columns first: our weight is its transpose, and our outputs are its rows.
        // SAFETY: the caller's pointers hold as many numbers as the sizes say.
        unsafe {
            cublas::gemm_ex(
                *self.device.cublas_handle().handle(),
                cublas_sys::cublasOperation_t::CUBLAS_OP_T,
                cublas_sys::cublasOperation_t::CUBLAS_OP_N,
                int(outputs),
                int(ends.tokens),
                int(inputs),
                (&raw const alpha).cast(),
                matrix.weight as *const c_void,
                cublas_sys::cudaDataType_t::CUDA_R_16BF,
                int(inputs),
                ends.x as *const c_void,
                cublas_sys::cudaDataType_t::CUDA_R_16BF,
                int(inputs),
                (&raw const beta).cast(),
                ends.y as *mut c_void,
                y_type,
                int(outputs),
                cublas_sys::cublasComputeType_t::CUBLAS_COMPUTE_32F,
                cublas_sys::cublasGemmAlgo_t::CUBLAS_GEMM_DEFAULT_TENSOR_OP,
            )
        }
        .map_err(|error| Error::msg(format!("cublasGemmEx: {error:?}")))
    }

    /// Page-locked memory of so many 32-bit words, all zero.
    pub(super) fn pinned(&self, n_words: usize) -> Result<Pinned> {
        let context = self.context().clone();
        context.bind_to_thread().map_err(Error::wrap)?;
        // SAFETY: the memory is zeroed before anybody sees it.
        let words = unsafe {
            let words = result::malloc_host(n_words * 4, 0).map_err(Error::wrap)?.cast::<u32>();
            words.write_bytes(0, n_words);
            words
        };
        Ok(Pinned { words, n_words, context })
    }

    fn buffer<T>(&self, slice: CudaSlice<T>) -> Buffer<T> {
        let address = slice.device_ptr(&self.stream).0;
        Buffer { slice, address }
    }
}

impl Drop for Gpu {
    fn drop(&mut self) {
        // All buffers of the stream are gone by now; once their release has happened, the next model can have the memory. Errors cannot be told here.
        let _ = self.stream.synchronize();
    }
}

impl<T> Buffer<T> {
    /// Address of an element.
    pub(super) fn at(&self, idx: usize) -> u64 {
        debug_assert!(idx < self.slice.len());
        self.address + (idx * size_of::<T>()) as u64
    }

    /// Address of the first element.
    pub(super) fn start(&self) -> u64 {
        self.address
    }
}

impl Pinned {
    pub(super) fn words(&self) -> &[u32] {
        // SAFETY: allocated with this length, zeroed, and freed only on drop.
        unsafe { std::slice::from_raw_parts(self.words, self.n_words) }
    }

    pub(super) fn words_mut(&mut self) -> &mut [u32] {
        // SAFETY: as above, and borrowed mutably.
        unsafe { std::slice::from_raw_parts_mut(self.words, self.n_words) }
    }

    /// Where the GPU writes to. The caller orders the GPU's writes and the host's reads by events.
    pub(super) fn address(&self) -> *mut u32 {
        self.words
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        // Errors cannot be told here, and the process is about to lose the device anyway.
        let _ = self.context.bind_to_thread();
        // SAFETY: allocated by `malloc_host` and freed once.
        let _ = unsafe { result::free_host(self.words.cast()) };
    }
}

/// Keeps freed memory in the driver's pool, and keeps the pool from making one model's stream wait for the other's.
fn keep_pool_memory(context: &Arc<CudaContext>) -> Result<()> {
    let mut threshold = u64::MAX;
    let mut off = 0_i32;
    // SAFETY: the pool belongs to this device, and each value has the type that its attribute asks for.
    unsafe {
        let pool = result::device::get_default_mem_pool(context.cu_device()).map_err(Error::wrap)?;
        let release = sys::CUmemPool_attribute::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD;
        result::mem_pool::set_attribute(pool, release, (&raw mut threshold).cast()).map_err(Error::wrap)?;
        let reuse = sys::CUmemPool_attribute::CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES;
        result::mem_pool::set_attribute(pool, reuse, (&raw mut off).cast()).map_err(Error::wrap)
    }
}
