#include "serialize/trace/step_times.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "serialize/testing/fake_trace.h"

namespace torchtrace {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

StepMarks At(StepKind kind, uint64_t number, int64_t begin_ns) {
  StepMarks marks;
  marks.at(kind) = {number, begin_ns};
  return marks;
}

// Calls `f` once with these tags.
void Call(FakeTrace* trace, std::string_view tags, const StepMarks& marks) {
  Config config;
  config.api = "f";
  trace->Tag(WithStepMarks(tags, marks));
  trace->Call(config);
}

std::vector<std::string> PlacesOf(FakeTrace* trace, StepTimes* times) {
  std::vector<std::string> places;
  const absl::Status read = trace->Read([&](const CallRecord& call) {
    if (call.kind != CallRecord::kEnter) return absl::OkStatus();
    const StepPlace at = times->Add(call);
    constexpr const char* kKinds[] = {"none", "before", "", "between", "after"};
    places.push_back(at.kind == StepPlace::kInStep ? std::to_string(at.number) : kKinds[at.kind]);
    return absl::OkStatus();
  });
  EXPECT_TRUE(read.ok());
  times->Finish();
  return places;
}

TEST(StepTimesTest, CallsOfModulesCountOnlyWhereNothingElseEndedAStep) {
  for (const bool optimizer : {false, true}) {
    FakeTrace trace(nlohmann::json{{"pid", 1}});
    ProcessMetadata& known = trace.process(0).known;
    known.last_steps.at(StepKind::kForward) = {3, 300};
    if (optimizer) known.steps_by = StepKind::kStep;
    known.last_steps.at(StepKind::kStep) = {2, 250};
    Call(&trace, "", StepMarks());
    Call(&trace, "", At(StepKind::kForward, 1, 100));
    StepMarks both = At(StepKind::kForward, 2, 200);
    both.at(StepKind::kStep) = {1, 150};
    Call(&trace, "", both);
    Call(&trace, "", optimizer ? At(StepKind::kStep, 2, 250) : At(StepKind::kForward, 3, 300));
    StepTimes times(&trace);
    if (optimizer) {
      EXPECT_THAT(PlacesOf(&trace, &times), ElementsAre("before", "before", "1", "after"));
      EXPECT_EQ(times.Of(0).at(1).begin_ns, 150);
      EXPECT_EQ(times.Of(0).at(1).end_ns, 250);
    } else {
      EXPECT_THAT(PlacesOf(&trace, &times), ElementsAre("before", "1", "2", "after"));
      EXPECT_EQ(times.Of(0).at(1).end_ns, 200);
      EXPECT_EQ(times.Of(0).at(2).end_ns, 300);
    }
  }
}

TEST(StepTimesTest, AStepWhoseEndNobodySawHasNone) {
  FakeTrace trace;  // killed: no end says where it was
  trace.process(0).known.steps_by = StepKind::kStep;
  Call(&trace, "", At(StepKind::kStep, 1, 100));
  Call(&trace, "", At(StepKind::kStep, 5, 500));
  StepTimes times(&trace);
  EXPECT_THAT(PlacesOf(&trace, &times), ElementsAre("1", "5"));
  EXPECT_EQ(times.Of(0).at(1).end_ns, std::nullopt);
  EXPECT_EQ(times.Of(0).at(5).end_ns, std::nullopt);
}

TEST(StepTimesTest, TheProgramsTagNamesSteps) {
  FakeTrace trace;
  trace.process(0).known.steps_by = StepKind::kTag;
  Call(&trace, "", StepMarks());
  Call(&trace, R"({"step": 7})", At(StepKind::kTag, 1, 100));
  Call(&trace, R"({"other": 1})", At(StepKind::kTag, 1, 180));
  Call(&trace, R"({"step": "x"})", At(StepKind::kTag, 2, 200));
  StepTimes times(&trace);
  EXPECT_THAT(PlacesOf(&trace, &times), ElementsAre("before", "1", "between", "2"));
  EXPECT_EQ(times.Of(0).at(1).name, "7");
  EXPECT_EQ(times.Of(0).at(1).end_ns, 180);
  EXPECT_EQ(times.Of(0).at(2).name, "\"x\"");
  EXPECT_TRUE(times.Of(0).at(2).end_ns.has_value());
  // The trace's end tells when the last tag went.
  trace.process(0).known.last_steps.at(StepKind::kTag) = {2, 290};
  StepTimes ended(&trace);
  PlacesOf(&trace, &ended);
  EXPECT_EQ(ended.Of(0).at(2).end_ns, 290);
}

TEST(StepTimesTest, FindsTheStepOfATime) {
  FakeTrace trace;
  trace.process(0).known.steps_by = StepKind::kStep;
  trace.process(0).known.last_steps.at(StepKind::kStep) = {3, 300};
  Call(&trace, "", At(StepKind::kStep, 1, 100));
  Call(&trace, "", At(StepKind::kStep, 2, 200));
  StepTimes times(&trace);
  PlacesOf(&trace, &times);
  EXPECT_EQ(times.At(0, 99), nullptr);
  EXPECT_EQ(times.At(0, 100)->number, 1u);
  EXPECT_EQ(times.At(0, 299)->number, 2u);
  EXPECT_EQ(times.At(0, 300), nullptr);
  EXPECT_EQ(times.At(7, 100), nullptr);
}

TEST(StepSummaryTest, PercentilesAreByNearestRank) {
  std::vector<int64_t> ns;
  for (int64_t i = 1; i <= 100; ++i) ns.push_back(i);
  const StepSummary summary = SummarizeSteps(ns);
  EXPECT_EQ(summary.steps, 100u);
  EXPECT_EQ(summary.mean_ns, 50);
  EXPECT_EQ(summary.p50_ns, 50);
  EXPECT_EQ(summary.p90_ns, 90);
  EXPECT_EQ(summary.p99_ns, 99);
  // However far they spread, none is odd among many like it.
  EXPECT_THAT(summary.odd, IsEmpty());
  EXPECT_EQ(SummarizeSteps({}).steps, 0u);
}

TEST(StepSummaryTest, NamesTheOddOnes) {
  EXPECT_THAT(SummarizeSteps({100, 101, 99, 149, 100, 160, 100}).odd, ElementsAre(5));
  EXPECT_THAT(SummarizeSteps({1000}).odd, IsEmpty());
  constexpr int64_t kCentury = 3'000'000'000'000'000'000;
  EXPECT_THAT(SummarizeSteps({0, kCentury, 2 * kCentury}).odd, IsEmpty());
}

}  // namespace
}  // namespace torchtrace
