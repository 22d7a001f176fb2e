#include "serialize/where/call_selection.h"

#include <algorithm>
#include <string_view>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "serialize/trace/step_times.h"

namespace torchtrace {

CallSelector::CallSelector(Trace* trace, const CallSelection& selection)
    : trace_(trace), selection_(selection), apis_(selection.filter), tags_(trace) {}

CallSelector::Arguments CallSelector::TakeApart(const Trace& trace, VariantId variant) {
  Arguments arguments;
  const std::string_view identity = trace.identity(trace.config_of(variant));
  if (absl::StatusOr<Config> config = ParseConfig(identity); config.ok()) {
    arguments.config = *std::move(config);
  } else {
    const ConfigHead head = ReadConfigHead(identity);
    arguments.config.level = head.level;
    arguments.config.api = head.api;
  }
  absl::StatusOr<std::vector<TensorFacet>> facets = ParseFacets(trace.facets(variant));
  if (facets.ok()) arguments.facets = *std::move(facets);
  return arguments;
}

absl::StatusOr<bool> CallSelector::HasSteps() {
  const std::vector<ProcessInfo>& processes = trace_->processes();
  if (std::any_of(processes.begin(), processes.end(), [](const auto& each) { return TellsOfSteps(each.known); })) {
    return true;
  }
  bool found = false;
  const absl::Status read = trace_->Read([&](const CallRecord& record) {
    found = trace_->steps(record.tags).at(StepKind::kForward).number > 0;
    return found ? absl::CancelledError() : absl::OkStatus();
  });
  if (!found && !read.ok()) return read;
  return found;
}

bool CallSelector::AcceptsStep(const CallRecord& entry) {
  const std::pair<uint32_t, uint32_t> at = {entry.process, entry.tags};
  if (!step_accepted_.has_value() || at != in_step_) {
    const StepPlace place = PlaceInSteps(*trace_, trace_->processes()[entry.process].known, entry.tags);
    // What comes between or after steps counts as a part of the next one.
    step_accepted_ = place.number + (place.kind == StepPlace::kInStep ? 0 : 1) > selection_.skip_steps;
    in_step_ = at;
  }
  return *step_accepted_;
}

absl::Status CallSelector::Prepare() {
  if (selection_.skip_steps > 0) {
    const absl::StatusOr<bool> has_steps = HasSteps();
    if (!has_steps.ok()) return has_steps.status();
    if (!*has_steps)
      return absl::InvalidArgumentError(absl::StrCat("--skip-steps: ", NoSteps("the trace has", *trace_)));
  }
  // Names of threads are only complete after a first pass.
  if (!selection_.threads.empty() || (selection_.where.has_value() && selection_.where->needs_call())) {
    if (absl::Status s = trace_->Count().status(); !s.ok()) return s;
  }
  return selection_.where.has_value() && selection_.where->needs_end() ? JudgeEnds() : absl::OkStatus();
}

bool CallSelector::AcceptsProcess(const ProcessInfo& process) const {
  if (!selection_.ranks.has_value()) return true;
  const int64_t rank = process.known.ranked.rank.value_or(-1);
  return rank >= 0 && selection_.ranks->Contains(static_cast<uint64_t>(rank));
}

bool CallSelector::AcceptsThread(const ProcessInfo& process, uint32_t number) const {
  if (selection_.threads.empty()) return true;
  if (number == kNoThread) return false;
  const ThreadInfo* const thread = FindThread(process, number);
  const std::string name = thread == nullptr ? "" : thread->name;
  return std::any_of(selection_.threads.begin(), selection_.threads.end(), [&](const std::string& wanted) {
    return wanted == std::to_string(number) || GlobMatch(wanted, name);
  });
}

bool CallSelector::AcceptsPlace(const CallRecord& entry) {
  if (!selection_.ranks.has_value() && selection_.threads.empty()) return true;
  const auto [at, fresh] = places_.try_emplace({entry.process, entry.thread});
  if (fresh) {
    const ProcessInfo& process = trace_->processes()[entry.process];
    at->second = AcceptsProcess(process) && AcceptsThread(process, entry.thread);
  }
  return at->second;
}

bool CallSelector::AcceptsCall(const CallRecord& entry) {
  const bool accepted = AsksCall(entry);
  if (accepted && selection_.found != nullptr) *selection_.found = true;
  return accepted;
}

bool CallSelector::AsksCall(const CallRecord& entry) {
  if (selection_.calls.has_value() && !selection_.calls->Contains(entry.call)) return false;
  if (selection_.skip_steps > 0 && !AcceptsStep(entry)) return false;
  const Verdict verdict = VerdictOf(entry.variant);
  if (verdict != Verdict::kAsk) return verdict == Verdict::kAccept;
  const Truth truth = selection_.where->Ask(SubjectOf(entry));
  if (truth != Truth::kUnknown) return truth == Truth::kTrue;
  return entry.call < kept_by_end_.size() && kept_by_end_[entry.call];
}

CallSelector::Verdict CallSelector::VerdictOf(VariantId variant) {
  if (variant >= verdicts_.size()) verdicts_.resize(variant + variant / 2 + size_t{16}, Verdict::kUnjudged);
  if (verdicts_[variant] == Verdict::kUnjudged) verdicts_[variant] = Judge(variant);
  return verdicts_[variant];
}

CallSelector::Verdict CallSelector::Judge(VariantId variant) {
  const ConfigHead head = ReadConfigHead(trace_->identity(trace_->config_of(variant)));
  const std::vector<int>& levels = selection_.levels;
  if (!levels.empty() && std::find(levels.begin(), levels.end(), head.level) == levels.end()) return Verdict::kReject;
  if (!apis_.Accepts(head.api)) return Verdict::kReject;
  if (!selection_.where.has_value()) return Verdict::kAccept;
  Arguments arguments = TakeApart(*trace_, variant);
  WhereSubject subject;
  subject.config = &arguments.config;
  subject.facets = &arguments.facets;
  switch (selection_.where->Ask(subject)) {
    case Truth::kFalse:
      return Verdict::kReject;
    case Truth::kTrue:
      return Verdict::kAccept;
    case Truth::kUnknown:
      break;
  }
  arguments_[variant] = std::make_unique<Arguments>(std::move(arguments));
  return Verdict::kAsk;
}

WhereSubject CallSelector::SubjectOf(const CallRecord& record) {
  const Arguments& arguments = *arguments_.at(record.variant);
  WhereSubject subject;
  subject.config = &arguments.config;
  subject.facets = &arguments.facets;
  subject.entry = &record;
  subject.process = &trace_->processes()[record.process];
  subject.tags = tags_.Get(record.tags);
  return subject;
}

absl::Status CallSelector::JudgeEnds() {
  absl::flat_hash_map<uint64_t, CallRecord> open;  // calls that only their end decides
  const auto decide = [this](uint64_t call, const WhereSubject& subject) {
    if (selection_.where->Ask(subject) != Truth::kTrue) return;
    if (call >= kept_by_end_.size()) kept_by_end_.resize(std::max<size_t>(call + 1, 2 * kept_by_end_.size()));
    kept_by_end_[call] = true;
  };
  const absl::Status read = trace_->Read([&](const CallRecord& record) -> absl::Status {
    if (VerdictOf(record.variant) != Verdict::kAsk) return absl::OkStatus();
    if (record.kind == CallRecord::kEnter) {
      if (selection_.where->Ask(SubjectOf(record)) == Truth::kUnknown) open.emplace(record.call, record);
      return absl::OkStatus();
    }
    const auto entered = open.extract(record.call);
    if (entered.empty()) return absl::OkStatus();
    WhereSubject subject = SubjectOf(entered.mapped());
    subject.ended = true;
    subject.raised = record.kind == CallRecord::kRaise;
    subject.returned = !subject.raised;
    subject.duration_ns = record.duration_ns;
    subject.exception = record.exception;
    decide(record.call, subject);
    return absl::OkStatus();
  });
  if (!read.ok()) return read;
  for (const auto& [call, record] : open) {
    WhereSubject subject = SubjectOf(record);
    subject.ended = true;  // it never returned
    decide(call, subject);
  }
  return absl::OkStatus();
}

bool CallSelection::TellsEqualCallsApart() const {
  return calls.has_value() || skip_steps > 0 || (where.has_value() && where->needs_call());
}

absl::Status ReadFor(const CallSelection& selection, Trace* trace, const Trace::Visitor& visitor) {
  return selection.TellsEqualCallsApart() ? trace->Read(visitor) : trace->ReadCounted(visitor);
}

}  // namespace torchtrace
