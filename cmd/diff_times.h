// `torchtrace diff --time` and `--fail-on`: their options, and the comparison.

#ifndef TORCHTRACE_CMD_DIFF_TIMES_H_
#define TORCHTRACE_CMD_DIFF_TIMES_H_

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cmd/cli/options.h"
#include "cmd/reading/reading_options.h"
#include "serialize/diff/reports.h"
#include "serialize/trace/trace.h"

namespace torchtrace {

class TimeFlags {
 public:
  // Must outlive the parsing.
  void AddTo(App* app);

  // After parsing.
  bool times() const { return times_; }  // also if a gate needs them
  bool gates() const { return !gates_.empty(); }
  // What was given of these options; empty: nothing.
  std::string Given() const;
  // InvalidArgument for options that need others.
  absl::Status Check(DiffFormat format);
  void Apply(DiffOptions* options) const;

  // `top`: rows, if the user says so; 0: all. Returns whether a gate fires. `notes` gets remarks to print.
  absl::StatusOr<bool> Write(const std::string& a_path, const std::string& b_path, Trace* a, Trace* b,
                             CallSelectionOptions* selection, const DiffOptions& options, std::optional<uint64_t> top,
                             ReadingProgress* progress, std::ostream* out, std::vector<std::string>* notes) const;

 private:
  bool times_ = false;
  std::string by_ = "api", sort_ = "delta";
  std::vector<std::string> fail_on_, only_;
  std::vector<Gate> gates_;
  Option* by_option_ = nullptr;
  Option* sort_option_ = nullptr;
};

}  // namespace torchtrace

#endif  // TORCHTRACE_CMD_DIFF_TIMES_H_
