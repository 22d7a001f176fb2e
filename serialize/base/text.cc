#include "serialize/base/text.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string_view>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace torchtrace {
Utf8Char DecodeUtf8(std::string_view text) {
  const auto byte = [text](size_t i) { return static_cast<uint8_t>(text[i]); };
  const uint8_t lead = byte(0);
  if (lead < 0x80) return {Utf8Char::kScalar, 1, lead};
  const Utf8Char invalid{Utf8Char::kInvalid, 1, lead};

  uint8_t bytes;
  uint32_t code_point;
  uint32_t least;  // encodings of smaller values are overlong
  if ((lead & 0xe0) == 0xc0) {
    bytes = 2, code_point = lead & 0x1f, least = 0x80;
  } else if ((lead & 0xf0) == 0xe0) {
    bytes = 3, code_point = lead & 0x0f, least = 0x800;
  } else if ((lead & 0xf8) == 0xf0) {
    bytes = 4, code_point = lead & 0x07, least = 0x10000;
  } else {
    return invalid;
  }
  if (text.size() < bytes) return invalid;
  for (uint8_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return invalid;
    code_point = code_point << 6 | (byte(i) & 0x3f);
  }
  if (code_point < least || code_point > 0x10ffff) return invalid;
  const bool surrogate = code_point >= 0xd800 && code_point <= 0xdfff;
  return {surrogate ? Utf8Char::kSurrogate : Utf8Char::kScalar, bytes, code_point};
}

void AppendUtf8(uint32_t code_point, std::string* out) {
  if (code_point < 0x80) {
    out->push_back(static_cast<char>(code_point));
  } else if (code_point < 0x800) {
    out->push_back(static_cast<char>(0xc0 | code_point >> 6));
    out->push_back(static_cast<char>(0x80 | (code_point & 0x3f)));
  } else if (code_point < 0x10000) {
    out->push_back(static_cast<char>(0xe0 | code_point >> 12));
    out->push_back(static_cast<char>(0x80 | (code_point >> 6 & 0x3f)));
    out->push_back(static_cast<char>(0x80 | (code_point & 0x3f)));
  } else {
    out->push_back(static_cast<char>(0xf0 | code_point >> 18));
    out->push_back(static_cast<char>(0x80 | (code_point >> 12 & 0x3f)));
    out->push_back(static_cast<char>(0x80 | (code_point >> 6 & 0x3f)));
    out->push_back(static_cast<char>(0x80 | (code_point & 0x3f)));
  }
}

bool IsValidUtf8(std::string_view text) {
  while (!text.empty()) {
    const Utf8Char c = DecodeUtf8(text);
    if (c.kind != Utf8Char::kScalar) return false;
    text.remove_prefix(c.bytes);
  }
  return true;
}

bool IsWord(std::string_view text) {
  const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
  return !text.empty() && letter(text[0]) &&
         std::all_of(text.begin(), text.end(), [&](char c) { return letter(c) || (c >= '0' && c <= '9'); });
}

std::string_view CutUtf8(std::string_view text, size_t bytes) {
  if (bytes >= text.size()) return text;
  while (bytes > 0 && (static_cast<uint8_t>(text[bytes]) & 0xc0) == 0x80) --bytes;
  return text.substr(0, bytes);
}

bool NeedsEscape(uint32_t code_point) {
  if (code_point < 0x7f) return code_point < 0x20;
  const auto in = [code_point](uint32_t first, uint32_t last) { return code_point >= first && code_point <= last; };
  return in(0x7f, 0x9f) || in(0x2028, 0x2029) || code_point == 0xfeff || (code_point & 0xfffe) == 0xfffe ||
         code_point == 0x61c || in(0x200e, 0x200f) || in(0x202a, 0x202e) || in(0x2066, 0x2069) || in(0xe0000, 0xe007f);
}

void AppendUtf16Escape(uint32_t code_point, std::string* out) {
  if (code_point >= 0x10000) {
    AppendUtf16Escape(0xd7c0 + (code_point >> 10), out);
    AppendUtf16Escape(0xdc00 + (code_point & 0x3ff), out);
    return;
  }
  out->append("\\u");
  for (int shift = 12; shift >= 0; shift -= 4) out->push_back("0123456789abcdef"[code_point >> shift & 15]);
}

namespace {

// The length of the colour sequence, such as "\x1b[31m", that `text` begins with; 0: none.
size_t ColorBytes(std::string_view text) {
  if (!text.starts_with("\x1b[")) return 0;
  const size_t end = text.find_first_not_of("0123456789", 2);
  return end <= 4 && end > 2 && text[end] == 'm' ? end + 1 : 0;
}

// Whether `text` begins with an incomplete character or colour sequence.
bool IsBeginning(std::string_view text, bool colors) {
  const auto lead = static_cast<uint8_t>(text[0]);
  if (lead == 0x1b) {
    return colors && text.size() < 5 && text.substr(1, 1).find_first_not_of('[') == text.npos &&
           text.find_first_not_of("0123456789", 2) == text.npos;
  }
  return text.size() < (lead >= 0xf0 ? 4u : lead >= 0xe0 ? 3u : lead >= 0xc0 ? 2u : 1u);
}

bool IsPlain(char c) { return c >= 0x20 && c < 0x7f; }

void AppendEscape(uint32_t code_point, std::string* out) {
  switch (code_point) {
    case '\n':
      out->append("\\n");
      break;
    case '\r':
      out->append("\\r");
      break;
    case '\t':
      out->append("\\t");
      break;
    default:
      if (code_point < 0x100) {
        absl::StrAppendFormat(out, "\\x%02x", code_point);
      } else if (code_point < 0x10000) {
        absl::StrAppendFormat(out, "\\u%04x", code_point);
      } else {
        absl::StrAppendFormat(out, "\\U%08x", code_point);
      }
  }
}

}  // namespace

size_t AppendPlainText(std::string_view text, const PlainTextOptions& options, std::string* out) {
  size_t at = 0;
  while (at < text.size()) {
    size_t end = at;
    while (end < text.size() && (IsPlain(text[end]) || ((text[end] == '\n' || text[end] == '\t') && options.layout)))
      ++end;
    out->append(text.substr(at, end - at));
    at = end;
    const std::string_view rest = text.substr(at);
    if (rest.empty() || (options.more && IsBeginning(rest, options.colors))) break;
    if (const size_t bytes = options.colors ? ColorBytes(rest) : 0; bytes > 0) {
      out->append(rest.substr(0, bytes));
      at += bytes;
      continue;
    }
    const Utf8Char c = DecodeUtf8(rest);
    if (c.kind == Utf8Char::kScalar && !NeedsEscape(c.code_point)) {
      out->append(rest.substr(0, c.bytes));
    } else {
      AppendEscape(c.code_point, out);
    }
    at += c.bytes;
  }
  return at;
}

std::string PlainLine(std::string_view text) {
  std::string line;
  AppendPlainText(text, {.layout = false}, &line);
  return line;
}

std::string FormatDuration(int64_t ns) {
  if (ns > -1000 && ns < 1000) return absl::StrCat(ns, " ns");
  const struct {
    double ns;
    const char* name;
  } kUnits[] = {{1e3, "us"}, {1e6, "ms"}, {1e9, "s"}};
  const double exact = static_cast<double>(ns);
  for (const auto& unit : kUnits) {
    const double value = exact / unit.ns;
    const double size = std::fabs(value);
    // Values that would round to four digits get the next unit.
    if (size >= 999.5 && unit.ns < 1e9) continue;
    const int decimals = size < 9.995 ? 2 : size < 99.95 ? 1 : 0;
    return absl::StrFormat("%.*f %s", decimals, value, unit.name);
  }
  return "";
}

absl::StatusOr<uint64_t> ParseSize(std::string_view text) {
  const size_t end = std::min(text.find_first_not_of("0123456789"), text.size());
  const std::string digits(text.substr(0, end));
  std::string unit(text.substr(end));
  absl::StripAsciiWhitespace(&unit);
  absl::AsciiStrToUpper(&unit);
  constexpr std::string_view kPrefixes = "KMGT";
  const size_t prefix = unit.empty() ? std::string_view::npos : kPrefixes.find(unit[0]);
  const bool known = prefix == std::string_view::npos
                         ? unit.empty() || unit == "B"
                         : unit.size() == 1 || unit.substr(1) == "B" || unit.substr(1) == "IB";
  const size_t shift = prefix == std::string_view::npos ? 0 : 10 * (prefix + 1);
  uint64_t number = 0;
  if (known && !digits.empty() && absl::SimpleAtoi(digits, &number) && number <= UINT64_MAX >> shift) {
    return number << shift;
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "'", std::string(text), "' is not a size: expected a number of bytes, or of KB, MB, GB or TB, as 64KB"));
}

std::string FormatSize(uint64_t bytes) {
  const char* const units[] = {"", "KB", "MB", "GB", "TB"};
  size_t unit = 0;
  for (; bytes != 0 && bytes % 1024 == 0 && unit + 1 < std::size(units); ++unit) bytes /= 1024;
  return absl::StrCat(bytes, units[unit]);
}

namespace {

size_t WidthOf(std::string_view text) {
  size_t width = 0;
  for (; !text.empty(); ++width) text.remove_prefix(DecodeUtf8(text).bytes);
  return width;
}

// A bar ends a cell, even in code.
std::string EscapeMarkdown(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '|') escaped += '\\';
    escaped += c;
  }
  return escaped;
}

// `text` as code, between more backticks than it contains in a row.
std::string MarkdownCode(std::string_view text) {
  size_t longest = 0, run = 0;
  for (const char c : text) {
    run = c == '`' ? run + 1 : 0;
    longest = std::max(longest, run);
  }
  const std::string ticks(longest + 1, '`');
  const std::string space = longest > 0 ? " " : "";
  return ticks + space + EscapeMarkdown(text) + space + ticks;
}

}  // namespace

TextTable::TextTable(std::vector<Column> columns) : columns_(std::move(columns)) {
  std::vector<std::string> titles;
  titles.reserve(columns_.size());
  for (Column& column : columns_) {
    column.title = PlainLine(column.title);
    column.group = PlainLine(column.group);
    titles.push_back(column.title);
  }
  AddRow(std::move(titles));
}

void TextTable::AddRow(std::vector<std::string> cells) {
  for (std::string& cell : cells) cell = PlainLine(cell);
  rows_.push_back(std::move(cells));
}

std::string TextTable::Format() const {
  std::vector<size_t> widths(columns_.size());
  for (const std::vector<std::string>& row : rows_) {
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], WidthOf(row[i]));
  }
  std::string out;
  const std::vector<std::pair<size_t, size_t>> groups = Groups();
  size_t at = 0;  // column of the terminal
  for (const auto& [first, last] : groups) {
    size_t start = 0, width = 0;
    for (size_t i = 0; i <= last; ++i) (i < first ? start : width) += widths[i] + (i < last ? 2 : 0);
    const std::string& name = columns_[first].group;
    if (WidthOf(name) > width) {
      widths[last] += WidthOf(name) - width;
      width = WidthOf(name);
    }
    out.append(start + width - WidthOf(name) - at, ' ');
    out += name;
    at = start + width;
  }
  if (!groups.empty()) out += '\n';
  for (const std::vector<std::string>& row : rows_) {
    for (size_t i = 0; i < row.size(); ++i) {
      const std::string padding(widths[i] - WidthOf(row[i]), ' ');
      if (i > 0) out += "  ";
      if (columns_[i].align == kRight) out += padding;
      out += row[i];
      if (columns_[i].align == kLeft && i + 1 < row.size()) out += padding;
    }
    out.erase(out.find_last_not_of(' ') + 1);
    out += '\n';
  }
  return out;
}

std::vector<std::pair<size_t, size_t>> TextTable::Groups() const {
  std::vector<std::pair<size_t, size_t>> groups;
  for (size_t i = 0; i < columns_.size(); ++i) {
    if (columns_[i].group.empty()) continue;
    if (!groups.empty() && groups.back().second + 1 == i && columns_[groups.back().first].group == columns_[i].group) {
      groups.back().second = i;
    } else {
      groups.emplace_back(i, i);
    }
  }
  return groups;
}

std::string TextTable::FormatMarkdown() const {
  if (columns_.size() == 1) {
    std::string list = EscapeMarkdown(columns_[0].title) + "\n\n";
    for (size_t row = 1; row < rows_.size(); ++row) list += "- " + MarkdownCode(rows_[row][0]) + '\n';
    return list;
  }
  std::string out = "|";
  for (const Column& column : columns_) {
    out += ' ' + EscapeMarkdown(column.group) + (column.group.empty() ? "" : " ") + EscapeMarkdown(column.title) + " |";
  }
  out += "\n|";
  for (const Column& column : columns_) out += column.align == kLeft ? "---|" : "--:|";
  out += '\n';
  for (size_t row = 1; row < rows_.size(); ++row) {
    out += '|';
    for (size_t i = 0; i < rows_[row].size(); ++i) {
      const std::string& cell = rows_[row][i];
      out += ' ' + (columns_[i].align == kLeft && !cell.empty() ? MarkdownCode(cell) : EscapeMarkdown(cell)) + " |";
    }
    out += '\n';
  }
  return out;
}

std::string_view ShortSourcePath(std::string_view path, std::string_view folder) {
  if (folder.size() > 1 && path.starts_with(folder)) {
    const std::string_view below = path.substr(folder.size());
    if (below.find("-packages/") == std::string_view::npos) return below;
  }
  for (const std::string_view packages : {"/site-packages/", "/dist-packages/"}) {
    if (const size_t at = path.rfind(packages); at != std::string_view::npos) return path.substr(at + packages.size());
  }
  constexpr std::string_view kLibrary = "/lib/python3.";
  if (const size_t at = path.find(kLibrary); at != std::string_view::npos) {
    const size_t slash = path.find_first_not_of("0123456789", at + kLibrary.size());
    if (slash != std::string_view::npos && path[slash] == '/') return path.substr(slash + 1);
  }
  return path;
}

}  // namespace torchtrace
