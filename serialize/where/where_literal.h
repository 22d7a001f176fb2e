// The values that a user writes in a condition of --where: numbers, durations, texts and
// sizes. Plain data that owns what it shows; callable from any thread.

#ifndef TORCHTRACE_SERIALIZE_WHERE_WHERE_LITERAL_H_
#define TORCHTRACE_SERIALIZE_WHERE_WHERE_LITERAL_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace torchtrace {

// Whole ones are compared as such: a double doesn't hold all of them.
struct WhereNumber {
  bool whole = true;
  int64_t integer = 0;
  double real = 0;  // also of a whole one

  static WhereNumber Whole(int64_t value) { return {true, value, static_cast<double>(value)}; }
  static WhereNumber Real(double value) { return {false, 0, value}; }
};

// Below, at or above 0, as strcmp; nothing when one is a nan.
std::optional<int> CompareNumbers(const WhereNumber& a, const WhereNumber& b);

// The whole of `text`: `-3`, `1e5`, `inf`, `nan`.
std::optional<WhereNumber> ParseWhereNumber(std::string_view text);

// `10us`, `1.5ms`, in nanoseconds.
std::optional<WhereNumber> ParseWhereDuration(std::string_view text);

// A word that is a number, true, false or none is that where the field takes it, and a
// text elsewhere.
struct WhereLiteral {
  enum Type : uint8_t { kText, kDims } type = kText;
  bool quoted = false;
  std::string text;
  std::optional<WhereNumber> number;
  std::vector<std::optional<int64_t>> dims;  // empty: any size

  bool Is(std::string_view word) const { return type == kText && !quoted && text == word; }
  std::optional<bool> boolean() const;
  // What parses to the same.
  std::string ToString() const;
};

// As a quoted value is written: a backslash before each quote and backslash.
std::string QuoteWhereText(std::string_view text);

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_WHERE_WHERE_LITERAL_H_
