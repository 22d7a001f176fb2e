// TritonBench's JSON: by operator a list of inputs with counts, and `metadata`.

#include <string>
#include <utility>
#include <vector>

#include "nlohmann/json.hpp"
#include "serialize/export/operator_groups.h"
#include "serialize/export/sinks.h"
#include "serialize/forms/json_form.h"

namespace torchtrace {
namespace {

using nlohmann::ordered_json;

class TritonBenchSink final : public ConfigSink {
 public:
  TritonBenchSink(std::ostream* out, std::vector<std::pair<std::string, std::string>> metadata)
      : out_(out), metadata_(std::move(metadata)) {}

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
    ordered_json metadata = ordered_json::object();
    for (const auto& [key, value] : metadata_) metadata[key] = value;
    *out_ << "\"metadata\": " << DumpJson(metadata) << "\n}\n";
    return FinishStream(out_);
  }

  std::vector<std::string> notes() const override { return operators_.left_out().Notes("tritonbench"); }

 private:
  std::ostream* const out_;
  const std::vector<std::pair<std::string, std::string>> metadata_;
  OperatorGroups operators_;
};

}  // namespace

std::unique_ptr<ConfigSink> MakeTritonBenchSink(std::ostream* out, const SinkOptions& options) {
  return std::make_unique<TritonBenchSink>(out, options.metadata);
}

}  // namespace torchtrace
