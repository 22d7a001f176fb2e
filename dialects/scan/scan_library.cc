#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "dialects/scan/scan.h"
#include "dialects/table/dialects.h"
#include "nlohmann/json.hpp"
#include "serialize/base/bytes.h"
#include "tracer/launch/find_python.h"

namespace torchtrace {
namespace {

using nlohmann::json;

// scan_library.py and the dialects' additions to it.
constexpr char kProgram[] =
#include "dialects/scan/scan_program.inc"
    ;

constexpr char kRules[] =
#include "dialects/scan/rules_yaml.inc"
    ;

std::string Program() { return absl::StrCat(kProgram, "\nmain()\n"); }

std::string LastLine(std::string text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
  return text.substr(text.rfind('\n') + 1);
}

std::vector<std::string> Strings(const json& object, const char* key) {
  const auto at = object.find(key);
  return at == object.end() ? std::vector<std::string>() : at->get<std::vector<std::string>>();
}

// The caller catches nlohmann's exceptions.
ApiList MakeList(const json& answer) {
  ApiList list;
  list.library = answer.at("library").get<std::string>();
  list.version = answer.at("version").get<std::string>();
  for (const json& row : answer.at("apis")) {
    ApiEntry& entry = list.apis.emplace_back();
    entry.name = row.at("api").get<std::string>();
    entry.kind = row.at("kind").get<std::string>();
    entry.is_public = row.at("public").get<bool>();
    entry.aliases = Strings(row, "aliases");
    entry.elsewhere = Strings(row, "elsewhere");
    entry.operators = Strings(row, "operators");
    entry.composite = Strings(row, "composite");
    if (const auto levels = row.find("levels"); levels != row.end()) entry.levels = levels->get<std::vector<int>>();
  }
  for (const json& pair : answer.at("not_imported")) {
    list.not_imported.push_back({pair.at(0).get<std::string>(), pair.at(1).get<std::string>()});
  }
  std::sort(list.apis.begin(), list.apis.end(), [](const ApiEntry& a, const ApiEntry& b) { return a.name < b.name; });
  return list;
}

}  // namespace

absl::StatusOr<ApiList> ScanLibrary(const ScanOptions& options) {
  const json request = {{"imports", options.imports},
                        {"walk", options.all_modules},
                        {"toward", options.toward},
                        {"folder", options.folder},
                        {"timeout_s", options.timeout_s}};
  const absl::StatusOr<CommandResult> result =
      RunCommand({options.python, "-c", Program(), options.library, request.dump()});
  if (!result.ok()) return result.status();
  if (result->exit_code != 0) {
    return absl::FailedPreconditionError(absl::StrCat(options.python, " cannot scan ", options.library, ": ",
                                                      LastLine(result->standard_error), " (exit code ",
                                                      result->exit_code, ")"));
  }
  try {
    const json answer = json::parse(result->standard_output);
    if (const auto error = answer.find("error"); error != answer.end()) {
      return absl::FailedPreconditionError(
          absl::StrCat(options.python, " cannot import ", options.library, ": ", error->get<std::string>()));
    }
    ApiList list = MakeList(answer);
    BuiltInApiRules().DropUnsafe(&list);
    return list;
  } catch (const json::exception& error) {
    return absl::InternalError(absl::StrCat("scanning ", options.library, " gave no list: ", error.what()));
  }
}

uint64_t ScanVersion() {
  std::string text = absl::StrCat(Program(), kRules);
  for (const DialectInfo& dialect : AllDialects()) text.append(dialect.api_rules);
  return Hash64(text.data(), text.size());
}

const ApiRules& BuiltInApiRules() {
  static const auto* const rules = [] {
    auto* const made = new ApiRules;
    // api_rules_test checks that they can be read.
    made->Add(kRules, "rules.yaml").IgnoreError();
    for (const DialectInfo& dialect : AllDialects()) made->Add(dialect.api_rules, dialect.name).IgnoreError();
    return made;
  }();
  return *rules;
}

}  // namespace torchtrace
