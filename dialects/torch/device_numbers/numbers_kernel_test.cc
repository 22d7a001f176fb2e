// The kernel, run on the CPU, against NumbersOf.

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "dialects/torch/device_numbers/device_numbers.h"
#include "dialects/torch/device_numbers/testing/kernel_on_cpu.h"
#include "dialects/torch/device_numbers/testing/stand_in_device.h"
#include "dialects/torch/numbers/numbers.h"
#include "dialects/torch/numbers/testing/number_samples.h"
#include "gtest/gtest.h"

namespace torchtrace::torch_dialect {
namespace {

using enum ElementType;
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
  ExpectSameButSums(numbers, expected);
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
  ElementMaker maker(type);
  for (const int64_t length : lengths) {
    SCOPED_TRACE(testing::Message() << "type " << static_cast<int>(type) << " elements " << length);
    const Bytes data = maker.Make(static_cast<size_t>(length));
    ExpectEqual(OnDevice(type, data.data(), {length}, {1}), NumbersOf(type, data.data(), Shape{length}, Shape{1}));
  }
}

TEST_P(NumbersKernelTypeTest, AnyStrides) {
  const ElementType type = GetParam();
  const Bytes data = ElementMaker(type).Make(kViewedElements);
  for (const View& view : ViewSamples()) {
    SCOPED_TRACE(testing::Message() << "type " << static_cast<int>(type) << " view "
                                    << testing::PrintToString(view.sizes));
    const std::byte* const first = data.data() + view.offset * static_cast<int64_t>(ElementSize(type));
    ExpectEqual(OnDevice(type, first, view.sizes, view.strides), NumbersOf(type, first, view.sizes, view.strides));
  }
}

TEST(NumbersKernelTest, FlippedSigns) {
  for (const ElementType type : {kFloat16, kBfloat16, kFloat32, kFloat64, kComplex32, kComplex64, kComplex128}) {
    const Bytes data = ElementMaker(type).Make(2000);
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
  const Bytes data = ElementMaker(type).Make(300);
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
    const Bytes all = EveryPattern(type);
    // Alone, as extremes and sums then show its value exactly.
    for (size_t at = 0; size == 1 && at < all.size(); ++at) {
      ExpectEqual(OnDevice(type, &all[at], {}, {}), NumbersOf(type, &all[at], {}, {}));
    }
    const Shape sizes = {static_cast<int64_t>(all.size() / size)};
    ExpectEqual(OnDevice(type, all.data(), sizes, {1}), NumbersOf(type, all.data(), sizes, Shape{1}));
  }
}

// All threads of all blocks, several units each.
TEST(NumbersKernelTest, ManyElements) {
  for (const ElementType type : {kUint8, kFloat32, kComplex128}) {
    const int64_t length = (int64_t{16} << 20) / static_cast<int64_t>(ElementSize(type)) + 5;
    const Bytes data = ElementMaker(type).Make(static_cast<size_t>(length));
    ExpectEqual(OnDevice(type, data.data(), {length}, {1}), NumbersOf(type, data.data(), Shape{length}, Shape{1}));
  }
}

// Whatever the strides are.
TEST(NumbersKernelTest, EqualTensorsHaveBitEqualNumbers) {
  const Bytes data = ElementMaker(kFloat32).Make(100'000);
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
