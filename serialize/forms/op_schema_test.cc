#include "serialize/forms/op_schema.h"

#include <optional>
#include <string>
#include <string_view>

#include "gtest/gtest.h"
#include "serialize/forms/forms.h"

namespace torchtrace {
namespace {

// "name: type name [*] [= default], ..."
std::string Describe(std::string_view text) {
  const std::optional<OpSchema> schema = ParseOpSchema(text);
  if (!schema) return "none";
  std::string out = schema->name + ":";
  for (const SchemaArgument& argument : schema->arguments) {
    out += " {" + argument.type + " " + argument.name;
    if (argument.keyword_only) out += " *";
    if (argument.list_size != 0) out += " of " + std::to_string(argument.list_size);
    if (argument.int_meaning != IntMeaning::kInt) out += " enum";
    if (argument.default_value) out += " = " + FormatValue(*argument.default_value);
    out += "}";
  }
  return out;
}

TEST(OpSchema, Parse) {
  const struct {
    const char* text;
    const char* expected;
  } kCases[] = {
      {"aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor",
       "aten::add.Tensor: {Tensor self} {Tensor other} {Scalar alpha * = 1}"},
      {"aten::ones() -> Tensor", "aten::ones:"},
      {"aten::conv2d(Tensor input, Tensor? bias=None, SymInt[2] stride=[1, 1], int[2] padding=0) -> Tensor",
       "aten::conv2d: {Tensor input} {Tensor? bias = None} {SymInt[2] stride of 2 = list[1, 1]} {int[2] padding of 2 = "
       "0}"},
      {"aten::to.dtype(Tensor(a) self, ScalarType dtype, Layout? layout=None, MemoryFormat? memory_format=0) -> "
       "Tensor(a)",
       "aten::to.dtype: {Tensor(a) self} {ScalarType dtype enum} {Layout? layout enum = None} "
       "{MemoryFormat? memory_format enum = 0}"},
      {"aten::split(Tensor(a -> *) self, (int, str)[] pairs, Dict(str, Tensor) d, Tensor(a!)[] out) -> Tensor(a)[]",
       "aten::split: {Tensor(a -> *) self} {(int, str)[] pairs} {Dict(str, Tensor) d} {Tensor(a!)[] out}"},
      {R"(a::f(str a="\"'\\, ", str b='x', float c=1., float d=-1e-05, bool e=False) -> ())",
       R"(a::f: {str a = "\"'\\, "} {str b = "x"} {float c = 1.0} {float d = -1e-05} {bool e = False})"},
      {"prim::Print(...) -> ()", "prim::Print:"},
      {"a::f(int a, ...) -> ...", "a::f: {int a}"},
      {"a::f(int a=what) -> ()", "a::f: {int a}"},
      {"", "none"},
      {"aten::add", "none"},
      {"add(Tensor self) -> Tensor", "none"},
      {"a::f(Tensor) -> Tensor", "none"},
      {"a::f(Tensor self", "none"},
      {"a::f(Tensor[ self) -> Tensor", "none"},
  };
  for (const auto& test : kCases) EXPECT_EQ(Describe(test.text), test.expected);
}

TEST(OpSchema, PrintedValues) {
  const struct {
    const char* text;
    const char* expected;
  } kCases[] = {
      {"None", "None"},
      {"True", "True"},
      {"-7", "-7"},
      {"1.", "1.0"},
      {"-0.", "-0.0"},
      {"1e-05", "1e-05"},
      {"inf", "inf"},
      {"-inf", "-inf"},
      {"nan", "nan"},
      {"1.+2.j", "complex(1.0, 2.0)"},
      {"-1e-05-2e+20j", "complex(-1e-05, -2e+20)"},
      {"[]", "list[]"},
      {"[1, [2, 3.5]]", "list[1, list[2, 3.5]]"},
      {"\"mean\"", "\"mean\""},
      {"99999999999999999999", "1e+20"},
      {"", ""},
      {"x", ""},
      {"[1, x]", ""},
      {"[1,]", "list[1]"},
      {"j", ""},
      {"1 2", ""},
      {"<None>", ""},
  };
  for (const auto& test : kCases) {
    const std::optional<Value> value = ParsePrintedValue(test.text);
    EXPECT_EQ(value ? FormatValue(*value) : "", test.expected) << test.text;
  }
  EXPECT_FALSE(ParsePrintedValue(std::string(1 << 20, '[') + std::string(1 << 20, ']')));
}

TEST(OpSchema, ListsThatAreOneNumberInTheSchema) {
  const std::optional<OpSchema> schema = ParseOpSchema("a::f(int[2] a=1) -> ()");
  ASSERT_TRUE(schema);
  for (const char* const text : {"[1, 1]", "[1]", "[1, 2]", "[]", "1"}) {
    const Config config = CallOfSchema(*schema, {*ParsePrintedValue(text)}, false);
    const bool is_default = std::string(text) == "[1, 1]" || std::string(text) == "1";
    EXPECT_EQ(config.args.size(), is_default ? 0u : 1u) << text;
  }
}

TEST(OpSchema, CppNamesOfDtypes) {
  EXPECT_EQ(DtypeOfCppName("float"), "float32");
  EXPECT_EQ(DtypeOfCppName("long int"), "int64");
  EXPECT_EQ(DtypeOfCppName("long"), "int64");
  EXPECT_EQ(DtypeOfCppName("short unsigned int"), "uint16");
  EXPECT_EQ(DtypeOfCppName("c10::Half"), "float16");
  EXPECT_EQ(DtypeOfCppName("c10::complex<c10::Half>"), "complex32");
  EXPECT_EQ(DtypeOfCppName("torch::headeronly::Float8_e4m3fn"), "float8_e4m3fn");
  EXPECT_EQ(DtypeOfCppName("c10::quint8"), "quint8");
  EXPECT_EQ(DtypeOfCppName("c10::dummy_uint1_7_t<1>"), "uint1");
  EXPECT_EQ(DtypeOfCppName("c10::dummy_int1_7_t<7>"), "int7");
  EXPECT_EQ(DtypeOfCppName("nullptr (uninitialized)"), "");
}

}  // namespace
}  // namespace torchtrace
