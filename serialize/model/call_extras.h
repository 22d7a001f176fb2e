// Data of a single call that is not part of its configuration, including its result.

#ifndef TORCHTRACE_SERIALIZE_MODEL_CALL_EXTRAS_H_
#define TORCHTRACE_SERIALIZE_MODEL_CALL_EXTRAS_H_

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "serialize/model/record_facts.h"

namespace torchtrace {

// Notes that are taken only for the first calls of a configuration.
class FirstNotes {
 public:
  // All notes on the call's tensors; they replace CallExtras::notes.
  virtual std::string_view Take() = 0;

 protected:
  ~FirstNotes() = default;
};

struct CallExtras {
  const RecordFacts* facts = nullptr;  // level 4 only
  std::string_view notes = {};         // on its tensors (tensor_notes.h); empty: none
  FirstNotes* first_notes = nullptr;   // null: none
};

struct CallResult {
  std::string_view values = {};   // varint n, value * n (value.h); empty: unknown, or the call raised
  std::string_view notes = {};    // on the tensors among the values
  std::string_view written = {};  // on tensors of the call that it wrote, as they were after it; empty: none

  bool known() const { return !values.empty(); }
  size_t bytes() const { return values.size() + notes.size() + written.size(); }
};

// What of a call became known later: notes on tensors, or the work that it launched on devices (device_work.h). The
// numbers are those of the log.
enum class LaterOf : uint8_t { kArguments = 0, kResult = 1, kWritten = 2, kDeviceWork = 3 };
inline constexpr uint64_t kLaterKinds = 4;

// Of how many calls, the latest of their thread, later notes are still written and read.
inline constexpr uint64_t kRecentCalls = 1 << 16;

// Notes on an earlier call, made when a device had computed them.
struct LaterNotes {
  uint64_t calls_since = 0;  // how many calls its thread has entered since that one
  LaterOf of = LaterOf::kArguments;
  std::string_view notes = {};
};

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_MODEL_CALL_EXTRAS_H_
