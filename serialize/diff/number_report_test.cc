#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "nlohmann/json.hpp"
#include "serialize/diff/number_diff.h"
#include "serialize/diff/reports.h"
#include "serialize/model/tensor_notes.h"
#include "serialize/testing/fake_trace.h"

namespace torchtrace {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::Not;

// Numbers of a tensor whose elements are all `value`; the fingerprint tells values apart.
TensorNote::Numbers All(double value) {
  return {.finite = 4,
          .least = value,
          .most = value,
          .mean = value,
          .norm = 2 * std::abs(value),
          .fingerprint = std::bit_cast<uint64_t>(value)};
}

// A note on the tensor at `position`, with its storage; none: without numbers.
std::string Note(uint64_t position, uint64_t storage, std::optional<double> value) {
  TensorNote note = {.position = position};
  note.identity = {.tensor = storage, .storage = storage, .offset = 0};
  if (value.has_value()) note.numbers = All(*value);
  std::string bytes;
  AppendTensorNote(note, &bytes);
  return bytes;
}

const Value kTensor = TensorValue({2, 2});

json Recording() { return {{"numbers", true}}; }

Config Unary(const std::string& api, int level = 2) { return MakeConfig(level, api, {kTensor}); }
Config Binary(const std::string& api, int level = 2) { return MakeConfig(level, api, {kTensor, kTensor}); }

struct NumberReportText {
  bool different = false;
  std::string text;
};

DiffOptions NumberScope() {
  DiffOptions options;
  options.scope.coarsening = *Coarsening::Parse({"dtype", "device", "stride"});
  return options;
}

NumberReportText NumbersOnce(Trace* a, Trace* b, const NumberDiffOptions& number_options, const DiffOptions& options) {
  std::ostringstream out;
  const absl::StatusOr<bool> different = WriteNumberDiff(a, b, options, number_options, &out);
  EXPECT_TRUE(different.ok()) << different.status();
  return {different.ok() && *different, out.str()};
}

// Also of the traces with numbers that come later: it must be the same.
NumberReportText NumbersOf(Trace* a, Trace* b, const NumberDiffOptions& number_options = {},
                           const DiffOptions& options = NumberScope()) {
  NumberReportText report = NumbersOnce(a, b, number_options, options);
  for (const uint32_t seed : {1, 2, 3, 4, 5}) {
    const auto later_a = WithLaterNumbers(a, seed), later_b = WithLaterNumbers(b, seed);
    EXPECT_EQ(NumbersOnce(later_a.get(), b, number_options, options).text, report.text) << seed;
    EXPECT_EQ(NumbersOnce(a, later_b.get(), number_options, options).text, report.text) << seed;
    EXPECT_EQ(NumbersOnce(later_a.get(), later_b.get(), number_options, options).text, report.text) << seed;
  }
  return report;
}

json NumbersJson(Trace* a, Trace* b, const NumberDiffOptions& number_options = {}) {
  DiffOptions options = NumberScope();
  options.format = DiffFormat::kJson;
  const NumberReportText report = NumbersOf(a, b, number_options, options);
  json parsed = json::parse(report.text);
  EXPECT_EQ(parsed["different"], report.different);
  return parsed;
}

// y = relu(x); z = y * w, with the numbers of y and z. x has storage 1, y 2, w 3, z 4.
void AddTwoCalls(FakeTrace* trace, double y, double z, double w = 1) {
  trace->Enter(Unary("aten::relu"), "", Note(0, 1, 1));
  trace->Return({kTensor}, Note(0, 2, y));
  trace->Enter(Binary("aten::mul.Tensor"), "", Note(0, 2, y) + Note(1, 3, w));
  trace->Return({kTensor}, Note(0, 4, z));
}

TEST(NumberReport, TheSame) {
  FakeTrace a(Recording()), b(Recording());
  AddTwoCalls(&a, 2, 3);
  AddTwoCalls(&b, 2, 3);
  const NumberReportText report = NumbersOf(&a, &b);
  EXPECT_FALSE(report.different);
  EXPECT_EQ(report.text,
            "--- A  2 calls\n"
            "+++ B  2 calls\n"
            "the same, bit for bit: all 2 calls that could be compared\n"
            "\n"
            "compared: 5 tensors: 5 the same bit for bit, 0 within the tolerances, 0 different\n"
            "not compared: nothing\n");
}

TEST(NumberReport, Computed) {
  FakeTrace a(Recording()), b(Recording());
  for (FakeTrace* trace : {&a, &b}) {
    trace->Tag(R"({"step": 3})");
    trace->Enter(MakeConfig(3, "torch.nn.Linear", {}, {{"path", TextValue("h.0.fc")}, {"model", TextValue("Net_0")}}));
    trace->Enter(Binary("torch.mul", 1), "", Note(0, 2, 1) + Note(1, 3, 1));
    AddTwoCalls(trace, 2, trace == &a ? 4 : 5);
    trace->Return({kTensor}, Note(0, 4, trace == &a ? 4 : 5));
    trace->Leave();
  }
  const NumberReportText report = NumbersOf(&a, &b);
  EXPECT_TRUE(report.different);
  // The innermost call.
  EXPECT_EQ(
      report.text,
      "--- A  4 calls\n"
      "+++ B  4 calls\n"
      "different: 2 of 3 calls that could be compared, 2 of these though their arguments are the same\n"
      "\n"
      "first call with the same arguments and another result: call 3 of A, call 3 of B\n"
      "  aten::mul.Tensor(Tensor([2, 2], \"float32\"), Tensor([2, 2], \"float32\"))\n"
      "  step 3, module h.0.fc (Linear), level 2, main-0, thread 0 (thread0)\n"
      "  result: relative difference 0.2 (absolute 2): min 4 -> 5, max 4 -> 5, mean 4 -> 5, norm 8 -> 10\n"
      "  inside call 1 of A: torch.mul(Tensor([2, 2], \"float32\"), Tensor([2, 2], \"float32\"))\n"
      "  its arguments are the same bit for bit: other kernels, libraries or numbers of threads, an operator that "
      "is not deterministic, or an argument that NumPy or Triton wrote to, which --numbers doesn't see\n"
      "\n"
      "step  calls  different  close  largest relative difference  call  API               module\n"
      "   3      3          2      0                          0.2     3  aten::mul.Tensor  h.0.fc (Linear)\n"
      "\n"
      "compared: 8 tensors: 6 the same bit for bit, 0 within the tolerances, 2 different\n"
      "tolerances: float32 rtol 1.3e-06 atol 1e-05\n"
      "not compared: 1 call in both without numbers\n");
  const json json = NumbersJson(&a, &b);
  EXPECT_EQ(json["first"]["origin"], "computed");
  EXPECT_EQ(json["first"]["a_call"], 3);
  EXPECT_EQ(json["first"]["tags"]["step"], 3);
  EXPECT_EQ(json["first"]["module"], "h.0.fc (Linear)");
  EXPECT_EQ(json["first"]["tensor"]["a"]["max"], 4);
  EXPECT_EQ(json["first"]["inside"]["a_call"], 1);
  EXPECT_EQ(json["first_in_bits"], nullptr);
}

TEST(NumberReport, WithinTolerances) {
  FakeTrace a(Recording()), b(Recording());
  AddTwoCalls(&a, 2, 3);
  AddTwoCalls(&b, 2 + 1e-7, 3 + 1e-7);
  const json json = NumbersJson(&a, &b);
  EXPECT_FALSE(json["different"]);
  EXPECT_EQ(json["first"], nullptr);
  EXPECT_EQ(json["first_in_bits"]["a_call"], 0);
  EXPECT_EQ(json["compared"]["close"], 2);
  EXPECT_THAT(NumbersOf(&a, &b).text, HasSubstr("the same within the tolerances: all 2 calls that could be compared, 2 "
                                                "of them not bit for bit\n"));
  NumberDiffOptions exact;
  exact.tolerances = {.relative = 0, .absolute = 0};
  EXPECT_EQ(NumbersJson(&a, &b, exact)["first"]["a_call"], 0);
}

// Beyond the tolerances later than in bits: both calls are named.
TEST(NumberReport, FirstInBits) {
  FakeTrace a(Recording()), b(Recording());
  AddTwoCalls(&a, 2, 3);
  AddTwoCalls(&b, 2 + 1e-7, 4);
  const json json = NumbersJson(&a, &b);
  EXPECT_EQ(json["first"]["a_call"], 1);
  EXPECT_EQ(json["first_in_bits"]["a_call"], 0);
}

TEST(NumberReport, FromOutside) {
  FakeTrace a(Recording()), b(Recording());
  AddTwoCalls(&a, 2, 3, 1);
  AddTwoCalls(&b, 2, 6, 2);
  const json json = NumbersJson(&a, &b);
  EXPECT_EQ(json["first"]["origin"], "outside");
  EXPECT_EQ(json["first"]["a_call"], 1);
  EXPECT_EQ(json["first"]["tensor"]["name"], "argument args[1]");
  EXPECT_THAT(NumbersOf(&a, &b).text,
              HasSubstr("argument args[1] came from outside of recorded calls: data, a parameter, NumPy\n"));
}

// What from_numpy returns, and what it passes to an operator inside.
TEST(NumberReport, FromAnObject) {
  for (const bool inner : {false, true}) {
    FakeTrace a(Recording()), b(Recording());
    for (FakeTrace* trace : {&a, &b}) {
      const double w = trace == &a ? 1 : 2;
      trace->Enter(MakeConfig(1, "torch.from_numpy", {NamedValue(ValueTag::kNdarray, "float32")}));
      if (inner) {
        trace->Enter(Unary("aten::lift_fresh"), "", Note(0, 3, w));
        trace->Return({kTensor}, Note(0, 3, {}));
      }
      trace->Return({kTensor}, Note(0, 3, w));
      AddTwoCalls(trace, 2, 3 * w, w);
    }
    const json json = NumbersJson(&a, &b);
    EXPECT_EQ(json["first"]["origin"], "outside") << inner;
    EXPECT_THAT(json["first"]["why"].dump(), HasSubstr("object whose contents are not recorded"));
    EXPECT_EQ(json["first"]["taken"]["api"], "aten::mul.Tensor");
    EXPECT_EQ(json["first"]["taken"]["tensor"]["name"], "argument args[1]");
  }
}

TEST(NumberReport, OverwrittenOutside) {
  FakeTrace a(Recording()), b(Recording());
  for (FakeTrace* trace : {&a, &b}) {
    AddTwoCalls(trace, 2, 3);
    trace->Enter(Unary("aten::neg"), "", Note(0, 4, trace == &a ? 3 : 30));
    trace->Return({kTensor}, Note(0, 5, trace == &a ? -3 : -30));
  }
  const json json = NumbersJson(&a, &b);
  EXPECT_EQ(json["first"]["origin"], "overwritten");
  EXPECT_EQ(json["first"]["a_call"], 2);
  EXPECT_EQ(json["first"]["sources"][0]["call"], 1);
}

TEST(NumberReport, Collective) {
  FakeTrace a(Recording()), b(Recording());
  for (FakeTrace* trace : {&a, &b}) {
    const double sum = trace == &a ? 8 : 9;
    trace->Enter(Unary("c10d::allreduce_"), "", Note(0, 1, 4));
    trace->Return({kTensor}, Note(0, 1, {}));
    trace->Enter(Unary("aten::neg"), "", Note(0, 1, sum));
    trace->Return({kTensor}, Note(0, 2, -sum));
  }
  const json json = NumbersJson(&a, &b);
  EXPECT_EQ(json["first"]["origin"], "collective");
  EXPECT_EQ(json["first"]["a_call"], 1);
  EXPECT_EQ(json["first"]["sources"][0]["call"], 0);
}

// B has a call that changes a tensor in place, at both levels; A hasn't.
TEST(NumberReport, OnlyInOne) {
  FakeTrace a(Recording()), b(Recording());
  for (FakeTrace* trace : {&a, &b}) {
    AddTwoCalls(trace, 2, 3);
    if (trace == &b) {
      trace->Enter(Unary("aten::mul_.Scalar"), "", Note(0, 4, 3));
      trace->Return({kTensor}, Note(0, 4, 30));
      trace->SetWritten(Note(0, 4, 30));
    }
    trace->Enter(Unary("aten::neg"), "", Note(0, 4, trace == &a ? 3 : 30));
    trace->Return({kTensor}, Note(0, 5, trace == &a ? -3 : -30));
  }
  for (const bool swapped : {false, true}) {
    const json json = swapped ? NumbersJson(&b, &a) : NumbersJson(&a, &b);
    EXPECT_EQ(json["first"]["origin"], "only in one");
    EXPECT_EQ(json["first"]["sources"][0]["of"], swapped ? "a" : "b");
    EXPECT_EQ(json["first"]["sources"][0]["call"], 2);
    EXPECT_EQ(json["not_compared"][swapped ? "calls_only_in_a" : "calls_only_in_b"], 1);
  }
}

// Traces without numbers of arguments: what a call takes is known by the calls that made it.
TEST(NumberReport, OfResultsAlone) {
  const json recording = {{"numbers", "results"}};
  for (const bool changed : {false, true}) {
    FakeTrace a(recording), b(recording);
    for (FakeTrace* trace : {&a, &b}) {
      const double other = trace == &a ? 3 : 30;
      // A weight from outside, which is as good as what the first call makes of it.
      trace->Enter(Unary("aten::relu"), "", Note(0, 1, {}));
      trace->Return({kTensor}, Note(0, 2, 1));
      trace->Enter(Binary("aten::mul.Tensor"), "", Note(0, 1, {}) + Note(1, 2, {}));
      trace->Return({kTensor}, Note(0, 3, changed ? 3 : other));
      if (trace == &b && changed) {
        trace->Enter(Unary("aten::mul_.Scalar"), "", Note(0, 3, {}));
        trace->Return({kTensor}, Note(0, 3, 30));
      }
      trace->Enter(Unary("aten::neg"), "", Note(0, 3, {}));
      trace->Return({kTensor}, Note(0, 4, -other));
    }
    const json first = NumbersJson(&a, &b)["first"];
    EXPECT_EQ(first["origin"], changed ? "only in one" : "computed");
    EXPECT_EQ(first["api"], changed ? "aten::neg" : "aten::mul.Tensor");
    EXPECT_EQ(first.contains("sources"), changed);
  }
}

TEST(NumberReport, WrittenTensors) {
  FakeTrace a(Recording()), b(Recording());
  for (FakeTrace* trace : {&a, &b}) {
    trace->Enter(MakeConfig(2, "aten::_foreach_mul_.Scalar", {ItemsValue(ValueTag::kList, {kTensor, kTensor})}), "",
                 Note(0, 1, 1) + Note(1, 2, 2));
    trace->Return({});
    trace->SetWritten(Note(0, 1, 3) + Note(1, 2, trace == &a ? 6 : 7));
  }
  const json json = NumbersJson(&a, &b);
  EXPECT_EQ(json["first"]["origin"], "computed");
  EXPECT_EQ(json["first"]["tensor"]["name"], "what it wrote to args[0][1]");
}

TEST(NumberReport, OtherScalars) {
  FakeTrace a(Recording()), b(Recording());
  for (FakeTrace* trace : {&a, &b}) {
    trace->Enter(MakeConfig(2, "aten::mul.Scalar", {kTensor, FloatValue(trace == &a ? 0.5 : 0.25)}), "", Note(0, 1, 1));
    trace->Return({kTensor}, Note(0, 2, trace == &a ? 0.5 : 0.25));
  }
  EXPECT_THAT(NumbersOf(&a, &b).text, HasSubstr("aten::mul.Scalar(Tensor([2, 2], \"float32\"), 0.5 -> 0.25)"));
}

Value OfDtype(const std::string& dtype) {
  Value value = kTensor;
  value.text = dtype;
  return value;
}

// Calls of other dtypes belong together. What is computed from less precise numbers is as precise.
TEST(NumberReport, OverDtypes) {
  FakeTrace a(Recording()), b(Recording());
  for (FakeTrace* trace : {&a, &b}) {
    const Value tensor = OfDtype(trace == &a ? "float32" : "bfloat16");
    trace->Enter(MakeConfig(2, "aten::neg", {tensor}), "", Note(0, 1, trace == &a ? 1.001 : 1));
    trace->Return({tensor}, Note(0, 2, trace == &a ? -1.001 : -1));
    trace->Enter(MakeConfig(1, "torch.Tensor.float", {tensor}), "", Note(0, 2, trace == &a ? -1.001 : -1));
    trace->Return({kTensor}, Note(0, 3, trace == &a ? -1.001 : -1));
  }
  const json report = NumbersJson(&a, &b);
  EXPECT_FALSE(report["different"]);
  EXPECT_EQ(report["compared"]["other_dtypes"], json({{{"a", "float32"}, {"b", "bfloat16"}, {"tensors", 3}}}));
  EXPECT_EQ(report["first_in_bits"], nullptr);
  EXPECT_THAT(NumbersOf(&a, &b).text, HasSubstr("by numbers alone, not bit for bit: float32 against bfloat16 (3)\n"));
}

// Memory that nothing has written: its contents, of traces with --values, are no difference, nor those of its views.
TEST(NumberReport, ContentsOfUninitializedMemory) {
  const json recording = {{"values", 1024}};
  FakeTrace a(recording), b(recording);
  std::string bytes;
  for (FakeTrace* trace : {&a, &b}) {
    const std::string garbage(16, trace == &a ? 'a' : 'b'), zeros(16, '\0');
    const auto note = [](uint64_t storage, const std::string& contents) {
      std::string notes;
      TensorNote note;
      note.identity = {.tensor = storage, .storage = storage, .offset = 0};
      note.contents = contents;
      AppendTensorNote(note, &notes);
      return notes;
    };
    trace->Enter(MakeConfig(2, "aten::empty.memory_format"));
    trace->Return({kTensor}, note(1, garbage));
    trace->Enter(Unary("aten::detach"), "", note(1, garbage));
    trace->Return({kTensor}, note(1, garbage));
    trace->Enter(Unary("aten::zero_"), "", note(1, garbage));
    trace->Return({kTensor}, note(1, zeros));
    trace->Enter(Unary("aten::neg"), "", note(1, zeros));
    trace->Return({kTensor}, note(2, trace == &a ? zeros : garbage));
  }
  const json report = NumbersJson(&a, &b);
  EXPECT_EQ(report["first"]["api"], "aten::neg");
  EXPECT_EQ(report["first"]["tensor"]["elements_apart"], 4);
  EXPECT_EQ(report["compared"]["different"], 1);
}

// Threads whose calls are in another order in B.
TEST(NumberReport, Threads) {
  FakeTrace a(Recording()), b(Recording());
  for (int i = 0; i < 10; ++i) {
    for (const uint32_t thread : {0, 1}) {
      a.In(0, thread);
      AddTwoCalls(&a, 2, 3);
    }
  }
  for (const uint32_t thread : {1, 0}) {
    b.In(0, thread);
    for (int i = 0; i < 10; ++i) AddTwoCalls(&b, 2, thread == 1 && i == 7 ? 30 : 3);
  }
  const json report = NumbersJson(&a, &b);
  EXPECT_EQ(report["compared"]["calls"], 40);
  EXPECT_EQ(report["compared"]["different"], 1);
  EXPECT_EQ(report["first"]["a_call"], 4 * 7 + 3);
  EXPECT_EQ(report["first"]["b_call"], 2 * 7 + 1);
}

TEST(NumberReport, CompiledModules) {
  FakeTrace a(Recording()), b(Recording());
  const auto module = [](const std::string& path, const std::string& model) {
    std::vector<std::pair<std::string, Value>> keywords = {{"path", TextValue(path)}};
    if (!model.empty()) keywords.emplace_back("model", TextValue(model));
    return MakeConfig(3, "__main__.Net", {}, keywords);
  };
  a.Enter(module("Net_0", ""));
  AddTwoCalls(&a, 2, 3);
  a.Return({kTensor}, Note(0, 4, 3));
  b.Enter(module("_orig_mod", "OptimizedModule_0"));
  b.Enter(MakeConfig(3, "Compiled graph 0/0: forward", {}, {{"file", TextValue("f.py")}, {"line", IntValue(1)}}));
  b.Leave();
  b.Return({kTensor}, Note(0, 4, 5));
  const json report = NumbersJson(&a, &b);
  EXPECT_TRUE(report["compiled"]);
  EXPECT_EQ(report["first"]["api"], "__main__.Net");
  EXPECT_EQ(report["not_compared"]["calls_only_in_a"], 2);
}

// A call whose result is the same though its argument isn't.
TEST(NumberReport, ArgumentsAlone) {
  FakeTrace a(Recording()), b(Recording());
  for (FakeTrace* trace : {&a, &b}) {
    trace->Enter(Unary("aten::sign"), "", Note(0, 1, trace == &a ? 2 : 3));
    trace->Return({kTensor}, Note(0, 2, 1));
  }
  const json report = NumbersJson(&a, &b);
  EXPECT_EQ(report["rows"][0]["largest"]["a_call"], 0);
  EXPECT_DOUBLE_EQ(report["rows"][0]["relative"], 1.0 / 3);
  EXPECT_THAT(NumbersOf(&a, &b).text, HasSubstr("0.33333     0  aten::sign\n"));
}

TEST(NumberReport, AllCalls) {
  FakeTrace a(Recording()), b(Recording());
  AddTwoCalls(&a, 2, 3);
  AddTwoCalls(&b, 20, 30);
  NumberDiffOptions all;
  all.all = true;
  const json report = NumbersJson(&a, &b, all);
  ASSERT_EQ(report["calls"].size(), 2u);
  EXPECT_EQ(report["calls"][0]["arguments"], "same");
  EXPECT_EQ(report["calls"][0]["results"], "different");
  EXPECT_EQ(report["calls"][1]["arguments"], "different");
  EXPECT_EQ(report["calls"][1]["relative"], 0.9);
  EXPECT_THAT(NumbersOf(&a, &b, all).text, HasSubstr("0  0  same       different"));
  EXPECT_FALSE(NumbersJson(&a, &b).contains("calls"));
}

TEST(NumberReport, Markdown) {
  FakeTrace a(Recording()), b(Recording());
  AddTwoCalls(&a, 2, 3);
  AddTwoCalls(&b, 2, 4);
  DiffOptions options = NumberScope();
  options.format = DiffFormat::kMarkdown;
  const std::string text = NumbersOf(&a, &b, {}, options).text;
  EXPECT_THAT(text, HasSubstr("# torchtrace diff --numbers\n"));
  EXPECT_THAT(text,
              HasSubstr("## First call with the same arguments and another result\n\n- `call 1 of A, call 1 of B`\n"));
}

std::string ErrorOf(Trace* a, Trace* b) {
  std::ostringstream out;
  const absl::StatusOr<bool> different = WriteNumberDiff(a, b, NumberScope(), {}, &out);
  EXPECT_FALSE(different.ok());
  EXPECT_EQ(out.str(), "");
  return std::string(different.status().message());
}

TEST(NumberReport, NothingToCompare) {
  FakeTrace with(Recording()), without, other(Recording());
  AddTwoCalls(&with, 2, 3);
  AddTwoCalls(&without, 2, 3);
  other.Call(Unary("aten::relu"));
  EXPECT_EQ(ErrorOf(&with, &without), "B has no numbers of tensors: record both with torchtrace run --numbers");
  EXPECT_EQ(ErrorOf(&without, &without),
            "A and B have no numbers of tensors: record both with torchtrace run --numbers");
  EXPECT_THAT(ErrorOf(&with, &other), HasSubstr("1 call in common, none with numbers in both"));
  FakeTrace none(Recording());
  EXPECT_THAT(ErrorOf(&with, &none), HasSubstr("have no calls in common"));
}

}  // namespace
}  // namespace torchtrace
