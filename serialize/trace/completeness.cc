#include "serialize/trace/completeness.h"

#include <cstdint>

#include "absl/strings/str_cat.h"
#include "serialize/base/counted_text.h"
#include "serialize/trace/damage.h"

namespace torchtrace {

std::vector<std::string> DescribeCompleteness(const RunFacts& facts, const CappedCounts& capped,
                                              const std::vector<std::string>& ranks) {
  std::vector<std::string> lines = ranks;
  for (const std::string& reason : facts.stopped) {
    lines.push_back(absl::StrCat("tracing stopped before the program's end: ", reason));
  }
  for (const auto& [reason, count] : facts.dropped) {
    lines.push_back(absl::StrCat(Counted(count, "call", "calls"), " dropped: ", reason));
  }
  if (facts.lost_calls > 0 || !facts.lost_calls_exact) {
    lines.push_back(
        absl::StrCat(CountLostCalls(facts.lost_calls, facts.lost_calls_exact), " lost to damage of the log"));
  }
  if (facts.unclosed > 0) {
    lines.push_back(absl::StrCat("logs not closed, of processes killed or still running: ", facts.unclosed, " of ",
                                 facts.processes));
  }
  for (const std::string& text : facts.not_seen) lines.push_back(absl::StrCat("not seen: ", text));
  if (capped.calls > 0) {
    lines.push_back(absl::StrCat("long arguments of ", Counted(capped.calls, "call", "calls"), " in ",
                                 Counted(capped.configs, "config", "configs"), " are not kept whole"));
  }
  for (const auto& [what, count] : facts.cut) lines.push_back(absl::StrCat("cut: ", count, " ", what));

  // What the program or its user left out, or the default.
  std::vector<std::string> left_out;
  if (facts.paused) left_out.emplace_back("any calls made while tracing was paused, left out");
  if (facts.getters > 0 || facts.getters_unknown) {
    left_out.push_back(absl::StrCat(facts.getters > 0 ? Counted(facts.getters, "call", "calls") : "any calls",
                                    " of property getters, left out by default (--include-getters records them)",
                                    facts.getters_unknown ? "; not counted where a process died of a signal" : ""));
  }
  if (lines.empty() && !left_out.empty()) left_out[0] = absl::StrCat("yes, but for ", left_out[0]);
  lines.insert(lines.end(), left_out.begin(), left_out.end());
  if (lines.empty()) lines.push_back("yes: no call was dropped, lost or cut");
  return lines;
}

}  // namespace torchtrace
