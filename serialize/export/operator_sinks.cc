// TorchBench's operator inputs, as OperatorInputsMode writes them and its loader reads them.
// TritonBench's JSON: for each operator a list of inputs with counts, and `metadata`.

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "nlohmann/json.hpp"
#include "serialize/export/exporter.h"
#include "serialize/export/spellings.h"
#include "serialize/forms/forms.h"
#include "serialize/model/config.h"

namespace torchtrace {
namespace {

// Base class of both: collects configs by operator and writes them at the end.
class OperatorSink : public ConfigSink {
 public:
  OperatorSink(std::ostream* out, const char* format) : out_(*out), format_(format) {}

  absl::Status Add(const ConfigRow& row) override {
    operators_.Add(row);
    return absl::OkStatus();
  }

  std::vector<std::string> notes() const override { return operators_.left_out().Notes(format_); }

 protected:
  std::ostream& out_;
  OperatorGroups operators_;

 private:
  const char* const format_;
};

class TorchBenchSink final : public OperatorSink {
 public:
  explicit TorchBenchSink(std::ostream* out) : OperatorSink(out, "torchbench") {}

  absl::Status Finish() override {
    for (const auto& [name, group] : operators_.groups()) {
      out_ << "Operator: " << name << '\n';
      for (size_t i = 0; i < group.calls.size(); ++i) {
        out_ << "cnt: " << group.calls[i] << ", " << group.inputs.text(i) << '\n';
      }
    }
    return FinishStream(&out_);
  }
};

}  // namespace

extern const Exporter kTorchBenchExporter;
const Exporter kTorchBenchExporter = {
    .name = "torchbench",
    .help = "TorchBench's operator inputs",
    .replayed = true,
    .write = WritesConfigs{[](std::ostream* out, const ExportOptions&) -> std::unique_ptr<ConfigSink> {
      return std::make_unique<TorchBenchSink>(out);
    }},
};

namespace {

using nlohmann::ordered_json;

class TritonBenchSink final : public OperatorSink {
 public:
  TritonBenchSink(std::ostream* out, const ExportOptions& options) : OperatorSink(out, "tritonbench") {
    if (options.version.empty()) return;
    metadata_["generator"] = absl::StrCat("torchtrace ", options.version);
    metadata_["traces"] = absl::StrJoin(options.traces, ", ");
  }

  // Writes one line per input of an operator.
  absl::Status Finish() override {
    out_ << "{\n";
    for (const auto& [name, group] : operators_.groups()) {
      out_ << DumpJson(name) << ": [";
      for (size_t i = 0; i < group.calls.size(); ++i) {
        const ordered_json inputs = {{"count", group.calls[i]}, {"inputs", std::string(group.inputs.text(i))}};
        out_ << (i == 0 ? "\n" : ",\n") << DumpJson(inputs);
      }
      out_ << "\n],\n";
    }
    out_ << "\"metadata\": " << DumpJson(metadata_) << "\n}\n";
    return FinishStream(&out_);
  }

 private:
  ordered_json metadata_ = ordered_json::object();
};

}  // namespace

extern const Exporter kTritonBenchExporter;
const Exporter kTritonBenchExporter = {
    .name = "tritonbench",
    .help = "the same inputs as TritonBench's JSON",
    .shared_suffix = "json",
    .replayed = true,
    .write = WritesConfigs{[](std::ostream* out, const ExportOptions& options) -> std::unique_ptr<ConfigSink> {
      return std::make_unique<TritonBenchSink>(out, options);
    }},
};

void OperatorGroups::Add(const ConfigRow& row) {
  const Config config = ReadableConfig(row.identity);
  const absl::StatusOr<std::string> name = OperatorName(config);
  if (!name.ok()) return left_out_.Add(std::string(name.status().message()), row.calls);
  const absl::StatusOr<std::string> inputs = OperatorInputs(config);
  if (!inputs.ok()) return left_out_.Add(std::string(inputs.status().message()), row.calls);
  OperatorGroup& group = groups_[*name];
  const size_t number = static_cast<size_t>(group.inputs.Number(*inputs));
  if (number == group.calls.size()) group.calls.push_back(0);
  group.calls[number] += row.calls;
}

}  // namespace torchtrace
