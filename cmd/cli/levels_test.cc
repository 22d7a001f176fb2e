#include "cmd/cli/levels.h"

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
  EXPECT_THAT(*ParseLevels(std::vector<std::string>{"2", "1,setattr"}), ElementsAre(0, 1, 2));
}

TEST(ParseLevelsTest, NamesTheChoices) {
  for (const char* text : {"5", "-1", "", "1,", "x", "1;2"}) {
    const auto levels = ParseLevels(text);
    ASSERT_FALSE(levels.ok()) << text;
    EXPECT_THAT(std::string(levels.status().message()), HasSubstr("1 function, 2 dispatch")) << text;
  }
  EXPECT_THAT(std::string(ParseLevels("functoin").status().message()), HasSubstr("did you mean function?"));
}

}  // namespace
}  // namespace torchtrace
