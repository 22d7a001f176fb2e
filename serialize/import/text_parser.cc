#include "serialize/import/text_parser.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <string>
#include <system_error>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "serialize/import/tensor_strides.h"
#include "serialize/placeholder.h"
#include "serialize/text_form.h"
#include "serialize/torch_names.h"
#include "serialize/utf8.h"

namespace torchtrace {
namespace {

bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsNameStart(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool IsNameChar(char c) { return IsNameStart(c) || IsDigit(c); }

Value Tagged(ValueTag tag, std::string text = "") {
  Value value;
  value.tag = tag;
  value.text = std::move(text);
  return value;
}

Value FloatValue(double real) {
  Value value;
  value.tag = ValueTag::kFloat;
  value.real = real;
  return value;
}

void AppendUtf8(uint32_t c, std::string* out) {
  if (c < 0x80) {
    out->push_back(static_cast<char>(c));
  } else if (c < 0x800) {
    out->push_back(static_cast<char>(0xc0 | c >> 6));
    out->push_back(static_cast<char>(0x80 | (c & 0x3f)));
  } else if (c < 0x10000) {
    out->push_back(static_cast<char>(0xe0 | c >> 12));
    out->push_back(static_cast<char>(0x80 | (c >> 6 & 0x3f)));
    out->push_back(static_cast<char>(0x80 | (c & 0x3f)));
  } else {
    out->push_back(static_cast<char>(0xf0 | c >> 18));
    out->push_back(static_cast<char>(0x80 | (c >> 12 & 0x3f)));
    out->push_back(static_cast<char>(0x80 | (c >> 6 & 0x3f)));
    out->push_back(static_cast<char>(0x80 | (c & 0x3f)));
  }
}

// TorchBench's names of dtypes; empty when it is none.
std::string_view DtypeOfAbbreviation(std::string_view name) {
  static constexpr std::pair<std::string_view, std::string_view> kNames[] = {
      {"bf16", "bfloat16"}, {"f64", "float64"},   {"f32", "float32"},     {"f16", "float16"},
      {"c32", "complex32"}, {"c64", "complex64"}, {"c128", "complex128"}, {"i8", "int8"},
      {"i16", "int16"},     {"i32", "int32"},     {"i64", "int64"},       {"b8", "bool"},
      {"u8", "uint8"},      {"u16", "uint16"},    {"u32", "uint32"},      {"u64", "uint64"}};
  for (const auto& [abbreviation, dtype] : kNames) {
    if (abbreviation == name) return dtype;
  }
  return {};
}

class Parser {
 public:
  enum Dialect { kText, kPython };

  Parser(std::string_view text, Dialect dialect) : text_(text), dialect_(dialect) {}

  absl::Status WholeConfig(Config* config) {
    SkipSpaces();
    if (Peek() == '"') {
      if (absl::Status s = QuotedString(&config->api); !s.ok()) return s;
    } else {
      while (at_ < text_.size() && IsApiChar(text_[at_])) config->api.push_back(text_[at_++]);
      if (config->api.empty()) return Expected("the name of an API");
    }
    if (absl::Status s = Require('(', "\"(\" behind the API's name"); !s.ok()) return s;
    if (absl::Status s = Arguments(config); !s.ok()) return s;
    config->level = GuessLevel(config->api);
    return End();
  }

  absl::Status WholeValue(Value* value) {
    if (absl::Status s = ParseValue(value, 0); !s.ok()) return s;
    return End();
  }

  // (args, kwargs)
  absl::Status WholeInputs(Config* config) {
    if (absl::Status s = Require('(', "\"((\", the arguments as Python writes (args, kwargs)"); !s.ok()) return s;
    Value args;
    SkipSpaces();
    const size_t args_at = at_;
    if (absl::Status s = ParseValue(&args, 0); !s.ok()) return s;
    if (args.tag != ValueTag::kTuple && args.tag != ValueTag::kList) {
      at_ = args_at;
      return Expected("a tuple of arguments");
    }
    if (absl::Status s = Require(',', "\",\" between args and kwargs"); !s.ok()) return s;
    Value kwargs;
    SkipSpaces();
    const size_t kwargs_at = at_;
    if (absl::Status s = ParseValue(&kwargs, 0); !s.ok()) return s;
    const auto is_name = [](const Value& key) { return key.tag == ValueTag::kString; };
    bool named = kwargs.tag == ValueTag::kDict;
    for (size_t i = 0; named && i < kwargs.items.size(); i += 2) named = is_name(kwargs.items[i]);
    if (!named) {
      at_ = kwargs_at;
      return Expected("a dict of keyword arguments");
    }
    Take(',');
    if (absl::Status s = Require(')', "\")\""); !s.ok()) return s;
    config->args = std::move(args.items);
    for (size_t i = 0; i + 1 < kwargs.items.size(); i += 2) {
      config->kwargs.emplace_back(std::move(kwargs.items[i].text), std::move(kwargs.items[i + 1]));
    }
    return End();
  }

 private:
  // ---- characters ----

  char Peek(size_t ahead = 0) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0'; }
  void SkipSpaces() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t')) ++at_;
  }
  // Spaces, and the character if it comes next.
  bool Take(char c) {
    SkipSpaces();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  bool TakeWord(std::string_view word) {
    if (!text_.substr(at_).starts_with(word)) return false;
    at_ += word.size();
    return true;
  }
  absl::Status Require(char c, const char* what) { return Take(c) ? absl::OkStatus() : Expected(what); }
  absl::Status End() {
    SkipSpaces();
    return at_ == text_.size() ? absl::OkStatus() : Expected("the end of the line");
  }

  static bool IsApiChar(char c) {
    return c > ' ' && c < 0x7f && std::string_view("()[]{}\"',=").find(c) == std::string_view::npos;
  }

  absl::Status Expected(const std::string& what) const {
    size_t column = 1;
    for (const char c : text_.substr(0, at_)) column += (c & 0xc0) != 0x80;
    std::string_view found = text_.substr(at_, 24);
    // Not within a character.
    while (!found.empty() && at_ + found.size() < text_.size() && (text_[at_ + found.size()] & 0xc0) == 0x80) {
      found.remove_suffix(1);
    }
    return absl::InvalidArgumentError(absl::StrCat("column ", column, ": expected ", what, ", found ",
                                                   at_ >= text_.size() ? "the end of the line" : QuoteText(found)));
  }

  // ---- calls ----

  absl::Status Arguments(Config* config) {
    // api_tracer's, where there are no positional ones: `f(, alpha=1)`.
    const size_t begin = at_;
    if (Take(',') && Take(')')) at_ = begin;
    while (!Take(')')) {
      std::string name;
      Value value;
      absl::StatusOr<bool> named = Name(&name);
      if (!named.ok()) return named.status();
      const size_t value_at = at_;
      if (absl::Status s = ParseValue(&value, 0); !s.ok()) return s;
      if (*named) {
        config->kwargs.emplace_back(std::move(name), std::move(value));
      } else if (config->kwargs.empty()) {
        config->args.push_back(std::move(value));
      } else {
        at_ = value_at;
        return Expected("a keyword argument, as all behind the first one are");
      }
      if (Take(',')) continue;
      if (Take(')')) break;
      return Expected("\",\" or \")\"");
    }
    return absl::OkStatus();
  }

  // True, and the position behind it, when `name =` comes next.
  absl::StatusOr<bool> Name(std::string* name) {
    SkipSpaces();
    const size_t begin = at_;
    if (Peek() == '"') {
      if (absl::Status s = QuotedString(name); !s.ok()) return s;
    } else {
      while (IsNameChar(Peek())) name->push_back(text_[at_++]);
    }
    if (at_ > begin && Take('=')) return true;
    at_ = begin;
    return false;
  }

  // ---- values ----

  absl::Status ParseValue(Value* value, int depth) {
    SkipSpaces();
    const char c = Peek();
    if (c == '"' || c == '\'') return Text(value);
    if (c == 'b' && (Peek(1) == '"' || Peek(1) == '\'')) {
      ++at_;
      value->tag = ValueTag::kBytes;
      if (absl::Status s = QuotedString(&value->text, /*bytes=*/true); !s.ok()) return s;
      return CutOfText(value);
    }
    if (text_.substr(at_).starts_with("...")) {
      at_ += 3;
      value->tag = ValueTag::kEllipsis;
      return absl::OkStatus();
    }
    if (IsDigit(c) || c == '-' || c == '+' || c == '.') return NumberOrComplex(value);
    if (c == '*') {
      ++at_;
      *value = AnyValue();
      return absl::OkStatus();
    }
    if (c == '[') return Items(ValueTag::kList, ']', value, depth);
    if (c == '(') return Parentheses(value, depth);
    if (c == '{') return Braces(value, depth);
    if (c == '<' && dialect_ == kPython) return ObjectRepr(value);
    if (IsNameStart(c)) return Named(value, depth);
    return Expected("a value");
  }

  // Comes behind the opening bracket's position; reads up to the closing one. `tag` is a container's, not a dict's.
  absl::Status Items(ValueTag tag, char close, Value* value, int depth) {
    if (absl::Status s = Enter(depth); !s.ok()) return s;
    ++at_;
    value->tag = tag;
    uint64_t cut = 0;
    while (!Take(close)) {
      SkipSpaces();
      if (text_.substr(at_).starts_with("...+")) {
        if (absl::Status s = Cut(&cut); !s.ok()) return s;
        Take(',');
        if (!Take(close)) return Expected(absl::StrCat("\"", std::string(1, close), "\" behind what was left out"));
        break;
      }
      if (absl::Status s = ParseValue(&value->items.emplace_back(), depth + 1); !s.ok()) return s;
      if (Take(',')) continue;
      if (Take(close)) break;
      return Expected(absl::StrCat("\",\" or \"", std::string(1, close), "\""));
    }
    return SetWhole(value->items.size(), cut, value);
  }

  // dict{...} and {...}
  absl::Status DictItems(Value* value, int depth) {
    if (absl::Status s = Enter(depth); !s.ok()) return s;
    ++at_;
    value->tag = ValueTag::kDict;
    uint64_t cut = 0;
    while (!Take('}')) {
      SkipSpaces();
      if (text_.substr(at_).starts_with("...+")) {
        if (absl::Status s = Cut(&cut); !s.ok()) return s;
        Take(',');
        if (!Take('}')) return Expected("\"}\" behind what was left out");
        break;
      }
      if (absl::Status s = ParseValue(&value->items.emplace_back(), depth + 1); !s.ok()) return s;
      if (absl::Status s = Require(':', "\":\" behind a dict's key"); !s.ok()) return s;
      if (absl::Status s = ParseValue(&value->items.emplace_back(), depth + 1); !s.ok()) return s;
      if (Take(',')) continue;
      if (Take('}')) break;
      return Expected("\",\" or \"}\"");
    }
    return SetWhole(value->items.size() / 2, cut, value);
  }

  // api_tracer's dict(a=1, b=2)
  absl::Status DictCall(Value* value, int depth) {
    if (absl::Status s = Enter(depth); !s.ok()) return s;
    ++at_;
    value->tag = ValueTag::kDict;
    while (!Take(')')) {
      SkipSpaces();
      const size_t equals = text_.find('=', at_);
      if (equals == std::string_view::npos) return Expected("a dict's key and \"=\"");
      std::string_view key = text_.substr(at_, equals - at_);
      while (key.ends_with(' ')) key.remove_suffix(1);
      Value& name = value->items.emplace_back(Tagged(ValueTag::kString, std::string(key)));
      name.whole = key.size();
      at_ = equals + 1;
      if (absl::Status s = ParseValue(&value->items.emplace_back(), depth + 1); !s.ok()) return s;
      if (Take(',')) continue;
      if (Take(')')) break;
      return Expected("\",\" or \")\"");
    }
    return SetWhole(value->items.size() / 2, 0, value);
  }

  // Python's (1, 2), (1,), () and (1).
  absl::Status Parentheses(Value* value, int depth) {
    if (absl::Status s = Enter(depth); !s.ok()) return s;
    ++at_;
    value->tag = ValueTag::kTuple;
    while (!Take(')')) {
      Value item;
      if (absl::Status s = ParseValue(&item, depth + 1); !s.ok()) return s;
      if (value->items.empty() && Take(')')) {
        *value = std::move(item);
        return absl::OkStatus();
      }
      value->items.push_back(std::move(item));
      if (Take(',')) continue;
      if (Take(')')) break;
      return Expected("\",\" or \")\"");
    }
    return SetWhole(value->items.size(), 0, value);
  }

  // Python's {1: 2} and {1, 2}: which of both it is shows behind the first value.
  absl::Status Braces(Value* value, int depth) {
    if (absl::Status s = Enter(depth); !s.ok()) return s;
    ++at_;
    value->tag = ValueTag::kDict;
    while (!Take('}')) {
      const bool first = value->items.empty();
      if (absl::Status s = ParseValue(&value->items.emplace_back(), depth + 1); !s.ok()) return s;
      if (first) {
        SkipSpaces();
        if (Peek() != ':') value->tag = ValueTag::kSet;
      }
      if (value->tag == ValueTag::kDict) {
        if (absl::Status s = Require(':', "\":\" behind a dict's key"); !s.ok()) return s;
        if (absl::Status s = ParseValue(&value->items.emplace_back(), depth + 1); !s.ok()) return s;
      }
      if (Take(',')) continue;
      if (Take('}')) break;
      return Expected("\",\" or \"}\"");
    }
    return SetWhole(value->items.size() / (value->tag == ValueTag::kDict ? 2 : 1), 0, value);
  }

  // <class 'x'>, <function f at 0x...>: what Python shows of an object.
  absl::Status ObjectRepr(Value* value) {
    const size_t begin = at_;
    int open = 0;
    for (; at_ < text_.size(); ++at_) {
      if (text_[at_] == '<') ++open;
      if (text_[at_] == '>' && --open == 0) {
        ++at_;
        *value = Tagged(ValueTag::kObject, std::string(text_.substr(begin + 1, at_ - begin - 2)));
        return absl::OkStatus();
      }
    }
    at_ = begin;
    return Expected("\">\" at the end of an object's repr");
  }

  absl::Status Enter(int depth) const {
    return depth < kMaxValueDepth ? absl::OkStatus()
                                  : Expected(absl::StrCat("at most ", kMaxValueDepth, " levels of nesting"));
  }

  absl::Status SetWhole(uint64_t shown, uint64_t cut, Value* value) {
    if (cut > UINT64_MAX - shown) return Expected("a smaller count of what was left out");
    value->whole = shown + cut;
    return absl::OkStatus();
  }

  // ...+997
  absl::Status Cut(uint64_t* cut) {
    at_ += 4;
    return Unsigned("how much was left out, in digits", cut);
  }

  absl::Status Unsigned(const char* what, uint64_t* number) {
    SkipSpaces();
    const char* const begin = text_.data() + at_;
    const auto [end, error] = std::from_chars(begin, text_.data() + text_.size(), *number);
    if (error != std::errc()) return Expected(what);
    at_ += static_cast<size_t>(end - begin);
    return absl::OkStatus();
  }

  absl::Status CutOfText(Value* value) {
    uint64_t cut = 0;
    if (text_.substr(at_).starts_with("...+")) {
      if (absl::Status s = Cut(&cut); !s.ok()) return s;
    }
    return SetWhole(value->text.size(), cut, value);
  }

  absl::Status Text(Value* value) {
    value->tag = ValueTag::kString;
    if (absl::Status s = QuotedString(&value->text); !s.ok()) return s;
    return CutOfText(value);
  }

  // Hexadecimal digits, exactly so many; moves nothing when they aren't there.
  bool Hex(size_t digits, uint32_t* number) {
    if (text_.size() - at_ < digits) return false;
    const char* const begin = text_.data() + at_;
    const auto [end, error] = std::from_chars(begin, begin + digits, *number, 16);
    if (error != std::errc() || end != begin + digits) return false;
    at_ += digits;
    return true;
  }

  // Foreign strings are not escaped: a backslash that begins no escape stands for itself.
  absl::Status QuotedString(std::string* out, bool bytes = false) {
    const size_t begin = at_;
    const char quote = text_[at_++];
    while (at_ < text_.size()) {
      const size_t stop = std::min(text_.size(), text_.find_first_of(quote == '"' ? "\"\\" : "'\\", at_));
      out->append(text_.substr(at_, stop - at_));
      at_ = stop;
      if (at_ >= text_.size()) break;
      if (text_[at_++] == quote) return absl::OkStatus();
      if (!Escape(bytes, out)) out->push_back('\\');
    }
    at_ = begin;
    return Expected(absl::StrCat("a string that ends with ", std::string(1, quote), " on its line"));
  }

  // Behind a backslash. False, and nothing moved, when it is no escape.
  bool Escape(bool bytes, std::string* out) {
    const size_t begin = at_;
    uint32_t c = 0;
    switch (Peek()) {
      case '"':
      case '\'':
      case '\\':
        out->push_back(text_[at_++]);
        return true;
      case 'n':
        ++at_;
        out->push_back('\n');
        return true;
      case 'r':
        ++at_;
        out->push_back('\r');
        return true;
      case 't':
        ++at_;
        out->push_back('\t');
        return true;
      case 'x':
        ++at_;
        if (!Hex(2, &c)) break;
        if (bytes || dialect_ == kText) {
          out->push_back(static_cast<char>(c));  // a byte that is part of no character
        } else {
          AppendUtf8(c, out);
        }
        return true;
      case 'u':
        ++at_;
        if (bytes || !Hex(4, &c)) break;
        if (c >= 0xd800 && c < 0xdc00 && text_.substr(at_).starts_with("\\u")) {
          const size_t behind_first = at_;
          uint32_t low = 0;
          at_ += 2;
          if (Hex(4, &low) && low >= 0xdc00 && low < 0xe000) {
            c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
          } else {
            at_ = behind_first;
          }
        }
        AppendUtf8(c, out);
        return true;
      case 'U':
        ++at_;
        if (bytes || dialect_ == kText || !Hex(8, &c) || c > 0x10ffff) break;
        AppendUtf8(c, out);
        return true;
      default:
        break;
    }
    at_ = begin;
    return false;
  }

  // ---- numbers ----

  absl::Status NumberOrComplex(Value* value) {
    bool imaginary = false;
    const size_t begin = at_;
    if (absl::Status s = Number(value, &imaginary); !s.ok()) return s;
    if (dialect_ != kPython) {
      if (!imaginary) return absl::OkStatus();
      at_ = begin;
      return Expected("a number (complex ones are written complex(1.0, 2.0))");
    }
    Value second;
    if (!imaginary && (Peek() == '+' || Peek() == '-')) {
      if (absl::Status s = Number(&second, &imaginary); !s.ok()) return s;
      if (!imaginary) {
        at_ = begin;
        return Expected("a number or a complex number such as 1+2j");
      }
      *value = ComplexValue(AsDouble(*value), AsDouble(second));
    } else if (imaginary) {
      *value = ComplexValue(0, AsDouble(*value));
    }
    return absl::OkStatus();
  }

  static Value ComplexValue(double real, double imaginary) {
    Value value;
    value.tag = ValueTag::kComplex;
    value.real = real;
    value.imaginary = imaginary;
    return value;
  }

  static double AsDouble(const Value& number) {
    if (number.tag == ValueTag::kFloat) return number.real;
    if (number.tag == ValueTag::kInt) return static_cast<double>(number.integer);
    return std::strtod(number.text.c_str(), nullptr);
  }

  absl::Status Number(Value* value, bool* imaginary) {
    const size_t begin = at_;
    const bool negative = Peek() == '-';
    if (negative || Peek() == '+') ++at_;
    if (IsNameStart(Peek())) {
      for (const std::string_view word : {"math.inf", "inf", "math.nan", "nan"}) {
        if (!text_.substr(at_).starts_with(word) || IsNameChar(Peek(word.size()))) continue;
        at_ += word.size();
        const double magnitude =
            word.ends_with("inf") ? std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
        *value = FloatValue(negative && !std::isnan(magnitude) ? -magnitude : magnitude);
        *imaginary = dialect_ == kPython && Peek() == 'j' && ++at_ > 0;
        return absl::OkStatus();
      }
      at_ = begin;
      return Expected("a number");
    }
    const size_t digits_at = at_;
    while (IsDigit(Peek())) ++at_;
    size_t digits = at_ - digits_at;
    bool whole = true;
    if (Peek() == '.' && Peek(1) != '.') {
      whole = false;
      for (++at_; IsDigit(Peek()); ++at_) ++digits;
    }
    if (digits == 0) {
      at_ = begin;
      return Expected("a number");
    }
    if (Peek() == 'e' || Peek() == 'E') {
      const size_t sign = Peek(1) == '+' || Peek(1) == '-' ? 1 : 0;
      if (IsDigit(Peek(1 + sign))) {
        whole = false;
        for (at_ += 1 + sign; IsDigit(Peek());) ++at_;
      }
    }
    const size_t end = at_;
    *imaginary = Peek() == 'j' && !IsNameChar(Peek(1)) && ++at_ > 0;
    if (IsNameChar(Peek())) {
      at_ = begin;
      return Expected("a number");
    }
    const bool plus = text_[begin] == '+';
    const std::string token(text_.substr(begin + plus, end - begin - plus));
    if (!whole) {
      *value = FloatValue(std::strtod(token.c_str(), nullptr));
      return absl::OkStatus();
    }
    return Integer(token, value);
  }

  // What doesn't read back as the same digits is kept as it is: that is how text_form.h shows it.
  static absl::Status Integer(const std::string& token, Value* value) {
    value->tag = ValueTag::kInt;
    const auto [end, error] = std::from_chars(token.data(), token.data() + token.size(), value->integer);
    const bool canonical = error == std::errc() && std::to_string(value->integer) == token;
    if (!canonical) *value = Tagged(ValueTag::kBigInt, token);
    return absl::OkStatus();
  }

  // ---- names ----

  absl::Status Named(Value* value, int depth) {
    const size_t begin = at_;
    while (IsNameChar(Peek()) || (Peek() == '.' && IsNameStart(Peek(1)))) ++at_;
    const std::string_view name = text_.substr(begin, at_ - begin);
    if (Peek() == '(') return Call(name, begin, value, depth);
    if (Peek() == '[' && name == "list") return Items(ValueTag::kList, ']', value, depth);
    if (Peek() == '{' && name == "dict") return DictItems(value, depth);
    return Bare(name, begin, value);
  }

  absl::Status Bare(std::string_view name, size_t begin, Value* value) {
    if (name == "None") return absl::OkStatus();
    if (name == "True" || name == "False") {
      value->tag = name == "True" ? ValueTag::kTrue : ValueTag::kFalse;
      return absl::OkStatus();
    }
    if (name == "Ellipsis") {
      value->tag = ValueTag::kEllipsis;
      return absl::OkStatus();
    }
    if (name == "inf" || name == "nan" || name == "math.inf" || name == "math.nan") {
      at_ = begin;
      return NumberOrComplex(value);
    }
    if (name == "SymInt" || name == "SymFloat" || name == "SymBool") {
      *value = Tagged(ValueTag::kSymbol, std::string(name));
      return absl::OkStatus();
    }
    if (dialect_ == kPython) {
      const std::string_view dtype = DtypeOfAbbreviation(name);
      if (!dtype.empty()) {
        *value = Tagged(ValueTag::kDtype, std::string(dtype));
        return absl::OkStatus();
      }
    }
    for (const std::string_view module : {"torch.", "th."}) {
      if (!name.starts_with(module) || (module == "th." && dialect_ != kPython)) continue;
      const std::string_view member = name.substr(module.size());
      if (member.find('.') != std::string_view::npos) break;
      *value = Tagged(KindOfTorchName(member), std::string(member));
      if (value->tag == ValueTag::kType) value->text = name;
      return absl::OkStatus();
    }
    // api_tracer writes types so: builtins.float, numpy.int64.
    if (name.find('.') != std::string_view::npos) {
      *value = Tagged(ValueTag::kType, std::string(name));
      return absl::OkStatus();
    }
    at_ = begin;
    return Expected("a value");
  }

  absl::Status Call(std::string_view name, size_t begin, Value* value, int depth) {
    struct Container {
      std::string_view name;
      ValueTag tag;
    };
    for (const Container& kind : {Container{"tuple", ValueTag::kTuple}, Container{"set", ValueTag::kSet},
                                  Container{"frozenset", ValueTag::kFrozenSet}}) {
      if (name == kind.name) return Items(kind.tag, ')', value, depth);
    }
    if (name == "slice" || name == "range") return Three(name, value, depth);
    if (name == "dict") return DictCall(value, depth);
    if (name == "Tensor") return Tensor(value);
    if (dialect_ == kPython && (name == "T" || name == "ST")) return ShortTensor(name == "ST", value);
    ++at_;  // the parenthesis
    if (name == "torch.Size" || name == "paddle.Size" || name == "Size") {
      SkipSpaces();
      if (Peek() != '[') return Expected("\"[\" and sizes");
      if (absl::Status s = Items(ValueTag::kSize, ']', value, depth); !s.ok()) return s;
      Take(',');
      return Require(')', "\")\"");
    }
    if (name == "complex") return Complex(value);
    if (name == "float") return FloatCall(value);
    if (name == "deep" || name == "ellipsis") {
      if (!TakeWord("...)")) return Expected("\"...)\"");
      value->tag = name == "deep" ? ValueTag::kDeep : ValueTag::kEllipsis;
      return absl::OkStatus();
    }
    if (name == "Storage") return Storage(value);
    if (name == "ndarray") {
      value->tag = ValueTag::kNdarray;
      if (absl::Status s = Dims(&value->shape); !s.ok()) return s;
      if (absl::Status s = Require(',', "\",\" and a dtype"); !s.ok()) return s;
      if (absl::Status s = StringThere("a dtype in quotes", &value->text); !s.ok()) return s;
      return Require(')', "\")\"");
    }
    struct Single {
      std::string_view name;
      ValueTag tag;
      bool quoted;  // always; else PaddleAPITest leaves the quotes out
    };
    static constexpr Single kSingles[] = {{"int", ValueTag::kBigInt, true},
                                          {"torch.dtype", ValueTag::kDtype, true},
                                          {"torch.device", ValueTag::kDevice, true},
                                          {"device", ValueTag::kDevice, true},
                                          {"torch.layout", ValueTag::kLayout, true},
                                          {"torch.memory_format", ValueTag::kMemoryFormat, true},
                                          {"torch.Generator", ValueTag::kGenerator, true},
                                          {"function", ValueTag::kFunction, true},
                                          {"numpy_scalar", ValueTag::kNumpyScalar, true},
                                          {"object", ValueTag::kObject, true},
                                          {"symbol", ValueTag::kSymbol, true},
                                          {"type", ValueTag::kType, false},
                                          {"Dtype", ValueTag::kDtype, false},
                                          {"VarType", ValueTag::kDtype, false},
                                          {"Place", ValueTag::kDevice, false}};
    for (const Single& single : kSingles) {
      if (name != single.name) continue;
      value->tag = single.tag;
      if (single.quoted || QuoteComes()) {
        if (absl::Status s = StringThere("a string in quotes", &value->text); !s.ok()) return s;
      } else {
        if (absl::Status s = Unquoted(&value->text); !s.ok()) return s;
      }
      return Require(')', "\")\"");
    }
    at_ = begin;
    return Expected("a value (this name takes no arguments in the text form)");
  }

  bool QuoteComes() {
    SkipSpaces();
    return Peek() == '"' || Peek() == '\'';
  }

  // A string in quotes, or a `*` for one that was forgotten; in Python's repr also the device(type='cuda', index=0)
  // that str() gives.
  absl::Status StringThere(const char* what, std::string* text) {
    text->clear();
    if (Take('*')) {
      *text = kAnyName;
      return absl::OkStatus();
    }
    if (!QuoteComes()) {
      if (dialect_ == kPython && TakeWord("type=") && QuoteComes()) {
        if (absl::Status s = QuotedString(text); !s.ok()) return s;
        uint64_t index = 0;
        if (!Take(',')) return absl::OkStatus();
        SkipSpaces();
        if (!TakeWord("index=")) return Expected("index=");
        if (absl::Status s = Unsigned("a device's index", &index); !s.ok()) return s;
        absl::StrAppend(text, ":", index);
        return absl::OkStatus();
      }
      return Expected(what);
    }
    return QuotedString(text);
  }

  // Up to the closing parenthesis.
  absl::Status Unquoted(std::string* text) {
    const size_t end = text_.find_first_of(")(,", at_);
    if (end == std::string_view::npos || text_[end] != ')' || end == at_) return Expected("a name and \")\"");
    std::string_view name = text_.substr(at_, end - at_);
    if (name.starts_with('.')) name.remove_prefix(1);
    while (name.ends_with(' ')) name.remove_suffix(1);
    *text = name;
    at_ = end;
    return absl::OkStatus();
  }

  absl::Status Three(std::string_view name, Value* value, int depth) {
    const size_t begin = at_;
    if (absl::Status s = Items(ValueTag::kTuple, ')', value, depth); !s.ok()) return s;
    const bool cut = value->whole != value->items.size();
    if (value->items.size() != 3 || cut) {
      at_ = begin;
      return Expected("start, stop and step");
    }
    value->tag = name == "slice" ? ValueTag::kSlice : ValueTag::kRange;
    value->whole = 0;
    return absl::OkStatus();
  }

  absl::Status Real(double* real) {
    Value number;
    bool imaginary = false;
    SkipSpaces();
    const size_t begin = at_;
    const std::string_view rest = text_.substr(at_);
    if (rest.starts_with("inf") || rest.starts_with("nan") || rest.starts_with("math.") || IsDigit(Peek()) ||
        Peek() == '-' || Peek() == '+' || Peek() == '.') {
      if (absl::Status s = Number(&number, &imaginary); !s.ok()) return s;
      if (!imaginary) {
        *real = AsDouble(number);
        return absl::OkStatus();
      }
    }
    at_ = begin;
    return Expected("a real number");
  }

  absl::Status Complex(Value* value) {
    value->tag = ValueTag::kComplex;
    if (absl::Status s = Real(&value->real); !s.ok()) return s;
    if (absl::Status s = Require(',', "\",\" and the imaginary part"); !s.ok()) return s;
    if (absl::Status s = Real(&value->imaginary); !s.ok()) return s;
    return Require(')', "\")\"");
  }

  // float("inf")
  absl::Status FloatCall(Value* value) {
    const size_t begin = at_;
    std::string word;
    if (absl::Status s = StringThere("a number in quotes", &word); !s.ok()) return s;
    Parser inner(word, dialect_);
    value->tag = ValueTag::kFloat;
    if (!inner.Real(&value->real).ok() || !inner.End().ok()) {
      at_ = begin;
      return Expected("a number in quotes");
    }
    return Require(')', "\")\"");
  }

  absl::Status Storage(Value* value) {
    value->tag = ValueTag::kStorage;
    if (absl::Status s = StringThere("a device in quotes", &value->text); !s.ok()) return s;
    if (absl::Status s = Require(',', "\",\" and a number of bytes"); !s.ok()) return s;
    if (Take('*')) {
      value->whole = kAnyBytes;
    } else if (absl::Status s = Unsigned("a number of bytes", &value->whole); !s.ok()) {
      return s;
    }
    return Require(')', "\")\"");
  }

  // ---- tensors ----

  // [2, SymInt]; also list[2, 3], tuple(2, 3) and (2, 3).
  absl::Status Dims(std::vector<Dim>* dims) {
    SkipSpaces();
    if (!TakeWord("list")) TakeWord("tuple");
    char close = ']';
    if (Take('(')) {
      close = ')';
    } else if (!Take('[')) {
      return Expected("sizes in brackets");
    }
    while (!Take(close)) {
      SkipSpaces();
      const char* const begin = text_.data() + at_;
      int64_t size;
      const auto [end, error] = std::from_chars(begin, text_.data() + text_.size(), size);
      if (error == std::errc()) {
        at_ += static_cast<size_t>(end - begin);
        dims->emplace_back(size);
      } else if (Take('*')) {
        dims->emplace_back(kAnySize);
      } else if (IsNameStart(Peek()) && (dialect_ == kPython || text_.substr(at_).starts_with("SymInt"))) {
        while (IsNameChar(Peek())) ++at_;
        dims->emplace_back();
      } else {
        return Expected("a size");
      }
      if (Take(',')) continue;
      if (Take(close)) break;
      return Expected(absl::StrCat("\",\" or \"", std::string(1, close), "\""));
    }
    return absl::OkStatus();
  }

  absl::Status Tensor(Value* value) {
    ++at_;
    value->tag = ValueTag::kTensor;
    value->device = "cpu";
    SkipSpaces();
    if (TakeWord("undefined)")) {
      *value = Tagged(ValueTag::kUndefined);
      return absl::OkStatus();
    }
    if (TakeWord("None")) {
      value->tensor_bits |= kTensorShapeUnknown;
    } else {
      if (absl::Status s = Dims(&value->shape); !s.ok()) return s;
    }
    if (absl::Status s = Require(',', "\",\" and a dtype"); !s.ok()) return s;
    if (absl::Status s = StringThere("a dtype in quotes", &value->text); !s.ok()) return s;
    while (!Take(')')) {
      if (absl::Status s = Require(',', "\",\" or \")\""); !s.ok()) return s;
      if (Take(')')) break;
      if (absl::Status s = TensorOption(value); !s.ok()) return s;
    }
    return absl::OkStatus();
  }

  absl::Status TensorOption(Value* value) {
    SkipSpaces();
    if (TakeWord("device=")) return StringThere("a device in quotes", &value->device);
    if (TakeWord("stride=") || TakeWord("strides=")) return Strides(value);
    if (TakeWord("layout=")) {
      value->tensor_bits |= kTensorHasLayout;
      value->layout.clear();
      return StringThere("a layout in quotes", &value->layout);
    }
    if (TakeWord("place=Place(")) {
      value->device.clear();
      if (absl::Status s = Unquoted(&value->device); !s.ok()) return s;
      return Require(')', "\")\"");
    }
    return Expected("device=, stride= or layout=");
  }

  absl::Status Strides(Value* value) {
    if ((value->tensor_bits & kTensorShapeUnknown) != 0) return Expected("no strides of an unknown shape");
    const size_t begin = at_;
    value->tensor_bits |= kTensorHasStride;
    value->strides.clear();
    if (Take('*')) {
      value->strides.assign(value->shape.size(), Dim(kAnySize));
      return absl::OkStatus();
    }
    if (absl::Status s = Dims(&value->strides); !s.ok()) return s;
    if (value->strides.size() == value->shape.size()) return absl::OkStatus();
    at_ = begin;
    return Expected(absl::StrCat("as many strides as sizes, ", value->shape.size()));
  }

  // TorchBench's T([2, 3], f32, stride=(1, 2)), BackendBench's T([2, 3], f32, [1, 2]) and
  // ST(size, dtype, layout, is_coalesced, nnz=4).
  absl::Status ShortTensor(bool sparse, Value* value) {
    ++at_;
    value->tag = ValueTag::kTensor;
    value->device = "cpu";
    if (absl::Status s = Dims(&value->shape); !s.ok()) return s;
    if (absl::Status s = Require(',', "\",\" and a dtype"); !s.ok()) return s;
    SkipSpaces();
    const size_t dtype_at = at_;
    Value dtype;
    if (absl::Status s = ParseValue(&dtype, kMaxValueDepth); !s.ok()) return s;
    if (dtype.tag != ValueTag::kDtype) {
      at_ = dtype_at;
      return Expected("a dtype such as f32 or torch.float8_e4m3fn");
    }
    value->text = dtype.text;
    for (int option = 0; !Take(')'); ++option) {
      if (absl::Status s = Require(',', "\",\" or \")\""); !s.ok()) return s;
      if (Take(')')) break;
      SkipSpaces();
      if (!sparse) {
        TakeWord("stride=");
        if (absl::Status s = Strides(value); !s.ok()) return s;
        continue;
      }
      TakeWord("nnz=");
      const size_t at = at_;
      Value extra;
      if (absl::Status s = ParseValue(&extra, kMaxValueDepth); !s.ok()) return s;
      if (option > 0) continue;  // is_coalesced, nnz: no part of a config
      if (extra.tag != ValueTag::kLayout) {
        at_ = at;
        return Expected("a layout such as torch.sparse_coo");
      }
      value->tensor_bits |= kTensorHasLayout;
      value->layout = extra.text;
    }
    // Strides are part of a config only when it is not contiguous.
    if ((value->tensor_bits & kTensorHasStride) != 0 && IsContiguous(value->shape, value->strides)) {
      value->tensor_bits &= ~uint64_t{kTensorHasStride};
      value->strides.clear();
    }
    return absl::OkStatus();
  }

  const std::string_view text_;
  const Dialect dialect_;
  size_t at_ = 0;
};

}  // namespace

absl::StatusOr<Config> ParseConfigText(std::string_view line) {
  Config config;
  if (absl::Status s = Parser(line, Parser::kText).WholeConfig(&config); !s.ok()) return s;
  return config;
}

absl::StatusOr<Value> ParseValueText(std::string_view text) {
  Value value;
  if (absl::Status s = Parser(text, Parser::kText).WholeValue(&value); !s.ok()) return s;
  return value;
}

absl::Status ParseTorchBenchInputs(std::string_view text, Config* config) {
  return Parser(text, Parser::kPython).WholeInputs(config);
}

int GuessLevel(std::string_view api) { return api.find("::") == std::string_view::npos ? 1 : 2; }

}  // namespace torchtrace
