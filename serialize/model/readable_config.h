// A config's parts whatever its bytes hold. A definition that can't be taken
// apart, which only a faulty writer leaves, still gets a config that says so.

#ifndef TORCHTRACE_SERIALIZE_MODEL_READABLE_CONFIG_H_
#define TORCHTRACE_SERIALIZE_MODEL_READABLE_CONFIG_H_

#include <string_view>
#include <vector>

#include "serialize/model/config.h"

namespace torchtrace {

// What can't be parsed becomes its API with one argument that says why.
Config ReadableConfig(std::string_view identity);

// What can't be parsed becomes no facets.
std::vector<TensorFacet> ReadableFacets(std::string_view facets);

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_MODEL_READABLE_CONFIG_H_
