#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <limits>
#include <string>
#include <string_view>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "serialize/forms/text_parts.h"
#include "serialize/model/config.h"
#include "serialize/model/torch_types.h"

namespace torchtrace {
namespace {

absl::Status Tag(ValueTag tag, std::string_view text, Value* value) {
  value->tag = tag;
  value->text = text;
  return absl::OkStatus();
}

// A string after its prefix b, if any, and how much was cut off.
absl::Status Text(TextScanner* scanner, ValueTag tag, Value* value) {
  value->tag = tag;
  if (absl::Status s = scanner->QuotedString(&value->text, tag == ValueTag::kBytes); !s.ok()) return s;
  uint64_t cut = 0;
  if (CutComes(*scanner)) {
    if (absl::Status s = ReadCut(scanner, &cut); !s.ok()) return s;
  }
  return SetWhole(*scanner, value->text.size(), cut, value);
}

// <class 'x'>, <function f at 0x...>: Python's repr of an object.
absl::Status ObjectRepr(TextScanner* scanner, Value* value) {
  const std::string_view rest = scanner->Rest();
  int open = 0;
  for (size_t i = 0; i < rest.size(); ++i) {
    if (rest[i] == '<') ++open;
    if (rest[i] == '>' && --open == 0) {
      scanner->Skip(i + 1);
      return Tag(ValueTag::kObject, rest.substr(1, i - 1), value);
    }
  }
  return scanner->Expected("\">\" at the end of an object's repr");
}

absl::Status Complex(TextScanner* scanner, Value* value) {
  value->tag = ValueTag::kComplex;
  if (absl::Status s = ReadTextReal(scanner, &value->real); !s.ok()) return s;
  if (absl::Status s = scanner->Require(',', "\",\" and the imaginary part"); !s.ok()) return s;
  if (absl::Status s = ReadTextReal(scanner, &value->imaginary); !s.ok()) return s;
  return scanner->Require(')', "\")\"");
}

// float("inf")
absl::Status Float(TextScanner* scanner, Value* value) {
  const size_t begin = scanner->at();
  std::string word;
  if (absl::Status s = ReadTextString(scanner, "a number in quotes", &word); !s.ok()) return s;
  TextScanner inner(word, scanner->dialect());
  value->tag = ValueTag::kFloat;
  if (!ReadTextReal(&inner, &value->real).ok() || !inner.RequireEnd().ok()) {
    return scanner->ExpectedAt(begin, "a number in quotes");
  }
  return scanner->Require(')', "\")\"");
}

absl::Status Storage(TextScanner* scanner, Value* value) {
  value->tag = ValueTag::kStorage;
  if (absl::Status s = ReadTextString(scanner, "a device in quotes", &value->text); !s.ok()) return s;
  if (absl::Status s = scanner->Require(',', "\",\" and a number of bytes"); !s.ok()) return s;
  if (scanner->Take('*')) {
    value->whole = kAnyBytes;
  } else if (absl::Status s = scanner->Unsigned("a number of bytes", &value->whole); !s.ok()) {
    return s;
  }
  return scanner->Require(')', "\")\"");
}

}  // namespace

absl::Status ReadTextLeaf(TextScanner* scanner, Value* value) {
  scanner->SkipSpaces();
  if (!NameComes(*scanner)) return ReadNamelessLeaf(scanner, value);
  const std::string_view name = TakeDottedName(scanner);
  return scanner->Peek() == '(' ? ReadLeafCall(scanner, name, value) : ReadBareName(scanner, name, value);
}

bool NameComes(const TextScanner& scanner) {
  const char c = scanner.Peek();
  const bool bytes = c == 'b' && (scanner.Peek(1) == '"' || scanner.Peek(1) == '\'');
  return TextScanner::IsNameStart(c) && !bytes;
}

absl::Status ReadNamelessLeaf(TextScanner* scanner, Value* value) {
  const char c = scanner->Peek();
  if (c == '"' || c == '\'') return Text(scanner, ValueTag::kString, value);
  if (c == 'b') {
    scanner->Skip(1);
    return Text(scanner, ValueTag::kBytes, value);
  }
  if (scanner->TakeWord("...")) {
    value->tag = ValueTag::kEllipsis;
    return absl::OkStatus();
  }
  if (NumberComes(*scanner)) return ReadTextNumber(scanner, value);
  if (scanner->TakeWord("*")) {
    *value = AnyValue();
    return absl::OkStatus();
  }
  if (c == '<' && scanner->python()) return ObjectRepr(scanner, value);
  return scanner->Expected("a value");
}

std::string_view TakeDottedName(TextScanner* scanner) {
  const size_t begin = scanner->at();
  for (char c = scanner->Peek(); TextScanner::IsNameChar(c) || (c == '.' && TextScanner::IsNameStart(scanner->Peek(1)));
       c = scanner->Peek()) {
    scanner->Skip(1);
  }
  return scanner->From(begin);
}

absl::Status ReadBareName(TextScanner* scanner, std::string_view name, Value* value) {
  if (name == "None") return absl::OkStatus();
  if (name == "True") return Tag(ValueTag::kTrue, "", value);
  if (name == "False") return Tag(ValueTag::kFalse, "", value);
  if (name == "Ellipsis") return Tag(ValueTag::kEllipsis, "", value);
  const size_t begin = scanner->at() - name.size();
  if (name == "inf" || name == "nan" || name == "math.inf" || name == "math.nan") {
    scanner->MoveTo(begin);
    return ReadTextNumber(scanner, value);
  }
  if (name == "SymInt" || name == "SymFloat" || name == "SymBool") return Tag(ValueTag::kSymbol, name, value);
  if (scanner->python()) {
    const std::string_view dtype = DtypeOfAbbreviation(name);
    if (!dtype.empty()) return Tag(ValueTag::kDtype, dtype, value);
  }
  if (const std::string_view own = scanner->OwnName(name); !own.empty() && own.find('.') == std::string_view::npos) {
    const ValueTag tag = KindOfTorchName(own);
    if (tag == ValueTag::kType) return Tag(tag, name, value);
    scanner->NoteFramework(name);
    return Tag(tag, own, value);
  }
  // api_tracer writes types like this: builtins.float, numpy.int64.
  if (name.find('.') != std::string_view::npos) return Tag(ValueTag::kType, name, value);
  return scanner->ExpectedAt(begin, "a value");
}

absl::Status ReadLeafCall(TextScanner* scanner, std::string_view name, Value* value) {
  const size_t begin = scanner->at() - name.size();
  scanner->Skip(1);  // the parenthesis
  if (name == "complex") return Complex(scanner, value);
  if (name == "float") return Float(scanner, value);
  if (name == "deep" || name == "ellipsis") {
    if (!scanner->TakeWord("...)")) return scanner->Expected("\"...)\"");
    value->tag = name == "deep" ? ValueTag::kDeep : ValueTag::kEllipsis;
    return absl::OkStatus();
  }
  if (name == "Storage") return Storage(scanner, value);
  struct Single {
    std::string_view name;
    ValueTag tag;
    bool own;     // it follows a framework's name
    bool quoted;  // always in quotes; PaddleAPITest leaves them out for others
  };
  static constexpr Single kSingles[] = {{"int", ValueTag::kBigInt, false, true},
                                        {"dtype", ValueTag::kDtype, true, true},
                                        {"device", ValueTag::kDevice, true, true},
                                        {"device", ValueTag::kDevice, false, true},
                                        {"layout", ValueTag::kLayout, true, true},
                                        {"memory_format", ValueTag::kMemoryFormat, true, true},
                                        {"Generator", ValueTag::kGenerator, true, true},
                                        {"function", ValueTag::kFunction, false, true},
                                        {"numpy_scalar", ValueTag::kNumpyScalar, false, true},
                                        {"object", ValueTag::kObject, false, true},
                                        {"symbol", ValueTag::kSymbol, false, true},
                                        {"type", ValueTag::kType, false, false},
                                        {"Dtype", ValueTag::kDtype, false, false},
                                        {"VarType", ValueTag::kDtype, false, false},
                                        {"Place", ValueTag::kDevice, false, false}};
  const std::string_view own_name = scanner->OwnName(name);
  for (const Single& single : kSingles) {
    if ((single.own ? own_name : name) != single.name) continue;
    if (single.own) scanner->NoteFramework(name);
    value->tag = single.tag;
    absl::Status read = single.quoted || scanner->QuoteComes()
                            ? ReadTextString(scanner, "a string in quotes", &value->text)
                            : ReadUnquoted(scanner, &value->text);
    return read.ok() ? scanner->Require(')', "\")\"") : read;
  }
  return scanner->ExpectedAt(begin, "a value (this name takes no arguments in the text form)");
}

absl::Status ReadTextString(TextScanner* scanner, const char* what, std::string* text) {
  text->clear();
  if (scanner->Take('*')) {
    *text = kAnyName;
    return absl::OkStatus();
  }
  if (scanner->QuoteComes()) return scanner->QuotedString(text);
  if (!scanner->python() || !scanner->TakeWord("type=") || !scanner->QuoteComes()) return scanner->Expected(what);
  if (absl::Status s = scanner->QuotedString(text); !s.ok()) return s;
  if (!scanner->Take(',')) return absl::OkStatus();
  scanner->SkipSpaces();
  if (!scanner->TakeWord("index=")) return scanner->Expected("index=");
  uint64_t index = 0;
  if (absl::Status s = scanner->Unsigned("a device's index", &index); !s.ok()) return s;
  absl::StrAppend(text, ":", index);
  return absl::OkStatus();
}

absl::Status ReadUnquoted(TextScanner* scanner, std::string* text) {
  const std::string_view rest = scanner->Rest();
  const size_t end = rest.find_first_of(")(,");
  if (end == std::string_view::npos || rest[end] != ')' || end == 0) return scanner->Expected("a name and \")\"");
  std::string_view name = rest.substr(0, end);
  if (name.starts_with('.')) name.remove_prefix(1);
  while (name.ends_with(' ')) name.remove_suffix(1);
  *text = name;
  scanner->Skip(end);
  return absl::OkStatus();
}

absl::Status ReadCut(TextScanner* scanner, uint64_t* cut) {
  scanner->Skip(4);
  return scanner->Unsigned("how much was left out, in digits", cut);
}

absl::Status SetWhole(const TextScanner& scanner, uint64_t shown, uint64_t cut, Value* value) {
  if (cut > UINT64_MAX - shown) return scanner.Expected("a smaller count of what was left out");
  value->whole = shown + cut;
  return absl::OkStatus();
}

namespace {

void SkipDigits(TextScanner* scanner) {
  while (TextScanner::IsDigit(scanner->Peek())) scanner->Skip(1);
}

void SetFloat(double real, Value* value) {
  value->tag = ValueTag::kFloat;
  value->real = real;
}

// An integer that wouldn't be printed with the same digits keeps them, as FormatConfig prints those.
void SetInteger(const std::string& token, Value* value) {
  const auto [end, error] = std::from_chars(token.data(), token.data() + token.size(), value->integer);
  const bool canonical = error == std::errc() && std::to_string(value->integer) == token;
  value->tag = canonical ? ValueTag::kInt : ValueTag::kBigInt;
  if (canonical) return;
  value->integer = 0;
  value->text = token;
}

void SetComplex(double real, double imaginary, Value* value) {
  *value = Value();
  value->tag = ValueTag::kComplex;
  value->real = real;
  value->imaginary = imaginary;
}

double AsDouble(const Value& number) {
  if (number.tag == ValueTag::kFloat) return number.real;
  if (number.tag == ValueTag::kInt) return static_cast<double>(number.integer);
  return std::strtod(number.text.c_str(), nullptr);
}

// inf, nan. The sign, a minus if `negative`, was already read; the number began at `begin`.
absl::Status Word(TextScanner* scanner, bool negative, size_t begin, Value* value) {
  for (const std::string_view word : {"math.inf", "inf", "math.nan", "nan"}) {
    if (!scanner->WordComes(word) || TextScanner::IsNameChar(scanner->Peek(word.size()))) continue;
    scanner->Skip(word.size());
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
    SetFloat(!word.ends_with("inf") ? kNan : negative ? -kInfinity : kInfinity, value);
    return absl::OkStatus();
  }
  return scanner->ExpectedAt(begin, "a number");
}

// An int or a float; `imaginary`: a j follows it.
absl::Status Number(TextScanner* scanner, Value* value, bool* imaginary) {
  const size_t begin = scanner->at();
  const bool negative = scanner->Peek() == '-';
  const bool plus = scanner->Peek() == '+';
  if (negative || plus) scanner->Skip(1);
  *imaginary = false;
  if (TextScanner::IsNameStart(scanner->Peek())) return Word(scanner, negative, begin, value);
  const size_t digits_at = scanner->at();
  SkipDigits(scanner);
  size_t digits = scanner->at() - digits_at;
  bool whole = true;
  if (scanner->Peek() == '.' && scanner->Peek(1) != '.') {
    whole = false;
    scanner->Skip(1);
    const size_t decimals_at = scanner->at();
    SkipDigits(scanner);
    digits += scanner->at() - decimals_at;
  }
  if (digits == 0) return scanner->ExpectedAt(begin, "a number");
  if (scanner->Peek() == 'e' || scanner->Peek() == 'E') {
    const size_t sign = scanner->Peek(1) == '+' || scanner->Peek(1) == '-' ? 1 : 0;
    if (TextScanner::IsDigit(scanner->Peek(1 + sign))) {
      whole = false;
      scanner->Skip(1 + sign);
      SkipDigits(scanner);
    }
  }
  const std::string token(scanner->From(begin + (plus ? 1 : 0)));
  *imaginary = scanner->Peek() == 'j' && !TextScanner::IsNameChar(scanner->Peek(1));
  if (*imaginary) scanner->Skip(1);
  if (TextScanner::IsNameChar(scanner->Peek())) return scanner->ExpectedAt(begin, "a number");
  if (whole) {
    SetInteger(token, value);
  } else {
    SetFloat(std::strtod(token.c_str(), nullptr), value);
  }
  return absl::OkStatus();
}

}  // namespace

bool NumberComes(const TextScanner& scanner) {
  const char c = scanner.Peek();
  return TextScanner::IsDigit(c) || c == '-' || c == '+' || c == '.';
}

absl::Status ReadTextNumber(TextScanner* scanner, Value* value) {
  bool imaginary = false;
  const size_t begin = scanner->at();
  if (absl::Status s = Number(scanner, value, &imaginary); !s.ok()) return s;
  if (!scanner->python()) {
    if (!imaginary) return absl::OkStatus();
    return scanner->ExpectedAt(begin, "a number (complex ones are written complex(1.0, 2.0))");
  }
  if (imaginary) {
    SetComplex(0, AsDouble(*value), value);
  } else if (scanner->Peek() == '+' || scanner->Peek() == '-') {
    Value second;
    if (absl::Status s = Number(scanner, &second, &imaginary); !s.ok()) return s;
    if (!imaginary) return scanner->ExpectedAt(begin, "a number or a complex number such as 1+2j");
    SetComplex(AsDouble(*value), AsDouble(second), value);
  }
  return absl::OkStatus();
}

absl::Status ReadTextReal(TextScanner* scanner, double* real) {
  scanner->SkipSpaces();
  const size_t begin = scanner->at();
  if (NumberComes(*scanner) || scanner->WordComes("inf") || scanner->WordComes("nan") || scanner->WordComes("math.")) {
    Value number;
    bool imaginary = false;
    if (absl::Status s = Number(scanner, &number, &imaginary); !s.ok()) return s;
    if (!imaginary) {
      *real = AsDouble(number);
      return absl::OkStatus();
    }
  }
  return scanner->ExpectedAt(begin, "a real number");
}

}  // namespace torchtrace
