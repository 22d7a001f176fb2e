#include "serialize/trace/trace.h"

#include <algorithm>
#include <utility>

namespace torchtrace {

void ProcessInfo::SetMetadata(std::shared_ptr<const nlohmann::json> json) {
  metadata = std::move(json);
  known = ParseProcessMetadata(*metadata);
}

const ThreadInfo* FindThread(const ProcessInfo& process, uint64_t number) {
  const auto found = std::lower_bound(process.threads.begin(), process.threads.end(), number,
                                      [](const ThreadInfo& thread, uint64_t n) { return thread.number < n; });
  return found == process.threads.end() || found->number != number ? nullptr : &*found;
}

}  // namespace torchtrace
