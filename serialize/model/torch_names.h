// What `torch.NAME` alone stands for in the text form: dtypes, layouts and memory
// formats are all written so, and told apart by their names. Shared by text_form.cc,
// which writes them, and by the parser. Callable from any thread.

#ifndef TORCHTRACE_SERIALIZE_MODEL_TORCH_NAMES_H_
#define TORCHTRACE_SERIALIZE_MODEL_TORCH_NAMES_H_

#include <string_view>

#include "serialize/model/value.h"

namespace torchtrace {

// kLayout and kMemoryFormat for the names that are known; else kDtype, or kType where
// the name begins with a capital letter (torch.Tensor). A value that is not what its
// name alone says is written in a long form: torch.dtype("strided"). So a name that is
// missing here costs a few characters, and must never be taken off.
ValueTag KindOfTorchName(std::string_view name);

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_MODEL_TORCH_NAMES_H_
