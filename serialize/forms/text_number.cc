#include "serialize/forms/text_number.h"

#include <charconv>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <string>
#include <string_view>
#include <system_error>

namespace torchtrace {
namespace {

void SkipDigits(TextScanner* scanner) {
  while (TextScanner::IsDigit(scanner->Peek())) scanner->Skip(1);
}

void SetFloat(double real, Value* value) {
  value->tag = ValueTag::kFloat;
  value->real = real;
}

// What doesn't read back as the same digits is kept as it is: that is how text_form.h shows it.
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

// inf, nan. Behind the sign, which is there when `negative`; the number began at `begin`.
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

// An int or a float, `imaginary` when a j stands behind it.
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
