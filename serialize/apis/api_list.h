// Lists of APIs: what level 0 wraps, what `torchtrace apis` writes, and what
// `apis coverage` measures against. docs/APIS.md tells the forms; in short
//
//   - torch.abs                       api_tracer's: a YAML list of names
//   apis:                             ours: the same names, with what is known of them
//   - {api: torch.abs, kind: builtin, aliases: [torch.absolute]}
//   supported: [abs, add.Tensor]      a PyTorch back end's: operators of aten
//   torch.abs                         plain text: a name a line
//
// Functions may be called from any thread.

#ifndef TORCHTRACE_SERIALIZE_APIS_API_LIST_H_
#define TORCHTRACE_SERIALIZE_APIS_API_LIST_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace torchtrace {

struct ApiEntry {
  std::string name;
  // What it is: `function`, `builtin`, `method`, `classmethod`, `staticmethod`, `property`,
  // `slot`, `class` or `operator`; empty where the list doesn't tell.
  std::string kind;
  std::vector<std::string> aliases;    // other public names of the same object
  std::vector<std::string> elsewhere;  // names that it has where modules import it
  std::vector<int> levels;             // that can see a call of it; empty: not told
  std::vector<std::string> operators;  // that a call of it is known to call
  // Of those, what is made of other operators: level 2 sees these and not it.
  std::vector<std::string> composite;
  bool is_public = false;
};

struct UnreadModule {
  std::string module;
  std::string reason;
};

struct ApiList {
  std::string library;         // `torch`; empty where the list doesn't tell
  std::string version;         // of the library
  std::vector<ApiEntry> apis;  // each name once, in the file's order
  std::vector<UnreadModule> not_imported;
};

// InvalidArgument with `name:LINE: `, and what was expected there, for what is no list or
// has nothing in it.
absl::StatusOr<ApiList> ParseApiList(std::string_view text, const std::string& name);
// The same of a file; NotFound and others name it.
absl::StatusOr<ApiList> ReadApiList(const std::string& path);

// Our form, behind `comment`: lines that begin with `#`.
std::string FormatApiList(const ApiList& list, std::string_view comment);

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_APIS_API_LIST_H_
