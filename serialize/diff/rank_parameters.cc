#include "serialize/diff/rank_parameters.h"

#include <algorithm>
#include <deque>
#include <string_view>

#include "serialize/forms/call_labels.h"
#include "serialize/forms/forms.h"
#include "serialize/model/levels.h"
#include "serialize/numbers/later_notes_reader.h"
#include "serialize/numbers/tensor_numbers.h"
#include "serialize/trace/training_calls.h"

namespace torchtrace {
namespace {

// Bounds of what damaged traces may ask for.
constexpr size_t kMaxScopes = 1024;
constexpr size_t kMaxReductions = size_t{1} << 16;
// Parameters of two ranks that are matched if ranks haven't the same ones: the product of their numbers.
constexpr size_t kMaxMatched = size_t{1} << 22;

constexpr std::string_view kDistributedScope = "DistributedDataParallel.forward";
constexpr std::string_view kDistributedModule = "DistributedDataParallel";

bool HasTextThatBegins(const Config& config, std::string_view with) {
  return std::any_of(config.args.begin(), config.args.end(), [with](const Value& value) {
    return value.tag == ValueTag::kString && value.text.starts_with(with);
  });
}

uint64_t AddToHash(uint64_t hash, uint64_t more) { return (hash ^ more) * 0x9E3779B97F4A7C15u + (hash >> 29) + 1; }

int64_t ElementsOf(const Value& tensor) {
  int64_t elements = 1;
  for (const Dim& size : tensor.shape) {
    if (!size.has_value() || __builtin_mul_overflow(elements, *size, &elements)) return -1;
  }
  return elements;
}

}  // namespace

// ---- steps ----

OptimizerSteps::Role OptimizerSteps::RoleOf(ConfigId config) {
  if (config == kLostId) return kNone;
  if (config >= roles_.size()) roles_.resize(config + config / 2 + 16, kUnread);
  if (roles_[config] != kUnread) return static_cast<Role>(roles_[config]);
  const std::string_view identity = trace_.identity(config);
  const std::string_view api = ReadConfigHead(identity).api;
  Role role = kNone;
  if (api.find("_record_function_enter") != std::string_view::npos) {
    const Config read = ReadableConfig(identity);
    role = HasTextThatBegins(read, kOptimizerStepScope) ? kStep
           : HasTextThatBegins(read, kDistributedScope) ? kDistributedForward
                                                        : kScope;
  } else if (api.find("_record_function_exit") != std::string_view::npos) {
    role = kScopeEnd;
  } else if (api.find(kDistributedModule) != std::string_view::npos && !ModuleLabelOf(identity).empty()) {
    role = kDistributedForward;
  }
  roles_[config] = role;
  return role;
}

const Value* OptimizerSteps::TensorAt(ConfigId config, uint64_t position) {
  if (config == kLostId) return nullptr;
  if (config >= arguments_.size()) arguments_.resize(config + config / 2 + 16);
  std::unique_ptr<Arguments>& arguments = arguments_[config];
  if (arguments == nullptr) {
    arguments = std::make_unique<Arguments>();
    arguments->config = ReadableConfig(trace_.identity(config));
    arguments->tensors = TensorsOf(arguments->config);
  }
  return position < arguments->tensors.size() ? arguments->tensors[position] : nullptr;
}

const std::vector<uint64_t>& OptimizerSteps::ParametersOf(VariantId variant) {
  static const std::vector<uint64_t>& none = *new std::vector<uint64_t>;
  if (variant == kLostId) return none;
  if (variant >= parameters_.size()) parameters_.resize(variant + variant / 2 + 16);
  std::optional<std::vector<uint64_t>>& positions = parameters_[variant];
  if (!positions.has_value()) {
    positions.emplace();
    for (const TensorFacet& facet : ReadableFacets(trace_.facets(variant))) {
      if (facet.requires_grad || facet.subclass.ends_with(".Parameter")) positions->push_back(facet.tensor);
    }
  }
  return *positions;
}

void OptimizerSteps::Take(const CallRecord& record) {
  if (record.thread == kNoThread) return;
  Thread& thread = threads_.Of(record);
  if (record.kind == CallRecord::kEnter) return Enter(record, &thread);
  if (thread.scope_call.call == record.call) thread.scope_call = {};
  if (thread.steps == 0) return;
  while (!thread.open.empty() && thread.open.back().call > record.call) thread.open.pop_back();
  if (thread.open.empty() || thread.open.back().call != record.call) return;
  TakeResults(record, thread.open.back(), &thread);
  thread.open.pop_back();
}

void OptimizerSteps::Enter(const CallRecord& record, Thread* thread) {
  if (thread->scope_call.call != kNoCall && record.depth <= thread->scope_call.depth) thread->scope_call = {};
  const Role role = RoleOf(record.config);
  const std::string_view api = role < kStep ? "" : ReadConfigHead(trace_.identity(record.config)).api;
  const bool is_scope = api.find("_record_function_") != std::string_view::npos;
  // The operator of level 2 is a part of the function of level 1.
  if (is_scope && thread->scope_call.call == kNoCall) {
    thread->scope_call.call = record.call;
    thread->scope_call.depth = record.depth;
    if (role != kScopeEnd) {
      if (thread->scopes.size() < kMaxScopes) {
        thread->scopes.push_back(role == kStep);
        if (role == kStep && ++thread->steps == 1) thread->open.clear();
      }
    } else if (!thread->scopes.empty()) {
      const bool step = thread->scopes.back();
      thread->scopes.pop_back();
      if (step && --thread->steps == 0) EndStep(record.process, thread);
    }
    return;
  }
  if (thread->steps == 0) return;
  while (!thread->open.empty() && thread->open.back().depth >= record.depth) thread->open.pop_back();
  thread->open.push_back(
      {record.call, record.depth, record.config, record.variant, record.stack, std::string(record.notes)});
  if (!record.notes.empty()) TakeArguments(record, thread);
}

void OptimizerSteps::TakeArguments(const CallRecord& record, Thread* thread) {
  const std::vector<uint64_t>& parameters = ParametersOf(record.variant);
  if (parameters.empty()) return;
  ReadTensorNotes(record.notes, &notes_);
  for (const uint64_t position : parameters) {
    const TensorNote* const note = FindNote(notes_, position);
    if (note == nullptr || !note->identity) continue;
    const std::optional<TensorNote::Numbers> numbers = NumbersOfNote(*note, TensorAt(record.config, position));
    if (numbers.has_value() && !thread->numbers.contains(note->identity->tensor)) {
      thread->before.try_emplace(note->identity->tensor, numbers->fingerprint);
    }
  }
}

void OptimizerSteps::TakeResults(const CallRecord& record, const OpenCall& call, Thread* thread) {
  const std::vector<uint64_t>& parameters = ParametersOf(call.variant);
  if (parameters.empty() || call.notes.empty()) return;
  ReadTensorNotes(call.notes, &notes_);
  for (const std::string_view text : {record.result.notes, record.result.written}) {
    if (text.empty()) continue;
    ReadTensorNotes(text, &results_);
    for (const TensorNote& result : results_) {
      if (!result.identity) continue;
      const auto position = std::find_if(parameters.begin(), parameters.end(), [&](uint64_t each) {
        const TensorNote* const argument = FindNote(notes_, each);
        return argument != nullptr && argument->identity && argument->identity->tensor == result.identity->tensor;
      });
      if (position == parameters.end()) continue;
      const std::optional<TensorNote::Numbers> after = NumbersOfNote(result, TensorAt(call.config, *position));
      if (!after.has_value()) continue;
      const uint64_t tensor = result.identity->tensor;
      const auto [number, fresh] = thread->numbers.try_emplace(tensor, thread->updates.size());
      if (fresh) thread->updates.emplace_back();
      ParameterUpdate& update = thread->updates[number->second];
      update.tensor = tensor;
      update.call = call.call;
      update.config = call.config;
      update.position = *position;
      update.stack = call.stack;
      update.time_ns = record.time_ns;
      update.after = *after;
    }
  }
}

void OptimizerSteps::EndStep(uint32_t process, Thread* thread) {
  const uint64_t step = steps_[process]++;
  for (ParameterUpdate& update : thread->updates) {
    update.step = step;
    const auto before = thread->before.find(update.tensor);
    if (before != thread->before.end()) update.before = before->second;
  }
  visitor_(process, thread->updates);
  thread->before.clear();
  thread->numbers.clear();
  thread->updates.clear();
  thread->open.clear();
}

// ---- the first reading ----

RankParameters::RankParameters(Trace* trace, RankCalls* calls)
    : trace_(trace),
      calls_(calls),
      steps_(trace,
             [this](uint32_t process, const std::vector<ParameterUpdate>& updates) { TakeStep(process, updates); }) {}

void RankParameters::Take(const CallRecord& record) {
  steps_.Take(record);
  if (record.kind != CallRecord::kEnter || record.config == kLostId) return;
  if (steps_.BeginsDistributedForward(record.config)) processes_[record.process].distributed = true;
  const uint32_t number = calls_->TraitsOf(record.config);
  if (number == 0) return;
  const CollectiveTraits& traits = calls_->traits(number);
  if (!traits.operation.starts_with("all_reduce")) return;
  Process& process = processes_[record.process];
  if (traits.group != kDefaultGroup) process.reduces_in_groups = true;
  if (traits.dtypes.find("float") == std::string::npos || traits.elements < 0) return;
  std::vector<int64_t>& reduced = process.reduced[{traits.group, traits.is_operator}];
  if (reduced.size() < kMaxReductions) reduced.push_back(traits.elements);
}

void RankParameters::TakeStep(uint32_t number, const std::vector<ParameterUpdate>& updates) {
  has_steps_ = true;
  Process& process = processes_[number];
  for (const ParameterUpdate& update : updates) {
    Parameter& parameter = process.parameters[update.tensor];
    if (parameter.updates == 0) {
      parameter.tensor = update.tensor;
      if (const Value* const tensor = steps_.TensorAt(update.config, update.position); tensor != nullptr) {
        Value plain = *tensor;
        // Ranks have devices of their own.
        plain.device = plain.device.substr(0, plain.device.find(':'));
        parameter.text = FormatValue(plain);
        parameter.elements = ElementsOf(plain);
      }
      parameter.first = update.before;
    }
    ++parameter.updates;
    parameter.hash = AddToHash(AddToHash(parameter.hash, update.before.value_or(0)), update.after.fingerprint);
  }
  NoteReductions(updates, &process);
  process.reduced.clear();
}

void RankParameters::NoteReductions(const std::vector<ParameterUpdate>& updates, Process* process) {
  std::vector<int64_t> sizes;
  int64_t total = 0;
  for (const ParameterUpdate& update : updates) {
    const int64_t elements = process->parameters[update.tensor].elements;
    if (elements < 0 || __builtin_add_overflow(total, elements, &total)) return;
    sizes.push_back(elements);
  }
  std::sort(sizes.begin(), sizes.end());
  // A single number may as well be a loss.
  if (total <= 1) return;
  for (auto& [key, reduced] : process->reduced) {
    const std::string& group = key.first;
    std::sort(reduced.begin(), reduced.end());
    int64_t sum = 0, of_scalars = 0;
    for (const int64_t elements : reduced) {
      if (__builtin_add_overflow(sum, elements, &sum)) break;
      if (elements == 1) ++of_scalars;  // losses
    }
    // In buckets, or one by one.
    const bool all = sum == total || sum - of_scalars == total ||
                     std::includes(reduced.begin(), reduced.end(), sizes.begin(), sizes.end());
    if (!all) continue;
    for (const ParameterUpdate& update : updates) {
      std::vector<std::string>& groups = process->parameters[update.tensor].groups;
      if (std::find(groups.begin(), groups.end(), group) == groups.end()) groups.push_back(group);
    }
  }
}

// ---- comparison ----

std::vector<RankParameters::Row> RankParameters::Match(GroupParameters* group) const {
  std::vector<std::vector<const Parameter*>> ranks;
  size_t most = 0;
  for (const auto& [rank, number] : group->ranks) {
    std::vector<const Parameter*>& parameters = ranks.emplace_back();
    const auto process = processes_.find(number);
    if (process == processes_.end()) continue;
    for (const auto& [tensor, parameter] : process->second.parameters) parameters.push_back(&parameter);
    most = std::max(most, parameters.size());
  }
  std::vector<Row> rows;
  for (const Parameter* const parameter : ranks[0]) rows.push_back({rows.size(), {parameter}});
  for (size_t i = 1; i < ranks.size(); ++i) {
    const std::vector<const Parameter*>&a = ranks[0], &b = ranks[i];
    const auto alike = [](const Parameter* x, const Parameter* y) { return x->text == y->text; };
    if (std::equal(a.begin(), a.end(), b.begin(), b.end(), alike)) {
      for (size_t k = 0; k < a.size(); ++k) rows[k].ranks.push_back(b[k]);
      continue;
    }
    std::vector<size_t> partners(a.size(), b.size());
    if (!a.empty() && !b.empty() && b.size() <= kMaxMatched / a.size()) {
      // The common subsequence that has the most parameters of one shape, better with one value.
      const auto worth = [&](size_t x, size_t y) -> uint32_t {
        return !alike(a[x], b[y]) ? 0 : a[x]->first.has_value() && a[x]->first == b[y]->first ? 3 : 2;
      };
      const size_t width = b.size() + 1;
      std::vector<uint32_t> best((a.size() + 1) * width, 0);
      for (size_t x = a.size(); x-- > 0;) {
        for (size_t y = b.size(); y-- > 0;) {
          uint32_t& here = best[x * width + y];
          here = std::max(best[(x + 1) * width + y], best[x * width + y + 1]);
          if (const uint32_t pair = worth(x, y); pair > 0) here = std::max(here, best[(x + 1) * width + y + 1] + pair);
        }
      }
      for (size_t x = 0, y = 0; x < a.size() && y < b.size();) {
        const uint32_t pair = worth(x, y);
        if (pair > 0 && best[x * width + y] == best[(x + 1) * width + y + 1] + pair) {
          partners[x++] = y++;
        } else if (best[x * width + y] == best[(x + 1) * width + y]) {
          ++x;
        } else {
          ++y;
        }
      }
    }
    for (size_t k = 0; k < a.size(); ++k) rows[k].ranks.push_back(partners[k] < b.size() ? b[partners[k]] : nullptr);
  }
  std::erase_if(
      rows, [](const Row& row) { return std::find(row.ranks.begin(), row.ranks.end(), nullptr) != row.ranks.end(); });
  group->only_in_some = most - std::min(most, rows.size());
  return rows;
}

bool RankParameters::SameAtFirst(const Row& row) {
  return std::all_of(row.ranks.begin(), row.ranks.end(), [&](const Parameter* each) {
    return each->first.has_value() && each->first == row.ranks[0]->first;
  });
}

bool RankParameters::IsShared(const Row& row, const GroupParameters& group) const {
  for (const Parameter* const parameter : row.ranks) {
    if (std::find(parameter->groups.begin(), parameter->groups.end(), group.group) != parameter->groups.end()) {
      return true;
    }
  }
  const bool distributed = std::all_of(group.ranks.begin(), group.ranks.end(), [this](const auto& rank) {
    const auto process = processes_.find(rank.second);
    return process != processes_.end() && process->second.distributed && !process->second.reduces_in_groups;
  });
  return group.group == kDefaultGroup && distributed && SameAtFirst(row);
}

absl::Status RankParameters::Compare(bool has_later, std::vector<GroupParameters>* groups) {
  std::vector<std::vector<Row>> rows;  // shared and different, by group
  bool any = false;
  for (GroupParameters& group : *groups) {
    std::vector<Row>& different = rows.emplace_back();
    std::vector<Row> matched = Match(&group);
    group.same_at_first = true;
    group.least_updates = UINT64_MAX;
    for (Row& row : matched) {
      const Parameter& first = *row.ranks[0];
      const bool same = std::all_of(row.ranks.begin(), row.ranks.end(), [&](const Parameter* each) {
        return each->hash == first.hash && each->updates == first.updates;
      });
      if (IsShared(row, group)) {
        ++group.shared;
        for (const Parameter* const each : row.ranks) {
          group.least_updates = std::min(group.least_updates, each->updates);
          group.most_updates = std::max(group.most_updates, each->updates);
        }
        if (!same) different.push_back(std::move(row));
      } else if (!same) {
        ++group.not_shared;
        group.same_at_first = group.same_at_first && SameAtFirst(row);
      } else {
        ++group.same;
      }
    }
    if (group.shared == 0) group.least_updates = 0;
    any = any || !different.empty();
  }
  return any ? FindDifferences(has_later, rows, groups) : absl::OkStatus();
}

absl::Status RankParameters::FindDifferences(bool has_later, const std::vector<std::vector<Row>>& rows,
                                             std::vector<GroupParameters>* groups) {
  // A parameter of a group, until its values differ.
  struct Target {
    std::vector<std::deque<ParameterUpdate>> ahead;  // by rank: what others have not come to
    uint64_t step = 0;
    bool before = false;
    DifferingParameter found;  // with values
  };
  struct Place {
    size_t group = 0, row = 0, rank = 0;
  };
  using Key = std::pair<uint32_t, uint64_t>;  // process and tensor
  std::vector<std::vector<Target>> targets(rows.size());
  absl::flat_hash_map<Key, std::vector<Place>> places;
  for (size_t g = 0; g < rows.size(); ++g) {
    targets[g].resize(rows[g].size());
    for (size_t r = 0; r < rows[g].size(); ++r) {
      targets[g][r].ahead.resize(rows[g][r].ranks.size());
      targets[g][r].found.number = rows[g][r].number;
      targets[g][r].found.tensor = rows[g][r].ranks[0]->text;
      for (size_t i = 0; i < rows[g][r].ranks.size(); ++i) {
        places[{(*groups)[g].ranks[i].second, rows[g][r].ranks[i]->tensor}].push_back({g, r, i});
      }
    }
  }
  const auto compare = [](const GroupParameters& group, const Row& row, Target* target) {
    std::vector<std::deque<ParameterUpdate>>& ahead = target->ahead;
    while (std::none_of(ahead.begin(), ahead.end(), [](const auto& updates) { return updates.empty(); })) {
      const ParameterUpdate& first = ahead[0].front();
      const bool before =
          std::all_of(ahead.begin(), ahead.end(), [](const auto& each) { return each.front().before.has_value(); }) &&
          std::any_of(ahead.begin(), ahead.end(),
                      [&](const auto& each) { return each.front().before != first.before; });
      const bool after = std::any_of(ahead.begin(), ahead.end(), [&](const auto& each) {
        return each.front().after.fingerprint != first.after.fingerprint;
      });
      if (before || after) {
        target->step = first.step;
        target->before = before;
        for (size_t i = 0; i < ahead.size(); ++i) {
          const ParameterUpdate& update = ahead[i].front();
          target->found.values.push_back({group.ranks[i].first, group.ranks[i].second,
                                          before ? *update.before : update.after.fingerprint, update,
                                          row.ranks[i]->updates});
        }
        for (auto& updates : ahead) updates.clear();
        return;
      }
      for (auto& updates : ahead) updates.pop_front();
    }
  };
  OptimizerSteps steps(trace_, [&](uint32_t process, const std::vector<ParameterUpdate>& updates) {
    for (const ParameterUpdate& update : updates) {
      const auto found = places.find(Key(process, update.tensor));
      if (found == places.end()) continue;
      for (const Place& place : found->second) {
        Target& target = targets[place.group][place.row];
        if (!target.found.values.empty()) continue;
        target.ahead[place.rank].push_back(update);
        compare((*groups)[place.group], rows[place.group][place.row], &target);
      }
    }
  });
  ByThread<std::vector<std::pair<uint32_t, ConfigId>>> modules;  // open ones, with their depths
  std::vector<uint8_t> is_module;                                // by config; 2: not known yet
  std::vector<TensorNote> notes;
  const auto take = [&](const CallRecord& record) -> absl::Status {
    steps.Take(record);
    if (record.kind != CallRecord::kEnter || record.config == kLostId || record.thread == kNoThread) {
      return absl::OkStatus();
    }
    auto& open = modules.Of(record);
    while (!open.empty() && open.back().first >= record.depth) open.pop_back();
    if (record.config >= is_module.size()) is_module.resize(record.config + record.config / 2 + 16, 2);
    uint8_t& known = is_module[record.config];
    if (known == 2) {
      const std::string_view identity = trace_->identity(record.config);
      known = !ModuleLabelOf(identity).empty() && !steps.BeginsDistributedForward(record.config) ? 1 : 0;
    }
    if (known == 1) open.emplace_back(record.depth, record.config);
    if (open.empty() || record.notes.empty()) return absl::OkStatus();
    ReadTensorNotes(record.notes, &notes);
    for (const TensorNote& note : notes) {
      if (!note.identity) continue;
      const auto found = places.find(Key(record.process, note.identity->tensor));
      if (found == places.end()) continue;
      for (const Place& place : found->second) {
        ConfigId& module = targets[place.group][place.row].found.module;
        if (module == kLostId) module = open.back().second;
      }
    }
    return absl::OkStatus();
  };
  if (absl::Status s = has_later ? LaterNotesReader(trace_).Read(take) : trace_->Read(take); !s.ok()) return s;
  for (size_t g = 0; g < targets.size(); ++g) {
    GroupParameters& group = (*groups)[g];
    const auto earlier = [](const Target& a, const Target& b) {
      return std::pair(a.step, !a.before) < std::pair(b.step, !b.before);
    };
    const Target* first = nullptr;
    for (const Target& target : targets[g]) {
      if (target.found.values.empty()) continue;
      if (first == nullptr || earlier(target, *first)) first = &target;
    }
    if (first == nullptr) continue;
    group.step = first->step;
    group.before = first->before;
    for (Target& target : targets[g]) {
      if (target.found.values.empty() || target.step != group.step || target.before != group.before) continue;
      group.different.push_back(std::move(target.found));
    }
  }
  return absl::OkStatus();
}

}  // namespace torchtrace
