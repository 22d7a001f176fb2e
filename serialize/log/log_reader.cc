#include "serialize/log/log_reader.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "serialize/base/bytes.h"
#include "serialize/log/call_counts.h"
#include "serialize/log/call_reader.h"

namespace torchtrace {
namespace {

// How far to look for a frame in a file that doesn't start like a log.
constexpr uint64_t kSearchBytes = 16 << 20;
constexpr uint64_t kPagesPerRead = 64;
// Usually no record follows the committed ones.
constexpr uint64_t kUncommittedWindowBytes = 256;
// The maximum number of frames that may be missing without a gap in the file.
constexpr uint64_t kMaxMissingFrames = 1000;

bool OpenPartHolds(const FrameHeader& header) {
  return header.magic == kFrameMagic && header.open_hash == Hash64(&header, kOpenHashedBytes) &&
         header.capacity_bytes >= kPageBytes && header.capacity_bytes % kPageBytes == 0;
}

uint64_t CloseHash(const FrameHeader& header) {
  return Hash64(reinterpret_cast<const char*>(&header) + kCloseHashedOffset, kCloseHashedBytes);
}

bool ClosePartHolds(const FrameHeader& header) {
  return header.closed == kFrameClosed && header.close_hash == CloseHash(header);
}

struct Extent {
  uint64_t bytes = 0;
  uint64_t calls = 0;
};

// Where the records of a call frame end: no record starts with a zero byte.
Extent FindRecordsEnd(const LogFile& file, uint64_t payload_offset, uint64_t capacity) {
  CallReader reader(&file, payload_offset, 0, capacity);
  uint64_t calls = 0;
  auto kind = reader.Next();
  for (; kind <= CallReader::kLast; kind = reader.Next()) calls += kind == CallReader::kEnter;
  return {reader.offset(), calls};
}

// Where a metadata frame's text ends: it holds no zero byte.
Extent FindTextEnd(const LogFile& file, uint64_t payload_offset, uint64_t capacity) {
  std::array<char, 4096> chunk;
  for (uint64_t at = 0; at < capacity;) {
    const size_t read = file.ReadAt(payload_offset + at, chunk.data(), std::min<uint64_t>(chunk.size(), capacity - at));
    if (const void* zero = std::memchr(chunk.data(), 0, read)) {
      return {at + static_cast<uint64_t>(static_cast<const char*>(zero) - chunk.data())};
    }
    if (read == 0) return {at};
    at += read;
  }
  return {capacity};
}

Extent FindCountsEnd(const LogFile& file, uint64_t payload_offset, uint64_t capacity) {
  Extent extent;
  extent.bytes = VisitCounts(file.ReadAt(payload_offset, capacity),
                             [&extent](std::string_view, std::string_view, uint64_t calls) { extent.calls += calls; });
  return extent;
}

Extent FindEnd(FrameType type, const LogFile& file, uint64_t payload_offset, uint64_t capacity) {
  switch (type) {
    case FrameType::kCalls:
      return FindRecordsEnd(file, payload_offset, capacity);
    case FrameType::kCounts:
      return FindCountsEnd(file, payload_offset, capacity);
    default:
      return FindTextEnd(file, payload_offset, capacity);
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<LogReader>> LogReader::Open(const std::string& path, std::shared_ptr<LogFilePool> pool) {
  absl::StatusOr<std::unique_ptr<LogFile>> file = LogFile::Open(path, std::move(pool));
  if (!file.ok()) return file.status();
  return Open(*std::move(file));
}

absl::StatusOr<std::unique_ptr<LogReader>> LogReader::Open(std::unique_ptr<LogFile> file) {
  std::unique_ptr<LogReader> reader(new LogReader(std::move(file)));
  uint32_t version = 0;
  const absl::Status superblock = reader->ReadSuperblock(&version);
  if (superblock.ok()) {
    reader->FindFrames(UINT64_MAX);
  } else if (absl::IsUnimplemented(superblock)) {
    return superblock;
  } else {
    // A damaged first page doesn't affect the frames.
    reader->superblock_damaged_ = true;
    reader->FindFrames(kSearchBytes);
    if (reader->frames_.empty()) return superblock;
  }
  if (absl::Status s = reader->CheckReadable(); !s.ok()) return s;
  reader->GroupFrames(version);
  return reader;
}

// A log that never had more than its first page is not an error.
absl::Status LogReader::CheckReadable() const {
  bool lost = cut_ || !lost_regions_.empty();
  for (const LogFrame& frame : frames_) {
    const FramePayload payload = Verify(frame);
    if (payload.trust != FramePayload::kUseless && payload.bytes > 0) return absl::OkStatus();
    lost = lost || payload.trust == FramePayload::kUseless;
  }
  if (!lost) return absl::OkStatus();
  const std::string text = absl::StrCat(file_->path(), " holds nothing that can be read: ");
  return absl::InvalidArgumentError(
      frames_.empty() ? absl::StrCat(text, "no frame of a log in its ", file_->bytes(), " bytes")
                      : absl::StrCat(text, "none of the ", frames_.size(), " frames that are left of it is whole"));
}

absl::Status LogReader::ReadSuperblock(uint32_t* version) {
  const std::string& path = file_->path();
  Superblock block = {};
  const size_t read = file_->ReadAt(0, &block, sizeof block);
  if (std::memcmp(block.magic, kLogMagic, std::min(read, sizeof block.magic)) != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        path, " is not a torchtrace log: expected \"TTLOG\" in its first bytes, and no frame of a log follows"));
  }
  if (read < sizeof block) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, " holds no log: expected a superblock of ", sizeof block, " bytes, found ", read));
  }
  if (block.hash != Hash64(&block, offsetof(Superblock, hash))) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, " holds no log: its superblock is damaged, and no frame of a log follows"));
  }
  if (block.version > kLogVersion) {
    return absl::UnimplementedError(absl::StrCat(path, " is a log of version ", block.version,
                                                 "; this torchtrace reads versions up to ", kLogVersion));
  }
  if (block.page_bytes != kPageBytes) {
    return absl::UnimplementedError(
        absl::StrCat(path, " has pages of ", block.page_bytes, " bytes; expected ", kPageBytes));
  }
  *version = block.version;
  return absl::OkStatus();
}

bool LogReader::ReadHeader(uint64_t offset, LogFrame* frame) const {
  frame->offset = offset;
  return file_->ReadAt(offset, &frame->header, sizeof frame->header) == sizeof frame->header &&
         OpenPartHolds(frame->header);
}

// The first page from `offset` on with the header of a frame that can follow, which
// excludes headers inside payloads. The file's end if there is none.
uint64_t LogReader::FindHeader(uint64_t offset, uint64_t search_end, uint64_t sequence) const {
  const uint64_t end = std::min(file_->bytes(), search_end);
  const auto buffer = std::make_unique_for_overwrite<char[]>(kPagesPerRead * kPageBytes);
  while (offset < end) {
    const size_t read = file_->ReadAt(offset, buffer.get(), kPagesPerRead * kPageBytes);
    for (size_t at = 0; at + sizeof(FrameHeader) <= read; at += kPageBytes) {
      FrameHeader header;
      std::memcpy(&header, buffer.get() + at, sizeof header);
      const uint64_t pages_before = (offset + at) / kPageBytes - 1;
      if (OpenPartHolds(header) && header.sequence >= sequence && header.sequence <= pages_before + kMaxMissingFrames) {
        return offset + at;
      }
    }
    if (read < kPagesPerRead * kPageBytes) break;
    offset += read;
  }
  return file_->bytes();
}

void LogReader::FindFrames(uint64_t search_end) {
  const uint64_t end = file_->bytes();
  cut_ = end % kPageBytes != 0 || end < kPageBytes;
  while (next_offset_ < end) {
    const uint64_t offset = next_offset_;
    LogFrame frame;
    if (ReadHeader(offset, &frame) && frame.header.sequence == next_sequence_) {
      if (!ClosePartHolds(frame.header)) open_.push_back(static_cast<uint32_t>(frames_.size()));
      frames_.push_back(frame);
      next_offset_ += frame.header.capacity_bytes;
      ++next_sequence_;
      continue;
    }
    const uint64_t found = FindHeader(offset, search_end, next_sequence_);
    // Reserved space without a frame yet, or with the beginning of a header.
    if (found == end && !cut_ && file_->IsZeroAt(offset + kOpenHashedBytes, end - offset - kOpenHashedBytes)) return;
    LostRegion region{offset, found - offset, std::nullopt};
    LogFrame next;
    bool one_frame = found == end && frame.header.capacity_bytes == region.bytes;
    if (found < end && ReadHeader(found, &next)) {
      one_frame = next.header.sequence == next_sequence_ + 1;
      next_sequence_ = next.header.sequence;
    }
    // A damaged header may still count its calls.
    if (one_frame && !OpenPartHolds(frame.header) && ClosePartHolds(frame.header)) region.calls = frame.header.calls;
    lost_regions_.push_back(region);
    // Only a file that turned out to be a log is worth searching to its end.
    search_end = UINT64_MAX;
    next_offset_ = found;
  }
  cut_ = cut_ || next_offset_ > end;
}

std::vector<uint32_t> LogReader::Update() {
  file_->Update();
  // What reached to the file's end may have been a frame in the making.
  if (!lost_regions_.empty() && lost_regions_.back().offset + lost_regions_.back().bytes == next_offset_) {
    next_offset_ = lost_regions_.back().offset;
    lost_regions_.pop_back();
  }
  std::vector<uint32_t> changed;
  // After a frame was found, whichever its thread left has all its records: so these are read last.
  const std::vector<uint32_t> open = std::exchange(open_, {});
  const auto first_new = static_cast<uint32_t>(frames_.size());
  FindFrames(UINT64_MAX);
  for (const uint32_t i : open) {
    LogFrame now;
    if (ReadHeader(frames_[i].offset, &now)) {
      const FrameHeader before = std::exchange(frames_[i].header, now.header);
      if (now.header.committed_bytes != before.committed_bytes || now.header.closed != before.closed) {
        changed.push_back(i);
      }
    }
    if (!ClosePartHolds(frames_[i].header)) open_.push_back(i);
  }
  for (uint32_t i = first_new; i < frames_.size(); ++i) {
    changed.push_back(i);
    processes_[0].frames.push_back(i);
  }
  return changed;
}

// `version` is 0 when the superblock is damaged: then the frames show which it is.
void LogReader::GroupFrames(uint32_t version) {
  many_processes_ = version == kManyProcessesVersion ||
                    (version == 0 && std::any_of(frames_.begin(), frames_.end(), [](const LogFrame& frame) {
                       return frame.header.process != 0 || frame.type() == FrameType::kClosing;
                     }));
  absl::flat_hash_map<uint32_t, size_t> index;
  size_t at = 0;  // of the process whose frame was last
  for (uint32_t i = 0; i < frames_.size(); ++i) {
    if (many_processes_ && frames_[i].type() == FrameType::kClosing) continue;
    const uint32_t number = many_processes_ ? frames_[i].header.process : 0;
    if (processes_.empty() || processes_[at].number != number) {
      const auto [found, is_new] = index.try_emplace(number, processes_.size());
      at = found->second;
      if (is_new) processes_.emplace_back().number = number;
    }
    processes_[at].frames.push_back(i);
  }
  std::sort(processes_.begin(), processes_.end(),
            [](const LogProcess& a, const LogProcess& b) { return a.number < b.number; });
  if (many_processes_) ReadClosingFrame();
  if (processes_.empty()) processes_.emplace_back();
}

void LogReader::ReadClosingFrame() {
  const uint64_t end = file_->bytes();
  bool lost = false;  // frames that hold calls, or may
  for (const LostRegion& region : lost_regions_) lost = lost || region.calls.value_or(1) > 0;
  if (frames_.empty() || frames_.back().type() != FrameType::kClosing) {
    // An unreadable region at the file's end may be the closing frame.
    const bool at_end = !lost_regions_.empty() && lost_regions_.back().offset + lost_regions_.back().bytes == end;
    may_lack_frames_ = cut_ || lost || !at_end;
    return;
  }
  const LogFrame& frame = frames_.back();
  const FramePayload payload = Verify(frame);
  closing_note_ = payload.note.empty() ? "" : absl::StrCat(payload.note, " (closing)");
  const std::string bytes =
      file_->ReadAt(frame.payload_offset(), payload.trust == FramePayload::kVerified ? payload.bytes : 0);
  ByteReader reader(bytes);
  uint64_t count = 0;
  // A process has at least one frame and takes at least two bytes here.
  if (!reader.Varint(&count) || count > reader.remaining() / 2 || count > frame.header.sequence) {
    may_lack_frames_ = cut_ || lost;
    if (closing_note_.empty()) closing_note_ = absl::StrCat("the closing frame at byte ", frame.offset, " is damaged");
    return;
  }
  std::vector<LogProcess> processes(count);
  for (uint32_t number = 0; number < count; ++number) {
    LogProcess::Totals totals;
    if (!reader.Varint(&totals.frames) || !reader.Varint(&totals.calls)) break;
    processes[number].number = number;
    processes[number].totals = totals;
  }
  for (LogProcess& process : processes_) {
    if (process.number < count) {
      processes[process.number].frames = std::move(process.frames);
    } else {
      processes.push_back(std::move(process));
    }
  }
  processes_ = std::move(processes);
}

FramePayload LogReader::Verify(const LogFrame& frame) const {
  const FrameHeader& header = frame.header;
  const uint64_t in_file = file_->bytes() - std::min(file_->bytes(), frame.payload_offset());
  const uint64_t available = std::min(frame.payload_capacity(), in_file);
  FramePayload payload;
  payload.bytes = std::min<uint64_t>(header.committed_bytes, available);
  const bool closed = ClosePartHolds(header);
  const bool never_closed = header.calls == 0 && header.payload_hash == 0 && header.close_hash == 0;
  if (!closed && header.closed != 0 && !never_closed) return VerifyDoubtful(frame, available);
  if (closed) payload.calls = header.calls;
  if (header.committed_bytes > available) {
    payload.trust = FramePayload::kUnverified;
    payload.note = in_file < frame.payload_capacity()
                       ? absl::StrCat("the file ends in the frame at byte ", frame.offset)
                       : absl::StrCat("the frame at byte ", frame.offset, " has a damaged commit word");
    return payload;
  }
  if (!closed) {
    payload.trust = FramePayload::kUnverified;
    if (header.closed != 0) payload.note = absl::StrCat("the frame at byte ", frame.offset, " has a damaged header");
    return payload;
  }
  if (file_->HashAt(frame.payload_offset(), payload.bytes) == header.payload_hash) {
    payload.trust = FramePayload::kVerified;
  } else {
    payload.note = absl::StrCat("the frame at byte ", frame.offset, " fails its checksum");
  }
  return payload;
}

// The header marks the frame as closed, but some field of it is wrong. The payload
// is used only if one of the two hashes still confirms it.
FramePayload LogReader::VerifyDoubtful(const LogFrame& frame, uint64_t available) const {
  const Extent extent = FindEnd(frame.type(), *file_, frame.payload_offset(), available);
  FrameHeader repaired = frame.header;
  repaired.committed_bytes = static_cast<uint32_t>(extent.bytes);
  repaired.closed = kFrameClosed;
  repaired.calls = extent.calls;
  repaired.payload_hash = file_->HashAt(frame.payload_offset(), extent.bytes);
  FramePayload payload;
  if (repaired.payload_hash == frame.header.payload_hash || CloseHash(repaired) == frame.header.close_hash) {
    payload.trust = FramePayload::kVerified;
    payload.bytes = extent.bytes;
    payload.calls = extent.calls;
    // The process may have died while closing the frame.
    if (!(frame.header.close_hash == 0 && CloseHash(repaired) == CloseHash(frame.header))) {
      payload.note = absl::StrCat("the frame at byte ", frame.offset, " has a damaged header; its payload is whole");
    }
  } else {
    payload.bytes = std::min<uint64_t>(frame.header.committed_bytes, available);
    payload.note = absl::StrCat("the frame at byte ", frame.offset, " has a damaged header that proves nothing");
  }
  return payload;
}

bool LogReader::HasLostRecords(const LogFrame& frame) const {
  if (frame.header.closed == kFrameClosed || frame.header.committed_bytes >= frame.payload_capacity()) return false;
  CallReader reader(file_.get(), frame.payload_offset(), frame.header.committed_bytes, frame.payload_capacity(),
                    kUncommittedWindowBytes);
  if (reader.Next() > CallReader::kLast) return false;
  // No record starts with a zero byte.
  char byte = 0;
  if (file_->ReadAt(frame.payload_offset() + reader.next_offset(), &byte, 1) == 0 || byte == 0) return false;
  LogFrame now;
  return ReadHeader(frame.offset, &now) && now.header.committed_bytes == frame.header.committed_bytes &&
         now.header.closed == frame.header.closed;
}

}  // namespace torchtrace
