// How a recorded API is called, and which names code generated from a trace may contain. Traces are untrusted.

#ifndef TORCHTRACE_SERIALIZE_FLOW_TARGET_H_
#define TORCHTRACE_SERIALIZE_FLOW_TARGET_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "serialize/model/config.h"

namespace torchtrace {

struct CallTarget {
  enum Kind : uint8_t {
    kRefused,   // `name` is the reason
    kFunction,  // torch.nn.functional.relu, by its dotted name
    kMethod,    // of the first argument, a tensor: `view`
    kGetter,    // an attribute of the first argument: `T`
    kSetter,
    kOverload,  // of an operator: torch.ops.aten.add.Tensor, whose last part may be a Python keyword
  };
  Kind kind = kRefused;
  std::string name;
};

// Allows operators of callable.yaml's namespaces, and the functions of callable_names.txt, none of which has effects
// outside torch.
CallTarget TargetOf(std::string_view api, int level);

// Whether a call can be repeated by its description: its name is allowed, and its arguments were recorded in full.
bool CanCall(const Config& config);

// torch.autocast's device type and dtype; both empty: none.
struct CallAutocast {
  std::string device, dtype;

  bool operator==(const CallAutocast&) const = default;
};

// The autocast mode of a call of level 0 or 1, as far as its result shows it: without autocast, only conversions and
// functions with a dtype argument return 16-bit floating-point numbers for 32-bit ones or the reverse.
CallAutocast AutocastOf(const Config& config, const std::vector<Value>& result);

// Why calls of the API are meaningless outside their place in a program; empty: they aren't.
std::string_view WhyOutOfPlace(std::string_view api);

// The text of callable.yaml, for callers that look names up in torch.
std::string_view CallableNames();

// Whether the text is a Python identifier and no keyword.
bool IsIdentifier(std::string_view text);

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_FLOW_TARGET_H_
