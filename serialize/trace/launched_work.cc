#include "serialize/trace/launched_work.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "serialize/base/saturating.h"

namespace torchtrace {

bool HasDeviceTimes(const Trace& trace) {
  return std::any_of(trace.processes().begin(), trace.processes().end(),
                     [](const ProcessInfo& process) { return process.known.device_times; });
}

const std::string& WorkNames::Of(uint32_t process, const DeviceWork& work) {
  // Work without a name has that of its kind.
  const uint64_t number = work.name == 0 ? UINT64_MAX - work.kind : work.name;
  const auto [at, fresh] = names_.try_emplace({process, number});
  if (!fresh) return at->second;
  at->second = DeviceWorkName(work.kind);
  const nlohmann::json& metadata = *trace_.processes()[process].metadata;
  const auto names = metadata.find("device_names");
  if (work.name == 0 || names == metadata.end() || !names->is_object()) return at->second;
  const auto name = names->find(absl::StrCat(work.name));
  if (name != names->end() && name->is_string()) at->second = name->get<std::string>();
  return at->second;
}

absl::Status DeviceTimesOfCalls::Prepare(Trace* trace) {
  known_ = HasDeviceTimes(*trace);
  own_ns_.clear();
  open_.clear();
  if (!known_) return absl::OkStatus();
  const LaterNotesShown shown(trace);
  std::vector<DeviceWork> work;
  return trace->Read([&](const CallRecord& record) {
    if (record.kind != CallRecord::kLater || record.device_work.empty()) return absl::OkStatus();
    AddSaturating(DeviceNs(record.device_work, &work), &own_ns_[record.call]);
    return absl::OkStatus();
  });
}

std::optional<int64_t> DeviceTimesOfCalls::Take(const CallRecord& record) {
  if (!known_) return std::nullopt;
  std::vector<Open>& open = open_[{record.process, record.thread}];
  const auto own = own_ns_.find(record.call);
  const int64_t own_ns = own == own_ns_.end() ? 0 : own->second;
  if (record.kind == CallRecord::kEnter) {
    open.push_back({record.call, own_ns});
    return std::nullopt;
  }
  const auto close = [&open] {
    const int64_t ns = open.back().ns;
    open.pop_back();
    if (!open.empty()) AddSaturating(ns, &open.back().ns);
    return ns;
  };
  // The ends of calls inside may be lost.
  while (!open.empty() && open.back().call > record.call) close();
  if (open.empty() || open.back().call != record.call) return own_ns;
  return close();
}

}  // namespace torchtrace
