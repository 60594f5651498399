// The kernels of one forward over a flat list of tokens, for sm_90. f32 in registers; in memory bf16, but for the residual stream: every layer
// adds to it, and rounded each time to bf16 it would be the largest error of a forward.
//
// Names: a *token* is one entry of the flat list, with its own position and page table; a *row* is one request's part of it, and only its last
// token gets logits. `group` is the number of query heads per KV head.
//
// Matrix instructions are used in one form only, m16n8k16. Its operands are loaded straight from memory, 16 bytes per lane: since a dot
// product does not mind the order of its terms, lane (g, t) takes terms 8t..8t+7 of every 32 for both operands instead of the order that the
// instruction's picture shows. So neither shared memory nor ldmatrix is needed.

#include "kernels/common.cuh"
#include "kernels/attention.cuh"
#include "kernels/choose.cuh"
#include "kernels/skinny.cuh"

// Dummy weights: see weights/dummy.rs, which yields the same bits.
extern "C" __global__ void fill_dummy(bf16* out, uint64_t n, uint64_t key, float centre, float half_width) {
    const float step = half_width * (1.0f / 16777216.0f);
    const uint64_t stride = static_cast<uint64_t>(gridDim.x) * blockDim.x;
    for (uint64_t idx = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x; idx < n; idx += stride) {
        const uint64_t hash = mix(key ^ (idx * 0x9e3779b97f4a7c15ull));
        const int odd = static_cast<int>(hash >> 40) * 2 + 1 - (1 << 24);
        // Written with explicit roundings: a fused multiply-add would round once less than the CPU does.
        out[idx] = __float2bfloat16(__fadd_rn(centre, __fmul_rn(static_cast<float>(odd), step)));
    }
}

// Copies each token's embedding to `x` and, rounded, to `copy` and enters this step's pages into the page tables. Block b does token b and update b.
// An update is (slot, index in its table, page).
extern "C" __global__ void embed(float* x, bf16* copy, const bf16* embedding, const uint32_t* tokens, int hidden, uint32_t* tables, int table_stride,
                                 const uint32_t* n_updates, const uint32_t* updates) {
    wait_for_predecessor();
    const int token = blockIdx.x;
    if (threadIdx.x == 0 && token < static_cast<int>(*n_updates)) {
        const uint32_t* update = updates + 3 * token;
        tables[static_cast<size_t>(update[0]) * table_stride + update[1]] = update[2];
    }
    const uint4* from = reinterpret_cast<const uint4*>(embedding + static_cast<size_t>(tokens[token]) * hidden);
    uint4* to = reinterpret_cast<uint4*>(copy + static_cast<size_t>(token) * hidden);
    float4* wide = reinterpret_cast<float4*>(x + static_cast<size_t>(token) * hidden);
    for (int idx = threadIdx.x; idx < hidden / 8; idx += blockDim.x) {
        const uint4 eight = from[idx];
        to[idx] = eight;
        wide[2 * idx] = make_float4(low(eight.x), high(eight.x), low(eight.y), high(eight.y));
        wide[2 * idx + 1] = make_float4(low(eight.z), high(eight.z), low(eight.w), high(eight.w));
    }
}

// RMS norm. Block b writes row b of `out` from row b of `x`, or from row `picked[b]` if that is given.
extern "C" __global__ void rms_norm(bf16* out, const float* x, const bf16* weight, const uint32_t* picked, int hidden, float eps) {
    wait_for_predecessor();
    const size_t row = picked ? picked[blockIdx.x] : blockIdx.x;
    const float2* from = reinterpret_cast<const float2*>(x + row * hidden);
    const uint32_t* scale = reinterpret_cast<const uint32_t*>(weight);
    uint32_t* to = reinterpret_cast<uint32_t*>(out + static_cast<size_t>(blockIdx.x) * hidden);
    float sum = 0.0f;
    for (int idx = threadIdx.x; idx < hidden / 2; idx += blockDim.x) {
        const float2 pair = from[idx];
        sum += pair.x * pair.x + pair.y * pair.y;
    }
    const float inverse = rsqrtf(block_sum(sum) / hidden + eps);
    for (int idx = threadIdx.x; idx < hidden / 2; idx += blockDim.x) {
        const float2 pair = from[idx];
        to[idx] = pack(pair.x * inverse * low(scale[idx]), pair.y * inverse * high(scale[idx]));
    }
}

// out = silu(gate) * up, where a token's gate and up lie side by side.
extern "C" __global__ void silu_times_up(bf16* out, const bf16* gate_up, int intermediate, uint64_t n_pairs) {
    wait_for_predecessor();
    const uint64_t idx = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (idx >= n_pairs) return;
    const uint64_t half = intermediate / 2, token = idx / half, column = idx % half;
    const uint32_t* from = reinterpret_cast<const uint32_t*>(gate_up) + token * 2 * half + column;
    const uint32_t gate = from[0], up = from[half];
    const float first = low(gate) / (1.0f + __expf(-low(gate))) * low(up);
    const float second = high(gate) / (1.0f + __expf(-high(gate))) * high(up);
    reinterpret_cast<uint32_t*>(out)[idx] = pack(first, second);
}
