#include "replay/code.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "serialize/base/files.h"
#include "serialize/base/text.h"
#include "serialize/flow/flow.h"
#include "serialize/forms/forms.h"
#include "serialize/model/config.h"
#include "serialize/trace/run_facts.h"

namespace torchtrace {
namespace {

using nlohmann::ordered_json;

constexpr size_t kMostText = 600;  // of a call; the code shows less
constexpr double kPatience = 3600;

std::string TextOf(const Config& config) {
  std::string text = FormatFoldedConfig(config);
  if (text.size() > kMostText) text = CutUtf8(text, kMostText);
  return text;
}

// JSON holds one argument of a name.
void NoteTwice(const Config& config, ordered_json* json) {
  absl::flat_hash_set<std::string_view> names;
  const bool once = std::all_of(config.kwargs.begin(), config.kwargs.end(),
                                [&names](const auto& kwarg) { return names.insert(kwarg.first).second; });
  if (!once) (*json)["problem"] = "an argument that is given twice";
}

}  // namespace

absl::Status CodeWriter::Ended() const {
  return absl::InternalError(absl::StrCat(python_, " ended while it wrote the code (its output is above)"));
}

absl::Status CodeWriter::Start() {
  if (worker_.is_running()) return absl::OkStatus();
  return worker_.Start(python_, WorkerGreeting({{"main", "code"}, {"format", format_}}));
}

absl::Status CodeWriter::Send(const ordered_json& request, const std::vector<std::string_view>& contents) {
  if (absl::Status s = Start(); !s.ok()) return s;
  if (worker_.Send(DumpJson(request), contents)) return absl::OkStatus();
  return Ended();
}

absl::Status CodeWriter::AddProgram(Trace* trace, std::string_view label, CallSelection selection) {
  const absl::StatusOr<int> level =
      OneLevelOf(trace, selection, {1, 0, 2, 4}, "a program has calls of one level: --level 1, or --level 2");
  if (!level.ok()) return level.status();
  selection.levels = {*level};
  absl::Status failed;
  FlowOptions options;
  options.surroundings = true;
  options.may_call = [&](std::string_view api) {
    failed.Update(Start());
    if (!failed.ok()) return false;
    const absl::StatusOr<nlohmann::json> said = worker_.Ask(DumpJson({{"may", std::string(api)}}), kPatience);
    failed.Update(said.status());
    return said.ok() && said->value("may", false);
  };
  const absl::StatusOr<FlowSummary> summary = ReadFlow(
      trace, selection,
      [&](const FlowStep& step) -> absl::Status {
        if (!failed.ok()) return failed;
        std::vector<std::string_view> contents;
        ordered_json json = FlowStepToJson(*trace, step, &contents);
        json["text"] = TextOf(*step.config);
        NoteTwice(*step.config, &json);
        return Send(json, contents);
      },
      options);
  if (!summary.ok()) return summary.status();
  if (!failed.ok()) return failed;
  if (summary->steps == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(std::string(label), " has no calls of level ", *level, " among those that were asked for",
                     summary->counted == 0 ? "" : absl::StrCat("; ", CountedCalls(summary->counted))));
  }
  about_ = FlowSummaryToJson(*summary);
  about_["level"] = *level;
  about_["label"] = std::string(label);
  return absl::OkStatus();
}

absl::Status CodeWriter::AddCases(ReplayPlan* plan, std::string_view label) {
  about_["labels"].push_back(std::string(label));
  for (ReplayItem item; plan->Next(&item);) {
    ordered_json config = ordered_json::parse(item.request);
    NoteTwice(item.config, &config);
    if (absl::Status s = Send({{"config", std::move(config)}, {"text", TextOf(item.config)}, {"calls", item.calls}});
        !s.ok()) {
      return s;
    }
  }
  return plan->status();
}

absl::Status CodeWriter::Finish(std::ostream* out, std::vector<std::string>* notes) {
  if (absl::Status s = Start(); !s.ok()) return s;
  const absl::StatusOr<nlohmann::json> said = worker_.Ask(DumpJson({{"about", about_}}), kPatience);
  if (!said.ok() || !said->is_object() || !said->contains("bytes")) {
    return Ended();
  }
  for (const nlohmann::json& note : (*said)["notes"]) notes->push_back(note.get<std::string>());
  for (size_t left = (*said)["bytes"].get<size_t>(); left > 0;) {
    const std::string text = worker_.Read(std::min<size_t>(left, 1 << 20), kPatience);
    if (text.empty()) return Ended();
    *out << text;
    left -= text.size();
  }
  worker_.Finish();
  out->flush();
  return StreamStatus(*out);
}

}  // namespace torchtrace
