#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "nlohmann/json.hpp"
#include "serialize/configs/dedup.h"
#include "serialize/forms/forms.h"
#include "serialize/model/config.h"
#include "serialize/testing/fake_trace.h"
#include "serialize/testing/value_samples.h"

namespace torchtrace {
namespace {

Coarsening CoarseningOf(const std::string& names) {
  absl::StatusOr<Coarsening> coarsening = Coarsening::Parse(absl::StrSplit(names, ',', absl::SkipEmpty()));
  EXPECT_TRUE(coarsening.ok()) << coarsening.status();
  return *coarsening;
}

Value Sample(const std::string& name) {
  for (const ValueSample& sample : ValueSamples()) {
    if (sample.name == name) return SampleConfig(sample, "f").args[0];
  }
  ADD_FAILURE() << "no sample " << name;
  return Value();
}

const std::string kAll = "device,stride,layout,dtype,shape,scalars,strings,level";

TEST(Coarsening, WhatEachNameForgets) {
  struct Row {
    std::string names;
    Value value;
    std::string text;
  };
  const Value strided = Sample("tensor_strided_on_cuda");
  const Value sparse = Sample("tensor_sparse");
  const Value plain = TensorValue({2, 3});
  const Value scalar_tensor = Sample("tensor_of_rank_0");
  const Value ndarray = Sample("ndarray");
  const Value storage = Sample("storage");
  const Value symbol = NamedValue(ValueTag::kSymbol, "SymInt");
  const std::vector<Row> rows = {
      {"device", plain, R"(Tensor([2, 3], "float32", device=*))"},
      {"device", strided, R"(Tensor([2, 3], "float16", device=*, stride=[1, 2]))"},
      {"device", Sample("device"), "*"},
      {"device", Sample("generator"), "torch.Generator(*)"},
      {"device", storage, "Storage(*, 24)"},
      {"device", TextValue("cuda:0"), "*"},
      {"device", TextValue("cpu"), "*"},
      {"device", TextValue("cpu:"), R"("cpu:")"},
      {"device", TextValue("cuda:x"), R"("cuda:x")"},
      {"device", TextValue("mean"), R"("mean")"},
      {"device", IntValue(0), "0"},
      {"stride", plain, R"(Tensor([2, 3], "float32", stride=*))"},
      {"stride", strided, R"(Tensor([2, 3], "float16", device="cuda:0", stride=*))"},
      {"stride", scalar_tensor, R"(Tensor([], "int64"))"},
      {"stride", Sample("tensor_of_unknown_shape"), R"(Tensor(None, "float32"))"},
      {"layout", plain, R"(Tensor([2, 3], "float32", layout=*))"},
      {"layout", sparse, R"(Tensor([4], "float32", layout=*))"},
      {"layout", Sample("layout"), "*"},
      {"layout", Sample("memory_format"), "*"},
      {"dtype", plain, "Tensor([2, 3], *)"},
      {"dtype", Sample("dtype"), "*"},
      {"dtype", ndarray, "ndarray([2, 3], *)"},
      {"dtype", Sample("numpy_scalar"), "numpy_scalar(*)"},
      {"shape", plain, R"(Tensor([*, *], "float32"))"},
      {"shape", TensorValue({2, Dim()}), R"(Tensor([*, *], "float32"))"},
      {"shape", strided, R"(Tensor([*, *], "float16", device="cuda:0", stride=*))"},
      {"shape", ndarray, R"(ndarray([*, *], "float32"))"},
      {"shape", storage, R"(Storage("cpu", *))"},
      {"shape", Sample("tensor_of_unknown_shape"), R"(Tensor(None, "float32"))"},
      {"shape", ItemsValue(ValueTag::kSize, {IntValue(2), symbol}), "torch.Size([*, *])"},
      {"shape", ItemsValue(ValueTag::kTuple, {IntValue(2)}), "tuple(2)"},
      {"scalars", IntValue(2), "*"},
      {"scalars", Sample("true"), "*"},
      {"scalars", Sample("big_int"), "*"},
      {"scalars", Sample("float_nan"), "*"},
      {"scalars", Sample("complex"), "*"},
      {"scalars", symbol, "*"},
      {"scalars", Sample("numpy_scalar"), "*"},
      {"scalars", Sample("none"), "None"},
      {"scalars", Sample("slice"), "slice(None, *, None)"},
      {"scalars", Sample("range"), "range(*, *, *)"},
      {"scalars", Sample("list_cut"), "list[*, *, ...+998]"},
      {"scalars", Sample("set"), "set(*, *)"},
      {"scalars", Sample("dict"), R"(dict{"a": *, "b c": None})"},
      {"scalars", Sample("dict_of_ints"), "dict{1: *, ...+2}"},
      {"scalars", ItemsValue(ValueTag::kList, {plain, ItemsValue(ValueTag::kTuple, {IntValue(1)})}),
       R"(list[Tensor([2, 3], "float32"), tuple(*)])"},
      {"strings", TextValue("mean"), "*"},
      {"strings", Sample("str_cut"), "*"},
      {"strings", Sample("bytes"), "*"},
      {"strings", Sample("dict"), R"(dict{"a": 1, "b c": None})"},
      {"strings", Sample("object"), R"(object("pkg.Class"))"},
      {"strings", Sample("function"), R"(function("__main__.f.<locals>.<lambda>"))"},
      {"level", plain, R"(Tensor([2, 3], "float32"))"},
      {"shape,dtype,device,stride,layout", strided, "Tensor([*, *], *, device=*, stride=*, layout=*)"},
      {kAll, Sample("undefined"), "Tensor(undefined)"},
      {kAll, Sample("ellipsis"), "Ellipsis"},
  };
  for (const Row& row : rows) {
    const Config config = CoarseningOf(row.names).Apply(MakeConfig(1, "f", {row.value}));
    EXPECT_EQ(FormatConfig(config), "f(" + row.text + ")") << row.names << " of " << FormatValue(row.value);
  }
}

TEST(Coarsening, ArgumentsNamedDevice) {
  const Coarsening device = CoarseningOf("device");
  for (const Value& value : {TextValue("weird"), IntValue(0), Sample("device"), Sample("none")}) {
    EXPECT_EQ(FormatConfig(device.Apply(MakeConfig(1, "f", {}, {{"device", value}}))), "f(device=*)");
    const Config other = MakeConfig(1, "f", {}, {{"dim", IntValue(0)}});
    EXPECT_EQ(FormatConfig(device.Apply(other)), "f(dim=0)");
  }
}

TEST(Coarsening, Level) {
  const Coarsening level = CoarseningOf("level");
  EXPECT_EQ(level.Apply(EncodeConfig(MakeConfig(0, "f"))), level.Apply(EncodeConfig(MakeConfig(1, "f"))));
  EXPECT_EQ(level.Apply(MakeConfig(1, "f")).level, kAnyLevel);
}

TEST(Coarsening, ResultIsAValidConfigAndStays) {
  for (const std::string& names : {std::string("device"), std::string("shape"), std::string("shape,stride"), kAll}) {
    const Coarsening coarsening = CoarseningOf(names);
    for (const ValueSample& sample : ValueSamples()) {
      const std::string once = coarsening.Apply(EncodeConfig(SampleConfig(sample, "f")));
      const absl::StatusOr<Config> parsed = ParseConfig(once);
      ASSERT_TRUE(parsed.ok()) << names << " " << sample.name;
      EXPECT_EQ(EncodeConfig(*parsed), once) << names << " " << sample.name;
      EXPECT_EQ(coarsening.Apply(once), once) << names << " " << sample.name;
    }
  }
}

TEST(Coarsening, NothingForgottenIsTheSameBytes) {
  EXPECT_TRUE(CoarseningOf("").empty());
  EXPECT_FALSE(CoarseningOf("dtype").empty());
  for (const ValueSample& sample : ValueSamples()) {
    const std::string identity = EncodeConfig(SampleConfig(sample, "f"));
    EXPECT_EQ(CoarseningOf("").Apply(identity), identity);
  }
  EXPECT_EQ(CoarseningOf(kAll).Apply("no config"), "no config");
}

// Placeholders can't be mistaken for real values.
TEST(Coarsening, PlaceholdersAreNoValues) {
  EXPECT_EQ(FormatValue(TextValue("*")), R"("*")");
  for (const ValueSample& sample : ValueSamples()) {
    EXPECT_EQ(sample.text.find("(*"), std::string::npos) << sample.name;
    EXPECT_NE(sample.text, "*");
  }
}

TEST(Coarsening, OtherForms) {
  Config config = MakeConfig(1, "f", {Sample("tensor_strided_on_cuda"), IntValue(3), Sample("storage")});
  config = CoarseningOf(kAll).Apply(config);
  EXPECT_EQ(DumpJson(ConfigToJson(config, {})),
            R"({"level":null,"api":"f","args":[{"type":"torch.Tensor","shape":["*","*"],"dtype":"*","device":"*",)"
            R"("stride":["*","*"],"layout":"*"},{"type":"symbol","value":"*"},)"
            R"({"type":"torch.UntypedStorage","device":"*","nbytes":"*"}],"kwargs":{}})");
  EXPECT_EQ(FormatYamlItem(MakeConfig(1, "f", {AnyValue()}), {}),
            "- api: f\n  args: [{type: symbol, value: \"*\"}]\n  kwargs: {}\n");
}

TEST(Coarsening, UnknownNames) {
  const auto message = [](const std::string& name) {
    return std::string(Coarsening::Parse({"device", name}).status().message());
  };
  EXPECT_EQ(message("dtypes"),
            "'dtypes' can't be ignored, did you mean dtype? there are device, stride, layout, dtype, "
            "shape, scalars, strings, level");
  EXPECT_EQ(message("colour"),
            "'colour' can't be ignored; there are device, stride, layout, dtype, shape, scalars, "
            "strings, level");
}

}  // namespace
}  // namespace torchtrace
