// TorchBench's short names of dtypes, which OperatorInputsMode writes: f32, b8. Read in
// files of its kind, written in exports for its loader. Callable from any thread.

#ifndef TORCHTRACE_SERIALIZE_MODEL_DTYPE_ABBREVIATIONS_H_
#define TORCHTRACE_SERIALIZE_MODEL_DTYPE_ABBREVIATIONS_H_

#include <string_view>

namespace torchtrace {

// Empty when it is none.
std::string_view DtypeOfAbbreviation(std::string_view abbreviation);

// The loader knows fewer: empty for a dtype that it has no name for.
std::string_view LoaderAbbreviation(std::string_view dtype);

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_MODEL_DTYPE_ABBREVIATIONS_H_
