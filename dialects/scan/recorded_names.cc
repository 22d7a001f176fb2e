#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "dialects/scan/scan.h"
#include "dialects/table/dialects.h"
#include "serialize/apis/api_names.h"
#include "serialize/model/levels.h"

namespace torchtrace {
namespace {

namespace fs = std::filesystem;

constexpr char kOperators[] = "aten::";

// ATen's operators with their overloads, one a line, from the installed torch's code generator:
//
//   - func: add.Tensor(Tensor self, ...) -> Tensor
//     autogen: add.Scalar_out, ...
std::string InstalledOperators(const std::vector<std::string>& package_folders) {
  for (const std::string& folder : package_folders) {
    std::ifstream file(fs::path(folder) / "torchgen/packaged/ATen/native/native_functions.yaml");
    std::string names;
    for (std::string line; std::getline(file, line);) {
      constexpr std::string_view kFunction = "- func: ", kMade = "  autogen: ";
      if (line.starts_with(kFunction)) {
        const std::string rest = line.substr(kFunction.size());
        absl::StrAppend(&names, kOperators, rest.substr(0, rest.find('(')), "\n");
      } else if (line.starts_with(kMade)) {
        for (const auto name : absl::StrSplit(line.substr(kMade.size()), absl::ByAnyChar(", "), absl::SkipEmpty())) {
          absl::StrAppend(&names, kOperators, name, "\n");
        }
      }
    }
    if (!names.empty()) return names;
  }
  return "";
}

bool Has(const std::vector<int>& levels, int level) {
  return std::find(levels.begin(), levels.end(), level) != levels.end();
}

// Whether the program may define a name that the pattern matches: a function, a scope, an operator.
bool MayBeMade(const std::string& pattern, const RecordingOptions& options, bool knows_aten) {
  if (FindDialectInfo(options.dialect) == nullptr || options.traces_python_frames() ||
      Has(options.levels, kRecordLevel)) {
    return true;
  }
  if (pattern.starts_with(kOperators)) return !knows_aten;
  return !pattern.starts_with(options.dialect + ".") || pattern.starts_with(options.dialect + ".ops.");
}

}  // namespace

absl::StatusOr<GlobFilter> FindRecordedNames(const ScannedPython& python, const RecordingOptions& options) {
  const absl::StatusOr<NameFilter> filter =
      ExpandNames({options.include, options.exclude}, options.groups, KnownApiNames());
  if (!filter.ok()) return filter.status();
  const auto is_known = [](const WrittenName& name) { return KnownApiNames().Has(name); };
  if (std::all_of(filter->written.begin(), filter->written.end(), is_known)) return filter->globs;

  const std::string operators = InstalledOperators(python.package_folders);
  const std::string traced = absl::StrJoin(options.apis, "\n");
  std::vector<std::string_view> tables = ApiNameTables();
  tables.push_back(operators);
  tables.push_back(traced);
  const ApiNames known(tables);
  std::vector<WrittenName> unknown;
  for (const WrittenName& name : filter->written) {
    if (known.Knows(name)) continue;
    const std::string& pattern = name.globs.empty() ? name.text : name.globs.front();
    if (MayBeMade(pattern, options, !operators.empty()) && known.Near(pattern).empty()) continue;
    unknown.push_back(name);
  }
  if (!unknown.empty()) return UnknownNames(unknown, known);
  return filter->globs;
}

}  // namespace torchtrace
