#include "serialize/base/number_set.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <fstream>
#include <random>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"

namespace torchtrace {
namespace {

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
  for (const char* const text : {"", "x", "3-1", "-", "1,,2", "1-2-3", "-1-2", "18446744073709551616", " 1"}) {
    EXPECT_THAT(std::string(NumberSet::Parse(text).status().message()), HasSubstr("expected A-B, A-, -B or A")) << text;
  }
  const std::string path = WriteFile("1\n2 x\n");
  EXPECT_THAT(std::string(NumberSet::Parse("@" + path).status().message()),
              HasSubstr(path + ":2: \"x\" is no number and no range"));
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
