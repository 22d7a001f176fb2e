// Merge makes one log of many traces: of processes, ranks, runs, models. The log has
// the processes of each input, in the order given; how they are ordered by time
// is the reader's work (process_order.h), so that merging is associative. Frames of logs
// are copied as they are, calls of other formats written anew; memory goes
// with the configurations of the latter, and one input is open at a time.
//
// The metadata of each process says where it came from: `source`, `label`, `rank`,
// `world_size` (docs/FORMAT.md). What an input says already is kept.

#ifndef TORCHTRACE_SERIALIZE_EDIT_MERGE_H_
#define TORCHTRACE_SERIALIZE_EDIT_MERGE_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "serialize/edit/trace_writer.h"
#include "serialize/trace/reading_observer.h"
#include "serialize/trace/trace.h"

namespace torchtrace {

struct MergeInput {
  std::string path;   // anything that OpenTrace reads
  std::string label;  // empty: none
};

// The inputs that are meant by `input`: itself, or, when it is a folder that is no trace
// and holds some, each of them, by name. NotFound, PermissionDenied or InvalidArgument name the path.
absl::StatusOr<std::vector<MergeInput>> ExpandMergeInput(const MergeInput& input);

// Opens every input, so that what can't be read is said before anything is written:
// damage and other tools' syntax errors excepted, and standard input, which must be there once.
absl::Status CheckMergeInputs(const std::vector<MergeInput>& inputs);

// Bytes of the logs, or of the file, at `path`; 0 when that can't be known.
uint64_t MergeInputBytes(const std::string& path);

// Writes the processes of `trace` into `writer`. `progress` as in TraceWriter.
absl::Status MergeTrace(Trace* trace, const std::string& label, TraceWriter* writer,
                        const TraceWriter::Progress& progress = nullptr);

// All inputs, one after the other, into a log at `path`, which must not exist. `notes`
// gets what the formats of inputs can't say, each sentence once; `observer` is told of inputs that
// are read and not copied, standard input and other formats. Any of them may be null.
absl::Status MergeInputs(const std::vector<MergeInput>& inputs, const std::string& path,
                         const TraceWriter::Progress& progress = nullptr, std::vector<std::string>* notes = nullptr,
                         ReadingObserver* observer = nullptr);

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_EDIT_MERGE_H_
