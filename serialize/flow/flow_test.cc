#include "serialize/flow/flow.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "serialize/forms/forms.h"
#include "serialize/testing/fake_trace.h"

namespace torchtrace {
namespace {

std::string SourceLine(const FlowSource& source) {
  std::string line = absl::StrCat("  %", source.value, " = ", FormatValue(source.tensor));
  if (source.kind == FlowSource::kStorage) line += " storage";
  if (source.kind == FlowSource::kView) {
    absl::StrAppend(&line, " view of %", source.base, " + ", source.shift, source.same ? " same" : "",
                    source.other_dtype ? " other dtype" : "");
  }
  return line;
}

// Each step as lines: its sources, and `call: api(arguments) -> results; released`.
std::vector<std::string> Steps(Trace* trace, const CallSelection& selection, FlowSummary* summary = nullptr) {
  std::vector<std::string> lines;
  const auto visit = [&](const FlowStep& step) {
    for (const FlowSource& source : step.sources) lines.push_back(SourceLine(source));
    std::string line = absl::StrCat(step.call, ": ", step.config->api, "(", absl::StrJoin(step.arguments, " "), ")");
    if (step.result_known) absl::StrAppend(&line, " -> ", absl::StrJoin(step.results, " "));
    if (step.outcome == CallOutcome::kRaised) absl::StrAppend(&line, " raised ", std::string(step.exception));
    if (!step.released.empty()) absl::StrAppend(&line, "; ", absl::StrJoin(step.released, " "));
    lines.push_back(line);
    return absl::OkStatus();
  };
  FlowOptions options;
  options.may_call = [](std::string_view api) { return api != "torch.load" && api != "torch.save"; };
  const absl::StatusOr<FlowSummary> read = ReadFlow(trace, selection, visit, options);
  EXPECT_TRUE(read.ok()) << read.status();
  if (summary != nullptr && read.ok()) *summary = *read;
  return lines;
}

CallSelection OfLevel(int level) {
  CallSelection selection;
  selection.levels = {level};
  return selection;
}

std::vector<std::string> Steps(Trace* trace, FlowSummary* summary = nullptr) {
  return Steps(trace, OfLevel(1), summary);
}

using Lines = std::vector<std::string>;

Value Strided(std::vector<Dim> shape, std::vector<Dim> strides) {
  Value value = TensorValue(std::move(shape));
  value.tensor_bits |= kTensorHasStride;
  value.strides = std::move(strides);
  return value;
}

void Call(FakeTrace* trace, const std::string& api, const std::vector<Value>& args,
          const std::vector<TensorNote::Identity>& ids, const std::vector<Value>& result,
          const std::vector<TensorNote::Identity>& result_ids) {
  trace->Enter(MakeConfig(1, api, args), "", Identities(ids));
  trace->Return(result, Identities(result_ids));
}

const Value k2x3 = TensorValue({2, 3});

TEST(FlowTest, ResultsAreTheArgumentsOfLaterCalls) {
  FakeTrace trace;
  Call(&trace, "torch.add", {k2x3, k2x3}, {{1, 1, 0}, {2, 2, 0}}, {k2x3}, {{3, 3, 0}});
  Call(&trace, "torch.mul", {k2x3, k2x3}, {{3, 3, 0}, {1, 1, 0}}, {k2x3}, {{4, 4, 0}});
  EXPECT_EQ(Steps(&trace), (Lines{"  %0 = Tensor([2, 3], \"float32\")", "  %1 = Tensor([2, 3], \"float32\")",
                                  "0: torch.add(0 1) -> 2; 1", "1: torch.mul(2 0) -> 3; 0 2 3"}));
}

TEST(FlowTest, CallsInPlaceKeepTheTensor) {
  FakeTrace trace;
  Call(&trace, "torch.Tensor.add_", {k2x3, IntValue(1)}, {{1, 1, 0}}, {k2x3}, {{1, 1, 0}});
  trace.Enter(MakeConfig(1, "torch.neg", {k2x3}, {{"out", k2x3}}), "", Identities({{1, 1, 0}, {2, 2, 0}}));
  trace.Return({k2x3}, Identities({{2, 2, 0}}));
  Call(&trace, "torch.abs", {k2x3}, {{2, 2, 0}}, {k2x3}, {{3, 3, 0}});
  EXPECT_EQ(Steps(&trace),
            (Lines{"  %0 = Tensor([2, 3], \"float32\")", "0: torch.Tensor.add_(0) -> 0",
                   "  %1 = Tensor([2, 3], \"float32\")", "1: torch.neg(0 1) -> 1; 0", "2: torch.abs(1) -> 2; 1 2"}));
}

TEST(FlowTest, TensorsThatNobodyReturnedAreViewsOfTheirStorage) {
  FakeTrace trace;
  Call(&trace, "torch.zeros", {IntValue(6)}, {}, {TensorValue({6})}, {{1, 7, 0}});
  Call(&trace, "torch.neg", {TensorValue({3})}, {{2, 7, 3}}, {TensorValue({3})}, {{3, 8, 0}});
  Call(&trace, "torch.abs", {TensorValue({6})}, {{4, 7, 0}}, {TensorValue({6})}, {{5, 9, 0}});
  Call(&trace, "torch.abs", {Strided({3}, {2})}, {{6, 7, 1}}, {TensorValue({3})}, {{7, 10, 0}});
  EXPECT_EQ(
      Steps(&trace),
      (Lines{"0: torch.zeros() -> 0", "  %1 = Tensor([3], \"float32\") view of %0 + 3", "1: torch.neg(1) -> 2; 1 2",
             "  %3 = Tensor([6], \"float32\") view of %0 + 0 same", "2: torch.abs(3) -> 4; 3 4",
             "  %5 = Tensor([3], \"float32\", stride=[2]) view of %0 + 1", "3: torch.abs(5) -> 6; 0 5 6"}));
}

TEST(FlowTest, AViewOfAnotherDtypeSaysSo) {
  FakeTrace trace;
  Value doubles = TensorValue({3});
  doubles.text = "float64";
  Call(&trace, "torch.zeros", {IntValue(6)}, {}, {TensorValue({6})}, {{1, 7, 0}});
  Call(&trace, "torch.neg", {doubles}, {{2, 7, 1}}, {doubles}, {{3, 8, 0}});
  EXPECT_EQ(Steps(&trace)[1], "  %1 = Tensor([3], \"float64\") view of %0 + 1 other dtype");
}

TEST(FlowTest, AStorageOfWhichNoInputHasAllIsAnInput) {
  FakeTrace trace;
  Call(&trace, "torch.neg", {TensorValue({3})}, {{1, 1, 2}}, {TensorValue({3})}, {{2, 2, 0}});
  Call(&trace, "torch.neg", {TensorValue({4})}, {{3, 1, 4}}, {TensorValue({4})}, {{4, 3, 0}});
  EXPECT_EQ(Steps(&trace), (Lines{"  %0 = Tensor([8], \"float32\") storage",
                                  "  %1 = Tensor([3], \"float32\") view of %0 + 2", "0: torch.neg(1) -> 2; 1 2",
                                  "  %3 = Tensor([4], \"float32\") view of %0 + 4", "1: torch.neg(3) -> 4; 0 3 4"}));
}

TEST(FlowTest, AnInputThatHasAllIsTheBaseWhereverItBegins) {
  FakeTrace trace;
  Call(&trace, "torch.neg", {TensorValue({8})}, {{1, 1, 100}}, {TensorValue({8})}, {{2, 2, 0}});
  Call(&trace, "torch.neg", {TensorValue({4})}, {{3, 1, 104}}, {TensorValue({4})}, {{4, 3, 0}});
  const Lines lines = Steps(&trace);
  EXPECT_EQ(lines[0], "  %0 = Tensor([8], \"float32\")");
  EXPECT_EQ(lines[2], "  %2 = Tensor([4], \"float32\") view of %0 + 4");
}

TEST(FlowTest, ATensorWhoseStorageWasExchangedIsAnother) {
  FakeTrace trace;
  Call(&trace, "torch.neg", {k2x3, k2x3}, {{1, 1, 0}, {2, 2, 0}}, {k2x3}, {{3, 3, 0}});
  // Set by x.data = y, which was not recorded.
  Call(&trace, "torch.neg", {k2x3}, {{1, 2, 0}}, {k2x3}, {{4, 4, 0}});
  EXPECT_EQ(Steps(&trace)[3], "  %3 = Tensor([2, 3], \"float32\") view of %1 + 0 same");
}

TEST(FlowTest, OutermostCallsOfTheLevelAreSteps) {
  FakeTrace trace;
  Value path = TextValue("encoder.0");
  trace.Enter(MakeConfig(3, "torch.nn.Linear", {}, {{"path", path}}));
  trace.Enter(MakeConfig(1, "torch.nn.functional.linear", {k2x3}), "", Identities({{1, 1, 0}}));
  trace.Enter(MakeConfig(1, "torch.addmm", {k2x3}), "", Identities({{1, 1, 0}}));
  trace.Enter(MakeConfig(2, "aten::addmm", {k2x3}), "", Identities({{1, 1, 0}}));
  trace.Return({k2x3}, Identities({{2, 2, 0}}));
  trace.Return({k2x3}, Identities({{2, 2, 0}}));
  trace.Return({k2x3}, Identities({{2, 2, 0}}));
  trace.Leave();
  trace.Enter(MakeConfig(2, "AddmmBackward0", {k2x3}));
  trace.Call(MakeConfig(2, "aten::t", {}));
  trace.Leave();
  FlowSummary summary;
  EXPECT_EQ(Steps(&trace, &summary),
            (Lines{"  %0 = Tensor([2, 3], \"float32\")", "1: torch.nn.functional.linear(0) -> 1; 0 1"}));
  EXPECT_EQ(summary.inside, 1u);
  EXPECT_EQ(Steps(&trace, OfLevel(2)),
            (Lines{"  %0 = Tensor([2, 3], \"float32\")", "3: aten::addmm(0) -> 1; 0 1", "5: aten::t()"}));
  std::vector<std::string> modules;
  ASSERT_TRUE(ReadFlow(&trace, OfLevel(1), [&](const FlowStep& step) {
                const nlohmann::ordered_json json = FlowStepToJson(trace, step, nullptr);
                modules.push_back(json["modules"].dump());
                return absl::OkStatus();
              }).ok());
  EXPECT_EQ(modules, (Lines{R"([{"call":0,"api":"torch.nn.Linear","path":"encoder.0"}])"}));
}

TEST(FlowTest, OfACallThatCannotBeMadeAgainThoseInItAreSteps) {
  FakeTrace trace;
  trace.Enter(MakeConfig(1, "torch.load", {k2x3}), "", Identities({{1, 1, 0}}));
  trace.Enter(MakeConfig(1, "torch.save", {k2x3}), "", Identities({{1, 1, 0}}));
  Call(&trace, "torch.add", {k2x3}, {{1, 1, 0}}, {k2x3}, {{2, 2, 0}});
  trace.Return({k2x3}, Identities({{2, 2, 0}}));
  Call(&trace, "torch.load", {k2x3}, {{2, 2, 0}}, {k2x3}, {{3, 3, 0}});
  trace.Return({k2x3}, Identities({{3, 3, 0}}));
  FlowSummary summary;
  EXPECT_EQ(Steps(&trace, &summary),
            (Lines{"  %0 = Tensor([2, 3], \"float32\")", "2: torch.add(0) -> 1; 0", "3: torch.load(1) -> 2; 1 2"}));
  EXPECT_EQ(summary.opened, 2u);
  EXPECT_EQ(summary.inside, 0u);
}

TEST(FlowTest, GradientModesAreThoseThatStepsBeganIn) {
  FakeTrace trace;
  Value on, off;
  on.tag = ValueTag::kTrue;
  off.tag = ValueTag::kFalse;
  trace.Call(MakeConfig(1, "torch.add"));
  trace.Call(MakeConfig(1, "torch._C._set_grad_enabled", {off}));
  trace.Call(MakeConfig(1, "torch.mul"));
  trace.Enter(MakeConfig(1, "torch.sub"));
  trace.Call(MakeConfig(1, "torch._C._set_grad_enabled", {on}));
  trace.Leave();
  trace.In(0, 1);
  trace.Call(MakeConfig(1, "torch.mm"));
  trace.In(0, 0);
  trace.Call(MakeConfig(1, "torch.neg"));
  std::vector<std::string> modes;
  ASSERT_TRUE(ReadFlow(&trace, OfLevel(1), [&](const FlowStep& step) {
                modes.push_back(absl::StrCat(step.config->api, step.gradients ? " on" : " off"));
                return absl::OkStatus();
              }).ok());
  EXPECT_EQ(modes, (Lines{"torch.add on", "torch.mul off", "torch.sub off", "torch.mm on", "torch.neg on"}));
}

TEST(FlowTest, WhatWasLostIsTakenAnew) {
  FakeTrace trace;
  Call(&trace, "torch.zeros", {IntValue(6)}, {}, {TensorValue({6})}, {{1, 7, 0}});
  Call(&trace, "torch.neg", {TensorValue({6})}, {{1, 7, 0}}, {TensorValue({6})}, {{2, 8, 0}});
  Call(&trace, "torch.abs", {TensorValue({3})}, {{3, 7, 3}}, {TensorValue({3})}, {{4, 9, 0}});
  Call(&trace, "torch.add", {TensorValue({6}), TensorValue({6})}, {{1, 7, 0}, {2, 8, 0}}, {}, {});
  int steps = 0;
  FlowOptions options;
  options.lost = [&steps] { return steps == 2; };
  Lines sources;
  ASSERT_TRUE(ReadFlow(
                  &trace, OfLevel(1),
                  [&](const FlowStep& step) {
                    ++steps;
                    for (const FlowSource& source : step.sources) sources.push_back(SourceLine(source));
                    return absl::OkStatus();
                  },
                  options)
                  .ok());
  EXPECT_EQ(sources, (Lines{"  %2 = Tensor([6], \"float32\") storage", "  %3 = Tensor([3], \"float32\") view of %2 + 3",
                            "  %5 = Tensor([6], \"float32\") view of %2 + 0 same", "  %6 = Tensor([6], \"float32\")"}));
}

TEST(FlowTest, WhatIsNotKnownIsCounted) {
  FakeTrace trace;
  trace.Call(MakeConfig(1, "torch.add", {k2x3, k2x3}));
  trace.Enter(MakeConfig(1, "torch.mm", {k2x3}));
  trace.Raise("builtins.RuntimeError");
  trace.In(trace.AddProcess(nlohmann::json::object()), 0);
  trace.Call(MakeConfig(1, "torch.add"));
  trace.In(0, 0);
  trace.Enter(MakeConfig(1, "torch.neg"));
  FlowSummary summary;
  const Lines lines = Steps(&trace, &summary);
  EXPECT_EQ(lines[2], "0: torch.add(0 1); 0 1");
  EXPECT_EQ(lines[4], "1: torch.mm(2) raised builtins.RuntimeError; 2");
  EXPECT_EQ(summary.steps, 2u);
  EXPECT_EQ(summary.without_id, 3u);
  EXPECT_EQ(summary.without_result, 1u);
  EXPECT_EQ(summary.other_processes, 1u);
  EXPECT_EQ(summary.never_returned, 1u);
}

// A call that takes one tensor with known elements.
void Take(FakeTrace* trace, const Value& tensor, const TensorNote::Identity& identity, std::string_view contents) {
  std::string notes;
  AppendTensorNote({.position = 0, .identity = identity, .contents = contents}, &notes);
  trace->Enter(MakeConfig(1, "torch.neg", {tensor}), "", notes);
  trace->Return({}, "");
}

// The sources' contents: `contents`, or `memory contents`.
Lines Contents(FakeTrace* trace) {
  Lines lines;
  EXPECT_TRUE(ReadFlow(trace, OfLevel(1), [&](const FlowStep& step) {
                for (const FlowSource& source : step.sources) {
                  std::string contents(source.note.contents.value_or("none"));
                  std::replace(contents.begin(), contents.end(), '\0', '.');
                  lines.push_back(absl::StrCat(source.memory ? "memory " : "", contents));
                }
                return absl::OkStatus();
              }).ok());
  return lines;
}

TEST(FlowTest, AStorageHasWhatAllTensorsInItHaveWhenTheyAreTakenFirst) {
  Value bytes = TensorValue({4});
  bytes.text = "uint8";
  FakeTrace trace;
  Take(&trace, TensorValue({2}), {1, 1, 0}, "aaaabbbb");
  // The first tensor is written to before the next one is taken; then a gap, which another dtype fills in part.
  Take(&trace, TensorValue({2}), {2, 1, 1}, "BBBBcccc");
  Take(&trace, TensorValue({1}), {3, 1, 5}, "ffff");
  Take(&trace, bytes, {4, 1, 13}, "xyzw");
  Take(&trace, TensorValue({1}), {5, 1, 0}, "AAAA");
  EXPECT_EQ(Contents(&trace)[0], "aaaabbbbcccc.xyzw...ffff");
}

TEST(FlowTest, GapsOfATensorHaveWhatOthersHaveThere) {
  FakeTrace trace;
  Take(&trace, Strided({3}, {2}), {1, 1, 10}, "aaaacccceeee");
  Take(&trace, Strided({2}, {2}), {2, 1, 11}, "bbbbdddd");
  // These two add nothing new.
  Take(&trace, Strided({3, 2}, {0, 2}), {3, 2, 0}, std::string(3 * 8, 'x'));
  Take(&trace, TensorValue({1}), {4, 2, 2}, "yyyy");
  // An impossibly large tensor.
  Take(&trace, Strided({2}, {int64_t{1} << 40}), {5, 3, 0}, "aaaabbbb");
  Take(&trace, TensorValue({1}), {6, 3, 7}, "cccc");
  EXPECT_EQ(Contents(&trace),
            (Lines{"memory aaaabbbbccccddddeeee", "bbbbdddd", std::string(24, 'x'), "yyyy", "aaaabbbb", "cccc"}));
}

nlohmann::json Objects(const std::string& living) {
  return nlohmann::json::parse(absl::StrCat(R"({"objects": {"before": 2, "living": )", living, "}}"));
}

// What the program returns: a value, or `call N` for everything that a call returned, and the calls of others.
std::string Outcome(FakeTrace* trace) {
  const absl::StatusOr<FlowSummary> summary =
      ReadFlow(trace, OfLevel(1), [](const FlowStep&) { return absl::OkStatus(); }, {.surroundings = true});
  EXPECT_TRUE(summary.ok()) << summary.status();
  if (!summary.ok() || summary->outcome.results.empty()) return "none";
  const FlowOutcome& outcome = summary->outcome;
  const FlowOutcome::Result& result = outcome.results[0];
  return absl::StrCat(result.whole ? "call " : "%", result.whole ? result.call : result.value,
                      outcome.asked ? " asked" : "", outcome.others.empty() ? "" : " and ",
                      absl::StrJoin(outcome.others, " "));
}

// A test of `x * 2`: numbers 12, 13 and 14 are the product, its norm and a bool.
void AddTest(FakeTrace* trace) {
  Value scalar = TensorValue({}), truth = TensorValue({}), yes;
  truth.text = "bool";
  yes.tag = ValueTag::kTrue;
  Call(trace, "torch.Tensor.mul", {k2x3, IntValue(2)}, {{1, 2, 0}}, {k2x3}, {{12, 22, 0}});
  Call(trace, "torch.Tensor.norm", {k2x3}, {{12, 22, 0}}, {scalar}, {{13, 23, 0}});
  Call(trace, "torch.Tensor.gt", {scalar, IntValue(1)}, {{13, 23, 0}}, {truth}, {{14, 24, 0}});
  Call(trace, "torch.Tensor.__bool__", {truth}, {{14, 24, 0}}, {yes}, {});
}

TEST(FlowTest, AProgramReturnsTheLastValueThatNobodyUsed) {
  const nlohmann::json has_12 = Objects("[12, 12, 22, 22]");
  for (const nlohmann::json& metadata : {has_12, nlohmann::json::object()}) {
    FakeTrace trace(metadata);
    AddTest(&trace);
    EXPECT_EQ(Outcome(&trace), metadata.empty() ? "call 0 asked" : "call 0");
  }
  FakeTrace dead(has_12);  // one more value, which the program doesn't have
  AddTest(&dead);
  Call(&dead, "torch.add", {k2x3, k2x3}, {{12, 22, 0}, {12, 22, 0}}, {k2x3}, {{15, 25, 0}});
  EXPECT_EQ(Outcome(&dead), "call 0");
  // A value that was printed.
  Value text;
  text.tag = ValueTag::kString;
  Call(&dead, "torch.Tensor.__repr__", {k2x3}, {{15, 25, 0}}, {text}, {});
  EXPECT_EQ(Outcome(&dead), "call 4");
  FakeTrace pair(Objects("[11, 12, 21, 22]"));
  Call(&pair, "torch.abs", {k2x3}, {{1, 2, 0}}, {k2x3}, {{11, 21, 0}});
  AddTest(&pair);
  EXPECT_EQ(Outcome(&pair), "call 1 and 0");
  // One result of a call with several; in place, through a view.
  FakeTrace view(has_12);
  Call(&view, "torch.max", {k2x3, IntValue(0)}, {{1, 2, 0}}, {k2x3, k2x3}, {{12, 22, 0}, {13, 23, 0}});
  EXPECT_EQ(Outcome(&view), "%1");
  Call(&view, "torch.abs", {k2x3}, {{12, 22, 0}}, {k2x3}, {{15, 25, 0}});
  Call(&view, "torch.Tensor.__getitem__", {k2x3, IntValue(0)}, {{12, 22, 0}}, {TensorValue({3})}, {{14, 22, 0}});
  Call(&view, "torch.Tensor.add_", {TensorValue({3}), IntValue(1)}, {{14, 22, 0}}, {TensorValue({3})}, {{14, 22, 0}});
  EXPECT_EQ(Outcome(&view), "%1");
}

TEST(FlowTest, TensorsThatAppearAreTold) {
  FakeTrace trace(Objects("[]"));
  const auto take = [&trace](uint64_t number) {
    Call(&trace, "torch.neg", {k2x3}, {{number, number + 1, 0}}, {k2x3}, {{number + 100, number + 101, 0}});
  };
  trace.Enter(MakeConfig(2, "aten::view", {k2x3}), "", Identities({{31, 32, 0}}));
  trace.Return({k2x3}, Identities({{33, 34, 0}}));
  take(1);
  trace.Call(MakeConfig(2, "aten::rand"));
  trace.Enter(MakeConfig(2, "aten::zeros"));
  trace.Return({k2x3}, Identities({{51, 52, 0}}));
  for (const uint64_t number : {31, 33, 41, 51}) take(number);
  Lines lines;
  ASSERT_TRUE(ReadFlow(&trace, OfLevel(1),
                       [&](const FlowStep& step) {
                         const FlowSource& source = step.sources[0];
                         lines.push_back(!source.unseen            ? "seen"
                                         : source.maker == kNoCall ? "unseen"
                                                                   : absl::StrCat("made by ", source.maker));
                         return absl::OkStatus();
                       },
                       {.surroundings = true})
                  .ok());
  EXPECT_EQ(lines, (Lines{"seen", "seen", "seen", "unseen", "made by 3"}));
}

TEST(FlowTest, JsonNumbersTensorsWhereverTheyStand) {
  FakeTrace trace;
  Value dict;
  dict.tag = ValueTag::kDict;
  dict.whole = 2;
  // A dict that looks like a description.
  dict.items = {TextValue("type"), TextValue("torch.Tensor"), TextValue("x"), k2x3};
  Value contents = TensorValue({1});
  std::string notes = Identities({{1, 1, 0}, {2, 2, 0}});
  AppendTensorNote(
      {.position = 2, .identity = TensorNote::Identity{3, 3, 0}, .range = TensorNote::Range{1, 2}, .contents = "abcd"},
      &notes);
  trace.Enter(MakeConfig(1, "f", {ItemsValue(ValueTag::kList, {k2x3}), dict}, {{"type", contents}}), "", notes);
  trace.Return({ItemsValue(ValueTag::kTuple, {k2x3, IntValue(1)})}, Identities({{2, 2, 0}}));
  nlohmann::ordered_json json;
  std::string pieces;
  ASSERT_TRUE(ReadFlow(&trace, OfLevel(1), [&](const FlowStep& step) {
                std::vector<std::string_view> contents;
                json = FlowStepToJson(trace, step, &contents);
                for (const std::string_view piece : contents) pieces += piece;
                return absl::OkStatus();
              }).ok());
  EXPECT_EQ(json["args"][0]["value"][0]["id"], 0);
  EXPECT_EQ(json["args"][1]["value"]["x"]["id"], 1);
  EXPECT_EQ(json["kwargs"]["type"]["id"], 2);
  EXPECT_EQ(json["result"][0]["value"][0]["id"], 1);
  EXPECT_EQ(json["sources"][2]["contents"], 4);
  EXPECT_EQ(pieces, "abcd");
  EXPECT_EQ(json["sources"][2]["max"], 2);
}

}  // namespace
}  // namespace torchtrace
