#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "serialize/forms/forms.h"
#include "serialize/forms/plain_form.h"
#include "serialize/import/call_rows.h"
#include "serialize/import/imported_trace.h"
#include "serialize/import/importer.h"

namespace torchtrace {
namespace {

class CallLines final : public RowSource {
 public:
  using RowSource::RowSource;

  std::string format() const override { return "calls as JSON lines"; }

  absl::Status Scan(const Visitor& visit) override {
    LineReader lines(file());
    IdentityCache cache;
    std::string_view line;
    bool in_list = false;
    while (true) {
      const absl::StatusOr<bool> more = lines.Next(&line);
      if (!more.ok()) return more.status();
      if (!*more && in_list) return At(lines, absl::InvalidArgumentError("the file ends in its list: expected a ]"));
      if (!*more) return absl::OkStatus();
      if (lines.number() == 1 && line.starts_with("\xef\xbb\xbf")) line.remove_prefix(3);
      if (line.find_first_not_of(" \t") == std::string_view::npos) continue;
      // A JSON list with a line per item.
      if (line == "[" || line == "]" || line == "[]") {
        in_list = line == "[";
        continue;
      }
      if (line.ends_with("},")) line.remove_suffix(1);
      CallFacts facts;
      absl::StatusOr<const ParsedCall*> call = ParseLine(line, &cache, &facts);
      if (!call.ok()) return At(lines, call.status());
      if (*call == nullptr) continue;  // the end of a call
      if (facts.unfinished) {
        if (absl::Status s = FindEnds(); !s.ok()) return s;
        const auto end = ends_.find(facts.number);
        if (end != ends_.end()) {
          facts.outcome = end->second.outcome;
          facts.exception = end->second.exception;
          facts.duration_ns = end->second.duration_ns;
        }
      }
      if (absl::Status s = Visit(visit, **call, facts); !s.ok()) return s;
    }
  }

 private:
  // Null for a line that is the end of a call. In the lines of dump the configuration comes last and repeats, so the
  // text from its first member on is looked up in the cache, and only the text before it is parsed.
  static absl::StatusOr<const ParsedCall*> ParseLine(std::string_view line, IdentityCache* cache, CallFacts* facts) {
    static constexpr std::string_view kConfig = ",\"level\":";
    const size_t config = line.find(kConfig);
    if (config != std::string_view::npos && line.find("\"config\":") == std::string_view::npos) {
      const std::string_view text = line.substr(config);
      const ParsedCall* known = cache->Find(text);
      // The comma separated two members of one object only if both parts are whole objects.
      const absl::StatusOr<Plain> head = ParseJsonText(absl::StrCat(std::string(line.substr(0, config)), "}"));
      if (head.ok() && head->kind == Plain::kMap) {
        if (known == nullptr) {
          const absl::StatusOr<Plain> tail = ParseJsonText(absl::StrCat("{", std::string(text.substr(1))));
          if (tail.ok() && tail->kind == Plain::kMap && FindField(*tail, "api") != nullptr) {
            absl::StatusOr<ParsedCall> call = ParsePlainCall(*tail);
            if (!call.ok()) return call.status();
            if (!TellsCounts(*head)) {
              known = &cache->Add(text, *std::move(call));
            }
          }
        }
        if (known != nullptr) {
          if (absl::Status s = ReadCallFacts(*head, facts); !s.ok()) return s;
          return known;
        }
      }
    }
    const absl::StatusOr<Plain> whole = ParseJsonText(line);
    if (!whole.ok()) return whole.status();
    if (FindField(*whole, "end_of_call") != nullptr || FindField(*whole, "later_of_call") != nullptr) return nullptr;
    if (absl::Status s = ReadCallFacts(*whole, facts); !s.ok()) return s;
    const Plain* const text = FindField(*whole, "config");
    const bool has_text = text != nullptr && text->kind == Plain::kString;
    if (has_text && (FindField(*whole, "args") == nullptr || FindField(*whole, "dtypes") != nullptr)) {
      return ParseCallWithText(*whole, text->text, cache);
    }
    absl::StatusOr<ParsedCall> call = ParsePlainCall(*whole);
    if (!call.ok()) return call.status();
    return &cache->Add(line, *std::move(call));
  }

  // The ends of very long calls have separate lines: {"end_of_call":3,"outcome":...}.
  absl::Status FindEnds() {
    if (ends_found_) return absl::OkStatus();
    LineReader lines(file());
    std::string_view line;
    while (true) {
      const absl::StatusOr<bool> more = lines.Next(&line);
      if (!more.ok()) return more.status();
      if (!*more) break;
      if (!line.starts_with("{\"end_of_call\"")) continue;
      const absl::StatusOr<Plain> map = ParseJsonText(line);
      absl::Status s = map.status();
      CallFacts facts;
      int64_t number = -1;
      if (s.ok()) s = ReadCallNumber(*map, "end_of_call", 0, INT64_MAX, &number);
      facts.number = static_cast<uint64_t>(number);
      if (s.ok()) s = ReadCallEnd(*map, &facts);
      if (!s.ok()) return At(lines, s);
      ends_[facts.number] = std::move(facts);
    }
    ends_found_ = true;
    return absl::OkStatus();
  }

  absl::flat_hash_map<uint64_t, CallFacts> ends_;  // by call
  bool ends_found_ = false;
};

bool SniffCallLines(const FileHead& head) {
  std::string_view rest = head.bytes;
  if (rest.starts_with("\xef\xbb\xbf")) rest.remove_prefix(3);
  if (rest.starts_with("[\n{")) rest.remove_prefix(2);  // a JSON list with a line per item
  const size_t first = rest.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos || rest[first] != '{') return false;
  const std::string_view line = rest.substr(first, rest.find('\n', first) - first);
  for (const char* const start : {"{\"call\":", "{\"end_of_call\":", "{\"later_of_call\":"}) {
    if (line.starts_with(start)) return true;
  }
  const bool named = head.file_name.ends_with(".jsonl");
  // Unlike a YAML flow map, the line is one object.
  return line.find("\"api\":") != std::string_view::npos &&
         (named || line.ends_with('}') || line.ends_with("}\r") || line.ends_with("},"));
}

absl::StatusOr<std::unique_ptr<CallSource>> OpenCallLines(std::unique_ptr<InputFile> file) {
  return std::make_unique<CallLines>(std::move(file));
}

}  // namespace

const Importer kCallLinesImporter = {"jsonl", "calls as JSON lines (from torchtrace dump --format jsonl)",
                                     SniffCallLines, OpenCallLines};

}  // namespace torchtrace
