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
#include "serialize/forms/forms.h"
#include "serialize/forms/plain_form.h"
#include "serialize/import/imported_trace.h"
#include "serialize/import/importer.h"

namespace torchtrace {
namespace {

// Where calls were made, as far as the line tells.
struct Origin {
  std::string process;  // main-1234
  std::string trace;
  std::string host;
  int64_t pid = -1;
  int64_t rank = -1;

  friend bool operator==(const Origin&, const Origin&) = default;
  template <typename H>
  friend H AbslHashValue(H h, const Origin& origin) {
    return H::combine(std::move(h), origin.process, origin.trace, origin.host, origin.pid, origin.rank);
  }
};

// What a line tells about one call beside its configuration.
struct CallFacts {
  Origin origin;
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

// A line of a configuration, not of a call.
bool TellsCounts(const Plain& map) { return FindField(map, "calls") != nullptr || FindField(map, "count") != nullptr; }

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
  Origin* const origin = &facts->origin;
  if (absl::Status s = ReadText(map, "process", &origin->process); !s.ok()) return s;
  if (absl::Status s = ReadText(map, "trace", &origin->trace); !s.ok()) return s;
  if (absl::Status s = ReadText(map, "host", &origin->host); !s.ok()) return s;
  if (absl::Status s = ReadNumber(map, "pid", 0, INT64_MAX, &origin->pid); !s.ok()) return s;
  if (absl::Status s = ReadNumber(map, "rank", 0, INT64_MAX, &origin->rank); !s.ok()) return s;
  // Times there are of all its calls.
  if (TellsCounts(map)) return absl::OkStatus();
  if (absl::Status s = ReadNumber(map, "call", 0, INT64_MAX, &facts->number); !s.ok()) return s;
  if (absl::Status s = ReadNumber(map, "depth", 0, UINT32_MAX - 1, &facts->depth); !s.ok()) return s;
  if (absl::Status s = ReadNumber(map, "thread", 0, UINT32_MAX, &facts->thread); !s.ok()) return s;
  // As dump and as export --calls name it.
  for (const char* const name : {"time_ns", "start_ns"}) {
    if (absl::Status s = ReadNumber(map, name, INT64_MIN / 4, INT64_MAX / 4, &facts->time_ns); !s.ok()) return s;
  }
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
      // A list with a line for each item.
      if (line == "[" || line == "]" || line == "[]") continue;
      if (line.ends_with("},")) line.remove_suffix(1);
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
    imported.process = ProcessOf(facts.origin);
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

  uint32_t ProcessOf(const Origin& origin) {
    const auto [at, added] = process_numbers_.try_emplace(origin, static_cast<uint32_t>(process_numbers_.size()));
    if (!added) return at->second;
    if (at->second >= processes_.size()) processes_.emplace_back();
    ImportedProcess& process = processes_[at->second];
    const std::string& name = origin.process;
    process.name = name;
    if (!origin.host.empty()) process.metadata["host"] = origin.host;
    if (origin.pid >= 0) process.metadata["pid"] = origin.pid;
    if (origin.rank >= 0) process.metadata["rank"] = origin.rank;
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
    if (config != std::string_view::npos && line.find("\"config\":") == std::string_view::npos) {
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
            if (!TellsCounts(*head)) {
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
    if (absl::Status s = ReadFacts(*whole, facts); !s.ok()) return s;
    const Plain* const text = FindField(*whole, "config");
    if (text != nullptr && text->kind == Plain::kString && FindField(*whole, "args") == nullptr) {
      return ParseWithText(*whole, text->text, cache);
    }
    absl::StatusOr<ParsedCall> call = ParsePlainCall(*whole);
    if (!call.ok()) return call.status();
    return &cache->Add(line, *std::move(call));
  }

  // `export --calls` gives the configuration in its text form.
  static absl::StatusOr<const ParsedCall*> ParseWithText(const Plain& map, const std::string& text,
                                                         IdentityCache* cache) {
    absl::StatusOr<ParsedCall> call = ParsePlainCall(map);  // the level and the count
    if (!call.ok()) return call.status();
    const std::string key = absl::StrCat(call->count, " ", static_cast<int>(call->identity[0]), " ", text);
    if (const ParsedCall* const known = cache->Find(key)) return known;
    absl::StatusOr<Config> config = ParseConfigText(text);
    if (!config.ok()) {
      return absl::InvalidArgumentError(absl::StrCat("config: ", std::string(config.status().message())));
    }
    if (FindField(map, "level") != nullptr) config->level = static_cast<uint8_t>(call->identity[0]);
    call->identity = EncodeConfig(*config);
    return &cache->Add(key, *std::move(call));
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
  absl::flat_hash_map<Origin, uint32_t> process_numbers_;
  absl::flat_hash_map<uint64_t, CallFacts> ends_;  // by call
  bool ends_found_ = false;
  bool times_ = false;
};

bool Sniff(const FileHead& head) {
  std::string_view rest = head.bytes;
  if (rest.starts_with("\xef\xbb\xbf")) rest.remove_prefix(3);
  if (rest.starts_with("[\n{")) rest.remove_prefix(2);  // a list with a line for each item
  const size_t first = rest.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos || rest[first] != '{') return false;
  const std::string_view line = rest.substr(first, rest.find('\n', first) - first);
  if (line.starts_with("{\"call\":") || line.starts_with("{\"end_of_call\":")) return true;
  const bool named = head.file_name.ends_with(".jsonl");
  // Unlike a YAML flow map, its line is one object.
  return line.find("\"api\":") != std::string_view::npos &&
         (named || line.ends_with('}') || line.ends_with("}\r") || line.ends_with("},"));
}

absl::StatusOr<std::unique_ptr<CallSource>> Open(std::unique_ptr<InputFile> file) {
  return std::make_unique<CallLines>(std::move(file));
}

}  // namespace

const Importer kCallLinesImporter = {"jsonl", "calls as JSON lines (from torchtrace dump --format jsonl)", Sniff, Open};

}  // namespace torchtrace
