#include "serialize/numbers/first_nan.h"

#include <algorithm>
#include <memory>
#include <string_view>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "serialize/model/config.h"
#include "serialize/model/levels.h"
#include "serialize/numbers/later_notes_reader.h"
#include "serialize/numbers/nan_call_kind.h"
#include "serialize/numbers/tensor_numbers.h"
#include "serialize/trace/node_makers.h"

namespace torchtrace {
namespace {

constexpr size_t kMostNext = 5;
constexpr size_t kMostMore = 5;
constexpr size_t kMostApis = 1000;
// Storages and tensors of which something is remembered; beyond that all of it is forgotten.
constexpr size_t kMostRemembered = size_t{1} << 18;
constexpr size_t kMostNodeMakers = size_t{1} << 19;
constexpr size_t kMostScopes = 1000;

using Kind = NanCallKind;

// The tensors among a call's arguments or results, with their places.
struct NamedTensors {
  std::vector<std::string> names;
  std::vector<const Value*> values;

  void Add(const std::string& name, const Value& value) {
    if (value.tag == ValueTag::kTensor) {
      names.push_back(name);
      values.push_back(&value);
    }
    for (size_t i = 0; i < value.items.size(); ++i) {
      // A dict's items are its keys and values.
      Add(absl::StrCat(name, "[", value.tag == ValueTag::kDict ? i / 2 : i, "]"), value.items[i]);
    }
  }
};

uint64_t CountTensors(const Value& value) {
  uint64_t tensors = value.tag == ValueTag::kTensor ? 1 : 0;
  for (const Value& item : value.items) tensors += CountTensors(item);
  return tensors;
}

const Value* At(const std::vector<const Value*>& values, uint64_t position) {
  return position < values.size() ? values[position] : nullptr;
}

// A tensor that a call returned or wrote.
struct Written {
  const TensorNote* note = nullptr;
  const Value* value = nullptr;
  std::optional<TensorNote::Numbers> numbers = {};
  uint8_t held = 0;
};

class NanFinder {
 public:
  NanFinder(Trace* trace, const NanOptions& options)
      : trace_(trace),
        selector_(trace, options),
        counting_(options.nan_only ? kHoldsNan : kHoldsNan | kHoldsInfinity) {}

  // Before the first call.
  absl::Status Prepare() { return selector_.Prepare(); }

  void Take(const CallRecord& record) {
    Process& process = ProcessOf(record);
    Thread& thread = threads_[{record.process, record.thread}];
    if (record.kind == CallRecord::kEnter) {
      Enter(record, &process, &thread);
    } else {
      End(record, &process, &thread);
    }
  }

  // After the last one. `too_late`: by process.
  absl::StatusOr<std::vector<ProcessNans>> Finish(const std::vector<uint64_t>& too_late) {
    std::vector<ProcessNans> result(trace_->processes().size());
    bool recorded = false, has_numbers = false, has_results = false;
    for (const ProcessInfo& process : trace_->processes()) recorded = recorded || process.known.numbers;
    uint64_t looked_at = 0;
    for (size_t i = 0; i < processes_.size() && i < result.size(); ++i) {
      if (processes_[i] == nullptr) continue;
      result[i] = std::move(processes_[i]->result);
      result[i].forgot = processes_[i]->forgot || processes_[i]->storages.forgot();
      if (i < too_late.size()) result[i].counts.too_late = too_late[i];
      has_numbers = has_numbers || result[i].has_numbers;
      has_results = has_results || result[i].has_results;
      looked_at += result[i].counts.tensors + result[i].counts.arguments;
    }
    if (recorded && looked_at == 0) {
      return absl::FailedPreconditionError(
          "nothing to look at: numbers were recorded, but no recorded call took or returned a tensor that has some");
    }
    if (!has_numbers) {
      return absl::FailedPreconditionError(
          "the trace has no numbers of tensors: record them with torchtrace run --numbers, or contents with --ids "
          "--outputs --values 64KB");
    }
    if (!has_results) {
      return absl::FailedPreconditionError(
          "the trace has contents of arguments, but not of what calls return: record with torchtrace run --numbers, or "
          "with --ids --outputs --values 64KB");
    }
    return result;
  }

 private:
  struct OpenCall {
    NanCall call;
    uint32_t depth = 0;
    bool selected = false;
    uint8_t held = 0;    // by an argument
    uint8_t inside = 0;  // by a tensor of a call in it
    RecordFacts facts;   // of the node that runs
    std::string notes;
  };
  struct Thread {
    bool known = false;
    bool of_engine = false;
    // Reused, with their texts' memory: `open` of them are open calls, outermost first.
    std::vector<OpenCall> calls;
    size_t open = 0;
    RecordFacts node;          // of the last backward call
    std::vector<bool> scopes;  // open record_functions: whether an optimizer's step
  };
  struct Touched {
    NanCall call;
    bool constant = false;  // it made a tensor of what the program holds, as torch.tensor does
    bool literal = false;   // and that is its text
  };
  struct Process {
    ProcessNans result;
    BadStorages storages;
    absl::flat_hash_map<uint64_t, Touched> touched;  // by storage: the last call whose numbers are missing
    absl::flat_hash_set<uint64_t> uninitialised;     // storages
    // Storages that no recorded call returned before one took them, and of whose numbers nothing is known. They are
    // numbered as they are first seen.
    absl::flat_hash_set<uint64_t> outside;
    uint64_t last_storage = 0;
    absl::flat_hash_map<uint64_t, ConfigId> parameters;  // by tensor: the module that used it first
    NodeMakers<NanCall> makers{kMostNodeMakers};
    bool numbers = false;      // by the metadata
    bool operators = false;    // are recorded
    bool knows_parts = false;  // forward and backward differ in the trace
    uint8_t level = 0;         // whose calls count for the spread
    bool any_held[2] = {};     // by kind: something without an identity
    bool forgot = false;
  };
  struct Arguments {
    Config config;
    NamedTensors tensors;
  };
  struct Facets {
    bool known = false;
    std::vector<uint64_t> parameters, gradients;  // positions of tensors that are or may be parameters
  };

  Process& ProcessOf(const CallRecord& record) {
    if (record.process >= processes_.size()) processes_.resize(record.process + 1);
    std::unique_ptr<Process>& process = processes_[record.process];
    if (process == nullptr) {
      process = std::make_unique<Process>();
      Begin(record, process.get());
    }
    return *process;
  }

  void Begin(const CallRecord& record, Process* process) {
    const ProcessInfo& info = trace_->processes()[record.process];
    const std::vector<int>& levels = info.known.levels;
    const auto has = [&levels](int level) { return std::find(levels.begin(), levels.end(), level) != levels.end(); };
    process->numbers = info.known.numbers;
    process->operators = has(kDispatchLevel) || has(kRecordLevel);
    const nlohmann::json* const metadata = info.metadata.get();
    const bool contents = metadata != nullptr && metadata->is_object() && metadata->contains("values");
    process->result.has_numbers = info.known.numbers || contents;
    process->result.has_results = info.known.numbers;
    process->knows_parts = has(kFunctionLevel) || has(kRecordLevel) || has(kSetattrLevel);
    process->level = record.level;
    for (const int level : {kFrameLevel, kSetattrLevel, kFunctionLevel, kRecordLevel, kDispatchLevel}) {
      if (has(level)) process->level = static_cast<uint8_t>(level);
    }
    // A forked process continues with its parent's memory and numbers.
    if (info.known.role != "fork" || info.metadata == nullptr || !info.metadata->is_object()) return;
    const auto from = info.metadata->find("forked_from");
    if (from == info.metadata->end() || !from->is_number_integer()) return;
    for (size_t i = 0; i < processes_.size() && i < trace_->processes().size(); ++i) {
      const Process* const parent = processes_[i].get();
      if (parent == nullptr || parent == process || trace_->processes()[i].known.pid != from->get<int64_t>()) continue;
      process->storages = parent->storages;
      process->touched = parent->touched;
      process->uninitialised = parent->uninitialised;
      process->parameters = parent->parameters;
    }
  }

  const Kind& KindOfConfig(ConfigId id) {
    if (id >= kinds_.size()) kinds_.resize(id + id / 2 + 16);
    Kind& kind = kinds_[id];
    if (!kind.known) kind = NanCallKindOf(ReadableConfig(trace_->identity(id)));
    return kind;
  }

  const Arguments& ArgumentsOf(ConfigId id) {
    if (id >= arguments_.size()) arguments_.resize(id + id / 2 + 16);
    std::unique_ptr<Arguments>& arguments = arguments_[id];
    if (arguments == nullptr) {
      arguments = std::make_unique<Arguments>();
      arguments->config = ReadableConfig(trace_->identity(id));
      const Config& config = arguments->config;
      for (size_t i = 0; i < config.args.size(); ++i) arguments->tensors.Add(std::to_string(i), config.args[i]);
      for (const auto& [name, value] : config.kwargs) arguments->tensors.Add(name, value);
    }
    return *arguments;
  }

  const Facets& FacetsOf(VariantId id) {
    if (id >= facets_.size()) facets_.resize(id + id / 2 + 16);
    Facets& facets = facets_[id];
    if (!facets.known) {
      facets.known = true;
      for (const TensorFacet& facet : ReadableFacets(trace_->facets(id))) {
        if (facet.subclass.ends_with(".Parameter")) facets.parameters.push_back(facet.tensor);
        if (facet.requires_grad) facets.gradients.push_back(facet.tensor);
      }
    }
    return facets;
  }

  void Enter(const CallRecord& record, Process* process, Thread* thread) {
    if (!thread->known) {
      thread->known = true;
      const ThreadInfo* const info = FindThread(trace_->processes()[record.process], record.thread);
      thread->of_engine = info != nullptr && info->name.starts_with("pt_autograd");
    }
    // Calls at this depth and deeper have ended; their ends are missing.
    while (thread->open > 0 && thread->calls[thread->open - 1].depth >= record.depth) --thread->open;
    if (thread->open == thread->calls.size()) thread->calls.emplace_back();
    OpenCall& call = thread->calls[thread->open++];
    const OpenCall* const around = thread->open > 1 ? &thread->calls[thread->open - 2] : nullptr;
    const Kind& kind = KindOfConfig(record.config);
    call.call = {
        .call = record.call,
        .process = record.process,
        .thread = record.thread,
        .level = record.level,
        .config = record.config,
        .variant = record.variant,
        .tags = record.tags,
        .stack = record.stack != kNoStack || around == nullptr ? record.stack : around->call.stack,
        .module = kind.module || around == nullptr ? (kind.module ? record.config : kLostId) : around->call.module,
        .part = PartOf(record, kind, around, *process, *thread),
        .time_ns = record.time_ns};
    call.depth = record.depth;
    call.selected = selector_.Accepts(record);
    call.held = call.inside = 0;
    // Level 2 marks the first call of a node. What comes between nodes is of the one before.
    if (kind.backward || record.facts.forward_thread != 0) thread->node = record.facts;
    call.facts = call.call.part == StepPart::kBackward ? thread->node : RecordFacts();
    call.notes.assign(record.notes.data(), record.notes.size());
    process->makers.Add(record.process, record.facts, call.call);
    NoteScope(kind, thread);
    if (!record.notes.empty()) TakeArguments(record, kind, process, thread);
  }

  static StepPart PartOf(const CallRecord& record, const Kind& kind, const OpenCall* around, const Process& process,
                         const Thread& thread) {
    if (kind.backward || IsBackward(record.facts)) return StepPart::kBackward;
    StepPart part = process.knows_parts ? StepPart::kForward : StepPart::kUnknown;
    if (around != nullptr) {
      part = around->call.part;
    } else if (thread.of_engine) {
      part = StepPart::kBackward;
    }
    const bool plain = part == StepPart::kForward || part == StepPart::kUnknown;
    const bool in_step = std::find(thread.scopes.begin(), thread.scopes.end(), true) != thread.scopes.end();
    if (kind.module) {
      return part == StepPart::kBackward || part == StepPart::kRecomputed ? StepPart::kRecomputed : StepPart::kForward;
    }
    if (plain && (kind.optimizer || in_step)) return StepPart::kOptimizer;
    if (part == StepPart::kUnknown && kind.backward_name) return StepPart::kBackward;
    return part;
  }

  // Levels 1 and 2 see the beginnings and ends of scopes as calls; within one of level 1 is one of level 2.
  void NoteScope(const Kind& kind, Thread* thread) {
    if (!kind.begins_scope && !kind.ends_scope) return;
    if (Around(*thread, &Kind::begins_scope) || Around(*thread, &Kind::ends_scope)) return;
    if (kind.begins_scope && thread->scopes.size() < kMostScopes) thread->scopes.push_back(kind.optimizer);
    if (kind.ends_scope && !thread->scopes.empty()) thread->scopes.pop_back();
  }

  static size_t IndexOf(uint8_t kind) { return kind == kHoldsNan ? 0 : 1; }

  void TakeArguments(const CallRecord& record, const Kind& kind, Process* process, Thread* thread) {
    OpenCall& call = thread->calls[thread->open - 1];
    ReadTensorNotes(call.notes, &notes_);
    NoteParameters(record, call, process);
    for (const TensorNote& note : notes_) {
      if (!note.numbers && !note.contents && (!note.identity || note.identity->storage == 0)) continue;
      const uint64_t storage = note.identity ? note.identity->storage : 0;
      std::optional<TensorNote::Numbers> numbers;
      if (note.numbers || note.contents) {
        process->result.has_numbers = process->result.has_numbers || note.numbers.has_value();
        if (storage != 0 && process->uninitialised.contains(storage)) continue;
        numbers =
            NumbersOfNote(note, note.numbers ? nullptr : At(ArgumentsOf(record.config).tensors.values, note.position));
      }
      if (storage > process->last_storage) {
        process->last_storage = storage;
        if (!numbers.has_value()) NoteIn(&process->outside, storage, process);
      }
      if (!numbers.has_value()) {
        ++process->result.counts.arguments_without;
        if (storage != 0 && process->storages.Knows(storage)) {
          call.held |= process->storages.Held(storage, BytesOf(record.config, note)) & counting_;
        }
        continue;
      }
      const uint8_t held = HeldBy(*numbers) & counting_;
      if (held != 0 && IsOfKernel(note, process, *thread)) {
        NoteUninitialised(storage, process);
        continue;
      }
      ++process->result.counts.arguments;
      call.held |= held;
      if (storage == 0) {
        TakeUnnamed(held, note, *numbers, kind, process, thread);
        continue;
      }
      if (held == 0) {
        process->touched.erase(storage);
        if (process->storages.Knows(storage)) process->storages.Set(storage, BytesOf(record.config, note), 0);
        continue;
      }
      const StorageBytes bytes = BytesOf(record.config, note);
      const uint8_t fresh = held & ~process->storages.Held(storage, bytes);
      if (fresh != 0) {
        CameIn(fresh & static_cast<uint8_t>(~HeldAround(*thread)), note, *numbers, kind, process, thread);
        process->storages.Set(storage, bytes, held);
      }
      process->touched.erase(storage);
    }
    if (call.held != 0) MarkAround(call.held, thread);
  }

  // What an operator allocates for itself, its result too, holds anything until it has written it; level 4 sees the
  // operators that it calls on that.
  bool IsOfKernel(const TensorNote& note, Process* process, const Thread& thread) {
    if (!note.identity || note.identity->storage == 0) return false;
    const uint64_t storage = note.identity->storage;
    for (size_t i = thread.open - 1; i-- > 0;) {
      const OpenCall& around = thread.calls[i];
      if (!KindOfConfig(around.call.config).is_aten) continue;
      if (process->storages.Knows(storage) || process->touched.contains(storage)) return false;
      ReadTensorNotes(around.notes, &argument_notes_);
      return std::none_of(argument_notes_.begin(), argument_notes_.end(), [storage](const TensorNote& of_around) {
        return of_around.identity && of_around.identity->storage == storage;
      });
    }
    return false;
  }

  // By the arguments of the operators around the innermost call: it may get them in another form.
  uint8_t HeldAround(const Thread& thread) {
    uint8_t held = 0;
    for (size_t i = 0; i + 1 < thread.open; ++i) {
      const OpenCall& around = thread.calls[i];
      if (around.held != 0 && KindOfConfig(around.call.config).is_aten) held |= around.held;
    }
    return held;
  }

  static void NoteUninitialised(uint64_t storage, Process* process) {
    NoteIn(&process->uninitialised, storage, process);
  }

  static void NoteIn(absl::flat_hash_set<uint64_t>* storages, uint64_t storage, Process* process) {
    if (storages->size() >= kMostRemembered) {
      storages->clear();
      process->forgot = true;
    }
    storages->insert(storage);
  }

  // An argument of a trace without identities: whether a call made it can't be known once one has made another.
  void TakeUnnamed(uint8_t held, const TensorNote& note, const TensorNote::Numbers& numbers, const Kind& kind,
                   Process* process, Thread* thread) {
    uint8_t fresh = 0;
    for (const uint8_t one : {kHoldsNan, kHoldsInfinity}) {
      if ((held & one) == 0) continue;
      if (!process->any_held[IndexOf(one)]) fresh |= one;
      process->any_held[IndexOf(one)] = true;
    }
    if (fresh != 0) CameIn(fresh, note, numbers, kind, process, thread);
  }

  // The argument of the innermost call holds what no recorded call made.
  void CameIn(uint8_t fresh, const TensorNote& note, const TensorNote::Numbers& numbers, const Kind& kind,
              Process* process, Thread* thread) {
    const bool one = numbers.nans + numbers.finite == 0 && InfinitiesOf(numbers) == 1;
    const auto touched = note.identity ? process->touched.find(note.identity->storage) : process->touched.end();
    const bool constant =
        touched != process->touched.end() ? touched->second.constant : kind.lifts && !Around(*thread, &Kind::reads);
    if ((fresh & kHoldsInfinity) != 0 && (one || constant)) {
      // The program's constant: `x * float("inf")`, `where(mask, x, -inf)`, `torch.tensor([0, inf])`.
      NoteMeant(thread->calls[thread->open - 1].call, process);
      fresh &= static_cast<uint8_t>(~kHoldsInfinity);
    }
    if (fresh == 0) return;
    NanFinding finding;
    finding.how = NanFinding::kCameIn;
    finding.kinds = fresh;
    const bool literal = touched != process->touched.end() ? touched->second.literal : kind.lifts && IsInText(*thread);
    finding.literal = (fresh & kHoldsNan) != 0 && literal;
    const std::vector<std::string>& names = ArgumentsOf(thread->calls[thread->open - 1].call.config).tensors.names;
    finding.came_in_by = note.position < names.size() ? names[note.position] : std::to_string(note.position);
    if (touched != process->touched.end()) finding.last_touched = touched->second.call;
    Report(std::move(finding), process, thread);
  }

  // Whether a call around the innermost one is of that kind.
  bool Around(const Thread& thread, bool Kind::* is) {
    for (size_t i = 0; i + 1 < thread.open; ++i) {
      if (KindOfConfig(thread.calls[i].call.config).*is) return true;
    }
    return false;
  }

  // Whether a call around the innermost one has it from the program's text: torch.tensor([nan]), x[0] = nan.
  bool IsInText(const Thread& thread) { return Around(thread, &Kind::constant) || Around(thread, &Kind::gives_nan); }

  static void NoteMeant(const NanCall& call, Process* process) {
    if (process->result.meant++ == 0) process->result.meant_first = call;
  }

  // The modules that use parameters, where level 1 tells parameters from other tensors.
  void NoteParameters(const CallRecord& record, const OpenCall& call, Process* process) {
    if (call.call.module == kLostId) return;
    const Facets& facets = FacetsOf(record.variant);
    if (facets.parameters.empty() || process->parameters.size() >= kMostRemembered) return;
    for (const uint64_t position : facets.parameters) {
      const TensorNote* const note = FindNote(notes_, position);
      if (note != nullptr && note->identity) process->parameters.try_emplace(note->identity->tensor, call.call.module);
    }
  }

  StorageBytes BytesOf(ConfigId config, const TensorNote& note) {
    return BytesOfTensor(At(ArgumentsOf(config).tensors.values, note.position), *note.identity);
  }

  // The calls around the innermost one are not where it begins.
  static void MarkAround(uint8_t held, Thread* thread) {
    for (size_t i = thread->open - 1; i-- > 0;) {
      OpenCall& around = thread->calls[i];
      if ((around.inside & held) == held) break;
      around.inside |= held;
    }
  }

  void End(const CallRecord& record, Process* process, Thread* thread) {
    while (thread->open > 0 && thread->calls[thread->open - 1].call.call > record.call) --thread->open;
    if (thread->open == 0 || thread->calls[thread->open - 1].call.call != record.call) return;
    OpenCall& call = thread->calls[thread->open - 1];
    const Kind& kind = KindOfConfig(record.config);
    read_arguments_ = false;
    written_.clear();
    result_values_.clear();
    result_tensors_ = {};
    if (!record.result.notes.empty() || !record.result.written.empty()) {
      TakeResult(record, kind, &call, process, thread);
    } else if (!process->numbers && record.result.known() && !kind.memory.allocates) {
      CountMissing(record, 0, process);
    }
    // Operators on lists return nothing; what they write is recorded with numbers alone.
    if (kind.memory.writes_later || (kind.many_tensors && kind.memory.writes && written_.empty())) {
      ReadArguments(call);
      for (const TensorNote& note : argument_notes_) {
        if (note.identity && note.identity->storage != 0) Touch(note.identity->storage, {call.call}, process);
      }
    }
    if ((kind.memory.writes || kind.memory.writes_later) && !process->uninitialised.empty()) {
      ReadArguments(call);
      for (const TensorNote& note : argument_notes_) {
        if (note.identity) process->uninitialised.erase(note.identity->storage);
      }
    }
    --thread->open;
  }

  static void Touch(uint64_t storage, const Touched& touched, Process* process) {
    if (process->touched.size() >= kMostRemembered) {
      process->touched.clear();
      process->forgot = true;
    }
    process->touched.insert_or_assign(storage, touched);
  }

  // argument_notes_ are those of the call that ends.
  void ReadArguments(const OpenCall& call) {
    if (!read_arguments_) ReadTensorNotes(call.notes, &argument_notes_);
    read_arguments_ = true;
  }

  const TensorNote* ArgumentNote(const OpenCall& call, const auto& accepts) {
    ReadArguments(call);
    for (const TensorNote& note : argument_notes_) {
      if (note.identity && accepts(*note.identity)) return &note;
    }
    return nullptr;
  }

  const NamedTensors& ResultTensors(const CallRecord& record) {
    if (result_values_.empty() && record.result.known()) {
      result_values_ = ReadableResult(record.result.values);
      result_tensors_ = {};
      for (size_t i = 0; i < result_values_.size(); ++i) result_tensors_.Add(std::to_string(i), result_values_[i]);
    }
    return result_tensors_;
  }

  void TakeResult(const CallRecord& record, const Kind& kind, OpenCall* call, Process* process, Thread* thread) {
    ReadTensorNotes(record.result.notes, &notes_);
    ReadTensorNotes(record.result.written, &written_notes_);
    uint64_t noted = 0, missing = 0;
    for (const TensorNote& note : notes_) {
      ++noted;
      const uint64_t storage = note.identity ? note.identity->storage : 0;
      process->last_storage = std::max(process->last_storage, storage);
      Written written = {.note = &note};
      if (note.numbers || note.contents) {
        process->result.has_results = true;
        if (IsUninitialised(storage, kind, *call, process)) continue;
        if (!note.numbers) written.value = At(ResultTensors(record).values, note.position);
        written.numbers = NumbersOfNote(note, written.value);
      }
      if (written.numbers.has_value()) {
        written_.push_back(written);
      } else {
        missing += TakeUnknown(note, kind, *call, process, thread) ? 1 : 0;
      }
    }
    for (const TensorNote& note : written_notes_) {
      Written written = {.note = &note};
      if (note.contents && !note.numbers) written.value = At(ArgumentsOf(record.config).tensors.values, note.position);
      written.numbers = NumbersOfNote(note, written.value);
      if (written.numbers.has_value()) written_.push_back(written);
    }
    if (!process->numbers && !kind.memory.allocates) {
      CountMissing(record, noted - missing, process);
    } else if (missing != 0) {
      CountMissing(record.config, missing, process);
    }
    if (written_.empty()) return;
    process->result.has_numbers = process->result.has_results = true;
    ++process->result.counts.calls;
    process->result.counts.tensors += written_.size();
    Judge(record, kind, call, process, thread);
  }

  // Views of memory that the program has not written are like it.
  bool IsUninitialised(uint64_t storage, const Kind& kind, const OpenCall& call, Process* process) {
    if (storage == 0) return kind.memory.allocates;
    const auto is_of_storage = [storage](const TensorNote::Identity& id) { return id.storage == storage; };
    const bool of_argument = ArgumentNote(call, is_of_storage) != nullptr;
    if (kind.memory.allocates) {
      if (of_argument && !process->uninitialised.contains(storage)) return false;  // resize_ of what has been written
      NoteUninitialised(storage, process);
      return true;
    }
    if (!process->uninitialised.contains(storage)) return false;
    if (of_argument && !kind.memory.writes) return true;
    process->uninitialised.erase(storage);
    return false;
  }

  // A result without numbers. True: it should have some.
  bool TakeUnknown(const TensorNote& note, const Kind& kind, const OpenCall& call, Process* process, Thread* thread) {
    if (!note.identity || note.identity->storage == 0 || kind.memory.allocates) return false;
    const TensorNote::Identity& id = *note.identity;
    const TensorNote* const argument =
        ArgumentNote(call, [&id](const TensorNote::Identity& other) { return other.storage == id.storage; });
    const bool constant = kind.constant || (kind.lifts && !Around(*thread, &Kind::reads));
    // A view: what its base holds is known.
    if (argument != nullptr && !kind.memory.writes && !kind.memory.writes_later && !constant) return false;
    if (call.call.level == kFrameLevel) return false;  // a module returns what a call in it made
    Touch(id.storage, {call.call, constant, kind.constant || (kind.lifts && IsInText(*thread))}, process);
    // It may hold what its arguments do.
    if (const uint8_t held = call.held | call.inside; held != 0) process->storages.Set(id.storage, {}, held);
    return !kind.memory.writes_later && !constant;
  }

  // Of a trace with contents: all tensors that a call returns have notes, but the larger ones no contents.
  void CountMissing(const CallRecord& record, uint64_t known, Process* process) {
    if (record.level == kFrameLevel) return;
    uint64_t tensors = 0;
    for (const Value& value : ReadableResult(record.result.values)) tensors += CountTensors(value);
    if (tensors > known) CountMissing(record.config, tensors - known, process);
  }

  void CountMissing(ConfigId config, uint64_t tensors, Process* process) {
    NanCounts& counts = process->result.counts;
    // What other levels see around and inside of these calls is theirs.
    if (ReadConfigHead(trace_->identity(config)).level != process->level) return;
    counts.without += tensors;
    const std::string api(ReadConfigHead(trace_->identity(config)).api);
    if (counts.without_by_api.size() < kMostApis || counts.without_by_api.contains(api)) {
      counts.without_by_api[api] += tensors;
    }
  }

  // Where something that isn't finite begins, and what it reaches.
  void Judge(const CallRecord& record, const Kind& kind, OpenCall* call, Process* process, Thread* thread) {
    uint8_t held = 0, fresh = 0;
    for (Written& written : written_) {
      written.held = HeldBy(*written.numbers) & counting_;
      held |= written.held;
      const uint64_t storage = written.note->identity ? written.note->identity->storage : 0;
      const bool knows = storage != 0 && process->storages.Knows(storage);
      if (written.held == 0 && !knows) continue;
      if (storage == 0) {
        fresh |= written.held;
        continue;
      }
      // What it returns without having made it, as a getter does, was there before.
      const StorageBytes bytes = BytesOf(record, written);
      fresh |= written.held & ~process->storages.Held(storage, bytes);
    }
    if (held != 0) {
      // nan_to_num makes infinities of NaN: an argument with a NaN explains both.
      uint8_t explained = call->held | call->inside | HeldAround(*thread);
      if ((explained & kHoldsNan) != 0) explained |= kHoldsInfinity;
      fresh &= static_cast<uint8_t>(~explained);
      const Touched* const touched = fresh == 0 ? nullptr : TouchedArgument(*call, *process);
      const bool constant = kind.constant || (touched != nullptr && touched->constant);
      if ((fresh & kHoldsInfinity) != 0 && (kind.literals.infinity || constant)) {
        NoteMeant(call->call, process);
        fresh &= static_cast<uint8_t>(~kHoldsInfinity);
      }
      if (fresh != 0) {
        NanFinding finding;
        finding.kinds = fresh;
        if (touched != nullptr) finding.last_touched = touched->call;
        finding.how = kind.reads ? NanFinding::kCameIn : kind.module ? NanFinding::kReturned : NanFinding::kMade;
        finding.literal = (fresh & kHoldsNan) != 0 && (kind.literals.nan || (touched != nullptr && touched->literal));
        Report(std::move(finding), process, thread);
      }
      MarkAround(held, thread);
    }
    Remember(record, kind, held, *call, process);
    Follow(record, kind, held, *call, process);
    for (NanFinding& finding : process->result.findings) {
      if (finding.call.call != call->call.call) continue;
      finding.result = Tensors(notes_, ResultTensors(record), process);
      finding.written = Tensors(written_notes_, ArgumentsOf(record.config).tensors, process);
    }
  }

  // An argument without numbers that an earlier call without numbers made.
  const Touched* TouchedArgument(const OpenCall& call, const Process& process) {
    if (process.touched.empty()) return nullptr;
    ReadArguments(call);
    for (const TensorNote& note : argument_notes_) {
      if (note.numbers || note.contents || !note.identity) continue;
      const auto touched = process.touched.find(note.identity->storage);
      if (touched != process.touched.end() && touched->second.call.call != call.call.call) return &touched->second;
    }
    return nullptr;
  }

  StorageBytes BytesOf(const CallRecord& record, const Written& written) {
    if (IsResult(written)) {
      return BytesOfTensor(At(ResultTensors(record).values, written.note->position), *written.note->identity);
    }
    return BytesOf(record.config, *written.note);
  }
  bool IsResult(const Written& written) const {
    return !notes_.empty() && written.note >= notes_.data() && written.note < notes_.data() + notes_.size();
  }

  void Remember(const CallRecord& record, const Kind& kind, uint8_t held, const OpenCall& call, Process* process) {
    for (const Written& written : written_) {
      const uint64_t storage = written.note->identity ? written.note->identity->storage : 0;
      if (storage == 0) {
        for (const uint8_t one : {kHoldsNan, kHoldsInfinity}) {
          if ((written.held & one) != 0) process->any_held[IndexOf(one)] = true;
        }
        continue;
      }
      if (!process->touched.empty()) process->touched.erase(storage);
      if (written.held == 0 && !process->storages.Knows(storage)) continue;
      process->storages.Set(storage, BytesOf(record, written), written.held);
    }
    if (kind.batch_norm && (held | call.held) != 0) {
      ReadArguments(call);
      for (const TensorNote& note : argument_notes_) {
        if (note.identity && note.identity->storage != 0) {
          process->storages.Set(note.identity->storage, BytesOf(record.config, note), held | call.held);
        }
      }
    }
  }

  // After the first finding.
  void Follow(const CallRecord& record, const Kind& kind, uint8_t held, const OpenCall& call, Process* process) {
    if (process->result.findings.empty() || record.level != process->level) return;
    const NanFinding& first = process->result.findings.front();
    if (call.call.call < first.call.call || (call.call.call == first.call.call && first.how != NanFinding::kCameIn)) {
      return;
    }
    NanSpread& spread = process->result.spread;
    spread.level = record.level;
    ++spread.later;
    if (held == 0) return;
    ++spread.reached;
    if (spread.next.size() < kMostNext) spread.next.push_back(call.call);
    spread.last = call.call;
    if (call.call.part == StepPart::kBackward) {
      ++spread.in_backward;
      if (!spread.first_gradient) spread.first_gradient = call.call;
    }
    if (!spread.first_parameter) {
      if (const TensorNote* const parameter = WrittenParameter(record, kind, call, *process)) {
        spread.first_parameter = call.call;
        const auto module = process->parameters.find(parameter->identity->tensor);
        if (module != process->parameters.end()) spread.parameter_module = module->second;
      }
    }
  }

  // A parameter that the call wrote, so that it now holds it. Level 1 sees that it is one; below, it is a tensor with a
  // gradient that the optimizer writes.
  const TensorNote* WrittenParameter(const CallRecord& record, const Kind& kind, const OpenCall& call,
                                     const Process& process) {
    const Facets& facets = FacetsOf(record.variant);
    const auto has = [](const std::vector<uint64_t>& positions, uint64_t position) {
      return std::find(positions.begin(), positions.end(), position) != positions.end();
    };
    const bool optimizes = call.call.part == StepPart::kOptimizer || kind.many_tensors;
    for (const Written& written : written_) {
      if (written.held == 0 || !written.note->identity) continue;
      const uint64_t tensor = written.note->identity->tensor;
      const TensorNote* const argument =
          ArgumentNote(call, [tensor](const TensorNote::Identity& id) { return id.tensor == tensor; });
      if (argument == nullptr) continue;
      if (has(facets.parameters, argument->position) || process.parameters.contains(tensor) ||
          (optimizes && has(facets.gradients, argument->position))) {
        return argument;
      }
    }
    return nullptr;
  }

  void Report(NanFinding finding, Process* process, Thread* thread) {
    const OpenCall& call = thread->calls[thread->open - 1];
    ProcessNans& result = process->result;
    if (!call.selected) {
      ++result.left_out;
      return;
    }
    if (!result.findings.empty() && (finding.kinds & ~result.findings.front().kinds) == 0) {
      // Spread by what isn't recorded, or by one collective to several tensors.
      const std::optional<NanCall>& from = result.findings.front().last_touched;
      if (finding.how == NanFinding::kCameIn && finding.last_touched && from &&
          from->call == finding.last_touched->call) {
        return;
      }
      if (finding.how == NanFinding::kReturned) return;
      if (finding.how == NanFinding::kCameIn && !finding.last_touched && !process->operators) return;
    }
    const bool nan = (finding.kinds & kHoldsNan) != 0;
    const bool first = result.findings.empty();
    const bool first_nan = !first && nan && result.findings.size() == 1 && (result.findings[0].kinds & kHoldsNan) == 0;
    if (!first && !first_nan) {
      ++result.more;
      if (result.more_first.size() < kMostMore) {
        result.more_first.push_back({call.call, finding.how, finding.kinds});
      }
      return;
    }
    finding.call = call.call;
    for (size_t i = 0; i + 1 < thread->open; ++i) {
      const OpenCall& around = thread->calls[i];
      finding.around.push_back({around.call.call, around.call.level, around.call.config});
    }
    for (size_t i = thread->open; i-- > 0 && !finding.forward;) {
      const NanCall* const forward = process->makers.Find(call.call.process, thread->calls[i].facts);
      if (forward != nullptr) finding.forward = *forward;
    }
    ReadTensorNotes(call.notes, &report_notes_);
    if (finding.how == NanFinding::kMade) {
      const std::vector<std::string>& names = ArgumentsOf(call.call.config).tensors.names;
      for (const TensorNote& note : report_notes_) {
        if (note.numbers || note.contents || !note.identity || note.position >= names.size()) continue;
        if (process->outside.contains(note.identity->storage)) finding.outside.push_back(names[note.position]);
      }
    }
    finding.arguments = Tensors(report_notes_, ArgumentsOf(call.call.config).tensors, process);
    result.findings.push_back(std::move(finding));
  }

  std::vector<NanTensor> Tensors(const std::vector<TensorNote>& notes, const NamedTensors& named, Process* process) {
    std::vector<NanTensor> tensors;
    for (size_t i = 0; i < named.values.size(); ++i) {
      const TensorNote* const note = FindNote(notes, i);
      if (&notes == &written_notes_ && note == nullptr) continue;
      NanTensor& tensor = tensors.emplace_back();
      tensor.name = named.names[i];
      tensor.tensor = *named.values[i];
      if (note == nullptr) continue;
      tensor.note = *note;
      const uint64_t storage = note->identity ? note->identity->storage : 0;
      if (note->numbers || !process->uninitialised.contains(storage)) {
        tensor.note.numbers = NumbersOfNote(*note, named.values[i]);
      }
      tensor.note.contents.reset();
      if (tensor.note.numbers) {
        tensor.held = HeldBy(*tensor.note.numbers) & counting_;
      } else if (storage != 0) {
        tensor.held = process->storages.Held(storage, BytesOfTensor(named.values[i], *note->identity)) & counting_;
      }
      tensor.known = tensor.note.numbers.has_value() || tensor.held != 0;
    }
    return tensors;
  }

  Trace* const trace_;
  CallSelector selector_;
  const uint8_t counting_;                             // the kinds that count
  std::vector<Kind> kinds_;                            // by ConfigId
  std::vector<std::unique_ptr<Arguments>> arguments_;  // by ConfigId; of those that were asked for
  std::vector<Facets> facets_;                         // by VariantId
  std::vector<std::unique_ptr<Process>> processes_;
  std::map<std::pair<uint32_t, uint32_t>, Thread> threads_;
  // Of the call that begins or ends.
  std::vector<TensorNote> notes_, written_notes_, argument_notes_, report_notes_;
  bool read_arguments_ = false;
  std::vector<Value> result_values_;
  NamedTensors result_tensors_;
  std::vector<Written> written_;
};

}  // namespace

absl::StatusOr<std::vector<ProcessNans>> FindNans(Trace* trace, const NanOptions& options) {
  std::optional<NanFinder> finder;
  LaterNotesReader reader(trace);
  const absl::Status read = reader.ReadOnceOrTwice(
      [&] {
        finder.emplace(trace, options);
        return finder->Prepare();
      },
      [&finder](const CallRecord& record) {
        finder->Take(record);
        return absl::OkStatus();
      });
  return read.ok() ? finder->Finish(reader.too_late()) : read;
}

}  // namespace torchtrace
