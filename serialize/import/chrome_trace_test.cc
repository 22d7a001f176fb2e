// testdata/imports/chrome_trace has a trace by PyTorch 2.13 and the expected
// result of importing it. To rewrite that:
//   TORCHTRACE_BLESS=$PWD bazel run //serialize/import:chrome_trace_test

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "serialize/import/importer.h"
#include "serialize/testing/fake_trace.h"

namespace torchtrace {
namespace {

std::string LinesOfChrome(std::string_view json) { return CallLines(MakeChromeTraceSource(MemoryFile(json)).get()); }

std::string ChromeTrace(std::string_view events) {
  return absl::StrCat(R"({"deviceProperties": [], "traceEvents": [)", std::string(events), "]}");
}

std::string Op(std::string_view name, double start, double duration, std::string_view args = "", int tid = 1) {
  return absl::StrCat(R"({"ph": "X", "cat": "cpu_op", "name": ")", std::string(name), R"(", "pid": 7, "tid": )", tid,
                      R"(, "ts": )", start, R"(, "dur": )", duration, R"(, "args": {)", std::string(args), "}}");
}

// The line of a call with one input.
std::string Argument(std::string_view type, std::string_view dims, std::string_view strides,
                     std::string_view concrete) {
  return LinesOfChrome(ChromeTrace(Op("a::x", 1, 1,
                                      absl::StrCat(R"("Input type": [")", std::string(type), R"("], "Input Dims": [)",
                                                   std::string(dims), R"(], "Input Strides": [)", std::string(strides),
                                                   R"(], "Concrete Inputs": [")", std::string(concrete), R"("])"))));
}

TEST(ChromeTrace, OfPyTorch213) {
  const std::string path = "testdata/imports/chrome_trace/2.13.json";
  const std::string json = ReadTestFile(path);
  EXPECT_TRUE(LooksLikeChromeTrace(json.substr(0, 4096)));
  ExpectGolden(AllLines(MakeChromeTraceSource(MemoryFile(json)).get()), "testdata/imports/chrome_trace/2.13.txt");
}

TEST(ChromeTrace, CallsNestAsTheirTimesDo) {
  // Events may have any order in the file. At equal times the one that the profiler numbered first is the outer one.
  EXPECT_EQ(LinesOfChrome(ChromeTrace(
                absl::StrCat(Op("a::inner", 2, 1, R"("Ev Idx": 3)"), ",", Op("a::around", 1, 4, R"("Ev Idx": 1)"), ",",
                             Op("a::same", 1, 4, R"("Ev Idx": 2)"), ",", Op("b::other", 2, 0.5, "", 2), ",",
                             Op("a::next", 5, 1), ",", Op("a::point", 5.5, 0)))),
            "a::around(...) [1000, 5000]\n"
            "  a::same(...) [1000, 5000]\n"
            "    a::inner(...) [2000, 3000]\n"
            "b::other(...) @0.1 [2000, 2500]\n"
            "a::next(...) [5000, 6000]\n"
            "  a::point(...) [5500, 5500]\n");
}

TEST(ChromeTrace, OverlapIsShortenedAndTold) {
  const std::unique_ptr<CallSource> source = MakeChromeTraceSource(MemoryFile(
      ChromeTrace(absl::StrCat(Op("a::x", 1, 2, R"("Input Dims": [], "Input type": [])"), ",", Op("a::y", 2, 5)))));
  EXPECT_EQ(CallLines(source.get()), "a::x() [1000, 3000]\n  a::y(...) [2000, 3000]\n");
  EXPECT_EQ(source->notes().back(),
            "file.json has 1 calls that ended after the call around them; they are shown to end with it");
}

TEST(ChromeTrace, OtherEventsAreLeftOut) {
  EXPECT_EQ(LinesOfChrome(
                ChromeTrace(absl::StrCat(R"({"ph": "X", "cat": "python_function", "name": "a::x", "ts": 0, "dur": 9},)",
                                         R"({"ph": "X", "cat": "user_annotation", "name": "a::x", "ts": 0, "dur": 9},)",
                                         R"({"ph": "s", "cat": "cpu_op", "name": "a::x"}, {"ph": "M"}, {},)",
                                         Op("autograd::engine::evaluate_function: AddBackward0", 1, 1), ",",
                                         Op("torch::autograd::AccumulateGrad", 1, 1), ",", Op("AddBackward0", 1, 1),
                                         ",", Op("record_param_comms", 1, 1), ",", Op("::", 1, 1), ",", Op("a::", 1, 1),
                                         ",", Op("::a", 1, 1), ",", Op("aten::add", 1, 1)))),
            "aten::add(...) [1000, 2000]\n");
}

TEST(ChromeTrace, Arguments) {
  const struct {
    const char* type;
    const char* dims;
    const char* strides;
    const char* concrete;
    const char* text;
  } kCases[] = {
      {"float", "[2, 3]", "[3, 1]", "", R"(Tensor([2, 3], "float32"))"},
      {"c10::Half", "[2, 3]", "[1, 2]", "", R"(Tensor([2, 3], "float16", stride=[1, 2]))"},
      {"float", "[2, 2]", "[]", "", R"(Tensor([2, 2], "float32", layout="unknown"))"},
      {"TensorList", "[[2], []]", "[[3], []]", "",
       R"(list[Tensor([2], "unknown", stride=[3]), Tensor([], "unknown")])"},
      {"TensorList", "[]", "[]", "", R"(object("TensorList"))"},
      {"Scalar", "[]", "[]", "-100", "-100"},
      {"Scalar", "[]", "[]", "0.", "0.0"},
      {"Scalar", "[]", "[]", "1.0000000000000001e-05", "1e-05"},
      {"Scalar", "[]", "[]", "-inf", "-inf"},
      {"Scalar", "[]", "[]", "False", "False"},
      {"Scalar", "[]", "[]", "1.-2.j", "complex(1.0, -2.0)"},
      {"Scalar", "[]", "[]", "s0 + 1", R"(object("Scalar"))"},
      {"ScalarList", "[]", "[]", "[8, 16]", "list[8, 16]"},
      {"ScalarList", "[]", "[]", "[0.5, True]", "list[0.5, True]"},
      {"ScalarList", "[]", "[]", "[]", "list[]"},
      {"", "[]", "[]", "", R"(object("unknown"))"},
      {"Int", "[]", "[]", "", R"(object("Int"))"},
      {"GenericList", "[]", "[]", "", R"(object("GenericList"))"},
  };
  for (const auto& test : kCases) {
    EXPECT_EQ(Argument(test.type, test.dims, test.strides, test.concrete),
              absl::StrCat("a::x(", test.text, ") [1000, 2000]\n"));
  }
}

TEST(ChromeTrace, TellsWhoseArgumentsAreNotKnown) {
  const std::string known = Op("a::x", 1, 1, R"("Input type": [], "Input Dims": [])"), unknown = Op("a::y", 3, 1);
  const auto note = [](const std::string& events) {
    const std::unique_ptr<CallSource> source = MakeChromeTraceSource(MemoryFile(ChromeTrace(events)));
    CallLines(source.get());
    return source->notes().at(0);
  };
  EXPECT_EQ(note(unknown + "," + unknown)
                .find("file.json lacks overloads (aten::add is any of aten::add.*), outcomes "
                      "and the arguments of all calls, which record_shapes=True makes the "
                      "profiler write;"),
            0u);
  EXPECT_NE(note(known + "," + unknown).find(" and the arguments of 1 call;"), std::string::npos);
  EXPECT_EQ(note(known).find("the arguments"), std::string::npos);
}

// A process starts at its first event of any kind, relative to the base time.
TEST(ChromeTrace, StartsWithTheFirstEvent) {
  const auto start = [](std::string_view base, std::string_view ts) {
    const std::unique_ptr<CallSource> source = MakeChromeTraceSource(MemoryFile(absl::StrCat(
        "{", std::string(base),
        R"("traceEvents": [{"ph": "X", "cat": "python_function", "name": "f", "pid": 7, "ts": )", std::string(ts),
        R"(, "dur": 9000000}, {"ph": "i", "pid": 7, "ts": 0}, {"ph": "X", "pid": 8, "ts": 1},)",
        R"({"ph": "X", "cat": "cpu_op", "name": "a::x", "pid": 7, "tid": 1, "ts": 1700000009000000, "dur": 1}]})")));
    CallLines(source.get());
    return source->processes().at(0).metadata["clock"].value("origin_realtime_ns", int64_t{0});
  };
  EXPECT_EQ(start(R"("baseTimeNanoseconds": 1700000000000000000, )", "4000000000.5"), 1700004000000000500);
  // Without a base the times are the time of day or of an unknown clock.
  EXPECT_EQ(start("", "1700000005000000"), 1700000005000000000);
  EXPECT_EQ(start("", "5000000"), 0);
}

TEST(ChromeTrace, DevicesAreKnownOnlyWithoutAccelerator) {
  const std::string op = Op("a::x", 1, 1, R"("Input type": ["float"], "Input Dims": [[]])");
  EXPECT_EQ(LinesOfChrome(ChromeTrace(op)), "a::x(Tensor([], \"float32\")) [1000, 2000]\n");
  for (const std::string& json :
       {absl::StrCat(R"({"deviceProperties": [{"id": 0}], "traceEvents": [)", op, "]}"), absl::StrCat("[", op, "]")}) {
    EXPECT_EQ(LinesOfChrome(json), "a::x(Tensor([], \"float32\", device=\"unknown\")) [1000, 2000]\n");
  }
}

TEST(ChromeTrace, SeveralProcesses) {
  const std::unique_ptr<CallSource> source = MakeChromeTraceSource(MemoryFile(absl::StrCat(
      R"({"host_name": "h", "distributedInfo": {"rank": 3, "world_size": 8}, "baseTimeNanoseconds": 1700000000000000000,
          "traceEvents": [{"ph": "M", "name": "thread_name", "pid": 8, "tid": 1, "args": {"name": "main"}},)",
      Op("a::x", 1, 1), ",",
      R"({"ph": "X", "cat": "cpu_op", "name": "a::y", "pid": 8, "tid": 1, "ts": 0.0005, "dur": 1})", "]}")));
  EXPECT_EQ(CallLines(source.get()), "a::y(...) [1, 1001]\na::x(...) @1.0 [1000, 2000]\n");
  ASSERT_EQ(source->processes().size(), 2u);
  EXPECT_EQ(
      source->processes()[0].metadata.dump(),
      R"({"clock":{"origin_monotonic_ns":1,"origin_realtime_ns":1700000000000000001,"origin_units":1,"unit_ns":1},)"
      R"("dialect":"torch","file_end":"whole","host":"h","levels":[2],"pid":8,"rank":3,"world_size":8})");
  EXPECT_EQ(source->processes()[0].thread_names, std::vector<std::string>{"main"});
  EXPECT_EQ(source->processes()[1].metadata["pid"], 7);
  EXPECT_EQ(source->processes()[1].thread_names, std::vector<std::string>{"thread 1"});
}

TEST(ChromeTrace, WhatIsCutIsReadAsFarAsItGoes) {
  const std::string json = absl::StrCat("[", Op("a::x", 1, 1), ",\n", Op("a::y", 2, 1));
  EXPECT_EQ(LinesOfChrome(json), "a::x(...) [1000, 2000]\na::y(...) [2000, 3000]\n");
  const std::unique_ptr<CallSource> source = MakeChromeTraceSource(MemoryFile(json.substr(0, json.size() - 1)));
  EXPECT_EQ(CallLines(source.get()), "a::x(...) [1000, 2000]\n");
  EXPECT_EQ(source->notes()[0],
            absl::StrCat("file.json ends at offset ", json.size() - 1, " in the middle; 1 whole events were read"));
}

TEST(ChromeTrace, Errors) {
  const struct {
    std::string json;
    const char* error;
  } kCases[] = {
      {"", "the file ends at offset 0 without \"traceEvents\", which a Chrome trace has"},
      {R"({"schemaVersion": 1, "tra)", "the file ends at offset 25 without \"traceEvents\", which a Chrome trace has"},
      {"3", "offset 0: expected a JSON object with \"traceEvents\""},
      {R"([{"ph": "X", "cat": "gpu", "name": "a::x"}])",
       "none of its 1 events is a cpu_op, which is what PyTorch's profiler writes for an operator"},
      {"[3]", "the event at offset 2: expected an object"},
      {R"([{"ph": "X", "cat": "cpu_op", "name": "a::x"}])",
       "the event at offset 1: expected a number of microseconds as \"ts\""},
      {R"([{"ph": "X", "cat": "cpu_op", "name": "a::x", "ts": 1, "dur": "2"}])",
       "the event at offset 1: expected a number of microseconds as \"dur\""},
      {R"([{"ph": "X", "cat": "cpu_op", "name": "a::x", "ts": 1e300, "dur": 2}])",
       "the event at offset 1: expected a number of microseconds as \"ts\""},
      {absl::StrCat("[", Op("a::x", 1, 1, R"("Input Dims": [[]])"), "]"),
       "the event at offset 1: expected \"Input Dims\" and \"Input type\" as lists of the same length"},
      {absl::StrCat("[", Op("a::x", 1, 1, R"("Input Dims": [[]], "Input type": [4])"), "]"),
       "the event at offset 1: expected a name in \"Input type\" for input 0"},
      {absl::StrCat("[", Op("a::x", 1, 1, R"("Input Dims": [["a"]], "Input type": ["float"])"), "]"),
       "the event at offset 1: expected lists of integers in \"Input Dims\" and \"Input Strides\" for input 0"},
  };
  for (const auto& test : kCases) {
    EXPECT_EQ(LinesOfChrome(test.json), absl::StrCat("error: file.json: ", test.error, "\n")) << test.json;
  }
  EXPECT_EQ(LinesOfChrome("[]"), "");
}

TEST(ChromeTrace, LooksLikeOne) {
  EXPECT_TRUE(LooksLikeChromeTrace(R"([{"name": "x", "ph": "X", "pid": 1}])"));
  EXPECT_TRUE(LooksLikeChromeTrace("\n{\n  \"schemaVersion\": 1, \"deviceProperties\": [{"));
  EXPECT_FALSE(LooksLikeChromeTrace(R"([{"api": "x", "args": [1]}])"));
  EXPECT_FALSE(LooksLikeChromeTrace(R"({"schema": "1.1.1", "nodes": []})"));
  EXPECT_FALSE(LooksLikeChromeTrace(""));
}

}  // namespace
}  // namespace torchtrace
