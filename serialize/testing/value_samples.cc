#include "serialize/testing/value_samples.h"

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <limits>
#include <string_view>

#include "serialize/model/value.h"

namespace torchtrace {
namespace {

using Write = std::function<void(ValueWriter*)>;

std::string Encode(const Write& write) {
  std::string bytes;
  ValueWriter writer(&bytes);
  write(&writer);
  return bytes;
}

void WriteText(ValueWriter* w, std::string_view text) { w->String(text, text.size()); }

std::vector<ValueSample> MakeSamples() {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  std::vector<ValueSample> samples;
  const auto add = [&samples](const char* name, const Write& write, const char* text, const char* yaml,
                              const char* json) { samples.push_back({name, Encode(write), text, yaml, json}); };
  const auto add_float = [&](const char* name, double value, const char* text, const char* yaml, const char* json) {
    add(name, [value](ValueWriter* w) { w->Float(value); }, text, yaml, json);
  };
  const auto add_str = [&](const char* name, std::string_view value, const char* text, const char* yaml,
                           const char* json) {
    add(name, [value](ValueWriter* w) { WriteText(w, value); }, text, yaml, json);
  };
  const auto add_named = [&](const char* name, ValueTag tag, const char* value, const char* text, const char* yaml,
                             const char* json) {
    add(name, [tag, value](ValueWriter* w) { w->Named(tag, value); }, text, yaml, json);
  };

  add("none", [](ValueWriter* w) { w->None(); }, "None", "null", "null");
  add("false", [](ValueWriter* w) { w->Bool(false); }, "False", "false", "false");
  add("true", [](ValueWriter* w) { w->Bool(true); }, "True", "true", "true");

  add("int", [](ValueWriter* w) { w->Int(-42); }, "-42", "-42", "-42");
  add(
      "int_min", [](ValueWriter* w) { w->Int(INT64_MIN); }, "-9223372036854775808", "-9223372036854775808",
      "-9223372036854775808");
  add(
      "int_max", [](ValueWriter* w) { w->Int(INT64_MAX); }, "9223372036854775807", "9223372036854775807",
      "9223372036854775807");
  add_named("big_int", ValueTag::kBigInt, "-1267650600228229401496703205376", "-1267650600228229401496703205376",
            "-1267650600228229401496703205376", R"({"type":"int","value":"-1267650600228229401496703205376"})");
  add_named("big_int_not_decimal", ValueTag::kBigInt, "0x10", R"(int("0x10"))", R"({type: int, value: "0x10"})",
            R"({"type":"int","value":"0x10"})");

  add_float("float", 10, "10.0", "10.0", "10.0");
  add_float("float_tenth", 0.1, "0.1", "0.1", "0.1");
  add_float("float_17_digits", 0.1 + 0.2, "0.30000000000000004", "0.30000000000000004", "0.30000000000000004");
  add_float("float_epsilon", 1e-12, "1e-12", "1.0e-12", "1e-12");
  add_float("float_small", 0.00012345, "0.00012345", "0.00012345", "0.00012345");
  add_float("float_smaller", 1.25e-5, "1.25e-05", "1.25e-05", "1.25e-05");
  add_float("float_large", 123456789012345680., "1.2345678901234568e+17", "1.2345678901234568e+17",
            "1.2345678901234568e+17");
  add_float("float_1e16", 1e16, "1e+16", "1.0e+16", "1e+16");
  add_float("float_1e15", 1e15, "1000000000000000.0", "1000000000000000.0", "1e+15");
  add_float("float_denormal", 5e-324, "5e-324", "5.0e-324", "5e-324");
  add_float("float_max", std::numeric_limits<double>::max(), "1.7976931348623157e+308", "1.7976931348623157e+308",
            "1.7976931348623157e+308");
  add_float("float_minus_zero", -0.0, "-0.0", "-0.0", "-0.0");
  add_float("float_inf", kInf, "inf", ".inf", R"({"type":"float","value":"inf"})");
  add_float("float_minus_inf", -kInf, "-inf", "-.inf", R"({"type":"float","value":"-inf"})");
  add_float("float_nan", kNan, "nan", ".nan", R"({"type":"float","value":"nan"})");
  add(
      "complex", [](ValueWriter* w) { w->Complex(1, -kInf); }, "complex(1.0, -inf)",
      "{type: complex, value: [1.0, -.inf]}", R"({"type":"complex","value":[1.0,{"type":"float","value":"-inf"}]})");

  add_str("str", "mean", R"("mean")", "mean", R"("mean")");
  add_str("str_empty", "", R"("")", R"("")", R"("")");
  add_str("str_of_equation", "ij,jk->ik", R"("ij,jk->ik")", R"("ij,jk->ik")", R"("ij,jk->ik")");
  add_str("str_escapes", "a\"b\\c\nd\te\rf\x1bg", R"("a\"b\\c\nd\te\rf\u001bg")", R"("a\"b\\c\nd\te\x0Df\x1Bg")",
          R"("a\"b\\c\nd\te\rf\u001bg")");
  add_str("str_nul", std::string_view("a\0b", 3), R"("a\u0000b")", R"("a\x00b")", R"("a\u0000b")");
  add_str("str_separators", "a\u2028b\u0085c\ufeffd", R"("a\u2028b\u0085c\ufeffd")", R"("a\u2028b\x85c\uFEFFd")",
          R"("a\u2028b\u0085c\ufeffd")");
  add_str("str_unicode", "größe 数 🙂", R"("größe 数 🙂")", R"("größe 数 🙂")", R"("größe 数 🙂")");
  add_str("str_noncharacter", "a\U0001ffff", R"("a\ud83f\udfff")", R"("a\U0001FFFF")", R"("a\ud83f\udfff")");
  add_str("str_directions", "a\u202eb\u2066", R"("a\u202eb\u2066")", R"("a\u202Eb\u2066")", R"("a\u202eb\u2066")");
  add_str("str_surrogate", "a\xed\xa0\x80z", R"("a\ud800z")", R"({type: str, escaped: "a\\ud800z"})",
          R"({"type":"str","escaped":"a\\ud800z"})");
  add_str("str_not_utf8", "a\xffz", R"("a\xffz")", R"({type: str, escaped: "a\\xffz"})",
          R"({"type":"str","escaped":"a\\xffz"})");
  add(
      "str_cut", [](ValueWriter* w) { w->String("abc", 1000); }, R"("abc"...+997)", "{type: str, value: abc, cut: 997}",
      R"({"type":"str","value":"abc","cut":997})");
  // Words that some YAML readers don't read as strings.
  for (const char* word : {"yes", "No", "ON", "off", "y", "N", "true", "False", "null", "NaN", "Inf"}) {
    const std::string quoted = std::string("\"") + word + "\"";
    samples.push_back({std::string("str_word_") + word, Encode([word](ValueWriter* w) { WriteText(w, word); }), quoted,
                       quoted, quoted});
  }
  for (const char* word :
       {"~",    "123",  "1.5", "1e3", "0x1F", "0o17", "1_000", ".inf", "-",      "- a", "1:30", "2024-01-01",
        "a: b", "a #b", "#a",  "*a",  "&a",   "!a",   "%a",    "@a",   "|",      ">",   "[",    "{a}",
        "a, b", "=",    "<<",  "?",   "a:",   " a",   "a ",    "'a'",  "cuda:0", "---", "..."}) {
    const std::string quoted = std::string("\"") + word + "\"";
    samples.push_back({std::string("str_like_") + word, Encode([word](ValueWriter* w) { WriteText(w, word); }), quoted,
                       quoted, quoted});
  }

  add(
      "bytes", [](ValueWriter* w) { w->Bytes("a\"\\\n\xff\x01", 6); }, R"(b"a\"\\\n\xff\x01")",
      R"({type: bytes, value: "a\"\\\nÿ\x01"})", R"({"type":"bytes","value":"a\"\\\nÿ\u0001"})");
  add(
      "bytes_cut", [](ValueWriter* w) { w->Bytes("ab", 10); }, R"(b"ab"...+8)", "{type: bytes, value: ab, cut: 8}",
      R"({"type":"bytes","value":"ab","cut":8})");

  struct Kind {
    ValueTag tag;
    const char* name;
    const char* open;
    const char* close;
    const char* type;
  };
  for (const Kind& kind :
       {Kind{ValueTag::kList, "list", "list[", "]", "list"}, Kind{ValueTag::kTuple, "tuple", "tuple(", ")", "tuple"},
        Kind{ValueTag::kSet, "set", "set(", ")", "set"},
        Kind{ValueTag::kFrozenSet, "frozenset", "frozenset(", ")", "frozenset"},
        Kind{ValueTag::kSize, "size", "torch.Size([", "])", "torch.Size"}}) {
    const std::string name = kind.name, open = kind.open, close = kind.close, type = kind.type;
    const auto add_items = [&](const char* suffix, uint64_t whole, std::vector<int64_t> items, const char* in_text,
                               const char* in_yaml, const std::string& in_json) {
      const std::string bytes = Encode([&](ValueWriter* w) {
        w->Container(kind.tag, whole, items.size());
        for (const int64_t item : items) w->Int(item);
      });
      samples.push_back({name + suffix, bytes, open + in_text + close, "{type: " + type + ", value: " + in_yaml + "}",
                         "{\"type\":\"" + type + "\",\"value\":" + in_json + "}"});
    };
    add_items("", 2, {1, 2}, "1, 2", "[1, 2]", "[1,2]");
    add_items("_of_one", 1, {1}, "1", "[1]", "[1]");
    add_items("_empty", 0, {}, "", "[]", "[]");
    add_items("_cut", 1000, {1, 2}, "1, 2, ...+998", "[1, 2], cut: 998", "[1,2],\"cut\":998");
    add_items("_cut_to_nothing", 3, {}, "...+3", "[], cut: 3", "[],\"cut\":3");
  }
  add(
      "list_nested",
      [](ValueWriter* w) {
        w->Container(ValueTag::kList, 2, 2);
        w->Container(ValueTag::kTuple, 1, 1);
        w->None();
        w->Container(ValueTag::kList, 0, 0);
      },
      "list[tuple(None), list[]]", "{type: list, value: [{type: tuple, value: [null]}, {type: list, value: []}]}",
      R"({"type":"list","value":[{"type":"tuple","value":[null]},{"type":"list","value":[]}]})");
  add(
      "dict",
      [](ValueWriter* w) {
        w->Container(ValueTag::kDict, 2, 2);
        WriteText(w, "a");
        w->Int(1);
        WriteText(w, "b c");
        w->None();
      },
      R"(dict{"a": 1, "b c": None})", R"({type: dict, value: {a: 1, "b c": null}})",
      R"({"type":"dict","value":{"a":1,"b c":null}})");
  add(
      "dict_of_ints",
      [](ValueWriter* w) {
        w->Container(ValueTag::kDict, 3, 1);
        w->Int(1);
        w->Bool(true);
      },
      "dict{1: True, ...+2}", "{type: dict, value: [[1, true]], cut: 2}",
      R"({"type":"dict","value":[[1,true]],"cut":2})");
  add(
      "dict_empty", [](ValueWriter* w) { w->Container(ValueTag::kDict, 0, 0); }, "dict{}", "{type: dict, value: {}}",
      R"({"type":"dict","value":{}})");

  add(
      "slice",
      [](ValueWriter* w) {
        w->BeginSlice();
        w->None();
        w->Int(2);
        w->None();
      },
      "slice(None, 2, None)", "{type: slice, value: [null, 2, null]}", R"({"type":"slice","value":[null,2,null]})");
  add(
      "range",
      [](ValueWriter* w) {
        w->BeginRange();
        w->Int(0);
        w->Int(3);
        w->Int(1);
      },
      "range(0, 3, 1)", "{type: range, value: [0, 3, 1]}", R"({"type":"range","value":[0,3,1]})");
  add(
      "ellipsis", [](ValueWriter* w) { w->Ellipsis(); }, "Ellipsis", R"({type: ellipsis, value: "..."})",
      R"({"type":"ellipsis","value":"..."})");

  add(
      "tensor",
      [](ValueWriter* w) {
        w->BeginTensor(0, "float32", "cpu");
        w->Rank(2);
        w->Dim(2);
        w->Dim(3);
      },
      R"(Tensor([2, 3], "float32"))", "{type: torch.Tensor, shape: [2, 3], dtype: torch.float32, device: cpu}",
      R"({"type":"torch.Tensor","shape":[2,3],"dtype":"torch.float32","device":"cpu"})");
  add(
      "tensor_of_rank_0",
      [](ValueWriter* w) {
        w->BeginTensor(0, "int64", "cpu");
        w->Rank(0);
      },
      R"(Tensor([], "int64"))", "{type: torch.Tensor, shape: [], dtype: torch.int64, device: cpu}",
      R"({"type":"torch.Tensor","shape":[],"dtype":"torch.int64","device":"cpu"})");
  add(
      "tensor_strided_on_cuda",
      [](ValueWriter* w) {
        w->BeginTensor(kTensorHasStride, "float16", "cuda:0");
        w->Rank(2);
        w->Dim(2);
        w->Dim(3);
        w->Rank(2);
        w->Dim(1);
        w->Dim(2);
      },
      R"(Tensor([2, 3], "float16", device="cuda:0", stride=[1, 2]))",
      R"({type: torch.Tensor, shape: [2, 3], dtype: torch.float16, device: "cuda:0", stride: [1, 2]})",
      R"({"type":"torch.Tensor","shape":[2,3],"dtype":"torch.float16","device":"cuda:0","stride":[1,2]})");
  add(
      "tensor_sparse",
      [](ValueWriter* w) {
        w->BeginTensor(kTensorHasLayout, "float32", "cpu");
        w->Rank(1);
        w->Dim(4);
        w->Layout("sparse_coo");
      },
      R"(Tensor([4], "float32", layout="sparse_coo"))",
      "{type: torch.Tensor, shape: [4], dtype: torch.float32, device: cpu, layout: torch.sparse_coo}",
      R"({"type":"torch.Tensor","shape":[4],"dtype":"torch.float32","device":"cpu","layout":"torch.sparse_coo"})");
  add(
      "tensor_everything",
      [](ValueWriter* w) {
        w->BeginTensor(kTensorHasStride | kTensorHasLayout, "float32", "meta");
        w->Rank(2);
        w->SymbolicDim();
        w->Dim(0);
        w->Rank(2);
        w->Dim(1);
        w->SymbolicDim();
        w->Layout("jagged");
      },
      R"(Tensor([SymInt, 0], "float32", device="meta", stride=[1, SymInt], layout="jagged"))",
      "{type: torch.Tensor, shape: [SymInt, 0], dtype: torch.float32, device: meta, stride: [1, SymInt], "
      "layout: torch.jagged}",
      R"({"type":"torch.Tensor","shape":["SymInt",0],"dtype":"torch.float32","device":"meta",)"
      R"("stride":[1,"SymInt"],"layout":"torch.jagged"})");
  add(
      "tensor_of_unknown_shape", [](ValueWriter* w) { w->BeginTensor(kTensorShapeUnknown, "float32", "cpu"); },
      R"(Tensor(None, "float32"))", "{type: torch.Tensor, shape: null, dtype: torch.float32, device: cpu}",
      R"({"type":"torch.Tensor","shape":null,"dtype":"torch.float32","device":"cpu"})");
  add(
      "undefined", [](ValueWriter* w) { w->Undefined(); }, "Tensor(undefined)", "{type: torch.Tensor, defined: false}",
      R"({"type":"torch.Tensor","defined":false})");

  add_named("dtype", ValueTag::kDtype, "float32", "torch.float32", "{type: torch.dtype, value: torch.float32}",
            R"({"type":"torch.dtype","value":"torch.float32"})");
  add_named("dtype_named_like_a_layout", ValueTag::kDtype, "strided", R"(torch.dtype("strided"))",
            "{type: torch.dtype, value: torch.strided}", R"({"type":"torch.dtype","value":"torch.strided"})");
  add_named("device", ValueTag::kDevice, "cuda:0", R"(torch.device("cuda:0"))",
            R"({type: torch.device, value: "cuda:0"})", R"({"type":"torch.device","value":"cuda:0"})");
  add_named("layout", ValueTag::kLayout, "strided", "torch.strided", "{type: torch.layout, value: torch.strided}",
            R"({"type":"torch.layout","value":"torch.strided"})");
  add_named("layout_unknown", ValueTag::kLayout, "diagonal", R"(torch.layout("diagonal"))",
            "{type: torch.layout, value: torch.diagonal}", R"({"type":"torch.layout","value":"torch.diagonal"})");
  add_named("memory_format", ValueTag::kMemoryFormat, "channels_last", "torch.channels_last",
            "{type: torch.memory_format, value: torch.channels_last}",
            R"({"type":"torch.memory_format","value":"torch.channels_last"})");
  add_named("memory_format_unknown", ValueTag::kMemoryFormat, "rows_first", R"(torch.memory_format("rows_first"))",
            "{type: torch.memory_format, value: torch.rows_first}",
            R"({"type":"torch.memory_format","value":"torch.rows_first"})");
  add_named("generator", ValueTag::kGenerator, "cpu", R"(torch.Generator("cpu"))",
            "{type: torch.Generator, device: cpu}", R"({"type":"torch.Generator","device":"cpu"})");
  add(
      "storage", [](ValueWriter* w) { w->Storage("cpu", 24); }, R"(Storage("cpu", 24))",
      "{type: torch.UntypedStorage, device: cpu, nbytes: 24}",
      R"({"type":"torch.UntypedStorage","device":"cpu","nbytes":24})");
  add_named("function", ValueTag::kFunction, "__main__.f.<locals>.<lambda>",
            R"(function("__main__.f.<locals>.<lambda>"))", R"({type: function, value: "__main__.f.<locals>.<lambda>"})",
            R"({"type":"function","value":"__main__.f.<locals>.<lambda>"})");
  add_named("type", ValueTag::kType, "torch.Tensor", R"(type("torch.Tensor"))", "{type: type, value: torch.Tensor}",
            R"({"type":"type","value":"torch.Tensor"})");
  add(
      "ndarray",
      [](ValueWriter* w) {
        w->BeginNdarray("float32", 2);
        w->Dim(2);
        w->Dim(3);
      },
      R"(ndarray([2, 3], "float32"))", "{type: numpy.ndarray, shape: [2, 3], dtype: float32}",
      R"({"type":"numpy.ndarray","shape":[2,3],"dtype":"float32"})");
  add_named("numpy_scalar", ValueTag::kNumpyScalar, "float32", R"(numpy_scalar("float32"))",
            "{type: numpy.generic, dtype: float32}", R"({"type":"numpy.generic","dtype":"float32"})");
  add_named("object", ValueTag::kObject, "pkg.Class", R"(object("pkg.Class"))", "{type: object, value: pkg.Class}",
            R"({"type":"object","value":"pkg.Class"})");
  add_named("symbol", ValueTag::kSymbol, "SymInt", "SymInt", "{type: symbol, value: SymInt}",
            R"({"type":"symbol","value":"SymInt"})");
  add_named("symbol_unknown", ValueTag::kSymbol, "SymText", R"(symbol("SymText"))", "{type: symbol, value: SymText}",
            R"({"type":"symbol","value":"SymText"})");
  add(
      "deep", [](ValueWriter* w) { w->Deep(); }, "deep(...)", R"({type: deep, value: "..."})",
      R"({"type":"deep","value":"..."})");
  return samples;
}

}  // namespace

const std::vector<ValueSample>& ValueSamples() {
  static const std::vector<ValueSample>* const samples = new std::vector<ValueSample>(MakeSamples());
  return *samples;
}

Config SampleConfig(const ValueSample& sample, const std::string& api) {
  Config config;
  config.level = 1;
  config.api = api;
  ByteReader reader(sample.bytes);
  // A sample that can't be parsed is a bug in the table.
  if (!ReadValue(&reader, &config.args.emplace_back()).ok() || !reader.done()) std::abort();
  return config;
}

std::vector<std::string> ReadFuzzCorpus(const std::string& name) {
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator("testdata/fuzz/" + name)) paths.push_back(entry.path());
  std::sort(paths.begin(), paths.end());
  std::vector<std::string> inputs;
  for (const auto& path : paths) {
    std::ifstream file(path, std::ios::binary);
    inputs.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }
  return inputs;
}

std::string MakeMutant(const std::string& input, std::mt19937* random) {
  const auto below = [random](size_t limit) { return limit == 0 ? 0 : (*random)() % limit; };
  std::string mutant = input;
  for (size_t n = 1 + below(8); n-- > 0 && !mutant.empty();) {
    const size_t at = below(mutant.size());
    switch (below(4)) {
      case 0:
        mutant[at] = static_cast<char>((*random)());
        break;
      case 1:
        mutant.erase(at, 1 + below(16));
        break;
      case 2:
        mutant.insert(at, std::string(mutant, below(mutant.size()), 1 + below(64)));
        break;
      default:
        mutant[at] = static_cast<char>(mutant[at] ^ (1 << below(8)));
    }
  }
  return mutant;
}

}  // namespace torchtrace
