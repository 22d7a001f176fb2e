#include "serialize/export/config_sink.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "serialize/base/edit_distance.h"
#include "serialize/export/sinks.h"

namespace torchtrace {
namespace {

struct FormatName {
  ExportFormat format;
  const char* name;
};
constexpr FormatName kFormats[] = {
    {ExportFormat::kText, "text"},
    {ExportFormat::kYaml, "yaml"},
    {ExportFormat::kJson, "json"},
    {ExportFormat::kJsonl, "jsonl"},
    {ExportFormat::kCsv, "csv"},
    {ExportFormat::kTorchBench, "torchbench"},
    {ExportFormat::kTritonBench, "tritonbench"},
    {ExportFormat::kPaddle, "paddle"},
    {ExportFormat::kParquet, "parquet"},
};

struct Suffix {
  const char* suffix;
  ExportFormat format;
};
constexpr Suffix kSuffixes[] = {
    {"txt", ExportFormat::kText},        {"yaml", ExportFormat::kYaml},   {"yml", ExportFormat::kYaml},
    {"json", ExportFormat::kJson},       {"jsonl", ExportFormat::kJsonl}, {"csv", ExportFormat::kCsv},
    {"parquet", ExportFormat::kParquet},
};

}  // namespace

absl::StatusOr<ExportFormat> ParseExportFormat(std::string_view text) {
  std::vector<std::string> names;
  for (const FormatName& known : kFormats) {
    if (text == known.name) return known.format;
    names.emplace_back(known.name);
  }
  return absl::InvalidArgumentError(absl::StrCat("unknown format '", std::string(text), "'", DidYouMean(text, names),
                                                 "; there are ", ExportFormatChoices()));
}

absl::StatusOr<ExportFormat> ExportFormatOf(std::string_view file_name) {
  const size_t name = file_name.rfind('/') + 1;
  const size_t dot = file_name.rfind('.');
  std::string choices;
  if (dot != std::string_view::npos && dot > name) {
    const std::string suffix = absl::AsciiStrToLower(std::string(file_name.substr(dot + 1)));
    for (const Suffix& known : kSuffixes) {
      if (suffix == known.suffix) return known.format;
    }
  }
  for (const Suffix& known : kSuffixes) absl::StrAppend(&choices, choices.empty() ? "." : ", .", known.suffix);
  return absl::InvalidArgumentError(
      absl::StrCat("'", std::string(file_name), "' tells no format: its name may end in ", choices));
}

std::string_view ExportFormatName(ExportFormat format) {
  const auto* const at = std::find_if(std::begin(kFormats), std::end(kFormats),
                                      [format](const FormatName& known) { return known.format == format; });
  return at == std::end(kFormats) ? "" : at->name;
}

std::string ExportFormatChoices() {
  std::string choices;
  for (const FormatName& known : kFormats) absl::StrAppend(&choices, choices.empty() ? "" : ", ", known.name);
  return choices;
}

bool IsBinary(ExportFormat format) { return format == ExportFormat::kParquet; }

bool KeepsProvenance(ExportFormat format) {
  return format == ExportFormat::kCsv || format == ExportFormat::kJsonl || format == ExportFormat::kParquet;
}

absl::StatusOr<std::unique_ptr<ConfigSink>> MakeConfigSink(ExportFormat format, std::ostream* out,
                                                           const SinkOptions& options) {
  switch (format) {
    case ExportFormat::kText:
      return MakeTextSink(out, options);
    case ExportFormat::kYaml:
      return MakeYamlSink(out);
    case ExportFormat::kJson:
      return MakeJsonSink(out);
    case ExportFormat::kJsonl:
      return MakeJsonlSink(out);
    case ExportFormat::kCsv:
      return MakeTableSink(MakeCsvTable(ConfigColumns(), out));
    case ExportFormat::kTorchBench:
      return MakeTorchBenchSink(out);
    case ExportFormat::kTritonBench:
      return MakeTritonBenchSink(out, options);
    case ExportFormat::kPaddle:
      return MakePaddleSink(out);
    case ExportFormat::kParquet: {
      absl::StatusOr<std::unique_ptr<TableWriter>> table =
          MakeParquetTable(ConfigColumns(), options.metadata, options.python, out);
      if (!table.ok()) return table.status();
      return MakeTableSink(*std::move(table));
    }
  }
  return absl::InvalidArgumentError("no such format");
}

}  // namespace torchtrace
