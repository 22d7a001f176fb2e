// A call configuration as bytes. Its identity is (level, API, described
// arguments): two calls have the same configuration exactly when these bytes
// are equal, in whatever thread, frame or file they stand. Facets are what
// belongs beside the identity: gradient and subclass of each tensor argument.
//
//   identity:  byte level, string api,
//              varint n, n values, varint k, k times (string name, value)
//   facets:    varint n, n times (varint tensor ordinal, varint FacetBits,
//              with kFacetSubclass a string); tensors without one are left out
//
// Ordinals count the identity's tensors (kTensor) from 0 in the order written.

#ifndef TORCHTRACE_SERIALIZE_MODEL_CONFIG_H_
#define TORCHTRACE_SERIALIZE_MODEL_CONFIG_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "serialize/model/value_tree.h"

namespace torchtrace {

enum FacetBits : uint64_t {
  kFacetRequiresGrad = 1,
  kFacetSubclass = 2,  // followed by the type's dotted name
};

struct TensorFacet {
  uint64_t tensor = 0;  // ordinal
  bool requires_grad = false;
  std::string subclass;  // empty: torch.Tensor itself
};

// A configuration taken apart.
struct Config {
  int level = 0;
  std::string api;
  std::vector<Value> args;
  std::vector<std::pair<std::string, Value>> kwargs;
};

// Errors name the byte offset and what was expected there.
absl::StatusOr<Config> ParseConfig(std::string_view identity);
absl::StatusOr<std::vector<TensorFacet>> ParseFacets(std::string_view facets);

// The inverse of ParseConfig, byte for byte.
std::string EncodeConfig(const Config& config);

// Level and API only; empty on malformed bytes. Cheap: reads the first bytes.
struct ConfigHead {
  int level = 0;
  std::string_view api;
};
ConfigHead ReadConfigHead(std::string_view identity);

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_MODEL_CONFIG_H_
