// Exporters, which write configs or calls in a format, and the list of them. A new format is a file with an
// Exporter, listed in exporters.cc.

#ifndef TORCHTRACE_SERIALIZE_EXPORT_EXPORTER_H_
#define TORCHTRACE_SERIALIZE_EXPORT_EXPORTER_H_

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <ostream>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "serialize/base/files.h"
#include "serialize/export/table_facts.h"
#include "serialize/export/table_writer.h"
#include "serialize/forms/call_labels.h"
#include "serialize/model/config.h"
#include "serialize/trace/call_costs.h"
#include "serialize/trace/call_tree.h"
#include "serialize/trace/trace.h"

namespace torchtrace {

// Counts the configs that a format can't hold, by reason, for the notes that the user sees.
class LeftOut {
 public:
  void Add(std::string_view reason, uint64_t calls) {
    Count& count = reasons_[std::string(reason)];
    ++count.configs;
    count.calls += calls;
  }

  // `torchbench leaves out 3 configs (12 calls): not of level 2`, one per reason.
  std::vector<std::string> Notes(std::string_view format) const {
    std::vector<std::string> notes;
    for (const auto& [reason, count] : reasons_) {
      notes.push_back(absl::StrCat(std::string(format), " leaves out ", count.configs,
                                   count.configs == 1 ? " config (" : " configs (", count.calls,
                                   count.calls == 1 ? " call): " : " calls): ", reason));
    }
    return notes;
  }

 private:
  struct Count {
    uint64_t configs = 0;
    uint64_t calls = 0;
  };
  std::map<std::string, Count> reasons_;
};

// A config for a ConfigSink.
struct ConfigRow {
  std::string_view identity = {};  // config.h; valid during the call
  std::string_view facets = {};    // empty: none
  uint64_t calls = 1;
  int64_t time_ns = -1;  // of all its calls; -1: unknown
  // Where it comes from; empty: not asked for, or from several places.
  std::string_view trace = {};  // path or label
  std::string_view host = {};
  int64_t pid = -1;
  int64_t rank = -1;
  // What is known of its first call: empty and kNullCell where nothing is.
  std::string_view module = {};
  std::string_view file = {};
  std::string_view tags = {};  // JSON
  int64_t line = kNullCell;
  int64_t step = kNullCell;
  int64_t first_call = kNullCell;  // its number
  SizeCells sizes = {};            // table_facts.h
  // Of all its calls that returned.
  int64_t flops = kNullCell;
  int64_t bytes = kNullCell;
  int64_t device_ns = kNullCell;
};

// ConfigSink writes configurations with their counts in one output format; `dedup -o` and
// `export` use it. One file per format implements it.
//
//   absl::StatusOr<std::unique_ptr<ConfigSink>> sink = MakeConfigSink(exporter, &out);
//   (*sink)->Add({.identity = trace.identity(config), .calls = calls});
//   (*sink)->Finish();
//
// Rows are written in the order added; torchbench and tritonbench group them by
// operator and write at Finish. Memory grows with the configurations at most.
class ConfigSink {
 public:
  virtual ~ConfigSink() = default;
  virtual absl::Status Add(const ConfigRow& row) = 0;
  // Like Add, returns Aborted when the stream failed.
  virtual absl::Status Finish() = 0;
  // What was left out because the format can't hold it, a sentence each, to print to the
  // user. Complete once Finish has returned.
  virtual std::vector<std::string> notes() const { return {}; }
};

// CallSink writes calls as they begin and end, for timeline viewers. Traces come one after the other.
class CallSink {
 public:
  virtual ~CallSink() = default;
  // Comes before the first record of each trace, which has been counted and lives until End. It may be read here.
  virtual absl::Status Begin(Trace* trace, std::string_view label) = 0;
  // What it wants of a trace beside entries and ends.
  virtual RecordsShown reads(const Trace&) const { return {}; }
  // In the trace's order, without the calls that the selection leaves out.
  virtual absl::Status Add(const CallRecord& record) = 0;
  // Entries and ends of those calls, and what `reads` asks for, also of those calls.
  virtual absl::Status AddOther(const CallRecord&) { return absl::OkStatus(); }
  virtual absl::Status End() = 0;
  // Like the others, returns Aborted when the stream failed.
  virtual absl::Status Finish() = 0;
  virtual std::vector<std::string> notes() const { return {}; }
};

class TextSeries;      // file_series.h
struct TimingOptions;  // timing_export.h

// Options of an export; each format uses those that apply to it.
struct ExportOptions {
  bool counts = false;                   // text: each line begins with its number of calls
  std::string version = {};              // of torchtrace; empty: the file has no header about itself
  std::vector<std::string> traces = {};  // their paths
  std::string table = {};                // "configs", "calls"
  std::string output = {};               // the file's name, without .gz; empty: none
  LabelBy by = LabelBy::kApi;            // flamegraph: what a frame is
  // flamegraph: what frames weigh, and for FLOPs what a call of a config costs.
  TreeWeight weight = TreeWeight::kTime;
  std::function<ConfigCost(const Trace& trace, ConfigId config)> cost = nullptr;
};

// Whether a format has a place for where a config comes from: trace, host, pid and rank.
enum class Provenance : uint8_t {
  kNone,
  kWhenAsked,  // otherwise one row per config
  kAlways,     // one row per config and process
};

// The ways in which formats are written. `out` must outlive what `make` returns.
struct WritesConfigs {
  std::unique_ptr<ConfigSink> (*make)(std::ostream* out, const ExportOptions& options);
};
// Rows of any columns: of configs or of calls.
struct WritesTables {
  absl::StatusOr<std::unique_ptr<TableWriter>> (*make)(std::vector<Column> columns, std::ostream* out,
                                                       const ExportOptions& options);
  // Null: configs are rows of a table, too.
  std::unique_ptr<ConfigSink> (*make_configs)(std::ostream* out, const ExportOptions& options) = nullptr;
};
struct WritesCalls {
  std::unique_ptr<CallSink> (*make)(std::ostream* out, const ExportOptions& options);
};
// Calls, split into files of limited size (timing_export.h).
struct WritesSeries {
  std::unique_ptr<CallSink> (*make)(TextSeries* out, const TimingOptions& options);
};
// Calls as code; a Python with torch writes it (replay/code.h).
struct WritesCode {};

// An exporter writes configs or calls, or both where it has tables, in one format of ours or of another tool.
struct Exporter {
  const char* name = nullptr;                // "torchbench"
  const char* help = nullptr;                // what the file contains, in one line
  std::array<const char*, 2> suffixes = {};  // of file names that select this format
  const char* shared_suffix = nullptr;       // of its files and of another format's: alone it selects neither
  Provenance provenance = Provenance::kNone;
  bool levels = true;     // distinguishes configs that differ only in their level
  bool sorted = false;    // configs are sorted by their lines, as in api_configs.txt, not in definition order
  bool replayed = false;  // other tools replay the calls in it: each config must be one that was called
  bool binary = false;    // a terminal can't show it
  bool packed = false;    // it is compressed
  // A Python program that writes the file; null: none is needed. See parquet_table.h.
  const char* python_program = nullptr;
  std::variant<WritesConfigs, WritesTables, WritesCalls, WritesSeries, WritesCode> write;

  bool HoldsTables() const { return std::holds_alternative<WritesTables>(write); }
  bool HoldsConfigs() const { return HoldsTables() || std::holds_alternative<WritesConfigs>(write); }
};

// In the order in which help and messages list them.
const std::vector<const Exporter*>& Exporters();

// InvalidArgument, with the choices and the nearest one, for an unknown name.
absl::StatusOr<const Exporter*> FindExporter(std::string_view name);
// By the suffix of the file name, without .gz, among those that `which` accepts; null: among all, and then
// InvalidArgument if several share it. InvalidArgument with the suffixes if none has it.
absl::StatusOr<const Exporter*> FindExporterOfFile(std::string_view file_name,
                                                   bool (*which)(const Exporter& exporter) = nullptr);
// InvalidArgument, with what to do, if a file of the format can't be what its name says.
absl::Status CheckFileName(const Exporter& exporter, std::string_view file_name);
// ".txt, .yaml, .yml", for messages.
std::string ExporterSuffixes(bool (*which)(const Exporter& exporter) = nullptr);

// Those that `which` accepts; null: all.
std::vector<std::string> ExporterNameList(bool (*which)(const Exporter& exporter) = nullptr);
// For help and messages: all as "text, yaml, json"; those that `which` accepts as "jsonl, csv and parquet".
std::string ExporterNames();
std::string ExporterNames(bool (*which)(const Exporter& exporter));

// The exporter's sink for configs.
absl::StatusOr<std::unique_ptr<ConfigSink>> MakeConfigSink(const Exporter& exporter, std::ostream* out,
                                                           const ExportOptions& options = {});

// The columns of a config's arguments in every table, and their cells: the arguments in the JSON form, and the
// shapes and dtypes of the tensors among them, nested ones included, in the order in which they are written.
//
//   args    [{"type":"torch.Tensor","shape":[2,3],"dtype":"torch.float32","device":"cpu"},1]
//   kwargs  {"alpha":10}
//   shapes  [[2,3]], null for an unknown size or shape
//   dtypes  ["float32"]
std::vector<Column> ArgumentColumns();
std::vector<int64_t> ArgumentCells(const Config& config, TableWriter* table);

// The columns of a config's row, and the sink that fills them.
std::vector<Column> ConfigColumns();
std::unique_ptr<ConfigSink> MakeTableSink(std::unique_ptr<TableWriter> table);

// What Finish of a sink or table returns; Add returns StreamStatus.
inline absl::Status FinishStream(std::ostream* out) {
  out->flush();
  return StreamStatus(*out);
}

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_EXPORT_EXPORTER_H_
