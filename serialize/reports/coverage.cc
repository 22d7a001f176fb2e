#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "serialize/apis/api_names.h"
#include "serialize/base/bytes.h"
#include "serialize/base/text.h"
#include "serialize/configs/dedup.h"
#include "serialize/forms/forms.h"
#include "serialize/model/config.h"
#include "serialize/model/torch_names.h"
#include "serialize/reports/report_table.h"
#include "serialize/reports/reports.h"

namespace torchtrace {
namespace {

bool IsOperator(std::string_view name) { return name.find("::") != std::string_view::npos; }

// `torch.Tensor.shape` of `torch.Tensor.shape.__get__`; empty for other names.
std::string_view PropertyOf(std::string_view name) {
  for (const std::string_view accessor : {".__get__", ".__set__", ".__delete__"}) {
    if (name.size() > accessor.size() && name.substr(name.size() - accessor.size()) == accessor) {
      return name.substr(0, name.size() - accessor.size());
    }
  }
  return {};
}

// The module or namespace of a name: `torch.nn.functional` of torch.nn.functional.relu, `torch.nn` of
// torch.nn.Module.cuda, `aten` of aten::add.Tensor. Classes don't count, except torch.Tensor, which has as many methods
// as torch has functions.
std::string NamespaceOf(std::string_view name) {
  constexpr size_t kDeepest = 3;
  const std::string canonical = CanonicalName(name);
  if (IsOperator(canonical)) return canonical.substr(0, canonical.find("::"));
  const std::vector<std::string> parts = absl::StrSplit(canonical, '.');
  size_t count = 0;
  while (count + 1 < parts.size() && count < kDeepest) {
    const bool is_class = !parts[count].empty() && absl::ascii_isupper(static_cast<unsigned char>(parts[count][0]));
    if (is_class && !(count == 1 && parts[count] == "Tensor")) break;
    ++count;
    if (is_class) break;
  }
  return absl::StrJoin(parts.begin(), parts.begin() + static_cast<ptrdiff_t>(count), ".");
}

struct CoverageTally {
  std::map<int, uint64_t> calls;          // by level
  absl::flat_hash_set<uint64_t> configs;  // their hashes, without the level

  // Several levels see the same call.
  uint64_t most_calls() const {
    uint64_t most = 0;
    for (const auto& [level, count] : calls) most = std::max(most, count);
    return most;
  }
  std::vector<int> levels() const {
    std::vector<int> levels;
    for (const auto& [level, count] : calls) levels.push_back(level);
    return levels;
  }
};

struct CoverageRow {
  std::string api;
  const CoverageTally* tally;
  bool visible;
};

class Coverage {
 public:
  Coverage(const ApiList& list, const std::string& list_name, const CoverageOptions& options, std::ostream* out)
      : list_name_(list_name), options_(options), out_(out), filter_(options.filter) {
    for (const ApiEntry& entry : list.apis) {
      if (!filter_.Accepts(entry.name)) continue;
      const auto same = by_name_.find(CanonicalName(entry.name));
      const size_t index = same == by_name_.end() ? entries_.size() : same->second.front();
      if (index == entries_.size()) {
        entries_.push_back({&entry, {}});
      } else {
        repeated_.push_back(entry.name);
      }
      AddKeys(entry.name, index);
      for (const std::string& alias : entry.aliases) AddKeys(alias, index);
      for (const std::string& alias : entry.elsewhere) AddKeys(alias, index);
      (IsOperator(CanonicalName(entry.name)) ? lists_operators_ : lists_apis_) = true;
    }
  }

  bool empty() const { return entries_.empty(); }

  absl::Status Add(Trace* trace) {
    const absl::StatusOr<std::vector<uint64_t>> calls = trace->Count();
    if (!calls.ok()) return calls.status();
    for (const int level : RecordedLevels(*trace)) levels_.insert(level);
    std::vector<uint64_t> config_calls(trace->config_count());
    for (size_t variant = 0; variant < calls->size(); ++variant) {
      config_calls[trace->config_of(static_cast<VariantId>(variant))] += (*calls)[variant];
    }
    for (size_t config = 0; config < config_calls.size(); ++config) {
      if (config_calls[config] > 0) AddConfig(trace->identity(static_cast<ConfigId>(config)), config_calls[config]);
    }
    return absl::OkStatus();
  }

  absl::Status Write(CoverageTotals* totals) {
    std::vector<CoverageRow> called, never, outside;
    size_t invisible = 0;
    for (const auto& [entry, tally] : entries_) {
      const std::vector<int>& levels = entry->levels;
      const bool visible = levels.empty() || levels_.empty() ||
                           std::any_of(levels.begin(), levels.end(), [&](int l) { return levels_.count(l) != 0; });
      const bool was_called = !tally.calls.empty();
      if (!was_called && !visible) ++invisible;
      (was_called ? called : never).push_back({entry->name, &tally, visible});
    }
    for (const auto& [api, tally] : outside_) outside.push_back({api, &tally, true});
    *totals = {entries_.size(), called.size(), repeated_};

    ReportWriter report(options_.format, out_);
    report.AddLine(absl::StrCat(called.size(), " of ", entries_.size(), " ", What(), " of ", list_name_,
                                " were called (", FormatPercent(called.size(), entries_.size()), "), ", never.size(),
                                " never", options_.namespaces ? " (--show called,never lists them)" : ""));
    if (invisible > 0) {
      report.AddLine(absl::StrCat(invisible, " of these can't be seen at the recorded ",
                                  levels_.size() == 1 ? "level " : "levels ", absl::StrJoin(levels_, ", ")));
    }
    if (!outside.empty()) {
      report.AddLine(absl::StrCat(outside.size(), " more ", outside.size() == 1 ? "was" : "were", " called",
                                  options_.outside ? "" : " (--show outside)"));
    }
    report.AddMembers({{"list", list_name_},
                       {"total", entries_.size()},
                       {"called", called.size()},
                       {"never", never.size()},
                       {"percent", PercentCell(called.size(), entries_.size()).value},
                       {"not_visible", invisible},
                       {"outside", outside.size()}});
    if (options_.namespaces) AddNamespaces(&report);
    if (!options_.called) called.clear();
    if (!options_.never) never.clear();
    AddSection("called", "called", "apis", &called, &report);
    AddSection("never called", "never", "apis", &never, &report);
    if (options_.outside) AddSection("not in the list", "outside", "not_in_list", &outside, &report);
    return report.Finish("the coverage");
  }

 private:
  struct Entry {
    const ApiEntry* api;
    CoverageTally tally;
  };

  void AddKeys(const std::string& name, size_t entry) {
    const std::string key = CanonicalName(name);
    by_name_[key].push_back(entry);
    // Without `.default` it means all overloads.
    const bool says_default = name.size() > 8 && name.compare(name.size() - 8, 8, ".default") == 0;
    if (options_.exact_overloads || says_default || OperatorPacket(key) != key) return;
    by_packet_[key].push_back(entry);
  }

  void AddConfig(std::string_view spelled, uint64_t calls) {
    const std::string_view identity = spelling_.Apply(spelled);
    const ConfigHead head = ReadConfigHead(identity);
    if (head.api.empty()) return;
    if (!options_.levels.empty() &&
        std::find(options_.levels.begin(), options_.levels.end(), head.level) == options_.levels.end()) {
      return;
    }
    const std::string name = CanonicalName(head.api);
    const uint64_t config = Hash64(identity.data() + 1, identity.size() - 1);
    std::set<size_t> entries;
    Find(by_name_, name, &entries);
    Find(by_packet_, OperatorPacket(name), &entries);
    Find(by_name_, PropertyOf(name), &entries);
    for (const size_t entry : entries) AddTo(&entries_[entry].tally, head.level, calls, config);
    if (!entries.empty() || !(IsOperator(name) ? lists_operators_ : lists_apis_) || !filter_.Accepts(name)) return;
    AddTo(&outside_[name], head.level, calls, config);
  }

  static void Find(const absl::flat_hash_map<std::string, std::vector<size_t>>& index, std::string_view name,
                   std::set<size_t>* entries) {
    if (name.empty()) return;
    const auto at = index.find(std::string(name));
    if (at != index.end()) entries->insert(at->second.begin(), at->second.end());
  }

  static void AddTo(CoverageTally* tally, int level, uint64_t calls, uint64_t config) {
    tally->calls[level] += calls;
    tally->configs.insert(config);
  }

  const char* What() const {
    if (lists_operators_ && lists_apis_) return "APIs and operators";
    return lists_operators_ ? "operators" : "APIs";
  }

  // The largest first. Text and Markdown show those that fit on a screen, and the sum of the others.
  void AddNamespaces(ReportWriter* report) const {
    struct Count {
      size_t called = 0;
      size_t known = 0;
    };
    std::map<std::string, Count> by_name;
    for (const auto& [entry, tally] : entries_) {
      Count& count = by_name[NamespaceOf(entry->name)];
      ++count.known;
      if (!tally.calls.empty()) ++count.called;
    }
    std::vector<std::pair<std::string, Count>> counts(by_name.begin(), by_name.end());
    std::stable_sort(counts.begin(), counts.end(),
                     [](const auto& a, const auto& b) { return a.second.known > b.second.known; });
    constexpr size_t kMost = 30;
    if (IsForPeople(options_.format) && counts.size() > kMost) {
      std::pair<std::string, Count> others(absl::StrCat("(", counts.size() - kMost, " others)"), Count());
      for (size_t i = kMost; i < counts.size(); ++i) {
        others.second.called += counts[i].second.called;
        others.second.known += counts[i].second.known;
      }
      counts.resize(kMost);
      counts.push_back(std::move(others));
    }
    const auto alone = [this](const char* name) {
      return options_.called || options_.never || options_.outside ? "" : name;
    };
    report->BeginTable("namespaces", {{"namespace", "namespace", alone("namespace"), TextTable::kLeft},
                                      {"called", "called", alone("called")},
                                      {"known", "known", alone("known")},
                                      {"called %", "percent", alone("percent")}});
    for (const auto& [name, count] : counts) {
      report->AddRow({ReportCell(name, name.empty() ? "(none)" : name), count.called, count.known,
                      PercentCell(count.called, count.known)});
    }
    report->EndTable();
  }

  // The most called first. Text and Markdown leave out empty sections, and show only the names of what was never
  // called.
  static void AddSection(const char* title, std::string_view status, const char* list, std::vector<CoverageRow>* rows,
                         ReportWriter* report) {
    std::stable_sort(rows->begin(), rows->end(), [](const CoverageRow& a, const CoverageRow& b) {
      return a.tally->most_calls() > b.tally->most_calls();
    });
    const bool never = status == "never";
    const auto titled = [&](const char* text) { return rows->empty() || never ? "" : text; };
    report->BeginTable(list, {{rows->empty() ? "" : title, "api", "api", TextTable::kLeft},
                              {"", "", "status"},
                              {"", status == "outside" ? "" : "called"},
                              {titled("calls"), "calls", "calls"},
                              {titled("configs"), "configs", "configs"},
                              {titled("level"), "levels", "levels"},
                              {"", never ? "visible" : ""}});
    for (const auto& [api, tally, visible] : *rows) {
      report->AddRow({ApiCell(api), std::string(status), !never, tally->most_calls(), tally->configs.size(),
                      tally->levels(), visible});
    }
    report->EndTable();
  }

  const std::string& list_name_;
  const CoverageOptions& options_;
  std::ostream* const out_;
  GlobMemo filter_;
  OneSpelling spelling_;
  std::vector<Entry> entries_;                                       // of the list, accepted by the filter
  absl::flat_hash_map<std::string, std::vector<size_t>> by_name_;    // index into entries_
  absl::flat_hash_map<std::string, std::vector<size_t>> by_packet_;  // operators without overload
  std::map<std::string, CoverageTally> outside_;
  std::vector<std::string> repeated_;  // entries that name the same API as another one
  std::set<int> levels_;               // that the traces were recorded at
  bool lists_operators_ = false;
  bool lists_apis_ = false;
};

}  // namespace

std::vector<int> RecordedLevels(const Trace& trace) {
  std::set<int> levels;
  for (const ProcessInfo& process : trace.processes()) {
    levels.insert(process.known.levels.begin(), process.known.levels.end());
  }
  if (levels.empty()) {
    for (size_t id = 0; id < trace.config_count(); ++id) {
      levels.insert(ReadConfigHead(trace.identity(static_cast<ConfigId>(id))).level);
    }
  }
  return {levels.begin(), levels.end()};
}

std::vector<WrittenName> UnknownListNames(const ApiList& list, const std::string& list_name, const ApiNames& names,
                                          bool knows_operators) {
  std::vector<WrittenName> unknown;
  for (const ApiEntry& entry : list.apis) {
    const std::string name = CanonicalName(entry.name);
    const bool found_by_scan = !entry.kind.empty() && !IsOperator(name);
    if (entry.known_by_user || found_by_scan || names.Knows(name) || names.Knows(std::string(PropertyOf(name))))
      continue;
    if (IsOperator(name) && !knows_operators && names.Near(name).empty()) continue;
    unknown.push_back({entry.name, absl::StrCat(list_name, ":", entry.line, ": "), {}});
  }
  return unknown;
}

absl::Status WriteCoverage(const std::vector<StatsTrace>& traces, const ApiList& list, const std::string& list_name,
                           const CoverageOptions& options, std::ostream* out, CoverageTotals* totals) {
  Coverage coverage(list, list_name, options, out);
  if (coverage.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("--include and --exclude leave nothing of ", list_name));
  }
  for (const StatsTrace& trace : traces) {
    if (absl::Status s = coverage.Add(trace.trace); !s.ok()) return s;
  }
  return coverage.Write(totals);
}

}  // namespace torchtrace
