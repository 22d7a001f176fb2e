#include "serialize/log/call_reader.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace torchtrace {

CallReader::CallReader(const LogFile* file, uint64_t payload_offset, uint64_t begin, uint64_t end,
                       uint64_t window_bytes)
    : file_(file),
      file_at_(payload_offset + begin),
      file_end_(payload_offset + std::max(begin, end)),
      buffer_bytes_(static_cast<size_t>(std::min(window_bytes, file_end_ - file_at_))),
      base_(begin) {
  buffer_ = std::make_unique_for_overwrite<char[]>(buffer_bytes_ + kSlackBytes);
  std::memset(buffer_.get(), 0, kSlackBytes);
  start_ = at_ = end_ = buffer_.get();
}

void CallReader::Fill(const char* keep, uint64_t bytes) {
  const auto kept = static_cast<size_t>(end_ - keep);
  const auto position = static_cast<size_t>(at_ - keep);
  const uint64_t needed = std::min<uint64_t>(bytes, kept + (file_end_ - file_at_));
  base_ += static_cast<uint64_t>(keep - buffer_.get());
  if (needed > buffer_bytes_) {
    const auto grown = static_cast<size_t>(std::max<uint64_t>(needed, 2 * buffer_bytes_));
    auto larger = std::make_unique_for_overwrite<char[]>(grown + kSlackBytes);
    std::memcpy(larger.get(), keep, kept);
    buffer_ = std::move(larger);
    buffer_bytes_ = grown;
  } else {
    std::memmove(buffer_.get(), keep, kept);
  }
  const auto wanted = static_cast<size_t>(std::min<uint64_t>(buffer_bytes_ - kept, file_end_ - file_at_));
  const size_t read = file_->ReadAt(file_at_, buffer_.get() + kept, wanted);
  file_at_ += read;
  if (read < wanted) file_end_ = file_at_;  // the file became shorter
  end_ = buffer_.get() + kept + read;
  std::memset(buffer_.get() + kept + read, 0, kSlackBytes);
  start_ = buffer_.get();
  at_ = start_ + position;
}

bool CallReader::TakeString(uint64_t bytes, std::string_view* text) {
  if (at_ > end_) return false;
  if (bytes > static_cast<uint64_t>(end_ - at_)) {
    const auto before = static_cast<uint64_t>(at_ - start_);
    // An impossible length must not overflow the sum.
    if (bytes > UINT32_MAX) return false;
    Fill(start_, before + bytes + kSlackBytes);
    if (bytes > static_cast<uint64_t>(end_ - at_)) return false;
  }
  *text = std::string_view(at_, static_cast<size_t>(bytes));
  at_ += bytes;
  return true;
}

const char* CallReader::TakeLongVarint(const char* at, uint64_t* value) {
  uint64_t result = 0;
  for (int i = 0; i < kMaxVarintBytes; ++i) {
    const auto next = static_cast<uint64_t>(static_cast<uint8_t>(at[i]));
    result |= (next & 0x7f) << (7 * i);
    if (next >= 0x80) continue;
    if (i == kMaxVarintBytes - 1 && next > 1) return nullptr;
    *value = result;
    return at + i + 1;
  }
  return nullptr;
}

CallReader::Kind CallReader::NextWithBody(uint64_t head) {
  uint64_t bytes;
  std::string_view body;
  if (head == 0) return kBroken;
  const char* const at = TakeVarint(at_, &bytes);
  if (at == nullptr) return kBroken;
  at_ = at;
  if (!TakeString(bytes, &body)) return kBroken;
  Kind kind = kRaise;
  if (static_cast<RecordKind>(head & 3) == RecordKind::kRaise) {
    time_ += head >> 2;
  } else {
    kind = KindOf(head >> 2);
  }
  return Parse(kind, body) ? kind : kBroken;
}

LogRecord::Kind LogRecord::KindOf(uint64_t other) {
  // OtherRecord numbers most of them from 1, in the same order.
  constexpr auto kInOrder = static_cast<uint64_t>(OtherRecord::kMemory);
  static_assert(kMemory - kDefine + 1 == kInOrder);
  if (other <= kInOrder) return static_cast<Kind>(kDefine + other - 1);
  return other == static_cast<uint64_t>(OtherRecord::kSteps) ? kSteps : kUnknown;
}

StepMarks LogRecord::MoveSteps(const StepMarks& before) const {
  StepMarks marks;
  for (size_t i = 0; i < kStepKinds; ++i) {
    marks.of[i].number = before.of[i].number + steps_.of[i].number;
    marks.of[i].begin_ns = static_cast<int64_t>(static_cast<uint64_t>(before.of[i].begin_ns) +
                                                static_cast<uint64_t>(steps_.of[i].begin_ns));
  }
  return marks;
}

bool LogRecord::Parse(Kind kind, std::string_view body) {
  body_ = body;
  // Ignore anything after the known fields of a body: a later version added it.
  ByteReader reader(body);
  switch (kind) {
    case kRaise:
    case kNotes:
    case kWritten:
      text_ = body;
      return true;
    case kDefine:
    case kSchema:
      return reader.String(&text_) && reader.String(&facets_);
    case kThread:
      if (!reader.Varint(&thread_.number) || !reader.Varint(&thread_.os_id) || !reader.Varint(&thread_.time) ||
          !reader.Varint(&thread_.calls_before) || !reader.Varint(&thread_.open_calls) ||
          !reader.String(&thread_.name)) {
        return false;
      }
      time_ = thread_.time;
      return true;
    case kDropped:
      return reader.Varint(&count_) && reader.String(&text_);
    case kTags:
      return reader.String(&text_);
    case kCode:
      return reader.Varint(&code_.bits) && reader.String(&code_.file) && reader.String(&code_.function) &&
             reader.String(&code_.module);
    case kPlace:
      return reader.Varint(&place_.code) && reader.Varint(&place_.line) && reader.Varint(&place_.caller);
    case kStack:
      return reader.Varint(&count_);
    case kFacts: {
      uint64_t sequence;
      if (!reader.Varint(&facts_of_call_.scope) || !reader.Varint(&facts_of_call_.thread) ||
          !reader.Varint(&sequence) || !reader.Varint(&facts_of_call_.forward_thread) ||
          !reader.Varint(&facts_of_call_.id)) {
        return false;
      }
      facts_of_call_.sequence = UnZigZag(sequence);
      return true;
    }
    case kResult:
      if (!reader.String(&text_)) return false;
      facets_ = body.substr(reader.offset());
      return true;
    case kLater: {
      uint64_t of;
      if (!reader.Varint(&count_) || !reader.Varint(&of)) return false;
      // What a later version calls otherwise has no notes here.
      later_of_ = static_cast<LaterOf>(std::min(of, kLaterKinds - 1));
      text_ = of < kLaterKinds ? body.substr(reader.offset()) : std::string_view();
      return true;
    }
    case kSteps: {
      uint64_t bits, number, ns;
      if (!reader.Varint(&bits)) return false;
      steps_ = StepMarks();
      for (size_t i = 0; i < kStepKinds; ++i) {
        if ((bits >> i & 1) == 0) continue;
        if (!reader.Varint(&number) || !reader.Varint(&ns)) return false;
        steps_.of[i] = {static_cast<uint64_t>(UnZigZag(number)), UnZigZag(ns)};
      }
      return true;
    }
    case kMemory: {
      uint64_t head;
      if (!reader.Varint(&head) || !reader.Varint(&memory_.address) || !reader.Varint(&memory_.bytes) ||
          !reader.Varint(&count_)) {
        return false;
      }
      memory_.freed = (head & 1) != 0;
      memory_.device.kind = static_cast<MemoryKind>(head >> 1 & 3);
      memory_.device.index = static_cast<uint32_t>(std::min<uint64_t>(head >> 3, kMostMemoryDevices - 1));
      return true;
    }
    default:
      return true;
  }
}

}  // namespace torchtrace
