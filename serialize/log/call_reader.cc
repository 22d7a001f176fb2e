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

bool CallReader::LongVarint(uint64_t* value) {
  uint64_t result = 0;
  for (int i = 0; i < kMaxVarintBytes; ++i) {
    const auto next = static_cast<uint64_t>(static_cast<uint8_t>(at_[i]));
    result |= (next & 0x7f) << (7 * i);
    if (next >= 0x80) continue;
    if (i == kMaxVarintBytes - 1 && next > 1) return false;
    *value = result;
    at_ += i + 1;
    return true;
  }
  return false;
}

CallReader::Kind CallReader::NextWithBody(uint64_t head) {
  uint64_t bytes;
  std::string_view body;
  if (static_cast<RecordKind>(head & 3) == RecordKind::kRaise) {
    if (!Varint(&bytes) || !TakeString(bytes, &text_)) return kBroken;
    time_ += head >> 2;
    return kRaise;
  }
  if (head == 0 || !Varint(&bytes) || !TakeString(bytes, &body)) return kBroken;
  // Ignore anything after the known fields of a body: a later version added it.
  ByteReader reader(body);
  switch (static_cast<OtherRecord>(std::min<uint64_t>(head >> 2, UINT8_MAX))) {
    case OtherRecord::kDefine:
      return reader.String(&text_) && reader.String(&facets_) ? kDefine : kBroken;
    case OtherRecord::kThread:
      if (!reader.Varint(&thread_.number) || !reader.Varint(&thread_.os_id) || !reader.Varint(&thread_.time) ||
          !reader.Varint(&thread_.calls_before) || !reader.Varint(&thread_.open_calls) ||
          !reader.String(&thread_.name)) {
        return kBroken;
      }
      time_ = thread_.time;
      return kThread;
    case OtherRecord::kDropped:
      return reader.Varint(&count_) && reader.String(&text_) ? kDropped : kBroken;
    case OtherRecord::kTags:
      return reader.String(&text_) ? kTags : kBroken;
    case OtherRecord::kCode:
      return reader.Varint(&code_.bits) && reader.String(&code_.file) && reader.String(&code_.function) &&
                     reader.String(&code_.module)
                 ? kCode
                 : kBroken;
    case OtherRecord::kPlace:
      return reader.Varint(&place_.code) && reader.Varint(&place_.line) && reader.Varint(&place_.caller) ? kPlace
                                                                                                         : kBroken;
    case OtherRecord::kStack:
      return reader.Varint(&count_) ? kStack : kBroken;
    case OtherRecord::kFacts: {
      uint64_t sequence;
      if (!reader.Varint(&facts_of_call_.scope) || !reader.Varint(&facts_of_call_.thread) ||
          !reader.Varint(&sequence) || !reader.Varint(&facts_of_call_.forward_thread) ||
          !reader.Varint(&facts_of_call_.id)) {
        return kBroken;
      }
      facts_of_call_.sequence = UnZigZag(sequence);
      return kFacts;
    }
    case OtherRecord::kNotes:
      text_ = body;
      return kNotes;
    case OtherRecord::kResult:
      if (!reader.String(&text_)) return kBroken;
      facets_ = body.substr(reader.offset());
      return kResult;
    case OtherRecord::kSchema:
      return reader.String(&text_) && reader.String(&facets_) ? kSchema : kBroken;
    default:
      return kUnknown;
  }
}

}  // namespace torchtrace
