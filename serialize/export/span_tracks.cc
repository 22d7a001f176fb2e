#include "serialize/export/span_tracks.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "serialize/forms/forms.h"

namespace torchtrace {
namespace {

// `phase=eval, step=3` of `{"phase":"eval","step":3}`.
std::string NameOfTags(std::string_view text) {
  const nlohmann::ordered_json json = nlohmann::ordered_json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return std::string(text);
  std::string name;
  for (const auto& [key, value] : json.items()) {
    absl::StrAppend(&name, name.empty() ? "" : ", ", key, "=",
                    value.is_string() ? value.get<std::string>() : DumpJson(value));
  }
  return name;
}

}  // namespace

void SpanTracks::Close(const std::pair<uint32_t, uint32_t>& thread, const Open& open) {
  if (open.tags == nullptr) return;
  spans_.push_back({.process = thread.first,
                    .thread = thread.second,
                    .name = NameOfTags(open.text),
                    .start_ns = open.start_ns,
                    .end_ns = std::max(open.start_ns, open.last_ns)});
}

void SpanTracks::Add(const CallRecord& record, bool shown) {
  if (record.kind == CallRecord::kEnter) {
    const StepPlace place = steps_.Add(record);
    if (shown && place.kind == StepPlace::kInStep) shown_steps_.insert({record.process, place.number});
  }
  if (!shown) return;
  const std::pair<uint32_t, uint32_t> thread(record.process, record.thread);
  Open& open = open_[thread];
  if (record.kind == CallRecord::kEnter) {
    const std::string_view text = texts_.Of(record.tags);
    if (const char* const tags = text.empty() ? nullptr : text.data(); tags != open.tags) {
      Close(thread, open);
      open = {.tags = tags, .text = text, .start_ns = record.time_ns};
    }
  }
  open.last_ns = record.time_ns;
}

std::vector<TimelineSpan> SpanTracks::Finish() {
  for (const auto& [thread, open] : open_) Close(thread, open);
  open_.clear();
  steps_.Finish();
  for (const auto& [process, number] : shown_steps_) {
    const ProgramStep& step = steps_.Of(process).at(number);
    if (!step.end_ns.has_value()) continue;
    spans_.push_back({.process = process,
                      .thread = kNoThread,
                      .name = absl::StrCat("ProfilerStep#", step.name),
                      .start_ns = step.begin_ns,
                      .end_ns = *step.end_ns});
  }
  return std::move(spans_);
}

}  // namespace torchtrace
