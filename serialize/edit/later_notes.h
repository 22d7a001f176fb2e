// Later notes of a trace that is written call by call.

#ifndef TORCHTRACE_SERIALIZE_EDIT_LATER_NOTES_H_
#define TORCHTRACE_SERIALIZE_EDIT_LATER_NOTES_H_

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>

#include "absl/status/status.h"
#include "serialize/edit/edit.h"
#include "serialize/trace/recent_calls.h"
#include "serialize/trace/trace.h"

namespace torchtrace {

// Knows the latest calls of each thread, and which of them were written.
class LaterNotesWriter {
 public:
  explicit LaterNotesWriter(TraceWriter* writer) : writer_(writer) {}

  // After each call's entry: its number in the trace that is read, and that of the call around it, or kNoCall.
  void AddCall(uint32_t process, uint64_t thread, uint64_t call, uint64_t parent) {
    threads_[{process, thread}].calls.Add(call, {parent, kNotWritten});
  }
  // When the call is written.
  void Written(uint32_t process, uint64_t thread, uint64_t call) {
    Thread& of = threads_[{process, thread}];
    if (Call* const known = of.calls.Find(call); known != nullptr) known->number = of.written;
    ++of.written;
  }

  // Writes a record of kind kLater. What a call launched on a device is of the call around it, if it is not written
  // itself, as readers count it.
  absl::Status Write(uint32_t process, uint64_t thread, uint64_t time, const CallRecord& record) {
    Thread& of = threads_[{process, thread}];
    const Call* const own = of.calls.Find(record.call);
    const Call* around = own;
    while (around != nullptr && around->number == kNotWritten) {
      around = around->parent == kNoCall ? nullptr : of.calls.Find(around->parent);
    }
    if (around == nullptr) return absl::OkStatus();
    const uint64_t since = of.written - 1 - around->number;
    for (const LaterNotes& later : {LaterNotes{since, LaterOf::kArguments, record.notes},
                                    LaterNotes{since, LaterOf::kResult, record.result.notes},
                                    LaterNotes{since, LaterOf::kWritten, record.result.written},
                                    LaterNotes{since, LaterOf::kDeviceWork, record.device_work}}) {
      if (later.notes.empty() || (around != own && later.of != LaterOf::kDeviceWork)) continue;
      if (absl::Status s = writer_->Later(process, thread, time, later); !s.ok()) return s;
    }
    return absl::OkStatus();
  }

 private:
  static constexpr uint64_t kNotWritten = UINT64_MAX;
  struct Call {
    uint64_t parent = kNoCall;
    uint64_t number = kNotWritten;  // among the written ones
  };
  struct Thread {
    RecentCalls<Call> calls;
    uint64_t written = 0;
  };

  TraceWriter* const writer_;
  std::map<std::pair<uint32_t, uint64_t>, Thread> threads_;
};

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_EDIT_LATER_NOTES_H_
