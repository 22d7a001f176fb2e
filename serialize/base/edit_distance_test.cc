#include "serialize/base/edit_distance.h"

#include "gtest/gtest.h"

namespace torchtrace {
namespace {

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

}  // namespace
}  // namespace torchtrace
