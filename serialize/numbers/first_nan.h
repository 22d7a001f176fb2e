// `torchtrace nan`: where the first NaN or infinity of each process comes from, and what it reached.

#ifndef TORCHTRACE_SERIALIZE_NUMBERS_FIRST_NAN_H_
#define TORCHTRACE_SERIALIZE_NUMBERS_FIRST_NAN_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "serialize/model/tensor_notes.h"
#include "serialize/model/value.h"
#include "serialize/numbers/bad_storages.h"
#include "serialize/trace/trace.h"
#include "serialize/where/call_selection.h"

namespace torchtrace {

// The part of a training step that a call belongs to.
enum class StepPart : uint8_t { kUnknown, kForward, kBackward, kRecomputed, kOptimizer };

// A call, without its tensors.
struct NanCall {
  uint64_t call = 0;
  uint32_t process = 0;
  uint32_t thread = 0;
  uint8_t level = 0;
  ConfigId config = kLostId;
  VariantId variant = kLostId;
  uint32_t tags = kNoTags;
  StackId stack = kNoStack;   // its own, or that of the innermost call around it that has one
  ConfigId module = kLostId;  // the innermost call of a module around it, or itself
  StepPart part = StepPart::kUnknown;
  int64_t time_ns = 0;  // of its entry
};

// A tensor of a call.
struct NanTensor {
  std::string name;  // `0`, `1[2]`, `out`: its place among the arguments or results
  Value tensor;
  TensorNote note;     // without contents
  uint8_t held = 0;    // of the kinds that count
  bool known = false;  // note.numbers, or what earlier calls tell
};

// A call that made a NaN or infinity, or that first showed one.
struct NanFinding {
  enum How : uint8_t {
    kMade,      // its arguments held none
    kCameIn,    // an argument, or what it read from outside, holds it; no recorded call had made it
    kReturned,  // its result holds it; what it took isn't known
  };
  How how = kMade;
  uint8_t kinds = 0;  // kHoldsNan, kHoldsInfinity
  NanCall call;
  struct Around {
    uint64_t call = 0;
    uint8_t level = 0;
    ConfigId config = kLostId;
  };
  std::vector<Around> around;      // the calls around it, outermost first
  std::optional<NanCall> forward;  // of a backward call: what it is the backward of, if that is known
  bool literal = false;            // the program's text gave the NaN, as in fill_(nan)
  std::vector<NanTensor> arguments, result, written;
  std::string came_in_by;  // kCameIn: the argument's name; empty: by the result
  // The last call that wrote there, whose numbers weren't recorded, such as a collective. kMade: an argument without
  // numbers is from there.
  std::optional<NanCall> last_touched;
  // kMade: the names of arguments that no recorded call made and that have no numbers, so that they may have held it.
  std::vector<std::string> outside;
};

// What was reached after the first finding. Only calls of one level count, operators if there are any.
struct NanSpread {
  uint8_t level = 0;
  uint64_t later = 0;         // calls with numbers
  uint64_t reached = 0;       // of these, those whose results or written tensors hold it
  uint64_t in_backward = 0;   // of those reached
  std::vector<NanCall> next;  // the first ones
  std::optional<NanCall> first_gradient;
  std::optional<NanCall> first_parameter;
  ConfigId parameter_module = kLostId;  // that used the parameter first
  std::optional<NanCall> last;
};

struct NanCounts {
  uint64_t calls = 0;                              // with numbers of what they return or write
  uint64_t tensors = 0;                            // these tensors
  uint64_t without = 0;                            // results that should have numbers and have none
  std::map<std::string, uint64_t> without_by_api;  // of them; the first APIs
  uint64_t arguments = 0;
  uint64_t arguments_without = 0;
  uint64_t too_late = 0;  // tensors whose numbers came too long after their calls to be read
};

struct ProcessNans {
  std::vector<NanFinding> findings;  // the first one; then the first NaN if that was an infinity
  uint64_t more = 0;                 // further calls that made one, or showed one from outside
  struct Light {
    NanCall call;
    NanFinding::How how;
    uint8_t kinds;
  };
  std::vector<Light> more_first;  // the first ones
  uint64_t meant = 0;             // calls that made infinities as the program asked
  std::optional<NanCall> meant_first;
  uint64_t left_out = 0;  // findings that the selection left out
  NanSpread spread;
  NanCounts counts;
  bool has_numbers = false;  // or contents
  bool has_results = false;
  bool forgot = false;
};

// A selection decides only which calls may be findings.
struct NanOptions : CallSelection {
  bool nan_only = false;
  bool json = false;
  bool color = false;
  size_t width = 0;  // of a line of text, in characters; 0: unlimited
};

// By process. Reads the trace once; one with notes that came later than their calls again from the first of these on,
// with the memory that LaterNotesReader says. Memory grows with processes, threads, open calls, configs, parameters and
// storages that hold a NaN or infinity, of the last of which it keeps a limited number. FailedPrecondition if there are
// neither numbers nor contents of what calls return.
absl::StatusOr<std::vector<ProcessNans>> FindNans(Trace* trace, const NanOptions& options);

struct NanTrace {
  Trace* trace = nullptr;
  std::string name;
};
// A finding as text: its headline, and lines of a label and what it is.
struct NanDescription {
  std::string title;
  std::vector<std::pair<std::string, std::string>> lines;
};
// Those of a trace, the first one first. Errors as FindNans.
absl::StatusOr<std::vector<NanDescription>> DescribeNans(const NanTrace& trace, const NanOptions& options);
// Finds and writes them. True: there is one. `notes` gets remarks to print with the report. Aborted when `out` fails.
absl::StatusOr<bool> WriteNans(const std::vector<NanTrace>& traces, const NanOptions& options, std::ostream* out);

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_NUMBERS_FIRST_NAN_H_
