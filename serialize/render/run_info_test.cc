#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "nlohmann/json.hpp"
#include "serialize/model/graph_calls.h"
#include "serialize/model/levels.h"
#include "serialize/render/render.h"
#include "serialize/testing/fake_trace.h"
#include "serialize/trace/run_facts.h"

namespace torchtrace {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;
using testing::ElementsAre;

json MainMetadata() {
  return json::parse(R"({
    "format": 1, "torchtrace": "0.1.0", "role": "main", "pid": 12, "ppid": 1, "host": "h",
    "command": ["train.py", "--lr", "1"], "cwd": "/w", "environment": {"OMP_NUM_THREADS": "1"},
    "python": {"version": "3.11.7", "executable": "/p"}, "dialect": "torch", "levels": [1, 2],
    "include": [], "exclude": ["a*"], "include_getters": false, "packages": {"torch": {"version": "2.13.0"}},
    "later_key": 7,
    "clock": {"unit_ns": 1.0, "origin_units": 0, "origin_monotonic_ns": 1000, "origin_realtime_ns": 86400000000000},
    "end": {"exit_code": 3, "monotonic_ns": 5000, "threads": [{"number": 0, "calls": 4, "getters": 20},
            {"number": 1, "calls": 0, "getters": 1}], "cut": {"stacks": 2},
            "not_seen": ["Python code inside backward"], "stopped": "the disk is full"}
  })");
}

TEST(RunInfo, HoldsEverythingOfTheRun) {
  FakeTrace trace(MainMetadata());
  AddExampleCalls(&trace);
  trace.process(0).dropped = {{"the log was full", 5}};
  const uint32_t child = trace.AddProcess(json{{"role", "fork"}, {"pid", 13}, {"ppid", 12}, {"forked_from", 12}});
  trace.process(child).closed = false;
  trace.process(child).damage = {{"byte 9: broken"}, 2, 100, false};
  trace.In(child, 0);
  Value text = TextValue("abc");
  text.whole = 1000;
  trace.Enter(MakeConfig(2, "aten::f", {text}));
  const auto statistics = CountCalls(&trace);
  ASSERT_TRUE(statistics.ok());
  RenderReport report;
  report.listing_left_out = true;
  report.listing_command = "torchtrace render out --formats trace";

  const json info = json::parse(BuildRunInfo(trace, *statistics, &report).dump());
  EXPECT_EQ(info["torchtrace"], "0.1.0");
  EXPECT_EQ(info["command"], (json{"train.py", "--lr", "1"}));
  EXPECT_EQ(info["environment"]["OMP_NUM_THREADS"], "1");
  EXPECT_EQ(info["packages"]["torch"]["version"], "2.13.0");
  EXPECT_EQ(info["exclude"], json{"a*"});
  EXPECT_EQ(info["later_key"], 7);
  EXPECT_FALSE(info.contains("clock"));
  EXPECT_EQ(info["started"], "1970-01-02T00:00:00Z");
  EXPECT_EQ(info["ended"], "exit code 3");
  EXPECT_EQ(info["exit_code"], 3);
  EXPECT_EQ(info["duration_ns"], 4000);
  EXPECT_EQ(info["counts"], json::parse(R"({"calls": 5, "apis": 5, "configs": 5, "levels": {
      "1": {"calls": 4, "apis": 4, "configs": 4}, "2": {"calls": 1, "apis": 1, "configs": 1}}})"));
  EXPECT_EQ(info["open_calls"], 1);
  EXPECT_EQ(info["excluded_getters"], 21);
  EXPECT_EQ(info["dropped"], json::parse(R"({"the log was full": 5})"));
  EXPECT_EQ(info["capped"], json::parse(R"({"calls": 1, "configs": 1})"));
  EXPECT_EQ(info["cut"], json::parse(R"({"stacks": 2})"));
  EXPECT_EQ(info["not_seen"], json{"Python code inside backward"});
  EXPECT_EQ(info["stopped"], json{"the disk is full"});
  EXPECT_EQ(info["damage"], json::parse(R"({"damaged": true, "lost_calls": 2, "lost_calls_exact": false})"));
  EXPECT_EQ(info["not_rendered"]["command"], report.listing_command);

  ASSERT_EQ(info["processes"].size(), 2u);
  const json& main = info["processes"][0];
  EXPECT_EQ(main["log"], "log/main-0.ttlog");
  EXPECT_EQ(main["role"], "main");
  EXPECT_EQ(main["pid"], 12);
  EXPECT_EQ(main["calls"], 4);
  EXPECT_EQ(main["excluded_getters"], 21);
  EXPECT_EQ(main["threads"][0]["calls"], 4);
  const json& fork = info["processes"][1];
  EXPECT_EQ(fork["forked_from"], 12);
  EXPECT_EQ(fork["ended"], "not closed: killed or still running");
  EXPECT_EQ(fork["open_calls"], 1);
  EXPECT_EQ(fork["damage"]["sentences"], json{"byte 9: broken"});
  EXPECT_EQ(fork["stopped"], nullptr);
}

TEST(RunInfo, MetadataOfAnyShapeIsTaken) {
  for (const char* text : {"{}", "[]", "null", R"({"end": 3, "clock": [], "levels": "x", "role": 1})",
                           R"({"end": {"exit_code": "x", "threads": [1, {"getters": -5}], "cut": [], "not_seen": {}},
                               "levels": [null, 1.5, 2], "clock": {"origin_realtime_ns": "x"}})"}) {
    FakeTrace trace(json::parse(text));
    AddExampleCalls(&trace);
    const auto statistics = CountCalls(&trace);
    ASSERT_TRUE(statistics.ok()) << text;
    EXPECT_EQ(BuildRunInfo(trace, *statistics, nullptr)["counts"]["calls"], 4) << text;
    EXPECT_FALSE(SummaryLines(trace, *statistics, nullptr, "out").empty()) << text;
  }
}

TEST(RunInfo, ToldAsItCameBeforeASignal) {
  FakeTrace trace(json::parse(R"({"role": "main", "levels": [0, 2], "not_seen": ["x"], "end": {"signal": 15}})"));
  trace.AddProcess(json::parse(R"({"levels": [1], "not_seen": ["x"],
    "end": {"exit_code": 0, "getters": 7, "not_seen": ["x", "y"]}})"));
  const RunFacts facts = GatherFacts(trace);
  EXPECT_EQ(facts.not_seen, (std::vector<std::string>{"x", "y"}));
  EXPECT_EQ(facts.getters, 7u);
  EXPECT_TRUE(facts.getters_unknown);
  EXPECT_FALSE(trace.processes()[1].known.getters_unknown);
  for (const char* counted : {R"({"levels": [2], "end": {"signal": 15}})", R"({"end": {"signal": 15}})",
                              R"({"levels": [1], "include_getters": true, "end": {"signal": 15}})"}) {
    EXPECT_FALSE(GatherFacts(FakeTrace(json::parse(counted))).getters_unknown) << counted;
  }
}

TEST(RunInfo, NamesWhatWasStarted) {
  FakeTrace trace(
      json::parse(R"({"role": "main", "levels": [1], "started_programs": [{"program": "/bin/sh", "count": 1}],
    "end": {"exit_code": 0, "not_seen": ["x"],
            "started_programs": [{"program": "/bin/sh", "python": false, "count": 1},
                                 {"program": "/usr/bin/python3", "python": true, "count": 2}]}})"));
  trace.AddProcess(json::parse(R"({"started_programs": [{"program": "/usr/bin/python3", "python": true, "count": 1},
    {"program": "/opt/tool", "python": true, "count": 1}, {"program": 3}, {"count": -4, "program": "y"}, 7]})"));
  const auto statistics = CountCalls(&trace);
  const json info = json::parse(BuildRunInfo(trace, *statistics, nullptr).dump());
  EXPECT_EQ(info["not_seen"], (json{"x",
                                    "5 processes that were started as new programs: /opt/tool (Python), "
                                    "/usr/bin/python3 (3, Python), /bin/sh"}));
  EXPECT_EQ(info["started_programs"].size(), 3u);
  EXPECT_EQ(info["started_programs"][2], json::parse(R"({"program": "/usr/bin/python3", "python": true, "count": 3})"));
  EXPECT_EQ(info["processes"][0]["started_programs"].size(), 2u);
  EXPECT_EQ(info["processes"][1]["started_programs"].size(), 2u);
}

TEST(RunInfo, DescribesTheEnd) {
  ProcessInfo process;
  EXPECT_EQ(DescribeEnd(process), "not closed: killed or still running");
  process.closed = true;
  const auto with_end = [&process](const json& end) {
    process.SetMetadata(std::make_shared<const json>(json{{"end", end}}));
    return DescribeEnd(process);
  };
  EXPECT_EQ(with_end({{"exit_code", 0}}), "exit code 0");
  EXPECT_EQ(with_end({{"signal", 9}}), "signal 9 (SIGKILL)");
  EXPECT_EQ(with_end({{"signal", 4000}}), "signal 4000");
  EXPECT_EQ(with_end(json::object()), "closed without saying how the program ended");
}

TEST(RunInfo, IsWrittenWholeOverAnOlderOne) {
  const std::string folder = testing::TempDir() + "/run_info_test_" + std::to_string(getpid());
  std::filesystem::create_directories(folder);
  ASSERT_TRUE(WriteRunInfo(ordered_json{{"a", 1}}, folder).ok());
  ASSERT_TRUE(WriteRunInfo(ordered_json{{"a", 2}}, folder).ok());
  std::ifstream file(folder + "/run.json");
  EXPECT_EQ(json::parse(file), (json{{"a", 2}}));
  std::filesystem::remove_all(folder);
  EXPECT_EQ(WriteRunInfo(ordered_json{{"a", 3}}, folder).code(), absl::StatusCode::kNotFound);
}

TEST(Summary, OfACleanRun) {
  FakeTrace trace(json{{"role", "main"}, {"levels", {1}}, {"end", {{"exit_code", 0}}}});
  AddExampleCalls(&trace);
  const auto statistics = CountCalls(&trace);
  EXPECT_THAT(SummaryLines(trace, *statistics, nullptr, "my out"),
              ElementsAre("the trace is in my out: 4 calls of 4 APIs in 4 configs", "next: torchtrace stats 'my out'"));
}

TEST(Summary, TellsEverythingThatIsMissing) {
  FakeTrace trace(MainMetadata());
  trace.process(0).dropped = {{"the log was full", 1}};
  Value list;
  list.tag = ValueTag::kList;
  list.whole = 1000;
  Value tuple;
  tuple.tag = ValueTag::kTuple;
  tuple.items = {list};
  tuple.whole = 1;
  trace.Call(MakeConfig(1, "f", {tuple}));
  trace.Call(MakeConfig(1, "f", {tuple}));
  const uint32_t child = trace.AddProcess({});
  trace.process(child).closed = false;
  trace.process(child).damage = {{"byte 9: broken"}, 2, 100, true};
  const auto statistics = CountCalls(&trace);
  RenderReport report;
  report.listing_left_out = true;
  report.listing_command = "torchtrace render out --formats trace";
  EXPECT_THAT(
      SummaryLines(trace, *statistics, &report, "out"),
      ElementsAre("the trace is in out: 2 calls of 1 API in 1 config",
                  "processes recorded: 2, of which killed or still running: 1",
                  "tracing stopped before the program's end: the disk is full", "dropped: 1 call (the log was full)",
                  "the log is damaged: 2 calls lost", "capped: long arguments of 2 calls in 1 config are cut",
                  "cut: 2 stacks", "left out: 21 calls of property getters (--include-getters keeps them)",
                  "not seen: Python code inside backward",
                  "the files that list every call were left out; to make them: torchtrace render out --formats "
                  "trace",
                  "next: torchtrace stats out"));
}

TEST(RunInfo, ListsTheGraphsOfTorchCompile) {
  FakeTrace trace;
  const auto call = [](GraphCallKind kind, int64_t line, const char* reason = nullptr) {
    std::vector<std::pair<std::string, Value>> at = {{"file", TextValue("a.py")}, {"line", IntValue(line)}};
    if (reason != nullptr) at.emplace_back("reason", TextValue(reason));
    return MakeConfig(kFrameLevel, GraphCallApi(kind, "0/1", "f"), {}, std::move(at));
  };
  trace.Enter(call(GraphCallKind::kCompilation, 3));
  trace.Call(call(GraphCallKind::kRecompiled, 3, "size"));
  trace.Call(call(GraphCallKind::kBreak, 5, "print"));
  trace.Leave();
  for (int i = 0; i < 3; ++i) trace.Call(call(GraphCallKind::kRun, 3));
  trace.Call(call(GraphCallKind::kBackwardRun, 3));
  EXPECT_EQ(json::parse(BuildRunInfo(trace, *CountCalls(&trace), nullptr).dump())["graphs"], json::parse(R"([
    {"graph": "0/1", "function": "f", "file": "a.py", "line": 3, "compilations": 1, "runs": 3, "backward_runs": 1,
     "reasons": ["size"], "breaks": [{"file": "a.py", "line": 5, "reason": "print"}]}])"));
}

}  // namespace
}  // namespace torchtrace
