// Which calls of a trace are meant: by name, level, number, thread, rank and condition, in all verbs alike.

#ifndef TORCHTRACE_SERIALIZE_WHERE_CALL_SELECTION_H_
#define TORCHTRACE_SERIALIZE_WHERE_CALL_SELECTION_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "serialize/base/matching.h"
#include "serialize/model/config.h"
#include "serialize/trace/parsed_tags.h"
#include "serialize/trace/trace.h"
#include "serialize/where/where.h"

namespace torchtrace {

// Meant is what passes all of these.
struct CallSelection {
  GlobFilter filter;                 // over API names
  std::vector<int> levels;           // empty: all
  std::optional<NumberSet> calls;    // numbers of the trace
  std::optional<NumberSet> ranks;    // processes without a rank have none of these
  std::vector<std::string> threads;  // numbers in their processes, or globs over names; empty: all
  std::optional<Where> where;
  bool* found = nullptr;  // becomes true once a call is meant, in whatever trace; null: nobody asks

  // Whether more than names and levels is asked for.
  bool ChoosesCalls() const { return calls.has_value() || ranks.has_value() || !threads.empty() || where.has_value(); }
};

// Trace::ReadCounted; where of the calls that it counts together some may be meant and some not, Trace::Read.
absl::Status ReadFor(const CallSelection& selection, Trace* trace, const Trace::Visitor& visitor);

// Asks each call of a trace, in one reading of it. Memory goes with configurations and threads; only a condition on how
// calls end (duration, raised) needs another reading before, and a bit for each call.
class CallSelector {
 public:
  // Both must outlive it.
  CallSelector(Trace* trace, const CallSelection& selection);

  // Reads what has to be known before the first question.
  absl::Status Prepare();

  bool AcceptsProcess(const ProcessInfo& process) const;
  // Of a process that is accepted.
  bool AcceptsThread(const ProcessInfo& process, uint32_t number) const;
  // At its entry, where its process and thread are accepted.
  bool AcceptsCall(const CallRecord& entry);
  // At its entry.
  bool Accepts(const CallRecord& entry) { return AcceptsPlace(entry) && AcceptsCall(entry); }

 private:
  // A configuration taken apart, for conditions that need more than it.
  struct Arguments {
    Config config;
    std::vector<TensorFacet> facets;
  };
  // What is known of a variant's calls without looking at each.
  enum class Verdict : uint8_t { kUnjudged, kReject, kAccept, kAsk };

  static Arguments TakeApart(const Trace& trace, VariantId variant);
  bool AcceptsPlace(const CallRecord& entry);
  bool AsksCall(const CallRecord& entry);
  Verdict VerdictOf(VariantId variant);
  Verdict Judge(VariantId variant);
  // What stands beside the configuration, with what is known on entering.
  WhereSubject SubjectOf(const CallRecord& record);
  // Reads the trace for what is only known when calls end.
  absl::Status JudgeEnds();

  Trace* const trace_;
  const CallSelection& selection_;
  GlobMemo apis_;
  ParsedTags tags_;
  std::vector<Verdict> verdicts_;                                         // by variant
  absl::flat_hash_map<VariantId, std::unique_ptr<Arguments>> arguments_;  // of those to ask about
  std::vector<bool> kept_by_end_;                         // by call; of those that only their end decides
  std::map<std::pair<uint32_t, uint32_t>, bool> places_;  // by process and thread
};

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_WHERE_CALL_SELECTION_H_
