#include "serialize/model/record_facts.h"

#include <iterator>

#include "absl/strings/str_cat.h"

namespace torchtrace {

std::string RecordScopeName(uint64_t scope) {
  // In the order of at::RecordScope.
  static constexpr const char* kNames[] = {
      "function",      "backward",         "torchscript", "kernel dtype",   "custom class",
      "build feature", "lite interpreter", "user",        "static runtime", "static runtime model"};
  return scope < std::size(kNames) ? kNames[scope] : absl::StrCat("scope ", scope);
}

}  // namespace torchtrace
