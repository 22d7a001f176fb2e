// Parts of the text form and its parser: the scanner, and the parsers of leaves, numbers, tensors and values.

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

// Like FormatConfig, but writes the devices of these tensors even if they are the default.
std::string FormatWithDevices(const Config& config, const std::set<const Value*>& with_device);

// kPython: TorchBench's dialect, Python's repr with TorchBench's names.
enum class TextDialect : uint8_t { kText, kPython };

// The parser's position in one line of the text form, what comes next, quoted strings, and
// messages about what was expected. The functions below advance it. Refers to the line and
// owns nothing. Not thread-safe.
class TextScanner {
 public:
  TextScanner(std::string_view line, TextDialect dialect) : line_(line), dialect_(dialect) {}

  static bool IsDigit(char c) { return c >= '0' && c <= '9'; }
  static bool IsNameStart(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
  static bool IsNameChar(char c) { return IsNameStart(c) || IsDigit(c); }

  bool python() const { return dialect_ == TextDialect::kPython; }
  TextDialect dialect() const { return dialect_; }

  // A position for MoveTo.
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
  // Skips spaces, and the character if it comes next.
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
  // Skips spaces; whether a quote is next.
  bool QuoteComes() {
    SkipSpaces();
    return Peek() == '"' || Peek() == '\'';
  }

  absl::Status Require(char c, const char* what) { return Take(c) ? absl::OkStatus() : Expected(what); }
  absl::Status RequireEnd();

  // Skips spaces and reads digits.
  absl::Status Unsigned(const char* what, uint64_t* number);

  // Appends the text between this quote and the next. A backslash that begins no escape
  // is kept, because other tools don't escape strings.
  absl::Status QuotedString(std::string* out, bool bytes = false);

  // "column 4: expected WHAT, found ...", for the current position.
  absl::Status Expected(const std::string& what) const;
  // Moves to `at` and returns the same for it.
  absl::Status ExpectedAt(size_t at, const std::string& what) {
    MoveTo(at);
    return Expected(what);
  }
  // float32 of torch.float32: the name without the framework; empty: it has none.
  std::string_view OwnName(std::string_view name) const;
  // Notes the framework of a value's name, which is a part of the line.
  void NoteFramework(std::string_view name);
  // Notes a size: PaddleAPITest writes paddle.Size in calls of torch too.
  void NoteSize(std::string_view name);
  // Notes a tensor without a framework at `at`.
  void NoteTensor(size_t at) { tensor_at_ = std::min(tensor_at_, at); }
  // The framework of the call's values, if it differs from the API's.
  absl::Status OtherFramework(std::string_view api, std::string* other);
  // The error that `,` or `close` was expected.
  absl::Status ExpectedCommaOr(char close) const;

 private:
  // Reads an escape after its backslash. False, without moving, if it isn't an escape.
  bool Escape(bool bytes, std::string* out);
  // Reads exactly `digits` hexadecimal digits. False, without moving, if they aren't there.
  bool Hex(size_t digits, uint32_t* number);

  const std::string_view line_;
  const TextDialect dialect_;
  // Of the values that name one; empty: none did.
  std::string_view framework_, size_framework_;
  // The first value of a second framework, and the first tensor without one.
  size_t mixed_at_ = SIZE_MAX, tensor_at_ = SIZE_MAX;
  size_t at_ = 0;
};

// All functions below parse the text form (docs/TEXT.md) and may be called from any thread. `value` must
// be new; it is unspecified after an error.

// A leaf, which is a value that contains no others: a string, a number, a name, or a call such as
// torch.device("cuda").
absl::Status ReadTextLeaf(TextScanner* scanner, Value* value);

// The same in parts, for callers that know other names as well. If NameComes is false, read a leaf
// without a name:
bool NameComes(const TextScanner& scanner);
absl::Status ReadNamelessLeaf(TextScanner* scanner, Value* value);
// `torch.float32`; empty if no name is next.
std::string_view TakeDottedName(TextScanner* scanner);
// After that name: the value of the name alone, or of the name with the parentheses that come next.
absl::Status ReadBareName(TextScanner* scanner, std::string_view name, Value* value);
absl::Status ReadLeafCall(TextScanner* scanner, std::string_view name, Value* value);

// A string in quotes, or `*` for one that was coarsened; in Python's repr also the
// device(type='cuda', index=0) that str() gives, from `type=` on.
absl::Status ReadTextString(TextScanner* scanner, const char* what, std::string* text);

// The text up to the closing parenthesis: Place(gpu:0).
absl::Status ReadUnquoted(TextScanner* scanner, std::string* text);

// The number of items left out after the shown ones: `...+997`.
inline bool CutComes(const TextScanner& scanner) { return scanner.WordComes("...+"); }
absl::Status ReadCut(TextScanner* scanner, uint64_t* cut);
// Sets value->whole.
absl::Status SetWhole(const TextScanner& scanner, uint64_t shown, uint64_t cut, Value* value);

// Numbers. After an error the scanner is where the number should have begun.

// Whether a digit, a sign or a point is next.
bool NumberComes(const TextScanner& scanner);

// An int, a float or, in Python's repr, a complex number: `1+2j`.
absl::Status ReadTextNumber(TextScanner* scanner, Value* value);

// Skips spaces and reads an int or a float.
absl::Status ReadTextReal(TextScanner* scanner, double* real);

// Tensors and arrays, each spelling after its opening parenthesis.

// Tensor([2, 3], "float32", device="cuda:0", stride=[1, 2])
absl::Status ReadTensorCall(TextScanner* scanner, Value* value);

// TorchBench's T([2, 3], f32, stride=(1, 2)) and BackendBench's T([2, 3], f32, [1, 2])
absl::Status ReadShortTensor(TextScanner* scanner, Value* value);

// TorchBench's ST(size, dtype, layout, is_coalesced, nnz=4)
absl::Status ReadShortSparseTensor(TextScanner* scanner, Value* value);

// ndarray([2, 3], "float32")
absl::Status ReadNdarrayCall(TextScanner* scanner, Value* value);

// Skips spaces and reads any value, a container or a leaf. Nesting deeper than kMaxValueDepth
// is an error.
absl::Status ReadTextValue(TextScanner* scanner, Value* value);

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_FORMS_TEXT_PARTS_H_
