#include "serialize/reports/collectives.h"

#include <algorithm>
#include <set>
#include <tuple>

#include "serialize/model/config.h"
#include "serialize/model/value.h"

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

template <size_t N>
bool IsOneOf(std::string_view name, const std::string_view (&names)[N]) {
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

// Whether a call with these arguments is one of the default group: the parameter `group` is left out or None.
bool NamesNoGroup(const Config& config) {
  const auto is_group = [](const Value& value) {
    return value.tag == ValueTag::kObject && value.text.find("ProcessGroup") != std::string_view::npos;
  };
  if (std::any_of(config.args.begin(), config.args.end(), is_group)) return false;
  return std::all_of(config.kwargs.begin(), config.kwargs.end(), [](const auto& argument) {
    return argument.first != "group" || argument.second.tag == ValueTag::kNone;
  });
}

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
  if (!default_group || differ.has_value() || least == most) return waiting;
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

CollectiveCalls::Group CollectiveCalls::GroupOf(ConfigId config) {
  if (config >= groups_.size()) groups_.resize(config + config / 2 + 16, kGroups);
  uint8_t& known = groups_[config];
  if (known == kGroups) {
    const std::string_view identity = trace_.identity(config);
    const ConfigHead head = ReadConfigHead(identity);
    // Operators get an object for every group, and calls of Python functions (level 3) have no arguments.
    const bool tells = head.level <= 1 && head.api.find("::") == std::string_view::npos;
    known = !IsCollective(head.api) ? kNone : tells && NamesNoGroup(ReadableConfig(identity)) ? kDefault : kUnknown;
  }
  return static_cast<Group>(known);
}

void CollectiveCalls::Take(const CallRecord& record) {
  const Group group = GroupOf(record.config);
  if (group == kNone) [[likely]] {
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
    Progress& progress = progress_[{record.process, group}];
    progress.apis.push_back(number->second);
    progress.last_call = record.call;
    progress.open = true;
    progress.time_ns = record.time_ns;
  } else if (outermost.call == record.call) {
    outermost.call = kNoCall;
    Progress& progress = progress_[{record.process, group}];
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
    for (const Group group : {kDefault, kUnknown}) {
      CollectiveProgress compared = {.label = label, .default_group = group == kDefault, .ranks = {}, .differ = {}};
      const std::vector<uint32_t>* longest = nullptr;
      bool worth_it = false;
      std::vector<const std::vector<uint32_t>*> sequences;
      for (const auto& [rank, process] : processes) {
        const auto found = progress_.find({process, group});
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
      if (longest == nullptr || processes.size() < 2) continue;
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
