#include "cmd/run/run_arguments.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace torchtrace {
namespace {

bool IsProgramOption(char letter) { return letter == 'm' || letter == 'c'; }

absl::Status NeedsArgument(char letter) {
  return absl::InvalidArgumentError(letter == 'm' ? "-m needs the name of a module" : "-c needs the code to run");
}

// Puts args[first] and all behind it into the program. `option`: what stands
// for args[first], when it is -m or -c.
absl::Status TakeProgram(const std::vector<std::string>& args, size_t first, const std::string& option,
                         RunArguments* split) {
  split->program.assign(args.begin() + static_cast<ptrdiff_t>(first), args.end());
  if (option.empty()) return absl::OkStatus();
  split->program.front() = option;
  // `-mX` carries its argument; `-m` alone is followed by it.
  if (option.size() == 2 && split->program.size() < 2) return NeedsArgument(option[1]);
  return absl::OkStatus();
}

// What `--` is followed by.
absl::Status TakeAfterDashes(const std::vector<std::string>& args, size_t first, RunArguments* split) {
  if (first == args.size()) return absl::OkStatus();
  const std::string& arg = args[first];
  if (arg == "-" || arg.empty() || arg[0] != '-') return TakeProgram(args, first, "", split);
  if (IsProgramOption(arg[1])) return TakeProgram(args, first, arg, split);
  return absl::InvalidArgumentError(absl::StrCat("'", arg, "' after -- is no script, -m MODULE or -c CODE",
                                                 " (python's own options: --python-arg=", arg, ")"));
}

}  // namespace

absl::StatusOr<RunArguments> SplitRunArguments(const std::vector<std::string>& args,
                                               const OptionsWithValue& options_with_value) {
  RunArguments split;
  for (size_t i = 0; i < args.size(); ++i) {
    const std::string& arg = args[i];
    if (arg == "--") {
      if (absl::Status status = TakeAfterDashes(args, i + 1, &split); !status.ok()) return status;
      return split;
    }
    if (arg.empty() || arg[0] != '-' || arg == "-") {
      if (absl::Status status = TakeProgram(args, i, "", &split); !status.ok()) return status;
      return split;
    }
    bool value_follows = false;
    if (arg[1] == '-') {
      value_follows = options_with_value.count(arg) != 0;
    } else {
      // A bundle of short options: -qfl1, -qm pkg.
      for (size_t at = 1; at < arg.size(); ++at) {
        if (IsProgramOption(arg[at])) {
          if (at > 1) split.options.push_back(arg.substr(0, at));
          if (absl::Status status = TakeProgram(args, i, absl::StrCat("-", arg.substr(at)), &split); !status.ok()) {
            return status;
          }
          return split;
        }
        if (options_with_value.count({'-', arg[at]}) != 0) {
          value_follows = at + 1 == arg.size();
          break;
        }
      }
    }
    split.options.push_back(arg);
    if (value_follows && i + 1 < args.size()) split.options.push_back(args[++i]);
  }
  return split;
}

std::string ProgramStem(const std::vector<std::string>& program) {
  std::string name = program.empty() ? "" : program[0];
  if (name.compare(0, 2, "-c") == 0) return "c";
  if (name.compare(0, 2, "-m") == 0) {
    name = name.size() > 2 ? name.substr(2) : program.size() > 1 ? program[1] : "";
    name = std::string(absl::StripSuffix(name, ".__main__"));
    name = name.substr(name.find_last_of("./") + 1);
    return name.empty() ? "m" : name;
  }
  if (name == "-") return "stdin";
  while (name.size() > 1 && name.back() == '/') name.pop_back();
  name = name.substr(name.rfind('/') + 1);
  const size_t dot = name.rfind('.');
  if (dot != std::string::npos && dot > 0 && name != "..") name.resize(dot);
  return name.empty() || name == "." || name == ".." ? "program" : name;
}

}  // namespace torchtrace
