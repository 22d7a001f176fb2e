// `torchtrace report`: one page, for people who would rather look than read, of a trace, or of two side by side.

#ifndef TORCHTRACE_SERIALIZE_REPORT_REPORT_H_
#define TORCHTRACE_SERIALIZE_REPORT_REPORT_H_

#include <cstddef>
#include <functional>
#include <ostream>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "nlohmann/json.hpp"
#include "serialize/reports/reports.h"

namespace torchtrace {

struct ReportOptions {
  std::string version;   // of torchtrace
  bool sources = false;  // puts the text of the Python files that the trace's stacks name into the page
  size_t most_bytes = 20'000'000;
  // Writes what `apis coverage --format json` does of the traces; empty: the page has no coverage.
  std::function<absl::Status(const std::vector<StatsTrace>&, std::ostream*)> coverage = nullptr;
};

// One trace, or two: A and B. Reads each about a dozen times; memory grows with configs, threads and the nodes of the
// call tree. `notes` gets remarks to print with the page. Aborted when `out` fails.
absl::Status WriteReportPage(const std::vector<StatsTrace>& traces, const ReportOptions& options, std::ostream* out,
                             std::vector<std::string>* notes);

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_REPORT_REPORT_H_
