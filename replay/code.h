// Calls as Python code: `torchtrace export python`, `fx` and `pytest`. The user's Python with torch writes it
// (code.py).

#ifndef TORCHTRACE_REPLAY_CODE_H_
#define TORCHTRACE_REPLAY_CODE_H_

#include <ostream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "nlohmann/json.hpp"
#include "replay/replay.h"
#include "replay/worker_process.h"
#include "serialize/trace/trace.h"
#include "serialize/where/call_selection.h"

namespace torchtrace {

class CodeWriter {
 public:
  // `format` is "python", "fx" or "pytest", `python` the program that writes it.
  CodeWriter(std::string format, std::string python) : format_(std::move(format)), python_(std::move(python)) {}

  // python, fx: of one trace the outermost calls of the selection, at its level or, if it names none, at the first of
  // the levels 1, 0, 2 and 4 that the trace has.
  absl::Status AddProgram(Trace* trace, std::string_view label, CallSelection selection);
  // pytest: each config of the plan's trace.
  absl::Status AddCases(ReplayPlan* plan, std::string_view label);
  // Adds to `notes` what was left out. Aborted when `out` fails.
  absl::Status Finish(std::ostream* out, std::vector<std::string>* notes);

 private:
  absl::Status Start();
  absl::Status Ended() const;
  absl::Status Send(const nlohmann::ordered_json& request, const std::vector<std::string_view>& contents = {});

  const std::string format_;
  const std::string python_;
  WorkerProcess worker_;
  nlohmann::ordered_json about_;  // what the code's head and notes say
};

}  // namespace torchtrace

#endif  // TORCHTRACE_REPLAY_CODE_H_
