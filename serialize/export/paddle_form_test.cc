#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "serialize/export/spellings.h"
#include "serialize/model/value.h"
#include "serialize/testing/fake_trace.h"

namespace torchtrace {
namespace {

std::string Line(const Config& config) {
  const auto line = FormatPaddle(config);
  return line.ok() ? *line : "error: " + std::string(line.status().message());
}

std::string Argument(const Value& value) { return Line(MakeConfig(1, "f", {value})); }

TEST(PaddleForm, IsPaddleApiTests) {
  Value tensor = TensorValue({31376, 768});
  EXPECT_EQ(Line(MakeConfig(1, "paddle.concat", {ItemsValue(ValueTag::kTuple, {tensor, TensorValue({1, 768})})},
                            {{"axis", IntValue(0)}})),
            "paddle.concat(tuple(Tensor([31376, 768],\"float32\"),Tensor([1, 768],\"float32\"),), axis=0, )");
  tensor.text = "bfloat16";
  EXPECT_EQ(Line(MakeConfig(1, "paddle.Tensor.__getitem__",
                            {tensor, ItemsValue(ValueTag::kSlice, {NamedValue(ValueTag::kNone), IntValue(2),
                                                                   NamedValue(ValueTag::kNone)})})),
            "paddle.Tensor.__getitem__(Tensor([31376, 768],\"bfloat16\"), slice(None,2,None), )");
  EXPECT_EQ(Line(MakeConfig(1, "torch.rand")), "torch.rand()");
}

TEST(PaddleForm, SpellsValues) {
  Value strided = TensorValue({2, 3});
  strided.device = "cuda:1";
  strided.tensor_bits = kTensorHasStride;
  strided.strides = {1, 2};
  Value complex = FloatValue(1);
  complex.tag = ValueTag::kComplex;
  complex.imaginary = -0.5;
  const struct {
    Value value;
    const char* expected;
  } kCases[] = {
      {strided, "f(Tensor([2, 3],\"float32\", place=Place(gpu:1), strides=[1, 2]), )"},
      {complex, "f(complex(1.0,-0.5), )"},
      {FloatValue(std::numeric_limits<double>::infinity()), "f(math.inf, )"},
      {FloatValue(-std::numeric_limits<double>::infinity()), "f(-math.inf, )"},
      {FloatValue(std::numeric_limits<double>::quiet_NaN()), "f(nan, )"},
      {NamedValue(ValueTag::kList), "f(list[], )"},
      {ItemsValue(ValueTag::kList, {IntValue(1), IntValue(2)}), "f(list[1,2,], )"},
      {ItemsValue(ValueTag::kSize, {IntValue(1), IntValue(2)}), "f(paddle.Size([1, 2]), )"},
      {NamedValue(ValueTag::kDtype, "float32"), "f(Dtype(float32), )"},
      {NamedValue(ValueTag::kDevice, "cpu"), "f(Place(cpu), )"},
      {NamedValue(ValueTag::kDevice, "cuda:0"), "f(Place(gpu:0), )"},
      {NamedValue(ValueTag::kType, "numpy.int64"), "f(type(numpy.int64), )"},
      {TextValue("i,j -> ij"), "f(\"i,j -> ij\", )"},
      {NamedValue(ValueTag::kEllipsis), "f(Ellipsis, )"},
      {NamedValue(ValueTag::kFalse), "f(False, )"},
  };
  for (const auto& test : kCases) EXPECT_EQ(Argument(test.value), test.expected);
}

TEST(PaddleForm, SaysWhatHasNoSpelling) {
  EXPECT_EQ(Argument(TextValue("a\"b")), "error: a string with a quote, a backslash or a control character");
  EXPECT_EQ(Argument(TextValue("a\nb")), "error: a string with a quote, a backslash or a control character");
  EXPECT_EQ(Argument(NamedValue(ValueTag::kDict)), "error: a dict");
  EXPECT_EQ(Argument(NamedValue(ValueTag::kMemoryFormat, "channels_last")), "error: a memory format");
  EXPECT_EQ(Argument(NamedValue(ValueTag::kDevice, "meta")), "error: a device that is neither cpu nor gpu");
  EXPECT_EQ(Argument(TensorValue({std::nullopt})), "error: a symbolic size");
  EXPECT_EQ(Line(MakeConfig(1, "f", {}, {{"a b", IntValue(1)}})), "error: an argument's name that needs quotes");
  EXPECT_EQ(Line(MakeConfig(1, "f g")), "error: a name that needs quotes");
}

}  // namespace
}  // namespace torchtrace
