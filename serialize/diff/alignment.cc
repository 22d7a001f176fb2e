#include <algorithm>
#include <limits>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "serialize/diff/sequence_diff.h"

namespace torchtrace {
namespace {

// A rectangle of the edit graph: symbols [a0, a1) against [b0, b1).
struct Box {
  int64_t a0, a1, b0, b1;
  int64_t size() const { return (a1 - a0) + (b1 - b0); }
};

struct Split {
  int64_t a, b;
  // The search gave up: this is the furthest point that it reached. The path to it
  // from the side where the search started is short.
  bool gave_up = false;
  bool low_is_short = false;
};

struct Anchor {
  int64_t a, b;
};

// Myers' algorithm in linear space ("An O(ND) difference algorithm", 1986), with
// a limit on the cost of one search, as in GNU diff and git.
class Aligner {
 public:
  // Sets `removed` and `added` for symbols that are not kept.
  Aligner(Symbols a, Symbols b, AlignEffort* effort, std::vector<bool>* removed, std::vector<bool>* added)
      : a_(a), b_(b), effort_(effort), removed_(removed), added_(added) {
    const int64_t length = static_cast<int64_t>(a.size() + b.size()) + 1;
    max_cost_ = std::clamp<int64_t>(effort->max_cost, 2, length / 2 + 2);
    // Once the effort is spent, time grows with length times cost.
    min_cost_ = std::min<int64_t>(effort->min_cost, std::max<int64_t>(int64_t{1'000'000'000} / length, 32));
    min_cost_ = std::clamp<int64_t>(min_cost_, 2, max_cost_);
  }

  void Run() {
    Compare({0, static_cast<int64_t>(a_.size()), 0, static_cast<int64_t>(b_.size())}, /*is_short=*/false,
            std::numeric_limits<int64_t>::max());
  }

 private:
  // `is_short`: no search in the box costs more than the limit. Searches for anchors
  // only in boxes up to `anchor_size`, which halves each time: each symbol is visited
  // a logarithmic number of times.
  void Compare(Box box, bool is_short, int64_t anchor_size) {
    for (;;) {
      while (box.a0 < box.a1 && box.b0 < box.b1 && a_[box.a0] == b_[box.b0]) ++box.a0, ++box.b0;
      while (box.a0 < box.a1 && box.b0 < box.b1 && a_[box.a1 - 1] == b_[box.b1 - 1]) --box.a1, --box.b1;
      if (box.a0 == box.a1 || box.b0 == box.b1) {
        for (int64_t i = box.a0; i < box.a1; ++i) (*removed_)[i] = true;
        for (int64_t i = box.b0; i < box.b1; ++i) (*added_)[i] = true;
        return;
      }
      const Split split = FindSplit(box, is_short);
      if (split.gave_up && box.size() <= anchor_size) {
        anchor_size = box.size() / 2;
        const std::vector<Anchor> anchors = FindAnchors(box);
        if (!anchors.empty()) {
          Box part = {box.a0, 0, box.b0, 0};
          for (const Anchor& anchor : anchors) {
            part.a1 = anchor.a;
            part.b1 = anchor.b;
            Compare(part, false, anchor_size);
            part.a0 = anchor.a;
            part.b0 = anchor.b;
          }
          part.a1 = box.a1;
          part.b1 = box.b1;
          Compare(part, false, anchor_size);
          return;
        }
      }
      const Box low = {box.a0, split.a, box.b0, split.b};
      const Box high = {split.a, box.a1, split.b, box.b1};
      const bool low_is_short = split.gave_up ? split.low_is_short : is_short;
      const bool high_is_short = split.gave_up ? !split.low_is_short : is_short;
      // Recursing only into the smaller one keeps the stack logarithmic.
      if (low.size() <= high.size()) {
        Compare(low, low_is_short, anchor_size);
        box = high;
        is_short = high_is_short;
      } else {
        Compare(high, high_is_short, anchor_size);
        box = low;
        is_short = low_is_short;
      }
    }
  }

  // A point on a shortest path through the box, searched from both ends. The box's first
  // and last symbols must differ, and neither side may be empty.
  Split FindSplit(const Box& box, bool is_short) {
    const int64_t min_diagonal = box.a0 - box.b1, max_diagonal = box.a1 - box.b0;
    const int64_t forward_middle = box.a0 - box.b0, backward_middle = box.a1 - box.b1;
    const bool odd = ((forward_middle - backward_middle) & 1) != 0;
    // By diagonal a - b, relative to the middle one: the furthest a that was reached.
    const int64_t reach = std::min(max_cost_, box.size() / 2 + 1) + 2;
    if (static_cast<int64_t>(forward_.size()) < 2 * reach + 1) {
      forward_.resize(2 * reach + 1);
      backward_.resize(2 * reach + 1);
    }
    int64_t* const forward = forward_.data() + reach - forward_middle;
    int64_t* const backward = backward_.data() + reach - backward_middle;
    constexpr int64_t kFar = std::numeric_limits<int64_t>::max();

    forward[forward_middle] = box.a0;
    backward[backward_middle] = box.a1;
    int64_t forward_min = forward_middle, forward_max = forward_middle;
    int64_t backward_min = backward_middle, backward_max = backward_middle;
    for (int64_t cost = 1;; ++cost) {
      int64_t work = 0;  // visited diagonals, and steps along them
      // One more diagonal on either side, unless that leaves the box.
      if (forward_min > min_diagonal) {
        forward[--forward_min - 1] = -1;
      } else {
        ++forward_min;
      }
      if (forward_max < max_diagonal) {
        forward[++forward_max + 1] = -1;
      } else {
        --forward_max;
      }
      for (int64_t d = forward_max; d >= forward_min; d -= 2) {
        int64_t a = forward[d - 1] >= forward[d + 1] ? forward[d - 1] + 1 : forward[d + 1];
        int64_t b = a - d;
        work -= a;
        while (a < box.a1 && b < box.b1 && a_[a] == b_[b]) ++a, ++b;
        work += a + 1;
        forward[d] = a;
        if (odd && backward_min <= d && d <= backward_max && backward[d] <= a) return {a, b};
      }

      if (backward_min > min_diagonal) {
        backward[--backward_min - 1] = kFar;
      } else {
        ++backward_min;
      }
      if (backward_max < max_diagonal) {
        backward[++backward_max + 1] = kFar;
      } else {
        --backward_max;
      }
      for (int64_t d = backward_max; d >= backward_min; d -= 2) {
        int64_t a = backward[d - 1] < backward[d + 1] ? backward[d - 1] : backward[d + 1] - 1;
        int64_t b = a - d;
        work += a;
        while (a > box.a0 && b > box.b0 && a_[a - 1] == b_[b - 1]) --a, --b;
        work -= a - 1;
        backward[d] = a;
        if (!odd && forward_min <= d && d <= forward_max && a <= forward[d]) return {a, b};
      }

      effort_->left -= std::min<uint64_t>(effort_->left, static_cast<uint64_t>(work));
      const int64_t limit = is_short || effort_->left > 0 ? max_cost_ : min_cost_;
      if (cost >= limit) {
        effort_->gave_up = true;
        return FurthestPoint(box, forward, forward_min, forward_max, backward, backward_min, backward_max);
      }
    }
  }

  static Split FurthestPoint(const Box& box, const int64_t* forward, int64_t forward_min, int64_t forward_max,
                             const int64_t* backward, int64_t backward_min, int64_t backward_max) {
    Split low = {box.a0, box.b0, true, true}, high = {box.a1, box.b1, true, false};
    for (int64_t d = forward_max; d >= forward_min; d -= 2) {
      int64_t a = std::min(forward[d], box.a1);
      int64_t b = a - d;
      if (b > box.b1) {
        b = box.b1;
        a = b + d;
      }
      if (a + b > low.a + low.b) {
        low.a = a;
        low.b = b;
      }
    }
    for (int64_t d = backward_max; d >= backward_min; d -= 2) {
      int64_t a = std::max(backward[d], box.a0);
      int64_t b = a - d;
      if (b < box.b0) {
        b = box.b0;
        a = b + d;
      }
      if (a + b < high.a + high.b) {
        high.a = a;
        high.b = b;
      }
    }
    return box.a1 + box.b1 - high.a - high.b < low.a + low.b - box.a0 - box.b0 ? low : high;
  }

  // Matching points at windows, or else at single symbols, that are unique on both
  // sides. Ascending on both sides.
  std::vector<Anchor> FindAnchors(const Box& box) const {
    std::vector<Anchor> anchors = UniqueWindows(box);
    if (anchors.empty()) anchors = UniqueSymbols(box);
    return LongestRising(anchors);
  }

  std::vector<Anchor> UniqueSymbols(const Box& box) const {
    constexpr int64_t kNone = -1, kSeveral = -2;
    absl::flat_hash_map<uint32_t, Anchor> at;
    for (int64_t i = box.a0; i < box.a1; ++i) {
      const auto [entry, fresh] = at.try_emplace(a_[i], Anchor{i, kNone});
      if (!fresh) entry->second.a = kSeveral;
    }
    for (int64_t i = box.b0; i < box.b1; ++i) {
      const auto entry = at.find(b_[i]);
      if (entry != at.end()) entry->second.b = entry->second.b == kNone ? i : kSeveral;
    }
    return UniqueOnBothSides(at);
  }

  template <typename Map>
  static std::vector<Anchor> UniqueOnBothSides(const Map& at) {
    std::vector<Anchor> anchors;
    for (const auto& [key, anchor] : at) {
      if (anchor.a >= 0 && anchor.b >= 0) anchors.push_back(anchor);
    }
    std::sort(anchors.begin(), anchors.end(), [](const Anchor& x, const Anchor& y) { return x.a < y.a; });
    return anchors;
  }

  std::vector<Anchor> UniqueWindows(const Box& box) const {
    constexpr int64_t kNone = -1, kSeveral = -2, kWindow = 32;
    // In a long box only some windows, chosen by their hash: the same ones on both sides.
    const uint64_t one_in = std::clamp<uint64_t>(static_cast<uint64_t>(box.size()) >> 16, 1, 64);
    absl::flat_hash_map<uint64_t, Anchor> at;
    const auto visit = [one_in](Symbols symbols, int64_t begin, int64_t end, const auto& found) {
      constexpr uint64_t kFactor = 0x9e3779b97f4a7c15;
      uint64_t highest = 1;
      for (int64_t i = 0; i < kWindow; ++i) highest *= kFactor;
      uint64_t rolling = 0;
      for (int64_t i = begin; i < end; ++i) {
        rolling = rolling * kFactor + symbols[i] + 1;
        if (i - begin >= kWindow) rolling -= highest * (uint64_t{symbols[i - kWindow]} + 1);
        if (i - begin < kWindow - 1) continue;
        const uint64_t mixed = (rolling ^ rolling >> 29) * kFactor;
        if ((mixed >> 40) % one_in == 0) found(mixed, i - kWindow + 1);
      }
    };
    visit(a_, box.a0, box.a1, [&](uint64_t hash, int64_t i) {
      const auto [entry, fresh] = at.try_emplace(hash, Anchor{i, kNone});
      if (!fresh) entry->second.a = kSeveral;
    });
    visit(b_, box.b0, box.b1, [&](uint64_t hash, int64_t i) {
      const auto entry = at.find(hash);
      if (entry != at.end()) entry->second.b = entry->second.b == kNone ? i : kSeveral;
    });
    return UniqueOnBothSides(at);
  }

  // The longest subsequence of `anchors`, which ascend in a, that ascends in b as well.
  static std::vector<Anchor> LongestRising(const std::vector<Anchor>& anchors) {
    std::vector<size_t> ends;  // by length - 1: the anchor with the least b that ends a subsequence of that length
    std::vector<size_t> before(anchors.size());
    for (size_t i = 0; i < anchors.size(); ++i) {
      const auto at = std::lower_bound(ends.begin(), ends.end(), i,
                                       [&](size_t x, size_t y) { return anchors[x].b < anchors[y].b; });
      before[i] = at == ends.begin() ? i : *(at - 1);
      if (at == ends.end()) {
        ends.push_back(i);
      } else {
        *at = i;
      }
    }
    std::vector<Anchor> rising(ends.size());
    if (ends.empty()) return rising;
    size_t i = ends.back();
    for (size_t n = rising.size(); n-- > 0; i = before[i]) rising[n] = anchors[i];
    return rising;
  }

  const Symbols a_;
  const Symbols b_;
  AlignEffort* const effort_;
  int64_t max_cost_;
  int64_t min_cost_;
  std::vector<bool>* const removed_;
  std::vector<bool>* const added_;
  std::vector<int64_t> forward_;
  std::vector<int64_t> backward_;
};

// Copies the symbols that are in `these`: both sides have them, so others can't be kept.
std::vector<uint32_t> OnlyThese(Symbols symbols, const std::vector<bool>& these) {
  std::vector<uint32_t> result;
  result.reserve(static_cast<size_t>(
      std::count_if(symbols.begin(), symbols.end(), [&](uint32_t symbol) { return these[symbol]; })));
  for (const uint32_t symbol : symbols) {
    if (these[symbol]) result.push_back(symbol);
  }
  return result;
}

std::vector<bool> Occurring(Symbols symbols, size_t symbol_count) {
  std::vector<bool> occurs(symbol_count);
  for (const uint32_t symbol : symbols) occurs[symbol] = true;
  return occurs;
}

// Aligns both sides without their common beginning and end. Neither may be empty.
RunList AlignMiddle(Symbols a, Symbols b, size_t symbol_count, AlignEffort* effort) {
  // For short sequences, finding the common symbols costs more than it saves.
  const bool filter = a.size() + b.size() >= symbol_count / 8;
  std::vector<bool> common;
  std::vector<uint32_t> kept_a, kept_b;
  Symbols left_a = a, left_b = b;
  if (filter) {
    common = Occurring(a, symbol_count);
    const std::vector<bool> in_b = Occurring(b, symbol_count);
    bool all = true;
    for (size_t i = 0; i < symbol_count; ++i) {
      if (common[i] != in_b[i]) all = false;
      common[i] = common[i] && in_b[i];
    }
    if (all) {
      common.clear();
    } else {
      kept_a = OnlyThese(a, common);
      kept_b = OnlyThese(b, common);
      left_a = kept_a;
      left_b = kept_b;
    }
  }
  std::vector<bool> removed(left_a.size()), added(left_b.size());
  Aligner(left_a, left_b, effort, &removed, &added).Run();

  RunList runs;
  size_t i = 0, j = 0, left_i = 0, left_j = 0;  // left_*: the next of left_a and left_b
  while (i < a.size() || j < b.size()) {
    // Removed and added symbols before the next pair that is kept.
    uint64_t gone = 0, come = 0, same = 0;
    for (; i < a.size(); ++i, ++gone) {
      if (!common.empty() && !common[a[i]]) continue;
      if (!removed[left_i]) break;
      ++left_i;
    }
    for (; j < b.size(); ++j, ++come) {
      if (!common.empty() && !common[b[j]]) continue;
      if (!added[left_j]) break;
      ++left_j;
    }
    runs.Append(RunKind::kRemoved, gone);
    runs.Append(RunKind::kAdded, come);
    const auto kept = [&](Symbols symbols, size_t at, const std::vector<bool>& changed, size_t left) {
      return at < symbols.size() && (common.empty() || common[symbols[at]]) && !changed[left];
    };
    while (kept(a, i, removed, left_i) && kept(b, j, added, left_j)) {
      ++i, ++j, ++left_i, ++left_j, ++same;
    }
    runs.Append(RunKind::kSame, same);
  }
  return runs;
}

void AppendAll(const RunList& from, RunList* to) {
  for (size_t i = 0; i < from.size(); ++i) to->Append(from[i].kind, from[i].count);
}

}  // namespace

void RunList::Append(RunKind kind, uint64_t count) {
  if (count == 0) return;
  if (!runs_.empty() && (runs_.back() & 3) == static_cast<uint32_t>(kind)) {
    count += runs_.back() >> 2;
    runs_.pop_back();
  }
  for (; count > 0;) {
    const auto part = static_cast<uint32_t>(std::min<uint64_t>(count, kMaxCount));
    runs_.push_back(part << 2 | static_cast<uint32_t>(kind));
    count -= part;
  }
}

RunList Align(Symbols a, Symbols b, size_t symbol_count, AlignEffort* effort) {
  const auto shorter = static_cast<ptrdiff_t>(std::min(a.size(), b.size()));
  const auto before = static_cast<size_t>(std::mismatch(a.begin(), a.begin() + shorter, b.begin()).first - a.begin());
  size_t behind = 0;
  while (behind < static_cast<size_t>(shorter) - before && a[a.size() - 1 - behind] == b[b.size() - 1 - behind]) {
    ++behind;
  }
  const Symbols middle_a = a.subspan(before, a.size() - before - behind);
  const Symbols middle_b = b.subspan(before, b.size() - before - behind);
  RunList runs;
  runs.Append(RunKind::kSame, before);
  if (middle_a.empty() || middle_b.empty()) {
    runs.Append(RunKind::kRemoved, middle_a.size());
    runs.Append(RunKind::kAdded, middle_b.size());
  } else if (middle_a.size() == 1 && middle_b.size() == 1) {
    runs.Append(RunKind::kRemoved, 1);
    runs.Append(RunKind::kAdded, 1);
  } else {
    AppendAll(AlignMiddle(middle_a, middle_b, symbol_count, effort), &runs);
  }
  runs.Append(RunKind::kSame, behind);
  return runs;
}

RunList PairChanged(const RunList& runs, Symbols a, Symbols b, std::span<const uint32_t> group_of, size_t group_count,
                    AlignEffort* effort) {
  RunList result;
  std::vector<uint32_t> groups_a, groups_b;
  size_t at_a = 0, at_b = 0;
  uint64_t removed = 0, added = 0;
  const auto take = [&] {
    if (removed > 0 && added > 0) {
      groups_a.clear();
      groups_b.clear();
      for (uint64_t i = 0; i < removed; ++i) groups_a.push_back(group_of[a[at_a + i]]);
      for (uint64_t i = 0; i < added; ++i) groups_b.push_back(group_of[b[at_b + i]]);
      const RunList pairs = Align(groups_a, groups_b, group_count, effort);
      for (size_t i = 0; i < pairs.size(); ++i) {
        result.Append(pairs[i].kind == RunKind::kSame ? RunKind::kChanged : pairs[i].kind, pairs[i].count);
      }
    } else {
      result.Append(RunKind::kRemoved, removed);
      result.Append(RunKind::kAdded, added);
    }
    at_a += removed;
    at_b += added;
    removed = added = 0;
  };
  for (size_t i = 0; i < runs.size(); ++i) {
    const RunList::Run run = runs[i];
    if (run.kind == RunKind::kRemoved) {
      removed += run.count;
    } else if (run.kind == RunKind::kAdded) {
      added += run.count;
    } else {
      take();
      result.Append(run.kind, run.count);
      at_a += run.count;
      at_b += run.count;
    }
  }
  take();
  return result;
}

}  // namespace torchtrace
