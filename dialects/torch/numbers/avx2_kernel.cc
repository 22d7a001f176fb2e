// The sums of a block, 32 bytes at a time.

#include <algorithm>
#include <cstring>
#include <limits>
#include <type_traits>

#include "dialects/torch/numbers/element_values.h"
#include "dialects/torch/numbers/fingerprint.h"
#include "dialects/torch/numbers/sums.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace torchtrace::torch_dialect {

#if defined(__x86_64__)

namespace {

// Without FMA, whose results would differ from the scalar kernel's.
#define TORCHTRACE_AVX2 __attribute__((target("avx2,f16c")))
#define TORCHTRACE_AVX2_INLINE TORCHTRACE_AVX2 __attribute__((always_inline)) inline

constexpr size_t kVector = 32;

TORCHTRACE_AVX2_INLINE __m128i LowHalf(__m256i vector) { return _mm256_castsi256_si128(vector); }
TORCHTRACE_AVX2_INLINE __m128i HighHalf(__m256i vector) { return _mm256_extracti128_si256(vector, 1); }

// All ones in the first `count` of 8, 4 or 32 elements.
TORCHTRACE_AVX2_INLINE __m256i First8(int count) {
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(count), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
TORCHTRACE_AVX2_INLINE __m256i First4(int count) {
  return _mm256_cmpgt_epi64(_mm256_set1_epi64x(count), _mm256_setr_epi64x(0, 1, 2, 3));
}

TORCHTRACE_AVX2_INLINE __m256i First32(int count) {
  const __m256i indices = _mm256_setr_epi8(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21,
                                           22, 23, 24, 25, 26, 27, 28, 29, 30, 31);
  return _mm256_cmpgt_epi8(_mm256_set1_epi8(static_cast<char>(count)), indices);
}

// How many elements the last 32 bytes have too many.
constexpr size_t Padding(size_t elements, size_t element_size) {
  return (kVector - elements * element_size % kVector) % kVector / element_size;
}

TORCHTRACE_AVX2_INLINE uint64_t SumOf64(__m256i v) {
  const __m128i pair = _mm_add_epi64(LowHalf(v), HighHalf(v));
  return static_cast<uint64_t>(_mm_cvtsi128_si64(pair)) + static_cast<uint64_t>(_mm_extract_epi64(pair, 1));
}
TORCHTRACE_AVX2_INLINE uint64_t SumOf32(__m256i v) {
  const __m256i low = _mm256_and_si256(v, _mm256_set1_epi64x(0xffffffff));
  return SumOf64(_mm256_add_epi64(low, _mm256_srli_epi64(v, 32)));
}
// As AddLanes.
TORCHTRACE_AVX2_INLINE double AddLanes4(__m256d lanes) {
  const __m128d pair = _mm_add_pd(_mm256_castpd256_pd128(lanes), _mm256_extractf128_pd(lanes, 1));
  return _mm_cvtsd_f64(_mm_add_sd(pair, _mm_unpackhi_pd(pair, pair)));
}

// MixWord of 4 words at once.
struct WordMixer {
  __m256i sum;
  __m256i keys;  // of the next words

  TORCHTRACE_AVX2_INLINE void Begin(uint64_t first_word) {
    sum = _mm256_setzero_si256();
    keys = _mm256_add_epi64(
        Set((2 * first_word + 1) * kIndexFactor),
        _mm256_setr_epi64x(0, static_cast<int64_t>(2 * kIndexFactor), static_cast<int64_t>(4 * kIndexFactor),
                           static_cast<int64_t>(6 * kIndexFactor)));
  }
  static TORCHTRACE_AVX2_INLINE __m256i Set(uint64_t number) {
    return _mm256_set1_epi64x(static_cast<int64_t>(number));
  }
  // XorHigh(x) * factor
  static TORCHTRACE_AVX2_INLINE __m256i Multiply(__m256i x, __m256i factor, __m256i factor_high) {
    const __m256i high = _mm256_srli_epi64(x, 32);
    x = _mm256_xor_si256(x, high);
    const __m256i crossed = _mm256_add_epi64(_mm256_mul_epu32(x, factor_high), _mm256_mul_epu32(high, factor));
    return _mm256_add_epi64(_mm256_mul_epu32(x, factor), _mm256_slli_epi64(crossed, 32));
  }
  TORCHTRACE_AVX2_INLINE __m256i Mixed(__m256i words) const {
    __m256i x = _mm256_add_epi64(words, keys);
    x = Multiply(x, keys, _mm256_srli_epi64(keys, 32));
    x = Multiply(x, Set(kScrambleFactor), Set(kScrambleFactor >> 32));
    return _mm256_xor_si256(x, _mm256_srli_epi64(x, 32));
  }
  TORCHTRACE_AVX2_INLINE void Add(__m256i words) {
    sum = _mm256_add_epi64(sum, Mixed(words));
    keys = _mm256_add_epi64(keys, Set(8 * kIndexFactor));
  }
  TORCHTRACE_AVX2_INLINE void AddFirst(__m256i words, int count) {
    sum = _mm256_add_epi64(sum, _mm256_and_si256(Mixed(words), First4(count)));
  }
};

// Sums of doubles, in 8 lanes or 4.
struct DoubleLanes {
  __m256d low, high;

  TORCHTRACE_AVX2_INLINE void Begin() { low = high = _mm256_setzero_pd(); }
  template <int lanes>
  TORCHTRACE_AVX2_INLINE double Total() const {
    return AddLanes4(lanes == 8 ? _mm256_add_pd(low, high) : low);
  }
};

// How the sums of each kind of elements are kept. Add takes 32 bytes; of the last ones of a tensor only `count` are
// elements, the others are zero bytes.

// Elements that are floats, or become such without loss, 8 at a time.
template <typename Format>
struct FloatSums {
  static constexpr size_t kElementSize = Format::kElementSize;
  __m256i not_finite, nans, positive_infinities, zeros;
  __m256 least, most;
  DoubleLanes sum, squares;

  TORCHTRACE_AVX2_INLINE void Begin() {
    not_finite = nans = positive_infinities = zeros = _mm256_setzero_si256();
    least = _mm256_set1_ps(std::numeric_limits<float>::infinity());
    most = _mm256_set1_ps(-std::numeric_limits<float>::infinity());
    sum.Begin();
    squares.Begin();
  }
  template <bool all>
  TORCHTRACE_AVX2_INLINE void Add8(__m256i bits, int count) {
    const __m256i infinity = _mm256_set1_epi32(0x7f800000);
    const __m256i magnitude = _mm256_and_si256(bits, _mm256_set1_epi32(0x7fffffff));
    const __m256i beyond = _mm256_cmpgt_epi32(magnitude, _mm256_set1_epi32(0x7f7fffff));
    __m256i left_out = beyond;
    __m256i zero = _mm256_cmpeq_epi32(magnitude, _mm256_setzero_si256());
    if constexpr (!all) {
      const __m256i valid = First8(count);
      left_out = _mm256_or_si256(left_out, _mm256_andnot_si256(valid, _mm256_set1_epi32(-1)));
      zero = _mm256_and_si256(zero, valid);
    }
    not_finite = _mm256_sub_epi32(not_finite, beyond);
    nans = _mm256_sub_epi32(nans, _mm256_cmpgt_epi32(magnitude, infinity));
    positive_infinities = _mm256_sub_epi32(positive_infinities, _mm256_cmpeq_epi32(bits, infinity));
    zeros = _mm256_sub_epi32(zeros, zero);
    // What is left out becomes NaN: then the second operand is the result.
    const __m256 compared = _mm256_castsi256_ps(_mm256_or_si256(bits, left_out));
    least = _mm256_min_ps(compared, least);
    most = _mm256_max_ps(compared, most);
    const __m256 added = _mm256_castsi256_ps(_mm256_andnot_si256(left_out, bits));
    const __m256d low = _mm256_cvtps_pd(_mm256_castps256_ps128(added));
    const __m256d high = _mm256_cvtps_pd(_mm256_extractf128_ps(added, 1));
    sum.low = _mm256_add_pd(sum.low, low);
    sum.high = _mm256_add_pd(sum.high, high);
    squares.low = _mm256_add_pd(squares.low, _mm256_mul_pd(low, low));
    squares.high = _mm256_add_pd(squares.high, _mm256_mul_pd(high, high));
  }
  template <bool all>
  TORCHTRACE_AVX2_INLINE void Add(__m256i elements, int count) {
    Format::template ForEach8<all>(elements, count, this);
  }
  TORCHTRACE_AVX2_INLINE void End(size_t, Sums* sums) const {
    const uint64_t nan_count = SumOf32(nans);
    const uint64_t positive_count = SumOf32(positive_infinities);
    sums->nans += nan_count;
    sums->positive_infinities += positive_count;
    sums->negative_infinities += SumOf32(not_finite) - nan_count - positive_count;
    sums->zeros += SumOf32(zeros);
    __m128 few = _mm_min_ps(_mm256_castps256_ps128(least), _mm256_extractf128_ps(least, 1));
    few = _mm_min_ps(few, _mm_movehl_ps(few, few));
    few = _mm_min_ss(few, _mm_movehdup_ps(few));
    sums->least = std::min<double>(sums->least, _mm_cvtss_f32(few));
    few = _mm_max_ps(_mm256_castps256_ps128(most), _mm256_extractf128_ps(most, 1));
    few = _mm_max_ps(few, _mm_movehl_ps(few, few));
    few = _mm_max_ss(few, _mm_movehdup_ps(few));
    sums->most = std::max<double>(sums->most, _mm_cvtss_f32(few));
    sums->sum.Add(sum.Total<8>());
    sums->squares.Add(squares.Total<8>());
  }
};

struct Float32 {
  static constexpr size_t kElementSize = 4;
  template <bool all, typename To>
  static TORCHTRACE_AVX2_INLINE void ForEach8(__m256i elements, int count, To* to) {
    to->template Add8<all>(elements, count);
  }
};

struct Bfloat16 {
  static constexpr size_t kElementSize = 2;
  static TORCHTRACE_AVX2_INLINE __m256i Floats(__m128i elements) {
    return _mm256_slli_epi32(_mm256_cvtepu16_epi32(elements), 16);
  }
  template <bool all, typename To>
  static TORCHTRACE_AVX2_INLINE void ForEach8(__m256i elements, int count, To* to) {
    to->template Add8<all>(Floats(LowHalf(elements)), count);
    to->template Add8<all>(Floats(HighHalf(elements)), count - 8);
  }
};

struct Float16 {
  static constexpr size_t kElementSize = 2;
  static TORCHTRACE_AVX2_INLINE __m256i Floats(__m128i elements) {
    return _mm256_castps_si256(_mm256_cvtph_ps(elements));
  }
  template <bool all, typename To>
  static TORCHTRACE_AVX2_INLINE void ForEach8(__m256i elements, int count, To* to) {
    to->template Add8<all>(Floats(LowHalf(elements)), count);
    to->template Add8<all>(Floats(HighHalf(elements)), count - 8);
  }
};

// By table, which is as fast as arithmetic.
template <ElementType type>
struct Float8 {
  static constexpr size_t kElementSize = 1;
  template <bool all, typename To>
  static TORCHTRACE_AVX2_INLINE void ForEach8(__m256i elements, int count, To* to) {
    alignas(kVector) uint8_t bits[kVector];
    _mm256_store_si256(reinterpret_cast<__m256i*>(bits), elements);
    const Float8Table& table = Float8TableOf<type>();
    for (int i = 0; i < 32; i += 8) {
      const __m256 floats =
          _mm256_setr_ps(table[bits[i]], table[bits[i + 1]], table[bits[i + 2]], table[bits[i + 3]], table[bits[i + 4]],
                         table[bits[i + 5]], table[bits[i + 6]], table[bits[i + 7]]);
      to->template Add8<all>(_mm256_castps_si256(floats), count - i);
    }
  }
};

// Sums of numbers that become doubles, 4 at a time; those left out are given as NaN for extremes, as 0 for sums.
struct DoubleSums {
  __m256d least, most;
  DoubleLanes sum, squares;

  TORCHTRACE_AVX2_INLINE void Begin() {
    least = _mm256_set1_pd(std::numeric_limits<double>::infinity());
    most = _mm256_set1_pd(-std::numeric_limits<double>::infinity());
    sum.Begin();
    squares.Begin();
  }
  TORCHTRACE_AVX2_INLINE void Compare(__m256d compared) {
    least = _mm256_min_pd(compared, least);
    most = _mm256_max_pd(compared, most);
  }
  TORCHTRACE_AVX2_INLINE void AddLow(__m256d added, __m256d square) {
    sum.low = _mm256_add_pd(sum.low, added);
    squares.low = _mm256_add_pd(squares.low, square);
  }
  TORCHTRACE_AVX2_INLINE void AddHigh(__m256d added, __m256d square) {
    sum.high = _mm256_add_pd(sum.high, added);
    squares.high = _mm256_add_pd(squares.high, square);
  }
  template <int lanes>
  TORCHTRACE_AVX2_INLINE void End(Sums* sums) const {
    __m128d pair = _mm_min_pd(_mm256_castpd256_pd128(least), _mm256_extractf128_pd(least, 1));
    pair = _mm_min_sd(pair, _mm_unpackhi_pd(pair, pair));
    sums->least = std::min(sums->least, _mm_cvtsd_f64(pair));
    pair = _mm_max_pd(_mm256_castpd256_pd128(most), _mm256_extractf128_pd(most, 1));
    pair = _mm_max_sd(pair, _mm_unpackhi_pd(pair, pair));
    sums->most = std::max(sums->most, _mm_cvtsd_f64(pair));
    sums->sum.Add(sum.Total<lanes>());
    sums->squares.Add(squares.Total<lanes>());
  }
};

// Numbers that may not be finite, as doubles: float64, and the squares of magnitudes.
struct CheckedSums {
  __m256i not_finite, nans, positive_infinities, zeros;
  DoubleSums doubles;

  TORCHTRACE_AVX2_INLINE void Begin() {
    not_finite = nans = positive_infinities = zeros = _mm256_setzero_si256();
    doubles.Begin();
  }
  static TORCHTRACE_AVX2_INLINE void Count(__m256d mask, __m256i* count) {
    *count = _mm256_sub_epi64(*count, _mm256_castpd_si256(mask));
  }
  // Counts these, and returns which are left out of the other sums.
  template <bool all>
  TORCHTRACE_AVX2_INLINE __m256d Count4(__m256d values, int count) {
    const __m256d magnitude = _mm256_andnot_pd(_mm256_set1_pd(-0.0), values);
    const __m256d beyond = _mm256_cmp_pd(magnitude, _mm256_set1_pd(std::numeric_limits<double>::max()), _CMP_NLE_UQ);
    const __m256d infinity = _mm256_set1_pd(std::numeric_limits<double>::infinity());
    __m256d left_out = beyond;
    __m256d zero = _mm256_cmp_pd(values, _mm256_setzero_pd(), _CMP_EQ_OQ);
    if constexpr (!all) {
      const __m256d valid = _mm256_castsi256_pd(First4(count));
      left_out = _mm256_or_pd(left_out, _mm256_andnot_pd(valid, _mm256_castsi256_pd(_mm256_set1_epi64x(-1))));
      zero = _mm256_and_pd(zero, valid);
    }
    Count(beyond, &not_finite);
    Count(_mm256_cmp_pd(values, values, _CMP_UNORD_Q), &nans);
    Count(_mm256_cmp_pd(values, infinity, _CMP_EQ_OQ), &positive_infinities);
    Count(zero, &zeros);
    return left_out;
  }
  TORCHTRACE_AVX2_INLINE void End(size_t, Sums* sums) const {
    const uint64_t nan_count = SumOf64(nans);
    const uint64_t positive_count = SumOf64(positive_infinities);
    sums->nans += nan_count;
    sums->positive_infinities += positive_count;
    sums->negative_infinities += SumOf64(not_finite) - nan_count - positive_count;
    sums->zeros += SumOf64(zeros);
    doubles.End<4>(sums);
  }
};

struct Float64Sums : CheckedSums {
  static constexpr size_t kElementSize = 8;
  template <bool all>
  TORCHTRACE_AVX2_INLINE void Add(__m256i elements, int count) {
    const __m256d values = _mm256_castsi256_pd(elements);
    const __m256d left_out = Count4<all>(values, count);
    doubles.Compare(_mm256_or_pd(values, left_out));
    const __m256d added = _mm256_andnot_pd(left_out, values);
    doubles.AddLow(added, _mm256_mul_pd(added, added));
  }
};

// complex64 and complex32.
template <size_t element_size>
struct ComplexSums : CheckedSums {
  static constexpr size_t kElementSize = element_size;
  template <bool all>
  TORCHTRACE_AVX2_INLINE void Add4(__m256 parts, int count) {
    const __m256d low = _mm256_cvtps_pd(_mm256_castps256_ps128(parts));
    const __m256d high = _mm256_cvtps_pd(_mm256_extractf128_ps(parts, 1));
    // Elements 0, 2, 1, 3.
    const __m256d mixed = _mm256_hadd_pd(_mm256_mul_pd(low, low), _mm256_mul_pd(high, high));
    const __m256d square = _mm256_permute4x64_pd(mixed, 0xd8);
    const __m256d left_out = Count4<all>(square, count);
    const __m256d added = _mm256_andnot_pd(left_out, square);
    const __m256d magnitude = _mm256_sqrt_pd(added);
    doubles.Compare(_mm256_or_pd(magnitude, left_out));
    doubles.AddLow(magnitude, added);
  }
  template <bool all>
  TORCHTRACE_AVX2_INLINE void Add(__m256i elements, int count) {
    if constexpr (element_size == 8) {
      Add4<all>(_mm256_castsi256_ps(elements), count);
    } else {
      Add4<all>(_mm256_cvtph_ps(LowHalf(elements)), count);
      Add4<all>(_mm256_cvtph_ps(HighHalf(elements)), count - 4);
    }
  }
};

// Integers of 16 bits and more, as doubles.
template <typename Integer>
struct IntegerSums {
  static constexpr size_t kElementSize = sizeof(Integer);
  __m256i zeros;
  DoubleSums doubles;

  TORCHTRACE_AVX2_INLINE void Begin() {
    zeros = _mm256_setzero_si256();
    doubles.Begin();
  }
  static TORCHTRACE_AVX2_INLINE __m256d Compared(__m256d values, int count) {
    const __m256d valid = _mm256_castsi256_pd(First4(count));
    return _mm256_or_pd(values, _mm256_andnot_pd(valid, _mm256_castsi256_pd(_mm256_set1_epi64x(-1))));
  }
  template <bool all>
  TORCHTRACE_AVX2_INLINE void AddLow(__m256d values, int count) {
    doubles.Compare(all ? values : Compared(values, count));
    doubles.AddLow(values, _mm256_mul_pd(values, values));
  }
  template <bool all>
  TORCHTRACE_AVX2_INLINE void AddHigh(__m256d values, int count) {
    doubles.Compare(all ? values : Compared(values, count));
    doubles.AddHigh(values, _mm256_mul_pd(values, values));
  }
  static TORCHTRACE_AVX2_INLINE __m256d Doubles(__m128i values) {
    if constexpr (std::is_same_v<Integer, uint32_t>) {
      const __m128i less = _mm_xor_si128(values, _mm_set1_epi32(INT32_MIN));
      return _mm256_add_pd(_mm256_cvtepi32_pd(less), _mm256_set1_pd(0x1p31));
    } else {
      return _mm256_cvtepi32_pd(values);
    }
  }
  // Both halves become doubles with a large offset, exactly; what is left when the offsets are taken away is rounded
  // once, in the last addition.
  static TORCHTRACE_AVX2_INLINE __m256d Doubles64(__m256i values) {
    const __m256d low_offset = _mm256_set1_pd(0x1p52);
    const __m256i low = _mm256_blend_epi32(values, _mm256_castpd_si256(low_offset), 0xaa);
    __m256i high = _mm256_srli_epi64(values, 32);
    double offset = 0x1p84;
    if constexpr (std::is_signed_v<Integer>) {
      high = _mm256_xor_si256(high, _mm256_set1_epi64x(0x80000000));
      offset += 0x1p63;
    }
    high = _mm256_or_si256(high, _mm256_castpd_si256(_mm256_set1_pd(0x1p84)));
    const __m256d rest = _mm256_sub_pd(_mm256_castsi256_pd(high), _mm256_set1_pd(offset + 0x1p52));
    return _mm256_add_pd(rest, _mm256_castsi256_pd(low));
  }
  template <bool all>
  TORCHTRACE_AVX2_INLINE void Add8(__m256i values, int count) {
    AddLow<all>(Doubles(LowHalf(values)), count);
    AddHigh<all>(Doubles(HighHalf(values)), count - 4);
  }
  static TORCHTRACE_AVX2_INLINE __m256i Wide(__m128i values) {
    return std::is_signed_v<Integer> ? _mm256_cvtepi16_epi32(values) : _mm256_cvtepu16_epi32(values);
  }
  template <bool all>
  TORCHTRACE_AVX2_INLINE void Add(__m256i elements, int count) {
    const __m256i zero = _mm256_setzero_si256();
    if constexpr (kElementSize == 2) {
      zeros = _mm256_sub_epi16(zeros, _mm256_cmpeq_epi16(elements, zero));
      Add8<all>(Wide(LowHalf(elements)), count);
      Add8<all>(Wide(HighHalf(elements)), count - 8);
    } else if constexpr (kElementSize == 4) {
      zeros = _mm256_sub_epi32(zeros, _mm256_cmpeq_epi32(elements, zero));
      Add8<all>(elements, count);
    } else {
      zeros = _mm256_sub_epi64(zeros, _mm256_cmpeq_epi64(elements, zero));
      AddLow<all>(Doubles64(elements), count);
    }
  }
  TORCHTRACE_AVX2_INLINE void End(size_t elements, Sums* sums) const {
    if constexpr (kElementSize == 2) {
      sums->zeros += SumOf32(_mm256_madd_epi16(zeros, _mm256_set1_epi16(1)));
    } else {
      sums->zeros += kElementSize == 4 ? SumOf32(zeros) : SumOf64(zeros);
    }
    sums->zeros -= Padding(elements, kElementSize);
    doubles.End<kElementSize == 8 ? 4 : 8>(sums);
  }
};

// Elements of 8 bits, as the unsigned numbers that have the same order.
template <typename Integer>
struct ByteSums {
  static constexpr size_t kElementSize = 1;
  static constexpr int kOffset = std::is_signed_v<Integer> ? 128 : 0;
  __m256i zeros, least, most;
  __m256i sum, squares;  // in a block they fit into 32 bits

  TORCHTRACE_AVX2_INLINE void Begin() {
    zeros = most = sum = squares = _mm256_setzero_si256();
    least = _mm256_set1_epi8(-1);
  }
  static TORCHTRACE_AVX2_INLINE __m256i Wide(__m128i values) {
    return std::is_signed_v<Integer> ? _mm256_cvtepi8_epi16(values) : _mm256_cvtepu8_epi16(values);
  }
  template <bool all>
  TORCHTRACE_AVX2_INLINE void Add(__m256i elements, int count) {
    zeros = _mm256_sub_epi8(zeros, _mm256_cmpeq_epi8(elements, _mm256_setzero_si256()));
    const __m256i compared = _mm256_xor_si256(elements, _mm256_set1_epi8(static_cast<char>(kOffset)));
    if constexpr (all) {
      least = _mm256_min_epu8(least, compared);
      most = _mm256_max_epu8(most, compared);
    } else {
      const __m256i valid = First32(count);
      least = _mm256_min_epu8(least, _mm256_or_si256(compared, _mm256_xor_si256(valid, _mm256_set1_epi8(-1))));
      most = _mm256_max_epu8(most, _mm256_and_si256(compared, valid));
    }
    const __m256i low = Wide(LowHalf(elements));
    const __m256i high = Wide(HighHalf(elements));
    sum = _mm256_add_epi32(sum, _mm256_madd_epi16(_mm256_add_epi16(low, high), _mm256_set1_epi16(1)));
    squares = _mm256_add_epi32(squares, _mm256_add_epi32(_mm256_madd_epi16(low, low), _mm256_madd_epi16(high, high)));
  }
  static TORCHTRACE_AVX2_INLINE int LeastOf(__m256i bytes) {
    const __m128i few = _mm_min_epu8(LowHalf(bytes), HighHalf(bytes));
    return _mm_cvtsi128_si32(_mm_minpos_epu16(_mm_min_epu8(few, _mm_srli_epi16(few, 8)))) & 0xff;
  }
  TORCHTRACE_AVX2_INLINE void End(size_t elements, Sums* sums) const {
    sums->zeros += SumOf64(_mm256_sad_epu8(zeros, _mm256_setzero_si256())) - Padding(elements, 1);
    sums->least = std::min<double>(sums->least, LeastOf(least) - kOffset);
    const int most_of_all = 255 - LeastOf(_mm256_xor_si256(most, _mm256_set1_epi8(-1)));
    sums->most = std::max<double>(sums->most, most_of_all - kOffset);
    sums->sum.Add(static_cast<int32_t>(SumOf32(sum)));
    sums->squares.Add(static_cast<int32_t>(SumOf32(squares)));
  }
};

struct BoolSums {
  static constexpr size_t kElementSize = 1;
  __m256i zeros;

  TORCHTRACE_AVX2_INLINE void Begin() { zeros = _mm256_setzero_si256(); }
  template <bool all>
  TORCHTRACE_AVX2_INLINE void Add(__m256i elements, int) {
    zeros = _mm256_sub_epi8(zeros, _mm256_cmpeq_epi8(elements, _mm256_setzero_si256()));
  }
  TORCHTRACE_AVX2_INLINE void End(size_t elements, Sums* sums) const {
    const uint64_t zero_count = SumOf64(_mm256_sad_epu8(zeros, _mm256_setzero_si256())) - Padding(elements, 1);
    const uint64_t one_count = elements - zero_count;
    sums->zeros += zero_count;
    sums->least = std::min(sums->least, zero_count != 0 ? 0.0 : 1.0);
    sums->most = std::max(sums->most, one_count != 0 ? 1.0 : 0.0);
    sums->sum.Add(static_cast<double>(one_count));
    sums->squares.Add(static_cast<double>(one_count));
  }
};

template <typename ElementSums>
TORCHTRACE_AVX2 void Avx2Block(const std::byte* data, size_t elements, uint64_t first_word, Sums* sums) {
  ElementSums element_sums;
  WordMixer mixer;
  element_sums.Begin();
  mixer.Begin(first_word);
  size_t bytes = elements * ElementSums::kElementSize;
  for (; bytes >= kVector; data += kVector, bytes -= kVector) {
    const __m256i vector = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(data));
    mixer.Add(vector);
    element_sums.template Add<true>(vector, 0);
  }
  if (bytes != 0) {
    alignas(kVector) std::byte last[kVector] = {};
    std::memcpy(last, data, bytes);
    const __m256i vector = _mm256_load_si256(reinterpret_cast<const __m256i*>(last));
    mixer.AddFirst(vector, static_cast<int>((bytes + 7) / 8));
    element_sums.template Add<false>(vector, static_cast<int>(bytes / ElementSums::kElementSize));
  }
  element_sums.End(elements, sums);
  sums->words += SumOf64(mixer.sum);
}

BlockKernel KernelOf(ElementType type) {
  using enum ElementType;
  switch (type) {
    case kUint8:
      return Avx2Block<ByteSums<uint8_t>>;
    case kInt8:
      return Avx2Block<ByteSums<int8_t>>;
    case kInt16:
      return Avx2Block<IntegerSums<int16_t>>;
    case kInt32:
      return Avx2Block<IntegerSums<int32_t>>;
    case kInt64:
      return Avx2Block<IntegerSums<int64_t>>;
    case kFloat16:
      return Avx2Block<FloatSums<Float16>>;
    case kFloat32:
      return Avx2Block<FloatSums<Float32>>;
    case kFloat64:
      return Avx2Block<Float64Sums>;
    case kComplex32:
      return Avx2Block<ComplexSums<4>>;
    case kComplex64:
      return Avx2Block<ComplexSums<8>>;
    case kComplex128:
      return nullptr;
    case kBool:
      return Avx2Block<BoolSums>;
    case kBfloat16:
      return Avx2Block<FloatSums<Bfloat16>>;
    case kFloat8E5m2:
      return Avx2Block<FloatSums<Float8<kFloat8E5m2>>>;
    case kFloat8E4m3fn:
      return Avx2Block<FloatSums<Float8<kFloat8E4m3fn>>>;
    case kFloat8E5m2fnuz:
      return Avx2Block<FloatSums<Float8<kFloat8E5m2fnuz>>>;
    case kFloat8E4m3fnuz:
      return Avx2Block<FloatSums<Float8<kFloat8E4m3fnuz>>>;
    case kUint16:
      return Avx2Block<IntegerSums<uint16_t>>;
    case kUint32:
      return Avx2Block<IntegerSums<uint32_t>>;
    case kUint64:
      return Avx2Block<IntegerSums<uint64_t>>;
    case kFloat8E8m0fnu:
      return Avx2Block<FloatSums<Float8<kFloat8E8m0fnu>>>;
  }
  return nullptr;
}

#undef TORCHTRACE_AVX2_INLINE
#undef TORCHTRACE_AVX2

}  // namespace

BlockKernel Avx2Kernel(ElementType type) {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("f16c") ? KernelOf(type) : nullptr;
}

#else

BlockKernel Avx2Kernel(ElementType) { return nullptr; }

#endif

}  // namespace torchtrace::torch_dialect
