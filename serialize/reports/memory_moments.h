// Of what lives on a device over time, few enough moments to draw: of each span of time the one with the most bytes.

#ifndef TORCHTRACE_SERIALIZE_REPORTS_MEMORY_MOMENTS_H_
#define TORCHTRACE_SERIALIZE_REPORTS_MEMORY_MOMENTS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace torchtrace {

// First Add every event, then AddBlock every block.
class MemoryMoments {
 public:
  struct Moment {
    int64_t time_ns = 0;
    uint64_t event = 0;  // after this one
    uint64_t bytes = 0;
    int64_t span = 0;
  };

  // At most so many moments, and at least half of them if there are as many events.
  explicit MemoryMoments(size_t most) : most_(std::max<size_t>(most, 2)) {}

  // After an event, numbered from 1, so many bytes live. Times and numbers ascend.
  void Add(int64_t time_ns, uint64_t event, uint64_t bytes) {
    if (moments_.empty()) first_ns_ = time_ns;
    const int64_t span = (time_ns - first_ns_) / span_ns_;
    if (!moments_.empty() && moments_.back().span == span) {
      if (bytes > moments_.back().bytes) moments_.back() = {time_ns, event, bytes, span};
      return;
    }
    moments_.push_back({time_ns, event, bytes, span});
    while (moments_.size() > most_) WidenSpans();
  }

  // What lived from the event `begin` until the event `end`.
  void AddBlock(uint64_t begin, uint64_t end, const std::string& kind, uint64_t bytes) {
    const auto at = [this](uint64_t event) {
      return static_cast<size_t>(
          std::lower_bound(moments_.begin(), moments_.end(), event,
                           [](const Moment& moment, uint64_t wanted) { return moment.event < wanted; }) -
          moments_.begin());
    };
    const size_t from = at(begin), to = at(end);
    if (from == to) return;
    std::vector<int64_t>& changes = changes_[kind];
    changes.resize(moments_.size() + 1);
    changes[from] += static_cast<int64_t>(bytes);
    changes[to] -= static_cast<int64_t>(bytes);
  }

  const std::vector<Moment>& moments() const { return moments_; }

  // By kind and moment.
  std::map<std::string, std::vector<uint64_t>> Bytes() const {
    std::map<std::string, std::vector<uint64_t>> bytes;
    for (const auto& [kind, changes] : changes_) {
      std::vector<uint64_t>& of_kind = bytes[kind];
      int64_t now = 0;
      for (size_t i = 0; i < moments_.size(); ++i) {
        now += changes[i];
        of_kind.push_back(static_cast<uint64_t>(std::max<int64_t>(now, 0)));
      }
    }
    return bytes;
  }

 private:
  void WidenSpans() {
    span_ns_ *= 2;
    std::vector<Moment> wider;
    for (Moment moment : moments_) {
      moment.span = (moment.time_ns - first_ns_) / span_ns_;
      if (wider.empty() || wider.back().span != moment.span) {
        wider.push_back(moment);
      } else if (moment.bytes > wider.back().bytes) {
        wider.back() = moment;
      }
    }
    moments_ = std::move(wider);
  }

  const size_t most_;
  int64_t first_ns_ = 0;
  int64_t span_ns_ = 1;
  std::vector<Moment> moments_;
  std::map<std::string, std::vector<int64_t>> changes_;  // by kind, before each moment
};

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_REPORTS_MEMORY_MOMENTS_H_
