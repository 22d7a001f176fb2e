// The lists of PaddlePaddle's APIs that are part of torchtrace, as text. They load nothing.

#ifndef TORCHTRACE_DIALECTS_PADDLE_API_LIST_PADDLE_API_LIST_H_
#define TORCHTRACE_DIALECTS_PADDLE_API_LIST_PADDLE_API_LIST_H_

#include <string_view>

namespace torchtrace {

// paddle_api_list.yaml, in the form of serialize/apis/apis.h: what level 0 wraps.
std::string_view PaddleApiList();

// rules.yaml, in the form of dialects/scan/scan.h: what that list leaves out.
std::string_view PaddleApiRules();

}  // namespace torchtrace

#endif  // TORCHTRACE_DIALECTS_PADDLE_API_LIST_PADDLE_API_LIST_H_
