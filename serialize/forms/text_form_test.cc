#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "serialize/forms/forms.h"
#include "serialize/model/value.h"
#include "serialize/testing/fake_trace.h"
#include "serialize/testing/value_samples.h"

namespace torchtrace {
namespace {

TEST(TextForm, EveryKind) {
  for (const ValueSample& sample : ValueSamples()) {
    EXPECT_EQ(FormatValue(SampleConfig(sample, "f").args[0]), sample.text) << sample.name;
  }
}

TEST(TextForm, DifferentValuesDiffer) {
  std::map<std::string, std::string> seen;
  for (const ValueSample& sample : ValueSamples()) {
    const auto [at, fresh] = seen.emplace(sample.text, sample.name);
    EXPECT_TRUE(fresh) << sample.name << " and " << at->second << " are both " << sample.text;
  }
}

TEST(TextForm, FoldsWhatIsAlike) {
  const auto list = [](std::vector<Value> items) {
    return FormatFoldedConfig(MakeConfig(1, "f", {ItemsValue(ValueTag::kList, std::move(items))}));
  };
  std::vector<Value> tensors(3, TensorValue({2, 3}));
  EXPECT_EQ(list(tensors),
            R"(f(list[Tensor([2, 3], "float32"), Tensor([2, 3], "float32"), Tensor([2, 3], "float32")]))");
  tensors.push_back(TensorValue({2, 3}));
  EXPECT_EQ(list(tensors), R"(f(list[4 x Tensor([2, 3], "float32")]))");
  tensors.front() = TensorValue({5, 3});
  EXPECT_EQ(list(tensors), R"(f(list[4 x Tensor([*, 3], "float32")]))");
  tensors.front() = TensorValue({3});
  tensors.push_back(IntValue(1));
  EXPECT_EQ(list(tensors), R"(f(list[4 x Tensor([..], "float32"), 1]))");
  std::vector<Value> numbers;
  for (int i = 0; i < 7; ++i) numbers.push_back(IntValue(i));
  EXPECT_EQ(list(numbers), "f(list[0, 1, 2, 3, 4, 5, 6])");
  for (int i = 0; i < 5; ++i) numbers.push_back(IntValue(9));
  EXPECT_EQ(list(numbers), "f(list[0, 1, 2, 3, 4, 5, ... 6 more])");
}

TEST(TextForm, BytesAreTextWhereTheyCanBe) {
  Value value = TextValue("\x1f ~\x7f");
  value.tag = ValueTag::kBytes;
  EXPECT_EQ(FormatValue(value), R"(b"\x1f ~\x7f")");
}

TEST(TextForm, StaysOnOneLine) {
  for (const ValueSample& sample : ValueSamples()) {
    for (const char c : sample.text) EXPECT_GE(static_cast<unsigned char>(c), 0x20) << sample.name;
  }
}

TEST(TextForm, TheSeedExample) {
  Config config;
  config.api = "torch.randn";
  config.args = {IntValue(2), IntValue(3)};
  config.kwargs = {{"device", TextValue("cpu")}};
  EXPECT_EQ(FormatConfig(config), R"(torch.randn(2, 3, device="cpu"))");

  config.api = "torch.add";
  config.args = {TensorValue({2, 3}), TensorValue({2, 3})};
  config.kwargs = {{"alpha", IntValue(10)}};
  EXPECT_EQ(FormatConfig(config), R"(torch.add(Tensor([2, 3], "float32"), Tensor([2, 3], "float32"), alpha=10))");
}

TEST(TextForm, CallsWithoutArgumentsOrOnlyKeywords) {
  Config config;
  config.api = "f";
  EXPECT_EQ(FormatConfig(config), "f()");
  config.kwargs = {{"tensor", IntValue(1)}, {"not a name", IntValue(2)}, {"größe", IntValue(3)}};
  EXPECT_EQ(FormatConfig(config), R"(f(tensor=1, "not a name"=2, "größe"=3))");
}

TEST(TextForm, NamesThatWouldBreakTheLineAreQuoted) {
  Config config;
  config.api = "m.f.<locals>.g";
  EXPECT_EQ(FormatConfig(config), "m.f.<locals>.g()");
  config.api = "a(b\n";
  EXPECT_EQ(FormatConfig(config), R"("a(b\n"())");
  config.api = "";
  EXPECT_EQ(FormatConfig(config), R"(""())");
}

TEST(TextForm, FloatsReadBackAsTheSameDouble) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 200'000; ++i) {
    const uint64_t bits = random();
    double value;
    std::memcpy(&value, &bits, sizeof value);
    if (value != value) continue;
    const std::string text = FormatFloat(value);
    EXPECT_EQ(std::strtod(text.c_str(), nullptr), value) << text;
    EXPECT_NE(text.find_first_of(".enf"), std::string::npos) << text;
  }
}

std::string Encoded(const Value& value) {
  std::string bytes;
  EncodeValue(value, &bytes);
  return bytes;
}

TEST(TextParser, EverySampleBothWays) {
  for (const ValueSample& sample : ValueSamples()) {
    const absl::StatusOr<Value> value = ParseValueText(sample.text);
    ASSERT_TRUE(value.ok()) << sample.name << ": " << value.status();
    EXPECT_EQ(Encoded(*value), sample.bytes) << sample.name;
    EXPECT_EQ(FormatValue(*value), sample.text) << sample.name;

    Config config = SampleConfig(sample, "aten::f.Tensor");
    config.level = 2;
    config.kwargs = {{"x", config.args[0]}, {"not a name", config.args[0]}};
    const std::string line = FormatConfig(config);
    const absl::StatusOr<Config> parsed = ParseConfigText(line);
    ASSERT_TRUE(parsed.ok()) << line << ": " << parsed.status();
    EXPECT_EQ(EncodeConfig(*parsed), EncodeConfig(config)) << line;
  }
}

// Whether the value's text alone shows its framework: NumPy's functions take values of any framework.
bool TellsFramework(const Value& value) {
  switch (value.tag) {
    case ValueTag::kTensor:
    case ValueTag::kUndefined:
    case ValueTag::kSize:
    case ValueTag::kDtype:
    case ValueTag::kDevice:
    case ValueTag::kLayout:
    case ValueTag::kMemoryFormat:
    case ValueTag::kGenerator:
      return true;
    default:
      return false;
  }
}

TEST(TextParser, EverySampleOfAnotherFramework) {
  size_t told = 0;
  for (const ValueSample& sample : ValueSamples()) {
    for (const char* const api : {"paddle.f", "numpy.f"}) {
      Config config = SampleConfig(sample, api);
      config.level = GuessLevel(api);
      if (config.framework() != "paddle" && TellsFramework(config.args[0])) {
        config.other_framework = "paddle";
        ++told;
      }
      const std::string line = FormatConfig(config);
      const absl::StatusOr<Config> parsed = ParseConfigText(line);
      ASSERT_TRUE(parsed.ok()) << line << ": " << parsed.status();
      EXPECT_EQ(EncodeConfig(*parsed), EncodeConfig(config)) << line;
      if (config.framework() == "paddle" && TellsFramework(config.args[0])) {
        EXPECT_EQ(line.find("torch."), std::string::npos) << line;
      }
    }
  }
  EXPECT_GT(told, 10u);
}

TEST(TextParser, ValuesOfOneFramework) {
  for (const auto& [line, column] : {std::pair("numpy.f(torch.float32, paddle.Tensor([2], \"float32\"))", "column 24:"),
                                     std::pair("numpy.f(Tensor([2], \"float32\"), paddle.bool)", "column 15:"),
                                     std::pair("paddle.f(Tensor([2], \"float32\"), torch.bool)", "column 16:")}) {
    const absl::StatusOr<Config> config = ParseConfigText(line);
    ASSERT_FALSE(config.ok()) << line;
    EXPECT_TRUE(std::string(config.status().message()).starts_with(column)) << config.status();
  }
  EXPECT_TRUE(ParseConfigText("torch.f(Tensor([2], \"float32\"), paddle.Size([2]))")->other_framework.empty());
  EXPECT_EQ(ParseConfigText("numpy.f(paddle.Size([2]))")->other_framework, "paddle");
}

TEST(TextForm, NamesOfTheFramework) {
  const auto same = [](const std::string& line) {
    const absl::StatusOr<Config> config = ParseConfigText(line);
    return config.ok() ? FormatConfig(*config) : std::string(config.status().message());
  };
  for (const std::string line :
       {R"(paddle.f(Tensor([2], "float32"), paddle.float16, paddle.device("gpu:0"), paddle.Size([2])))",
        R"(numpy.f(paddle.Tensor([2], "float32"), paddle.bool))", R"(numpy.f(Tensor([2], "float32"), torch.bool))",
        R"(paddle.f(torch.Tensor([2], "float32"), torch.bool))", R"(paddle.f(type("torch.Tensor"), "torch.bool"))"}) {
    EXPECT_EQ(same(line), line);
  }
  EXPECT_EQ(same(R"(numpy.f(torch.Tensor([2], "float32")))"), R"(numpy.f(Tensor([2], "float32")))");
}

TEST(TextParser, TextThatWeDontWrite) {
  const std::string surrogates = "\xed\xa0\x80\xed\xb0\x80";  // two characters, not the one that they are in UTF-16
  for (const std::string& text : {surrogates, surrogates + surrogates, "\xed\xa0\x80" + surrogates, "a" + surrogates}) {
    Value value;
    value.tag = ValueTag::kString;
    value.text = text;
    value.whole = text.size();
    const absl::StatusOr<Value> parsed = ParseValueText(FormatValue(value));
    ASSERT_TRUE(parsed.ok()) << parsed.status();
    EXPECT_EQ(parsed->text, text) << FormatValue(value);
  }
}

// How other tools and people write values, and how we do.
TEST(TextParser, OtherSpellings) {
  const struct {
    const char* theirs;
    const char* ours;
  } kTable[] = {
      // api_tracer
      {R"(torch.add(Tensor([2, 3], "float32"), alpha=10))", R"(torch.add(Tensor([2, 3], "float32"), alpha=10))"},
      {R"(f(, alpha=10))", R"(f(alpha=10))"},
      {R"(f(list[1, 2], tuple(1, 2), tuple()))", R"(f(list[1, 2], tuple(1, 2), tuple()))"},
      {R"(f(slice(None, 2, None), ellipsis(...)))", R"(f(slice(None, 2, None), Ellipsis))"},
      {R"(f("torch.float32", "cpu", device="cuda:0"))", R"(f("torch.float32", "cpu", device="cuda:0"))"},
      {R"(f(set(1, 2), dict(a=1, b c=list[2], d=dict())))",
       R"(f(set(1, 2), dict{"a": 1, "b c": list[2], "d": dict{}}))"},
      {R"(f(builtins.float, numpy.int64, torch.Tensor))",
       R"(f(type("builtins.float"), type("numpy.int64"), type("torch.Tensor")))"},
      {R"(f("<Unserializable: Generator>"))", R"(f("<Unserializable: Generator>"))"},
      {R"(f(1e-05, inf, -inf, nan, 1e+16))", R"(f(1e-05, inf, -inf, nan, 1e+16))"},
      {R"(f("\d+ \w"))", R"(f("\\d+ \\w"))"},
      // PaddleAPITest
      {R"(paddle.concat(tuple(Tensor([31376, 768],"float32"),Tensor([1, 768],"float32"),), axis=0, ))",
       R"(paddle.concat(tuple(Tensor([31376, 768], "float32"), Tensor([1, 768], "float32")), axis=0))"},
      {R"(paddle.Tensor.__getitem__(Tensor([8, 4],"bfloat16"), slice(None,2,None), ))",
       R"(paddle.Tensor.__getitem__(Tensor([8, 4], "bfloat16"), slice(None, 2, None)))"},
      {R"(f(Tensor([2],"float32",place=Place(gpu:0)), Tensor([2],"float32", place=Place(cpu)), ))",
       R"(f(Tensor([2], "float32", device="gpu:0"), Tensor([2], "float32")))"},
      {R"(f(Tensor([2, 3],"float32", strides=[1, 2])))", R"(f(Tensor([2, 3], "float32", stride=[1, 2])))"},
      {R"(f(list[1,2,], Dtype(float32), VarType(int64), type(numpy.int64), Place(gpu:0), Place(cpu), ))",
       R"(f(list[1, 2], torch.float32, torch.int64, type("numpy.int64"), torch.device("gpu:0"), torch.device("cpu")))"},
      {"f(complex(1.0,math.nan), math.inf, -math.inf, math.nan, -math.nan, .5, 2., )",
       "f(complex(1.0, nan), inf, -inf, nan, nan, 0.5, 2.0)"},
      {"torch.f(paddle.Size([2, 3]), Ellipsis, x=None)", "torch.f(torch.Size([2, 3]), Ellipsis, x=None)"},
      {R"(paddle.einsum("ak, kn-> an", Tensor([60000, 11],"float32"), ))",
       R"(paddle.einsum("ak, kn-> an", Tensor([60000, 11], "float32")))"},
      // families, and the results of --ignore
      {"f(Tensor([*, 2], *, device=*, stride=*, layout=*), *, alpha=*)",
       "f(Tensor([*, 2], *, device=*, stride=*, layout=*), *, alpha=*)"},
      {"f(Tensor([2, 2], \"int8\", stride=[*, 1]), Storage(*, *), torch.Generator(*), ndarray([*], *), "
       "numpy_scalar(*))",
       "f(Tensor([2, 2], \"int8\", stride=[*, 1]), Storage(*, *), torch.Generator(*), ndarray([*], *), "
       "numpy_scalar(*))"},
      // unknown arguments
      {"f(...)", "f(...)"},
      {"f( ... )", "f(...)"},
      {"f(..., )", "f(Ellipsis)"},
      {R"(f(symbol("..."), 1))", R"(f(symbol("..."), 1))"},
      // people
      {" f ( 1 ,2,  x = [1, (2,), {'a': 3}, {4}] ) ", R"(f(1, 2, x=list[1, tuple(2), dict{"a": 3}, set(4)]))"},
      {R"(f(...,+5, 'it\'s'))", R"(f(Ellipsis, 5, "it's"))"},
  };
  for (const auto& [theirs, ours] : kTable) {
    const absl::StatusOr<Config> config = ParseConfigText(theirs);
    ASSERT_TRUE(config.ok()) << theirs << ": " << config.status();
    EXPECT_EQ(FormatConfig(*config), ours);
  }
}

TEST(TextParser, TorchBench) {
  const struct {
    const char* theirs;
    const char* ours;
  } kTable[] = {
      {"((T([768], f16), T([512, 768], f16), T([768, 768], f16, stride=(1, 768))), {})",
       R"(f(Tensor([768], "float16"), Tensor([512, 768], "float16"), Tensor([768, 768], "float16", stride=[1, 768])))"},
      {"((T([4, 128], b8),), {'dtype': f16, 'layout': torch.strided, 'device': 'cuda'})",
       R"(f(Tensor([4, 128], "bool"), dtype=torch.float16, layout=torch.strided, device="cuda"))"},
      {"(([T([2, 8], f32), T([2, 8], f32)], 1), {})",
       R"(f(list[Tensor([2, 8], "float32"), Tensor([2, 8], "float32")], 1))"},
      {"((), {})", "f()"},
      {"((ST([4, 4], f32, torch.sparse_coo, True, nnz=3), -inf, float('nan')), {})",
       R"(f(Tensor([4, 4], "float32", layout="sparse_coo"), -inf, nan))"},
      {"((1, 2.5, 1j, (1+2j), (3,), 'a\\xe9\\n', None, True), {})",
       "f(1, 2.5, complex(0.0, 1.0), complex(1.0, 2.0), tuple(3), \"aé\\n\", None, True)"},
      {"((T([2], torch.float8_e4m3fn), torch.channels_last, th.float32, T([s0, 4], f32)), {})",
       R"(f(Tensor([2], "float8_e4m3fn"), torch.channels_last, torch.float32, Tensor([SymInt, 4], "float32")))"},
      // BackendBench: strides in a list, torch's names, commas at the end
      {"((T([2, 3], f16, [1, 2]), T([2, 3], f16, [3, 1]),), {'dtype': torch.float16, 'device': torch.device('cpu'),})",
       R"(f(Tensor([2, 3], "float16", stride=[1, 2]), Tensor([2, 3], "float16"), dtype=torch.float16, )"
       R"(device=torch.device("cpu")))"},
      {"((device(type='cuda', index=0), <class 'int'>), {})", R"(f(torch.device("cuda:0"), object("class 'int'")))"},
  };
  for (const auto& [theirs, ours] : kTable) {
    Config config;
    config.api = "f";
    const absl::Status parsed = ParseTorchBenchInputs(theirs, &config);
    ASSERT_TRUE(parsed.ok()) << theirs << ": " << parsed;
    EXPECT_EQ(FormatConfig(config), ours);
  }
  Config config;
  EXPECT_EQ(ParseTorchBenchInputs("((1,), 2)", &config).message(),
            "column 8: expected a dict of keyword arguments, found \"2)\"");
  EXPECT_EQ(ParseTorchBenchInputs("(1, {})", &config).message(),
            "column 2: expected a tuple of arguments, found \"1, {})\"");
}

TEST(TextParser, ErrorsNameTheColumn) {
  const struct {
    std::string text;
    const char* error;
  } kTable[] = {
      {"", "column 1: expected the name of an API, found the end of the line"},
      {"f", "column 2: expected \"(\" after the API's name, found the end of the line"},
      {"f(", "column 3: expected a value, found the end of the line"},
      {"f(1", "column 4: expected \",\" or \")\", found the end of the line"},
      {"f(1))", "column 5: expected the end of the line, found \")\""},
      {"f(,)", "column 3: expected a value, found \",)\""},
      {"f(1, ?)", "column 6: expected a value, found \"?)\""},
      {"f(\"größe\", ?)", "column 12: expected a value, found \"?)\""},
      {"f(\"abc)", "column 3: expected a string that ends with \" on its line, found \"\\\"abc)\""},
      {"f(a=1, 2)", "column 8: expected a keyword argument, as all after the first one are, found \"2)\""},
      {"f(list[1)", "column 9: expected \",\" or \"]\", found \")\""},
      {"f(Tensor([2, x], \"float32\"))", "column 14: expected a size, found \"x], \\\"float32\\\"))\""},
      {"f(Tensor([2]))", "column 13: expected \",\" and a dtype, found \"))\""},
      {"f(Tensor([2], \"int8\", stride=[1, 2]))",
       "column 30: expected as many strides as sizes, 1, found \"[1, 2]))\""},
      {"f(Tensor([2], \"int8\", color=\"red\"))",
       "column 23: expected device=, stride= or layout=, found \"color=\\\"red\\\"))\""},
      {"f(slice(1, 2))", "column 8: expected start, stop and step, found \"(1, 2))\""},
      {"f(frobnicate(1))",
       "column 3: expected a value (this name takes no arguments in the text form), found \"frobnicate(1))\""},
      {"f(12ab)", "column 3: expected a number, found \"12ab)\""},
      {"f(1j)", "column 3: expected a number (complex ones are written complex(1.0, 2.0)), found \"1j)\""},
      {"f(list[...+5, 6])", "column 15: expected \"]\" after what was left out, found \"6])\""},
      {"f(\"a\"...+99999999999999999999)",
       "column 10: expected how much was left out, in digits, found \"99999999999999999999)\""},
  };
  for (const auto& [text, error] : kTable) {
    EXPECT_EQ(ParseConfigText(text).status().message(), error) << text;
  }
}

TEST(TextParser, NestingIsBounded) {
  const auto nested = [](const char* open, const char* close, int depth) {
    std::string text = "f(";
    for (int i = 0; i < depth; ++i) text += open;
    text += "1";
    for (int i = 0; i < depth; ++i) text += close;
    return text + ")";
  };
  for (const auto& [open, close] : std::vector<std::pair<const char*, const char*>>{
           {"list[", "]"}, {"(", ",)"}, {"{", "}"}, {"dict{1: ", "}"}, {"dict(a=", ")"}, {"slice(1, 2, ", ")"}}) {
    const absl::StatusOr<Config> deepest = ParseConfigText(nested(open, close, kMaxValueDepth));
    ASSERT_TRUE(deepest.ok()) << deepest.status();
    EXPECT_TRUE(ParseConfig(EncodeConfig(*deepest)).ok());
    EXPECT_FALSE(ParseConfigText(nested(open, close, kMaxValueDepth + 1)).ok()) << open;
    EXPECT_FALSE(ParseConfigText(nested(open, close, 100'000)).ok()) << open;
  }

  // A tensor's dtype is a name, not another tensor.
  std::string tensors = "((";
  for (int i = 0; i < 100'000; ++i) tensors += "T([1], ";
  Config config;
  EXPECT_EQ(ParseTorchBenchInputs(tensors, &config).message(),
            "column 10: expected a dtype such as f32 or torch.float8_e4m3fn, found \"T([1], T([1], T([1], T([\"");
}

// From PyTorch's test suite, one or two per API: see testdata/forms/BUILD.
TEST(TextParser, RealConfigs) {
  std::ifstream file("testdata/forms/opinfo_configs.txt");
  int lines = 0;
  for (std::string line; std::getline(file, line); ++lines) {
    const absl::StatusOr<Config> config = ParseConfigText(line);
    ASSERT_TRUE(config.ok()) << line << ": " << config.status();
    EXPECT_EQ(FormatConfig(*config), line);
    const absl::StatusOr<Config> again = ParseConfig(EncodeConfig(*config));
    ASSERT_TRUE(again.ok()) << line << ": " << again.status();
    EXPECT_EQ(FormatConfig(*again), line);
  }
  EXPECT_GT(lines, 500);
}

// Arbitrary values: every encodable value must be written as text that reads back as the same text.
class RandomValues {
 public:
  Value Next(int depth = 0) {
    Value value;
    value.tag = static_cast<ValueTag>(Below(kLastValueTag + 1));
    const bool nested = IsContainer(value.tag) || value.tag == ValueTag::kSlice || value.tag == ValueTag::kRange;
    if (nested && depth > 3) value.tag = ValueTag::kNone;
    value.integer = static_cast<int64_t>(random_() >> Below(64));
    value.real = Double();
    value.imaginary = Double();
    value.text = Text();
    value.device = Text();
    value.layout = Text();
    value.whole = value.tag == ValueTag::kStorage ? random_() : value.text.size() + Below(3);
    if (IsContainer(value.tag)) {
      const uint64_t items = Below(4);
      const uint64_t per_item = value.tag == ValueTag::kDict ? 2 : 1;
      for (uint64_t i = 0; i < items * per_item; ++i) value.items.push_back(Next(depth + 1));
      value.whole = items + Below(3);
    } else if (value.tag == ValueTag::kSlice || value.tag == ValueTag::kRange) {
      for (int i = 0; i < 3; ++i) value.items.push_back(Next(depth + 1));
    }
    value.tensor_bits = Below(8);
    const uint64_t rank = Below(4);
    for (uint64_t i = 0; i < rank; ++i) {
      value.shape.push_back(Below(4) == 0 ? Dim() : Dim(static_cast<int64_t>(random_() >> Below(64))));
      value.strides.push_back(Below(4) == 0 ? Dim() : Dim(static_cast<int64_t>(random_() >> Below(64))));
    }
    return value;
  }

  std::string Text() {
    static constexpr std::string_view kParts[] = {
        "a", "float32", "strided", "\"",           "\\", "'",      "\n",           ",",    "(", ")", "1", "-",
        ".", "SymInt",  "\xff",    "\xed\xa0\x80", "ö",  "\u2028", "\xed\xb0\x80", "\xe2", "x", "=", " ", "\0"};
    std::string text;
    for (uint64_t n = Below(5); n > 0; --n) text.append(kParts[Below(std::size(kParts))]);
    return text;
  }

  uint64_t Below(uint64_t limit) { return random_() % limit; }

 private:
  double Double() {
    const uint64_t bits = random_();
    double real;
    std::memcpy(&real, &bits, sizeof real);
    return Below(2) == 0 ? real : static_cast<double>(static_cast<int64_t>(Below(2000)) - 1000) / 8;
  }

  std::mt19937_64 random_{1};
};

TEST(TextParser, RandomConfigs) {
  RandomValues random;
  for (int i = 0; i < 20'000; ++i) {
    Config config;
    config.api = random.Text();
    for (uint64_t n = random.Below(3); n > 0; --n) config.args.push_back(random.Next());
    for (uint64_t n = random.Below(3); n > 0; --n) config.kwargs.emplace_back(random.Text(), random.Next());
    const std::string text = FormatConfig(config);
    const absl::StatusOr<Config> parsed = ParseConfigText(text);
    ASSERT_TRUE(parsed.ok()) << text << ": " << parsed.status();
    ASSERT_EQ(FormatConfig(*parsed), text);
    ASSERT_TRUE(ParseConfig(EncodeConfig(*parsed)).ok()) << text;
  }
}

TEST(TextParser, Levels) {
  EXPECT_EQ(GuessLevel("torch.add"), 1);
  EXPECT_EQ(GuessLevel("paddle.add"), 0);
  EXPECT_EQ(GuessLevel("aten::add.Tensor"), 2);
  EXPECT_EQ(ParseConfigText("aten::add.Tensor()")->level, 2);
}

}  // namespace

}  // namespace torchtrace
