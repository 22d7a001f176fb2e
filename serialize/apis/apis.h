// Names of APIs: lists, groups, and the operators that a trace tells of.

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
// `apis coverage` measures against. docs/APIS.md tells the forms; in short
//
//   - torch.abs                       api_tracer's: a YAML list of names
//   apis:                             ours: the same names, with what is known of them
//   - {api: torch.abs, kind: builtin, aliases: [torch.absolute]}
//   supported: [abs, add.Tensor]      a PyTorch back end's: operators of aten
//   torch.abs                         plain text: a name a line
//   ?torch.mine                       one that only the user knows of
//
// Ours may hold for several versions of its library (`versions: ["2.12", "2.13"]` in place of
// `version`); an entry that isn't in all of them says in which (`versions: "2.13-"`,
// serialize/base/version_spans.h), and may stand there once more for others. It is read as of one.
//
// Functions may be called from any thread.

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
  int line = 0;                // of the file, from 1; 0: it is of none
  bool known_by_user = false;  // written as `?NAME`: taken, whether anything is called so or not
};

struct UnreadModule {
  std::string module;
  std::string reason;
};

struct ApiList {
  std::string library;         // `torch`; empty where the list doesn't tell
  std::string version;         // of the library; "2.13" stands for all of its patch versions
  std::vector<ApiEntry> apis;  // each name once, in the file's order
  std::vector<UnreadModule> not_imported;
};

// InvalidArgument with `name:LINE: `, and what was expected there, for what is no list or
// has nothing in it. Of a list for several versions: that of the last one that is not newer than
// `version`, or the first one; without `version` the newest.
absl::StatusOr<ApiList> ParseApiList(std::string_view text, const std::string& name, const std::string& version = "");
// The same of a file; NotFound and others name it.
absl::StatusOr<ApiList> ReadApiList(const std::string& path);

// Whether the list is of this version of its library.
bool IsOfVersion(const ApiList& list, std::string_view version);

// Our form, behind `comment`: lines that begin with `#`.
std::string FormatApiList(const ApiList& list, std::string_view comment);

// Groups of APIs and operators: what `%nn` and `%inplace` stand for where globs
// over API names are taken. The built-in ones are api_groups.yaml, which is part
// of the executable; users add their own in the same format (docs/FILTER.md).
// A group is nothing but globs, so that the recorder needs to know of none.

// A name or glob that somebody wrote.
struct WrittenName {
  std::string text;
  std::string where;               // "groups.yaml:3: "; empty: on the command line
  std::vector<std::string> globs;  // what it stands for, one of which should be known; empty: itself
};

class ApiGroups {
 public:
  // What is in api_groups.yaml.
  static const ApiGroups& BuiltIn();

  // The built-in groups and those of a file, which may refer to built-in ones and
  // take their names. Errors name the file, the line and what was expected.
  static absl::StatusOr<ApiGroups> Load(const std::string& path);
  // The same of a text; `name` stands in its place in errors.
  static absl::StatusOr<ApiGroups> Parse(const std::string& text, const std::string& name);

  // Each `%group` among `patterns` replaced by its globs, and every other pattern as it is.
  // InvalidArgument for an unknown group, with the nearest name; `?%group` then stands for
  // nothing. `written`, which may be null, gets what users wrote in the groups, `?NAME` left out.
  absl::StatusOr<std::vector<std::string>> Expand(const std::vector<std::string>& patterns,
                                                  std::vector<WrittenName>* written = nullptr) const;

  // Sorted, without the `%`.
  std::vector<std::string> names() const;

 private:
  struct Group {
    std::vector<std::string> globs;  // those of its names among them
    std::vector<WrittenName> written;
    std::vector<std::string> groups;
  };

  absl::Status Read(const std::string& text, const std::string& name);
  // Every group that a group refers to is there, and none contains itself.
  absl::Status Check(const std::string& name) const;
  absl::Status CheckGroup(const std::string& group, std::vector<std::string>* path, const std::string& name) const;
  void Append(const std::string& group, std::vector<std::string>* globs, std::vector<WrittenName>* written) const;

  std::map<std::string, Group> groups_;
};

// The filter with its groups replaced by their globs: built-in groups, and those of a file
// unless its name is empty. `written` as of Expand.
absl::StatusOr<GlobFilter> ExpandGroups(GlobFilter filter, const std::string& groups_file,
                                        std::vector<WrittenName>* written);

// The operators that PyTorch had in a traced process: names kept in the metadata of a log
// (docs/FORMAT.md, `operators`), once in a trace for each version of PyTorch.

// The versions of a package that the processes of a trace tell of.
std::set<std::string> PackageVersions(const Trace& trace, const std::string& package);

// The value of the key for a process, which another process of the trace with the same
// version may have; null when none has.
const nlohmann::json* FindOperators(const Trace& trace, const ProcessInfo& process);

// Adds the operators of `space` (`aten`) that a trace tells of to a list, each once and in
// their order, and the version of PyTorch. NotFound, with `name` for the trace, when it
// tells of none.
absl::Status AddOperators(const Trace& trace, std::string_view name, std::string_view space, ApiList* list);

// Appends, a line each, the names of a trace's calls, and those of all operators that it tells of. Counts it.
absl::Status AppendNames(Trace* trace, std::string* lines);

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_APIS_APIS_H_
