#include "serialize/report/report.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <sstream>
#include <string_view>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "serialize/base/text.h"
#include "serialize/forms/call_labels.h"
#include "serialize/forms/trace_lines.h"
#include "serialize/numbers/first_nan.h"
#include "serialize/report/page/page_table.h"
#include "serialize/report/page/page_tree.h"
#include "serialize/report/page/report_page.h"
#include "serialize/report/sources.h"
#include "serialize/report/timeline.h"
#include "serialize/report/trace_tables.h"
#include "serialize/reports/memory_report.h"
#include "serialize/reports/shapes.h"
#include "serialize/trace/call_tree.h"
#include "serialize/trace/launched_work.h"
#include "serialize/trace/live_memory.h"
#include "serialize/trace/run_facts.h"
#include "serialize/trace/statistics.h"

namespace torchtrace {
namespace {

using nlohmann::ordered_json;

constexpr size_t kMostTreeNodes = 200'000;
constexpr size_t kMostTimelineRows = 400'000;
constexpr size_t kMostTableRows = 2'000'000;

ordered_json ParsedJson(const std::string& text) {
  ordered_json json = ordered_json::parse(text, nullptr, /*allow_exceptions=*/false);
  return json.is_discarded() ? ordered_json() : json;
}

// All texts in it as pages may have them.
void MakePageTexts(ordered_json* json) {
  if (json->is_string()) {
    *json = PageText(json->get_ref<const std::string&>());
  } else if (json->is_structured()) {
    for (ordered_json& each : *json) MakePageTexts(&each);
  }
}

// The parts of run.json that a page shows.
void TakeInfo(const ordered_json& info, ordered_json* trace) {
  for (const char* const member : {"program", "command", "cwd", "host", "started", "ended"}) {
    const auto at = info.find(member);
    if (at == info.end()) continue;
    const bool list = std::string_view(member) == "program" || std::string_view(member) == "command";
    if (list ? at->is_array() && std::all_of(at->begin(), at->end(), [](const auto& each) { return each.is_string(); })
             : at->is_string()) {
      (*trace)[member] = *at;
    }
  }
  ordered_json& versions = (*trace)["versions"] = ordered_json::array();
  const auto add_version = [&versions](const std::string& name, const ordered_json& package) {
    if (!package.is_object()) return;
    const auto at = package.find("version");
    if (at != package.end() && at->is_string()) versions.push_back({name, *at});
  };
  if (const auto at = info.find("python"); at != info.end()) add_version("Python", *at);
  if (const auto at = info.find("packages"); at != info.end() && at->is_object()) {
    for (const auto& [name, package] : at->items()) add_version(name, package);
  }
  if (const auto at = info.find("torchtrace"); at != info.end() && at->is_string()) {
    versions.push_back({"torchtrace", *at});
  }
  if (const auto at = info.find("duration_ns"); at != info.end() && at->is_number()) (*trace)["wall_ns"] = *at;
}

class ReportWriterOfTraces {
 public:
  ReportWriterOfTraces(const std::vector<StatsTrace>& traces, const ReportOptions& options)
      : traces_(traces), options_(options) {}

  absl::Status Read() {
    absl::StatusOr<TraceTables> tables = ReadTraceTables(traces_);
    if (!tables.ok()) return tables.status();
    tables_ = *std::move(tables);
    for (const LabelBy by : {LabelBy::kApi, LabelBy::kModule, LabelBy::kLine}) {
      if (absl::Status s = ReadTree(by); !s.ok()) return s;
    }
    absl::StatusOr<Timeline> timeline = ReadTimeline(traces_, kMostTimelineRows);
    if (!timeline.ok()) return timeline.status();
    timeline_ = *std::move(timeline);
    for (size_t i = 0; i < traces_.size(); ++i) {
      if (absl::Status s = ReadMemory(i); !s.ok()) return s;
      if (absl::Status s = ReadNumbers(i); !s.ok()) return s;
    }
    if (absl::Status s = ReadCoverage(); !s.ok()) return s;
    MakeNumbersTable();
    if (options_.sources) sources_ = ReadSources(traces_);
    for (size_t i = 0; i < traces_.size(); ++i) {
      absl::StatusOr<ordered_json> summary = Summary(i);
      if (!summary.ok()) return summary.status();
      summaries_.push_back(*std::move(summary));
    }
    return absl::OkStatus();
  }

  absl::Status Write(std::ostream* out) {
    // What takes most room gives way, until the page is small enough.
    std::map<std::string, size_t> most;
    for (const PageTable& table : tables_.tables) most[table.name] = std::min(table.rows(), kMostTableRows);
    for (size_t i = 0; i < trees_.size(); ++i) most[TreeName(i)] = std::min(trees_[i].nodes(), kMostTreeNodes);
    while (true) {
      std::map<std::string, size_t> sizes;
      std::optional<ReportPage> page(std::in_place, options_.version);
      Fill(most, &*page, &sizes);
      std::ostringstream text;
      if (absl::Status s = page->Write(&text); !s.ok()) return s;
      const size_t bytes = text.view().size();
      std::erase_if(sizes, [&most](const auto& each) { return most[each.first] <= kLeastRows; });
      const auto largest = std::max_element(sizes.begin(), sizes.end(),
                                            [](const auto& a, const auto& b) { return a.second < b.second; });
      if (bytes <= options_.most_bytes || largest == sizes.end()) {
        if (bytes > options_.most_bytes) {
          tables_.notes.push_back(absl::StrCat("the page has ", bytes / 1'000'000, " MB, more than the ",
                                               options_.most_bytes / 1'000'000, " that pages should have"));
        }
        *out << text.view();
        out->flush();
        return out->good() ? absl::OkStatus() : absl::AbortedError("cannot write the page");
      }
      // A little less than what should fit.
      const size_t excess = bytes - options_.most_bytes;
      const double fits = 1 - static_cast<double>(excess) * 1.05 / static_cast<double>(largest->second);
      size_t& rows = most[largest->first];
      rows = std::max(kLeastRows, static_cast<size_t>(static_cast<double>(rows) * std::clamp(fits, 0.3, 0.97)));
    }
  }

  std::vector<std::string> notes() const { return tables_.notes; }

 private:
  static constexpr size_t kLeastRows = 1000;

  static std::string TreeName(size_t i) { return absl::StrCat("tree_", i); }

  void Fill(const std::map<std::string, size_t>& most, ReportPage* page, std::map<std::string, size_t>* sizes) {
    ordered_json& head = page->head();
    for (const ordered_json& summary : summaries_) head["traces"].push_back(summary);
    UsedFacets facets(tables_.facets);
    for (const PageTable& table : tables_.tables) {
      (*sizes)[table.name] = table.WriteTo(most.at(table.name), &facets, page);
      const ordered_json& left_out = head["tables"][table.name]["left_out"];
      if (!left_out.is_null()) AddLeftOut(table.name, left_out, &head);
    }
    head["facets"] = facets.Json();
    if (!trees_.empty()) head["trees"] = ordered_json::array();
    for (size_t i = 0; i < trees_.size(); ++i) {
      uint64_t left_out = 0;
      (*sizes)[TreeName(i)] = trees_[i].WriteTo(most.at(TreeName(i)), page, &left_out);
      if (left_out > 0) {
        head["left_out"].push_back({{"what", "small path of a call tree"},
                                    {"whats", "small paths of a call tree"},
                                    {"rows", left_out},
                                    {"why", "their sums are in the nodes (smaller ones)"}});
      }
    }
    WriteTimeline(timeline_, traces_.size(), page);
    if (timeline_.untimed > 0) {
      head["left_out"].push_back({{"what", "call without times"},
                                  {"whats", "calls without times"},
                                  {"rows", timeline_.untimed},
                                  {"why", "the timeline has no place for them"}});
    }
    uint64_t counted = 0;
    for (const StatsTrace& each : traces_) counted += CountOnlyCounted(*each.trace);
    if (counted > 0) {
      head["left_out"].push_back({{"what", "call that is only counted"},
                                  {"whats", "calls that are only counted"},
                                  {"rows", counted},
                                  {"why", "call trees and the timeline lack them"}});
    }
    if (timeline_.too_deep > 0) {
      head["left_out"].push_back({{"what", "call"},
                                  {"whats", "calls"},
                                  {"rows", timeline_.too_deep},
                                  {"why", "the timeline shows 256 calls in one another"}});
    }
    if (timeline_.tracks_left_out > 0) {
      head["left_out"].push_back({{"what", "track of the timeline"},
                                  {"whats", "tracks of the timeline"},
                                  {"rows", timeline_.tracks_left_out},
                                  {"why", "those with the fewest calls"}});
    }
    if (tables_.facets.cut_sets() > 0) {
      head["left_out"].push_back({{"what", "set of a filter's values"},
                                  {"whats", "sets of a filter's values"},
                                  {"rows", tables_.facets.cut_sets()},
                                  {"why", absl::StrCat("a row is found by ", PageFacets::kMostValues,
                                                       " values of a filter, these rows have more")}});
    }
    if (!memory_.empty()) WriteMemory(page);
    if (!coverage_.is_null()) head["coverage"] = coverage_;
    if (!numbers_.is_null()) head["numbers"] = numbers_;
    if (!sources_.files.empty()) {
      PageBlock block;
      block.AddTexts("file", sources_.files);
      block.AddTexts("text", sources_.texts);
      page->SetBlock("sources", block);
      head["sources"] = {{"block", "sources"}};
    }
    if (options_.sources && sources_.left_out > 0) {
      head["left_out"].push_back({{"what", "source file"},
                                  {"whats", "source files"},
                                  {"rows", sources_.left_out},
                                  {"why", "changed since the run, not on this machine, no Python file, or too large"}});
    }
  }

  static void AddLeftOut(const std::string& table, const ordered_json& left_out, ordered_json* head) {
    ordered_json entry = {{"what", table.substr(0, table.size() - 1)}, {"whats", table}};
    entry.update(left_out);
    (*head)["left_out"].push_back(std::move(entry));
  }

  absl::Status ReadTree(LabelBy by) {
    PageTree page_tree(by);
    CallLabels labels(by);
    // Labels of models are known after the last trace.
    struct Read {
      std::unique_ptr<CallTree> tree;
      std::vector<TreeWeight> weights;
    };
    std::vector<Read> read;
    bool any = false;
    for (const StatsTrace& each : traces_) {
      Trace* const trace = each.trace;
      std::vector<TreeWeight> weights = {TreeWeight::kFlops};
      if (HasDeviceTimes(*trace)) weights.push_back(TreeWeight::kDevice);
      if (HasMemory(*trace)) weights.push_back(TreeWeight::kMemory);
      labels.Begin(*trace);
      if (by == LabelBy::kModule && tables_.Find("modules") == nullptr) return absl::OkStatus();
      if (by == LabelBy::kLine && tables_.Find("lines") == nullptr) return absl::OkStatus();
      auto tree = std::make_unique<CallTree>(CallTreeOptions{
          .label = [&labels](const CallRecord& record) -> std::optional<uint32_t> {
            if (record.config == kLostId) return std::nullopt;
            return labels.Of(record);
          },
          .outside = [&labels, by](const CallRecord&) -> std::optional<uint32_t> {
            if (by == LabelBy::kApi) return std::nullopt;
            return labels.Outside();
          },
          .fold_equal = by == LabelBy::kLine,
          .weights = weights,
          .cost = [this, trace](
                      ConfigId config) { return rules_.Find(ReadableConfig(trace->identity(config))).config_cost(); }});
      if (absl::Status s = tree->Read(trace); !s.ok()) return s;
      any = any || tree->nodes().size() > tree->threads().size();
      read.push_back({std::move(tree), std::move(weights)});
    }
    if (!any || !labels.Check().ok()) return absl::OkStatus();
    for (size_t i = 0; i < read.size(); ++i) {
      page_tree.Add(i, *read[i].tree, labels, read[i].weights,
                    [&](uint32_t process, uint32_t thread) { return ThreadText(i, process, thread); });
    }
    trees_.push_back(std::move(page_tree));
    return absl::OkStatus();
  }

  // Processes of two traces have other numbers: they are matched by their names, and where several have one name, by
  // their order.
  std::string ThreadText(size_t number, uint32_t process, uint32_t thread) const {
    const std::vector<ProcessInfo>& processes = traces_[number].trace->processes();
    const ThreadInfo* const info = FindThread(processes[process], thread);
    const std::string name = info == nullptr || info->name.empty() ? "" : absl::StrCat(" (", info->name, ")");
    if (traces_.size() == 1) return absl::StrCat(ProcessName(processes[process]), " thread ", thread, name);
    const std::string own = WithoutNumber(ProcessName(processes[process]));
    size_t which = 1;
    for (uint32_t i = 0; i < process; ++i) which += WithoutNumber(ProcessName(processes[i])) == own;
    return absl::StrCat(own, which > 1 ? absl::StrCat(" ", which) : "", " thread ", thread, name);
  }

  // `main` of `main-1234`, `rank 1` of `rank 1 (1234)`.
  static std::string WithoutNumber(std::string name) {
    const bool in_brackets = absl::EndsWith(name, ")");
    size_t end = name.size() - in_brackets;
    const size_t after = end;
    while (end > 0 && name[end - 1] >= '0' && name[end - 1] <= '9') --end;
    if (end == after) return name;
    if (in_brackets && end > 1 && name.substr(end - 2, 2) == " (") return name.substr(0, end - 2);
    if (!in_brackets && end > 0 && name[end - 1] == '-') return name.substr(0, end - 1);
    return name;
  }

  absl::Status ReadMemory(size_t number) {
    Trace* const trace = traces_[number].trace;
    if (!HasMemory(*trace)) return absl::OkStatus();
    std::vector<MemoryHistory> histories;
    MemoryOptions options;
    options.json = true;
    options.history = &histories;
    options.top = 100;
    std::ostringstream json;
    if (absl::Status s = torchtrace::WriteMemory(trace, traces_[number].name, options, &json, &memory_notes_);
        !s.ok()) {
      return s;
    }
    ordered_json memory = ParsedJson(json.str());
    MakePageTexts(&memory);
    const auto devices = memory.find("devices");
    if (devices == memory.end()) return absl::OkStatus();
    for (ordered_json& device : *devices) {
      const auto process = device["process"].get<uint32_t>();
      MemoryOfDevice& kept = memory_.emplace_back();
      kept.json = {{"trace", number},
                   {"process", trace->processes().size() == 1
                                   ? ordered_json("")
                                   : ordered_json(PageText(ProcessName(trace->processes()[process])))}};
      for (const char* const member : {"device", "peak_bytes", "end_bytes", "peak_step", "when", "rows", "leaks"}) {
        kept.json[member] = std::move(device[member]);
      }
      for (MemoryHistory& history : histories) {
        if (history.process == process && kept.json["device"] == ordered_json(DeviceName(history.device))) {
          kept.history = std::move(history);
        }
      }
    }
    return absl::OkStatus();
  }

  void WriteMemory(ReportPage* page) const {
    ordered_json devices = ordered_json::array();
    // Ticks must fit 32 bits.
    double longest_ns = 1;
    for (const MemoryOfDevice& each : memory_) {
      if (each.history.time_ns.empty()) continue;
      longest_ns = std::max(longest_ns, static_cast<double>(each.history.time_ns.back() - each.history.time_ns[0]));
    }
    const double tick_ns = std::max(1.0, longest_ns / UINT32_MAX);
    for (size_t i = 0; i < memory_.size(); ++i) {
      const MemoryHistory& history = memory_[i].history;
      ordered_json json = memory_[i].json;
      if (!history.time_ns.empty() && !history.bytes.empty()) {
        const std::string name = absl::StrCat("memory_", i);
        PageBlock block;
        std::vector<double> at;
        for (const int64_t ns : history.time_ns) {
          at.push_back(std::floor(static_cast<double>(ns - history.time_ns[0]) / tick_ns));
        }
        block.AddNumbers("at", at);
        std::vector<double> all(at.size());
        ordered_json kinds = ordered_json::array();
        for (const auto& [kind, bytes] : history.bytes) {
          std::vector<double> column(bytes.begin(), bytes.end());
          for (size_t k = 0; k < column.size(); ++k) all[k] += column[k];
          block.AddNumbers(absl::StrCat("kind_", kinds.size()), column);
          kinds.push_back(kind);
        }
        page->SetBlock(name, block);
        json["block"] = name;
        json["kinds"] = std::move(kinds);
        json["ticks"] = std::max(1.0, at.back());
        json["peak_at"] = at[static_cast<size_t>(std::max_element(all.begin(), all.end()) - all.begin())];
      }
      devices.push_back(std::move(json));
    }
    page->head()["memory"] = {{"tick_ns", tick_ns}, {"devices", std::move(devices)}};
  }

  bool HasNumbers(size_t number) const {
    const std::vector<ProcessInfo>& processes = traces_[number].trace->processes();
    return std::any_of(processes.begin(), processes.end(), [](const ProcessInfo& each) { return each.known.numbers; });
  }

  absl::Status ReadNumbers(size_t number) {
    if (!HasNumbers(number)) return absl::OkStatus();
    const absl::StatusOr<std::vector<NanDescription>> nans =
        DescribeNans({traces_[number].trace, traces_[number].name}, {});
    if (!nans.ok() && !absl::IsFailedPrecondition(nans.status())) return nans.status();
    if (!nans.ok()) return absl::OkStatus();
    if (numbers_.is_null()) numbers_ = {{"first", ordered_json::array()}};
    for (const NanDescription& each : *nans) {
      ordered_json facts = ordered_json::array();
      for (const auto& [label, what] : each.lines) facts.push_back({PageText(label), PageText(what)});
      const std::string title =
          traces_.size() == 1 ? each.title : absl::StrCat(number == 0 ? "A: " : "B: ", each.title);
      numbers_["first"].push_back({{"title", PageText(title)}, {"facts", std::move(facts)}});
    }
    return absl::OkStatus();
  }

  // The rows of the APIs whose calls have numbers.
  void MakeNumbersTable() {
    if (numbers_.is_null()) return;
    PageTable* const apis = tables_.Find("apis");
    if (apis == nullptr) return;
    PageTable table;
    table.name = "numbers";
    table.sort = "calls_with_nan";
    table.weight = "calls_with_nan";
    std::vector<uint32_t> rows;
    const std::vector<double>* const known[] = {apis->Measure("calls_with_nan"), apis->Measure("b_calls_with_nan")};
    for (uint32_t row = 0; row < apis->rows(); ++row) {
      const auto has = [row](const std::vector<double>* column) {
        return column != nullptr && row < column->size() && !std::isnan((*column)[row]);
      };
      if (!has(known[0]) && !has(known[1])) continue;
      rows.push_back(row);
      table.AddRow(apis->texts[row]);
    }
    for (auto& [measure, column] : apis->measures) {
      std::string_view name = measure;
      if (name.starts_with("b_")) name.remove_prefix(2);
      const bool of_numbers = IsOneOf(name, {"calls_with_nan", "calls_with_inf", "least", "most", "largest_norm"});
      if (!of_numbers && name != "calls") continue;
      for (uint32_t i = 0; i < rows.size(); ++i) table.Set(measure, i, rows[i] < column.size() ? column[rows[i]] : NAN);
    }
    std::erase_if(apis->measures, [](const auto& each) {
      std::string_view name = each.first;
      if (name.starts_with("b_")) name.remove_prefix(2);
      return IsOneOf(name, {"calls_with_nan", "calls_with_inf", "least", "most", "largest_norm"});
    });
    const size_t level = PageFacets::KindOf("level");
    for (const uint32_t row : rows) table.facets[level].push_back(apis->facets.at(level)[row]);
    if (table.rows() > 0) tables_.tables.push_back(std::move(table));
  }

  absl::Status ReadCoverage() {
    if (!options_.coverage) return absl::OkStatus();
    PageTable table;
    table.name = "coverage";
    table.sort = "";
    table.weight = "calls";
    const size_t status = PageFacets::KindOf("status"), space = PageFacets::KindOf("namespace");
    std::map<std::string, uint32_t> rows;
    for (size_t i = 0; i < traces_.size(); ++i) {
      std::ostringstream json;
      if (absl::Status s = options_.coverage({traces_[i]}, &json); !s.ok()) return s;
      ordered_json coverage = ParsedJson(json.str());
      MakePageTexts(&coverage);
      if (!coverage.contains("apis")) continue;
      if (coverage_.is_null()) {
        for (const char* const member : {"list", "total", "called", "namespaces"}) {
          coverage_[member] = coverage[member];
        }
      }
      const std::vector<std::string> spaces = Namespaces(coverage);
      for (const ordered_json& api : coverage["apis"]) {
        const auto name = api["api"].get<std::string>();
        const auto [at, fresh] = rows.try_emplace(name, static_cast<uint32_t>(table.rows()));
        if (fresh) {
          table.AddRow(name);
          table.facets[status].push_back(tables_.facets.Value(status, "never called"));
          table.facets[space].push_back(tables_.facets.Value(space, NamespaceOf(name, spaces)));
        }
        if (api["called"].get<bool>()) {
          table.facets[status][at->second] = tables_.facets.Value(status, "called");
        }
        const auto calls = api.find("calls");
        const bool known = calls != api.end() && calls->is_number();
        table.Set(i == 0 ? "calls" : "b_calls", at->second, known ? calls->get<double>() : 0);
      }
    }
    if (table.rows() == 0) return absl::OkStatus();
    if (traces_.size() > 1) {
      table.MakeBoth();
      coverage_["list"] = absl::StrCat(coverage_["list"].get<std::string>(), ", by A");
    }
    tables_.tables.push_back(std::move(table));
    return absl::OkStatus();
  }

  // The longest first.
  static std::vector<std::string> Namespaces(const ordered_json& coverage) {
    std::vector<std::string> spaces;
    for (const ordered_json& each : coverage["namespaces"]) spaces.push_back(each["namespace"].get<std::string>());
    std::stable_sort(spaces.begin(), spaces.end(),
                     [](const std::string& a, const std::string& b) { return a.size() > b.size(); });
    return spaces;
  }
  static std::string NamespaceOf(const std::string& api, const std::vector<std::string>& spaces) {
    for (const std::string& space : spaces) {
      if (api.size() > space.size() && api.starts_with(space) && !IsWord(api.substr(space.size(), 1))) return space;
    }
    return "";
  }

  absl::StatusOr<ordered_json> Summary(size_t number) {
    Trace* const trace = traces_[number].trace;
    std::ostringstream text;
    if (absl::Status s = WriteInfo(trace, traces_[number].name, {.json = true}, &text); !s.ok()) return s;
    const ordered_json info = ParsedJson(text.str());
    ordered_json json = {{"name", traces_[number].name}};
    if (info.is_object()) TakeInfo(info, &json);
    json.update(tables_.totals[number]);
    if (!json.contains("calls")) json["calls"] = 0;
    const RunFacts facts = GatherFacts(*trace);
    json["processes"] = facts.processes;
    size_t threads = 0;
    for (const ProcessInfo& process : trace->processes()) threads += process.threads.size();
    json["threads"] = threads;
    uint64_t peak = 0;
    for (const MemoryOfDevice& each : memory_) {
      if (each.json["trace"] == number) peak = std::max(peak, each.json["peak_bytes"].get<uint64_t>());
    }
    if (peak > 0) json["peak_bytes"] = peak;
    if (absl::Status s = AddNotes(number, facts, &json); !s.ok()) return s;
    MakePageTexts(&json);
    return json;
  }

  absl::Status AddNotes(size_t number, const RunFacts& facts, ordered_json* json) {
    const Trace& trace = *traces_[number].trace;
    std::vector<std::string> ranks;
    if (IsMerged(trace)) ranks = RankSentences(FindRankGaps(trace.processes()));
    const absl::StatusOr<Statistics> statistics = CountCalls(traces_[number].trace, ApiOrder::kNone);
    if (!statistics.ok()) return statistics.status();
    const CappedCounts capped = CountCapped(trace, *statistics);
    Gaps gaps = FindGaps(facts, capped, ranks);
    if (facts.open_calls > 0) {
      gaps.left_out.insert(gaps.left_out.begin(),
                           absl::StrCat(Counted(facts.open_calls, "call", "calls"), " never returned"));
    }
    for (const ProcessInfo& process : trace.processes()) {
      for (const std::string& sentence : process.damage.sentences) gaps.lost.push_back(sentence);
    }
    (*json)["complete"] = gaps.lost.empty() && gaps.cut.empty() && gaps.not_seen.empty();
    ordered_json& notes = (*json)["notes"] = ordered_json::array();
    constexpr size_t kMostNotes = 200;
    size_t more = 0;
    const auto add = [&](const char* kind, const std::vector<std::string>& texts) {
      for (const std::string& text : texts) {
        if (notes.size() < kMostNotes) {
          notes.push_back({{"kind", kind}, {"text", text}});
        } else {
          ++more;
        }
      }
    };
    add("loss", gaps.lost);
    add("loss", gaps.cut);
    for (std::string& text : gaps.not_seen) {
      if (text.starts_with("not seen: ")) text.erase(0, 10);
    }
    add("unseen", gaps.not_seen);
    add("note", gaps.left_out);
    if (number == 0) add("note", tables_.notes);
    if (number == 0) add("note", memory_notes_);
    if (more > 0) notes.push_back({{"kind", "loss"}, {"text", absl::StrCat("and ", more, " more notes")}});
    return absl::OkStatus();
  }

  struct MemoryOfDevice {
    ordered_json json;
    MemoryHistory history;
  };

  const std::vector<StatsTrace>& traces_;
  const ReportOptions& options_;
  ShapeRules rules_ = ShapeRules::BuiltIn();
  TraceTables tables_;
  std::vector<PageTree> trees_;
  Timeline timeline_;
  std::vector<MemoryOfDevice> memory_;
  std::vector<std::string> memory_notes_;
  ordered_json coverage_, numbers_;
  SourceTexts sources_;
  std::vector<ordered_json> summaries_;
};

}  // namespace

absl::Status WriteReportPage(const std::vector<StatsTrace>& traces, const ReportOptions& options, std::ostream* out,
                             std::vector<std::string>* notes) {
  ReportWriterOfTraces report(traces, options);
  if (absl::Status s = report.Read(); !s.ok()) return s;
  if (absl::Status s = report.Write(out); !s.ok()) return s;
  *notes = report.notes();
  return absl::OkStatus();
}

}  // namespace torchtrace
