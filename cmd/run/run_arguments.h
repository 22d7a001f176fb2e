// Where torchtrace's own options end and the traced program begins.
//
//   run -l 1,2 train.py --lr 1     options `-l 1,2`, program `train.py --lr 1`
//   run -q -m pkg.train -l x       options `-q`, program `-m pkg.train -l x`
//   run -qc 'print(1)'             options `-q`, program `-c 'print(1)'`
//   run -o out -- train.py         the same without the `--`
//
// The program's part stands as python would be given it.

#ifndef TORCHTRACE_CMD_RUN_RUN_ARGUMENTS_H_
#define TORCHTRACE_CMD_RUN_RUN_ARGUMENTS_H_

#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace torchtrace {

// The options that are followed by a value, as typed ("--output", "-o"). All
// others are taken for flags.
using OptionsWithValue = std::set<std::string>;

struct RunArguments {
  std::vector<std::string> options;
  std::vector<std::string> program;  // empty: none was named
};

// InvalidArgument: `-m` or `-c` without what they need, or an option of python's
// after `--`.
absl::StatusOr<RunArguments> SplitRunArguments(const std::vector<std::string>& args,
                                               const OptionsWithValue& options_with_value);

// What the trace is named after: the script without its folder and suffix, the
// module's last part (`pkg` for pkg.__main__), `c` for -c, `stdin` for `-`.
std::string ProgramStem(const std::vector<std::string>& program);

}  // namespace torchtrace

#endif  // TORCHTRACE_CMD_RUN_RUN_ARGUMENTS_H_
