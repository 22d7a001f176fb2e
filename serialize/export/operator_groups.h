// Collects configs as benchmarks want them: by operator, sorted by name, and in each
// the different inputs in the order first seen, with counts. Configs that differ only
// in what the inputs don't say, such as a device's number, become one.

#ifndef TORCHTRACE_SERIALIZE_EXPORT_OPERATOR_GROUPS_H_
#define TORCHTRACE_SERIALIZE_EXPORT_OPERATOR_GROUPS_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "serialize/export/config_sink.h"
#include "serialize/export/left_out.h"
#include "serialize/export/text_numbers.h"

namespace torchtrace {

struct OperatorGroup {
  TextNumbers inputs;
  std::vector<uint64_t> calls;  // by number of the inputs
};

class OperatorGroups {
 public:
  void Add(const ConfigRow& row);

  const std::map<std::string, OperatorGroup>& groups() const { return groups_; }
  const LeftOut& left_out() const { return left_out_; }

 private:
  std::map<std::string, OperatorGroup> groups_;
  LeftOut left_out_;
};

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_EXPORT_OPERATOR_GROUPS_H_
