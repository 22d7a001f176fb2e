// Which records of a trace are of calls that an export wants.

#ifndef TORCHTRACE_SERIALIZE_EXPORT_SELECTED_CALLS_H_
#define TORCHTRACE_SERIALIZE_EXPORT_SELECTED_CALLS_H_

#include <cstdint>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "serialize/trace/trace.h"
#include "serialize/where/call_selection.h"

namespace torchtrace {

// A call is asked about at its entry; its end goes with it.
class SelectedCalls {
 public:
  SelectedCalls(Trace* trace, const CallSelection& selection) : selector_(trace, selection) {}

  absl::Status Prepare() { return selector_.Prepare(); }

  // Of each record of the trace, in order.
  bool Wants(const CallRecord& record) {
    if (record.kind != CallRecord::kEnter) return open_.erase(record.call) > 0;
    if (record.config == kLostId || !selector_.Accepts(record)) return false;
    open_.insert(record.call);
    return true;
  }

 private:
  CallSelector selector_;
  absl::flat_hash_set<uint64_t> open_;
};

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_EXPORT_SELECTED_CALLS_H_
