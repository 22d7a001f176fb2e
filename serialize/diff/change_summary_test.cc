#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "serialize/diff/config_diff.h"
#include "serialize/testing/fake_trace.h"

namespace torchtrace {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// The changes as lines, then the rows that they don't explain.
std::vector<std::string> ChangesBetween(FakeTrace* a, FakeTrace* b) {
  CommonConfigs configs;
  const ConfigDiff diff = CompareConfigs(a, b, {}, /*compare_counts=*/true, &configs).value();
  const ChangeSummary summary = SummarizeChanges(diff, configs);
  static constexpr const char* kKinds[] = {"batch", "size", "dtype", "device", "value", "calls"};
  std::vector<std::string> lines;
  for (const CommonChange& change : summary.changes) {
    std::string line =
        absl::StrCat(kKinds[change.kind], " ", change.a, " -> ", change.b, " in ", change.configs, "/", change.apis);
    for (const auto& multiple : change.multiples) {
      absl::StrAppend(&line, ", ", multiple.a, " -> ", multiple.b, " in ", multiple.configs);
    }
    lines.push_back(line);
  }
  for (size_t i = 0; i < diff.configs.size(); ++i) {
    const ConfigDifference& row = diff.configs[i];
    if (!summary.explains_config[i]) lines.push_back(configs.Text(row.a == CommonConfigs::kLeftOut ? row.b : row.a));
  }
  return lines;
}

Value Tensor(std::vector<Dim> shape, const std::string& dtype = "float32", const std::string& device = "cpu") {
  Value value = TensorValue(std::move(shape));
  value.text = dtype;
  value.device = device;
  return value;
}

// The calls of a layer with that batch size.
void AddLayer(FakeTrace* trace, int64_t batch, int64_t width, const std::string& dtype = "float32",
              const std::string& device = "cpu") {
  trace->Call(
      MakeConfig(1, "linear", {Tensor({batch, 128, width}, dtype, device), Tensor({width, width}, dtype, device)}));
  trace->Call(MakeConfig(1, "relu", {Tensor({batch, 128, width}, dtype, device)}));
  trace->Call(
      MakeConfig(1, "view", {Tensor({batch, 128, width}, dtype, device), IntValue(batch * 128), IntValue(width)}));
  trace->Call(MakeConfig(2, "addmm", {Tensor({batch * 128, width}, dtype, device)}));
  trace->Call(MakeConfig(1, "add_", {Tensor({width, width}, dtype, device), FloatValue(0.1)}));
}

TEST(ChangeSummary, ABatchWithItsMultiples) {
  FakeTrace a, b;
  AddLayer(&a, 2, 64);
  AddLayer(&b, 4, 64);
  EXPECT_THAT(ChangesBetween(&a, &b), ElementsAre("batch 2 -> 4 in 4/4, 256 -> 512 in 2"));
  b.Call(MakeConfig(1, "gelu"));
  EXPECT_THAT(ChangesBetween(&a, &b), ElementsAre("batch 2 -> 4 in 4/4, 256 -> 512 in 2", "gelu()"));
}

TEST(ChangeSummary, AnotherSizeIsNoBatch) {
  FakeTrace a, b;
  AddLayer(&a, 2, 64);
  AddLayer(&b, 2, 96);
  EXPECT_THAT(ChangesBetween(&a, &b), ElementsAre("size 64 -> 96 in 5/5"));
}

TEST(ChangeSummary, DtypesAndDevices) {
  FakeTrace a, b;
  AddLayer(&a, 2, 64);
  AddLayer(&b, 2, 64, "bfloat16", "cuda:0");
  EXPECT_THAT(ChangesBetween(&a, &b), ElementsAre("dtype float32 -> bfloat16 in 5/5", "device cpu -> cuda:0 in 5/5"));
  FakeTrace c;
  AddLayer(&c, 4, 64, "bfloat16");
  EXPECT_THAT(ChangesBetween(&a, &c),
              ElementsAre("batch 2 -> 4 in 4/4, 256 -> 512 in 2", "dtype float32 -> bfloat16 in 5/5"));
}

TEST(ChangeSummary, TwiceTheLayers) {
  FakeTrace a, b;
  AddLayer(&a, 2, 64);
  AddLayer(&b, 2, 64);
  AddLayer(&b, 2, 64);
  b.Call(MakeConfig(1, "add_", {Tensor({64, 64}), FloatValue(0.1)}));
  EXPECT_THAT(ChangesBetween(&a, &b), ElementsAre("calls 1 -> 2 in 4/4", R"(add_(Tensor([64, 64], "float32"), 0.1))"));
}

TEST(ChangeSummary, StridesAndLayoutsAreNone) {
  FakeTrace a, b;
  AddLayer(&a, 2, 64);
  AddLayer(&b, 2, 64, "float16");
  a.Call(MakeConfig(1, "neg", {Tensor({2, 3})}));
  Value strided = Tensor({2, 3}, "float16");
  strided.tensor_bits |= kTensorHasStride;
  strided.strides = {1, 2};
  b.Call(MakeConfig(1, "neg", {strided}));
  EXPECT_THAT(ChangesBetween(&a, &b),
              ElementsAre("dtype float32 -> float16 in 6/6", R"(neg(Tensor([2, 3], "float32")))"));
}

TEST(ChangeSummary, OneConfigIsNoCommonChange) {
  FakeTrace a, b;
  a.Call(MakeConfig(1, "relu", {Tensor({2, 3})}));
  b.Call(MakeConfig(1, "relu", {Tensor({4, 3})}));
  EXPECT_THAT(ChangesBetween(&a, &b), ElementsAre(R"(relu(Tensor([2, 3], "float32")))"));
  EXPECT_THAT(ChangesBetween(&a, &a), IsEmpty());
}

}  // namespace
}  // namespace torchtrace
