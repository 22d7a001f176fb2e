// The dispatch key that level 2 stands on: just below Python's, and without kernels in the versions
// of torch that this was checked with.

#ifndef TORCHTRACE_DIALECTS_TORCH_DISPATCH_DISPATCH_KEY_H_
#define TORCHTRACE_DIALECTS_TORCH_DISPATCH_DISPATCH_KEY_H_

#include <c10/core/DispatchKey.h>

namespace torchtrace::torch_dialect {

inline constexpr c10::DispatchKey kDispatchKey = c10::DispatchKey::Fake;

}  // namespace torchtrace::torch_dialect

#endif  // TORCHTRACE_DIALECTS_TORCH_DISPATCH_DISPATCH_KEY_H_
