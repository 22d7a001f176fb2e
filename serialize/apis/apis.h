// Lists and groups of APIs, and the operators that the metadata of a trace lists.

#ifndef TORCHTRACE_SERIALIZE_APIS_APIS_H_
#define TORCHTRACE_SERIALIZE_APIS_APIS_H_

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nlohmann/json_fwd.hpp"
#include "serialize/base/matching.h"
#include "serialize/trace/trace.h"

namespace torchtrace {

// Lists of APIs: what level 0 wraps, what `torchtrace apis` writes, and what
// `apis coverage` measures against. docs/APIS.md describes the formats; in short
//
//   - torch.abs                       api_tracer's: a YAML list of names
//   apis:                             ours: the same names, with details
//   - {api: torch.abs, kind: builtin, aliases: [torch.absolute]}
//   supported: [abs, add.Tensor]      a PyTorch back end's: operators of aten
//   torch.abs                         plain text: one name per line
//   ?torch.mine                       a name that is not checked
//
// Our format may cover several versions of its library (`versions: ["2.12", "2.13"]` in place of
// `version`). An entry that isn't in all of them says in which (`versions: "2.13-"`,
// serialize/base/version_spans.h), and may occur again for others. It is read for one version.
//
// Functions may be called from any thread.

struct ApiEntry {
  std::string name;
  // `function`, `builtin`, `method`, `classmethod`, `staticmethod`, `property`, `slot`,
  // `class` or `operator`; empty if the list doesn't say.
  std::string kind;
  std::vector<std::string> aliases;    // other public names of the same object
  std::vector<std::string> elsewhere;  // its names in modules that import it
  std::vector<int> levels;             // that can see a call of it; empty: unknown
  std::vector<std::string> operators;  // that a call of it is known to call
  // Those of `operators` that are composites of others: level 2 sees the others instead.
  std::vector<std::string> composite;
  bool is_public = false;
  int line = 0;                // in the file, from 1; 0: none
  bool known_by_user = false;  // written as `?NAME`: accepted even if there is no such API
};

struct UnreadModule {
  std::string module;
  std::string reason;
};

struct ApiList {
  std::string library;         // `torch`; empty if the list doesn't say
  std::string version;         // of the library; "2.13" includes all of its patch versions
  std::vector<ApiEntry> apis;  // each name once, in the file's order
  std::vector<UnreadModule> not_imported;
};

// InvalidArgument, with `name:LINE: ` and what was expected there, for a text that is not a list or
// is empty. From a list for several versions, reads the newest one that is not newer than `version`,
// or else the first one; without `version` the newest.
absl::StatusOr<ApiList> ParseApiList(std::string_view text, const std::string& name, const std::string& version = "");
// The same for a file; NotFound and others name it.
absl::StatusOr<ApiList> ReadApiList(const std::string& path);

// Whether the list is for this version of its library.
bool IsOfVersion(const ApiList& list, std::string_view version);

// The list in our format, after `comment`: lines that begin with `#`.
std::string FormatApiList(const ApiList& list, std::string_view comment);

// A name or glob that a user wrote.
struct WrittenName {
  std::string text;
  std::string where;               // "groups.yaml:3: "; empty: on the command line
  std::vector<std::string> globs;  // its expansion, one of which should be known; empty: itself
};

// Groups of APIs and operators, such as `%nn` and `%inplace`, for use wherever globs over API
// names are allowed. The built-in ones are api_groups.yaml, which is part of the executable;
// users add their own in the same format (docs/FILTER.md). Groups expand to globs before
// recording, so the recorder needs no code for them.
class ApiGroups {
 public:
  static const ApiGroups& BuiltIn();

  // The built-in groups and those of a file, which may refer to built-in ones and
  // replace them. Errors name the file, the line and what was expected.
  static absl::StatusOr<ApiGroups> Load(const std::string& path);
  // The same for a text; errors call it `name`.
  static absl::StatusOr<ApiGroups> Parse(const std::string& text, const std::string& name);

  // Replaces each `%group` among `patterns` by its globs; keeps all other patterns.
  // InvalidArgument for an unknown group, with the nearest name; an unknown `?%group`
  // expands to nothing. `written`, if not null, gets the names that users wrote in the
  // groups, except `?NAME`.
  absl::StatusOr<std::vector<std::string>> Expand(const std::vector<std::string>& patterns,
                                                  std::vector<WrittenName>* written = nullptr) const;

  // Sorted, without the `%`.
  std::vector<std::string> names() const;

 private:
  struct Group {
    std::vector<std::string> globs;  // including those of its names
    std::vector<WrittenName> written;
    std::vector<std::string> groups;
  };

  absl::Status Read(const std::string& text, const std::string& name);
  // Checks that every group that a group refers to exists, and that none contains itself.
  absl::Status Check(const std::string& name) const;
  absl::Status CheckGroup(const std::string& group, std::vector<std::string>* path, const std::string& name) const;
  void Append(const std::string& group, std::vector<std::string>* globs, std::vector<WrittenName>* written) const;

  std::map<std::string, Group> groups_;
};

// Replaces the groups of a filter by their globs: built-in groups, and those of a file
// unless its name is empty. `written` as for Expand.
absl::StatusOr<GlobFilter> ExpandGroups(GlobFilter filter, const std::string& groups_file,
                                        std::vector<WrittenName>* written);

// The versions of a package in the metadata of a trace's processes.
std::set<std::string> PackageVersions(const Trace& trace, const std::string& package);

// The operators that PyTorch had in a traced process: the metadata key `operators` (docs/FORMAT.md). A trace has them
// once for each version of PyTorch, so this may be the key of another process with the same version. Null if no process
// has it.
const nlohmann::json* FindOperators(const Trace& trace, const ProcessInfo& process);

// Adds the operators of `space` (`aten`) in a trace's metadata to a list, each once and in
// their order, and the version of PyTorch. NotFound if there are none, naming the trace `name`.
absl::Status AddOperators(const Trace& trace, std::string_view name, std::string_view space, ApiList* list);

// Appends the names of a trace's calls, and of all operators in its metadata, one per line. Counts the trace.
absl::Status AppendNames(Trace* trace, std::string* lines);

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_APIS_APIS_H_
