// Text as people and other programs read it: UTF-8, what may be shown on a terminal, counts, durations,
// words for a shell, cells of CSV, tables.

#ifndef TORCHTRACE_SERIALIZE_BASE_TEXT_H_
#define TORCHTRACE_SERIALIZE_BASE_TEXT_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace torchtrace {

// Text that claims to be UTF-8 and may not be: Python strings hold lone
// surrogates, and a cut string may end inside a character. Owns nothing;
// callable from any thread.

struct Utf8Char {
  enum Kind : uint8_t {
    kScalar,     // code_point is a character
    kSurrogate,  // three bytes that encode a lone surrogate
    kInvalid,    // one byte that is no part of a character; code_point is that byte
  };
  Kind kind = kInvalid;
  uint8_t bytes = 1;
  uint32_t code_point = 0;
};

// The character that `text`, which is not empty, begins with.
Utf8Char DecodeUtf8(std::string_view text);

// The inverse: also of surrogates. `code_point` is at most 0x10ffff.
void AppendUtf8(uint32_t code_point, std::string* out);

bool IsValidUtf8(std::string_view text);

// ASCII letters, digits and underscores, no digit first: a name as Python and C take it, or a word of their language.
bool IsWord(std::string_view text);

// The beginning of a text, of at most so many bytes and of whole characters.
std::string_view CutUtf8(std::string_view text, size_t bytes);

// Characters that would break a line or mislead its reader, or that a terminal or a YAML reader
// does not take as they are: controls, line separators, marks that turn the direction of
// writing, tags that nobody sees, byte order mark, noncharacters.
bool NeedsEscape(uint32_t code_point);

// `\u1234` of UTF-16: two of them for a character that takes two units there, one for a surrogate.
void AppendUtf16Escape(uint32_t code_point, std::string* out);

// What may be shown to people of text that anybody wrote: names of processes, threads,
// files, exceptions in a trace. Escape sequences, other controls, marks that turn the direction
// of writing and bytes that are no UTF-8 reach no terminal: they become escapes, `\x1b` or
// `\u202e`. All that the verbs write to a terminal goes through AppendPlainText (StandardOutput,
// SayLines); what must stay on its line or in its cell is made a PlainLine before.
//
//   PlainLine("a\x1b[2J\n") is "a\\x1b[2J\\n"

struct PlainTextOptions {
  bool layout = true;   // line breaks and tabs stay
  bool colors = false;  // sequences that choose a colour stay
  bool more = false;    // the text goes on: what may be the beginning of something is left
};

// Returns how many bytes of `text` were taken: all of it, unless options.more.
size_t AppendPlainText(std::string_view text, const PlainTextOptions& options, std::string* out);

// The whole text, on one line.
std::string PlainLine(std::string_view text);

// Counts as people write them: with their noun, and as a part of a whole.

// `1 call`, `2 calls`
inline std::string Counted(uint64_t count, std::string_view one, std::string_view many) {
  return absl::StrCat(count, " ", std::string(count == 1 ? one : many));
}

// `part` of `whole` as `12.34%`; 0.00% of nothing.
inline std::string FormatPercent(uint64_t part, uint64_t whole) {
  const double percent = whole == 0 ? 0 : 100 * static_cast<double>(part) / static_cast<double>(whole);
  return absl::StrFormat("%.2f%%", percent);
}

// Durations for people: three digits and a unit, `812 ns`, `12.3 us`, `4.56 s`.

std::string FormatDuration(int64_t ns);

// A number of bytes as users write it: `4096`, `64KB`, `1 MiB`; K, M, G and T are of 1024. InvalidArgument says what
// was expected.
absl::StatusOr<uint64_t> ParseSize(std::string_view text);

// Quotes a word so that a shell takes it as it is: for commands that we show.

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

// Cells of CSV as RFC 4180 has them: quoted where a comma or a quote is in them. Controls, line
// breaks among them, are escaped as in text (text.h).

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
    // Neighbours of one group stand under its name.
    std::string group = {};
  };

  explicit TextTable(std::vector<Column> columns);
  // As many cells as columns; each becomes a PlainLine.
  void AddRow(std::vector<std::string> cells);

  // Each line ends in a line break and has no blanks before it.
  std::string Format() const;
  // As GitHub's tables: cells of left columns are shown as code. A single column is a list of code below its title.
  std::string FormatMarkdown() const;

 private:
  // The first and last column of each group.
  std::vector<std::pair<size_t, size_t>> Groups() const;

  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

// A source file's path without what says nothing: the folder that the program works in (`folder`, with a slash at its
// end; empty: none), those of installed packages, and that of Python's own library.
std::string_view ShortSourcePath(std::string_view path, std::string_view folder);

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_BASE_TEXT_H_
