#include "serialize/apis/api_names.h"

#include <algorithm>
#include <cstddef>
#include <set>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "serialize/model/torch_names.h"

namespace torchtrace {
namespace {

constexpr std::string_view kAccessors[] = {".__get__", ".__set__", ".__delete__"};

size_t GlobStart(std::string_view pattern) { return std::min(pattern.find_first_of("*?["), pattern.size()); }
bool IsGlob(std::string_view pattern) { return GlobStart(pattern) < pattern.size(); }

// Where `.Tensor` of `aten::add.Tensor` begins; npos without an overload, or if the name is not an operator.
size_t OverloadStart(std::string_view name) {
  const size_t colons = name.find("::");
  return colons == std::string_view::npos ? colons : name.find('.', colons);
}

// Without empty parts.
std::vector<std::string_view> Split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (!text.empty()) {
    const size_t end = std::min(text.find(separator), text.size());
    if (end > 0) parts.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return parts;
}

std::string_view LastPart(std::string_view name) { return name.substr(name.find_last_of(".:") + 1); }

}  // namespace

ApiNames::ApiNames(const std::vector<std::string_view>& tables) {
  absl::flat_hash_map<std::string_view, uint32_t> known;
  for (const std::string_view table : tables) {
    for (const std::string_view line : Split(table, '\n')) {
      const std::vector<std::string_view> names = Split(line, '\t');
      // An API may have other names in another version: lines that share a name are the same API.
      auto api = static_cast<uint32_t>(apis_.size());
      for (const std::string_view name : names) {
        if (const auto at = known.find(name); at != known.end()) api = std::min(api, at->second);
      }
      if (api == apis_.size()) apis_.emplace_back();
      for (const std::string_view name : names) {
        const auto [at, fresh] = known.emplace(name, api);
        if (fresh) apis_[api].push_back(name);
        if (at->second == api) continue;
        for (const std::string_view moved : std::exchange(apis_[at->second], {})) {
          known[moved] = api;
          apis_[api].push_back(moved);
        }
      }
    }
  }
  names_.reserve(known.size());
  for (const auto& [name, api] : known) names_.push_back({name, api});
  std::sort(names_.begin(), names_.end(), [](const Name& a, const Name& b) { return a.text < b.text; });
}

template <typename Visit>
bool ApiNames::ForEachMatch(std::string_view pattern, const Visit& visit) const {
  const std::string_view head = pattern.substr(0, GlobStart(pattern));
  auto at = std::lower_bound(names_.begin(), names_.end(), head,
                             [](const Name& name, std::string_view text) { return name.text < text; });
  for (; at != names_.end() && at->text.starts_with(head); ++at) {
    if (GlobMatch(pattern, at->text) && visit(*at)) return true;
    if (head.size() == pattern.size()) break;
  }
  return false;
}

std::vector<std::string> ApiNames::Resolve(const std::string& pattern) const {
  std::vector<std::string> resolved = {pattern};
  std::set<uint32_t> apis;
  bool named = false;
  ForEachMatch(pattern, [&](const Name& name) {
    named = true;
    if (apis_[name.api].size() > 1) apis.insert(name.api);
    return false;
  });
  for (const uint32_t api : apis) {
    for (const std::string_view name : apis_[api]) {
      if (!GlobMatch(pattern, name)) resolved.emplace_back(name);
    }
  }
  const std::string canonical = CanonicalName(pattern);
  if (canonical.find("::") != std::string::npos) {
    const auto add = [&resolved](const std::string& name) {
      for (std::string& spelling : SpellingsOf(name)) {
        if (spelling != resolved.front()) resolved.push_back(std::move(spelling));
      }
    };
    add(canonical);
    if (IsGlob(pattern) || OverloadStart(canonical) != std::string::npos) return resolved;
    add(absl::StrCat(canonical, pattern.ends_with(".default") ? ".default" : ".*"));
  } else if (named && !IsGlob(pattern)) {
    for (const std::string_view accessor : kAccessors) resolved.push_back(absl::StrCat(pattern, std::string(accessor)));
  }
  return resolved;
}

bool ApiNames::Has(const std::string& pattern) const {
  for (const std::string& resolved : Resolve(pattern)) {
    if (ForEachMatch(resolved, [](const Name&) { return true; })) return true;
  }
  return false;
}

bool ApiNames::Knows(const std::string& pattern) const {
  if (Has(pattern)) return true;
  const std::string canonical = CanonicalName(pattern);
  const size_t overload = OverloadStart(canonical);
  if (overload == std::string::npos) return false;
  return ForEachMatch(std::string_view(canonical).substr(0, overload), [this](const Name& name) {
    const auto next = &name + 1;
    return OverloadStart(name.text) == std::string_view::npos &&
           (next == names_.data() + names_.size() ||
            !next->text.starts_with(absl::StrCat(std::string(name.text), ".")));
  });
}

bool ApiNames::Has(const WrittenName& name) const {
  const auto has = [this](const std::string& glob) { return Has(glob); };
  return name.globs.empty() ? Has(name.text) : std::any_of(name.globs.begin(), name.globs.end(), has);
}

bool ApiNames::Knows(const WrittenName& name) const {
  const auto knows = [this](const std::string& glob) { return Knows(glob); };
  return name.globs.empty() ? Knows(name.text) : std::any_of(name.globs.begin(), name.globs.end(), knows);
}

std::string ApiNames::Near(std::string_view typed) const {
  const std::string canonical = CanonicalName(typed);
  const std::string_view pattern = canonical;
  const size_t begin = std::min(pattern.find_first_not_of('*'), pattern.size());
  const std::string_view core = pattern.substr(begin, pattern.find_last_not_of('*') + 1 - begin);
  if (core.size() < 2 || IsGlob(core)) return "";
  // Stars may surround the name of a module or namespace, or the last part of a name.
  const bool place = begin == 0 && core.size() < pattern.size() && (core.back() == '.' || core.back() == ':');
  std::vector<std::string> candidates;
  for (const Name& name : names_) {
    std::string_view candidate = begin > 0 ? LastPart(name.text) : name.text;
    if (place) candidate = candidate.substr(0, candidate.size() - LastPart(candidate).size());
    // Nearest accepts at most two differences.
    if (std::max(candidate.size(), core.size()) - std::min(candidate.size(), core.size()) > 2) continue;
    if (candidates.empty() || candidates.back() != candidate) candidates.emplace_back(candidate);
  }
  const std::string nearest = Nearest(core, candidates);
  if (nearest.empty()) return "";
  return absl::StrCat(std::string(begin, '*'), nearest, std::string(pattern.substr(begin + core.size())));
}

std::string ApiNames::Suggest(std::string_view pattern) const {
  std::string found = Near(pattern);
  if (!found.empty() || IsGlob(pattern) || CanonicalName(pattern).find("::") != std::string_view::npos) return found;
  const auto shortest_ending_in = [this](std::string_view part) {
    std::string_view shortest;
    for (const Name& name : names_) {
      if (LastPart(name.text) != part || name.text.find("::") != std::string_view::npos) continue;
      if (shortest.empty() || name.text.size() < shortest.size()) shortest = name.text;
    }
    return std::string(shortest);
  };
  found = shortest_ending_in(LastPart(pattern));
  if (!found.empty()) return found;
  std::set<std::string> parts;
  for (const Name& name : names_) {
    if (name.text.find("::") == std::string_view::npos) parts.emplace(LastPart(name.text));
  }
  const std::string near = Nearest(LastPart(pattern), {parts.begin(), parts.end()});
  return near.empty() ? "" : shortest_ending_in(near);
}

void ApiNames::AddOtherNames(ApiList* list) const {
  for (ApiEntry& entry : list->apis) {
    ForEachMatch(entry.name, [&](const Name& name) {
      for (const std::string_view other : apis_[name.api]) {
        if (other != entry.name) entry.elsewhere.emplace_back(other);
      }
      return true;
    });
  }
}

absl::StatusOr<NameFilter> ExpandNames(const GlobFilter& typed, const std::string& groups_file, const ApiNames& names) {
  NameFilter filter;
  GlobFilter groups = typed;
  for (std::vector<std::string>* const list : {&groups.include, &groups.exclude}) {
    for (std::string& pattern : *list) {
      const bool group = pattern.starts_with('%') || pattern.starts_with("?%");
      if (!group && pattern.starts_with('?')) {
        pattern.erase(0, 1);
      } else if (!group) {
        filter.written.push_back({pattern, "", {}});
      }
    }
  }
  absl::StatusOr<GlobFilter> globs = ExpandGroups(std::move(groups), groups_file, &filter.written);
  if (!globs.ok()) return globs.status();
  for (const auto& [from, to] :
       {std::pair(&globs->include, &filter.globs.include), std::pair(&globs->exclude, &filter.globs.exclude)}) {
    std::set<std::string> seen;
    for (const std::string& pattern : *from) {
      for (std::string& name : names.Resolve(pattern)) {
        if (seen.insert(name).second) to->push_back(std::move(name));
      }
    }
  }
  return filter;
}

absl::Status UnknownNames(const std::vector<WrittenName>& unknown, const ApiNames& names) {
  if (unknown.empty()) return absl::OkStatus();
  const WrittenName& first = unknown.front();
  const std::string nearest = names.Suggest(first.text);
  std::string text = absl::StrCat(first.where, "unknown API or operator ", first.text,
                                  nearest.empty() ? "" : absl::StrCat(", did you mean ", nearest, "?"), " (write ?",
                                  first.text, " to use it anyway)");
  constexpr size_t kNamed = 10;
  for (size_t i = 1; i < std::min(unknown.size(), kNamed); ++i) {
    // "list.txt:3: "
    const std::string_view where = unknown[i].where;
    const size_t colon = where.size() > 2 ? where.rfind(':', where.size() - 3) : std::string_view::npos;
    absl::StrAppend(&text, i == 1 ? "; also unknown: " : ", ", unknown[i].text);
    if (colon == std::string_view::npos) continue;
    absl::StrAppend(&text, " (line ", std::string(where.substr(colon + 1, where.size() - colon - 3)), ")");
  }
  if (unknown.size() > kNamed) absl::StrAppend(&text, " and ", unknown.size() - kNamed, " more");
  return absl::InvalidArgumentError(text);
}

}  // namespace torchtrace
