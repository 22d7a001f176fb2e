// What lists of an operator's inputs (TorchBench's, TritonBench's) don't tell of calls.

#ifndef TORCHTRACE_SERIALIZE_IMPORT_OPERATOR_INPUT_NOTES_H_
#define TORCHTRACE_SERIALIZE_IMPORT_OPERATOR_INPUT_NOTES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

namespace torchtrace {

// `file`: its name. `synthetic`: how many configurations have no count, which is spelled
// `zero` there: "cnt: 0".
inline std::vector<std::string> OperatorInputNotes(const std::string& file, uint64_t synthetic, const char* zero) {
  std::vector<std::string> notes = {
      absl::StrCat(file, " has counts without order, times and nesting, and no devices of tensors: cpu is shown")};
  if (synthetic > 0) {
    notes.push_back(absl::StrCat(synthetic, synthetic == 1 ? " configuration" : " configurations", " with ", zero,
                                 " (synthetic): each counts as one call"));
  }
  return notes;
}

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_IMPORT_OPERATOR_INPUT_NOTES_H_
