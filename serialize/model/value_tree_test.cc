#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>

#include "serialize/model/value.h"
#include "serialize/testing/value_samples.h"

namespace torchtrace {
namespace {

TEST(ValueTree, SamplesCoverEveryTag) {
  std::set<int> tags;
  for (const ValueSample& sample : ValueSamples()) tags.insert(static_cast<uint8_t>(sample.bytes[0]));
  EXPECT_EQ(tags.size(), kLastValueTag + 1u);
}

TEST(ValueTree, EncodeIsTheInverseOfRead) {
  for (const ValueSample& sample : ValueSamples()) {
    ByteReader reader(sample.bytes);
    Value value;
    ASSERT_TRUE(ReadValue(&reader, &value).ok()) << sample.name;
    EXPECT_TRUE(reader.done()) << sample.name;
    std::string bytes;
    EncodeValue(value, &bytes);
    EXPECT_EQ(bytes, sample.bytes) << sample.name;
    EXPECT_TRUE(value == value) << sample.name;
  }
}

bool IsCut(const Value& value) {
  const uint64_t per_item = value.tag == ValueTag::kDict ? 2 : 1;
  const bool is_text = value.tag == ValueTag::kString || value.tag == ValueTag::kBytes;
  return value.tag == ValueTag::kDeep || (value.tag == ValueTag::kBigInt && value.text.ends_with(" bits")) ||
         (is_text && value.whole > value.text.size()) ||
         (IsContainer(value.tag) && value.whole > value.items.size() / per_item) ||
         std::any_of(value.items.begin(), value.items.end(), IsCut);
}

TEST(ValueTree, FindsCutValues) {
  size_t cut = 0;
  for (const ValueSample& sample : ValueSamples()) {
    ByteReader tree_reader(sample.bytes);
    Value value;
    ASSERT_TRUE(ReadValue(&tree_reader, &value).ok()) << sample.name;
    // In a list after a whole one.
    std::string list;
    ValueWriter(&list).Container(ValueTag::kList, 2, 2);
    ValueWriter(&list).None();
    list += sample.bytes;
    ByteReader reader(list);
    EXPECT_EQ(FindsCutValue(&reader, 1), IsCut(value)) << sample.name;
    cut += IsCut(value);
    if (IsCut(value)) continue;
    EXPECT_TRUE(reader.done()) << sample.name;
    for (size_t bytes = 0; bytes < list.size(); ++bytes) {
      ByteReader shorter(std::string_view(list).substr(0, bytes));
      EXPECT_FALSE(FindsCutValue(&shorter, 1)) << sample.name << " cut to " << bytes;
    }
  }
  EXPECT_GT(cut, 3u);
}

TEST(ValueTree, EveryCutIsAnError) {
  for (const ValueSample& sample : ValueSamples()) {
    for (size_t bytes = 0; bytes < sample.bytes.size(); ++bytes) {
      ByteReader reader(std::string_view(sample.bytes).substr(0, bytes));
      Value value;
      EXPECT_FALSE(ReadValue(&reader, &value).ok()) << sample.name << " cut to " << bytes;
    }
  }
}

TEST(ValueTree, FlippedBitsNeitherCrashNorAllocateWithoutBound) {
  for (const ValueSample& sample : ValueSamples()) {
    for (size_t bit = 0; bit < 8 * sample.bytes.size(); ++bit) {
      std::string bytes = sample.bytes;
      bytes[bit / 8] ^= static_cast<char>(1 << bit % 8);
      ByteReader reader(bytes);
      Value value;
      (void)ReadValue(&reader, &value);
    }
  }
}

TEST(ValueTree, NestingIsLimited) {
  const auto nested = [](int depth) {
    std::string bytes;
    ValueWriter writer(&bytes);
    for (int i = 0; i < depth; ++i) writer.Container(ValueTag::kList, 1, 1);
    writer.None();
    return bytes;
  };
  Value value;
  const std::string deepest = nested(kMaxValueDepth);
  ByteReader good(deepest);
  EXPECT_TRUE(ReadValue(&good, &value).ok());
  const std::string deeper = nested(100'000);
  ByteReader bad(deeper);
  const absl::Status status = ReadValue(&bad, &value);
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_NE(std::string(status.message()).find("nesting"), std::string::npos) << status;
}

TEST(ValueTree, ErrorsNameTheOffset) {
  ByteReader reader("\x63");
  Value value;
  EXPECT_EQ(std::string(ReadValue(&reader, &value).message()), "byte 0: unknown value tag 99");
}

TEST(ValueTree, EqualityIsByBits) {
  Value zero;
  zero.tag = ValueTag::kFloat;
  Value minus_zero = zero;
  minus_zero.real = -0.0;
  EXPECT_FALSE(zero == minus_zero);
}

}  // namespace
}  // namespace torchtrace
