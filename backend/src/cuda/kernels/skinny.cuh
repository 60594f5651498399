// Matrix products for at most 16 tokens.
#pragma once

#include "common.cuh"

// y[token][output] = x[token][input] times weight[output][input], for at most 8 * N_TILES tokens and inputs in multiples of 128.
//
// A block computes 16 * M_TILES outputs; its eight warps take 128 inputs each in turn and add up their sums in shared memory at the end. At this
// width a product is a matter of reading each weight once, so all that counts is enough loads in flight: eight or more of 16 bytes per lane.
//
// NORM: x is the residual stream rounded to bf16, and its RMS norm is taken on the way. Since the norm's factor is one number per token, it is applied to the sums;
// the sum of squares comes from the same registers as the product.
// Ends: STORE bf16, ADD to the residual stream in `y` (f32) and round the sum to `copy`, where the next NORM reads it, GATE (tile 0 is the gate, tile 1 the up of the same outputs), LOGITS in f32.
namespace {
enum class End { STORE, ADD, GATE, LOGITS };
constexpr int SKINNY_WARPS = 8;
constexpr int SKINNY_STEP = 128;

// Product of two bf16 pairs, rounded to bf16.
__device__ __forceinline__ uint32_t times(uint32_t left, uint32_t right) { return pack(low(left) * low(right), high(left) * high(right)); }

__device__ __forceinline__ float squares(uint32_t pair) { return low(pair) * low(pair) + high(pair) * high(pair); }

template <int M_TILES, int N_TILES, bool NORM, End END>
__device__ __forceinline__ void skinny(void* y, bf16* copy, const bf16* x, const bf16* weight, const bf16* norm_weight, float eps, int n_tokens,
                                       int inputs, int outputs) {
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    // With GATE, `outputs` counts the gated ones, and the up half of the weight follows the gate half.
    const int first_output = blockIdx.x * 16 * (END == End::GATE ? 1 : M_TILES);
    const bf16* rows[M_TILES];
#pragma unroll
    for (int m = 0; m < M_TILES; ++m) {
        const size_t output = END == End::GATE ? static_cast<size_t>(m) * outputs + first_output : first_output + 16 * m;
        rows[m] = weight + (output + g) * inputs + 8 * t;
    }
    float acc[M_TILES][N_TILES][4] = {};
    float square_sum[N_TILES] = {};
    uint4 w[M_TILES][4][2];
    const auto load_weights = [&](int start) {
#pragma unroll
        for (int block = 0; block < 4; ++block) {
#pragma unroll
            for (int m = 0; m < M_TILES; ++m) {
                w[m][block][0] = load_streaming(rows[m] + start + 32 * block);
                w[m][block][1] = load_streaming(rows[m] + static_cast<size_t>(8) * inputs + start + 32 * block);
            }
        }
    };
    // Weights never change, so the first of them may be on their way while the predecessor still runs.
    if (warp * SKINNY_STEP < inputs) load_weights(warp * SKINNY_STEP);
    wait_for_predecessor();
    for (int start = warp * SKINNY_STEP; start < inputs; start += SKINNY_WARPS * SKINNY_STEP) {
        if (start > warp * SKINNY_STEP) load_weights(start);
#pragma unroll
        for (int block = 0; block < 4; ++block) {
            const int from = start + 32 * block + 8 * t;
#pragma unroll
            for (int n = 0; n < N_TILES; ++n) {
                uint4 in = load_shared_by_all(x + static_cast<size_t>(8 * n + g) * inputs + from);
                if (NORM) {
                    const uint4 scale = load_shared_by_all(norm_weight + from);
                    square_sum[n] += squares(in.x) + squares(in.y) + squares(in.z) + squares(in.w);
                    in = make_uint4(times(in.x, scale.x), times(in.y, scale.y), times(in.z, scale.z), times(in.w, scale.w));
                }
#pragma unroll
                for (int m = 0; m < M_TILES; ++m) {
                    const uint4 upper = w[m][block][0], lower = w[m][block][1];
                    mma(acc[m][n], upper.x, lower.x, upper.y, lower.y, in.x, in.y);
                    mma(acc[m][n], upper.z, lower.z, upper.w, lower.w, in.z, in.w);
                }
            }
        }
    }

    __shared__ float sums[SKINNY_WARPS][M_TILES][N_TILES * 8][17];
    __shared__ float square_sums[SKINNY_WARPS][N_TILES * 8];
#pragma unroll
    for (int n = 0; n < N_TILES; ++n) {
#pragma unroll
        for (int m = 0; m < M_TILES; ++m) {
#pragma unroll
            for (int part = 0; part < 4; ++part) sums[warp][m][8 * n + 2 * t + part % 2][g + part / 2 * 8] = acc[m][n][part];
        }
        if (NORM) {
            float all = square_sum[n];
            all += __shfl_xor_sync(ALL_LANES, all, 1);
            all += __shfl_xor_sync(ALL_LANES, all, 2);
            if (t == 0) square_sums[warp][8 * n + g] = all;
        }
    }
    __syncthreads();
    constexpr int RESULT_TILES = END == End::GATE ? 1 : M_TILES;
    for (int idx = threadIdx.x; idx < RESULT_TILES * N_TILES * 8 * 16; idx += SKINNY_WARPS * 32) {
        const int row = idx % 16, m = idx / 16 % RESULT_TILES, token = idx / 16 / RESULT_TILES;
        if (token >= n_tokens) continue;
        float value = 0.0f, up = 0.0f, square = 0.0f;
#pragma unroll
        for (int other = 0; other < SKINNY_WARPS; ++other) {
            value += sums[other][m][token][row];
            if (END == End::GATE) up += sums[other][M_TILES - 1][token][row];
            if (NORM) square += square_sums[other][token];
        }
        if (NORM) {
            const float inverse = rsqrtf(square / inputs + eps);
            value *= inverse;
            up *= inverse;
        }
        const size_t at = static_cast<size_t>(token) * outputs + first_output + 16 * m + row;
        if (END == End::LOGITS) {
            static_cast<float*>(y)[at] = value;
        } else {
            bf16* to = (END == End::ADD ? copy : static_cast<bf16*>(y)) + at;
            if (END == End::GATE) value = value / (1.0f + __expf(-value)) * up;
            if (END == End::ADD) value = static_cast<float*>(y)[at] += value;
            *to = __float2bfloat16(value);
        }
    }
}
}  // namespace

#define SKINNY(NAME, M_TILES, N_TILES, NORM, END)                                                                                              \
    extern "C" __global__ void __launch_bounds__(SKINNY_WARPS * 32, 2)                                                                           \
        NAME(void* y, bf16* copy, const bf16* x, const bf16* weight, const bf16* norm_weight, float eps, int n_tokens, int inputs, int outputs) { \
        skinny<M_TILES, N_TILES, NORM, END>(y, copy, x, weight, norm_weight, eps, n_tokens, inputs, outputs);                                  \
    }

SKINNY(skinny_norm_8, 1, 1, true, End::STORE)
SKINNY(skinny_norm_16, 1, 2, true, End::STORE)
SKINNY(skinny_add_8, 1, 1, false, End::ADD)
SKINNY(skinny_add_16, 1, 2, false, End::ADD)
SKINNY(skinny_gate_8, 2, 1, true, End::GATE)
SKINNY(skinny_gate_16, 2, 2, true, End::GATE)
SKINNY(skinny_logits_8, 2, 1, false, End::LOGITS)
SKINNY(skinny_logits_16, 2, 2, false, End::LOGITS)
