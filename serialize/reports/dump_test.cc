#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "nlohmann/json.hpp"
#include "serialize/base/matching.h"
#include "serialize/model/tensor_notes.h"
#include "serialize/reports/reports.h"
#include "serialize/testing/fake_trace.h"

namespace torchtrace {
namespace {

using nlohmann::json;
using testing::HasSubstr;

std::string DumpOf(Trace* trace, const DumpOptions& options) {
  std::ostringstream out;
  const absl::Status shown = WriteDump(trace, options, &out);
  EXPECT_TRUE(shown.ok()) << shown;
  return out.str();
}

// A call that never returns, around one that returns with a raising call inside, and one after it.
void AddDumpCalls(FakeTrace* trace) {
  trace->Enter(MakeConfig(1, "torch.outer"));
  trace->Enter(MakeConfig(1, "torch.add", {IntValue(1)}));
  trace->Enter(MakeConfig(2, "aten::add.Tensor"));
  trace->Raise("pkg.Error");
  trace->Leave();
  trace->Call(MakeConfig(2, "aten::ones"));
}

TEST(Dump, Text) {
  FakeTrace trace;
  AddDumpCalls(&trace);
  EXPECT_EQ(DumpOf(&trace, {}),
            "      0  L1  torch.outer()  never returned\n"
            "      1  L1    torch.add(1)  30 ns\n"
            "      2  L2      aten::add.Tensor()  10 ns  raised pkg.Error\n"
            "      3  L2    aten::ones()  10 ns\n");
}

TEST(Dump, IndentationIsByWhatIsShown) {
  FakeTrace trace;
  AddDumpCalls(&trace);
  DumpOptions options;
  options.levels = {2};
  EXPECT_EQ(DumpOf(&trace, options),
            "      2  aten::add.Tensor()  10 ns  raised pkg.Error\n"
            "      3  aten::ones()  10 ns\n");
  options.levels = {};
  options.filter.exclude = {"torch.add"};
  EXPECT_EQ(DumpOf(&trace, options),
            "      0  L1  torch.outer()  never returned\n"
            "      2  L2    aten::add.Tensor()  10 ns  raised pkg.Error\n"
            "      3  L2    aten::ones()  10 ns\n");
}

TEST(Dump, Ranges) {
  FakeTrace trace;
  AddDumpCalls(&trace);
  DumpOptions options;
  options.calls = *NumberSet::Parse("1-2");
  EXPECT_EQ(DumpOf(&trace, options),
            "      1  L1  torch.add(1)  30 ns\n"
            "      2  L2    aten::add.Tensor()  10 ns  raised pkg.Error\n");
  options.calls = *NumberSet::Parse("7-9");
  EXPECT_EQ(DumpOf(&trace, options), "");
}

TEST(Dump, Jsonl) {
  FakeTrace trace;
  AddDumpCalls(&trace);
  DumpOptions options;
  options.format = DumpFormat::kJsonl;
  std::istringstream lines(DumpOf(&trace, options));
  std::vector<json> calls;
  for (std::string line; std::getline(lines, line);) calls.push_back(json::parse(line));
  ASSERT_EQ(calls.size(), 4u);
  EXPECT_EQ(calls[0], json::parse(R"({"call":0,"depth":0,"process":"main-0","thread":0,"time_ns":10,
      "outcome":"never returned","level":1,"api":"torch.outer","args":[],"kwargs":{}})"));
  EXPECT_EQ(calls[1], json::parse(R"({"call":1,"parent":0,"depth":1,"process":"main-0","thread":0,"time_ns":20,
      "outcome":"returned","duration_ns":30,"level":1,"api":"torch.add","args":[1],"kwargs":{}})"));
  EXPECT_EQ(calls[2], json::parse(R"({"call":2,"parent":1,"depth":2,"process":"main-0","thread":0,"time_ns":30,
      "outcome":"raised","duration_ns":10,"exception":"pkg.Error","level":2,"api":"aten::add.Tensor","args":[],
      "kwargs":{}})"));
}

std::string NumbersNote(uint64_t position, const TensorNote::Numbers& numbers) {
  std::string note;
  AppendTensorNote({.position = position, .numbers = numbers}, &note);
  return note;
}

constexpr TensorNote::Numbers kUsual = {.zeros = 1, .finite = 8, .least = -1.25, .most = 50256, .mean = 0.1, .norm = 3};
constexpr TensorNote::Numbers kBroken = {
    .nans = 1, .positive_infinities = 2, .negative_infinities = 3, .fingerprint = 0xab};

// Three results, the second with two tensors; a call that returns what it wrote; one that wrote and returns nothing;
// one that wrote and raised.
void AddCallsWithNumbers(FakeTrace* trace) {
  const Value tensor = TensorValue({2});
  trace->Enter(MakeConfig(2, "aten::f"), "", NumbersNote(0, kUsual));
  const Value pair = ItemsValue(ValueTag::kList, {tensor, tensor});
  trace->Return({tensor, pair, IntValue(1), tensor},
                NumbersNote(0, kUsual) + NumbersNote(1, kUsual) + NumbersNote(2, kBroken) + NumbersNote(3, {}));
  trace->Enter(MakeConfig(2, "aten::add_"));
  trace->Return({tensor}, NumbersNote(0, kBroken));
  trace->SetWritten(NumbersNote(0, kBroken));
  trace->Enter(MakeConfig(2, "aten::_foreach_add_"));
  trace->Return({});
  trace->SetWritten(NumbersNote(0, kUsual) + NumbersNote(1, kBroken));
  trace->Enter(MakeConfig(2, "aten::mul_"));
  trace->Raise("RuntimeError");
  trace->SetWritten(NumbersNote(0, kUsual));
}

TEST(Dump, NumbersAsText) {
  FakeTrace trace;
  AddCallsWithNumbers(&trace);
  const std::string one = R"(Tensor([2], "float32"))";
  EXPECT_EQ(
      DumpOf(&trace, {}),
      absl::StrCat("      0  aten::f()  -> ", one, " {mean 0.1, min -1.25, max 50256}, list[", one, ", ", one,
                   "] {nan 1, inf 2, -inf 3, min -1.25, max 50256}, 1, ", one, "  10 ns\n",
                   "      1  aten::add_()  -> ", one, " {nan 1, inf 2, -inf 3}  10 ns\n",
                   "      2  aten::_foreach_add_()  -> ()  wrote {nan 1, inf 2, -inf 3, min -1.25, max 50256}  10 ns\n",
                   "      3  aten::mul_()  wrote {mean 0.1, min -1.25, max 50256}  10 ns  raised RuntimeError\n"));
}

TEST(Dump, NumbersAreNotClipped) {
  FakeTrace trace;
  trace.Enter(MakeConfig(2, "aten::f", {TextValue(std::string(100, 'x'))}));
  trace.Return({TensorValue({2})}, NumbersNote(0, kBroken));
  DumpOptions options;
  options.width = 70;
  EXPECT_EQ(DumpOf(&trace, options), "      0  aten::f(\"xxxxxxxxxxxxxxxxxxx... {nan 1, inf 2, -inf 3}  10 ns\n");
}

TEST(Dump, NumbersAsJson) {
  FakeTrace trace;
  AddCallsWithNumbers(&trace);
  DumpOptions options;
  options.format = DumpFormat::kJsonl;
  std::vector<json> calls;
  std::istringstream lines(DumpOf(&trace, options));
  for (std::string line; std::getline(lines, line);) calls.push_back(json::parse(line));
  const json usual = json::parse(R"({"nan": 0, "inf": 0, "-inf": 0, "zeros": 1, "min": -1.25, "max": 50256.0,
      "mean": 0.1, "norm": 3.0, "fingerprint": "0000000000000000"})");
  const json broken = json::parse(R"({"nan": 1, "inf": 2, "-inf": 3, "zeros": 0, "min": null, "max": null,
      "mean": null, "norm": null, "fingerprint": "00000000000000ab"})");
  ASSERT_EQ(calls.size(), 4u);
  EXPECT_EQ(calls[0]["tensors"], json({{{"position", 0}, {"numbers", usual}}}));
  EXPECT_EQ(calls[0]["result_tensors"][2], json({{"position", 2}, {"numbers", broken}}));
  EXPECT_FALSE(calls[0].contains("written_tensors"));
  EXPECT_EQ(calls[2]["written_tensors"],
            json({{{"position", 0}, {"numbers", usual}}, {{"position", 1}, {"numbers", broken}}}));
  EXPECT_EQ(calls[3]["written_tensors"], json({{{"position", 0}, {"numbers", usual}}}));
}

std::string LaterDump(const DumpOptions& options) {
  FakeTrace trace(json{{"numbers", "all"}});
  trace.Enter(MakeConfig(1, "torch.f", {TensorValue({2})}));
  trace.Enter(MakeConfig(2, "aten::f", {TensorValue({2})}));
  trace.Later(1, LaterOf::kArguments, NumbersNote(0, kUsual));
  trace.Leave();
  trace.Wait(5);
  trace.Leave();
  trace.Later(1, LaterOf::kResult, NumbersNote(0, kBroken));
  trace.Call(MakeConfig(2, "aten::g"));
  trace.Later(0, LaterOf::kResult, NumbersNote(0, kUsual) + NumbersNote(1, kBroken));
  trace.Later(2, LaterOf::kWritten, NumbersNote(0, kUsual));
  return DumpOf(&trace, options);
}

TEST(Dump, LaterNumbersAsText) {
  const std::string f = R"(      0  L1  torch.f(Tensor([2], "float32"))  45 ns
      1  L2    aten::f(Tensor([2], "float32"))  20 ns
)";
  const std::string of_f = "         #0 returned {nan 1, inf 2, -inf 3, min -1.25, max 50256}\n";
  const std::string g = "      2  L2  aten::g()  10 ns\n";
  const std::string of_g = "         #2 wrote {mean 0.1, min -1.25, max 50256}\n";
  EXPECT_EQ(LaterDump({}), absl::StrCat(f, "         #1 returned {nan 1, inf 2, -inf 3}\n", g, of_f, of_g));
  DumpOptions options;
  options.calls = NumberSet::Parse("0").value();
  EXPECT_EQ(LaterDump(options), absl::StrCat("      0  torch.f(Tensor([2], \"float32\"))  45 ns\n", of_f));
  // The operator has no line.
  options = {};
  options.fold = true;
  EXPECT_EQ(LaterDump(options),
            absl::StrCat("      0  L1  torch.f(Tensor([2], \"float32\"))  = L2 aten::f  45 ns\n", g, of_f, of_g));
  options = {};
  options.tail = 2;
  EXPECT_EQ(LaterDump(options), of_f + of_g);
  options = {};
  options.slowest = 1;
  EXPECT_EQ(LaterDump(options), absl::StrCat("      0  L1  torch.f(Tensor([2], \"float32\"))  45 ns\n", of_f));
}

TEST(Dump, LaterNumbersAsJson) {
  DumpOptions options;
  options.format = DumpFormat::kJsonl;
  std::map<int, json> later;
  std::istringstream lines(LaterDump(options));
  for (std::string line; std::getline(lines, line);) {
    json object = json::parse(line);
    if (object.contains("later_of_call")) later[object["later_of_call"].get<int>()].update(object);
  }
  ASSERT_EQ(later.size(), 3u);
  EXPECT_EQ(later[1]["tensors"][0]["numbers"]["mean"], 0.1);
  EXPECT_EQ(later[1]["result_tensors"][0]["numbers"]["inf"], 2);
  EXPECT_EQ(later[0]["result_tensors"].size(), 2u);
  EXPECT_EQ(later[2]["written_tensors"][0]["position"], 0);
}

// JSON has no infinite and no NaN numbers.
TEST(Dump, NumbersBeyondTheRange) {
  FakeTrace trace;
  TensorNote::Numbers numbers = kUsual;
  numbers.mean = std::numeric_limits<double>::quiet_NaN();
  numbers.norm = std::numeric_limits<double>::infinity();
  trace.Enter(MakeConfig(2, "aten::f"));
  trace.Return({TensorValue({2})}, NumbersNote(0, numbers));
  DumpOptions options;
  options.format = DumpFormat::kJsonl;
  const json written = json::parse(DumpOf(&trace, options))["result_tensors"][0]["numbers"];
  EXPECT_EQ(written["mean"], nullptr);
  EXPECT_EQ(written["norm"], nullptr);
  EXPECT_EQ(written["max"], 50256.0);
}

TEST(Dump, ThreadsAreNamedOnceThereIsASecondOne) {
  FakeTrace trace;
  trace.Call(MakeConfig(1, "a"));
  trace.In(trace.AddProcess({}), 0);
  trace.Enter(MakeConfig(1, "b"));
  trace.In(0, 0);
  trace.Call(MakeConfig(1, "c"));
  trace.In(1, 0);
  trace.Leave();
  EXPECT_EQ(DumpOf(&trace, {}),
            "      0  a()  10 ns\n"
            "      1  [main-1 0]  b()  30 ns\n"
            "      2  [main-0 0]  c()  10 ns\n");
}

TEST(Dump, LongWaitsAreWrittenUnfinished) {
  FakeTrace trace;
  trace.Enter(MakeConfig(1, "outer"));
  for (int i = 0; i < 4; ++i) trace.Call(MakeConfig(1, "inner"));
  trace.Leave();
  trace.Enter(MakeConfig(1, "last"));
  for (int i = 0; i < 4; ++i) trace.Call(MakeConfig(1, "inner"));
  DumpOptions options;
  options.max_waiting_calls = 2;
  const std::string text =
      "      0  outer()  <unfinished>\n"
      "      1    inner()  10 ns\n"
      "      2    inner()  10 ns\n"
      "      3    inner()  10 ns\n"
      "      4    inner()  10 ns\n"
      "      0  <end of outer>  90 ns\n"
      "      5  last()  <unfinished>\n"
      "      6    inner()  10 ns\n"
      "      7    inner()  10 ns\n"
      "      8    inner()  10 ns\n"
      "      9    inner()  10 ns\n"
      "      5  <end of last>  never returned\n";
  EXPECT_EQ(DumpOf(&trace, options), text);

  options.format = DumpFormat::kJsonl;
  const std::string jsonl = DumpOf(&trace, options);
  EXPECT_THAT(jsonl, HasSubstr(R"("outcome":"unfinished")"));
  EXPECT_THAT(jsonl, HasSubstr("{\"end_of_call\":0,\"outcome\":\"returned\",\"duration_ns\":90}\n"));
  EXPECT_THAT(jsonl, HasSubstr("{\"end_of_call\":5,\"outcome\":\"never returned\"}\n"));
}

TEST(Dump, ColourOnDemand) {
  FakeTrace trace;
  AddDumpCalls(&trace);
  EXPECT_EQ(DumpOf(&trace, {}).find('\x1b'), std::string::npos);
  DumpOptions options;
  options.color = true;
  EXPECT_THAT(DumpOf(&trace, options), HasSubstr("\x1b[31mraised pkg.Error\x1b[0m"));
}

TEST(Dump, AFailingStreamEndsTheReading) {
  FakeTrace trace;
  AddDumpCalls(&trace);
  std::ostringstream out;
  out.setstate(std::ios::badbit);
  EXPECT_EQ(WriteDump(&trace, {}, &out).code(), absl::StatusCode::kAborted);
}

// relu passes its argument on to the only call in it; linear makes two other calls.
void AddNestedCalls(FakeTrace* trace) {
  trace->Enter(MakeConfig(1, "torch.nn.functional.relu", {IntValue(7)}));
  trace->Enter(MakeConfig(1, "torch.relu", {IntValue(7)}));
  trace->Enter(MakeConfig(2, "aten::relu", {IntValue(7)}));
  trace->Call(MakeConfig(2, "aten::clamp_min", {IntValue(7), IntValue(0)}));
  trace->Leave();
  trace->Leave();
  trace->Leave();
  trace->Enter(MakeConfig(1, "torch.linear", {IntValue(7)}));
  trace->Call(MakeConfig(2, "aten::linear", {IntValue(7)}));
  trace->Call(MakeConfig(2, "aten::add", {IntValue(7)}));
  trace->Leave();
}

TEST(Dump, CallsWithTheSameArgumentsFold) {
  FakeTrace trace;
  AddNestedCalls(&trace);
  DumpOptions options;
  options.fold = true;
  EXPECT_EQ(DumpOf(&trace, options),
            "      0  L1  torch.nn.functional.relu(7)  = L1 torch.relu  = L2 aten::relu  70 ns\n"
            "      3  L2    aten::clamp_min(7, 0)  10 ns\n"
            "      4  L1  torch.linear(7)  50 ns\n"
            "      5  L2    aten::linear(7)  10 ns\n"
            "      6  L2    aten::add(7)  10 ns\n");
  // A call that raised is not folded into one that returned.
  FakeTrace raising;
  raising.Enter(MakeConfig(1, "torch.relu", {IntValue(7)}));
  raising.Enter(MakeConfig(2, "aten::relu", {IntValue(7)}));
  raising.Raise("Error");
  raising.Leave();
  EXPECT_EQ(DumpOf(&raising, options),
            "      0  L1  torch.relu(7)  30 ns\n"
            "      1  L2    aten::relu(7)  10 ns  raised Error\n");
  options.format = DumpFormat::kJsonl;
  const std::string jsonl = DumpOf(&trace, options);
  EXPECT_EQ(std::count(jsonl.begin(), jsonl.end(), '\n'), 7);
}

TEST(Dump, LongListsFoldAndLinesAreClipped) {
  FakeTrace trace;
  trace.Call(MakeConfig(2, "aten::cat", {ItemsValue(ValueTag::kList, std::vector<Value>(52, TensorValue({2, 3})))}));
  DumpOptions options;
  options.fold = true;
  EXPECT_EQ(DumpOf(&trace, options), "      0  aten::cat(list[52 x Tensor([2, 3], \"float32\")])  10 ns\n");
  options.width = 40;
  EXPECT_EQ(DumpOf(&trace, options), "      0  aten::cat(list[52 x T...  10 ns\n");
  options.color = true;
  EXPECT_THAT(DumpOf(&trace, options), HasSubstr("aten::cat(list[52 x T...  "));
}

TEST(Dump, TheSlowest) {
  FakeTrace trace;
  AddNestedCalls(&trace);
  trace.Enter(MakeConfig(1, "torch.hangs"));
  trace.Wait(500);
  trace.Call(MakeConfig(1, "torch.last"));
  DumpOptions options;
  options.slowest = 3;
  EXPECT_EQ(DumpOf(&trace, options),
            "      7  L1  torch.hangs()  never returned\n"
            "      0  L1  torch.nn.functional.relu(7)  70 ns\n"
            "      1  L1  torch.relu(7)  50 ns\n");
  options.fold = true;
  EXPECT_EQ(DumpOf(&trace, options),
            "      7  L1  torch.hangs()  never returned\n"
            "      0  L1  torch.nn.functional.relu(7)  = L1 torch.relu  = L2 aten::relu  70 ns\n"
            "      4  L1  torch.linear(7)  50 ns\n");
}

TEST(Dump, TheLast) {
  FakeTrace trace;
  AddNestedCalls(&trace);
  DumpOptions options;
  options.tail = 2;
  EXPECT_EQ(DumpOf(&trace, options),
            "      5  L2  aten::linear(7)  10 ns\n"
            "      6  L2  aten::add(7)  10 ns\n");
  options.tail = 100;
  options.depth = 1;
  EXPECT_EQ(DumpOf(&trace, options),
            "      0  torch.nn.functional.relu(7)  70 ns\n"
            "      4  torch.linear(7)  50 ns\n");
}

TEST(Dump, OfACondition) {
  FakeTrace trace;
  AddNestedCalls(&trace);
  trace.In(trace.AddProcess({{"rank", 1}}), 3);
  trace.Call(MakeConfig(1, "torch.elsewhere"));
  DumpOptions options;
  options.where = *Where::Parse("duration > 45ns and level = 1");
  EXPECT_EQ(DumpOf(&trace, options),
            "      0  torch.nn.functional.relu(7)  70 ns\n"
            "      1    torch.relu(7)  50 ns\n"
            "      4  torch.linear(7)  50 ns\n");
  options.where.reset();
  options.ranks = *NumberSet::Parse("1");
  options.threads = {"3"};
  EXPECT_EQ(DumpOf(&trace, options), "      7  [rank 1 3]  torch.elsewhere()  10 ns\n");
}

TEST(Dump, Formats) {
  EXPECT_EQ(*DumpFormats().Parse("jsonl"), DumpFormat::kJsonl);
  EXPECT_THAT(std::string(DumpFormats().Parse("json").status().message()), HasSubstr("known: text, jsonl"));
}

}  // namespace
}  // namespace torchtrace
