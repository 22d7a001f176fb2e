#include "cmd/run/self_check.h"

#include <optional>
#include <string>

#include "gtest/gtest.h"

namespace torchtrace {
namespace {

Statistics Dispatched(uint64_t tans) {
  Statistics statistics;
  for (const char* api : {"aten::cos", "aten::exp", "aten::tanh"}) {
    statistics.apis.push_back({.api = api, .level = 2, .calls = 1});
  }
  statistics.apis.push_back({.api = "aten::sin", .level = 2, .calls = 1000});
  if (tans > 0) statistics.apis.push_back({.api = "aten::tan", .level = 2, .calls = tans});
  return statistics;
}

TEST(SelfTest, KnownCallsAreCountedExactly) {
  EXPECT_EQ(CompareKnownCalls(2, Dispatched(1)), "");
  EXPECT_EQ(CompareKnownCalls(2, Dispatched(0)), "of 1 call of aten::tan 0 were recorded");
  EXPECT_EQ(CompareKnownCalls(2, Dispatched(2)), "of 1 call of aten::tan 2 were recorded");
  // Calls of another level don't count.
  EXPECT_EQ(CompareKnownCalls(1, Dispatched(1)), "of 1000 calls of torch.sin 0 were recorded");
}

TEST(SelfTest, ResultsAreKept) {
  const SelfTestResult result = {{1, {"of 1 call of torch.cos 0 were recorded"}}, {2, {"Aborted", true}}};
  const std::optional<SelfTestResult> read = ParseSelfTestResult(FormatSelfTestResult(result));
  ASSERT_TRUE(read.has_value());
  ASSERT_EQ(read->size(), 2u);
  EXPECT_EQ(read->at(1).what, result.at(1).what);
  EXPECT_FALSE(read->at(1).died);
  EXPECT_TRUE(read->at(2).died);
  EXPECT_TRUE(ParseSelfTestResult(FormatSelfTestResult({}))->empty());
}

TEST(SelfTest, WhatIsNoResultIsIgnored) {
  for (const char* text : {"", "{", "[]", "{}", R"({"failed": []})", R"({"failed": {"7": {"what": "", "died": true}}})",
                           R"({"failed": {"1": {"what": 1, "died": true}}})", R"({"failed": {"1": {"what": ""}}})"}) {
    EXPECT_FALSE(ParseSelfTestResult(text).has_value()) << text;
  }
}

}  // namespace
}  // namespace torchtrace
