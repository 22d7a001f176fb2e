// How the result of Dedup is written: through a ConfigSink of any format.

#ifndef TORCHTRACE_SERIALIZE_EXPORT_DEDUP_OUTPUT_H_
#define TORCHTRACE_SERIALIZE_EXPORT_DEDUP_OUTPUT_H_

#include <ostream>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "serialize/configs/dedup.h"
#include "serialize/export/exporter.h"

namespace torchtrace {

struct DedupOutput {
  const Exporter* exporter = nullptr;
  bool counts = false;
  // Text: the sources behind each line. Any other format that has a place for them: a row for
  // each config and source, with the calls that it had there.
  bool provenance = false;
};

// Formats that other tools replay get, in place of a config of which parts were
// forgotten, one that was called. Returns what the format couldn't hold, a sentence
// each. Aborted when `out` fails.
absl::StatusOr<std::vector<std::string>> WriteDedup(const std::vector<DedupConfig>& configs,
                                                    const std::vector<DedupSource>& sources, const DedupOutput& output,
                                                    std::ostream* out);

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_EXPORT_DEDUP_OUTPUT_H_
