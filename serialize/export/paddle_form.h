// A config as PaddleAPITest spells it:
//
//   torch.add(Tensor([2, 3],"float32"), Tensor([2, 3],"float32"), alpha=10, )
//
// Its parser evaluates tokens and knows no escapes, so that not every value has a
// spelling.

#ifndef TORCHTRACE_SERIALIZE_EXPORT_PADDLE_FORM_H_
#define TORCHTRACE_SERIALIZE_EXPORT_PADDLE_FORM_H_

#include <string>

#include "absl/status/statusor.h"
#include "serialize/model/config.h"

namespace torchtrace {

// One line without its end. Errors say what has no spelling: "a dict".
absl::StatusOr<std::string> FormatPaddle(const Config& config);

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_EXPORT_PADDLE_FORM_H_
