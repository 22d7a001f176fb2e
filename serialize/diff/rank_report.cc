#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "nlohmann/json.hpp"
#include "serialize/base/monotonic_clock.h"
#include "serialize/base/text.h"
#include "serialize/diff/number_diff.h"
#include "serialize/diff/rank_diff.h"
#include "serialize/diff/rank_parameters.h"
#include "serialize/forms/call_labels.h"
#include "serialize/forms/forms.h"
#include "serialize/forms/trace_lines.h"
#include "serialize/model/config.h"
#include "serialize/model/levels.h"
#include "serialize/numbers/later_notes_reader.h"
#include "serialize/trace/run_facts.h"
#include "serialize/trace/running.h"

namespace torchtrace {
namespace {

using nlohmann::ordered_json;

// How far to look for the call that another rank has left out.
constexpr size_t kLookAhead = 8;
// Differences of messages that are shown.
constexpr size_t kMaxMessages = 20;
// Numbers of calls in one row.
constexpr size_t kCallsShown = 4;
// Parameters that differ, of one step.
constexpr size_t kMaxParameters = 3;

struct Rank {
  int64_t rank = 0;
  uint32_t process = 0;                           // index into Trace::processes()
  const RankCalls::Progress* progress = nullptr;  // null: it has called nothing
};

// The ranks of one run.
struct RankedRun {
  std::string label;        // of a merged run
  std::vector<Rank> ranks;  // ascending
};

// Where the ranks of one group part.
struct Parting {
  uint64_t number = 0;              // of the first operation that isn't the same, from 0
  std::vector<std::string> fields;  // `shape`, `count`
  std::string hint;
  int64_t time_ns = 0;
};

struct GroupDiff {
  std::string group;
  std::vector<const Rank*> ranks;
  std::vector<const RankCalls::Sequence*> sequences;  // null: none
  uint64_t collectives = 0;                           // of the rank with the most
  std::optional<Parting> parting;

  const RankCall* At(size_t rank, uint64_t number) const {
    return sequences[rank] == nullptr || number >= sequences[rank]->size() ? nullptr : &(*sequences[rank])[number];
  }
};

// A message that isn't received as it was sent.
struct MessageDiff {
  std::string group;
  int64_t from = 0, to = 0, tag = 0;
  uint64_t number = 0;  // between the two, from 0
  std::vector<std::string> fields;
  const RankCall* sent = nullptr;      // null: none is
  const RankCall* received = nullptr;  // null: none is
};

// Whether ranks may give and take different numbers of elements.
bool IsUneven(const CollectiveTraits& traits) { return !traits.sends.empty() || !traits.receives.empty(); }

bool SameOperation(const CollectiveTraits& a, const CollectiveTraits& b) {
  return a.operation == b.operation && a.reduction == b.reduction && a.root == b.root &&
         (a.shapes == b.shapes || IsUneven(a) || IsUneven(b)) && a.dtypes == b.dtypes && a.devices == b.devices;
}

// What a rank sends to another one, or receives from it, in a group of so many; -1: not known.
int64_t PartOf(const std::vector<int64_t>& parts, int64_t in_all, size_t rank, size_t ranks) {
  if (!parts.empty()) return parts.size() == ranks ? parts[rank] : -1;
  return in_all >= 0 && in_all % static_cast<int64_t>(ranks) == 0 ? in_all / static_cast<int64_t>(ranks) : -1;
}

// In which parts operations differ; those of other operators have no more in common.
std::vector<std::string> DifferingFields(const std::vector<const CollectiveTraits*>& all) {
  struct Field {
    const char* name;
    std::string CollectiveTraits::* member;
  };
  constexpr Field kFields[] = {{"operator", &CollectiveTraits::operation}, {"reduction", &CollectiveTraits::reduction},
                               {"root", &CollectiveTraits::root},          {"shape", &CollectiveTraits::shapes},
                               {"dtype", &CollectiveTraits::dtypes},       {"device", &CollectiveTraits::devices}};
  std::vector<std::string> fields;
  for (const Field& field : kFields) {
    const bool uneven = field.member == &CollectiveTraits::shapes &&
                        std::any_of(all.begin(), all.end(), [](const auto* traits) { return IsUneven(*traits); });
    const bool differ = !uneven && std::any_of(all.begin(), all.end(), [&](const CollectiveTraits* traits) {
      return traits->*field.member != all[0]->*field.member;
    });
    if (differ) fields.emplace_back(field.name);
    if (differ && field.member == &CollectiveTraits::operation) break;
  }
  return fields;
}

class RankDiff {
 public:
  RankDiff(Trace* trace, const OneTraceDiffOptions& options) : trace_(trace), options_(options), stack_text_(*trace) {}

  absl::Status Compare() {
    const bool ranked = std::any_of(trace_->processes().begin(), trace_->processes().end(),
                                    [](const ProcessInfo& process) { return process.known.ranked.rank.has_value(); });
    if (!ranked) {
      return absl::FailedPreconditionError(
          "no process of the trace has a rank: --across-ranks compares the ranks of a program that calls "
          "torch.distributed.init_process_group, traced together or merged (torchtrace merge)");
    }
    LaterNotesReader reader(trace_);
    const absl::Status read = reader.ReadOnceOrTwice(
        [this] {
          calls_.emplace(trace_, &options_.scope);
          parameters_.emplace(trace_, &*calls_);
          return absl::OkStatus();
        },
        [this](const CallRecord& record) {
          calls_->Take(record);
          parameters_->Take(record);
          last_ns_[record.process] = record.time_ns;
          return absl::OkStatus();
        });
    if (!read.ok()) return read;
    has_later_ = reader.found_later();
    too_late_ = reader.all_too_late();
    now_ns_ = MonotonicNowNs();
    if (const uint64_t counted = CountOnlyCounted(*trace_); counted > 0) {
      return absl::FailedPreconditionError(absl::StrCat(CountedCalls(counted), ": --across-ranks needs their order"));
    }
    if (calls_->operators().empty() && calls_->functions().empty()) {
      return absl::FailedPreconditionError(
          "the trace has no calls of torch.distributed's operations: record level 2 (torchtrace run --levels 1,2), "
          "which sees those of DistributedDataParallel too");
    }
    ProcessTable processes;
    for (const ProcessInfo& process : trace_->processes()) running_.push_back(IsRunning(process, &processes));
    FindRuns();
    if (runs_.empty()) return absl::FailedPreconditionError(OneRank());
    for (const RankedRun& run : runs_) CompareRun(run);
    if (absl::Status s = CompareParameters(); !s.ok()) return s;
    Note();
    return absl::OkStatus();
  }

  bool different() const {
    return !messages_.empty() || std::any_of(groups_.begin(), groups_.end(), [](const GroupDiff& group) {
      return group.parting.has_value();
    }) || std::any_of(shared_.begin(), shared_.end(), [](const GroupParameters& group) {
      return !group.different.empty();
    });
  }

  void WriteText(std::ostream* out) {
    const char* const bold = options_.color ? kBold : "";
    const char* const reset = options_.color ? kReset : "";
    // What came first is likely to be the cause of the rest.
    std::vector<std::pair<int64_t, std::string>> findings;
    for (const GroupDiff& group : groups_) {
      if (!group.parting.has_value()) continue;
      findings.emplace_back(group.parting->time_ns, absl::StrCat(bold, PartingTitle(group), reset, "\n",
                                                                 PartingTable(group), PartingHint(group)));
    }
    for (size_t i = 0; i < std::min(messages_.size(), kMaxMessages); ++i) {
      const MessageDiff& message = messages_[i];
      const int64_t time_ns = std::min(message.sent == nullptr ? INT64_MAX : message.sent->time_ns,
                                       message.received == nullptr ? INT64_MAX : message.received->time_ns);
      findings.emplace_back(time_ns, absl::StrCat(bold, MessageTitle(message), reset, "\n", MessageTable(message)));
    }
    for (const GroupParameters& group : shared_) {
      if (group.different.empty()) continue;
      findings.emplace_back(group.different[0].values[0].update.time_ns,
                            absl::StrCat(bold, ParametersTitle(group), reset, "\n", ParametersTable(group)));
    }
    std::stable_sort(findings.begin(), findings.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    for (const auto& [time_ns, text] : findings) *out << text << "\n";
    if (messages_.size() > kMaxMessages) {
      *out << "... and " << Counted(messages_.size() - kMaxMessages, "more message", "more messages") << "\n\n";
    }
    for (const GroupDiff& group : groups_) {
      if (group.parting.has_value()) continue;
      *out << GroupName(group.group) << ", " << NameRanks(Numbers(group)) << ": "
           << Counted(group.collectives, "collective, the same", "collectives, the same") << "\n";
    }
    if (matched_ > 0) *out << Counted(matched_, "message", "messages") << " received as sent\n";
    for (const GroupParameters& group : shared_) {
      if (group.shared == 0 || !group.different.empty()) continue;
      *out << GroupName(group.group) << ", " << NameRanks(RanksOf(group)) << ": "
           << Counted(group.shared, "parameter", "parameters") << ", "
           << Counted(group.least_updates, "update, the same", "updates, the same") << "\n";
    }
    for (const std::string& note : notes_) *out << "note: " << PlainLine(note) << "\n";
    out->flush();
  }

  void WriteJson(std::ostream* out) {
    ordered_json json = {{"different", different()}, {"trace", options_.name}, {"ranks", ordered_json::array()}};
    for (const RankedRun& run : runs_) {
      for (const Rank& rank : run.ranks) json["ranks"].push_back(rank.rank);
    }
    json["of"] = of_operators_ ? "operators" : "functions";
    json["groups"] = ordered_json::array();
    for (const GroupDiff& group : groups_) {
      ordered_json one = {{"group", group.group}, {"ranks", Numbers(group)}, {"collectives", group.collectives}};
      one["first_difference"] = nullptr;
      if (group.parting.has_value()) {
        ordered_json parting = {{"number", group.parting->number + 1}, {"in", group.parting->fields}};
        parting["hint"] = group.parting->hint.empty() ? ordered_json() : ordered_json(group.parting->hint);
        parting["ranks"] = ordered_json::array();
        for (size_t i = 0; i < group.ranks.size(); ++i) parting["ranks"].push_back(RankJson(group, i));
        one["first_difference"] = std::move(parting);
      }
      json["groups"].push_back(std::move(one));
    }
    json["messages"] = {{"matched", matched_}, {"different", ordered_json::array()}};
    for (const MessageDiff& message : messages_) {
      ordered_json one = {{"group", message.group}, {"from", message.from},         {"to", message.to},
                          {"tag", message.tag},     {"number", message.number + 1}, {"in", message.fields}};
      one["sent"] = message.sent == nullptr ? ordered_json() : CallJson(*message.sent);
      one["received"] = message.received == nullptr ? ordered_json() : CallJson(*message.received);
      json["messages"]["different"].push_back(std::move(one));
    }
    json["parameters"] = ordered_json::array();
    for (const GroupParameters& group : shared_) json["parameters"].push_back(ParametersJson(group));
    json["notes"] = notes_;
    *out << DumpPrettyJson(json);
    out->flush();
  }

 private:
  using Progresses = std::map<uint32_t, RankCalls::Progress>;

  const Progresses& Chosen() const { return of_operators_ ? calls_->operators() : calls_->functions(); }

  // The processes of each rank: of those that call any operation, the last one that was started; else the first one.
  void FindRuns() {
    std::map<std::string, std::map<int64_t, uint32_t>> runs;  // by label
    const auto add = [&](const Progresses& all) {
      for (const auto& [process, progress] : all) {
        const ProcessMetadata& known = trace_->processes()[process].known;
        if (!known.ranked.rank.has_value()) continue;
        const auto [at, fresh] = runs[known.label].try_emplace(*known.ranked.rank, process);
        if (fresh || at->second == process) continue;
        again_.insert(*known.ranked.rank);
        at->second = std::max(at->second, process);
      }
    };
    add(calls_->operators());
    add(calls_->functions());
    for (uint32_t i = 0; i < trace_->processes().size(); ++i) {
      const ProcessMetadata& known = trace_->processes()[i].known;
      if (!known.ranked.rank.has_value() || known.role == "fork") continue;
      runs[known.label].try_emplace(*known.ranked.rank, i);
    }
    // Ranks that were traced one by one may have a label each.
    std::map<int64_t, uint32_t> single;
    const bool one_each = std::all_of(runs.begin(), runs.end(), [&](const auto& run) {
      return run.second.size() == 1 && single.emplace(*run.second.begin()).second;
    });
    if (one_each) runs = {{"", single}};
    std::vector<uint32_t> processes;
    for (const auto& [label, ranks] : runs) {
      RankedRun run = {label, {}};
      for (const auto& [rank, process] : ranks) {
        run.ranks.push_back({rank, process, nullptr});
        processes.push_back(process);
      }
      if (ranks.size() > 1) runs_.push_back(std::move(run));
    }
    of_operators_ = ComparesOperators(processes);
    for (RankedRun& run : runs_) {
      for (Rank& rank : run.ranks) {
        const auto found = Chosen().find(rank.process);
        if (found != Chosen().end()) rank.progress = &found->second;
      }
    }
  }

  // Functions are compared where not all ranks recorded operators, and where operators don't name their groups.
  bool ComparesOperators(const std::vector<uint32_t>& processes) const {
    if (calls_->operators().empty() || calls_->functions().empty()) return !calls_->operators().empty();
    for (const auto& [process, progress] : calls_->operators()) {
      if (progress.groups.contains(kUnnamedGroup) || progress.peers.contains(kUnnamedGroup)) return false;
    }
    return std::all_of(processes.begin(), processes.end(), [this](uint32_t process) {
      const std::vector<int>& levels = trace_->processes()[process].known.levels;
      return std::find(levels.begin(), levels.end(), kDispatchLevel) != levels.end();
    });
  }

  std::string OneRank() const {
    for (const ProcessInfo& process : trace_->processes()) {
      const ProcessRank& ranked = process.known.ranked;
      if (!ranked.rank.has_value()) continue;
      return absl::StrCat("the trace has only rank ", *ranked.rank,
                          ranked.world_size.has_value() ? absl::StrCat(" of ", *ranked.world_size) : "",
                          ": merge the traces of all ranks first (torchtrace merge)");
    }
    return "the trace has no ranks";
  }

  void CompareRun(const RankedRun& run) {
    std::set<std::string> names, peers;
    for (const Rank& rank : run.ranks) {
      if (rank.progress == nullptr) continue;
      for (const auto& [name, sequence] : rank.progress->groups) names.insert(name);
      for (const auto& [name, sequence] : rank.progress->peers) peers.insert(name);
    }
    for (const std::string& name : names) {
      GroupDiff group = {name, {}, {}, 0, {}};
      for (const Rank& rank : run.ranks) {
        const RankCalls::Sequence* sequence = nullptr;
        if (rank.progress != nullptr) {
          const auto found = rank.progress->groups.find(name);
          if (found != rank.progress->groups.end()) sequence = &found->second;
        }
        // All ranks are in the default group; of other groups, those that have called one of its operations.
        if (sequence == nullptr && name != kDefaultGroup) continue;
        group.ranks.push_back(&rank);
        group.sequences.push_back(sequence);
        if (sequence != nullptr) group.collectives = std::max<uint64_t>(group.collectives, sequence->size());
      }
      if (name == kUnnamedGroup) {
        notes_.emplace_back(
            "the trace doesn't tell process groups apart: what ranks call in all of them is compared in order");
      }
      FindParting(&group);
      groups_.push_back(std::move(group));
    }
    for (const std::string& name : peers) CompareMessages(run, name);
  }

  const CollectiveTraits& TraitsOf(const RankCall& call) const { return calls_->traits(call.traits); }

  void FindParting(GroupDiff* group) const {
    for (uint64_t number = 0; number < group->collectives; ++number) {
      std::vector<const CollectiveTraits*> traits;
      int64_t time_ns = INT64_MAX;
      for (size_t i = 0; i < group->ranks.size(); ++i) {
        const RankCall* const call = group->At(i, number);
        if (call == nullptr) continue;
        traits.push_back(&TraitsOf(*call));
        time_ns = std::min(time_ns, call->time_ns);
      }
      const bool same = std::all_of(traits.begin(), traits.end(),
                                    [&](const CollectiveTraits* each) { return SameOperation(*each, *traits[0]); });
      std::string exchange = same ? ExchangeDiff(*group, number) : "";
      if (same && exchange.empty() && traits.size() == group->ranks.size()) continue;
      Parting parting = {number, DifferingFields(traits), std::move(exchange), time_ns};
      if (!parting.hint.empty()) parting.fields.emplace_back("split");
      if (traits.size() < group->ranks.size()) parting.fields.emplace_back("count");
      if (!same) parting.hint = Hint(*group, number);
      group->parting = std::move(parting);
      return;
    }
  }

  // Of an uneven all_to_all: the first rank that receives another number of elements than is sent to it; empty: none.
  std::string ExchangeDiff(const GroupDiff& group, uint64_t number) const {
    const size_t ranks = group.ranks.size();
    // Without all of its ranks the group's numbers of them aren't known.
    bool uneven = false;
    for (size_t i = 0; i < ranks; ++i) {
      const RankCall* const call = group.At(i, number);
      if (call == nullptr) continue;
      for (const std::vector<int64_t>* const parts : {&TraitsOf(*call).sends, &TraitsOf(*call).receives}) {
        if (!parts->empty() && parts->size() != ranks) return "";
        uneven = uneven || !parts->empty();
      }
    }
    if (!uneven) return "";
    for (size_t from = 0; from < ranks; ++from) {
      const RankCall* const sender = group.At(from, number);
      for (size_t to = 0; to < ranks && sender != nullptr; ++to) {
        const RankCall* const receiver = group.At(to, number);
        if (receiver == nullptr) continue;
        const CollectiveTraits &sends = TraitsOf(*sender), &receives = TraitsOf(*receiver);
        const int64_t sent = PartOf(sends.sends, sends.sends_in_all, to, ranks);
        const int64_t received = PartOf(receives.receives, receives.receives_in_all, from, ranks);
        if (sent < 0 || received < 0 || sent == received) continue;
        return absl::StrCat("rank ", group.ranks[from]->rank, " sends ", Counted(sent, "element", "elements"),
                            " to rank ", group.ranks[to]->rank, ", which receives ", received);
      }
    }
    return "";
  }

  // Whether `a` from `a_at` on is `b` from `b_at` on, as far as to see a shift.
  bool GoesOnAs(const RankCalls::Sequence& a, uint64_t a_at, const RankCalls::Sequence& b, uint64_t b_at) const {
    size_t compared = 0;
    while (compared < kLookAhead && a_at + compared < a.size() && b_at + compared < b.size()) {
      if (!SameOperation(TraitsOf(a[a_at + compared]), TraitsOf(b[b_at + compared]))) return false;
      ++compared;
    }
    return compared > 0;
  }

  // If one of the ranks, or all of a kind, have left out or added one operation.
  std::string Hint(const GroupDiff& group, uint64_t number) const {
    std::vector<size_t> kinds;  // a rank of each
    std::vector<std::vector<int64_t>> ranks;
    for (size_t i = 0; i < group.ranks.size(); ++i) {
      const RankCall* const call = group.At(i, number);
      if (call == nullptr) continue;
      size_t kind = 0;
      while (kind < kinds.size() && !SameOperation(TraitsOf(*call), TraitsOf(*group.At(kinds[kind], number)))) ++kind;
      if (kind == kinds.size()) {
        kinds.push_back(i);
        ranks.emplace_back();
      }
      ranks[kind].push_back(group.ranks[i]->rank);
    }
    if (kinds.size() != 2) return "";
    // Says it of the fewer.
    const size_t few = ranks[1].size() > ranks[0].size() ? 0 : 1;
    const RankCalls::Sequence& fewer = *group.sequences[kinds[few]];
    const RankCalls::Sequence& others = *group.sequences[kinds[1 - few]];
    const bool left_out = GoesOnAs(fewer, number, others, number + 1);
    const bool added = GoesOnAs(fewer, number + 1, others, number);
    if (left_out == added) return "";
    const std::string what = TraitsOf((left_out ? others : fewer)[number]).operation;
    return left_out ? absl::StrCat("without this ", what, ", ", NameRanks(ranks[few]),
                                   ranks[few].size() == 1 ? " goes on as the others" : " go on as the others")
                    : absl::StrCat("after this ", what, ", ", NameRanks(ranks[few]),
                                   ranks[few].size() == 1 ? " goes on as the others" : " go on as the others");
  }

  // ---- messages ----

  void CompareMessages(const RankedRun& run, const std::string& name) {
    // Ranks within a group are numbered in order.
    std::vector<int64_t> members;
    for (const Rank& rank : run.ranks) {
      const bool takes_part =
          rank.progress != nullptr && (rank.progress->groups.contains(name) || rank.progress->peers.contains(name));
      if (name == kDefaultGroup || takes_part) members.push_back(rank.rank);
    }
    struct Channel {
      std::vector<const RankCall*> sent, received;
    };
    std::map<std::tuple<int64_t, int64_t, int64_t>, Channel> channels;  // from, to, tag
    std::set<std::pair<int64_t, int64_t>> from_any;                     // to, tag
    std::set<int64_t> present;
    bool unknown = false;
    for (const Rank& rank : run.ranks) {
      present.insert(rank.rank);
      if (rank.progress == nullptr) continue;
      const auto found = rank.progress->peers.find(name);
      if (found == rank.progress->peers.end()) continue;
      for (const RankCall& call : found->second) {
        const CollectiveTraits& traits = TraitsOf(call);
        if (!traits.peer.has_value()) {
          from_any.insert({rank.rank, traits.tag});
          continue;
        }
        int64_t peer = *traits.peer;
        if (traits.peer_in_group && name != kDefaultGroup) {
          if (peer < 0 || static_cast<size_t>(peer) >= members.size()) {
            unknown = true;
            continue;
          }
          peer = members[static_cast<size_t>(peer)];
        }
        const bool sends = traits.kind == CollectiveTraits::kSend;
        Channel& channel = channels[{sends ? rank.rank : peer, sends ? peer : rank.rank, traits.tag}];
        (sends ? channel.sent : channel.received).push_back(&call);
      }
    }
    if (unknown) {
      notes_.push_back(absl::StrCat("some messages of group ", name, " name ranks that call nothing else in it"));
    }
    for (const auto& [key, channel] : channels) {
      const auto& [from, to, tag] = key;
      if (!present.contains(from) || !present.contains(to) || from_any.contains({to, tag})) continue;
      CompareChannel({name, from, to, tag, 0, {}, nullptr, nullptr}, channel.sent, channel.received);
    }
  }

  // Finds the first one that isn't received as it was sent.
  void CompareChannel(MessageDiff message, const std::vector<const RankCall*>& sent,
                      const std::vector<const RankCall*>& received) {
    const size_t most = std::max(sent.size(), received.size());
    for (; message.number < most; ++message.number) {
      message.sent = message.number < sent.size() ? sent[message.number] : nullptr;
      message.received = message.number < received.size() ? received[message.number] : nullptr;
      if (message.sent == nullptr || message.received == nullptr) {
        message.fields = {"count"};
        break;
      }
      const CollectiveTraits& sent_as = TraitsOf(*message.sent);
      const CollectiveTraits& received_as = TraitsOf(*message.received);
      if (sent_as.elements >= 0 && received_as.elements >= 0 && sent_as.elements != received_as.elements)
        message.fields.emplace_back("shape");
      if (sent_as.dtypes != received_as.dtypes) message.fields.emplace_back("dtype");
      if (!message.fields.empty()) break;
      ++matched_;
    }
    if (!message.fields.empty()) messages_.push_back(std::move(message));
  }

  // ---- parameters ----

  absl::Status CompareParameters() {
    bool recorded = true;
    for (const RankedRun& run : runs_) {
      for (const Rank& rank : run.ranks) recorded = recorded && HoldsNumbers(trace_->processes()[rank.process]);
      GroupParameters all;
      all.group = kDefaultGroup;
      for (const Rank& rank : run.ranks) all.ranks.emplace_back(rank.rank, rank.process);
      shared_.push_back(std::move(all));
    }
    if (!parameters_->has_steps() || !recorded) {
      shared_.clear();
      if (parameters_->has_steps()) {
        notes_.emplace_back("parameters are not compared: their numbers weren't recorded (torchtrace run --numbers)");
      }
      return absl::OkStatus();
    }
    for (const GroupDiff& group : groups_) {
      if (group.group == kDefaultGroup || group.group == kUnnamedGroup || group.ranks.size() < 2) continue;
      GroupParameters one;
      one.group = group.group;
      for (const Rank* const rank : group.ranks) one.ranks.emplace_back(rank->rank, rank->process);
      shared_.push_back(std::move(one));
    }
    if (absl::Status s = parameters_->Compare(has_later_, &shared_); !s.ok()) return s;
    if (too_late_ > 0) {
      notes_.push_back(absl::StrCat("the numbers of ", Counted(too_late_, "tensor", "tensors"),
                                    " are left out: they came too long after their calls"));
    }
    // What the default group doesn't share, another one may.
    const bool in_groups = std::any_of(shared_.begin(), shared_.end(), [](const GroupParameters& group) {
      return group.group != kDefaultGroup && group.shared > 0;
    });
    const bool none = std::all_of(shared_.begin(), shared_.end(), [](const GroupParameters& group) {
      return group.shared + group.not_shared + group.same + group.only_in_some == 0;
    });
    if (none) {
      notes_.emplace_back(
          "parameters are not compared: the trace has no numbers of tensors that an optimizer updates and that require "
          "gradients (shards of DTensors, compiled steps)");
    }
    for (const GroupParameters& group : shared_) {
      const std::string which = absl::StrCat(GroupName(group.group), ", ", NameRanks(RanksOf(group)), ": ");
      if (group.shared > 0 && group.different.empty() && group.most_updates != group.least_updates) {
        notes_.push_back(absl::StrCat(which, "parameters have ", group.least_updates, " to ", group.most_updates,
                                      " updates: those that all ranks have are compared"));
      }
      if (group.group != kDefaultGroup ? group.shared == 0 : in_groups && group.shared == 0) continue;
      if (group.not_shared > 0) {
        notes_.push_back(absl::StrCat(
            which, Counted(group.not_shared, "parameter that differs is", "parameters that differ are"),
            " not compared: nothing shows that ranks share them (DistributedDataParallel, all_reduce of all gradients)",
            group.same_at_first ? "; they are the same before their first update" : ""));
      }
      if (group.only_in_some > 0) {
        notes_.push_back(absl::StrCat(which, Counted(group.only_in_some, "parameter is", "parameters are"),
                                      " not compared: not all ranks update one of that shape"));
      }
    }
    return absl::OkStatus();
  }

  static std::vector<int64_t> RanksOf(const GroupParameters& group) {
    std::vector<int64_t> ranks;
    for (const auto& [rank, process] : group.ranks) ranks.push_back(rank);
    return ranks;
  }

  static std::string ParametersTitle(const GroupParameters& group) {
    return absl::StrCat(GroupName(group.group), ", ", NameRanks(RanksOf(group)), ": parameters differ ",
                        group.before ? "before" : "after", " optimizer step ", group.step + 1, ": ",
                        group.different.size(), " of ", group.shared);
  }

  // Ranks that have the same value are one row.
  std::string ParametersTable(const GroupParameters& group) const {
    TextTable table({{"rank", TextTable::kLeft},
                     {"call", TextTable::kLeft},
                     {"line", TextTable::kLeft},
                     {"parameter", TextTable::kLeft},
                     {"fingerprint", TextTable::kLeft}});
    const size_t shown = options_.all ? group.different.size() : std::min(group.different.size(), kMaxParameters);
    for (size_t i = 0; i < shown; ++i) {
      const DifferingParameter& parameter = group.different[i];
      std::vector<uint64_t> fingerprints;
      for (const DifferingParameter::Value& value : parameter.values) {
        if (std::find(fingerprints.begin(), fingerprints.end(), value.fingerprint) == fingerprints.end()) {
          fingerprints.push_back(value.fingerprint);
        }
      }
      for (const uint64_t fingerprint : fingerprints) {
        std::vector<int64_t> ranks;
        std::vector<std::string> calls;
        StackId stack = kNoStack;
        for (const DifferingParameter::Value& value : parameter.values) {
          if (value.fingerprint != fingerprint) continue;
          if (ranks.empty()) stack = value.update.stack;
          ranks.push_back(value.rank);
          if (calls.size() <= kCallsShown) calls.push_back(absl::StrCat(value.update.call));
        }
        if (calls.size() > kCallsShown) calls.back() = "...";
        const std::string module = parameter.module == kLostId
                                       ? ""
                                       : absl::StrCat(ModuleLabelOf(trace_->identity(parameter.module)).Text(), " ");
        table.AddRow({NameRanks(ranks).substr(ranks.size() == 1 ? 5 : 6), absl::StrJoin(calls, ", "), PlaceOf(stack),
                      absl::StrCat(parameter.number + 1, ". ", PlainLine(module), parameter.tensor),
                      absl::StrCat(absl::Hex(fingerprint, absl::kZeroPad16))});
      }
    }
    const size_t more = group.different.size() - shown;
    std::string updates;
    const std::vector<DifferingParameter::Value>& first = group.different[0].values;
    const auto [least, most] = std::minmax_element(first.begin(), first.end(),
                                                   [](const auto& a, const auto& b) { return a.updates < b.updates; });
    if (least->updates != most->updates) {
      updates = absl::StrCat("rank ", least->rank, " updates it ", Counted(least->updates, "time", "times"),
                             " in all, rank ", most->rank, " ", Counted(most->updates, "time", "times"), "\n");
    }
    return absl::StrCat(
        table.Format(), updates,
        more == 0 ? "" : absl::StrCat("... and ", Counted(more, "more parameter", "more parameters"), " (--all)\n"));
  }

  // ---- text ----

  static std::string GroupName(const std::string& group) {
    return group == kDefaultGroup   ? "default group"
           : group == kUnnamedGroup ? "groups that aren't named"
                                    : absl::StrCat("group ", PlainLine(group));
  }

  static std::vector<int64_t> Numbers(const GroupDiff& group) {
    std::vector<int64_t> numbers;
    for (const Rank* const rank : group.ranks) numbers.push_back(rank->rank);
    return numbers;
  }

  std::string PartingTitle(const GroupDiff& group) const {
    const Parting& parting = *group.parting;
    std::vector<int64_t> come, missing;
    bool waits = false;
    for (size_t i = 0; i < group.ranks.size(); ++i) {
      const RankCall* const call = group.At(i, parting.number);
      (call == nullptr ? missing : come).push_back(group.ranks[i]->rank);
      waits = waits || (call != nullptr && call->open);
    }
    const bool only_count = parting.fields == std::vector<std::string>{"count"};
    const std::string what =
        !only_count ? absl::StrCat("differs in ", absl::StrJoin(parting.fields, ", "))
        : waits     ? absl::StrCat(NameRanks(come), come.size() == 1 ? " waits for " : " wait for ", NameRanks(missing))
                    : absl::StrCat(NameRanks(missing), missing.size() == 1 ? " doesn't call it" : " don't call it");
    const std::string before =
        parting.number == 0 ? "" : absl::StrCat("; the ", parting.number, " before are the same");
    return absl::StrCat(GroupName(group.group), ", ", NameRanks(Numbers(group)), ": collective ", parting.number + 1,
                        only_count ? ": " : " ", what, before);
  }

  std::string PlaceOf(StackId stack) const {
    return stack == kNoStack ? "" : stack_text_.Line(trace_->stacks().calling_line(stack));
  }

  // What a rank does that hasn't come to an operation.
  std::string StateOf(const Rank& rank) const {
    const ProcessInfo& process = trace_->processes()[rank.process];
    std::vector<std::string> parts;
    if (const std::vector<CallRecord> open = calls_->OpenOf(rank.process); !open.empty()) {
      parts.push_back(absl::StrCat("in ", FormatApi(ReadConfigHead(trace_->identity(open.back().config)).api),
                                   OpenFor(rank.process, open.back().time_ns)));
    }
    if (process.closed) {
      parts.push_back(absl::StrCat("ended: ", DescribeEnd(process)));
    } else {
      parts.emplace_back(running_[rank.process] == Running::kYes  ? "runs"
                         : running_[rank.process] == Running::kNo ? "killed"
                                                                  : "killed or still running");
    }
    return absl::StrJoin(parts, "; ");
  }

  std::string OpenFor(uint32_t process, int64_t time_ns) const {
    const auto last = last_ns_.find(process);
    const int64_t last_ns = last == last_ns_.end() ? 0 : last->second;
    const int64_t end_ns = running_[process] == Running::kYes ? std::max(now_ns_, last_ns) : last_ns;
    return end_ns <= time_ns ? "" : absl::StrCat(" for ", FormatDuration(end_ns - time_ns));
  }

  std::string CallText(const RankCall& call) const {
    return absl::StrCat(FoldedConfigText(*trace_, call.config), call.raised ? "  raised" : "",
                        call.open ? "  open" : "");
  }

  // A row for ranks that do the same.
  std::string PartingTable(const GroupDiff& group) const {
    struct Row {
      std::string line, text;
      std::vector<int64_t> ranks;
      std::vector<std::string> calls;
    };
    std::vector<Row> rows;
    const auto add = [&](const Rank& rank, std::string line, std::string text, std::string call) {
      auto row = std::find_if(rows.begin(), rows.end(),
                              [&](const Row& each) { return each.line == line && each.text == text; });
      if (row == rows.end()) row = rows.insert(rows.end(), {std::move(line), std::move(text), {}, {}});
      row->ranks.push_back(rank.rank);
      row->calls.push_back(std::move(call));
    };
    for (size_t i = 0; i < group.ranks.size(); ++i) {
      const Rank& rank = *group.ranks[i];
      if (const RankCall* const call = group.At(i, group.parting->number); call != nullptr) {
        add(rank, PlaceOf(call->stack), CallText(*call), absl::StrCat(call->call));
        continue;
      }
      const std::vector<CallRecord> open = calls_->OpenOf(rank.process);
      const uint64_t entered = group.sequences[i] == nullptr ? 0 : group.sequences[i]->size();
      add(rank, open.empty() ? "" : PlaceOf(open.back().stack), absl::StrCat("only ", entered, "; ", StateOf(rank)),
          "-");
    }
    TextTable table(
        {{"rank", TextTable::kLeft}, {"call", TextTable::kLeft}, {"line", TextTable::kLeft}, {"", TextTable::kLeft}});
    for (Row& row : rows) {
      if (row.calls.size() > kCallsShown) {
        row.calls.resize(kCallsShown);
        row.calls.emplace_back("...");
      }
      table.AddRow({NameRanks(row.ranks).substr(row.ranks.size() == 1 ? 5 : 6), absl::StrJoin(row.calls, ", "),
                    row.line, row.text});
    }
    return table.Format();
  }

  static std::string PartingHint(const GroupDiff& group) {
    return group.parting->hint.empty() ? "" : absl::StrCat(group.parting->hint, "\n");
  }

  static std::string MessageTitle(const MessageDiff& message) {
    const std::string group = message.group == kDefaultGroup ? "" : absl::StrCat(", group ", PlainLine(message.group));
    const std::string what = message.fields[0] != "count"
                                 ? absl::StrCat("differs in ", absl::StrJoin(message.fields, ", "))
                             : message.sent == nullptr ? "isn't sent"
                                                       : "isn't received";
    return absl::StrCat("message ", message.number + 1, " from rank ", message.from, " to rank ", message.to, ", tag ",
                        message.tag, group, ": ", what);
  }

  std::string MessageTable(const MessageDiff& message) const {
    TextTable table(
        {{"rank", TextTable::kLeft}, {"call", TextTable::kLeft}, {"line", TextTable::kLeft}, {"", TextTable::kLeft}});
    for (const auto& [rank, call] : {std::pair(message.from, message.sent), std::pair(message.to, message.received)}) {
      if (call == nullptr) continue;
      table.AddRow({absl::StrCat(rank), absl::StrCat(call->call), PlaceOf(call->stack), CallText(*call)});
    }
    return table.Format();
  }

  void Note() {
    for (const std::string& sentence : RankSentences(FindRankGaps(trace_->processes()))) notes_.push_back(sentence);
    if (!again_.empty()) {
      notes_.push_back(absl::StrCat("of ", NameRanks({again_.begin(), again_.end()}),
                                    ", the process that was started last is compared"));
    }
    for (const RankedRun& run : runs_) {
      for (const Rank& rank : run.ranks) {
        const ProcessMetadata& known = trace_->processes()[rank.process].known;
        std::vector<std::string> why = known.windows;
        if (!known.step_window.empty()) why.push_back(known.step_window);
        if (why.empty() && known.paused) why.emplace_back("paused");
        if (why.empty()) continue;
        notes_.push_back(absl::StrCat("the trace of rank ", rank.rank, " lacks calls (", absl::StrJoin(why, ", "),
                                      "): its operations may be counted from another one on"));
      }
    }
  }

  // ---- JSON ----

  ordered_json CallJson(const RankCall& call) const {
    ordered_json json = {{"call", call.call},
                         {"api", std::string(ReadConfigHead(trace_->identity(call.config)).api)},
                         {"config", ConfigText(*trace_, call.config)}};
    AddPlace(call.stack, &json);
    json["open"] = call.open;
    json["raised"] = call.raised;
    return json;
  }

  void AddPlace(StackId stack, ordered_json* json) const {
    if (stack == kNoStack) return;
    const StackTable& stacks = trace_->stacks();
    const StackPlace& line = stacks.line(stacks.calling_line(stack));
    (*json)["file"] = std::string(stacks.code(line.code).file);
    (*json)["line"] = line.line;
    (*json)["function"] = std::string(stacks.code(line.code).function);
  }

  ordered_json RankJson(const GroupDiff& group, size_t i) const {
    const Rank& rank = *group.ranks[i];
    ordered_json json = {{"rank", rank.rank}};
    if (const RankCall* const call = group.At(i, group.parting->number); call != nullptr) {
      json.update(CallJson(*call));
      return json;
    }
    json["entered"] = group.sequences[i] == nullptr ? 0 : group.sequences[i]->size();
    json["state"] = StateOf(rank);
    if (const std::vector<CallRecord> open = calls_->OpenOf(rank.process); !open.empty()) {
      json["inside"] = {{"call", open.back().call}, {"config", ConfigText(*trace_, open.back().config)}};
      AddPlace(open.back().stack, &json["inside"]);
    }
    return json;
  }

  ordered_json ParametersJson(const GroupParameters& group) const {
    ordered_json json = {{"group", group.group},
                         {"ranks", RanksOf(group)},
                         {"compared", group.shared},
                         {"not_shared", group.not_shared},
                         {"only_in_some", group.only_in_some}};
    json["first_difference"] = nullptr;
    if (group.different.empty()) return json;
    ordered_json first = {{"step", group.step + 1}, {"when", group.before ? "before" : "after"}};
    first["parameters"] = ordered_json::array();
    for (const DifferingParameter& parameter : group.different) {
      ordered_json one = {{"number", parameter.number + 1}, {"tensor", parameter.tensor}};
      one["module"] = parameter.module == kLostId
                          ? ordered_json()
                          : ordered_json(ModuleLabelOf(trace_->identity(parameter.module)).Text());
      one["ranks"] = ordered_json::array();
      for (const DifferingParameter::Value& value : parameter.values) {
        const ConfigId config = value.update.config;
        ordered_json rank = {{"rank", value.rank},
                             {"call", value.update.call},
                             {"api", std::string(ReadConfigHead(trace_->identity(config)).api)},
                             {"config", ConfigText(*trace_, config)}};
        AddPlace(value.update.stack, &rank);
        rank["fingerprint"] = absl::StrCat(absl::Hex(value.fingerprint, absl::kZeroPad16));
        one["ranks"].push_back(std::move(rank));
      }
      first["parameters"].push_back(std::move(one));
    }
    json["first_difference"] = std::move(first);
    return json;
  }

  Trace* const trace_;
  const OneTraceDiffOptions& options_;
  std::optional<RankCalls> calls_;
  std::optional<RankParameters> parameters_;
  bool has_later_ = false;  // the trace has notes that came later than their calls
  uint64_t too_late_ = 0;   // tensors whose notes came when they could wait no longer
  StackText stack_text_;
  std::map<uint32_t, int64_t> last_ns_;  // by process: its last record
  int64_t now_ns_ = 0;
  std::vector<Running> running_;  // by process
  bool of_operators_ = false;
  std::vector<RankedRun> runs_;  // with several ranks
  std::set<int64_t> again_;      // ranks of several processes
  std::vector<GroupDiff> groups_;
  std::vector<MessageDiff> messages_;
  std::vector<GroupParameters> shared_;
  uint64_t matched_ = 0;  // messages
  std::vector<std::string> notes_;
};

}  // namespace

absl::StatusOr<bool> WriteRankDiff(Trace* trace, const OneTraceDiffOptions& options, std::ostream* out) {
  RankDiff diff(trace, options);
  if (absl::Status s = diff.Compare(); !s.ok()) return s;
  if (options.json) {
    diff.WriteJson(out);
  } else {
    diff.WriteText(out);
  }
  return diff.different();
}

}  // namespace torchtrace
