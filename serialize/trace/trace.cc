#include "serialize/trace/trace.h"

#include <algorithm>
#include <cstring>
#include <initializer_list>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "nlohmann/json.hpp"
#include "serialize/base/json_member.h"
#include "serialize/base/monotonic_clock.h"
#include "serialize/model/levels.h"
#include "serialize/trace/tables.h"

namespace torchtrace {
namespace {

using nlohmann::json;

const json& Member(const json& object, const char* name) {
  static const json* const none = new json(nullptr);
  const json* const member = FindMember(object, name);
  return member == nullptr ? *none : *member;
}

std::optional<std::string> OptionalText(const json& object, const char* name) {
  const json& member = Member(object, name);
  return member.is_string() ? std::optional(member.get<std::string>()) : std::nullopt;
}

std::map<std::string, uint64_t> CountsMember(const json& object, const char* name) {
  std::map<std::string, uint64_t> counts;
  const json* const member = FindMember(object, name);
  if (member == nullptr || !member->is_object()) return counts;
  for (const auto& [what, count] : member->items()) {
    if (count.is_number_unsigned()) counts[what] = count.get<uint64_t>();
  }
  return counts;
}

std::vector<std::string> TextsMember(const json& object, const char* name) {
  std::vector<std::string> texts;
  const json* const member = FindMember(object, name);
  if (member == nullptr || !member->is_array()) return texts;
  for (const json& text : *member) {
    if (text.is_string()) texts.push_back(text.get<std::string>());
  }
  return texts;
}

std::map<std::string, StartedProgram> StartedMember(const json& object) {
  std::map<std::string, StartedProgram> started;
  const json* const list = FindMember(object, "started_programs");
  if (list == nullptr || !list->is_array()) return started;
  for (const json& each : *list) {
    const std::string program = TextMember(each, "program");
    const std::optional<int64_t> count = IntMember(each, "count");
    const json* const python = FindMember(each, "python");
    if (program.empty() || count.value_or(0) <= 0) continue;
    StartedProgram& total = started[program];
    total.count += static_cast<uint64_t>(*count);
    total.python = total.python || (python != nullptr && python->is_boolean() && python->get<bool>());
  }
  return started;
}

std::vector<int> NumbersMember(const json& object, const char* name) {
  std::vector<int> numbers;
  const json& member = Member(object, name);
  if (!member.is_array()) return numbers;
  for (const json& number : member) {
    if (number.is_number_integer()) numbers.push_back(number.get<int>());
  }
  return numbers;
}

// The value of each package is its version, or an object that contains it.
std::map<std::string, std::string, std::less<>> VersionsMember(const json& object, const char* name) {
  std::map<std::string, std::string, std::less<>> versions;
  const json& member = Member(object, name);
  if (!member.is_object()) return versions;
  for (const auto& [package, told] : member.items()) {
    const json& version = told.is_object() ? Member(told, "version") : told;
    if (version.is_string()) versions[package] = version.get<std::string>();
  }
  return versions;
}

// Larger ones are not credible.
constexpr int64_t kMaxWorldSize = 1'000'000;

// A rank or world size, from its key or else from one of these environment variables.
std::optional<int64_t> RankMember(const json& metadata, const char* key, std::initializer_list<const char*> variables) {
  const auto accepted = [](int64_t number) { return number >= 0 && number <= kMaxWorldSize; };
  if (const std::optional<int64_t> number = IntMember(metadata, key)) {
    return accepted(*number) ? number : std::nullopt;
  }
  for (const char* variable : variables) {
    int64_t number;
    if (absl::SimpleAtoi(TextMember(Member(metadata, "environment"), variable), &number) && accepted(number)) {
      return number;
    }
  }
  return std::nullopt;
}

// Its rank, what it is in its program, how often it was started again, and its number.
std::string NameInJob(const json& metadata, const ProcessMetadata& known) {
  std::vector<std::string> words;
  if (known.ranked.rank.has_value()) words.push_back(absl::StrCat("rank ", *known.ranked.rank));
  if (std::string own = TextMember(metadata, "process_name"); !own.empty()) {
    words.push_back(std::move(own));
  } else if (!words.empty() && known.role == "fork") {
    words.push_back(known.role);
  }
  int64_t restarts;
  if (absl::SimpleAtoi(TextMember(Member(metadata, "environment"), "TORCHELASTIC_RESTART_COUNT"), &restarts) &&
      restarts > 0) {
    words.push_back(absl::StrCat("restart ", restarts));
  }
  if (words.empty()) return "";
  return absl::StrCat(absl::StrJoin(words, ", "), known.pid ? absl::StrCat(" (", *known.pid, ")") : "");
}

void TakeAllocators(const json& cuda, ProcessMetadata* known) {
  if (!cuda.is_object()) return;
  for (const auto& [number, told] : cuda.items()) {
    uint32_t index;
    if (!absl::SimpleAtoi(number, &index)) continue;
    const auto bytes = [&told = told](const char* key) {
      return static_cast<uint64_t>(std::max<int64_t>(0, IntMember(told, key).value_or(0)));
    };
    known->allocators[{MemoryKind::kCuda, index}] = {bytes("before"), bytes("requested_peak"), bytes("allocated_peak")};
  }
}

void CountLeftOut(const json& metadata, const json& end, ProcessMetadata* known) {
  std::string options;
  const auto add = [&](const char* option, const std::string& value) {
    absl::StrAppend(&options, options.empty() ? "" : " ", option, " ", value);
  };
  const auto count = [&](const char* option, const char* key) {
    if (const std::optional<int64_t> number = IntMember(metadata, key)) add(option, absl::StrCat(*number));
  };
  count("--skip", "skip");
  if (const std::optional<int64_t> duration_ns = IntMember(metadata, "duration_ns"))
    add("--duration", absl::FormatDuration(absl::Nanoseconds(*duration_ns)));
  count("--first", "first");
  if (const json& sample = Member(metadata, "sample"); sample.is_number()) add("--sample", sample.dump());
  count("--max-calls", "max_calls");
  if (!options.empty()) known->windows.push_back(std::move(options));
  if (Member(metadata, "held_back") == true) known->windows.emplace_back("torchtrace ctl");
  const std::optional<int64_t> left_out = IntMember(end, "left_out");
  // A full disk had no room for the note.
  if (known->windows.empty() && left_out.has_value()) known->windows.emplace_back("torchtrace ctl");
  if (known->windows.empty()) return;
  known->left_out = static_cast<uint64_t>(std::max<int64_t>(0, left_out.value_or(0)));
  // A call that is left out is not known to be inside of another one.
  if (Member(metadata, "outermost") == true || IntMember(metadata, "frame_depth").value_or(0) > 0) {
    known->left_out_unknown = "with --outermost or --frame-depth";
  } else if (!end.is_object() || Member(end, "short") == true) {
    known->left_out_unknown = kDidNotEnd;
  }
}

void CountGetters(const json& metadata, const json& end, ProcessMetadata* known) {
  const auto add = [known](std::optional<int64_t> getters) {
    known->getters += static_cast<uint64_t>(std::max<int64_t>(0, getters.value_or(0)));
  };
  if (const json& threads = Member(end, "threads"); threads.is_array()) {
    for (const json& thread : threads) add(IntMember(thread, "getters"));
  } else if (const std::optional<int64_t> all = IntMember(end, "getters")) {
    add(all);
  } else if (known->signal.has_value() || Member(end, "short") == true) {
    const json& levels = Member(metadata, "levels");
    const bool some_level = std::any_of(levels.begin(), levels.end(), [](const json& level) {
      return level == kSetattrLevel || level == kFunctionLevel;
    });
    known->getters_unknown = some_level && Member(metadata, "include_getters") != true;
  }
}

}  // namespace

ProcessMetadata ParseProcessMetadata(const json& metadata) {
  ProcessMetadata known;
  known.role = TextMember(metadata, "role");
  known.dialect = TextMember(metadata, "dialect");
  known.host = TextMember(metadata, "host");
  known.pid = IntMember(metadata, "pid");
  known.ranked.rank = RankMember(metadata, "rank", {"RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID"});
  known.ranked.world_size =
      RankMember(metadata, "world_size", {"WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS"});
  known.name = NameInJob(metadata, known);
  known.follow_only = FindMember(metadata, "follow_only") != nullptr;
  known.max_size = IntMember(metadata, "max_size").value_or(0);
  known.cwd = OptionalText(metadata, "cwd");
  known.package_versions = VersionsMember(metadata, "packages");
  known.has_source = FindMember(metadata, "source") != nullptr;
  known.source = TextMember(metadata, "source");
  known.label = TextMember(metadata, "label");
  known.levels = NumbersMember(metadata, "levels");
  known.stacks = OptionalText(metadata, "stacks");
  known.stack_format = OptionalText(metadata, "stack_format");
  known.numbers = Member(metadata, "numbers").is_string();
  known.device_times = Member(metadata, "device_names").is_object();
  known.memory = Member(metadata, "memory") == true;
  TakeAllocators(Member(metadata, "cuda_memory"), &known);
  known.paused = Member(metadata, "paused") == true;
  std::vector<std::string> step_options;
  if (const std::string steps = TextMember(metadata, "steps"); !steps.empty()) {
    step_options.push_back(absl::StrCat("--steps ", steps));
  }
  if (const std::optional<int64_t> most = IntMember(metadata, "max_steps")) {
    step_options.push_back(absl::StrCat("--max-steps ", *most));
  }
  known.step_window = absl::StrJoin(step_options, " ");
  for (const StepKind kind : {StepKind::kStep, StepKind::kTag}) {
    if (TextMember(metadata, "steps_by") == StepKindName(kind)) known.steps_by = kind;
  }

  const json& clock = Member(metadata, "clock");
  known.has_clock = FindMember(metadata, "clock") != nullptr;
  known.origin_realtime_ns = IntMember(clock, "origin_realtime_ns");

  const json& end = Member(metadata, "end");
  known.exit_code = IntMember(end, "exit_code");
  known.signal = IntMember(end, "signal");
  known.program_goes_on = Member(end, "program_goes_on") == true;
  known.stopped = TextMember(end, "stopped");
  const std::optional<int64_t> began = IntMember(clock, "origin_monotonic_ns");
  const std::optional<int64_t> ended = IntMember(end, "monotonic_ns");
  if (began && ended && *began >= 0 && *ended >= *began) known.duration_ns = *ended - *began;
  std::string others;
  if (const json& steps = Member(end, "steps"); steps.is_object())
    known.last_steps = TakeStepMarks(steps.dump(), &others);
  for (const auto& [number, ns] : Member(Member(metadata, "step_ends"), StepKindName(known.steps_by)).items()) {
    uint64_t step;
    if (!absl::SimpleAtoi(number, &step) || !ns.is_number_integer()) continue;
    if (const auto at = ns.get<int64_t>(); at >= 0 && at <= kMostMonotonicNs) known.step_ends[step] = at;
  }
  CountGetters(metadata, end, &known);
  CountLeftOut(metadata, end, &known);
  known.cut = CountsMember(end, "cut");
  // Without an end, the start and later frames have at least a part of this.
  known.not_seen = TextsMember(end, "not_seen");
  for (std::string& text : TextsMember(metadata, "not_seen")) {
    if (std::find(known.not_seen.begin(), known.not_seen.end(), text) == known.not_seen.end())
      known.not_seen.push_back(std::move(text));
  }
  known.not_imported = TextsMember(FindMember(end, "not_imported") != nullptr ? end : metadata, "not_imported");
  known.steps_not_seen = TextMember(end, "steps_not_seen");
  known.started = StartedMember(FindMember(end, "started_programs") != nullptr ? end : metadata);
  return known;
}

std::string ProcessMetadata::PackageVersion(std::string_view package) const {
  const auto version = package_versions.find(package);
  return version == package_versions.end() ? "" : version->second;
}

namespace {
constexpr size_t kBlockBytes = 64 << 10;
}  // namespace

VariantId ConfigTable::Intern(std::string_view identity, uint64_t hash, std::string_view facets) {
  const auto known = config_ids_.find(Hashed{identity, hash});
  if (known == config_ids_.end()) {
    const auto config = static_cast<ConfigId>(configs_.size());
    const VariantId variant = AddVariant(config, facets);
    const std::string_view kept = Keep(identity);
    configs_.push_back({kept.data(), hash, static_cast<uint32_t>(kept.size()), variant});
    config_ids_.insert(config);
    return variant;
  }
  const ConfigId config = *known;
  const VariantId first = configs_[config].first_variant;
  if (this->facets(first) == facets) return first;
  const auto of_facets = facets_ids_.find(facets);
  if (of_facets != facets_ids_.end()) {
    const auto other = other_variants_.find({config, of_facets->second});
    if (other != other_variants_.end()) return other->second;
  }
  const VariantId variant = AddVariant(config, facets);
  other_variants_.emplace(std::pair(config, variants_[variant].facets), variant);
  return variant;
}

VariantId ConfigTable::AddVariant(ConfigId config, std::string_view facets) {
  auto known = facets_ids_.find(facets);
  if (known == facets_ids_.end()) {
    facets_.push_back(Keep(facets));
    known = facets_ids_.emplace(facets_.back(), static_cast<FacetsId>(facets_.size() - 1)).first;
  }
  variants_.push_back({config, known->second});
  return static_cast<VariantId>(variants_.size() - 1);
}

std::string_view ConfigTable::Keep(std::string_view bytes) {
  if (bytes.empty()) return {};
  if (bytes.size() > block_left_) {
    const size_t size = std::max(bytes.size(), kBlockBytes);
    blocks_.push_back(std::make_unique_for_overwrite<char[]>(size));
    block_at_ = blocks_.back().get();
    block_left_ = size;
  }
  char* const to = block_at_;
  std::memcpy(to, bytes.data(), bytes.size());
  block_at_ += bytes.size();
  block_left_ -= bytes.size();
  return std::string_view(to, bytes.size());
}

std::string CountLostCalls(uint64_t lost_calls, bool exact) {
  if (lost_calls == 0) return exact ? "no calls" : "an unknown number of calls";
  return absl::StrCat(exact ? "" : "at least ", lost_calls, lost_calls == 1 ? " call" : " calls");
}

void ProcessInfo::SetMetadata(std::shared_ptr<const nlohmann::json> json) {
  metadata = std::move(json);
  known = ParseProcessMetadata(*metadata);
}

const ThreadInfo* FindThread(const ProcessInfo& process, uint64_t number) {
  const auto found = std::lower_bound(process.threads.begin(), process.threads.end(), number,
                                      [](const ThreadInfo& thread, uint64_t n) { return thread.number < n; });
  return found == process.threads.end() || found->number != number ? nullptr : &*found;
}

}  // namespace torchtrace
