#include "tracer/record/recording_options.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace torchtrace {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string Problem(const std::string& text) {
  const absl::StatusOr<RecordingOptions> options = ParseRecordingOptions(text);
  EXPECT_FALSE(options.ok()) << text;
  return std::string(options.status().message());
}

TEST(RecordingOptionsTest, WhatIsNotGivenIsAsAlways) {
  const absl::StatusOr<RecordingOptions> options = ParseRecordingOptions("{}");
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(FormatRecordingOptions(*options), FormatRecordingOptions(RecordingOptions()));
  EXPECT_EQ(options->dialect, "torch");
  EXPECT_TRUE(options->default_apis);
  EXPECT_FALSE(options->render_limit.has_value());
}

// A value other than the default of every member survives formatting and parsing.
TEST(RecordingOptionsTest, EveryMemberCrosses) {
  json changed = json::parse(FormatRecordingOptions(RecordingOptions()));
  for (auto& [name, value] : changed.items()) {
    if (value.is_boolean()) {
      value = !value.get<bool>();
    } else if (name == "int_ranges" || name == "stacks") {
      value = WhichCallsName(WhichCalls::kAll);
    } else if (name == "numbers") {
      value = WhichNumbersName(WhichNumbers::kAll);  // which stop_on_nan needs
    } else if (value.is_string()) {
      value = name + "\n\"é";
    } else if (value.is_array()) {
      value = name == "levels" ? json{0, 2} : json{"a*", name};
    } else if (name == "sample") {
      value = 0.25;
    } else if (value.is_number()) {
      value = value.get<uint64_t>() + 7;
    } else {
      ASSERT_TRUE(value.is_null()) << name;
      value = UINT64_MAX;
    }
  }
  const absl::StatusOr<RecordingOptions> options = ParseRecordingOptions(changed.dump());
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(json::parse(FormatRecordingOptions(*options)), changed);
  EXPECT_THAT(options->levels, ElementsAre(0, 2));
  EXPECT_THAT(options->exclude, ElementsAre("a*", "exclude"));
  EXPECT_EQ(options->render_limit, UINT64_MAX);
}

TEST(RecordingOptionsTest, NumbersNeedOutputsAndIdentities) {
  const absl::StatusOr<RecordingOptions> options = ParseRecordingOptions(R"({"numbers": "all"})");
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(options->numbers, WhichNumbers::kAll);
  EXPECT_TRUE(options->outputs && options->ids);
}

TEST(RecordingOptionsTest, StoppingOnNanNeedsNumbersAndOperators) {
  const absl::StatusOr<RecordingOptions> options = ParseRecordingOptions(R"({"stop_on_nan": true, "levels": [1, 2]})");
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(options->numbers, WhichNumbers::kAll);
  EXPECT_TRUE(CheckRecordingOptions(*options).ok());
  RecordingOptions without_operators = *options;
  without_operators.levels = {1};
  EXPECT_THAT(CheckRecordingOptions(without_operators).message(), HasSubstr("add 2 to the levels"));
}

TEST(RecordingOptionsTest, MemoryNeedsListedCalls) {
  RecordingOptions options;
  options.memory = true;
  EXPECT_TRUE(CheckRecordingOptions(options).ok());
  options.max_size = 1;
  EXPECT_THAT(CheckRecordingOptions(options).message(), HasSubstr("max-size can't be combined with memory"));
}

TEST(RecordingOptionsTest, BytesThatAreNoTextAreReplaced) {
  RecordingOptions options;
  options.include = {"torch.\xff*"};
  EXPECT_THAT(ParseRecordingOptions(FormatRecordingOptions(options))->include, ElementsAre("torch.\xef\xbf\xbd*"));
}

TEST(RecordingOptionsTest, NamesWhatIsUnknown) {
  EXPECT_THAT(Problem(R"({"quiet": true, "outer": true})"), HasSubstr("no option \"outer\""));
}

TEST(RecordingOptionsTest, NamesWhatHasAnotherType) {
  EXPECT_THAT(Problem(R"({"quiet": 1})"), HasSubstr("quiet must be true or false"));
  EXPECT_THAT(Problem(R"({"stacks": null})"), HasSubstr("stacks must be \"first\", \"all\""));
  EXPECT_THAT(Problem(R"({"numbers": true})"), HasSubstr("numbers must be \"results\", \"all\""));
  EXPECT_THAT(Problem(R"({"groups": "a\u0000b"})"), HasSubstr("groups must be a text without"));
  EXPECT_THAT(Problem(R"({"include": "a"})"), HasSubstr("include must be a list of texts"));
  EXPECT_THAT(Problem(R"({"apis": ["a", 1]})"), HasSubstr("apis must be a list of texts"));
  EXPECT_THAT(Problem(R"({"frame_depth": -1})"), HasSubstr("frame_depth must be a number"));
  EXPECT_THAT(Problem(R"({"render_limit": -1})"), HasSubstr("render_limit must be a number of calls"));
  for (const char* const levels : {R"("1")", "[-1]", "[1.5]", "[3000000000]", "[[1]]"}) {
    EXPECT_THAT(Problem(std::string(R"({"levels": )") + levels + "}"), HasSubstr("levels must be"));
  }
}

TEST(RecordingOptionsTest, RefusesWhatIsNoObject) {
  for (const char* const text : {"", "[]", "{", "null", "{} {}"})
    EXPECT_THAT(Problem(text), HasSubstr("not a JSON object"));
}

}  // namespace
}  // namespace torchtrace
