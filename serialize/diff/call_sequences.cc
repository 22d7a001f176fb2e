#include "serialize/diff/call_sequences.h"

#include <algorithm>
#include <map>
#include <memory>
#include <tuple>
#include <utility>

#include "serialize/diff/common_configs.h"

namespace torchtrace {
namespace {

uint32_t SymbolOf(const CallRecord& call, const std::vector<uint32_t>& symbols) {
  // A config from beyond: the file has changed since it was counted.
  return call.config < symbols.size() ? symbols[call.config] : CommonConfigs::kLeftOut;
}

// What belongs to each thread, found quickly while the same one goes on.
template <typename T>
class ByThread {
 public:
  T& Of(const CallRecord& call) {
    if (last_ == nullptr || process_ != call.process || thread_ != call.thread) {
      process_ = call.process;
      thread_ = call.thread;
      last_ = &threads_[{process_, thread_}];
    }
    return *last_;
  }
  std::map<std::pair<uint32_t, uint32_t>, T>& threads() { return threads_; }

 private:
  uint32_t process_ = 0;
  uint32_t thread_ = 0;
  T* last_ = nullptr;
  std::map<std::pair<uint32_t, uint32_t>, T> threads_;
};

using LevelSymbols = std::pair<int, std::vector<uint32_t>>;

// Few levels: a list is quickest.
template <typename T>
T& OfLevel(int level, std::vector<std::pair<int, T>>* levels) {
  for (auto& [known, value] : *levels) {
    if (known == level) return value;
  }
  return levels->emplace_back(level, T()).second;
}

}  // namespace

absl::StatusOr<std::vector<CallSequence>> ReadSequences(Trace* trace, const std::vector<uint32_t>& symbols,
                                                        bool levels_together) {
  ByThread<std::vector<LevelSymbols>> threads;
  const absl::Status read = trace->Read([&](const CallRecord& call) {
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
    size_t next = 0;        // index of the next position asked for
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
    // What is as deep as this call, or deeper, has ended.
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
  // The file has changed: what isn't there any more has no place.
  for (SequenceQuery& query : *queries) {
    query.places.resize(query.positions.size());
    query.outside.resize(query.inner.size());
  }
  return absl::OkStatus();
}

}  // namespace torchtrace
