#include "serialize/trace/damage.h"

#include "absl/strings/str_cat.h"

namespace torchtrace {

std::string CountLostCalls(uint64_t lost_calls, bool exact) {
  if (lost_calls == 0) return exact ? "no calls" : "an unknown number of calls";
  return absl::StrCat(exact ? "" : "at least ", lost_calls, lost_calls == 1 ? " call" : " calls");
}

}  // namespace torchtrace
