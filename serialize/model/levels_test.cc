#include "serialize/model/levels.h"

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace torchtrace {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(ParseLevelsTest, TakesNumbersAndNames) {
  EXPECT_THAT(*ParseLevels("1"), ElementsAre(1));
  EXPECT_THAT(*ParseLevels("2,1"), ElementsAre(1, 2));
  EXPECT_THAT(*ParseLevels("dispatch, function"), ElementsAre(1, 2));
  EXPECT_THAT(*ParseLevels("1,function,1"), ElementsAre(1));
  EXPECT_THAT(*ParseLevels("0-2,4"), ElementsAre(0, 1, 2, 4));
  EXPECT_THAT(*ParseLevels("function-record"), ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(*ParseLevels(std::vector<std::string>{"2", "1,setattr"}), ElementsAre(0, 1, 2));
}

TEST(ParseLevelsTest, NamesTheChoices) {
  for (const char* text : {"5", "-1", "", "1,", "x", "1;2", "1-5", "x-2", "1-"}) {
    const auto levels = ParseLevels(text);
    ASSERT_FALSE(levels.ok()) << text;
    EXPECT_THAT(std::string(levels.status().message()), HasSubstr("1 function, 2 dispatch")) << text;
  }
  EXPECT_THAT(std::string(ParseLevels("functoin").status().message()), HasSubstr("did you mean function?"));
}

TEST(LevelsTest, AreInTheTableByNumber) {
  int number = 0;
  for (const Level& level : AllLevels()) {
    EXPECT_EQ(level.number, number);
    EXPECT_EQ(DescribeLevel(number), absl::StrCat(number, " (", level.name, ")"));
    ++number;
  }
  EXPECT_EQ(DescribeLevel(number), absl::StrCat(number));
}

TEST(LevelsTest, SaysWhatTheTracedOnesSee) {
  EXPECT_EQ(DescribeLevels(),
            "0 setattr, the Python functions and classes of a list; 1 function, the calls of torch's API; "
            "2 dispatch, the operators below autograd; 3 frame, Python's functions, and nn.Modules with their paths in "
            "their models; "
            "4 record, PyTorch's RecordFunction: operators above autograd, backward nodes, scopes, kernels");
}

}  // namespace
}  // namespace torchtrace
