// Configs: a call as bytes that are equal exactly when the calls are; their head, their facets, and placeholders for
// ignored parts.

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
// are equal, in any thread, frame or file. Facets are not part of the identity:
// gradient and subclass of each tensor argument.
//
//   identity:  byte level, string api,
//              varint n, n values, varint k, k times (string name, value),
//              string framework, if it has values of another framework than the API's
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

// The frameworks whose tensors and dtypes can be values, by the package in their names.
// An API of no framework counts as the first one's.
inline constexpr std::string_view kFrameworks[] = {"torch", "paddle"};

// The framework that a dotted name begins with, "paddle" of paddle.add; empty: none.
std::string_view FrameworkOf(std::string_view name);

// The framework of the arguments of an API: "paddle" for paddle.add, "torch" for torch.add, aten::add and numpy.sum.
std::string_view FrameworkOfApi(std::string_view api);

// A parsed configuration.
struct Config {
  int level = 0;
  std::string api;
  std::string other_framework;  // of the arguments, if it is not FrameworkOfApi(api)
  std::vector<Value> args;
  std::vector<std::pair<std::string, Value>> kwargs;

  std::string_view framework() const { return other_framework.empty() ? FrameworkOfApi(api) : other_framework; }
};

// Whether the arguments contain a value of a framework: a tensor, a dtype and the like.
bool HasFrameworkValue(const Config& config);

// Errors name the byte offset and what was expected there. Facets are sorted by ordinal.
absl::StatusOr<Config> ParseConfig(std::string_view identity);
// Whether an argument was cut when it was recorded; false for a malformed config. Many times faster than ParseConfig.
bool HasCutArgument(std::string_view identity);
absl::StatusOr<std::vector<TensorFacet>> ParseFacets(std::string_view facets);

// The inverse of ParseConfig, byte for byte.
std::string EncodeConfig(const Config& config);

// Level and API only; empty on malformed bytes. Cheap: reads only the first bytes.
struct ConfigHead {
  int level = 0;
  std::string_view api;
};
ConfigHead ReadConfigHead(std::string_view identity);

// Parses any bytes. Malformed ones, which only a faulty writer leaves, become a config of
// their API with one argument that says why.
Config ReadableConfig(std::string_view identity);

// Malformed bytes become no facets.
std::vector<TensorFacet> ReadableFacets(std::string_view facets);

// The facet of that tensor among parsed facets, or nullptr.
const TensorFacet* FindFacet(const std::vector<TensorFacet>& facets, uint64_t tensor);

// The values of a CallResult, as far as they can be parsed.
std::vector<Value> ReadableResult(std::string_view values);

// Placeholders for ignored parts of a configuration (dedup.h, family.h). No traced
// program has these values, so the config stays an ordinary one, and every format
// distinguishes them from real values: text shows a bare `*`.
// CRITICAL: the writer and the parser of the text form share these.

// A dtype, device or layout; and as a kSymbol, a whole argument.
inline constexpr std::string_view kAnyName = "*";
// A size or stride: the least one that can be encoded.
inline constexpr int64_t kAnySize = INT64_MIN + 1;
// The bytes of a storage.
inline constexpr uint64_t kAnyBytes = UINT64_MAX;
// A level.
inline constexpr int kAnyLevel = 255;

// An argument of unknown value.
inline Value AnyValue() {
  Value value;
  value.tag = ValueTag::kSymbol;
  value.text = kAnyName;
  return value;
}

inline bool IsAny(const Value& value) { return value.tag == ValueTag::kSymbol && value.text == kAnyName; }

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_MODEL_CONFIG_H_
