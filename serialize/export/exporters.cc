#include <cstddef>
#include <utility>
#include <variant>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "serialize/base/matching.h"
#include "serialize/export/exporter.h"

namespace torchtrace {

// Each is defined in its format's file.
extern const Exporter kTextExporter;
extern const Exporter kYamlExporter;
extern const Exporter kJsonExporter;
extern const Exporter kJsonlExporter;
extern const Exporter kCsvExporter;
extern const Exporter kTorchBenchExporter;
extern const Exporter kTritonBenchExporter;
extern const Exporter kPaddleExporter;
extern const Exporter kParquetExporter;
extern const Exporter kChromeExporter;
extern const Exporter kFlamegraphExporter;
extern const Exporter kTimingExporter;
extern const Exporter kExecutionTraceExporter;
extern const Exporter kPythonExporter;
extern const Exporter kPytestExporter;
extern const Exporter kFxExporter;

const std::vector<const Exporter*>& Exporters() {
  static const std::vector<const Exporter*>* const exporters = new std::vector<const Exporter*>{
      &kTextExporter,       &kYamlExporter,        &kJsonExporter,           &kJsonlExporter,   &kCsvExporter,
      &kTorchBenchExporter, &kTritonBenchExporter, &kPaddleExporter,         &kParquetExporter, &kChromeExporter,
      &kFlamegraphExporter, &kTimingExporter,      &kExecutionTraceExporter, &kPythonExporter,  &kPytestExporter,
      &kFxExporter,
  };
  return *exporters;
}

absl::StatusOr<const Exporter*> FindExporter(std::string_view name) {
  std::string hint;
  for (const Exporter* const exporter : Exporters()) {
    if (name == exporter->name) return exporter;
    for (const char* const suffix : exporter->suffixes) {
      if (suffix != nullptr && name == suffix) hint = absl::StrCat(", did you mean ", exporter->name, "?");
    }
  }
  if (hint.empty()) hint = DidYouMean(name, ExporterNameList());
  return absl::InvalidArgumentError(
      absl::StrCat("unknown format '", std::string(name), "'", hint, "; there are ", ExporterNames()));
}

absl::StatusOr<const Exporter*> FindExporterOfFile(std::string_view file_name,
                                                   bool (*which)(const Exporter& exporter)) {
  const size_t name = file_name.rfind('/') + 1;
  const size_t dot = file_name.rfind('.');
  const bool has_suffix = dot != std::string_view::npos && dot > name;
  const std::string suffix = has_suffix ? absl::AsciiStrToLower(std::string(file_name.substr(dot + 1))) : "";
  for (const Exporter* const exporter : Exporters()) {
    if (which != nullptr && !which(*exporter)) continue;
    for (const char* const known : exporter->suffixes) {
      if (known != nullptr && suffix == known) return exporter;
    }
  }
  return absl::InvalidArgumentError(
      absl::StrCat("'", std::string(file_name), "' has no known suffix: expected ", ExporterSuffixes(which)));
}

std::string ExporterSuffixes(bool (*which)(const Exporter& exporter)) {
  std::string suffixes;
  for (const Exporter* const exporter : Exporters()) {
    if (which != nullptr && !which(*exporter)) continue;
    for (const char* const suffix : exporter->suffixes) {
      if (suffix != nullptr) absl::StrAppend(&suffixes, suffixes.empty() ? "." : ", .", suffix);
    }
  }
  return suffixes;
}

std::vector<std::string> ExporterNameList(bool (*which)(const Exporter& exporter)) {
  std::vector<std::string> names;
  for (const Exporter* const exporter : Exporters()) {
    if (which == nullptr || which(*exporter)) names.emplace_back(exporter->name);
  }
  return names;
}

std::string ExporterNames() { return absl::StrJoin(ExporterNameList(), ", "); }

std::string ExporterNames(bool (*which)(const Exporter& exporter)) {
  const std::vector<std::string> names = ExporterNameList(which);
  std::string list;
  for (size_t i = 0; i < names.size(); ++i) {
    absl::StrAppend(&list, i == 0 ? "" : i + 1 < names.size() ? ", " : " and ", names[i]);
  }
  return list;
}

absl::StatusOr<std::unique_ptr<ConfigSink>> MakeConfigSink(const Exporter& exporter, std::ostream* out,
                                                           const ExportOptions& options) {
  if (const auto* const configs = std::get_if<WritesConfigs>(&exporter.write)) return configs->make(out, options);
  const auto* const tables = std::get_if<WritesTables>(&exporter.write);
  if (tables == nullptr) return absl::InvalidArgumentError(absl::StrCat(exporter.name, " holds calls, not configs"));
  if (tables->make_configs != nullptr) return tables->make_configs(out, options);
  absl::StatusOr<std::unique_ptr<TableWriter>> table = tables->make(ConfigColumns(), out, options);
  if (!table.ok()) return table.status();
  return MakeTableSink(*std::move(table));
}

}  // namespace torchtrace
