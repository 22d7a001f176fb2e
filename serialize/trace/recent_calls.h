// What a reader keeps of a thread's latest calls, for notes that come later (CallRecord::kLater).

#ifndef TORCHTRACE_SERIALIZE_TRACE_RECENT_CALLS_H_
#define TORCHTRACE_SERIALIZE_TRACE_RECENT_CALLS_H_

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "serialize/model/call_extras.h"

namespace torchtrace {

// Of the last kRecentCalls calls that were added.
template <typename T>
class RecentCalls {
 public:
  // In ascending order of the calls' numbers. In a damaged log a lower one begins again.
  void Add(uint64_t call, T kept) {
    if (!calls_.empty() && call <= At(calls_.size() - 1).first) {
      calls_.clear();
      oldest_ = 0;
    }
    if (calls_.size() < kRecentCalls) {
      calls_.emplace_back(call, std::move(kept));
      return;
    }
    calls_[oldest_] = {call, std::move(kept)};
    oldest_ = (oldest_ + 1) % calls_.size();
  }

  // Null: it was not added, or too many were added since.
  T* Find(uint64_t call) {
    const size_t at = IndexOf(call);
    return at == calls_.size() ? nullptr : &At(at).second;
  }

 private:
  using Entry = std::pair<uint64_t, T>;

  // The `i`-th oldest.
  Entry& At(size_t i) { return calls_[(oldest_ + i) % calls_.size()]; }
  size_t IndexOf(uint64_t call) {
    size_t begin = 0, end = calls_.size();
    while (begin < end) {
      const size_t middle = begin + (end - begin) / 2;
      if (At(middle).first < call) {
        begin = middle + 1;
      } else {
        end = middle;
      }
    }
    return begin < calls_.size() && At(begin).first == call ? begin : calls_.size();
  }

  std::vector<Entry> calls_;
  size_t oldest_ = 0;  // index into it, once it is full
};

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_TRACE_RECENT_CALLS_H_
