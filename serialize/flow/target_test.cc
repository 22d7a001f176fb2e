#include "serialize/flow/target.h"

#include "gtest/gtest.h"
#include "serialize/testing/fake_trace.h"

namespace torchtrace {
namespace {

TEST(TargetTest, ApisAreCalledAsTheirKindIs) {
  const auto expect = [](const char* api, int level, CallTarget::Kind kind, const char* name) {
    const CallTarget target = TargetOf(api, level);
    EXPECT_EQ(target.kind, kind) << api;
    EXPECT_EQ(target.name, name);
  };
  expect("torch.add", 1, CallTarget::kFunction, "torch.add");
  expect("torch.nn.functional.relu", 0, CallTarget::kFunction, "torch.nn.functional.relu");
  expect("torch.Tensor.view", 1, CallTarget::kMethod, "view");
  expect("torch.Tensor.T.__get__", 1, CallTarget::kGetter, "T");
  expect("torch.Tensor.data.__set__", 1, CallTarget::kSetter, "data");
  expect("aten::add.Tensor", 2, CallTarget::kOverload, "torch.ops.aten.add.Tensor");
  expect("aten::random_.from", 2, CallTarget::kOverload, "torch.ops.aten.random_.from");
  expect("aten::mm", 4, CallTarget::kOverload, "torch.ops.aten.mm.default");
  expect("torch.ops.aten.add.Tensor", 1, CallTarget::kOverload, "torch.ops.aten.add.Tensor");
  expect("torch.ops.aten.add", 1, CallTarget::kOverload, "torch.ops.aten.add");
  expect("torch._VF.lstm", 1, CallTarget::kFunction, "torch._VF.lstm");
  expect("torch.manual_seed", 1, CallTarget::kFunction, "torch.manual_seed");
}

TEST(TargetTest, WhatIsNotTorchsOwnAndHarmlessIsRefused) {
  for (const char* const api : {"os.system",
                                "torch.load",
                                "torch.hub.load",
                                "torch.Tensor.__reduce_ex__",
                                "torch.utils.cpp_extension.load",
                                "torch.add(__import__('os').system('x')) or torch.add",
                                "torch.add\nimport os",
                                "torch..add",
                                "torch.",
                                "torch",
                                "add",
                                "",
                                "torch.lambda",
                                "torch.os.system",
                                "torch.nn.Module.f.__get__",
                                "__get__",
                                "c10d::allreduce_",
                                "aten::add.x\ny",
                                "aten::",
                                "aten::a::b",
                                "evil::add",
                                "torch.ops.evil.add",
                                "torch.ops.aten",
                                "torch.ops.",
                                "torch.ops.aten.add.x\ny",
                                "torch.ops.aten.add.Tensor.x",
                                "torch.os",
                                "torch.PyTorchFileWriter",
                                "torch._from_blob",
                                "torch.Tensor.system",
                                "torch.Tensor.os.__get__",
                                "torch.Tensor.__class__.__get__",
                                "torch.Tensor.untyped_storage",
                                "torch.cond",
                                "torch.jit",
                                "# Made by put_callable_names.py.",
                                "torch._C._jit_compile",
                                "torch.jit.script"}) {
    EXPECT_EQ(TargetOf(api, 1).kind, CallTarget::kRefused) << api;
    EXPECT_FALSE(TargetOf(api, 1).name.empty()) << api;
  }
  EXPECT_EQ(TargetOf("torch.add", 3).kind, CallTarget::kRefused);
}

TEST(TargetTest, ResultsTellWhatAutocastChose) {
  const auto tensor = [](const char* dtype) {
    Value value = TensorValue({2, 2});
    value.text = dtype;
    return value;
  };
  const auto autocast = [&](const char* api, const char* taken, const char* made, int level = 1) {
    return AutocastOf(MakeConfig(level, api, {tensor(taken), tensor(taken)}), {tensor(made)});
  };
  EXPECT_EQ(autocast("torch.mm", "float32", "bfloat16"), (CallAutocast{"cpu", "bfloat16"}));
  EXPECT_EQ(autocast("torch.nn.functional.linear", "float32", "float16", 0), (CallAutocast{"cpu", "float16"}));
  EXPECT_EQ(autocast("torch.nn.functional.mse_loss", "float16", "float32"), (CallAutocast{"cpu", "float16"}));
  const CallAutocast none;
  EXPECT_EQ(autocast("torch.mm", "float32", "float32"), none);
  EXPECT_EQ(autocast("torch.mm", "bfloat16", "bfloat16"), none);
  EXPECT_EQ(autocast("torch.mm", "float64", "bfloat16"), none);
  EXPECT_EQ(autocast("torch.Tensor.type_as", "float32", "bfloat16"), none);
  EXPECT_EQ(autocast("aten::mm", "float32", "bfloat16", 2), none);
  Value dtype;
  dtype.tag = ValueTag::kDtype;
  dtype.text = "float16";
  EXPECT_EQ(AutocastOf(MakeConfig(1, "torch.sum", {tensor("float32")}, {{"dtype", dtype}}), {tensor("float16")}), none);
  EXPECT_EQ(AutocastOf(MakeConfig(1, "torch.f", {tensor("float32")}), {tensor("bfloat16"), tensor("float32")}), none);
}

}  // namespace
}  // namespace torchtrace
