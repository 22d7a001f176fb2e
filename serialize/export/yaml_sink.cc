// YAML: a list as api_configs.yaml has it, with what else is known of each config.

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "serialize/export/exporter.h"
#include "serialize/forms/yaml_form.h"
#include "serialize/model/placeholder.h"
#include "serialize/model/readable_config.h"

namespace torchtrace {
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
    .make_sink = [](std::ostream* out, const ExportOptions&) -> std::unique_ptr<ConfigSink> {
      return std::make_unique<YamlSink>(out);
    },
};

}  // namespace torchtrace
