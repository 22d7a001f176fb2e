// Calls that run again: what is to be called, who calls it, and what became of it.
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
#include "serialize/trace/trace.h"
#include "serialize/where/call_selection.h"

namespace torchtrace {

// What calls have beside their configs, which may be large: in a file that goes with the process.
class CallRecords {
 public:
  CallRecords() = default;
  ~CallRecords();
  CallRecords(const CallRecords&) = delete;
  CallRecords& operator=(const CallRecords&) = delete;

  // Of a call: notes on its tensors and the values of its result. Its number, from 1; 0 where there is nothing to keep.
  absl::StatusOr<uint64_t> Add(std::string_view notes, std::string_view result);
  absl::Status Get(uint64_t number, std::string* notes, std::string* result) const;
  // Forgets all of them.
  absl::Status Clear();

 private:
  std::FILE* file_ = nullptr;  // opened when it is needed
};

// What stands for bytes of which there are too many to keep; two of them have the same one never in practice.
using Fingerprint = std::pair<uint64_t, uint64_t>;
Fingerprint FingerprintOf(std::string_view bytes);

// ReplayPlan gives the configs of traces that are to be called, each once, with what was recorded of its first call
// that returned, else of its first: facets (gradients, subclasses), notes on its tensors, its result. Memory goes with
// the trace that is read, and is a hash for each config of those before.

struct ReplayItem {
  std::string key;  // 32 hexadecimal digits, of all that the result depends on
  int level = 0;
  std::string line;      // its text
  std::string recorded;  // the type of exception that the call ended with; empty: it returned, or nobody knows
  std::string request;   // for a worker, a JSON object
  uint64_t place = 0;    // of its result in reports: ResultStore::Reserve
};

// Whether it says how tensors lie in memory: older ExecutionTrace files don't.
bool TellsStrides(const Trace& trace);

class ReplayPlan {
 public:
  // Of calls that are selected alone.
  explicit ReplayPlan(CallSelection selection) : selection_(std::move(selection)) {}

  // Begins with a trace, which is read once and to its end; it outlives the calls of Next, which must not be called
  // after an error. `last`: no other one follows.
  absl::Status Open(Trace* trace, bool last = false);
  // The next config of it. False: there is none, or status() says what failed.
  bool Next(ReplayItem* item);
  const absl::Status& status() const { return status_; }

  // Of the trace, for those who wait: how many of its selected configs were looked at, and how many there are.
  uint64_t looked_at() const { return looked_at_; }
  uint64_t configs() const { return configs_; }

 private:
  // How a call ended, as an index into exceptions_.
  static constexpr uint32_t kReturned = 0;
  static constexpr uint32_t kUnknown = UINT32_MAX;
  struct Chosen {
    VariantId variant = kLostId;
    uint32_t exception = kUnknown;
    uint64_t record = 0;  // of records_
  };

  absl::Status See(const CallRecord& call);
  absl::Status FillIn(const Chosen& chosen, ReplayItem* item);

  const CallSelection selection_;
  Trace* trace_ = nullptr;
  std::optional<CallSelector> selector_;
  std::vector<Chosen> chosen_;  // by ConfigId
  std::vector<std::string> exceptions_;
  absl::flat_hash_map<std::string, uint32_t> exception_numbers_;
  // Selected calls that have not ended, of configs without one that returned: their notes.
  absl::flat_hash_map<uint64_t, std::pair<ConfigId, std::string>> open_;
  CallRecords records_;
  absl::Status status_;
  uint64_t next_ = 0;  // of chosen_
  uint64_t looked_at_ = 0, configs_ = 0;
  bool last_ = false;
  absl::flat_hash_set<Fingerprint> seen_;
};

// Workers are processes of the user's Python, one thread of ours for each. What they are told and tell are lines of
// JSON, those of requests behind their lengths; worker.py is the other end.

struct WorkerOptions {
  std::string python;  // its program
  int workers = 1;
  int threads = 1;     // of torch, in each; 0: as many as it takes itself
  std::string device;  // in place of the recorded ones; empty: those
  uint64_t seed = 0;
  double timeout_s = 60;    // of a small call; more by the size of its inputs
  uint64_t max_bytes = 0;   // of a call's inputs
  uint64_t max_memory = 0;  // that a worker may take beside torch itself
  bool sequence = false;    // what it is asked are steps, not configs
};

// What a worker said of one config; `result` is "ok", "raised", "crashed", "timeout" or "skipped".
struct ReplayAnswer {
  std::string result = {};
  std::string reason = {};
  std::vector<std::string> raised = {};  // names of the exception's type and its bases
  std::string difference = {};           // of what it returned from what was recorded, in words
  nlohmann::json details = {};           // all that it said
  double seconds = -1;                   // -1: it was not called to its end
};

// Calls `next` and `done`, one at a time, until there is nothing more. Stops at the first error, of a worker
// that can't be started or of `done`.
absl::Status RunWorkers(const WorkerOptions& options, const std::function<bool(ReplayItem*)>& next,
                        const std::function<absl::Status(const ReplayItem&, const ReplayAnswer&)>& done);

// One worker that is asked in order, and keeps tensors from one call to the next. Where a call has crashed or took too
// long these are lost.
class LoneWorker {
 public:
  explicit LoneWorker(const WorkerOptions& options);
  ~LoneWorker();

  absl::Status Start();
  bool is_running() const;
  // `pieces` follow the request's line as they are.
  ReplayAnswer Ask(const std::string& request, const std::vector<std::string_view>& pieces);

 private:
  struct Process;
  const WorkerOptions options_;
  const std::unique_ptr<Process> process_;
};

// One config's result, as reports show it; of a sequence, one call's.
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

// What `result` may be, in the order of reports.
inline constexpr const char* kReplayResults[] = {"ok", "raised", "crashed", "timeout", "skipped"};

ReplayResult Judge(const ReplayItem& item, const ReplayAnswer& answer);

// A sequence: calls in order, with the tensors that went from one to the next (serialize/flow).

struct SequenceFacts {
  FlowSummary flow;
  int level = 0;
  // Tensors: compared with their recorded contents, of these the same bits; given the recorded contents, as they depend
  // on what nobody recorded; made, since no call returned them.
  uint64_t compared = 0, equal = 0, filled = 0, made = 0;
  uint64_t deaths = 0;   // of the worker, and with it of what later calls take
  bool stopped = false;  // after too many of them
  uint64_t restarts() const { return deaths - (stopped ? 1 : 0); }
};

// Replays one trace's selected calls in one worker at a time. Without levels in the selection those of one level: 2,
// else 4, 1, 0.
absl::StatusOr<SequenceFacts> ReplaySequence(Trace* trace, const CallSelection& selection, const WorkerOptions& options,
                                             const std::function<absl::Status(const ReplayResult&)>& done);

// ResultStore keeps results in a file, a line of JSON each as they come, and a number for each in memory: from it
// reports are written, in the order of the configs, and an interrupted replay goes on. Not thread-safe.
class ResultStore {
 public:
  // `path` empty: a file that goes with the process. `conditions` tells what results depend on; a file that was
  // made under others is an error. What the end of the file lacks after a crash is cut off.
  static absl::StatusOr<std::unique_ptr<ResultStore>> Open(const std::string& path, const std::string& conditions);
  ~ResultStore();
  ResultStore(const ResultStore&) = delete;
  ResultStore& operator=(const ResultStore&) = delete;

  // Whether there is one from before; then it is the next one in reports.
  bool Reuse(const std::string& key);
  // The next place in reports, for a result that comes later.
  uint64_t Reserve();
  absl::Status Add(const ReplayResult& result, uint64_t place);
  uint64_t reused() const { return reused_; }
  // Lines of the file that are no results: they stay, and what they told is called again.
  uint64_t damaged() const { return damaged_; }

  // The results of this replay.
  absl::Status ForEach(const std::function<absl::Status(const ReplayResult&)>& visit) const;

 private:
  explicit ResultStore(std::FILE* file) : file_(file) {}

  static constexpr long kNothing = -1;

  std::FILE* const file_;
  absl::flat_hash_map<Fingerprint, long> earlier_;  // of a key: its offset
  std::vector<long> offsets_;                       // by place
  uint64_t reused_ = 0;
  uint64_t damaged_ = 0;
};

struct ReplaySummary {
  std::map<std::string, uint64_t> results;  // by result: configs
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
  const SequenceFacts* sequence = nullptr;  // of a sequence
};

// Aborted when `out` fails, and then the summary is there.
absl::Status WriteReplayReport(const ResultStore& results, const ReplayReportOptions& options, std::ostream* out,
                               ReplaySummary* summary);

}  // namespace torchtrace

#endif  // TORCHTRACE_REPLAY_REPLAY_H_
