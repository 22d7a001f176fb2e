#include "serialize/operator_metadata.h"

#include <algorithm>
#include <cstddef>
#include <map>

#include "nlohmann/json.hpp"

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

}  // namespace torchtrace
