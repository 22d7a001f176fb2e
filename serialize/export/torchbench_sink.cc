// TorchBench's operator inputs: what OperatorInputsMode writes and its loader reads.

#include <string>
#include <vector>

#include "serialize/export/exporter.h"
#include "serialize/export/operator_groups.h"

namespace torchtrace {
namespace {

class TorchBenchSink final : public ConfigSink {
 public:
  explicit TorchBenchSink(std::ostream* out) : out_(out) {}

  absl::Status Add(const ConfigRow& row) override {
    operators_.Add(row);
    return absl::OkStatus();
  }

  absl::Status Finish() override {
    for (const auto& [name, group] : operators_.groups()) {
      *out_ << "Operator: " << name << '\n';
      for (size_t i = 0; i < group.calls.size(); ++i) {
        *out_ << "cnt: " << group.calls[i] << ", " << group.inputs.text(i) << '\n';
      }
    }
    return FinishStream(out_);
  }

  std::vector<std::string> notes() const override { return operators_.left_out().Notes("torchbench"); }

 private:
  std::ostream* const out_;
  OperatorGroups operators_;
};

}  // namespace

extern const Exporter kTorchBenchExporter;
const Exporter kTorchBenchExporter = {
    .name = "torchbench",
    .help = "TorchBench's operator inputs",
    .replayed = true,
    .make_sink = [](std::ostream* out, const ExportOptions&) -> std::unique_ptr<ConfigSink> {
      return std::make_unique<TorchBenchSink>(out);
    },
};

}  // namespace torchtrace
