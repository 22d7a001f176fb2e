#include "serialize/trace/ranks.h"

#include <algorithm>
#include <initializer_list>
#include <map>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "serialize/base/json_member.h"

namespace torchtrace {
namespace {

using Json = nlohmann::json;

// Larger ones are nobody's.
constexpr int64_t kMaxWorldSize = 1'000'000;
// A sentence names no more.
constexpr size_t kMaxNamed = 20;

std::optional<int64_t> Number(const Json& metadata, const char* key, std::initializer_list<const char*> variables) {
  const auto accepted = [](int64_t number) { return number >= 0 && number <= kMaxWorldSize; };
  if (const Json* const value = FindMember(metadata, key); value != nullptr && value->is_number_integer()) {
    const int64_t number = value->get<int64_t>();
    return accepted(number) ? std::optional(number) : std::nullopt;
  }
  const Json* const environment = FindMember(metadata, "environment");
  if (environment == nullptr) return std::nullopt;
  for (const char* variable : variables) {
    const Json* const value = FindMember(*environment, variable);
    int64_t number;
    if (value != nullptr && value->is_string() && absl::SimpleAtoi(value->get<std::string>(), &number) &&
        accepted(number)) {
      return number;
    }
  }
  return std::nullopt;
}

// `ranks 1-3, 7`
std::string NameRanks(const std::vector<int64_t>& ranks) {
  std::vector<std::string> ranges;
  for (size_t i = 0; i < ranks.size();) {
    size_t last = i;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) ++last;
    ranges.push_back(last == i ? absl::StrCat(ranks[i])
                               : absl::StrCat(ranks[i], last == i + 1 ? ", " : "-", ranks[last]));
    i = last + 1;
  }
  std::string text = absl::StrCat(ranks.size() == 1 ? "rank " : "ranks ");
  const size_t named = std::min(ranges.size(), kMaxNamed);
  for (size_t i = 0; i < named; ++i) absl::StrAppend(&text, i == 0 ? "" : ", ", ranges[i]);
  if (named < ranges.size()) absl::StrAppend(&text, " and more");
  return text;
}

}  // namespace

ProcessRank ReadRank(const Json& metadata) {
  return {Number(metadata, "rank", {"RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID"}),
          Number(metadata, "world_size", {"WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS"})};
}

std::vector<RankGap> FindRankGaps(const std::vector<ProcessInfo>& processes) {
  struct Run {
    int64_t world_size = 0;
    std::map<int64_t, int> ranks;
  };
  std::map<std::string, Run> runs;  // by label
  for (const ProcessInfo& process : processes) {
    const ProcessRank rank = ReadRank(*process.metadata);
    // A forked process has its parent's rank.
    if (!rank.rank || process.known.role == "fork") continue;
    Run& run = runs[process.known.label];
    ++run.ranks[*rank.rank];
    run.world_size = std::max(run.world_size, rank.world_size.value_or(0));
  }
  std::vector<RankGap> gaps;
  for (const auto& [label, run] : runs) {
    RankGap gap;
    gap.label = label;
    gap.world_size = run.world_size;
    for (int64_t rank = 0; rank < run.world_size; ++rank) {
      if (run.ranks.count(rank) == 0) gap.missing.push_back(rank);
    }
    for (const auto& [rank, count] : run.ranks) {
      if (count > 1) gap.duplicate.push_back(rank);
    }
    if (!gap.missing.empty() || !gap.duplicate.empty()) gaps.push_back(std::move(gap));
  }
  return gaps;
}

std::vector<std::string> RankSentences(const std::vector<RankGap>& gaps) {
  std::vector<std::string> sentences;
  for (const RankGap& gap : gaps) {
    const std::string run = gap.label.empty() ? "" : absl::StrCat(" (", gap.label, ")");
    if (!gap.missing.empty()) {
      sentences.push_back(absl::StrCat(NameRanks(gap.missing), " of ", gap.world_size,
                                       gap.missing.size() == 1 ? " is missing" : " are missing", run));
    }
    if (!gap.duplicate.empty()) {
      sentences.push_back(absl::StrCat(NameRanks(gap.duplicate), gap.duplicate.size() == 1 ? " is" : " are",
                                       " there more than once", run));
    }
  }
  return sentences;
}

}  // namespace torchtrace
