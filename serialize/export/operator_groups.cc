#include "serialize/export/operator_groups.h"

#include <cstddef>

#include "absl/status/statusor.h"
#include "serialize/export/operator_inputs.h"
#include "serialize/model/readable_config.h"

namespace torchtrace {

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
