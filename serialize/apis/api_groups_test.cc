#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "serialize/apis/apis.h"
#include "serialize/base/matching.h"

namespace torchtrace {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

bool In(const std::string& group, const std::string& api) {
  GlobFilter filter;
  filter.include = ApiGroups::BuiltIn().Expand({"%" + group}).value();
  return filter.Accepts(api);
}

std::string Groups(const std::string& api) {
  std::vector<std::string> groups;
  for (const std::string& group : ApiGroups::BuiltIn().names()) {
    if (In(group, api)) groups.push_back(group);
  }
  return absl::StrJoin(groups, " ");
}

TEST(ApiGroups, TheBuiltInOnesAreWellFormed) {
  // Parsing adds to the built-in groups, and checks all of them.
  EXPECT_TRUE(ApiGroups::Parse("", "none").ok()) << ApiGroups::Parse("", "none").status();
  for (const char* const group : {"nn", "linalg", "optim", "factory", "view", "inplace", "random", "dist", "loss",
                                  "conv", "reduction", "pointwise"}) {
    EXPECT_TRUE(ApiGroups::BuiltIn().Expand({std::string("%") + group}).ok()) << group;
  }
}

TEST(ApiGroups, Table) {
  const struct {
    const char* api;
    const char* groups;
  } kRows[] = {
      {"torch.nn.functional.linear", "matmul linalg nn"},
      {"aten::addmm", "linalg matmul"},
      {"aten::addmm.out", "linalg matmul out"},
      {"torch.linalg.inv", "linalg"},
      {"aten::linalg_inv_ex", "linalg"},
      {"torch.matmul", "linalg matmul"},
      {"aten::convolution", "conv nn"},
      {"aten::convolution_backward", "backward conv nn"},
      {"torch.conv2d", "conv nn"},
      {"torch.nn.functional.conv2d", "conv nn"},
      {"torch.nn.functional.cross_entropy", "loss nn"},
      {"aten::nll_loss_forward", "loss nn"},
      {"aten::mse_loss_backward", "backward loss nn"},
      {"aten::_log_softmax", "nn softmax"},
      {"torch.relu_", "activation inplace nn pointwise"},
      {"aten::gelu_backward", "activation backward nn pointwise"},
      {"aten::special_i0e", "pointwise"},
      {"aten::add.Tensor", "pointwise"},
      {"aten::add_.Tensor", "inplace pointwise"},
      {"torch.Tensor.add_", "inplace pointwise"},
      {"torch.Tensor.__add__", "pointwise"},
      {"torch.Tensor.__iand__", "inplace pointwise"},
      {"torch.Tensor.__int__", ""},
      {"torch.Tensor.__setitem__", "indexing inplace"},
      {"aten::set_.source_Storage", "inplace"},
      {"aten::sum.dim_IntList", "reduction"},
      {"torch.Tensor.sum", "reduction"},
      {"torch.sum", "reduction"},
      {"aten::view", "view"},
      {"torch.ops.aten.view.default", "view"},
      {"torch.Tensor.transpose", "view"},
      {"aten::t_", "inplace view"},
      {"aten::empty.memory_format", "factory"},
      {"torch.zeros", "factory"},
      {"torch.FloatTensor", "factory"},
      {"torch.ops.aten.add.Tensor", "pointwise"},
      {"torch.randn", "factory random"},
      {"aten::uniform_", "inplace random"},
      {"torch.nn.init.kaiming_uniform_", "inplace nn random"},
      {"aten::native_dropout", "dropout nn random"},
      {"torch.nn.functional.dropout2d", "dropout nn random"},
      {"aten::_foreach_add_.List", "foreach inplace optim"},
      {"torch._foreach_mul_", "foreach inplace optim"},
      {"aten::_fused_adamw_", "inplace optim"},
      {"torch.optim.AdamW.step", "optim"},
      {"torch.distributed.all_reduce", "dist"},
      {"c10d::allreduce_", "dist inplace"},
      {"_c10d_functional::all_reduce", "dist"},
      {"aten::_scaled_dot_product_flash_attention_for_cpu_backward", "attention backward nn"},
      {"torch.Tensor.backward", "backward"},
      {"torch.Tensor.numel", ""},
      {"my::op", ""},
  };
  for (const auto& row : kRows) {
    std::set<std::string> expected = absl::StrSplit(row.groups, ' ', absl::SkipEmpty());
    EXPECT_EQ(Groups(row.api), absl::StrJoin(expected, " ")) << row.api;
  }
}

// The names of all calls of PyTorch's own test suite, traced at both levels: those in no group are listed here, to
// notice a name that drops out of its group.
TEST(ApiGroups, NamesOfARealTrace) {
  std::ifstream names("testdata/groups/opinfo_apis.txt");
  std::ifstream expected("testdata/groups/opinfo_groups.txt");
  ASSERT_TRUE(names.good() && expected.good());
  std::string name, line;
  size_t count = 0;
  while (std::getline(names, name)) {
    ASSERT_TRUE(std::getline(expected, line)) << name;
    const std::string groups = Groups(name);
    EXPECT_EQ(groups.empty() ? name : name + " " + groups, line);
    ++count;
  }
  EXPECT_GT(count, 300u);
}

TEST(ApiGroups, ExpandKeepsGlobs) {
  const ApiGroups groups =
      ApiGroups::Parse("mine: [torch.a, 'b*']\nmore:\n  groups: [mine]\n  globs: [c]", "x").value();
  EXPECT_THAT(groups.Expand({"torch.*", "%more", "%mine"}).value(),
              ElementsAre("torch.*", "c", "torch.a", "b*", "torch.a", "b*"));
  // In every spelling.
  const ApiGroups named = ApiGroups::Parse("mine: {names: [foo]}", "x").value();
  GlobFilter filter;
  filter.include = named.Expand({"%mine"}).value();
  for (const char* const api : {"torch.foo", "torch.foo_", "torch.Tensor.foo", "torch.Tensor.foo_", "aten::foo",
                                "aten::foo.out", "aten::foo_.Scalar", "torch.ops.aten.foo.default"}) {
    EXPECT_TRUE(filter.Accepts(api)) << api;
  }
  for (const char* const api : {"torch.food", "torch.Tensor.foo.__get__", "my::foo"}) {
    EXPECT_FALSE(filter.Accepts(api)) << api;
  }
}

TEST(ApiGroups, TellWhatUsersWrote) {
  const ApiGroups groups =
      ApiGroups::Parse("a: [torch.a, '?torch.b']\nc:\n  groups: [a, nn]\n  names:\n  - d", "x").value();
  std::vector<WrittenName> written;
  EXPECT_THAT(groups.Expand({"%a"}).value(), ElementsAre("torch.a", "torch.b"));
  // A mark alone is a glob of one character.
  EXPECT_THAT(ApiGroups::Parse("g: ['?e', '?']", "x")->Expand({"%g"}).value(), ElementsAre("e", "?"));
  ASSERT_TRUE(groups.Expand({"%c", "torch.e"}, &written).ok());
  ASSERT_EQ(written.size(), 2u);
  EXPECT_EQ(written[0].where + written[0].text, "x:5: d");
  EXPECT_EQ(written[0].globs.front(), "torch.d");
  EXPECT_EQ(written[1].where + written[1].text, "x:1: torch.a");
}

TEST(ApiGroups, UnknownGroups) {
  EXPECT_EQ(ApiGroups::BuiltIn().Expand({"%inplce"}).status().message(),
            "unknown group %inplce, did you mean %inplace?");
  EXPECT_THAT(std::string(ApiGroups::BuiltIn().Expand({"%zzzzzz"}).status().message()),
              HasSubstr("unknown group %zzzzzz (groups: activation, "));
  GlobFilter filter;
  filter.include = ApiGroups::BuiltIn().Expand({"?%zzzzzz"}).value();
  EXPECT_FALSE(filter.Accepts("torch.add"));
  filter.include = ApiGroups::BuiltIn().Expand({"?%pointwise"}).value();
  EXPECT_TRUE(filter.Accepts("torch.add"));
}

TEST(ApiGroups, ErrorsNameTheLine) {
  const struct {
    const char* text;
    const char* message;
  } kRows[] = {
      {"- a", "g.yaml:1: expected a map of groups, `group: {names: [...]}`"},
      {"a: [b]\nc: d", "g.yaml:2: expected the globs of %c, a list, or {names, globs, groups}"},
      {"nn: []", "g.yaml:1: %nn has nothing in it"},
      {"a: [b]\nc: {names: []}", "g.yaml:2: %c has nothing in it"},
      {"a: [b]\n%c: [d]", "g.yaml:2: expected the name of a group without %, found %c: [d]"},
      {"a: [b]\n'%c': [d]", "g.yaml:2: expected the name of a group, without % ? , and blanks, found %c"},
      {"a:\n  nmes: [b]", "g.yaml:2: expected names, globs or groups in %a"},
      {"a:\n  names: b", "g.yaml:2: expected a list of names"},
      {"a:\n- [b]", "g.yaml:2: expected one of the globs, a text"},
      {"a: [b\nc", "g.yaml:2: is not YAML: end of sequence flow not found"},
      {"a: {groups: [vew]}", "g.yaml: %a has an unknown group \"vew\", did you mean view?"},
      {"a: {groups: [b]}\nb: {groups: [a]}", "g.yaml: %a contains itself: a > b > a"},
  };
  for (const auto& row : kRows) {
    EXPECT_EQ(ApiGroups::Parse(row.text, "g.yaml").status().message(), row.message) << row.text;
  }
  EXPECT_THAT(std::string(ApiGroups::Load("/not/there").status().message()), HasSubstr("/not/there: No such file"));
  EXPECT_THAT(std::string(ApiGroups::Load("/tmp").status().message()), HasSubstr("/tmp: Is a directory"));
}

}  // namespace
}  // namespace torchtrace
