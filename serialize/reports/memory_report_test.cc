#include "serialize/reports/memory_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "serialize/model/step_marks.h"
#include "serialize/reports/reports.h"
#include "serialize/testing/fake_trace.h"

namespace torchtrace {
namespace {

using nlohmann::json;
using testing::HasSubstr;

// A step: a block of 100 bytes that the backward pass frees, a gradient of 30 that stays, 8 bytes of an optimizer's
// state, and a temporary within a call of its own kind.
void AddStep(FakeTrace* trace) {
  trace->Enter(MakeConfig(1, "torch.relu"));
  trace->Memory({.address = 1, .bytes = 100});
  trace->Enter(MakeConfig(1, "torch.relu"));
  trace->Memory({.address = 2, .bytes = 50});
  trace->Memory({.freed = true, .address = 2});
  trace->Leave();
  trace->Leave();
  trace->Enter(MakeConfig(1, "torch.Tensor.backward"));
  trace->Memory({.address = 3, .bytes = 30});
  trace->Memory({.address = 2, .bytes = 40});
  trace->Memory({.freed = true, .address = 2});
  trace->Memory({.freed = true, .address = 1});
  trace->Leave();
  trace->Enter(MakeConfig(0, "torch.optim.SGD.step"));
  trace->Memory({.address = 4, .bytes = 8});
  trace->Leave();
}

json MemoryJson(Trace* trace, MemoryBy by) {
  std::ostringstream out;
  std::vector<std::string> notes;
  const absl::Status status = WriteMemory(trace, "t", {by, 0, true}, &out, &notes);
  EXPECT_TRUE(status.ok()) << status;
  return json::parse(out.str())["devices"];
}

TEST(MemoryReport, RowsOfThePeak) {
  FakeTrace trace(json{{"memory", true}});
  AddStep(&trace);
  const json devices = MemoryJson(&trace, MemoryBy::kApi);
  ASSERT_EQ(devices.size(), 1u);
  EXPECT_EQ(devices[0]["peak_bytes"], 170);
  EXPECT_EQ(devices[0]["end_bytes"], 38);
  EXPECT_EQ(devices[0]["peak_call"], 2);
  EXPECT_EQ(devices[0]["rows"], json::parse(R"([
    {"kind": "activation", "made_by": "torch.relu", "bytes": 100, "blocks": 1},
    {"kind": "other", "made_by": "torch.Tensor.backward", "bytes": 40, "blocks": 1},
    {"kind": "gradient", "made_by": "torch.Tensor.backward", "bytes": 30, "blocks": 1}])"));
}

TEST(MemoryReport, OptimizerState) {
  FakeTrace trace(json{{"memory", true}});
  trace.Enter(MakeConfig(0, "torch.optim.SGD.step"));
  trace.Memory({.address = 4, .bytes = 8});
  trace.Memory({.address = 5, .bytes = 2});
  trace.Memory({.freed = true, .address = 5});
  trace.Leave();
  EXPECT_EQ(MemoryJson(&trace, MemoryBy::kKind)[0]["rows"], json::parse(R"([
    {"kind": "optimizer state", "made_by": "", "bytes": 8, "blocks": 1},
    {"kind": "other", "made_by": "", "bytes": 2, "blocks": 1}])"));
}

// A step calls its closure, which makes 100 bytes of an activation, 30 of a gradient and 5 of a loss, and then makes 8
// bytes of state.
TEST(MemoryReport, AClosureIsNotTheOptimizers) {
  FakeTrace trace(json{{"memory", true}});
  trace.Enter(MakeConfig(0, "torch.optim.SGD.step"));
  trace.Enter(MakeConfig(2, "aten::mm"));
  trace.Memory({.address = 1, .bytes = 100});
  trace.Leave();
  trace.Enter(MakeConfig(2, "aten::mean"));
  trace.SetFacts({.thread = 1, .sequence = 0});
  trace.Memory({.address = 2, .bytes = 5});
  trace.Leave();
  trace.Enter(MakeConfig(1, "torch.Tensor.backward"));
  trace.Memory({.address = 3, .bytes = 30});
  trace.Memory({.freed = true, .address = 1});
  trace.Leave();
  trace.Memory({.address = 4, .bytes = 8});
  trace.Memory({.address = 5, .bytes = 200});
  trace.Memory({.freed = true, .address = 5});
  trace.Leave();
  EXPECT_EQ(MemoryJson(&trace, MemoryBy::kKind)[0]["rows"], json::parse(R"([
    {"kind": "other", "made_by": "", "bytes": 205, "blocks": 2},
    {"kind": "gradient", "made_by": "", "bytes": 30, "blocks": 1},
    {"kind": "optimizer state", "made_by": "", "bytes": 8, "blocks": 1}])"));
  FakeTrace early(json{{"memory", true}});
  early.Enter(MakeConfig(0, "torch.optim.SGD.step"));
  early.Memory({.address = 1, .bytes = 100});
  early.Enter(MakeConfig(1, "torch.Tensor.backward"));
  early.Memory({.freed = true, .address = 1});
  early.Leave();
  early.Leave();
  EXPECT_EQ(MemoryJson(&early, MemoryBy::kKind)[0]["rows"][0]["kind"], "activation");
}

// At level 2 alone, with level 1 around it.
TEST(MemoryReport, ScopesInAnOptimizersStep) {
  const auto scope = [](int level, const char* name) {
    return MakeConfig(level, "profiler::_record_function_enter_new", {TextValue(name)});
  };
  for (const int outer : {2, 1}) {
    FakeTrace trace(json{{"memory", true}});
    const auto call = [&](const auto& config) {
      trace.Enter(config(outer));
      if (outer == 1) trace.Call(config(2));
      trace.Leave();
    };
    const auto end = [](int level) { return MakeConfig(level, "profiler::_record_function_exit._RecordFunction"); };
    call([&](int level) { return scope(level, "Optimizer.step#Mine.step"); });
    call([&](int level) { return scope(level, "preconditioner"); });
    trace.Memory({.address = 1, .bytes = 10});
    call(end);
    trace.Memory({.address = 2, .bytes = 20});
    call(end);
    trace.Memory({.address = 3, .bytes = 7});
    EXPECT_EQ(MemoryJson(&trace, MemoryBy::kKind)[0]["rows"], json::parse(R"([
      {"kind": "optimizer state", "made_by": "", "bytes": 30, "blocks": 2},
      {"kind": "other", "made_by": "", "bytes": 7, "blocks": 1}])"))
        << outer;
  }
}

// PyTorch's tutorial on stepping optimizers in a backward pass.
TEST(MemoryReport, OptimizersInBackwardPasses) {
  FakeTrace trace(json{{"memory", true}});
  const RecordFacts backward = {.scope = kBackwardScope, .thread = 1};
  trace.Enter(MakeConfig(1, "torch.Tensor.backward"));
  trace.Enter(MakeConfig(0, "torch.optim.SGD.step"));
  trace.Enter(MakeConfig(2, "aten::zeros_like"));
  trace.SetFacts(backward);
  trace.Memory({.address = 1, .bytes = 10});
  trace.Leave();
  trace.Leave();
  trace.Enter(MakeConfig(2, "aten::mm"));
  trace.SetFacts(backward);
  trace.Memory({.address = 2, .bytes = 20});
  trace.Leave();
  trace.Leave();
  EXPECT_EQ(MemoryJson(&trace, MemoryBy::kKind)[0]["rows"], json::parse(R"([
    {"kind": "gradient", "made_by": "", "bytes": 20, "blocks": 1},
    {"kind": "optimizer state", "made_by": "", "bytes": 10, "blocks": 1}])"));
}

// Recording ends within the optimizer's step: at the end of the program's, if that is known.
TEST(MemoryReport, ScopesWhoseEndsAreNotRecorded) {
  for (const bool end_is_known : {true, false}) {
    FakeTrace trace(json{{"memory", true}});
    trace.process(0).known.steps_by = StepKind::kStep;
    if (end_is_known) trace.process(0).known.step_ends = {{1, 1000}};
    trace.process(0).known.last_steps.at(StepKind::kStep) = {5, 9000};
    StepMarks marks;
    marks.at(StepKind::kStep) = {1, 1};
    trace.Tag(WithStepMarks("", marks));
    trace.Call(MakeConfig(2, "profiler::_record_function_enter_new", {TextValue("Optimizer.step#Mine.step")}));
    trace.Memory({.address = 1, .bytes = 10});
    trace.Wait(1000);
    trace.Memory({.address = 2, .bytes = 20});
    // That of another scope, in a later step.
    marks.at(StepKind::kStep) = {3, 1100};
    if (end_is_known) {
      trace.Tag(WithStepMarks("", marks));
      trace.Call(MakeConfig(2, "profiler::_record_function_exit._RecordFunction"));
    }
    EXPECT_EQ(MemoryJson(&trace, MemoryBy::kKind)[0]["rows"].back(),
              end_is_known ? json::parse(R"({"kind": "optimizer state", "made_by": "", "bytes": 10, "blocks": 1})")
                           : json::parse(R"({"kind": "other", "made_by": "", "bytes": 30, "blocks": 2})"));
  }
}

// Recording pauses after step 2, and goes on in step 5.
TEST(MemoryReport, MemoryOfStepsWithoutCalls) {
  FakeTrace trace(json{{"memory", true}});
  ProcessMetadata& known = trace.process(0).known;
  known.steps_by = StepKind::kStep;
  known.step_ends = {{2, 1000}, {5, 6000}};
  known.last_steps.at(StepKind::kStep) = {9, 9000};
  int64_t now = 0;
  const auto add = [&](int64_t time_ns, uint64_t bytes) {
    trace.Wait(time_ns - now - 10);
    now = time_ns;
    trace.Memory({.address = static_cast<uint64_t>(time_ns), .bytes = bytes});
  };
  const auto call = [&](uint64_t step, int64_t begin_ns, uint64_t bytes) {
    StepMarks marks;
    marks.at(StepKind::kStep) = {step, begin_ns};
    trace.Tag(WithStepMarks("", marks));
    trace.Wait(begin_ns - now);
    trace.Enter(MakeConfig(1, "torch.add"));
    now = begin_ns + 10;
    add(begin_ns + 20, bytes);
    trace.Leave();
    now += 10;
  };
  call(2, 500, 1);
  add(900, 10);     // after its last call
  add(3000, 1000);  // in step 3
  call(5, 5000, 2);
  add(7000, 5000);
  const json device = MemoryJson(&trace, MemoryBy::kApi)[0];
  EXPECT_EQ(device["steps"], json::parse(R"([
    {"step": "2", "allocated_bytes": 11, "left_bytes": 11}, {"step": "5", "allocated_bytes": 2, "left_bytes": 2}])"));
  EXPECT_EQ(device["peak_step"], nullptr);
}

// Each step keeps 7 bytes for ever, and 1 byte until the next one; the first also 100 bytes.
TEST(MemoryReport, StepsAndLeaks) {
  FakeTrace trace(json{{"memory", true}, {"steps_by", "tag"}});
  trace.process(0).known.steps_by = StepKind::kTag;
  trace.process(0).known.last_steps.at(StepKind::kTag) = {4, 9000};
  for (uint64_t step = 1; step <= 4; ++step) {
    StepMarks marks;
    marks.at(StepKind::kTag) = {step, static_cast<int64_t>(1000 * step)};
    trace.Wait(1000);
    trace.Tag(WithStepMarks(absl::StrCat(R"({"step":)", step, "}"), marks));
    trace.Enter(MakeConfig(1, "torch.add"));
    if (step == 1) trace.Memory({.address = 1, .bytes = 100});
    trace.Memory({.freed = true, .address = 1000 + step - 1});
    trace.Memory({.address = 1000 + step, .bytes = 1});
    trace.Memory({.address = 2000 + step, .bytes = 7});
    trace.Leave();
  }
  const json device = MemoryJson(&trace, MemoryBy::kApi)[0];
  EXPECT_EQ(device["peak_bytes"], 129);
  EXPECT_EQ(device["peak_step"], "4");
  EXPECT_EQ(device["leaks"], json::parse(R"([
    {"kind": "other", "made_by": "torch.add", "bytes": 121, "blocks": 4, "steps": 3}])"));
  EXPECT_EQ(device["steps"], json::parse(R"([
    {"step": "1", "allocated_bytes": 108, "left_bytes": 107}, {"step": "2", "allocated_bytes": 8, "left_bytes": 7},
    {"step": "3", "allocated_bytes": 8, "left_bytes": 7}, {"step": "4", "allocated_bytes": 8, "left_bytes": 8}])"));
}

TEST(MemoryReport, ParametersAndMemoryFromBefore) {
  FakeTrace trace(json{{"memory", true},
                       {"cuda_memory", {{"2", {{"before", 500}, {"requested_peak", 570}, {"allocated_peak", 1024}}}}}});
  const MemoryDevice gpu = {MemoryKind::kCuda, 2};
  trace.Memory({.freed = true, .device = gpu, .address = 1, .bytes = 30});
  trace.Memory({.device = gpu, .address = 2, .bytes = 100});
  trace.Memory({.device = gpu, .address = 2});
  trace.Memory({.freed = true, .device = gpu, .address = 2, .bytes = 100});
  trace.Memory({.freed = true, .device = gpu, .address = 3, .bytes = 170});
  trace.Memory({.freed = true, .address = 9});
  trace.Memory({.address = 10, .bytes = 1});
  const json devices = MemoryJson(&trace, MemoryBy::kKind);
  ASSERT_EQ(devices.size(), 2u);
  EXPECT_EQ(devices[0]["blocks_ended_from_before"], 1);
  EXPECT_EQ(devices[0]["rounding_bytes"], nullptr);
  EXPECT_EQ(devices[1]["device"], "cuda:2");
  EXPECT_EQ(devices[1]["peak_bytes"], 570);
  EXPECT_EQ(devices[1]["end_bytes"], 300);
  EXPECT_EQ(devices[1]["rounding_bytes"], 454);
  EXPECT_EQ(devices[1]["rows"], json::parse(R"([
    {"kind": "before the trace", "made_by": "", "bytes": 470, "blocks": 0},
    {"kind": "parameter", "made_by": "", "bytes": 100, "blocks": 1}])"));
  EXPECT_EQ(devices[1]["leaks"], json::array());
}

TEST(MemoryReport, NeedsMemory) {
  FakeTrace trace;
  std::ostringstream out;
  std::vector<std::string> notes;
  EXPECT_THAT(WriteMemory(&trace, "t", {}, &out, &notes).message(), HasSubstr("t has no memory: record it with"));
}

TEST(MemoryReport, TellsWhatItLacks) {
  FakeTrace trace(json{{"memory", true}});
  AddStep(&trace);
  trace.process(0).known.not_seen = {"memory on the CPU: why", "level 3: why"};
  trace.process(0).known.stopped = "no room";
  std::ostringstream out;
  std::vector<std::string> notes;
  EXPECT_TRUE(WriteMemory(&trace, "t", {}, &out, &notes).ok());
  EXPECT_THAT(notes, testing::ElementsAre("t: not seen: memory on the CPU: why",
                                          "t: memory after the recording ended is missing: no room"));
  EXPECT_THAT(WriteMemory(&trace, "t", {MemoryBy::kModule}, &out, &notes).message(),
              HasSubstr("t has no calls of modules"));
  EXPECT_THAT(WriteMemory(&trace, "t", {MemoryBy::kLine}, &out, &notes).message(), HasSubstr("t has no stacks"));
}

// A call's memory is that of the calls in it, and counts once for calls of the same row.
TEST(MemoryReport, Stats) {
  FakeTrace trace(json{{"memory", true}});
  AddStep(&trace);
  StatsOptions options;
  options.format = StatsFormat::kJson;
  options.sort = StatsSort::kMemory;
  std::ostringstream out;
  ASSERT_TRUE(WriteStats({{&trace, "t"}}, options, &out).ok());
  json rows = json::parse(out.str())["apis"];
  ASSERT_EQ(rows.size(), 3u);
  const auto memory = [](const json& row) {
    return json{row["allocated_bytes"], row["freed_bytes"], row["peak_bytes"], row["held_bytes"]};
  };
  EXPECT_EQ(rows[0]["api"], "torch.optim.SGD.step");
  EXPECT_EQ(memory(rows[0]), json::parse("[8, 0, 8, 8]"));
  EXPECT_EQ(rows[1]["api"], "torch.relu");
  EXPECT_EQ(memory(rows[1]), json::parse("[150, 50, 150, 0]"));
  EXPECT_EQ(memory(rows[2]), json::parse("[70, 140, 70, 30]"));
}

// Columns are sums over devices but for the peak; each device's own figures are beside them.
TEST(MemoryReport, StatsOfSeveralDevices) {
  const MemoryDevice gpu = {MemoryKind::kCuda, 1};
  FakeTrace trace(json{{"memory", true}});
  trace.Enter(MakeConfig(1, "torch.Tensor.cuda"));
  trace.Enter(MakeConfig(2, "aten::_to_copy"));
  trace.Memory({.address = 1, .bytes = 100});
  trace.Memory({.device = gpu, .address = 1, .bytes = 70});
  trace.Memory({.freed = true, .address = 1});
  trace.Leave();
  trace.Leave();
  for (const StatsBy by : {StatsBy::kApi, StatsBy::kProcess}) {
    StatsOptions options;
    options.grouping.by = by;
    options.format = StatsFormat::kJson;
    std::ostringstream out;
    ASSERT_TRUE(WriteStats({{&trace, "t"}}, options, &out).ok());
    for (const json& row : json::parse(out.str())[by == StatsBy::kApi ? "apis" : "processes"]) {
      EXPECT_EQ((json{row["allocated_bytes"], row["freed_bytes"], row["peak_bytes"], row["held_bytes"]}),
                json::parse("[170, 100, 100, 70]"));
      EXPECT_EQ(row["devices"], json::parse(R"({
        "cpu": {"allocated_bytes": 100, "freed_bytes": 100, "peak_bytes": 100, "held_bytes": 0},
        "cuda:1": {"allocated_bytes": 70, "freed_bytes": 0, "peak_bytes": 70, "held_bytes": 70}})"));
    }
    options.format = StatsFormat::kText;
    std::ostringstream text;
    ASSERT_TRUE(WriteStats({{&trace, "t"}}, options, &text).ok());
    EXPECT_EQ(text.str().find("devices"), std::string::npos);
  }
}

}  // namespace
}  // namespace torchtrace
