#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "serialize/base/text.h"
#include "serialize/diff/reports.h"
#include "serialize/diff/sequence_diff.h"
#include "serialize/forms/text_parts.h"
#include "serialize/model/torch_names.h"
#include "serialize/model/value.h"

namespace torchtrace {
namespace {

constexpr std::string_view kPunctuation = "()[]{}=, ";

// The length of the first token of `text`.
size_t TokenEnd(std::string_view text) {
  const size_t quote = text[0] == '"' ? 0 : text.size() > 1 && text[0] == 'b' && text[1] == '"' ? 1 : text.size();
  if (quote < text.size()) {
    size_t end = quote + 1;
    while (end < text.size() && text[end] != '"') end += text[end] == '\\' ? 2 : 1;
    return end + 1 < text.size() ? end + 1 : text.size();
  }
  if (kPunctuation.find(text[0]) != std::string_view::npos) return 1;
  size_t end = 1;
  while (end < text.size() && text[end] != '"' && kPunctuation.find(text[end]) == std::string_view::npos) ++end;
  // The colon after a dict's key is a separate token.
  if (end > 1 && text[end - 1] == ':' && (end == text.size() || text[end] == ' ')) --end;
  return end;
}

std::vector<std::string_view> Tokens(std::string_view text) {
  std::vector<std::string_view> tokens;
  while (!text.empty()) {
    const size_t end = TokenEnd(text);
    tokens.push_back(text.substr(0, end));
    text.remove_prefix(end);
  }
  return tokens;
}

// A dtype, a device, a layout.
bool IsQuotedName(std::string_view token) {
  return token.size() > 2 && token.front() == '"' && token.back() == '"' &&
         std::all_of(token.begin() + 1, token.end() - 1,
                     [](char c) { return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_' || c == ':'; });
}

class Pieces {
 public:
  void AddSame(std::string_view text) {
    if (pieces_.empty() || !pieces_.back().same) pieces_.emplace_back();
    pieces_.back().before.append(text);
  }
  // Changed names share their quotes: `"float32 -> float16"`.
  void AddChangedToken(std::string_view before, std::string_view after) {
    if (!IsQuotedName(before) || !IsQuotedName(after)) return AddChanged(before, after);
    AddSame("\"");
    AddChanged(before.substr(1, before.size() - 2), after.substr(1, after.size() - 2));
    AddSame("\"");
  }
  void AddChanged(std::string_view before, std::string_view after) {
    if (pieces_.empty() || pieces_.back().same) pieces_.push_back({.same = false, .before = "", .after = ""});
    pieces_.back().before.append(before);
    pieces_.back().after.append(after);
  }
  std::vector<TextPiece> Take() { return std::move(pieces_); }

 private:
  std::vector<TextPiece> pieces_;
};

}  // namespace

std::vector<TextPiece> CompareLines(std::string_view before, std::string_view after) {
  const std::vector<std::string_view> a = Tokens(before), b = Tokens(after);
  Pieces pieces;
  // Members of a family differ only in numbers.
  if (a.size() == b.size()) {
    for (size_t i = 0; i < a.size(); ++i) {
      if (a[i] == b[i]) {
        pieces.AddSame(a[i]);
      } else {
        pieces.AddChangedToken(a[i], b[i]);
      }
    }
    return pieces.Take();
  }
  std::map<std::string_view, uint32_t> ids;
  std::vector<uint32_t> symbols_a, symbols_b;
  for (const std::string_view token : a) symbols_a.push_back(ids.try_emplace(token, ids.size()).first->second);
  for (const std::string_view token : b) symbols_b.push_back(ids.try_emplace(token, ids.size()).first->second);
  AlignEffort effort;
  effort.left = 1'000'000;
  const RunList runs = Align(symbols_a, symbols_b, ids.size(), &effort);
  size_t at_a = 0, at_b = 0;
  for (size_t i = 0; i < runs.size(); ++i) {
    for (uint32_t n = 0; n < runs[i].count; ++n) {
      if (runs[i].kind == RunKind::kRemoved) {
        pieces.AddChanged(a[at_a++], "");
      } else if (runs[i].kind == RunKind::kAdded) {
        pieces.AddChanged("", b[at_b++]);
      } else {
        pieces.AddSame(a[at_a++]);
        ++at_b;
      }
    }
  }
  return pieces.Take();
}

namespace {

// Makes default strides, layouts and devices of two tensors, or of those in two containers, explicit if the other one's
// differ.
void TellSameParts(Value* a, Value* b, std::set<const Value*>* with_device) {
  if (a->tag == ValueTag::kTensor && b->tag == ValueTag::kTensor) {
    if (a->device != b->device) with_device->insert({a, b});
    const auto tell = [](Value* tensor, const Value& other) {
      const uint64_t lacks = other.tensor_bits & ~tensor->tensor_bits;
      const bool sized =
          !tensor->shape.empty() && std::all_of(tensor->shape.begin(), tensor->shape.end(),
                                                [](Dim size) { return size.has_value() && *size != kAnySize; });
      if ((lacks & kTensorHasStride) != 0 && sized && !StridesOf(*tensor).empty()) {
        tensor->strides = StridesOf(*tensor);
        tensor->tensor_bits |= kTensorHasStride;
      }
      if ((lacks & kTensorHasLayout) != 0) {
        tensor->layout = "strided";
        tensor->tensor_bits |= kTensorHasLayout;
      }
    };
    tell(a, *b);
    tell(b, *a);
  }
  for (size_t i = 0; i < std::min(a->items.size(), b->items.size()); ++i) {
    TellSameParts(&a->items[i], &b->items[i], with_device);
  }
}

}  // namespace

std::vector<TextPiece> CompareTexts(Config before, Config after) {
  std::set<const Value*> with_device;
  for (size_t i = 0; i < std::min(before.args.size(), after.args.size()); ++i) {
    TellSameParts(&before.args[i], &after.args[i], &with_device);
  }
  for (size_t i = 0; i < std::min(before.kwargs.size(), after.kwargs.size()); ++i) {
    TellSameParts(&before.kwargs[i].second, &after.kwargs[i].second, &with_device);
  }
  return CompareLines(FormatWithDevices(before, with_device), FormatWithDevices(after, with_device));
}

std::string FormatPieces(const std::vector<TextPiece>& pieces, bool color) {
  std::string line;
  for (const TextPiece& piece : pieces) {
    if (piece.same) {
      line += piece.before;
    } else if (color) {
      absl::StrAppend(&line, kRed, piece.before, kReset, " -> ", kGreen, piece.after, kReset);
    } else {
      absl::StrAppend(&line, piece.before, " -> ", piece.after);
    }
  }
  return line;
}

const Choices<DiffFormat>& DiffFormats() {
  static const Choices<DiffFormat> formats("unknown format", {{"text", DiffFormat::kText},
                                                              {"json", DiffFormat::kJson},
                                                              {"markdown", DiffFormat::kMarkdown},
                                                              {"junit", DiffFormat::kJunit}});
  return formats;
}

namespace {

constexpr std::pair<const char*, bool DiffParts::*> kDiffParts[] = {
    {"added", &DiffParts::added}, {"removed", &DiffParts::removed}, {"changed", &DiffParts::changed}};

}  // namespace

std::vector<std::string> DiffPartNames() {
  std::vector<std::string> names;
  for (const auto& [name, part] : kDiffParts) names.emplace_back(name);
  return names;
}

absl::StatusOr<DiffParts> ParseDiffParts(const std::vector<std::string>& lists) {
  if (lists.empty()) return DiffParts();
  DiffParts parts = {false, false, false};
  for (const std::string& list : lists) {
    for (const absl::string_view text : absl::StrSplit(list, ',')) {
      const auto known = std::find_if(std::begin(kDiffParts), std::end(kDiffParts),
                                      [text](const auto& part) { return text == part.first; });
      if (known == std::end(kDiffParts)) {
        return UnknownChoice("unknown part", std::string_view(text.data(), text.size()), DiffPartNames());
      }
      parts.*known->second = true;
    }
  }
  return parts;
}

std::string MarkdownCode(std::string_view text) {
  // The fence is longer than any backticks inside. A bar ends a cell even in code.
  size_t longest = 0, run = 0;
  std::string code;
  for (const char c : PlainLine(text)) {
    run = c == '`' ? run + 1 : 0;
    longest = std::max(longest, run);
    if (c == '|') code += '\\';
    code += c;
  }
  if (code.empty()) return code;
  const std::string fence(longest + 1, '`');
  const char* const space = code.front() == '`' || code.back() == '`' ? " " : "";
  return absl::StrCat(fence, space, code, space, fence);
}

}  // namespace torchtrace
