#include "serialize/import/call_lines.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "serialize/import/identity_cache.h"
#include "serialize/import/json_plain.h"
#include "serialize/import/plain_parser.h"

namespace torchtrace {
namespace {

// What a line tells about one call beside its configuration.
struct CallFacts {
  std::string process;
  uint32_t thread = 0;
  uint32_t depth = 0;
  int64_t time_ns = kUnknownTime;
  int64_t duration_ns = -1;  // not known
  CallOutcome outcome = CallOutcome::kReturned;
  bool unfinished = false;  // a later line tells how it ended
  std::string exception;
  uint64_t number = UINT64_MAX;
};

absl::Status Expected(const char* member, const char* what, const Plain& found) {
  return absl::InvalidArgumentError(absl::StrCat(member, ": expected ", what, ", found ", DescribePlain(found)));
}

// Leaves `number` as it is when there is no such member.
template <typename Int>
absl::Status ReadNumber(const Plain& map, const char* member, int64_t lowest, int64_t highest, Int* number) {
  const Plain* const found = FindField(map, member);
  if (found == nullptr || found->kind == Plain::kNull) return absl::OkStatus();
  if (found->kind != Plain::kInt || found->integer < lowest || found->integer > highest) {
    return Expected(member, "a whole number", *found);
  }
  *number = static_cast<Int>(found->integer);
  return absl::OkStatus();
}

absl::Status ReadText(const Plain& map, const char* member, std::string* text) {
  const Plain* const found = FindField(map, member);
  if (found == nullptr || found->kind == Plain::kNull) return absl::OkStatus();
  if (found->kind != Plain::kString) return Expected(member, "a string", *found);
  *text = found->text;
  return absl::OkStatus();
}

absl::Status ReadEnd(const Plain& map, CallFacts* facts) {
  std::string outcome = "returned";
  if (absl::Status s = ReadText(map, "outcome", &outcome); !s.ok()) return s;
  facts->unfinished = outcome == "unfinished";
  if (outcome == "raised") {
    facts->outcome = CallOutcome::kRaised;
  } else if (outcome == "never returned" || facts->unfinished) {
    facts->outcome = CallOutcome::kNeverReturned;
  } else if (outcome != "returned") {
    return Expected("outcome", "\"returned\", \"raised\", \"never returned\" or \"unfinished\"",
                    *FindField(map, "outcome"));
  }
  if (absl::Status s = ReadText(map, "exception", &facts->exception); !s.ok()) return s;
  return ReadNumber(map, "duration_ns", 0, INT64_MAX, &facts->duration_ns);
}

absl::Status ReadFacts(const Plain& map, CallFacts* facts) {
  if (absl::Status s = ReadNumber(map, "call", 0, INT64_MAX, &facts->number); !s.ok()) return s;
  if (absl::Status s = ReadNumber(map, "depth", 0, UINT32_MAX - 1, &facts->depth); !s.ok()) return s;
  if (absl::Status s = ReadNumber(map, "thread", 0, UINT32_MAX, &facts->thread); !s.ok()) return s;
  if (absl::Status s = ReadNumber(map, "time_ns", INT64_MIN / 4, INT64_MAX / 4, &facts->time_ns); !s.ok()) return s;
  if (absl::Status s = ReadText(map, "process", &facts->process); !s.ok()) return s;
  return ReadEnd(map, facts);
}

class CallLines : public CallSource {
 public:
  explicit CallLines(std::unique_ptr<InputFile> file) : file_(std::move(file)) {}

  std::string format() const override { return "calls as JSON lines"; }
  const std::vector<ImportedProcess>& processes() const override { return processes_; }
  std::vector<std::string> notes() const override {
    if (times_) return {};
    return {absl::StrCat(file_->name(), " has no times")};
  }

  absl::Status Scan(const Visitor& visit) override {
    LineReader lines(file_.get());
    IdentityCache cache;
    std::string_view line;
    while (true) {
      const absl::StatusOr<bool> more = lines.Next(&line);
      if (!more.ok()) return more.status();
      if (!*more) return absl::OkStatus();
      if (lines.number() == 1 && line.starts_with("\xef\xbb\xbf")) line.remove_prefix(3);
      if (line.find_first_not_of(" \t") == std::string_view::npos) continue;
      CallFacts facts;
      absl::StatusOr<const ParsedCall*> call = ParseLine(line, &cache, &facts);
      if (!call.ok()) {
        return absl::InvalidArgumentError(
            absl::StrCat(file_->name(), " line ", lines.number(), ", ", std::string(call.status().message())));
      }
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
      if (absl::Status s = Visit(**call, facts, visit); !s.ok()) return s;
    }
  }

 private:
  absl::Status Visit(const ParsedCall& call, const CallFacts& facts, const Visitor& visit) {
    ImportedCall imported;
    imported.identity = call.identity;
    imported.facets = call.facets;
    imported.count = call.count;
    imported.process = ProcessOf(facts.process);
    imported.thread = facts.thread;
    imported.depth = facts.depth;
    imported.start_ns = facts.time_ns;
    if (facts.time_ns != kUnknownTime && facts.duration_ns >= 0 &&
        __builtin_add_overflow(facts.time_ns, facts.duration_ns, &imported.end_ns)) {
      imported.end_ns = INT64_MAX;
    }
    imported.outcome = facts.outcome;
    imported.exception = facts.exception;
    times_ = times_ || facts.time_ns != kUnknownTime;
    return visit(imported);
  }

  uint32_t ProcessOf(const std::string& name) {
    const auto [at, added] = process_numbers_.try_emplace(name, static_cast<uint32_t>(process_numbers_.size()));
    if (!added) return at->second;
    if (at->second >= processes_.size()) processes_.emplace_back();
    ImportedProcess& process = processes_[at->second];
    process.name = name;
    // main-1234
    const size_t dash = name.rfind('-');
    int64_t pid;
    if (dash == std::string::npos) return at->second;
    const char* const end = name.data() + name.size();
    const auto [stop, error] = std::from_chars(name.data() + dash + 1, end, pid);
    if (error != std::errc() || stop != end || pid < 0) return at->second;
    process.metadata["role"] = name.substr(0, dash);
    process.metadata["pid"] = pid;
    return at->second;
  }

  // Null for a line that tells how a call ended. The configuration stands last in the lines that dump writes, and the
  // same ones come again: what follows the first of its members is looked up, and only what stands before it is read.
  static absl::StatusOr<const ParsedCall*> ParseLine(std::string_view line, IdentityCache* cache, CallFacts* facts) {
    static constexpr std::string_view kConfig = ",\"level\":";
    const size_t config = line.find(kConfig);
    if (config != std::string_view::npos) {
      const std::string_view text = line.substr(config);
      const ParsedCall* known = cache->Find(text);
      // Only of two objects that are whole each is it sure that the comma stood between members of one.
      const absl::StatusOr<Plain> head = ParseJsonText(absl::StrCat(std::string(line.substr(0, config)), "}"));
      if (head.ok() && head->kind == Plain::kMap) {
        if (known == nullptr) {
          const absl::StatusOr<Plain> tail = ParseJsonText(absl::StrCat("{", std::string(text.substr(1))));
          if (tail.ok() && tail->kind == Plain::kMap && FindField(*tail, "api") != nullptr) {
            absl::StatusOr<ParsedCall> call = ParsePlainCall(*tail);
            if (!call.ok()) return call.status();
            if (FindField(*head, "calls") == nullptr && FindField(*head, "count") == nullptr) {
              known = &cache->Add(text, *std::move(call));
            }
          }
        }
        if (known != nullptr) {
          if (absl::Status s = ReadFacts(*head, facts); !s.ok()) return s;
          return known;
        }
      }
    }
    const absl::StatusOr<Plain> whole = ParseJsonText(line);
    if (!whole.ok()) return whole.status();
    if (FindField(*whole, "end_of_call") != nullptr) return nullptr;
    absl::StatusOr<ParsedCall> call = ParsePlainCall(*whole);
    if (!call.ok()) return call.status();
    if (absl::Status s = ReadFacts(*whole, facts); !s.ok()) return s;
    return &cache->Add(line, *std::move(call));
  }

  // Lines of their own tell how calls ended that took very long: {"end_of_call":3,"outcome":...}.
  absl::Status FindEnds() {
    if (ends_found_) return absl::OkStatus();
    LineReader lines(file_.get());
    std::string_view line;
    while (true) {
      const absl::StatusOr<bool> more = lines.Next(&line);
      if (!more.ok()) return more.status();
      if (!*more) break;
      if (!line.starts_with("{\"end_of_call\"")) continue;
      const absl::StatusOr<Plain> map = ParseJsonText(line);
      absl::Status s = map.status();
      CallFacts facts;
      if (s.ok()) s = ReadNumber(*map, "end_of_call", 0, INT64_MAX, &facts.number);
      if (s.ok()) s = ReadEnd(*map, &facts);
      if (!s.ok()) {
        return absl::InvalidArgumentError(
            absl::StrCat(file_->name(), " line ", lines.number(), ", ", std::string(s.message())));
      }
      ends_[facts.number] = std::move(facts);
    }
    ends_found_ = true;
    return absl::OkStatus();
  }

  const std::unique_ptr<InputFile> file_;
  std::vector<ImportedProcess> processes_{1};
  absl::flat_hash_map<std::string, uint32_t> process_numbers_;
  absl::flat_hash_map<uint64_t, CallFacts> ends_;  // by call
  bool ends_found_ = false;
  bool times_ = false;
};

bool Sniff(const FileHead& head) {
  std::string_view rest = head.bytes;
  if (rest.starts_with("\xef\xbb\xbf")) rest.remove_prefix(3);
  const size_t first = rest.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos || rest[first] != '{') return false;
  const std::string_view line = rest.substr(first, rest.find('\n', first) - first);
  if (line.starts_with("{\"call\":") || line.starts_with("{\"end_of_call\":")) return true;
  const bool named = head.file_name.ends_with(".jsonl");
  // Unlike a YAML flow map, its line is one object.
  return line.find("\"api\":") != std::string_view::npos && (named || line.ends_with('}') || line.ends_with("}\r"));
}

absl::StatusOr<std::unique_ptr<CallSource>> Open(std::unique_ptr<InputFile> file) {
  return std::make_unique<CallLines>(std::move(file));
}

}  // namespace

const Importer kCallLinesImporter = {"jsonl", "calls as JSON lines (from torchtrace dump --format jsonl)", Sniff, Open};

}  // namespace torchtrace
