// The names that level 0 traces when the user gives no list.

#ifndef TORCHTRACE_DIALECTS_TORCH_SETATTR_DEFAULT_APIS_H_
#define TORCHTRACE_DIALECTS_TORCH_SETATTR_DEFAULT_APIS_H_

#include <string>
#include <vector>

namespace torchtrace::torch_dialect {

// Dotted names: those of api_list/torch_api_list.yaml, and torch.Tensor's
// properties, whose reads are only counted unless the user asks for them.
std::vector<std::string> DefaultApis();

}  // namespace torchtrace::torch_dialect

#endif  // TORCHTRACE_DIALECTS_TORCH_SETATTR_DEFAULT_APIS_H_
