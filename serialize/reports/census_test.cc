#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>
#include <string>
#include <vector>

#include "nlohmann/json.hpp"
#include "serialize/reports/reports.h"
#include "serialize/testing/fake_trace.h"

namespace torchtrace {
namespace {

using nlohmann::json;
using testing::HasSubstr;

// `aten::add` inside torch.add twice, once with another operator between; outside once on this thread and twice on
// a thread of autograd's; `aten::mul` inside a call of level 2 outside.
void AddCensusCalls(FakeTrace* trace) {
  const Config add = MakeConfig(2, "aten::add", {IntValue(1)});
  const Config mul = MakeConfig(2, "aten::mul");
  trace->Enter(MakeConfig(1, "torch.add"));
  trace->Call(add);
  trace->Enter(MakeConfig(1, "torch.inner"));
  trace->Leave();
  trace->Enter(MakeConfig(2, "aten::outer"));
  trace->Call(MakeConfig(2, "aten::add", {IntValue(2)}));
  trace->Leave();
  trace->Leave();
  trace->Enter(add);
  trace->Call(mul);
  trace->Leave();
  trace->In(0, 1);
  trace->Call(add);
  trace->Call(add);
  trace->process(0).threads[1].name = "pt_autograd_0";
}

std::string Report(const std::vector<StatsTrace>& traces, const CensusOptions& options) {
  std::ostringstream out;
  const absl::Status status = WriteCensus(traces, options, &out);
  EXPECT_TRUE(status.ok()) << status;
  return out.str();
}

TEST(Census, Text) {
  FakeTrace trace;
  AddCensusCalls(&trace);
  EXPECT_EQ(Report({{&trace, "out"}}, {}),
            "7 calls of level 2: 3 inside a call of level 1, 4 outside (57.14%), which level 1 did not see\n\n"
            "operator     calls  inside  outside  outside %\n"
            "aten::add        5       2        3     60.00%\n"
            "aten::mul        1       0        1    100.00%\n"
            "aten::outer      1       1        0      0.00%\n"
            "\n"
            "thread                                    calls  inside  outside  outside %\n"
            "main-0 thread 0 thread0                       5       3        2     40.00%\n"
            "main-0 thread 1 pt_autograd_0 (backward)      2       0        2    100.00%\n");
}

TEST(Census, Json) {
  FakeTrace trace;
  AddCensusCalls(&trace);
  CensusOptions options;
  options.format = StatsFormat::kJson;
  options.top = 1;
  EXPECT_EQ(json::parse(Report({{&trace, "out"}}, options)), json::parse(R"({
    "total_calls": 7, "inside": 3, "outside": 4,
    "operators": [{"api": "aten::add", "calls": 5, "inside": 2, "outside": 3, "percent_outside": 60.0}],
    "threads": [
      {"process": "main-0", "thread": 0, "name": "thread0", "backward": false, "calls": 5, "inside": 3, "outside": 2,
       "percent_outside": 40.0},
      {"process": "main-0", "thread": 1, "name": "pt_autograd_0", "backward": true, "calls": 2, "inside": 0,
       "outside": 2, "percent_outside": 100.0}]})"));
}

TEST(Census, CsvAndMarkdown) {
  FakeTrace trace;
  AddCensusCalls(&trace);
  CensusOptions options;
  options.filter.include = {"*add"};
  options.format = StatsFormat::kCsv;
  EXPECT_EQ(Report({{&trace, "a,b"}}, options),
            "operator,trace,process,thread,thread_name,backward,calls,inside,outside\n"
            "aten::add,\"a,b\",main-0,0,thread0,false,3,2,1\n"
            "aten::add,\"a,b\",main-0,1,pt_autograd_0,true,2,0,2\n");
  options.format = StatsFormat::kMarkdown;
  EXPECT_THAT(Report({{&trace, "a"}}, options), HasSubstr("\n| `aten::add` | 5 | 2 | 3 | 60.00% |\n"));
}

TEST(Census, SeveralTracesAreOne) {
  FakeTrace one, two;
  AddCensusCalls(&one);
  AddCensusCalls(&two);
  CensusOptions options;
  options.format = StatsFormat::kJson;
  const json census = json::parse(Report({{&one, "a"}, {&two, "b"}}, options));
  EXPECT_EQ(census["total_calls"], 14);
  EXPECT_EQ(census["operators"][0]["outside"], 6);
  ASSERT_EQ(census["threads"].size(), 4u);
  EXPECT_EQ(census["threads"][3]["trace"], "b");
}

// A call of level 1 that never returned contains all following calls, until there is another call at its depth.
TEST(Census, CallsThatNeverReturn) {
  FakeTrace trace;
  trace.Enter(MakeConfig(1, "torch.add"));
  trace.Call(MakeConfig(2, "aten::add"));
  CensusOptions options;
  options.format = StatsFormat::kJson;
  EXPECT_EQ(json::parse(Report({{&trace, "a"}}, options))["inside"], 1);
}

TEST(Census, NeedsBothLevels) {
  const struct {
    const char* metadata;
    int level;
    const char* message;
  } kRows[] = {
      {R"({"levels": [2]})", 2, "out has only level 2: a census"},
      {R"({"levels": [1]})", 1, "out has only level 1: a census"},
      {"{}", 2, "out has only level 2: a census"},
  };
  for (const auto& row : kRows) {
    FakeTrace trace(json::parse(row.metadata));
    trace.Call(MakeConfig(row.level, "f"));
    std::ostringstream out;
    const absl::Status status = WriteCensus({{&trace, "out"}}, {}, &out);
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(status.message()), HasSubstr(row.message));
    EXPECT_EQ(out.str(), "");
  }
  // The requested levels decide, even without calls.
  FakeTrace quiet(json::parse(R"({"levels": [1, 2]})"));
  EXPECT_THAT(Report({{&quiet, "out"}}, {}), HasSubstr("0 calls of level 2: "));
}

}  // namespace
}  // namespace torchtrace
