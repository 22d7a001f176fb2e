// Calls with unknown arguments, from files of other tools. They are not calls without arguments.

#ifndef TORCHTRACE_SERIALIZE_MODEL_UNKNOWN_ARGUMENTS_H_
#define TORCHTRACE_SERIALIZE_MODEL_UNKNOWN_ARGUMENTS_H_

#include <string_view>

#include "serialize/model/config.h"
#include "serialize/model/value.h"

namespace torchtrace {

// Such a config has this one argument in place of all; no traced call has it.
inline constexpr std::string_view kUnknownArguments = "...";

inline Value UnknownArguments() {
  Value value;
  value.tag = ValueTag::kSymbol;
  value.text = kUnknownArguments;
  return value;
}

inline bool HasUnknownArguments(const Config& config) {
  return config.args.size() == 1 && config.kwargs.empty() && config.args[0].tag == ValueTag::kSymbol &&
         config.args[0].text == kUnknownArguments;
}

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_MODEL_UNKNOWN_ARGUMENTS_H_
