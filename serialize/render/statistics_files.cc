#include "serialize/render/statistics_files.h"

#include "absl/strings/str_cat.h"
#include "serialize/base/counted_text.h"
#include "serialize/forms/text_form.h"
#include "serialize/forms/yaml_form.h"

namespace torchtrace {

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
