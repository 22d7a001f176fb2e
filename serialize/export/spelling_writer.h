// What the forms that another tool evaluates have in common (operator_inputs.h,
// paddle_form.h): a text that grows, what all of them spell alike, and the first thing that
// has no spelling. To derive from; of one thread.

#ifndef TORCHTRACE_SERIALIZE_EXPORT_SPELLING_WRITER_H_
#define TORCHTRACE_SERIALIZE_EXPORT_SPELLING_WRITER_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "serialize/model/value_tree.h"

namespace torchtrace {

class SpellingWriter {
 protected:
  // The text, or Unimplemented with what has no spelling. Ends the use of the writer.
  absl::StatusOr<std::string> Finish();

  // Of several, the first one is told.
  void Cannot(std::string_view what);
  // A string or container of which not all is there.
  void RefuseCut(const Value& value);
  // A tensor of unknown shape, or of another layout than strided.
  void RefuseUnusual(const Value& tensor);

  // None, True, False, ints and Ellipsis; false, and nothing written, for all else.
  bool AppendPlain(const Value& value);
  // `[2, 3]`; in parentheses, one alone keeps its comma.
  void AppendDims(const std::vector<Dim>& dims, char open, char close);

  std::string out_;

 private:
  std::string problem_;
};

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_EXPORT_SPELLING_WRITER_H_
