// How a recorded API is called: what the code that is made of a trace may name. Names come from a trace, which may be
// anybody's.

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
    kRefused,   // `name` says why
    kFunction,  // torch.nn.functional.relu, by its dotted name
    kMethod,    // of the first argument, a tensor: `view`
    kGetter,    // an attribute of the first argument: `T`
    kSetter,
    kOverload,  // of an operator: torch.ops.aten.add.Tensor, whose last part may be a word of the language's
  };
  Kind kind = kRefused;
  std::string name;
};

// Operators of callable.yaml's namespaces, and the functions of callable_names.txt, none of which reaches beyond torch.
CallTarget TargetOf(std::string_view api, int level);

// Whether a call can be made again, as far as its description tells: its name is no refused one, and its arguments are
// told in full.
bool CanCall(const Config& config);

// torch.autocast's device type and dtype; both empty: none.
struct CallAutocast {
  std::string device, dtype;

  bool operator==(const CallAutocast&) const = default;
};

// What a call of level 0 or 1 ran under, as far as its result tells: only functions that convert, and those that take
// a dtype, return 16 bits for floating-point numbers of 32, or the reverse, of themselves.
CallAutocast AutocastOf(const Config& config, const std::vector<Value>& result);

// Why calls of that name mean nothing out of their place in a program; empty: they do.
std::string_view WhyOutOfPlace(std::string_view api);

// The text of callable.yaml, for those who look names up in a torch.
std::string_view CallableNames();

// A name that Python takes for one, and that is no word of the language's.
bool IsIdentifier(std::string_view text);

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_FLOW_TARGET_H_
