#include "serialize/flow/step_reader.h"

#include <algorithm>

#include "serialize/forms/call_labels.h"
#include "serialize/model/config.h"
#include "serialize/model/levels.h"
#include "serialize/model/torch_names.h"
#include "serialize/model/value.h"

namespace torchtrace {
namespace {

// Whether the value was recorded in full.
bool IsWhole(const Value& value) {
  const uint64_t pairs = value.tag == ValueTag::kDict ? 2 : 1;
  const bool text = value.tag == ValueTag::kString || value.tag == ValueTag::kBytes;
  if (value.tag == ValueTag::kObject || value.tag == ValueTag::kDeep) return false;
  if (text ? value.whole > value.text.size() : IsContainer(value.tag) && value.whole > value.items.size() / pairs) {
    return false;
  }
  return std::all_of(value.items.begin(), value.items.end(), IsWhole);
}

}  // namespace

template <typename Lost>
void StepReader::Close(Thread* thread, Lost lost) {
  while (!thread->open.empty() && lost(thread->open.back())) {
    summary_.never_returned += thread->open.back().step || thread->open.back().refused;
    Pop(thread);
  }
}

absl::Status StepReader::Read(const std::function<absl::Status(const EndedCall&)>& visit, const OtherVisitor& other) {
  other_ = other;
  threads_.clear();
  summary_ = FlowSummary();
  process_.reset();
  const absl::Status read = trace_->Read([&](const CallRecord& record) -> absl::Status {
    if (record.kind == CallRecord::kEnter) {
      Enter(record);
      return absl::OkStatus();
    }
    return End(record, visit);
  });
  for (auto& [place, thread] : threads_) Close(&thread, [](const OpenCall&) { return true; });
  return read;
}

StepReader::OpenCall StepReader::Pop(Thread* thread) {
  OpenCall open = std::move(thread->open.back());
  thread->open.pop_back();
  if (open.step) thread->in_step = false;
  if (open.module) thread->modules.pop_back();
  return open;
}

void StepReader::Enter(const CallRecord& record) {
  Thread& thread = threads_[{record.process, record.thread}];
  // Calls at this depth have ended without a record.
  Close(&thread, [&](const OpenCall& open) { return open.depth >= record.depth; });
  OpenCall& open = thread.open.emplace_back();
  open.call = record.call;
  open.depth = record.depth;
  if (record.config == kLostId) return;
  const Kind kind = KindOf(record.config);
  if (kind.sets_gradients) thread.gradients = *kind.sets_gradients;
  if (IsSelected(kind, record)) {
    if (thread.in_step) {
      ++summary_.inside;
    } else {
      for (OpenCall& outer : thread.open) summary_.opened += std::exchange(outer.refused, false);
      (kind.can_call ? open.step : open.refused) = true;
      thread.in_step = kind.can_call;
      open.notes = record.notes;
      open.modules = thread.modules;
      open.gradients = thread.gradients;
    }
  }
  if (kind.module) {
    open.module = true;
    thread.modules.push_back({record.call, record.config});
  }
  if (other_ && !thread.in_step) other_(record);
}

bool StepReader::IsSelected(const Kind& kind, const CallRecord& record) {
  if (!kind.is_call || !selector_.Accepts(record)) return false;
  if (!process_.has_value()) process_ = summary_.process = record.process;
  if (*process_ == record.process) return true;
  ++summary_.other_processes;
  return false;
}

absl::Status StepReader::End(const CallRecord& record, const std::function<absl::Status(const EndedCall&)>& visit) {
  Thread& thread = threads_[{record.process, record.thread}];
  Close(&thread, [&](const OpenCall& open) { return open.call > record.call; });
  if (thread.open.empty() || thread.open.back().call != record.call) return absl::OkStatus();
  const OpenCall open = Pop(&thread);
  if (!open.step && !open.refused) {
    if (other_ && !thread.in_step) other_(record);
    return absl::OkStatus();
  }
  ++summary_.steps;
  return visit({&record, open.notes, open.gradients, &open.modules});
}

const StepReader::Kind& StepReader::KindOf(ConfigId id) {
  if (id >= kinds_.size()) kinds_.resize(id + id / 2 + 16);
  Kind& kind = kinds_[id];
  if (kind.known) return kind;
  kind.known = true;
  const ConfigHead head = ReadConfigHead(trace_->identity(id));
  kind.is_call = (head.level != kDispatchLevel && head.level != kRecordLevel) || !OperatorPacket(head.api).empty();
  kind.module = head.level == kFrameLevel && !ModuleLabelOf(trace_->identity(id)).empty();
  if (!kind.is_call) return kind;
  const Config config = ReadableConfig(trace_->identity(id));
  if (config.api == "torch._C._set_grad_enabled" && config.args.size() == 1) {
    kind.is_call = false;
    kind.sets_gradients = config.args[0].tag == ValueTag::kTrue;
    return kind;
  }
  kind.can_call =
      head.level != kFrameLevel && MayCall(config.api) &&
      std::all_of(config.args.begin(), config.args.end(), IsWhole) &&
      std::all_of(config.kwargs.begin(), config.kwargs.end(), [](const auto& one) { return IsWhole(one.second); });
  return kind;
}

bool StepReader::MayCall(const std::string& api) {
  const auto [known, is_new] = may_call_.try_emplace(api, false);
  if (is_new) known->second = options_.may_call(api);
  return known->second;
}

}  // namespace torchtrace
