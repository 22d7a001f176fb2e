#include "serialize/log/thread_calls.h"

#include <algorithm>
#include <string_view>

namespace torchtrace {

void FrameDefinitions::Add(LogRecord::Kind kind, const LogRecord& record, ConfigTable* configs, StackTable* stacks) {
  switch (kind) {
    case LogRecord::kDefine: {
      const VariantId id = configs->Intern(record.identity(), record.facets());
      const ConfigId config = configs->config_of(id);
      const std::string_view identity = configs->identity(config);
      variants_.push_back({id, config, identity.empty() ? uint8_t{0} : static_cast<uint8_t>(identity[0])});
      return;
    }
    case LogRecord::kCode: {
      const LogRecord::CodeRecord& code = record.code();
      codes_.push_back(stacks->InternCode({code.file, code.function, code.module, (code.bits & 1) != 0}));
      return;
    }
    case LogRecord::kPlace: {
      const LogRecord::PlaceRecord& place = record.place();
      // A damaged log may refer to code or places that don't exist; that gives no stack.
      StackId stack = kNoStack;
      if (place.code < codes_.size() && place.caller <= places_.size()) {
        const StackId caller = place.caller == 0 ? kNoStack : places_[place.caller - 1];
        stack = stacks->InternPlace({caller, codes_[place.code], static_cast<uint32_t>(place.line)});
      }
      places_.push_back(stack);
      return;
    }
    default:
      return;
  }
}

ThreadCalls::ThreadCalls(uint32_t process, uint32_t thread, const LogClock* clock, TagTable* tags, RecordsShown shown)
    : clock_(clock), tags_(tags), shown_(shown) {
  record_.process = process;
  record_.thread = thread;
}

void ThreadCalls::Begin(const LogSegment& segment) {
  tags_now_ = kNoTags;
  extras_ = {};
  has_extras_ = false;
  MoveTime(clock_->Nanoseconds(segment.time));
  const uint64_t lost = segment.calls_before - std::min(segment.calls_before, calls_);
  calls_ = segment.calls_before;
  const uint64_t surviving = SurvivingCalls(depth_, lost, segment);
  while (depth_ > surviving) {
    if (OpenCall& innermost = open_.back(); innermost.unknown > depth_ - surviving) {
      innermost.unknown -= depth_ - surviving;
      depth_ = surviving;
    } else {
      depth_ -= std::max<uint64_t>(innermost.unknown, 1);
      open_.Pop();
    }
  }
  if (segment.open_calls > depth_) {
    OpenCall& open = open_.Push();
    open = {};
    open.unknown = segment.open_calls - depth_;
    depth_ = segment.open_calls;
  }
}

bool ThreadCalls::TakeExtra(LogRecord::Kind kind, const LogRecord& record, int64_t time_ns,
                            const FrameDefinitions& definitions) {
  switch (kind) {
    case LogRecord::kTags:
      tags_now_ = tags_->Intern(record.text());
      return false;
    case LogRecord::kSteps:
      tags_now_ = tags_->WithSteps(tags_now_, record.MoveSteps(tags_->steps(tags_now_)));
      return false;
    case LogRecord::kLater:
      return shown_.later && TakeLater(record.later());
    case LogRecord::kMemory:
      return shown_.memory && TakeMemory(record, time_ns);
    case LogRecord::kStack:
      extras_.stack = definitions.stack(record.count());
      break;
    case LogRecord::kFacts:
      extras_.facts = record.facts_of_call();
      break;
    case LogRecord::kNotes:
      extras_.notes = record.text();
      break;
    case LogRecord::kResult:
      extras_.values = record.result().values;
      extras_.result_notes = record.result().notes;
      break;
    case LogRecord::kWritten:
      extras_.written = record.text();
      break;
    default:
      return false;
  }
  has_extras_ = true;
  return false;
}

bool ThreadCalls::TakeLater(const LaterNotes& later) {
  if (later.calls_since >= calls_ || later.notes.empty()) return false;
  const RecentCall* const recent = recent_.Find(calls_ - 1 - later.calls_since);
  if (recent == nullptr) return false;
  record_.kind = CallRecord::kLater;
  record_.level = recent->variant.level;
  record_.depth = static_cast<uint32_t>(std::min<uint64_t>(depth_, UINT32_MAX));
  record_.config = recent->variant.config;
  record_.variant = recent->variant.id;
  record_.call = recent->call;
  record_.tags = kNoTags;
  record_.parent = kNoCall;
  record_.time_ns = time_ns_;
  record_.duration_ns = 0;
  record_.exception = {};
  switch (later.of) {
    case LaterOf::kArguments:
      record_.notes = later.notes;
      break;
    case LaterOf::kResult:
      record_.result.notes = later.notes;
      break;
    case LaterOf::kWritten:
      record_.result.written = later.notes;
      break;
    case LaterOf::kDeviceWork:
      record_.device_work = later.notes;
      break;
  }
  return true;
}

// It has a time of its own, so that what threads free and allocate again comes in order.
bool ThreadCalls::TakeMemory(const LogRecord& record, int64_t time_ns) {
  MoveTime(time_ns + clock_->Span(record.count()));
  const OpenCall* const around = open_.empty() || open_.back().call == kNoCall ? nullptr : &open_.back();
  record_.kind = CallRecord::kMemory;
  record_.level = around == nullptr ? 0 : around->variant.level;
  record_.depth = static_cast<uint32_t>(std::min<uint64_t>(depth_, UINT32_MAX));
  record_.config = around == nullptr ? kLostId : around->variant.config;
  record_.variant = around == nullptr ? kLostId : around->variant.id;
  record_.call = around == nullptr ? kNoCall : around->call;
  record_.tags = tags_now_;
  record_.parent = around == nullptr || open_.size() < 2 ? kNoCall : open_[open_.size() - 2].call;
  record_.time_ns = time_ns_;
  record_.duration_ns = 0;
  record_.exception = {};
  record_.memory = record.memory();
  return true;
}

void ThreadCalls::ShowExtras(bool entry) {
  if (entry) {
    record_.stack = extras_.stack;
    record_.facts = extras_.facts;
    record_.notes = extras_.notes;
  } else {
    record_.result = {extras_.values, extras_.result_notes, extras_.written};
  }
}

void ThreadCalls::HideNotes() {
  record_.notes = {};
  record_.result = {};
  record_.device_work = {};
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
    extras_.written.clear();
  }
  record_.stack = kNoStack;
  record_.facts = RecordFacts();
  HideNotes();
  has_extras_ = extras_.stack != kNoStack || extras_.facts != RecordFacts() || !extras_.notes.empty() ||
                !extras_.values.empty() || !extras_.result_notes.empty() || !extras_.written.empty();
}

}  // namespace torchtrace
