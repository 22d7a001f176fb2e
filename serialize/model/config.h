// Configs: what one call is, as bytes that are equal exactly when the calls are; their head, their facets, what
// placeholders stand for in generalized ones.

#ifndef TORCHTRACE_SERIALIZE_MODEL_CONFIG_H_
#define TORCHTRACE_SERIALIZE_MODEL_CONFIG_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "serialize/model/value.h"

namespace torchtrace {

// A call configuration as bytes. Its identity is (level, API, described
// arguments): two calls have the same configuration exactly when these bytes
// are equal, in whatever thread, frame or file they stand. Facets are what
// belongs beside the identity: gradient and subclass of each tensor argument.
//
//   identity:  byte level, string api,
//              varint n, n values, varint k, k times (string name, value),
//              string framework where values are another framework's than the API's
//   facets:    varint n, n times (varint tensor ordinal, varint FacetBits,
//              with kFacetSubclass a string); tensors without one are left out
//
// Ordinals count the identity's tensors (kTensor) from 0 in the order written.

enum FacetBits : uint64_t {
  kFacetRequiresGrad = 1,
  kFacetSubclass = 2,  // followed by the type's dotted name
};

struct TensorFacet {
  uint64_t tensor = 0;  // ordinal
  bool requires_grad = false;
  std::string subclass;  // empty: torch.Tensor itself
};

// The frameworks whose tensors and dtypes are values here, by the package that stands before their names.
// An API of none of them counts as the first one's.
inline constexpr std::string_view kFrameworks[] = {"torch", "paddle"};

// The framework that a dotted name begins with, "paddle" of paddle.add; empty: none.
std::string_view FrameworkOf(std::string_view name);

// Whose values the calls of an API take: "paddle" for paddle.add, "torch" for torch.add, aten::add and numpy.sum.
std::string_view FrameworkOfApi(std::string_view api);

// A configuration taken apart.
struct Config {
  int level = 0;
  std::string api;
  std::string other_framework;  // whose values these are, where it is not FrameworkOfApi(api)
  std::vector<Value> args;
  std::vector<std::pair<std::string, Value>> kwargs;

  std::string_view framework() const { return other_framework.empty() ? FrameworkOfApi(api) : other_framework; }
};

// Whether there is a value of a framework's among the arguments: a tensor, a dtype and the like.
bool HasFrameworkValue(const Config& config);

// Errors name the byte offset and what was expected there. Facets come by the tensors' ordinals.
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

// A config's parts whatever its bytes hold. A definition that can't be taken
// apart, which only a faulty writer leaves, still gets a config that says so.

// What can't be parsed becomes its API with one argument that says why.
Config ReadableConfig(std::string_view identity);

// What can't be parsed becomes no facets.
std::vector<TensorFacet> ReadableFacets(std::string_view facets);

// The one of that tensor, or nullptr, in what these two return.
const TensorFacet* FindFacet(const std::vector<TensorFacet>& facets, uint64_t tensor);

// The values of a CallResult, as far as they can be parsed.
std::vector<Value> ReadableResult(std::string_view values);

// What stands in a configuration for a part that was forgotten (dedup.h,
// family.h). No traced program has these values, so that the config stays an
// ordinary one, and every form tells them from real ones: text shows a bare `*`.
// CRITICAL: what writes and what reads the text form share these.

// A dtype, device or layout; and as a kSymbol, a whole argument.
inline constexpr std::string_view kAnyName = "*";
// A size or stride: the least one that can be encoded.
inline constexpr int64_t kAnySize = INT64_MIN + 1;
// The bytes of a storage.
inline constexpr uint64_t kAnyBytes = UINT64_MAX;
// A level.
inline constexpr int kAnyLevel = 255;

// An argument of which only its place is known.
inline Value AnyValue() {
  Value value;
  value.tag = ValueTag::kSymbol;
  value.text = kAnyName;
  return value;
}

inline bool IsAny(const Value& value) { return value.tag == ValueTag::kSymbol && value.text == kAnyName; }

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_MODEL_CONFIG_H_
