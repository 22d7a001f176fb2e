// The sums of a block of float32, most programs' elements, 64 bytes at a time.

#include <algorithm>
#include <bit>
#include <limits>

#include "dialects/torch/numbers/fingerprint.h"
#include "dialects/torch/numbers/sums.h"

#if defined(__x86_64__)
// GCC takes the undefined vectors in its own header for mistakes.
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#include <immintrin.h>
#endif

namespace torchtrace::torch_dialect {

#if defined(__x86_64__)

namespace {

#define TORCHTRACE_AVX512 __attribute__((target("avx512f,avx512dq")))
#define TORCHTRACE_AVX512_INLINE TORCHTRACE_AVX512 __attribute__((always_inline)) inline

constexpr size_t kVector512 = 64;

TORCHTRACE_AVX512_INLINE __m512i Set(uint64_t number) { return _mm512_set1_epi64(static_cast<int64_t>(number)); }
TORCHTRACE_AVX512_INLINE __m512i XorHigh8(__m512i x) { return _mm512_xor_si512(x, _mm512_srli_epi64(x, 32)); }

// As AddLanes.
TORCHTRACE_AVX512_INLINE double AddLanes8(__m512d lanes) {
  const __m256d four = _mm256_add_pd(_mm512_castpd512_pd256(lanes), _mm512_extractf64x4_pd(lanes, 1));
  const __m128d pair = _mm_add_pd(_mm256_castpd256_pd128(four), _mm256_extractf128_pd(four, 1));
  return _mm_cvtsd_f64(_mm_add_sd(pair, _mm_unpackhi_pd(pair, pair)));
}

TORCHTRACE_AVX512 void Float32Block(const std::byte* data, size_t elements, uint64_t first_word, Sums* sums) {
  const size_t bytes = elements * sizeof(float);
  if (bytes % kVector512 != 0) return Avx2Kernel(ElementType::kFloat32)(data, elements, first_word, sums);
  const __m512i one = _mm512_set1_epi32(1), infinity = _mm512_set1_epi32(0x7f800000);
  __m512i zeros = _mm512_setzero_si512(), words = zeros;
  __m512 least = _mm512_set1_ps(std::numeric_limits<float>::infinity());
  __m512 most = _mm512_set1_ps(-std::numeric_limits<float>::infinity());
  __m512d sum = _mm512_setzero_pd(), squares = sum;
  __m512i keys = _mm512_add_epi64(Set((2 * first_word + 1) * kIndexFactor),
                                  _mm512_mullo_epi64(_mm512_setr_epi64(0, 2, 4, 6, 8, 10, 12, 14), Set(kIndexFactor)));
  for (size_t at = 0; at < bytes; at += kVector512) {
    const __m512i bits = _mm512_loadu_si512(data + at);
    // MixWord
    __m512i word = _mm512_mullo_epi64(XorHigh8(_mm512_add_epi64(bits, keys)), keys);
    word = _mm512_mullo_epi64(XorHigh8(word), Set(kScrambleFactor));
    words = _mm512_add_epi64(words, XorHigh8(word));
    keys = _mm512_add_epi64(keys, Set(16 * kIndexFactor));

    const __m512i magnitude = _mm512_and_si512(bits, _mm512_set1_epi32(0x7fffffff));
    const __mmask16 beyond = _mm512_cmpge_epi32_mask(magnitude, infinity);
    const auto finite = static_cast<__mmask16>(~beyond);
    zeros = _mm512_mask_add_epi32(zeros, _mm512_cmpeq_epi32_mask(magnitude, _mm512_setzero_si512()), zeros, one);
    if (beyond != 0) [[unlikely]] {
      const auto nans = static_cast<unsigned>(_mm512_cmpgt_epi32_mask(magnitude, infinity));
      const auto positive = static_cast<unsigned>(_mm512_cmpeq_epi32_mask(bits, infinity));
      sums->nans += std::popcount(nans);
      sums->positive_infinities += std::popcount(positive);
      sums->negative_infinities += std::popcount(unsigned{beyond} & ~nans & ~positive);
    }
    const __m512 values = _mm512_castsi512_ps(bits);
    least = _mm512_mask_min_ps(least, finite, values, least);
    most = _mm512_mask_max_ps(most, finite, values, most);
    const __m512 added = _mm512_maskz_mov_ps(finite, values);
    const __m512d low = _mm512_cvtps_pd(_mm512_castps512_ps256(added));
    const __m512d high = _mm512_cvtps_pd(_mm512_extractf32x8_ps(added, 1));
    sum = _mm512_add_pd(_mm512_add_pd(sum, low), high);
    squares = _mm512_add_pd(_mm512_add_pd(squares, _mm512_mul_pd(low, low)), _mm512_mul_pd(high, high));
  }
  sums->zeros += static_cast<uint32_t>(_mm512_reduce_add_epi32(zeros));
  sums->least = std::min<double>(sums->least, _mm512_reduce_min_ps(least));
  sums->most = std::max<double>(sums->most, _mm512_reduce_max_ps(most));
  sums->sum.Add(AddLanes8(sum));
  sums->squares.Add(AddLanes8(squares));
  sums->words += static_cast<uint64_t>(_mm512_reduce_add_epi64(words));
}

#undef TORCHTRACE_AVX512_INLINE
#undef TORCHTRACE_AVX512

}  // namespace

BlockKernel Avx512Kernel(ElementType type) {
  const bool has = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq");
  return has && type == ElementType::kFloat32 && Avx2Kernel(type) != nullptr ? Float32Block : nullptr;
}

#else

BlockKernel Avx512Kernel(ElementType) { return nullptr; }

#endif

}  // namespace torchtrace::torch_dialect
