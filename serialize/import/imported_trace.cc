#include "serialize/import/imported_trace.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <optional>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"

namespace torchtrace {
namespace {

// Above this, calls of which there is only a count are not shown one by one.
constexpr uint64_t kMaxRepeatedCalls = 100'000'000;

constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

uint64_t SaturatingAdd(uint64_t a, uint64_t b) { return a > UINT64_MAX - b ? UINT64_MAX : a + b; }

// b - a, of untrusted times.
int64_t Difference(int64_t a, int64_t b) {
  int64_t difference;
  return __builtin_sub_overflow(b, a, &difference) ? kNever : difference;
}

uint64_t ThreadKey(uint32_t process, uint32_t thread) { return uint64_t{process} << 32 | thread; }

std::string ProcessPath(const std::string& path, const ImportedProcess& process, size_t index, bool alone) {
  if (!process.name.empty()) return absl::StrCat(path, "/", process.name);
  if (alone) return path;
  const auto pid = process.metadata.find("pid");
  const bool known = pid != process.metadata.end() && pid->is_number_integer();
  return absl::StrCat(path, "/process-", known ? pid->get<int64_t>() : static_cast<int64_t>(index));
}

}  // namespace

// Counts calls during a scan.
class ImportedTrace::Tallies {
 public:
  void Add(VariantId variant, const ImportedCall& call) {
    if (variant >= counts.size()) counts.resize(variant + 1);
    counts[variant] = SaturatingAdd(counts[variant], call.count);
    if (call.process >= by_process.size()) by_process.resize(call.process + 1);
    Tally& tally = by_process[call.process];
    tally.calls = SaturatingAdd(tally.calls, call.count);
    if (call.outcome == CallOutcome::kNeverReturned) tally.open_calls = SaturatingAdd(tally.open_calls, call.count);
    if (last_calls_ == nullptr || last_process_ != call.process || last_thread_ != call.thread) {
      last_calls_ = &tally.thread_calls[call.thread];
      last_process_ = call.process;
      last_thread_ = call.thread;
    }
    *last_calls_ = SaturatingAdd(*last_calls_, call.count);
  }

  std::vector<uint64_t> counts;
  std::vector<Tally> by_process;

 private:
  uint64_t* last_calls_ = nullptr;  // of the thread below; maps keep their nodes where they are
  uint32_t last_process_ = 0;
  uint32_t last_thread_ = 0;
};

// Turns calls with depths into entries and ends.
class ImportedTrace::Sequence {
 public:
  // `counted`: equal calls become one record.
  Sequence(const Visitor& visitor, bool counted) : visitor_(visitor), counted_(counted) {}

  absl::Status Add(const ImportedCall& call, ConfigId config, VariantId variant) {
    if (call.count == 0) return absl::OkStatus();
    if (absl::Status s = EndBefore(call); !s.ok()) return s;
    if (counted_) return Enter(call, call.count, config, variant);
    repeated_ = SaturatingAdd(repeated_, call.count - 1);
    if (repeated_ > kMaxRepeatedCalls) {
      return absl::ResourceExhaustedError(absl::StrCat("there are too many calls to show each of them: ", call.count,
                                                       " of one configuration; torchtrace stats counts them"));
    }
    for (uint64_t i = 0; i < call.count; ++i) {
      if (i > 0) {
        if (absl::Status s = EndInnermost(ThreadOf(call), kNever); !s.ok()) return s;
      }
      if (absl::Status s = Enter(call, 1, config, variant); !s.ok()) return s;
    }
    return absl::OkStatus();
  }

  absl::Status Finish() {
    if (absl::Status s = EndUntil(kNever, nullptr, 0); !s.ok()) return s;
    for (const std::unique_ptr<Thread>& thread : threads_) {
      while (!thread->open.empty()) {
        if (absl::Status s = EndInnermost(thread.get(), kNever); !s.ok()) return s;
      }
    }
    return absl::OkStatus();
  }

 private:
  struct OpenCall {
    CallRecord entry;
    int64_t end_ns = kUnknownTime;
    CallOutcome outcome = CallOutcome::kReturned;
    bool queued = false;  // in ends_
    std::string exception;
    std::string result_values, result_notes;
  };
  struct Thread {
    std::vector<OpenCall> open;
    int64_t now_ns = 0;  // of its last record
  };
  struct End {
    int64_t time_ns;
    uint64_t call;
    Thread* thread;
    friend bool operator>(const End& a, const End& b) {
      return std::tie(a.time_ns, a.call) > std::tie(b.time_ns, b.call);
    }
  };

  Thread* ThreadOf(const ImportedCall& call) {
    const uint64_t key = ThreadKey(call.process, call.thread);
    if (last_thread_ != nullptr && last_key_ == key) return last_thread_;
    Thread*& thread = by_key_[key];
    if (thread == nullptr) thread = threads_.emplace_back(std::make_unique<Thread>()).get();
    last_key_ = key;
    return last_thread_ = thread;
  }

  // Ends the calls that ended before `call` begins: on its thread all that don't contain it.
  absl::Status EndBefore(const ImportedCall& call) {
    Thread* const thread = ThreadOf(call);
    if (call.start_ns != kUnknownTime) {
      // The enclosing calls stay open whatever their times are; but if calls in between are missing, times decide.
      const auto parent = std::lower_bound(thread->open.begin(), thread->open.end(), call.depth,
                                           [](const OpenCall& a, uint32_t depth) { return a.entry.depth + 1 < depth; });
      const bool parent_is_open = parent != thread->open.end() && parent->entry.depth + 1 == call.depth;
      if (absl::Status s = EndUntil(call.start_ns, thread, parent_is_open ? call.depth : 0); !s.ok()) return s;
    }
    while (!thread->open.empty() && thread->open.back().entry.depth >= call.depth) {
      const int64_t latest = call.start_ns == kUnknownTime ? kNever : call.start_ns;
      if (absl::Status s = EndInnermost(thread, latest); !s.ok()) return s;
    }
    return absl::OkStatus();
  }

  // Ends calls with known ends up to `time_ns`, in the order of their ends; on `own` only those deeper than `depth`.
  absl::Status EndUntil(int64_t time_ns, const Thread* own, uint32_t depth) {
    while (!ends_.empty() && ends_.front().time_ns <= time_ns) {
      const End end = ends_.front();
      std::pop_heap(ends_.begin(), ends_.end(), std::greater<>());
      ends_.pop_back();
      std::vector<OpenCall>& open = end.thread->open;
      const auto at = std::lower_bound(open.begin(), open.end(), end.call,
                                       [](const OpenCall& a, uint64_t call) { return a.entry.call < call; });
      if (at == open.end() || at->entry.call != end.call) continue;  // it has ended
      at->queued = false;
      // It is queued again when its inner calls have ended.
      if (at + 1 != open.end() || (end.thread == own && at->entry.depth < depth)) continue;
      if (absl::Status s = EndInnermost(end.thread, kNever); !s.ok()) return s;
    }
    return absl::OkStatus();
  }

  void Queue(OpenCall* call, Thread* thread) {
    if (call->queued || call->end_ns == kUnknownTime) return;
    call->queued = true;
    ends_.push_back({call->end_ns, call->entry.call, thread});
    std::push_heap(ends_.begin(), ends_.end(), std::greater<>());
  }

  absl::Status Enter(const ImportedCall& call, uint64_t count, ConfigId config, VariantId variant) {
    Thread* const thread = ThreadOf(call);
    OpenCall opened;
    CallRecord& record = opened.entry;
    record.kind = CallRecord::kEnter;
    record.level = call.identity.empty() ? 0 : static_cast<uint8_t>(call.identity[0]);
    record.process = call.process;
    record.thread = call.thread;
    record.depth = call.depth;
    record.config = config;
    record.variant = variant;
    record.call = calls_;
    record.count = count;
    calls_ = SaturatingAdd(calls_, count);
    if (!thread->open.empty() && thread->open.back().entry.depth + 1 == call.depth) {
      record.parent = thread->open.back().entry.call;
    }
    if (call.start_ns != kUnknownTime) thread->now_ns = call.start_ns;
    record.time_ns = thread->now_ns;
    opened.end_ns = call.end_ns;
    opened.outcome = call.outcome;
    opened.exception = call.exception;
    opened.result_values = call.result.values;
    opened.result_notes = call.result.notes;
    thread->open.push_back(std::move(opened));
    OpenCall& kept = thread->open.back();
    if (kept.outcome != CallOutcome::kNeverReturned) Queue(&kept, thread);
    CallRecord entry = kept.entry;
    entry.notes = call.notes;
    return visitor_(entry);
  }

  // `latest_ns`: the beginning of the next call.
  absl::Status EndInnermost(Thread* thread, int64_t latest_ns) {
    const OpenCall call = std::move(thread->open.back());
    thread->open.pop_back();
    if (!thread->open.empty() && thread->open.back().outcome != CallOutcome::kNeverReturned) {
      Queue(&thread->open.back(), thread);
    }
    if (call.outcome == CallOutcome::kNeverReturned) return absl::OkStatus();
    if (call.end_ns != kUnknownTime) {
      thread->now_ns = std::max({thread->now_ns, call.entry.time_ns, std::min(call.end_ns, latest_ns)});
    }
    CallRecord record = call.entry;
    record.kind = call.outcome == CallOutcome::kRaised ? CallRecord::kRaise : CallRecord::kLeave;
    record.time_ns = thread->now_ns;
    record.duration_ns = std::max<int64_t>(0, Difference(call.entry.time_ns, record.time_ns));
    if (record.kind == CallRecord::kRaise) record.exception = call.exception;
    if (record.kind == CallRecord::kLeave) record.result = {call.result_values, call.result_notes};
    return visitor_(record);
  }

  const Visitor& visitor_;
  const bool counted_;
  uint64_t repeated_ = 0;                         // calls that are shown one by one though only their count is known
  std::vector<std::unique_ptr<Thread>> threads_;  // by first call
  absl::flat_hash_map<uint64_t, Thread*> by_key_;
  uint64_t last_key_ = 0;
  Thread* last_thread_ = nullptr;
  std::vector<End> ends_;  // a heap, the earliest on top
  uint64_t calls_ = 0;
};

ImportedTrace::ImportedTrace(std::string path, uint64_t file_bytes, std::unique_ptr<CallSource> source)
    : path_(std::move(path)), file_bytes_(file_bytes), source_(std::move(source)) {
  ReadProcesses(0);
}

void ImportedTrace::ReadProcesses(size_t first) {
  const std::vector<ImportedProcess>& processes = source_->processes();
  for (size_t i = infos_.size(); i < processes.size(); ++i) {
    ProcessInfo& info = infos_.emplace_back();
    info.closed = true;
    info.file_bytes = i == 0 ? file_bytes_ : 0;
  }
  for (size_t i = first; i < infos_.size() && i < processes.size(); ++i) {
    infos_[i].path = ProcessPath(path_, processes[i], i, processes.size() == 1);
    nlohmann::json metadata = processes[i].metadata;
    // Most formats have no end marker.
    if (i == 0 && !metadata.contains("file_end")) metadata["file_end"] = "unknown";
    infos_[i].SetMetadata(std::make_shared<const nlohmann::json>(std::move(metadata)));
  }
}

void ImportedTrace::KeepTallies(std::vector<uint64_t> counts, const std::vector<Tally>& tallies) {
  ReadProcesses(0);
  counts.resize(configs_.variant_count());
  counts_ = std::move(counts);
  for (size_t i = 0; i < tallies.size() && i < infos_.size(); ++i) {
    ProcessInfo& info = infos_[i];
    info.calls = tallies[i].calls;
    info.open_calls = tallies[i].open_calls;
    info.threads.clear();
    const std::vector<std::string>& names = source_->processes()[i].thread_names;
    for (const auto& [number, calls] : tallies[i].thread_calls) {
      ThreadInfo& thread = info.threads.emplace_back();
      thread.number = number;
      if (number < names.size()) thread.name = names[number];
      thread.calls = calls;
    }
  }
  counted_ = true;
}

absl::StatusOr<std::vector<uint64_t>> ImportedTrace::Count() {
  if (counted_) return counts_;
  Tallies tallies;
  const absl::Status scanned = source_->Scan([&](const ImportedCall& call) -> absl::Status {
    tallies.Add(configs_.Intern(call.identity, call.facets), call);
    return absl::OkStatus();
  });
  if (!scanned.ok()) return scanned;
  KeepTallies(std::move(tallies.counts), tallies.by_process);
  return counts_;
}

absl::Status ImportedTrace::Scan(const Visitor& visitor, bool counted) {
  Tallies tallies;
  Sequence sequence(visitor, counted);
  bool begun = false;
  const absl::Status scanned = source_->Scan([&](const ImportedCall& call) -> absl::Status {
    // A source may name a process only when it reaches it; the name of the only process so far then changes.
    if (!std::exchange(begun, true) || (infos_.size() == 1 && source_->processes().size() > 1)) {
      ReadProcesses(0);
    } else if (call.process >= infos_.size()) {
      ReadProcesses(infos_.size());
    }
    const VariantId variant = configs_.Intern(call.identity, call.facets);
    if (!counted_) tallies.Add(variant, call);
    return sequence.Add(call, configs_.config_of(variant), variant);
  });
  if (!scanned.ok()) return scanned;
  if (!counted_) KeepTallies(std::move(tallies.counts), tallies.by_process);
  return sequence.Finish();
}

}  // namespace torchtrace
