// What the text form and its parser are made of: the scanner, and the parsers of leaves, numbers, tensors and values.

#ifndef TORCHTRACE_SERIALIZE_FORMS_TEXT_PARTS_H_
#define TORCHTRACE_SERIALIZE_FORMS_TEXT_PARTS_H_

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "serialize/model/config.h"
#include "serialize/model/value.h"

namespace torchtrace {

// As FormatConfig; of these tensors the device is told where it is the default, too.
std::string FormatWithDevices(const Config& config, const std::set<const Value*>& with_device);

// The characters of one line in the text form: where the parser is, what comes next, quoted
// strings, and the message that says what was expected there. The functions of
// text_parts.h, text_parts.h, text_parts.h and text_parts.h move it on. Looks into the
// line and owns nothing; of one thread.

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
  // float32 of torch.float32: what a framework's name stands before; empty: it doesn't.
  std::string_view OwnName(std::string_view name) const;
  // The name, which is a part of the line, is that of a value of its framework.
  void NoteFramework(std::string_view name);
  // It is what PaddleAPITest calls a size, paddle.Size, in calls of torch's too.
  void NoteSize(std::string_view name);
  // A tensor begins here that doesn't say whose it is.
  void NoteTensor(size_t at) { tensor_at_ = std::min(tensor_at_, at); }
  // Whose the values of the call were, where that is not what its API says.
  absl::Status OtherFramework(std::string_view api, std::string* other);
  // That `,` or `close` comes next.
  absl::Status ExpectedCommaOr(char close) const;

 private:
  // Behind a backslash. False, and nothing moved, when it is no escape.
  bool Escape(bool bytes, std::string* out);
  // Hexadecimal digits, exactly so many; moves nothing when they aren't there.
  bool Hex(size_t digits, uint32_t* number);

  const std::string_view line_;
  const TextDialect dialect_;
  // Of values that say it; empty: none did.
  std::string_view framework_, size_framework_;
  // The first value of another one, the first tensor that doesn't say it.
  size_t mixed_at_ = SIZE_MAX, tensor_at_ = SIZE_MAX;
  size_t at_ = 0;
};

// Values of the text form (docs/TEXT.md) that hold no others: strings, numbers, names, and
// calls such as torch.device("cuda"). Values are new ones, and unspecified after an error.
// Callable from any thread.

// Any of them.
absl::Status ReadTextLeaf(TextScanner* scanner, Value* value);

// The same in three parts, for who knows other names as well. What isn't named, when
// NameComes is false:
bool NameComes(const TextScanner& scanner);
absl::Status ReadNamelessLeaf(TextScanner* scanner, Value* value);
// `torch.float32`; empty when none is next.
std::string_view TakeDottedName(TextScanner* scanner);
// Behind that name: what it is alone, or what its parentheses, which come next, make of it.
absl::Status ReadBareName(TextScanner* scanner, std::string_view name, Value* value);
absl::Status ReadLeafCall(TextScanner* scanner, std::string_view name, Value* value);

// A string in quotes, or a `*` for one that was forgotten; in Python's repr also the
// device(type='cuda', index=0) that str() gives, from `type=` on.
absl::Status ReadTextString(TextScanner* scanner, const char* what, std::string* text);

// As far as the parenthesis that closes: Place(gpu:0).
absl::Status ReadUnquoted(TextScanner* scanner, std::string* text);

// What was left out behind `shown`: `...+997`.
inline bool CutComes(const TextScanner& scanner) { return scanner.WordComes("...+"); }
absl::Status ReadCut(TextScanner* scanner, uint64_t* cut);
// value->whole
absl::Status SetWhole(const TextScanner& scanner, uint64_t shown, uint64_t cut, Value* value);

// Numbers of the text form (docs/TEXT.md). Values are new ones, and unspecified after an
// error; then the scanner stands where the number should have begun. Callable from any
// thread.

// Whether a digit, a sign or a point is next.
bool NumberComes(const TextScanner& scanner);

// An int, a float or, in Python's repr, a complex number: `1+2j`.
absl::Status ReadTextNumber(TextScanner* scanner, Value* value);

// Spaces, then an int or a float.
absl::Status ReadTextReal(TextScanner* scanner, double* real);

// Tensors and arrays of the text form (docs/TEXT.md), each spelling behind its opening
// parenthesis. They hold no other values. Values are new ones, and unspecified after an
// error. Callable from any thread.

// Tensor([2, 3], "float32", device="cuda:0", stride=[1, 2])
absl::Status ReadTensorCall(TextScanner* scanner, Value* value);

// TorchBench's T([2, 3], f32, stride=(1, 2)) and BackendBench's T([2, 3], f32, [1, 2])
absl::Status ReadShortTensor(TextScanner* scanner, Value* value);

// TorchBench's ST(size, dtype, layout, is_coalesced, nnz=4)
absl::Status ReadShortSparseTensor(TextScanner* scanner, Value* value);

// ndarray([2, 3], "float32")
absl::Status ReadNdarrayCall(TextScanner* scanner, Value* value);

// Any value of the text form (docs/TEXT.md): containers, which hold others, and through
// text_parts.h and text_parts.h all the rest. Callable from any thread.

// Spaces, then one value, into a new one; it is unspecified after an error. Deeper nesting
// than kMaxValueDepth is an error.
absl::Status ReadTextValue(TextScanner* scanner, Value* value);

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_FORMS_TEXT_PARTS_H_
