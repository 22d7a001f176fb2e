#include "serialize/import/call_rows.h"

#include <charconv>
#include <string_view>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "serialize/forms/forms.h"
#include "serialize/model/config.h"

namespace torchtrace {
namespace {

absl::Status Expected(const char* member, const char* what, const Plain& found) {
  return absl::InvalidArgumentError(absl::StrCat(member, ": expected ", what, ", found ", DescribePlain(found)));
}

template <typename Int>
absl::Status ReadNumber(const Plain& map, const char* member, int64_t lowest, int64_t highest, Int* number) {
  int64_t found = *number;
  if (absl::Status s = ReadCallNumber(map, member, lowest, highest, &found); !s.ok()) return s;
  *number = static_cast<Int>(found);
  return absl::OkStatus();
}

absl::Status ReadText(const Plain& map, const char* member, std::string* text) {
  const Plain* const found = FindField(map, member);
  if (found == nullptr || found->kind == Plain::kNull) return absl::OkStatus();
  if (found->kind != Plain::kString) return Expected(member, "a string", *found);
  *text = found->text;
  return absl::OkStatus();
}

}  // namespace

absl::Status ReadCallNumber(const Plain& map, const char* member, int64_t lowest, int64_t highest, int64_t* number) {
  const Plain* const found = FindField(map, member);
  if (found == nullptr || found->kind == Plain::kNull) return absl::OkStatus();
  if (found->kind != Plain::kInt || found->integer < lowest || found->integer > highest) {
    return Expected(member, "a whole number", *found);
  }
  *number = found->integer;
  return absl::OkStatus();
}

bool TellsCounts(const Plain& map) { return FindField(map, "calls") != nullptr || FindField(map, "count") != nullptr; }

absl::Status ReadCallEnd(const Plain& map, CallFacts* facts) {
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

absl::Status ReadCallFacts(const Plain& map, CallFacts* facts) {
  Origin* const origin = &facts->origin;
  if (absl::Status s = ReadText(map, "process", &origin->process); !s.ok()) return s;
  if (absl::Status s = ReadText(map, "trace", &origin->trace); !s.ok()) return s;
  if (absl::Status s = ReadText(map, "host", &origin->host); !s.ok()) return s;
  if (absl::Status s = ReadNumber(map, "pid", 0, INT64_MAX, &origin->pid); !s.ok()) return s;
  if (absl::Status s = ReadNumber(map, "rank", 0, INT64_MAX, &origin->rank); !s.ok()) return s;
  // Times in a row of counts are sums over all its calls.
  if (TellsCounts(map)) return absl::OkStatus();
  if (absl::Status s = ReadNumber(map, "call", 0, INT64_MAX, &facts->number); !s.ok()) return s;
  if (absl::Status s = ReadNumber(map, "depth", 0, UINT32_MAX - 1, &facts->depth); !s.ok()) return s;
  if (absl::Status s = ReadNumber(map, "thread", 0, UINT32_MAX, &facts->thread); !s.ok()) return s;
  // The names in dump and in export --calls.
  for (const char* const name : {"time_ns", "start_ns"}) {
    if (absl::Status s = ReadNumber(map, name, INT64_MIN / 4, INT64_MAX / 4, &facts->time_ns); !s.ok()) return s;
  }
  return ReadCallEnd(map, facts);
}

absl::StatusOr<const ParsedCall*> ParseCallWithText(const Plain& map, const std::string& text, IdentityCache* cache) {
  Plain head;  // without arguments, which the text contains
  head.kind = Plain::kMap;
  for (const char* const name : {"api", "level", "calls", "count"}) {
    if (const Plain* const value = FindField(map, name)) head.fields.push_back({name, *value});
  }
  absl::StatusOr<ParsedCall> call = ParsePlainCall(head);
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

uint32_t CallOrigins::ProcessOf(const Origin& origin) {
  const auto [at, added] = numbers_.try_emplace(origin, static_cast<uint32_t>(numbers_.size()));
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

std::vector<std::string> RowSource::notes() const {
  if (times_) return {};
  return {absl::StrCat(file_->name(), " has no times")};
}

absl::Status RowSource::At(const LineReader& lines, const absl::Status& status) const {
  return absl::InvalidArgumentError(
      absl::StrCat(file_->name(), " line ", lines.number(), ", ", std::string(status.message())));
}

absl::Status RowSource::Visit(const Visitor& visit, const ParsedCall& call, const CallFacts& facts) {
  times_ = times_ || facts.time_ns != kUnknownTime;
  ImportedCall imported;
  imported.identity = call.identity;
  imported.facets = call.facets;
  imported.count = call.count;
  imported.process = origins_.ProcessOf(facts.origin);
  imported.thread = facts.thread;
  imported.depth = facts.depth;
  imported.start_ns = facts.time_ns;
  if (facts.time_ns != kUnknownTime && facts.duration_ns >= 0 &&
      __builtin_add_overflow(facts.time_ns, facts.duration_ns, &imported.end_ns)) {
    imported.end_ns = INT64_MAX;
  }
  imported.outcome = facts.outcome;
  imported.exception = facts.exception;
  return visit(imported);
}

}  // namespace torchtrace
