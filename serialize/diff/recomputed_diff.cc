#include "serialize/diff/recomputed_diff.h"

#include <algorithm>
#include <iterator>
#include <limits>

#include "serialize/base/bytes.h"
#include "serialize/base/text.h"
#include "serialize/diff/sequence_diff.h"
#include "serialize/forms/call_labels.h"
#include "serialize/model/config.h"
#include "serialize/model/levels.h"
#include "serialize/model/tensor_notes.h"
#include "serialize/model/value.h"
#include "serialize/trace/training_calls.h"

namespace torchtrace {
namespace {

// Bounds of what is remembered and tried.
constexpr size_t kMaxSteps = size_t{1} << 20;
constexpr size_t kMaxUsed = 4096;
constexpr size_t kMaxForwardCandidates = 4096;
constexpr size_t kMaxRegions = 1000;
constexpr size_t kMaxDifferences = 100;
// How many calls show whether a run is the one that is looked for, and how many of them must be alike.
constexpr size_t kLikenessCalls = 4096;
constexpr double kLeastLikeness = 0.5;
constexpr double kGreatLikeness = 0.9;
// How much more alike an earlier run must be.
constexpr double kMoreAlike = 0.02;
// How many calls may be missing between two that come in order.
constexpr size_t kOrderWindow = 8;
// How much longer or shorter a forward run may be whose end isn't known.
constexpr size_t kBand = 256;

constexpr std::string_view kStop = "_StopRecomputationError";
// Of checkpoint itself, which detaches what it saves, at other places in each run.
constexpr std::string_view kPassedCalls[] = {"aten::detach", "torch.Tensor.detach",
                                             "torch.Tensor.requires_grad.__set__", "torch.device"};

bool IsCast(std::string_view api) {
  constexpr std::string_view kCasts[] = {"torch.Tensor.to",   "torch.Tensor.type",     "torch.Tensor.float",
                                         "torch.Tensor.half", "torch.Tensor.bfloat16", "torch.Tensor.double",
                                         "torch.Tensor.cpu",  "torch.Tensor.cuda",     "torch.Tensor.type_as"};
  return IsOneOf(api, kCasts);
}

// Whether a call of aten::_to_copy may be autocast's.
bool IsAutocast(const Config& config) {
  return std::any_of(config.kwargs.begin(), config.kwargs.end(), [](const auto& argument) {
    return argument.first == "dtype" && (argument.second.text == "bfloat16" || argument.second.text == "float16");
  });
}

void Collect(const Value& value, std::vector<const Value*>* tensors) {
  if (value.tag == ValueTag::kTensor) return tensors->push_back(&value);
  for (const Value& item : value.items) Collect(item, tensors);
}

std::vector<const Value*> TensorsIn(const Config& config) {
  std::vector<const Value*> tensors;
  for (const Value& value : config.args) Collect(value, &tensors);
  for (const auto& [name, value] : config.kwargs) Collect(value, &tensors);
  return tensors;
}

// In what two calls of one API differ.
std::vector<std::string> DifferingParts(const Config& a, const Config& b) {
  const std::vector<const Value*> a_tensors = TensorsIn(a), b_tensors = TensorsIn(b);
  std::vector<std::string> parts;
  if (a_tensors.size() != b_tensors.size()) return {"arguments"};
  const auto differ = [&](const auto& part) {
    for (size_t i = 0; i < a_tensors.size(); ++i) {
      if (part(*a_tensors[i]) != part(*b_tensors[i])) return true;
    }
    return false;
  };
  if (differ([](const Value& tensor) { return tensor.shape; })) parts.emplace_back("shape");
  if (differ([](const Value& tensor) { return tensor.text; })) parts.emplace_back("dtype");
  if (differ([](const Value& tensor) { return tensor.device; })) parts.emplace_back("device");
  if (parts.empty() && differ([](const Value& tensor) { return std::pair(tensor.strides, tensor.layout); })) {
    parts.emplace_back("layout");
  }
  if (parts.empty()) parts.emplace_back("arguments");
  return parts;
}

uint64_t Mix(uint64_t hash, uint64_t more) { return (hash ^ more) * 0x9E3779B97F4A7C15u + (hash >> 29) + 1; }

// Of a run whose end isn't known: up to where it is most alike. `cost(i, j)`: of replacing.
template <typename Cost>
size_t BestEnd(size_t again, size_t forward, const Cost& cost) {
  const size_t band = std::max<size_t>(kBand, again > forward ? again - forward : 0);
  constexpr uint32_t kFar = UINT32_MAX / 2;
  std::vector<uint32_t> row(forward + 1, kFar), next(forward + 1);
  for (size_t j = 0; j <= std::min(forward, band); ++j) row[j] = static_cast<uint32_t>(j);
  for (size_t i = 1; i <= again; ++i) {
    const size_t from = i > band ? i - band : 0, to = std::min(forward, i + band);
    std::fill(next.begin(), next.end(), kFar);
    for (size_t j = from; j <= to; ++j) {
      uint32_t best = row[j] + 1;
      if (j > 0) best = std::min({best, next[j - 1] + 1, row[j - 1] + cost(i - 1, j - 1)});
      next[j] = best;
    }
    std::swap(row, next);
  }
  size_t end = 0;
  for (size_t j = 0; j <= forward; ++j) {
    if (row[j] <= row[end]) end = j;
  }
  return end;
}

}  // namespace

Recomputations::Recomputations(const Trace* trace, const DiffScope* scope) : trace_(*trace), scope_(*scope) {
  bool stacks = true, functions = false, modules = false;
  for (const ProcessInfo& process : trace->processes()) {
    const ProcessMetadata& known = process.known;
    if (process.calls == 0) continue;
    const auto has = [&](int level) {
      return std::find(known.levels.begin(), known.levels.end(), level) != known.levels.end();
    };
    stacks = stacks && known.stacks == "all";
    functions = functions || has(kFunctionLevel);
    modules = modules || has(kFrameLevel);
  }
  mark_ = stacks && !trace->processes().empty() ? CheckpointMark::kStacks
          : functions                           ? CheckpointMark::kGradMode
          : modules                             ? CheckpointMark::kModules
                                                : CheckpointMark::kNone;
}

const Recomputations::ConfigFacts& Recomputations::FactsOf(ConfigId config) {
  if (config >= facts_.size()) facts_.resize(config + config / 2 + 16);
  ConfigFacts& facts = facts_[config];
  if (facts.meaning != kUnread) return facts;
  const std::string_view identity = trace_.identity(config);
  const ConfigHead head = ReadConfigHead(identity);
  facts.api = apis_.try_emplace(std::string(head.api), static_cast<uint32_t>(apis_.size())).first->second;
  facts.left_out = !scope_.Accepts(head);
  facts.memory = MemoryEffectsOf(ReadableConfig(identity));
  facts.meaning = kNothing;
  if (head.level == kFrameLevel) {
    if (!ModuleLabelOf(identity).empty()) facts.meaning = kModule;
  } else if (head.level == kDispatchLevel) {
    facts.meaning = IsOneOf(head.api, kPassedCalls) ? kPassed : kCompared;
  } else if (head.level == kFunctionLevel) {
    facts.meaning = kCompared;
    if (head.api == "torch._C._set_grad_enabled") {
      const Config whole = ReadableConfig(identity);
      facts.meaning = whole.args.size() == 1 && whole.args[0].tag == ValueTag::kTrue ? kGradOn : kGradOff;
    } else if (RunsBackward(head.api)) {
      facts.meaning = kBackward;
    } else if (head.api.ends_with(".__get__") || IsOneOf(head.api, kPassedCalls)) {
      facts.meaning = kPassed;
    }
  }
  return facts;
}

// Code of the library within a frame of checkpoint.py that runs nothing of the program.
bool PreparesRun(const StackCode& code) {
  for (const std::string_view file :
       {"torch/utils/checkpoint.py", "torch/random.py", "torch/utils/_contextlib.py", "torch/autograd/__init__.py",
        "torch/autograd/grad_mode.py", "torch/autograd/graph.py", "torch/amp/autocast_mode.py", "contextlib.py"}) {
    if (code.file.ends_with(file)) return true;
  }
  return false;
}

const Recomputations::Frames& Recomputations::FramesOf(StackId stack) {
  if (const auto known = frames_.find(stack); known != frames_.end()) return known->second;
  const StackTable& stacks = trace_.stacks();
  Frames frames;
  StackId nothing = kNoStack;
  const StackCode* inner = nullptr;
  for (StackId at = stack; at != kNoStack; at = stacks.place(at).caller) {
    const StackCode& code = stacks.code(stacks.place(at).code);
    const std::string_view name = code.function;
    // Of PyTorch, and of libraries that have their own.
    if (name.ends_with("recompute_fn")) {
      (inner == nullptr ? frames.again_itself : PreparesRun(*inner) ? nothing : frames.again) = at;
      frames.early_stop = true;
      break;
    }
    if (name == "CheckpointFunction.backward") {
      (inner == nullptr ? frames.again_itself : PreparesRun(*inner) ? nothing : frames.again) = at;
      break;
    }
    if (name == "_CachedTorchDispatchMode.__torch_dispatch__") frames.keeps = true;
    const bool runs = name == "CheckpointFunction.forward" ||
                      (name == "checkpoint" && code.file.ends_with("torch/utils/checkpoint.py"));
    if (runs && (inner == nullptr || !PreparesRun(*inner))) frames.forward.push_back(at);
    inner = &code;
  }
  return frames_.emplace(stack, frames).first->second;
}

Recomputations::Thread& Recomputations::ThreadOf(const CallRecord& record) {
  const auto [at, fresh] = threads_.try_emplace({record.process, record.thread});
  Thread& thread = at->second;
  if (fresh) {
    thread.process = record.process;
    thread.number = record.thread;
    const ThreadInfo* const info = FindThread(trace_.processes()[record.process], record.thread);
    thread.of_autograd = info != nullptr && info->name.starts_with("pt_autograd");
  }
  return thread;
}

void Recomputations::Take(const CallRecord& record) {
  if (record.thread == kNoThread || record.config == kLostId) return;
  Thread& thread = ThreadOf(record);
  if (record.kind == CallRecord::kEnter) return Enter(record, &thread);
  std::vector<OpenStep>& open = thread.open;
  while (!open.empty() && open.back().call > record.call) open.pop_back();
  if (open.empty() || open.back().call != record.call) return;
  const OpenStep ended = std::move(open.back());
  open.pop_back();
  if (ended.step != UINT64_MAX && ended.step >= thread.dropped) {
    Step& step = thread.At(ended.step);
    step.end = thread.next();
    step.stopped = record.kind == CallRecord::kRaise && record.exception.ends_with(kStop);
    TakeNumbers(record, ended, &step);
  }
  std::optional<Region>& region = thread.region;
  if (!region.has_value()) return;
  const bool of_module = mark_ == CheckpointMark::kModules && ended.step == region->first;
  if (of_module || ended.depth < region->depth) Finish(&thread, region->end.value_or(thread.next()));
}

void Recomputations::Enter(const CallRecord& record, Thread* thread) {
  // Calls at this depth and deeper have ended; their ends are missing.
  while (!thread->open.empty() && thread->open.back().depth >= record.depth) thread->open.pop_back();
  const ConfigFacts& facts = FactsOf(record.config);
  const Meaning meaning = facts.meaning;
  switch (mark_) {
    case CheckpointMark::kStacks:
      MarkByStack(record, meaning, thread);
      break;
    case CheckpointMark::kGradMode:
      MarkByGradMode(record, meaning, thread);
      break;
    case CheckpointMark::kModules:
      MarkByModule(record, meaning, thread);
      break;
    case CheckpointMark::kNone:
      break;
  }
  OpenStep open = {record.call, UINT64_MAX, record.depth, meaning, record.config};
  if (meaning != kNothing) {
    Step step;
    step.call = record.call;
    step.config = record.config;
    step.stack = record.stack;
    step.depth = record.depth;
    step.level = record.level;
    if (meaning == kModule) step.module = record.config;
    for (auto at = thread->open.rbegin(); at != thread->open.rend(); ++at) {
      if (at->meaning == kModule && step.module == kLostId) step.module = at->config;
      if (at->meaning == kCompared && at->step != UINT64_MAX && step.parent == UINT64_MAX &&
          at->step >= thread->dropped && thread->At(at->step).level == kFunctionLevel) {
        step.parent = at->step;
      }
    }
    if (!record.notes.empty()) {
      for (const TensorNote& note : ReadTensorNotes(record.notes)) {
        if (note.identity.has_value() && note.identity->storage != 0) {
          step.storages = Mix(step.storages, note.identity->storage);
          open.storages.push_back(note.identity->storage);
        }
      }
    }
    open.step = thread->next();
    thread->steps.push_back(step);
    while (thread->steps.size() > kMaxSteps) {
      thread->steps.pop_front();
      ++thread->dropped;
    }
  }
  thread->open.push_back(std::move(open));
}

void Recomputations::TakeNumbers(const CallRecord& record, const OpenStep& ended, Step* step) {
  const MemoryEffects& memory = FactsOf(ended.config).memory;
  // Contents are recorded of memory that nothing has written, too; what a view shows is its base's.
  const auto says_nothing = [&](const TensorNote& note) {
    if (note.numbers.has_value() || memory.allocates) return !note.numbers.has_value();
    if (!note.contents.has_value()) return true;
    return !memory.writes && note.identity.has_value() &&
           std::find(ended.storages.begin(), ended.storages.end(), note.identity->storage) != ended.storages.end();
  };
  bool first = true;
  for (const std::string_view notes : {record.result.notes, record.result.written}) {
    if (notes.empty()) continue;
    for (const TensorNote& note : ReadTensorNotes(notes)) {
      if (says_nothing(note)) continue;
      if (first) step->norm = note.numbers.has_value() ? note.numbers->norm : std::numeric_limits<double>::quiet_NaN();
      first = false;
      step->fingerprint =
          Mix(step->fingerprint, note.numbers.has_value() ? note.numbers->fingerprint
                                                          : Hash64(note.contents->data(), note.contents->size()));
      if (step->fingerprint == 0) step->fingerprint = 1;
    }
  }
}

void Recomputations::MarkByStack(const CallRecord& record, Meaning meaning, Thread* thread) {
  StackId frame = kNoStack;
  if (record.stack != kNoStack) {
    const Frames& frames = FramesOf(record.stack);
    frame =
        frames.again == kNoStack && (meaning == kCompared || meaning == kModule) ? frames.again_itself : frames.again;
    // Of the function's frame there are different lines.
    if (frame != kNoStack) frame = trace_.stacks().place(frame).caller;
  }
  std::optional<Region>& region = thread->region;
  if (region.has_value() && region->frame == frame) return;
  // A call without a stack has the one around it.
  if (region.has_value() && record.stack == kNoStack && record.depth > region->depth) return;
  if (region.has_value()) Finish(thread, thread->next());
  if (frame != kNoStack) region = {.first = thread->next(), .depth = record.depth, .end = {}, .frame = frame};
}

void Recomputations::MarkByGradMode(const CallRecord& record, Meaning meaning, Thread* thread) {
  std::optional<Region>& region = thread->region;
  if (region.has_value() && record.depth < region->depth) Finish(thread, region->end.value_or(thread->next()));
  if (!region.has_value()) {
    const bool in_backward =
        thread->of_autograd || std::any_of(thread->open.begin(), thread->open.end(),
                                           [](const OpenStep& open) { return open.meaning == kBackward; });
    if (meaning == kGradOn && in_backward) {
      region = {.first = thread->next(), .depth = record.depth, .end = {}};
    }
    return;
  }
  if (record.depth != region->depth) return;
  if (!region->end.has_value()) {
    // Its end, or that of a part that runs without gradients.
    if (meaning == kGradOff) region->end = thread->next();
    return;
  }
  const bool of_backward = record.level == kDispatchLevel || meaning == kBackward || meaning == kGradOn;
  if (!of_backward) {
    // The end of a nested forward run comes before this one's.
    if (meaning != kNothing && meaning != kPassed && meaning != kGradOff) region->end.reset();
    return;
  }
  Finish(thread, *region->end);
  if (meaning == kGradOn) region = {.first = thread->next(), .depth = record.depth, .end = {}};
}

void Recomputations::MarkByModule(const CallRecord& record, Meaning meaning, Thread* thread) {
  std::optional<Region>& region = thread->region;
  if (region.has_value() && record.depth < region->depth) Finish(thread, thread->next());
  if (meaning != kModule || region.has_value()) return;
  const bool within = std::any_of(thread->open.begin(), thread->open.end(),
                                  [](const OpenStep& open) { return open.meaning == kModule; });
  if (within) {
    ran_within_[record.config] = true;
    return;
  }
  if (!ran_within_.contains(record.config)) return;
  region = {.first = thread->next(), .depth = record.depth, .end = {}, .module = record.config};
}

void Recomputations::End() {
  for (auto& [key, thread] : threads_) {
    if (thread.region.has_value()) Finish(&thread, thread.region->end.value_or(thread.next()));
  }
}

std::vector<uint64_t> Recomputations::ComparedSteps(const Thread& thread, uint64_t first, uint64_t end) {
  std::vector<uint64_t> steps;
  for (uint64_t step = std::max(first, thread.dropped); step < std::min(end, thread.next()); ++step) {
    const ConfigFacts& facts = FactsOf(thread.At(step).config);
    if ((facts.meaning == kCompared || facts.meaning == kBackward) && !facts.left_out) steps.push_back(step);
  }
  return steps;
}

// Which part of the first calls is also among those from a step on, before another one: the mean of in any order, which
// long insertions don't change, and in order, which a start in the middle of the run does. 0: too few.
double Recomputations::Likeness(const Thread& thread, uint64_t at, uint64_t end, const Thread& other,
                                const std::vector<uint64_t>& again) {
  const size_t wanted = std::min(again.size(), kLikenessCalls);
  absl::flat_hash_map<uint32_t, size_t> counts;  // by API
  for (size_t i = 0; i < wanted; ++i) ++counts[FactsOf(other.At(again[i]).config).api];
  size_t alike = 0, in_order = 0, looked_at = 0, next = 0;
  for (uint64_t step = at; step < end && looked_at < wanted + wanted / 8 + 8; ++step) {
    const ConfigFacts& facts = FactsOf(thread.At(step).config);
    if (facts.meaning != kCompared || facts.left_out) continue;
    ++looked_at;
    effort_ -= std::min<uint64_t>(effort_, 1);
    for (size_t i = next; i < std::min(wanted, next + kOrderWindow); ++i) {
      if (FactsOf(other.At(again[i]).config).api != facts.api) continue;
      ++in_order;
      next = i + 1;
      break;
    }
    const auto found = counts.find(facts.api);
    if (found == counts.end() || found->second == 0) continue;
    --found->second;
    ++alike;
  }
  if (static_cast<double>(alike) < kLeastLikeness * static_cast<double>(wanted)) return 0;
  return static_cast<double>(alike + in_order) / static_cast<double>(2 * wanted);
}

std::optional<Recomputations::Run> Recomputations::FindForward(Thread* thread, const Region& region,
                                                               const std::vector<uint64_t>& again, bool by_module) {
  // Where the region is a module, its run begins and ends as that does.
  ConfigId root = kLostId;
  uint64_t root_step = 0;
  for (uint64_t step = region.first; step <= again.front(); ++step) {
    if (!by_module || FactsOf(thread->At(step).config).meaning != kModule) continue;
    root = thread->At(step).config;
    root_step = step;
    break;
  }
  if (root != kLostId && thread->At(root_step).end < again.back()) root = kLostId;
  const uint64_t anchor = root == kLostId ? again.front() : root_step;
  const Step& wanted = thread->At(anchor);
  const uint32_t wanted_api = FactsOf(wanted.config).api;
  const Step& first_call = thread->At(again.front());
  const StackTable& stacks = trace_.stacks();
  const auto same_line = [&](const Step& step) {
    if (step.stack == kNoStack || wanted.stack == kNoStack) return true;
    if (FramesOf(wanted.stack).again_itself != kNoStack) return true;
    const StackPlace& a = stacks.place(step.stack);
    const StackPlace& b = stacks.place(wanted.stack);
    return a.code == b.code && a.line == b.line;
  };

  // Calls of checkpoint within the region, around its first call.
  const size_t nested = wanted.stack == kNoStack ? 0 : FramesOf(wanted.stack).forward.size();

  struct Candidate {
    Thread* thread = nullptr;
    uint64_t step = 0;
    int quality = -1;
    double likeness = 0;
  };
  Candidate best;
  size_t tried = 0;
  const auto look_in = [&](Thread* in, uint64_t before) {
    uint64_t least = in->dropped;
    bool great = false;
    for (uint64_t step = before; step-- > least && tried < kMaxForwardCandidates && effort_ > 0;) {
      --effort_;
      const Step& candidate = in->At(step);
      if (root != kLostId ? candidate.config != root : FactsOf(candidate.config).api != wanted_api) continue;
      if (mark_ == CheckpointMark::kStacks &&
          (candidate.stack == kNoStack || FramesOf(candidate.stack).forward.size() <= nested ||
           !same_line(candidate))) {
        continue;
      }
      if (by_module && root == kLostId && first_call.module != candidate.module && first_call.module != kLostId &&
          candidate.module != kLostId) {
        continue;
      }
      ++tried;
      // A module's first call may be one that is compared, or not.
      const std::vector<uint64_t> own = ComparedSteps(*in, step, std::min(in->next(), step + 16));
      if (own.empty()) continue;
      const double likeness = Likeness(*in, step, before, *thread, again);
      if (likeness == 0 && root == kLostId) continue;
      const uint64_t storages = first_call.storages;
      const uint64_t its = in->At(own.front()).storages;
      // Each run is recomputed once, or as a part of another region too.
      int uses = 0;
      for (const Used& each : in->used) {
        if (step >= each.first && step < each.end) uses += each.again ? 2 : 1;
      }
      const bool same_storages = storages != 0 && storages == its;
      const int quality = (same_storages ? 1 << 20 : 1 << 10) - std::min(uses, 1000);
      if (quality > best.quality || (quality == best.quality && likeness > best.likeness + kMoreAlike)) {
        best = {in, step, quality, likeness};
      }
      if (!great && uses == 0 && (same_storages || storages == 0) && likeness >= kGreatLikeness) {
        // It may be in the middle of the run, and what follows the beginning of the next one.
        great = true;
        least = std::max(least, step - std::min(step, again.back() - again.front() + 1));
      }
    }
    return great;
  };
  bool sure = look_in(thread, region.first);
  if (!sure) {
    for (auto& [key, other] : threads_) {
      if (sure || key.first != thread->process || &other == thread) continue;
      sure = look_in(&other, other.next());
    }
  }
  if (best.quality < 0) return std::nullopt;

  Run run;
  run.thread = best.thread;
  Thread& in = *best.thread;
  const uint64_t limit = best.thread == thread ? region.first : in.next();
  uint64_t end = limit;
  const Step& start = in.At(best.step);
  if (root != kLostId) {
    run.whole = start.end != UINT64_MAX && start.end <= limit;
    if (run.whole) end = start.end;
  } else if (mark_ == CheckpointMark::kStacks) {
    // Up to the first call outside of that call of checkpoint.
    const StackId frame = FramesOf(start.stack).forward[nested];
    for (end = best.step; end < limit; ++end) {
      const Step& step = in.At(end);
      if (step.stack == kNoStack) continue;
      const std::vector<StackId>& frames = FramesOf(step.stack).forward;
      if (std::find(frames.begin(), frames.end(), frame) == frames.end()) break;
    }
    run.whole = false;
  }
  end = std::min(end, best.step + 8 * again.size() + 64 * kBand);
  run.steps = ComparedSteps(in, best.step, end);
  if (!run.whole) {
    // Not more than the band can hold.
    run.steps.resize(std::min(run.steps.size(), again.size() + kBand));
    const auto same = [&](size_t i, size_t j) { return thread->At(again[i]).config == in.At(run.steps[j]).config; };
    size_t length = std::min(again.size(), run.steps.size());
    bool exact = length == again.size();
    for (size_t i = 0; exact && i < length; ++i) exact = same(i, i);
    if (!exact) {
      length = BestEnd(again.size(), run.steps.size(), [&](size_t i, size_t j) -> uint32_t {
        if (same(i, j)) return 0;
        return FactsOf(thread->At(again[i]).config).api == FactsOf(in.At(run.steps[j]).config).api ? 1 : 2;
      });
    }
    run.steps.resize(length);
  }
  if (run.steps.empty()) return std::nullopt;
  in.used.push_back({best.step, run.steps.back() + 1, false});
  if (in.used.size() > kMaxUsed) in.used.erase(in.used.begin(), in.used.begin() + kMaxUsed / 2);
  return run;
}

void Recomputations::Finish(Thread* thread, uint64_t end) {
  const Region region = *thread->region;
  thread->region.reset();
  if (region.first < thread->dropped) return;
  Run again = {thread, ComparedSteps(*thread, region.first, end), false};
  if (again.steps.empty()) return;
  ++found_;
  std::optional<Run> forward = FindForward(thread, region, again.steps, true);
  // A model that is gone is no longer a part of its modules' paths.
  if (!forward.has_value()) forward = FindForward(thread, region, again.steps, false);
  thread->used.push_back({region.first, again.steps.back() + 1, true});
  if (!forward.has_value()) {
    ++without_forward_;
    return;
  }
  bool stopped = false, keeps = false;
  for (uint64_t step = region.first; step < std::min(end, thread->next()); ++step) {
    const Step& each = thread->At(step);
    stopped = stopped || each.stopped;
    if (mark_ == CheckpointMark::kStacks && each.stack != kNoStack) {
      const Frames& frames = FramesOf(each.stack);
      // What stopped it is seen at other levels alone.
      stopped = stopped || (frames.early_stop && each.level == kDispatchLevel && each.parent == UINT64_MAX);
      keeps = keeps || frames.keeps;
    }
  }
  Recomputation result;
  result.process = thread->process;
  result.thread = thread->number;
  const Step& first = thread->At(region.first);
  result.module = first.module != kLostId ? first.module : thread->At(again.steps.front()).module;
  result.stack = thread->At(again.steps.front()).stack;
  result.again_first = thread->At(again.steps.front()).call;
  result.again_last = thread->At(again.steps.back()).call;
  result.forward_first = forward->thread->At(forward->steps.front()).call;
  result.forward_last = forward->thread->At(forward->steps.back()).call;
  Compare(*thread, again, *forward, stopped, keeps, &result);
  calls_ += result.calls;
  numbers_ += result.numbers;
  kept_ += result.kept;
  if (result.difference_count == 0) return;
  ++different_count_;
  if (differing_.size() < kMaxRegions) differing_.push_back(std::move(result));
}

void Recomputations::Compare(const Thread& again_thread, const Run& again, const Run& forward, bool stopped, bool keeps,
                             Recomputation* result) {
  // Symbols of the configs, and of their APIs, of both runs.
  absl::flat_hash_map<ConfigId, uint32_t> symbols;
  std::vector<uint32_t> groups;
  const auto symbols_of = [&](const Thread& thread, const std::vector<uint64_t>& steps) {
    std::vector<uint32_t> of;
    of.reserve(steps.size());
    for (const uint64_t step : steps) {
      const ConfigId config = thread.At(step).config;
      const auto [at, fresh] = symbols.try_emplace(config, static_cast<uint32_t>(groups.size()));
      if (fresh) groups.push_back(FactsOf(config).api);
      of.push_back(at->second);
    }
    return of;
  };
  const std::vector<uint32_t> a = symbols_of(*forward.thread, forward.steps);
  const std::vector<uint32_t> b = symbols_of(again_thread, again.steps);
  AlignEffort effort;
  const RunList runs = PairChanged(Align(a, b, groups.size(), &effort), a, b, groups, apis_.size(), &effort);

  // Pairs of steps; one is missing.
  struct Edit {
    RunKind kind;
    const Step* forward;
    const Step* again;
  };
  std::vector<Edit> edits;
  std::map<const Step*, const Step*> partner;  // of a call of the recomputation, in the forward run
  size_t i = 0, j = 0;
  for (size_t run = 0; run < runs.size(); ++run) {
    for (uint32_t n = 0; n < runs[run].count; ++n) {
      Edit edit = {runs[run].kind, nullptr, nullptr};
      if (edit.kind != RunKind::kAdded) edit.forward = &forward.thread->At(forward.steps[i++]);
      if (edit.kind != RunKind::kRemoved) edit.again = &again_thread.At(again.steps[j++]);
      edits.push_back(edit);
    }
  }
  // A recomputation that has all it needs stops. If the end of the forward run isn't known, what follows in it isn't
  // missing.
  if (stopped || !forward.whole) {
    auto from = edits.end();
    while (from != edits.begin() &&
           (std::prev(from)->kind == RunKind::kRemoved || std::prev(from)->kind == RunKind::kAdded)) {
      --from;
    }
    edits.erase(std::remove_if(from, edits.end(), [](const Edit& edit) { return edit.kind == RunKind::kRemoved; }),
                edits.end());
  }
  const auto parent_of = [](const Thread& thread, const Step& step) {
    return step.parent == UINT64_MAX || step.parent < thread.dropped ? nullptr : &thread.At(step.parent);
  };
  const auto is_operator = [](const Step* step) { return step != nullptr && step->level == kDispatchLevel; };
  // Calls of functions with operators that only the recomputation called, or that it called otherwise.
  std::map<const Step*, bool> otherwise;
  for (const Edit& edit : edits) {
    if (edit.kind == RunKind::kSame || !is_operator(edit.again)) continue;
    const std::string_view api = ReadConfigHead(trace_.identity(edit.again->config)).api;
    if (edit.kind == RunKind::kAdded && api == "aten::_to_copy") continue;
    if (const Step* const parent = parent_of(again_thread, *edit.again)) otherwise[parent] = true;
  }
  for (const Edit& edit : edits) {
    if (edit.kind == RunKind::kSame && edit.again->level == kFunctionLevel) partner[edit.forward] = edit.again;
  }

  for (const Edit& edit : edits) {
    const Step* const only = edit.forward == nullptr ? edit.again : edit.forward;
    const std::string_view api = ReadConfigHead(trace_.identity(only->config)).api;
    CheckpointDifference difference;
    switch (edit.kind) {
      case RunKind::kSame:
        ++result->calls;
        if (edit.forward->fingerprint == 0 || edit.again->fingerprint == 0) continue;
        ++result->numbers;
        if (edit.forward->fingerprint == edit.again->fingerprint) continue;
        difference.fields = {"numbers"};
        break;
      case RunKind::kChanged:
        ++result->calls;
        difference.fields = DifferingParts(ReadableConfig(trace_.identity(edit.forward->config)),
                                           ReadableConfig(trace_.identity(edit.again->config)));
        break;
      case RunKind::kRemoved:
      case RunKind::kAdded: {
        const bool added = edit.kind == RunKind::kAdded;
        const Step* const parent = parent_of(added ? again_thread : *forward.thread, *only);
        // Autocast remembers casts of parameters for as long as it is on.
        if (is_operator(only) && api == "aten::_to_copy" &&
            (parent == nullptr ? IsAutocast(ReadableConfig(trace_.identity(only->config)))
                               : !IsCast(ReadConfigHead(trace_.identity(parent->config)).api))) {
          continue;
        }
        // Selective checkpoints keep results of operators.
        if (is_operator(only) && !added) {
          const auto same = parent == nullptr ? partner.end() : partner.find(parent);
          if (keeps || (same != partner.end() && !otherwise.contains(same->second))) {
            ++result->kept;
            continue;
          }
        }
        difference.fields = {added ? "extra" : "missing"};
        break;
      }
    }
    ++result->difference_count;
    if (result->differences.size() >= kMaxDifferences) continue;
    if (edit.forward != nullptr) difference.forward = *edit.forward;
    if (edit.again != nullptr) difference.again = *edit.again;
    result->differences.push_back(std::move(difference));
  }
}

}  // namespace torchtrace
