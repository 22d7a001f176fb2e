#include "serialize/base/version_spans.h"

#include <utility>

#include "gtest/gtest.h"

namespace torchtrace {
namespace {

TEST(VersionSpans, ReadsVersions) {
  for (const auto& [text, version] :
       {std::pair("2.13.0+cpu", MinorVersion{2, 13}), std::pair("2.7", MinorVersion{2, 7}),
        std::pair("2.16.0.dev20261122+cu130", MinorVersion{2, 16}), std::pair("3.0.0a0+git1f", MinorVersion{3, 0})}) {
    ASSERT_TRUE(ParseMinorVersion(text).has_value()) << text;
    EXPECT_EQ(*ParseMinorVersion(text), version) << text;
  }
  for (const char* text : {"", "2", "2.", "main", ".13", "2.x"}) EXPECT_FALSE(ParseMinorVersion(text)) << text;
  EXPECT_EQ(FormatMinorVersion({2, 10}), "2.10");
}

TEST(VersionSpans, HoldVersions) {
  EXPECT_TRUE(IsAmong("", {2, 9}));
  for (const char* spans : {"2.9", "2.7-2.9", "2.9-2.10", "2.7,2.9-", "-2.9,2.13", "-2.10", "2.8-"}) {
    EXPECT_TRUE(IsAmong(spans, {2, 9})) << spans;
  }
  for (const char* spans :
       {"2.90", "2.7-2.8", "2.10-", "-2.8", "-2.8,2.10-2.11", "-", "2.7-2.9-2.11", "x-2.9", "2.9-y"}) {
    EXPECT_FALSE(IsAmong(spans, {2, 9})) << spans;
  }
  EXPECT_TRUE(IsAmong("2.10-", {3, 0}));
}

}  // namespace
}  // namespace torchtrace
