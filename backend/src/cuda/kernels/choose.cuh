// From logits to tokens.
#pragma once

#include "common.cuh"

// Grid: (part, row). The chosen token and the normalised entropy of each row of f32 logits; the same rules as sampling.rs.
// With m the highest logit, s the sum of e^(x - m) and w the sum of (x - m) e^(x - m), the entropy is ln s - w / s.
namespace {
struct Choice {
    float score;
    uint32_t token;
    float highest, sum, weighted;
};

__device__ __forceinline__ Choice join(Choice left, Choice right) {
    const bool take = right.score > left.score || (right.score == left.score && right.token < left.token);
    const float highest = fmaxf(left.highest, right.highest);
    // Nothing seen yet on one side: it must not bring -inf - -inf into the sums.
    const float down_left = left.sum > 0.0f ? left.highest - highest : 0.0f;
    const float down_right = right.sum > 0.0f ? right.highest - highest : 0.0f;
    const float share_left = __expf(down_left), share_right = __expf(down_right);
    Choice both;
    both.score = take ? right.score : left.score;
    both.token = take ? right.token : left.token;
    both.highest = highest;
    both.sum = left.sum * share_left + right.sum * share_right;
    both.weighted = (left.weighted + down_left * left.sum) * share_left + (right.weighted + down_right * right.sum) * share_right;
    return both;
}

__device__ __forceinline__ Choice join_block(Choice mine) {
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2) {
        Choice other;
        other.score = __shfl_xor_sync(ALL_LANES, mine.score, offset);
        other.token = __shfl_xor_sync(ALL_LANES, mine.token, offset);
        other.highest = __shfl_xor_sync(ALL_LANES, mine.highest, offset);
        other.sum = __shfl_xor_sync(ALL_LANES, mine.sum, offset);
        other.weighted = __shfl_xor_sync(ALL_LANES, mine.weighted, offset);
        mine = join(mine, other);
    }
    __shared__ Choice of_warp[32];
    if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = mine;
    __syncthreads();
    Choice all = of_warp[0];
    for (int warp = 1; warp < static_cast<int>(blockDim.x) / 32; ++warp) all = join(all, of_warp[warp]);
    __syncthreads();
    return all;
}
}  // namespace

extern "C" __global__ void choose(uint2* outputs, const float* logits, const float* inverse_temperatures, const uint32_t* seeds, int vocabulary,
                                  float inverse_log_vocabulary, Choice* partial, uint32_t* counters) {
    wait_for_predecessor();
    const int part = blockIdx.x, n_parts = gridDim.x, row = blockIdx.y;
    const float* from = logits + static_cast<size_t>(row) * vocabulary;
    const float inverse_temperature = inverse_temperatures[row];
    const uint64_t seed = static_cast<uint64_t>(seeds[2 * row]) | static_cast<uint64_t>(seeds[2 * row + 1]) << 32;
    Choice mine = {-INFINITY, 0xffffffffu, -INFINITY, 0.0f, 0.0f};
    for (uint32_t idx = part * blockDim.x + threadIdx.x; idx < static_cast<uint32_t>(vocabulary); idx += n_parts * blockDim.x) {
        const float logit = from[idx];
        float score = logit;
        if (inverse_temperature > 0.0f) {
            const uint64_t hash = mix(seed ^ (idx * 0x9e3779b97f4a7c15ull));
            const float uniform = (static_cast<float>(hash >> 40) + 0.5f) / 16777216.0f;
            score = logit * inverse_temperature - logf(-logf(uniform));
        }
        mine = join(mine, Choice{score, idx, logit, 1.0f, 0.0f});
    }
    mine = join_block(mine);
    if (threadIdx.x == 0) partial[row * n_parts + part] = mine;
    if (!is_last_block(counters + row, n_parts)) return;
    Choice all = {-INFINITY, 0xffffffffu, -INFINITY, 0.0f, 0.0f};
    if (static_cast<int>(threadIdx.x) < n_parts) all = partial[row * n_parts + threadIdx.x];
    all = join_block(all);
    if (threadIdx.x == 0) {
        const float entropy = (logf(all.sum) - all.weighted / all.sum) * inverse_log_vocabulary;
        // A comparison with NaN is false, so NaN passes and is noticed on the host.
        outputs[row] = make_uint2(all.token, __float_as_uint(entropy < 0.0f ? 0.0f : entropy > 1.0f ? 1.0f : entropy));
    }
}
