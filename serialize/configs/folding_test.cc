#include "serialize/configs/folding.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "serialize/forms/forms.h"
#include "serialize/model/config.h"

namespace torchtrace {
namespace {

using testing::HasSubstr;

// The rule's name and the folded config as text; the unchanged text if there is no rule for it.
std::string Fold(const std::string& text) {
  Folding folding = *Folding::For("tests");
  const std::optional<Folding::Folded> folded = folding.Fold(EncodeConfig(*ParseConfigText(text)));
  if (!folded.has_value()) return text;
  return folding.rules()[folded->rule].name + ": " + FormatConfig(*ParseConfig(folded->key));
}

TEST(FoldingTest, NumbersOfOptimizersBecomeOneByKind) {
  EXPECT_EQ(
      Fold("aten::addcdiv_(Tensor([3], \"float32\"), Tensor([3], \"float32\"), Tensor([3], \"float32\"), value=-0.5)"),
      "numbers of optimizers: aten::addcdiv_(Tensor([3], \"float32\"), Tensor([3], \"float32\"), "
      "Tensor([3], \"float32\"), value=0.0)");
  EXPECT_EQ(Fold("torch._foreach_mul_(list[Tensor([3], \"float32\")], list[0.9, 2])"),
            "numbers of optimizers: torch._foreach_mul_(list[Tensor([3], \"float32\")], list[0.0, 0])");
}

TEST(FoldingTest, IndicesFoldAndDimensionsStay) {
  EXPECT_EQ(Fold("aten::select.int(Tensor([9, 4], \"int64\"), 1, 7)"),
            "items and windows of data: aten::select.int(Tensor([9, 4], \"int64\"), 1, 0)");
  EXPECT_EQ(Fold("torch.Tensor.__getitem__(Tensor([9], \"int64\"), slice(3, 7, None))"),
            "items and windows of data: torch.Tensor.__getitem__(Tensor([9], \"int64\"), slice(0, 0, None))");
}

TEST(FoldingTest, GettersFoldSizes) {
  EXPECT_EQ(Fold("torch.Tensor.shape.__get__(Tensor([9, 4], \"int64\"))"),
            "getters: torch.Tensor.shape.__get__(Tensor([0, 0], \"int64\"))");
}

TEST(FoldingTest, OthersStay) {
  for (const char* const text : {"torch.nn.functional.dropout(Tensor([2], \"float32\"), 0.1, True, False)",
                                 "aten::sum.dim_IntList(Tensor([2], \"float32\"), list[0], True)"}) {
    EXPECT_EQ(Fold(text), text);
  }
}

TEST(FoldingTest, ErrorsNameTheLine) {
  EXPECT_THAT(std::string(ParseFoldRules("- rule: x\n  folds: [numbers]").status().message()),
              HasSubstr("line 2: expected rule, because, apis, arguments or fold"));
  EXPECT_THAT(std::string(ParseFoldRules("- {rule: x, because: y, apis: [z], fold: [color]}").status().message()),
              HasSubstr("expected numbers or sizes"));
  EXPECT_THAT(std::string(ParseFoldRules("- rule: x").status().message()), HasSubstr("expected rule, because"));
  EXPECT_FALSE(ParseFoldRules("{").ok());
  EXPECT_THAT(std::string(Folding::For("benchmarks").status().message()), HasSubstr("there is tests"));
}

}  // namespace
}  // namespace torchtrace
