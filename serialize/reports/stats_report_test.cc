#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "serialize/model/device_work.h"
#include "serialize/model/graph_calls.h"
#include "serialize/model/levels.h"
#include "serialize/model/tensor_notes.h"
#include "serialize/reports/repeated_stats.h"
#include "serialize/reports/reports.h"
#include "serialize/reports/stats_rows.h"
#include "serialize/testing/fake_trace.h"

namespace torchtrace {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

std::vector<StatsTrace> Named(const std::vector<Trace*>& traces) {
  std::vector<StatsTrace> named;
  for (Trace* const trace : traces) named.push_back({trace, std::string(1, static_cast<char>('a' + named.size()))});
  return named;
}

// What calls did in all repetitions together is what they did.
void ExpectSameWhenRepeated(const std::vector<StatsTrace>& traces, StatsOptions options) {
  options.top = 0;
  const absl::StatusOr<std::unique_ptr<const StatsTable>> table = ReadStats(traces, options);
  ASSERT_TRUE(table.ok()) << table.status();
  const bool kernels = options.grouping.by == StatsBy::kKernel;
  if (kernels || (*table)->grouping->of_one_trace || options.sum) return;
  const absl::StatusOr<RepeatedStats> repeated = RepeatStats(traces, options);
  ASSERT_TRUE(repeated.ok()) << repeated.status();
  using Numbers = std::array<double, 5>;
  const auto add = [](const std::array<double, 5>& numbers, Numbers* sums) {
    for (size_t i = 0; i < numbers.size(); ++i) (*sums)[i] += numbers[i];
  };
  for (size_t i = 0; i < traces.size(); ++i) {
    std::map<std::string, Numbers> expected, found;
    double self_time_ns = 0;
    for (const StatsRow& row : (*table)->rows) {
      const StatsCells& cells = (*table)->side_by_side ? row.traces[i] : row.all;
      const CallTotal& total = cells.total;
      if (total.calls == 0) continue;
      self_time_ns += static_cast<double>(total.self_time_ns);
      add({static_cast<double>(total.calls), static_cast<double>(total.self_time_ns),
           static_cast<double>(total.device_ns), static_cast<double>(total.memory.All().allocated),
           (*table)->costs ? cells.cost.flops.value_or(0) : 0},
          &expected[row.text_label]);
    }
    for (const RepetitionSum& sum : repeated->traces[i].rows) {
      add({static_cast<double>(sum.calls), static_cast<double>(sum.self_time_ns), static_cast<double>(sum.device_ns),
           static_cast<double>(sum.allocated), sum.flops},
          &found[repeated->names->Text(sum.row)]);
    }
    EXPECT_EQ(found, expected);
    double whole_ns = 0;
    for (const RepetitionSum& sum : repeated->traces[i].whole) whole_ns += static_cast<double>(sum.self_time_ns);
    EXPECT_EQ(whole_ns, self_time_ns);
  }
}

std::string Stats(const std::vector<Trace*>& traces, const StatsOptions& options) {
  if (options.times) ExpectSameWhenRepeated(Named(traces), options);
  std::ostringstream out;
  const absl::Status status = WriteStats(Named(traces), options, &out);
  EXPECT_TRUE(status.ok()) << status;
  return out.str();
}

json StatsJson(const std::vector<Trace*>& traces, StatsOptions options) {
  options.format = StatsFormat::kJson;
  return json::parse(Stats(traces, options));
}

// Two levels, two threads, an exception: `torch.add` (20 ns of its own each time, 1000 ns of waiting and 10 ns inside
// the second time), `torch.ones` twice.
void AddStatsCalls(FakeTrace* trace) {
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
  AddStatsCalls(&trace);
  EXPECT_EQ(StatsJson({&trace}, {}), json::parse(R"({
    "total_calls": 6, "total_apis": 3, "total_configs": 4, "total_self_time_ns": 1070,
    "by_level": [
      {"level": 1, "total_calls": 5, "total_apis": 2, "total_configs": 3, "total_self_time_ns": 1060},
      {"level": 2, "total_calls": 1, "total_apis": 1, "total_configs": 1, "total_self_time_ns": 10}],
    "apis": [
      {"api": "torch.ones", "level": 1, "calls": 3, "configs": 1, "percent": 60.0, "time_ns": 30, "self_time_ns": 30,
       "self_percent": 2.8302, "raised": 0},
      {"api": "torch.add", "level": 1, "calls": 2, "configs": 2, "percent": 40.0, "time_ns": 1040,
       "self_time_ns": 1030, "self_percent": 97.1698, "raised": 1},
      {"api": "aten::add.Tensor", "level": 2, "calls": 1, "configs": 1, "percent": 100.0, "time_ns": 10,
       "self_time_ns": 10, "self_percent": 100.0, "raised": 0}
    ]})"));
}

TEST(StatsReport, TextOfApis) {
  FakeTrace trace;
  AddStatsCalls(&trace);
  EXPECT_EQ(Stats({&trace}, {}),
            "6 calls of 3 APIs in 4 configs, self time 1.07 us\n\n"
            "level 1: 5 calls of 2 APIs in 3 configs, self time 1.06 us\n\n"
            "API         calls  calls %  configs     time  self time  self %\n"
            "torch.ones      3   60.00%        1    30 ns      30 ns   2.83%\n"
            "torch.add       2   40.00%        2  1.04 us    1.03 us  97.17%\n\n"
            "level 2: 1 call of 1 API in 1 config, self time 10 ns\n\n"
            "API               calls  calls %  configs   time  self time   self %\n"
            "aten::add.Tensor      1  100.00%        1  10 ns      10 ns  100.00%\n");
}

TEST(StatsReport, TextOfOneLevelAndTop) {
  FakeTrace trace;
  AddExampleCalls(&trace);
  StatsOptions options;
  options.top = 1;
  EXPECT_EQ(Stats({&trace}, options),
            "4 calls of 4 APIs in 4 configs, self time 40 ns\n\n"
            "API          calls  calls %  configs   time  self time  self %\n"
            "torch.randn      1   25.00%        1  10 ns      10 ns  25.00%\n"
            "... and 3 more (--top 0 shows all)\n");
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
  options.grouping.by = StatsBy::kConfig;
  EXPECT_EQ(
      Stats({&trace}, options),
      "config,api,level,calls,percent,time_ns,self_time_ns,self_percent,raised\n"
      "\"torch.randn(2, 3, device=\"\"cpu\"\")\",torch.randn,1,1,25.0,10,10,25.0,0\n"
      "\"torch.ones(2, 3)\",torch.ones,1,1,25.0,10,10,25.0,0\n"
      "\"torch.add(Tensor([2, 3], \"\"float32\"\"), Tensor([2, 3], \"\"float32\"\"), alpha=10)\",torch.add,1,1,25.0,"
      "10,10,25.0,0\n"
      "\"torch.Tensor.sum(Tensor([2, 3], \"\"float32\"\"))\",torch.Tensor.sum,1,1,25.0,10,10,25.0,0\n");
}

constexpr StatsBy kAllGroupings[] = {StatsBy::kApi,     StatsBy::kConfig, StatsBy::kLevel, StatsBy::kThread,
                                     StatsBy::kProcess, StatsBy::kRank,   StatsBy::kLabel, StatsBy::kFamily};

TEST(StatsReport, HeadersOfCsvFitTheirRows) {
  FakeTrace trace, other;
  AddStatsCalls(&trace);
  other.Call(MakeConfig(1, "torch.ones"));
  for (const StatsBy by : kAllGroupings) {
    for (const bool several : {false, true}) {
      for (const bool times : {false, true}) {
        StatsOptions options;
        options.grouping.by = by;
        options.times = times;
        options.format = StatsFormat::kCsv;
        const std::vector<Trace*> traces = several ? std::vector<Trace*>{&trace, &other} : std::vector<Trace*>{&trace};
        std::istringstream lines(Stats(traces, options));
        std::string header, row;
        std::getline(lines, header);
        std::getline(lines, row);
        EXPECT_EQ(std::count(header.begin(), header.end(), ','), std::count(row.begin(), row.end(), ',')) << header;
        EXPECT_EQ(header.find("time_ns") != std::string::npos, times) << header;
      }
    }
  }
}

TEST(StatsReport, SideBySide) {
  FakeTrace one, two;
  AddStatsCalls(&one);
  two.Call(MakeConfig(1, "torch.ones"));
  two.Call(MakeConfig(1, "torch.ones", {IntValue(5)}));
  two.Call(MakeConfig(1, "torch.new"));
  EXPECT_EQ(Stats({&one, &two}, {}),
            "9 calls of 4 APIs in 6 configs in 2 traces\n\n"
            "level 1: 8 calls of 3 APIs in 5 configs in 2 traces\n\n"
            "                                  a                      b\n"
            "API         calls  configs     time  calls  configs   time\n"
            "torch.ones      3        1    30 ns      2        2  20 ns\n"
            "torch.add       2        2  1.04 us      -        -      -\n"
            "torch.new       -        -        -      1        1  10 ns\n\n"
            "level 2: 1 call of 1 API in 1 config in 2 traces\n\n"
            "                                      a                     b\n"
            "API               calls  configs   time  calls  configs  time\n"
            "aten::add.Tensor      1        1  10 ns      -        -     -\n");
  const json stats = StatsJson({&one, &two}, {});
  EXPECT_EQ(stats["traces"], json::parse(R"([
    {"trace": "a", "total_calls": 6, "total_apis": 3, "total_configs": 4, "total_self_time_ns": 1070},
    {"trace": "b", "total_calls": 3, "total_apis": 2, "total_configs": 3, "total_self_time_ns": 30}])"));
  EXPECT_EQ(stats["apis"][0], json::parse(R"(
    {"api": "torch.ones", "level": 1, "calls": 5, "configs": 2, "percent": 62.5, "time_ns": 50, "self_time_ns": 50,
     "self_percent": 4.5872, "raised": 0, "traces": [
       {"calls": 3, "configs": 1, "percent": 60.0, "time_ns": 30, "self_time_ns": 30, "self_percent": 2.8302,
        "raised": 0},
       {"calls": 2, "configs": 2, "percent": 66.6667, "time_ns": 20, "self_time_ns": 20, "self_percent": 66.6667,
        "raised": 0}]})"));
  StatsOptions options;
  options.sum = true;
  EXPECT_EQ(StatsJson({&one, &two}, options)["apis"][0], json::parse(R"(
    {"api": "torch.ones", "level": 1, "calls": 5, "configs": 2, "percent": 62.5, "time_ns": 50, "self_time_ns": 50,
     "self_percent": 4.5872, "raised": 0})"));
  options.sum = false;
  options.grouping.by = StatsBy::kLevel;
  options.format = StatsFormat::kCsv;
  options.times = false;
  EXPECT_EQ(Stats({&one, &two}, options),
            "level,calls,apis,configs,percent,a calls,a apis,a configs,a percent,b calls,b apis,b configs,b percent\n"
            "1,8,3,5,88.8889,5,2,3,83.3333,3,2,3,100.0\n"
            "2,1,1,1,11.1111,1,1,1,16.6667,0,0,0,0.0\n");
}

// Side by side, each trace's column has the numbers that the trace has alone, and the sum is their sum.
TEST(StatsReport, ColumnsAreThoseOfEachTrace) {
  FakeTrace one, two;
  AddStatsCalls(&one);
  AddExampleCalls(&two);
  two.Call(MakeConfig(2, "aten::add.Tensor"));
  for (const StatsBy by : kAllGroupings) {
    if (by == StatsBy::kThread || by == StatsBy::kProcess) continue;
    StatsOptions options;
    options.grouping.by = by;
    const json both = StatsJson({&one, &two}, options);
    const json alone[] = {StatsJson({&one}, options), StatsJson({&two}, options)};
    std::string rows;
    for (const auto& [key, value] : both.items()) {
      if (value.is_array() && key != "traces" && key != "by_level") rows = key;
    }
    for (size_t t = 0; t < 2; ++t) {
      size_t found = 0;
      for (json row : both[rows]) {
        const json cells = row["traces"][t];
        if (cells["calls"] == 0) continue;
        ++found;
        row.erase("traces");
        row.update(cells);
        EXPECT_NE(std::find(alone[t][rows].begin(), alone[t][rows].end(), row), alone[t][rows].end()) << row;
      }
      EXPECT_EQ(found, alone[t][rows].size());
    }
  }
}

TEST(StatsReport, ThreadsSayWhoseTheyAre) {
  FakeTrace one, two;
  AddExampleCalls(&one);
  AddExampleCalls(&two);
  StatsOptions options;
  options.grouping.by = StatsBy::kThread;
  const json stats = StatsJson({&one, &two}, options);
  EXPECT_EQ(stats["threads"][0]["trace"], "a");
  EXPECT_EQ(stats["threads"][1]["trace"], "b");
  EXPECT_FALSE(stats.contains("traces"));
  EXPECT_THAT(Stats({&one, &two}, options), HasSubstr("\nb main-0 thread 0 thread0 "));
}

TEST(StatsReport, RanksAndLabels) {
  FakeTrace trace(json{{"rank", 0}, {"label", "resnet"}});
  AddExampleCalls(&trace);
  trace.AddProcess(json{{"rank", 11}, {"label", "resnet"}});
  trace.In(1, 0);
  trace.Call(MakeConfig(1, "torch.ones", {IntValue(2), IntValue(3)}));
  trace.In(1, 1);
  trace.Call(MakeConfig(1, "torch.ones", {IntValue(2), IntValue(3)}));
  trace.AddProcess(json{{"rank", 2}});
  trace.In(2, 0);
  trace.Call(MakeConfig(1, "torch.ones"));
  trace.AddProcess(json::object());
  trace.In(3, 0);
  trace.Call(MakeConfig(1, "torch.ones"));
  StatsOptions options;
  options.grouping.by = StatsBy::kRank;
  options.sort = StatsSort::kName;
  json stats = StatsJson({&trace}, options);
  ASSERT_EQ(stats["ranks"].size(), 4u);
  EXPECT_EQ(stats["ranks"][0]["rank"], 0);
  EXPECT_EQ(stats["ranks"][1]["rank"], 2);
  EXPECT_EQ(stats["ranks"][2], json::parse(R"({"rank": 11, "calls": 2, "apis": 1, "configs": 1, "percent": 25.0,
                                               "time_ns": 20, "self_time_ns": 20, "self_percent": 25.0,
                                               "raised": 0})"));
  EXPECT_EQ(stats["ranks"][3]["rank"], nullptr);
  options.grouping.by = StatsBy::kLabel;
  options.sort = StatsSort::kCalls;
  EXPECT_EQ(Stats({&trace}, options),
            "8 calls of 4 APIs in 5 configs, self time 80 ns\n\n"
            "label   calls  calls %  APIs  configs   time  self time  self %\n"
            "resnet      6   75.00%     4        4  60 ns      60 ns  75.00%\n"
            "none        2   25.00%     1        1  20 ns      20 ns  25.00%\n");
}

TEST(StatsReport, Families) {
  FakeTrace trace;
  trace.Call(MakeConfig(1, "torch.relu", {TensorValue({2, 3})}));
  trace.Call(MakeConfig(1, "torch.relu", {TensorValue({4, 5})}));
  trace.Call(MakeConfig(1, "torch.relu", {TensorValue({4})}));
  StatsOptions options;
  options.grouping.by = StatsBy::kFamily;
  const json stats = StatsJson({&trace}, options);
  ASSERT_EQ(stats["families"].size(), 2u);
  EXPECT_EQ(stats["families"][0]["family"], "torch.relu(Tensor([*, *], \"float32\"))");
  EXPECT_EQ(stats["families"][0]["configs"], 2);
  EXPECT_EQ(stats["families"][0]["api"], "torch.relu");
  EXPECT_EQ(stats["families"][1]["calls"], 1);
}

TEST(StatsReport, WhatIsIgnoredIsNoDifference) {
  FakeTrace trace;
  Value other = TensorValue({2, 3});
  other.device = "cuda:0";
  trace.Call(MakeConfig(1, "torch.relu", {TensorValue({2, 3})}));
  trace.Call(MakeConfig(1, "torch.relu", {other}));
  EXPECT_EQ(StatsJson({&trace}, {})["total_configs"], 2);
  StatsOptions options;
  options.ignore = Coarsening::Parse({"device"}).value();
  const json stats = StatsJson({&trace, &trace}, options);
  EXPECT_EQ(stats["total_configs"], 1);
  EXPECT_EQ(stats["apis"][0]["calls"], 4);
  EXPECT_EQ(stats["apis"][0]["configs"], 1);
}

TEST(StatsReport, Orders) {
  FakeTrace trace;
  AddStatsCalls(&trace);
  const auto order = [&](StatsSort sort) {
    StatsOptions options;
    options.sort = sort;
    std::string names;
    const json stats = StatsJson({&trace}, options);
    for (const json& row : stats["apis"]) names += row["api"].get<std::string>() + " ";
    return names;
  };
  EXPECT_EQ(order(StatsSort::kCalls), "torch.ones torch.add aten::add.Tensor ");
  EXPECT_EQ(order(StatsSort::kConfigs), "torch.add torch.ones aten::add.Tensor ");
  EXPECT_EQ(order(StatsSort::kTime), "torch.add torch.ones aten::add.Tensor ");
  EXPECT_EQ(order(StatsSort::kSelf), "torch.add torch.ones aten::add.Tensor ");
  EXPECT_EQ(order(StatsSort::kName), "torch.add torch.ones aten::add.Tensor ");
  EXPECT_EQ(order(StatsSort::kFirst), "torch.add torch.ones aten::add.Tensor ");
}

TEST(StatsReport, WithoutTimes) {
  FakeTrace trace;
  AddStatsCalls(&trace);
  StatsOptions options;
  options.times = false;
  EXPECT_EQ(Stats({&trace}, options),
            "6 calls of 3 APIs in 4 configs\n\n"
            "level 1: 5 calls of 2 APIs in 3 configs\n\n"
            "API         calls  calls %  configs\n"
            "torch.ones      3   60.00%        1\n"
            "torch.add       2   40.00%        2\n\n"
            "level 2: 1 call of 1 API in 1 config\n\n"
            "API               calls  calls %  configs\n"
            "aten::add.Tensor      1  100.00%        1\n");
  EXPECT_EQ(StatsJson({&trace}, options)["apis"][1],
            json::parse(R"({"api": "torch.add", "level": 1, "calls": 2, "configs": 2, "percent": 40.0})"));
  options.sort = StatsSort::kTime;
  std::ostringstream out;
  EXPECT_EQ(WriteStats(Named({&trace}), options, &out).message(), "cannot sort by time: --no-times leaves them out");
}

// Counting and reading agree on everything but times.
TEST(StatsReport, CountingIsReading) {
  FakeTrace trace;
  AddStatsCalls(&trace);
  for (const StatsBy by : kAllGroupings) {
    StatsOptions options;
    options.grouping.by = by;
    options.filter.exclude = {"torch.ones"};
    json read = StatsJson({&trace}, options);
    options.times = false;
    const json counted = StatsJson({&trace}, options);
    read.erase("total_self_time_ns");
    for (auto& [key, rows] : read.items()) {
      if (!rows.is_array()) continue;
      for (json& row : rows) {
        for (const char* const name : {"time_ns", "self_time_ns", "self_percent", "total_self_time_ns", "raised"}) {
          row.erase(name);
        }
      }
    }
    EXPECT_EQ(read, counted);
  }
}

TEST(StatsReport, Markdown) {
  FakeTrace trace;
  trace.Call(MakeConfig(1, "torch.relu", {TextValue("a|b")}));
  StatsOptions options;
  options.grouping.by = StatsBy::kConfig;
  options.format = StatsFormat::kMarkdown;
  EXPECT_EQ(Stats({&trace}, options),
            "1 call of 1 API in 1 config, self time 10 ns\n\n"
            "| calls | calls % | time | self time | self % | config |\n"
            "|--:|--:|--:|--:|--:|---|\n"
            "| 1 | 100.00% | 10 ns | 10 ns | 100.00% | `torch.relu(\"a\\|b\")` |\n");
}

TEST(StatsReport, OtherGroupings) {
  FakeTrace trace;
  AddStatsCalls(&trace);
  StatsOptions options;
  options.grouping.by = StatsBy::kLevel;
  json stats = StatsJson({&trace}, options);
  ASSERT_EQ(stats["levels"].size(), 2u);
  EXPECT_EQ(stats["levels"][0]["level"], 1);
  EXPECT_EQ(stats["levels"][0]["calls"], 5);
  EXPECT_EQ(stats["levels"][0]["apis"], 2);
  EXPECT_EQ(stats["levels"][0]["configs"], 3);

  options.grouping.by = StatsBy::kThread;
  stats = StatsJson({&trace}, options);
  ASSERT_EQ(stats["threads"].size(), 2u);
  EXPECT_EQ(stats["threads"][1]["thread"], 1);
  EXPECT_EQ(stats["threads"][1]["name"], "thread1");
  EXPECT_EQ(stats["threads"][1]["calls"], 3);
  EXPECT_EQ(stats["threads"][1]["configs"], 1);
  EXPECT_EQ(stats["threads"][0]["time_ns"], 1040);  // the call inside another is in its time
  EXPECT_EQ(stats["threads"][0]["self_time_ns"], 1040);

  options.grouping.by = StatsBy::kProcess;
  stats = StatsJson({&trace}, options);
  ASSERT_EQ(stats["processes"].size(), 1u);
  EXPECT_EQ(stats["processes"][0]["process"], "main-0");
  EXPECT_EQ(stats["processes"][0]["calls"], 6);
  EXPECT_EQ(stats["processes"][0]["configs"], 4);

  options.grouping.by = StatsBy::kConfig;
  stats = StatsJson({&trace}, options);
  ASSERT_EQ(stats["configs"].size(), 4u);
  EXPECT_EQ(stats["configs"][0]["config"], "torch.ones()");
  EXPECT_EQ(stats["configs"][1]["config"], "torch.add(1)");
}

Config Module(const std::string& type, const std::string& path, const std::string& model = "") {
  if (model.empty()) return MakeConfig(3, type, {}, {{"path", TextValue(path)}});
  return MakeConfig(3, type, {}, {{"path", TextValue(path)}, {"model", TextValue(model)}});
}

TEST(StatsReport, ModulesOfSeveralModels) {
  using Rows = std::map<std::string, int>;
  const auto rows = [](const std::vector<std::string>& models) {
    FakeTrace trace;
    for (const std::string& model : models) {
      trace.Enter(Module("Net", model));
      trace.Call(Module("torch.nn.Linear", "fc", model));
      trace.Leave();
    }
    StatsOptions options;
    options.grouping.by = StatsBy::kModule;
    options.format = StatsFormat::kJson;
    Rows found;
    const json stats = json::parse(Stats({&trace}, options));
    for (const json& row : stats["modules"]) found[row["module"].get<std::string>()] += row["calls"].get<int>();
    return found;
  };
  EXPECT_EQ(rows({"Net_0", "Net_0"}), (Rows{{"Net_0", 2}, {"fc", 2}}));
  EXPECT_EQ(rows({"Net_0", "Net_1", "Net_0"}), (Rows{{"Net_0", 2}, {"Net_0.fc", 2}, {"Net_1", 1}, {"Net_1.fc", 1}}));
}

TEST(StatsReport, Modules) {
  FakeTrace trace;
  for (int i = 0; i < 2; ++i) {
    trace.Enter(Module("__main__.Net", "Net_0"));
    trace.Wait(1000);
    trace.Enter(MakeConfig(3, "__main__.Net.forward", {}, {{"file", TextValue("a.py")}, {"line", IntValue(3)}}));
    trace.Enter(Module("torch.nn.Linear", "fc (1)"));
    trace.Enter(MakeConfig(1, "torch.add"));
    trace.Wait(500);
    trace.Call(MakeConfig(2, "aten::add.Tensor"));
    trace.Leave();
    trace.Leave();
    trace.Leave();
    trace.Leave();
  }
  trace.Call(MakeConfig(1, "torch.ones"));
  StatsOptions options;
  options.grouping.by = StatsBy::kModule;
  EXPECT_EQ(Stats({&trace}, options),
            "11 calls of 6 APIs in 6 configs, self time 3.19 us\n\n"
            "calls  calls %  APIs  configs     time  forward  backward    total  total %  module\n"
            "    6   54.55%     3        3  1.10 us  1.10 us      0 ns  1.10 us   34.48%  fc (1) (Linear)\n"
            "    4   36.36%     2        2  3.18 us  2.08 us      0 ns  2.08 us   65.20%  Net_0\n"
            "    1    9.09%     1        1    10 ns    10 ns      0 ns    10 ns    0.31%  (no module)\n");
  options.levels = {1};
  options.format = StatsFormat::kJson;
  const json modules = json::parse(Stats({&trace}, options))["modules"];
  EXPECT_EQ(modules[0]["module"], "fc (1)");
  EXPECT_EQ(modules[0]["class"], "torch.nn.Linear");
  EXPECT_EQ(modules[0]["calls"], 2);
  EXPECT_EQ(modules[1]["module"], nullptr);

  FakeTrace without;
  AddStatsCalls(&without);
  std::ostringstream out;
  EXPECT_THAT(std::string(WriteStats(Named({&without}), options, &out).message()),
              HasSubstr("a has no calls of modules: record them with torchtrace run --levels 3"));
}

// The self times of the rows of modules, in ns: forward and backward, or null and the total.
std::map<std::string, std::pair<json, json>> TimesOfModules(FakeTrace* trace) {
  StatsOptions options;
  options.grouping.by = StatsBy::kModule;
  options.format = StatsFormat::kJson;
  std::map<std::string, std::pair<json, json>> times;
  const json stats = json::parse(Stats({trace}, options));
  for (const json& row : stats["modules"]) {
    const bool divided = !row["forward_ns"].is_null();
    times[row["module"].is_null() ? "none" : row["module"].get<std::string>()] = {
        row["forward_ns"], divided ? row["backward_ns"] : row["self_time_ns"]};
  }
  return times;
}

void CallFor(FakeTrace* trace, const Config& config, int64_t ns, const RecordFacts& facts = {}) {
  trace->Enter(config);
  trace->SetFacts(facts);
  trace->Wait(ns);
  trace->Leave();
}

TEST(StatsReport, BackwardCallsBelongToTheModuleOfTheirForwardCall) {
  FakeTrace trace;
  const Config mm = MakeConfig(2, "aten::mm");
  trace.Enter(Module("torch.nn.Linear", "a"));
  CallFor(&trace, mm, 100, {.thread = 1, .sequence = 2});
  trace.Leave();
  trace.Enter(Module("torch.nn.Linear", "b"));
  CallFor(&trace, mm, 200, {.thread = 1, .sequence = 3});
  trace.Leave();
  const std::map<std::string, std::pair<json, json>> forward = TimesOfModules(&trace);
  // Another thread runs the nodes: the first of two that `b` made, that of `a`, and one that nobody made.
  trace.In(0, 1);
  CallFor(&trace, mm, 1000, {.scope = kBackwardScope, .thread = 2, .sequence = 3, .forward_thread = 1});
  CallFor(&trace, mm, 3000, {.scope = kBackwardScope, .thread = 2, .sequence = 1, .forward_thread = 1});
  // It makes a node itself, which is run later.
  CallFor(&trace, mm, 5000, {.scope = kBackwardScope, .thread = 2, .sequence = 0});
  CallFor(&trace, mm, 7000, {.scope = kBackwardScope, .thread = 2, .sequence = 0, .forward_thread = 2});
  CallFor(&trace, mm, 9000, {.scope = kBackwardScope, .thread = 2, .sequence = 50, .forward_thread = 1});
  // A module that a node calls anew, such as a checkpointed one.
  trace.Enter(Module("torch.nn.Linear", "b"));
  CallFor(&trace, mm, 20'000, {.scope = kBackwardScope, .thread = 2, .sequence = 1, .forward_thread = 1});
  trace.Leave();
  const std::map<std::string, std::pair<json, json>> times = TimesOfModules(&trace);
  const int64_t tick = times.at("a").second.get<int64_t>() - 15'000;
  EXPECT_GE(tick, 0);
  EXPECT_LT(tick, 100);
  EXPECT_EQ(times.at("a").first, forward.at("a").first);
  EXPECT_NEAR(times.at("b").second.get<int64_t>(), 21'000, 100);
  EXPECT_NEAR(times.at("none").second.get<int64_t>(), 9000, 100);
}

TEST(StatsReport, WhatAnOptimizerDoesIsOneRow) {
  FakeTrace trace;
  const Config add = MakeConfig(2, "aten::add_.Tensor");
  const auto scope = [](const char* name) {
    return MakeConfig(2, "profiler::_record_function_enter_new", {TextValue(name)});
  };
  const Config end = MakeConfig(2, "profiler::_record_function_exit._RecordFunction");
  trace.Call(scope("step 3"));
  CallFor(&trace, add, 100);
  trace.Call(scope("Optimizer.step#SGD.step"));
  CallFor(&trace, add, 1000);
  trace.Call(scope("mine"));
  CallFor(&trace, add, 1000);
  trace.Call(end);
  CallFor(&trace, add, 1000);
  trace.Enter(Module("torch.nn.Linear", "in_closure"));
  CallFor(&trace, add, 50'000);
  trace.Leave();
  trace.Call(end);
  CallFor(&trace, add, 100);
  trace.Call(end);
  CallFor(&trace, MakeConfig(2, "aten::_foreach_norm.Scalar"), 10'000);
  CallFor(&trace, MakeConfig(2, "aten::_fused_sdp_choice"), 100);
  trace.Enter(MakeConfig(4, "Optimizer.zero_grad#SGD.zero_grad"));
  CallFor(&trace, add, 100'000);
  trace.Leave();
  const std::map<std::string, std::pair<json, json>> times = TimesOfModules(&trace);
  EXPECT_EQ(times.at("optimizer").first, nullptr);
  EXPECT_NEAR(times.at("optimizer").second.get<int64_t>(), 113'000, 200);
  EXPECT_NEAR(times.at("in_closure").first.get<int64_t>(), 50'000, 100);
  EXPECT_NEAR(times.at("none").first.get<int64_t>(), 300, 100);
}

std::string WorkOf(int64_t ns) {
  std::string bytes;
  AppendDeviceWork({.start_ns = 1'000'000, .duration_ns = ns}, &bytes);
  return bytes;
}

// Rows of modules have the memory and the device times of their own calls, also in a backward pass, so that they add
// up.
TEST(StatsReport, WhatModulesAllocateAndLaunchAddsUp) {
  FakeTrace trace(json{{"memory", true}, {"device_names", json::object()}});
  const Config mm = MakeConfig(2, "aten::mm");
  uint64_t blocks = 0;
  const auto call = [&](uint64_t bytes, const RecordFacts& facts) {
    trace.Enter(mm);
    trace.SetFacts(facts);
    trace.Memory({.address = ++blocks, .bytes = bytes});
    trace.Leave();
  };
  trace.Enter(Module("torch.nn.Sequential", "outer"));  // call 0
  call(10, {.thread = 1, .sequence = 1});               // 1
  trace.Enter(Module("torch.nn.Linear", "inner"));      // 2
  call(100, {.thread = 1, .sequence = 2});              // 3
  trace.Memory({.freed = true, .address = 1});          // by `inner` itself
  trace.Leave();
  trace.Leave();
  trace.Enter(MakeConfig(1, "torch.Tensor.backward"));                                     // 4
  call(1000, {.scope = kBackwardScope, .thread = 1, .sequence = 2, .forward_thread = 1});  // 5
  call(5000, {.scope = kBackwardScope, .thread = 1, .sequence = 1, .forward_thread = 1});  // 6
  trace.Memory({.address = ++blocks, .bytes = 7});
  trace.Leave();
  const std::vector<std::pair<uint64_t, int64_t>> launched = {{1, 1}, {3, 20}, {4, 3}, {5, 400}, {6, 8000}};
  for (const auto& [number, ns] : launched) trace.Later(number, LaterOf::kDeviceWork, WorkOf(ns));
  StatsOptions options;
  options.grouping.by = StatsBy::kModule;
  const json report = StatsJson({&trace}, options);
  EXPECT_EQ(report["total_device_ns"], 8424);
  double percent = 0;
  std::map<std::string, std::vector<uint64_t>> rows;
  for (const json& row : report["modules"]) {
    percent += row["device_percent"].get<double>();
    std::vector<uint64_t>& of = rows[row["module"].is_null() ? "none" : row["module"].get<std::string>()];
    for (const char* key : {"device_ns", "allocated_bytes", "freed_bytes", "held_bytes", "peak_bytes"}) {
      of.push_back(row[key].get<uint64_t>());
    }
  }
  EXPECT_NEAR(percent, 100, 0.1);
  // The peak alone is that of a call with all in it.
  EXPECT_EQ(rows, (std::map<std::string, std::vector<uint64_t>>{{"outer", {8001, 5010, 0, 5000, 5000}},
                                                                {"inner", {420, 1100, 10, 1100, 1000}},
                                                                {"none", {3, 7, 0, 7, 6007}}}));
}

// Steps of two processes, by the name that the program gives some of them; a rank may start with a later one.
TEST(StatsReport, StepsOfSeveralProcesses) {
  FakeTrace trace(json{{"memory", true}});
  trace.process(0).known.steps_by = StepKind::kTag;
  trace.AddProcess(json::object());
  trace.process(1).known.steps_by = StepKind::kStep;
  trace.process(1).known.last_steps.at(StepKind::kStep) = {7, 700'000};
  const auto step = [&](uint32_t process, StepKind kind, std::string_view tags, uint64_t number, int64_t begin_ns) {
    StepMarks marks;
    marks.at(kind) = {number, begin_ns};
    trace.In(process, 0);
    trace.Tag(WithStepMarks(tags, marks));
    trace.Call(MakeConfig(2, "aten::f"));
  };
  // The first one's last step takes three times as long as its others, but less than those of the other process.
  constexpr const char* kNames[] = {R"({"step": 2})", R"({"step": 3})", R"({"step": 4})", R"({"step": 2})",
                                    R"({"step": 9})"};
  int64_t begin_ns = 0;
  for (uint64_t i = 1; i <= 5; ++i) step(0, StepKind::kTag, kNames[i - 1], i, begin_ns += 100);
  trace.process(0).known.last_steps.at(StepKind::kTag) = {5, begin_ns + 300};
  for (uint64_t i = 1; i <= 6; ++i) step(1, StepKind::kStep, "", i, static_cast<int64_t>(i) * 100'000);
  StatsOptions options;
  options.grouping.by = StatsBy::kStep;
  const json report = StatsJson({&trace}, options);
  std::vector<std::string> rows;
  for (const json& row : report["steps"]) {
    rows.push_back(absl::StrCat(row["number"].dump(), " ", row["step"].get<std::string>(), " ", row["calls"].dump(),
                                " ", row["wall_ns"].dump(), " ", row["allocated_bytes"].dump()));
  }
  EXPECT_THAT(rows, ElementsAre("1 1 1 100000 null", "1 2 2 100000 0", "2 3 2 100000 0", "3 4 2 100000 0",
                                "4 2 1 100 0", "5 5 1 100000 null", "5 9 1 300 0", "6 6 1 100000 null"));
  EXPECT_EQ(report["step_times"]["steps"], 8);
  EXPECT_EQ(report["step_times"]["long"], json::parse(R"([{"step": "9", "wall_ns": 300}])"));
}

// The peak of a step is that of its process on a device, above what there was when it began.
TEST(StatsReport, PeaksOfSteps) {
  FakeTrace trace(json{{"memory", true}});
  trace.process(0).known.steps_by = StepKind::kStep;
  constexpr MemoryDevice kCuda = {MemoryKind::kCuda, 1};
  const auto begin = [&](uint64_t number) {
    StepMarks marks;
    marks.at(StepKind::kStep) = {number, static_cast<int64_t>(number)};
    trace.Tag(WithStepMarks("", marks));
  };
  const auto call = [&](const std::vector<MemoryEvent>& events) {
    trace.Enter(MakeConfig(2, "aten::f"));
    for (const MemoryEvent& event : events) trace.Memory(event);
    trace.Leave();
  };
  begin(1);
  call({{.address = 1, .bytes = 100}});
  trace.In(0, 1);
  call({{.address = 2, .bytes = 50}, {.device = kCuda, .address = 1, .bytes = 120}});
  trace.In(0, 0);
  call({{.freed = true, .address = 1}});
  begin(2);  // with 50 and 120 bytes
  call({{.freed = true, .address = 2}, {.address = 3, .bytes = 70}});
  call({{.address = 4, .bytes = 4}, {.freed = true, .device = kCuda, .address = 1}});
  StatsOptions options;
  const auto peaks = [&](StatsBy by, const char* list) {
    options.grouping.by = by;
    std::vector<uint64_t> found;
    const json report = StatsJson({&trace}, options);
    for (const json& row : report[list]) found.push_back(row["peak_bytes"]);
    return found;
  };
  EXPECT_THAT(peaks(StatsBy::kStep, "steps"), ElementsAre(150, 24));
  EXPECT_THAT(peaks(StatsBy::kProcess, "processes"), ElementsAre(150));
  EXPECT_THAT(peaks(StatsBy::kThread, "threads"), ElementsAre(100, 120));
}

// What calls in many others launch and hold takes no longer than they are many.
TEST(StatsReport, DeepCallsWithDeviceWorkAndMemory) {
  FakeTrace trace(json{{"memory", true}, {"device_names", json::object()}});
  constexpr uint64_t kDepth = 200'000;
  for (uint64_t i = 0; i < kDepth; ++i) {
    trace.Enter(MakeConfig(2, "aten::f"));
    trace.Memory({.address = i, .bytes = 1});
  }
  for (uint64_t i = 1; i <= 100; ++i) trace.Later(kDepth - i, LaterOf::kDeviceWork, WorkOf(1));
  StatsOptions options;
  const auto begin = std::chrono::steady_clock::now();
  const json row = StatsJson({&trace}, options)["apis"][0];
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(15));
  EXPECT_EQ(row["device_ns"], 100);
  EXPECT_EQ(row["held_bytes"], kDepth);
  EXPECT_EQ(row["allocated_bytes"], kDepth);  // though no call returned
}

// Side by side, and where a process of a trace did not record them.
TEST(StatsReport, DeviceTimesAndMemoryThatATraceLacks) {
  FakeTrace some(json{{"memory", true}, {"device_names", json::object()}}), none;
  for (FakeTrace* const trace : {&some, &none}) {
    trace->Enter(MakeConfig(2, "aten::f"));
    if (trace == &some) trace->Memory({.address = 1, .bytes = 5});
    trace->Leave();
  }
  some.Call(MakeConfig(2, "aten::g"));
  some.Later(0, LaterOf::kDeviceWork, WorkOf(40));
  StatsOptions options;
  options.sort = StatsSort::kMemory;
  const json report = StatsJson({&some, &none}, options);
  EXPECT_EQ(report["traces"][0]["total_device_ns"], 40);
  EXPECT_EQ(report["traces"][1]["total_device_ns"], nullptr);
  const json& f = report["apis"][0];
  const json& g = report["apis"][1];
  for (const char* key : {"device_ns", "device_percent", "allocated_bytes", "peak_bytes"}) {
    EXPECT_NE(f[key], nullptr) << key;
    EXPECT_NE(f["traces"][0][key], nullptr) << key;
    EXPECT_EQ(f["traces"][1][key], nullptr) << key;
    EXPECT_EQ(g["traces"][1][key], nullptr) << key;
  }
  EXPECT_THAT(Stats({&some, &none}, options), HasSubstr("allocated  freed  peak  held"));
  options.sort.reset();
  EXPECT_THAT(Stats({&some, &none}, options), Not(HasSubstr("allocated")));
  options.grouping.by = StatsBy::kKernel;
  const json kernel = StatsJson({&some, &none}, options)["kernels"][0];
  EXPECT_EQ(kernel["count"], 1);
  EXPECT_EQ(kernel["traces"][0]["device_ns"], 40);
  EXPECT_EQ(kernel["traces"][1]["device_ns"], nullptr);
}

// The error of a trace without steps or device times has what the recording said of it.
TEST(StatsReport, WhyThereIsNothing) {
  FakeTrace trace;
  trace.Call(MakeConfig(2, "aten::f"));
  trace.process(0).known.not_seen = {"steps 9: the program had none", "steps: nobody imported nosuch",
                                     "device times: this torch has loaded no CUPTI", "memory on the CPU: not seen"};
  std::vector<std::string> notes;
  const auto error = [&](const StatsOptions& options) {
    std::ostringstream out;
    return std::string(WriteStats({{&trace, "t"}}, options, &out, &notes).message());
  };
  StatsOptions options;
  options.grouping.by = StatsBy::kStep;
  EXPECT_EQ(error(options), "t has no steps: nobody imported nosuch");
  options.grouping.by = StatsBy::kKernel;
  EXPECT_EQ(error(options), "t has no device times: this torch has loaded no CUPTI");
  options.grouping.by = StatsBy::kApi;
  options.sort = StatsSort::kDevice;
  EXPECT_EQ(error(options), "cannot sort by device time: this torch has loaded no CUPTI");
  trace.process(0).known.memory = true;
  options.sort = StatsSort::kMemory;
  EXPECT_EQ(error(options), "");
  EXPECT_THAT(notes, ElementsAre("t: not seen: memory on the CPU: not seen"));
  FakeTrace empty;
  std::ostringstream out;
  StatsOptions by_step;
  by_step.grouping.by = StatsBy::kStep;
  EXPECT_EQ(WriteStats({{&empty, "t"}}, by_step, &out).message(), "t has no steps: no call was recorded");
}

TEST(StatsReport, AClosureIsNotTheOptimizers) {
  FakeTrace trace;
  const Config mm = MakeConfig(2, "aten::mm");
  trace.Enter(MakeConfig(4, "Optimizer.step#SGD.step"));
  CallFor(&trace, mm, 1000);
  CallFor(&trace, mm, 20, {.thread = 1, .sequence = 2});  // a loss
  // At level 4 each operator has the number of the next node, where gradients are recorded.
  const Config zero = MakeConfig(4, "aten::zero_");
  trace.Enter(MakeConfig(4, "Optimizer.zero_grad#SGD.zero_grad"));
  for (int i = 0; i < 3; ++i) CallFor(&trace, zero, 200'000, {.thread = 1, .sequence = 7});
  CallFor(&trace, zero, 9, {.thread = 1, .sequence = 8});
  trace.Leave();
  trace.Enter(MakeConfig(1, "torch.Tensor.backward"));
  CallFor(&trace, mm, 300);
  trace.Leave();
  CallFor(&trace, mm, 4000);
  // In a hook of a node.
  trace.Enter(MakeConfig(4, "Hook"));
  trace.SetFacts({.scope = kBackwardScope, .thread = 1, .sequence = 2, .forward_thread = 1});
  trace.Enter(MakeConfig(4, "Optimizer.step#SGD.step"));
  CallFor(&trace, mm, 50'000, {.scope = kBackwardScope, .thread = 1});
  trace.Leave();
  trace.Leave();
  trace.Leave();
  trace.Call(Module("torch.nn.Linear", "a"));
  const std::map<std::string, std::pair<json, json>> times = TimesOfModules(&trace);
  EXPECT_NEAR(times.at("optimizer").second.get<int64_t>(), 655'000, 300);
  EXPECT_NEAR(times.at("none").first.get<int64_t>(), 29, 45);
  EXPECT_NEAR(times.at("none").second.get<int64_t>(), 300, 60);
}

TEST(StatsReport, Tags) {
  FakeTrace trace;
  trace.Call(MakeConfig(1, "torch.ones"));
  for (const char* const tags : {R"({"step":1})", R"({"step":10,"phase":"eval"})", R"({"step":2})", R"({"step":10})"}) {
    trace.Tag(tags);
    trace.Enter(MakeConfig(1, "torch.add"));
    trace.Call(MakeConfig(2, "aten::add.Tensor"));
    trace.Leave();
  }
  trace.Tag(R"({"step":"two\nlines"})");
  trace.Call(MakeConfig(1, "torch.ones"));
  trace.Tag("damaged");
  trace.Call(MakeConfig(1, "torch.ones"));
  StatsOptions options;
  options.grouping = *ParseStatsGrouping("tag:step");
  options.sort = StatsSort::kName;
  EXPECT_EQ(Stats({&trace}, options),
            "11 calls of 3 APIs in 3 configs, self time 150 ns\n\n"
            "step          calls  calls %  APIs  configs   time  self time  self %\n"
            "1                 2   18.18%     2        2  30 ns      30 ns  20.00%\n"
            "2                 2   18.18%     2        2  30 ns      30 ns  20.00%\n"
            "10                4   36.36%     2        2  60 ns      60 ns  40.00%\n"
            "\"two\\nlines\"      1    9.09%     1        1  10 ns      10 ns   6.67%\n"
            "(no tag)          2   18.18%     1        1  20 ns      20 ns  13.33%\n");
  const json stats = StatsJson({&trace}, options);
  EXPECT_EQ(stats["tag"], "step");
  EXPECT_EQ(stats["tags"][2]["value"], 10);
  EXPECT_EQ(stats["tags"][4]["value"], nullptr);
  std::ostringstream out;
  options.grouping.tag = "phases";
  EXPECT_EQ(WriteStats(Named({&trace}), options, &out).message(),
            "a has no calls with a tag phases, did you mean phase? (known: phase, step)");
}

TEST(StatsReport, Shapes) {
  FakeTrace trace;
  const auto call = [&trace](int level, const char* api, std::vector<Value> args, int64_t ns) {
    trace.Enter(MakeConfig(level, api, std::move(args)));
    trace.Wait(ns);
  };
  for (int i = 0; i < 3; ++i) {
    call(1, "torch.nn.functional.linear", {TensorValue({2, 4, 5}), TensorValue({6, 5})}, 0);
    call(2, "aten::addmm", {TensorValue({6}), TensorValue({8, 5}), TensorValue({5, 6})}, 90);
    // The outer call's FLOPs include it.
    call(2, "aten::mm", {TensorValue({8, 5}), TensorValue({5, 6})}, 0);
    trace.Leave();
    trace.Leave();
    trace.Leave();
  }
  // Calls of equal sizes share a row, even if other arguments differ.
  call(2, "aten::mm", {TensorValue({8, 5}), TensorValue({5, 6}), IntValue(1)}, 0);
  trace.Leave();
  call(2, "aten::view", {TensorValue({8, 5})}, 0);
  trace.Leave();
  StatsOptions options;
  options.grouping.by = StatsBy::kShapes;
  EXPECT_EQ(Stats({&trace}, options),
            "11 calls of 4 APIs in 5 configs, self time 440 ns, 1.92 kFLOP\n\n"
            "level 1: 3 calls of 1 API in 1 config, self time 60 ns, 1.44 kFLOP\n\n"
            "calls    time  self time   self %    FLOP   bytes  shapes\n"
            "    3  420 ns      60 ns  100.00%  1.44 k  1.42 k  torch.nn.functional.linear M=8 N=6 K=5 float32\n\n"
            "level 2: 8 calls of 3 APIs in 4 configs, self time 380 ns, 1.92 kFLOP\n\n"
            "calls    time  self time  self %    FLOP   bytes  shapes\n"
            "    3  360 ns     330 ns  86.84%  1.44 k  1.49 k  aten::addmm M=8 N=6 K=5 float32\n"
            "    4   40 ns      40 ns  10.53%  1.92 k  1.89 k  aten::mm M=8 N=6 K=5 float32\n"
            "    1   10 ns      10 ns   2.63%       -       -  aten::view\n");
  const json stats = StatsJson({&trace}, options);
  EXPECT_EQ(stats["by_level"][1]["total_flops"], 1920);
  // Operators are the work of the calls around them.
  EXPECT_EQ(stats["total_flops"], 1920);
  EXPECT_EQ(stats["shapes"][1], json::parse(R"(
    {"api": "aten::addmm", "sizes": {"M": 8, "N": 6, "K": 5}, "dtype": "float32", "level": 2, "calls": 3, "configs": 1,
     "percent": 37.5, "time_ns": 360, "self_time_ns": 330, "self_percent": 86.8421, "flops": 1440, "bytes": 1488,
     "raised": 0})"));
  EXPECT_EQ(stats["shapes"][3]["sizes"], json::object());
  EXPECT_EQ(stats["shapes"][3]["flops"], nullptr);
}

// The innermost calls without a formula are reported, whatever else is in an outer call without one.
TEST(StatsReport, OfCallsWithoutAFormulaTheInnermostAreTold) {
  const auto outer = MakeConfig(2, "aten::linalg_multi_dot", {TensorValue({4, 5}), TensorValue({5, 6})});
  const auto lacking = MakeConfig(2, "aten::_linalg_svd", {TensorValue({4, 5})});
  const auto mm = MakeConfig(2, "aten::mm", {TensorValue({4, 5}), TensorValue({5, 6})});
  StatsOptions options;
  options.grouping.by = StatsBy::kShapes;
  for (const auto& inside : {std::vector{lacking, mm}, std::vector{mm, lacking}, std::vector{lacking}}) {
    FakeTrace trace;
    trace.Enter(outer);
    for (const auto& each : inside) trace.Call(each);
    trace.Leave();
    EXPECT_THAT(Stats({&trace}, options), testing::HasSubstr("1 call of 1 API has no formula: aten::_linalg_svd\n"));
  }
}

TEST(StatsReport, CallsWithoutAFormulaAreTold) {
  FakeTrace trace;
  const auto multi_dot = MakeConfig(2, "aten::linalg_multi_dot", {TensorValue({4, 5}), TensorValue({5, 6})});
  const auto mm = MakeConfig(2, "aten::mm", {TensorValue({4, 5}), TensorValue({5, 6})});
  trace.Call(multi_dot);
  // The call inside has FLOPs.
  trace.Enter(multi_dot);
  trace.Call(mm);
  trace.Leave();
  trace.Call(MakeConfig(2, "aten::view", {TensorValue({8, 5})}));
  StatsOptions options;
  options.grouping.by = StatsBy::kShapes;
  options.sort = StatsSort::kFlops;
  EXPECT_THAT(Stats({&trace}, options),
              testing::StartsWith("4 calls of 3 APIs in 3 configs, self time 50 ns, 240 FLOP; 1 call of 1 API has no "
                                  "formula: aten::linalg_multi_dot\n"));
  const json stats = StatsJson({&trace}, options);
  EXPECT_EQ(stats["by_level"][0]["total_calls_without_formula"], 1);
  EXPECT_EQ(stats["shapes"][0]["api"], "aten::mm");
}

// Work that several levels record counts once; calls that raised cost nothing.
TEST(StatsReport, CostsOfAllLevelsCountOnce) {
  FakeTrace trace;
  const auto linear = MakeConfig(1, "torch.nn.functional.linear", {TensorValue({8, 5}), TensorValue({6, 5})});
  const auto mm = MakeConfig(2, "aten::mm", {TensorValue({8, 5}), TensorValue({5, 6})});
  const auto record = MakeConfig(4, "aten::mm", {TensorValue({8, 5}), TensorValue({5, 6})});
  trace.Enter(linear);
  trace.Enter(mm);
  trace.Call(record);
  trace.Leave();
  trace.Leave();
  trace.Call(linear);  // its operators were not recorded
  trace.Enter(linear);
  trace.Enter(mm);
  trace.Raise("RuntimeError");
  trace.Raise("RuntimeError");
  StatsOptions options;
  options.sort = StatsSort::kFlops;
  const json stats = StatsJson({&trace}, options);
  EXPECT_EQ(stats["total_flops"], 960);
  EXPECT_EQ(stats["apis"][0]["flops"], 960);  // two calls of linear
  EXPECT_EQ(stats["apis"][1]["flops"], 480);  // one of each operator
  EXPECT_EQ(stats["apis"][2]["flops"], 480);
  options.grouping.by = StatsBy::kThread;
  options.sort = StatsSort::kBytes;
  const json threads = StatsJson({&trace}, options);
  EXPECT_EQ(threads["threads"][0]["flops"], 960);
  EXPECT_EQ(threads["threads"][0]["bytes"], 2 * 4 * (40 + 30 + 48));
  options.grouping.by = StatsBy::kLevel;
  for (const json& row : StatsJson({&trace}, options)["levels"]) {
    EXPECT_EQ(row["flops"], row["level"] == 1 ? 960 : 480);
  }
}

// Of meta and fake tensors times mean nothing.
TEST(StatsReport, TimesOfTensorsWithoutElementsGiveNoOrder) {
  const auto tensor = [](const char* device) {
    Value value = TensorValue({8, 8});
    value.device = device;
    return value;
  };
  const auto product = [&](const char* api, const char* device) {
    return MakeConfig(2, api, {tensor(device), tensor(device)});
  };
  constexpr std::string_view kFake(
      "\x01\x00\x02\x0a"
      "FakeTensor",
      14);
  StatsOptions options;
  options.grouping.by = StatsBy::kShapes;
  const auto first = [&](FakeTrace* trace, std::string* note) {
    std::ostringstream out;
    std::vector<std::string> notes;
    options.format = StatsFormat::kJson;
    EXPECT_TRUE(WriteStats(Named({trace}), options, &out, &notes).ok());
    *note = notes.empty() ? "" : notes[0];
    return json::parse(out.str())["shapes"][0]["api"].get<std::string>();
  };
  std::string note;
  for (const bool fake : {false, true}) {
    FakeTrace trace;
    trace.Enter(product("aten::relu", fake ? "cpu" : "meta"), fake ? kFake : "");
    trace.Wait(1000);
    trace.Leave();
    trace.Call(product("aten::mm", fake ? "cpu" : "meta"), fake ? kFake : "");
    EXPECT_EQ(first(&trace, &note), "aten::mm");
    EXPECT_THAT(note, testing::EndsWith("Python's and PyTorch's own; sorted by FLOP instead"));
    options.sort = StatsSort::kSelf;
    EXPECT_EQ(first(&trace, &note), "aten::relu");
    EXPECT_THAT(note, testing::EndsWith("PyTorch's own"));
    options.sort = {};
    // As many others.
    trace.Call(product("aten::relu", "cuda:0"));
    trace.Call(product("aten::relu", "cuda:0"));
    EXPECT_EQ(first(&trace, &note), "aten::relu");
    EXPECT_EQ(note, "");
  }
}

// Level 1 shows a backward pass as one call.
TEST(StatsReport, ModulesWithoutBackwardPassesAreTold) {
  for (const bool told : {true, false}) {
    FakeTrace trace;
    trace.Enter(Module("__main__.Net", "Net_0"));
    trace.Call(MakeConfig(1, "torch.relu"));
    trace.Leave();
    if (told) trace.Call(MakeConfig(1, "torch.Tensor.backward"));
    StatsOptions options;
    options.grouping.by = StatsBy::kModule;
    std::ostringstream out;
    std::vector<std::string> notes;
    ASSERT_TRUE(WriteStats(Named({&trace}), options, &out, &notes).ok());
    EXPECT_EQ(notes.size(), told ? 1u : 0u);
    if (told) {
      EXPECT_THAT(notes[0], testing::HasSubstr("level 2 or 4"));
    }
  }
}

// What torch.compile did: a row for the compilations and for the runs of each graph.
TEST(StatsReport, Graphs) {
  FakeTrace trace;
  const auto call = [](GraphCallKind kind, const char* id, int64_t line, const char* reason = nullptr) {
    std::vector<std::pair<std::string, Value>> at = {{"file", TextValue("pkg/a.py")}, {"line", IntValue(line)}};
    if (reason != nullptr) at.emplace_back("reason", TextValue(reason));
    return MakeConfig(kFrameLevel, GraphCallApi(kind, id, "f"), {}, std::move(at));
  };
  trace.Enter(call(GraphCallKind::kCompilation, "0/0", 3));
  trace.Call(call(GraphCallKind::kBreak, "0/0", 5, "print\n  Hint: don't"));
  trace.Leave();
  for (int i = 0; i < 2; ++i) {
    trace.Enter(call(GraphCallKind::kRun, "0/0", 3));
    trace.Call(MakeConfig(2, "aten::mm"));
    trace.Leave();
  }
  trace.Enter(call(GraphCallKind::kCompilation, "0/1", 3));
  trace.Call(call(GraphCallKind::kRecompiled, "0/1", 3, "size of x"));
  trace.Leave();
  trace.Call(call(GraphCallKind::kBackwardRun, "0/1", 3));
  StatsOptions options;
  options.grouping.by = StatsBy::kGraph;
  options.sort = StatsSort::kFirst;
  EXPECT_EQ(Stats({&trace}, options),
            "5 calls of 4 APIs in 4 configs, self time 90 ns\n\n"
            "calls  calls %   time  self time  self %  graph\n"
            "    1   20.00%  30 ns      20 ns  22.22%  0/0 f at a.py:3, compilation; break at a.py:5: print\n"
            "    2   40.00%  60 ns      40 ns  44.44%  0/0 f at a.py:3\n"
            "    1   20.00%  30 ns      20 ns  22.22%  0/1 f at a.py:3, compilation: size of x\n"
            "    1   20.00%  10 ns      10 ns  11.11%  0/1 f at a.py:3, backward run\n");
  EXPECT_EQ(StatsJson({&trace}, options)["graphs"][0], json::parse(R"(
    {"graph": "0/0", "function": "f", "file": "pkg/a.py", "line": 3, "what": "compilation", "reason": null,
     "breaks": [{"file": "pkg/a.py", "line": 5, "reason": "print\n  Hint: don't"}],
     "calls": 1, "percent": 20.0, "time_ns": 30, "self_time_ns": 20, "self_percent": 22.2222, "raised": 0})"));
  FakeTrace other;
  other.Call(MakeConfig(kFrameLevel, "f"));
  std::ostringstream out;
  EXPECT_THAT(std::string(WriteStats(Named({&other}), options, &out).message()), HasSubstr("no graphs"));
}

TEST(StatsReport, PeopleSeeAScreenful) {
  FakeTrace trace;
  for (int level = 0; level < 5; ++level) {
    for (int i = 0; i < 50; ++i) trace.Call(MakeConfig(level, "f" + std::to_string(i)));
  }
  const auto lines = [&](const StatsOptions& options) {
    const std::string text = Stats({&trace}, options);
    return std::count(text.begin(), text.end(), '\n');
  };
  StatsOptions options;
  for (int level = 0; level < 5; ++level) {
    options.levels.push_back(level);
    EXPECT_LE(lines(options), 50) << level;
    EXPECT_GE(lines(options), 20) << level;
  }
  EXPECT_EQ(StatsJson({&trace}, options)["apis"].size(), 250u);
  options.top = 0;
  EXPECT_GT(lines(options), 250);
  options.levels = {0};
  options.top = {};
  EXPECT_EQ(lines(options), 24);
}

// A call inside another one of its row adds nothing to the row's time.
TEST(StatsReport, TimesOfNestedCallsAreNotAdded) {
  FakeTrace trace;
  trace.Enter(MakeConfig(0, "f", {IntValue(2)}));
  trace.Enter(MakeConfig(0, "g"));
  trace.Call(MakeConfig(0, "f", {IntValue(1)}));
  trace.Leave();
  trace.Leave();
  trace.Call(MakeConfig(0, "f", {IntValue(1)}));
  const json apis = StatsJson({&trace}, {})["apis"];
  EXPECT_EQ(apis[0]["api"], "f");
  EXPECT_EQ(apis[0]["time_ns"], 60);
  EXPECT_EQ(apis[0]["self_time_ns"], 40);
  EXPECT_EQ(apis[1]["time_ns"], 30);
  StatsOptions options;
  options.grouping.by = StatsBy::kConfig;
  options.sort = StatsSort::kFirst;
  const json configs = StatsJson({&trace}, options)["configs"];
  EXPECT_EQ(configs[2]["config"], "f(1)");
  EXPECT_EQ(configs[2]["time_ns"], 20);
  options.grouping.by = StatsBy::kLevel;
  EXPECT_EQ(StatsJson({&trace}, options)["levels"][0]["time_ns"], 60);
}

const nlohmann::json kWithNumbers = {{"numbers", "all"}};

std::string NumbersNotes(const std::vector<TensorNote::Numbers>& tensors) {
  std::string notes;
  for (size_t i = 0; i < tensors.size(); ++i) AppendTensorNote({.position = i, .numbers = tensors[i]}, &notes);
  return notes;
}

// Two calls of aten::f with numbers and one without, the second one raises; one of aten::g without finite elements, one
// of aten::h without numbers.
void AddCallsWithNumbers(FakeTrace* trace) {
  const TensorNote::Numbers usual = {.finite = 4, .least = -1.25, .most = 3, .mean = 0.5, .norm = 4};
  const TensorNote::Numbers large = {.positive_infinities = 1, .finite = 2, .least = 2, .most = 1e6, .norm = 1e6};
  trace->Enter(MakeConfig(2, "aten::f"), "", NumbersNotes({{.nans = 1}}));
  trace->Return({TensorValue({2})}, NumbersNotes({usual}));
  trace->SetWritten(NumbersNotes({usual, large, large}));
  trace->Enter(MakeConfig(2, "aten::f"));
  trace->Raise("ValueError");
  trace->SetWritten(NumbersNotes({{.nans = 3}}));
  trace->Call(MakeConfig(2, "aten::f"));
  trace->In(0, 1);
  trace->Enter(MakeConfig(2, "aten::g"));
  trace->Return({TensorValue({2})}, NumbersNotes({{.nans = 1, .negative_infinities = 1}}));
  trace->Call(MakeConfig(2, "aten::h"));
}

TEST(StatsReport, Numbers) {
  FakeTrace trace(kWithNumbers);
  AddCallsWithNumbers(&trace);
  StatsOptions options;
  options.numbers = true;
  json apis = StatsJson({&trace}, options)["apis"];
  const auto numbers_of = [](const json& row) {
    return json(
        {row.at("least"), row.at("most"), row.at("largest_norm"), row.at("calls_with_nan"), row.at("calls_with_inf")});
  };
  const json of_f = {-1.25, 1e6, 1e6, 1, 1};
  const json of_g = {nullptr, nullptr, nullptr, 1, 1};
  EXPECT_EQ(numbers_of(apis[0]), of_f);
  EXPECT_EQ(numbers_of(apis[1]), of_g);
  EXPECT_EQ(numbers_of(apis[2]), json({nullptr, nullptr, nullptr, nullptr, nullptr}));
  options.grouping.by = StatsBy::kThread;
  const json threads = StatsJson({&trace}, options)["threads"];
  EXPECT_EQ(numbers_of(threads[0]), of_f);
  EXPECT_EQ(numbers_of(threads[1]), of_g);
  options.grouping.by = StatsBy::kApi;
  options.times = false;
  EXPECT_EQ(Stats({&trace}, options),
            "5 calls of 3 APIs in 3 configs\n\n"
            "API      calls  calls %  configs  least   most   norm  nan calls  inf calls\n"
            "aten::f      3   60.00%        1  -1.25  1e+06  1e+06          1          1\n"
            "aten::g      1   20.00%        1      -      -      -          1          1\n"
            "aten::h      1   20.00%        1      -      -      -          -          -\n");
  options.format = StatsFormat::kCsv;
  EXPECT_THAT(Stats({&trace}, options), HasSubstr("api,level,calls,configs,percent,least,most,largest_norm,"
                                                  "calls_with_nan,calls_with_inf\n"
                                                  "aten::f,2,3,1,60.0,-1.25,1000000.0,1000000.0,1,1\n"
                                                  "aten::g,2,1,1,20.0,,,,1,1\n"));
}

// A call counts once, in its row, whatever came with its end.
TEST(StatsReport, LaterNumbers) {
  FakeTrace trace(kWithNumbers);
  trace.Enter(MakeConfig(2, "aten::f"));
  trace.Return({TensorValue({2})}, NumbersNotes({{.nans = 1, .finite = 1, .least = 1, .most = 1, .norm = 1}}));
  trace.In(0, 1);
  trace.Enter(MakeConfig(2, "aten::g"));
  trace.Later(0, LaterOf::kWritten, NumbersNotes({{.nans = 1, .negative_infinities = 2}}));
  trace.Later(1, LaterOf::kArguments, NumbersNotes({{.nans = 7}}));
  trace.Leave();
  trace.Later(1, LaterOf::kResult, NumbersNotes({{.finite = 1, .least = -3, .most = -3, .norm = 3}}));
  trace.Later(1, LaterOf::kWritten, NumbersNotes({{.nans = 1}}));
  StatsOptions options;
  options.numbers = true;
  for (const auto& [by, rows] : {std::pair(StatsBy::kApi, "apis"), std::pair(StatsBy::kThread, "threads")}) {
    options.grouping.by = by;
    const json result = StatsJson({&trace}, options)[rows];
    EXPECT_EQ(result[0]["calls_with_nan"], 1) << rows;
    EXPECT_EQ(result[0]["calls_with_inf"], 1) << rows;
    EXPECT_EQ(result[0]["most"], 1) << rows;
    EXPECT_EQ(result[1]["calls_with_nan"], 1) << rows;
    EXPECT_EQ(result[1]["calls_with_inf"], 0) << rows;
    EXPECT_EQ(result[1]["least"], -3) << rows;
  }
  options.grouping.by = StatsBy::kApi;
  options.where = Where::Parse("thread = 0").value();
  EXPECT_EQ(StatsJson({&trace}, options)["apis"].size(), 1u);
}

// Work counts for the call that launched it and for those around it, once in a row, also after their ends.
TEST(StatsReport, DeviceTimes) {
  FakeTrace trace(json{{"device_names", {{"1", "a_kernel"}}}});
  trace.Enter(MakeConfig(1, "torch.f"));
  trace.Enter(MakeConfig(2, "aten::f"));
  trace.Enter(MakeConfig(2, "aten::f", {IntValue(1)}));
  trace.Leave();
  trace.Leave();
  trace.Leave();
  trace.Call(MakeConfig(2, "aten::g"));
  trace.Later(2, LaterOf::kDeviceWork, WorkOf(100) + WorkOf(20));
  trace.Later(1, LaterOf::kDeviceWork, WorkOf(30));
  trace.Later(3, LaterOf::kDeviceWork, WorkOf(50));
  StatsOptions options;
  options.sort = StatsSort::kDevice;
  json result = StatsJson({&trace}, options);
  EXPECT_EQ(result["total_device_ns"], 200);
  EXPECT_EQ(result["by_level"][0]["total_device_ns"], 150);
  EXPECT_EQ(result["by_level"][1]["total_device_ns"], 200);
  const auto rows = [&result](const char* list) {
    std::map<std::string, int64_t> ns;
    for (const json& row : result[list]) ns[row.begin()->dump()] = row["device_ns"];
    return ns;
  };
  EXPECT_EQ(rows("apis"),
            (std::map<std::string, int64_t>{{"\"torch.f\"", 150}, {"\"aten::f\"", 150}, {"\"aten::g\"", 50}}));
  EXPECT_EQ(result["apis"][2]["device_percent"], 25.0);
  options.grouping.by = StatsBy::kThread;
  result = StatsJson({&trace}, options);
  EXPECT_EQ(result["threads"][0]["device_ns"], 200);
  // Of calls that the filter leaves out nothing counts.
  options.grouping.by = StatsBy::kApi;
  options.levels = {1};
  result = StatsJson({&trace}, options);
  EXPECT_EQ(result["total_device_ns"], 150);
  options.times = false;
  options.sort.reset();
  EXPECT_FALSE(StatsJson({&trace}, options)["apis"][0].contains("device_ns"));
}

TEST(StatsReport, Kernels) {
  const auto work = [](DeviceWork::Kind kind, uint64_t name, int64_t ns, uint64_t bytes = 0) {
    std::string encoded;
    AppendDeviceWork({.kind = kind, .start_ns = 1'000'000, .duration_ns = ns, .name = name, .bytes = bytes}, &encoded);
    return encoded;
  };
  FakeTrace trace(json{{"device_names", {{"1", "a_kernel"}, {"2", "nccl_kernel"}}}, {"world_size", 8}, {"rank", 0}});
  trace.Enter(MakeConfig(1, "torch.f"));
  trace.Call(MakeConfig(2, "aten::f"));
  trace.Leave();
  trace.Call(MakeConfig(1, "torch.distributed.all_reduce", {TensorValue({250})}));
  trace.Later(0, LaterOf::kDeviceWork, work(DeviceWork::kCopy, 0, 100, 400));
  trace.Later(1, LaterOf::kDeviceWork, work(DeviceWork::kKernel, 1, 30) + work(DeviceWork::kKernel, 1, 50));
  trace.Later(2, LaterOf::kDeviceWork, work(DeviceWork::kKernel, 2, 20) + work(DeviceWork::kKernel, 1, 7));
  StatsOptions options;
  options.grouping.by = StatsBy::kKernel;
  json result = StatsJson({&trace}, options);
  EXPECT_EQ(result["total_device_ns"], 207);
  EXPECT_EQ(result["total_count"], 5);
  std::vector<std::string> rows;
  for (const json& row : result["kernels"]) {
    rows.push_back(absl::StrCat(row["kernel"].get<std::string>(), " ", row["kind"].get<std::string>(), " ",
                                row["operation"].dump(), row["group"].dump(), row["ranks"].dump(), " ",
                                row["api"].get<std::string>(), " ", row["count"].dump(), " ", row["device_ns"].dump(),
                                " ", row["bytes"].dump()));
  }
  EXPECT_THAT(rows, ElementsAre("memcpy memcpy nullnullnull torch.f 1 100 400",
                                "a_kernel kernel nullnullnull aten::f 2 80 null",
                                R"(nccl_kernel kernel "all_reduce""0"8 torch.distributed.all_reduce 1 20 1000)",
                                R"(a_kernel kernel "all_reduce""0"8 torch.distributed.all_reduce 1 7 1000)"));
  EXPECT_EQ(result["kernels"][0]["bytes_per_s"], 4e9);
  options.levels = {2};
  result = StatsJson({&trace}, options);
  EXPECT_EQ(result["total_device_ns"], 80);
  options.levels.clear();
  options.sort = StatsSort::kTime;
  std::ostringstream out;
  EXPECT_EQ(WriteStats({{&trace, "t"}}, options, &out).message(), "kernels are sorted by device, calls, name or bytes");
  options.sort = StatsSort::kName;
  EXPECT_EQ(StatsJson({&trace}, options)["kernels"][3]["kernel"], "nccl_kernel");
  options.format = StatsFormat::kText;
  EXPECT_TRUE(WriteStats({{&trace, "t"}}, options, &out).ok());
  EXPECT_THAT(out.str(), HasSubstr("nccl_kernel  all_reduce of group 0, 8 ranks  by torch.distributed.all_reduce\n"));
  FakeTrace none;
  EXPECT_TRUE(absl::IsFailedPrecondition(WriteStats({{&none, "t"}}, options, &out)));
}

TEST(StatsReport, KernelsOfCollectives) {
  const auto work = [](int64_t ns) {
    std::string encoded;
    AppendDeviceWork({.start_ns = 1'000'000, .duration_ns = ns, .name = 1}, &encoded);
    return encoded;
  };
  FakeTrace trace(json{{"device_names", {{"1", "nccl_kernel"}}}, {"world_size", 8}, {"rank", 0}});
  const Config all_reduce = MakeConfig(1, "torch.distributed.all_reduce", {TensorValue({250})});
  trace.Call(all_reduce);
  trace.In(trace.AddProcess(json{{"device_names", {{"1", "nccl_kernel"}}}, {"world_size", 2}, {"rank", 0}}), 0);
  trace.Call(all_reduce);
  trace.Later(1, LaterOf::kDeviceWork, work(10));
  trace.In(0, 0);
  trace.Later(0, LaterOf::kDeviceWork, work(20) + work(30));
  trace.Later(0, LaterOf::kDeviceWork, work(40));
  StatsOptions options;
  options.grouping.by = StatsBy::kKernel;
  const json rows = StatsJson({&trace}, options)["kernels"];
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0]["ranks"], 8);
  EXPECT_EQ(rows[0]["count"], 3);
  EXPECT_EQ(rows[0]["bytes"], 1000);
  EXPECT_EQ(rows[1]["ranks"], 2);
  EXPECT_EQ(rows[1]["bytes"], 1000);
}

TEST(StatsReport, AbsurdTimesEndAtTheMost) {
  FakeTrace trace(json{{"device_names", json::object()}});
  trace.Enter(MakeConfig(2, "aten::f"));
  trace.Wait(900'000'000'000'000'000);
  trace.Leave();
  std::string work;
  for (int i = 0; i < 9000; ++i) AppendDeviceWork({.duration_ns = DeviceWork::kMostNs}, &work);
  trace.Later(0, LaterOf::kDeviceWork, work);
  trace.Later(0, LaterOf::kDeviceWork, work);
  StatsOptions options;
  options.grouping.by = StatsBy::kKernel;
  json result = StatsJson({&trace}, options);
  EXPECT_EQ(result["total_device_ns"], INT64_MAX);
  EXPECT_EQ(result["kernels"][0]["device_ns"], INT64_MAX);
  options.grouping.by = StatsBy::kApi;
  options.sort = StatsSort::kDevice;
  const json many = StatsJson(std::vector<Trace*>(11, &trace), options);
  for (const json& row : {many, many["apis"][0]}) {
    for (const char* key : {"device_ns", "self_time_ns"}) {
      EXPECT_EQ(row.contains(key) ? row[key] : row[absl::StrCat("total_", key)], INT64_MAX);
    }
  }
}

TEST(StatsReport, AchievedRates) {
  FakeTrace trace(json{{"device_names", json::object()}});
  trace.Call(MakeConfig(2, "aten::mm", {TensorValue({10, 20}), TensorValue({20, 30})}));
  trace.Call(MakeConfig(2, "aten::mm", {TensorValue({1, 2}), TensorValue({2, 3})}));
  std::string work;
  AppendDeviceWork({.start_ns = 1'000'000, .duration_ns = 24}, &work);
  trace.Later(0, LaterOf::kDeviceWork, work);
  StatsOptions options;
  options.grouping.by = StatsBy::kShapes;
  options.sort = StatsSort::kDevice;
  const json rows = StatsJson({&trace}, options)["shapes"];
  EXPECT_EQ(rows[0]["flops_per_s"], 2.0 * 10 * 20 * 30 * 1e9 / 24);
  EXPECT_EQ(rows[0]["bytes_per_s"], rows[0]["bytes"].get<double>() * 1e9 / 24);
  EXPECT_EQ(rows[1]["flops_per_s"], nullptr);
}

// Of each step: wall, recorded and device time, memory, FLOPs, and rows in the order of each.
TEST(StatsReport, WhatStepsTook) {
  FakeTrace trace(json{{"memory", true}, {"device_names", {{"1", "a_kernel"}}}});
  ProcessMetadata& known = trace.process(0).known;
  known.steps_by = StepKind::kStep;
  known.last_steps.at(StepKind::kStep) = {4, 400};
  const std::map<uint64_t, int64_t> device_ns = {{1, 10}, {2, 30}, {3, 20}};
  const std::map<uint64_t, uint64_t> bytes = {{1, 5}, {2, 7}, {3, 9}};
  trace.Enter(MakeConfig(3, "__main__.<module>"));
  for (uint64_t step = 1; step <= 3; ++step) {
    StepMarks marks;
    marks.at(StepKind::kStep) = {step, static_cast<int64_t>(100 * step)};
    trace.Tag(WithStepMarks("", marks));
    const auto size = static_cast<int64_t>(4 - step);
    trace.Enter(MakeConfig(2, "aten::mm", {TensorValue({size, 2}), TensorValue({2, 3})}));
    trace.Memory({.address = step, .bytes = bytes.at(step)});
    trace.Leave();
  }
  trace.Leave();
  for (const auto& [step, ns] : device_ns) {
    std::string work;
    AppendDeviceWork({.start_ns = 1'000, .duration_ns = ns}, &work);
    trace.Later(step, LaterOf::kDeviceWork, work);
  }
  StatsOptions options;
  options.grouping.by = StatsBy::kStep;
  const auto steps = [&](std::optional<StatsSort> sort) {
    options.sort = sort;
    std::vector<uint64_t> numbers;
    const json report = StatsJson({&trace}, options);
    for (const json& row : report["steps"]) {
      if (!row["number"].is_null()) numbers.push_back(row["number"]);
    }
    // The call around all steps has none of what happens in them.
    const json before = *std::find_if(report["steps"].begin(), report["steps"].end(),
                                      [](const json& row) { return row["number"].is_null(); });
    EXPECT_EQ(before["calls"], 1);
    EXPECT_EQ(before["device_ns"], 0);
    EXPECT_EQ(before["allocated_bytes"], 0);
    EXPECT_EQ(before["held_bytes"], 0);
    return numbers;
  };
  EXPECT_THAT(steps(std::nullopt), testing::ElementsAre(1, 2, 3));
  EXPECT_THAT(steps(StatsSort::kDevice), testing::ElementsAre(2, 3, 1));
  EXPECT_THAT(steps(StatsSort::kMemory), testing::ElementsAre(3, 2, 1));
  EXPECT_THAT(steps(StatsSort::kFlops), testing::ElementsAre(1, 2, 3));
  const json first = StatsJson({&trace}, options)["steps"][0];
  EXPECT_EQ(first["wall_ns"], 100);
  EXPECT_EQ(first["calls"], 1);
  EXPECT_GT(first["time_ns"], 0);
  EXPECT_EQ(first["device_ns"], 10);
  EXPECT_EQ(first["allocated_bytes"], 5);
  EXPECT_EQ(first["held_bytes"], 5);
  EXPECT_EQ(first["flops"], 2 * 3 * 2 * 3);
}

TEST(StatsReport, NumbersOfSeveralTraces) {
  FakeTrace one(kWithNumbers), two(kWithNumbers), none;
  AddCallsWithNumbers(&one);
  two.Enter(MakeConfig(2, "aten::f"));
  two.Return({TensorValue({2})}, NumbersNotes({{.nans = 1, .finite = 1, .least = -7, .most = -7, .norm = 7}}));
  AddExampleCalls(&none);
  StatsOptions options;
  options.numbers = true;
  const json row = StatsJson({&one, &two}, options)["apis"][0];
  EXPECT_EQ(row["least"], -7);
  EXPECT_EQ(row["calls_with_nan"], 2);
  EXPECT_EQ(row["traces"][0]["least"], -1.25);
  EXPECT_EQ(row["traces"][1]["most"], -7);
  options.times = false;
  EXPECT_THAT(Stats({&one, &two}, options), HasSubstr("least"));
  std::ostringstream out;
  EXPECT_EQ(WriteStats(Named({&one, &none}), options, &out),
            absl::FailedPreconditionError("b has no numbers of tensors: record them with torchtrace run --numbers"));
  EXPECT_EQ(out.str(), "");
}

TEST(StatsReport, FiltersLimitTheTotals) {
  FakeTrace trace;
  AddStatsCalls(&trace);
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
  // The call is still inside one of level 1, which the filter leaves out.
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
  options.grouping.by = StatsBy::kProcess;
  stats = StatsJson({&one, &two}, options);
  ASSERT_EQ(stats["processes"].size(), 2u);
  EXPECT_EQ(stats["processes"][0]["configs"], 5);
}

TEST(StatsReport, EmptyTrace) {
  FakeTrace trace;
  EXPECT_EQ(StatsJson({&trace}, {}), json::parse(R"({"total_calls": 0, "total_apis": 0, "total_configs": 0,
                                                          "total_self_time_ns": 0, "by_level": [], "apis": []})"));
  EXPECT_THAT(Stats({&trace}, {}), HasSubstr("0 calls of 0 APIs in 0 configs, self time 0 ns\n"));
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
  EXPECT_EQ(WriteStats(Named({&trace}), {}, &out).code(), absl::StatusCode::kAborted);
}

TEST(StatsReport, ChoicesAreNamed) {
  EXPECT_EQ(ParseStatsGrouping("thread")->by, StatsBy::kThread);
  EXPECT_EQ(ParseStatsGrouping("tag:a b")->tag, "a b");
  EXPECT_THAT(std::string(ParseStatsGrouping("tag").status().message()), HasSubstr("cannot group by \"tag\""));
  EXPECT_FALSE(ParseStatsGrouping("tag:").ok());
  EXPECT_EQ(*StatsFormats().Parse("csv"), StatsFormat::kCsv);
  EXPECT_THAT(std::string(ParseStatsGrouping("apis").status().message()),
              HasSubstr("known: api, config, family, shapes, graph, kernel, level"));
  EXPECT_THAT(std::string(StatsFormats().Parse("xml").status().message()), HasSubstr("known: text, json, csv"));
  EXPECT_EQ(*StatsFormats().Parse("markdown"), StatsFormat::kMarkdown);
  EXPECT_EQ(*StatsSorts().Parse("self"), StatsSort::kSelf);
  EXPECT_EQ(*StatsSorts().Parse("first"), StatsSort::kFirst);
  EXPECT_EQ(StatsSorts().Parse("tme").status().message(),
            "cannot sort by \"tme\", did you mean time? (known: calls, configs, time, self, name, first, flops, bytes, "
            "device, memory)");
}

}  // namespace
}  // namespace torchtrace
