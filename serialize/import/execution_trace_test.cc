// testdata/imports/execution_trace has samples of every schema version, each with the
// expected result of importing it. To rewrite these:
//   TORCHTRACE_BLESS=$PWD bazel run //serialize/import:execution_trace_test

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

constexpr const char* kFolder = "testdata/imports/execution_trace/";
constexpr const char* kVersions[] = {"1.0.1", "1.0.2", "1.0.3", "1.0.4", "1.1.0", "1.1.1"};

std::string LinesOfExecution(std::string_view json) {
  return CallLines(MakeExecutionTraceSource(MemoryFile(json)).get());
}

std::vector<std::string> Notes(std::string_view json) {
  const std::unique_ptr<CallSource> source = MakeExecutionTraceSource(MemoryFile(json));
  CallLines(source.get());
  return source->notes();
}

std::string ExecutionTrace(std::string_view nodes) {
  return absl::StrCat(R"({"schema": "1.1.1-chakra.0.0.4", "pid": 7, "nodes": [)", std::string(nodes), "]}");
}

// A node of schema 1.1.1; without an operator schema it is not an operator.
std::string Node(int id, int parent, std::string_view name, std::string_view schema = "", std::string_view inputs = "",
                 int tid = 1) {
  return absl::StrCat(
      R"({"id": )", id, R"(, "name": ")", std::string(name), R"(", "ctrl_deps": )", parent, R"(, "inputs": {)",
      inputs.empty() ? R"("values": [], "shapes": [], "types": [], "strides": [])" : std::string(inputs),
      R"(}, "attrs": [{"name": "tid", "type": "uint64", "value": )", tid,
      R"(}, {"name": "op_schema", "type": "string", "value": ")", std::string(schema), R"("}]})");
}

// A node with one input.
std::string CallJson(std::string_view schema, std::string_view value, std::string_view shape, std::string_view type,
                     std::string_view strides) {
  return Node(2, 1, "op", schema,
              absl::StrCat(R"("values": [)", std::string(value), R"(], "shapes": [)", std::string(shape),
                           R"(], "types": [")", std::string(type), R"("], "strides": [)", std::string(strides), "]"));
}

TEST(ExecutionTrace, EverySchemaVersion) {
  for (const char* const version : kVersions) {
    const std::string path = absl::StrCat(kFolder, version, ".json");
    const std::string json = ReadTestFile(path);
    EXPECT_TRUE(LooksLikeExecutionTrace(json.substr(0, 4096))) << path;
    ExpectGolden(AllLines(MakeExecutionTraceSource(MemoryFile(json)).get()), absl::StrCat(kFolder, version, ".txt"));
  }
}

TEST(ExecutionTrace, OperatorsAreInTheOrderOfTheirEntryAndNested) {
  // Nodes are written at their ends: children first. 4 and 5 are not operators.
  const std::string json = ExecutionTrace(absl::StrCat(
      Node(2, 1, "[pytorch|profiler|execution_trace|thread]"), ",", Node(7, 6, "a::inner", "a::inner() -> ()"), ",",
      Node(6, 5, "a::outer", "a::outer() -> ()"), ",", Node(5, 4, "Backward"), ",", Node(4, 3, "evaluate"), ",",
      Node(3, 2, "a::around", "a::around() -> ()"), ",", Node(9, 8, "b::x", "b::x() -> ()", "", 2), ",",
      Node(8, 1, "thread", "", "", 2), ",", Node(10, 2, "a::last", "a::last() -> ()"), ",", Node(1, 1, "process")));
  EXPECT_EQ(LinesOfExecution(json),
            "a::around()\n"
            "  a::outer()\n"
            "    a::inner()\n"
            "b::x() @0.1\n"
            "a::last()\n");
}

TEST(ExecutionTrace, ParentsThatCannotBe) {
  // Parents: the node itself, a later one, a missing one (the observer leaves out calls that raised), one of another
  // thread, one that has ended.
  const std::string schema = "a::x() -> ()";
  EXPECT_EQ(LinesOfExecution(ExecutionTrace(absl::StrCat(
                Node(2, 2, "a::x", schema), ",", Node(3, 4, "a::x", schema), ",", Node(4, 99, "a::x", schema), ",",
                Node(5, 4, "a::x", schema, "", 2), ",", Node(6, 2, "a::x", schema)))),
            "a::x()\na::x()\na::x()\na::x() @0.1\na::x()\n");
}

TEST(ExecutionTrace, Values) {
  const struct {
    const char* type;  // in the schema
    const char* value;
    const char* shape;
    const char* value_type;
    const char* strides;
    const char* text;
  } kCases[] = {
      {"Tensor", R"([5,6,0,6,4,"cpu"])", "[2,3]", "Tensor(float)", "[3,1]", R"(Tensor([2, 3], "float32"))"},
      {"Tensor", R"([5,6,0,6,4,"cuda:1"])", "[2,3]", "Tensor(c10::BFloat16)", "[1,2]",
       R"(Tensor([2, 3], "bfloat16", device="cuda:1", stride=[1, 2]))"},
      {"Tensor", R"([5,6,0,6,4,"cpu"])", "[2,1]", "Tensor(c10::complex<float>)", "[1,7]",
       R"(Tensor([2, 1], "complex64"))"},
      {"Tensor", R"([5,6,0,6,4,"cpu"])", "[2,0]", "Tensor(unsigned char)", "[5,5]", R"(Tensor([2, 0], "uint8"))"},
      {"Tensor", "[5,6,0,6,4]", "[2]", "Tensor(c10::Newest)", "[1]", R"(Tensor([2], "Newest", device="unknown"))"},
      {"Tensor", R"([5,0,0,0,0,""])", "[]", "Tensor(nullptr (uninitialized))", "[]", "Tensor(undefined)"},
      {"Tensor", R"([5,0,0,0,0,""])", "[]", "Tensor(float)", "[]", R"(Tensor(None, "float32", device="unknown"))"},
      {"Tensor", R"([5,0,0,0,0,""])", "[2,2]", "Tensor(float)", "[0,0]",
       R"(Tensor([2, 2], "float32", device="unknown", layout="unknown"))"},
      {"Tensor?", R"("<None>")", "[]", "None", "[]", "None"},
      {"Tensor[]", R"([[5,6,0,6,4,"cpu"],[7,8,0,1,8,"cpu"]])", "[[3],[]]",
       "GenericList[Tensor(float),Tensor(long int)]", "[[2],[]]",
       R"(list[Tensor([3], "float32", stride=[2]), Tensor([], "int64")])"},
      {"Tensor?[]", R"([[5,0,0,0,0,""],"<None>"])", "[[],[]]", "GenericList[Tensor(nullptr (uninitialized)),None]",
       "[[],[]]", "list[Tensor(undefined), None]"},
      {"int[]", "[8,16]", "[[],[]]", "GenericList[Int,Int]", "[[],[]]", "list[8, 16]"},
      {"int[]", "[]", "[]", "GenericList[]", "[]", "list[]"},
      {"(int, float)[]", "[[1,0.5],[2,1.0]]", "[[[],[]],[[],[]]]", "GenericList[Tuple[Int,Double],Tuple[Int,Double]]",
       "[[[],[]],[[],[]]]", "list[tuple(1, 0.5), tuple(2, 1.0)]"},
      {"int", "-9223372036854775808", "[]", "Int", "[]", "-9223372036854775808"},
      {"int", "18446744073709551615", "[]", "Int", "[]", "18446744073709551615"},
      {"float", "0.100000", "[]", "Double", "[]", "0.1"},
      {"float", "3", "[]", "Double", "[]", "3.0"},
      {"float", R"("-inf")", "[]", "Double", "[]", "-inf"},
      {"float", R"("nan")", "[]", "Double", "[]", "nan"},
      {"bool", "true", "[]", "Bool", "[]", "True"},
      {"str", R"("a\"b\n")", "[]", "String", "[]", R"("a\"b\n")"},
      {"Device", R"("cuda:0")", "[]", "Device", "[]", R"(torch.device("cuda:0"))"},
      {"ScalarType", "6", "[]", "Int", "[]", "torch.float32"},
      {"ScalarType?", "45", "[]", "Int", "[]", "torch.float4_e2m1fn_x2"},
      {"ScalarType", "1000", "[]", "Int", "[]", "torch.unknown"},
      {"ScalarType[]", "[15,1]", "[[],[]]", "GenericList[Int,Int]", "[[],[]]", "list[torch.bfloat16, torch.int8]"},
      {"Layout?", "7", "[]", "Int", "[]", "torch.jagged"},
      {"MemoryFormat?", "2", "[]", "Int", "[]", "torch.channels_last"},
      {"Scalar", R"("<ComplexDouble>")", "[]", "ComplexDouble", "[]", R"(object("ComplexDouble"))"},
      {"Generator?", R"("<Generator>")", "[]", "Generator", "[]", R"(torch.Generator("unknown"))"},
      {"SymInt", R"("<SymInt>")", "[]", "SymInt", "[]", "SymInt"},
      {"Any", R"("<Object>")", "[]", "Object", "[]", R"(object("torch.ScriptObject"))"},
      {"Any", "{}", "[]", "GenericDict", "[]", R"(object("GenericDict"))"},
  };
  for (const auto& test : kCases) {
    const std::string json = ExecutionTrace(
        CallJson(absl::StrCat("a::x(", test.type, " v) -> ()"), test.value, test.shape, test.value_type, test.strides));
    EXPECT_EQ(LinesOfExecution(json), absl::StrCat("a::x(", test.text, ")\n")) << json;
  }
}

TEST(ExecutionTrace, ArgumentsAsTheSchemaHasThem) {
  const auto lines = [](std::string_view schema, std::string_view values, std::string_view types) {
    std::string shapes;
    for (const char c : values) {
      if (c == ',') shapes += "[],";
    }
    return LinesOfExecution(ExecutionTrace(Node(2, 1, "a::x", schema,
                                                absl::StrCat(R"("values": [)", std::string(values), R"(], "types": [)",
                                                             std::string(types), R"(], "shapes": [)", shapes, "[]]"))));
  };
  // The overload, keywords, and trailing defaults left out.
  EXPECT_EQ(lines("a::x.Over(int a, int b=2, *, int c=3, ScalarType? d=None) -> ()", R"(1, 2, 4, 6)",
                  R"("Int","Int","Int","Int")"),
            "a::x.Over(1, c=4, d=torch.float32)\n");
  EXPECT_EQ(lines("a::x(int a=1, int b=2) -> ()", "1, 3", R"("Int","Int")"), "a::x(1, 3)\n");
  // Six decimals: 1e-12 is written like 0, 0 is not what the schema has.
  EXPECT_EQ(lines("a::x(float a=9.9999999999999998e-13, float b=1.0000000000000001e-05) -> ()", "0.000000, 0.000010",
                  R"("Double","Double")"),
            "a::x()\n");
  EXPECT_EQ(lines("a::x(float a=0.5, float b=0.5) -> ()", "0.500001, 0.500000", R"("Double","Double")"),
            "a::x(0.500001)\n");
  // More values than the schema has, and a text that is not a schema: no value becomes a keyword argument.
  EXPECT_EQ(lines("a::x(int a, *, int b=2) -> ()", "1, 2, 3", R"("Int","Int","Int")"), "a::x(1, 2, 3)\n");
  EXPECT_EQ(lines("what is this", "1, 2", R"("Int","Int")"), "a::x(1, 2)\n");
  const std::vector<std::string> notes = Notes(ExecutionTrace(Node(2, 1, "a::x", "what is this")));
  EXPECT_EQ(notes.back(), "file.json has 1 calls with a schema that can't be read: their arguments are all positional");
}

TEST(ExecutionTrace, OperatorsWithoutASchema) {
  const std::string inputs =
      R"x("values": [[5,6,0,6,4,"cpu"], 6], "shapes": [[2], []], "types": ["Tensor(float)", "Int"])x";
  const std::string scope = R"(, {"name": "scope", "type": "uint64", "value": 7}]})";
  std::string label = Node(9, 1, "my::label");
  label.replace(label.size() - 2, 2, scope);
  const std::string json = ExecutionTrace(
      absl::StrCat(Node(2, 1, "a::x", "", inputs), ",", Node(3, 2, "a::y", "a::y.Over(int n) -> ()"), ",",
                   Node(4, 1, "a::z", "", "\"n\": 1"), ",", label, ",", Node(10, 1, "torch::autograd::AccumulateGrad"),
                   ",", Node(11, 1, "a::none", "a::none() -> ()")));
  // Arguments are unknown if the schema has some but the node has none, or if they can't be read.
  EXPECT_EQ(LinesOfExecution(json), "a::x(Tensor([2], \"float32\"), 6)\n  a::y.Over(...)\na::z(...)\na::none()\n");
  const std::unique_ptr<CallSource> source = MakeExecutionTraceSource(MemoryFile(json));
  CallLines(source.get());
  EXPECT_EQ(source->notes().at(1), "file.json has 2 calls whose arguments it doesn't have");
  EXPECT_EQ(
      source->notes().at(2),
      "file.json has 2 calls of operators without a schema: their overloads aren't known, their arguments are all "
      "positional, and enums are numbers");
  EXPECT_EQ(source->processes().at(0).metadata["schemas"],
            nlohmann::json({{"a::none", "a::none() -> ()"}, {"a::y.Over", "a::y.Over(int n) -> ()"}}));
}

TEST(ExecutionTrace, WhatIsCutIsReadAsFarAsItGoes) {
  const std::string json =
      ExecutionTrace(absl::StrCat(Node(2, 1, "a::x", "a::x() -> ()"), ",\n", Node(3, 1, "a::y", "a::y() -> ()")));
  const size_t first_end = json.find(",\n");
  size_t calls = 0;
  for (size_t size = json.find("[") + 1; size < json.size(); ++size) {
    const std::string lines = LinesOfExecution(json.substr(0, size));
    calls = lines.empty() ? 0 : lines == "a::x()\n" ? 1 : 2;
    EXPECT_EQ(calls, size < first_end ? 0u : size < json.size() - 2 ? 1u : 2u) << size;
    EXPECT_EQ(Notes(json.substr(0, size))[0],
              absl::StrCat("file.json ends at offset ", size, " in the middle; ", calls, " whole nodes were read"));
  }
}

TEST(ExecutionTrace, Errors) {
  const std::string op = "a::x(Tensor a) -> ()";
  const struct {
    std::string json;
    const char* error;
  } kCases[] = {
      {"", "file.json: the file ends at offset 0 without \"nodes\", which an execution trace has"},
      {"{}", "file.json: the object ends at offset 2 without \"nodes\", which an execution trace has"},
      {"[]", "file.json: offset 0: expected a JSON object with \"nodes\""},
      {R"({"schema": "1.1.1", "no)",
       "file.json: the file ends at offset 23 without \"nodes\", which an execution trace has"},
      {R"({"schema": 1, "nodes": []})", "file.json: \"schema\" must be a string"},
      {R"({"schema": "2.0.0", "nodes": []})",
       "file.json: execution trace of schema \"2.0.0\"; known are 1.0.1 to 1.1.1"},
      {R"({"nodes": 3})", "file.json: offset 11: \"nodes\" must be an array"},
      {ExecutionTrace("3"), "file.json: the node at offset 54: expected an object"},
      {ExecutionTrace(R"({"id": 2})"), "file.json: node 2 (offset 53): expected a \"name\""},
      {ExecutionTrace(R"({"name": "a"})"), "file.json: the node at offset 53: expected an integer \"id\""},
      {ExecutionTrace(R"({"name": "a", "id": -1})"), "file.json: the node at offset 53: expected an integer \"id\""},
      {ExecutionTrace(R"({"name": "a", "id": 3})"),
       "file.json: node 3 (offset 53): expected its parent's id as \"parent\""},
      {ExecutionTrace(R"({"name": "a", "id": 3, "attrs": []})"),
       "file.json: node 3 (offset 53): expected its parent's id as \"ctrl_deps\""},
      {ExecutionTrace(R"({"name": "a", "id": 3, "ctrl_deps": 1, "attrs": 7})"),
       "file.json: node 3 (offset 53): expected a list of \"attrs\""},
      {ExecutionTrace(R"({"name": "a", "id": 3, "ctrl_deps": 1, "attrs": [1]})"),
       "file.json: node 3 (offset 53): expected a \"name\" in each of \"attrs\""},
      {ExecutionTrace(Node(2, 1, "a::x", op, "\"x\": 1")),
       "file.json: node 2 (offset 53): expected a list of input values"},
      {ExecutionTrace(Node(2, 1, "a::x", op, R"("values": [1], "types": ["Int"], "shapes": [])")),
       "file.json: node 2 (offset 53): expected as many shapes and types of inputs as values (1), found 0 and 1"},
      {ExecutionTrace(CallJson(op, "7", "[]", "Tensor(float)", "[]")),
       "file.json: node 2 (offset 53): input 0: expected a tensor as [id, storage id, offset, elements, bytes of one, "
       "device]"},
      {ExecutionTrace(CallJson(op, R"([1,2,0,1,4,"cpu"])", R"(["a"])", "Tensor(float)", "[]")),
       "file.json: node 2 (offset 53): input 0: expected a tensor's shape as a list of integers"},
      {ExecutionTrace(CallJson(op, R"([1,2,0,1,4,"cpu"])", "[1]", "Tensor(float)", "7")),
       "file.json: node 2 (offset 53): input 0: expected a tensor's strides as a list of integers"},
      {ExecutionTrace(CallJson(op, "\"x\"", "[]", "Int", "[]")),
       "file.json: node 2 (offset 53): input 0: expected a value of type Int"},
      {ExecutionTrace(CallJson(op, "\"x\"", "[]", "Double", "[]")),
       "file.json: node 2 (offset 53): input 0: expected a number, found \"x\""},
      {ExecutionTrace(CallJson(op, "7", "[]", "GenericList[Int]", "[]")),
       "file.json: node 2 (offset 53): input 0: expected a list of values"},
      {ExecutionTrace(CallJson(op, "[1, 2]", "[]", "GenericList[Int]", "[]")),
       "file.json: node 2 (offset 53): input 0: expected as many types as list items (2)"},
  };
  for (const auto& test : kCases)
    EXPECT_EQ(LinesOfExecution(test.json), absl::StrCat("error: ", test.error, "\n")) << test.json;
}

TEST(ExecutionTrace, LooksLikeOne) {
  EXPECT_TRUE(LooksLikeExecutionTrace(R"(  {"schema": "1.0.1", "nodes": [)"));
  EXPECT_FALSE(LooksLikeExecutionTrace(R"({"traceEvents": [{"name": "nodes", "schema": "nodes"}]})"));
  EXPECT_FALSE(LooksLikeExecutionTrace(R"({"aten.add.Tensor": [{"count": 1}]})"));
  EXPECT_FALSE(LooksLikeExecutionTrace("torch.add(1, 2)"));
  EXPECT_FALSE(LooksLikeExecutionTrace(""));
}

}  // namespace
}  // namespace torchtrace
