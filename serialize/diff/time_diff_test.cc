#include "serialize/diff/time_diff.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "serialize/diff/reports.h"
#include "serialize/model/step_marks.h"
#include "serialize/reports/repeated_stats.h"
#include "serialize/testing/fake_trace.h"

namespace torchtrace {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;

// Steps of a millisecond, or of `first_ms` the first one. What comes after the last one is in no step.
class SteppedTrace {
 public:
  explicit SteppedTrace(size_t steps, int64_t first_ms = 1) : trace_(json{{"memory", true}}), first_ms_(first_ms) {
    trace_.process(0).known.steps_by = StepKind::kStep;
    trace_.process(0).known.last_steps.at(StepKind::kStep) = {steps + 1, BeginOf(steps + 1)};
  }

  void Begin(size_t step) {
    StepMarks marks;
    marks.at(StepKind::kStep) = {step, BeginOf(step)};
    trace_.Tag(WithStepMarks("", marks));
  }
  void Call(const std::string& api, int64_t ns, uint64_t bytes = 0) {
    trace_.Enter(MakeConfig(2, api, {TensorValue({4, 4}), TensorValue({4, 4})}));
    if (bytes > 0) trace_.Memory({.address = ++address_, .bytes = bytes});
    trace_.Wait(ns - (bytes > 0 ? 20 : 10));
    trace_.Leave();
  }
  FakeTrace* get() { return &trace_; }

 private:
  int64_t BeginOf(size_t step) const {
    return static_cast<int64_t>(step) * 1'000'000 + (step > 1 ? (first_ms_ - 1) * 1'000'000 : 0);
  }

  FakeTrace trace_;
  const int64_t first_ms_;
  uint64_t address_ = 0;
};

TimeDiff DiffOf(SteppedTrace* a, SteppedTrace* b, StatsBy by = StatsBy::kApi,
                std::map<std::string, RowDifference>* rows = nullptr) {
  StatsOptions options;
  options.grouping.by = by;
  options.costs = true;
  const std::vector<StatsTrace> traces = {{a->get(), "a"}, {b->get(), "b"}};
  const absl::StatusOr<RepeatedStats> stats = RepeatStats(traces, options);
  EXPECT_TRUE(stats.ok()) << stats.status();
  TimeDiff diff = CompareTimes(*stats, {.rows_are_steps = by == StatsBy::kStep});
  if (rows != nullptr) {
    for (const RowDifference& row : diff.rows) rows->emplace(stats->names->Text(row.row), row);
  }
  return diff;
}

// Medians per step, without the first one; what is within the noise is counted.
TEST(TimeDiff, MediansPerStep) {
  SteppedTrace a(12), b(12);
  for (size_t step = 1; step <= 12; ++step) {
    const auto shift = static_cast<int64_t>(step % 3);  // 0, 1, 2
    for (SteppedTrace* const trace : {&a, &b}) {
      const bool is_b = trace == &b;
      trace->Begin(step);
      const int64_t warm_up = step == 1 ? 500'000 : 0;
      trace->Call("aten::mm", (is_b ? 2000 : 1000) + warm_up + 10 * shift, is_b ? 300 : 200);
      trace->Call("aten::relu", 1000 + (is_b ? 5 : 0) + 10 * shift);
      trace->Call("aten::add", 500);
      // In every third step.
      if (shift == 0) trace->Call("aten::abs", is_b ? 900 : 600);
      trace->Call(is_b ? "aten::gelu" : "aten::silu", 700);
    }
  }
  for (SteppedTrace* const trace : {&a, &b}) {
    trace->Begin(13);
    trace->Call("aten::mm", 1'000'000);
    trace->Call(trace == &a ? "aten::sin" : "aten::cos", 1'000'000);
  }
  std::map<std::string, RowDifference> rows;
  const TimeDiff diff = DiffOf(&a, &b, StatsBy::kApi, &rows);
  EXPECT_TRUE(diff.per_step);
  EXPECT_EQ(diff.warm_up, 1u);
  EXPECT_EQ(diff.a.steps, 11u);
  EXPECT_EQ(diff.within_noise, 1u);  // relu
  EXPECT_EQ(diff.same, 1u);          // add
  std::vector<std::string> names;
  for (const auto& [name, row] : rows) names.push_back(name);
  EXPECT_THAT(names, ElementsAre("aten::abs", "aten::gelu", "aten::mm", "aten::silu"));

  const RowDifference& mm = rows.at("aten::mm");
  EXPECT_EQ(mm.change, RowChange::kSlower);
  EXPECT_EQ(mm.a.self_time_ns.value, 1010);
  EXPECT_EQ(mm.b.self_time_ns.value, 2010);
  // Ten steps differ by 10 from the median, or by 0: 1.4826 * 10, times 1.2533 for a median, by 10 steps at most, and
  // Student's t of 11.
  EXPECT_NEAR(*mm.a.self_time_ns.error, 3.957 * 1.2533 * 14.826 / std::sqrt(10), 1);
  EXPECT_EQ(mm.a.allocated.value, 200);
  EXPECT_EQ(mm.b.allocated.value, 300);
  EXPECT_EQ(mm.a.allocated.error, 0);
  EXPECT_EQ(mm.a.calls.value, 1);
  EXPECT_EQ(mm.a.flops.value, 128);
  // In 4 of 12 steps, the first one not among them.
  const RowDifference& abs = rows.at("aten::abs");
  EXPECT_NEAR(abs.a.self_time_ns.value, 600. * 4 / 11, 1e-9);
  EXPECT_NEAR(abs.b.self_time_ns.value, 900. * 4 / 11, 1e-9);
  EXPECT_NEAR(abs.a.calls.value, 4. / 11, 1e-9);
  EXPECT_EQ(rows.at("aten::silu").change, RowChange::kRemoved);
  EXPECT_EQ(rows.at("aten::gelu").change, RowChange::kAdded);
  EXPECT_FALSE(rows.at("aten::gelu").a.called);
  EXPECT_EQ(diff.b.whole.self_time_ns.value - diff.a.whole.self_time_ns.value, 1005);
}

// As many steps are warm-up as take unusually long in front, of whichever trace.
TEST(TimeDiff, LongFirstStepsAreWarmUp) {
  SteppedTrace a(12), b(12);
  FakeTrace* const slow = b.get();
  for (SteppedTrace* const trace : {&a, &b}) {
    for (size_t step = 1; step <= 12; ++step) {
      trace->Begin(step);
      trace->Call("aten::mm", 1000);
    }
  }
  EXPECT_EQ(DiffOf(&a, &b).warm_up, 1u);
  // Steps end when others begin, or when metadata say so.
  slow->process(0).known.step_ends[2] = 9'000'000;
  slow->process(0).known.step_ends[3] = 9'000'000;
  EXPECT_EQ(DiffOf(&a, &b).warm_up, 3u);
  EXPECT_EQ(DiffOf(&a, &b).a.steps, 9u);
}

// A single step has no noise that is known: any difference counts.
TEST(TimeDiff, NothingRepeats) {
  SteppedTrace a(2), b(2);
  for (SteppedTrace* const trace : {&a, &b}) {
    for (size_t step = 1; step <= 2; ++step) {
      trace->Begin(step);
      trace->Call("aten::mm", trace == &a ? 1000 : 1001);
    }
  }
  std::map<std::string, RowDifference> rows;
  const TimeDiff diff = DiffOf(&a, &b, StatsBy::kApi, &rows);
  EXPECT_TRUE(diff.per_step);
  EXPECT_EQ(diff.unrepeated, 0u);
  EXPECT_EQ(rows.at("aten::mm").change, RowChange::kSlower);
  EXPECT_FALSE(rows.at("aten::mm").Of(&MeasuredRow::self_time_ns).noise.has_value());
}

// Whole runs: equal calls repeat one another. Of a row that nothing repeats, noise is unknown.
TEST(TimeDiff, WholeRuns) {
  SteppedTrace a(0), b(0);
  for (SteppedTrace* const trace : {&a, &b}) {
    trace->Call("aten::mm", trace == &a ? 1000 : 1001);
    for (int i = 0; i < 100; ++i) trace->Call("aten::add", (trace == &a ? 1000 : 1001) + 5 * (i % 10));
    for (int i = 0; i < 100; ++i) trace->Call("aten::sub", (trace == &a ? 1000 : 1010) + 5 * (i % 10));
  }
  std::map<std::string, RowDifference> rows;
  const TimeDiff diff = DiffOf(&a, &b, StatsBy::kApi, &rows);
  EXPECT_FALSE(diff.per_step);
  EXPECT_EQ(diff.within_noise, 1u);  // add
  EXPECT_EQ(diff.unrepeated, 1u);    // mm
  ASSERT_EQ(rows.size(), 1u);
  const RowDifference& sub = rows.at("aten::sub");
  EXPECT_EQ(sub.a.self_time_ns.value, 102'250);
  // 100 calls with a standard deviation of 14.434.
  EXPECT_NEAR(*sub.a.self_time_ns.error, 3 * 10 * 14.434, 0.1);
}

// Of rows that are steps, each is one: by how much steps differ tells the noise.
TEST(TimeDiff, RowsThatAreSteps) {
  SteppedTrace a(12), b(12);
  for (SteppedTrace* const trace : {&a, &b}) {
    for (size_t step = 1; step <= 12; ++step) {
      trace->Begin(step);
      const auto shift = static_cast<int64_t>(10 * (step % 3));
      trace->Call("aten::mm", 1000 + shift + (trace == &b ? (step == 7 ? 5000 : 10) : 0));
    }
  }
  std::map<std::string, RowDifference> rows;
  const TimeDiff diff = DiffOf(&a, &b, StatsBy::kStep, &rows);
  EXPECT_EQ(diff.within_noise, 10u);
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows.at("7").change, RowChange::kSlower);
}

std::string ReportText(SteppedTrace* a, SteppedTrace* b, DiffOptions options, const TimeReportOptions& times = {}) {
  std::ostringstream out;
  std::vector<std::string> notes;
  options.a_name = "before";
  options.b_name = "after";
  TimeReportOptions with_configs = times;
  with_configs.a_configs = a->get();
  with_configs.b_configs = b->get();
  const absl::StatusOr<bool> fired = WriteTimeDiff(a->get(), b->get(), options, with_configs, &out, &notes);
  return fired.ok() ? absl::StrCat(*fired ? "fired\n" : "", out.str()) : std::string(fired.status().message());
}

void FillSteps(SteppedTrace* trace, int64_t ns, const std::string& more) {
  for (size_t step = 1; step <= 6; ++step) {
    trace->Begin(step);
    trace->Call("aten::mm", ns + static_cast<int64_t>(step), static_cast<uint64_t>(ns));
    trace->Call("aten::add", 1000);
    trace->Call(more, 2000);
  }
}

TEST(TimeReport, Text) {
  SteppedTrace a(6), b(6);
  FillSteps(&a, 1000, "aten::silu");
  FillSteps(&b, 2000, "aten::gelu");
  DiffOptions options;
  options.gates = *ParseGates({"slower=10%,added-api,removed-config,memory=500%"});
  EXPECT_EQ(ReportText(&a, &b, options),
            R"(fired
--- before  3 calls per step, 5 steps
+++ after   3 calls per step, 5 steps
per step: medians without each process's first step (warm-up); noise: three standard errors, by median absolute deviation
all calls: self time 4.00 us -> 5.00 us (+25.0%, noise 0.2%), allocated 1.00 k -> 2.00 k (+100.0%)
peak of memory, cpu: 6.00 k -> 12.0 k (+100.0%)

change    calls   self A   self B  difference   ratio  noise         allocated  API
removed  1 -> -  2.00 us        -    -2.00 us       -      -            0 -> -  aten::silu
added    - -> 1        -  2.00 us    +2.00 us       -      -            - -> 0  aten::gelu
slower        1  1.00 us  2.00 us    +1.00 us  +99.6%   0.8%  1.00 k -> 2.00 k  aten::mm

3 rows differ; 1 is the same

added-api: only B calls aten::gelu (level 2), 6 calls
removed-config: only A calls aten::silu(Tensor([4, 4], "float32"), Tensor([4, 4], "float32")) (level 2), 6 calls
slower: all calls took 4.00 us per step in A, 5.00 us in B (+25.0%, noise 0.2%); and 1 more row
passed: memory=500%
)");
  options.only = *ParseDiffParts({"changed"});
  EXPECT_THAT(ReportText(&a, &b, options), HasSubstr("1 row differs (2 not shown, by --only); 1 is the same\n"));
}

TEST(TimeReport, SaysWhatAGateLacks) {
  SteppedTrace a(6), b(6), empty(6);
  FillSteps(&a, 1000, "aten::silu");
  FillSteps(&b, 2000, "aten::gelu");
  DiffOptions options;
  options.gates = *ParseGates({"slower=10%"});
  EXPECT_EQ(ReportText(&a, &empty, options), "cannot check slower=10%: after has no calls to compare");
  b.get()->process(0).known.memory = false;
  options.gates = *ParseGates({"memory=10%"});
  EXPECT_EQ(ReportText(&a, &b, options),
            "cannot check memory=10%: after has no memory: record it with torchtrace run --memory");
  options.gates = *ParseGates({"flops=1%"});
  TimeReportOptions times;
  times.stats.costs = true;
  times.stats.filter = GlobFilter{{"aten::add"}, {}};
  EXPECT_EQ(ReportText(&a, &b, options, times),
            "cannot check flops=1%: before has no call whose FLOPs are known: record level 2 (torchtrace run --levels "
            "2)");
}

TEST(TimeReport, SaysThatATraceIsIncomplete) {
  SteppedTrace a(6), b(6);
  FillSteps(&a, 1000, "aten::silu");
  FillSteps(&b, 1000, "aten::silu");
  DiffOptions options;
  options.gates = *ParseGates({"slower=10%"});
  EXPECT_THAT(ReportText(&a, &b, options), HasSubstr("\npassed: slower=10%\n"));
  b.get()->process(0).closed = false;
  b.get()->process(0).damage.lost_calls = 3;
  EXPECT_THAT(
      ReportText(&a, &b, options),
      HasSubstr("\ngates see only what is there: after is incomplete: 3 calls lost to damage of the log; logs not "
                "closed, of processes killed or still running: 1 of 1\n"));
}

TEST(Gates, Parse) {
  const auto error = [](const std::string& list) { return std::string(ParseGates({list}).status().message()); };
  EXPECT_EQ(ParseGates({"added-api,slower=2.5%", "memory=0%"})->size(), 3u);
  EXPECT_EQ(ParseGates({"slower=2.5%"})->at(0).percent, 2.5);
  EXPECT_THAT(error("slow=1%"), HasSubstr("unknown gate \"slow\", did you mean slower?"));
  EXPECT_THAT(error("added-api,"), HasSubstr("unknown gate \"\""));
  for (const char* const wrong :
       {"slower", "slower=", "slower=10", "slower=%", "slower=-1%", "slower=nan%", "slower=inf%", "slower=1%%"}) {
    EXPECT_THAT(error(wrong), HasSubstr(" needs a percentage from 0%: slower=10%")) << wrong;
  }
  EXPECT_THAT(error("added-api=1%"), HasSubstr("added-api has no percentage"));
  EXPECT_THAT(error("slower=1%,slower=2%"), HasSubstr("slower=1% was given before"));
}

TEST(Gates, JunitOfHostileText) {
  GateResults results;
  results.gates.push_back(
      {"slower=1%", true, "x ]]> <b>\"&\" \x01\x1b[2J\xff \xef\xbf\xbf\n\xe2\x80\xa8", {"</failure>"}});
  results.gates.push_back({"added-api"});
  std::ostringstream out;
  WriteGatesJunit(results, "a&b", "<", &out);
  EXPECT_EQ(out.str(), R"(<?xml version="1.0" encoding="UTF-8"?>
<testsuites>
  <testsuite name="torchtrace diff a&amp;b &lt;" tests="2" failures="1" errors="0" skipped="0">
    <testcase classname="torchtrace.diff" name="slower=1%">
      <failure message="x ]]&gt; &lt;b&gt;&quot;&amp;&quot; \x01\x1b[2J\xff \uffff\n\u2028">x ]]&gt; &lt;b&gt;&quot;&amp;&quot; \x01\x1b[2J\xff \uffff\n\u2028
&lt;/failure&gt;</failure>
    </testcase>
    <testcase classname="torchtrace.diff" name="added-api"/>
  </testsuite>
</testsuites>
)");
}

}  // namespace
}  // namespace torchtrace
