// Text for people and other programs: UTF-8, escapes for terminals, counts, durations, shell words, CSV cells, tables.

#ifndef TORCHTRACE_SERIALIZE_BASE_TEXT_H_
#define TORCHTRACE_SERIALIZE_BASE_TEXT_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace torchtrace {

// A decoded character of a text that may be invalid UTF-8: Python strings hold
// lone surrogates, and a cut string may end inside a character.
struct Utf8Char {
  enum Kind : uint8_t {
    kScalar,     // code_point is a character
    kSurrogate,  // three bytes that encode a lone surrogate
    kInvalid,    // one byte that isn't part of a character; code_point is that byte
  };
  Kind kind = kInvalid;
  uint8_t bytes = 1;
  uint32_t code_point = 0;
};

// The first character of `text`, which must not be empty.
Utf8Char DecodeUtf8(std::string_view text);

// The inverse, also for surrogates. `code_point` is at most 0x10ffff.
void AppendUtf8(uint32_t code_point, std::string* out);

bool IsValidUtf8(std::string_view text);

// ASCII letters, digits and underscores, no digit first: an identifier or keyword of Python and C.
bool IsWord(std::string_view text);

// Whether the text is among these.
inline bool IsOneOf(std::string_view text, std::span<const std::string_view> among) {
  return std::find(among.begin(), among.end(), text) != among.end();
}
inline bool IsOneOf(std::string_view text, std::initializer_list<std::string_view> among) {
  return IsOneOf(text, std::span(among.begin(), among.size()));
}

// The longest prefix of whole characters that has at most so many bytes.
std::string_view CutUtf8(std::string_view text, size_t bytes);

// True for characters that break a line, mislead its reader, or that a terminal or a YAML reader does not accept
// verbatim: controls, line separators, bidirectional marks, invisible tags, byte order mark, noncharacters.
bool NeedsEscape(uint32_t code_point);

// `\u1234`, in UTF-16 units: two escapes for a character outside of the basic plane, one for a surrogate.
void AppendUtf16Escape(uint32_t code_point, std::string* out);

struct PlainTextOptions {
  bool layout = true;   // keeps line breaks and tabs
  bool colors = false;  // keeps colour sequences
  bool more = false;    // more text follows: leaves a possibly incomplete character or sequence at the end
};

// Makes untrusted text safe to show: names of processes, threads, files and exceptions in a trace. Escape sequences,
// other controls, bidirectional marks and invalid UTF-8 become escapes such as `\x1b` or `\u202e`. Everything that the
// verbs write to a terminal goes through it (StandardOutput, SayLines). Returns how many bytes of `text` it consumed:
// all of them, unless options.more is set.
size_t AppendPlainText(std::string_view text, const PlainTextOptions& options, std::string* out);

// The same for the whole text, on one line: PlainLine("a\x1b[2J\n") is "a\\x1b[2J\\n". For what must stay on its line
// or in its cell.
std::string PlainLine(std::string_view text);

// ANSI colours of terminals, and what diff tools use them for.
inline constexpr char kRed[] = "\x1b[31m";     // what A has
inline constexpr char kGreen[] = "\x1b[32m";   // what B has
inline constexpr char kYellow[] = "\x1b[33m";  // what changed
inline constexpr char kCyan[] = "\x1b[36m";    // where
inline constexpr char kBold[] = "\x1b[1m";
inline constexpr char kDim[] = "\x1b[2m";
inline constexpr char kReset[] = "\x1b[0m";

// `1 call`, `2 calls`
inline std::string Counted(uint64_t count, std::string_view one, std::string_view many) {
  return absl::StrCat(count, " ", std::string(count == 1 ? one : many));
}

// `part` of `whole` as `12.34%`; 0.00% if `whole` is 0.
inline std::string FormatPercent(uint64_t part, uint64_t whole) {
  const double percent = whole == 0 ? 0 : 100 * static_cast<double>(part) / static_cast<double>(whole);
  return absl::StrFormat("%.2f%%", percent);
}

// Three digits and a unit: `812 ns`, `12.3 us`, `4.56 s`.
std::string FormatDuration(int64_t ns);

// A number of bytes as users write it: `4096`, `64KB`, `1 MiB`; K, M, G and T are powers of 1024. InvalidArgument says
// what was expected.
absl::StatusOr<uint64_t> ParseSize(std::string_view text);

// The inverse, by the largest unit that keeps it whole: `500MB`, `4097`.
std::string FormatSize(uint64_t bytes);

// Quotes a word for a shell if necessary: for commands that we show.
inline std::string ShellQuote(std::string_view word) {
  const auto is_safe = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("_-./,:=+@%").find(c) != std::string_view::npos;
  };
  if (!word.empty() && std::all_of(word.begin(), word.end(), is_safe)) return std::string(word);
  std::string quoted = "'";
  for (const char c : word) {
    if (c == '\'') {
      quoted += "'\\''";
    } else {
      quoted += c;
    }
  }
  return quoted + "'";
}

// A CSV cell as in RFC 4180: quoted if it contains a comma or a quote. Controls, including line
// breaks, are escaped (PlainLine).
inline std::string CsvCell(std::string_view text) {
  std::string plain = PlainLine(text);
  if (plain.find_first_of(",\"") == std::string::npos) return plain;
  std::string quoted = "\"";
  for (const char c : plain) {
    if (c == '"') quoted += '"';
    quoted += c;
  }
  return quoted + "\"";
}

// A table in columns for a terminal, or in Markdown. Widths count characters, not
// bytes; the last column is not padded, so long texts belong there.
class TextTable {
 public:
  enum Align { kLeft, kRight };
  struct Column {
    std::string title;
    Align align = kRight;
    // Neighbouring columns of one group share a heading.
    std::string group = {};
  };

  explicit TextTable(std::vector<Column> columns);
  // One cell per column; each becomes a PlainLine.
  void AddRow(std::vector<std::string> cells);

  // Lines have no trailing blanks.
  std::string Format() const;
  // A GitHub table; cells of left-aligned columns are code. A single column becomes a list of code below its title.
  std::string FormatMarkdown() const;

 private:
  // The first and last column of each group.
  std::vector<std::pair<size_t, size_t>> Groups() const;

  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

// A source file's path, shortened: without the program's working folder (`folder`, with a trailing slash; empty: none),
// the folders of installed packages, and that of Python's standard library.
std::string_view ShortSourcePath(std::string_view path, std::string_view folder);

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_BASE_TEXT_H_
