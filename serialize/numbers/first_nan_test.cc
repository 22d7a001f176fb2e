#include "serialize/numbers/first_nan.h"

#include <cstdint>
#include <initializer_list>
#include <limits>
#include <optional>
#include <random>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "serialize/base/matching.h"
#include "serialize/testing/fake_trace.h"

namespace torchtrace {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNotANumber = std::numeric_limits<double>::quiet_NaN();

const json kRecorded = {{"numbers", "all"},
                        {"levels", {1, 2, 3}},
                        {"host", "a"},
                        {"clock", {{"origin_units", 0}, {"origin_monotonic_ns", 0}, {"unit_ns", 1.0}}}};

// A tensor of four elements: its number, that of its storage, and how many are NaN and infinite.
struct T {
  uint64_t tensor = 0;
  uint64_t storage = 0;
  uint64_t nans = 0;
  uint64_t infinities = 0;
  bool numbers = true;
};
T Unknown(uint64_t tensor, uint64_t storage) { return {tensor, storage, 0, 0, false}; }

std::string Notes(const std::vector<T>& tensors) {
  std::string notes;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const T& t = tensors[i];
    TensorNote note = {.position = i, .identity = TensorNote::Identity{t.tensor, t.storage, 0}};
    if (t.numbers) {
      note.numbers = TensorNote::Numbers{.nans = t.nans,
                                         .negative_infinities = t.infinities,
                                         .finite = 4 - t.nans - t.infinities,
                                         .least = 1,
                                         .most = 2,
                                         .mean = 1.5};
    }
    AppendTensorNote(note, &notes);
  }
  return notes;
}

// Calls of a program, as a run with --numbers records them.
class Program : public FakeTrace {
 public:
  explicit Program(const json& metadata = kRecorded) : FakeTrace(metadata) {}

  void Begin(const std::string& api, const std::vector<T>& arguments, const std::vector<Value>& more = {},
             std::string_view facets = "") {
    std::vector<Value> values(arguments.size(), TensorValue({4}));
    values.insert(values.end(), more.begin(), more.end());
    Enter(MakeConfig(api.find("::") == std::string::npos ? 1 : 2, api, values), facets, Notes(arguments));
  }
  void Finish(const std::vector<T>& results) {
    Return(std::vector<Value>(results.size(), TensorValue({4})), Notes(results));
  }
  void Op(const std::string& api, const std::vector<T>& arguments, const std::vector<T>& results,
          const std::vector<Value>& more = {}) {
    Begin(api, arguments, more);
    Finish(results);
  }
  void Module(const std::string& path) {
    Enter(MakeConfig(3, "__main__.Layer", {}, {{"path", TextValue(path)}, {"model", TextValue("Net_0")}}));
  }
};

// `made 3 aten::log nan`, then how many more, infinities that are meant.
std::string FoundIn(Trace* trace, const NanOptions& options) {
  const absl::StatusOr<std::vector<ProcessNans>> found = FindNans(trace, options);
  if (!found.ok()) return std::string(found.status().message());
  std::string text;
  for (const ProcessNans& nans : *found) {
    for (const NanFinding& finding : nans.findings) {
      const char* const how = finding.how == NanFinding::kMade     ? "made"
                              : finding.how == NanFinding::kCameIn ? "came in"
                                                                   : "returned";
      absl::StrAppend(&text, how, " ", finding.call.call,
                      finding.came_in_by.empty() ? "" : absl::StrCat(" by ", finding.came_in_by),
                      finding.last_touched ? absl::StrCat(" from ", finding.last_touched->call) : "",
                      (finding.kinds & kHoldsNan) != 0 ? " nan" : "",
                      (finding.kinds & kHoldsInfinity) != 0 ? " inf" : "", finding.literal ? " literal" : "", "; ");
    }
    absl::StrAppend(&text, nans.more, " more, ", nans.meant, " meant\n");
  }
  return text;
}

// Also of the trace with numbers that come later: it must be the same.
std::string Found(Trace* trace, const NanOptions& options = {}) {
  const std::string found = FoundIn(trace, options);
  for (const uint32_t seed : {1, 2, 3, 4, 5}) {
    EXPECT_EQ(FoundIn(WithLaterNumbers(trace, seed).get(), options), found) << seed;
  }
  return found;
}

std::string ReportOf(Trace* trace, const NanOptions& options) {
  std::ostringstream out;
  const absl::StatusOr<bool> found = WriteNans({{trace, "out"}}, options, &out);
  return found.ok() ? out.str() : std::string(found.status().message());
}
std::string Report(Trace* trace, const NanOptions& options = {}) {
  const std::string report = ReportOf(trace, options);
  for (const uint32_t seed : {1, 2, 3, 4, 5}) {
    EXPECT_EQ(ReportOf(WithLaterNumbers(trace, seed).get(), options), report) << seed;
  }
  return report;
}

TEST(FirstNan, TheCallThatMadeIt) {
  Program program;
  program.Op("aten::ones", {}, {{1, 1}});
  program.Op("aten::log", {{1, 1}}, {{2, 2, 3}});
  program.Op("aten::mul.Tensor", {{2, 2, 3}, {1, 1}}, {{3, 3, 4}});
  program.Op("aten::isnan", {{3, 3, 4}}, {{4, 4}});
  EXPECT_EQ(Found(&program), "made 1 nan; 0 more, 0 meant\n");
}

// Numbers of what holds a NaN first come last.
TEST(FirstNan, NumbersThatComeLater) {
  Program program;
  const auto later = [&program](uint64_t call, LaterOf of, uint64_t nans) {
    std::string notes;
    AppendTensorNote({.position = 0, .numbers = TensorNote::Numbers{.nans = nans, .finite = 4 - nans}}, &notes);
    program.Later(call, of, std::move(notes));
  };
  program.Op("aten::log", {{1, 1}}, {Unknown(2, 2)});
  program.Op("aten::mul.Tensor", {Unknown(2, 2)}, {Unknown(3, 3)});
  program.Begin("aten::add_.Tensor", {Unknown(4, 4), Unknown(3, 3)});
  later(1, LaterOf::kResult, 4);
  program.Finish({Unknown(4, 4)});
  program.SetWritten(Notes({Unknown(4, 4)}));
  later(2, LaterOf::kWritten, 4);
  later(2, LaterOf::kResult, 4);
  later(2, LaterOf::kArguments, 0);
  later(1, LaterOf::kArguments, 3);
  EXPECT_EQ(FoundIn(&program, {}), "came in 1 by 0 from 0 nan; 0 more, 0 meant\n");
  later(0, LaterOf::kResult, 3);
  EXPECT_EQ(FoundIn(&program, {}), "made 0 nan; 0 more, 0 meant\n");
}

TEST(FirstNan, NothingIsFoundInACleanProgram) {
  Program program;
  program.Op("aten::ones", {}, {{1, 1}});
  program.Op("aten::mul.Tensor", {{1, 1}}, {{2, 2}});
  EXPECT_EQ(Found(&program), "0 more, 0 meant\n");
  EXPECT_EQ(Report(&program),
            "No NaN or infinity\n"
            "Looked at what 2 calls of 2 returned or wrote: 2 tensors, and at 1 argument\n");
}

TEST(FirstNan, TheInnermostCall) {
  Program program;
  program.Module("gate");
  program.Begin("torch.log", {{1, 1}});
  program.Op("aten::log", {{1, 1}}, {{2, 2, 1}});
  program.Finish({{2, 2, 1}});
  program.Finish({{2, 2, 1}});
  EXPECT_EQ(Found(&program), "made 2 nan; 0 more, 0 meant\n");
  const std::string report = Report(&program);
  EXPECT_THAT(report, HasSubstr("Call 2 aten::log in gate (Layer) made the first NaN\n"));
  EXPECT_THAT(report, HasSubstr("called by   torch.log (call 1)\n"));
}

// A call whose operators have no numbers, or that has none, is the innermost one that is known.
TEST(FirstNan, TheInnermostCallWithNumbers) {
  Program program;
  program.Begin("torch.log", {{1, 1}});
  program.Op("mine::log", {Unknown(1, 1)}, {Unknown(2, 2)});
  program.Finish({{2, 2, 1}});
  EXPECT_EQ(Found(&program), "made 0 nan; 0 more, 0 meant\n");
}

TEST(FirstNan, WrittenTensors) {
  Program program;
  program.Begin("aten::_foreach_div_.List", {{1, 1}, {2, 2}});
  program.Finish({});
  program.SetWritten(Notes({{1, 1, 2}, {2, 2}}));
  EXPECT_EQ(Found(&program), "made 0 nan; 0 more, 0 meant\n");
  EXPECT_THAT(Report(&program), HasSubstr("  wrote 0     Tensor([4], \"float32\")  {nan 2, mean 1.5, min 1, max 2}\n"));
}

TEST(FirstNan, AlsoOfACallThatRaises) {
  Program program;
  program.Begin("aten::div_.Tensor", {{1, 1}});
  program.Raise("RuntimeError");
  program.SetWritten(Notes({{1, 1, 2}}));
  EXPECT_EQ(Found(&program), "made 0 nan; 0 more, 0 meant\n");
}

TEST(FirstNan, InfinitiesThatAreMeant) {
  Program program;
  program.Op("aten::masked_fill.Scalar", {{1, 1}}, {{2, 2, 0, 1}}, {FloatValue(-kInf)});
  program.Op("aten::add.Tensor", {{2, 2, 0, 1}, {1, 1}}, {{3, 3, 0, 1}});
  program.Op("aten::full", {}, {{4, 4, 0, 4}}, {ItemsValue(ValueTag::kList, {IntValue(4)}), FloatValue(kInf)});
  program.Op("aten::_softmax", {{3, 3, 0, 1}}, {{5, 5}});
  EXPECT_EQ(Found(&program), "0 more, 2 meant\n");
  EXPECT_THAT(Report(&program),
              HasSubstr("Passed over 2 calls that make infinities as the program says: the first is call 0 "));
  // A NaN that comes of them is not.
  program.Op("aten::_softmax", {{4, 4, 0, 4}}, {{6, 6, 4}});
  EXPECT_EQ(Found(&program), "made 4 nan; 0 more, 2 meant\n");
}

// A learning rate of infinity isn't a mask.
TEST(FirstNan, AnInfiniteFactorIsNotMeant) {
  Program program;
  program.Enter(MakeConfig(2, "aten::add_.Tensor", {TensorValue({4}), TensorValue({4})}, {{"alpha", FloatValue(kInf)}}),
                "", Notes({{1, 1}, {2, 2}}));
  program.Finish({{1, 1, 0, 4}});
  EXPECT_EQ(Found(&program), "made 0 inf; 0 more, 0 meant\n");
}

TEST(FirstNan, TheFirstNanAfterAnInfinity) {
  Program program;
  program.Op("aten::exp", {{1, 1}}, {{2, 2, 0, 1}});
  program.Op("aten::neg", {{2, 2, 0, 1}}, {{3, 3, 0, 1}});
  program.Op("aten::sub.Tensor", {{2, 2, 0, 1}, {2, 2, 0, 1}}, {{4, 4, 1}});
  EXPECT_EQ(Found(&program), "made 0 inf; made 2 nan; 0 more, 0 meant\n");
  NanOptions options;
  options.nan_only = true;
  EXPECT_EQ(Found(&program, options), "made 2 nan; 0 more, 0 meant\n");
}

// nan_to_num(x, nan=inf)
TEST(FirstNan, ANanThatBecomesAnInfinityIsTheSame) {
  Program program;
  program.Op("aten::log", {{1, 1}}, {{2, 2, 1}});
  program.Op("aten::nan_to_num", {{2, 2, 1}}, {{3, 3, 0, 1}});
  EXPECT_EQ(Found(&program), "made 0 nan; 0 more, 0 meant\n");
}

TEST(FirstNan, ALiteral) {
  Program program;
  program.Op("aten::fill_.Scalar", {{1, 1}}, {{1, 1, 4}}, {FloatValue(kNotANumber)});
  EXPECT_EQ(Found(&program), "made 0 nan literal; 0 more, 0 meant\n");
}

TEST(FirstNan, CameIn) {
  Program program;
  program.Op("aten::ones", {}, {{1, 1}});
  program.Begin("torch.add", {{1, 1}, {2, 2, 1}});
  program.Op("aten::add.Tensor", {{1, 1}, {2, 2, 1}}, {{3, 3, 1}});
  program.Finish({{3, 3, 1}});
  program.Op("aten::mul.Tensor", {{2, 2, 1}}, {{4, 4, 1}});
  EXPECT_EQ(Found(&program), "came in 1 by 1 nan; 0 more, 0 meant\n");
  EXPECT_THAT(Report(&program),
              HasSubstr("The first NaN came in by argument 1 of call 1 torch.add: no recorded call made it\n"));
}

TEST(FirstNan, ByACollective) {
  Program program;
  program.Op("aten::ones", {}, {{1, 1}});
  program.Op("c10d::allreduce_", {{1, 1}}, {Unknown(1, 1)});
  program.Op("aten::relu", {{5, 5}}, {{6, 6}});
  program.Op("aten::view", {Unknown(1, 1)}, {Unknown(2, 1)});
  program.Op("aten::mul.Tensor", {{2, 1, 4}}, {{3, 3, 4}});
  EXPECT_EQ(Found(&program), "came in 4 by 0 from 1 nan; 0 more, 0 meant\n");
  EXPECT_THAT(Report(&program),
              HasSubstr("came in by argument 0 of call 4 aten::mul.Tensor: from call 1 c10d::allreduce_,"));
}

// `x * float("inf")`: a number is a tensor of one element at level 2.
TEST(FirstNan, ConstantsOfOneElement) {
  Program program;
  std::string notes = Notes({{1, 1}});
  AppendTensorNote({.position = 1,
                    .identity = TensorNote::Identity{2, 2, 0},
                    .numbers = TensorNote::Numbers{.positive_infinities = 1}},
                   &notes);
  program.Enter(MakeConfig(2, "aten::where.self", {TensorValue({4}), TensorValue({})}), "", notes);
  program.Finish({{3, 3, 0, 2}});
  EXPECT_EQ(Found(&program), "0 more, 1 meant\n");
}

TEST(FirstNan, TensorsOfLiteralsAndOfData) {
  Program literal;
  literal.Begin("torch.tensor", {}, {ItemsValue(ValueTag::kList, {FloatValue(kNotANumber)})});
  literal.Op("aten::lift_fresh", {Unknown(1, 1)}, {Unknown(1, 1)});
  literal.Finish({Unknown(1, 1)});
  literal.Op("aten::mul.Tensor", {{1, 1, 1, 1}}, {{2, 2, 1, 1}});
  EXPECT_EQ(Found(&literal), "came in 2 by 0 from 0 nan literal; 0 more, 1 meant\n");
  Program data;
  data.Begin("torch.from_numpy", {}, {NamedValue(ValueTag::kObject, "numpy.ndarray")});
  data.Op("aten::lift_fresh", {{1, 1, 0, 2}}, {Unknown(1, 1)});
  data.Finish({Unknown(1, 1)});
  EXPECT_EQ(Found(&data), "came in 1 by 0 inf; 0 more, 0 meant\n");
}

// --numbers=results: what an argument holds is what was last returned there.
TEST(FirstNan, ArgumentsWithoutNumbers) {
  Program program;
  program.Op("aten::log", {Unknown(1, 1)}, {{2, 2, 1}});
  program.Op("aten::view", {Unknown(2, 2)}, {Unknown(3, 2)});
  program.Op("aten::mul.Tensor", {Unknown(3, 2)}, {{4, 4, 1}});
  program.Op("aten::zero_", {Unknown(2, 2)}, {{2, 2}});
  program.Op("aten::log", {Unknown(2, 2)}, {{5, 5, 1}});
  EXPECT_EQ(Found(&program), "made 0 nan; 1 more, 0 meant\n");
  EXPECT_THAT(Report(&program),
              HasSubstr("made the first NaN, unless it came in by argument 0, which no recorded call made\n"));
}

TEST(FirstNan, MayBeOfACallWithoutNumbers) {
  Program program;
  program.Op("aten::ones", {}, {{1, 1}});
  program.Op("mine::sparse", {{1, 1}}, {Unknown(2, 2)});
  program.Op("aten::mul.Tensor", {Unknown(2, 2)}, {{3, 3, 1}});
  EXPECT_EQ(Found(&program), "made 2 from 1 nan; 0 more, 0 meant\n");
  EXPECT_THAT(Report(&program), HasSubstr("Not looked at: 1 tensor without numbers, of mine::sparse 1\n"));
}

// Contents alone don't say what operators on lists write.
TEST(FirstNan, ListsWrittenWithoutNumbers) {
  Program program;
  program.Op("aten::ones", {}, {{1, 1}});
  program.Op("aten::_foreach_add_.Scalar", {{1, 1}}, {});
  program.Op("aten::mul.Tensor", {{1, 1, 2}}, {{2, 2, 2}});
  EXPECT_EQ(Found(&program), "came in 2 by 0 from 1 nan; 0 more, 0 meant\n");
}

// Level 4 sees what the kernel of a level-2 operator calls on its own memory.
TEST(FirstNan, MemoryOfKernels) {
  Program program;
  program.Op("aten::ones", {}, {{1, 1}});
  program.Begin("aten::mm", {{1, 1}});
  program.Enter(MakeConfig(4, "aten::resolve_conj", {TensorValue({4})}), "", Notes({{2, 2, 3}}));
  program.Finish({{2, 2, 3}});
  program.Finish({{2, 2}});
  program.Begin("aten::mm", {{1, 1}});
  program.Enter(MakeConfig(4, "aten::resolve_conj", {TensorValue({4})}), "", Notes({{3, 3, 3}}));
  program.Finish({{3, 3, 3}});
  program.Finish({{3, 3, 1}});
  EXPECT_EQ(Found(&program), "made 3 nan; 0 more, 0 meant\n");
}

TEST(FirstNan, Contents) {
  Program program({{"values", 65536}, {"levels", {2}}});
  const auto notes = [](uint64_t tensor, uint64_t storage, const std::vector<float>& elements) {
    std::string bytes;
    AppendTensorNote(
        {.identity = TensorNote::Identity{tensor, storage, 0},
         .contents = std::string_view(reinterpret_cast<const char*>(elements.data()), elements.size() * sizeof(float))},
        &bytes);
    return bytes;
  };
  const auto nan = static_cast<float>(kNotANumber);
  const auto call = [&](const char* api, const std::string& before, const std::string& after) {
    program.Enter(MakeConfig(2, api, before.empty() ? std::vector<Value>{} : std::vector<Value>{TensorValue({2})}), "",
                  before);
    program.Return({TensorValue({2})}, after);
  };
  // What is in memory that the program has not written is not its.
  call("aten::empty.memory_format", "", notes(1, 1, {nan, nan}));
  call("aten::detach", notes(1, 1, {nan, nan}), notes(2, 1, {nan, nan}));
  call("aten::fill_.Scalar", notes(2, 1, {nan, nan}), notes(2, 1, {-1, -1}));
  call("aten::log", notes(1, 1, {-1, -1}), notes(3, 3, {nan, nan}));
  EXPECT_EQ(Found(&program), "made 3 nan; 0 more, 0 meant\n");
  // An argument whose contents are too large.
  Program large({{"values", 4}, {"levels", {2}}});
  large.Op("aten::ones", {}, {Unknown(1, 1)});
  large.Enter(MakeConfig(2, "aten::sum", {TensorValue({4})}), "", Notes({Unknown(1, 1)}));
  large.Return({TensorValue({})}, "");
  EXPECT_THAT(Found(&large), HasSubstr("has contents of arguments, but not of what calls return"));
}

TEST(FirstNan, NothingWasRecorded) {
  const json metadata = {{"levels", {2}}};
  Program program(metadata);
  program.Op("aten::ones", {}, {Unknown(1, 1)});
  EXPECT_EQ(Report(&program),
            "out: the trace has no numbers of tensors: record them with torchtrace run --numbers, or contents with "
            "--ids --outputs --values 64KB");
}

// Not that there is none: nothing was looked at.
TEST(FirstNan, NoTensorHasNumbers) {
  const std::string nothing =
      "nothing to look at: numbers were recorded, but no recorded call took or returned a tensor that has some";
  Program program;
  EXPECT_EQ(Found(&program), nothing);
  program.Op("aten::empty.memory_format", {}, {Unknown(1, 1)});
  EXPECT_EQ(Found(&program), nothing);
  program.Op("aten::fill_.Scalar", {Unknown(1, 1)}, {{1, 1}});
  EXPECT_EQ(Found(&program), "0 more, 0 meant\n");
}

TEST(FirstNan, ModulesAloneDontShowAll) {
  Program program({{"numbers", "all"}, {"levels", {3}}});
  program.Module("gate");
  program.Finish({{1, 1}});
  EXPECT_EQ(Report(&program),
            "No NaN or infinity in what was looked at\n"
            "Looked at what 1 call of 1 returned or wrote: 1 tensor\n"
            "Not looked at: what is in modules and between them: levels 1, 2 and 4 record it\n");
}

TEST(FirstNan, BackwardAndItsForwardCall) {
  Program program({{"numbers", "all"}, {"levels", {1, 2, 3, 4}}});
  program.Module("gate");
  program.Enter(MakeConfig(4, "aten::sqrt", {TensorValue({4})}), "", Notes({{1, 1}}));
  program.SetFacts({.thread = 1, .sequence = 7});
  program.Op("aten::sqrt", {{1, 1}}, {{2, 2}});
  program.Finish({{2, 2}});
  program.Finish({{2, 2}});
  program.Begin("torch.Tensor.backward", {{2, 2}});
  program.Enter(MakeConfig(4, "SqrtBackward0", {TensorValue({4})}), "", Notes({{3, 3}}));
  program.SetFacts({.scope = kBackwardScope, .thread = 1, .sequence = 7, .forward_thread = 1});
  program.Op("aten::div.Tensor", {{3, 3}, {2, 2}}, {{4, 4, 0, 4}});
  program.Finish({});
  program.Finish({});
  const std::string report = Report(&program);
  EXPECT_THAT(report, HasSubstr("Call 5 aten::div.Tensor made the first infinity\n"
                                "  when        backward\n"
                                "  called by   SqrtBackward0 (call 4), torch.Tensor.backward (call 3)\n"
                                "  backward of call 1 aten::sqrt in gate (Layer)\n"));
}

TEST(FirstNan, SpreadToGradientAndParameter) {
  Program program;
  const auto facets = [](uint64_t tensor) {
    std::string bytes;
    for (const uint64_t number : {uint64_t{1}, tensor, uint64_t{3}}) AppendVarint(number, &bytes);
    AppendString("torch.nn.parameter.Parameter", &bytes);
    return bytes;
  };
  program.Module("fc");
  program.Begin("torch.nn.functional.linear", {{1, 1}, {9, 9}}, {}, facets(1));
  program.Op("aten::addmm", {{1, 1}, {9, 9}}, {{2, 2, 1}});
  program.Finish({{2, 2, 1}});
  program.Finish({{2, 2, 1}});
  program.Begin("torch.Tensor.backward", {{2, 2, 1}});
  program.Op("aten::mul.Tensor", {{2, 2, 1}}, {{3, 3, 1}});
  program.Finish({});
  program.Op("profiler::_record_function_enter_new", {}, {}, {TextValue("Optimizer.step#SGD.step")});
  program.Op("aten::add_.Tensor", {{9, 9}, {3, 3, 1}}, {{9, 9, 1}});
  program.Op("profiler::_record_function_exit._RecordFunction", {}, {});
  const std::string report = Report(&program);
  EXPECT_THAT(report, HasSubstr("It reached 2 of 2 later calls of level 2, 1 of them in backward\n"));
  EXPECT_THAT(report, HasSubstr("  gradient    call 4 aten::mul.Tensor, backward\n"));
  EXPECT_THAT(report,
              HasSubstr("  parameter   call 6 aten::add_.Tensor, the optimizer's step, a parameter of fc (Layer)\n"));
}

TEST(FirstNan, EachProcessByTime) {
  Program program;
  program.AddProcess(kRecorded);
  program.AddProcess({{"numbers", "all"}, {"levels", {2}}, {"role", "fork"}, {"pid", 5}});
  program.In(1, 0);
  program.Op("aten::log", {{1, 1}}, {{2, 2, 1}});
  program.In(0, 0);
  program.Op("aten::log", {{1, 1}}, {{2, 2, 1}});
  program.In(2, 0);
  program.Op("aten::relu", {{1, 1}}, {{2, 2}});
  const std::string report = Report(&program);
  EXPECT_LT(report.find("main-1\nCall 0"), report.find("main-0\nCall 1"));
  EXPECT_LT(report.find("main-0\nCall 1"), report.find("No NaN or infinity in "));
  NanOptions options;
  options.json = true;
  const json all = json::parse(Report(&program, options));
  EXPECT_TRUE(all["found"].get<bool>());
  ASSERT_EQ(all["traces"][0]["processes"].size(), 3u);
  const json& first = all["traces"][0]["processes"][0];
  EXPECT_EQ(first["findings"][0]["api"], "aten::log");
  EXPECT_EQ(first["findings"][0]["arguments"][0]["numbers"]["nan"], 0);
  EXPECT_EQ(first["findings"][0]["result"][0]["holds"], json({"nan"}));
  EXPECT_EQ(all["traces"][0]["processes"][2]["findings"], json::array());
}

TEST(FirstNan, EachTraceByTime) {
  const auto report = [](const json& early, const json& late) {
    Program a(late), b(early);
    a.Wait(1000);
    a.Op("aten::log", {{1, 1}}, {{2, 2, 1}});
    b.Op("aten::sqrt", {{1, 1}}, {{2, 2, 1}});
    std::ostringstream out;
    EXPECT_TRUE(*WriteNans({{&a, "A"}, {&b, "B"}}, {}, &out));
    return out.str();
  };
  constexpr char kUnknown[] = "Which of them came first isn't known";
  const std::string comparable = report(kRecorded, kRecorded);
  EXPECT_THAT(comparable, StartsWith("main-0 of B\nCall 0 aten::sqrt made"));
  EXPECT_THAT(comparable, HasSubstr("\nmain-0 of A\nCall 0 aten::log made"));
  EXPECT_THAT(comparable, Not(HasSubstr("Which of them")));
  // Of two machines that don't know the time of day.
  json other = kRecorded;
  other["host"] = "b";
  EXPECT_THAT(report(kRecorded, other), StartsWith("main-0 of A\n"));
  EXPECT_THAT(report(kRecorded, other), HasSubstr(kUnknown));
  json early = kRecorded;
  early["clock"]["origin_realtime_ns"] = other["clock"]["origin_realtime_ns"] = 1'700'000'000'000'000'000;
  EXPECT_THAT(report(early, other), StartsWith("main-0 of B\n"));
  EXPECT_THAT(report(early, other), HasSubstr("\nWhich of them came first is by the machines' time of day\n"));
}

// A forked process has its parent's memory.
TEST(FirstNan, AForkedProcessInherits) {
  Program program({{"numbers", "all"}, {"levels", {2}}, {"pid", 5}});
  program.AddProcess({{"numbers", "all"}, {"levels", {2}}, {"role", "fork"}, {"pid", 6}, {"forked_from", 5}});
  program.In(0, 0);
  program.Op("aten::log", {{1, 1}}, {{2, 2, 1}});
  program.In(1, 0);
  program.Op("aten::mul.Tensor", {{2, 2, 1}}, {{3, 3, 1}});
  EXPECT_EQ(Found(&program), "made 0 nan; 0 more, 0 meant\n0 more, 0 meant\n");
}

TEST(FirstNan, OnlySelectedCallsAreFindings) {
  Program program;
  program.Op("aten::log", {{1, 1}}, {{2, 2, 1}});
  program.Op("aten::mul.Tensor", {{2, 2, 1}}, {{3, 3, 1}});
  program.Op("aten::sqrt", {{1, 1}}, {{4, 4, 1}});
  NanOptions options;
  options.calls = NumberSet::Parse("1-").value();
  EXPECT_EQ(Found(&program, options), "made 2 nan; 0 more, 0 meant\n");
  EXPECT_THAT(Report(&program, options),
              HasSubstr("Not looked at: 1 call that begins one, which the options leave out\n"));
}

// Whatever is in the notes of a damaged log.
TEST(FirstNan, NotesOfAnyBytes) {
  std::minstd_rand random(7);
  for (int round = 0; round < 200; ++round) {
    Program program;
    const auto any = [&random](std::string bytes) {
      for (int i = 0; i < 3 && !bytes.empty(); ++i) bytes[random() % bytes.size()] = static_cast<char>(random());
      return bytes;
    };
    for (int i = 0; i < 20; ++i) {
      const T a = {random() % 5, random() % 5, random() % 2},
              b = {random() % 5, random() % 5, random() % 2, 0, random() % 2 == 0};
      program.Enter(MakeConfig(static_cast<int>(random() % 6), i % 2 == 0 ? "aten::_foreach_add_" : "c10d::send",
                               {TensorValue({static_cast<int64_t>(random()) << 40, 4}), TensorValue({4})}),
                    any("\1\0\1"), any(Notes({a, b})));
      program.Return({TensorValue({4})}, any(Notes({b})));
      program.SetWritten(any(Notes({b, a})));
    }
    NanOptions options;
    options.json = round % 2 == 0;
    EXPECT_NE(ReportOf(&program, options), "");
    EXPECT_NE(ReportOf(WithLaterNumbers(&program, static_cast<uint32_t>(random())).get(), options), "");
  }
}

// Of a killed program, or one that runs.
TEST(FirstNan, CallsWithoutAnEnd) {
  Program program;
  program.Begin("torch.outer", {{1, 1}});
  program.Op("aten::log", {{1, 1}}, {{2, 2, 1}});
  program.Begin("aten::mul.Tensor", {{2, 2, 1}});
  EXPECT_EQ(Found(&program), "made 1 nan; 0 more, 0 meant\n");
}

}  // namespace
}  // namespace torchtrace
