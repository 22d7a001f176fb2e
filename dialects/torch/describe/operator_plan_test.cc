#include "dialects/torch/describe/operator_plan.h"

#include <ATen/core/dispatch/Dispatcher.h>

#include <string>

#include "gtest/gtest.h"

namespace torchtrace::torch_dialect {
namespace {

TEST(MemoryUse, OfNames) {
  EXPECT_EQ(MemoryUseOf("torch.empty_like"), MemoryUse::kAllocates);
  EXPECT_EQ(MemoryUseOf("torch.ops.aten.empty.memory_format"), MemoryUse::kAllocates);
  EXPECT_EQ(MemoryUseOf("torch.FloatTensor"), MemoryUse::kMayAllocate);
  EXPECT_EQ(MemoryUseOf("torch.Tensor.new"), MemoryUse::kMayAllocate);
  EXPECT_EQ(MemoryUseOf("torch.Tensor.__setitem__"), MemoryUse::kWrites);
  EXPECT_EQ(MemoryUseOf("torch.ops.aten.fill_.Scalar"), MemoryUse::kWrites);
  EXPECT_EQ(MemoryUseOf("torch._foreach_copy_"), MemoryUse::kWrites);
  EXPECT_EQ(MemoryUseOf("torch.ops._c10d_functional.wait_tensor"), MemoryUse::kWaits);
  for (const char* const name :
       {"torch.Tensor.requires_grad_", "torch.Tensor.__add__", "torch.ops.", "torch.ops", ""}) {
    EXPECT_EQ(MemoryUseOf(name), MemoryUse::kUnknown) << name;
  }
}

TEST(MemoryUse, OfOperatorsThatMakeViewsInPlace) {
  int views = 0;
  for (const c10::OperatorName& name : c10::Dispatcher::singleton().getAllOpNames()) {
    const auto op = c10::Dispatcher::singleton().findSchema(name);
    const std::string base = name.name.substr(name.name.find("::") + 2);
    if (!op.has_value() || !op->hasTag(at::Tag::inplace_view) || base == "detach_") continue;
    const MemoryUse use = MemoryUseOf("torch.Tensor." + base);
    EXPECT_TRUE(use == MemoryUse::kMakesNewView || use == MemoryUse::kAllocates) << base;
    ++views;
  }
  EXPECT_GE(views, 8);
}

}  // namespace
}  // namespace torchtrace::torch_dialect
