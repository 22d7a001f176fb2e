// Finds the records of selected calls.

#ifndef TORCHTRACE_SERIALIZE_WHERE_SELECTED_CALLS_H_
#define TORCHTRACE_SERIALIZE_WHERE_SELECTED_CALLS_H_

#include <cstdint>
#include <map>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "serialize/trace/recent_calls.h"
#include "serialize/trace/trace.h"
#include "serialize/where/call_selection.h"

namespace torchtrace {

// The entry of a call decides; its end follows.
class SelectedCalls {
 public:
  SelectedCalls(Trace* trace, const CallSelection& selection)
      : trace_(*trace), selector_(trace, selection), by_config_(!selection.ChoosesCalls()) {}

  absl::Status Prepare() { return selector_.Prepare(); }

  // Call it for each record of the trace, in order.
  bool Wants(const CallRecord& record) {
    // All of it: what is alive is known only if all ends are.
    if (record.kind == CallRecord::kMemory) return true;
    // A call's end has its configuration, so there is no need to remember the entry.
    if (by_config_) return record.config != kLostId && selector_.AcceptsCall(record);
    if (record.kind == CallRecord::kLater) return RecentOf(record)->Find(record.call) != nullptr;
    if (record.kind != CallRecord::kEnter) return open_.erase(record.call) > 0;
    if (record.config == kLostId || !selector_.Accepts(record)) return false;
    open_.insert(record.call);
    if (trace_.shows_later()) RecentOf(record)->Add(record.call, {});
    return true;
  }

 private:
  struct Nothing {};

  RecentCalls<Nothing>* RecentOf(const CallRecord& record) { return &recent_[{record.process, record.thread}]; }

  const Trace& trace_;
  CallSelector selector_;
  const bool by_config_;  // only names and levels matter
  absl::flat_hash_set<uint64_t> open_;
  std::map<std::pair<uint32_t, uint32_t>, RecentCalls<Nothing>> recent_;  // selected ones, by process and thread
};

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_WHERE_SELECTED_CALLS_H_
