#include "dialects/torch/numbers/numbers.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cfenv>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <random>
#include <thread>
#include <vector>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

#include "dialects/torch/numbers/element_type.h"
#include "dialects/torch/numbers/fingerprint.h"
#include "dialects/torch/numbers/sums.h"
#include "dialects/torch/numbers/testing/number_samples.h"
#include "gtest/gtest.h"

namespace torchtrace::torch_dialect {
namespace {

using enum ElementType;
long double Decode(const Format& format, uint64_t bits) {
  const uint64_t mantissa = bits & ((uint64_t{1} << format.mantissa_bits) - 1);
  const uint64_t most_exponent = (uint64_t{1} << format.exponent_bits) - 1;
  const uint64_t exponent = (bits >> format.mantissa_bits) & most_exponent;
  const bool negative = bits >> (format.mantissa_bits + format.exponent_bits) & 1;
  const long double nan = std::numeric_limits<long double>::quiet_NaN();
  long double value = 0;
  if (!format.negative_zero) {
    if (negative && exponent == 0 && mantissa == 0) return nan;
  } else if (exponent == most_exponent) {
    if (format.infinities) return mantissa != 0 ? nan : negative ? -HUGE_VALL : HUGE_VALL;
    if (mantissa == (uint64_t{1} << format.mantissa_bits) - 1) return nan;
  }
  if (exponent == 0) {
    value = std::ldexp(static_cast<long double>(mantissa), 1 - format.bias - format.mantissa_bits);
  } else {
    value = std::ldexp(static_cast<long double>(mantissa + (uint64_t{1} << format.mantissa_bits)),
                       static_cast<int>(exponent) - format.bias - format.mantissa_bits);
  }
  return negative ? -value : value;
}

uint64_t BitsAt(const std::byte* data, size_t size) {
  uint64_t bits = 0;
  std::memcpy(&bits, data, size);
  return bits;
}

// As it is counted: magnitudes of complex elements.
long double ValueOf(ElementType type, const std::byte* data) {
  const size_t size = ElementSize(type);
  const uint64_t bits = BitsAt(data, std::min<size_t>(size, 8));
  switch (type) {
    case kBool:
      return bits != 0;
    case kUint8:
    case kUint16:
    case kUint32:
    case kUint64:
      return bits;
    case kInt8:
      return static_cast<int8_t>(bits);
    case kInt16:
      return static_cast<int16_t>(bits);
    case kInt32:
      return static_cast<int32_t>(bits);
    case kInt64:
      return static_cast<int64_t>(bits);
    case kFloat8E8m0fnu:
      return bits == 255 ? std::numeric_limits<long double>::quiet_NaN()
                         : std::ldexp(1.0L, static_cast<int>(bits) - 127);
    case kComplex32:
    case kComplex64:
    case kComplex128: {
      const long double real = Decode(FormatOf(type), BitsAt(data, size / 2));
      const long double imaginary = Decode(FormatOf(type), BitsAt(data + size / 2, size / 2));
      if (std::isnan(real) || std::isnan(imaginary)) return std::numeric_limits<long double>::quiet_NaN();
      return std::hypot(real, imaginary);
    }
    default:
      return Decode(FormatOf(type), bits);
  }
}

void ExpectNear(double actual, long double expected, long double scale) {
  EXPECT_LE(std::fabs(static_cast<long double>(actual) - expected), 1e-13L * scale) << actual << " " << expected;
}

// Against sums that are as plain as can be.
void ExpectRight(ElementType type, const Bytes& data, const Numbers& numbers) {
  const size_t size = ElementSize(type);
  Numbers expected;
  long double least = HUGE_VALL;
  long double most = -HUGE_VALL;
  long double sum = 0;
  long double magnitudes = 0;
  long double squares = 0;
  for (size_t at = 0; at < data.size(); at += size) {
    const long double value = ValueOf(type, data.data() + at);
    ++expected.elements;
    if (std::isnan(value)) {
      ++expected.nans;
    } else if (std::isinf(value)) {
      ++(value > 0 ? expected.positive_infinities : expected.negative_infinities);
    } else {
      expected.zeros += value == 0;
      least = std::min(least, value);
      most = std::max(most, value);
      sum += value;
      magnitudes += std::fabs(value);
      squares += value * value;
    }
  }
  EXPECT_EQ(numbers.elements, expected.elements);
  EXPECT_EQ(numbers.nans, expected.nans);
  EXPECT_EQ(numbers.positive_infinities, expected.positive_infinities);
  EXPECT_EQ(numbers.negative_infinities, expected.negative_infinities);
  EXPECT_EQ(numbers.zeros, expected.zeros);
  const auto finite = static_cast<long double>(expected.finite());
  ASSERT_EQ(numbers.finite(), expected.finite());
  if (finite == 0) {
    for (const double none : {numbers.least, numbers.most, numbers.mean, numbers.norm}) EXPECT_TRUE(std::isnan(none));
    return;
  }
  const bool complex = type == kComplex32 || type == kComplex64 || type == kComplex128;
  if (complex) {
    EXPECT_DOUBLE_EQ(numbers.least, static_cast<double>(least));
    EXPECT_DOUBLE_EQ(numbers.most, static_cast<double>(most));
  } else {
    EXPECT_EQ(numbers.least, static_cast<double>(least));
    EXPECT_EQ(numbers.most, static_cast<double>(most));
  }
  EXPECT_FALSE(numbers.least == 0 && std::signbit(numbers.least));
  EXPECT_FALSE(numbers.most == 0 && std::signbit(numbers.most));
  ExpectNear(numbers.mean, sum / finite, magnitudes / finite);
  ExpectNear(numbers.norm, std::sqrt(squares), std::sqrt(squares));
}

void ExpectSame(const Numbers& a, const Numbers& b) {
  ExpectSameButSums(a, b);
  EXPECT_EQ(std::bit_cast<uint64_t>(a.mean), std::bit_cast<uint64_t>(b.mean));
  EXPECT_EQ(std::bit_cast<uint64_t>(a.norm), std::bit_cast<uint64_t>(b.norm));
}

Shape RowMajor(const Shape& sizes) {
  Shape strides(sizes.size());
  int64_t stride = 1;
  for (size_t i = sizes.size(); i-- > 0; stride *= sizes[i]) strides[i] = stride;
  return strides;
}

Numbers Contiguous(ElementType type, const void* data, const Shape& sizes) {
  return NumbersOf(type, data, sizes, RowMajor(sizes));
}

// The numbers of a copy in row-major order, in one dimension, with the fingerprint of `sizes`.
Numbers OfCopy(ElementType type, const std::byte* data, const Shape& sizes, const Shape& strides) {
  const auto size = static_cast<int64_t>(ElementSize(type));
  Bytes copy;
  Shape index(sizes.size());
  const int64_t elements = std::accumulate(sizes.begin(), sizes.end(), int64_t{1}, std::multiplies<>());
  for (int64_t i = 0; i < elements; ++i) {
    int64_t rest = i;
    const std::byte* from = data;
    for (size_t d = sizes.size(); d-- > 0; rest /= sizes[d]) from += rest % sizes[d] * strides[d] * size;
    copy.insert(copy.end(), from, from + size);
  }
  return Contiguous(type, copy.data(), sizes);
}

class NumbersTest : public testing::TestWithParam<ElementType> {};

TEST_P(NumbersTest, AreThoseOfPlainSums) {
  const ElementType type = GetParam();
  ElementMaker maker(type);
  Shape lengths(71);
  std::iota(lengths.begin(), lengths.end(), 0);
  for (const int64_t length : {255, 1000, 4096, 4096 + 3, 20000}) lengths.push_back(length);
  for (const int64_t length : lengths) {
    SCOPED_TRACE(testing::Message() << "type " << static_cast<int>(type) << " elements " << length);
    const Bytes data = maker.Make(length);
    const Shape strides = {1};
    const Numbers numbers = NumbersOf(type, data.data(), {&length, 1}, strides);
    ExpectRight(type, data, numbers);
    for (const BlockKernel kernel : {ScalarKernel(type), Avx2Kernel(type), Avx512Kernel(type)}) {
      if (kernel != nullptr) ExpectSame(numbers, NumbersBy(kernel, type, data.data(), {&length, 1}, strides));
    }
  }
}

TEST_P(NumbersTest, DependOnNoStrides) {
  const ElementType type = GetParam();
  const auto element_size = static_cast<int64_t>(ElementSize(type));
  const Bytes data = ElementMaker(type).Make(kViewedElements);
  for (const View& view : ViewSamples()) {
    SCOPED_TRACE(testing::Message() << "type " << static_cast<int>(type) << " view "
                                    << testing::PrintToString(view.sizes));
    const std::byte* const first = data.data() + view.offset * element_size;
    const Numbers numbers = NumbersOf(type, first, view.sizes, view.strides);
    ExpectSame(numbers, OfCopy(type, first, view.sizes, view.strides));
    ExpectSame(numbers, NumbersBy(ScalarKernel(type), type, first, view.sizes, view.strides));
  }
}

TEST_P(NumbersTest, ReadNothingBesidesElements) {
  const ElementType type = GetParam();
  const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  void* const pages = mmap(nullptr, 3 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(pages, MAP_FAILED);
  auto* const begin = static_cast<std::byte*>(pages) + page;
  ASSERT_EQ(mprotect(begin, page, PROT_READ | PROT_WRITE), 0);
  ElementMaker maker(type);
  for (int64_t length = 0; length <= 70; ++length) {
    SCOPED_TRACE(testing::Message() << "type " << static_cast<int>(type) << " elements " << length);
    const Bytes data = maker.Make(length);
    const Numbers expected = Contiguous(type, data.data(), {length});
    // At the beginning, at the end, and unaligned.
    for (std::byte* to : {begin, begin + page - data.size(), begin + 1}) {
      std::copy(data.begin(), data.end(), to);
      ExpectSame(Contiguous(type, to, {length}), expected);
    }
  }
  munmap(pages, 3 * page);
}

// What the program has set for floating-point numbers changes nothing, and nothing of it is changed.
TEST_P(NumbersTest, HaveTheirOwnFloatingPointRules) {
  const ElementType type = GetParam();
  const Bytes data = ElementMaker(type).Make(2000);
  const Numbers expected = Contiguous(type, data.data(), {2000});
  const Numbers scalar = NumbersBy(ScalarKernel(type), type, data.data(), Shape{2000}, Shape{1});
  const Shape sizes = {2000};
  const Shape strides = {1};
  fenv_t before;
  ASSERT_EQ(fegetenv(&before), 0);
  feclearexcept(FE_ALL_EXCEPT);
  fesetround(FE_UPWARD);
  feenableexcept(FE_ALL_EXCEPT & ~FE_INEXACT);
#if defined(__x86_64__)
  constexpr unsigned kDenormalsAreZeros = 0x8040;
  _mm_setcsr(_mm_getcsr() | kDenormalsAreZeros);
  const unsigned control = _mm_getcsr();
#endif
  const Numbers numbers = NumbersOf(type, data.data(), sizes, strides);
  const Numbers numbers_by_scalar = NumbersBy(ScalarKernel(type), type, data.data(), sizes, strides);
#if defined(__x86_64__)
  const unsigned control_after = _mm_getcsr();
#endif
  const int rounding = fegetround();
  const int raised = fetestexcept(FE_ALL_EXCEPT);
  fesetenv(&before);
#if defined(__x86_64__)
  EXPECT_EQ(control_after, control);
#endif
  EXPECT_EQ(rounding, FE_UPWARD);
  EXPECT_EQ(raised, 0);
  ExpectSame(numbers, expected);
  ExpectSame(numbers_by_scalar, scalar);
}

INSTANTIATE_TEST_SUITE_P(AllTypes, NumbersTest, testing::ValuesIn(AllTypes()));

TEST(NumbersOfTest, EveryBytePatternOfSmallTypes) {
  for (const ElementType type : AllTypes()) {
    const size_t size = ElementSize(type);
    if (size > 2) continue;
    const Bytes all = EveryPattern(type);
    // Alone, as extremes and sums then show its value exactly.
    for (size_t at = 0; size == 1 && at < all.size(); ++at) {
      const Numbers numbers = NumbersOf(type, &all[at], {}, {});
      ExpectRight(type, {all[at]}, numbers);
      ExpectSame(numbers, NumbersBy(ScalarKernel(type), type, &all[at], {}, {}));
    }
    const Numbers numbers = Contiguous(type, all.data(), {static_cast<int64_t>(all.size() / size)});
    ExpectRight(type, all, numbers);
  }
}

template <typename T>
Numbers Of(ElementType type, const std::vector<T>& elements) {
  return Contiguous(type, elements.data(), {static_cast<int64_t>(elements.size())});
}

TEST(NumbersOfTest, WideIntegersAreExactWhereDoubleIs) {
  const int64_t exact = (int64_t{1} << 53) - 1;
  Numbers numbers = Of<int64_t>(kInt64, {-exact, 0, exact});
  EXPECT_EQ(numbers.least, -0x1.fffffffffffffp52);
  EXPECT_EQ(numbers.most, 0x1.fffffffffffffp52);
  EXPECT_EQ(numbers.mean, 0);
  numbers = Of<int64_t>(kInt64, {INT64_MIN, INT64_MAX});
  EXPECT_EQ(numbers.least, -0x1p63);
  EXPECT_EQ(numbers.most, 0x1p63);
  numbers = Of<uint64_t>(kUint64, {UINT64_MAX, 1});
  EXPECT_EQ(numbers.least, 1);
  EXPECT_EQ(numbers.most, 0x1p64);
  // Rounded to nearest, once, by both kernels.
  std::mt19937_64 random(1);
  for (int i = 0; i < 10000; ++i) {
    const auto value = static_cast<int64_t>(random() >> (random() % 64));
    EXPECT_EQ(Of<int64_t>(kInt64, {value}).least, static_cast<double>(value));
    EXPECT_EQ(Of<int64_t>(kInt64, {-value}).most, static_cast<double>(-value));
    const auto bits = static_cast<uint64_t>(value);
    EXPECT_EQ(Of<uint64_t>(kUint64, {bits}).most, static_cast<double>(bits));
  }
}

TEST(NumbersOfTest, NothingFinite) {
  const float infinity = std::numeric_limits<float>::infinity();
  const Numbers numbers = Of<float>(kFloat32, {infinity, -infinity, -infinity, std::nanf("1")});
  EXPECT_EQ(numbers.finite(), 0u);
  EXPECT_EQ(numbers.positive_infinities, 1u);
  EXPECT_EQ(numbers.negative_infinities, 2u);
  EXPECT_EQ(numbers.nans, 1u);
  for (const double none : {numbers.least, numbers.most, numbers.mean, numbers.norm}) EXPECT_TRUE(std::isnan(none));
  const Numbers empty = Of<float>(kFloat32, {});
  EXPECT_EQ(empty.elements, 0u);
  EXPECT_TRUE(std::isnan(empty.mean));
}

TEST(NumbersOfTest, ComplexElementsCountByMagnitude) {
  const float infinity = std::numeric_limits<float>::infinity();
  const float nan = std::nanf("");
  const std::vector<float> parts = {3, -4, 0, -0.0f, infinity, nan, nan, 0, 0, -infinity, -5, 12};
  const Numbers numbers = Contiguous(kComplex64, parts.data(), {6});
  EXPECT_EQ(numbers.nans, 2u);
  EXPECT_EQ(numbers.positive_infinities, 1u);
  EXPECT_EQ(numbers.negative_infinities, 0u);
  EXPECT_EQ(numbers.zeros, 1u);
  EXPECT_EQ(numbers.least, 0);
  EXPECT_EQ(numbers.most, 13);
  EXPECT_EQ(numbers.mean, 6);
  EXPECT_EQ(numbers.norm, std::sqrt(25.0 + 169.0));
}

// Where the squares of the parts are not within double's range.
TEST(NumbersOfTest, MagnitudesOfLargeAndSmallComplexElements) {
  for (const double factor : {1e-320, 1e-300, 1e-160, 1.0, 1e160, 1e300}) {
    const std::vector<double> parts = {3 * factor, 4 * factor};
    const Numbers numbers = Contiguous(kComplex128, parts.data(), {1});
    EXPECT_NEAR(numbers.most / (5 * factor), 1, factor < 1e-310 ? 1e-3 : 1e-15);
    EXPECT_EQ(numbers.finite(), 1u);
    EXPECT_EQ(numbers.zeros, 0u);
  }
}

TEST(NumbersOfTest, SumsOfManyElementsStayExact) {
  const std::vector<float> tenths(3'000'000, 0.1f);
  const Numbers numbers = Of(kFloat32, tenths);
  EXPECT_NEAR(numbers.mean / 0.1f, 1, 1e-15);
  EXPECT_NEAR(numbers.norm / (0.1f * std::sqrt(3e6)), 1, 1e-14);
  EXPECT_EQ(numbers.zeros, 0u);
  // More zeros, NaN, ... in a row than the counters of a block could hold.
  EXPECT_EQ(Of(kInt8, std::vector<int8_t>(1'000'003)).zeros, 1'000'003u);
  EXPECT_EQ(Of(kInt16, std::vector<int16_t>(1'000'003)).zeros, 1'000'003u);
  EXPECT_EQ(Of(kFloat16, std::vector<uint16_t>(1'000'003, 0xffff)).nans, 1'000'003u);
  EXPECT_EQ(Of(kUint8, std::vector<uint8_t>(1'000'003, 255)).mean, 255);
  EXPECT_EQ(Of(kInt8, std::vector<int8_t>(1'000'003, -128)).mean, -128);
  EXPECT_EQ(Of(kInt16, std::vector<int16_t>(1'000'003, -32768)).norm, 32768 * std::sqrt(1'000'003.0));
  EXPECT_EQ(Of(kBool, std::vector<uint8_t>(1'000'003, 2)).mean, 1);
}

// The same memory at two addresses, as ThreadSanitizer would rightly complain.
TEST(NumbersOfTest, AnotherThreadMayWrite) {
  constexpr size_t kBytes = 1 << 16;
  const int file = memfd_create("numbers", 0);
  ASSERT_GE(file, 0);
  ASSERT_EQ(ftruncate(file, kBytes), 0);
  void* const written = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  void* const read = mmap(nullptr, kBytes, PROT_READ, MAP_SHARED, file, 0);
  ASSERT_NE(written, MAP_FAILED);
  ASSERT_NE(read, MAP_FAILED);
  std::atomic<bool> end = false;
  std::thread writer([&] {
    std::mt19937_64 random(1);
    auto* const words = static_cast<volatile uint64_t*>(written);
    while (!end) words[random() % (kBytes / 8)] = random();
  });
  for (const ElementType type : AllTypes()) {
    const auto elements = static_cast<int64_t>(kBytes / ElementSize(type));
    for (int i = 0; i < 10; ++i) {
      const Numbers numbers = Contiguous(type, read, {elements});
      EXPECT_EQ(numbers.elements, static_cast<uint64_t>(elements));
      EXPECT_LE(numbers.finite(), numbers.elements);
      EXPECT_LE(numbers.zeros, numbers.finite());
    }
  }
  end = true;
  writer.join();
  munmap(written, kBytes);
  munmap(read, kBytes);
  close(file);
}

#if defined(__x86_64__)
// Else the comparisons of kernels would compare one with itself.
TEST(NumbersOfTest, TheFastestKernelIsNotTheScalarOne) {
  if (!__builtin_cpu_supports("avx2")) GTEST_SKIP() << "no AVX2";
  for (const ElementType type : AllTypes()) EXPECT_EQ(FastestKernel(type) == ScalarKernel(type), type == kComplex128);
}
#endif

TEST(ElementTypeTest, HasTheNumbersOfScalarType) {
  EXPECT_EQ(AllTypes().size(), 21u);
  EXPECT_EQ(ElementTypeOfNumber(5), kFloat16);
  EXPECT_EQ(ElementTypeOfNumber(12), std::nullopt);  // qint8
  EXPECT_EQ(ElementTypeOfNumber(-1), std::nullopt);
  EXPECT_EQ(ElementTypeOfNumber(256), std::nullopt);
}

}  // namespace
}  // namespace torchtrace::torch_dialect
