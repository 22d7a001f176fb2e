// The tables that exports.h writes.

#include <cstdint>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "serialize/export/exporter.h"
#include "serialize/export/exports.h"
#include "serialize/export/table_writer.h"
#include "serialize/model/device_work.h"
#include "serialize/testing/fake_trace.h"

namespace torchtrace {
namespace {

nlohmann::json ProcessOf(int pid) { return {{"clock", nlohmann::json::object()}, {"host", "h"}, {"pid", pid}}; }

std::string Configs(const std::vector<LabelledTrace>& traces, const char* format, const ExportFilter& filter = {}) {
  std::ostringstream out;
  const Exporter& exporter = **FindExporter(format);
  auto sink = MakeConfigSink(exporter, &out);
  EXPECT_TRUE(ExportConfigs(traces, {.filter = filter}, exporter, sink->get()).ok());
  EXPECT_TRUE((*sink)->Finish().ok());
  return out.str();
}

std::string Calls(Trace* trace, const CallExportOptions& options = {}) {
  std::ostringstream out;
  const auto table = MakeCsvTable(CallColumns(), &out);
  EXPECT_TRUE(ExportCalls(trace, "t", options, table.get()).ok());
  EXPECT_TRUE(table->Finish().ok());
  return out.str().substr(out.str().find('\n') + 1);
}

// Two processes: a() around b(), then a() again; b() in the other.
std::unique_ptr<FakeTrace> TwoProcesses() {
  auto trace = std::make_unique<FakeTrace>(ProcessOf(1));
  trace->Enter(MakeConfig(1, "a"));
  trace->Call(MakeConfig(2, "b", {IntValue(1)}));
  trace->Leave();
  trace->Call(MakeConfig(1, "a"));
  nlohmann::json other = ProcessOf(2);
  other["rank"] = 7;
  other["label"] = "mine";
  trace->In(trace->AddProcess(other), 0);
  trace->Call(MakeConfig(2, "b", {IntValue(1)}));
  return trace;
}

LabelledTrace Labelled(const std::string& label) {
  return {label, [] { return absl::StatusOr<std::unique_ptr<Trace>>(TwoProcesses()); }, {}};
}

TEST(ExportConfigs, GivesARowPerTraceProcessAndConfigWhereTheFormatHoldsIt) {
  EXPECT_EQ(Configs({Labelled("x"), Labelled("y")}, "csv"),
            "level,api,config,args,kwargs,shapes,dtypes,calls,time_ns,trace,host,pid,rank"
            ",module,file,line,tags,step,M,N,K,flops,bytes,device_ns,first_call\n"
            "1,a,a(),[],{},[],[],2,40,x,h,1,,,,,,,,,,,,,0\n"
            "2,b,b(1),[1],{},[],[],1,10,x,h,1,,,,,,,,,,,,,1\n"
            "2,b,b(1),[1],{},[],[],1,10,mine,h,2,7,,,,,,,,,,,,3\n"
            "1,a,a(),[],{},[],[],2,40,y,h,1,,,,,,,,,,,,,0\n"
            "2,b,b(1),[1],{},[],[],1,10,y,h,1,,,,,,,,,,,,,1\n"
            "2,b,b(1),[1],{},[],[],1,10,mine,h,2,7,,,,,,,,,,,,3\n");
}

TEST(ExportConfigs, AddsUpWhereItDoesNot) {
  EXPECT_EQ(Configs({Labelled("x"), Labelled("y")}, "yaml"),
            "- api: a\n  args: []\n  kwargs: {}\n  level: 1\n  calls: 4\n"
            "- api: b\n  args: [1]\n  kwargs: {}\n  level: 2\n  calls: 4\n");
  EXPECT_EQ(Configs({Labelled("x"), Labelled("y")}, "text"), "a()\nb(1)\n");
}

TEST(ExportConfigs, Filters) {
  EXPECT_EQ(Configs({Labelled("x")}, "text", {.filter = {}, .levels = {2}}), "b(1)\n");
  EXPECT_EQ(Configs({Labelled("x")}, "text", {.filter = {.include = {"a"}, .exclude = {}}, .levels = {}}), "a()\n");
}

TEST(ExportConfigs, EndsAtATraceThatCannotBeOpened) {
  std::ostringstream out;
  const Exporter& text = **FindExporter("text");
  auto sink = MakeConfigSink(text, &out);
  const LabelledTrace bad = {
      "bad", [] { return absl::StatusOr<std::unique_ptr<Trace>>(absl::NotFoundError("bad")); }, {}};
  EXPECT_EQ(ExportConfigs({Labelled("x"), bad}, {}, text, sink->get()).message(), "bad");
}

TEST(ExportConfigs, SaysNoTimeWhereItIsNotKnown) {
  const LabelledTrace trace = {"x",
                               [] {
                                 auto fake = std::make_unique<FakeTrace>();
                                 fake->Enter(MakeConfig(1, "a"));
                                 return absl::StatusOr<std::unique_ptr<Trace>>(std::move(fake));
                               },
                               {}};
  EXPECT_EQ(Configs({trace}, "csv"),
            "level,api,config,args,kwargs,shapes,dtypes,calls,time_ns,trace,host,pid,rank"
            ",module,file,line,tags,step,M,N,K,flops,bytes,device_ns,first_call\n"
            "1,a,a(),[],{},[],[],1,,x,,,,,,,,,,,,,,,0\n");
}

TEST(ExportCalls, ComeInProgramOrderWithTheirEnds) {
  const auto trace = TwoProcesses();
  trace->Enter(MakeConfig(1, "c"));
  trace->Enter(MakeConfig(1, "d"));
  trace->Raise("ValueError");
  EXPECT_EQ(Calls(trace.get()),
            "0,,0,1,a,a(),[],{},[],[],10,30,returned,,main-0,0,t,h,1,,,,,,,,,,,,\n"
            "1,0,1,2,b,b(1),[1],{},[],[],20,10,returned,,main-0,0,t,h,1,,,,,,,,,,,,\n"
            "2,,0,1,a,a(),[],{},[],[],50,10,returned,,main-0,0,t,h,1,,,,,,,,,,,,\n"
            "3,,0,2,b,b(1),[1],{},[],[],70,10,returned,,mine:rank 7 (2),0,mine,h,2,7,,,,,,,,,,,\n"
            "4,,0,1,c,c(),[],{},[],[],90,,never returned,,mine:rank 7 (2),0,mine,h,2,7,,,,,,,,,,,\n"
            "5,4,1,1,d,d(),[],{},[],[],100,10,raised,ValueError,mine:rank 7 (2),0,mine,h,2,7,,,,,,,,,,,\n");
}

// A call that outlives the window is written when it ends, and no call is lost.
TEST(ExportCalls, WaitForSoManyCallsOnly) {
  const auto trace = std::make_unique<FakeTrace>(ProcessOf(1));
  trace->Enter(MakeConfig(1, "outer"));
  for (int i = 0; i < 3; ++i) trace->Call(MakeConfig(1, "inner"));
  trace->Leave();
  trace->Enter(MakeConfig(1, "open"));
  for (int i = 0; i < 3; ++i) trace->Call(MakeConfig(1, "inner"));
  CallExportOptions options;
  options.max_waiting_calls = 2;
  std::vector<std::string> order;
  std::istringstream lines(Calls(trace.get(), options));
  for (std::string line; std::getline(lines, line);) order.push_back(line.substr(0, line.find(',')));
  EXPECT_EQ(order, (std::vector<std::string>{"1", "2", "3", "0", "5", "6", "7", "4"}));
}

// Of the call and those in it, also where these are left out.
TEST(ExportCalls, DeviceTimes) {
  nlohmann::json metadata = ProcessOf(1);
  metadata["device_names"] = nlohmann::json::object();
  FakeTrace trace(metadata);
  trace.Enter(MakeConfig(1, "a"));
  trace.Call(MakeConfig(2, "b"));
  trace.Leave();
  trace.Call(MakeConfig(1, "c"));
  std::string work;
  AppendDeviceWork({.start_ns = 1000, .duration_ns = 30}, &work);
  trace.Later(1, LaterOf::kDeviceWork, work);
  trace.Later(0, LaterOf::kDeviceWork, work + work);
  CallExportOptions options;
  options.selection.levels = {1};
  EXPECT_EQ(Calls(&trace, options),
            "0,,0,1,a,a(),[],{},[],[],10,30,returned,,main-0,0,t,h,1,,,,,90,,,,,,,\n"
            "2,,0,1,c,c(),[],{},[],[],50,10,returned,,main-0,0,t,h,1,,,,,0,,,,,,,\n");
}

TEST(ExportCalls, FilterKeepsTheNumbers) {
  const auto trace = TwoProcesses();
  CallExportOptions options;
  options.selection.levels = {2};
  options.max_waiting_calls = 1;
  EXPECT_EQ(Calls(trace.get(), options),
            "1,0,1,2,b,b(1),[1],{},[],[],20,10,returned,,main-0,0,t,h,1,,,,,,,,,,,,\n"
            "3,,0,2,b,b(1),[1],{},[],[],70,10,returned,,mine:rank 7 (2),0,mine,h,2,7,,,,,,,,,,,\n");
}

TEST(JsonlTable, LeavesOutWhatIsNotKnown) {
  std::ostringstream out;
  const auto table = MakeJsonlTable({{"n", ColumnType::kInt}, {"text", ColumnType::kText}}, &out);
  const int64_t text = table->Intern("a\"\n\xff");
  EXPECT_EQ(table->Intern("a\"\n\xff"), text);
  ASSERT_TRUE(table->Add({-1, text}).ok());
  ASSERT_TRUE(table->Add({kNullCell, kNullCell}).ok());
  ASSERT_TRUE(table->Finish().ok());
  EXPECT_EQ(out.str(), "{\"n\":-1,\"text\":\"a\\\"\\n\xef\xbf\xbd\"}\n{}\n");
}

}  // namespace
}  // namespace torchtrace
