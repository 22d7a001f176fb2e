#include "serialize/diff/call_sequences.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "serialize/base/text.h"
#include "serialize/diff/by_thread.h"
#include "serialize/diff/config_diff.h"
#include "serialize/forms/forms.h"
#include "serialize/trace/run_facts.h"

namespace torchtrace {
namespace {

using LevelSymbols = std::pair<int, std::vector<uint32_t>>;

}  // namespace

absl::StatusOr<std::vector<CallSequence>> ReadSequences(Trace* trace, const std::vector<uint32_t>& symbols,
                                                        bool levels_together, bool* has_later) {
  const LaterNotesShown shown(trace, has_later != nullptr);
  ByThread<std::vector<LevelSymbols>> threads;
  const absl::Status read = trace->Read([&](const CallRecord& call) {
    if (call.kind == CallRecord::kLater && has_later != nullptr) *has_later = true;
    if (call.kind != CallRecord::kEnter) return absl::OkStatus();
    const uint32_t symbol = SymbolOf(call, symbols);
    if (symbol == CommonConfigs::kLeftOut) return absl::OkStatus();
    const int level = levels_together ? CallSequence::kAllLevels : call.level;
    OfLevel(level, &threads.Of(call)).push_back(symbol);
    return absl::OkStatus();
  });
  if (!read.ok()) return read;
  std::vector<CallSequence> sequences;
  for (auto& [key, levels] : threads.threads()) {
    std::sort(levels.begin(), levels.end(),
              [](const LevelSymbols& a, const LevelSymbols& b) { return a.first < b.first; });
    for (auto& [level, calls] : levels) sequences.push_back({key.first, key.second, level, std::move(calls)});
  }
  return sequences;
}

absl::Status FindPlaces(Trace* trace, const std::vector<uint32_t>& symbols, std::vector<SequenceQuery>* queries) {
  struct Progress {
    SequenceQuery* query = nullptr;
    uint64_t position = 0;  // of the sequence's next call
    size_t next = 0;        // index of the next requested position
    size_t next_inner = 0;
  };
  struct Open {
    uint32_t depth;
    OuterCall call;
  };
  struct Thread {
    std::vector<std::pair<int, Progress>> levels;
    std::vector<Open> open;
  };
  std::map<std::tuple<uint32_t, uint32_t, int>, SequenceQuery*> asked;
  uint64_t left = 0;
  bool levels_together = false;
  for (SequenceQuery& query : *queries) {
    asked[{query.process, query.thread, query.level}] = &query;
    left += query.positions.size();
    levels_together = query.level == CallSequence::kAllLevels;
  }
  if (left == 0) return absl::OkStatus();

  ByThread<Thread> threads;
  const absl::Status finished = absl::CancelledError();
  const absl::Status read = trace->Read([&](const CallRecord& call) -> absl::Status {
    if (call.kind != CallRecord::kEnter) return absl::OkStatus();
    Thread& thread = threads.Of(call);
    // Calls that are as deep as this call, or deeper, have ended.
    while (!thread.open.empty() && thread.open.back().depth >= call.depth) thread.open.pop_back();
    if (const uint32_t symbol = SymbolOf(call, symbols); symbol != CommonConfigs::kLeftOut) {
      const int level = levels_together ? CallSequence::kAllLevels : call.level;
      Progress& progress = OfLevel(level, &thread.levels);
      if (progress.position == 0) {
        const auto query = asked.find({call.process, call.thread, level});
        if (query != asked.end()) progress.query = query->second;
      }
      SequenceQuery* const query = progress.query;
      if (query != nullptr && progress.next < query->positions.size() &&
          query->positions[progress.next] == progress.position) {
        query->places.push_back({call.call, call.depth});
        if (progress.next_inner < query->inner.size() && query->inner[progress.next_inner] == progress.position) {
          ++progress.next_inner;
          std::vector<OuterCall>& outside = query->outside.emplace_back();
          for (const Open& open : thread.open) outside.push_back(open.call);
        }
        ++progress.next;
        if (--left == 0) return finished;
      }
      ++progress.position;
    }
    thread.open.push_back({call.depth, {call.call, call.config}});
    return absl::OkStatus();
  });
  if (!read.ok() && read != finished) return read;
  // If the file has changed, calls that no longer exist have no place.
  for (SequenceQuery& query : *queries) {
    query.places.resize(query.positions.size());
    query.outside.resize(query.inner.size());
  }
  return absl::OkStatus();
}

namespace {

struct Process {
  uint32_t index = 0;
  std::optional<int64_t> rank;
  std::string role;   // empty: unknown
  std::string label;  // of a run that was merged
  std::vector<ThreadId> threads;
};

std::vector<Process> ProcessesOf(const Trace& trace, const std::vector<ThreadId>& threads) {
  std::vector<Process> processes;
  for (const ThreadId& thread : threads) {
    if (processes.empty() || processes.back().index != thread.process) {
      const ProcessInfo& info = trace.processes()[thread.process];
      Process& process = processes.emplace_back();
      process.index = thread.process;
      process.rank = info.known.ranked.rank;
      process.role = info.known.role;
      process.label = info.known.label;
    }
    processes.back().threads.push_back(thread);
  }
  return processes;
}

// Pairs items without a partner that `alike` accepts, in order.
template <typename T, typename Alike>
void Pair(const std::vector<T>& a, const std::vector<T>& b, std::vector<bool>* a_paired, std::vector<bool>* b_paired,
          const Alike& alike, std::vector<std::pair<size_t, size_t>>* pairs) {
  for (size_t i = 0; i < a.size(); ++i) {
    if ((*a_paired)[i]) continue;
    for (size_t j = 0; j < b.size(); ++j) {
      if ((*b_paired)[j] || !alike(a[i], b[j])) continue;
      (*a_paired)[i] = (*b_paired)[j] = true;
      pairs->emplace_back(i, j);
      break;
    }
  }
}

// Pairs items with equal keys. Faster than Pair: there may be many threads.
template <typename AKey, typename BKey>
void PairEqual(const std::vector<ThreadId>& a, const std::vector<ThreadId>& b, std::vector<bool>* a_paired,
               std::vector<bool>* b_paired, const AKey& a_key, const BKey& b_key,
               std::vector<std::pair<size_t, size_t>>* pairs) {
  std::map<decltype(b_key(b[0])), std::vector<size_t>> waiting;  // of b, the first one last
  for (size_t j = b.size(); j-- > 0;) {
    if (!(*b_paired)[j]) waiting[b_key(b[j])].push_back(j);
  }
  for (size_t i = 0; i < a.size(); ++i) {
    if ((*a_paired)[i]) continue;
    const auto found = waiting.find(a_key(a[i]));
    if (found == waiting.end() || found->second.empty()) continue;
    const size_t j = found->second.back();
    found->second.pop_back();
    (*a_paired)[i] = (*b_paired)[j] = true;
    pairs->emplace_back(i, j);
  }
}

const ThreadInfo* InfoOf(const Trace& trace, ThreadId thread) {
  return FindThread(trace.processes()[thread.process], thread.thread);
}

}  // namespace

std::vector<std::pair<ThreadId, ThreadId>> MatchThreads(const Trace& a, const std::vector<ThreadId>& a_threads,
                                                        const Trace& b, const std::vector<ThreadId>& b_threads) {
  const std::vector<Process> a_processes = ProcessesOf(a, a_threads), b_processes = ProcessesOf(b, b_threads);
  std::vector<bool> a_paired(a_processes.size()), b_paired(b_processes.size());
  std::vector<std::pair<size_t, size_t>> processes;
  Pair(
      a_processes, b_processes, &a_paired, &b_paired,
      [](const Process& x, const Process& y) { return x.rank == y.rank && x.role == y.role; }, &processes);
  // An unknown rank or role matches any.
  Pair(
      a_processes, b_processes, &a_paired, &b_paired,
      [](const Process& x, const Process& y) {
        return (!x.rank.has_value() || !y.rank.has_value() || x.rank == y.rank) &&
               (x.role.empty() || y.role.empty() || x.role == y.role);
      },
      &processes);
  // Two traces of one rank each are compared even if the ranks differ.
  if (a_processes.size() == 1 && b_processes.size() == 1 && processes.empty()) processes.emplace_back(0, 0);

  std::vector<std::pair<ThreadId, ThreadId>> matched;
  for (const auto& [i, j] : processes) {
    const std::vector<ThreadId>&x = a_processes[i].threads, &y = b_processes[j].threads;
    std::vector<bool> x_paired(x.size()), y_paired(y.size());
    std::vector<std::pair<size_t, size_t>> threads;
    const auto pair = [&](const auto& key) {
      PairEqual(
          x, y, &x_paired, &y_paired, [&](ThreadId thread) { return key(a, thread); },
          [&](ThreadId thread) { return key(b, thread); }, &threads);
    };
    const auto name = [](const Trace& trace, ThreadId thread) {
      const ThreadInfo* const info = InfoOf(trace, thread);
      return info == nullptr ? std::string() : info->name;
    };
    pair([&](const Trace& trace, ThreadId thread) { return std::pair(thread.thread, name(trace, thread)); });
    pair(name);
    pair([](const Trace&, ThreadId thread) { return thread.thread; });
    for (const auto& [p, q] : threads) matched.emplace_back(x[p], y[q]);
  }
  return matched;
}

std::vector<SequencePair> PairSequences(const Trace& a, std::vector<CallSequence>* a_sequences, const Trace& b,
                                        std::vector<CallSequence>* b_sequences) {
  using Key = std::pair<ThreadId, int>;  // thread and level
  const auto by_key = [](std::vector<CallSequence>* sequences) {
    std::map<Key, CallSequence*> keys;
    for (CallSequence& sequence : *sequences) keys[{{sequence.process, sequence.thread}, sequence.level}] = &sequence;
    return keys;
  };
  const auto threads_of = [](const std::vector<CallSequence>& sequences) {
    std::set<ThreadId> threads;
    for (const CallSequence& sequence : sequences) threads.insert({sequence.process, sequence.thread});
    return std::vector<ThreadId>(threads.begin(), threads.end());
  };
  std::map<ThreadId, ThreadId> partner;
  for (const auto& [x, y] : MatchThreads(a, threads_of(*a_sequences), b, threads_of(*b_sequences))) partner[x] = y;
  std::map<Key, CallSequence*> b_keys = by_key(b_sequences);
  std::vector<SequencePair> pairs;
  for (const auto& [key, sequence] : by_key(a_sequences)) {
    const auto other = partner.find(key.first);
    const auto found = other == partner.end() ? b_keys.end() : b_keys.find({other->second, key.second});
    pairs.push_back({sequence, found == b_keys.end() ? nullptr : found->second});
    if (found != b_keys.end()) b_keys.erase(found);
  }
  for (const auto& [key, sequence] : b_keys) pairs.push_back({nullptr, sequence});
  return pairs;
}

std::string DescribeThread(const Trace& trace, ThreadId thread) {
  const ProcessInfo& process = trace.processes()[thread.process];
  std::string text;
  if (const std::string& label = process.known.label; !label.empty()) {
    absl::StrAppend(&text, FormatApi(label), ", ");
  }
  absl::StrAppend(&text, PlainLine(UnlabelledName(process)), ", thread ", thread.thread);
  const ThreadInfo* const info = InfoOf(trace, thread);
  if (info != nullptr && !info->name.empty()) absl::StrAppend(&text, " (", FormatApi(info->name), ")");
  return text;
}

}  // namespace torchtrace
