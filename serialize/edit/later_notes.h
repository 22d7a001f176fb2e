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

// Knows the latest calls of each thread that were written.
class LaterNotesWriter {
 public:
  explicit LaterNotesWriter(TraceWriter* writer) : writer_(writer) {}

  // After each call's entry, which is `call` in the trace that is read.
  void AddCall(uint32_t process, uint64_t thread, uint64_t call) { threads_[{process, thread}].Add(call, {}); }

  // Writes a record of kind kLater, unless its call was not written.
  absl::Status Write(uint32_t process, uint64_t thread, uint64_t time, const CallRecord& record) {
    RecentCalls<Nothing>& calls = threads_[{process, thread}];
    if (calls.Find(record.call) == nullptr) return absl::OkStatus();
    const uint64_t since = calls.AddedSince(record.call);
    for (const LaterNotes& later : {LaterNotes{since, LaterOf::kArguments, record.notes},
                                    LaterNotes{since, LaterOf::kResult, record.result.notes},
                                    LaterNotes{since, LaterOf::kWritten, record.result.written},
                                    LaterNotes{since, LaterOf::kDeviceWork, record.device_work}}) {
      if (later.notes.empty()) continue;
      if (absl::Status s = writer_->Later(process, thread, time, later); !s.ok()) return s;
    }
    return absl::OkStatus();
  }

 private:
  struct Nothing {};

  TraceWriter* const writer_;
  std::map<std::pair<uint32_t, uint64_t>, RecentCalls<Nothing>> threads_;
};

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_EDIT_LATER_NOTES_H_
