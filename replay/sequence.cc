#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "replay/replay.h"
#include "serialize/forms/forms.h"
#include "serialize/forms/trace_lines.h"

namespace torchtrace {
namespace {

// Each restart may have taken a whole timeout.
constexpr uint64_t kMostRestarts = 10;

// Contents follow the line as raw bytes.
std::string Request(const Trace& trace, const FlowStep& step, std::vector<std::string_view>* contents) {
  nlohmann::ordered_json request = FlowStepToJson(trace, step, nullptr);
  request["notes"] = NotesToJson(*step.notes, contents);
  if (step.result_known) request["result_notes"] = NotesToJson(*step.result_notes, contents);
  if (!TellsStrides(trace)) request["strides"] = false;
  return DumpJson(request);
}

uint64_t CountOf(const ReplayAnswer& answer, const char* name) {
  const auto at = answer.details.is_object() ? answer.details.find(name) : answer.details.end();
  return at != answer.details.end() && at->is_number_unsigned() ? at->get<uint64_t>() : 0;
}

}  // namespace

absl::StatusOr<SequenceFacts> ReplaySequence(Trace* trace, const CallSelection& selection, const WorkerOptions& options,
                                             const std::function<absl::Status(const ReplayResult&)>& done) {
  SequenceFacts facts;
  // Calls of two levels would repeat the same work.
  const absl::StatusOr<int> level = OneLevelOf(
      trace, selection, {2, 4, 1, 0}, "a sequence has calls of one level: other levels would repeat the same work");
  if (!level.ok()) return level.status();
  facts.level = *level;
  CallSelection of_level = selection;
  of_level.levels = {*level};
  WorkerOptions lone = options;
  lone.sequence = true;
  LoneWorker worker(lone);
  bool lost = false;
  FlowOptions flow_options;
  absl::Status failed;
  flow_options.may_call = [&](std::string_view api) {
    if (!worker.is_running()) failed.Update(worker.Start());
    if (!failed.ok()) return false;
    const ReplayAnswer answer = worker.Ask(DumpJson({{"may", std::string(api)}}), {});
    return answer.details.is_object() && answer.details.value("may", false);
  };
  flow_options.lost = [&lost] { return lost; };
  LineCache lines([trace](uint32_t config) { return ConfigText(*trace, config); });
  const auto visit = [&](const FlowStep& step) -> absl::Status {
    if (!failed.ok()) return failed;
    if (facts.stopped) return absl::OkStatus();
    if (!worker.is_running()) {
      if (absl::Status s = worker.Start(); !s.ok()) return s;
    }
    ReplayItem item;
    item.key = absl::StrCat(step.call);
    item.level = step.config->level;
    item.line = lines.Get(step.config_id);
    if (step.outcome == CallOutcome::kRaised) item.recorded = step.exception.empty() ? "an exception" : step.exception;
    std::vector<std::string_view> contents;
    const std::string request = Request(*trace, step, &contents);
    const ReplayAnswer answer = worker.Ask(request, contents);
    facts.compared += CountOf(answer, "compared");
    facts.equal += CountOf(answer, "equal");
    facts.filled += CountOf(answer, "filled");
    facts.made += CountOf(answer, "made");
    // The next process has none of the tensors.
    lost = answer.result == "crashed" || answer.result == "timeout";
    if (lost) facts.stopped = ++facts.deaths > kMostRestarts;
    ReplayResult result = Judge(item, answer);
    result.call = step.call;
    return done(result);
  };
  const absl::StatusOr<FlowSummary> flow = ReadFlow(trace, of_level, visit, flow_options);
  if (!flow.ok()) return flow.status();
  if (!failed.ok()) return failed;
  facts.flow = *flow;
  return facts;
}

}  // namespace torchtrace
