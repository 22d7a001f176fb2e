// The part of YAML that lists of names are written in, read fast and without a
// library: block and flow lists and maps, plain and quoted scalars on one line,
// comments. Flow lists may go over several lines. Anchors, tags, block scalars
// and several documents are errors that say so. Callable from any thread.

#ifndef TORCHTRACE_SERIALIZE_SIMPLE_YAML_H_
#define TORCHTRACE_SERIALIZE_SIMPLE_YAML_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace torchtrace {

struct SimpleYaml {
  enum Kind : uint8_t { kNull, kScalar, kList, kMap };

  Kind kind = kNull;
  int line = 0;  // from 1
  std::string scalar;
  std::vector<SimpleYaml> items;  // of a list; of a map, its values
  std::vector<std::string> keys;  // of a map, one for each value

  // Null when there is none of that key.
  const SimpleYaml* Find(std::string_view key) const;
};

// InvalidArgument with `name:LINE: ` and what was expected there.
absl::StatusOr<SimpleYaml> ParseSimpleYaml(std::string_view text, const std::string& name);

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_SIMPLE_YAML_H_
