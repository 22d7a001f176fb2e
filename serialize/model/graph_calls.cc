#include "serialize/model/graph_calls.h"

#include "serialize/model/config.h"
#include "serialize/model/levels.h"

namespace torchtrace {
namespace {

struct Kind {
  GraphCallKind kind;
  std::string_view name;
  std::string_view prefix;  // of the API
};
constexpr Kind kKinds[] = {
    {GraphCallKind::kRun, "run", "Compiled graph "},
    {GraphCallKind::kBackwardRun, "backward run", "Compiled backward "},
    {GraphCallKind::kCompilation, "compilation", "Compiling graph "},
    {GraphCallKind::kBackwardCompilation, "backward compilation", "Compiling backward "},
    {GraphCallKind::kRecompiled, "recompiled", "Recompiled graph "},
    {GraphCallKind::kBreak, "break", "Graph break "},
};

const Kind* Find(GraphCallKind kind) {
  for (const Kind& each : kKinds) {
    if (each.kind == kind) return &each;
  }
  return nullptr;
}

}  // namespace

std::string_view GraphCallName(GraphCallKind kind) {
  const Kind* const found = Find(kind);
  return found == nullptr ? "" : found->name;
}

std::string GraphCallApi(GraphCallKind kind, std::string_view id, std::string_view function) {
  const Kind* const found = Find(kind);
  std::string api(found == nullptr ? "" : found->prefix);
  api += id;
  if (!function.empty()) api.append(": ").append(function);
  return api;
}

GraphCall ReadGraphCall(std::string_view identity) {
  GraphCall call;
  const ConfigHead head = ReadConfigHead(identity);
  if (head.level != kFrameLevel) return call;
  for (const Kind& each : kKinds) {
    if (!head.api.starts_with(each.prefix)) continue;
    call.kind = each.kind;
    const std::string_view rest = head.api.substr(each.prefix.size());
    const size_t colon = rest.find(": ");
    call.id = rest.substr(0, colon);
    if (colon != std::string_view::npos) call.function = rest.substr(colon + 2);
    const Config config = ReadableConfig(identity);
    for (const auto& [name, value] : config.kwargs) {
      if (name == "line" && value.tag == ValueTag::kInt) call.line = value.integer;
      if (value.tag != ValueTag::kString) continue;
      if (name == "file") call.file = value.text;
      if (name == "reason") call.reason = value.text;
    }
    break;
  }
  return call;
}

}  // namespace torchtrace
