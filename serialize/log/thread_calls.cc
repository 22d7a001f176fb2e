#include "serialize/log/thread_calls.h"

#include <algorithm>
#include <string_view>

namespace torchtrace {

bool FrameDefinitions::IsNew(const CallReader& reader) {
  if (reader.offset() < end_) return false;
  end_ = reader.next_offset();
  return true;
}

void FrameDefinitions::Define(const CallReader& reader, ConfigTable* configs) {
  if (!IsNew(reader)) return;
  const VariantId id = configs->Intern(reader.identity(), reader.facets());
  const ConfigId config = configs->config_of(id);
  const std::string_view identity = configs->identity(config);
  variants_.push_back({id, config, identity.empty() ? uint8_t{0} : static_cast<uint8_t>(identity[0])});
}

void FrameDefinitions::DefineCode(const CallReader& reader, StackTable* stacks) {
  if (!IsNew(reader)) return;
  const CallReader::CodeRecord& code = reader.code();
  codes_.push_back(stacks->InternCode({code.file, code.function, code.module, (code.bits & 1) != 0}));
}

void FrameDefinitions::DefinePlace(const CallReader& reader, StackTable* stacks) {
  if (!IsNew(reader)) return;
  const CallReader::PlaceRecord& place = reader.place();
  // A damaged log may refer to code or places that don't exist; that gives no stack.
  StackId stack = kNoStack;
  if (place.code < codes_.size() && place.caller <= places_.size()) {
    const StackId caller = place.caller == 0 ? kNoStack : places_[place.caller - 1];
    stack = stacks->InternPlace({caller, codes_[place.code], static_cast<uint32_t>(place.line)});
  }
  places_.push_back(stack);
}

void FrameDefinitions::Clear() {
  end_ = 0;
  variants_.clear();
  codes_.clear();
  places_.clear();
}

ThreadCalls::ThreadCalls(uint32_t process, uint32_t thread, const LogClock* clock, TagTable* tags)
    : clock_(clock), tags_(tags) {
  record_.process = process;
  record_.thread = thread;
}

void ThreadCalls::Begin(const LogSegment& segment) {
  tags_now_ = kNoTags;
  extras_ = {};
  has_extras_ = false;
  MoveTime(segment.time);
  const uint64_t lost = segment.calls_before - std::min(segment.calls_before, calls_);
  calls_ = segment.calls_before;
  const uint64_t surviving = SurvivingCalls(depth_, lost, segment);
  while (depth_ > surviving) {
    if (OpenCall& innermost = open_.back(); innermost.unknown > depth_ - surviving) {
      innermost.unknown -= depth_ - surviving;
      depth_ = surviving;
    } else {
      depth_ -= std::max<uint64_t>(innermost.unknown, 1);
      open_.pop_back();
    }
  }
  if (segment.open_calls > depth_) {
    open_.push_back({kNoCall, 0, {}, segment.open_calls - depth_});
    depth_ = segment.open_calls;
  }
}

void ThreadCalls::Enter(const CallReader& reader, const FrameDefinitions::Variant& variant) {
  MoveTime(reader.time());
  record_.kind = CallRecord::kEnter;
  record_.level = variant.level;
  record_.depth = static_cast<uint32_t>(std::min<uint64_t>(depth_, UINT32_MAX));
  record_.config = variant.config;
  record_.variant = variant.id;
  record_.tags = tags_now_;
  record_.parent = open_.empty() ? kNoCall : open_.back().call;
  record_.time_ns = time_ns_;
  record_.duration_ns = 0;
  record_.exception = {};
  if (has_extras_) [[unlikely]] {
    ShowExtras(/*entry=*/true);
  }
}

bool ThreadCalls::End(CallReader::Kind kind, const CallReader& reader) {
  if (open_.empty() || open_.back().call == kNoCall) {
    if (has_extras_) ForgetExtras(/*entry=*/false);
    Pop();
    return false;
  }
  MoveTime(reader.time());
  const OpenCall& call = open_.back();
  record_.kind = kind == CallReader::kLeave ? CallRecord::kLeave : CallRecord::kRaise;
  record_.level = call.variant.level;
  record_.depth = static_cast<uint32_t>(std::min<uint64_t>(depth_ - 1, UINT32_MAX));
  record_.config = call.variant.config;
  record_.variant = call.variant.id;
  record_.call = call.call;
  record_.tags = kNoTags;
  record_.parent = open_.size() < 2 ? kNoCall : open_[open_.size() - 2].call;
  record_.time_ns = time_ns_;
  record_.duration_ns = time_ns_ - call.time_ns;
  record_.exception = kind == CallReader::kRaise ? reader.text() : std::string_view();
  if (has_extras_) [[unlikely]] {
    ShowExtras(/*entry=*/false);
  }
  return true;
}

void ThreadCalls::TakeExtra(CallReader::Kind kind, const CallReader& reader, const FrameDefinitions& definitions) {
  switch (kind) {
    case CallReader::kTags:
      tags_now_ = tags_->Intern(reader.text());
      return;
    case CallReader::kStack:
      extras_.stack = definitions.stack(reader.count());
      break;
    case CallReader::kFacts:
      extras_.facts = reader.facts_of_call();
      break;
    case CallReader::kNotes:
      extras_.notes = reader.text();
      break;
    case CallReader::kResult:
      extras_.values = reader.result().values;
      extras_.result_notes = reader.result().notes;
      break;
    default:
      return;
  }
  has_extras_ = true;
}

void ThreadCalls::ShowExtras(bool entry) {
  if (entry) {
    record_.stack = extras_.stack;
    record_.facts = extras_.facts;
    record_.notes = extras_.notes;
  } else {
    record_.result = {extras_.values, extras_.result_notes};
  }
  shows_extras_ = true;
}

// Of the entry or end that was read.
void ThreadCalls::ForgetExtras(bool entry) {
  if (entry) {
    extras_.stack = kNoStack;
    extras_.facts = RecordFacts();
    extras_.notes.clear();
  } else {
    extras_.values.clear();
    extras_.result_notes.clear();
  }
  record_.stack = kNoStack;
  record_.facts = RecordFacts();
  record_.notes = {};
  record_.result = {};
  shows_extras_ = false;
  has_extras_ = extras_.stack != kNoStack || extras_.facts != RecordFacts() || !extras_.notes.empty() ||
                !extras_.values.empty() || !extras_.result_notes.empty();
}

}  // namespace torchtrace
