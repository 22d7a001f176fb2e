#include "serialize/base/matching.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <fstream>
#include <random>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

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

TEST(EditDistanceTest, CountsSlips) {
  struct {
    const char *a, *b;
    int distance;
  } const kCases[] = {
      {"", "", 0},
      {"", "run", 3},
      {"run", "", 3},
      {"run", "run", 0},
      {"run", "rum", 1},
      {"stats", "stat", 1},
      {"stat", "stats", 1},
      {"stats", "tsats", 1},
      {"dump", "dmup", 1},
      {"--levels", "--level", 1},
      {"kitten", "sitting", 3},
      {"ab", "ba", 1},
  };
  for (const auto& c : kCases) EXPECT_EQ(EditDistance(c.a, c.b), c.distance) << c.a << " / " << c.b;
}

TEST(NearestTest, SuggestsWhatWasMeant) {
  const std::vector<std::string> verbs = {"run", "stats", "info", "dump", "render", "version", "help"};
  EXPECT_EQ(Nearest("stat", verbs), "stats");
  EXPECT_EQ(Nearest("runn", verbs), "run");
  EXPECT_EQ(Nearest("rn", verbs), "run");
  EXPECT_EQ(Nearest("rendre", verbs), "render");
  EXPECT_EQ(Nearest("vers", verbs), "version");
}

TEST(NearestTest, IsSilentWhenNothingIsNear) {
  const std::vector<std::string> verbs = {"run", "stats"};
  EXPECT_EQ(Nearest("frobnicate", verbs), "");
  EXPECT_EQ(Nearest("x", verbs), "");
  EXPECT_EQ(DidYouMean("x", verbs), "");
  EXPECT_EQ(DidYouMean("stat", verbs), ", did you mean stats?");
}

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

std::string WriteFile(const std::string& text) {
  const std::string path = testing::TempDir() + "/numbers.txt";
  std::ofstream(path) << text;
  return path;
}

TEST(NumberSet, Parse) {
  EXPECT_THAT(NumberSet::Parse("3")->ranges(), ElementsAre(Pair(3, 3)));
  EXPECT_THAT(NumberSet::Parse("9,1-3,4,2-2,7-8")->ranges(), ElementsAre(Pair(1, 4), Pair(7, 9)));
  EXPECT_THAT(NumberSet::Parse("10-,-2")->ranges(), ElementsAre(Pair(0, 2), Pair(10, UINT64_MAX)));
  EXPECT_THAT(NumberSet::Parse("5-,7")->ranges(), ElementsAre(Pair(5, UINT64_MAX)));
  const std::string path = WriteFile("# calls\n1 2\n\n5-6,8\r\n");
  EXPECT_THAT(NumberSet::Parse(absl::StrCat("20,@", path))->ranges(),
              ElementsAre(Pair(1, 2), Pair(5, 6), Pair(8, 8), Pair(20, 20)));
}

TEST(NumberSet, Errors) {
  for (const char* const text : {"", "x", "-", "1,,2", "1-2-3", "-1-2", " 1"}) {
    EXPECT_THAT(std::string(NumberSet::Parse(text).status().message()), HasSubstr("expected A-B, A-, -B or A")) << text;
  }
  const auto error = [](const char* text) { return std::string(NumberSet::Parse(text).status().message()); };
  EXPECT_THAT(error("3-1"), HasSubstr("\"3-1\" ends before it begins; 1-3?"));
  EXPECT_THAT(error("18446744073709551616"), HasSubstr("is beyond the largest number"));
  const std::string path = WriteFile("1\n2 x\n");
  EXPECT_THAT(std::string(NumberSet::Parse("@" + path).status().message()),
              HasSubstr(path + ":2: \"x\" is not a number or a range"));
  EXPECT_THAT(std::string(NumberSet::Parse("@/not/there").status().message()),
              HasSubstr("cannot read /not/there: No such file"));
  EXPECT_THAT(std::string(NumberSet::Parse("@/tmp").status().message()), HasSubstr("cannot read /tmp: Is a directory"));
}

TEST(NumberSet, ContainsWhatAPlainSetContains) {
  std::mt19937 random(1);
  for (int round = 0; round < 200; ++round) {
    std::set<uint64_t> plain;
    std::string text;
    for (size_t n = 1 + random() % 6; n > 0; --n) {
      const uint64_t first = random() % 50, last = first + random() % 6;
      absl::StrAppend(&text, text.empty() ? "" : ",", first, "-", last);
      for (uint64_t number = first; number <= last; ++number) plain.insert(number);
    }
    const NumberSet set = NumberSet::Parse(text).value();
    for (uint64_t number = 0; number < 60; ++number) {
      EXPECT_EQ(set.Contains(number), plain.count(number) != 0) << number << " in " << text;
    }
  }
}

}  // namespace

}  // namespace torchtrace
