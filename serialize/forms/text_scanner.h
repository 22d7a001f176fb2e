// The characters of one line in the text form: where the parser is, what comes next, quoted
// strings, and the message that says what was expected there. The functions of
// text_number.h, text_leaf.h, text_tensor.h and text_value.h move it on. Looks into the
// line and owns nothing; of one thread.

#ifndef TORCHTRACE_SERIALIZE_FORMS_TEXT_SCANNER_H_
#define TORCHTRACE_SERIALIZE_FORMS_TEXT_SCANNER_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace torchtrace {

// kPython: what TorchBench writes, Python's repr with names of its own.
enum class TextDialect : uint8_t { kText, kPython };

class TextScanner {
 public:
  TextScanner(std::string_view line, TextDialect dialect) : line_(line), dialect_(dialect) {}

  static bool IsDigit(char c) { return c >= '0' && c <= '9'; }
  static bool IsNameStart(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
  static bool IsNameChar(char c) { return IsNameStart(c) || IsDigit(c); }

  bool python() const { return dialect_ == TextDialect::kPython; }
  TextDialect dialect() const { return dialect_; }

  // A position, to come back to.
  size_t at() const { return at_; }
  void MoveTo(size_t at) { at_ = at; }
  void Skip(size_t characters) { at_ += characters; }

  bool AtEnd() const { return at_ >= line_.size(); }
  std::string_view Rest() const { return line_.substr(at_); }
  std::string_view From(size_t begin) const { return line_.substr(begin, at_ - begin); }
  // NUL beyond the end.
  char Peek(size_t ahead = 0) const { return at_ + ahead < line_.size() ? line_[at_ + ahead] : '\0'; }
  bool WordComes(std::string_view word) const { return Rest().starts_with(word); }

  void SkipSpaces() {
    while (at_ < line_.size() && (line_[at_] == ' ' || line_[at_] == '\t')) ++at_;
  }
  // Spaces, and the character if it comes next.
  bool Take(char c) {
    SkipSpaces();
    if (at_ >= line_.size() || line_[at_] != c) return false;
    ++at_;
    return true;
  }
  bool TakeWord(std::string_view word) {
    if (!WordComes(word)) return false;
    at_ += word.size();
    return true;
  }
  // Spaces, and whether a quote is next.
  bool QuoteComes() {
    SkipSpaces();
    return Peek() == '"' || Peek() == '\'';
  }

  absl::Status Require(char c, const char* what) { return Take(c) ? absl::OkStatus() : Expected(what); }
  absl::Status RequireEnd();

  // Spaces, then digits.
  absl::Status Unsigned(const char* what, uint64_t* number);

  // Appends what stands between this quote and the next. A backslash that begins no escape
  // stands for itself: foreign strings are not escaped.
  absl::Status QuotedString(std::string* out, bool bytes = false);

  // "column 4: expected WHAT, found ...", of the position.
  absl::Status Expected(const std::string& what) const;
  // The same of the position `at`, to which it moves.
  absl::Status ExpectedAt(size_t at, const std::string& what) {
    MoveTo(at);
    return Expected(what);
  }
  // That `,` or `close` comes next.
  absl::Status ExpectedCommaOr(char close) const;

 private:
  // Behind a backslash. False, and nothing moved, when it is no escape.
  bool Escape(bool bytes, std::string* out);
  // Hexadecimal digits, exactly so many; moves nothing when they aren't there.
  bool Hex(size_t digits, uint32_t* number);

  const std::string_view line_;
  const TextDialect dialect_;
  size_t at_ = 0;
};

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_FORMS_TEXT_SCANNER_H_
