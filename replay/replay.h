// Replaying calls: which calls to make, the workers that make them, and the results.
//
//   ReplayPlan plan(selection);
//   ResultStore results = ...;
//   for (each trace) plan.Open(trace), then while (plan.Next(&item)) a worker calls it and results.Add(Judge(...))

#ifndef TORCHTRACE_REPLAY_REPLAY_H_
#define TORCHTRACE_REPLAY_REPLAY_H_

#include <cstdint>
#include <cstdio>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"
#include "serialize/base/choices.h"
#include "serialize/flow/flow.h"
#include "serialize/model/config.h"
#include "serialize/trace/trace.h"
#include "serialize/where/call_selection.h"

namespace torchtrace {

// Records of calls in addition to their configs: these may be large, so they are kept in a temporary file.
class CallRecords {
 public:
  CallRecords() = default;
  ~CallRecords();
  CallRecords(const CallRecords&) = delete;
  CallRecords& operator=(const CallRecords&) = delete;

  // Adds notes on a call's tensors and the values of its result. Returns its number, from 1; 0 if both are empty.
  absl::StatusOr<uint64_t> Add(std::string_view notes, std::string_view result);
  absl::Status Get(uint64_t number, std::string* notes, std::string* result) const;
  // Drops all of them.
  absl::Status Clear();

 private:
  std::FILE* file_ = nullptr;  // opened when it is needed
};

// A 128-bit hash in place of bytes that are too many to keep; in practice, there are no collisions.
using Fingerprint = std::pair<uint64_t, uint64_t>;
Fingerprint FingerprintOf(std::string_view bytes);

struct ReplayItem {
  std::string key;  // 32 hexadecimal digits, a hash of everything that the result depends on
  int level = 0;
  std::string line;      // the config as text
  std::string recorded;  // the type of exception that the call raised; empty: it returned, or its end is unknown
  std::string request;   // for a worker, a JSON object
  Config config;
  uint64_t calls = 0;  // only if they are counted
  uint64_t place = 0;  // in reports: ResultStore::Reserve
};

// Whether the trace records strides: older ExecutionTrace files don't.
bool TellsStrides(const Trace& trace);

// The configs to call, each once for all traces, with the record of the first call that returned, else of the first
// call: facets (gradients, subclasses), notes on its tensors, its result. Memory grows with the current trace, and by a
// hash for each config of earlier ones.
class ReplayPlan {
 public:
  // Only of selected calls. `counts`: count a config's calls in a trace.
  explicit ReplayPlan(CallSelection selection, bool counts = false)
      : selection_(std::move(selection)), counts_(counts) {}

  // Starts a trace and reads it once, to its end. It must outlive the calls of Next, which are not allowed after an
  // error. `last`: no other trace follows.
  absl::Status Open(Trace* trace, bool last = false);
  // The next config of the trace. False at the end, or after an error: see status().
  bool Next(ReplayItem* item);
  const absl::Status& status() const { return status_; }

  // The progress in the trace: how many of its selected configs were looked at, and how many there are.
  uint64_t looked_at() const { return looked_at_; }
  uint64_t configs() const { return configs_; }

 private:
  // How a call ended, as an index into exceptions_.
  static constexpr uint32_t kReturned = 0;
  static constexpr uint32_t kUnknown = UINT32_MAX;
  struct Chosen {
    VariantId variant = kLostId;
    uint32_t exception = kUnknown;
    uint64_t record = 0;  // number in records_
    uint64_t calls = 0;
  };

  absl::Status See(const CallRecord& call);
  absl::Status FillIn(const Chosen& chosen, ReplayItem* item);

  const CallSelection selection_;
  const bool counts_;
  Trace* trace_ = nullptr;
  std::optional<CallSelector> selector_;
  std::vector<Chosen> chosen_;  // by ConfigId
  std::vector<std::string> exceptions_;
  absl::flat_hash_map<std::string, uint32_t> exception_numbers_;
  // Notes of selected calls that have not ended, for configs without a call that returned.
  absl::flat_hash_map<uint64_t, std::pair<ConfigId, std::string>> open_;
  CallRecords records_;
  absl::Status status_;
  uint64_t next_ = 0;  // index into chosen_
  uint64_t looked_at_ = 0, configs_ = 0;
  bool last_ = false;
  absl::flat_hash_set<Fingerprint> seen_;
};

// Workers are processes (worker_process.h), each with a thread of this process.
struct WorkerOptions {
  std::string python;  // its program
  int workers = 1;
  int threads = 1;     // of torch, in each; 0: torch's default
  std::string device;  // replaces the recorded ones; empty: the recorded ones
  uint64_t seed = 0;
  double timeout_s = 60;    // for a small call; more for large inputs
  uint64_t max_bytes = 0;   // of a call's inputs
  uint64_t max_memory = 0;  // for a worker in addition to torch itself
  bool sequence = false;    // requests are steps, not configs
};

// A worker's answer for one config; `result` is "ok", "raised", "crashed", "timeout" or "skipped".
struct ReplayAnswer {
  std::string result = {};
  std::string reason = {};
  std::vector<std::string> raised = {};  // names of the exception's type and its bases
  std::string difference = {};           // between what it returned and what was recorded, in words
  nlohmann::json details = {};           // the whole answer
  double seconds = -1;                   // -1: the call was not completed
};

// Calls `next` and `done`, one at a time, until no item is left. Stops at the first error, of a worker that can't be
// started or of `done`.
absl::Status RunWorkers(const WorkerOptions& options, const std::function<bool(ReplayItem*)>& next,
                        const std::function<absl::Status(const ReplayItem&, const ReplayAnswer&)>& done);

// One worker that gets requests in order, and keeps tensors from one call to the next. A crash or timeout loses them.
class LoneWorker {
 public:
  explicit LoneWorker(const WorkerOptions& options);
  ~LoneWorker();

  absl::Status Start();
  bool is_running() const;
  // `pieces` are sent after the request's line.
  ReplayAnswer Ask(const std::string& request, const std::vector<std::string_view>& pieces);

 private:
  struct Process;
  const WorkerOptions options_;
  const std::unique_ptr<Process> process_;
};

// The result of one config in reports; in a sequence, of one call.
struct ReplayResult {
  static constexpr uint64_t kNoCall = UINT64_MAX;
  uint64_t call = kNoCall;  // its number in the trace
  std::string key;
  std::string config;
  int level = 0;
  std::string result;
  std::string recorded;  // as in ReplayItem
  std::string reason;
  double seconds = -1;
  bool differs = false;  // from what was recorded
};

// The values of `result`, in the order of reports.
inline constexpr const char* kReplayResults[] = {"ok", "raised", "crashed", "timeout", "skipped"};

ReplayResult Judge(const ReplayItem& item, const ReplayAnswer& answer);

// A sequence: calls in order, with the tensors passed from one to the next (serialize/flow).
struct SequenceFacts {
  FlowSummary flow;
  int level = 0;
  // Tensors: compared with their recorded contents; of these, bitwise equal; filled with the recorded contents, since
  // they depend on unrecorded data; made, since no call returned them.
  uint64_t compared = 0, equal = 0, filled = 0, made = 0;
  uint64_t deaths = 0;   // of the worker, which lose the tensors for later calls
  bool stopped = false;  // after too many deaths
  uint64_t restarts() const { return deaths - (stopped ? 1 : 0); }
};

// The one level of which a program or a sequence is: the selection's or, if it has none, the first in `order` that the
// trace has. `why`: the error for a selection of several.
absl::StatusOr<int> OneLevelOf(Trace* trace, const CallSelection& selection, const std::vector<int>& order,
                               std::string_view why);

// Replays one trace's selected calls with one worker at a time. If the selection has no levels: the calls of one level,
// 2, else 4, 1, 0.
absl::StatusOr<SequenceFacts> ReplaySequence(Trace* trace, const CallSelection& selection, const WorkerOptions& options,
                                             const std::function<absl::Status(const ReplayResult&)>& done);

// ResultStore appends results to a file, as lines of JSON, and keeps an offset for each in memory. Reports are written
// from it, in the order of the configs, and an interrupted replay continues with it. Not thread-safe.
class ResultStore {
 public:
  // `path` empty: a temporary file. `conditions`: what results depend on; a file made under other conditions is an
  // error. An incomplete last line, left by a crash, is cut off.
  static absl::StatusOr<std::unique_ptr<ResultStore>> Open(const std::string& path, const std::string& conditions);
  ~ResultStore();
  ResultStore(const ResultStore&) = delete;
  ResultStore& operator=(const ResultStore&) = delete;

  // Whether there is an earlier result, which then becomes the next one in reports.
  bool Reuse(const std::string& key);
  // The next place in reports, for a result that is added later.
  uint64_t Reserve();
  absl::Status Add(const ReplayResult& result, uint64_t place);
  uint64_t reused() const { return reused_; }
  // The number of invalid lines in the file: they stay, and their configs are called again.
  uint64_t damaged() const { return damaged_; }

  // The results of this replay.
  absl::Status ForEach(const std::function<absl::Status(const ReplayResult&)>& visit) const;

 private:
  explicit ResultStore(std::FILE* file) : file_(file) {}

  static constexpr long kNothing = -1;

  std::FILE* const file_;
  absl::flat_hash_map<Fingerprint, long> earlier_;  // offsets by key
  std::vector<long> offsets_;                       // by place
  uint64_t reused_ = 0;
  uint64_t damaged_ = 0;
};

struct ReplaySummary {
  std::map<std::string, uint64_t> results;  // number of configs by result
  uint64_t configs = 0;
  uint64_t differ = 0;
  uint64_t raised_as_recorded = 0;
};

enum class ReplayFormat : uint8_t { kText, kJson, kCsv, kJunit };
const Choices<ReplayFormat>& ReplayFormats();

struct ReplayReportOptions {
  ReplayFormat format = ReplayFormat::kText;
  bool all = false;  // text: every config, not only those that differ
  std::string device = {};
  uint64_t seed = 0;
  const SequenceFacts* sequence = nullptr;  // null: not a sequence
};

// Aborted if `out` fails, with the summary filled in.
absl::Status WriteReplayReport(const ResultStore& results, const ReplayReportOptions& options, std::ostream* out,
                               ReplaySummary* summary);

}  // namespace torchtrace

#endif  // TORCHTRACE_REPLAY_REPLAY_H_
