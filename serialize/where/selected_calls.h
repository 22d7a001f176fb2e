// Which records of a trace are of calls that are meant.

#ifndef TORCHTRACE_SERIALIZE_WHERE_SELECTED_CALLS_H_
#define TORCHTRACE_SERIALIZE_WHERE_SELECTED_CALLS_H_

#include <cstdint>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "serialize/trace/trace.h"
#include "serialize/where/call_selection.h"

namespace torchtrace {

// A call is asked about at its entry; its end goes with it.
class SelectedCalls {
 public:
  SelectedCalls(Trace* trace, const CallSelection& selection)
      : selector_(trace, selection), by_config_(!selection.ChoosesCalls()) {}

  absl::Status Prepare() { return selector_.Prepare(); }

  // Of each record of the trace, in order.
  bool Wants(const CallRecord& record) {
    // A call's end has its configuration: nothing has to be kept of the entry.
    if (by_config_) return record.config != kLostId && selector_.AcceptsCall(record);
    if (record.kind != CallRecord::kEnter) return open_.erase(record.call) > 0;
    if (record.config == kLostId || !selector_.Accepts(record)) return false;
    open_.insert(record.call);
    return true;
  }

 private:
  CallSelector selector_;
  const bool by_config_;  // names and levels alone say it
  absl::flat_hash_set<uint64_t> open_;
};

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_WHERE_SELECTED_CALLS_H_
