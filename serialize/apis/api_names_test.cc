#include "serialize/apis/api_names.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace torchtrace {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::UnorderedElementsAre;

constexpr char kTable[] =
    "torch.conv2d\ttorch.nn.functional.conv2d\n"
    "torch.nn.functional.softmax\n"
    "torch.Tensor.shape\n"
    "torch.Tensor.shape.__get__\n"
    // Names in an older and in a newer version.
    "torch.old\ttorch.between\n"
    "torch.new\ttorch.between\n"
    "aten::add\n"
    "aten::conv2d\n"
    "aten::mul\n"
    "aten::mul.Tensor\n";

TEST(ApiNames, ResolvesToAllNamesOfTheApi) {
  const ApiNames names({kTable});
  const struct {
    const char* pattern;
    std::vector<std::string> resolved;
  } kRows[] = {
      {"torch.nn.functional.softmax",
       {"torch.nn.functional.softmax", "torch.nn.functional.softmax.__get__", "torch.nn.functional.softmax.__set__",
        "torch.nn.functional.softmax.__delete__"}},
      {"torch.nn.*", {"torch.nn.*", "torch.conv2d"}},
      {"*.functional.conv?d", {"*.functional.conv?d", "torch.conv2d"}},
      {"torch.*", {"torch.*"}},
      {"torch.ol[d]", {"torch.ol[d]", "torch.between", "torch.new"}},
      {"aten::add",
       {"aten::add", "torch.ops.aten.add", "aten.add", "aten::add.*", "torch.ops.aten.add.*", "aten.add.*"}},
      {"aten.add.Tensor", {"aten.add.Tensor", "aten::add.Tensor", "torch.ops.aten.add.Tensor"}},
      {"aten::mul.default",
       {"aten::mul.default", "aten::mul", "torch.ops.aten.mul", "aten.mul", "torch.ops.aten.mul.default",
        "aten.mul.default"}},
      {"torch.ops.mine.f", {"torch.ops.mine.f", "mine::f", "mine::f.*", "torch.ops.mine.f.*"}},
      {"aten.*", {"aten.*", "aten::*", "torch.ops.aten.*"}},
      {"mine.f", {"mine.f"}},
  };
  for (const auto& row : kRows) EXPECT_EQ(names.Resolve(row.pattern), row.resolved) << row.pattern;
  EXPECT_THAT(names.Resolve("torch.nn.functional.conv2d"), testing::Contains("torch.conv2d"));
  EXPECT_THAT(names.Resolve("torch.conv2d"), testing::Contains("torch.nn.functional.conv2d"));
  EXPECT_THAT(names.Resolve("torch.Tensor.shape"), testing::Contains("torch.Tensor.shape.__get__"));
}

TEST(ApiNames, KnowsNamesGlobsAndOverloads) {
  const ApiNames names({kTable});
  const struct {
    const char* pattern;
    bool has, knows;
  } kRows[] = {
      {"torch.conv2d", true, true},
      {"torch.nn.functional.conv2d", true, true},
      {"torch.conv2", false, false},
      {"torch.nn.*", true, true},
      {"*conv*", true, true},
      {"*convv*", false, false},
      {"aten::add", true, true},
      // The overloads of mul are known because one of them is.
      {"aten::add.Tensor", false, true},
      {"aten::ad?.*", false, true},
      {"aten::mul", true, true},
      {"aten::mul.Tensor", true, true},
      {"aten.mul.default", true, true},
      {"torch.ops.aten.mul", true, true},
      {"torch.ops.aten.add.Tensor", false, true},
      {"torch.ops.aten.mul.Tensro", false, false},
      {"aten::mul.Tensro", false, false},
      {"mine::add.Tensor", false, false},
  };
  for (const auto& row : kRows) {
    EXPECT_EQ(names.Has(row.pattern), row.has) << row.pattern;
    EXPECT_EQ(names.Knows(row.pattern), row.knows) << row.pattern;
  }
}

TEST(ApiNames, SuggestsTheNearest) {
  const ApiNames names({kTable});
  const struct {
    const char *pattern, *near, *suggested;
  } kRows[] = {
      {"torch.covn2d", "torch.conv2d", "torch.conv2d"},
      {"torch.nn.functinal.*", "torch.nn.functional.*", "torch.nn.functional.*"},
      {"atne::*", "aten::*", "aten::*"},
      {"*covn2d*", "*conv2d*", "*conv2d*"},
      {"aten::mul.Tensro", "aten::mul.Tensor", "aten::mul.Tensor"},
      {"torch.ops.aten.mull.default", "aten::mul", "aten::mul"},
      {"torch.special.softmax", "", "torch.nn.functional.softmax"},
      {"torch.special.sofmax", "", "torch.nn.functional.softmax"},
      {"mypackage.*", "", ""},
      {"mypackage.train", "", ""},
      {"*", "", ""},
      {"*[ab]*", "", ""},
  };
  for (const auto& row : kRows) {
    EXPECT_EQ(names.Near(row.pattern), row.near) << row.pattern;
    EXPECT_EQ(names.Suggest(row.pattern), row.suggested) << row.pattern;
  }
  EXPECT_THAT(std::string(UnknownNames({{"torch.covn2d", "", {}}}, names).message()),
              HasSubstr("API or operator torch.covn2d, did you mean torch.conv2d? (write ?torch.covn2d"));
}

TEST(ApiNames, FiltersHoldAllNames) {
  const ApiNames names({kTable});
  const NameFilter filter =
      ExpandNames({{"torch.nn.functional.conv2d", "?nothing"}, {"%dropout", "?%none", "aten::add"}}, "", names).value();
  EXPECT_TRUE(filter.globs.Accepts("torch.conv2d"));
  EXPECT_TRUE(filter.globs.Accepts("nothing"));
  EXPECT_FALSE(filter.globs.Accepts("aten::add.Tensor"));
  std::vector<std::string> written;
  for (const WrittenName& name : filter.written) written.push_back(name.text);
  EXPECT_THAT(written, UnorderedElementsAre("torch.nn.functional.conv2d", "aten::add"));
  EXPECT_FALSE(ExpandNames({{"%none"}, {}}, "", names).ok());
}

TEST(ApiNames, ListsGetThem) {
  ApiList list;
  list.apis.resize(2);
  list.apis[0].name = "torch.nn.functional.conv2d";
  list.apis[1].name = "mine.f";
  ApiNames({kTable}).AddOtherNames(&list);
  EXPECT_THAT(list.apis[0].elsewhere, ElementsAre("torch.conv2d"));
  EXPECT_TRUE(list.apis[1].elsewhere.empty());
}

}  // namespace
}  // namespace torchtrace
