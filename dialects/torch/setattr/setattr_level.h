// Level 0 for torch: its hook, and the default list of APIs.

#ifndef TORCHTRACE_DIALECTS_TORCH_SETATTR_SETATTR_LEVEL_H_
#define TORCHTRACE_DIALECTS_TORCH_SETATTR_SETATTR_LEVEL_H_

#include <memory>
#include <string>
#include <vector>

#include "tracer/framework_dialect.h"

namespace torchtrace::torch_dialect {

// The names that level 0 traces when the user gives no list.

// Dotted names: those of api_list/torch_api_list.yaml, and torch.Tensor's
// properties, whose reads are only counted unless the user asks for them.
std::vector<std::string> DefaultApis();

// Level 0 for PyTorch: SetattrHook with torch's names and descriptions.

// Install it after the other levels' hooks: its entries stand before theirs, so
// that a call's record at level 0 is the parent of the others.
std::unique_ptr<TracingHook> MakeSetattrHook(const RecordingOptions& options);

}  // namespace torchtrace::torch_dialect

#endif  // TORCHTRACE_DIALECTS_TORCH_SETATTR_SETATTR_LEVEL_H_
