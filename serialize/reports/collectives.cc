#include "serialize/reports/collectives.h"

#include <algorithm>
#include <set>
#include <tuple>

#include "serialize/base/text.h"
#include "serialize/model/config.h"
#include "serialize/trace/collective_traits.h"

namespace torchtrace {
namespace {

// Functions below torch.distributed in which ranks meet.
constexpr std::string_view kCollectiveFunctions[] = {
    "_all_gather_base",
    "_reduce_scatter_base",
    "all_gather",
    "all_gather_coalesced",
    "all_gather_into_tensor",
    "all_gather_object",
    "all_gather_tensor",
    "all_reduce",
    "all_reduce_coalesced",
    "all_to_all",
    "all_to_all_single",
    "barrier",
    "broadcast",
    "broadcast_object_list",
    "gather",
    "gather_object",
    "init_process_group",
    "monitored_barrier",
    "new_group",
    "reduce",
    "reduce_scatter",
    "reduce_scatter_tensor",
    "scatter",
    "scatter_object_list",
};
constexpr std::string_view kNotCollective[] = {"recv_", "recv_any_source_", "send", "wait_tensor"};

}  // namespace

bool IsCollective(std::string_view api) {
  if (const size_t colons = api.find("::"); colons != std::string_view::npos) {
    const std::string_view space = api.substr(0, colons), name = api.substr(colons + 2, api.find('.') - colons - 2);
    return (space == "c10d" || space.starts_with("_c10d_functional")) && !IsOneOf(name, kNotCollective);
  }
  return api.starts_with("torch.distributed.") && IsOneOf(api.substr(api.rfind('.') + 1), kCollectiveFunctions);
}

std::vector<int64_t> CollectiveProgress::Waiting() const {
  std::vector<int64_t> waiting;
  uint64_t least = UINT64_MAX, most = 0;
  for (const RankProgress& rank : ranks) {
    least = std::min(least, rank.entered);
    most = std::max(most, rank.entered);
  }
  if (group == kUnnamedGroup || differ.has_value() || least == most) return waiting;
  for (const RankProgress& rank : ranks) {
    if (rank.entered == most && rank.open) waiting.push_back(rank.rank);
  }
  return waiting;
}

std::vector<int64_t> CollectiveProgress::Awaited() const {
  std::vector<int64_t> awaited;
  if (Waiting().empty()) return awaited;
  uint64_t most = 0;
  for (const RankProgress& rank : ranks) most = std::max(most, rank.entered);
  for (const RankProgress& rank : ranks) {
    if (rank.entered < most) awaited.push_back(rank.rank);
  }
  return awaited;
}

const std::string* CollectiveCalls::GroupOf(ConfigId config) {
  if (config == kLostId) return nullptr;
  if (config >= groups_.size()) groups_.resize(config + config / 2 + 16);
  std::optional<const std::string*>& known = groups_[config];
  if (known.has_value()) return *known;
  known = nullptr;
  const std::string_view identity = trace_.identity(config);
  const ConfigHead head = ReadConfigHead(identity);
  if (!IsCollective(head.api)) return nullptr;
  std::string group = kUnnamedGroup;
  // Calls of Python functions (level 3) have no arguments.
  if (!OperationOf(head.api, head.level).empty()) {
    CollectiveTraits traits = CollectiveTraitsOf(ReadableConfig(identity));
    if (traits.kind == CollectiveTraits::kNone) return nullptr;
    group = std::move(traits.group);
  }
  known = &*names_.insert(std::move(group)).first;
  return *known;
}

void CollectiveCalls::Take(const CallRecord& record) {
  const std::string* const group = GroupOf(record.config);
  if (group == nullptr) [[likely]] {
    return;
  }
  Outermost& outermost = outermost_[{record.process, record.thread}];
  if (record.kind == CallRecord::kEnter) {
    // What one calls to do its work is a part of it. Its end may be missing.
    if (outermost.call != kNoCall && record.depth > outermost.depth) return;
    outermost = {record.call, record.depth};
    const std::string api(ReadConfigHead(trace_.identity(record.config)).api);
    const auto [number, fresh] = api_numbers_.try_emplace(api, static_cast<uint32_t>(apis_.size()));
    if (fresh) apis_.push_back(api);
    Progress& progress = progress_[{record.process, *group}];
    progress.apis.push_back(number->second);
    progress.last_call = record.call;
    progress.open = true;
    progress.time_ns = record.time_ns;
  } else if (outermost.call == record.call) {
    outermost.call = kNoCall;
    Progress& progress = progress_[{record.process, *group}];
    if (progress.last_call != record.call) return;
    progress.open = false;
    progress.time_ns = record.time_ns;
  }
}

std::vector<CollectiveProgress> CollectiveCalls::Compare() const {
  // The processes of each rank: of those that call any, the last one that was started.
  std::map<std::string, std::map<int64_t, uint32_t>> runs;  // by label
  for (const auto& [key, progress] : progress_) {
    const ProcessMetadata& known = trace_.processes()[key.first].known;
    if (known.ranked.rank.has_value()) runs[known.label][*known.ranked.rank] = key.first;
  }
  // A rank may not have come to its first one. Its first process may do so, not a forked worker.
  for (uint32_t i = 0; i < trace_.processes().size(); ++i) {
    const ProcessMetadata& known = trace_.processes()[i].known;
    const auto run = runs.find(known.label);
    if (run == runs.end() || !known.ranked.rank.has_value() || known.role == "fork") continue;
    run->second.try_emplace(*known.ranked.rank, i);
  }
  std::vector<CollectiveProgress> all;
  for (const auto& [label, processes] : runs) {
    std::vector<std::string> groups(names_.begin(), names_.end());
    std::stable_partition(groups.begin(), groups.end(),
                          [](const std::string& group) { return group == kDefaultGroup; });
    for (const std::string& group : groups) {
      CollectiveProgress compared = {.label = label, .group = group, .ranks = {}, .differ = {}};
      const std::vector<uint32_t>* longest = nullptr;
      bool worth_it = false;
      std::vector<const std::vector<uint32_t>*> sequences;
      for (const auto& [rank, process] : processes) {
        const auto found = progress_.find({process, group});
        // Of named groups, the ranks that have called one of its operations are known to be members.
        if (found == progress_.end() && group != kDefaultGroup && group != kUnnamedGroup) continue;
        RankProgress& one = compared.ranks.emplace_back();
        one.rank = rank;
        one.process = process;
        if (found == progress_.end()) continue;
        const Progress& progress = found->second;
        one.entered = progress.apis.size();
        one.last = progress.apis.empty() ? "" : apis_[progress.apis.back()];
        one.open = progress.open;
        one.time_ns = progress.time_ns;
        worth_it = worth_it || progress.open;
        sequences.push_back(&progress.apis);
        if (longest == nullptr || progress.apis.size() > longest->size()) longest = &progress.apis;
      }
      if (longest == nullptr || compared.ranks.size() < 2) continue;
      for (const std::vector<uint32_t>* const sequence : sequences) {
        const auto parts = std::mismatch(sequence->begin(), sequence->end(), longest->begin());
        if (parts.first == sequence->end()) continue;
        const auto number = static_cast<uint64_t>(parts.first - sequence->begin()) + 1;
        compared.differ = std::min(compared.differ.value_or(number), number);
      }
      worth_it = worth_it || std::any_of(compared.ranks.begin(), compared.ranks.end(),
                                         [&](const RankProgress& rank) { return rank.entered != longest->size(); });
      if (worth_it) all.push_back(std::move(compared));
    }
  }
  return all;
}

}  // namespace torchtrace
