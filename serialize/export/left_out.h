// Counts the configs that a format can't hold, by the reason why, for the
// sentence that the user is told.

#ifndef TORCHTRACE_SERIALIZE_EXPORT_LEFT_OUT_H_
#define TORCHTRACE_SERIALIZE_EXPORT_LEFT_OUT_H_

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"

namespace torchtrace {

class LeftOut {
 public:
  void Add(std::string_view reason, uint64_t calls) {
    Count& count = reasons_[std::string(reason)];
    ++count.configs;
    count.calls += calls;
  }

  // `torchbench leaves out 3 configs (12 calls): not of level 2`, one for each reason.
  std::vector<std::string> Notes(std::string_view format) const {
    std::vector<std::string> notes;
    for (const auto& [reason, count] : reasons_) {
      notes.push_back(absl::StrCat(std::string(format), " leaves out ", count.configs,
                                   count.configs == 1 ? " config (" : " configs (", count.calls,
                                   count.calls == 1 ? " call): " : " calls): ", reason));
    }
    return notes;
  }

 private:
  struct Count {
    uint64_t configs = 0;
    uint64_t calls = 0;
  };
  std::map<std::string, Count> reasons_;
};

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_EXPORT_LEFT_OUT_H_
