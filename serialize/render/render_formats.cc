#include <algorithm>
#include <array>
#include <cstddef>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "serialize/base/text.h"
#include "serialize/forms/forms.h"
#include "serialize/render/render.h"

namespace torchtrace {
namespace {

struct FileKind {
  const char* stem;
  const char* extension;
};
// CRITICAL: in RenderFile's order.
constexpr std::array<FileKind, kRenderFileCount> kFileKinds = {{
    {"trace", "yaml"},
    {"trace", "txt"},
    {"apis", "txt"},
    {"configs", "txt"},
    {"configs", "yaml"},
    {"statistics", "txt"},
    {"statistics", "yaml"},
    {"stacks", "yaml"},
}};

bool IsNumber(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

}  // namespace

absl::StatusOr<RenderFormats> RenderFormats::Parse(std::string_view text) {
  if (text == "all") return All();
  if (text == "none") return None();
  RenderFormats formats = None();
  const std::vector<std::string> names = absl::StrSplit(std::string(text), ',');
  for (const std::string& name : names) {
    bool known = false;
    for (size_t i = 0; i < kFileKinds.size(); ++i) {
      const FileKind& kind = kFileKinds[i];
      if (name != kind.stem && name != kind.extension && name != absl::StrCat(kind.stem, ".", kind.extension)) continue;
      formats.Add(static_cast<RenderFile>(i));
      known = true;
    }
    if (known) continue;
    if (name == "all" || name == "none") {
      return absl::InvalidArgumentError(absl::StrCat("format \"", name, "\" can't be in a list: give it alone"));
    }
    return absl::InvalidArgumentError(absl::StrCat("unknown format \"", name, "\"; known: ", Choices()));
  }
  return formats;
}

std::vector<std::string> RenderFormats::Names() {
  std::vector<std::string> names = {"yaml", "txt", "trace", "apis", "configs", "statistics", "stacks"};
  for (const FileKind& kind : kFileKinds) names.push_back(absl::StrCat(kind.stem, ".", kind.extension));
  names.insert(names.end(), {"all", "none"});
  return names;
}

std::string RenderFormats::Choices() { return absl::StrJoin(Names(), ", "); }

std::string RenderFileName(RenderFile file, std::optional<int> level) {
  const FileKind& kind = kFileKinds[static_cast<size_t>(file)];
  const std::string suffix = level.has_value() ? absl::StrCat("_level_", *level) : "";
  return absl::StrCat("api_", kind.stem, suffix, ".", kind.extension);
}

bool IsRenderedFileName(std::string_view name) {
  if (name == "run.json") return true;
  for (const FileKind& kind : kFileKinds) {
    const std::string start = absl::StrCat("api_", kind.stem);
    const std::string end = absl::StrCat(".", kind.extension);
    if (name.size() < start.size() + end.size() || !name.starts_with(start) || !name.ends_with(end)) continue;
    const std::string_view middle = name.substr(start.size(), name.size() - start.size() - end.size());
    if (middle.empty() || (middle.starts_with("_level_") && IsNumber(middle.substr(7)))) return true;
  }
  return false;
}

std::string FormatStatisticsText(const Statistics& statistics) {
  std::string text =
      absl::StrCat("Total APIs: ", statistics.apis.size(), "\nTotal API calls: ", statistics.calls, "\n\n");
  for (const ApiCount& api : statistics.apis) {
    absl::StrAppend(&text, FormatApi(api.api), ": ", api.calls, " (", FormatPercent(api.calls, statistics.calls),
                    ")\n");
  }
  return text;
}

std::string FormatStatisticsYaml(const Statistics& statistics) {
  std::string yaml = absl::StrCat("total_apis: ", statistics.apis.size(), "\ntotal_api_calls: ", statistics.calls,
                                  "\ntotal_configs: ", statistics.configs, "\napis:");
  if (statistics.apis.empty()) yaml += " []";
  yaml += "\n";
  for (const ApiCount& api : statistics.apis) {
    std::string percent = FormatPercent(api.calls, statistics.calls);
    percent.pop_back();
    absl::StrAppend(&yaml, "- api: ", YamlScalar(api.api, /*in_flow=*/false), "\n  level: ", api.level,
                    "\n  calls: ", api.calls, "\n  percent: ", percent);
    absl::StrAppend(&yaml, "\n  configs: ", api.configs, "\n");
  }
  return yaml;
}

}  // namespace torchtrace
