#include "serialize/numbers/memory_effects.h"

#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "serialize/testing/fake_trace.h"

namespace torchtrace {
namespace {

// `allocates view writes later`, those that are true.
std::string EffectsText(const Config& config) {
  const MemoryEffects effects = MemoryEffectsOf(config);
  std::string text;
  for (const auto& [is, name] : {std::pair(effects.allocates, "allocates"), std::pair(effects.changes_view, "view"),
                                 std::pair(effects.writes, "writes"), std::pair(effects.writes_later, "later")}) {
    if (is) text += (text.empty() ? "" : " ") + std::string(name);
  }
  return text;
}

TEST(MemoryEffects, ByName) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"aten::empty.memory_format", "allocates"},
      {"aten::new_empty_strided", "allocates"},
      {"aten::_empty_affine_quantized", "allocates"},
      {"torch.empty_like", "allocates"},
      {"aten::resize_", "allocates"},
      {"aten::_resize_output_", "allocates"},
      {"aten::is_nonempty", ""},
      {"aten::transpose_", "view"},
      {"aten::set_.source_Storage", "view"},
      {"torch.Tensor.requires_grad_", "view"},
      {"aten::fill_.Scalar", "writes"},
      {"aten::_foreach_mul_.Scalar", "writes"},
      {"torch.Tensor.copy_", "writes"},
      {"torch.Tensor.__setitem__", "writes"},
      {"torch.Tensor.__iadd__", "writes"},
      {"torch.Tensor.__invert__", ""},
      {"torch.Tensor.__and__", ""},
      {"quantized::add_out", "writes"},
      {"aten::dropout", ""},
      {"torch.nn.functional.dropout", ""},
      {"aten::add.Tensor", ""},
      {"c10d::allreduce_", "writes later"},
      {"c10d::send", ""},
      {"_c10d_functional::all_reduce", "later"},
      {"_c10d_functional::wait_tensor", ""},
      {"torch.distributed.distributed_c10d.all_gather", "later"},
      {"torch.distributed.distributed_c10d.isend", ""},
  };
  for (const auto& [api, effects] : cases) {
    const int level = api.find("::") == std::string::npos ? 1 : 2;
    EXPECT_EQ(EffectsText(MakeConfig(level, api, {TensorValue({2})})), effects) << api;
  }
  EXPECT_EQ(EffectsText(MakeConfig(3, "program.empty_", {TensorValue({2})})), "");
}

TEST(MemoryEffects, ByArguments) {
  const Value tensor = TensorValue({2});
  EXPECT_EQ(EffectsText(MakeConfig(2, "aten::add.out", {tensor}, {{"out", tensor}})), "writes");
  EXPECT_EQ(EffectsText(MakeConfig(2, "aten::xlogy.OutTensor", {tensor}, {{"out", tensor}})), "writes");
  EXPECT_EQ(EffectsText(MakeConfig(2, "aten::sort.values_stable", {tensor}, {{"values", tensor}})), "writes");
  EXPECT_EQ(EffectsText(
                MakeConfig(2, "aten::unbind_copy.int_out", {tensor}, {{"out", ItemsValue(ValueTag::kList, {tensor})}})),
            "writes");
  EXPECT_EQ(EffectsText(MakeConfig(1, "torch.add", {tensor}, {{"out", tensor}})), "writes");
  EXPECT_EQ(EffectsText(MakeConfig(1, "torch.add", {tensor}, {{"out", NamedValue(ValueTag::kNone)}})), "");
  EXPECT_EQ(EffectsText(MakeConfig(2, "aten::searchsorted.Tensor", {tensor}, {{"sorter", tensor}})), "");
  EXPECT_EQ(
      EffectsText(MakeConfig(2, "aten::to.dtype_layout", {tensor}, {{"layout", NamedValue(ValueTag::kLayout, "x")}})),
      "");
  // Sizes, and data.
  EXPECT_EQ(EffectsText(MakeConfig(0, "torch.Tensor", {IntValue(2), IntValue(3)})), "allocates");
  EXPECT_EQ(EffectsText(MakeConfig(0, "torch.Tensor", {ItemsValue(ValueTag::kList, {IntValue(2)})})), "");
  EXPECT_EQ(EffectsText(MakeConfig(1, "torch.Tensor.new", {tensor, IntValue(2)})), "allocates");
}

}  // namespace
}  // namespace torchtrace
