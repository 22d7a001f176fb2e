// Chrome traces, flame graphs and Python code of made-up calls.

#include <map>
#include <memory>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "serialize/export/exporter.h"
#include "serialize/export/exports.h"
#include "serialize/model/device_work.h"
#include "serialize/model/tensor_notes.h"
#include "serialize/report/page/report_page.h"
#include "serialize/testing/fake_trace.h"

namespace torchtrace {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

json HostOf(int pid) {
  return {{"clock",
           {{"unit_ns", 1}, {"origin_units", 0}, {"origin_monotonic_ns", 0}, {"origin_realtime_ns", 5'000'000'000}}},
          {"host", "h"},
          {"pid", pid},
          {"rank", pid}};
}

constexpr char kHostile[] = "</script><b>\"';\n\x1b[2J\xff";

// A module around a forward call, its backward node, a function that fails, a call that never returns.
std::unique_ptr<FakeTrace> Steps(const json& metadata = HostOf(7)) {
  auto trace = std::make_unique<FakeTrace>(metadata);
  trace->Enter(MakeConfig(3, "torch.nn.Linear", {}, {{"path", TextValue("head")}}));
  trace->Enter(MakeConfig(4, "aten::add.Tensor", {TensorValue({2, 3}), FloatValue(1.5), IntValue(2)}));
  trace->SetFacts({.thread = 1, .sequence = 3});
  trace->Wait(1234);
  trace->Leave();
  trace->Leave();
  trace->Enter(MakeConfig(4, "AddBackward0"));
  trace->SetFacts({.scope = kBackwardScope, .thread = 1, .sequence = 3, .forward_thread = 1});
  trace->Leave();
  trace->Enter(MakeConfig(4, kHostile));
  trace->SetFacts({.scope = kUserScope, .thread = 1});
  trace->Enter(MakeConfig(1, "torch.add"));
  trace->Raise("ValueError");
  return trace;
}

std::string ExportedTogether(const char* format, const ExportOptions& options,
                             std::vector<std::unique_ptr<Trace>> traces, const CallSelection& selection = {}) {
  std::ostringstream out;
  const std::unique_ptr<CallSink> sink = std::get<WritesCalls>((*FindExporter(format))->write).make(&out, options);
  std::vector<LabelledTrace> labelled;
  for (std::unique_ptr<Trace>& of : traces) {
    labelled.push_back({"t", [&of] { return absl::StatusOr<std::unique_ptr<Trace>>(std::move(of)); }, nullptr});
  }
  absl::Status status = ExportTimeline(labelled, selection, sink.get());
  if (status.ok()) status = sink->Finish();
  return status.ok() ? out.str() : std::string(status.message());
}
std::string Exported(const char* format, const ExportOptions& options, std::unique_ptr<Trace> of,
                     const CallSelection& selection = {}) {
  std::vector<std::unique_ptr<Trace>> one;
  one.push_back(std::move(of));
  return ExportedTogether(format, options, std::move(one), selection);
}
std::string Exported(const char* format, const ExportOptions& options = {}, const json& metadata = HostOf(7)) {
  return Exported(format, options, Steps(metadata));
}

std::string WorkBytes(const std::vector<DeviceWork>& work) {
  std::string bytes;
  for (const DeviceWork& one : work) AppendDeviceWork(one, &bytes);
  return bytes;
}

// A function whose operator launches a kernel, which runs after both, and a graph of two kernels; then a copy.
std::unique_ptr<FakeTrace> Launches() {
  json metadata = HostOf(7);
  metadata["device_names"] = {{"1", "a_kernel"}, {"2", "b_kernel"}};
  auto trace = std::make_unique<FakeTrace>(metadata);
  trace->Enter(MakeConfig(1, "torch.f"));  // at 10
  trace->Enter(MakeConfig(2, "aten::f"));  // at 20
  trace->Leave();
  trace->Leave();
  trace->Enter(MakeConfig(2, "aten::g"));  // at 50
  trace->Leave();
  trace->Later(1, LaterOf::kDeviceWork,
               WorkBytes({{DeviceWork::kKernel, 1, 7, 5000, 800, 1, 0, 99, 4975, 3},
                          {DeviceWork::kKernel, 1, 7, 6000, 100, 1, 0, 100},
                          {DeviceWork::kKernel, 1, 8, 6200, 100, 2, 0, 100}}));
  trace->Later(2, LaterOf::kDeviceWork, WorkBytes({{DeviceWork::kCopy, 0, 7, 9000, 200, 0, 4000, 101, 8945, 2}}));
  // The graph's last kernel comes later.
  trace->Later(1, LaterOf::kDeviceWork, WorkBytes({{DeviceWork::kKernel, 1, 7, 6400, 100, 1, 0, 100}}));
  return trace;
}

TEST(ChromeSinkTest, StreamsAreKinetos) {
  const json trace = json::parse(Exported("chrome", {}, Launches()));
  EXPECT_FALSE(trace.contains("deviceProperties"));
  std::vector<std::string> slices, arrows, names;
  for (const json& event : trace["traceEvents"]) {
    const json& args = event["args"];
    const std::string at = event["pid"].dump() + "/" + event["tid"].dump() + " " + event["ts"].dump();
    if (event["ph"] == "X" && event["cat"] != "cpu_op" && event["cat"] != "python_function") {
      slices.push_back(event["cat"].get<std::string>() + " " + event["name"].get<std::string>() + " " + at + " +" +
                       event["dur"].dump() + " #" + args["correlation"].dump() + " of " + args["External id"].dump());
      if (event["cat"] != "cuda_runtime") {
        EXPECT_EQ(args["stream"], event["tid"]);
        EXPECT_EQ(args["device"], event["pid"]);
      }
    }
    if (event["cat"] == "ac2g") arrows.push_back(event["ph"].get<std::string>() + event["id"].dump() + " " + at);
    if (event["name"] == "thread_name" && event["pid"] != 7) names.push_back(args["name"]);
  }
  EXPECT_THAT(
      slices,
      ElementsAre("cuda_runtime cudaLaunchKernel 7/0 0.025 +0.003 #99 of 2", "kernel a_kernel 1/7 5.0 +0.8 #99 of 2",
                  "cuda_runtime cudaLaunchKernel 7/0 0.02 +0.0 #100 of 2", "kernel a_kernel 1/7 6.0 +0.1 #100 of 2",
                  "kernel b_kernel 1/8 6.2 +0.1 #100 of 2", "cuda_runtime cudaMemcpyAsync 7/0 0.055 +0.002 #101 of 3",
                  "gpu_memcpy memcpy 0/7 9.0 +0.2 #101 of 3", "kernel a_kernel 1/7 6.4 +0.1 #100 of 2"));
  EXPECT_THAT(arrows, ElementsAre("s99 7/0 0.025", "f99 1/7 5.0", "s100 7/0 0.02", "f100 1/7 6.0", "s100 7/0 0.02",
                                  "f100 1/8 6.2", "s101 7/0 0.055", "f101 0/7 9.0", "s100 7/0 0.02", "f100 1/7 6.4"));
  EXPECT_THAT(names, ElementsAre("stream 7", "stream 8", "stream 7"));
  EXPECT_THAT(Exported("chrome", {}, Launches()), HasSubstr("\"bytes\":4000,\"memory bandwidth (GB/s)\":20"));
}

// Each has launches of the same numbers.
TEST(ChromeSinkTest, LaunchesOfSeveralTracesAreKeptApart) {
  std::vector<std::unique_ptr<Trace>> two;
  two.push_back(Launches());
  two.push_back(Launches());
  std::multiset<uint64_t> launches;
  const json trace = json::parse(ExportedTogether("chrome", {}, std::move(two)));
  for (const json& event : trace["traceEvents"]) {
    if (event["cat"] == "cuda_runtime") launches.insert(event["args"]["correlation"].get<uint64_t>());
  }
  const uint64_t second = uint64_t{1} << 32;
  EXPECT_THAT(launches, ElementsAre(99, 100, 101, second + 99, second + 100, second + 101));
}

// What a call launched that is left out belongs to the one around it, if there is one.
TEST(ChromeSinkTest, WorkOfCallsLeftOut) {
  CallSelection selection;
  selection.levels = {1};
  const std::string text = Exported("chrome", {}, Launches(), selection);
  EXPECT_THAT(text, HasSubstr(R"("name":"a_kernel")"));
  EXPECT_THAT(text, HasSubstr(R"("External id":1,"device":1)"));
  EXPECT_THAT(text, Not(HasSubstr("gpu_memcpy")));
}

TEST(FlamegraphSinkTest, Weights) {
  ExportOptions options;
  options.weight = TreeWeight::kDevice;
  EXPECT_EQ(Exported("flamegraph", options, Launches()),
            "rank 7 (7) thread 0;torch.f;aten::f 1100\nrank 7 (7) thread 0;aten::g 200\n");
  CallSelection selection;
  selection.levels = {1};
  EXPECT_EQ(Exported("flamegraph", options, Launches(), selection), "rank 7 (7) thread 0;torch.f 1100\n");
  options.output = "a.html";
  EXPECT_THAT(Exported("flamegraph", options, Launches()), HasSubstr(R"("weight":"device_ns")"));
  EXPECT_EQ(Exported("flamegraph", options), "t has no device times: record them with torchtrace run --device-times");
  options.weight = TreeWeight::kMemory;
  EXPECT_EQ(Exported("flamegraph", options), "t has no memory: record it with torchtrace run --memory");
  // An operator's FLOPs are those of the function around it.
  options.weight = TreeWeight::kFlops;
  options.output.clear();
  options.cost = [](const Trace& trace, ConfigId config) {
    const bool costs = ReadConfigHead(trace.identity(config)).api != "aten::g";
    return ConfigCost{{.flops = costs ? std::optional(24.0) : std::nullopt}};
  };
  EXPECT_EQ(Exported("flamegraph", options, Launches()), "rank 7 (7) thread 0;torch.f;aten::f 24\n");
  EXPECT_EQ(Exported("flamegraph", options, Launches(), selection), "rank 7 (7) thread 0;torch.f 24\n");
  // Those of damaged sizes.
  for (const double flops : {1e200, -1e200}) {
    options.cost = [flops](const Trace&, ConfigId) { return ConfigCost{{.flops = flops}}; };
    EXPECT_EQ(Exported("flamegraph", options, Launches(), selection),
              flops < 0 ? "" : "rank 7 (7) thread 0;torch.f 9223372036854774784\n");
  }
}

TEST(ChromeSinkTest, EventsAreKinetos) {
  const json trace = json::parse(Exported("chrome"));
  EXPECT_EQ(trace["baseTimeNanoseconds"], 5'000'000'000);
  EXPECT_EQ(trace["distributedInfo"]["rank"], 7);
  std::map<std::string, json> events;
  for (const json& event : trace["traceEvents"]) {
    events[event["ph"].get<std::string>() + " " + event["name"].get<std::string>()] = event;
  }
  const json& add = events.at("X aten::add");
  EXPECT_EQ(add["cat"], "cpu_op");
  EXPECT_DOUBLE_EQ(add["dur"].get<double>(), 1.244);
  EXPECT_DOUBLE_EQ(add["ts"].get<double>(), 0.020);
  EXPECT_EQ(add["args"]["Sequence number"], 3);
  EXPECT_EQ(add["args"]["Fwd thread id"], 0);
  EXPECT_EQ(add["args"]["Overload name"], "Tensor");
  EXPECT_EQ(add["args"]["Input type"], json({"float", "Scalar", "Scalar"}));
  EXPECT_EQ(add["args"]["Input Dims"], json({{2, 3}, json::array(), json::array()}));
  EXPECT_EQ(add["args"]["Input Strides"], json({{3, 1}, json::array(), json::array()}));
  EXPECT_EQ(add["args"]["Concrete Inputs"], json({"", "1.5", "2"}));
  const json& module = events.at("X nn.Module: head (Linear)");
  EXPECT_EQ(module["cat"], "python_function");
  EXPECT_EQ(module["args"]["Python parent id"], nullptr);
  EXPECT_EQ(events.at("X AddBackward0")["args"]["Fwd thread id"], 1);
  EXPECT_EQ(events.at("s fwdbwd")["ts"], add["ts"]);
  EXPECT_EQ(events.at("f fwdbwd")["ts"], events.at("X AddBackward0")["ts"]);
  EXPECT_EQ(events.at("X torch.add")["args"]["exception"], "ValueError");
  EXPECT_EQ(events.at("M process_name")["args"]["name"].get<std::string>().substr(0, 7), "rank 7 ");
}

TEST(ChromeSinkTest, WhatAnybodyWroteIsJsonAndNeverReturnedIsSaid) {
  const json trace = json::parse(Exported("chrome"));
  for (const json& event : trace["traceEvents"]) {
    if (event.value("cat", "") != "user_annotation") continue;
    EXPECT_THAT(event["name"].get<std::string>(), HasSubstr("</script><b>\"';\n\x1b[2J"));
    EXPECT_EQ(event["args"]["outcome"], "never returned");
    return;
  }
  FAIL() << "no user_annotation";
}

TEST(ChromeSinkTest, WithoutAClockThereIsNoPlaceInTime) {
  EXPECT_THAT(Exported("chrome", {}, {{"pid", 1}}), HasSubstr("t has no times"));
}

TEST(FlamegraphSinkTest, StacksHaveTheirOwnTime) {
  const std::string folded = Exported("flamegraph");
  EXPECT_THAT(folded, HasSubstr("thread 0;head (Linear);aten::add.Tensor 1244\n"));
  EXPECT_THAT(folded, HasSubstr("thread 0;head (Linear) 20\n"));
  EXPECT_THAT(folded, HasSubstr(";</script><b>\"',\\n\\x1b[2J\\xff;torch.add 10\n"));
  EXPECT_THAT(Exported("flamegraph", {.by = LabelBy::kModule}), HasSubstr("thread 0;head (Linear) 1264\n"));
}

int64_t TotalOf(const std::string& folded) {
  int64_t total = 0;
  for (const auto line : absl::StrSplit(folded, '\n', absl::SkipEmpty())) {
    int64_t time = 0;
    EXPECT_TRUE(absl::SimpleAtoi(line.substr(line.rfind(' ') + 1), &time));
    total += time;
  }
  return total;
}

TEST(FlamegraphSinkTest, ModulesHaveAllOfTheTime) {
  const std::string by_module = Exported("flamegraph", {.by = LabelBy::kModule});
  EXPECT_THAT(by_module, HasSubstr(";(no module) "));
  EXPECT_EQ(TotalOf(by_module), TotalOf(Exported("flamegraph")));
}

TEST(FlamegraphSinkTest, APageHoldsItsDataAndNothingThatRuns) {
  const std::string page = Exported("flamegraph", {.traces = {kHostile}, .output = "x.html"});
  const std::string begin = "<script type=\"application/json\" id=\"head\">";
  const size_t at = page.find(begin) + begin.size();
  const std::string text = page.substr(at, page.find("</script>", at) - at);
  const json data = json::parse(text);
  EXPECT_THAT(text, Not(HasSubstr("<")));
  EXPECT_EQ(data["traces"], json::array({{{"name", PageText(kHostile)}}}));
  EXPECT_EQ(data["trees"].size(), 1U);
  EXPECT_EQ(data["tables"], json::object());
}

}  // namespace
}  // namespace torchtrace
