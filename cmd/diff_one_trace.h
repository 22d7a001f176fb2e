// `torchtrace diff` of one trace: what of it is compared with what.

#ifndef TORCHTRACE_CMD_DIFF_ONE_TRACE_H_
#define TORCHTRACE_CMD_DIFF_ONE_TRACE_H_

#include "cmd/reading/reading_options.h"
#include "serialize/diff/one_trace.h"

namespace torchtrace {

enum class OneTraceDiff : uint8_t { kRecomputed, kAcrossRanks };

// Returns the exit code. `options` lack what `selection` chooses.
int RunOneTraceDiff(OneTraceDiff kind, OneTraceDiffOptions options, CallSelectionOptions* selection, bool no_pager,
                    bool quiet);

}  // namespace torchtrace

#endif  // TORCHTRACE_CMD_DIFF_ONE_TRACE_H_
