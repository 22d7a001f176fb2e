// The reports of a comparison, and what they are made of: both sides, colours, texts with what changed.

#ifndef TORCHTRACE_SERIALIZE_DIFF_REPORTS_H_
#define TORCHTRACE_SERIALIZE_DIFF_REPORTS_H_

#include <cstdint>
#include <ostream>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "serialize/base/choices.h"
#include "serialize/diff/config_diff.h"
#include "serialize/diff/number_diff.h"
#include "serialize/diff/sequence_diff.h"
#include "serialize/model/config.h"
#include "serialize/trace/trace.h"

namespace torchtrace {

// Runs a() and b(), one for each trace of a diff, in parallel where a second thread can be started: the traces share
// nothing. Both return absl::Status; if both fail, the result is a's error.
template <typename A, typename B>
absl::Status DoBoth(const A& a, const B& b) {
  absl::Status b_status;
  std::thread thread;
  try {
    thread = std::thread([&] { b_status = b(); });
  } catch (const std::system_error&) {
    // Without a second thread, one after the other.
  }
  absl::Status a_status;
  try {
    a_status = a();
  } catch (...) {
    // The caller of the verb has stopped it (cmd/cli/verb_host.h).
    if (thread.joinable()) thread.join();
    throw;
  }
  if (thread.joinable()) {
    thread.join();
  } else {
    b_status = b();
  }
  return a_status.ok() ? b_status : a_status;
}

// A piece of a line that shows two configs at once: either their common text, or the text before and after.
//
//   torch.add(Tensor([8 -> 16, 128], "float32"), alpha=10)
struct TextPiece {
  bool same = true;
  std::string before;  // same: the common text
  std::string after;   // same: empty
};

// Compares two lines of the text form. Pieces are whole tokens: numbers, strings, names.
std::vector<TextPiece> CompareLines(std::string_view before, std::string_view after);
// Compares two configs. A part of a tensor that the text of one of them leaves out as the default is shown where it
// differs: `device="cpu -> cuda:0"`.
std::vector<TextPiece> CompareTexts(Config before, Config after);

// The pieces as one line. With colour, removed text is red and added text green.
std::string FormatPieces(const std::vector<TextPiece>& pieces, bool color);

enum class DiffFormat : uint8_t { kText, kJson, kMarkdown };
const Choices<DiffFormat>& DiffFormats();

struct DiffOptions {
  DiffScope scope;
  bool compare_counts = true;
  std::vector<std::string> ignored;  // what the scope ignores, and "counts", as the report names it
  std::string a_name = "A";          // of the traces
  std::string b_name = "B";
  DiffFormat format = DiffFormat::kText;
  bool color = false;    // ANSI colours; text only
  bool summary = false;  // numbers only
  uint64_t top = 0;      // at most so many APIs and configs, the most called first; 0: all
  // Text: if there are more rows than this, leaves out those that the common changes explain, then the last ones; 0: no
  // limit.
  uint64_t max_rows = 0;
};

// `text` as code in a cell of a Markdown table; bars and backticks in it are safe.
std::string MarkdownCode(std::string_view text);

// `torchtrace diff`: the report of what config_diff.h finds, as text, JSON or
// Markdown. The text for two traces without a difference is empty, unless the
// summary was asked for.
//
// JSON: {"different", "ignored": [names], "a": {"trace", "calls", "apis",
// "configs"}, "b": the same, "summary": {"apis": {"removed", "added", "count",
// "same"}, "configs": {the same and "changed"}}, "changes": [{"what": "batch", "size", "dtype", "device", "value" or
// "calls", "a", "b", "configs", "apis", "multiples": [{"a", "b", "configs"}]}], "apis": [{"change", "level",
// "api", "a_calls", "b_calls"}], "configs": [{the same, "a", "b": lines of text,
// "differences": [{"a", "b"}]}], rows that the changes explain with "explained": true, "left_out": {"apis", "configs"}}
//
// Returns whether they differ, even if writing to `out` fails: check its state.
absl::StatusOr<bool> WriteConfigDiff(Trace* a, Trace* b, const DiffOptions& options, std::ostream* out);

// `torchtrace diff --sequence`: the report of what sequence_diff.h finds, as text,
// JSON or Markdown. Calls have the numbers that `torchtrace dump` shows. The text
// for two traces without a difference is empty, unless the summary was asked for.
//
// JSON: {"different", "ignored": [names], "shortest", "a": {"trace", "calls"}, "b":
// the same, "summary": {"same", "changed", "removed", "added", "hunks", "sequences",
// "sequences_that_differ"}, "first_divergence": {"sequence": index, "a_call",
// "b_call", "inside": [{"call", "config"}], "inside_of": "a" or "b"} or null,
// "sequences": [{"a_thread", "b_thread", "level", "a_calls", "b_calls", "same",
// "changed", "removed", "added", "hunks_found", "hunks": [{"a_first", "a_count",
// "b_first", "b_count", "inside", "inside_of", "lines": [{"change", "depth",
// "a_call", "b_call", "config", or "a" and "b"}], "lines_left_out"}]}]}
// Sequences that are the same have no "hunks".
//
// FailedPrecondition if a trace has calls without order (CountOnlyCounted). Returns whether they differ, even if
// writing to `out` fails: check its state.
absl::StatusOr<bool> WriteSequenceDiff(Trace* a, Trace* b, const DiffOptions& options,
                                       const SequenceOptions& sequence_options, std::ostream* out);

// `torchtrace diff --numbers`: the report of what number_diff.h finds, also where nothing differs: then it says what
// was compared. docs/DIFF.md describes the JSON.
//
// FailedPrecondition if a trace has calls without order, or no tensor could be compared. Returns whether they differ
// beyond the tolerances, even if writing to `out` fails: check its state.
absl::StatusOr<bool> WriteNumberDiff(Trace* a, Trace* b, const DiffOptions& options,
                                     const NumberDiffOptions& number_options, std::ostream* out);

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_DIFF_REPORTS_H_
