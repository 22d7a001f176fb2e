#include "serialize/reports/formula.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

namespace torchtrace {
namespace {

std::optional<Numbers> Value(const char* text) {
  const std::map<std::string, Numbers> values = {{"M", {4}}, {"X", {56, 30}}, {"R", {3, 5}}, {"none", {}}};
  const absl::StatusOr<Formula> formula = Formula::Parse(text);
  EXPECT_TRUE(formula.ok()) << text << ": " << formula.status();
  return formula->Evaluate([&](const std::string& name) -> std::optional<Numbers> {
    const auto at = values.find(name);
    return at == values.end() ? std::nullopt : std::optional(at->second);
  });
}

TEST(Formula, Computes) {
  EXPECT_EQ(Value("2 * M + 3"), Numbers{11});
  EXPECT_EQ(Value("2 + 3 * M - 1"), Numbers{13});
  EXPECT_EQ(Value("(2 + 3) * -2"), Numbers{-10});
  EXPECT_EQ(Value("7 / 2"), Numbers{3.5});
  EXPECT_EQ(Value("7 // 2"), Numbers{3});
  EXPECT_EQ(Value("7 // 0"), Numbers{0});
  EXPECT_EQ(Value("M == 4"), Numbers{1});
  EXPECT_EQ(Value("len(X) == len(M)"), Numbers{0});
}

TEST(Formula, ListsGoItemByItem) {
  EXPECT_EQ(Value("(X + 2 * 1 - (R - 1) - 1) // 2 + 1"), (Numbers{28, 14}));
  EXPECT_EQ(Value("prod(X)"), Numbers{1680});
  EXPECT_EQ(Value("prod(none)"), Numbers{1});
  EXPECT_EQ(Value("at(X, 0) - at(X, -1)"), Numbers{26});
}

TEST(Formula, WhatIsNotKnownIsNothing) {
  EXPECT_EQ(Value("2 * N"), std::nullopt);
  EXPECT_EQ(Value("at(X, 2)"), std::nullopt);
  EXPECT_EQ(Value("at(X, -3)"), std::nullopt);
  EXPECT_EQ(Value("X + none"), std::nullopt);
}

TEST(Formula, ErrorsNameTheColumn) {
  const struct {
    const char* text;
    const char* message;
  } kRows[] = {
      {"", "column 1: expected a number, a name or ("},
      {"2 *", "column 4: expected a number, a name or ("},
      {"(2", "column 3: expected )"},
      {"2 M", "column 3: expected an operator or the end"},
      {"sum(X)", "column 1: expected prod, len or at"},
      {"at(X)", "column 5: expected , and a position"},
  };
  for (const auto& row : kRows) EXPECT_EQ(Formula::Parse(row.text).status().message(), row.message) << row.text;
}

}  // namespace
}  // namespace torchtrace
