// Fuzzes everything that reads a log: whatever the bytes are, reading must end
// without a fault, in order, and with consistent results.
//
// The input's first byte gives its kind. 0: a complete log file. Otherwise frames in a
// short form without checksums, so that the fuzzer gets past those: for each one a
// byte for its type (the two lowest bits) and process, a byte for its state, a
// varint of payload bytes, payload. 2: the log is of many processes.
//
//   bazel build --config=fuzz //serialize:log_reader_fuzz
//   .build/fuzz-bin/serialize/log_reader_fuzz testdata/fuzz/log

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "serialize/base/bytes.h"
#include "serialize/log/log_follower.h"
#include "serialize/log/log_format.h"
#include "serialize/log/log_trace.h"
#include "serialize/model/tensor_notes.h"
#include "serialize/trace/trace.h"

namespace torchtrace {
namespace {

enum FrameState : uint8_t { kOpenState, kClosedState, kBadPayloadState, kBadHeaderState, kBadCloseState, kFrameStates };

void Require(bool condition, const char* what) {
  if (condition) return;
  std::fprintf(stderr, "%s\n", what);
  std::abort();
}

std::string BuildLog(uint32_t version, std::string_view input) {
  Superblock block = {{}, version, kPageBytes, 0};
  std::memcpy(block.magic, kLogMagic, sizeof block.magic);
  block.hash = Hash64(&block, offsetof(Superblock, hash));
  std::string log(kPageBytes, '\0');
  std::memcpy(log.data(), &block, sizeof block);
  ByteReader reader(input);
  uint8_t type, state;
  uint64_t bytes;
  for (uint64_t sequence = 0; reader.Byte(&type) && reader.Byte(&state) && reader.Varint(&bytes); ++sequence) {
    std::string_view payload;
    if (!reader.Bytes(std::min<uint64_t>(bytes, reader.remaining()), &payload)) break;
    state %= kFrameStates;
    FrameHeader header = {};
    header.magic = kFrameMagic;
    // Frames of counts have the number that fits no more.
    header.type = type % 4 == 0 ? static_cast<uint16_t>(FrameType::kCounts) : type % 4;
    header.process = type / 4;
    header.capacity_bytes =
        static_cast<uint32_t>((sizeof header + payload.size() + kPageBytes - 1) / kPageBytes * kPageBytes);
    header.sequence = sequence;
    header.open_hash = Hash64(&header, kOpenHashedBytes);
    header.committed_bytes = static_cast<uint32_t>(payload.size());
    if (state != kOpenState) {
      header.calls = payload.size() / 4;
      header.payload_hash = Hash64(payload.data(), payload.size()) + (state == kBadPayloadState);
      header.closed = kFrameClosed;
      header.close_hash = Hash64(&header.committed_bytes, kCloseHashedBytes) + (state == kBadCloseState);
    }
    if (state == kBadHeaderState) header.open_hash ^= 1;
    const size_t offset = log.size();
    log.resize(offset + header.capacity_bytes);
    std::memcpy(&log[offset], &header, sizeof header);
    payload.copy(&log[offset + sizeof header], payload.size());
  }
  return log;
}

// Reads damage in one pass as well as it can: calls that it finds must be open and their counts right.
void ReadLogOnce(const std::string& path) {
  const absl::StatusOr<std::unique_ptr<Trace>> opened = OpenLogs(path);
  if (!opened.ok()) return;
  Trace& trace = **opened;
  std::vector<uint64_t> seen;
  std::vector<bool> open;  // by call
  const LaterNotesShown shown(&trace);
  const MemoryShown shown_too(&trace);
  const absl::Status status = trace.ReadThreads([&](const CallRecord& record) {
    if (record.kind == CallRecord::kMemory) {
      Require(record.call == kNoCall || open.at(record.call), "memory of an open call");
      return;
    }
    Require(record.config == trace.config_of(record.variant), "the variant's config");
    for (const std::string_view notes : {record.notes, record.result.notes, record.result.written}) {
      for (const TensorNote& note : ReadTensorNotes(notes)) {
        Require(note.contents.value_or("").size() <= notes.size(), "contents within the record");
      }
    }
    if (record.kind == CallRecord::kEnter) {
      Require(record.call == open.size(), "numbered calls");
      Require(record.parent == kNoCall || open.at(record.parent), "a parent that is open");
      seen.resize(std::max<size_t>(seen.size(), record.variant + 1));
      seen[record.variant] += record.count;
      open.push_back(true);
    } else if (record.kind == CallRecord::kLater) {
      Require(record.call < open.size(), "later notes on a call");
    } else {
      Require(open.at(record.call), "an end of an open call");
      open[record.call] = false;
    }
  });
  Require(status.ok(), "reading without an error");
  seen.resize(trace.variant_count());
  Require(seen == trace.Count().value(), "the same counts");
}

void ReadLog(const std::string& path) {
  const absl::StatusOr<std::unique_ptr<Trace>> opened = OpenLogs(path);
  if (!opened.ok()) return;
  Trace& trace = **opened;
  const std::vector<uint64_t> counts = trace.Count().value();
  Require(counts.size() == trace.variant_count(), "a count for each variant");
  std::vector<uint64_t> seen(counts.size());
  std::vector<bool> open;  // by call
  uint64_t entered = 0;
  const absl::Status status = trace.ReadCounted([&](const CallRecord& record) {
    Require(record.variant < counts.size(), "a variant that was counted");
    Require(record.config == trace.config_of(record.variant), "the variant's config");
    if (record.kind == CallRecord::kEnter) {
      Require(record.call == open.size(), "calls in order");
      entered += record.count;
      Require(record.parent == kNoCall || open.at(record.parent), "a parent that is open");
      seen[record.variant] += record.count;
      open.push_back(true);
    } else {
      Require(open.at(record.call), "an end of an open call");
      open[record.call] = false;
    }
    return absl::OkStatus();
  });
  Require(status.ok(), "reading without an error");
  Require(seen == counts, "the same counts");
  uint64_t calls = 0;
  uint64_t open_calls = 0;
  for (const ProcessInfo& process : trace.processes()) {
    calls += process.calls;
    open_calls += process.open_calls;
    Require(process.event_bytes <= process.file_bytes && process.definition_bytes <= process.file_bytes, "sizes");
    uint64_t thread_calls = 0;
    for (const ThreadInfo& thread : process.threads) thread_calls += thread.calls;
    Require(thread_calls + process.counted == process.calls, "the threads' calls");
  }
  Require(calls == entered, "the processes' calls");
  Require(open_calls == static_cast<uint64_t>(std::count(open.begin(), open.end(), true)), "open calls");
}

// Follow a log that grows, from its beginning and from its end: every call has a name.
class Followers {
 public:
  explicit Followers(const std::string& path) {
    const auto naming = [](std::string_view identity) -> CallName {
      const auto number = static_cast<uint32_t>(identity.size());
      return {number, number % 2 == 0 ? number : kNoName};
    };
    for (const uint64_t recent_bytes : {UINT64_MAX, uint64_t{0}}) {
      absl::StatusOr<std::unique_ptr<LogFollower>> follower = LogFollower::Open(path, nullptr, naming, recent_bytes);
      if (follower.ok()) followers_.push_back(*std::move(follower));
    }
  }

  void Step(Running running) {
    for (const std::unique_ptr<LogFollower>& follower : followers_) {
      follower->Step();
      const LiveProcess report = follower->Report(running, 1000);
      uint64_t calls = 0;
      for (const Activity& activity : report.apis) calls += activity.calls;
      Require(calls == report.calls && calls <= report.info.calls, "the calls of all names");
    }
  }

 private:
  std::vector<std::unique_ptr<LogFollower>> followers_;
};

}  // namespace
}  // namespace torchtrace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view input(reinterpret_cast<const char*>(data) + 1, size - 1);
  const uint32_t version = data[0] == 2 ? torchtrace::kManyProcessesVersion : torchtrace::kOneProcessVersion;
  const std::string log = data[0] == 0 ? std::string(input) : torchtrace::BuildLog(version, input);
  static const int file = memfd_create("log", MFD_CLOEXEC);
  const std::string path = absl::StrCat("/proc/self/fd/", file);
  const size_t half = log.size() / 2;
  const auto append = [&log](size_t begin, size_t end) {
    return pwrite(file, log.data() + begin, end - begin, static_cast<off_t>(begin)) ==
           static_cast<ssize_t>(end - begin);
  };
  torchtrace::Require(file >= 0 && ftruncate(file, 0) == 0 && append(0, half), "a file in memory");
  torchtrace::Followers followers(path);
  followers.Step(torchtrace::Running::kYes);
  torchtrace::Require(append(half, log.size()), "a file that grows");
  for (int i = 0; i < 3; ++i) followers.Step(torchtrace::Running::kNo);
  torchtrace::ReadLog(path);
  torchtrace::ReadLogOnce(path);
  return 0;
}
