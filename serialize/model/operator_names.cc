#include <algorithm>
#include <cstddef>
#include <iterator>
#include <utility>

#include "serialize/model/torch_names.h"

namespace torchtrace {
namespace {

constexpr std::string_view kOps = "torch.ops.";

// Only in these namespaces a name with dots is an operator's; elsewhere it may be a module's.
constexpr std::string_view kOwnSpaces[] = {"aten.", "prims."};

bool IsInOwnSpace(std::string_view name) {
  return std::any_of(std::begin(kOwnSpaces), std::end(kOwnSpaces),
                     [name](std::string_view space) { return name.starts_with(space); });
}

}  // namespace

std::string CanonicalName(std::string_view name) {
  if (name == "aten.sum.SymInt") return OperatorName(name);
  std::string canonical(name);
  if (name.find("::") == std::string_view::npos) {
    if (name.starts_with(kOps)) {
      canonical.erase(0, kOps.size());
    } else if (!IsInOwnSpace(name)) {
      return canonical;
    }
    const size_t dot = canonical.find('.');
    if (dot == 0 || dot == std::string::npos || dot + 1 == canonical.size()) return std::string(name);
    canonical.replace(dot, 1, "::");
  }
  constexpr std::string_view kDefault = ".default";
  const bool has_default = canonical.ends_with(kDefault) &&
                           OperatorPacket(canonical).size() + kDefault.size() == canonical.size() &&
                           canonical.find_first_of("*?[") == std::string::npos;
  if (has_default) canonical.resize(canonical.size() - kDefault.size());
  return canonical;
}

std::vector<std::string> SpellingsOf(std::string_view canonical) {
  std::vector<std::string> spellings = {std::string(canonical)};
  const size_t colons = canonical.find("::");
  if (OperatorPacket(canonical).empty() || colons == 0) return spellings;
  std::string dotted(canonical);
  dotted.replace(colons, 2, ".");
  spellings.push_back(std::string(kOps) + dotted);
  if (IsInOwnSpace(dotted)) spellings.push_back(std::move(dotted));
  return spellings;
}

}  // namespace torchtrace
