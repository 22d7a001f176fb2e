#include <algorithm>
#include <cmath>
#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "nlohmann/json.hpp"
#include "serialize/base/text.h"
#include "serialize/forms/forms.h"
#include "serialize/model/config.h"
#include "serialize/model/levels.h"
#include "serialize/reports/reports.h"
#include "serialize/trace/run_facts.h"

namespace torchtrace {
namespace {

using nlohmann::ordered_json;

struct Tally {
  uint64_t inside = 0;
  uint64_t outside = 0;

  uint64_t calls() const { return inside + outside; }
  void Add(const Tally& other) {
    inside += other.inside;
    outside += other.outside;
  }
};

struct CensusThread {
  const StatsTrace* trace;
  std::string process;
  uint64_t number;
  std::string name;
  Tally all;
  std::vector<Tally> operators;  // by index into operators_; may be shorter
  // Depth of the outermost open call of level 1.
  std::optional<uint32_t> api_depth;

  // Autograd's own threads; on the CPU the backward pass runs on the thread that asks for it.
  bool backward() const { return absl::StartsWith(name, "pt_autograd"); }
};

double Percent(uint64_t part, uint64_t whole) {
  return whole == 0 ? 0 : std::round(1e6 * static_cast<double>(part) / static_cast<double>(whole)) / 1e4;
}

class Census {
 public:
  Census(const std::vector<StatsTrace>& traces, const CensusOptions& options, std::ostream* out)
      : traces_(traces), options_(options), out_(out), filter_(options.filter) {}

  absl::Status Run() {
    for (const StatsTrace& trace : traces_) {
      if (absl::Status s = Add(trace); !s.ok()) return s;
    }
    Sort();
    return WriteInFormat(options_.format, "the census", this, out_);
  }

 private:
  template <typename Report>
  friend absl::Status torchtrace::WriteInFormat(StatsFormat format, const char* what, Report* report,
                                                std::ostream* out);

  static constexpr uint32_t kNoOperator = UINT32_MAX;

  struct Operator {
    std::string api;
    Tally all;
  };
  struct ConfigKind {
    int level = 0;
    uint32_t index = kNoOperator;  // into operators_
  };

  absl::Status Add(const StatsTrace& trace) {
    // Counting makes the configs and the threads known.
    const absl::StatusOr<std::vector<uint64_t>> counted = trace.trace->Count();
    if (!counted.ok()) return counted.status();
    std::vector<ConfigKind> kinds;
    const auto add_kinds = [&] {
      for (auto id = static_cast<ConfigId>(kinds.size()); id < trace.trace->config_count(); ++id) {
        kinds.push_back(KindOf(ReadConfigHead(trace.trace->identity(id))));
      }
    };
    add_kinds();
    if (absl::Status s = CheckLevels(trace); !s.ok()) return s;
    std::map<std::pair<uint32_t, uint32_t>, size_t> index;  // into threads_
    std::pair<uint32_t, uint32_t> last_key;
    size_t last = SIZE_MAX;
    return trace.trace->ReadCounted([&](const CallRecord& call) -> absl::Status {
      const std::pair<uint32_t, uint32_t> key(call.process, call.thread);
      if (last == SIZE_MAX || key != last_key) {
        const auto [at, fresh] = index.try_emplace(key, threads_.size());
        if (fresh) threads_.push_back(NewThread(trace, call));
        last = at->second;
        last_key = key;
      }
      CensusThread& thread = threads_[last];
      if (call.config >= kinds.size()) add_kinds();
      // What stands at the same depth or above it is no longer open.
      if (thread.api_depth.has_value() && call.depth <= *thread.api_depth) thread.api_depth.reset();
      if (call.kind != CallRecord::kEnter) return absl::OkStatus();
      const ConfigKind& kind = kinds[call.config];
      if (kind.level == kFunctionLevel && !thread.api_depth.has_value()) thread.api_depth = call.depth;
      if (kind.index == kNoOperator) return absl::OkStatus();
      if (kind.index >= thread.operators.size()) thread.operators.resize(operators_.size());
      Tally& tally = thread.operators[kind.index];
      (thread.api_depth.has_value() ? tally.inside : tally.outside) += call.count;
      return absl::OkStatus();
    });
  }

  ConfigKind KindOf(const ConfigHead& head) {
    if (head.level != kDispatchLevel || !filter_.Accepts(head.api)) return {head.level, kNoOperator};
    const auto [at, fresh] = operator_index_.try_emplace(std::string(head.api), operators_.size());
    if (fresh) operators_.push_back({std::string(head.api), {}});
    return {head.level, static_cast<uint32_t>(at->second)};
  }

  // By what was asked for, or, where the metadata doesn't tell, by what is there.
  static absl::Status CheckLevels(const StatsTrace& trace) {
    const std::vector<int> levels = RecordedLevels(*trace.trace);
    const auto has = [&](int level) { return std::find(levels.begin(), levels.end(), level) != levels.end(); };
    if (has(kFunctionLevel) && has(kDispatchLevel)) return absl::OkStatus();
    return absl::FailedPreconditionError(absl::StrCat(
        trace.name, levels.empty() ? " has no calls" : absl::StrCat(" has only level ", absl::StrJoin(levels, ", ")),
        ": a census compares level 2 with level 1; record with --levels 1,2"));
  }

  static CensusThread NewThread(const StatsTrace& trace, const CallRecord& call) {
    const ProcessInfo& process = trace.trace->processes()[call.process];
    CensusThread thread{&trace, ProcessName(process), call.thread, "", {}, {}, {}};
    if (const ThreadInfo* const info = FindThread(process, call.thread)) thread.name = info->name;
    return thread;
  }

  void Sort() {
    for (CensusThread& thread : threads_) {
      for (size_t i = 0; i < thread.operators.size(); ++i) {
        operators_[i].all.Add(thread.operators[i]);
        thread.all.Add(thread.operators[i]);
      }
      totals_.Add(thread.all);
    }
    for (uint32_t i = 0; i < operators_.size(); ++i) {
      if (operators_[i].all.calls() > 0) order_.push_back(i);
    }
    std::sort(order_.begin(), order_.end(), [this](uint32_t a, uint32_t b) {
      const Operator& left = operators_[a];
      const Operator& right = operators_[b];
      if (left.all.outside != right.all.outside) return left.all.outside > right.all.outside;
      if (left.all.inside != right.all.inside) return left.all.inside > right.all.inside;
      return left.api < right.api;
    });
    operator_count_ = order_.size();
    if (options_.top > 0 && order_.size() > options_.top) order_.resize(options_.top);
  }

  std::string ThreadLabel(const CensusThread& thread) const {
    return absl::StrCat(traces_.size() > 1 ? thread.trace->name + " " : "", thread.process, " thread ", thread.number,
                        thread.name.empty() ? "" : " " + FormatApi(thread.name),
                        thread.backward() ? " (backward)" : "");
  }

  void WriteText() {
    const bool markdown = options_.format == StatsFormat::kMarkdown;
    *out_ << Counted(totals_.calls(), "call", "calls") << " of level 2: " << totals_.inside
          << " inside a call of level 1, " << totals_.outside << " outside ("
          << FormatPercent(totals_.outside, totals_.calls()) << "), which level 1 did not see\n\n";
    const auto write = [&](const TextTable& table) { *out_ << (markdown ? table.FormatMarkdown() : table.Format()); };
    const auto add = [](TextTable* table, const std::string& label, const Tally& tally) {
      table->AddRow({label, std::to_string(tally.calls()), std::to_string(tally.inside), std::to_string(tally.outside),
                     FormatPercent(tally.outside, tally.calls())});
    };
    TextTable operators({{"operator", TextTable::kLeft}, {"calls"}, {"inside"}, {"outside"}, {"outside %"}});
    for (const uint32_t i : order_) add(&operators, FormatApi(operators_[i].api), operators_[i].all);
    write(operators);
    if (order_.size() < operator_count_) {
      *out_ << (markdown ? "\n" : "") << "... and " << operator_count_ - order_.size() << " more\n";
    }
    *out_ << "\n";
    TextTable threads({{"thread", TextTable::kLeft}, {"calls"}, {"inside"}, {"outside"}, {"outside %"}});
    for (const CensusThread& thread : threads_) {
      if (thread.all.calls() > 0) add(&threads, ThreadLabel(thread), thread.all);
    }
    write(threads);
  }

  static void AddTally(const Tally& tally, ordered_json* json) {
    (*json)["calls"] = tally.calls();
    (*json)["inside"] = tally.inside;
    (*json)["outside"] = tally.outside;
    (*json)["percent_outside"] = Percent(tally.outside, tally.calls());
  }

  void WriteJson() {
    *out_ << "{\n  \"total_calls\": " << totals_.calls() << ",\n  \"inside\": " << totals_.inside
          << ",\n  \"outside\": " << totals_.outside << ",\n  \"operators\": [";
    const char* separator = "";
    for (const uint32_t i : order_) {
      ordered_json json = {{"api", operators_[i].api}};
      AddTally(operators_[i].all, &json);
      *out_ << separator << "\n    " << DumpJson(json);
      separator = ",";
    }
    *out_ << (order_.empty() ? "]" : "\n  ]") << ",\n  \"threads\": [";
    separator = "";
    for (const CensusThread& thread : threads_) {
      if (thread.all.calls() == 0) continue;
      ordered_json json = ordered_json::object();
      if (traces_.size() > 1) json["trace"] = thread.trace->name;
      json["process"] = thread.process;
      json["thread"] = thread.number;
      json["name"] = thread.name;
      json["backward"] = thread.backward();
      AddTally(thread.all, &json);
      *out_ << separator << "\n    " << DumpJson(json);
      separator = ",";
    }
    *out_ << (*separator == '\0' ? "]\n}\n" : "\n  ]\n}\n");
  }

  // A row for each operator on each thread.
  void WriteCsv() {
    *out_ << "operator,trace,process,thread,thread_name,backward,calls,inside,outside\n";
    for (const uint32_t i : order_) {
      for (const CensusThread& thread : threads_) {
        if (i >= thread.operators.size() || thread.operators[i].calls() == 0) continue;
        const Tally& tally = thread.operators[i];
        *out_ << absl::StrCat(CsvCell(operators_[i].api), ",", CsvCell(thread.trace->name), ",",
                              CsvCell(thread.process), ",", thread.number, ",", CsvCell(thread.name), ",",
                              thread.backward() ? "true" : "false", ",", tally.calls(), ",", tally.inside, ",",
                              tally.outside, "\n");
      }
    }
  }

  const std::vector<StatsTrace>& traces_;
  const CensusOptions& options_;
  std::ostream* const out_;
  GlobMemo filter_;
  std::vector<Operator> operators_;
  std::map<std::string, size_t> operator_index_;
  std::vector<CensusThread> threads_;  // by first call
  std::vector<uint32_t> order_;        // of the operators that are shown
  size_t operator_count_ = 0;
  Tally totals_;
};

}  // namespace

absl::Status WriteCensus(const std::vector<StatsTrace>& traces, const CensusOptions& options, std::ostream* out) {
  return Census(traces, options, out).Run();
}

}  // namespace torchtrace
