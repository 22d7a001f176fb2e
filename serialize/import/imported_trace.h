// ImportedTrace is a file of another format as a Trace. It streams: memory goes
// with configurations and threads. Owns its source.
//
// Where the format has no times, all times and durations are 0: a made-up clock
// would be taken for a real one. Calls come in the source's order, which is by time
// where there are times; ends are put where their times say, but never before the
// end of a call inside.

#ifndef TORCHTRACE_SERIALIZE_IMPORT_IMPORTED_TRACE_H_
#define TORCHTRACE_SERIALIZE_IMPORT_IMPORTED_TRACE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "serialize/import/call_source.h"
#include "serialize/trace/config_table.h"
#include "serialize/trace/trace.h"

namespace torchtrace {

class ImportedTrace : public Trace {
 public:
  // `path` and `file_bytes` as processes() tell them.
  ImportedTrace(std::string path, uint64_t file_bytes, std::unique_ptr<CallSource> source);

  absl::Status Read(const Visitor& visitor) override { return Scan(visitor, /*counted=*/false); }
  absl::Status ReadCounted(const Visitor& visitor) override { return Scan(visitor, /*counted=*/true); }
  absl::StatusOr<std::vector<uint64_t>> Count() override;
  size_t config_count() const override { return configs_.config_count(); }
  size_t variant_count() const override { return configs_.variant_count(); }
  std::string_view identity(ConfigId config) const override { return configs_.identity(config); }
  std::string_view facets(VariantId variant) const override { return configs_.facets(variant); }
  ConfigId config_of(VariantId variant) const override { return configs_.config_of(variant); }
  std::string_view tags(uint32_t) const override { return {}; }
  const StackTable& stacks() const override { return no_stacks_; }
  LogSource log_source(size_t) const override { return {}; }
  const std::vector<ProcessInfo>& processes() const override { return infos_; }

  const CallSource& source() const { return *source_; }

 private:
  // What counting tells about a process.
  struct Tally {
    uint64_t calls = 0;
    uint64_t open_calls = 0;
    std::map<uint32_t, uint64_t> thread_calls;
  };
  class Tallies;
  class Sequence;

  absl::Status Scan(const Visitor& visitor, bool counted);
  // Takes over the processes that the source knows by now.
  void AddProcesses();
  void KeepTallies(std::vector<uint64_t> counts, const std::vector<Tally>& tallies);

  const std::string path_;
  const uint64_t file_bytes_;
  const std::unique_ptr<CallSource> source_;
  ConfigTable configs_;
  const StackTable no_stacks_;
  std::vector<ProcessInfo> infos_;
  bool counted_ = false;
  std::vector<uint64_t> counts_;  // by variant
};

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_IMPORT_IMPORTED_TRACE_H_
