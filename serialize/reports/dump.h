// `torchtrace dump`: one line per call in program order, indented by nesting,
// with its duration, the type of the exception it raised, or a mark that it
// never returned. Streams: a call's line waits for its end only while fewer
// than kMaxWaitingCalls lines wait; then it is written as `<unfinished>`, and a
// line of its own tells how it ended.

#ifndef TORCHTRACE_SERIALIZE_REPORTS_DUMP_H_
#define TORCHTRACE_SERIALIZE_REPORTS_DUMP_H_

#include <cstdint>
#include <optional>
#include <ostream>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "serialize/base/glob.h"
#include "serialize/forms/stack_text.h"
#include "serialize/trace/trace.h"

namespace torchtrace {

inline constexpr uint64_t kMaxWaitingCalls = 100'000;

// Numbers of calls in the trace, from 0, both ends included.
struct CallRange {
  uint64_t first = 0;
  uint64_t last = UINT64_MAX;
};
// `A-B`, `A-`, `-B` or `A`. InvalidArgument says what was expected.
absl::StatusOr<CallRange> ParseCallRange(std::string_view text);

enum class DumpFormat : uint8_t { kText, kJsonl };
absl::StatusOr<DumpFormat> ParseDumpFormat(std::string_view text);

struct DumpOptions {
  CallRange calls;
  GlobFilter filter;        // over API names
  std::vector<int> levels;  // empty: all
  DumpFormat format = DumpFormat::kText;
  bool color = false;  // ANSI colours; text only
  // Shows calls' whole stacks, in this form.
  std::optional<StackFormat> stacks;
  uint64_t max_waiting_calls = kMaxWaitingCalls;
};

// Aborted when `out` fails, and then at once.
absl::Status WriteDump(Trace* trace, const DumpOptions& options, std::ostream* out);

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_REPORTS_DUMP_H_
