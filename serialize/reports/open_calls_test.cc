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

std::string OpenCallsOf(Trace* trace, const OpenCallsOptions& options = {}) {
  std::ostringstream out;
  const absl::Status status = WriteOpenCalls(trace, options, &out);
  EXPECT_TRUE(status.ok()) << status;
  return out.str();
}

// A module that waits in a call, an idle thread, and a process that ended.
void AddHangingCalls(FakeTrace* trace) {
  trace->process(0).closed = false;
  trace->process(0).known.pid = 4242;
  trace->Enter(MakeConfig(3, "Net", {IntValue(1)}));
  trace->Call(MakeConfig(1, "torch.relu", {IntValue(1)}));
  trace->Enter(MakeConfig(1, "torch.hangs"));
  trace->In(0, 1);
  trace->Enter(MakeConfig(1, "torch.stack"));
  trace->Raise("Error");
  trace->Wait(1000);
  trace->Call(MakeConfig(1, "torch.last"));
  trace->In(trace->AddProcess({}), 0);
  trace->Call(MakeConfig(1, "torch.elsewhere"));
}

TEST(OpenCalls, Text) {
  FakeTrace trace;
  AddHangingCalls(&trace);
  EXPECT_EQ(OpenCallsOf(&trace),
            "main-0: killed or still running; times are up to its last record\n"
            "  thread 0 (thread0): 2 open calls\n"
            "    0  L3  Net(1)  open for 1.07 us\n"
            "    2  L1    torch.hangs()  open for 1.04 us\n"
            "  thread 1 (thread1): no open call; the last one returned 0 ns before that:\n"
            "    4  L1  torch.last()\n"
            "\n"
            "1 process has ended, without an open call\n");
  EXPECT_THAT(OpenCallsOf(&trace, {.width = 40}), HasSubstr("    2  L1    torch.hangs()  open for 1.04 us\n"));
}

TEST(OpenCalls, Json) {
  FakeTrace trace;
  AddHangingCalls(&trace);
  const json report = json::parse(OpenCallsOf(&trace, {.json = true}));
  const json& process = report["processes"][0];
  EXPECT_EQ(process["process"], "main-0");
  EXPECT_TRUE(process["running"].is_null());
  EXPECT_EQ(process["threads"][0]["open"][1]["api"], "torch.hangs");
  EXPECT_EQ(process["threads"][0]["open"][1]["open_ns"], 1040);
  EXPECT_EQ(process["threads"][1]["open"], json::array());
  EXPECT_EQ(process["threads"][1]["last_ended"]["api"], "torch.last");
  EXPECT_EQ(report["processes"][1]["running"], false);
}

TEST(OpenCalls, NoneIs) {
  FakeTrace trace;
  trace.Call(MakeConfig(1, "torch.relu"));
  EXPECT_EQ(OpenCallsOf(&trace), "no call is open: every process has ended\n");
}

}  // namespace
}  // namespace torchtrace
