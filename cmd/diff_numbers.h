// `torchtrace diff --numbers`: its options, and the remark on numbers that other comparisons leave out.

#ifndef TORCHTRACE_CMD_DIFF_NUMBERS_H_
#define TORCHTRACE_CMD_DIFF_NUMBERS_H_

#include <string>
#include <vector>

#include "cmd/cli/options.h"
#include "serialize/diff/reports.h"
#include "serialize/trace/trace.h"

namespace torchtrace {

class NumberFlags {
 public:
  // Must outlive the parsing.
  void AddTo(App* app);

  // After parsing.
  bool on() const { return numbers_; }
  // The scope ignores what differs between precisions and devices, too.
  NumberDiffOptions Apply(DiffOptions* options, const std::vector<std::string>& ignored) const;

 private:
  bool numbers_ = false;
  std::string rtol_, atol_;
};

// What a comparison without --numbers leaves out, if both traces hold it. Empty: nothing.
std::string NumbersLeftOut(const std::string& a_path, const Trace& a, const std::string& b_path, const Trace& b);

}  // namespace torchtrace

#endif  // TORCHTRACE_CMD_DIFF_NUMBERS_H_
