// The tables of a report page from its traces: APIs, configs, shapes, modules, lines and steps, with their facets.

#ifndef TORCHTRACE_SERIALIZE_REPORT_TRACE_TABLES_H_
#define TORCHTRACE_SERIALIZE_REPORT_TRACE_TABLES_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"
#include "serialize/report/page/page_table.h"
#include "serialize/reports/reports.h"

namespace torchtrace {

struct TraceTables {
  std::vector<PageTable> tables;  // without empty ones
  PageTable* Find(std::string_view name) {
    for (PageTable& table : tables) {
      if (table.name == name) return &table;
    }
    return nullptr;
  }
  PageFacets facets;
  // Of each trace, `by_level` and the totals of REPORT_DATA.md, and remarks.
  std::vector<nlohmann::ordered_json> totals;
  std::vector<std::string> notes;
};

// One trace or two, whose rows are matched by their level and text, and lines by file and function too. Reads each of
// them several times.
absl::StatusOr<TraceTables> ReadTraceTables(const std::vector<StatsTrace>& traces);

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_REPORT_TRACE_TABLES_H_
