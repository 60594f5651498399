// What all kernels share.
#pragma once

#ifndef EMULATED
#include <cuda_bf16.h>
#include <stdint.h>
#endif

typedef __nv_bfloat16 bf16;

namespace {

constexpr int PAGE_TOKENS = 16;
constexpr unsigned ALL_LANES = 0xffffffffu;

// With programmatic dependent launch a kernel may start while the one before it still runs. Each kernel calls this before it touches
// anything that another kernel writes: first it lets its own successor start (which will wait here in turn), then it waits until all of its
// predecessor is done and visible. Launched in the ordinary way, this does nothing.
__device__ __forceinline__ void wait_for_predecessor() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

__device__ __forceinline__ float low(uint32_t pair) { return __uint_as_float(pair << 16); }
__device__ __forceinline__ float high(uint32_t pair) { return __uint_as_float(pair & 0xffff0000u); }

__device__ __forceinline__ uint32_t pack(float first, float second) {
    return static_cast<uint32_t>(__bfloat16_as_ushort(__float2bfloat16(first))) |
           static_cast<uint32_t>(__bfloat16_as_ushort(__float2bfloat16(second))) << 16;
}

// Weights and the KV cache are read once per step: they should not push activations out of the first cache.
__device__ __forceinline__ uint4 load_streaming(const bf16* from) { return __ldcs(reinterpret_cast<const uint4*>(from)); }
__device__ __forceinline__ uint4 load_shared_by_all(const bf16* from) { return *reinterpret_cast<const uint4*>(from); }

#ifndef EMULATED
// c += a * b, a is 16 x 16, b is 16 x 8.
__device__ __forceinline__ void mma(float (&c)[4], uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3, uint32_t b0, uint32_t b1) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};\n"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

// The transpose of an 8 x 8 matrix whose row g lies, in pairs, in lanes 4g..4g+3.
__device__ __forceinline__ uint32_t transpose(uint32_t pair) {
    uint32_t out;
    asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;\n" : "=r"(out) : "r"(pair));
    return out;
}
#endif

__device__ __forceinline__ float warp_sum(float value) {
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2) value += __shfl_xor_sync(ALL_LANES, value, offset);
    return value;
}

// Sum over a block of at most 1024 threads, for all of them.
__device__ __forceinline__ float block_sum(float value) {
    __shared__ float of_warp[32];
    value = warp_sum(value);
    if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = value;
    __syncthreads();
    float sum = 0.0f;
    for (int warp = 0; warp < static_cast<int>(blockDim.x) / 32; ++warp) sum += of_warp[warp];
    __syncthreads();
    return sum;
}

// Whether this block is the last of `n_blocks` to come by; the counter is then ready for the next launch. What the other blocks wrote before
// is visible to the last one.
__device__ __forceinline__ bool is_last_block(uint32_t* counter, uint32_t n_blocks) {
    __shared__ bool is_last;
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) {
        is_last = atomicAdd(counter, 1u) == n_blocks - 1;
        if (is_last) *counter = 0;
    }
    __syncthreads();
    if (is_last) __threadfence();
    return is_last;
}

// The finaliser of SplitMix64; the same as `mix` in Rust.
__device__ __forceinline__ uint64_t mix(uint64_t bits) {
    bits = (bits ^ (bits >> 30)) * 0xbf58476d1ce4e5b9ull;
    bits = (bits ^ (bits >> 27)) * 0x94d049bb133111ebull;
    return bits ^ (bits >> 31);
}

// Where the keys (or values) of one page and KV head begin; pages are [page, kv head, token in page, head_dim].
__device__ __forceinline__ size_t page_offset(uint32_t page, int kv_heads, int kv_head, int head_dim) {
    return (static_cast<size_t>(page) * kv_heads + kv_head) * (PAGE_TOKENS * head_dim);
}

}  // namespace
