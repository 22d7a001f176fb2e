// The whole text of api_statistics.txt and api_statistics.yaml.

#ifndef TORCHTRACE_SERIALIZE_RENDER_STATISTICS_FILES_H_
#define TORCHTRACE_SERIALIZE_RENDER_STATISTICS_FILES_H_

#include <string>

#include "serialize/trace/statistics.h"

namespace torchtrace {

std::string FormatStatisticsText(const Statistics& statistics);
std::string FormatStatisticsYaml(const Statistics& statistics);

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_RENDER_STATISTICS_FILES_H_
