// `torchtrace apis name`.

#include <algorithm>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "cmd/apis.h"
#include "cmd/cli/installation.h"
#include "cmd/cli/options.h"
#include "cmd/cli/output.h"
#include "cmd/reading/reading_options.h"
#include "dialects/scan/scan.h"
#include "dialects/table/dialects.h"
#include "nlohmann/json.hpp"
#include "serialize/apis/api_names.h"
#include "serialize/apis/apis.h"
#include "serialize/base/matching.h"
#include "serialize/forms/forms.h"
#include "serialize/model/levels.h"
#include "serialize/model/torch_names.h"
#include "tracer/launch/find_python.h"

namespace torchtrace {
namespace {

constexpr char kApisNameFooter[] =
    "Searches torchtrace's own list of the framework's APIs, then your Python. With --python or\n"
    "--list, searches only there.\n"
    "\n"
    "Examples:\n"
    "  torchtrace apis name torch.nn.functional.relu_\n"
    "  torchtrace apis name aten::relu_\n"
    "  torchtrace apis name numpy.linalg.norm --python ~/venvs/mine";

const ApiEntry* Find(const ApiList& list, const std::string& name) {
  const std::string canonical = CanonicalName(name);
  const auto is_it = [&canonical](const std::string& other) { return CanonicalName(other) == canonical; };
  for (const ApiEntry& entry : list.apis) {
    if (is_it(entry.name)) return &entry;
  }
  for (const ApiEntry& entry : list.apis) {
    if (std::any_of(entry.aliases.begin(), entry.aliases.end(), is_it)) return &entry;
    if (std::any_of(entry.elsewhere.begin(), entry.elsewhere.end(), is_it)) return &entry;
  }
  return nullptr;
}

bool IsAten(std::string_view name) { return name.starts_with("aten::") || name.starts_with("prims::"); }

std::string LastPart(const std::string& name) { return name.substr(name.rfind('.') + 1); }

std::string ShortestEndingIn(const std::string& last_part, const std::vector<std::string>& names) {
  std::string shortest;
  for (const std::string& name : names) {
    if (LastPart(name) == last_part && (shortest.empty() || name.size() < shortest.size())) shortest = name;
  }
  return shortest;
}

// ", did you mean X?" or an empty string.
std::string Suggest(const std::vector<const ApiList*>& lists, const std::string& name) {
  std::vector<std::string> names;
  for (const ApiList* list : lists) {
    for (const ApiEntry& entry : list->apis) {
      names.push_back(entry.name);
      names.insert(names.end(), entry.aliases.begin(), entry.aliases.end());
    }
  }
  // The same last part elsewhere is a better match than one with a few other letters.
  std::string found = ShortestEndingIn(LastPart(name), names);
  if (found.empty()) found = Nearest(name, names);
  if (found.empty()) {
    std::vector<std::string> last_parts;
    std::transform(names.begin(), names.end(), std::back_inserter(last_parts), LastPart);
    if (const std::string last = Nearest(LastPart(name), last_parts); !last.empty())
      found = ShortestEndingIn(last, names);
  }
  return found.empty() ? "" : absl::StrCat(", did you mean ", found, "?");
}

// The same for the frameworks that torchtrace knows, also with aliases.
std::string SuggestKnown(const std::string& name) {
  const std::string found = KnownApiNames().Suggest(name);
  if (found.empty()) return "";
  for (const std::string& other : KnownApiNames().Resolve(found)) {
    const bool is_spelling = CanonicalName(other) == CanonicalName(found);
    if (!is_spelling && KnownApiNames().Has(other) && !other.ends_with("__")) {
      return absl::StrCat(", did you mean ", found, " (", other, ")?");
    }
  }
  return absl::StrCat(", did you mean ", found, "?");
}

// Whether the name is that of a module or class whose APIs the list has.
bool HoldsApis(const ApiList& list, const std::string& name) {
  return std::any_of(list.apis.begin(), list.apis.end(),
                     [&name](const ApiEntry& entry) { return entry.name.starts_with(name + "."); });
}

std::string IsAPlace(const std::string& name) {
  return absl::StrCat("'", name, "' is not an API, but contains some: torchtrace apis scan --library ", name,
                      " lists them");
}

// The operators that a call of it is known to call, as one line.
std::string DescribeOperators(const ApiEntry& entry) {
  std::vector<std::string> words;
  for (const std::string& name : entry.operators) {
    const bool composite = std::find(entry.composite.begin(), entry.composite.end(), name) != entry.composite.end();
    words.push_back(absl::StrCat(name, composite ? " (composite: level 2 sees the operators inside)" : ""));
  }
  return absl::StrJoin(words, ", ");
}

std::string FormatText(const ApiEntry& entry) {
  std::string text = absl::StrCat(entry.name, "\n");
  const auto add = [&](const char* title, const std::string& value) {
    if (!value.empty())
      absl::StrAppend(&text, "  ", title, std::string(11 - std::string(title).size(), ' '), value, "\n");
  };
  add("kind", entry.kind);
  add("aliases", absl::StrJoin(entry.aliases, ", "));
  std::vector<std::string> levels;
  std::transform(entry.levels.begin(), entry.levels.end(), std::back_inserter(levels), DescribeLevel);
  add("seen by", absl::StrJoin(levels, ", "));
  add("operators", DescribeOperators(entry));
  return text;
}

std::string FormatJson(const ApiEntry& entry, const ApiList& list) {
  const nlohmann::ordered_json json = {
      {"api", entry.name},       {"kind", entry.kind},           {"aliases", entry.aliases},
      {"levels", entry.levels},  {"operators", entry.operators}, {"composite", entry.composite},
      {"library", list.library}, {"version", list.version}};
  return DumpJson(json) + "\n";
}

// An operator, and the APIs that are known to call it.
int TellOperator(const std::string& name, const ApiList& list, bool json) {
  const std::string canonical = CanonicalName(name);
  const std::string packet(OperatorPacket(canonical));
  std::vector<std::string> callers, operators;
  for (const ApiEntry& entry : list.apis) {
    operators.insert(operators.end(), entry.operators.begin(), entry.operators.end());
    if (std::find(entry.operators.begin(), entry.operators.end(), packet) != entry.operators.end()) {
      callers.push_back(entry.name);
    }
  }
  if (callers.empty()) {
    return Fail(kExitTrouble, absl::StrCat("no public API of PyTorch is known to call an operator '", packet, "'",
                                           DidYouMean(packet, operators)));
  }
  if (json) {
    const nlohmann::ordered_json object = {
        {"api", name}, {"kind", "operator"}, {"levels", {2}}, {"called_by", callers}};
    return WriteStandardOutput(DumpJson(object) + "\n", kExitTrouble);
  }
  return WriteStandardOutput(absl::StrCat(name, "\n  kind       operator\n  seen by    ", DescribeLevel(kDispatchLevel),
                                          "\n  called by  ", absl::StrJoin(callers, ", "), "\n"),
                             kExitTrouble);
}

// The APIs of the library that importing it shows, and those on the way to the name.
absl::StatusOr<ApiList> AskLibrary(const std::string& name, const std::string& python) {
  const absl::StatusOr<PythonInfo> info = FindAndAskPython(python, EnvironmentOfWheel());
  if (!info.ok()) return info.status();
  ScanOptions scan;
  scan.python = info->executable;
  scan.library = name.substr(0, name.find('.'));
  scan.all_modules = false;
  scan.toward = name;
  return ScanLibrary(scan);
}

// The version of the framework in the user's Python; empty if there is none.
std::string VersionInPython(const DialectInfo& dialect) {
  const absl::StatusOr<PythonInfo> python = FindAndAskPython("", EnvironmentOfWheel());
  return python.ok() ? InstalledVersion(dialect, PackageFolders(*python, {})) : "";
}

int RunApisName(const std::vector<std::string>& args) {
  std::string name, list_path, python, format = "text";
  const auto app = MakeApp(kApisNameCommand, "[OPTIONS] NAME", kApisNameFooter);
  app->add_option("NAME", name, "Any name of an API, or an operator: torch.nn.functional.relu_, aten::relu_")
      ->required()
      ->check([](const std::string& text) {
        const bool has_blank = text.find_first_of(" \t\n()") != std::string::npos;
        if (text.find_first_of("*?[") != std::string::npos) {
          return absl::StrCat("'", text,
                              "' is a pattern; apis name takes the name of one API (--include takes patterns)");
        }
        return text.empty() || has_blank ? absl::StrCat("'", text, "' is not the name of an API") : std::string();
      });
  Option* const list_option =
      app->add_option("--list", list_path, "Search only this list (see docs/APIS.md)")->option_text("FILE");
  Option* const python_option =
      app->add_option("--python", python, "Search only this Python")->option_text("PYTHON")->excludes(list_option);
  app->add_option("--format", format, "text or json (default: text)")
      ->option_text("FORMAT")
      ->check(OneOf(TextOrJson()));
  if (std::optional<int> done = ParseOptions(app.get(), args, kExitTrouble)) return *done;

  // An operator of another library, torch.ops.SPACE.NAME, is an API of torch that only a Python can look up.
  const bool is_operator = name.find("::") != std::string::npos || IsAten(CanonicalName(name));
  const size_t dot = name.find('.');
  const DialectInfo* const dialect = dot == std::string::npos ? nullptr : FindDialectInfo(name.substr(0, dot));
  if (is_operator && *python_option)
    return Fail(kExitTrouble, "--python can't look up operators: leave it out, or give --list");
  ApiList list;
  if (*list_option) {
    absl::StatusOr<ApiList> read = ReadApiList(list_path);
    if (!read.ok()) return Fail(kExitTrouble, read.status());
    list = *std::move(read);
  } else if (is_operator || (!*python_option && dialect != nullptr)) {
    const DialectInfo& own = dialect == nullptr ? AllDialects().front() : *dialect;
    absl::StatusOr<ApiList> read = DefaultApiList(own, VersionInPython(own));
    if (!read.ok()) return Fail(kExitTrouble, read.status());
    list = *std::move(read);
  }
  const ApiEntry* entry = Find(list, name);
  if (entry == nullptr && is_operator) return TellOperator(name, list, format == "json");
  ApiList asked;
  if (entry == nullptr && HoldsApis(list, name)) return Fail(kExitTrouble, IsAPlace(name));
  if (entry == nullptr && !*list_option) {
    absl::StatusOr<ApiList> answer = AskLibrary(name, python);
    if (!answer.ok()) {
      return Fail(kExitTrouble,
                  absl::StrCat(list.apis.empty() ? ""
                                                 : absl::StrCat(name, " is not in the list of ", dialect->title,
                                                                "'s public APIs", Suggest({&list}, name), " and "),
                               answer.status().message(), list.apis.empty() ? SuggestKnown(name) : ""));
    }
    asked = *std::move(answer);
    entry = Find(asked, name);
    if (entry == nullptr && HoldsApis(asked, name)) return Fail(kExitTrouble, IsAPlace(name));
  }
  if (entry == nullptr) {
    return Fail(kExitTrouble, absl::StrCat("there is no API '", name, "'", *list_option ? " in " + list_path : "",
                                           Suggest({&list, &asked}, name)));
  }
  const ApiList& where = asked.apis.empty() ? list : asked;
  return WriteStandardOutput(format == "json" ? FormatJson(*entry, where) : FormatText(*entry), kExitTrouble);
}

}  // namespace

const Command kApisNameCommand = {"apis name", "An API's shortest name, its aliases and the levels that see it", "Read",
                                  RunApisName};

}  // namespace torchtrace
