#include <cstddef>

#include "serialize/forms/call_labels.h"
#include "serialize/reports/reports.h"

namespace torchtrace {
namespace {

// Deeper calls exist only in damaged logs; they keep their time, but take none away from the calls around them.
constexpr uint32_t kMaxDepth = 1'000'000;

class Summer {
 public:
  Summer(const Trace* trace, const std::function<bool(ConfigId)>& accepts, SumBy also_by, bool durations)
      : accepts_(accepts),
        durations_(durations),
        by_thread_(also_by == SumBy::kThread),
        by_place_(also_by == SumBy::kLine || also_by == SumBy::kModule),
        stacks_(also_by == SumBy::kLine ? &trace->stacks() : nullptr),
        trace_(*trace) {
    Grow(trace->config_count());
  }

  void Add(const CallRecord& call) {
    if (call.config >= totals_.configs.size()) Grow(call.config + size_t{1});
    empty_ = false;
    totals_.has_times = totals_.has_times || call.time_ns != 0;
    const bool accepted = accepted_[call.config];
    ThreadState& thread = ThreadOf(call);
    if (call.kind == CallRecord::kEnter) {
      if (call.depth < kMaxDepth) {
        thread.inside_ns.resize(call.depth + size_t{1});
        thread.inside_ns[call.depth] = 0;
        if (by_place_) {
          thread.places.resize(call.depth + size_t{1}, kNoPlace);
          thread.places[call.depth] = PlaceOf(call, thread);
        }
      }
      if (accepted) Enter(call, &thread);
    } else {
      const int64_t time_ns = call.total_duration_ns();
      const int64_t self_ns = time_ns - TakeInside(call, time_ns, &thread);
      if (accepted) Leave(call, time_ns, self_ns, &thread);
    }
  }

  TraceTotals Take() {
    totals_.has_times = totals_.has_times || empty_;
    return std::move(totals_);
  }

 private:
  struct ThreadState {
    ThreadTotal* total = nullptr;    // null: not by thread
    std::vector<int64_t> inside_ns;  // by depth: time of the finished calls right inside the open one
    std::vector<PlaceId> places;     // by depth: of the open call
  };

  void Grow(size_t configs) {
    for (size_t config = accepted_.size(); config < configs; ++config) {
      accepted_.push_back(accepts_(static_cast<ConfigId>(config)));
    }
    totals_.configs.resize(configs);
    seen_by_.resize(configs);
    if (!by_place_ || stacks_ != nullptr) return;
    for (size_t config = is_module_.size(); config < configs; ++config) {
      is_module_.push_back(!ModuleLabel(trace_.identity(static_cast<ConfigId>(config))).empty());
    }
  }

  ThreadState& ThreadOf(const CallRecord& call) {
    const std::pair<uint32_t, uint32_t> key(call.process, call.thread);
    if (last_ == nullptr || key != last_key_) {
      last_key_ = key;
      last_ = &threads_[key];
      if (by_thread_) last_->total = &totals_.threads[key];
    }
    return *last_;
  }

  static int64_t TakeInside(const CallRecord& call, int64_t time_ns, ThreadState* thread) {
    if (call.depth >= thread->inside_ns.size()) return 0;
    const int64_t inside_ns = thread->inside_ns[call.depth];
    thread->inside_ns.resize(call.depth);
    if (call.depth > 0) thread->inside_ns[call.depth - 1] += time_ns;
    return inside_ns;
  }

  void Enter(const CallRecord& call, ThreadState* thread) {
    Count(call, &totals_.configs[call.config]);
    if (ThreadTotal* const of_thread = thread->total; of_thread != nullptr) {
      Count(call, &of_thread->total);
      // Mostly the same thread calls a configuration again.
      if (seen_by_[call.config] != of_thread) {
        seen_by_[call.config] = of_thread;
        of_thread->configs.insert(call.config);
      }
    }
    if (!by_place_) return;
    PlaceTotal& place = totals_.places[PlaceAt(call.depth, *thread)];
    Count(call, &place.total);
    place.configs.insert(call.config);
  }

  static void Count(const CallRecord& call, CallTotal* total) {
    if (total->calls == 0) total->first = call.call;
    total->calls += call.count;
  }

  PlaceId PlaceOf(const CallRecord& call, const ThreadState& thread) const {
    if (stacks_ != nullptr) return call.stack == kNoStack ? kNoPlace : stacks_->calling_line(call.stack);
    if (is_module_[call.config]) return call.config;
    return call.depth == 0 ? kNoPlace : PlaceAt(call.depth - 1, thread);
  }
  static PlaceId PlaceAt(uint32_t depth, const ThreadState& thread) {
    return depth < thread.places.size() ? thread.places[depth] : kNoPlace;
  }

  void Leave(const CallRecord& call, int64_t time_ns, int64_t self_ns, ThreadState* thread) {
    const PlaceId place = PlaceAt(call.depth, *thread);
    CallTotal* const of_place = by_place_ ? &totals_.places[place].total : nullptr;
    CallTotal* const of_thread = thread->total == nullptr ? nullptr : &thread->total->total;
    const bool in_another = stacks_ == nullptr && call.depth > 0 && PlaceAt(call.depth - 1, *thread) == place;
    for (CallTotal* total : {&totals_.configs[call.config], of_thread, of_place}) {
      if (total == nullptr) continue;
      const bool counts = total != of_place || !in_another;
      if (counts) total->time_ns += time_ns;
      total->self_time_ns += self_ns;
      if (durations_ && counts) total->durations.Add(call.duration_ns, call.count);
      if (call.kind == CallRecord::kRaise) total->raised += call.count;
    }
  }

  const std::function<bool(ConfigId)>& accepts_;
  const bool durations_;
  const bool by_thread_;
  const bool by_place_;
  const StackTable* const stacks_;  // null: not by line
  const Trace& trace_;
  std::vector<bool> accepted_;   // by ConfigId
  std::vector<bool> is_module_;  // by ConfigId, where that is a place
  TraceTotals totals_;
  std::vector<const ThreadTotal*> seen_by_;  // by ConfigId: the thread that called it last
  bool empty_ = true;
  std::map<std::pair<uint32_t, uint32_t>, ThreadState> threads_;
  std::pair<uint32_t, uint32_t> last_key_;
  ThreadState* last_ = nullptr;
};

}  // namespace

absl::StatusOr<TraceTotals> SumCalls(Trace* trace, const std::function<bool(ConfigId)>& accepts, SumBy also_by,
                                     bool durations) {
  Summer summer(trace, accepts, also_by, durations);
  const absl::Status read = trace->ReadCounted([&summer](const CallRecord& call) -> absl::Status {
    summer.Add(call);
    return absl::OkStatus();
  });
  if (!read.ok()) return read;
  return summer.Take();
}

absl::StatusOr<TraceTotals> CountConfigs(Trace* trace, const std::function<bool(ConfigId)>& accepts) {
  const absl::StatusOr<std::vector<uint64_t>> counts = trace->Count();
  if (!counts.ok()) return counts.status();
  TraceTotals totals;
  totals.configs.resize(trace->config_count());
  for (VariantId variant = 0; variant < counts->size(); ++variant) {
    totals.configs[trace->config_of(variant)].calls += (*counts)[variant];
  }
  for (ConfigId config = 0; config < totals.configs.size(); ++config) {
    CallTotal& total = totals.configs[config];
    if (total.calls == 0 || !accepts(config)) {
      total = CallTotal();
    } else {
      total.first = config;
    }
  }
  return totals;
}

}  // namespace torchtrace
