#include "serialize/configs/dedup.h"

#include <algorithm>
#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "serialize/base/text.h"
#include "serialize/forms/forms.h"
#include "serialize/model/config.h"
#include "serialize/trace/run_facts.h"

namespace torchtrace {
namespace {

constexpr uint32_t kNoEntry = UINT32_MAX;

DedupSource DescribeSource(const std::string& trace, const ProcessInfo& process) {
  DedupSource source;
  source.trace = trace;
  source.process = ProcessName(process);
  source.host = process.known.host;
  source.pid = process.known.pid.value_or(-1);
  source.rank = process.known.ranked.rank.value_or(-1);
  return source;
}

// Processes of the same log have the same name: adds the rank, pid or number to distinguish them.
void NameApart(std::vector<DedupSource>* sources, size_t first) {
  std::map<std::string, size_t> named;
  for (size_t i = first; i < sources->size(); ++i) ++named[(*sources)[i].process];
  for (size_t i = first; i < sources->size(); ++i) {
    DedupSource& source = (*sources)[i];
    if (named[source.process] == 1) continue;
    source.process += source.rank >= 0  ? absl::StrCat("[rank ", source.rank, "]")
                      : source.pid >= 0 ? absl::StrCat("[pid ", source.pid, "]")
                                        : absl::StrCat("[", i - first, "]");
  }
}

int64_t SumOfTimes(int64_t a_ns, int64_t b_ns) { return a_ns < 0 || b_ns < 0 ? -1 : a_ns + b_ns; }

// Adds the calls of one list to those of another; both are ascending.
void AddSources(const std::vector<DedupShare>& more, std::vector<DedupShare>* sources) {
  std::map<uint32_t, DedupShare> sum;
  for (const DedupShare& share : *sources) sum[share.source] = share;
  for (const DedupShare& share : more) {
    const auto [same, is_new] = sum.try_emplace(share.source, share);
    if (is_new) continue;
    same->second.calls += share.calls;
    same->second.time_ns = SumOfTimes(same->second.time_ns, share.time_ns);
  }
  sources->clear();
  for (const auto& [source, share] : sum) sources->push_back(share);
}

}  // namespace

bool Dedup::Accepts(std::string_view identity) const {
  const ConfigHead head = ReadConfigHead(identity);
  const std::vector<int>& levels = options_.levels;
  return (levels.empty() || std::find(levels.begin(), levels.end(), head.level) != levels.end()) &&
         options_.filter.Accepts(head.api);
}

std::string Dedup::Coarsen(std::string_view identity) const {
  std::string coarse = options_.ignore.Apply(identity);
  if (!options_.levels_apart && !coarse.empty()) coarse[0] = static_cast<char>(kAnyLevel);
  return coarse;
}

absl::Status Dedup::Add(Trace* trace, const std::string& name) {
  const absl::StatusOr<std::vector<uint64_t>> counted = trace->Count();
  if (!counted.ok()) return counted.status();
  std::vector<uint64_t> calls(trace->config_count());
  for (VariantId variant = 0; variant < counted->size(); ++variant)
    calls[trace->config_of(variant)] += (*counted)[variant];

  const auto first_source = static_cast<uint32_t>(sources_.size());
  if (options_.provenance) {
    for (const ProcessInfo& process : trace->processes()) sources_.push_back(DescribeSource(name, process));
    NameApart(&sources_, first_source);
  }
  const bool exact = options_.levels_apart && options_.ignore.empty() && !options_.folding.has_value();
  std::vector<uint32_t> entry_of(calls.size(), kNoEntry);
  for (ConfigId config = 0; config < calls.size(); ++config) {
    if (calls[config] == 0 || !Accepts(trace->identity(config))) continue;
    const std::string_view identity = spelling_.Apply(trace->identity(config));
    std::string coarse = exact ? "" : Coarsen(identity);
    std::optional<Folding::Folded> folded =
        options_.folding.has_value() ? options_.folding->Fold(coarse) : std::nullopt;
    const size_t known = unfolded_.config_count();
    if (folded.has_value()) {
      unfolded_.Intern(coarse, "");
      coarse.swap(folded->key);
    }
    const ConfigId id = table_.config_of(table_.Intern(exact ? identity : coarse, ""));
    if (id == entries_.size()) entries_.emplace_back();
    Entry& entry = entries_[id];
    if (folded.has_value()) {
      entry.rule = static_cast<int>(folded->rule);
      entry.folded += unfolded_.config_count() - known;
      if (entry.kept.empty() || folded->key < entry.kept) entry.kept = std::move(folded->key);
    }
    entry.calls += calls[config];
    if (!exact && (entry.example.empty() || identity < entry.example)) entry.example = identity;
    entry_of[config] = id;
  }
  if (options_.provenance || options_.times) return AddShares(trace, first_source, entry_of);
  return absl::OkStatus();
}

absl::Status Dedup::AddShares(Trace* trace, uint32_t first_source, const std::vector<uint32_t>& entry_of) {
  absl::flat_hash_map<std::pair<uint32_t, uint32_t>, DedupShare> shares;  // by entry and source
  const absl::Status read = trace->ReadCounted([&](const CallRecord& call) {
    if (call.config >= entry_of.size() || entry_of[call.config] == kNoEntry) return absl::OkStatus();
    const uint32_t source = first_source + call.process;
    DedupShare& share = shares.try_emplace({entry_of[call.config], source}, DedupShare{source, 0, 0}).first->second;
    if (call.kind == CallRecord::kEnter) {
      share.calls += call.count;
    } else {
      share.time_ns += call.total_duration_ns();
    }
    return absl::OkStatus();
  });
  if (!read.ok()) return read;
  std::vector<std::pair<std::pair<uint32_t, uint32_t>, DedupShare>> sorted(shares.begin(), shares.end());
  std::sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  for (auto& [at, share] : sorted) {
    const bool known = share.time_ns != 0 || trace->processes()[at.second - first_source].known.has_clock;
    if (!options_.times || !known) share.time_ns = -1;
    Entry& entry = entries_[at.first];
    entry.time_ns = SumOfTimes(entry.time_ns, share.time_ns);
    if (options_.provenance) entry.sources.push_back(share);
  }
  return absl::OkStatus();
}

std::vector<DedupConfig> Dedup::Finish() {
  std::vector<DedupConfig> configs;
  configs.reserve(entries_.size());
  absl::flat_hash_map<std::string_view, uint64_t> of_api;
  for (ConfigId id = 0; id < entries_.size(); ++id) {
    const std::string_view identity = table_.identity(id);
    if (options_.keep_first > 0 && ++of_api[ReadConfigHead(identity).api] > options_.keep_first) continue;
    DedupConfig& config = configs.emplace_back();
    // No call has a folded config: the config of a real call represents it.
    config.identity = entries_[id].kept.empty() ? identity : std::string_view(entries_[id].kept);
    config.example = entries_[id].example.empty() ? identity : std::string_view(entries_[id].example);
    config.line = FormatConfig(ReadableConfig(config.identity));
    config.calls = entries_[id].calls;
    if (options_.times) config.time_ns = entries_[id].time_ns;
    config.sources = std::move(entries_[id].sources);
  }
  std::sort(configs.begin(), configs.end(), [](const DedupConfig& a, const DedupConfig& b) {
    return a.line != b.line ? a.line < b.line : a.identity < b.identity;
  });
  if (options_.levels_apart) return configs;
  // Configs with the same text (they differ in payloads of nans) become one line.
  size_t kept = 0;
  for (size_t i = 0; i < configs.size(); ++i) {
    if (kept > 0 && configs[kept - 1].line == configs[i].line) {
      DedupConfig& same = configs[kept - 1];
      same.calls += configs[i].calls;
      same.time_ns = SumOfTimes(same.time_ns, configs[i].time_ns);
      same.example = std::min(same.example, configs[i].example);
      AddSources(configs[i].sources, &same.sources);
    } else {
      if (kept != i) configs[kept] = std::move(configs[i]);
      ++kept;
    }
  }
  configs.resize(kept);
  return configs;
}

std::vector<DedupFold> Dedup::folds() const {
  std::vector<DedupFold> folds;
  if (!options_.folding.has_value()) return folds;
  for (const FoldRule& rule : options_.folding->rules()) {
    if (folds.empty() || folds.back().rule != rule.name) folds.push_back({rule.name});
  }
  for (const Entry& entry : entries_) {
    if (entry.folded < 2) continue;
    const std::string& rule = options_.folding->rules()[static_cast<size_t>(entry.rule)].name;
    DedupFold& fold = *std::find_if(folds.begin(), folds.end(), [&](const DedupFold& f) { return f.rule == rule; });
    fold.before += entry.folded;
    ++fold.after;
  }
  std::erase_if(folds, [](const DedupFold& fold) { return fold.after == 0; });
  return folds;
}

absl::Status WriteProvenanceText(const std::vector<DedupConfig>& configs, const std::vector<DedupSource>& sources,
                                 bool counts, std::ostream* out) {
  for (const DedupConfig& config : configs) {
    if (counts) *out << absl::StrFormat("%7d  ", config.calls);
    *out << config.line;
    const char* separator = "\t";
    for (const DedupShare& share : config.sources) {
      const DedupSource& source = sources[share.source];
      *out << separator << PlainLine(source.trace);
      // The name of a log file contains the process.
      if (!source.trace.ends_with(absl::StrCat(source.process, ".ttlog"))) *out << "/" << PlainLine(source.process);
      *out << ": " << share.calls << (share.calls == 1 ? " call" : " calls");
      separator = ", ";
    }
    *out << '\n';
    if (!out->good()) return absl::AbortedError("cannot write the output");
  }
  out->flush();
  return out->good() ? absl::OkStatus() : absl::AbortedError("cannot write the output");
}

}  // namespace torchtrace
