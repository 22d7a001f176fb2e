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
  const absl::Status status = WriteMemory(trace, "t", {by, 0, true}, &out);
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

// Each step keeps 7 bytes for ever, and 1 byte until the next one; the first also 100 bytes.
TEST(MemoryReport, StepsAndLeaks) {
  FakeTrace trace(json{{"memory", true}, {"steps_by", "tag"}});
  trace.process(0).known.steps_by = StepKind::kTag;
  for (uint64_t step = 1; step <= 4; ++step) {
    StepMarks marks;
    marks.at(StepKind::kTag) = {step, static_cast<int64_t>(step)};
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
  EXPECT_THAT(WriteMemory(&trace, "t", {}, &out).message(), HasSubstr("t has no memory: record it with"));
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

}  // namespace
}  // namespace torchtrace
