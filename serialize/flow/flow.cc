#include "serialize/flow/flow.h"

#include <algorithm>
#include <deque>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "serialize/flow/outcome.h"
#include "serialize/flow/step_reader.h"
#include "serialize/model/config.h"
#include "serialize/model/torch_names.h"
#include "serialize/model/torch_types.h"
#include "serialize/trace/run_facts.h"

namespace torchtrace {
namespace {

// Size of the cache of parsed configs.
constexpr size_t kMostParsed = 10'000;
// Contents of larger storages are not assembled.
constexpr int64_t kMostMemory = int64_t{1} << 30;

void AddTensors(const Value& value, std::vector<const Value*>* tensors) {
  if (value.tag == ValueTag::kTensor) tensors->push_back(&value);
  for (const Value& item : value.items) AddTensors(item, tensors);
}

struct Parsed {
  Config config;
  std::vector<TensorFacet> facets;
  std::vector<const Value*> tensors;  // of `config`, by position
};

// Bytes of a storage.
struct Extent {
  int64_t least = std::numeric_limits<int64_t>::max();
  int64_t most = 0;

  bool Covers(const Extent& other) const { return least <= other.least && most >= other.most; }
};

// The extent of a tensor's elements; none: it has no elements, or the extent is unknown.
std::optional<Extent> ExtentOf(const Value& tensor, uint64_t offset) {
  if ((tensor.tensor_bits & (kTensorShapeUnknown | kTensorHasLayout)) != 0 || offset > INT64_MAX) return std::nullopt;
  const std::vector<Dim> strides = StridesOf(tensor);
  if (strides.size() != tensor.shape.size()) return std::nullopt;
  auto last = static_cast<int64_t>(offset);
  for (size_t i = 0; i < strides.size(); ++i) {
    const int64_t size = tensor.shape[i].value_or(0), stride = strides[i].value_or(-1);
    int64_t reach;
    if (size <= 0 || stride < 0 || __builtin_mul_overflow(size - 1, stride, &reach) ||
        __builtin_add_overflow(last, reach, &last)) {
      return std::nullopt;
    }
  }
  const auto bytes = static_cast<int64_t>(BytesOfDtype(tensor.text));
  Extent extent;
  if (__builtin_mul_overflow(static_cast<int64_t>(offset), bytes, &extent.least) ||
      __builtin_add_overflow(last, 1, &last) || __builtin_mul_overflow(last, bytes, &extent.most)) {
    return std::nullopt;
  }
  return extent;
}

// Whether the elements fill the extent without overlap.
bool IsDense(const Value& tensor) {
  std::vector<std::pair<int64_t, int64_t>> dims;  // strides, sizes
  const std::vector<Dim> strides = StridesOf(tensor);
  for (size_t i = 0; i < strides.size(); ++i) {
    if (tensor.shape[i] != 1) dims.emplace_back(strides[i].value_or(0), tensor.shape[i].value_or(0));
  }
  std::sort(dims.begin(), dims.end());
  int64_t next = 1;
  return std::all_of(dims.begin(), dims.end(), [&next](const auto& dim) {
    return dim.first == next && !__builtin_mul_overflow(next, dim.second, &next);
  });
}

// A tensor in a storage, and its recorded elements.
struct Part {
  Value tensor;
  uint64_t offset = 0;
  std::string contents;
};

// A piece of a storage's memory, assembled from parts.
class Memory {
 public:
  explicit Memory(const Extent& extent)
      : extent_(extent), bytes_(extent.most - extent.least, '\0'), known_(bytes_.size()) {}

  // Doesn't overwrite known bytes. Returns whether it added any.
  bool Add(const Value& tensor, uint64_t offset, std::string_view contents) {
    const std::optional<Extent> extent = ExtentOf(tensor, offset);
    if (!extent.has_value() || !extent_.Covers(*extent)) return false;
    const size_t bytes = BytesOfDtype(tensor.text);
    uint64_t size = bytes;
    for (const Dim& dim : tensor.shape) {
      if (__builtin_mul_overflow(size, static_cast<uint64_t>(*dim), &size)) return false;
    }
    if (size != contents.size()) return false;
    const std::vector<Dim> strides = StridesOf(tensor);
    std::vector<int64_t> index(strides.size());
    size_t at = static_cast<size_t>(extent->least - extent_.least);
    bool told = false;
    for (size_t from = 0; from < contents.size(); from += bytes) {
      for (size_t i = 0; i < bytes; ++i) {
        if (known_[at + i]) continue;
        bytes_[at + i] = contents[from + i];
        known_[at + i] = told = true;
      }
      // Advance to the next element like an odometer.
      for (size_t i = index.size(); i-- > 0;) {
        const size_t step = static_cast<size_t>(*strides[i]) * bytes;
        at += step;
        if (++index[i] < *tensor.shape[i]) break;
        at -= step * static_cast<size_t>(index[i]);
        index[i] = 0;
      }
    }
    return told;
  }

  std::string Take(size_t size) {
    bytes_.resize(size);
    return std::move(bytes_);
  }

 private:
  const Extent extent_;
  std::string bytes_;
  std::vector<bool> known_;
};

class Flow {
 public:
  Flow(Trace* trace, const CallSelection& selection, const std::function<absl::Status(const FlowStep&)>& visit,
       const FlowOptions& options)
      : trace_(trace), reader_(trace, selection, options), visit_(visit), options_(options) {}

  absl::StatusOr<FlowSummary> Run() {
    if (absl::Status s = reader_.Prepare(); !s.ok()) return s;
    if (absl::Status s = reader_.Read([this](const EndedCall& call) { return LookAhead(call); }); !s.ok()) return s;
    step_ = 0;
    StepReader::OtherVisitor other;
    if (options_.surroundings) {
      process_ = reader_.summary().process;
      ReadObjects();
      other = [this](const CallRecord& record) { LookAside(record); };
    }
    if (absl::Status s = reader_.Read([this](const EndedCall& call) { return Tell(call); }, other); !s.ok()) return s;
    FlowSummary summary = reader_.summary();
    if (options_.surroundings) {
      summary.outcome = outcome_.Find([this](FlowValue value) { return IsKept(value); });
    }
    summary.counted = CountOnlyCounted(*trace_);
    summary.without_id = without_id_;
    summary.without_result = without_result_;
    return summary;
  }

 private:
  // The future of a tensor, by the first pass.
  struct Future {
    uint64_t last = 0;  // step that takes or returns it
    uint64_t storage = 0;
  };
  struct StorageFuture {
    uint64_t last = 0;
    Extent extent;  // of all arguments in it
    // If no step made the storage: the contents of tensors in it when they are first taken. Leaves out the first
    // tensor, and those that lie in it if it has no gaps.
    std::vector<Part> parts;
    absl::flat_hash_set<std::string> places;  // of parts
    std::optional<Extent> dense = {};
    bool made = false;
  };
  struct Known {
    FlowValue value = kNoFlowValue;
    uint64_t storage = 0;
  };
  // A tensor in a storage, of which views are taken.
  struct Base {
    FlowValue value = kNoFlowValue;
    uint64_t tensor_number = 0;  // 0: it is a kStorage
    Value tensor;
    uint64_t offset = 0;
  };

  // Reads the trace's numbers of objects (docs/FORMAT.md, `objects`).
  void ReadObjects() {
    if (process_ >= trace_->processes().size()) return;
    const nlohmann::json& metadata = *trace_->processes()[process_].metadata;
    const auto objects = metadata.find("objects");
    if (objects == metadata.end() || !objects->is_object()) return;
    if (const auto before = objects->find("before"); before != objects->end() && before->is_number_unsigned()) {
      before_ = before->get<uint64_t>();
    }
    const auto living = objects->find("living");
    if (living == objects->end() || !living->is_array()) return;
    for (size_t i = 0; i + 1 < living->size(); i += 2) {
      const nlohmann::json& first = (*living)[i];
      const nlohmann::json& last = (*living)[i + 1];
      if (first.is_number_unsigned() && last.is_number_unsigned())
        living_[first.get<uint64_t>()] = last.get<uint64_t>();
    }
  }

  bool IsKept(FlowValue value) const {
    const auto number = numbers_.find(value);
    if (number == numbers_.end()) return false;
    if (taken_behind_.contains(number->second)) return true;
    const auto range = living_.upper_bound(number->second);
    return range != living_.begin() && std::prev(range)->second >= number->second;
  }

  // Visits a call that is neither a step nor in one.
  void LookAside(const CallRecord& record) {
    if (record.process != process_) return;
    const bool ends = record.kind != CallRecord::kEnter;
    for (const TensorNote& note : ReadTensorNotes(ends ? record.result.notes : record.notes)) {
      if (!note.identity) continue;
      if (step_ == 0) earlier_.insert({note.identity->tensor, note.identity->storage});
      if (!ends) taken_behind_.insert(note.identity->tensor);
      if (ends) makers_[note.identity->tensor] = {record.call, record.config};
    }
  }

  // Sets `unseen` and `maker` if a source of that identity was made after the first step began.
  void LookBack(const TensorNote::Identity& identity, FlowSource* source) const {
    if (!before_.has_value() || identity.tensor <= *before_ || earlier_.contains(identity.tensor)) return;
    if (identity.storage != 0 && (identity.storage <= *before_ || earlier_.contains(identity.storage))) return;
    source->unseen = true;
    if (const auto maker = makers_.find(identity.tensor); maker != makers_.end()) {
      source->maker = maker->second.call;
      source->maker_config = maker->second.config;
    }
  }

  const Parsed& ParsedOf(const CallRecord& record) {
    if (parsed_.size() >= kMostParsed) parsed_.clear();
    std::unique_ptr<Parsed>& parsed = parsed_[record.variant == kLostId ? kLostId : record.variant];
    if (parsed == nullptr || record.variant == kLostId) {
      parsed = std::make_unique<Parsed>();
      parsed->config = ReadableConfig(trace_->identity(record.config));
      if (record.variant != kLostId) parsed->facets = ReadableFacets(trace_->facets(record.variant));
      for (const Value& value : parsed->config.args) AddTensors(value, &parsed->tensors);
      for (const auto& [name, value] : parsed->config.kwargs) AddTensors(value, &parsed->tensors);
    }
    return *parsed;
  }

  absl::Status LookAhead(const EndedCall& call) {
    const Parsed& parsed = ParsedOf(*call.end);
    for (const TensorNote& note : ReadTensorNotes(call.notes)) {
      if (!note.identity || note.position >= parsed.tensors.size()) continue;
      const Value& tensor = *parsed.tensors[note.position];
      const bool first = IsNewAhead(*note.identity);
      if (note.identity->storage == 0) continue;
      StorageFuture& storage = storages_ahead_[note.identity->storage];
      storage.last = step_;
      const std::optional<Extent> extent = ExtentOf(tensor, note.identity->offset);
      if (!extent.has_value()) continue;
      storage.extent.least = std::min(storage.extent.least, extent->least);
      storage.extent.most = std::max(storage.extent.most, extent->most);
      if (first && !storage.made) AddPart(tensor, note, *extent, &storage);
    }
    for (const TensorNote& note : ReadTensorNotes(call.end->result.notes)) {
      if (!note.identity) continue;
      IsNewAhead(*note.identity);
      if (note.identity->storage == 0) continue;
      const auto [storage, is_new] = storages_ahead_.try_emplace(note.identity->storage);
      storage->second.last = step_;
      if (is_new) storage->second.made = true;
    }
    if (!IsMark(parsed.config.api)) last_step_ = step_;
    ++step_;
    return absl::OkStatus();
  }

  bool IsNewAhead(const TensorNote::Identity& identity) {
    const auto [tensor, is_new] = tensors_ahead_.try_emplace(identity.tensor);
    tensor->second.last = step_;
    return std::exchange(tensor->second.storage, identity.storage) != identity.storage || is_new;
  }

  static void AddPart(const Value& tensor, const TensorNote& note, const Extent& extent, StorageFuture* storage) {
    const uint64_t offset = note.identity->offset;
    std::string place = absl::StrCat(tensor.text, " ", offset);
    for (const std::vector<Dim>& dims : {tensor.shape, StridesOf(tensor)}) {
      for (const Dim& dim : dims) absl::StrAppend(&place, " ", dim.value_or(-1));
    }
    const bool first = storage->places.empty();
    if (!storage->places.insert(std::move(place)).second || !note.contents) return;
    if (first) {
      if (IsDense(tensor)) storage->dense = extent;
    } else if (!storage->dense || !storage->dense->Covers(extent)) {
      storage->parts.push_back({tensor, offset, std::string(*note.contents)});
    }
  }

  // Adds to a source the contents that later views of it show of its memory. `first` is the first tensor in it.
  void AddContents(const Value& first, const TensorNote& note, const Extent& extent, StorageFuture* storage,
                   FlowSource* source) {
    const bool whole = source->kind == FlowSource::kStorage;
    if (storage->parts.empty() && !whole) return;
    if (extent.most - extent.least > kMostMemory) return;
    Memory memory(extent);
    bool known = note.contents && memory.Add(first, note.identity->offset, *note.contents);
    bool more = false;
    for (const Part& part : storage->parts) more |= memory.Add(part.tensor, part.offset, part.contents);
    storage->parts.clear();
    if (!more && !(whole && known)) return;
    size_t size = static_cast<size_t>(extent.most - extent.least);
    if (whole) size = static_cast<size_t>(*source->tensor.shape[0]) * BytesOfDtype(source->tensor.text);
    memories_.push_back(memory.Take(size));
    source->note.contents = memories_.back();
    source->memory = !whole;
  }

  absl::Status Tell(const EndedCall& call) {
    const CallRecord& record = *call.end;
    const Parsed& parsed = ParsedOf(record);
    const std::vector<TensorNote> notes = ReadTensorNotes(call.notes);
    const std::vector<TensorNote> result_notes = ReadTensorNotes(record.result.notes);
    FlowStep step;
    step.number = step_;
    step.last = step_ == last_step_;
    step.call = record.call;
    step.thread = record.thread;
    step.config_id = record.config;
    step.variant = record.variant;
    step.config = &parsed.config;
    step.facets = &parsed.facets;
    step.notes = &notes;
    step.result_notes = &result_notes;
    step.modules = *call.modules;
    step.gradients = call.gradients;
    if (record.kind == CallRecord::kRaise) {
      step.outcome = CallOutcome::kRaised;
      step.exception = record.exception;
    }
    released_ = &step.released;
    touched_.clear();
    memories_.clear();
    for (uint64_t i = 0; i < parsed.tensors.size(); ++i) {
      step.arguments.push_back(
          Take(*parsed.tensors[i], FindFacet(parsed.facets, i), FindNote(notes, i), &step.sources));
    }
    step.result_known = step.outcome == CallOutcome::kReturned && record.result.known();
    if (step.result_known) {
      step.result = ReadableResult(record.result.values);
      std::vector<const Value*> tensors;
      for (const Value& value : step.result) AddTensors(value, &tensors);
      for (uint64_t i = 0; i < tensors.size(); ++i) {
        step.results.push_back(Return(*tensors[i], FindNote(result_notes, i)));
      }
    } else if (step.outcome == CallOutcome::kReturned) {
      ++without_result_;
    }
    if (options_.surroundings) {
      taken_behind_.clear();
      outcome_.Add(step, StoragesOf(step.arguments.size(), notes), StoragesOf(step.results.size(), result_notes));
    }
    Release();
    std::sort(step.released.begin(), step.released.end());
    ++step_;
    absl::Status visited = visit_(step);
    if (options_.lost()) {
      tensors_.clear();
      bases_.clear();
    }
    return visited;
  }

  static std::vector<uint64_t> StoragesOf(size_t count, const std::vector<TensorNote>& notes) {
    std::vector<uint64_t> storages(count);
    for (const TensorNote& note : notes) {
      if (note.identity && note.position < count) storages[note.position] = note.identity->storage;
    }
    return storages;
  }

  FlowValue Take(const Value& tensor, const TensorFacet* facet, const TensorNote* note,
                 std::vector<FlowSource>* sources) {
    FlowSource source;
    source.tensor = tensor;
    if (facet != nullptr) source.facet = *facet;
    if (note != nullptr) source.note = *note;
    if (note == nullptr || !note->identity) {
      ++without_id_;
      source.value = next_++;
      released_->push_back(source.value);
      sources->push_back(source);
      return source.value;
    }
    const TensorNote::Identity& identity = *note->identity;
    Touch(identity);
    if (const auto known = tensors_.find(identity.tensor); known != tensors_.end()) {
      if (known->second.storage == identity.storage) return known->second.value;
      // It got another storage, not by a step.
      Forget(known->second);
      tensors_.erase(known);
    }
    if (identity.storage != 0 && Reach(tensor, *note, &source, sources)) {
      source.kind = FlowSource::kView;
    }
    source.value = next_++;
    tensors_[identity.tensor] = {source.value, identity.storage};
    if (options_.surroundings) numbers_[source.value] = identity.tensor;
    if (source.kind == FlowSource::kInput) {
      LookBack(identity, &source);
      AddBase(source.value, tensor, identity);
      const auto ahead = storages_ahead_.find(identity.storage);
      const std::optional<Extent> extent = ExtentOf(tensor, identity.offset);
      if (ahead != storages_ahead_.end() && extent.has_value()) {
        AddContents(tensor, *note, *extent, &ahead->second, &source);
      }
    }
    sources->push_back(source);
    return source.value;
  }

  // Whether the tensor is a view of a known value; then sets `source`.
  bool Reach(const Value& tensor, const TensorNote& note, FlowSource* source, std::vector<FlowSource>* sources) {
    const TensorNote::Identity& identity = *note.identity;
    const std::optional<Extent> own = ExtentOf(tensor, identity.offset);
    const bool strided = (tensor.tensor_bits & (kTensorShapeUnknown | kTensorHasLayout)) == 0;
    if (!strided) return false;
    auto bases = bases_.find(identity.storage);
    if (bases == bases_.end()) {
      const auto ahead = storages_ahead_.find(identity.storage);
      if (!own.has_value() || ahead == storages_ahead_.end() || own->Covers(ahead->second.extent)) return false;
      FlowSource whole;
      whole.kind = FlowSource::kStorage;
      whole.value = next_++;
      whole.tensor.tag = ValueTag::kTensor;
      whole.tensor.text = tensor.text;
      whole.tensor.device = tensor.device;
      const auto bytes = static_cast<int64_t>(BytesOfDtype(tensor.text));
      whole.tensor.shape = {Dim((ahead->second.extent.most + bytes - 1) / bytes)};
      whole.note.range = note.range;
      AddContents(tensor, note, {.least = 0, .most = ahead->second.extent.most}, &ahead->second, &whole);
      AddBase(whole.value, whole.tensor, {.storage = identity.storage});
      LookBack(identity, &whole);
      sources->push_back(std::move(whole));
      bases = bases_.find(identity.storage);
    }
    const Base* base = &bases->second.front();
    for (const Base& other : bases->second) {
      if (other.tensor.text == tensor.text) {
        base = &other;
        break;
      }
    }
    source->base = base->value;
    source->other_dtype = base->tensor.text != tensor.text;
    if (source->other_dtype) {
      // A kStorage begins at the storage's beginning.
      source->shift = static_cast<int64_t>(identity.offset);
      return true;
    }
    source->shift = static_cast<int64_t>(identity.offset) - static_cast<int64_t>(base->offset);
    source->same =
        source->shift == 0 && base->tensor.shape == tensor.shape && StridesOf(base->tensor) == StridesOf(tensor);
    return true;
  }

  FlowValue Return(const Value& tensor, const TensorNote* note) {
    if (note == nullptr || !note->identity) {
      released_->push_back(next_);
      return next_++;
    }
    const TensorNote::Identity& identity = *note->identity;
    Touch(identity);
    const auto [known, is_new] = tensors_.try_emplace(identity.tensor);
    if (is_new) known->second.value = next_++;
    if (options_.surroundings) numbers_[known->second.value] = identity.tensor;
    if (!is_new && known->second.storage != identity.storage) RemoveBase(known->second);
    known->second.storage = identity.storage;
    AddBase(known->second.value, tensor, identity);
    return known->second.value;
  }

  // Keeps the first base of each dtype.
  void AddBase(FlowValue value, const Value& tensor, const TensorNote::Identity& identity) {
    if (identity.storage == 0 || (tensor.tensor_bits & (kTensorShapeUnknown | kTensorHasLayout)) != 0) return;
    std::vector<Base>& bases = bases_[identity.storage];
    for (const Base& base : bases) {
      if (base.tensor.text == tensor.text) return;
    }
    bases.push_back({value, identity.tensor, tensor, identity.offset});
  }

  void RemoveBase(const Known& known) {
    const auto bases = bases_.find(known.storage);
    if (bases == bases_.end()) return;
    std::erase_if(bases->second, [&](const Base& base) { return base.value == known.value; });
    if (bases->second.empty()) bases_.erase(bases);
  }

  bool IsBase(const Known& known) const {
    const auto bases = bases_.find(known.storage);
    return bases != bases_.end() && std::any_of(bases->second.begin(), bases->second.end(),
                                                [&](const Base& base) { return base.value == known.value; });
  }

  void Forget(const Known& known) {
    RemoveBase(known);
    released_->push_back(known.value);
  }

  void Touch(const TensorNote::Identity& identity) { touched_.push_back(identity); }

  template <typename Ahead>
  static bool IsOver(const Ahead& ahead, uint64_t id, uint64_t step) {
    const auto at = ahead.find(id);
    return at == ahead.end() || at->second.last <= step;
  }

  // Releases a base after the last use of its storage, other tensors after their own last use.
  void Release() {
    for (const TensorNote::Identity& identity : touched_) {
      const auto known = tensors_.find(identity.tensor);
      if (known != tensors_.end() && IsOver(tensors_ahead_, identity.tensor, step_) && !IsBase(known->second)) {
        released_->push_back(known->second.value);
        tensors_.erase(known);
      }
    }
    for (const TensorNote::Identity& identity : touched_) {
      if (identity.storage == 0 || !IsOver(storages_ahead_, identity.storage, step_)) continue;
      const auto bases = bases_.find(identity.storage);
      if (bases == bases_.end()) continue;
      for (const Base& base : bases->second) {
        released_->push_back(base.value);
        tensors_.erase(base.tensor_number);
      }
      bases_.erase(bases);
    }
  }

  Trace* const trace_;
  StepReader reader_;
  const std::function<absl::Status(const FlowStep&)>& visit_;
  const FlowOptions& options_;
  absl::flat_hash_map<VariantId, std::unique_ptr<Parsed>> parsed_;
  absl::flat_hash_map<uint64_t, Future> tensors_ahead_;          // by number
  absl::flat_hash_map<uint64_t, StorageFuture> storages_ahead_;  // by number
  absl::flat_hash_map<uint64_t, Known> tensors_;                 // live, by number
  absl::flat_hash_map<uint64_t, std::vector<Base>> bases_;       // by the number of their storage
  std::vector<TensorNote::Identity> touched_;                    // by the step
  std::deque<std::string> memories_;                             // of the step's sources
  std::vector<FlowValue>* released_ = nullptr;                   // of the step
  FlowValue next_ = 0;
  uint64_t step_ = 0;
  uint64_t last_step_ = 0;
  uint64_t without_id_ = 0;
  uint64_t without_result_ = 0;
  // Only with FlowOptions::surroundings:
  struct Maker {
    uint64_t call = kNoCall;
    ConfigId config = kLostId;
  };
  uint32_t process_ = 0;
  std::optional<uint64_t> before_;                    // the last number of the objects that existed before
  std::map<uint64_t, uint64_t> living_;               // at the end: ranges of numbers
  absl::flat_hash_set<uint64_t> earlier_;             // numbers in calls before the first step
  absl::flat_hash_set<uint64_t> taken_behind_;        // numbers taken by calls after the last step
  absl::flat_hash_map<uint64_t, Maker> makers_;       // other calls, by a tensor's number
  absl::flat_hash_map<FlowValue, uint64_t> numbers_;  // of tensors
  OutcomeFinder outcome_;
};

bool IsTold(const Value& value) {
  switch (value.tag) {
    case ValueTag::kTensor:
    case ValueTag::kUndefined:
    case ValueTag::kGenerator:
    case ValueTag::kStorage:
    case ValueTag::kFunction:
    case ValueTag::kObject:
    case ValueTag::kSymbol:
    case ValueTag::kDeep:
      return false;
    default:
      return std::all_of(value.items.begin(), value.items.end(), IsTold);
  }
}

}  // namespace

bool OnlyTells(const FlowStep& step) {
  return step.result_known && !step.result.empty() &&
         std::all_of(step.result.begin(), step.result.end(),
                     [](const Value& value) { return value.tag != ValueTag::kNone && IsTold(value); });
}

bool IsMark(std::string_view api) { return api.starts_with("profiler::") || api.starts_with("torch.ops.profiler."); }

absl::StatusOr<FlowSummary> ReadFlow(Trace* trace, const CallSelection& selection,
                                     const std::function<absl::Status(const FlowStep&)>& visit,
                                     const FlowOptions& options) {
  return Flow(trace, selection, visit, options).Run();
}

}  // namespace torchtrace
