// `torchtrace tree`: text and JSON of trees with fixed calls and times.

#include <sstream>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "serialize/model/device_work.h"
#include "serialize/reports/reports.h"
#include "serialize/testing/fake_trace.h"

namespace torchtrace {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;

Config ModuleCall(const std::string& type, const std::string& path) {
  return MakeConfig(3, type, {}, {{"path", TextValue(path)}});
}

// Two steps of a module with two parts, one of which calls an operator that fails once, and a backward node.
void AddSteps(FakeTrace* trace) {
  for (int step = 0; step < 2; ++step) {
    trace->Enter(ModuleCall("__main__.Net", "Net_0"));
    trace->Wait(1000);
    trace->Enter(ModuleCall("torch.nn.Linear", "linear"));
    trace->Enter(MakeConfig(4, "aten::addmm", {IntValue(step)}));
    trace->SetFacts({.thread = 1, .sequence = step});
    trace->Wait(5000);
    trace->Leave();
    trace->Leave();
    trace->Call(ModuleCall("torch.nn.ReLU", "relu"));
    trace->Leave();
    trace->Enter(MakeConfig(4, "AddmmBackward0"));
    trace->SetFacts({.scope = kBackwardScope, .thread = 1, .sequence = step, .forward_thread = 1});
    trace->Wait(2000);
    step == 0 ? trace->Leave() : trace->Raise("RuntimeError");
  }
}

std::string Tree(FakeTrace* trace, const TreeOptions& options = {}) {
  std::ostringstream out;
  const absl::Status status = WriteTree(trace, options, &out);
  return status.ok() ? out.str() : std::string(status.message());
}

TEST(TreeReportTest, EqualSiblingsAreOneNode) {
  FakeTrace trace;
  AddSteps(&trace);
  EXPECT_EQ(Tree(&trace),
            "   total      self      calls\n"
            " 12.1 us   2.06 us          2  Net_0\n"
            " 10.1 us     40 ns          2    linear (Linear)\n"
            " 10.0 us   10.0 us          2      aten::addmm\n"
            "   20 ns     20 ns          2    relu (ReLU)\n"
            " 4.02 us   4.02 us          2  AddmmBackward0  1 raised\n");
}

TEST(TreeReportTest, Weights) {
  FakeTrace trace(json{{"device_names", json::object()}, {"memory", true}});
  trace.Enter(ModuleCall("__main__.Net", "Net_0"));
  trace.Enter(MakeConfig(2, "aten::mm", {TensorValue({10, 20}), TensorValue({20, 30})}));
  trace.Memory({.address = 1, .bytes = 2400});
  trace.Leave();
  trace.Memory({.address = 2, .bytes = 600});
  trace.Leave();
  trace.Call(MakeConfig(2, "aten::view"));
  trace.Memory({.address = 3, .bytes = 1});  // in no call
  std::string work;
  AppendDeviceWork({.start_ns = 1000, .duration_ns = 1500}, &work);
  trace.Later(0, LaterOf::kDeviceWork, work);
  trace.Later(1, LaterOf::kDeviceWork, work + work);
  EXPECT_EQ(Tree(&trace, {.weight = TreeWeight::kDevice}),
            "  device      self      calls\n"
            " 4.50 us   1.50 us          1  Net_0\n"
            " 3.00 us   3.00 us          1    aten::mm\n");
  EXPECT_EQ(Tree(&trace, {.weight = TreeWeight::kMemory}),
            "  memory      self      calls\n"
            "  3.00 k      600           1  Net_0\n"
            "  2.40 k    2.40 k          1    aten::mm\n");
  EXPECT_EQ(Tree(&trace, {.weight = TreeWeight::kFlops}),
            "    FLOP      self      calls\n"
            "  12.0 k        0           1  Net_0\n"
            "  12.0 k    12.0 k          1    aten::mm\n");
  // Of a node that is not shown: of the one around it.
  EXPECT_EQ(Tree(&trace, {.by = LabelBy::kModule, .weight = TreeWeight::kDevice}),
            "  device      self      calls\n"
            " 4.50 us   4.50 us          1  Net_0\n");
  const json nodes = json::parse(Tree(&trace, {.json = true, .weight = TreeWeight::kDevice}));
  EXPECT_EQ(nodes[0]["device_ns"], 4500);
  EXPECT_EQ(nodes[1]["self_device_ns"], 3000);
  // More than integers hold.
  constexpr int64_t kMany = int64_t{1} << 22;
  trace.Enter(ModuleCall("__main__.Net", "Net_1"));
  trace.Call(MakeConfig(2, "aten::mm", {TensorValue({kMany, kMany}), TensorValue({kMany, kMany})}));
  trace.Leave();
  EXPECT_EQ(Tree(&trace, {.by = LabelBy::kModule, .weight = TreeWeight::kFlops}),
            "    FLOP      self      calls\n"
            "   148 E     148 E          1  Net_1\n"
            "  12.0 k    12.0 k          1  Net_0\n");
  FakeTrace none;
  none.Call(MakeConfig(2, "aten::mm"));
  EXPECT_EQ(Tree(&none, {.weight = TreeWeight::kDevice}),
            "the trace has no device times: record them with torchtrace run --device-times");
  EXPECT_EQ(Tree(&none, {.weight = TreeWeight::kMemory}),
            "the trace has no memory: record it with torchtrace run --memory");
}

TEST(TreeReportTest, BackwardCallsHangUnderTheirForwardCalls) {
  FakeTrace trace;
  AddSteps(&trace);
  EXPECT_EQ(Tree(&trace, {.depth = 4, .min_time_ns = 100, .backward_at_forward = true}),
            "   total      self      calls\n"
            " 16.2 us   2.06 us          2  Net_0\n"
            " 14.1 us     40 ns          2    linear (Linear)\n"
            " 14.0 us   10.0 us          2      aten::addmm\n"
            " 4.02 us   4.02 us          2        AddmmBackward0  1 raised\n"
            "1 branch is left out (--depth, --min-time)\n");
}

TEST(TreeReportTest, BackwardCallsTakeTheirTimeAlong) {
  FakeTrace trace;
  trace.Enter(ModuleCall("torch.nn.Linear", "linear"));
  trace.Enter(MakeConfig(4, "aten::addmm"));
  trace.SetFacts({.thread = 1, .sequence = 0});
  trace.Leave();
  trace.Leave();
  trace.Enter(MakeConfig(4, "evaluate_function: AddmmBackward0"));
  trace.Enter(MakeConfig(4, "AddmmBackward0"));
  trace.SetFacts({.scope = kBackwardScope, .thread = 1, .sequence = 0, .forward_thread = 1});
  trace.Wait(2000);
  trace.Leave();
  trace.Leave();
  EXPECT_EQ(Tree(&trace, {.first_called_first = true, .backward_at_forward = true}),
            "   total      self      calls\n"
            " 2.04 us     20 ns          1  linear (Linear)\n"
            " 2.02 us     10 ns          1    aten::addmm\n"
            " 2.01 us   2.01 us          1      AddmmBackward0\n"
            "   20 ns     20 ns          1  evaluate_function: AddmmBackward0\n");
  EXPECT_EQ(Tree(&trace, {.by = LabelBy::kModule, .backward_at_forward = true}),
            "   total      self      calls\n"
            " 2.04 us     30 ns          1  linear (Linear)\n"
            " 2.01 us   2.01 us          1    (backward)\n");
}

TEST(TreeReportTest, ImportsOfALibraryAreOneNode) {
  FakeTrace trace;
  trace.Enter(MakeConfig(3, "__main__.<module>"));
  for (const char* const module : {"torch.<module>", "numpy.<module>"}) {
    trace.Enter(MakeConfig(3, module));
    trace.Call(MakeConfig(3, "torch.helper"));
    trace.Leave();
  }
  trace.Call(MakeConfig(3, "__main__.f"));
  trace.Leave();
  EXPECT_EQ(Tree(&trace, {.first_called_first = true}),
            "   total      self      calls\n"
            "  110 ns     40 ns          1  __main__.<module>\n"
            "   30 ns     30 ns          1    (import torch)\n"
            "   30 ns     30 ns          1    (import numpy)\n"
            "   10 ns     10 ns          1    __main__.f\n");
  EXPECT_THAT(Tree(&trace, {.imports = true}), HasSubstr("torch.helper"));
}

TEST(TreeReportTest, OfModulesAlone) {
  FakeTrace trace;
  AddSteps(&trace);
  EXPECT_EQ(Tree(&trace, {.by = LabelBy::kModule, .first_called_first = true}),
            "   total      self      calls\n"
            " 12.1 us   2.06 us          2  Net_0\n"
            " 10.1 us   10.1 us          2    linear (Linear)\n"
            "   20 ns     20 ns          2    relu (ReLU)\n");
  CallSelection operators;
  operators.levels = {4};
  EXPECT_THAT(Tree(&trace, {.by = LabelBy::kModule, .calls = operators}), HasSubstr("torchtrace run --levels 3"));
  EXPECT_THAT(Tree(&trace, {.by = LabelBy::kLine}), HasSubstr("torchtrace run --stacks"));
}

TEST(TreeReportTest, OfSeveralModels) {
  FakeTrace trace;
  for (const std::string model : {"Net_0", "Net_1"})
    trace.Call(MakeConfig(3, "torch.nn.Linear", {}, {{"path", TextValue("fc")}, {"model", TextValue(model)}}));
  EXPECT_THAT(Tree(&trace), AllOf(HasSubstr("Net_0.fc (Linear)\n"), HasSubstr("Net_1.fc (Linear)\n")));
}

TEST(TreeReportTest, ThreadsAndCallsThatNeverReturned) {
  FakeTrace trace;
  trace.Enter(MakeConfig(1, "outer \x1b[2J"));
  trace.Wait(1000);
  trace.In(0, 1);
  trace.Call(MakeConfig(1, "other"));
  const std::string text = Tree(&trace);
  EXPECT_THAT(text,
              HasSubstr(" thread 0 (thread0)\n 1.02 us   1.02 us          1  outer \\x1b[2J  1 never returned\n"));
  EXPECT_THAT(text, HasSubstr(" thread 1 (thread1)\n   10 ns     10 ns          1  other\n"));
  CallSelection one;
  one.threads = {"1"};
  EXPECT_THAT(Tree(&trace, {.calls = one}), ::testing::Not(HasSubstr("outer")));
}

TEST(TreeReportTest, JsonIsAFlatListAndDeepTreesAreNoTrouble) {
  FakeTrace trace;
  constexpr int kDeep = 50'000;
  for (int i = 0; i < kDeep; ++i) trace.Enter(MakeConfig(1, "f"));
  for (int i = 0; i < kDeep; ++i) trace.Leave();
  const json nodes = json::parse(Tree(&trace, {.json = true}));
  ASSERT_EQ(nodes.size(), static_cast<size_t>(kDeep));
  EXPECT_EQ(nodes[0].value("parent", -1), -1);
  EXPECT_EQ(nodes[1]["parent"], nodes[0]["node"]);
  EXPECT_EQ(nodes.back()["depth"], kDeep - 1);
  EXPECT_EQ(nodes.back()["calls"], 1);
  EXPECT_EQ(nodes[0]["name"], "f");
  FakeTrace empty;
  EXPECT_EQ(json::parse(Tree(&empty, {.json = true})), json::array());
}

}  // namespace
}  // namespace torchtrace
