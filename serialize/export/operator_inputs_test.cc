#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "serialize/export/spellings.h"
#include "serialize/model/value.h"
#include "serialize/testing/fake_trace.h"
#include "serialize/testing/value_samples.h"

namespace torchtrace {
namespace {

Value Tensor(std::vector<Dim> shape, const std::string& dtype, std::vector<Dim> strides = {}) {
  Value value = TensorValue(std::move(shape));
  value.text = dtype;
  value.device = "cuda:3";
  if (!strides.empty()) value.tensor_bits = kTensorHasStride;
  value.strides = std::move(strides);
  return value;
}

std::string NameOf(const Config& config) {
  const auto name = OperatorName(config);
  return name.ok() ? *name : "error: " + std::string(name.status().message());
}

std::string InputsOf(const Config& config) {
  const auto inputs = OperatorInputs(config);
  return inputs.ok() ? *inputs : "error: " + std::string(inputs.status().message());
}

std::string InputOf(const Value& value) { return InputsOf(MakeConfig(2, "aten::f", {value})); }

TEST(OperatorName, IsThatOfTheOverload) {
  EXPECT_EQ(NameOf(MakeConfig(2, "aten::addmm")), "aten.addmm.default");
  EXPECT_EQ(NameOf(MakeConfig(2, "aten::add.Tensor")), "aten.add.Tensor");
  EXPECT_EQ(NameOf(MakeConfig(2, "aten::_foreach_add_.ScalarList")), "aten._foreach_add_.ScalarList");
  EXPECT_EQ(NameOf(MakeConfig(1, "torch.add")), "error: not of level 2");
  EXPECT_EQ(NameOf(MakeConfig(2, "torchvision::nms")), "error: an operator outside aten");
  EXPECT_EQ(NameOf(MakeConfig(2, "aten::a b")), "error: a name that is not an operator's");
}

// The lines that FORMATS.md shows.
TEST(OperatorInputs, AreWhatTorchBenchWrites) {
  EXPECT_EQ(InputsOf(MakeConfig(
                2, "aten::addmm",
                {Tensor({768}, "float16"), Tensor({512, 768}, "float16"), Tensor({768, 768}, "float16", {1, 768})})),
            "((T([768], f16), T([512, 768], f16), T([768, 768], f16, stride=(1, 768))), {})");
  EXPECT_EQ(InputsOf(MakeConfig(2, "aten::_to_copy", {Tensor({4, 128}, "bool")},
                                {{"dtype", NamedValue(ValueTag::kDtype, "float16")},
                                 {"layout", NamedValue(ValueTag::kLayout, "strided")},
                                 {"device", NamedValue(ValueTag::kDevice, "cuda:0")}})),
            "((T([4, 128], b8),), {'dtype': f16, 'layout': torch.strided, 'device': 'cuda'})");
  EXPECT_EQ(InputsOf(MakeConfig(
                2, "aten::cat",
                {ItemsValue(ValueTag::kList, {Tensor({2, 8}, "float32"), Tensor({2, 8}, "float32")}), IntValue(1)})),
            "(([T([2, 8], f32), T([2, 8], f32)], 1), {})");
  EXPECT_EQ(InputsOf(MakeConfig(2, "aten::f")), "((), {})");
}

TEST(OperatorInputs, AreExpressionsThatTheLoaderCanEvaluate) {
  const struct {
    Value value;
    const char* expected;
  } kCases[] = {
      {NamedValue(ValueTag::kNone), "((None,), {})"},
      {NamedValue(ValueTag::kUndefined), "((None,), {})"},
      {NamedValue(ValueTag::kTrue), "((True,), {})"},
      {IntValue(-3), "((-3,), {})"},
      {NamedValue(ValueTag::kBigInt, "36893488147419103232"), "((36893488147419103232,), {})"},
      {FloatValue(0.1), "((0.1,), {})"},
      {FloatValue(1e-5), "((1e-05,), {})"},
      {FloatValue(std::nan("")), "((float('nan'),), {})"},
      {FloatValue(-std::numeric_limits<double>::infinity()), "((-inf,), {})"},
      {Tensor({}, "bfloat16"), "((T([], bf16),), {})"},
      {Tensor({3}, "float8_e4m3fn", {2}), "((T([3], torch.float8_e4m3fn, stride=(2,)),), {})"},
      {ItemsValue(ValueTag::kTuple, {IntValue(1)}), "(((1,),), {})"},
      {NamedValue(ValueTag::kTuple), "(((),), {})"},
      {ItemsValue(ValueTag::kSet, {IntValue(1)}), "(({1},), {})"},
      {NamedValue(ValueTag::kSet), "((set(),), {})"},
      {ItemsValue(ValueTag::kFrozenSet, {IntValue(1)}), "((frozenset({1}),), {})"},
      {ItemsValue(ValueTag::kDict, {TextValue("a"), IntValue(1)}), "(({'a': 1},), {})"},
      {ItemsValue(ValueTag::kSize, {IntValue(2), IntValue(3)}), "((torch.Size([2, 3]),), {})"},
      {ItemsValue(ValueTag::kSlice, {NamedValue(ValueTag::kNone), IntValue(2), NamedValue(ValueTag::kNone)}),
       "((slice(None, 2, None),), {})"},
      {ItemsValue(ValueTag::kRange, {IntValue(0), IntValue(4), IntValue(2)}), "((range(0, 4, 2),), {})"},
      {NamedValue(ValueTag::kEllipsis), "((Ellipsis,), {})"},
      {NamedValue(ValueTag::kMemoryFormat, "channels_last"), "((torch.channels_last,), {})"},
      {TextValue("it's"), "((\"it's\",), {})"},
      {TextValue("'\""), "(('\\'\"',), {})"},
      {TextValue("a\nb\\"), "(('a\\nb\\\\',), {})"},
      {TextValue("\x01"), "(('\\x01',), {})"},
      {TextValue("\xe2\x80\xa8"), "(('\\u2028',), {})"},
      {TextValue("\xed\xa0\x80"), "(('\\ud800',), {})"},
      {TextValue("\xc3\xa4"), "(('\xc3\xa4',), {})"},
  };
  for (const auto& test : kCases) EXPECT_EQ(InputOf(test.value), test.expected);
}

TEST(OperatorInputs, SaysWhatTheyCannotHold) {
  Value cut = TextValue("ab");
  cut.whole = 10;
  Value cut_list = ItemsValue(ValueTag::kList, {IntValue(1)});
  cut_list.whole = 2;
  Value sparse = Tensor({2}, "float32");
  sparse.tensor_bits = kTensorHasLayout;
  sparse.layout = "sparse_coo";
  const struct {
    Value value;
    const char* expected;
  } kCases[] = {
      {cut, "error: a string that was cut"},
      {cut_list, "error: a container that was cut"},
      {sparse, "error: a tensor that is not strided"},
      {Tensor({std::nullopt}, "float32"), "error: a symbolic size"},
      {ItemsValue(ValueTag::kList, {NamedValue(ValueTag::kGenerator, "cpu")}), "error: a torch.Generator"},
      {NamedValue(ValueTag::kObject, "x.Y"), "error: an object of another library"},
      {TextValue("f16"), "error: a string that TorchBench's loader takes for a dtype"},
      {TextValue("\xff"), "error: a string that is not UTF-8"},
      {NamedValue(ValueTag::kDtype, "a b"), "error: a dtype, layout or memory format without a name in torch"},
  };
  for (const auto& test : kCases) EXPECT_EQ(InputOf(test.value), test.expected);
}

TEST(OperatorInputs, AreOneLineWhateverTheValue) {
  for (const ValueSample& sample : ValueSamples()) {
    const std::string inputs = InputsOf(SampleConfig(sample, "aten::f"));
    for (const char c : inputs) EXPECT_TRUE(c < 0 || c >= 0x20) << sample.name;
  }
}

}  // namespace
}  // namespace torchtrace
