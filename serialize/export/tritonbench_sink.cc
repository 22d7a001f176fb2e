// TritonBench's JSON: by operator a list of inputs with counts, and `metadata`.

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "nlohmann/json.hpp"
#include "serialize/export/exporter.h"
#include "serialize/export/operator_groups.h"
#include "serialize/forms/json_form.h"

namespace torchtrace {
namespace {

using nlohmann::ordered_json;

class TritonBenchSink final : public ConfigSink {
 public:
  TritonBenchSink(std::ostream* out, const ExportOptions& options) : out_(out) {
    if (options.version.empty()) return;
    metadata_["generator"] = absl::StrCat("torchtrace ", options.version);
    metadata_["traces"] = absl::StrJoin(options.traces, ", ");
  }

  absl::Status Add(const ConfigRow& row) override {
    operators_.Add(row);
    return absl::OkStatus();
  }

  // One line for each of an operator's inputs.
  absl::Status Finish() override {
    *out_ << "{\n";
    for (const auto& [name, group] : operators_.groups()) {
      *out_ << DumpJson(name) << ": [";
      for (size_t i = 0; i < group.calls.size(); ++i) {
        const ordered_json inputs = {{"count", group.calls[i]}, {"inputs", std::string(group.inputs.text(i))}};
        *out_ << (i == 0 ? "\n" : ",\n") << DumpJson(inputs);
      }
      *out_ << "\n],\n";
    }
    *out_ << "\"metadata\": " << DumpJson(metadata_) << "\n}\n";
    return FinishStream(out_);
  }

  std::vector<std::string> notes() const override { return operators_.left_out().Notes("tritonbench"); }

 private:
  std::ostream* const out_;
  ordered_json metadata_ = ordered_json::object();
  OperatorGroups operators_;
};

}  // namespace

extern const Exporter kTritonBenchExporter;
const Exporter kTritonBenchExporter = {
    .name = "tritonbench",
    .help = "the same inputs as TritonBench's JSON",
    .replayed = true,
    .make_sink = [](std::ostream* out, const ExportOptions& options) -> std::unique_ptr<ConfigSink> {
      return std::make_unique<TritonBenchSink>(out, options);
    },
};

}  // namespace torchtrace
