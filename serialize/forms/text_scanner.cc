#include <algorithm>
#include <charconv>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "serialize/base/text.h"
#include "serialize/forms/forms.h"
#include "serialize/forms/text_parts.h"
#include "serialize/model/config.h"

namespace torchtrace {
namespace {

// Whether `c` is a byte of a character other than its first.
bool IsContinuation(char c) { return (c & 0xc0) == 0x80; }

}  // namespace

absl::Status TextScanner::RequireEnd() {
  SkipSpaces();
  return AtEnd() ? absl::OkStatus() : Expected("the end of the line");
}

absl::Status TextScanner::Unsigned(const char* what, uint64_t* number) {
  SkipSpaces();
  const char* const begin = line_.data() + at_;
  const auto [end, error] = std::from_chars(begin, line_.data() + line_.size(), *number);
  if (error != std::errc()) return Expected(what);
  at_ += static_cast<size_t>(end - begin);
  return absl::OkStatus();
}

absl::Status TextScanner::QuotedString(std::string* out, bool bytes) {
  const size_t begin = at_;
  const char quote = line_[at_++];
  while (at_ < line_.size()) {
    const size_t stop = std::min(line_.size(), line_.find_first_of(quote == '"' ? "\"\\" : "'\\", at_));
    out->append(line_.substr(at_, stop - at_));
    at_ = stop;
    if (at_ >= line_.size()) break;
    if (line_[at_++] == quote) return absl::OkStatus();
    if (!Escape(bytes, out)) out->push_back('\\');
  }
  at_ = begin;
  return Expected(absl::StrCat("a string that ends with ", std::string(1, quote), " on its line"));
}

namespace {

// torch for th.float32 too, which TorchBench writes.
std::string_view FrameworkOfValue(std::string_view name) {
  const std::string_view framework = FrameworkOf(name);
  return framework.empty() ? kFrameworks[0] : framework;
}

}  // namespace

std::string_view TextScanner::OwnName(std::string_view name) const {
  const size_t dot = std::min(name.find('.'), name.size());
  const bool known = !FrameworkOf(name).empty() || (python() && name.substr(0, dot) == "th");
  return known && dot < name.size() ? name.substr(dot + 1) : std::string_view();
}

void TextScanner::NoteFramework(std::string_view name) {
  const std::string_view framework = FrameworkOfValue(name);
  if (framework_.empty()) framework_ = framework;
  if (framework != framework_) mixed_at_ = std::min(mixed_at_, static_cast<size_t>(name.data() - line_.data()));
}

void TextScanner::NoteSize(std::string_view name) {
  if (size_framework_.empty()) size_framework_ = FrameworkOf(name);
}

absl::Status TextScanner::OtherFramework(std::string_view api, std::string* other) {
  if (mixed_at_ != SIZE_MAX) {
    return ExpectedAt(mixed_at_, absl::StrCat("values of ", std::string(framework_), ", as others of the call are"));
  }
  std::string_view framework = framework_;
  if (framework.empty() && FrameworkOf(api).empty()) framework = size_framework_;
  if (framework.empty() || framework == FrameworkOfApi(api)) return absl::OkStatus();
  if (tensor_at_ != SIZE_MAX) {
    return ExpectedAt(tensor_at_, absl::StrCat(std::string(framework), ".Tensor, as other values of the call are"));
  }
  *other = framework;
  return absl::OkStatus();
}

absl::Status TextScanner::Expected(const std::string& what) const {
  const std::string_view before = line_.substr(0, at_);
  const auto column = before.size() - static_cast<size_t>(std::count_if(before.begin(), before.end(), IsContinuation));
  std::string_view found = line_.substr(at_, 24);
  while (!found.empty() && at_ + found.size() < line_.size() && IsContinuation(line_[at_ + found.size()])) {
    found.remove_suffix(1);
  }
  return absl::InvalidArgumentError(absl::StrCat("column ", column + 1, ": expected ", what, ", found ",
                                                 AtEnd() ? "the end of the line" : QuoteText(found)));
}

absl::Status TextScanner::ExpectedCommaOr(char close) const {
  return Expected(absl::StrCat("\",\" or \"", std::string(1, close), "\""));
}

bool TextScanner::Hex(size_t digits, uint32_t* number) {
  if (line_.size() - at_ < digits) return false;
  const char* const begin = line_.data() + at_;
  const auto [end, error] = std::from_chars(begin, begin + digits, *number, 16);
  if (error != std::errc() || end != begin + digits) return false;
  at_ += digits;
  return true;
}

bool TextScanner::Escape(bool bytes, std::string* out) {
  const size_t begin = at_;
  uint32_t c = 0;
  switch (Peek()) {
    case '"':
    case '\'':
    case '\\':
      out->push_back(line_[at_++]);
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
      if (bytes || !python()) {
        out->push_back(static_cast<char>(c));  // a byte that isn't part of a character
      } else {
        AppendUtf8(c, out);
      }
      return true;
    case 'u':
      ++at_;
      if (bytes || !Hex(4, &c)) break;
      if (c >= 0xd800 && c < 0xdc00 && WordComes("\\u")) {
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
      if (bytes || !python() || !Hex(8, &c) || c > 0x10ffff) break;
      AppendUtf8(c, out);
      return true;
    default:
      break;
  }
  at_ = begin;
  return false;
}

}  // namespace torchtrace
