#include "serialize/apis/trace_operators.h"

#include <cstddef>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "nlohmann/json.hpp"
#include "serialize/base/json_member.h"
#include "serialize/trace/operator_metadata.h"

namespace torchtrace {
namespace {

using nlohmann::json;

const json* OwnOperators(const ProcessInfo& process) {
  const json* const operators = process.metadata == nullptr ? nullptr : FindMember(*process.metadata, kOperatorsKey);
  return operators != nullptr && operators->is_object() ? operators : nullptr;
}

std::string VersionOf(const ProcessInfo& process) {
  const auto version = process.known.package_versions.find("torch");
  return version == process.known.package_versions.end() ? "" : version->second;
}

}  // namespace

std::set<std::string> TorchVersions(const Trace& trace) {
  std::set<std::string> versions;
  for (const ProcessInfo& process : trace.processes()) versions.insert(VersionOf(process));
  versions.erase("");
  return versions;
}

const json* FindOperators(const Trace& trace, const ProcessInfo& process) {
  if (const json* const own = OwnOperators(process); own != nullptr) return own;
  const std::string version = VersionOf(process);
  if (version.empty()) return nullptr;
  for (const ProcessInfo& other : trace.processes()) {
    const json* const operators = OwnOperators(other);
    if (operators != nullptr && VersionOf(other) == version) return operators;
  }
  return nullptr;
}

absl::Status AddOperators(const Trace& trace, std::string_view name, std::string_view space, ApiList* list) {
  std::set<std::string> names;
  for (const ApiEntry& entry : list->apis) names.insert(entry.name);
  const size_t before = names.size();
  bool told = false;
  std::set<const json*> seen;
  for (const ProcessInfo& process : trace.processes()) {
    const json* const operators = FindOperators(trace, process);
    if (operators == nullptr || !seen.insert(operators).second) continue;
    const json* const inside = FindMember(*operators, std::string(space).c_str());
    if (inside == nullptr || !inside->is_string()) continue;
    told = true;
    for (const auto part : absl::StrSplit(inside->get_ref<const std::string&>(), ' ', absl::SkipEmpty())) {
      names.insert(absl::StrCat(std::string(space), "::", part));
    }
    if (list->version.empty()) list->version = VersionOf(process);
  }
  if (!told) {
    return absl::NotFoundError(
        absl::StrCat(std::string(name),
                     " does not tell which operators its PyTorch had: it is no trace of `run`, of an older "
                     "torchtrace, or of a program that did not import torch; give a --list FILE"));
  }
  list->library = "torch";
  if (names.size() == before) return absl::OkStatus();
  list->apis.clear();
  for (const std::string& operator_name : names) {
    ApiEntry& entry = list->apis.emplace_back();
    entry.name = operator_name;
    entry.kind = "operator";
    entry.levels = {2};
  }
  return absl::OkStatus();
}

}  // namespace torchtrace
