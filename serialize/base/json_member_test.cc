#include "serialize/base/json_member.h"

#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace torchtrace {
namespace {

using nlohmann::json;

TEST(JsonMember, WhatIsMissingOrOfAnotherTypeIsNotThere) {
  const json object = {{"text", "a"}, {"number", -3}, {"real", 1.5}, {"null", nullptr}};
  EXPECT_EQ(*FindMember(object, "text"), "a");
  EXPECT_TRUE(FindMember(object, "null")->is_null());
  EXPECT_EQ(FindMember(object, "other"), nullptr);
  EXPECT_EQ(FindMember(json::array({1}), "text"), nullptr);
  EXPECT_EQ(FindMember(json(), "text"), nullptr);

  EXPECT_EQ(TextMember(object, "text"), "a");
  EXPECT_EQ(TextMember(object, "number"), "");
  EXPECT_EQ(TextMember(json(), "text"), "");

  EXPECT_EQ(IntMember(object, "number"), -3);
  EXPECT_EQ(IntMember(object, "real"), std::nullopt);
  EXPECT_EQ(IntMember(object, "text"), std::nullopt);
}

TEST(JsonMember, UnsignedTakesWholeNumbersFromZero) {
  const json object = {{"negative", -1}, {"signed", int64_t{7}}, {"large", UINT64_MAX}, {"real", 2.0}};
  EXPECT_EQ(UnsignedMember(object, "negative"), std::nullopt);
  EXPECT_EQ(UnsignedMember(object, "signed"), 7u);
  EXPECT_EQ(UnsignedMember(object, "large"), UINT64_MAX);
  EXPECT_EQ(UnsignedMember(object, "real"), std::nullopt);
}

}  // namespace
}  // namespace torchtrace
