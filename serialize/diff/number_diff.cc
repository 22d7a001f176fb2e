#include "serialize/diff/number_diff.h"

#include <algorithm>
#include <memory>
#include <string_view>
#include <tuple>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "serialize/base/text.h"
#include "serialize/diff/aligned_calls.h"
#include "serialize/diff/by_thread.h"
#include "serialize/diff/reports.h"
#include "serialize/forms/call_labels.h"
#include "serialize/forms/forms.h"
#include "serialize/model/config.h"
#include "serialize/model/graph_calls.h"
#include "serialize/model/levels.h"
#include "serialize/numbers/later_notes_reader.h"
#include "serialize/numbers/memory_effects.h"
#include "serialize/numbers/tensor_numbers.h"
#include "serialize/trace/parsed_tags.h"
#include "serialize/trace/run_facts.h"

namespace torchtrace {
namespace {

// What is known of a storage: the call that last returned, wrote or took a part of it.
struct StorageState {
  enum Kind : uint8_t {
    kTaken,      // by a call of both traces, with the same numbers, before any call returned it
    kAllocated,  // returned without numbers, by a call that has none to return
    kCompared,   // returned or written by a call of both traces; `likeness` says how
    kUncompared,
    kCollective,
    kOnlyHere,  // by a call that the other trace has not
  };
  uint64_t call = kNoCall;
  ConfigId config = kLostId;
  Kind kind = kTaken;
  Likeness likeness = Likeness::kUnknown;
};

// The storages touched last, at least kMost and at most twice as many.
class RecentStorages {
 public:
  // Null: unknown. Valid until the next Set.
  const StorageState* Find(uint32_t process, uint64_t storage) {
    const Key key(process, storage);
    if (const auto found = last_.find(key); found != last_.end()) return &found->second;
    const auto found = before_.find(key);
    return found == before_.end() ? nullptr : &found->second;
  }
  void Set(uint32_t process, uint64_t storage, const StorageState& state) {
    if (last_.size() >= kMost) {
      before_ = std::move(last_);
      last_.clear();
    }
    last_.insert_or_assign(Key(process, storage), state);
  }

 private:
  using Key = std::pair<uint32_t, uint64_t>;
  static constexpr size_t kMost = size_t{1} << 20;
  absl::flat_hash_map<Key, StorageState> last_;
  absl::flat_hash_map<Key, StorageState> before_;
};

// Parsed configs; forgets them all when there are too many.
class ParsedConfigs {
 public:
  struct Parsed {
    Config config;
    std::vector<const Value*> tensors;
  };

  // Valid until the next Get.
  const Parsed& Get(const Trace& trace, ConfigId id) {
    constexpr size_t kMost = 1 << 14;
    if (configs_.size() > kMost) configs_.clear();
    std::unique_ptr<Parsed>& parsed = configs_[id];
    if (parsed == nullptr) {
      parsed = std::make_unique<Parsed>();
      parsed->config = ReadableConfig(trace.identity(id));
      parsed->tensors = TensorsOf(parsed->config);
    }
    return *parsed;
  }

 private:
  absl::flat_hash_map<ConfigId, std::unique_ptr<Parsed>> configs_;
};

bool HasValues(const TensorNote& note) { return note.numbers.has_value() || note.contents.has_value(); }

// The tensors of one side of a call, parsed when they are needed.
class LazyTensors {
 public:
  // Of the arguments.
  LazyTensors(const Trace& trace, ConfigId config, ParsedConfigs* configs)
      : trace_(&trace), config_(config), configs_(configs) {}
  // Of the result.
  explicit LazyTensors(std::string_view values) : values_(values) {}

  // Null if it isn't described.
  const Value* At(uint64_t position) {
    if (configs_ != nullptr) return At(configs_->Get(*trace_, config_).tensors, position);
    if (!parsed_) {
      result_ = ReadableResult(values_);
      tensors_ = TensorsOf(result_);
      parsed_ = true;
    }
    return At(tensors_, position);
  }

 private:
  static const Value* At(const std::vector<const Value*>& tensors, uint64_t position) {
    return position < tensors.size() ? tensors[static_cast<size_t>(position)] : nullptr;
  }

  const Trace* trace_ = nullptr;
  ConfigId config_ = kLostId;
  ParsedConfigs* configs_ = nullptr;
  std::string_view values_;
  bool parsed_ = false;
  std::vector<Value> result_;
  std::vector<const Value*> tensors_;
};

bool IsObject(const Value& value) {
  switch (value.tag) {
    case ValueTag::kNdarray:
    case ValueTag::kNumpyScalar:
    case ValueTag::kObject:
    case ValueTag::kStorage:
    case ValueTag::kBytes:
      return true;
    default:
      return std::any_of(value.items.begin(), value.items.end(), IsObject);
  }
}

class NumberComparison {
 public:
  NumberComparison(Trace* a, Trace* b, const DiffScope& scope, const NumberDiffOptions& options, CommonConfigs* configs)
      : scope_(scope), options_(options), configs_(*configs), tolerances_(options.tolerances) {
    a_.trace = a;
    b_.trace = b;
    for (const Trace* const trace : {a, b}) {
      for (const ProcessInfo& process : trace->processes()) {
        results_only_ = results_only_ || NumbersOption(process) == "results";
      }
    }
  }

  absl::StatusOr<NumberDiff> Run() {
    if (absl::Status s = CheckRecorded(); !s.ok()) return s;
    if (absl::Status s = AlignBoth(); !s.ok()) return s;
    PrepareRows();
    PartnerCalls partners(b_.trace, b_.has_later, SequenceCursor(alignment_, false, b_.symbols),
                          [this](const WholeCall& call) { TouchAlone(&b_, call); });
    SequenceCursor cursor(alignment_, true, a_.symbols);
    const auto take = [&](const CallRecord& record) -> absl::Status {
      if (record.kind == CallRecord::kEnter) {
        Enter(record, &cursor, &partners);
      } else {
        End(record, &partners);
      }
      return partners.status();
    };
    LaterNotesReader later_notes(a_.trace);
    if (absl::Status s = a_.has_later ? later_notes.Read(take) : a_.trace->Read(take); !s.ok()) return s;
    result_.too_late = later_notes.all_too_late() + partners.too_late();
    if (absl::Status s = CheckCompared(); !s.ok()) return s;
    FinishRows();
    FinishFirst();
    return std::move(result_);
  }

 private:
  struct Side {
    Trace* trace = nullptr;
    std::vector<uint32_t> symbols;                      // by ConfigId
    std::vector<std::optional<MemoryEffects>> effects;  // by ConfigId
    std::vector<CallSequence> sequences;
    ParsedConfigs configs;
    RecentStorages storages;
    bool has_results = false;
    bool has_later = false;  // notes that came later than their calls
  };

  // A call of A that is under way.
  struct Open {
    CallInBoth call;
    uint32_t depth = 0;
    SequenceCursor::Place place;
    std::string notes;                        // on its arguments
    Likeness arguments = Likeness::kUnknown;  // the worst
    double relative = -1;                     // the largest of its arguments
    uint64_t position = 0;                    // of that one
    std::vector<uint64_t> unknown;            // arguments that could not be compared
    std::optional<FirstDifference> suspect;   // one of them
    bool in_backward = false;                 // it is, or is in, a call that runs a backward pass
  };

  struct Thread {
    std::vector<Open> open;
  };

  // ---- before ----

  static nlohmann::json NumbersOption(const ProcessInfo& process) {
    const nlohmann::json& metadata = *process.metadata;
    return metadata.is_object() ? metadata.value("numbers", nlohmann::json()) : nlohmann::json();
  }

  static bool Recorded(const Trace& trace) {
    return std::any_of(trace.processes().begin(), trace.processes().end(), HoldsNumbers);
  }

  // A trace whose only numbers are those of a few small tensors of integers is no basis for an answer.
  absl::Status CheckRecorded() const {
    const bool a = Recorded(*a_.trace), b = Recorded(*b_.trace);
    if (a && b) return absl::OkStatus();
    const std::string who = a   ? absl::StrCat(options_.b_name, " has")
                            : b ? absl::StrCat(options_.a_name, " has")
                                : absl::StrCat(options_.a_name, " and ", options_.b_name, " have");
    return absl::FailedPreconditionError(
        absl::StrCat(who, " no numbers of tensors: record both with torchtrace run --numbers"));
  }

  absl::Status CheckCompared() const {
    if (result_.compared_tensors() > 0) return absl::OkStatus();
    if (result_.aligned == 0) {
      return absl::FailedPreconditionError(
          absl::StrCat("nothing to compare: ", options_.a_name, " and ", options_.b_name,
                       " have no calls in common: record both at the same levels, and compiled programs with "
                       "--levels 2,3"));
    }
    return absl::FailedPreconditionError(
        absl::StrCat("nothing to compare: ", options_.a_name, " and ", options_.b_name, " have ",
                     Counted(result_.aligned, "call", "calls"),
                     " in common, none with numbers in both: record both with torchtrace run --numbers"));
  }

  absl::Status AlignBoth() {
    const auto count = [](Trace* trace, const std::string& name) -> absl::Status {
      if (absl::Status s = trace->Count().status(); !s.ok()) return s;
      const uint64_t counted = CountOnlyCounted(*trace);
      return counted == 0 ? absl::OkStatus()
                          : absl::FailedPreconditionError(absl::StrCat(name, ": ", CountedCalls(counted)));
    };
    const absl::Status counted =
        DoBoth([&] { return count(a_.trace, options_.a_name); }, [&] { return count(b_.trace, options_.b_name); });
    if (!counted.ok()) return counted;
    result_.compiled = HasGraphs(*a_.trace) != HasGraphs(*b_.trace);
    scope_.through_compilation = result_.compiled;
    a_.symbols = configs_.Add(*a_.trace, scope_);
    b_.symbols = configs_.Add(*b_.trace, scope_);
    const auto read = [this](Side* side) -> absl::Status {
      absl::StatusOr<std::vector<CallSequence>> sequences =
          ReadSequences(side->trace, side->symbols, options_.levels_together, &side->has_later);
      if (!sequences.ok()) return sequences.status();
      side->sequences = *std::move(sequences);
      return absl::OkStatus();
    };
    if (absl::Status s = DoBoth([&] { return read(&a_); }, [&] { return read(&b_); }); !s.ok()) return s;
    AlignEffort effort;
    for (const SequencePair& pair : PairSequences(*a_.trace, &a_.sequences, *b_.trace, &b_.sequences)) {
      AlignPair(pair.a, pair.b, &effort);
    }
    result_.shortest = !effort.gave_up;
    return absl::OkStatus();
  }

  static bool HasGraphs(const Trace& trace) {
    for (ConfigId id = 0; id < trace.config_count(); ++id) {
      if (ReadGraphCall(trace.identity(id)).kind != GraphCallKind::kNone) return true;
    }
    return false;
  }

  // Frees the symbols.
  void AlignPair(CallSequence* a, CallSequence* b, AlignEffort* effort) {
    AlignedSequence& aligned = alignment_.emplace_back();
    aligned.level = (a != nullptr ? a : b)->level;
    const std::vector<uint32_t> none;
    const std::vector<uint32_t>& x = a == nullptr ? none : a->symbols;
    const std::vector<uint32_t>& y = b == nullptr ? none : b->symbols;
    if (a != nullptr) aligned.a = ThreadId{a->process, a->thread};
    if (b != nullptr) aligned.b = ThreadId{b->process, b->thread};
    if (a == nullptr || b == nullptr) {
      aligned.runs.Append(a != nullptr ? RunKind::kRemoved : RunKind::kAdded, x.size() + y.size());
    } else {
      aligned.runs = Align(x, y, configs_.size(), effort);
      if (aligned.runs.size() > 1 || (!aligned.runs.empty() && aligned.runs[0].kind != RunKind::kSame)) {
        const std::vector<uint32_t>& families = configs_.Families();
        aligned.runs = PairChanged(aligned.runs, x, y, families, configs_.family_count(), effort);
      }
    }
    result_.a_calls += x.size();
    result_.b_calls += y.size();
    for (size_t i = 0; i < aligned.runs.size(); ++i) {
      const RunList::Run run = aligned.runs[i];
      if (run.kind == RunKind::kRemoved) result_.only_in_a += run.count;
      if (run.kind == RunKind::kAdded) result_.only_in_b += run.count;
      if (run.kind == RunKind::kChanged) result_.other_numbers += run.count;
      if (run.kind == RunKind::kSame || run.kind == RunKind::kChanged) result_.aligned += run.count;
    }
    for (CallSequence* const sequence : {a, b}) {
      if (sequence != nullptr) std::vector<uint32_t>().swap(sequence->symbols);
    }
  }

  // ---- during ----

  void Enter(const CallRecord& record, SequenceCursor* cursor, PartnerCalls* partners) {
    std::vector<Open>& open = threads_.Of(record).open;
    while (!open.empty() && open.back().depth >= record.depth) {
      if (open.back().place.in_both()) partners->Forget(open.back().place);
      open.pop_back();
    }
    Open call;
    call.depth = record.depth;
    call.call.a_call = record.call;
    call.call.a_config = record.config;
    call.call.a_stack = record.stack;
    call.call.a_thread = {record.process, record.thread};
    call.call.tags = record.tags;
    call.call.module = record.config < is_module_.size() && is_module_[record.config] ? record.config
                       : open.empty()                                                 ? kLostId
                                                                                      : open.back().call.module;
    call.in_backward = (!open.empty() && open.back().in_backward) || IsBackward(record.config);
    call.place = cursor->Next(record);
    if (call.place.sequence != SequenceCursor::Place::kNone) call.notes = record.notes;
    if (call.place.in_both()) {
      if (const WholeCall* const partner = partners->Entered(call.place); partner != nullptr) {
        call.call.b_call = partner->call;
        call.call.b_config = partner->config;
        call.call.b_stack = partner->stack;
        call.call.b_thread = partner->thread;
        call.call.other_numbers = call.place.kind == RunKind::kChanged;
        around_ = &open;
        if (IsReordered(call)) {
          ++result_.in_backward;
        } else {
          CompareArguments(*partner, &call);
        }
      } else {
        call.place = {};
      }
    }
    open.push_back(std::move(call));
  }

  void End(const CallRecord& record, PartnerCalls* partners) {
    std::vector<Open>& open = threads_.Of(record).open;
    while (!open.empty() && open.back().depth > record.depth) {
      if (open.back().place.in_both()) partners->Forget(open.back().place);
      open.pop_back();
    }
    if (open.empty() || open.back().call.a_call != record.call) return;
    Open call = std::move(open.back());
    open.pop_back();
    if (call.place.sequence == SequenceCursor::Place::kNone) return;
    if (record.result.known()) a_.has_results = true;
    if (!call.place.in_both()) {
      TouchAll(&a_, call.call.a_thread.process, call.call.a_call, call.call.a_config, call.notes, record.result);
      return;
    }
    around_ = &open;
    if (const WholeCall* const partner = partners->Ended(call.place); partner != nullptr) {
      if (IsReordered(call)) {
        TouchAll(&a_, call.call.a_thread.process, call.call.a_call, call.call.a_config, call.notes, record.result);
        TouchAlone(&b_, *partner);
      } else {
        if (!partner->values.empty()) b_.has_results = true;
        CompareResults(record.result, *partner, &call);
      }
    }
    partners->Forget(call.place);
    if (call.call.a_call == taken_after_) may_be_taken_ = true;
  }

  // Of level 0 or 1.
  bool IsBackward(ConfigId config) const {
    if (!result_.compiled) return false;
    const ConfigHead head = HeadOf(a_, config);
    return head.level <= kFunctionLevel && (LastName(head.api) == "backward" || head.api == "torch.autograd.grad");
  }

  // An operator of a backward pass that one program compiled: the passes make the same gradients in another order, so
  // operators of equal configs need not belong together.
  bool IsReordered(const Open& call) const {
    return call.in_backward && HeadOf(a_, call.call.a_config).level > kFunctionLevel;
  }

  // Empty for a call whose config was lost.
  static ConfigHead HeadOf(const Side& side, ConfigId config) {
    return config < side.symbols.size() ? ReadConfigHead(side.trace->identity(config)) : ConfigHead();
  }
  static std::string_view ApiOf(const Side& side, ConfigId config) { return HeadOf(side, config).api; }

  static MemoryEffects EffectsOf(Side* side, ConfigId config) {
    if (config >= side->symbols.size()) return {};
    side->effects.resize(side->symbols.size());
    std::optional<MemoryEffects>& effects = side->effects[config];
    if (!effects.has_value()) effects = MemoryEffectsOf(ReadableConfig(side->trace->identity(config)));
    return *effects;
  }

  // Visits the notes of both sides on each tensor; null: there is none.
  template <typename Visit>
  static void ForBoth(const std::vector<TensorNote>& a, const std::vector<TensorNote>& b, const Visit& visit) {
    size_t i = 0, j = 0;
    while (i < a.size() || j < b.size()) {
      const bool take_a = i < a.size() && (j == b.size() || a[i].position <= b[j].position);
      const bool take_b = j < b.size() && (i == a.size() || b[j].position <= a[i].position);
      visit(take_a ? &a[i] : nullptr, take_b ? &b[j] : nullptr);
      if (take_a) ++i;
      if (take_b) ++j;
    }
  }

  // A count for the summary, and the likeness.
  TensorComparison Compare(const TensorNote* a, const TensorNote* b, LazyTensors* a_tensors, LazyTensors* b_tensors) {
    TensorComparison comparison;
    if (a == nullptr || b == nullptr || !HasValues(*a) || !HasValues(*b)) {
      const bool in_a = a != nullptr && HasValues(*a), in_b = b != nullptr && HasValues(*b);
      ++result_.tensors[0];
      if (in_a != in_b) ++result_.without_numbers_in_one;
      if (in_b && !in_a) ++result_.without_numbers_in_a;
      return comparison;
    }
    if (a->numbers.has_value() && b->numbers.has_value() && a->numbers->fingerprint == b->numbers->fingerprint) {
      comparison.likeness = Likeness::kEqual;
    } else {
      const Value *const x = a_tensors->At(a->position), *const y = b_tensors->At(b->position);
      comparison = CompareTensors(*a, x, *b, y, tolerances_);
      if (comparison.likeness != Likeness::kUnknown && x != nullptr && y != nullptr) {
        CountOther(*x, *y, comparison);
      }
    }
    ++result_.tensors[static_cast<size_t>(comparison.likeness)];
    if (comparison.other_shapes) ++result_.other_shapes;
    return comparison;
  }

  void CountOther(const Value& a, const Value& b, const TensorComparison& comparison) {
    if (comparison.other_dtypes) ++result_.other_dtypes[{a.text, b.text}];
    if (comparison.other_devices) ++result_.other_devices[{a.device, b.device}];
    if (comparison.likeness == Likeness::kEqual) return;
    const std::string name = comparison.other_dtypes ? absl::StrCat(a.text, " against ", b.text) : a.text;
    const Tolerances used = TolerancesOf(a.text, b.text, tolerances_);
    Tolerances& widest = result_.tolerances.try_emplace(name, used).first->second;
    widest.relative = std::max(widest.relative, used.relative);
    widest.absolute = std::max(widest.absolute, used.absolute);
    // What is computed from a tensor of less precision is as precise.
    if (comparison.other_dtypes) {
      tolerances_.least.relative = std::max(tolerances_.least.relative, used.relative);
      tolerances_.least.absolute = std::max(tolerances_.least.absolute, used.absolute);
    }
  }

  void CompareArguments(const WholeCall& partner, Open* call) {
    ReadTensorNotes(call->notes, &a_notes_);
    ReadTensorNotes(partner.notes, &b_notes_);
    LazyTensors a_tensors(*a_.trace, call->call.a_config, &a_.configs);
    LazyTensors b_tensors(*b_.trace, partner.config, &b_.configs);
    ForBoth(a_notes_, b_notes_, [&](const TensorNote* a, const TensorNote* b) {
      if (IsNotWritten(call->call.a_thread, a)) return;
      const TensorComparison comparison = Compare(a, b, &a_tensors, &b_tensors);
      const uint64_t position = (a != nullptr ? a : b)->position;
      if (comparison.likeness == Likeness::kUnknown) {
        const bool in_a = a != nullptr && HasValues(*a), in_b = b != nullptr && HasValues(*b);
        if (results_only_) {
          Suspect(a, b, call);
        } else if (in_a != in_b || comparison.other_shapes) {
          call->unknown.push_back(position);
        }
        return;
      }
      if (comparison.likeness > call->arguments) call->arguments = comparison.likeness;
      if (comparison.likeness != Likeness::kEqual && comparison.relative > call->relative) {
        call->relative = comparison.relative;
        call->position = position;
      }
      if (comparison.likeness != Likeness::kEqual) {
        FoundDifference(call, TensorPlace::kArgument, *a, a_tensors.At(position), *b, b_tensors.At(position),
                        comparison);
      } else if (StateOf(&a_, call->call.a_thread, a) == nullptr) {
        TouchBoth(*call, *a, *b, {StorageState::kTaken, Likeness::kEqual});
      }
    });
  }

  // Whether a note has the contents of memory that no call has written. Numbers are recorded only of written memory.
  bool IsNotWritten(ThreadId thread, const TensorNote* note) {
    if (note == nullptr || note->numbers.has_value() || !note->contents.has_value()) return false;
    const StorageState* const state = StateOf(&a_, thread, note);
    return state != nullptr && state->kind == StorageState::kAllocated;
  }

  const StorageState* StateOf(Side* side, ThreadId thread, const TensorNote* note) {
    if (note == nullptr || !note->identity.has_value() || note->identity->storage == 0) return nullptr;
    return side->storages.Find(thread.process, note->identity->storage);
  }

  struct Touch {
    StorageState::Kind kind;
    Likeness likeness;
  };
  static void TouchOne(Side* side, uint32_t process, uint64_t call, ConfigId config, const TensorNote& note,
                       Touch touch) {
    if (!note.identity.has_value() || note.identity->storage == 0) return;
    side->storages.Set(process, note.identity->storage, {call, config, touch.kind, touch.likeness});
  }
  void TouchBoth(const Open& call, const TensorNote& a, const TensorNote& b, Touch touch) {
    TouchOne(&a_, call.call.a_thread.process, call.call.a_call, call.call.a_config, a, touch);
    TouchOne(&b_, call.call.b_thread.process, call.call.b_call, call.call.b_config, b, touch);
  }

  // What a call returned without numbers: memory, a view, or something that has none.
  void TouchUnknown(Side* side, ThreadId thread, uint64_t call, ConfigId config, const TensorNote* note,
                    StorageState::Kind kind) {
    if (note == nullptr || StateOf(side, thread, note) != nullptr) return;
    TouchOne(side, thread.process, call, config, *note, {kind, Likeness::kUnknown});
  }

  void TouchAlone(Side* side, const WholeCall& call) {
    if (!call.values.empty()) side->has_results = true;
    TouchAll(side, call.thread.process, call.call, call.config, call.notes, call.result());
  }

  // A call that only this side has.
  void TouchAll(Side* side, uint32_t process, uint64_t call, ConfigId config, std::string_view notes,
                const CallResult& result) {
    const MemoryEffects effects = EffectsOf(side, config);
    const ThreadId thread = {process, 0};
    if (effects.writes_later) return TouchCollective(side, thread, call, config, notes, result);
    if (effects.allocates) {
      for (const TensorNote& note : ReadTensorNotes(result.notes)) {
        TouchUnknown(side, thread, call, config, &note, StorageState::kAllocated);
      }
      return;
    }
    const Touch touch = {StorageState::kOnlyHere, Likeness::kUnknown};
    for (const TensorNote& note : ReadTensorNotes(result.notes)) {
      if (HasValues(note)) {
        TouchOne(side, process, call, config, note, touch);
      } else {
        TouchUnknown(side, thread, call, config, &note, StorageState::kOnlyHere);
      }
    }
    for (const TensorNote& note : ReadTensorNotes(result.written)) TouchOne(side, process, call, config, note, touch);
  }

  void TouchCollective(Side* side, ThreadId thread, uint64_t call, ConfigId config, std::string_view notes,
                       const CallResult& result) {
    for (const std::string_view bytes : {notes, result.notes, result.written}) {
      for (const TensorNote& note : ReadTensorNotes(bytes)) {
        TouchOne(side, thread.process, call, config, note, {StorageState::kCollective, Likeness::kUnknown});
      }
    }
  }

  void CompareResults(const CallResult& result, const WholeCall& partner, Open* call) {
    const MemoryEffects effects = EffectsOf(&a_, call->call.a_config);
    Likeness worst = Likeness::kUnknown;
    double relative = -1;
    std::pair<TensorPlace, uint64_t> where;
    if (effects.writes_later) {
      TouchCollective(&a_, call->call.a_thread, call->call.a_call, call->call.a_config, call->notes, result);
      TouchCollective(&b_, call->call.b_thread, partner.call, partner.config, partner.notes, partner.result());
    }
    const auto compare = [&](TensorPlace place, std::string_view a_notes, std::string_view b_notes,
                             LazyTensors a_tensors, LazyTensors b_tensors) {
      ReadTensorNotes(a_notes, &a_notes_);
      ReadTensorNotes(b_notes, &b_notes_);
      ForBoth(a_notes_, b_notes_, [&](const TensorNote* a, const TensorNote* b) {
        if (place == TensorPlace::kResult && (effects.allocates || effects.changes_view)) {
          TouchUnknown(&a_, call->call.a_thread, call->call.a_call, call->call.a_config, a, StorageState::kAllocated);
          TouchUnknown(&b_, call->call.b_thread, partner.call, partner.config, b, StorageState::kAllocated);
          return;
        }
        // Contents of a view of memory that nothing has written.
        if (place == TensorPlace::kResult && IsNotWritten(call->call.a_thread, a) && !effects.writes) return;
        const TensorComparison comparison = Compare(a, b, &a_tensors, &b_tensors);
        if (comparison.likeness == Likeness::kUnknown) {
          for (const auto& [side, thread, number, config, note] :
               {std::tuple(&a_, call->call.a_thread, call->call.a_call, call->call.a_config, a),
                std::tuple(&b_, call->call.b_thread, partner.call, partner.config, b)}) {
            if (note != nullptr && (HasValues(*note) || place == TensorPlace::kWritten)) {
              TouchOne(side, thread.process, number, config, *note, {StorageState::kUncompared, Likeness::kUnknown});
            } else {
              TouchUnknown(side, thread, number, config, note, StorageState::kUncompared);
            }
          }
          return;
        }
        if (comparison.likeness != Likeness::kEqual) {
          FoundDifference(call, place, *a, a_tensors.At(a->position), *b, b_tensors.At(b->position), comparison);
        }
        TouchBoth(*call, *a, *b, {StorageState::kCompared, comparison.likeness});
        worst = std::max(worst, comparison.likeness);
        if (comparison.likeness != Likeness::kEqual && comparison.relative > relative) {
          relative = comparison.relative;
          where = {place, a->position};
        }
      });
    };
    if (!effects.writes_later) {
      compare(TensorPlace::kResult, result.notes, partner.result_notes, LazyTensors(result.values),
              LazyTensors(partner.values));
      compare(TensorPlace::kWritten, result.written, partner.written,
              LazyTensors(*a_.trace, call->call.a_config, &a_.configs),
              LazyTensors(*b_.trace, partner.config, &b_.configs));
    }
    if (results_only_ && worst == Likeness::kEqual) TrustArguments(*call, partner);
    if (worst < Likeness::kClose) {
      relative = call->relative;
      where = {TensorPlace::kArgument, call->position};
    }
    CountCall(*call, worst, relative, where);
  }

  // Arguments from outside, without numbers, of a call whose results are the same.
  void TrustArguments(const Open& call, const WholeCall& partner) {
    ReadTensorNotes(call.notes, &a_notes_);
    ReadTensorNotes(partner.notes, &b_notes_);
    ForBoth(a_notes_, b_notes_, [&](const TensorNote* a, const TensorNote* b) {
      if (a == nullptr || b == nullptr || StateOf(&a_, call.call.a_thread, a) != nullptr) return;
      TouchBoth(call, *a, *b, {StorageState::kTaken, Likeness::kEqual});
    });
  }

  void CountCall(const Open& call, Likeness results, double relative, std::pair<TensorPlace, uint64_t> where) {
    const Likeness worst = std::max(call.arguments, results);
    if (worst == Likeness::kUnknown) return;
    ++result_.compared_calls;
    if (worst == Likeness::kDifferent) ++result_.different_calls;
    if (worst == Likeness::kClose) ++result_.close_calls;
    if (results == Likeness::kDifferent && call.arguments != Likeness::kDifferent) ++result_.computed_calls;
    const ConfigId of = result_.by_module ? call.call.module : row_of_[call.call.a_config];
    NumberRow& row = rows_[{call.call.tags, of}];
    if (row.calls++ == 0) row.first = call.call.a_call;
    if (worst == Likeness::kDifferent) ++row.different;
    if (worst == Likeness::kClose) ++row.close;
    if (worst >= Likeness::kClose && (relative > row.relative || row.call.a_call == kNoCall)) {
      row.relative = relative;
      row.call = call.call;
    }
    if (options_.all && worst >= Likeness::kClose) {
      result_.calls.push_back({call.call, call.arguments, results, where.first, where.second, std::max(relative, 0.0)});
    }
  }

  // ---- the first difference ----

  void FoundDifference(Open* call, TensorPlace place, const TensorNote& a, const Value* a_tensor, const TensorNote& b,
                       const Value* b_tensor, const TensorComparison& comparison) {
    const bool beyond = comparison.likeness == Likeness::kDifferent;
    const bool in_bits = !comparison.other_dtypes && !comparison.other_devices;
    const bool wants_first = beyond && !result_.first.has_value();
    const bool wants_bits = in_bits && !bits_are_known_ && !result_.first_in_bits.has_value();
    // What is computed from other dtypes, or on another device, is expected to differ in bits.
    if (!in_bits) bits_are_known_ = true;
    std::optional<FirstDifference>& first = result_.first;
    if (beyond && may_be_taken_ && place == TensorPlace::kArgument && !first->taken.has_value()) {
      first->taken = {call->call, Describe(place, a, a_tensor, b, b_tensor, comparison)};
    }
    if (!wants_first && !wants_bits) return;
    FirstDifference found;
    found.call = call->call;
    found.tensor = Describe(place, a, a_tensor, b, b_tensor, comparison);
    const auto api = std::find_if(around_->rbegin(), around_->rend(), [this](const Open& outer) {
      const ConfigHead head = HeadOf(a_, outer.call.a_config);
      return head.level <= kFunctionLevel && !head.api.empty();
    });
    if (api != around_->rend()) {
      found.inside = api->call.a_call;
      found.inside_config = api->call.a_config;
    }
    if (place == TensorPlace::kArgument) {
      FindOrigin(call->call, &a, &b, &found);
      found.from_object =
          found.origin == Origin::kOutside && found.inside != kNoCall && TakesObject(found.inside_config);
    } else {
      found.from_object = TakesObject(call->call.a_config);
      if (found.from_object) found.origin = Origin::kOutside;
      if (call->suspect.has_value()) {
        found.origin = call->suspect->origin;
        found.sources = call->suspect->sources;
        found.suspect = call->suspect->suspect;
      }
      found.unknown_arguments = call->unknown;
    }
    found.arguments = call->arguments;
    if (wants_first && found.origin == Origin::kOutside) {
      taken_after_ = found.inside != kNoCall                                 ? found.inside
                     : place != TensorPlace::kArgument || IsLift(found.call) ? found.call.a_call
                                                                             : kNoCall;
    }
    if (wants_bits) result_.first_in_bits = found;
    if (wants_first) result_.first = std::move(found);
  }

  // Whether it makes tensors of objects only: NumPy's, files.
  bool TakesObject(ConfigId id) {
    const ParsedConfigs::Parsed& parsed = a_.configs.Get(*a_.trace, id);
    const Config& config = parsed.config;
    return config.level != kFrameLevel && parsed.tensors.empty() &&
           (std::any_of(config.args.begin(), config.args.end(), IsObject) ||
            std::any_of(config.kwargs.begin(), config.kwargs.end(),
                        [](const auto& argument) { return IsObject(argument.second); }));
  }

  // An operator that brings a tensor from outside, and does nothing else.
  bool IsLift(const CallInBoth& call) const { return ApiOf(a_, call.a_config).starts_with("aten::lift"); }

  static TensorInBoth Describe(TensorPlace place, const TensorNote& a, const Value* a_tensor, const TensorNote& b,
                               const Value* b_tensor, const TensorComparison& comparison) {
    TensorInBoth tensor;
    tensor.place = place;
    tensor.position = a.position;
    if (a_tensor != nullptr) tensor.a = *a_tensor;
    if (b_tensor != nullptr) tensor.b = *b_tensor;
    tensor.a_numbers = NumbersOfNote(a, a_tensor);
    tensor.b_numbers = NumbersOfNote(b, b_tensor);
    tensor.comparison = comparison;
    return tensor;
  }

  // Of an argument that differs, or may.
  void FindOrigin(const CallInBoth& call, const TensorNote* a, const TensorNote* b, FirstDifference* found) {
    const auto identified = [](const TensorNote* note) { return note != nullptr && note->identity.has_value(); };
    if (!identified(a) && !identified(b)) {
      found->origin = Origin::kUnknown;
      return;
    }
    const StorageState* const x = StateOf(&a_, call.a_thread, a);
    const StorageState* const y = StateOf(&b_, call.b_thread, b);
    const auto is = [](const StorageState* state, StorageState::Kind kind) {
      return state != nullptr && state->kind == kind;
    };
    found->origin = Origin::kOutside;
    for (const auto& [kind, origin] : {std::pair(StorageState::kOnlyHere, Origin::kOnlyInOne),
                                       std::pair(StorageState::kCollective, Origin::kCollective),
                                       std::pair(StorageState::kUncompared, Origin::kUncompared),
                                       std::pair(StorageState::kCompared, Origin::kOverwritten),
                                       std::pair(StorageState::kTaken, Origin::kOverwritten)}) {
      if (is(x, kind)) found->sources.push_back({true, x->call, x->config});
      if (is(y, kind)) found->sources.push_back({false, y->call, y->config});
      if (found->sources.empty()) continue;
      found->origin = origin;
      return;
    }
  }

  // An argument without numbers, of a trace that has none of arguments: it may differ if the calls that both traces
  // have didn't make it.
  void Suspect(const TensorNote* a, const TensorNote* b, Open* call) {
    FirstDifference found;
    FindOrigin(call->call, a, b, &found);
    const auto rank = [](Origin origin) {
      return origin == Origin::kOnlyInOne     ? 3
             : origin == Origin::kCollective  ? 2
             : origin == Origin::kOverwritten ? 0
                                              : 1;
    };
    const uint64_t position = (a != nullptr ? a : b)->position;
    if (rank(found.origin) == 0) return;
    call->unknown.push_back(position);
    if (call->suspect.has_value() && rank(call->suspect->origin) >= rank(found.origin)) return;
    found.suspect = position;
    call->suspect = std::move(found);
  }

  void FinishFirst() {
    if (result_.first.has_value() && result_.first_in_bits.has_value() &&
        result_.first->call.a_call == result_.first_in_bits->call.a_call) {
      result_.first_in_bits.reset();
    }
    // Without results, nothing is known of who made a tensor.
    for (std::optional<FirstDifference>* const first : {&result_.first, &result_.first_in_bits}) {
      if (first->has_value() && (*first)->origin == Origin::kOutside && !(*first)->from_object &&
          !(a_.has_results && b_.has_results)) {
        (*first)->origin = Origin::kUnknown;
      }
    }
  }

  // ---- rows ----

  void PrepareRows() {
    const size_t configs = a_.symbols.size();
    is_module_.resize(configs);
    row_of_.resize(configs);
    std::map<std::pair<int, std::string_view>, ConfigId> apis;
    for (ConfigId id = 0; id < configs; ++id) {
      const ConfigHead head = ReadConfigHead(a_.trace->identity(id));
      row_of_[id] = apis.try_emplace({head.level, head.api}, id).first->second;
      if (head.level == kFrameLevel && !ModuleLabelOf(a_.trace->identity(id)).empty()) {
        is_module_[id] = true;
        result_.by_module = true;
      }
    }
  }

  void FinishRows() {
    ParsedTags tags(a_.trace);
    std::map<std::pair<std::string, std::string>, NumberRow> merged;
    const bool several_models = result_.by_module && SeveralModels::In(*a_.trace);
    for (const auto& [key, row] : rows_) {
      const auto& [tag, config] = key;
      std::string name;
      if (result_.by_module && config != kLostId) {
        const ModuleLabel label = ModuleLabelOf(a_.trace->identity(config));
        name = several_models ? label.WholeText() : label.Text();
      } else if (!result_.by_module) {
        name = FormatApi(ApiOf(a_, config));
      }
      NumberRow& sum = merged[{StepText(&tags, *a_.trace, tag), std::move(name)}];
      sum.first = std::min(sum.first, row.first);
      sum.calls += row.calls;
      sum.different += row.different;
      sum.close += row.close;
      if (row.relative > sum.relative) {
        sum.relative = row.relative;
        sum.call = row.call;
      }
    }
    for (auto& [key, row] : merged) {
      if (row.different + row.close > 0) result_.rows.emplace_back(key, row);
    }
    std::sort(result_.rows.begin(), result_.rows.end(),
              [](const auto& x, const auto& y) { return x.second.first < y.second.first; });
  }

  DiffScope scope_;
  const NumberDiffOptions& options_;
  CommonConfigs& configs_;
  ToleranceOptions tolerances_;
  bool results_only_ = false;  // a trace has no numbers of arguments
  Side a_, b_;
  std::vector<AlignedSequence> alignment_;
  ByThread<Thread> threads_;
  std::vector<TensorNote> a_notes_, b_notes_;  // of the call at hand
  const std::vector<Open>* around_ = nullptr;  // the call at hand, outermost first
  uint64_t taken_after_ = kNoCall;             // FirstDifference::taken is after this call's end
  bool may_be_taken_ = false;
  bool bits_are_known_ = false;                                         // to differ, from here on
  std::vector<bool> is_module_;                                         // by A's ConfigId
  std::vector<ConfigId> row_of_;                                        // by A's ConfigId: the first config of its API
  absl::flat_hash_map<std::pair<uint32_t, ConfigId>, NumberRow> rows_;  // by tags, and module or API
  NumberDiff result_;
};

}  // namespace

bool HoldsNumbers(const ProcessInfo& process) {
  for (const char* const key : {"numbers", "values"}) {
    if (!process.metadata->is_object()) return false;
    const auto found = process.metadata->find(key);
    if (found == process.metadata->end() || found->is_null() || *found == false || *found == 0) continue;
    return true;
  }
  return false;
}

std::string StepText(ParsedTags* tags, const Trace& trace, uint32_t tag) {
  const nlohmann::json* const object = tags->Get(tag);
  if (object == nullptr) return "";
  const auto step = object->find("step");
  if (step == object->end()) return std::string(trace.tags(tag));
  return step->is_string() ? FormatApi(step->get_ref<const std::string&>()) : DumpJson(*step);
}

absl::StatusOr<NumberDiff> CompareNumbers(Trace* a, Trace* b, const DiffScope& scope, const NumberDiffOptions& options,
                                          CommonConfigs* configs) {
  return NumberComparison(a, b, scope, options, configs).Run();
}

}  // namespace torchtrace
