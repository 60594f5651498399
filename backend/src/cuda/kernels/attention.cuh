// Attention over pages, and what prepares it.
#pragma once

#include "common.cuh"

// One warp per token and head. Query heads: RMS norm and rotation, in place. Key heads: the same, into their page. Value heads: into their page.
extern "C" __global__ void rotate_and_store(bf16* qkv, bf16* keys, bf16* values, const bf16* q_weight, const bf16* k_weight, const float* cosines,
                                            const float* sines, const uint32_t* positions, const uint32_t* slots, const uint32_t* tables,
                                            int table_stride, int n_tokens, int heads, int kv_heads, int head_dim, float eps) {
    wait_for_predecessor();
    const int all_heads = heads + 2 * kv_heads;
    const int warp = static_cast<int>((blockIdx.x * blockDim.x + threadIdx.x) / 32);
    const int lane = threadIdx.x % 32;
    const int token = warp / all_heads;
    const int head = warp % all_heads;
    if (token >= n_tokens) return;

    const uint32_t position = positions[token];
    bf16* in = qkv + (static_cast<size_t>(token) * all_heads + head) * head_dim;
    bf16* out = in;
    if (head >= heads) {
        const int kv_head = (head - heads) % kv_heads;
        const uint32_t page = tables[static_cast<size_t>(slots[token]) * table_stride + position / PAGE_TOKENS];
        const size_t offset = page_offset(page, kv_heads, kv_head, head_dim) + (position % PAGE_TOKENS) * head_dim;
        out = (head < heads + kv_heads ? keys : values) + offset;
    }
    if (head >= heads + kv_heads) {
        for (int idx = lane; idx < head_dim; idx += 32) out[idx] = in[idx];
        return;
    }

    const int half = head_dim / 2;
    float sum = 0.0f;
    for (int idx = lane; idx < head_dim; idx += 32) {
        const float value = __bfloat162float(in[idx]);
        sum += value * value;
    }
    const float inverse = rsqrtf(warp_sum(sum) / head_dim + eps);
    const bf16* weight = head < heads ? q_weight : k_weight;
    for (int pair = lane; pair < half; pair += 32) {
        const float first = __bfloat162float(in[pair]) * inverse * __bfloat162float(weight[pair]);
        const float second = __bfloat162float(in[pair + half]) * inverse * __bfloat162float(weight[pair + half]);
        const float cosine = cosines[static_cast<size_t>(position) * half + pair];
        const float sine = sines[static_cast<size_t>(position) * half + pair];
        out[pair] = __float2bfloat16(first * cosine - second * sine);
        out[pair + half] = __float2bfloat16(second * cosine + first * sine);
    }
}

// Attention of each token to its request, up to and including itself, for heads of 128 and groups of at most 8.
//
// Grid: (KV head, token, split). A split's block takes a run of the token's pages, its four warps one page each in turn. Scores come as
// (16 tokens of a page) x (8 queries of the group): the page's keys are the first operand of the matrix instruction, so nothing is wasted on
// padding queries to 16. Softmax goes page by page ("Online normalizer calculation for softmax", Milakov and Gimelshein, 2018). The last block
// to finish adds up the splits. Groups below 8 leave columns unused, which costs nothing: reading the pages is all that takes time.
namespace {
constexpr int WARPS = 4;
constexpr int GROUP_MAX = 8;
constexpr int HEAD_DIM = 128;

struct Merged {
    float out[WARPS][GROUP_MAX][HEAD_DIM];
    float highest[WARPS][GROUP_MAX];
    float sum[WARPS][GROUP_MAX];
};
}  // namespace

extern "C" __global__ void __launch_bounds__(WARPS * 32)
    attention_128(bf16* out, const bf16* qkv, const bf16* keys, const bf16* values, const uint32_t* positions, const uint32_t* slots,
                  const uint32_t* tables, int table_stride, int kv_heads, int group, float scale_log2, float* partial_out, float2* partial_sums,
                  uint32_t* counters) {
    wait_for_predecessor();
    const int kv_head = blockIdx.x, token = blockIdx.y, split = blockIdx.z, n_splits = gridDim.z;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    const int n_kv = static_cast<int>(positions[token]) + 1;
    const int n_pages = (n_kv + PAGE_TOKENS - 1) / PAGE_TOKENS;
    // At least a page for every warp, or the block's fixed work would outweigh its reading.
    const int pages_per_split = max((n_pages + n_splits - 1) / n_splits, WARPS);
    const int n_active = (n_pages + pages_per_split - 1) / pages_per_split;
    if (split >= n_active) return;
    const int page_end = min((split + 1) * pages_per_split, n_pages);
    const uint32_t* table = tables + static_cast<size_t>(slots[token]) * table_stride;

    const int heads = kv_heads * group;
    const size_t qkv_width = static_cast<size_t>(heads + 2 * kv_heads) * HEAD_DIM;
    uint32_t q[4][4] = {};
    if (g < group) {
        const bf16* from = qkv + token * qkv_width + (kv_head * group + g) * HEAD_DIM + 8 * t;
#pragma unroll
        for (int block = 0; block < 4; ++block) {
            const uint4 words = load_shared_by_all(from + 32 * block);
            q[block][0] = words.x, q[block][1] = words.y, q[block][2] = words.z, q[block][3] = words.w;
        }
    }

    // Tile i holds dims 8g + i in its rows 0 to 7 and 64 + 8g + i in its rows 8 to 15; its columns are queries.
    float acc[8][4] = {};
    float highest[2] = {-INFINITY, -INFINITY};
    float sum[2] = {0.0f, 0.0f};
    for (int page_idx = split * pages_per_split + warp; page_idx < page_end; page_idx += WARPS) {
        const size_t offset = page_offset(table[page_idx], kv_heads, kv_head, HEAD_DIM);
        const bf16* k_page = keys + offset;
        const bf16* v_page = values + offset;
        uint4 k[2][4], v[2][4];
#pragma unroll
        for (int block = 0; block < 4; ++block) {
            k[0][block] = load_streaming(k_page + g * HEAD_DIM + 32 * block + 8 * t);
            k[1][block] = load_streaming(k_page + (g + 8) * HEAD_DIM + 32 * block + 8 * t);
        }
#pragma unroll
        for (int half = 0; half < 2; ++half) {
#pragma unroll
            for (int row = 0; row < 4; ++row) {
                const int in_page = 2 * t + (row & 1) + (row & 2) * 4;
                v[half][row] = load_streaming(v_page + in_page * HEAD_DIM + 64 * half + 8 * g);
            }
        }

        float score[4] = {};
#pragma unroll
        for (int block = 0; block < 4; ++block) {
            mma(score, k[0][block].x, k[1][block].x, k[0][block].y, k[1][block].y, q[block][0], q[block][1]);
            mma(score, k[0][block].z, k[1][block].z, k[0][block].w, k[1][block].w, q[block][2], q[block][3]);
        }
        const int first = page_idx * PAGE_TOKENS + g;
        float probability[4];
#pragma unroll
        for (int column = 0; column < 2; ++column) {
            const float upper = first < n_kv ? score[column] * scale_log2 : -INFINITY;
            const float lower = first + 8 < n_kv ? score[column + 2] * scale_log2 : -INFINITY;
            float now = fmaxf(upper, lower);
            now = fmaxf(now, __shfl_xor_sync(ALL_LANES, now, 4));
            now = fmaxf(now, __shfl_xor_sync(ALL_LANES, now, 8));
            now = fmaxf(now, __shfl_xor_sync(ALL_LANES, now, 16));
            now = fmaxf(now, highest[column]);
            const float shrink = exp2f(highest[column] - now);
            highest[column] = now;
            probability[column] = exp2f(upper - now);
            probability[column + 2] = exp2f(lower - now);
            sum[column] = sum[column] * shrink + probability[column] + probability[column + 2];
#pragma unroll
            for (int tile = 0; tile < 8; ++tile) {
                acc[tile][column] *= shrink;
                acc[tile][column + 2] *= shrink;
            }
        }
        const uint32_t p0 = transpose(pack(probability[0], probability[1]));
        const uint32_t p1 = transpose(pack(probability[2], probability[3]));
#pragma unroll
        for (int tile = 0; tile < 8; ++tile) {
            // Two tokens' numbers of one dim, side by side.
            const unsigned pick = tile % 2 ? 0x7632 : 0x5410;
            uint32_t a[4];
#pragma unroll
            for (int half = 0; half < 2; ++half) {
#pragma unroll
                for (int pair = 0; pair < 2; ++pair) {
                    const uint4 even = v[half][2 * pair], odd = v[half][2 * pair + 1];
                    const uint32_t from_even = tile / 2 == 0 ? even.x : tile / 2 == 1 ? even.y : tile / 2 == 2 ? even.z : even.w;
                    const uint32_t from_odd = tile / 2 == 0 ? odd.x : tile / 2 == 1 ? odd.y : tile / 2 == 2 ? odd.z : odd.w;
                    a[2 * pair + half] = __byte_perm(from_even, from_odd, pick);
                }
            }
            mma(acc[tile], a[0], a[1], a[2], a[3], p0, p1);
        }
    }

    __shared__ Merged merged;
#pragma unroll
    for (int column = 0; column < 2; ++column) {
        float all = sum[column];
        all += __shfl_xor_sync(ALL_LANES, all, 4);
        all += __shfl_xor_sync(ALL_LANES, all, 8);
        all += __shfl_xor_sync(ALL_LANES, all, 16);
        if (g == 0) {
            merged.highest[warp][2 * t + column] = highest[column];
            merged.sum[warp][2 * t + column] = all;
        }
#pragma unroll
        for (int tile = 0; tile < 8; ++tile) {
            merged.out[warp][2 * t + column][8 * g + tile] = acc[tile][column];
            merged.out[warp][2 * t + column][64 + 8 * g + tile] = acc[tile][column + 2];
        }
    }
    __syncthreads();

    const int dim = threadIdx.x;
    bf16* to = out + (static_cast<size_t>(token) * heads + kv_head * group) * HEAD_DIM + dim;
    const size_t job = static_cast<size_t>(token) * kv_heads + kv_head;
    for (int query = 0; query < group; ++query) {
        float top = merged.highest[0][query];
        for (int other = 1; other < WARPS; ++other) top = fmaxf(top, merged.highest[other][query]);
        float value = 0.0f, total = 0.0f;
        for (int other = 0; other < WARPS; ++other) {
            const float share = exp2f(merged.highest[other][query] - top);
            value += share * merged.out[other][query][dim];
            total += share * merged.sum[other][query];
        }
        if (n_active == 1) {
            to[query * HEAD_DIM] = __float2bfloat16(value / total);
        } else {
            const size_t part = (job * n_splits + split) * GROUP_MAX + query;
            partial_out[part * HEAD_DIM + dim] = value;
            if (dim == 0) partial_sums[part] = make_float2(top, total);
        }
    }
    if (n_active == 1 || !is_last_block(counters + job, n_active)) return;
    for (int query = 0; query < group; ++query) {
        float top = -INFINITY, value = 0.0f, total = 0.0f;
        for (int other = 0; other < n_active; ++other) {
            const size_t part = (job * n_splits + other) * GROUP_MAX + query;
            const float2 sums = __ldcg(partial_sums + part);
            const float now = fmaxf(top, sums.x);
            const float old_share = exp2f(top - now), share = exp2f(sums.x - now);
            value = value * old_share + share * __ldcg(partial_out + part * HEAD_DIM + dim);
            total = total * old_share + share * sums.y;
            top = now;
        }
        to[query * HEAD_DIM] = __float2bfloat16(value / total);
    }
}

// The same for any head_dim up to 256 and any group, one block per token and query head: slow and plain, for small models and as a check.
extern "C" __global__ void attention_any(bf16* out, const bf16* qkv, const bf16* keys, const bf16* values, const uint32_t* positions,
                                         const uint32_t* slots, const uint32_t* tables, int table_stride, int kv_heads, int group, int head_dim,
                                         float scale_log2) {
    wait_for_predecessor();
    const int head = blockIdx.x, token = blockIdx.y, heads = kv_heads * group, kv_head = head / group;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, n_warps = blockDim.x / 32;
    const int n_kv = static_cast<int>(positions[token]) + 1;
    const uint32_t* table = tables + static_cast<size_t>(slots[token]) * table_stride;
    const bf16* q = qkv + (static_cast<size_t>(token) * (heads + 2 * kv_heads) + head) * head_dim;
    float acc[8] = {}, highest = -INFINITY, sum = 0.0f;
    for (int idx = warp; idx < n_kv; idx += n_warps) {
        const size_t from = page_offset(table[idx / PAGE_TOKENS], kv_heads, kv_head, head_dim) + (idx % PAGE_TOKENS) * head_dim;
        float score = 0.0f;
        for (int dim = lane; dim < head_dim; dim += 32) score += __bfloat162float(q[dim]) * __bfloat162float(keys[from + dim]);
        score = warp_sum(score) * scale_log2;
        const float now = fmaxf(highest, score), shrink = exp2f(highest - now), share = exp2f(score - now);
        highest = now;
        sum = sum * shrink + share;
#pragma unroll
        for (int part = 0; part < 8; ++part) {
            const int dim = lane + 32 * part;
            if (dim < head_dim) acc[part] = acc[part] * shrink + share * __bfloat162float(values[from + dim]);
        }
    }
    __shared__ float of_warp[8][256];
    __shared__ float top_of_warp[8], sum_of_warp[8];
#pragma unroll
    for (int part = 0; part < 8; ++part) of_warp[warp][lane + 32 * part] = acc[part];
    if (lane == 0) top_of_warp[warp] = highest, sum_of_warp[warp] = sum;
    __syncthreads();
    for (int dim = threadIdx.x; dim < head_dim; dim += blockDim.x) {
        float top = -INFINITY, value = 0.0f, total = 0.0f;
        for (int other = 0; other < n_warps; ++other) top = fmaxf(top, top_of_warp[other]);
        for (int other = 0; other < n_warps; ++other) {
            const float share = exp2f(top_of_warp[other] - top);
            value += share * of_warp[other][dim];
            total += share * sum_of_warp[other];
        }
        out[(static_cast<size_t>(token) * heads + head) * head_dim + dim] = __float2bfloat16(value / total);
    }
}
