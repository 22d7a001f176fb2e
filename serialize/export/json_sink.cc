// JSON and JSON Lines: an object per config, its values as docs/TEXT.md has them.

#include <string>
#include <utility>
#include <vector>

#include "nlohmann/json.hpp"
#include "serialize/export/exporter.h"
#include "serialize/forms/json_form.h"
#include "serialize/model/readable_config.h"

namespace torchtrace {
namespace {

using nlohmann::ordered_json;

std::string JsonRow(const ConfigRow& row) {
  ordered_json json = ConfigToJson(ReadableConfig(row.identity), ReadableFacets(row.facets));
  json["calls"] = row.calls;
  if (row.time_ns >= 0) json["time_ns"] = row.time_ns;
  if (!row.trace.empty()) json["trace"] = std::string(row.trace);
  if (!row.host.empty()) json["host"] = std::string(row.host);
  if (row.pid >= 0) json["pid"] = row.pid;
  if (row.rank >= 0) json["rank"] = row.rank;
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
    .make_sink = [](std::ostream* out, const ExportOptions&) -> std::unique_ptr<ConfigSink> {
      return std::make_unique<JsonSink>(out);
    },
};

extern const Exporter kJsonlExporter;
const Exporter kJsonlExporter = {
    .name = "jsonl",
    .help = "an object per line",
    .suffixes = {"jsonl"},
    .provenance = Provenance::kAlways,
    .make_sink = [](std::ostream* out, const ExportOptions&) -> std::unique_ptr<ConfigSink> {
      return std::make_unique<JsonlSink>(out);
    },
    .make_table = [](std::vector<Column> columns, std::ostream* out, const ExportOptions&)
        -> absl::StatusOr<std::unique_ptr<TableWriter>> { return MakeJsonlTable(std::move(columns), out); },
};

}  // namespace torchtrace
