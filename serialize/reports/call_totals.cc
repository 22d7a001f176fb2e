#include <algorithm>
#include <bitset>
#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "serialize/base/reused_stack.h"
#include "serialize/base/saturating.h"
#include "serialize/model/device_work.h"
#include "serialize/model/tensor_notes.h"
#include "serialize/reports/reports.h"
#include "serialize/trace/call_costs.h"
#include "serialize/trace/live_memory.h"
#include "serialize/trace/recent_calls.h"

namespace torchtrace {
namespace {

// Deeper calls exist only in damaged logs; their time counts, but is not subtracted from the calls around them.
constexpr uint32_t kMaxDepth = 1'000'000;

class Summer {
 public:
  Summer(Trace* trace, const SumOptions& options)
      : trace_(*trace),
        options_(options),
        by_place_(options.place != nullptr),
        repeats_(options.repetition != nullptr) {
    Grow(trace->config_count());
    if (options.selection != nullptr) selector_.emplace(trace, *options.selection);
  }

  absl::Status Prepare() { return selector_.has_value() ? selector_->Prepare() : absl::OkStatus(); }

  // Asks for the rows of new configs.
  [[gnu::noinline]] void Grow(size_t configs) {
    for (auto id = static_cast<ConfigId>(configs_.size()); id < configs; ++id) {
      ConfigState config;
      config.row = options_.row(id);
      if (options_.cost != nullptr) costs_.push_back(config.row != kNoRow ? options_.cost(id) : ConfigCost());
      configs_.push_back(config);
    }
    totals_.configs.resize(configs);
  }

  void Add(const CallRecord& call) {
    if (call.kind == CallRecord::kMemory) [[unlikely]] {
      return AddMemory(call);
    }
    if (call.config >= configs_.size()) [[unlikely]] {
      Grow(call.config + size_t{1});
    }
    empty_ = false;
    ThreadState& thread = ThreadOf(call);
    thread.timed = thread.timed || IsTimed(call);
    if (call.kind == CallRecord::kEnter) {
      Enter(call, &thread);
    } else if (call.kind == CallRecord::kLater) {
      AddLater(call, &thread);
    } else {
      Leave(call, &thread);
    }
  }

  TraceTotals Take() {
    for (auto& [key, thread] : threads_) {
      ChangeThread(key);
      CloseCosts(0, /*raised=*/false, &thread);
      Close(0, &thread);
    }
    AddContexts();
    totals_.has_times = empty_;
    for (const auto& [key, thread] : threads_) {
      totals_.has_times = totals_.has_times || thread.timed;
      totals_.untimed += thread.timed ? 0 : thread.calls;
    }
    for (const auto& [device, totals] : memory_.devices()) AddPeak(device.device, totals.peak);
    return std::move(totals_);
  }

 private:
  // What devices run, and memory that is held, count for each call around, which may have ended long before. So calls
  // are in contexts, which are numbered: accepted calls of a config and place, inside of equal ones.
  static constexpr uint32_t kNoContext = 0;
  static constexpr uint32_t kUnknownContext = UINT32_MAX;
  struct Context {
    uint32_t around = kNoContext;
    ConfigId config = kLostId;
    PlaceId place = kNoPlace;
    uint32_t repetition = 0;
    bool outermost = true;  // of its row
    bool outermost_of_level = true;
    std::bitset<UINT8_MAX + 1> levels = {};  // with those around
    // Of its own calls; AddContexts adds those of the contexts in it.
    MemoryTotals held = {};
    int64_t device_ns = 0;
  };
  // What has lived on a device since the first record: only differences mean something.
  struct Running {
    MemoryDevice device;
    int64_t bytes = 0;
    int64_t at_begin = 0;  // of the place that its process is in
  };
  struct Interval {
    PlaceId place = kNoPlace;
    std::vector<Running> devices;
  };

  struct MemoryUse {
    MemoryDevice device;
    uint64_t allocated = 0;
    uint64_t freed = 0;
    int64_t net = 0;
    int64_t peak = 0;  // of net

    void Add(const MemoryUse& inner) {
      int64_t most = net;
      AddSaturating(inner.peak, &most);
      peak = std::max(peak, most);
      AddSaturating(inner.net, &net);
      allocated += inner.allocated;
      freed += inner.freed;
    }
  };
  struct OpenCall {
    int64_t inside_ns = 0;  // of the finished calls right inside
    PlaceId place = kNoPlace;
    uint32_t row = kNoRow;
    uint32_t repetition = 0;
    bool accepted = true;
    bool outermost = true;  // of its row
    bool backward = false;
    uint8_t level = 0;
    ConfigId config = kLostId;
    uint32_t context = kUnknownContext;
    std::vector<MemoryUse> memory;  // by device, with that of finished calls in it
  };
  // A call that is accepted, or may have launched work of devices: what comes later of it counts.
  struct RecentCall {
    PlaceId place = kNoPlace;
    uint32_t context = kNoContext;
    bool accepted = true;
    bool with_numbers = false;
    bool with_nan = false;
    bool with_inf = false;
  };
  struct ThreadState {
    uint64_t calls = 0;                  // accepted
    bool timed = false;                  // some record has a time other than 0
    ReusedStack<OpenCall> open;          // by depth
    std::unique_ptr<CostNesting> costs;  // if SumOptions asks for costs
    RecentCalls<RecentCall> recent;      // the same for numbers or devices
  };

  struct ConfigState {
    uint32_t row = kNoRow;
    PlaceId seen_at = kNoPlace;       // where it was called last
    const ThreadState* on = nullptr;  // the thread that called it last
  };

  ThreadState& ThreadOf(const CallRecord& call) {
    const std::pair<uint32_t, uint32_t> key(call.process, call.thread);
    if (last_ == nullptr || key != last_key_) [[unlikely]] {
      ChangeThread(key);
    }
    return *last_;
  }
  [[gnu::noinline]] void ChangeThread(const std::pair<uint32_t, uint32_t>& key) {
    if (last_ != nullptr) CountOpenRows(*last_, -1);
    last_key_ = key;
    last_ = &threads_[key];
    CountOpenRows(*last_, 1);
  }
  void CountOpenRows(const ThreadState& thread, int change) {
    for (const OpenCall& call : thread.open) {
      if (call.row != kNoRow) open_rows_[call.row] += static_cast<uint32_t>(change);
    }
  }

  [[gnu::noinline]] void GrowRows(size_t rows) { open_rows_.resize(rows); }

  // Calls at this depth and deeper have ended, even if their ends are missing.
  [[gnu::always_inline]] void Close(uint32_t depth, ThreadState* thread) {
    for (; thread->open.size() > depth; thread->open.Pop()) {
      const OpenCall& call = thread->open.back();
      if (call.row != kNoRow) --open_rows_[call.row];
      if (options_.memory) CloseMemory(call, thread);
    }
  }
  // Also of calls that never returned. `call` is the last open one.
  [[gnu::noinline]] void CloseMemory(const OpenCall& call, ThreadState* thread) {
    for (const MemoryUse& use : call.memory) {
      if (call.row != kNoRow && call.outermost) {
        const auto peak = static_cast<uint64_t>(use.peak);
        totals_.configs[call.config].memory.Of(use.device).Add({use.allocated, use.freed, peak});
        if (repeats_ && !by_place_) totals_.repetitions.Of(call.row, call.repetition).allocated += use.allocated;
        if (call.place != kNoPlace && !options_.intervals) {
          PlaceAt(call.place).total.memory.Of(use.device).Add({.peak = peak});
        }
      }
      if (thread->open.size() > 1) AddUse(use, &thread->open[thread->open.size() - 2]);
    }
  }

  static void AddUse(const MemoryUse& use, OpenCall* call) {
    for (MemoryUse& known : call->memory) {
      if (known.device == use.device) return known.Add(use);
    }
    call->memory.push_back({use.device});
    call->memory.back().Add(use);
  }

  // Costs of the calls at this depth and deeper, which have ended: the one at this depth by an exception if `raised`.
  void CloseCosts(uint32_t depth, bool raised, ThreadState* thread) {
    if (thread->costs != nullptr) thread->costs->Close(depth, raised, count_cost_);
  }

  void EnterCost(const CallRecord& call, PlaceId place, uint32_t repetition, ThreadState* thread) {
    if (thread->costs == nullptr) thread->costs = std::make_unique<CostNesting>();
    thread->costs->Enter({call.depth, call.config, place, call.level, call.count, repetition}, costs_[call.config]);
  }

  void Enter(const CallRecord& call, ThreadState* thread) {
    ConfigState& config = configs_[call.config];
    const bool accepted = config.row != kNoRow && (!selector_.has_value() || selector_->Accepts(call));
    PlacedCall at = kNoPlace;
    if (by_place_) {
      const uint32_t around = std::min<uint32_t>(call.depth, static_cast<uint32_t>(thread->open.size()));
      at = options_.place(call, around == 0 ? kNoPlace : thread->open[around - 1].place);
    }
    const PlaceId place = at.place;
    const uint32_t repetition = repeats_ ? options_.repetition(call) : 0;
    if (options_.intervals && options_.memory) BeginInterval(call.process, place);
    if (call.depth < kMaxDepth) {
      Close(call.depth, thread);
      CloseCosts(call.depth, /*raised=*/false, thread);
      if (accepted && options_.cost != nullptr) EnterCost(call, place, repetition, thread);
      // Calls whose entries are missing.
      while (thread->open.size() < call.depth) thread->open.Push() = OpenCall();
      OpenCall& open = thread->open.Push();
      open.inside_ns = 0;
      open.place = place;
      open.row = !accepted ? kNoRow : by_place_ ? place : config.row;
      open.repetition = repetition;
      open.config = call.config;
      open.level = call.level;
      open.backward = at.backward;
      open.accepted = accepted;
      open.context = kUnknownContext;
      open.outermost = true;
      if (!open.memory.empty()) open.memory.clear();
      if (accepted) {
        if (open.row >= open_rows_.size()) [[unlikely]] {
          GrowRows(open.row + size_t{1});
        }
        open.outermost = open_rows_[open.row]++ == 0;
      }
      if (options_.device) thread->recent.Add(call.call, {place, ContextOf(thread), accepted});
    }
    if (!accepted) return;
    if (options_.numbers && !options_.device) thread->recent.Add(call.call, {place});
    if (repeats_) {
      RepetitionSum& sum = totals_.repetitions.Of(by_place_ ? place : config.row, repetition);
      sum.calls += call.count;
      sum.flops += CostOfCalls(call);
      totals_.whole.Of(0, repetition).calls += call.count;
    }
    Count(call, thread, &config.on, &totals_.configs[call.config]);
    thread->calls += call.count;
    if (!by_place_) return;
    PlaceTotal& total = PlaceAt(place);
    Count(call, thread, &places_on_[place], &total.total);
    // Fast path: a configuration is usually called again from the same place.
    if (std::exchange(config.seen_at, place) == place) return;
    total.configs.insert(call.config);
  }

  PlaceTotal& PlaceAt(PlaceId place) {
    if (place >= totals_.places.size()) [[unlikely]] {
      GrowPlaces(place + size_t{1});
    }
    return totals_.places[place];
  }
  [[gnu::noinline]] void GrowPlaces(size_t places) {
    totals_.places.resize(places);
    places_on_.resize(places);
  }

  // `counted_on`: the thread of the last call of `total`. Calls of one thread come in order.
  void Count(const CallRecord& call, const ThreadState* thread, const ThreadState** counted_on, CallTotal* total) {
    if (std::exchange(*counted_on, thread) != thread) {
      total->first = std::min(total->first, {options_.trace, trace_.OrderOf(call)});
    }
    total->calls += call.count;
    total->timed = total->timed || IsTimed(call);
    if (options_.device || options_.memory) [[unlikely]] {
      const ProcessMetadata& known = trace_.processes()[call.process].known;
      total->has_device = total->has_device || (options_.device && known.device_times);
      total->has_memory = total->has_memory || (options_.memory && known.memory);
    }
  }

  // No real clock shows 0; files of other tools may have no times.
  static bool IsTimed(const CallRecord& call) { return call.time_ns != 0; }

  void Leave(const CallRecord& call, ThreadState* thread) {
    const int64_t time_ns = call.total_duration_ns();
    // The defaults for calls that are not open.
    bool accepted = !selector_.has_value();
    bool outermost = true;
    PlaceId place = kNoPlace;
    bool backward = false;
    int64_t inside_ns = 0;
    uint32_t row = kNoRow, repetition = 0;
    CloseCosts(call.depth, call.kind == CallRecord::kRaise, thread);
    if (call.depth < thread->open.size()) {
      const OpenCall& open = thread->open[call.depth];
      accepted = open.accepted;
      outermost = open.outermost;
      place = open.place;
      backward = open.backward;
      inside_ns = open.inside_ns;
      row = open.row;
      repetition = open.repetition;
      Close(call.depth, thread);
      if (call.depth > 0) AddSaturating(time_ns, &thread->open[call.depth - 1].inside_ns);
    }
    if (configs_[call.config].row == kNoRow || !accepted) return;
    if (options_.numbers) {
      ReadNumbers(call.result);
      CountOnce(call.call, thread);
    }
    AddEnd(call, time_ns, inside_ns, outermost, &totals_.configs[call.config]);
    if (repeats_ && row != kNoRow) AddRepeated(call, time_ns - inside_ns, row, repetition);
    if (place != kNoPlace) {
      CallTotal* const total = &PlaceAt(place).total;
      AddEnd(call, time_ns, inside_ns, outermost, total);
      if (backward) AddSaturating(time_ns - inside_ns, &total->backward_ns);
    }
  }

  void AddRepeated(const CallRecord& call, int64_t self_time_ns, uint32_t row, uint32_t repetition) {
    RepetitionSum& sum = totals_.repetitions.Of(row, repetition);
    AddSaturating(self_time_ns, &sum.self_time_ns);
    AddSaturating(self_time_ns, &totals_.whole.Of(0, repetition).self_time_ns);
    if (IsTimed(call)) {
      CallTotal& total = by_place_ ? PlaceAt(row).total : totals_.configs[call.config];
      total.spread.Add(self_time_ns / static_cast<int64_t>(std::max<uint64_t>(call.count, 1)), call.count);
    }
    if (call.kind == CallRecord::kRaise) sum.flops -= CostOfCalls(call);
  }
  // Of rows in which calls add up.
  double CostOfCalls(const CallRecord& call) const {
    if (by_place_ || options_.cost == nullptr || options_.rows_are_levels) return 0;
    return costs_[call.config].cost.flops.value_or(0) * static_cast<double>(call.count);
  }

  void AddPeak(const MemoryDevice& device, uint64_t bytes) {
    for (auto& [known, peak] : totals_.peaks) {
      if (known == device) {
        peak = std::max(peak, bytes);
        return;
      }
    }
    totals_.peaks.emplace_back(device, bytes);
  }

  Interval& IntervalOf(uint32_t process) {
    if (process >= intervals_.size()) intervals_.resize(process + size_t{1});
    return intervals_[process];
  }

  void BeginInterval(uint32_t process, PlaceId place) {
    Interval& interval = IntervalOf(process);
    if (std::exchange(interval.place, place) == place) return;
    for (Running& running : interval.devices) running.at_begin = running.bytes;
  }

  void ChangeInterval(const CallRecord& record, int64_t change) {
    Interval& interval = IntervalOf(record.process);
    const auto at = std::find_if(interval.devices.begin(), interval.devices.end(),
                                 [&](const Running& running) { return running.device == record.memory.device; });
    Running& running =
        at != interval.devices.end() ? *at : interval.devices.emplace_back(Running{record.memory.device});
    AddSaturating(change, &running.bytes);
    int64_t above = 0;
    if (__builtin_sub_overflow(running.bytes, running.at_begin, &above)) above = 0;
    if (interval.place != kNoPlace && above > 0) {
      PlaceAt(interval.place).total.memory.Of(running.device).Add({.peak = static_cast<uint64_t>(above)});
    }
  }

  // Records come in the trace's order, as a thread may free what another one has allocated.
  void AddMemory(const CallRecord& record) {
    ThreadState& thread = ThreadOf(record);
    const uint32_t context = record.memory.of_parameter() ? kNoContext : ContextOf(&thread);
    const std::optional<LiveMemory<uint32_t>::Block> ended = memory_.Apply(record.process, record.memory, context);
    if (record.memory.of_parameter()) return;
    MemoryUse use = {record.memory.device};
    if (!record.memory.freed) {
      use.allocated = CountedBytes(record.memory);
      use.net = static_cast<int64_t>(use.allocated);
      use.peak = use.net;
    } else {
      use.freed = ended.has_value() ? ended->bytes : CountedBytes(record.memory);
      use.net = -static_cast<int64_t>(use.freed);
    }
    if (options_.intervals) ChangeInterval(record, use.net);
    if (contexts_[context].place != kNoPlace) {
      PlaceAt(contexts_[context].place).total.memory.Of(use.device).Add({use.allocated, use.freed});
    }
    if (repeats_ && context != kNoContext) {
      const Context& of = contexts_[context];
      totals_.whole.Of(0, of.repetition).allocated += use.allocated;
      if (by_place_) totals_.repetitions.Of(of.place, of.repetition).allocated += use.allocated;
    }
    if (!thread.open.empty()) AddUse(use, &thread.open.back());
  }

  // The context of the thread's innermost call.
  uint32_t ContextOf(ThreadState* thread) {
    size_t known = thread->open.size();
    while (known > 0 && thread->open[known - 1].context == kUnknownContext) --known;
    uint32_t context = known == 0 ? kNoContext : thread->open[known - 1].context;
    for (; known < thread->open.size(); ++known) {
      OpenCall& call = thread->open[known];
      if (call.row != kNoRow) context = ContextIn(context, call);
      call.context = context;
    }
    return context;
  }

  uint32_t ContextIn(uint32_t around, const OpenCall& call) {
    const auto [at, fresh] = context_index_.try_emplace({around, call.config, call.place, call.repetition},
                                                        static_cast<uint32_t>(contexts_.size()));
    if (!fresh) return at->second;
    Context context = {around, call.config, call.place, call.repetition, call.outermost};
    context.levels = contexts_[around].levels;
    context.outermost_of_level = !context.levels.test(call.level);
    context.levels.set(call.level);
    contexts_.push_back(context);
    return at->second;
  }

  // What counts for the calls around, too.
  void AddContexts() {
    memory_.ForEach([this](const ProcessDevice& on, const LiveMemory<uint32_t>::Block& block) {
      Context& context = contexts_[block.owner];
      context.held.Of(on.device).held += block.bytes;
      if (context.place != kNoPlace) PlaceAt(context.place).total.memory.Of(on.device).held += block.bytes;
    });
    // Inner contexts have greater numbers.
    for (size_t i = contexts_.size() - 1; i > kNoContext; --i) {
      const Context& context = contexts_[i];
      Context& around = contexts_[context.around];
      around.held.Add(context.held);
      AddSaturating(context.device_ns, &around.device_ns);
      CallTotal& total = totals_.configs[context.config];
      if (context.outermost) {
        total.memory.Add(context.held);
        AddSaturating(context.device_ns, &total.device_ns);
        if (repeats_ && !by_place_ && context.device_ns != 0) {
          const uint32_t row = configs_[context.config].row;
          AddSaturating(context.device_ns, &totals_.repetitions.Of(row, context.repetition).device_ns);
        }
      }
      if (context.outermost_of_level) AddSaturating(context.device_ns, &total.outer_device_ns);
    }
  }

  // numbers_ that came after the call's end, or before it.
  void AddLater(const CallRecord& call, ThreadState* thread) {
    const RecentCall* const recent = thread->recent.Find(call.call);
    if (recent == nullptr) return;
    if (options_.device && !call.device_work.empty()) AddDeviceWork(call, recent->context);
    if (!options_.numbers || !recent->accepted) return;
    ReadNumbers(call.result);
    CountOnce(call.call, thread);
    totals_.configs[call.config].numbers.Add(numbers_);
    if (recent->place != kNoPlace) PlaceAt(recent->place).total.numbers.Add(numbers_);
  }

  void AddDeviceWork(const CallRecord& call, uint32_t context) {
    if (context == kNoContext) return;
    const int64_t ns = DeviceNs(call.device_work, &work_);
    AddSaturating(ns, &totals_.device_ns);
    AddSaturating(ns, &contexts_[context].device_ns);
    const uint32_t repetition = contexts_[context].repetition;
    if (repeats_) AddSaturating(ns, &totals_.whole.Of(0, repetition).device_ns);
    if (const PlaceId place = contexts_[context].place; place != kNoPlace) {
      AddSaturating(ns, &PlaceAt(place).total.device_ns);
      if (repeats_) AddSaturating(ns, &totals_.repetitions.Of(place, repetition).device_ns);
    }
    if (!options_.work) return;
    for (const DeviceWork& work : work_) options_.work(call, work);
  }

  // So that a call with several notes counts once.
  void CountOnce(uint64_t call, ThreadState* thread) {
    if (numbers_.calls == 0) return;
    RecentCall* const recent = thread->recent.Find(call);
    if (recent == nullptr) return;
    const NumberExtremes counted = {recent->with_numbers, recent->with_nan, recent->with_inf};
    recent->with_numbers = true;
    recent->with_nan |= numbers_.calls_with_nan != 0;
    recent->with_inf |= numbers_.calls_with_inf != 0;
    numbers_.CountOnce(counted);
  }

  void ReadNumbers(const CallResult& result) {
    numbers_ = NumberExtremes();
    for (const std::string_view notes : {result.notes, result.written}) {
      ReadTensorNotes(notes, &notes_);
      numbers_.AddNotes(notes_);
    }
  }

  [[gnu::always_inline]] void AddEnd(const CallRecord& call, int64_t time_ns, int64_t inside_ns, bool outermost,
                                     CallTotal* total) const {
    if (outermost) AddSaturating(time_ns, &total->time_ns);
    AddSaturating(time_ns - inside_ns, &total->self_time_ns);
    if (options_.durations && outermost && IsTimed(call)) total->durations.Add(call.duration_ns, call.count);
    if (options_.numbers) total->numbers.Add(numbers_);
    if (call.kind == CallRecord::kRaise) total->raised += call.count;
    total->timed = total->timed || IsTimed(call);
  }

  const Trace& trace_;
  const SumOptions& options_;
  const bool by_place_;
  const bool repeats_;  // sums by repetition too
  std::optional<CallSelector> selector_;
  std::vector<ConfigState> configs_;  // by ConfigId
  std::vector<ConfigCost> costs_;     // the same, if SumOptions asks for costs
  const CostNesting::Count count_cost_ = [this](const CostNesting::Call& call, const CostSum& of_level,
                                                const CostSum& of_trace) {
    CallTotal& total = totals_.configs[call.config];
    total.cost_of_level.Add(of_level);
    total.cost.Add(of_trace);
    if (call.place != kNoPlace) PlaceAt(call.place).total.cost.Add(of_trace);
    if (!repeats_) return;
    const double flops = of_trace.cost.flops.value_or(0);
    totals_.whole.Of(0, call.repetition).flops += flops;
    if (call.place != kNoPlace) totals_.repetitions.Of(call.place, call.repetition).flops += flops;
    if (!options_.rows_are_levels) return;
    const uint32_t row = configs_[call.config].row;
    totals_.repetitions.Of(row, call.repetition).flops += of_level.cost.flops.value_or(0);
  };
  TraceTotals totals_;
  std::vector<const ThreadState*> places_on_;  // by PlaceId: the thread that called there last
  bool empty_ = true;
  std::map<std::pair<uint32_t, uint32_t>, ThreadState> threads_;
  std::pair<uint32_t, uint32_t> last_key_;
  ThreadState* last_ = nullptr;
  std::vector<Context> contexts_{Context()};  // by number; the first one is none
  absl::flat_hash_map<std::tuple<uint32_t, ConfigId, PlaceId, uint32_t>, uint32_t> context_index_;
  std::vector<DeviceWork> work_;     // of the call that is added to
  LiveMemory<uint32_t> memory_;      // by context
  std::vector<Interval> intervals_;  // by process
  std::vector<TensorNote> notes_;    // of the call that ends
  NumberExtremes numbers_;           // the same
  std::vector<uint32_t> open_rows_;  // how many calls of the row are open on the last thread
};

}  // namespace

absl::StatusOr<TraceTotals> SumCalls(Trace* trace, const SumOptions& options) {
  Summer summer(trace, options);
  if (absl::Status s = summer.Prepare(); !s.ok()) return s;
  const LaterNotesShown later_shown(trace, options.numbers || options.device);
  const MemoryShown memory_shown(trace, options.memory);
  const auto add = [&summer](const CallRecord& call) -> absl::Status {
    summer.Add(call);
    return absl::OkStatus();
  };
  const absl::Status read = options.selection != nullptr ? ReadFor(*options.selection, trace, add)
                            : options.memory || options.in_order
                                ? trace->ReadCounted(add)
                                : trace->ReadThreads([&summer](const CallRecord& call) { summer.Add(call); });
  if (!read.ok()) return read;
  summer.Grow(trace->config_count());
  return summer.Take();
}

absl::StatusOr<TraceTotals> CountConfigs(Trace* trace, const SumOptions& options) {
  const absl::StatusOr<std::vector<uint64_t>> counts = trace->Count();
  if (!counts.ok()) return counts.status();
  TraceTotals totals;
  totals.configs.resize(trace->config_count());
  for (VariantId variant = 0; variant < counts->size(); ++variant) {
    totals.configs[trace->config_of(variant)].calls += (*counts)[variant];
  }
  for (ConfigId config = 0; config < totals.configs.size(); ++config) {
    CallTotal& total = totals.configs[config];
    if (total.calls == 0 || options.row(config) == kNoRow) {
      total = CallTotal();
    } else {
      total.first = {options.trace, {0, 0, config}};
    }
  }
  return totals;
}

}  // namespace torchtrace
