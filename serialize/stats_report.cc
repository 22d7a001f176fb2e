#include "serialize/stats_report.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "nlohmann/json.hpp"
#include "serialize/call_totals.h"
#include "serialize/config.h"
#include "serialize/duration_text.h"
#include "serialize/json_form.h"
#include "serialize/run_facts.h"
#include "serialize/statistics.h"
#include "serialize/text_form.h"
#include "serialize/text_table.h"
#include "serialize/trace_lines.h"

namespace torchtrace {
namespace {

using nlohmann::ordered_json;

// One field of a row: how each format calls it and what it holds.
struct Field {
  const char* name;
  ordered_json value;
};

struct Row {
  std::vector<Field> labels;  // what the row is about
  std::string text_label;     // the same for the table
  CallTotal total;
  uint64_t configs = 0;
  uint64_t apis = 0;
};

struct Totals {
  uint64_t calls = 0;
  uint64_t apis = 0;
  uint64_t configs = 0;
};

// A config of one of the traces; equal ones of other traces are added to it.
struct GlobalConfig {
  const Trace* trace;
  ConfigId id;
  ConfigHead head;
  CallTotal total;
};

struct Grouping {
  const char* list;   // the JSON's name of the rows
  const char* title;  // of the label's column
  bool label_last;    // long labels
  bool apis;          // shows how many APIs
  bool configs;       // shows how many configs
};
// In StatsBy's order.
constexpr Grouping kGroupings[] = {
    {"apis", "API", false, false, true},         {"configs", "config", true, false, false},
    {"levels", "level", false, true, true},      {"threads", "thread", false, true, true},
    {"processes", "process", false, true, true},
};

double Percent(uint64_t part, uint64_t whole) {
  if (whole == 0) return 0;
  return std::round(1e6 * static_cast<double>(part) / static_cast<double>(whole)) / 1e4;
}

class StatsReport {
 public:
  StatsReport(const StatsOptions& options, std::ostream* out) : options_(options), out_(out) {}

  absl::Status Add(Trace* trace, size_t number) {
    // Counting makes the configs known, so that each is matched against the filters once, before the reading.
    const absl::StatusOr<std::vector<uint64_t>> counted = trace->Count();
    if (!counted.ok()) return counted.status();
    absl::StatusOr<TraceTotals> totals =
        SumCalls(trace, [this, trace](ConfigId id) { return Accepts(ReadConfigHead(trace->identity(id))); });
    if (!totals.ok()) return totals.status();
    // Calls of a later trace come after those of the earlier ones.
    const uint64_t first_call = calls_before_;
    std::vector<size_t> ids(totals->configs.size());
    for (ConfigId id = 0; id < totals->configs.size(); ++id) {
      CallTotal& total = totals->configs[id];
      if (total.calls == 0) continue;
      total.first += first_call;
      ids[id] = AddConfig(trace, id, total);
    }
    for (auto& [key, thread] : totals->threads) {
      if (thread.total.calls == 0) continue;
      thread.total.first += first_call;
      AddThread(*trace, number, key.first, key.second, thread, ids);
    }
    for (const ProcessInfo& process : trace->processes()) calls_before_ += process.calls;
    return absl::OkStatus();
  }

  absl::Status Write() {
    MakeRows();
    switch (options_.format) {
      case StatsFormat::kText:
        WriteText();
        break;
      case StatsFormat::kJson:
        WriteJson();
        break;
      case StatsFormat::kCsv:
        WriteCsv();
        break;
    }
    out_->flush();
    return out_->good() ? absl::OkStatus() : absl::AbortedError("cannot write the statistics");
  }

 private:
  struct ThreadRow {
    Row row;
    std::set<std::pair<int, std::string_view>> apis;
    std::vector<bool> configs;  // by index into configs_
  };

  const Grouping& grouping() const { return kGroupings[static_cast<size_t>(options_.by)]; }

  bool Accepts(const ConfigHead& head) const {
    const std::vector<int>& levels = options_.levels;
    return (levels.empty() || std::find(levels.begin(), levels.end(), head.level) != levels.end()) &&
           options_.filter.Accepts(head.api);
  }

  size_t AddConfig(const Trace* trace, ConfigId id, const CallTotal& total) {
    const std::string_view identity = trace->identity(id);
    const auto [at, fresh] = config_index_.try_emplace(identity, configs_.size());
    if (fresh) {
      configs_.push_back({trace, id, ReadConfigHead(identity), total});
    } else {
      configs_[at->second].total.Add(total);
    }
    return at->second;
  }

  void AddThread(const Trace& trace, size_t trace_number, uint32_t process, uint32_t thread, const ThreadTotal& total,
                 const std::vector<size_t>& ids) {
    const bool by_thread = options_.by == StatsBy::kThread;
    if (!by_thread && options_.by != StatsBy::kProcess) return;
    const auto [at, fresh] = threads_.try_emplace({trace_number, process, by_thread ? thread : 0});
    ThreadRow& row = at->second;
    if (fresh) LabelThread(trace.processes()[process], by_thread ? &thread : nullptr, &row.row);
    row.row.total.Add(total.total);
    row.configs.resize(configs_.size());
    for (size_t id = 0; id < total.configs.size(); ++id) {
      if (!total.configs[id] || row.configs[ids[id]]) continue;
      row.configs[ids[id]] = true;
      ++row.row.configs;
      const ConfigHead& head = configs_[ids[id]].head;
      row.apis.insert({head.level, head.api});
    }
    row.row.apis = row.apis.size();
  }

  static void LabelThread(const ProcessInfo& process, const uint32_t* thread, Row* row) {
    const std::string name = ProcessName(process);
    row->text_label = name;
    row->labels = {{"process", name}, {"log", process.path}, {"ended", DescribeEnd(process)}};
    if (thread == nullptr) return;
    row->labels.pop_back();
    row->labels.push_back({"thread", *thread});
    absl::StrAppend(&row->text_label, " thread ", *thread);
    for (const ThreadInfo& info : process.threads) {
      if (info.number != *thread) continue;
      row->labels.push_back({"os_id", info.os_id});
      row->labels.push_back({"name", info.name});
      if (!info.name.empty()) absl::StrAppend(&row->text_label, " ", FormatApi(info.name));
    }
  }

  void MakeRows() {
    using Key = std::pair<int, std::string_view>;  // level, API
    absl::flat_hash_map<Key, Row> apis;
    std::map<int, Row> levels;
    for (const GlobalConfig& config : configs_) {
      totals_.calls += config.total.calls;
      ++totals_.configs;
      const auto [at, fresh] = apis.try_emplace({config.head.level, config.head.api});
      at->second.total.Add(config.total);
      ++at->second.configs;
      Row& level = levels[config.head.level];
      level.total.Add(config.total);
      ++level.configs;
      if (fresh) ++level.apis;
      if (options_.by == StatsBy::kConfig) {
        Row& row = rows_.emplace_back();
        row.total = config.total;
        row.labels = {{"id", rows_.size() - 1}};
      }
    }
    totals_.apis = apis.size();

    if (options_.by == StatsBy::kApi) {
      for (auto& [key, row] : apis) {
        row.text_label = FormatApi(key.second);
        row.labels = {{"api", std::string(key.second)}, {"level", key.first}};
        rows_.push_back(std::move(row));
      }
    } else if (options_.by == StatsBy::kLevel) {
      for (auto& [level, row] : levels) {
        row.text_label = std::to_string(level);
        row.labels = {{"level", level}};
        rows_.push_back(std::move(row));
      }
    }
    for (auto& [key, thread] : threads_) rows_.push_back(std::move(thread.row));

    std::sort(rows_.begin(), rows_.end(), [](const Row& a, const Row& b) {
      return a.total.calls != b.total.calls ? a.total.calls > b.total.calls : a.total.first < b.total.first;
    });
    if (options_.top > 0 && rows_.size() > options_.top) {
      rows_left_out_ = rows_.size() - options_.top;
      rows_.resize(options_.top);
    }
    // Only what is shown is formatted.
    if (options_.by == StatsBy::kConfig) {
      for (Row& row : rows_) LabelConfig(configs_[row.labels[0].value.get<size_t>()], &row);
    }
  }

  static void LabelConfig(const GlobalConfig& config, Row* row) {
    row->text_label = ConfigText(*config.trace, config.id);
    row->labels = {{"config", row->text_label}, {"api", std::string(config.head.api)}, {"level", config.head.level}};
  }

  // The row as JSON and CSV have it.
  std::vector<Field> FieldsOf(const Row& row) const {
    std::vector<Field> fields = row.labels;
    fields.push_back({"calls", row.total.calls});
    if (grouping().apis) fields.push_back({"apis", row.apis});
    if (grouping().configs) fields.push_back({"configs", row.configs});
    fields.push_back({"percent", Percent(row.total.calls, totals_.calls)});
    fields.push_back({"time_ns", row.total.time_ns});
    fields.push_back({"self_time_ns", row.total.self_time_ns});
    fields.push_back({"raised", row.total.raised});
    return fields;
  }

  void WriteText() {
    const auto counted = [](uint64_t count, const char* one, const char* many) {
      return absl::StrCat(count, " ", count == 1 ? one : many);
    };
    *out_ << counted(totals_.calls, "call", "calls") << " of " << counted(totals_.apis, "API", "APIs") << " in "
          << counted(totals_.configs, "config", "configs") << "\n\n";
    std::vector<TextTable::Column> columns;
    const TextTable::Column label{grouping().title, TextTable::kLeft};
    const bool several_levels = HasSeveralLevels();
    if (!grouping().label_last) columns.push_back(label);
    if (several_levels) columns.push_back({"level"});
    columns.push_back({"calls"});
    columns.push_back({"percent"});
    if (grouping().apis) columns.push_back({"APIs"});
    if (grouping().configs) columns.push_back({"configs"});
    columns.push_back({"time"});
    columns.push_back({"self time"});
    if (grouping().label_last) columns.push_back(label);
    TextTable table(std::move(columns));
    for (const Row& row : rows_) {
      std::vector<std::string> cells;
      if (!grouping().label_last) cells.push_back(row.text_label);
      if (several_levels) cells.push_back(row.labels.back().value.dump());
      cells.push_back(std::to_string(row.total.calls));
      cells.push_back(FormatPercent(row.total.calls, totals_.calls));
      if (grouping().apis) cells.push_back(std::to_string(row.apis));
      if (grouping().configs) cells.push_back(std::to_string(row.configs));
      cells.push_back(FormatDuration(row.total.time_ns));
      cells.push_back(FormatDuration(row.total.self_time_ns));
      if (grouping().label_last) cells.push_back(row.text_label);
      table.AddRow(std::move(cells));
    }
    *out_ << table.Format();
    if (rows_left_out_ > 0) *out_ << "... and " << rows_left_out_ << " more\n";
  }

  // Rows of APIs and configs end their labels with the level.
  bool HasSeveralLevels() const {
    if (options_.by != StatsBy::kApi && options_.by != StatsBy::kConfig) return false;
    std::set<int> levels;
    for (const GlobalConfig& config : configs_) levels.insert(config.head.level);
    return levels.size() > 1;
  }

  void WriteJson() {
    *out_ << "{\n  \"total_calls\": " << totals_.calls << ",\n  \"total_apis\": " << totals_.apis
          << ",\n  \"total_configs\": " << totals_.configs << ",\n  \"" << grouping().list << "\": [";
    const char* separator = "\n    ";
    for (const Row& row : rows_) {
      ordered_json json = ordered_json::object();
      for (Field& field : FieldsOf(row)) json[field.name] = std::move(field.value);
      *out_ << separator << DumpJson(json);
      separator = ",\n    ";
    }
    *out_ << (rows_.empty() ? "]\n}\n" : "\n  ]\n}\n");
  }

  // The names of the columns that every row of this grouping has.
  std::vector<std::string> CsvHeader() const {
    std::vector<std::string> names;
    switch (options_.by) {
      case StatsBy::kApi:
        names = {"api", "level"};
        break;
      case StatsBy::kConfig:
        names = {"config", "api", "level"};
        break;
      case StatsBy::kLevel:
        names = {"level"};
        break;
      case StatsBy::kThread:
        names = {"process", "log", "thread", "os_id", "name"};
        break;
      case StatsBy::kProcess:
        names = {"process", "log", "ended"};
        break;
    }
    for (const Field& field : FieldsOf(Row())) names.emplace_back(field.name);
    return names;
  }

  static std::string CsvCell(const ordered_json& value) {
    const std::string text = value.is_string() ? value.get<std::string>() : value.dump();
    if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
    std::string quoted = "\"";
    for (const char c : text) {
      if (c == '"') quoted += '"';
      quoted += c;
    }
    return quoted + "\"";
  }

  void WriteCsv() {
    *out_ << absl::StrJoin(CsvHeader(), ",") << "\n";
    for (const Row& row : rows_) {
      *out_ << absl::StrJoin(FieldsOf(row), ",", [](std::string* out, const Field& field) {
        out->append(CsvCell(field.value));
      }) << "\n";
    }
  }

  const StatsOptions& options_;
  std::ostream* const out_;
  std::vector<GlobalConfig> configs_;
  absl::flat_hash_map<std::string_view, size_t> config_index_;  // identities, which the traces own, into configs_
  std::map<std::tuple<size_t, uint32_t, uint32_t>, ThreadRow> threads_;  // by trace, process, thread
  uint64_t calls_before_ = 0;
  Totals totals_;
  std::vector<Row> rows_;
  uint64_t rows_left_out_ = 0;
};

}  // namespace

absl::StatusOr<StatsBy> ParseStatsBy(std::string_view text) {
  if (text == "api") return StatsBy::kApi;
  if (text == "config") return StatsBy::kConfig;
  if (text == "level") return StatsBy::kLevel;
  if (text == "thread") return StatsBy::kThread;
  if (text == "process") return StatsBy::kProcess;
  return absl::InvalidArgumentError(
      absl::StrCat("cannot group by \"", std::string(text), "\"; known: api, config, level, thread, process"));
}

absl::StatusOr<StatsFormat> ParseStatsFormat(std::string_view text) {
  if (text == "text") return StatsFormat::kText;
  if (text == "json") return StatsFormat::kJson;
  if (text == "csv") return StatsFormat::kCsv;
  return absl::InvalidArgumentError(absl::StrCat("unknown format \"", std::string(text), "\"; known: text, json, csv"));
}

absl::Status WriteStats(const std::vector<Trace*>& traces, const StatsOptions& options, std::ostream* out) {
  StatsReport report(options, out);
  for (size_t i = 0; i < traces.size(); ++i) {
    if (absl::Status s = report.Add(traces[i], i); !s.ok()) return s;
  }
  return report.Write();
}

}  // namespace torchtrace
