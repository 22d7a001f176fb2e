// What writes configs or calls in a format, and the list of those that there are. A new format is a file with an
// Exporter, declared here and listed in exporters.cc.

#ifndef TORCHTRACE_SERIALIZE_EXPORT_EXPORTER_H_
#define TORCHTRACE_SERIALIZE_EXPORT_EXPORTER_H_

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "serialize/export/table_writer.h"
#include "serialize/forms/call_labels.h"
#include "serialize/model/config.h"
#include "serialize/trace/trace.h"
#include "serialize/where/call_selection.h"

namespace torchtrace {

// Counts the configs that a format can't hold, by the reason why, for the
// sentence that the user is told.

class LeftOut {
 public:
  void Add(std::string_view reason, uint64_t calls) {
    Count& count = reasons_[std::string(reason)];
    ++count.configs;
    count.calls += calls;
  }

  // `torchbench leaves out 3 configs (12 calls): not of level 2`, one for each reason.
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

// ConfigSink writes configurations with their counts in one output format: what
// `dedup -o` and `export` write through. One file per format implements it (exporter.h).
//
//   absl::StatusOr<std::unique_ptr<ConfigSink>> sink = MakeConfigSink(exporter, &out);
//   (*sink)->Add({.identity = trace.identity(config), .calls = calls});
//   (*sink)->Finish();
//
// Rows are written in the order added; torchbench and tritonbench group them by
// operator and write at Finish. Memory goes with the configurations at most.

struct ConfigRow {
  std::string_view identity = {};  // config.h; valid during the call
  std::string_view facets = {};    // empty: none
  uint64_t calls = 1;
  int64_t time_ns = -1;  // of all its calls; -1: not known
  // Where it comes from; empty: not asked for, or several.
  std::string_view trace = {};  // path or label
  std::string_view host = {};
  int64_t pid = -1;
  int64_t rank = -1;
};

class ConfigSink {
 public:
  virtual ~ConfigSink() = default;
  virtual absl::Status Add(const ConfigRow& row) = 0;
  // Aborted when the stream failed, as Add.
  virtual absl::Status Finish() = 0;
  // What the format can't hold and was left out, a sentence each, for the user to be
  // told. Complete once Finish has returned.
  virtual std::vector<std::string> notes() const { return {}; }
};

// CallSink writes calls as they begin and end: what viewers of time read. Traces come one after the other.

class CallSink {
 public:
  virtual ~CallSink() = default;
  // Before the first record of each trace, which was counted and lives until End.
  virtual absl::Status Begin(const Trace& trace, std::string_view label) = 0;
  // In the trace's order; without the calls that are not wanted.
  virtual absl::Status Add(const CallRecord& record) = 0;
  virtual absl::Status End() = 0;
  // Aborted when the stream failed, as all of them.
  virtual absl::Status Finish() = 0;
  virtual std::vector<std::string> notes() const { return {}; }
};

class TextSeries;      // file_series.h
struct TimingOptions;  // timing_export.h

// An exporter writes configs, calls or, where it has tables, both, in one format of other tools
// or of ours. exporters.cc lists them; a new one is a file with a ConfigSink, a
// TableWriter or a CallSink, and a line there.

// What an export may be told of besides its rows. A format takes what it has a place for.
struct ExportOptions {
  bool counts = false;                   // text: each line begins with how often it was called
  std::string version = {};              // of torchtrace; empty: the file says nothing about itself
  std::vector<std::string> traces = {};  // their paths
  std::string table = {};                // "configs", "calls"
  std::string output = {};               // the file's name; empty: none
  LabelBy by = LabelBy::kApi;            // flamegraph: what a frame is
};

// Whether a format has a place for where a config comes from: trace, host, pid and rank.
enum class Provenance : uint8_t {
  kNone,
  kWhenAsked,  // else each config stands there once
  kAlways,     // a row for each config of a process
};

struct Exporter {
  const char* name = nullptr;                // "torchbench"
  const char* help = nullptr;                // what is in the file, in a line
  std::array<const char*, 2> suffixes = {};  // of names of files that are meant to be of it
  Provenance provenance = Provenance::kNone;
  bool levels = true;     // tells configs apart that differ in their level alone
  bool sorted = false;    // configs come by their lines, as in api_configs.txt, not as they were defined
  bool replayed = false;  // by tools that call what is in it: each config must be one that was called
  bool binary = false;    // a terminal can't show it
  // A program in Python that writes the file; null: none is needed. See parquet_table.h.
  const char* python_program = nullptr;

  // Configs. Null: as the rows of a table, where there are tables. `out` must outlive what is made, here and below.
  std::unique_ptr<ConfigSink> (*make_sink)(std::ostream* out, const ExportOptions& options) = nullptr;
  // Rows of any columns; null: there are no tables.
  absl::StatusOr<std::unique_ptr<TableWriter>> (*make_table)(std::vector<Column> columns, std::ostream* out,
                                                             const ExportOptions& options) = nullptr;
  // Calls alone, and neither of the above.
  std::unique_ptr<CallSink> (*make_calls)(std::ostream* out, const ExportOptions& options) = nullptr;
  // Calls alone, in as many files as a size asks for (timing_export.h).
  std::unique_ptr<CallSink> (*make_series)(TextSeries* out, const TimingOptions& options) = nullptr;
  // The calls of one trace with their data flow (program_export.h).
  absl::Status (*write_program)(Trace* trace, std::string_view label, CallSelection selection, std::ostream* out,
                                std::vector<std::string>* notes) = nullptr;

  bool HoldsConfigs() const { return make_sink != nullptr || make_table != nullptr; }
};

// In the order in which help and messages name them.
const std::vector<const Exporter*>& Exporters();

// InvalidArgument with the choices and the nearest one when there is none of that name.
absl::StatusOr<const Exporter*> FindExporter(std::string_view name);
// By the suffix of a file's name, of those that `which` takes; null: of all. InvalidArgument with the suffixes.
absl::StatusOr<const Exporter*> FindExporterOfFile(std::string_view file_name,
                                                   bool (*which)(const Exporter& exporter) = nullptr);
// ".txt, .yaml, .yml", for messages. No two have the same one.
std::string ExporterSuffixes(bool (*which)(const Exporter& exporter) = nullptr);

// Of those that `which` takes; null: of all.
std::vector<std::string> ExporterNameList(bool (*which)(const Exporter& exporter) = nullptr);
// "text, yaml, json", for help and messages; those that `which` takes, as "jsonl, csv and parquet".
std::string ExporterNames();
std::string ExporterNames(bool (*which)(const Exporter& exporter));

// The sink of its configs.
absl::StatusOr<std::unique_ptr<ConfigSink>> MakeConfigSink(const Exporter& exporter, std::ostream* out,
                                                           const ExportOptions& options = {});

// What every table says of a config, in the order of ArgumentColumns(): its arguments as the JSON form has them, and
// the shapes and dtypes of the tensors among them, wherever they stand, in the order in which they are written.
//
//   args    [{"type":"torch.Tensor","shape":[2,3],"dtype":"torch.float32","device":"cpu"},1]
//   kwargs  {"alpha":10}
//   shapes  [[2,3]], null for a size or a shape that isn't known
//   dtypes  ["float32"]
std::vector<Column> ArgumentColumns();
std::vector<int64_t> ArgumentCells(const Config& config, TableWriter* table);

// The columns of a config's row, and the sink that fills them.
std::vector<Column> ConfigColumns();
std::unique_ptr<ConfigSink> MakeTableSink(std::unique_ptr<TableWriter> table);

// What Add and Finish of a sink or table return: Aborted when the stream failed.
inline absl::Status StreamStatus(const std::ostream& out) {
  return out.good() ? absl::OkStatus() : absl::AbortedError("cannot write the output");
}
inline absl::Status FinishStream(std::ostream* out) {
  out->flush();
  return StreamStatus(*out);
}

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_EXPORT_EXPORTER_H_
