#include "serialize/report/pyramid.h"

#include <algorithm>
#include <iterator>

namespace torchtrace {
namespace {

constexpr uint32_t kBinsOfCoarsest = 2048;
constexpr uint32_t kWider = 4;

void SortByStart(std::vector<Pyramid::Row>* rows) {
  std::stable_sort(rows->begin(), rows->end(),
                   [](const Pyramid::Row& a, const Pyramid::Row& b) { return a.start < b.start; });
}

}  // namespace

Pyramid::Pyramid(uint32_t ticks, size_t most_rows) : most_rows_(most_rows) {
  const uint32_t coarsest = std::max<uint32_t>(1, ticks / kBinsOfCoarsest + (ticks % kBinsOfCoarsest != 0));
  bins_ = {coarsest};
  while (bins_[0] > 1) bins_.insert(bins_.begin(), std::max<uint32_t>(1, bins_[0] / kWider));
  coarsest_ = bins_.size() - 1;
  while (bins_.back() < ticks) {
    bins_.push_back(bins_.back() > UINT32_MAX / kWider ? UINT32_MAX : bins_.back() * kWider);
  }
  tracks_.resize(bins_.size());
}

void Pyramid::Add(size_t track, const Row& call) {
  for (size_t level = finest_; level < bins_.size(); ++level) {
    std::vector<LevelOfTrack>& tracks = tracks_[level];
    if (track >= tracks.size()) tracks.resize(track + 1);
    LevelOfTrack& into = tracks[track];
    if (call.duration < bins_[level]) {
      Merge(level, call, &into);
    } else if (level + 1 == bins_.size() || call.duration < bins_[level + 1]) {
      into.calls.push_back(call);
      ++rows_;
    }
  }
  while (rows_ > most_rows_ && finest_ + 1 < bins_.size()) DropFinest();
}

void Pyramid::Merge(size_t level, const Row& call, LevelOfTrack* into) {
  if (call.depth >= into->open.size()) into->open.resize(call.depth + size_t{1});
  Bin& bin = into->open[call.depth];
  const uint64_t number = call.start / bins_[level];
  if (bin.number != number) {
    Close(level, &bin, into);
    bin = {};
    bin.number = number;
    bin.merged.depth = call.depth;
    bin.merged.count = 0;
    ++rows_;
  }
  bin.busy_ticks += call.duration;
  bin.merged.count += call.count;
  if (bin.merged.count == call.count || call.duration > bin.longest) {
    bin.longest = call.duration;
    bin.merged.label = call.label;
    bin.merged.call = call.call;
  }
}

void Pyramid::Close(size_t level, Bin* bin, LevelOfTrack* into) {
  if (bin->number == UINT64_MAX) return;
  const uint64_t width = bins_[level];
  bin->merged.start = static_cast<uint32_t>(bin->number * width);
  bin->merged.duration = static_cast<uint32_t>(width);
  bin->merged.busy = static_cast<uint32_t>(std::clamp<uint64_t>(bin->busy_ticks * 255 / width, 1, 255));
  into->merged.push_back(bin->merged);
  bin->number = UINT64_MAX;
}

void Pyramid::DropFinest() {
  for (LevelOfTrack& track : tracks_[finest_]) {
    rows_ -= track.calls.size() + track.merged.size();
    for (const Bin& bin : track.open) rows_ -= bin.number != UINT64_MAX;
  }
  tracks_[finest_] = {};
  ++finest_;
}

std::vector<Pyramid::Level> Pyramid::Take(size_t track) {
  std::vector<Level> levels;
  const size_t top = std::max(coarsest_, finest_);
  for (size_t level = finest_; level < bins_.size(); ++level) {
    if (track >= tracks_[level].size()) continue;
    LevelOfTrack& from = tracks_[level][track];
    if (level <= top) levels.push_back({bins_[level], std::move(from.calls), {}});
    if (level > top && !levels.empty()) {
      // All that are longer are the coarsest's.
      std::move(from.calls.begin(), from.calls.end(), std::back_inserter(levels.back().calls));
      continue;
    }
    for (Bin& bin : from.open) Close(level, &bin, &from);
    levels.back().merged = std::move(from.merged);
  }
  for (Level& level : levels) {
    SortByStart(&level.calls);
    SortByStart(&level.merged);
  }
  // A level in which nothing is merged shows all there is.
  const auto whole =
      std::find_if(levels.rbegin(), levels.rend(), [](const Level& level) { return level.merged.empty(); });
  if (whole != levels.rend()) {
    const auto first = whole.base() - 1;
    bool finer = false;
    for (auto level = levels.begin(); level != first; ++level) finer = finer || !level->calls.empty();
    if (!finer) levels.erase(levels.begin(), first);
  }
  return levels;
}

}  // namespace torchtrace
