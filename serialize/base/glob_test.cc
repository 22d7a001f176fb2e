#include "serialize/base/glob.h"

#include <gtest/gtest.h>

namespace torchtrace {
namespace {

TEST(Glob, Table) {
  const struct {
    const char* pattern;
    const char* text;
    bool matches;
  } kRows[] = {
      {"", "", true},
      {"", "a", false},
      {"*", "", true},
      {"*", "aten::add.Tensor", true},
      {"torch.*", "torch.nn.functional.relu", true},
      {"torch.*", "torchvision", false},
      {"torch.add", "torch.add", true},
      {"torch.add", "torch.addmm", false},
      {"torchXadd", "torch.add", false},
      {"*relu*", "torch.nn.functional.relu", true},
      {"*relu", "torch.relu_", false},
      {"aten::add?Tensor", "aten::add.Tensor", true},
      {"a?", "a", false},
      {"a*b*c", "aXbYbZc", true},
      {"a*b*c", "aXbYbZ", false},
      {"**a**", "bab", true},
      {"*?", "", false},
      {"*a*b", "aab", true},
      {"[a]", "a", true},
      {"[a]", "[a]", false},
      {"x[ab]y", "xby", true},
      {"x[ab]y", "xcy", false},
      {"[a-c]", "b", true},
      {"[a-c]", "d", false},
      {"[a-]", "-", true},
      {"[!a-c]", "b", false},
      {"[!a-c]", "d", true},
      {"[!a]", "", false},
      {"[]]", "]", true},
      {"[!]]", "]", false},
      {"[[]a", "[a", true},
      {"[a", "[a", true},
      {"[a", "a", false},
      {"[!", "[!", true},
      {"torch.*[!_]_", "torch.relu_", true},
      {"torch.*[!_]_", "torch.Tensor.__add__", false},
  };
  for (const auto& row : kRows) {
    EXPECT_EQ(GlobMatch(row.pattern, row.text), row.matches) << row.pattern << " on " << row.text;
  }
}

TEST(Glob, ManyStarsStayCheap) {
  std::string pattern;
  for (int i = 0; i < 1000; ++i) pattern += "a*";
  pattern += "b";
  EXPECT_FALSE(GlobMatch(pattern, std::string(10'000, 'a')));
}

TEST(Glob, Filter) {
  GlobFilter filter;
  EXPECT_TRUE(filter.AcceptsAll());
  EXPECT_TRUE(filter.Accepts("torch.add"));
  filter.exclude = {"*.sum"};
  EXPECT_TRUE(filter.Accepts("torch.add"));
  EXPECT_FALSE(filter.Accepts("torch.Tensor.sum"));
  filter.include = {"torch.Tensor.*", "aten::*"};
  EXPECT_FALSE(filter.Accepts("torch.add"));
  EXPECT_FALSE(filter.Accepts("torch.Tensor.sum"));
  EXPECT_TRUE(filter.Accepts("torch.Tensor.add"));
  EXPECT_FALSE(filter.AcceptsAll());
}

TEST(Glob, Memo) {
  GlobMemo memo({.include = {"torch.*"}, .exclude = {"*.sum"}});
  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE(memo.Accepts("torch.add"));
    EXPECT_FALSE(memo.Accepts("torch.sum"));
    EXPECT_FALSE(memo.Accepts("aten::sum"));
  }
  EXPECT_TRUE(GlobMemo({}).Accepts("anything"));
}

}  // namespace
}  // namespace torchtrace
