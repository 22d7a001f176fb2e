// The texts of the Python files that a trace's stacks name, for a report page.

#ifndef TORCHTRACE_SERIALIZE_REPORT_SOURCES_H_
#define TORCHTRACE_SERIALIZE_REPORT_SOURCES_H_

#include <cstddef>
#include <string>
#include <vector>

#include "serialize/reports/reports.h"

namespace torchtrace {

struct SourceTexts {
  std::vector<std::string> files;  // as the values of the facet `file`
  std::vector<std::string> texts;
  size_t left_out = 0;
};

// Those of calling lines, which were read. A trace may be anybody's and name any file, whose text the page then has:
// only regular files whose names end in .py are read, of 1 MB, 5 MB together. A path that is not absolute is of the
// folder in which the program was started.
SourceTexts ReadSources(const std::vector<StatsTrace>& traces);

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_REPORT_SOURCES_H_
