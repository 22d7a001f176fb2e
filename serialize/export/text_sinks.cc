// Sinks of configs. JSON and JSON Lines: an object per config (docs/TEXT.md). YAML: a list like api_configs.yaml, with
// everything else that is known of each config. Text: the lines of api_configs.txt (docs/TEXT.md). Tables, such as JSON
// Lines, CSV and Parquet: a row per config.

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "nlohmann/json.hpp"
#include "serialize/base/files.h"
#include "serialize/export/exporter.h"
#include "serialize/forms/forms.h"
#include "serialize/model/config.h"
#include "serialize/model/value.h"

namespace torchtrace {
namespace {

using nlohmann::ordered_json;

ordered_json ShapeToJson(const Value& value) {
  if (value.tag == ValueTag::kTensor && (value.tensor_bits & kTensorShapeUnknown) != 0) return nullptr;
  ordered_json sizes = ordered_json::array();
  for (const Dim& size : value.shape) {
    sizes.push_back(size.has_value() && *size != kAnySize ? ordered_json(*size) : ordered_json(nullptr));
  }
  return sizes;
}

void AddTensors(const Value& value, ordered_json* shapes, ordered_json* dtypes) {
  if (value.tag == ValueTag::kTensor) {
    shapes->push_back(ShapeToJson(value));
    dtypes->push_back(value.text);
  }
  for (const Value& item : value.items) AddTensors(item, shapes, dtypes);
}

void AddTensors(const Config& config, ordered_json* json) {
  ordered_json shapes = ordered_json::array();
  ordered_json dtypes = ordered_json::array();
  for (const Value& arg : config.args) AddTensors(arg, &shapes, &dtypes);
  for (const auto& [name, value] : config.kwargs) AddTensors(value, &shapes, &dtypes);
  (*json)["shapes"] = std::move(shapes);
  (*json)["dtypes"] = std::move(dtypes);
}

std::string JsonRow(const ConfigRow& row) {
  const Config config = ReadableConfig(row.identity);
  ordered_json json = ConfigToJson(config, ReadableFacets(row.facets));
  AddTensors(config, &json);
  json["calls"] = row.calls;
  if (row.time_ns >= 0) json["time_ns"] = row.time_ns;
  if (!row.trace.empty()) json["trace"] = std::string(row.trace);
  if (!row.host.empty()) json["host"] = std::string(row.host);
  if (row.pid >= 0) json["pid"] = row.pid;
  if (row.rank >= 0) json["rank"] = row.rank;
  const auto number = [&json](const char* name, int64_t cell) {
    if (cell != kNullCell) json[name] = cell;
  };
  if (!row.module.empty()) json["module"] = std::string(row.module);
  if (!row.file.empty()) json["file"] = std::string(row.file);
  number("line", row.line);
  if (!row.tags.empty()) json["tags"] = ordered_json::parse(row.tags);
  number("step", row.step);
  number("M", row.sizes.m);
  number("N", row.sizes.n);
  number("K", row.sizes.k);
  number("flops", row.flops);
  number("bytes", row.bytes);
  number("device_ns", row.device_ns);
  number("first_call", row.first_call);
  return DumpJson(json);
}

class JsonlSink final : public ConfigSink {
 public:
  explicit JsonlSink(std::ostream* out) : out_(out) {}

  absl::Status Add(const ConfigRow& row) override {
    *out_ << JsonRow(row) << '\n';
    return StreamStatus(*out_);
  }

  absl::Status Finish() override { return FinishStream(out_); }

 private:
  std::ostream* const out_;
};

// One list, an element per line.
class JsonSink final : public ConfigSink {
 public:
  explicit JsonSink(std::ostream* out) : out_(out) {}

  absl::Status Add(const ConfigRow& row) override {
    *out_ << (empty_ ? "[\n" : ",\n") << JsonRow(row);
    empty_ = false;
    return StreamStatus(*out_);
  }

  absl::Status Finish() override {
    *out_ << (empty_ ? "[]\n" : "\n]\n");
    return FinishStream(out_);
  }

 private:
  std::ostream* const out_;
  bool empty_ = true;
};

}  // namespace

extern const Exporter kJsonExporter;
const Exporter kJsonExporter = {
    .name = "json",
    .help = "a list of objects",
    .suffixes = {"json"},
    .provenance = Provenance::kWhenAsked,
    .write = WritesConfigs{[](std::ostream* out, const ExportOptions&) -> std::unique_ptr<ConfigSink> {
      return std::make_unique<JsonSink>(out);
    }},
};

extern const Exporter kJsonlExporter;
const Exporter kJsonlExporter = {
    .name = "jsonl",
    .help = "an object per line",
    .suffixes = {"jsonl"},
    .provenance = Provenance::kAlways,
    .write = WritesTables{[](std::vector<Column> columns, std::ostream* out,
                             const ExportOptions&) -> absl::StatusOr<std::unique_ptr<TableWriter>> {
                            return MakeJsonlTable(std::move(columns), out);
                          },
                          [](std::ostream* out, const ExportOptions&) -> std::unique_ptr<ConfigSink> {
                            return std::make_unique<JsonlSink>(out);
                          }},
};

namespace {

class YamlSink final : public ConfigSink {
 public:
  explicit YamlSink(std::ostream* out) : out_(out) {}

  absl::Status Add(const ConfigRow& row) override {
    empty_ = false;
    const Config config = ReadableConfig(row.identity);
    std::vector<std::string> extra = {config.level == kAnyLevel ? "level: null" : absl::StrCat("level: ", config.level),
                                      absl::StrCat("calls: ", row.calls)};
    const auto text = [&](const char* key, std::string_view value) {
      if (!value.empty()) extra.push_back(absl::StrCat(key, ": ", YamlScalar(value, /*in_flow=*/false)));
    };
    const auto number = [&](const char* key, int64_t value) {
      if (value >= 0) extra.push_back(absl::StrCat(key, ": ", value));
    };
    number("time_ns", row.time_ns);
    text("trace", row.trace);
    text("host", row.host);
    number("pid", row.pid);
    number("rank", row.rank);
    *out_ << FormatYamlItem(config, ReadableFacets(row.facets), extra);
    return StreamStatus(*out_);
  }

  absl::Status Finish() override {
    if (empty_) *out_ << "[]\n";
    return FinishStream(out_);
  }

 private:
  std::ostream* const out_;
  bool empty_ = true;
};

}  // namespace

extern const Exporter kYamlExporter;
const Exporter kYamlExporter = {
    .name = "yaml",
    .help = "the list of api_configs.yaml",
    .suffixes = {"yaml", "yml"},
    .provenance = Provenance::kWhenAsked,
    .sorted = true,
    .write = WritesConfigs{[](std::ostream* out, const ExportOptions&) -> std::unique_ptr<ConfigSink> {
      return std::make_unique<YamlSink>(out);
    }},
};

namespace {

class TextSink final : public ConfigSink {
 public:
  TextSink(std::ostream* out, bool counts) : out_(out), counts_(counts) {}

  absl::Status Add(const ConfigRow& row) override {
    if (counts_) *out_ << absl::StrFormat("%7d  ", row.calls);
    *out_ << FormatConfig(ReadableConfig(row.identity)) << '\n';
    return StreamStatus(*out_);
  }

  absl::Status Finish() override { return FinishStream(out_); }

 private:
  std::ostream* const out_;
  const bool counts_;
};

}  // namespace

extern const Exporter kTextExporter;
const Exporter kTextExporter = {
    .name = "text",
    .help = "the lines of api_configs.txt",
    .suffixes = {"txt"},
    .provenance = Provenance::kWhenAsked,
    .levels = false,
    .sorted = true,
    .write = WritesConfigs{[](std::ostream* out, const ExportOptions& options) -> std::unique_ptr<ConfigSink> {
      return std::make_unique<TextSink>(out, options.counts);
    }},
};

namespace {

class TableSink final : public ConfigSink {
 public:
  explicit TableSink(std::unique_ptr<TableWriter> table) : table_(std::move(table)) {}

  absl::Status Add(const ConfigRow& row) override {
    const Config config = ReadableConfig(row.identity);
    std::vector<int64_t> cells = {config.level == kAnyLevel ? kNullCell : config.level,
                                  table_->Intern(FormatApi(config.api)), table_->Intern(FormatConfig(config))};
    for (const int64_t cell : ArgumentCells(config, table_.get())) cells.push_back(cell);
    for (const int64_t cell :
         {static_cast<int64_t>(row.calls), NumberOrNull(row.time_ns), TextOrNull(row.trace), TextOrNull(row.host),
          NumberOrNull(row.pid), NumberOrNull(row.rank), TextOrNull(row.module), TextOrNull(row.file), row.line,
          TextOrNull(row.tags), row.step, row.sizes.m, row.sizes.n, row.sizes.k, row.flops, row.bytes, row.device_ns,
          row.first_call}) {
      cells.push_back(cell);
    }
    return table_->Add(cells);
  }

  absl::Status Finish() override { return table_->Finish(); }

 private:
  static int64_t NumberOrNull(int64_t number) { return number < 0 ? kNullCell : number; }
  int64_t TextOrNull(std::string_view text) { return text.empty() ? kNullCell : table_->Intern(text); }

  const std::unique_ptr<TableWriter> table_;
};

}  // namespace

std::vector<Column> ArgumentColumns() {
  return {{"args", ColumnType::kJson},
          {"kwargs", ColumnType::kJson},
          {"shapes", ColumnType::kJson},
          {"dtypes", ColumnType::kJson}};
}

std::vector<int64_t> ArgumentCells(const Config& config, TableWriter* table) {
  ordered_json json = ConfigToJson(config, {});
  AddTensors(config, &json);
  std::vector<int64_t> cells;
  for (const Column& column : ArgumentColumns()) cells.push_back(table->Intern(DumpJson(json[column.name])));
  return cells;
}

std::vector<Column> ConfigColumns() {
  std::vector<Column> columns = {
      {"level", ColumnType::kInt}, {"api", ColumnType::kText}, {"config", ColumnType::kText}};
  for (const Column& column : ArgumentColumns()) columns.push_back(column);
  for (const Column& column : std::initializer_list<Column>{{"calls", ColumnType::kInt},
                                                            {"time_ns", ColumnType::kCounter},
                                                            {"trace", ColumnType::kText},
                                                            {"host", ColumnType::kText},
                                                            {"pid", ColumnType::kInt},
                                                            {"rank", ColumnType::kInt},
                                                            {"module", ColumnType::kText},
                                                            {"file", ColumnType::kText},
                                                            {"line", ColumnType::kInt},
                                                            {"tags", ColumnType::kJson},
                                                            {"step", ColumnType::kInt},
                                                            {"M", ColumnType::kInt},
                                                            {"N", ColumnType::kInt},
                                                            {"K", ColumnType::kInt},
                                                            {"flops", ColumnType::kCounter},
                                                            {"bytes", ColumnType::kCounter},
                                                            {"device_ns", ColumnType::kCounter},
                                                            {"first_call", ColumnType::kCounter}}) {
    columns.push_back(column);
  }
  return columns;
}

std::unique_ptr<ConfigSink> MakeTableSink(std::unique_ptr<TableWriter> table) {
  return std::make_unique<TableSink>(std::move(table));
}

}  // namespace torchtrace
