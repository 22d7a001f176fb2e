#include "serialize/diff/sequence_diff.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "serialize/diff/call_sequences.h"
#include "serialize/diff/reports.h"

namespace torchtrace {
namespace {

struct Side {
  Trace* trace;
  std::vector<uint32_t> symbols;  // by ConfigId
  std::vector<CallSequence> sequences;
  std::vector<SequenceQuery> queries;
};

// Positions of a hunk's lines in both sequences, before their places are known.
struct LinePosition {
  uint64_t a = 0;
  uint64_t b = 0;
};

// A hunk under construction.
struct Draft {
  size_t sequence = 0;  // index into the result's sequences
  std::vector<LinePosition> positions;
};

class SequenceComparison {
 public:
  SequenceComparison(Trace* a, Trace* b, const DiffScope& scope, const SequenceOptions& options, CommonConfigs* configs)
      : scope_(scope), options_(options), configs_(*configs) {
    a_.trace = a;
    b_.trace = b;
  }

  absl::StatusOr<SequenceDiffs> Run() {
    const auto count = [](Trace* trace) { return trace->Count().status(); };
    if (absl::Status s = DoBoth([&] { return count(a_.trace); }, [&] { return count(b_.trace); }); !s.ok()) return s;
    a_.symbols = configs_.Add(*a_.trace, scope_);
    b_.symbols = configs_.Add(*b_.trace, scope_);
    const auto read = [this](Side* side) -> absl::Status {
      absl::StatusOr<std::vector<CallSequence>> sequences =
          ReadSequences(side->trace, side->symbols, options_.levels_together);
      if (!sequences.ok()) return sequences.status();
      side->sequences = *std::move(sequences);
      return absl::OkStatus();
    };
    if (absl::Status s = DoBoth([&] { return read(&a_); }, [&] { return read(&b_); }); !s.ok()) return s;

    AlignAll();
    AskForPlaces();
    const auto find = [](Side* side) { return FindPlaces(side->trace, side->symbols, &side->queries); };
    if (absl::Status s = DoBoth([&] { return find(&a_); }, [&] { return find(&b_); }); !s.ok()) return s;
    FillInPlaces();
    FindFirst();
    return std::move(result_);
  }

 private:
  void AlignAll() {
    for (const SequencePair& pair : PairSequences(*a_.trace, &a_.sequences, *b_.trace, &b_.sequences)) {
      AlignPair(pair.a, pair.b);
    }
    result_.shortest = !effort_.gave_up;
  }

  // Null if a side has no such sequence. Frees the symbols.
  void AlignPair(CallSequence* a, CallSequence* b) {
    SequenceDiff& diff = result_.sequences.emplace_back();
    diff.level = (a != nullptr ? a : b)->level;
    if (a != nullptr) {
      diff.a_thread = DescribeThread(*a_.trace, {a->process, a->thread});
      diff.a_calls = a->symbols.size();
    }
    if (b != nullptr) {
      diff.b_thread = DescribeThread(*b_.trace, {b->process, b->thread});
      diff.b_calls = b->symbols.size();
    }
    if (a == nullptr || b == nullptr) {
      diff.counts[static_cast<size_t>(a != nullptr ? RunKind::kRemoved : RunKind::kAdded)] =
          (a != nullptr ? a : b)->symbols.size();
    } else {
      RunList runs = Align(a->symbols, b->symbols, configs_.size(), &effort_);
      if (runs.size() > 1 || (!runs.empty() && runs[0].kind != RunKind::kSame)) {
        const std::vector<uint32_t>& families = configs_.Families();
        runs = PairChanged(runs, a->symbols, b->symbols, families, configs_.family_count(), &effort_);
      }
      sequence_ids_.emplace_back(a, b);
      MakeHunks(runs, *a, *b, result_.sequences.size() - 1);
    }
    if (a == nullptr || b == nullptr) sequence_ids_.emplace_back(a, b);
    for (size_t kind = 0; kind < diff.counts.size(); ++kind) result_.counts[kind] += diff.counts[kind];
    result_.hunk_count += diff.hunk_count;
    for (CallSequence* sequence : {a, b}) {
      if (sequence != nullptr) std::vector<uint32_t>().swap(sequence->symbols);
    }
  }

  // Whether to keep another hunk of a sequence with `kept` of them. The first one
  // of each sequence is always kept: one of them is the first divergence.
  bool KeepsAnother(size_t kept) const {
    return kept == 0 || options_.max_hunks == 0 || drafts_.size() < options_.max_hunks;
  }

  void MakeHunks(const RunList& runs, const CallSequence& a, const CallSequence& b, size_t index) {
    SequenceDiff& diff = result_.sequences[index];
    uint64_t at_a = 0, at_b = 0;
    for (size_t i = 0; i < runs.size();) {
      if (runs[i].kind == RunKind::kSame) {
        diff.counts[0] += runs[i].count;
        at_a += runs[i].count;
        at_b += runs[i].count;
        ++i;
        continue;
      }
      // A hunk ends at the first run of kept calls that is too long for the context of both sides.
      ++diff.hunk_count;
      const bool keeps = KeepsAnother(diff.hunks.size());
      const uint64_t before = std::min({options_.context, at_a, at_b, SameBefore(runs, i)});
      Hunk hunk;
      Draft draft;
      draft.sequence = index;
      hunk.a_first = at_a - before;
      hunk.b_first = at_b - before;
      uint64_t line_a = hunk.a_first, line_b = hunk.b_first;
      const auto add = [&](RunKind kind, uint64_t count) {
        if (keeps) AddLines(kind, count, a, b, line_a, line_b, &hunk, &draft);
        if (kind != RunKind::kAdded) line_a += count;
        if (kind != RunKind::kRemoved) line_b += count;
      };
      hunk.first_change = static_cast<size_t>(before);
      add(RunKind::kSame, before);
      for (; i < runs.size(); ++i) {
        const RunList::Run run = runs[i];
        if (run.kind == RunKind::kSame) {
          const bool last = i + 1 == runs.size();
          if (last || (uint64_t{run.count} + 1) / 2 > options_.context) {
            add(RunKind::kSame, std::min<uint64_t>(run.count, options_.context));
            break;
          }
        }
        add(run.kind, run.count);
        diff.counts[static_cast<size_t>(run.kind)] += run.count;
        if (run.kind != RunKind::kAdded) at_a += run.count;
        if (run.kind != RunKind::kRemoved) at_b += run.count;
      }
      if (!keeps) continue;
      hunk.a_count = line_a - hunk.a_first;
      hunk.b_count = line_b - hunk.b_first;
      diff.hunks.push_back(std::move(hunk));
      drafts_.push_back(std::move(draft));
    }
  }

  // The number of kept calls right before run `i`, in one or more entries.
  static uint64_t SameBefore(const RunList& runs, size_t i) {
    uint64_t same = 0;
    while (i > 0 && runs[i - 1].kind == RunKind::kSame) same += runs[--i].count;
    return same;
  }

  void AddLines(RunKind kind, uint64_t count, const CallSequence& a, const CallSequence& b, uint64_t at_a,
                uint64_t at_b, Hunk* hunk, Draft* draft) const {
    // The context before the first change is always kept.
    const uint64_t max =
        options_.max_calls == 0 ? UINT64_MAX : std::max<uint64_t>(options_.max_calls, 1) + hunk->first_change;
    for (uint64_t n = 0; n < count; ++n) {
      if (hunk->lines.size() >= max) {
        hunk->lines_left_out += count - n;
        return;
      }
      HunkLine& line = hunk->lines.emplace_back();
      line.kind = kind;
      if (kind != RunKind::kAdded) line.a = a.symbols[at_a];
      if (kind != RunKind::kRemoved) line.b = b.symbols[at_b];
      draft->positions.push_back({at_a, at_b});
      if (kind != RunKind::kAdded) ++at_a;
      if (kind != RunKind::kRemoved) ++at_b;
    }
  }

  // Makes one query for each sequence that has hunks; its positions ascend, like the hunks.
  void AskForPlaces() {
    size_t draft = 0;
    for (size_t i = 0; i < result_.sequences.size(); ++i) {
      SequenceDiff& diff = result_.sequences[i];
      if (diff.hunks.empty()) continue;
      const auto& [a, b] = sequence_ids_[i];
      SequenceQuery a_query, b_query;
      const auto name = [](const CallSequence& sequence, SequenceQuery* query) {
        query->process = sequence.process;
        query->thread = sequence.thread;
        query->level = sequence.level;
      };
      name(*a, &a_query);
      name(*b, &b_query);
      for (Hunk& hunk : diff.hunks) {
        const Draft& positions = drafts_[draft++];
        hunk.outside_is_of_a = hunk.lines[hunk.first_change].kind != RunKind::kAdded;
        for (size_t n = 0; n < hunk.lines.size(); ++n) {
          const bool inner = n == hunk.first_change;
          if (hunk.lines[n].kind != RunKind::kAdded) {
            a_query.positions.push_back(positions.positions[n].a);
            if (inner && hunk.outside_is_of_a) a_query.inner.push_back(positions.positions[n].a);
          }
          if (hunk.lines[n].kind != RunKind::kRemoved) {
            b_query.positions.push_back(positions.positions[n].b);
            if (inner && !hunk.outside_is_of_a) b_query.inner.push_back(positions.positions[n].b);
          }
        }
      }
      a_.queries.push_back(std::move(a_query));
      b_.queries.push_back(std::move(b_query));
    }
  }

  void FillInPlaces() {
    size_t query = 0;
    for (SequenceDiff& diff : result_.sequences) {
      if (diff.hunks.empty()) continue;
      SequenceQuery &a = a_.queries[query], &b = b_.queries[query];
      ++query;
      size_t at_a = 0, at_b = 0, outside_a = 0, outside_b = 0;
      for (Hunk& hunk : diff.hunks) {
        for (HunkLine& line : hunk.lines) {
          if (line.kind != RunKind::kAdded) line.a_place = a.places[at_a++];
          if (line.kind != RunKind::kRemoved) line.b_place = b.places[at_b++];
        }
        hunk.outside = std::move(hunk.outside_is_of_a ? a.outside[outside_a++] : b.outside[outside_b++]);
      }
    }
  }

  // Compares sequences by the numbers of the calls where they diverge: until there, both traces have the same numbers.
  void FindFirst() {
    std::tuple<uint64_t, uint64_t, uint64_t, size_t> first;
    for (size_t i = 0; i < result_.sequences.size(); ++i) {
      if (result_.sequences[i].hunks.empty()) continue;
      const Hunk& hunk = result_.sequences[i].hunks.front();
      uint64_t a = kNoCall, b = kNoCall;
      for (size_t n = hunk.first_change; n < hunk.lines.size(); ++n) {
        a = std::min(a, hunk.lines[n].a_place.call);
        b = std::min(b, hunk.lines[n].b_place.call);
      }
      const std::tuple here(std::min(a, b), a, b, i);
      if (!result_.first.has_value() || here < first) {
        first = here;
        result_.first = i;
      }
    }
  }

  const DiffScope& scope_;
  const SequenceOptions& options_;
  CommonConfigs& configs_;
  Side a_, b_;
  AlignEffort effort_;
  SequenceDiffs result_;
  std::vector<std::pair<const CallSequence*, const CallSequence*>> sequence_ids_;  // by index into result_.sequences
  std::vector<Draft> drafts_;                                                      // of all kept hunks, in order
};

}  // namespace

bool SequenceDiffs::different() const {
  return std::any_of(sequences.begin(), sequences.end(), [](const SequenceDiff& diff) { return diff.different(); });
}

absl::StatusOr<SequenceDiffs> CompareSequences(Trace* a, Trace* b, const DiffScope& scope,
                                               const SequenceOptions& options, CommonConfigs* configs) {
  return SequenceComparison(a, b, scope, options, configs).Run();
}

}  // namespace torchtrace
