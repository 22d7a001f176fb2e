#include "serialize/trace/operator_metadata.h"

#include <algorithm>
#include <cstddef>
#include <map>

#include "nlohmann/json.hpp"
#include "serialize/base/json_member.h"

namespace torchtrace {

nlohmann::json FormatOperators(std::vector<std::string> names) {
  std::sort(names.begin(), names.end());
  std::map<std::string, std::string> spaces;
  for (const std::string& name : names) {
    const size_t colons = name.find("::");
    if (colons == std::string::npos) continue;
    std::string& inside = spaces[name.substr(0, colons)];
    if (!inside.empty()) inside += ' ';
    inside.append(name, colons + 2);
  }
  return spaces;
}

std::string TorchVersion(const nlohmann::json& metadata) {
  const nlohmann::json* const packages = FindMember(metadata, "packages");
  const nlohmann::json* version = packages == nullptr ? nullptr : FindMember(*packages, "torch");
  if (version != nullptr && version->is_object()) version = FindMember(*version, "version");
  return version != nullptr && version->is_string() ? version->get<std::string>() : std::string();
}

}  // namespace torchtrace
