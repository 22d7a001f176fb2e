// What a condition of --where is asked about, and what it answers. The subject owns
// nothing: what it points to outlives the question.

#ifndef TORCHTRACE_SERIALIZE_WHERE_WHERE_SUBJECT_H_
#define TORCHTRACE_SERIALIZE_WHERE_WHERE_SUBJECT_H_

#include <cstdint>
#include <string_view>
#include <vector>

#include "serialize/model/config.h"
#include "serialize/trace/trace.h"

namespace torchtrace {

// An answer that may have to wait: for a call's thread, or for its end.
enum class Truth : uint8_t { kFalse, kTrue, kUnknown };

// Null: not known yet.
struct WhereSubject {
  const Config* config = nullptr;
  const std::vector<TensorFacet>* facets = nullptr;

  // Known from a call's entry on. `process` is the one that the call ran in.
  const CallRecord* entry = nullptr;
  const ProcessInfo* process = nullptr;

  // Known from a call's end on.
  bool ended = false;
  bool returned = false;     // with `ended`: false also for a call that never returned
  bool raised = false;       // with `ended`
  int64_t duration_ns = -1;  // -1: not known
  std::string_view exception;
};

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_WHERE_WHERE_SUBJECT_H_
