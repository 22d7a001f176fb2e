// The frameworks that this build knows, with what is known without loading them: one row each. The code that records
// their calls registers with the runtime library (cmd/run/runtime_entry.cc).

#ifndef TORCHTRACE_DIALECTS_TABLE_DIALECTS_H_
#define TORCHTRACE_DIALECTS_TABLE_DIALECTS_H_

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "serialize/apis/api_names.h"
#include "serialize/apis/apis.h"

namespace torchtrace {

struct DialectInfo {
  const char* name;  // for --dialect; also the Python package
  const char* title;
  std::vector<const char*> distributions;  // that contain the package, the usual one first
  std::vector<int> default_levels;         // of `run` without --levels
  std::vector<const char*> variables;      // prefixes of environment variables that change what it does
  std::string_view api_list;               // the default list, in a form of serialize/apis/apis.h
  std::string_view api_rules;              // what lists of its APIs leave out (dialects/scan/scan.h)
  std::string_view api_names;              // all names of its APIs and operators, in any version: a table of ApiNames
};

// The first one is the default.
std::span<const DialectInfo> AllDialects();

// Null if there is none.
const DialectInfo* FindDialectInfo(std::string_view name);

// The same, or the first one: for dialects written in Python, whose names have a colon.
const DialectInfo& DialectInfoOr(std::string_view name);

// "torch", "paddle".
std::vector<std::string> DialectNames();
// "torch, paddle".
std::string DescribeDialects();

// InvalidArgument, with the choices, for a name that is neither known nor module:Class.
absl::Status CheckDialectName(const std::string& name);

// The default list for an installed or traced version of the library; the newest one if that is empty (ParseApiList).
absl::StatusOr<ApiList> DefaultApiList(const DialectInfo& dialect, const std::string& version);

// `api_names` of all dialects.
std::vector<std::string_view> ApiNameTables();
const ApiNames& KnownApiNames();

// The version installed in these folders (tracer/launch/find_python.h); empty: not installed.
std::string InstalledVersion(const DialectInfo& dialect, const std::vector<std::string>& folders);

}  // namespace torchtrace

#endif  // TORCHTRACE_DIALECTS_TABLE_DIALECTS_H_
