// The language of --where: conditions on calls and their arguments.
//
//   dtype = float16 and ndim >= 3
//   api ~ "torch.nn.*" and not raised
//   any(dtype = bfloat16 and device = cuda) or arg(dim) in (-1, 1)
//
// docs/FILTER.md has the grammar and the fields. A field of tensors (dtype, shape,
// ...) holds when any tensor among the arguments makes the comparison true; any()
// and all() speak of one tensor, and of every one. Immutable once parsed; may be
// used from any thread.

#ifndef TORCHTRACE_SERIALIZE_WHERE_WHERE_H_
#define TORCHTRACE_SERIALIZE_WHERE_WHERE_H_

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "serialize/where/where_parts.h"

namespace torchtrace {

class WhereExpression;

class Where {
 public:
  // InvalidArgument for what is no condition; the message names the column (from 1)
  // and what was expected there.
  // `names` tells the other names of APIs.
  static absl::StatusOr<Where> Parse(std::string_view text, const WhereNames& names = nullptr);

  // InvalidArgument for a value that neither the traces nor PyTorch have, or the name of an argument that no call of
  // theirs has, with the nearest. Names of APIs are not looked at, nor exceptions. `each` lets it look at each trace,
  // and is asked where it has to.
  absl::Status CheckValues(
      const std::function<absl::Status(const std::function<absl::Status(Trace*)>& look)>& each) const;
  // The names and globs that the field `api` is compared with, `?NAME` left out.
  std::vector<std::string> Apis() const;

  // kUnknown only as long as something that decides isn't known.
  Truth Ask(const WhereSubject& subject) const;

  // Whether some answers may need a call's entry, or its end.
  bool needs_call() const { return needs_call_; }
  bool needs_end() const { return needs_end_; }

  // The condition with all parentheses, for tests.
  std::string ToString() const;

  // Of all fields, for help texts.
  static std::vector<std::string> FieldNames();

 private:
  std::shared_ptr<const WhereExpression> expression_;
  std::vector<WhereKnown> to_be_known_;
  bool needs_call_ = false;
  bool needs_end_ = false;
};

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_WHERE_WHERE_H_
