// The frameworks that this build knows, as far as can be said without them: one row each. What
// records their calls registers with the runtime library (cmd/run/runtime_entry.cc).

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
  const char* name;  // as --dialect takes it; also of the Python package
  const char* title;
  std::vector<const char*> distributions;  // that bring the package, the usual one first
  std::vector<int> default_levels;         // of `run` without --levels
  std::vector<const char*> variables;      // of the environment, by prefix, that change what it does
  std::string_view api_list;               // the default list, as serialize/apis/apis.h reads it
  std::string_view api_rules;              // what lists of its APIs leave out (dialects/scan/scan.h)
  std::string_view api_names;  // what its APIs and operators are called, in any version: a table of ApiNames
};

// The first one is that of a run that names none.
std::span<const DialectInfo> AllDialects();

// Null for what isn't there.
const DialectInfo* FindDialectInfo(std::string_view name);

// The same, or the first one: of dialects that are written in Python, whose names have a colon.
const DialectInfo& DialectInfoOr(std::string_view name);

// "torch", "paddle".
std::vector<std::string> DialectNames();
// "torch, paddle".
std::string DescribeDialects();

// InvalidArgument, with the choices, for a name that is neither there nor module:Class.
absl::Status CheckDialectName(const std::string& name);

// The default list for a version of the library, as installed or traced; the newest one for none (ParseApiList).
absl::StatusOr<ApiList> DefaultApiList(const DialectInfo& dialect, const std::string& version);

// What all of them call their APIs: `api_names`.
std::vector<std::string_view> ApiNameTables();
const ApiNames& KnownApiNames();

// The version installed in these folders (tracer/launch/find_python.h); empty: none.
std::string InstalledVersion(const DialectInfo& dialect, const std::vector<std::string>& folders);

}  // namespace torchtrace

#endif  // TORCHTRACE_DIALECTS_TABLE_DIALECTS_H_
