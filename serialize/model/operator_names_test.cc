#include "gtest/gtest.h"
#include "serialize/model/torch_names.h"

namespace torchtrace {
namespace {

TEST(OperatorNames, OneSpellingOfAnOperator) {
  const struct {
    const char *name, *canonical;
  } kRows[] = {
      {"aten::mm", "aten::mm"},
      {"aten::mm.default", "aten::mm"},
      {"aten.mm", "aten::mm"},
      {"aten.mm.default", "aten::mm"},
      {"torch.ops.aten.mm", "aten::mm"},
      {"torch.ops.aten.mm.default", "aten::mm"},
      {"aten.add.Tensor", "aten::add.Tensor"},
      {"torch.ops.aten.add.Tensor", "aten::add.Tensor"},
      {"torch.ops.mine.f.default", "mine::f"},
      {"prims.add.default", "prims::add"},
      {"aten.sum.SymInt", "aten::sum.dim_IntList"},
      {"torch.ops.aten.*", "aten::*"},
      {"aten::*.default", "aten::*.default"},  // not all of aten
      // Not operators.
      {"torch.ops.aten", "torch.ops.aten"},
      {"torch.mm", "torch.mm"},
      {"numpy.linalg.norm.default", "numpy.linalg.norm.default"},
      {"aten.", "aten."},
      {"aten", "aten"},
      {".default", ".default"},
      {"", ""},
  };
  for (const auto& row : kRows) EXPECT_EQ(CanonicalName(row.name), row.canonical) << row.name;
}

}  // namespace
}  // namespace torchtrace
