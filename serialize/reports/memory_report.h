// `torchtrace memory`: the most memory that a program had, and who had made what was alive then.

#ifndef TORCHTRACE_SERIALIZE_REPORTS_MEMORY_REPORT_H_
#define TORCHTRACE_SERIALIZE_REPORTS_MEMORY_REPORT_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <ostream>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "serialize/base/choices.h"
#include "serialize/model/memory_event.h"
#include "serialize/trace/trace.h"

namespace torchtrace {

// What tells apart who made memory.
enum class MemoryBy : uint8_t { kApi, kModule, kLine, kKind };
const Choices<MemoryBy>& MemoryGroupings();

// "cpu", "cuda:0".
std::string DeviceName(const MemoryDevice& device);

// What lived on a device over time, by kind: of each span of time the moment with the most bytes.
struct MemoryHistory {
  uint32_t process = 0;
  MemoryDevice device;
  // By moment; times as CallRecord::time_ns.
  std::vector<int64_t> time_ns;
  std::map<std::string, std::vector<uint64_t>> bytes;  // from then on
};

struct MemoryOptions {
  MemoryBy by = MemoryBy::kApi;
  uint64_t top = 20;  // rows of a device; the others are one row. 0: all
  bool json = false;
  // Gets each device's history, of at most so many moments.
  std::vector<MemoryHistory>* history = nullptr;
  size_t moments = 2000;
};

// By process and device. Rows sum to the peak. Reads the trace twice; memory grows with the blocks that live at a time.
// `notes` gets a sentence for each thing that the figures lack. FailedPrecondition if memory was not recorded, or
// nothing of what rows are by; Aborted when `out` fails.
absl::Status WriteMemory(Trace* trace, const std::string& name, const MemoryOptions& options, std::ostream* out,
                         std::vector<std::string>* notes);

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_REPORTS_MEMORY_REPORT_H_
