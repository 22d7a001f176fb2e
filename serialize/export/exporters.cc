#include <algorithm>
#include <cstddef>
#include <initializer_list>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "serialize/base/matching.h"
#include "serialize/base/packed_name.h"
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
extern const Exporter kPerfettoExporter;
extern const Exporter kFlamegraphExporter;
extern const Exporter kTimingExporter;
extern const Exporter kExecutionTraceExporter;
extern const Exporter kPythonExporter;
extern const Exporter kPytestExporter;
extern const Exporter kFxExporter;

const std::vector<const Exporter*>& Exporters() {
  static const std::vector<const Exporter*>* const exporters = new std::vector<const Exporter*>{
      &kTextExporter,       &kYamlExporter,        &kJsonExporter,   &kJsonlExporter,          &kCsvExporter,
      &kTorchBenchExporter, &kTritonBenchExporter, &kPaddleExporter, &kParquetExporter,        &kChromeExporter,
      &kPerfettoExporter,   &kFlamegraphExporter,  &kTimingExporter, &kExecutionTraceExporter, &kPythonExporter,
      &kPytestExporter,     &kFxExporter,
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

namespace {

// In lower case, without the dot.
std::string SuffixOf(std::string_view file_name) {
  const size_t name = file_name.rfind('/') + 1;
  const size_t dot = file_name.rfind('.');
  const bool has_suffix = dot != std::string_view::npos && dot > name;
  return has_suffix ? absl::AsciiStrToLower(std::string(file_name.substr(dot + 1))) : "";
}

bool Selects(const Exporter& exporter, std::string_view suffix) {
  const auto is_it = [suffix](const char* known) { return known != nullptr && suffix == known; };
  return std::any_of(exporter.suffixes.begin(), exporter.suffixes.end(), is_it);
}

bool Shares(const Exporter& exporter, std::string_view suffix) {
  return exporter.shared_suffix != nullptr && suffix == exporter.shared_suffix;
}

// What a file of that name can't be in any format.
absl::Status CheckNameAlone(std::string_view file_name) {
  const std::string suffix = SuffixOf(file_name);
  const auto is_one_of = [&suffix](std::initializer_list<std::string_view> names) {
    return std::find(names.begin(), names.end(), suffix) != names.end();
  };
  if (is_one_of({"zst", "xz", "bz2", "lz4", "zip"})) {
    return absl::InvalidArgumentError(
        absl::StrCat(std::string(file_name), ": only .gz is compressed; without -o it goes to standard output: | ",
                     suffix == "zip"   ? "zip"
                     : suffix == "zst" ? "zstd"
                     : suffix == "bz2" ? "bzip2"
                                       : suffix,
                     " > FILE.", suffix));
  }
  if (is_one_of({"svg", "png", "pdf", "jpg", "jpeg"})) {
    return absl::InvalidArgumentError(
        absl::StrCat(std::string(file_name), ": there are no pictures: a FILE.html is a flame graph for a browser, ",
                     "which prints it; flamegraph.pl draws a .svg of a FILE.folded"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<const Exporter*> FindExporterOfFile(std::string_view file_name,
                                                   bool (*which)(const Exporter& exporter)) {
  const std::string suffix = SuffixOf(UnpackedName(file_name));
  const Exporter* found = nullptr;
  std::vector<std::string> sharing;
  for (const Exporter* const exporter : Exporters()) {
    if (which != nullptr && !which(*exporter)) continue;
    const bool selects = Selects(*exporter, suffix);
    if (found == nullptr && selects) found = exporter;
    if (selects || Shares(*exporter, suffix)) {
      sharing.push_back(absl::StrCat(exporter->name, exporter->HoldsConfigs() ? " (configs)" : " (calls)"));
    }
  }
  if (found != nullptr && (which != nullptr || sharing.size() == 1)) return found;
  if (found != nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat(std::string(file_name), ": which .", suffix,
                     "? Name the format before the traces: ", absl::StrJoin(sharing, ", ")));
  }
  if (absl::Status s = CheckNameAlone(file_name); !s.ok()) return s;
  return absl::InvalidArgumentError(
      absl::StrCat("'", std::string(file_name), "' has no known suffix: expected ", ExporterSuffixes(which)));
}

absl::Status CheckFileName(const Exporter& exporter, std::string_view file_name) {
  if (absl::Status s = CheckNameAlone(file_name); !s.ok()) return s;
  const std::string name(file_name);
  const std::string unpacked(UnpackedName(file_name));
  const std::string suffix = SuffixOf(unpacked);
  const bool packed = unpacked.size() < name.size();
  if (packed && exporter.packed) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, ": ", exporter.name, " is compressed already: name the file ", unpacked));
  }
  if (std::holds_alternative<WritesSeries>(exporter.write)) {
    if (!packed) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat(
        name, ": ", exporter.name, " makes several files of limited size: compress them when they are written"));
  }
  const bool is_text = suffix == "txt" && !exporter.binary;
  const bool is_code = suffix == "py" && std::holds_alternative<WritesCode>(exporter.write);
  if (is_text || is_code || Selects(exporter, suffix) || Shares(exporter, suffix)) return absl::OkStatus();
  for (const Exporter* const other : Exporters()) {
    if (!Selects(*other, suffix)) continue;
    return absl::InvalidArgumentError(absl::StrCat(name, ": its suffix says ", other->name, ", and the format is ",
                                                   exporter.name,
                                                   ": leave the format out, or name the file otherwise"));
  }
  return absl::OkStatus();
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
