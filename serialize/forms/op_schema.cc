#include "serialize/forms/op_schema.h"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "serialize/model/levels.h"
#include "serialize/model/torch_types.h"

namespace torchtrace {
namespace {

struct SchemaSpelling {
  std::string_view cpp;
  std::string_view torch;
};

// Other compilers' spellings, and torch::dtype().name()'s, without namespaces.
constexpr SchemaSpelling kSpellings[] = {
    {"char", "int8"},
    {"short", "int16"},
    {"long", "int64"},
    {"long long", "int64"},
    {"long long int", "int64"},
    {"__int64", "int64"},
    {"unsigned short", "uint16"},
    {"unsigned long", "uint64"},
    {"unsigned long long", "uint64"},
    {"long long unsigned int", "uint64"},
    {"unsigned __int64", "uint64"},
};

// "c10::complex<c10::Half>" -> "complex<Half>"
std::string WithoutNamespaces(std::string_view name) {
  std::string out;
  size_t word = 0;  // where the word that is being copied begins in `out`
  for (size_t i = 0; i < name.size(); ++i) {
    if (name.substr(i, 2) == "::") {
      out.resize(word);
      ++i;
      continue;
    }
    out.push_back(name[i]);
    if (name[i] == '<' || name[i] == ' ') word = out.size();
  }
  return out;
}

}  // namespace

std::string DtypeOfCppName(std::string_view name) {
  if (name.find("uninitialized") != name.npos) return "";
  const std::string plain = WithoutNamespaces(name);
  for (const std::string_view dtype : DtypeNames()) {
    const std::string_view cpp = CppNameOfDtype(dtype);
    if (cpp != dtype && plain == WithoutNamespaces(cpp)) return std::string(dtype);
  }
  for (const SchemaSpelling& spelling : kSpellings) {
    if (plain == spelling.cpp) return std::string(spelling.torch);
  }
  // dummy_uint1_7_t<3>: integers smaller than a byte have no C++ type.
  for (const std::string_view kind : {"uint", "int"}) {
    const std::string prefix = "dummy_" + std::string(kind) + "1_7_t<";
    if (plain.starts_with(prefix) && plain.size() == prefix.size() + 2 && plain.back() == '>') {
      return std::string(kind) + plain[prefix.size()];
    }
  }
  return plain;
}

namespace {

constexpr int kMaxDepth = 16;

std::string_view Trim(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

// The position of the first of `wanted` outside brackets and quotes, or npos. `->` is not a closing bracket.
size_t FindOutside(std::string_view text, std::string_view wanted) {
  int depth = 0;
  char quote = '\0';
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quote != '\0') {
      if (c == '\\') ++i;
      if (c == quote) quote = '\0';
      continue;
    }
    if (depth == 0 && wanted.find(c) != wanted.npos) return i;
    if (c == '"' || c == '\'') quote = c;
    if (c == '(' || c == '[') ++depth;
    if (c == ')' || c == ']') --depth;
  }
  return text.npos;
}

Value Simple(ValueTag tag) {
  Value value;
  value.tag = tag;
  return value;
}

Value Named(ValueTag tag, std::string_view name) {
  Value value = Simple(tag);
  value.text = name;
  return value;
}

std::optional<double> ParseDouble(std::string_view text) {
  double number;
  if (text.starts_with('+')) text.remove_prefix(1);
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

// "1.+2.j": the sign of the imaginary part is the last one that doesn't follow an exponent's e.
std::optional<Value> ParseComplex(std::string_view text) {
  text.remove_suffix(1);
  for (size_t i = text.size(); i-- > 1;) {
    if ((text[i] != '+' && text[i] != '-') || text[i - 1] == 'e') continue;
    const std::optional<double> real = ParseDouble(text.substr(0, i));
    const std::optional<double> imaginary = ParseDouble(text.substr(i));
    if (!real || !imaginary) return std::nullopt;
    Value value = Simple(ValueTag::kComplex);
    value.real = *real;
    value.imaginary = *imaginary;
    return value;
  }
  return std::nullopt;
}

std::optional<Value> ParseQuoted(std::string_view text) {
  Value value = Simple(ValueTag::kString);
  for (size_t i = 1; i + 1 < text.size(); ++i) {
    if (text[i] == '\\' && i + 2 < text.size()) ++i;
    value.text.push_back(text[i]);
  }
  value.whole = value.text.size();
  return value;
}

std::optional<Value> ParsePrinted(std::string_view text, int depth) {
  text = Trim(text);
  if (text.empty() || depth > kMaxDepth) return std::nullopt;
  if (text == "None") return Simple(ValueTag::kNone);
  if (text == "True" || text == "true") return Simple(ValueTag::kTrue);
  if (text == "False" || text == "false") return Simple(ValueTag::kFalse);
  if (text.size() >= 2 && (text[0] == '"' || text[0] == '\'') && text.back() == text[0]) return ParseQuoted(text);
  if (text[0] == '[' && text.back() == ']') {
    Value list = Simple(ValueTag::kList);
    text = Trim(text.substr(1, text.size() - 2));
    while (!text.empty()) {
      const size_t comma = FindOutside(text, ",");
      std::optional<Value> item = ParsePrinted(text.substr(0, comma), depth + 1);
      if (!item) return std::nullopt;
      list.items.push_back(std::move(*item));
      if (comma == text.npos) break;
      text.remove_prefix(comma + 1);
    }
    list.whole = list.items.size();
    return list;
  }
  Value number = Simple(ValueTag::kInt);
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number.integer);
  if (error == std::errc() && end == text.data() + text.size()) return number;
  if (text.back() == 'j') return ParseComplex(text);
  if (const std::optional<double> real = ParseDouble(text)) {
    number.tag = ValueTag::kFloat;
    number.integer = 0;
    number.real = *real;
    return number;
  }
  return std::nullopt;
}

IntMeaning MeaningOf(std::string_view type) {
  const size_t end = type.find_first_of("?[(");
  const std::string_view base = type.substr(0, end);
  if (base == "ScalarType") return IntMeaning::kDtype;
  if (base == "Layout") return IntMeaning::kLayout;
  if (base == "MemoryFormat") return IntMeaning::kMemoryFormat;
  return IntMeaning::kInt;
}

// Turns numbers that are enums into names, in lists too.
void NameEnums(IntMeaning meaning, Value* value) {
  if (meaning == IntMeaning::kInt) return;
  if (value->tag == ValueTag::kList) {
    for (Value& item : value->items) {
      if (item.tag != ValueTag::kList) NameEnums(meaning, &item);
    }
    return;
  }
  if (value->tag != ValueTag::kInt) return;
  ValueTag tag = ValueTag::kDtype;
  std::string_view name = DtypeOfNumber(value->integer);
  if (meaning == IntMeaning::kLayout) {
    tag = ValueTag::kLayout;
    name = LayoutOfNumber(value->integer);
  } else if (meaning == IntMeaning::kMemoryFormat) {
    tag = ValueTag::kMemoryFormat;
    name = MemoryFormatOfNumber(value->integer);
  }
  *value = Named(tag, name.empty() ? "unknown" : name);
}

bool ReadsLike(double value, double whole) {
  char digits[512];
  std::snprintf(digits, sizeof digits, "%.6f", whole);
  return value == std::strtod(digits, nullptr);
}

bool IsDefault(const SchemaArgument& argument, const Value& value, bool six_decimals) {
  if (!argument.default_value) return false;
  const Value& expected = *argument.default_value;
  if (value == expected) return true;
  if (six_decimals && value.tag == ValueTag::kFloat && expected.tag == ValueTag::kFloat) {
    return ReadsLike(value.real, expected.real);
  }
  // int[2] stride=1
  if (value.tag == ValueTag::kList && expected.tag != ValueTag::kList && expected.tag != ValueTag::kNone) {
    return !value.items.empty() && value.items.size() == argument.list_size &&
           std::all_of(value.items.begin(), value.items.end(),
                       [&expected](const Value& item) { return item == expected; });
  }
  return false;
}

bool ParseArgument(std::string_view text, SchemaArgument* argument) {
  const size_t equals = FindOutside(text, "=");
  std::string_view head = Trim(text.substr(0, equals));
  if (equals != text.npos) {
    // Other kinds of defaults count as none: such an argument is never left out.
    argument->default_value = ParsePrintedValue(text.substr(equals + 1));
  }
  const size_t space = head.rfind(' ');
  if (space == head.npos) return false;
  argument->name = head.substr(space + 1);
  argument->type = Trim(head.substr(0, space));
  argument->int_meaning = MeaningOf(argument->type);
  if (const size_t open = argument->type.find('['); open != std::string::npos) {
    const char* const size = argument->type.data() + open + 1;
    std::from_chars(size, argument->type.data() + argument->type.size(), argument->list_size);
  }
  return !argument->name.empty() && !argument->type.empty();
}

}  // namespace

std::optional<Value> ParsePrintedValue(std::string_view text) { return ParsePrinted(text, 0); }

std::optional<OpSchema> ParseOpSchema(std::string_view text) {
  const size_t open = text.find('(');
  if (open == text.npos || open == 0) return std::nullopt;
  OpSchema schema;
  schema.name = text.substr(0, open);
  if (schema.name.find("::") == std::string::npos || schema.name.find(' ') != std::string::npos) return std::nullopt;
  text.remove_prefix(open + 1);
  const size_t close = FindOutside(text, ")");
  if (close == text.npos) return std::nullopt;
  text = Trim(text.substr(0, close));
  bool keyword_only = false;
  while (!text.empty()) {
    const size_t comma = FindOutside(text, ",");
    const std::string_view item = Trim(text.substr(0, comma));
    if (item == "*") {
      keyword_only = true;
    } else if (item == "...") {
      break;  // any number of further arguments
    } else {
      SchemaArgument argument;
      if (!ParseArgument(item, &argument)) return std::nullopt;
      argument.keyword_only = keyword_only;
      schema.arguments.push_back(std::move(argument));
    }
    if (comma == text.npos) break;
    text = Trim(text.substr(comma + 1));
  }
  return schema;
}

std::optional<std::vector<ArgumentSource>> SourcesOfArguments(const OpSchema& schema, const Config& config) {
  std::vector<ArgumentSource> sources;
  size_t used = 0;
  for (const SchemaArgument& argument : schema.arguments) {
    ArgumentSource& source = sources.emplace_back();
    const size_t position = sources.size() - 1;
    if (!argument.keyword_only && position < config.args.size()) {
      source.index = position;
    } else {
      for (size_t i = 0; i < config.kwargs.size() && !source.index.has_value(); ++i) {
        if (config.kwargs[i].first == argument.name) source.index = config.args.size() + i;
      }
    }
    if (source.index.has_value()) {
      ++used;
      continue;
    }
    if (!argument.default_value.has_value()) return std::nullopt;
    source.default_value = *argument.default_value;
    // int[2] stride=1
    const ValueTag tag = source.default_value.tag;
    if (argument.list_size != 0 && tag != ValueTag::kList && tag != ValueTag::kNone) {
      Value list = Simple(ValueTag::kList);
      list.items.assign(static_cast<size_t>(argument.list_size), source.default_value);
      list.whole = argument.list_size;
      source.default_value = std::move(list);
    }
  }
  if (used != config.args.size() + config.kwargs.size()) return std::nullopt;
  return sources;
}

Config CallOfSchema(const OpSchema& schema, std::vector<Value> values, bool six_decimals) {
  Config config;
  config.level = kDispatchLevel;
  config.api = schema.name;
  // More values than arguments: the schema has `...`, or is another operator's.
  const size_t named = values.size() <= schema.arguments.size() ? values.size() : 0;
  size_t kept = 0;  // positional arguments up to the last that isn't its default
  for (size_t i = 0; i < values.size(); ++i) {
    Value& value = values[i];
    bool is_default = false;
    bool keyword_only = false;
    if (i < named) {
      const SchemaArgument& argument = schema.arguments[i];
      is_default = IsDefault(argument, value, six_decimals);
      NameEnums(argument.int_meaning, &value);
      keyword_only = argument.keyword_only;
    }
    if (!keyword_only) {
      config.args.push_back(std::move(value));
      if (!is_default) kept = config.args.size();
    } else if (!is_default) {
      config.kwargs.emplace_back(schema.arguments[i].name, std::move(value));
    }
  }
  config.args.resize(kept);
  return config;
}

}  // namespace torchtrace
