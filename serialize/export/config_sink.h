// ConfigSink writes configurations with their counts in one output format: what
// `dedup -o` and `export` write through. One file per format implements it (exporter.h).
//
//   absl::StatusOr<std::unique_ptr<ConfigSink>> sink = MakeConfigSink(exporter, &out);
//   (*sink)->Add({.identity = trace.identity(config), .calls = calls});
//   (*sink)->Finish();
//
// Rows are written in the order added; torchbench and tritonbench group them by
// operator and write at Finish. Memory goes with the configurations at most.

#ifndef TORCHTRACE_SERIALIZE_EXPORT_CONFIG_SINK_H_
#define TORCHTRACE_SERIALIZE_EXPORT_CONFIG_SINK_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"

namespace torchtrace {

struct ConfigRow {
  std::string_view identity = {};  // config.h; valid during the call
  std::string_view facets = {};    // empty: none
  uint64_t calls = 1;
  int64_t time_ns = -1;  // of all its calls; -1: not known
  // Where it comes from; empty: not asked for, or several.
  std::string_view trace = {};  // path or label
  std::string_view host = {};
  int64_t pid = -1;
  int64_t rank = -1;
};

class ConfigSink {
 public:
  virtual ~ConfigSink() = default;
  virtual absl::Status Add(const ConfigRow& row) = 0;
  // Aborted when the stream failed, as Add.
  virtual absl::Status Finish() = 0;
  // What the format can't hold and was left out, a sentence each, for the user to be
  // told. Complete once Finish has returned.
  virtual std::vector<std::string> notes() const { return {}; }
};

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_EXPORT_CONFIG_SINK_H_
