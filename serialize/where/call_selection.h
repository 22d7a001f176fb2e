// Selects calls of a trace by name, level, number, thread, rank and condition; the same for all verbs.

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
#include "absl/status/statusor.h"
#include "serialize/base/matching.h"
#include "serialize/model/config.h"
#include "serialize/trace/parsed_tags.h"
#include "serialize/trace/trace.h"
#include "serialize/where/where.h"

namespace torchtrace {

// Selects the calls that pass all of these.
struct CallSelection {
  GlobFilter filter;                 // over API names
  std::vector<int> levels;           // empty: all
  std::optional<NumberSet> calls;    // numbers of the trace
  std::optional<NumberSet> ranks;    // rejects processes without a rank
  std::vector<std::string> threads;  // numbers in their processes, or globs over names; empty: all
  std::optional<Where> where;
  uint64_t skip_steps = 0;  // of each process the first steps, and what is before them; rejects those without steps
  bool* found = nullptr;    // set to true once a call of any trace is selected; may be null

  // Whether it depends on more than names and levels.
  bool ChoosesCalls() const {
    return calls.has_value() || ranks.has_value() || !threads.empty() || where.has_value() || skip_steps > 0;
  }
  // Whether it may select some of the calls that Trace::ReadCounted counts together: of those that a log only counts it
  // then selects none.
  bool TellsEqualCallsApart() const;
};

// Trace::ReadCounted, or Trace::Read if the selection tells apart what ReadCounted counts together.
absl::Status ReadFor(const CallSelection& selection, Trace* trace, const Trace::Visitor& visitor);

// Decides on each call during a reading of the trace. Memory grows with configurations and threads; only a condition on
// how calls end (duration, raised) needs another reading before that, and a bit for each call.
class CallSelector {
 public:
  // Both must outlive it.
  CallSelector(Trace* trace, const CallSelection& selection);

  // Call it before any other function. Reads the trace if necessary. InvalidArgument: it has no steps to skip.
  absl::Status Prepare();

  bool AcceptsProcess(const ProcessInfo& process) const;
  // For a process that is accepted.
  bool AcceptsThread(const ProcessInfo& process, uint32_t number) const;
  // At a call's entry, if its process and thread are accepted.
  bool AcceptsCall(const CallRecord& entry);
  // At a call's entry.
  bool Accepts(const CallRecord& entry) { return AcceptsPlace(entry) && AcceptsCall(entry); }

 private:
  // A parsed configuration, for conditions that have to look at each call.
  struct Arguments {
    Config config;
    std::vector<TensorFacet> facets;
  };
  // The decision on all calls of a variant; kAsk: they differ.
  enum class Verdict : uint8_t { kUnjudged, kReject, kAccept, kAsk };

  static Arguments TakeApart(const Trace& trace, VariantId variant);
  bool AcceptsPlace(const CallRecord& entry);
  bool AcceptsStep(const CallRecord& entry);
  // Whether a call of the trace is in a step, or its processes tell of steps.
  absl::StatusOr<bool> HasSteps();
  bool AsksCall(const CallRecord& entry);
  Verdict VerdictOf(VariantId variant);
  Verdict Judge(VariantId variant);
  // For a call whose variant is kAsk: the configuration, and what is known at the entry.
  WhereSubject SubjectOf(const CallRecord& record);
  // Reads the trace for facts that are known only when calls end.
  absl::Status JudgeEnds();

  Trace* const trace_;
  const CallSelection& selection_;
  GlobMemo apis_;
  ParsedTags tags_;
  std::vector<Verdict> verdicts_;                                         // by variant
  absl::flat_hash_map<VariantId, std::unique_ptr<Arguments>> arguments_;  // of those to ask about
  std::vector<bool> kept_by_end_;                         // by call; for calls that only their end decides
  std::map<std::pair<uint32_t, uint32_t>, bool> places_;  // by process and thread
  std::pair<uint32_t, uint32_t> in_step_;                 // process and tags of the call that AcceptsStep saw last
  std::optional<bool> step_accepted_;                     // the same call's answer
};

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_WHERE_CALL_SELECTION_H_
