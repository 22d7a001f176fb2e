#include "serialize/reports/shapes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "serialize/forms/forms.h"
#include "serialize/testing/fake_trace.h"

namespace torchtrace {
namespace {

// `sizes | dtype | FLOPs | bytes` of a call in text form.
std::string Shapes(const std::string& call) {
  static ShapeRules rules = ShapeRules::BuiltIn();
  const absl::StatusOr<Config> config = ParseConfigText(call);
  if (!config.ok()) return std::string(config.status().message());
  const CallShapes shapes = rules.Find(*config);
  const auto amount = [](const std::optional<double>& number) {
    return number.has_value() ? AmountJson(*number).dump() : "-";
  };
  return absl::StrCat(FormatSizes(shapes.sizes), " | ", shapes.dtype, " | ", amount(shapes.cost.flops), " | ",
                      amount(shapes.cost.bytes));
}

std::string T(const char* shape, const char* dtype = "float32") {
  return absl::StrCat("Tensor([", shape, "], \"", dtype, "\")");
}

TEST(Shapes, Table) {
  const struct {
    std::string call;
    const char* shapes;
  } kRows[] = {
      {"aten::mm(" + T("4, 5") + ", " + T("5, 6") + ")", "M=4 N=6 K=5 | float32 | 240 | 296"},
      {"aten::mm.out(" + T("4, 5", "bfloat16") + ", " + T("5, 6", "bfloat16") + ", out=" + T("4, 6", "bfloat16") + ")",
       "M=4 N=6 K=5 | bfloat16 | 240 | 196"},
      {"torch.mm(" + T("4, 5") + ", mat2=" + T("5, 6") + ")", "M=4 N=6 K=5 | float32 | 240 | 296"},
      {"aten::addmm(" + T("6") + ", " + T("4, 5") + ", " + T("5, 6") + ")", "M=4 N=6 K=5 | float32 | 240 | 320"},
      {"torch.nn.functional.linear(" + T("2, 3, 5") + ", " + T("7, 5") + ", None)",
       "M=6 N=7 K=5 | float32 | 420 | 428"},
      {"aten::bmm(" + T("2, 4, 5") + ", " + T("2, 5, 6") + ")", "B=2 M=4 N=6 K=5 | float32 | 480 | 592"},
      {"torch.Tensor.__matmul__(" + T("5") + ", " + T("5") + ")", "K=5 | float32 | 10 | 44"},
      {"torch.matmul(" + T("3, 4, 5") + ", " + T("5") + ")", "M=12 K=5 | float32 | 120 | 308"},
      {"torch.matmul(" + T("3, 1, 4, 5") + ", " + T("2, 5, 6") + ")", "B=6 M=4 N=6 K=5 | float32 | 1440 | 1056"},
      {"torch.Tensor.__rmatmul__(" + T("5, 6") + ", " + T("4, 5") + ")", "M=4 N=6 K=5 | float32 | 240 | 296"},
      {"torch.einsum(\"bij, bkj -> bik\", " + T("2, 3, 4") + ", " + T("2, 5, 4") + ")",
       "B=2 M=3 N=5 K=4 | float32 | 240 | 376"},
      {"torch.einsum(\"ij,jk\", " + T("3, 4") + ", " + T("4, 5") + ")", "M=3 N=5 K=4 | float32 | 120 | 188"},
      {"torch.einsum(\"ii,jk\", " + T("3, 3") + ", " + T("4, 5") + ")", " |  | - | -"},
      {"torch.outer(" + T("4") + ", " + T("5") + ")", "M=4 N=5 | float32 | - | 116"},
      {"aten::inner(" + T("2, 3, 5") + ", " + T("4, 5") + ")", "M=6 N=4 K=5 | float32 | 240 | 296"},
      {"aten::tensordot(" + T("2, 3, 4") + ", " + T("4, 3, 5") + ", [1, 2], [1, 0])",
       "M=2 N=5 K=12 | float32 | 240 | -"},
      {"torch.tensordot(" + T("2, 3, 4") + ", " + T("3, 4, 5") + ")", "M=2 N=5 K=12 | float32 | 240 | -"},
      {"torch.tensordot(" + T("2, 4") + ", " + T("4, 5") + ", dims=1)", "M=2 N=5 K=4 | float32 | 80 | -"},
      {"torch.linalg.matmul(" + T("4, 5") + ", " + T("5, 6") + ")", "M=4 N=6 K=5 | float32 | 240 | 296"},
      {"torch.sparse.mm(" + T("4, 5") + ", " + T("5, 6") + ")", "M=4 N=6 K=5 | float32 | 240 | 296"},
      {"aten::_grouped_mm(" + T("8, 5", "bfloat16") + ", " + T("2, 5, 6", "bfloat16") + ", " + T("2", "int32") + ")",
       "M=8 N=6 K=5 | bfloat16 | 480 | -"},
      {"aten::_weight_int4pack_mm(" + T("4, 64", "bfloat16") + ", " + T("1, 1, 32, 4", "int32") + ", 32, " +
           T("2, 8, 2", "bfloat16") + ")",
       "M=4 N=8 K=64 | bfloat16 | 4096 | -"},
      {"torch.nn.functional.bilinear(" + T("7, 3") + ", " + T("7, 4") + ", " + T("5, 3, 4") + ", " + T("5") + ")",
       "N=7 I=3 J=4 O=5 | float32 | 1120 | 596"},
      // Two layers of 4 gates of 6 numbers: 3 + 6 and 6 + 6 numbers come in.
      {"torch.lstm(" + T("5, 2, 3") + ", [" + T("2, 2, 6") + ", " + T("2, 2, 6") + "], [" + T("24, 3") + ", " +
           T("24, 6") + ", " + T("24") + ", " + T("24") + ", " + T("24, 6") + ", " + T("24, 6") + ", " + T("24") +
           ", " + T("24") + "], True, 2, 0.0, False, False, False)",
       "tokens=10 I=3 weights=504 | float32 | 10080 | -"},
      {"aten::mkldnn_rnn_layer(" + T("5, 2, 3") + ", " + T("24, 3") + ", " + T("24, 6") + ")",
       "tokens=10 I=3 H=6 | float32 | 4320 | -"},
      {"torch.gru_cell(" + T("2, 3") + ", " + T("2, 6") + ", " + T("18, 3") + ", " + T("18, 6") + ")",
       "tokens=2 I=3 H=6 | float32 | 648 | -"},
      {"torch.nn.functional.multi_head_attention_forward(" + T("7, 2, 16") + ", " + T("7, 2, 16") + ", " +
           T("7, 2, 16") + ", 16, 4, " + T("48, 16") + ")",
       "B=2 L=7 S=7 E=16 | float32 | 34944 | -"},
      {"aten::conv_transpose1d(" + T("4, 5") + ", " + T("4, 6, 2") + ")",
       "N=1 C=4 L=5 O=6 kernel=2 stride=1 padding=0 | float32 | 480 | 416"},
      // An unknown size.
      {"aten::mm(Tensor([4, SymInt], \"float32\"), " + T("5, 6") + ")", "M=4 N=6 K=5 | float32 | 240 | -"},
      {"aten::convolution(" + T("8, 64, 56, 30") + ", " + T("128, 32, 3, 5") +
           ", None, [2, 2], [1, 2], [1, 1], False, [0, 0], 2)",
       "N=8 C=64 H=56 W=30 O=128 kernel=3x5 stride=2x2 padding=1x2 groups=2 | float32 | 412876800 | 5406720"},
      {"torch.conv1d(" + T("1, 4, 10") + ", " + T("6, 4, 3") + ", padding=\"same\")",
       "N=1 C=4 L=10 O=6 kernel=3 stride=1 padding=1 | float32 | 1440 | 688"},
      {"torch.conv_transpose2d(" + T("1, 4, 5, 5") + ", " + T("4, 6, 2, 2") + ", None, 2)",
       "N=1 C=4 H=5 W=5 O=6 kernel=2x2 stride=2 padding=0 | float32 | 4800 | 3184"},
      {"aten::convolution_backward(" + T("1, 6, 8, 8") + ", " + T("1, 4, 8, 8") + ", " + T("6, 4, 3, 3") +
           ", [6], [1, 1], [1, 1], [1, 1], False, [0, 0], 1, [False, True, True])",
       "N=1 C=4 H=8 W=8 O=6 kernel=3x3 stride=1x1 padding=1x1 | float32 | 27648 | 4288"},
      {"aten::_scaled_dot_product_flash_attention_for_cpu(" + T("2, 12, 64, 32") + ", " + T("2, 12, 64, 32") + ", " +
           T("2, 12, 64, 32") + ", 0.0, True)",
       "B=2 H=12 L=64 S=64 D=32 causal=1 | float32 | 12582912 | 786432"},
      {"torch.nn.functional.scaled_dot_product_attention(" + T("2, 12, 64, 32") + ", " + T("2, 4, 16, 32") + ", " +
           T("2, 4, 16, 8") + ", enable_gqa=True)",
       "B=2 H=12 KV=4 L=64 S=16 D=32 V=8 | float32 | 1966080 | 266240"},
      {"aten::native_layer_norm(" + T("2, 10, 768") + ", [768], " + T("768") + ", " + T("768") + ", 1e-05)",
       "rows=20 D=768 | float32 | - | 129024"},
      {"torch.nn.functional.embedding(" + T("2, 10", "int64") + ", " + T("100, 32") + ", None)",
       "tokens=20 V=100 D=32 | float32 | - | 5280"},
      {"aten::embedding(" + T("100, 32") + ", " + T("2, 10", "int64") + ")",
       "tokens=20 V=100 D=32 | float32 | - | 5280"},
      {"aten::_softmax(" + T("2, 3, 10") + ", -1, False)", "rows=6 D=10 | float32 | - | 480"},
      {"aten::add.Tensor(" + T("4, 1") + ", " + T("3") + ")", "elements=12 | float32 | - | 76"},
      {"torch.Tensor.mul_(" + T("4") + ", 2)", "elements=4 | float32 | - | 32"},
      {"aten::sum(" + T("4, 5") + ")", "elements=20 | float32 | - | 80"},
      {"aten::_to_copy(" + T("4") + ", dtype=torch.float16)", "elements=4 | float32 | - | 24"},
      {"aten::_foreach_add_.Scalar([" + T("4") + ", " + T("5") + "], 1)", "tensors=2 elements=9 | float32 | - | 72"},
      // No rules.
      {"aten::view(" + T("4") + ", [2, 2])", " |  | - | -"},
      {"torch.add(1, 2)", " |  | - | -"},
      {"my.mm(" + T("4, 5") + ", " + T("5, 6") + ")", " |  | - | -"},
      {"torch.mm(" + T("4, 5") + ")", " |  | - | -"},
      {"torch.mm(" + T("4, 5") + ", " + T("6, 7") + ")", " |  | - | -"},
  };
  for (const auto& row : kRows) EXPECT_EQ(Shapes(row.call), row.shapes) << row.call;
}

TEST(Shapes, WhatShouldHaveAFormulaIsKnown) {
  ShapeRules rules = ShapeRules::BuiltIn();
  const auto lacks = [&rules](const std::string& call) { return rules.Find(*ParseConfigText(call)).lacks_formula; };
  for (const std::string& call : std::vector<std::string>{
           "torch.einsum(\"ij,jk,kl\", " + T("2, 2") + ", " + T("2, 2") + ", " + T("2, 2") + ")",
           "aten::linalg_multi_dot([" + T("2, 2") + "])", "torch.fft.fft(" + T("8") + ")",
           "aten::_linalg_svd(" + T("2, 2") + ")", "quantized::linear_dynamic(" + T("2, 2") + ")",
           "torch.ops.quantized.linear_dynamic(" + T("2, 2") + ")",
           "torch.ops.onednn.qconv2d_pointwise(" + T("2") + ")",
           "aten::mm(Tensor([SymInt, SymInt], \"float32\"), Tensor([SymInt, SymInt], \"float32\"))"}) {
    EXPECT_TRUE(lacks(call)) << call;
  }
  for (const std::string& call : std::vector<std::string>{
           "torch.mm(" + T("2, 2") + ", " + T("2, 2") + ")", "aten::view(" + T("4") + ", [2, 2])",
           "torch.relu(" + T("4") + ")", "torch.outer(" + T("4") + ", " + T("5") + ")",
           "torch.ops.quantized.linear_prepack(" + T("2, 2") + ")", "aten::_fused_sdp_choice(" + T("4") + ")",
           "torch.fft.fftfreq(8)", "torch.fft.fftshift(" + T("8") + ")"}) {
    EXPECT_FALSE(lacks(call)) << call;
  }
}

TEST(Shapes, ForPrograms) {
  const std::vector<CallSize> sizes = {{"M", Numbers{4}}, {"kernel", Numbers{3, 5}}, {"K", std::nullopt}};
  EXPECT_EQ(SizesJson(sizes).dump(), R"({"M":4,"kernel":[3,5],"K":null})");
}

TEST(Shapes, AmountsHaveThreeDigits) {
  EXPECT_EQ(FormatAmount(0), "0 ");
  EXPECT_EQ(FormatAmount(999), "999 ");
  EXPECT_EQ(FormatAmount(1000), "1.00 k");
  EXPECT_EQ(FormatAmount(999'999), "1.00 M");
  EXPECT_EQ(FormatAmount(12'345'678), "12.3 M");
  EXPECT_EQ(FormatAmount(412'876'800), "413 M");
}

TEST(Shapes, WrongRulesAreTold) {
  const struct {
    const char* rule;
    const char* message;
  } kRows[] = {
      {"- {names: [mm]}", "line 1: the rule has no flops, bytes or sizes"},
      {"- {flops: 1}", "line 1: the rule has no names"},
      {"- {names: [mm], sizes: in}\n- {names: [mm],\n   flop: 2}",
       "line 3: unknown key flop (known: names, groups, call, let, if, einsum, sizes, flops, out, bytes)"},
      {"- {names: [mm], sizes: in, flops: 2 *}", "line 1: \"2 *\": column 4: expected a number, a name or ("},
      {"- {groups: [matmull], sizes: in}", "line 1: unknown group %matmull, did you mean %matmul?"},
      {"- {names: [mm], call: 'self[M', sizes: M}", "line 1: expected ] after self[M"},
      {"- {names: [mm], call: 'self[M]', flops: M * K}",
       "line 1: nothing is called K: name it in `call` or `let` (known: M, broadcast, elements, first, in, item, "
       "largest, matrices, self, tensors)"},
      {"- names: [mm]\n  flops: 1\n  flops: 2", "line 3: flops is there twice"},
      {"names: [mm]", "line 1: expected a list of rules, - {names: [...], ...}"},
      {"- mm", "line 1: expected a rule, {names: [...], ...}"},
      {"- {names: {a: b}, flops: 1}", "line 1: bad conversion"},
      {"- [", "line 1: end of sequence flow not found"},
  };
  for (const auto& row : kRows) EXPECT_EQ(ShapeRules::Parse(row.rule).status().message(), row.message) << row.rule;
}

// Also `(((...` of a file that somebody made to break this.
TEST(Shapes, DeepFormulasAreErrors) {
  const std::string deep = absl::StrCat("- {names: [mm], flops: \"", std::string(1'000'000, '('), "\"}");
  EXPECT_EQ(ShapeRules::Parse(deep).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(Shapes, OwnRulesComeFirst) {
  absl::StatusOr<ShapeRules> rules = ShapeRules::WithOwn(
      "- {names: [mm], call: 'a[M, K], b[K, N]', flops: 'M'}\n"
      "- {names: ['mylib::op'], call: 'x[M, K]', flops: '2 * M * K', out: M}\n"
      "- {names: ['mylib::huge'], flops: '1e308 * 1e308'}\n"
      "- {names: ['mylib::large'], flops: '1e22'}\n"
      "- {names: ['mylib::negative'], flops: '0 - in'}\n"
      "- {names: ['mylib::zero'], flops: 'in / 0'}\n",
      "own.yaml");
  ASSERT_TRUE(rules.ok()) << rules.status();
  const auto flops = [&](const std::string& call) { return rules->Find(*ParseConfigText(call)).cost.flops; };
  EXPECT_EQ(flops("aten::mm(" + T("4, 5") + ", " + T("5, 6") + ")"), 4);
  EXPECT_EQ(flops("aten::bmm(" + T("2, 4, 5") + ", " + T("2, 5, 6") + ")"), 480);
  EXPECT_EQ(flops("mylib::op(" + T("4, 5") + ")"), 40);
  EXPECT_EQ(flops("mylib::op.out(" + T("4, 5") + ")"), 40);
  for (const char* const impossible : {"huge", "large", "negative"}) {
    EXPECT_EQ(flops(absl::StrCat("mylib::", impossible, "(", T("4, 5"), ")")), std::nullopt) << impossible;
  }
  EXPECT_EQ(flops("mylib::zero(" + T("4, 5") + ")"), 0);
  EXPECT_THAT(std::string(ShapeRules::WithOwn("", "own.yaml").status().message()),
              testing::StartsWith("own.yaml has no rules"));
  EXPECT_EQ(ShapeRules::WithOwn("- mm", "own.yaml").status().message(),
            "own.yaml: line 1: expected a rule, {names: [...], ...}");
}

}  // namespace
}  // namespace torchtrace
