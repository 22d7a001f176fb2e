// State for each thread of a trace, and for each level of its calls.

#ifndef TORCHTRACE_SERIALIZE_DIFF_BY_THREAD_H_
#define TORCHTRACE_SERIALIZE_DIFF_BY_THREAD_H_

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "serialize/trace/trace.h"

namespace torchtrace {

// A T for each thread; fast while the thread stays the same.
template <typename T>
class ByThread {
 public:
  T& Of(const CallRecord& call) {
    if (last_ == nullptr || process_ != call.process || thread_ != call.thread) {
      process_ = call.process;
      thread_ = call.thread;
      last_ = &threads_[{process_, thread_}];
    }
    return *last_;
  }
  std::map<std::pair<uint32_t, uint32_t>, T>& threads() { return threads_; }

 private:
  uint32_t process_ = 0;
  uint32_t thread_ = 0;
  T* last_ = nullptr;
  std::map<std::pair<uint32_t, uint32_t>, T> threads_;
};

// There are few levels: a list is fastest.
template <typename T>
T& OfLevel(int level, std::vector<std::pair<int, T>>* levels) {
  for (auto& [known, value] : *levels) {
    if (known == level) return value;
  }
  return levels->emplace_back(level, T()).second;
}

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_DIFF_BY_THREAD_H_
