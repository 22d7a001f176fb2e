// The kernel, run on the CPU, against NumbersOf.

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "dialects/torch/device_numbers/device_numbers.h"
#include "dialects/torch/device_numbers/testing/kernel_on_cpu.h"
#include "dialects/torch/device_numbers/testing/stand_in_device.h"
#include "dialects/torch/numbers/numbers.h"
#include "gtest/gtest.h"

namespace torchtrace::torch_dialect {
namespace {

using enum ElementType;
using Bytes = std::vector<std::byte>;
using Shape = std::vector<int64_t>;

std::vector<ElementType> AllTypes() {
  std::vector<ElementType> types;
  for (int64_t number = 0; number <= 255; ++number) {
    if (const auto type = ElementTypeOfNumber(number)) types.push_back(*type);
  }
  return types;
}

bool IsWide(ElementType type) { return type == kFloat64 || type == kComplex128; }

// Random bytes: NaN and infinities of narrow types are frequent. The squares of wide ones stay within range, but for
// some of everything special.
Bytes MakeElements(ElementType type, size_t elements, unsigned seed) {
  std::mt19937_64 random(seed + 100 * static_cast<unsigned>(type));
  const size_t bytes = elements * ElementSize(type);
  Bytes data(bytes + 8);
  for (size_t at = 0; at < bytes; at += 8) {
    uint64_t word = random();
    if (IsWide(type)) {
      const double special[] = {0.0,
                                -0.0,
                                5e-324,
                                std::numeric_limits<double>::infinity(),
                                -std::numeric_limits<double>::infinity(),
                                std::numeric_limits<double>::quiet_NaN()};
      const double plain = std::ldexp(static_cast<double>(word >> 11), static_cast<int>(random() % 80) - 90);
      word = std::bit_cast<uint64_t>(random() % 16 == 0 ? special[random() % std::size(special)]
                                     : word & 1         ? -plain
                                                        : plain);
    } else if (random() % 8 == 0) {
      word = 0;
    } else if (random() % 8 == 0) {
      word |= 0x7ff0'0000'7f80'7c00;
    }
    std::memcpy(&data[at], &word, 8);
  }
  data.resize(bytes);
  return data;
}

// `scale`: of what is added up.
void ExpectNear(double actual, double expected, double scale) {
  if (std::isfinite(expected)) {
    EXPECT_LE(std::fabs(actual - expected), 1e-13 * scale) << actual << " " << expected;
  } else if (std::isnan(expected)) {
    EXPECT_TRUE(std::isnan(actual)) << actual;
  } else {
    EXPECT_EQ(actual, expected);
  }
}

void ExpectEqual(const Numbers& numbers, const Numbers& expected) {
  EXPECT_EQ(numbers.elements, expected.elements);
  EXPECT_EQ(numbers.nans, expected.nans);
  EXPECT_EQ(numbers.positive_infinities, expected.positive_infinities);
  EXPECT_EQ(numbers.negative_infinities, expected.negative_infinities);
  EXPECT_EQ(numbers.zeros, expected.zeros);
  EXPECT_EQ(numbers.fingerprint, expected.fingerprint);
  EXPECT_EQ(std::bit_cast<uint64_t>(numbers.least), std::bit_cast<uint64_t>(expected.least));
  EXPECT_EQ(std::bit_cast<uint64_t>(numbers.most), std::bit_cast<uint64_t>(expected.most));
  const double scale = std::max(std::fabs(expected.least), std::fabs(expected.most));
  ExpectNear(numbers.mean, expected.mean, scale);
  ExpectNear(numbers.norm, expected.norm, expected.norm);
}

// One device for all tests here.
DeviceNumbers& Device() {
  static auto* const device = [] {
    auto* const made = new StandInDevice();
    EXPECT_TRUE(made->numbers.Prepare(0).ok());
    return made;
  }();
  return device->numbers;
}

Numbers OnDevice(ElementType type, const void* data, const Shape& sizes, const Shape& strides,
                 FlippedSigns flipped = {}) {
  static int stream;
  const DeviceTensor tensor = {type, reinterpret_cast<uintptr_t>(data), sizes, strides, 0, &stream, flipped};
  EXPECT_EQ(Device().Launch(tensor, 7), Launched::kYes);
  Numbers result;
  int visits = 0;
  Device().Poll([&](uint64_t ticket, const Numbers* numbers) {
    ++visits;
    EXPECT_EQ(ticket, 7u);
    ASSERT_NE(numbers, nullptr);
    result = *numbers;
  });
  EXPECT_EQ(visits, 1);
  return result;
}

class NumbersKernelTypeTest : public testing::TestWithParam<ElementType> {};

TEST_P(NumbersKernelTypeTest, AnyNumberOfElements) {
  const ElementType type = GetParam();
  Shape lengths(70);
  for (size_t i = 0; i < lengths.size(); ++i) lengths[i] = static_cast<int64_t>(i);
  for (const int64_t length : {255, 256, 1023, 4096, 4101, 20'000, 65'537}) lengths.push_back(length);
  for (const int64_t length : lengths) {
    SCOPED_TRACE(testing::Message() << "type " << static_cast<int>(type) << " elements " << length);
    const Bytes data = MakeElements(type, static_cast<size_t>(length), static_cast<unsigned>(length));
    ExpectEqual(OnDevice(type, data.data(), {length}, {1}), NumbersOf(type, data.data(), Shape{length}, Shape{1}));
  }
}

TEST_P(NumbersKernelTypeTest, AnyStrides) {
  const ElementType type = GetParam();
  const Bytes data = MakeElements(type, 70'000, 1);
  struct View {
    Shape sizes, strides;
    int64_t offset = 0;
  };
  const View views[] = {
      {{64, 64}, {1, 64}},
      {{257, 131}, {1, 257}},
      {{100, 7}, {0, 1}},
      {{100, 70}, {1, 0}},
      {{3, 5, 100}, {0, 0, 0}},
      {{5000}, {3}},
      {{50, 40}, {1000, 1}, 13},
      {{50, 40}, {1000, 2}, 13},
      {{1001}, {1}, 3},
      {{4, 3, 16, 17}, {816, 1, 51, 3}},
      {{2, 1, 30, 1, 8}, {240, 99, 8, -5, 1}},
      {{7, 2, 3, 2, 5, 3}, {1, 1000, 7, 21, 42, 210}},
      {{100}, {-1}, 99},
      {{10, 0, 7}, {1, 5, 3}},
      {{}, {}, 5},
      {Shape(16, 2), {32768, 3, 16384, 7, 1, 1, 2, 2, 0, 0, 5, 5, 5, 9, 9, 11}},
  };
  for (const View& view : views) {
    SCOPED_TRACE(testing::Message() << "type " << static_cast<int>(type) << " view " << &view - views);
    const std::byte* const first = data.data() + view.offset * static_cast<int64_t>(ElementSize(type));
    ExpectEqual(OnDevice(type, first, view.sizes, view.strides), NumbersOf(type, first, view.sizes, view.strides));
  }
}

TEST(NumbersKernelTest, FlippedSigns) {
  using enum ElementType;
  for (const ElementType type : {kFloat16, kBfloat16, kFloat32, kFloat64, kComplex32, kComplex64, kComplex128}) {
    const Bytes data = MakeElements(type, 2000, 1);
    for (const FlippedSigns flipped :
         {FlippedSigns{true, false}, FlippedSigns{false, true}, FlippedSigns{true, true}}) {
      SCOPED_TRACE(testing::Message() << "type " << static_cast<int>(type) << flipped.real << flipped.imaginary);
      const auto expect_equal = [&](const Shape& sizes, const Shape& strides) {
        ExpectEqual(OnDevice(type, data.data(), sizes, strides, flipped),
                    NumbersOf(type, data.data(), sizes, strides, flipped));
      };
      expect_equal({1001}, {1});
      expect_equal({30, 50}, {1, 31});
    }
  }
}

TEST_P(NumbersKernelTypeTest, AnyAlignment) {
  const ElementType type = GetParam();
  const Bytes data = MakeElements(type, 300, 2);
  alignas(16) std::byte memory[300 * 16 + 16];
  const Numbers expected = NumbersOf(type, data.data(), Shape{300}, Shape{1});
  for (size_t offset = 0; offset < 16; ++offset) {
    SCOPED_TRACE(testing::Message() << "type " << static_cast<int>(type) << " at " << offset);
    std::copy(data.begin(), data.end(), memory + offset);
    ExpectEqual(OnDevice(type, memory + offset, {300}, {1}), expected);
  }
}

INSTANTIATE_TEST_SUITE_P(AllTypes, NumbersKernelTypeTest, testing::ValuesIn(AllTypes()));

TEST(NumbersKernelTest, EveryBytePatternOfSmallTypes) {
  for (const ElementType type : AllTypes()) {
    const size_t size = ElementSize(type);
    if (size > 2) continue;
    Bytes all;
    for (uint32_t bits = 0; bits < 1u << (8 * size); ++bits) {
      const auto* const bytes = reinterpret_cast<const std::byte*>(&bits);
      all.insert(all.end(), bytes, bytes + size);
      // Alone, as extremes and sums then show its value exactly.
      if (size == 1) ExpectEqual(OnDevice(type, bytes, {}, {}), NumbersOf(type, bytes, {}, {}));
    }
    const Shape sizes = {static_cast<int64_t>(all.size() / size)};
    ExpectEqual(OnDevice(type, all.data(), sizes, {1}), NumbersOf(type, all.data(), sizes, Shape{1}));
  }
}

// All threads of all blocks, several units each.
TEST(NumbersKernelTest, ManyElements) {
  for (const ElementType type : {kUint8, kFloat32, kComplex128}) {
    const int64_t length = (int64_t{16} << 20) / static_cast<int64_t>(ElementSize(type)) + 5;
    const Bytes data = MakeElements(type, static_cast<size_t>(length), 3);
    ExpectEqual(OnDevice(type, data.data(), {length}, {1}), NumbersOf(type, data.data(), Shape{length}, Shape{1}));
  }
}

// Whatever the strides are.
TEST(NumbersKernelTest, EqualTensorsHaveBitEqualNumbers) {
  const Bytes data = MakeElements(kFloat32, 100'000, 4);
  Bytes transposed(data.size());
  for (size_t i = 0; i < 100'000; ++i) std::memcpy(&transposed[(i % 100 * 1000 + i / 100) * 4], &data[i * 4], 4);
  const Numbers a = OnDevice(kFloat32, data.data(), {1000, 100}, {100, 1});
  const Numbers b = OnDevice(kFloat32, transposed.data(), {1000, 100}, {1, 1000});
  EXPECT_EQ(a.fingerprint, b.fingerprint);
  EXPECT_EQ(std::bit_cast<uint64_t>(a.mean), std::bit_cast<uint64_t>(b.mean));
  EXPECT_EQ(std::bit_cast<uint64_t>(a.norm), std::bit_cast<uint64_t>(b.norm));
}

// The squares of some parts leave double's range, and the sums do.
TEST(NumbersKernelTest, BeyondTheRange) {
  const std::vector<double> wide = {1e200,  1e200,   -3e250,  0,       1e-200, 1e-180,   5e-324,
                                    5e-324, 1.7e308, 1.7e308, 1.7e308, 1.0,    -1.7e308, -1.7e308};
  for (const ElementType type : {kFloat64, kComplex128}) {
    const int64_t parts = type == kFloat64 ? 1 : 2;
    for (int64_t length = 1; length * parts <= static_cast<int64_t>(wide.size()); ++length) {
      const Numbers numbers = OnDevice(type, wide.data(), {length}, {1});
      const Numbers expected = NumbersOf(type, wide.data(), Shape{length}, Shape{1});
      EXPECT_EQ(numbers.least, expected.least);
      EXPECT_EQ(numbers.most, expected.most);
      EXPECT_EQ(std::isfinite(numbers.norm), std::isfinite(expected.norm));
      EXPECT_EQ(numbers.positive_infinities, expected.positive_infinities);
      EXPECT_EQ(numbers.fingerprint, expected.fingerprint);
    }
  }
}

// With NVIDIA's compiler, if it is here: TORCHTRACE_NVRTC names the library.
TEST(NumbersKernelTest, NvrtcCompilesIt) {
  const char* const library = std::getenv("TORCHTRACE_NVRTC");
  if (library == nullptr) GTEST_SKIP() << "TORCHTRACE_NVRTC is not set";
  const absl::StatusOr<Nvrtc> nvrtc = Nvrtc::Load({library});
  ASSERT_TRUE(nvrtc.ok()) << nvrtc.status();
  for (const int capability : {75, 80, 86, 89, 90, 100, 120, 999}) {
    const absl::StatusOr<std::string> kernel = nvrtc->Compile(kNumbersKernelSource, "numbers_kernel.cu", capability);
    ASSERT_TRUE(kernel.ok()) << capability << " " << kernel.status();
    EXPECT_NE(kernel->find(kNumbersKernelName), std::string::npos);
  }
  EXPECT_FALSE(nvrtc->Compile(kNumbersKernelSource, "numbers_kernel.cu", 10).ok());
  const absl::Status wrong = nvrtc->Compile("int f() { return x; }", "wrong.cu", 90).status();
  EXPECT_NE(wrong.message().find("wrong.cu(1): error"), std::string::npos) << wrong;
}

}  // namespace
}  // namespace torchtrace::torch_dialect
