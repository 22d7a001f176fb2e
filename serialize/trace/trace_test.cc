#include "serialize/trace/trace.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "serialize/trace/tables.h"

namespace torchtrace {
namespace {

TEST(ConfigTableTest, NumbersByContent) {
  ConfigTable table;
  const struct {
    std::string identity;
    std::string facets;
    VariantId variant;
    ConfigId config;
  } kCases[] = {
      {"a", "", 0, 0},  {"b", "", 1, 1}, {"a", "", 0, 0},  {"a", "x", 2, 0}, {"a", "y", 3, 0},
      {"a", "x", 2, 0}, {"", "", 4, 2},  {"b", "x", 5, 1}, {"", "", 4, 2},   {std::string("a\0", 2), "", 6, 3},
      {"c", "x", 7, 4}, {"c", "", 8, 4},
  };
  for (const auto& c : kCases) {
    // The table copies the bytes: the arguments are temporary.
    const std::string identity = c.identity, facets = c.facets;
    EXPECT_EQ(table.Intern(identity, facets), c.variant);
    EXPECT_EQ(table.config_of(c.variant), c.config);
    table.Expect(ConfigTable::HashOf(identity));
    EXPECT_EQ(table.Intern(identity, ConfigTable::HashOf(identity), facets), c.variant);
  }
  for (const auto& c : kCases) {
    EXPECT_EQ(table.identity(c.config), c.identity);
    EXPECT_EQ(table.facets(c.variant), c.facets);
  }
  EXPECT_EQ(table.config_count(), 5u);
  EXPECT_EQ(table.variant_count(), 9u);
}

TEST(ConfigTableTest, BytesStayWhereTheyAre) {
  ConfigTable table;
  table.Intern("first", "facets");
  const char* const first = table.identity(0).data();
  for (int i = 0; i < 100'000; ++i) table.Intern(absl::StrCat("config-", i), "");
  table.Intern(std::string(1 << 20, 'x'), std::string(1 << 20, 'y'));
  EXPECT_EQ(table.identity(0).data(), first);
  EXPECT_EQ(table.facets(0), "facets");
  EXPECT_EQ(table.identity(77'778), "config-77777");
  EXPECT_EQ(table.facets(100'001), std::string(1 << 20, 'y'));
}

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

ProcessMetadata Parse(const char* text) { return ParseProcessMetadata(json::parse(text)); }

TEST(TagTableTest, MarksOfStepsShareTheText) {
  TagTable tags;
  const uint32_t plain = tags.Intern(R"({"phase":"train"})");
  StepMarks marks;
  marks.at(StepKind::kStep) = {1, 100};
  const uint32_t first = tags.WithSteps(plain, marks);
  marks.at(StepKind::kStep) = {2, 200};
  const uint32_t second = tags.WithSteps(first, marks);
  EXPECT_NE(first, second);
  EXPECT_EQ(tags.text(second).data(), tags.text(plain).data());
  EXPECT_EQ(tags.text(first), R"({"phase":"train"})");
  EXPECT_EQ(tags.steps(second), marks);
  EXPECT_EQ(tags.steps(plain), StepMarks());
  EXPECT_EQ(tags.Intern(R"({"phase":"train","@step":2,"@step_ns":200})"), second);
  EXPECT_EQ(tags.WithSteps(second, StepMarks()), plain);
}

TEST(TagTableTest, StepTags) {
  TagTable tags;
  EXPECT_EQ(tags.step_tag(tags.Intern(R"({"step":3,"@tag":1,"@tag_ns":5})")), "3");
  EXPECT_EQ(tags.step_tag(tags.Intern(R"({"phase":"train"})")), "");
  EXPECT_EQ(tags.step_tag(kNoTags), "");
}

TEST(TagTableTest, NoMarksOnNoTagsAreNoTags) {
  TagTable tags;
  StepMarks marks;
  EXPECT_EQ(tags.WithSteps(kNoTags, marks), kNoTags);
  for (const int64_t ns : {int64_t{-1}, INT64_MAX}) {
    marks.at(StepKind::kStep) = {1, ns};
    EXPECT_EQ(tags.WithSteps(kNoTags, marks), kNoTags) << ns;
  }
  marks.at(StepKind::kStep) = {1, 5};
  const uint32_t id = tags.WithSteps(kNoTags, marks);
  EXPECT_NE(id, kNoTags);
  EXPECT_EQ(tags.text(id), "");
  EXPECT_EQ(tags.steps(id), marks);
  EXPECT_EQ(tags.text(7), "");
}

TEST(ProcessMetadataTest, TellsWhatIsThere) {
  const ProcessMetadata known = Parse(R"({"role": "fork", "host": "box", "pid": 7, "rank": 3, "cwd": "/home",
    "packages": {"torch": {"version": "2.13.0", "git": "abc"}, "numpy": "2.4.1"},
    "source": "a.ttlog", "label": "gpt2", "levels": [0, 2], "stacks": "all", "stack_format": "api",
    "clock": {"origin_monotonic_ns": 10, "origin_realtime_ns": 1000}, "paused": true, "not_seen": ["told before"],
    "skip": 3, "first": 2, "held_back": true,
    "end": {"exit_code": 1, "monotonic_ns": 25, "stopped": "no room", "cut": {"strings": 2}, "getters": 4,
            "left_out": 5}})");
  EXPECT_EQ(known.role, "fork");
  EXPECT_EQ(known.host, "box");
  EXPECT_EQ(known.pid, 7);
  EXPECT_EQ(known.ranked.rank, 3);
  EXPECT_EQ(known.cwd, "/home");
  EXPECT_THAT(known.package_versions, ElementsAre(Pair("numpy", "2.4.1"), Pair("torch", "2.13.0")));
  EXPECT_EQ(known.PackageVersion("torch"), "2.13.0");
  EXPECT_TRUE(known.has_source);
  EXPECT_EQ(known.source, "a.ttlog");
  EXPECT_EQ(known.label, "gpt2");
  EXPECT_THAT(known.levels, ElementsAre(0, 2));
  EXPECT_EQ(known.stacks, "all");
  EXPECT_EQ(known.stack_format, "api");
  EXPECT_TRUE(known.has_clock);
  EXPECT_EQ(known.origin_realtime_ns, 1000);
  EXPECT_TRUE(known.paused);
  EXPECT_THAT(known.windows, ElementsAre("--skip 3 --first 2", "torchtrace ctl"));
  EXPECT_EQ(known.left_out, 5u);
  EXPECT_EQ(known.exit_code, 1);
  EXPECT_EQ(known.signal, std::nullopt);
  EXPECT_EQ(known.duration_ns, 15);
  EXPECT_EQ(known.stopped, "no room");
  EXPECT_EQ(known.getters, 4u);
  EXPECT_THAT(known.cut, ElementsAre(Pair("strings", 2u)));
  EXPECT_THAT(known.not_seen, ElementsAre("told before"));
}

TEST(ProcessMetadataTest, StepsEndAtPossibleTimes) {
  const ProcessMetadata known = Parse(R"({"steps_by": "step", "step_ends": {"step": {"1": 5, "2": -1, "x": 5, "4": "5",
    "3": 3000000000000000001, "5": 18446744073709551615, "6": 3000000000000000000}}})");
  EXPECT_THAT(known.step_ends, ElementsAre(Pair(1, 5), Pair(6, 3'000'000'000'000'000'000)));
}

// Missing members, and those of another type, leave the default values.
TEST(ProcessMetadataTest, PassesOverWhatIsOfAnotherType) {
  for (const char* const text :
       {"null", "[]", "7", "{}", R"({"role": 1, "host": null, "pid": "7", "rank": 1.5, "cwd": 3, "packages": ["torch"],
          "label": {}, "levels": "1", "stacks": true, "stack_format": [], "paused": "yes", "held_back": 1,
          "end": "over"})",
        R"({"packages": {"torch": {"git": "abc"}, "numpy": 2}, "levels": ["1", null],
          "end": {"exit_code": "0", "threads": [3, {"getters": -1}], "cut": [1], "not_seen": {}, "stopped": 1}})"}) {
    const ProcessMetadata known = Parse(text);
    EXPECT_EQ(known.role + known.host + known.source + known.label + known.stopped, "") << text;
    EXPECT_FALSE(known.pid || known.ranked.rank || known.cwd || known.stacks || known.stack_format) << text;
    EXPECT_FALSE(known.exit_code || known.signal || known.duration_ns || known.origin_realtime_ns) << text;
    EXPECT_FALSE(known.has_source || known.has_clock || known.paused || known.getters_unknown) << text;
    EXPECT_THAT(known.windows, IsEmpty()) << text;
    EXPECT_EQ(known.PackageVersion("torch"), "") << text;
    EXPECT_THAT(known.package_versions, IsEmpty()) << text;
    EXPECT_THAT(known.levels, IsEmpty()) << text;
    EXPECT_THAT(known.cut, IsEmpty()) << text;
    EXPECT_THAT(known.not_seen, IsEmpty()) << text;
    EXPECT_EQ(known.getters, 0u) << text;
  }
}

}  // namespace

}  // namespace torchtrace
