// CallSource is a file of another format, read as calls: what an importer
// implements. ImportedTrace (imported_trace.h) makes a Trace of it, so that every
// verb reads it like a log.

#ifndef TORCHTRACE_SERIALIZE_IMPORT_CALL_SOURCE_H_
#define TORCHTRACE_SERIALIZE_IMPORT_CALL_SOURCE_H_

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "nlohmann/json.hpp"
#include "serialize/trace/trace.h"

namespace torchtrace {

inline constexpr int64_t kUnknownTime = INT64_MIN;

struct ImportedCall {
  std::string_view identity;  // config.h
  std::string_view facets;    // empty: none
  // So many equal calls, one after the other; 1 where times or children are known.
  uint64_t count = 1;
  uint32_t process = 0;  // index into CallSource::processes()
  uint32_t thread = 0;
  uint32_t depth = 0;  // calls open around it on its thread
  int64_t start_ns = kUnknownTime;
  int64_t end_ns = kUnknownTime;
  CallOutcome outcome = CallOutcome::kReturned;
  std::string_view exception;
};

struct ImportedProcess {
  nlohmann::json metadata = nlohmann::json::object();  // keys as in docs/FORMAT.md
  std::vector<std::string> thread_names;               // by thread number; may be shorter
  std::string name;                                    // as dump shows it, "main-1234"; may be empty
};

class CallSource {
 public:
  virtual ~CallSource() = default;

  // As `info` names it: "api_trace.yaml", "TorchBench operator inputs".
  virtual std::string format() const = 0;

  // Every call in program order, by time where there are times, a call before the calls that it made. May be
  // called again and then says the same; memory goes with the configurations where the
  // format allows it. Errors name file, line or offset, and what was expected.
  using Visitor = std::function<absl::Status(const ImportedCall&)>;
  virtual absl::Status Scan(const Visitor& visit) = 0;

  // At least one. Complete once Scan has returned.
  virtual const std::vector<ImportedProcess>& processes() const = 0;

  // What the format can't say ("no keyword names"), a sentence each, for the user to
  // be told once. Complete once Scan has returned.
  virtual std::vector<std::string> notes() const { return {}; }
};

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_IMPORT_CALL_SOURCE_H_
