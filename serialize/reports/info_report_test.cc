#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>
#include <string>

#include "nlohmann/json.hpp"
#include "serialize/reports/reports.h"
#include "serialize/testing/fake_trace.h"

namespace torchtrace {
namespace {

using nlohmann::json;
using testing::HasSubstr;

std::string Info(Trace* trace, const InfoOptions& options) {
  std::ostringstream out;
  const absl::Status status = WriteInfo(trace, "out", options, &out);
  EXPECT_TRUE(status.ok()) << status;
  return out.str();
}

TEST(InfoReport, Text) {
  FakeTrace trace(json::parse(R"({
    "role": "main", "pid": 12, "command": ["my train.py", "--lr", "1"], "cwd": "/w", "host": "h\u001b[31m",
    "python": {"version": "3.11.7", "executable": "/p"}, "packages": {"torch": {"version": "2.13.0"}, "numpy": "1.26"},
    "torchtrace": "0.1.0", "levels": [1, 2], "include": [], "exclude": ["a*", "b"], "environment": {"A": "1", "B": ""},
    "clock": {"origin_monotonic_ns": 1000, "origin_realtime_ns": 86400000000000},
    "end": {"exit_code": 0, "monotonic_ns": 3001000}})"));
  AddExampleCalls(&trace);
  trace.process(0).file_bytes = 12'345;
  trace.process(0).event_bytes = 40;
  EXPECT_EQ(Info(&trace, {}),
            "trace        out\n"
            "command      'my train.py' --lr 1\n"
            "folder       /w\n"
            "host         h\\x1b[31m\n"
            "torchtrace   0.1.0\n"
            "python       3.11.7 (executable /p)\n"
            "packages     numpy 1.26, torch 2.13.0\n"
            "levels       1, 2\n"
            "exclude      a*, b\n"
            "started      1970-01-02T00:00:00Z\n"
            "ended        exit code 0\n"
            "environment  A=1 B=''\n"
            "duration     3.00 ms\n"
            "calls        4\n"
            "APIs         4\n"
            "configs      4\n"
            "level 1      4 calls, 4 APIs, 4 configs\n"
            "level 2      0 calls, 0 APIs, 0 configs\n"
            "log          12.3 kB, 5.0 bytes per event\n"
            "complete     yes: no call was dropped, lost or cut\n"
            "\n"
            "process  calls  never returned  threads      log  ended\n"
            "main-0       4               0        1  12.3 kB  exit code 0\n");
}

TEST(InfoReport, TellsWhatIsMissing) {
  FakeTrace trace;
  AddExampleCalls(&trace);
  trace.process(0).closed = false;
  trace.process(0).dropped = {{"the log was full", 5}};
  trace.process(0).damage = {{"frame 3 at byte 9 is broken"}, 2, 100, false};
  const std::string text = Info(&trace, {});
  EXPECT_THAT(text, HasSubstr("complete     5 calls dropped: the log was full\n"
                              "             at least 2 calls lost to damage of the log\n"
                              "             logs not closed, of processes killed or still running: 1 of 1\n"));
  EXPECT_THAT(text, HasSubstr("damage in main-0: frame 3 at byte 9 is broken\n"));
}

TEST(InfoReport, MergedTrace) {
  const json common = json::parse(R"({"torchtrace": "0.1.0", "source": "r/log/main-7.ttlog"})");
  json first = common, second = common;
  first.update({{"label", "gpt2"}, {"rank", 0}, {"world_size", 2}, {"command", {"a.py"}}});
  second.update({{"source", "s/fork-8.ttlog"}, {"command", {"b.py"}}});
  FakeTrace trace(first);
  trace.AddProcess(second);
  trace.process(1).closed = false;
  AddExampleCalls(&trace);
  EXPECT_EQ(Info(&trace, {}),
            "trace        out\n"
            "torchtrace   0.1.0\n"
            "order        processes as given: they have no clock\n"
            "calls        4\n"
            "APIs         4\n"
            "configs      4\n"
            "level 1      4 calls, 4 APIs, 4 configs\n"
            "log          0 bytes\n"
            "complete     rank 1 of 2 is missing (gpt2)\n"
            "             logs not closed, of processes killed or still running: 1 of 2\n"
            "\n"
            "process      label  rank  calls  never returned  threads    "
            "  log  ended                                        source\n"
            "gpt2:rank 0  gpt2      0      4               0        1  0 bytes"
            "  closed without saying how the program ended  r/log/main-7.ttlog\n"
            "fork-8                        0               0        0  0 bytes"
            "  not closed: killed or still running          s/fork-8.ttlog\n");
}

TEST(InfoReport, ManyProcesses) {
  FakeTrace trace;
  for (int i = 1; i < 1000; ++i) {
    trace.AddProcess(json::object());
    trace.process(static_cast<uint32_t>(i)).damage.sentences = {"broken"};
  }
  const std::string text = Info(&trace, {});
  EXPECT_LT(text.size(), 20'000u);
  EXPECT_THAT(text, HasSubstr("and 900 more processes (--format json lists all)\n"));
  EXPECT_THAT(text, HasSubstr("and 799 more places of damage (--format json)\n"));
}

TEST(InfoReport, Json) {
  FakeTrace trace;
  AddExampleCalls(&trace);
  const json info = json::parse(Info(&trace, {.json = true}));
  EXPECT_EQ(info["counts"]["calls"], 4);
  EXPECT_EQ(info["processes"].size(), 1u);
}

TEST(InfoReport, AFailingStreamIsAnError) {
  FakeTrace trace;
  std::ostringstream out;
  out.setstate(std::ios::badbit);
  EXPECT_EQ(WriteInfo(&trace, "out", {}, &out).code(), absl::StatusCode::kAborted);
}

}  // namespace
}  // namespace torchtrace
