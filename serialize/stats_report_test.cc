#include "serialize/stats_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>
#include <string>

#include "nlohmann/json.hpp"
#include "serialize/fake_trace.h"

namespace torchtrace {
namespace {

using nlohmann::json;
using testing::HasSubstr;

std::string Stats(const std::vector<Trace*>& traces, const StatsOptions& options) {
  std::ostringstream out;
  const absl::Status status = WriteStats(traces, options, &out);
  EXPECT_TRUE(status.ok()) << status;
  return out.str();
}

json StatsJson(const std::vector<Trace*>& traces, StatsOptions options) {
  options.format = StatsFormat::kJson;
  return json::parse(Stats(traces, options));
}

// Two levels, two threads, an exception: `torch.add` (20 ns of its own each time, 1000 ns of waiting and 10 ns inside
// the second time), `torch.ones` twice.
void AddCalls(FakeTrace* trace) {
  trace->Call(MakeConfig(1, "torch.add", {IntValue(1)}));
  trace->Enter(MakeConfig(1, "torch.add", {IntValue(2)}));
  trace->Wait(1000);
  trace->Call(MakeConfig(2, "aten::add.Tensor"));
  trace->Raise("ValueError");
  trace->In(0, 1);
  trace->Call(MakeConfig(1, "torch.ones"));
  trace->Call(MakeConfig(1, "torch.ones"));
  trace->Call(MakeConfig(1, "torch.ones"));
}

TEST(StatsReport, JsonOfApis) {
  FakeTrace trace;
  AddCalls(&trace);
  EXPECT_EQ(StatsJson({&trace}, {}), json::parse(R"({
    "total_calls": 6, "total_apis": 3, "total_configs": 4,
    "apis": [
      {"api": "torch.ones", "level": 1, "calls": 3, "configs": 1, "percent": 50.0, "time_ns": 30, "self_time_ns": 30,
       "raised": 0},
      {"api": "torch.add", "level": 1, "calls": 2, "configs": 2, "percent": 33.3333, "time_ns": 1040,
       "self_time_ns": 1030, "raised": 1},
      {"api": "aten::add.Tensor", "level": 2, "calls": 1, "configs": 1, "percent": 16.6667, "time_ns": 10,
       "self_time_ns": 10, "raised": 0}
    ]})"));
}

TEST(StatsReport, TextOfApis) {
  FakeTrace trace;
  AddCalls(&trace);
  EXPECT_EQ(Stats({&trace}, {}),
            "6 calls of 3 APIs in 4 configs\n\n"
            "API               level  calls  percent  configs     time  self time\n"
            "torch.ones            1      3   50.00%        1    30 ns      30 ns\n"
            "torch.add             1      2   33.33%        2  1.04 us    1.03 us\n"
            "aten::add.Tensor      2      1   16.67%        1    10 ns      10 ns\n");
}

TEST(StatsReport, TextOfOneLevelAndTop) {
  FakeTrace trace;
  AddExampleCalls(&trace);
  StatsOptions options;
  options.top = 1;
  EXPECT_EQ(Stats({&trace}, options),
            "4 calls of 4 APIs in 4 configs\n\n"
            "API          calls  percent  configs   time  self time\n"
            "torch.randn      1   25.00%        1  10 ns      10 ns\n"
            "... and 3 more\n");
  // The totals are of everything.
  const json stats = StatsJson({&trace}, options);
  EXPECT_EQ(stats["total_calls"], 4);
  EXPECT_EQ(stats["apis"].size(), 1u);
}

TEST(StatsReport, CsvIsQuoted) {
  FakeTrace trace;
  AddExampleCalls(&trace);
  StatsOptions options;
  options.format = StatsFormat::kCsv;
  options.by = StatsBy::kConfig;
  EXPECT_EQ(
      Stats({&trace}, options),
      "config,api,level,calls,percent,time_ns,self_time_ns,raised\n"
      "\"torch.randn(2, 3, device=\"\"cpu\"\")\",torch.randn,1,1,25.0,10,10,0\n"
      "\"torch.ones(2, 3)\",torch.ones,1,1,25.0,10,10,0\n"
      "\"torch.add(Tensor([2, 3], \"\"float32\"\"), Tensor([2, 3], \"\"float32\"\"), alpha=10)\",torch.add,1,1,25.0,"
      "10,10,0\n"
      "\"torch.Tensor.sum(Tensor([2, 3], \"\"float32\"\"))\",torch.Tensor.sum,1,1,25.0,10,10,0\n");
}

TEST(StatsReport, HeadersOfCsvFitTheirRows) {
  FakeTrace trace;
  AddCalls(&trace);
  for (const StatsBy by : {StatsBy::kApi, StatsBy::kConfig, StatsBy::kLevel, StatsBy::kThread, StatsBy::kProcess}) {
    StatsOptions options;
    options.by = by;
    options.format = StatsFormat::kCsv;
    std::istringstream lines(Stats({&trace}, options));
    std::string header, row;
    std::getline(lines, header);
    std::getline(lines, row);
    EXPECT_EQ(std::count(header.begin(), header.end(), ','), std::count(row.begin(), row.end(), ',')) << header;
  }
}

TEST(StatsReport, OtherGroupings) {
  FakeTrace trace;
  AddCalls(&trace);
  StatsOptions options;
  options.by = StatsBy::kLevel;
  json stats = StatsJson({&trace}, options);
  ASSERT_EQ(stats["levels"].size(), 2u);
  EXPECT_EQ(stats["levels"][0]["level"], 1);
  EXPECT_EQ(stats["levels"][0]["calls"], 5);
  EXPECT_EQ(stats["levels"][0]["apis"], 2);
  EXPECT_EQ(stats["levels"][0]["configs"], 3);

  options.by = StatsBy::kThread;
  stats = StatsJson({&trace}, options);
  ASSERT_EQ(stats["threads"].size(), 2u);
  EXPECT_EQ(stats["threads"][1]["thread"], 1);
  EXPECT_EQ(stats["threads"][1]["name"], "thread1");
  EXPECT_EQ(stats["threads"][1]["calls"], 3);
  EXPECT_EQ(stats["threads"][1]["configs"], 1);
  EXPECT_EQ(stats["threads"][0]["time_ns"], 1050);
  EXPECT_EQ(stats["threads"][0]["self_time_ns"], 1040);

  options.by = StatsBy::kProcess;
  stats = StatsJson({&trace}, options);
  ASSERT_EQ(stats["processes"].size(), 1u);
  EXPECT_EQ(stats["processes"][0]["process"], "main-0");
  EXPECT_EQ(stats["processes"][0]["calls"], 6);
  EXPECT_EQ(stats["processes"][0]["configs"], 4);

  options.by = StatsBy::kConfig;
  stats = StatsJson({&trace}, options);
  ASSERT_EQ(stats["configs"].size(), 4u);
  EXPECT_EQ(stats["configs"][0]["config"], "torch.ones()");
  EXPECT_EQ(stats["configs"][1]["config"], "torch.add(1)");
}

TEST(StatsReport, FiltersLimitTheTotals) {
  FakeTrace trace;
  AddCalls(&trace);
  StatsOptions options;
  options.filter.include = {"torch.*"};
  options.filter.exclude = {"*.ones"};
  json stats = StatsJson({&trace}, options);
  EXPECT_EQ(stats["total_calls"], 2);
  EXPECT_EQ(stats["apis"][0]["percent"], 100.0);
  options.filter = {};
  options.levels = {2};
  stats = StatsJson({&trace}, options);
  EXPECT_EQ(stats["total_calls"], 1);
  EXPECT_EQ(stats["apis"][0]["api"], "aten::add.Tensor");
  // Not recorded at level 1, but for the reader it is inside all the same.
  EXPECT_EQ(stats["apis"][0]["self_time_ns"], 10);
}

TEST(StatsReport, SeveralTracesCountEqualConfigsOnce) {
  FakeTrace one, two;
  AddExampleCalls(&one);
  two.Call(MakeConfig(1, "torch.ones", {IntValue(5)}));
  AddExampleCalls(&two);
  json stats = StatsJson({&one, &two}, {});
  EXPECT_EQ(stats["total_calls"], 9);
  EXPECT_EQ(stats["total_apis"], 4);
  EXPECT_EQ(stats["total_configs"], 5);
  EXPECT_EQ(stats["apis"][0]["api"], "torch.ones");
  EXPECT_EQ(stats["apis"][0]["calls"], 3);
  EXPECT_EQ(stats["apis"][1]["api"], "torch.randn");
  StatsOptions options;
  options.by = StatsBy::kProcess;
  stats = StatsJson({&one, &two}, options);
  ASSERT_EQ(stats["processes"].size(), 2u);
  EXPECT_EQ(stats["processes"][0]["configs"], 5);
}

TEST(StatsReport, EmptyTrace) {
  FakeTrace trace;
  EXPECT_EQ(StatsJson({&trace}, {}), json::parse(R"({"total_calls":0,"total_apis":0,"total_configs":0,"apis":[]})"));
  EXPECT_THAT(Stats({&trace}, {}), HasSubstr("0 calls of 0 APIs in 0 configs\n"));
}

TEST(StatsReport, CallsThatNeverReturnTakeNoTime) {
  FakeTrace trace;
  trace.Enter(MakeConfig(1, "outer"));
  trace.Call(MakeConfig(1, "inner"));
  const json stats = StatsJson({&trace}, {});
  EXPECT_EQ(stats["apis"][0]["api"], "outer");
  EXPECT_EQ(stats["apis"][0]["time_ns"], 0);
  EXPECT_EQ(stats["apis"][1]["time_ns"], 10);
}

TEST(StatsReport, AFailingStreamIsAnError) {
  FakeTrace trace;
  AddExampleCalls(&trace);
  std::ostringstream out;
  out.setstate(std::ios::badbit);
  EXPECT_EQ(WriteStats({&trace}, {}, &out).code(), absl::StatusCode::kAborted);
}

TEST(StatsReport, ChoicesAreNamed) {
  EXPECT_EQ(*ParseStatsBy("thread"), StatsBy::kThread);
  EXPECT_EQ(*ParseStatsFormat("csv"), StatsFormat::kCsv);
  EXPECT_THAT(std::string(ParseStatsBy("apis").status().message()), HasSubstr("known: api, config, level"));
  EXPECT_THAT(std::string(ParseStatsFormat("xml").status().message()), HasSubstr("known: text, json, csv"));
}

}  // namespace
}  // namespace torchtrace
