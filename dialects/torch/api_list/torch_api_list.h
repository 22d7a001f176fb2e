// The lists of PyTorch's APIs that are part of torchtrace, as text. They load nothing.

#ifndef TORCHTRACE_DIALECTS_TORCH_API_LIST_TORCH_API_LIST_H_
#define TORCHTRACE_DIALECTS_TORCH_API_LIST_TORCH_API_LIST_H_

#include <string_view>

namespace torchtrace {

// torch_api_list.yaml, in the form of serialize/apis/apis.h: what level 0 wraps.
std::string_view TorchApiList();

// rules.yaml, in the form of dialects/scan/scan.h: what that list leaves out.
std::string_view TorchApiRules();

}  // namespace torchtrace

#endif  // TORCHTRACE_DIALECTS_TORCH_API_LIST_TORCH_API_LIST_H_
