// Where two runs of a program begin to compute something else: the numbers of the tensors that their calls take, return
// and write, compared call by call.

#ifndef TORCHTRACE_SERIALIZE_DIFF_NUMBER_DIFF_H_
#define TORCHTRACE_SERIALIZE_DIFF_NUMBER_DIFF_H_

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "serialize/diff/call_sequences.h"
#include "serialize/diff/config_diff.h"
#include "serialize/model/tensor_notes.h"
#include "serialize/model/value.h"
#include "serialize/numbers/tensor_comparison.h"
#include "serialize/trace/parsed_tags.h"
#include "serialize/trace/trace.h"

namespace torchtrace {

struct NumberDiffOptions {
  ToleranceOptions tolerances;
  bool levels_together = false;  // one sequence per thread instead of one per level
  bool all = false;              // keep every call that differs
  std::string a_name = "A";      // of the traces, for errors
  std::string b_name = "B";
};

// Whether it was recorded with numbers or contents of tensors (`run --numbers`, `--values`).
bool HoldsNumbers(const ProcessInfo& process);

// The tag `step`, or all tags if there is none of that name; empty: there are no tags.
std::string StepText(ParsedTags* tags, const Trace& trace, uint32_t tag);

// A call that both traces have.
struct CallInBoth {
  uint64_t a_call = kNoCall;
  uint64_t b_call = kNoCall;
  ConfigId a_config = kLostId;
  ConfigId b_config = kLostId;
  StackId a_stack = kNoStack;
  StackId b_stack = kNoStack;
  ThreadId a_thread;
  ThreadId b_thread;
  uint32_t tags = kNoTags;     // of A
  ConfigId module = kLostId;   // of A: the innermost call of a module around it, or itself
  bool other_numbers = false;  // its arguments have other sizes or numbers
};

enum class TensorPlace : uint8_t { kArgument, kResult, kWritten };

// A tensor of a call in both traces.
struct TensorInBoth {
  TensorPlace place = TensorPlace::kResult;
  uint64_t position = 0;  // TensorNote::position
  Value a;                // describe it
  Value b;
  std::optional<TensorNote::Numbers> a_numbers;
  std::optional<TensorNote::Numbers> b_numbers;
  TensorComparison comparison;
};

// Where a difference comes from.
enum class Origin : uint8_t {
  kComputed,     // the call: its arguments are the same, its results are not
  kOutside,      // no recorded call: data, parameters, NumPy
  kOverwritten,  // no recorded call: the last that returned or wrote it did so in both alike
  kCollective,   // a collective, whose result arrived after its end
  kOnlyInOne,    // a call that only one trace has
  kUncompared,   // a call whose results could not be compared
  kUnknown,      // the traces don't say which tensor it is
};

struct SourceCall {
  bool of_a = true;
  uint64_t call = kNoCall;
  ConfigId config = kLostId;
};

struct FirstDifference {
  Origin origin = Origin::kComputed;
  CallInBoth call;
  TensorInBoth tensor;
  // kOverwritten, kCollective, kOnlyInOne, kUncompared: the calls that last returned or wrote the tensor.
  std::vector<SourceCall> sources;
  // The argument that has this origin, if `tensor` is what the call returned or wrote: the argument's numbers are
  // unknown.
  std::optional<uint64_t> suspect;
  Likeness arguments = Likeness::kUnknown;  // of the call, the worst
  // kComputed: arguments that could not be compared, in the order of the call's tensors.
  std::vector<uint64_t> unknown_arguments;
  // kOutside: the call takes a NumPy array or another object, of which a trace has no numbers.
  bool from_object = false;
  // The innermost call of level 0 or 1 around it, of A.
  uint64_t inside = kNoCall;
  ConfigId inside_config = kLostId;
  // kOutside of what a call returned or what is inside of one: the first call after it that takes something different.
  std::optional<std::pair<CallInBoth, TensorInBoth>> taken;
};

// Calls of one step and module, or of one API.
struct NumberRow {
  uint64_t first = kNoCall;  // of A
  uint64_t calls = 0;        // compared
  uint64_t different = 0;    // beyond the tolerances
  uint64_t close = 0;
  double relative = -1;  // the largest of the differences; -1: none
  CallInBoth call;       // that has it
};

// A call with a difference, for lists.
struct DifferingCall {
  CallInBoth call;
  Likeness arguments = Likeness::kUnknown;
  Likeness results = Likeness::kUnknown;
  TensorPlace place = TensorPlace::kResult;  // of the largest difference
  uint64_t position = 0;
  double relative = 0;
};

struct NumberDiff {
  uint64_t a_calls = 0;  // in the scope
  uint64_t b_calls = 0;
  uint64_t aligned = 0;        // calls that both have
  uint64_t other_numbers = 0;  // of these, with other sizes or numbers as arguments
  uint64_t only_in_a = 0;
  uint64_t only_in_b = 0;
  bool shortest = true;  // false: another alignment may have more calls in both

  uint64_t compared_calls = 0;
  uint64_t different_calls = 0;
  uint64_t close_calls = 0;
  uint64_t computed_calls = 0;           // different though their arguments are not
  std::array<uint64_t, 4> tensors = {};  // by Likeness; kUnknown: one or both have no numbers
  uint64_t without_numbers_in_one = 0;   // of the unknown ones
  uint64_t without_numbers_in_a = 0;     // of these, those that A has none of
  uint64_t other_shapes = 0;             // of the unknown ones
  uint64_t too_late = 0;                 // tensors whose numbers came too long after their calls to be read
  bool compiled = false;                 // one of the traces is of a compiled program, the other isn't
  uint64_t in_backward = 0;              // calls that were not compared, because compilation changes their order
  // Tensors that were compared and have other dtypes or devices, by these: `float32 -> bfloat16`.
  std::map<std::pair<std::string, std::string>, uint64_t> other_dtypes;
  std::map<std::pair<std::string, std::string>, uint64_t> other_devices;
  std::map<std::string, Tolerances> tolerances;  // by dtype, as far as they were used

  std::optional<FirstDifference> first;          // beyond the tolerances
  std::optional<FirstDifference> first_in_bits;  // of equal dtypes and devices; where it isn't `first`

  bool by_module = false;  // rows are modules, not APIs
  // By step and module, in the order of their first calls; without rows that have nothing but equal tensors.
  std::vector<std::pair<std::pair<std::string, std::string>, NumberRow>> rows;
  std::vector<DifferingCall> calls;  // with NumberDiffOptions::all

  uint64_t compared_tensors() const { return tensors[1] + tensors[2] + tensors[3]; }
  bool different() const { return different_calls > 0; }
};

// Fills `configs`, which must be empty. The scope should ignore dtypes, devices and strides. FailedPrecondition if no
// tensor can be compared. Reads each trace twice. Memory grows with the calls as for CompareSequences, with the rows,
// and as PartnerCalls and LaterNotesReader say; of tensors, only the storages touched last are known.
absl::StatusOr<NumberDiff> CompareNumbers(Trace* a, Trace* b, const DiffScope& scope, const NumberDiffOptions& options,
                                          CommonConfigs* configs);

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_DIFF_NUMBER_DIFF_H_
