// How a recorded API is called: what the code that is made of a trace may name. Names come from a trace, which may be
// anybody's.

#ifndef TORCHTRACE_SERIALIZE_FLOW_TARGET_H_
#define TORCHTRACE_SERIALIZE_FLOW_TARGET_H_

#include <cstdint>
#include <string>
#include <string_view>

namespace torchtrace {

struct CallTarget {
  enum Kind : uint8_t {
    kRefused,   // `name` says why
    kFunction,  // torch.nn.functional.relu, by its dotted name
    kMethod,    // of the first argument, a tensor: `view`
    kGetter,    // an attribute of the first argument: `T`
    kSetter,
    kOverload,  // of an operator: torch.ops.aten.add.Tensor
  };
  Kind kind = kRefused;
  std::string name;
};

// Dotted identifiers of Python alone, in places of torch's that only compute.
CallTarget TargetOf(std::string_view api, int level);

// A name that Python takes for one, and that is no word of the language's.
bool IsIdentifier(std::string_view text);

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_FLOW_TARGET_H_
