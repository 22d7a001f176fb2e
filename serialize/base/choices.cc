#include "serialize/base/choices.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "serialize/base/matching.h"

namespace torchtrace {

absl::Status UnknownChoice(std::string_view wrong, std::string_view name, const std::vector<std::string>& known) {
  return absl::InvalidArgumentError(absl::StrCat(std::string(wrong), " \"", std::string(name), "\"",
                                                 DidYouMean(name, known), " (known: ", absl::StrJoin(known, ", "),
                                                 ")"));
}

}  // namespace torchtrace
