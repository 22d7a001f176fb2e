#include "serialize/configs/family.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "serialize/forms/forms.h"
#include "serialize/testing/fake_trace.h"
#include "serialize/testing/value_samples.h"

namespace torchtrace {
namespace {

Value Strided(std::vector<Dim> shape, std::vector<Dim> strides) {
  Value value = TensorValue(std::move(shape));
  value.tensor_bits = kTensorHasStride;
  value.strides = std::move(strides);
  return value;
}

// `size 2, stride 1, int 3, float 0.5, int ?`
std::string Numbers(const Config& config) {
  static constexpr const char* kKinds[] = {"size", "stride", "int", "float"};
  std::vector<std::string> texts;
  for (const FamilyNumber& number : FindFamily(config).numbers) {
    const std::string value = number.symbolic                       ? "?"
                              : number.kind == FamilyNumber::kFloat ? FormatFloat(number.real)
                                                                    : absl::StrCat(number.integer);
    texts.push_back(absl::StrCat(kKinds[number.kind], " ", value));
  }
  return absl::StrJoin(texts, ", ");
}

TEST(Family, TextNumbersAndNames) {
  struct Row {
    Config config;
    std::string family;
    std::string numbers;
    std::string names;
  };
  const std::vector<Row> rows = {
      {MakeConfig(1, "f", {TensorValue({2, 3}), TensorValue({3})}, {{"alpha", IntValue(10)}}),
       R"(f(Tensor([*, *], "float32"), Tensor([*], "float32"), alpha=*))", "size 2, size 3, size 3, int 10",
       "args[0].shape[0], args[0].shape[1], args[1].shape[0], alpha"},
      {MakeConfig(1, "f", {Strided({2, Dim()}, {1, 2})}), R"(f(Tensor([*, *], "float32", stride=*)))",
       "size 2, size ?, stride 1, stride 2",
       "args[0].shape[0], args[0].shape[1], args[0].stride[0], args[0].stride[1]"},
      {MakeConfig(1, "f", {FloatValue(0.5), NamedValue(ValueTag::kSymbol, "SymInt"), NamedValue(ValueTag::kTrue)}),
       "f(*, *, True)", "float 0.5, int ?", "args[0], args[1]"},
      {MakeConfig(1, "f", {NamedValue(ValueTag::kSymbol, "SymFloat"), NamedValue(ValueTag::kSymbol, "SymBool")}),
       "f(*, SymBool)", "float ?", "args[0]"},
      {MakeConfig(1, "f",
                  {ItemsValue(ValueTag::kList, {IntValue(4), ItemsValue(ValueTag::kSize, {IntValue(5), IntValue(6)}),
                                                IntValue(7), TextValue("x")})}),
       R"(f(list[*, torch.Size([*, *]), *, "x"]))", "int 4, size 5, size 6, int 7",
       "args[0][0], args[0][1][0], args[0][1][1], args[0][2]"},
      {MakeConfig(1, "f", {ItemsValue(ValueTag::kDict, {IntValue(1), IntValue(2), TextValue("k"), FloatValue(3)})}),
       R"(f(dict{1: *, "k": *}))", "int 2, float 3.0", "args[0][1], args[0][\"k\"]"},
      {MakeConfig(1, "f", {}, {{"s", ItemsValue(ValueTag::kSlice, {Value(), IntValue(2), Value()})}}),
       "f(s=slice(None, *, None))", "int 2", "s[1]"},
      {MakeConfig(1, "f", {NamedValue(ValueTag::kBigInt, "18446744073709551616"), NamedValue(ValueTag::kComplex)}),
       "f(18446744073709551616, complex(0.0, 0.0))", "", ""},
      {MakeConfig(1, "f"), "f()", "", ""},
  };
  for (const Row& row : rows) {
    EXPECT_EQ(FormatFamily(row.config), row.family);
    EXPECT_EQ(Numbers(row.config), row.numbers) << row.family;
    EXPECT_EQ(absl::StrJoin(NameFamily(row.config).numbers, ", "), row.names) << row.family;
  }
}

TEST(Family, Tensors) {
  const Config config = MakeConfig(
      1, "f", {IntValue(1), ItemsValue(ValueTag::kList, {Strided({2, 3}, {1, 2}), TensorValue({})}), TensorValue({4})});
  const FamilyMember member = FindFamily(config);
  ASSERT_EQ(member.tensors.size(), 3u);
  EXPECT_EQ(member.tensors[0].first, 1u);
  EXPECT_EQ(member.tensors[0].rank, 2u);
  EXPECT_EQ(member.tensors[1].rank, 0u);
  EXPECT_EQ(member.tensors[2].first, 5u);
  EXPECT_EQ(member.numbers[member.tensors[2].first].integer, 4);
  EXPECT_EQ(absl::StrJoin(NameFamily(config).tensors, ", "), "args[1][0], args[1][1], args[2]");
}

TEST(Family, SameAndOther) {
  const auto key = [](const Value& value, int level = 1) { return FindFamily(MakeConfig(level, "f", {value})).key; };
  EXPECT_EQ(key(TensorValue({2, 3})), key(TensorValue({5, Dim()})));
  EXPECT_EQ(key(IntValue(1)), key(FloatValue(1.5)));
  EXPECT_EQ(key(IntValue(1)), key(NamedValue(ValueTag::kSymbol, "SymInt")));
  EXPECT_NE(key(TensorValue({2, 3})), key(TensorValue({2})));
  EXPECT_NE(key(TensorValue({2, 3})), key(Strided({2, 3}, {1, 2})));
  EXPECT_NE(key(TensorValue({2}), 1), key(TensorValue({2}), 2));
  EXPECT_NE(key(NamedValue(ValueTag::kTrue)), key(NamedValue(ValueTag::kFalse)));
  EXPECT_NE(key(ItemsValue(ValueTag::kList, {IntValue(1)})), key(ItemsValue(ValueTag::kTuple, {IntValue(1)})));
  EXPECT_NE(key(ItemsValue(ValueTag::kList, {IntValue(1)})),
            key(ItemsValue(ValueTag::kList, {IntValue(1), IntValue(1)})));
  Value half = TensorValue({2, 3});
  half.text = "float16";
  EXPECT_NE(key(TensorValue({2, 3})), key(half));
}

// For one value of every kind: equal keys mean equal texts, and there are as many names as numbers.
TEST(Family, KeyAndTextAgree) {
  std::map<std::string, std::string> text_of_key, key_of_text;
  for (const ValueSample& sample : ValueSamples()) {
    const Config config = SampleConfig(sample, "f");
    const FamilyMember member = FindFamily(config);
    const std::string text = FormatFamily(config);
    EXPECT_EQ(text_of_key.emplace(member.key, text).first->second, text) << sample.name;
    EXPECT_EQ(key_of_text.emplace(text, member.key).first->second, member.key) << sample.name;
    EXPECT_EQ(NameFamily(config).numbers.size(), member.numbers.size()) << sample.name;
    const absl::StatusOr<Config> masked = ParseConfig(member.key);
    ASSERT_TRUE(masked.ok()) << sample.name;
    EXPECT_EQ(FindFamily(*masked).key, member.key) << sample.name;
  }
}

TEST(Family, NumbersAreEqualByBits) {
  const auto number = [](double real) { return FamilyNumber{.kind = FamilyNumber::kFloat, .real = real}; };
  EXPECT_TRUE(number(__builtin_nan("")) == number(__builtin_nan("")));
  EXPECT_FALSE(number(0.0) == number(-0.0));
}

}  // namespace
}  // namespace torchtrace
