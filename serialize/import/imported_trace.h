// A file of another format as a Trace: the source of its calls, a cache of parsed calls, and the trace.

#ifndef TORCHTRACE_SERIALIZE_IMPORT_IMPORTED_TRACE_H_
#define TORCHTRACE_SERIALIZE_IMPORT_IMPORTED_TRACE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "nlohmann/json.hpp"
#include "serialize/forms/plain_form.h"
#include "serialize/trace/tables.h"
#include "serialize/trace/trace.h"

namespace torchtrace {

// Caches the parsed call of each distinct piece of a file: calls repeat, and parsing
// costs a hundred times what a look-up does. Bounded: it is cleared when it is full.
// Not thread-safe; owns its content.
class IdentityCache {
 public:
  static constexpr size_t kMaxBytes = size_t{64} << 20;

  // Null if the text is not in the cache. Valid until the next Add.
  const ParsedCall* Find(std::string_view text) const {
    const auto at = calls_.find(absl::string_view(text.data(), text.size()));
    return at == calls_.end() ? nullptr : &at->second;
  }

  const ParsedCall& Add(std::string_view text, ParsedCall call) {
    bytes_ += text.size() + call.identity.size() + call.facets.size() + 128;
    if (bytes_ > kMaxBytes) {
      calls_.clear();
      bytes_ = 0;
    }
    return calls_.insert_or_assign(std::string(text), std::move(call)).first->second;
  }

 private:
  absl::flat_hash_map<std::string, ParsedCall> calls_;
  size_t bytes_ = 0;
};

inline constexpr int64_t kUnknownTime = INT64_MIN;

struct ImportedCall {
  std::string_view identity;  // config.h
  std::string_view facets;    // empty: none
  // Number of equal calls, one after the other; 1 if times or children are known.
  uint64_t count = 1;
  uint32_t process = 0;  // index into CallSource::processes()
  uint32_t thread = 0;
  uint32_t depth = 0;  // calls open around it on its thread
  int64_t start_ns = kUnknownTime;
  int64_t end_ns = kUnknownTime;
  CallOutcome outcome = CallOutcome::kReturned;
  std::string_view exception;
  std::string_view notes;  // on its tensors; empty: none
  CallResult result;       // if it returned and the format contains it
};

struct ImportedProcess {
  nlohmann::json metadata = nlohmann::json::object();  // keys as in docs/FORMAT.md
  std::vector<std::string> thread_names;               // by thread number; may be shorter
  std::string name;                                    // as dump prints it, "main-1234"; may be empty
};

// CallSource is a file of another format, read as calls. Importers implement it, and
// ImportedTrace makes a Trace of it, so that every verb reads it like a log.
class CallSource {
 public:
  virtual ~CallSource() = default;

  // The name that `info` prints: "api_trace.yaml", "TorchBench operator inputs".
  virtual std::string format() const = 0;

  // Visits every call in program order, by time if there are times, a call before the calls that it made. Each scan
  // gives the same calls. Memory grows only with the configurations if the format allows it. Errors name file, line
  // or offset, and what was expected.
  using Visitor = std::function<absl::Status(const ImportedCall&)>;
  virtual absl::Status Scan(const Visitor& visit) = 0;

  // At least one. Complete once Scan has returned.
  virtual const std::vector<ImportedProcess>& processes() const = 0;

  // What the format lacks ("no keyword names"), a sentence each, to print once to the user.
  // Complete once Scan has returned.
  virtual std::vector<std::string> notes() const { return {}; }
};

// ImportedTrace is a file of another format as a Trace. It streams: memory grows
// with configurations and threads. Owns its source.
//
// If the format has no times, all times and durations are 0: made-up times would
// look real. Calls come in the source's order, which is by time if there are times;
// ends are placed by their times, but never before the end of an inner call.
class ImportedTrace : public Trace {
 public:
  // processes() reports `path` and `file_bytes`.
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
  // The counts of a process.
  struct Tally {
    uint64_t calls = 0;
    uint64_t open_calls = 0;
    std::map<uint32_t, uint64_t> thread_calls;
  };
  class Tallies;
  class Sequence;

  absl::Status Scan(const Visitor& visitor, bool counted);
  // Adds the processes of the source from number `first` on.
  void ReadProcesses(size_t first);
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
