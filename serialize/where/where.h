// The language of --where: conditions on calls and their arguments.
//
//   dtype = float16 and ndim >= 3
//   api ~ "torch.nn.*" and not raised
//   any(dtype = bfloat16 and device = cuda) or arg(dim) in (-1, 1)
//
// docs/FILTER.md has the grammar and the fields. A comparison of a tensor field (dtype,
// shape, ...) is true if it is true for any tensor among the arguments. any() and all()
// apply their whole condition to one tensor, or to every one. Immutable once parsed;
// callable from any thread.

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
  // InvalidArgument for a syntax error; the message names the column (from 1) and what
  // was expected there. `names` returns the other names of an API.
  static absl::StatusOr<Where> Parse(std::string_view text, const WhereNames& names = nullptr);

  // InvalidArgument for a value that neither the traces nor PyTorch have, or the name of an argument that no call in
  // them has, with the nearest one. Does not check names of APIs and exceptions. `each` calls `look` for each trace; it
  // is only called if necessary.
  absl::Status CheckValues(
      const std::function<absl::Status(const std::function<absl::Status(Trace*)>& look)>& each) const;
  // The names and globs that the field `api` is compared with, except `?NAME`.
  std::vector<std::string> Apis() const;

  // kUnknown only if the result depends on a fact that the subject doesn't have yet.
  Truth Ask(const WhereSubject& subject) const;

  // Whether the result may depend on a call's entry, or on its end.
  bool needs_call() const { return needs_call_; }
  bool needs_end() const { return needs_end_; }

  // The condition with all parentheses, for tests.
  std::string ToString() const;

  // The names of all fields, for help texts.
  static std::vector<std::string> FieldNames();

 private:
  std::shared_ptr<const WhereExpression> expression_;
  std::vector<WhereKnown> to_be_known_;
  bool needs_call_ = false;
  bool needs_end_ = false;
};

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_WHERE_WHERE_H_
