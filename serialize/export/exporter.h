// An exporter writes configs, and where it has tables calls, in one format of other tools
// or of ours. exporters.cc lists them; a new one is a file with a ConfigSink or a
// TableWriter, and a line there.

#ifndef TORCHTRACE_SERIALIZE_EXPORT_EXPORTER_H_
#define TORCHTRACE_SERIALIZE_EXPORT_EXPORTER_H_

#include <array>
#include <cstdint>
#include <memory>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "serialize/export/config_sink.h"
#include "serialize/export/table_writer.h"

namespace torchtrace {

// What an export may be told of besides its rows. A format takes what it has a place for.
struct ExportOptions {
  bool counts = false;                   // text: each line begins with how often it was called
  std::string version = {};              // of torchtrace; empty: the file says nothing about itself
  std::vector<std::string> traces = {};  // their paths
  std::string table = {};                // "configs", "calls"
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

  // Configs. Null: as the rows of a table. `out` must outlive what is made, here and below.
  std::unique_ptr<ConfigSink> (*make_sink)(std::ostream* out, const ExportOptions& options) = nullptr;
  // Rows of any columns; null: there are no tables.
  absl::StatusOr<std::unique_ptr<TableWriter>> (*make_table)(std::vector<Column> columns, std::ostream* out,
                                                             const ExportOptions& options) = nullptr;
};

// In the order in which help and messages name them.
const std::vector<const Exporter*>& Exporters();

// InvalidArgument with the choices and the nearest one when there is none of that name.
absl::StatusOr<const Exporter*> FindExporter(std::string_view name);
// By the suffix of a file's name.
absl::StatusOr<const Exporter*> FindExporterOfFile(std::string_view file_name);

// "text, yaml, json", for help and messages; those that `which` takes, as "jsonl, csv and parquet".
std::string ExporterNames();
std::string ExporterNames(bool (*which)(const Exporter& exporter));

// The sink of its configs.
absl::StatusOr<std::unique_ptr<ConfigSink>> MakeConfigSink(const Exporter& exporter, std::ostream* out,
                                                           const ExportOptions& options = {});

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
