#include "serialize/forms/call_labels.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "serialize/forms/forms.h"
#include "serialize/model/config.h"
#include "serialize/model/levels.h"
#include "serialize/model/value.h"

namespace torchtrace {
namespace {

const Value* Keyword(const Config& config, std::string_view name) {
  for (const auto& [keyword, value] : config.kwargs) {
    if (keyword == name) return &value;
  }
  return nullptr;
}

std::string Text(const Value* value) {
  return value != nullptr && value->tag == ValueTag::kString ? std::string(value->text) : std::string();
}

}  // namespace

ModuleLabel ModuleLabelOf(const Config& config) {
  if (config.level != kFrameLevel) return {};
  return {Text(Keyword(config, "model")), Text(Keyword(config, "path")), config.api.substr(config.api.rfind('.') + 1)};
}

ModuleLabel ModuleLabelOf(std::string_view identity) {
  return ReadConfigHead(identity).level == kFrameLevel ? ModuleLabelOf(ReadableConfig(identity)) : ModuleLabel();
}

std::string ModuleLabel::Text() const {
  const bool is_model = model.empty() && path.starts_with(type + "_");
  return path.empty() || is_model ? path : absl::StrCat(path, " (", type, ")");
}

std::string ModuleLabel::WholeText() const { return model.empty() ? Text() : absl::StrCat(model, ".", Text()); }

std::string ModuleLabel::WholePath() const { return model.empty() ? path : absl::StrCat(model, ".", path); }

bool SeveralModels::In(const Trace& trace) {
  SeveralModels models;
  for (ConfigId id = 0; id < trace.config_count(); ++id) models.Add(ModuleLabelOf(trace.identity(id)).model);
  return static_cast<bool>(models);
}

const Choices<LabelBy>& LabelKinds() {
  static const Choices<LabelBy> kinds("unknown kind of tree",
                                      {{"api", LabelBy::kApi}, {"module", LabelBy::kModule}, {"line", LabelBy::kLine}});
  return kinds;
}

absl::Status NothingLabelled(LabelBy by, std::string_view who_has) {
  return absl::FailedPreconditionError(
      absl::StrCat(std::string(who_has), by == LabelBy::kModule ? " no calls of modules" : " no stacks",
                   ": record them with torchtrace run ", by == LabelBy::kModule ? "--levels 3" : "--stacks"));
}

void CallLabels::Begin(const Trace& trace) {
  trace_ = &trace;
  ++traces_;
  of_config_.clear();
  of_line_.clear();
  stack_text_.emplace(trace);
}

std::optional<uint32_t> CallLabels::Of(const CallRecord& record) {
  uint32_t label = kNone;
  asked_ = true;
  if (by_ == LabelBy::kLine && record.stack != kNoStack) {
    const LineId line = trace_->stacks().calling_line(record.stack);
    const auto [at, fresh] = of_line_.try_emplace(line, kNone);
    if (fresh) at->second = Number(kFrameLevel, stack_text_->Place(line));
    label = at->second;
  } else {
    if (record.config >= of_config_.size()) of_config_.resize(record.config + record.config / 2 + 16, kUnknown);
    uint32_t& known = of_config_[record.config];
    if (known == kUnknown) known = OfConfig(record.config);
    label = known;
  }
  if (label == kNone) return std::nullopt;
  found_ = true;
  return label;
}

absl::Status CallLabels::Check() const {
  if (!asked_ || found_) return absl::OkStatus();
  return NothingLabelled(by_, traces_ == 1 ? "the trace has" : "the traces have");
}

uint32_t CallLabels::Number(int level, std::string whole, size_t model_bytes) {
  const auto at = numbers_.find({level, whole});
  if (at != numbers_.end()) return at->second;
  const auto number = static_cast<uint32_t>(labels_.size());
  labels_.push_back({std::move(whole), level, model_bytes});
  numbers_.emplace(std::pair(level, std::string_view(labels_.back().whole)), number);
  return number;
}

uint32_t CallLabels::OfConfig(ConfigId id) {
  const Config config = ReadableConfig(trace_->identity(id));
  const ModuleLabel module = ModuleLabelOf(config);
  if (by_ == LabelBy::kLine) {
    const std::string file = config.level == kFrameLevel ? Text(Keyword(config, "file")) : "";
    if (file.empty()) return kNone;
    const Value* const line = Keyword(config, "line");
    return Number(config.level, absl::StrCat(file, ":", line == nullptr ? "?" : FormatValue(*line), " in ",
                                             config.api.substr(config.api.rfind('.') + 1)));
  }
  if (!module.empty()) {
    several_models_.Add(module.model);
    return Number(config.level, module.WholeText(), module.model.empty() ? 0 : module.model.size() + 1);
  }
  return by_ == LabelBy::kModule ? kNone : Number(config.level, config.api);
}

}  // namespace torchtrace
