#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "serialize/base/bytes.h"
#include "serialize/base/files.h"
#include "serialize/base/json_member.h"
#include "serialize/edit/edit.h"
#include "serialize/log/call_counts.h"
#include "serialize/log/call_reader.h"
#include "serialize/log/call_writer.h"
#include "serialize/log/log_format.h"
#include "serialize/log/log_metadata.h"
#include "serialize/log/log_reader.h"
#include "serialize/log/log_survey.h"
#include "serialize/log/log_writer.h"
#include "serialize/trace/tables.h"
#include "serialize/trace/trace.h"

namespace torchtrace {
namespace {

using Json = nlohmann::json;

// A thread's frames start small and grow: there may be many threads with few calls.
constexpr uint32_t kFirstFrameBytes = 16 << 10;
constexpr uint32_t kMaxFrameBytes = 1 << 20;
// The limit for all open frames together; beyond it, they are written before they are full.
constexpr uint64_t kMaxOpenBytes = 64 << 20;
// Between two reports of progress.
constexpr uint64_t kProgressBytes = 1 << 20;
constexpr size_t kCopyBytes = 256 << 10;
constexpr size_t kMaxSentences = 100;

uint32_t WholePages(uint64_t bytes) {
  return static_cast<uint32_t>((bytes + kPageBytes - 1) / kPageBytes * kPageBytes);
}

// The memory of an open frame.
class FrameBuffer {
 public:
  explicit FrameBuffer(uint32_t capacity) : header_(static_cast<FrameHeader*>(std::calloc(1, capacity))) {
    header_->capacity_bytes = capacity;
  }
  ~FrameBuffer() { std::free(header_); }
  FrameBuffer(const FrameBuffer&) = delete;
  FrameBuffer& operator=(const FrameBuffer&) = delete;

  Frame frame() const { return {header_, header_->capacity_bytes}; }

 private:
  FrameHeader* const header_;
};

struct WrittenThread {
  uint32_t process = 0;
  uint64_t number = 0;
  uint64_t os_id = 0;
  std::string name;
  uint64_t calls = 0;
  uint64_t open_calls = 0;
  uint32_t frame_bytes = 0;  // of the last frame
  std::string tags;          // of the next call
  StepMarks steps;
  std::string tags_written;  // to the frame
  StepMarks steps_written;
  StackId stack = kNoStack;  // of the next call, in the writer's table
  RecordFacts facts;         // of the next call
  std::string notes;         // of the next call
  std::unique_ptr<FrameBuffer> buffer;
  CallWriter writer;                                     // into the buffer
  absl::flat_hash_map<VariantId, uint64_t> definitions;  // of this frame
  absl::flat_hash_map<uint32_t, uint64_t> codes;         // the same, of the writer's table
  absl::flat_hash_map<StackId, uint64_t> places;
};

struct WrittenProcess {
  LogProcess::Totals totals;
  bool copied = false;
  std::string counts;    // a frame's payload that isn't written yet
  uint64_t counted = 0;  // calls in it
  Damage damage;         // of the logs that it was copied from
};

// The usable records of an open frame, by the rules of LogSurvey.
struct UsableRecords {
  uint64_t bytes = 0;
  uint64_t calls = 0;
  std::optional<uint64_t> hash;  // if the frame has one
};

UsableRecords FindUsableRecords(const LogReader& log, const LogFrame& frame, uint64_t bytes) {
  CallReader reader(&log.file(), frame.payload_offset(), 0, bytes);
  UsableRecords usable;
  uint64_t definitions = 0;
  for (auto kind = reader.Next(); kind <= CallReader::kLast; kind = reader.Next()) {
    if (reader.offset() == 0 && kind != CallReader::kThread) return usable;
    if (kind == CallReader::kEnter && reader.definition() >= definitions) break;
    if (kind == CallReader::kThread && reader.thread().number >= UINT32_MAX) break;
    definitions += kind == CallReader::kDefine;
    usable.calls += kind == CallReader::kEnter;
    usable.bytes = reader.next_offset();
  }
  return usable;
}

class LogTraceWriter : public TraceWriter {
 public:
  explicit LogTraceWriter(std::unique_ptr<OutputFile> file) : file_(std::move(file)) {}

  absl::Status WriteSuperblock() {
    Superblock block = {};
    std::memcpy(block.magic, kLogMagic, sizeof block.magic);
    block.version = kManyProcessesVersion;
    block.page_bytes = kPageBytes;
    block.hash = Hash64(&block, offsetof(Superblock, hash));
    std::string page(kPageBytes, '\0');
    std::memcpy(page.data(), &block, sizeof block);
    return Append(page);
  }

  absl::StatusOr<uint32_t> AddProcess(const Json& metadata) override {
    const auto process = static_cast<uint32_t>(processes_.size());
    processes_.emplace_back().damage = ReadSourceDamage(metadata);
    if (absl::Status s = WriteMetadata(process, WithNewOperators(metadata)); !s.ok()) return s;
    return process;
  }

  void NameThread(uint32_t process, uint64_t number, uint64_t os_id, std::string_view name) override {
    WrittenThread& thread = ThreadOf(process, number);
    thread.os_id = os_id;
    thread.name = name;
  }

  absl::Status Enter(uint32_t process, uint64_t number, uint64_t time, std::string_view identity,
                     std::string_view facets) override {
    WrittenThread& thread = ThreadOf(process, number);
    const VariantId variant = configs_.Intern(identity, facets);
    uint64_t wanted = CallWriter::kMaxEventBytes;
    auto known = thread.definitions.find(variant);
    if (known == thread.definitions.end()) wanted += CallWriter::kMaxRecordOverhead + identity.size() + facets.size();
    wanted += CallWriter::kMaxRecordOverhead + kMostStepMarksBytes;
    if (thread.tags != thread.tags_written) wanted += thread.tags.size();
    const uint64_t notes_bytes = CallWriter::kMaxRecordOverhead + thread.notes.size();
    wanted += notes_bytes + StackBytes(thread);
    if (!thread.writer.open() || !thread.writer.Fits(wanted)) {
      // A new frame needs all definitions.
      wanted = CallWriter::kMaxEventBytes + 2 * CallWriter::kMaxRecordOverhead + identity.size() + facets.size() +
               thread.tags.size() + kMostStepMarksBytes + notes_bytes;
      thread.codes.clear();
      thread.places.clear();
      wanted += StackBytes(thread);
      if (absl::Status s = NextFrame(&thread, time, wanted); !s.ok()) return s;
      known = thread.definitions.end();
    }
    if (known == thread.definitions.end()) {
      known = thread.definitions.emplace(variant, thread.writer.Define(identity, facets)).first;
    }
    if (thread.tags != thread.tags_written) {
      thread.writer.Tags(WithStepMarks(thread.tags, thread.steps));
      thread.tags_written = thread.tags;
    } else if (thread.steps != thread.steps_written) {
      thread.writer.Steps(thread.steps_written, thread.steps);
    }
    thread.steps_written = thread.steps;
    if (thread.stack != kNoStack) thread.writer.Stack(WritePlace(thread.stack, &thread));
    thread.stack = kNoStack;
    if (!thread.facts.plain()) thread.writer.Facts(thread.facts);
    thread.facts = RecordFacts();
    if (!thread.notes.empty()) thread.writer.Notes(thread.notes);
    thread.notes.clear();
    thread.writer.Enter(known->second, time);
    ++thread.calls;
    ++thread.open_calls;
    return absl::OkStatus();
  }

  void Tag(uint32_t process, uint64_t number, std::string_view json, const StepMarks& steps) override {
    WrittenThread& thread = ThreadOf(process, number);
    if (thread.tags != json) thread.tags = json;
    thread.steps = steps;
  }

  void Stack(uint32_t process, uint64_t number, const StackTable& stacks, StackId stack) override {
    if (stack != kNoStack) ThreadOf(process, number).stack = TakeOver(stacks, stack);
  }

  void Facts(uint32_t process, uint64_t number, const RecordFacts& facts) override {
    if (!facts.plain()) ThreadOf(process, number).facts = facts;
  }

  void Notes(uint32_t process, uint64_t number, std::string_view notes) override {
    if (!notes.empty()) ThreadOf(process, number).notes = notes;
  }

  absl::Status Leave(uint32_t process, uint64_t number, uint64_t time, const CallResult& result) override {
    WrittenThread& thread = ThreadOf(process, number);
    const uint64_t wanted = CallWriter::kMaxEventBytes + 2 * CallWriter::kMaxRecordOverhead + result.bytes();
    if (absl::Status s = BeginEnd(&thread, time, wanted); !s.ok()) return s;
    if (result.known()) thread.writer.Result(result);
    if (!result.written.empty()) thread.writer.Written(result.written);
    thread.writer.Leave(time);
    --thread.open_calls;
    return absl::OkStatus();
  }

  absl::Status Raise(uint32_t process, uint64_t number, uint64_t time, std::string_view exception,
                     std::string_view written) override {
    WrittenThread& thread = ThreadOf(process, number);
    const uint64_t wanted = 2 * CallWriter::kMaxRecordOverhead + exception.size() + written.size();
    if (absl::Status s = BeginEnd(&thread, time, wanted); !s.ok()) return s;
    if (!written.empty()) thread.writer.Written(written);
    thread.writer.Raise(time, exception);
    --thread.open_calls;
    return absl::OkStatus();
  }

  absl::Status Later(uint32_t process, uint64_t number, uint64_t time, const LaterNotes& later) override {
    WrittenThread& thread = ThreadOf(process, number);
    const uint64_t wanted = CallWriter::kMaxRecordOverhead + later.notes.size();
    if (!thread.writer.open() || !thread.writer.Fits(wanted)) {
      if (absl::Status s = NextFrame(&thread, time, wanted); !s.ok()) return s;
    }
    thread.writer.Later(later);
    return absl::OkStatus();
  }

  absl::Status Memory(uint32_t process, uint64_t number, uint64_t time, const MemoryEvent& event) override {
    WrittenThread& thread = ThreadOf(process, number);
    if (!thread.writer.open() || !thread.writer.FitsEvent()) {
      if (absl::Status s = NextFrame(&thread, time, CallWriter::kMaxEventBytes); !s.ok()) return s;
    }
    thread.writer.Memory(event, time);
    return absl::OkStatus();
  }

  absl::Status Count(uint32_t process, std::string_view identity, std::string_view facets, uint64_t calls) override {
    WrittenProcess& written = processes_[process];
    AppendCount(identity, facets, calls, &written.counts);
    written.counted += calls;
    return written.counts.size() < kMaxFrameBytes ? absl::OkStatus() : WriteCounts(process);
  }

  absl::Status CopyCalls(const LogReader& log, uint32_t log_process, uint32_t process,
                         const Progress& progress) override {
    WrittenProcess& written = processes_[process];
    if (written.totals.calls > 0 || written.copied) {
      return absl::FailedPreconditionError(
          absl::StrCat("process ", process, " of ", file_->path(), " has calls already"));
    }
    written.copied = true;
    Damage damage;
    const LogEnd end = ReadLogEnd(*ReadMetadata(log, log_process, &damage));
    bool whole = damage.sentences.empty() && log.lost_regions().empty() && !log.cut() && !log.superblock_damaged() &&
                 log.closing_note().empty() && !log.may_lack_frames();
    uint64_t gone_through = 0;
    for (const uint32_t index : log.processes()[log_process].frames) {
      const LogFrame& frame = log.frames()[index];
      if (progress != nullptr && gone_through >= kProgressBytes) {
        if (absl::Status s = progress(std::exchange(gone_through, 0)); !s.ok()) return s;
      }
      gone_through += frame.header.capacity_bytes;
      if (frame.type() != FrameType::kCalls && frame.type() != FrameType::kCounts) continue;
      const FramePayload payload = log.Verify(frame);
      whole = whole && payload.trust != FramePayload::kUseless && payload.note.empty();
      if (payload.trust == FramePayload::kUseless) continue;
      if (frame.type() == FrameType::kCounts) {
        if (absl::Status s = CopyCounts(log, frame, payload, process, &whole); !s.ok()) return s;
        continue;
      }
      UsableRecords usable{payload.bytes, payload.calls.value_or(0), std::nullopt};
      if (payload.trust == FramePayload::kVerified && payload.note.empty()) usable.hash = frame.header.payload_hash;
      if (payload.trust == FramePayload::kUnverified) {
        usable = FindUsableRecords(log, frame, payload.bytes);
        whole = whole && usable.bytes == payload.bytes && !log.HasLostRecords(frame);
      }
      if (usable.bytes == 0) continue;
      if (absl::Status s = CopyFrame(log, frame, usable, process); !s.ok()) return s;
    }
    if (progress != nullptr) {
      if (absl::Status s = progress(gone_through); !s.ok()) return s;
    }
    return whole && HasAllCalls(log, log_process, end, written.totals.calls)
               ? absl::OkStatus()
               : TellDamage(log, log_process, end, std::move(damage), process);
  }

  absl::Status Finish() override {
    if (absl::Status s = WriteOpenFrames(); !s.ok()) return s;
    for (uint32_t process = 0; process < processes_.size(); ++process) {
      if (absl::Status s = WriteCounts(process); !s.ok()) return s;
    }
    std::string payload;
    AppendVarint(processes_.size(), &payload);
    for (const WrittenProcess& process : processes_) {
      AppendVarint(process.totals.frames, &payload);
      AppendVarint(process.totals.calls, &payload);
    }
    if (absl::Status s = WriteFrame(FrameType::kClosing, 0, payload); !s.ok()) return s;
    return file_->Commit();
  }

 private:
  // Copies a stack into stacks_. Iterates from the outermost place on, without recursion: stacks may be deep.
  StackId TakeOver(const StackTable& stacks, StackId stack) {
    if (taken_from_ != &stacks) {
      taken_from_ = &stacks;
      taken_.clear();
    }
    std::vector<StackId> missing;
    StackId own = kNoStack;
    for (StackId at = stack; at != kNoStack; at = stacks.place(at).caller) {
      if (const auto known = taken_.find(at); known != taken_.end()) {
        own = known->second;
        break;
      }
      missing.push_back(at);
    }
    for (; !missing.empty(); missing.pop_back()) {
      const StackPlace& place = stacks.place(missing.back());
      own = stacks_.InternPlace({own, stacks_.InternCode(stacks.code(place.code)), place.line});
      taken_.emplace(missing.back(), own);
    }
    return own;
  }

  // An upper limit for the next call's stack, including the places and codes that the frame doesn't have yet.
  uint64_t StackBytes(const WrittenThread& thread) const {
    if (thread.stack == kNoStack) return 0;
    uint64_t bytes = CallWriter::kMaxPlaceBytes;
    for (StackId at = thread.stack; at != kNoStack && !thread.places.contains(at); at = stacks_.place(at).caller) {
      const StackPlace& place = stacks_.place(at);
      bytes += CallWriter::kMaxPlaceBytes;
      if (thread.codes.contains(place.code)) continue;
      const StackCode& code = stacks_.code(place.code);
      bytes += CallWriter::kMaxRecordOverhead + code.file.size() + code.function.size() + code.module.size();
    }
    return bytes;
  }

  // The number of the stack's place in the thread's frame, which has room for StackBytes.
  uint64_t WritePlace(StackId stack, WrittenThread* thread) const {
    std::vector<StackId> missing;
    StackId at = stack;
    for (; at != kNoStack && !thread->places.contains(at); at = stacks_.place(at).caller) missing.push_back(at);
    uint64_t caller = at == kNoStack ? 0 : thread->places[at] + 1;
    for (; !missing.empty(); missing.pop_back()) {
      const StackPlace& place = stacks_.place(missing.back());
      auto code = thread->codes.find(place.code);
      if (code == thread->codes.end()) {
        const StackCode& its = stacks_.code(place.code);
        code = thread->codes.emplace(place.code, thread->writer.Code(its.library, its.file, its.function, its.module))
                   .first;
      }
      const uint64_t number = thread->writer.Place(code->second, place.line, caller);
      thread->places.emplace(missing.back(), number);
      caller = number + 1;
    }
    return caller - 1;
  }

  WrittenThread& ThreadOf(uint32_t process, uint64_t number) {
    if (last_ != nullptr && last_->process == process && last_->number == number) return *last_;
    const auto [found, is_new] = thread_index_.try_emplace({process, number}, threads_.size());
    if (is_new) {
      WrittenThread& thread = *threads_.emplace_back(std::make_unique<WrittenThread>());
      thread.process = process;
      thread.number = number;
    }
    return *(last_ = threads_[found->second].get());
  }

  absl::Status BeginEnd(WrittenThread* thread, uint64_t time, uint64_t wanted) {
    if (thread->open_calls == 0) {
      return absl::FailedPreconditionError(
          absl::StrCat("thread ", thread->number, " of process ", thread->process, " has no open call to leave"));
    }
    if (thread->writer.Fits(wanted)) return absl::OkStatus();
    return NextFrame(thread, time, wanted);
  }

  // Continues in an empty frame that has room for `wanted` bytes.
  absl::Status NextFrame(WrittenThread* thread, uint64_t time, uint64_t wanted) {
    if (absl::Status s = WriteOpenFrame(thread); !s.ok()) return s;
    thread->frame_bytes = std::clamp(2 * thread->frame_bytes, kFirstFrameBytes, kMaxFrameBytes);
    wanted += sizeof(FrameHeader) + CallWriter::kMaxRecordOverhead + thread->name.size();
    if (wanted > UINT32_MAX - kPageBytes) {
      return absl::InvalidArgumentError(absl::StrCat("a configuration of ", wanted, " bytes is too large for a log"));
    }
    const uint32_t capacity = WholePages(std::max<uint64_t>(thread->frame_bytes, wanted));
    if (open_bytes_ + capacity > kMaxOpenBytes) {
      if (absl::Status s = WriteOpenFrames(); !s.ok()) return s;
    }
    thread->buffer = std::make_unique<FrameBuffer>(capacity);
    open_bytes_ += capacity;
    thread->writer = CallWriter(thread->buffer->frame());
    thread->tags_written.clear();
    thread->steps_written = {};
    thread->writer.Thread(thread->number, thread->os_id, time, thread->calls, thread->open_calls, thread->name);
    return absl::OkStatus();
  }

  absl::Status WriteOpenFrames() {
    for (const std::unique_ptr<WrittenThread>& thread : threads_) {
      if (absl::Status s = WriteOpenFrame(thread.get()); !s.ok()) return s;
    }
    return absl::OkStatus();
  }

  absl::Status WriteOpenFrame(WrittenThread* thread) {
    if (thread->buffer == nullptr) return absl::OkStatus();
    const std::unique_ptr<FrameBuffer> buffer = std::move(thread->buffer);
    FrameHeader* const header = buffer->frame().header;
    open_bytes_ -= header->capacity_bytes;
    const uint64_t calls = thread->writer.calls();
    thread->writer = CallWriter();
    thread->definitions.clear();
    thread->codes.clear();
    thread->places.clear();
    Open(FrameType::kCalls, thread->process, header->committed_bytes, header);
    LogWriter::Seal(buffer->frame(), calls);
    processes_[thread->process].totals.calls += calls;
    return Append(std::string_view(reinterpret_cast<const char*>(header), header->capacity_bytes));
  }

  // Fills in the header of a frame.
  void Open(FrameType type, uint32_t process, uint64_t payload_bytes, FrameHeader* header) {
    header->magic = kFrameMagic;
    header->type = static_cast<uint16_t>(type);
    header->capacity_bytes = WholePages(sizeof *header + payload_bytes);
    header->process = process;
    header->sequence = sequence_++;
    header->open_hash = Hash64(header, kOpenHashedBytes);
    if (type != FrameType::kClosing) ++processes_[process].totals.frames;
  }

  static void Close(uint64_t payload_bytes, uint64_t calls, uint64_t payload_hash, FrameHeader* header) {
    header->committed_bytes = static_cast<uint32_t>(payload_bytes);
    header->closed = kFrameClosed;
    header->calls = calls;
    header->payload_hash = payload_hash;
    header->close_hash = Hash64(reinterpret_cast<const char*>(header) + kCloseHashedOffset, kCloseHashedBytes);
  }

  absl::Status WriteFrame(FrameType type, uint32_t process, std::string_view payload, uint64_t calls = 0) {
    FrameHeader header = {};
    Open(type, process, payload.size(), &header);
    Close(payload.size(), calls, Hash64(payload.data(), payload.size()), &header);
    if (absl::Status s = Append({reinterpret_cast<const char*>(&header), sizeof header}); !s.ok()) return s;
    if (absl::Status s = Append(payload); !s.ok()) return s;
    return Append(std::string(header.capacity_bytes - sizeof header - payload.size(), '\0'));
  }

  // The metadata without PyTorch's operators, if an earlier process has the same ones.
  Json WithNewOperators(Json metadata) {
    const Json* const operators = FindMember(metadata, "operators");
    if (operators == nullptr) return metadata;
    const std::string version = ParseProcessMetadata(metadata).PackageVersion("torch");
    if (!operators_.emplace(version, operators->dump()).second) {
      metadata.erase("operators");
    }
    return metadata;
  }

  absl::Status WriteMetadata(uint32_t process, const Json& metadata) {
    const std::string text = metadata.dump(-1, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace);
    if (text.size() > UINT32_MAX / 2) return absl::InvalidArgumentError("the metadata of a process is too large");
    return WriteFrame(FrameType::kMetadata, process, text);
  }

  absl::Status CopyFrame(const LogReader& log, const LogFrame& frame, const UsableRecords& usable, uint32_t process) {
    const uint64_t hash = usable.hash ? *usable.hash : log.file().HashAt(frame.payload_offset(), usable.bytes);
    FrameHeader header = {};
    Open(FrameType::kCalls, process, usable.bytes, &header);
    Close(usable.bytes, usable.calls, hash, &header);
    if (absl::Status s = Append({reinterpret_cast<const char*>(&header), sizeof header}); !s.ok()) return s;
    StreamingHash copied;
    copy_.resize(kCopyBytes);
    for (uint64_t at = 0; at < usable.bytes;) {
      const size_t read = log.file().ReadAt(frame.payload_offset() + at, copy_.data(),
                                            static_cast<size_t>(std::min<uint64_t>(kCopyBytes, usable.bytes - at)));
      if (read == 0) break;
      copied.Update(copy_.data(), read);
      if (absl::Status s = Append(std::string_view(copy_.data(), read)); !s.ok()) return s;
      at += read;
    }
    if (copied.Digest() != hash) {
      return absl::UnavailableError(absl::StrCat(log.file().path(), " changed while it was read"));
    }
    processes_[process].totals.calls += usable.calls;
    return Append(std::string(header.capacity_bytes - sizeof header - usable.bytes, '\0'));
  }

  // A process may be changing the counts: they are read once.
  absl::Status CopyCounts(const LogReader& log, const LogFrame& frame, const FramePayload& payload, uint32_t process,
                          bool* whole) {
    WrittenProcess& written = processes_[process];
    std::string& counts = written.counts;
    counts = log.file().ReadAt(frame.payload_offset(), payload.bytes);
    if (payload.trust == FramePayload::kVerified && payload.note.empty() &&
        Hash64(counts.data(), counts.size()) != frame.header.payload_hash) {
      return absl::UnavailableError(absl::StrCat(log.file().path(), " changed while it was read"));
    }
    counts.resize(VisitCounts(
        counts, [&written](std::string_view, std::string_view, uint64_t calls) { written.counted += calls; }));
    *whole = *whole && counts.size() == payload.bytes;
    return WriteCounts(process);
  }

  absl::Status WriteCounts(uint32_t process) {
    WrittenProcess& written = processes_[process];
    if (written.counts.empty()) return absl::OkStatus();
    const uint64_t calls = std::exchange(written.counted, 0);
    written.totals.calls += calls;
    return WriteFrame(FrameType::kCounts, process, std::exchange(written.counts, {}), calls);
  }

  // Whether these are all calls of the process, according to the log's own counts.
  static bool HasAllCalls(const LogReader& log, uint32_t process, const LogEnd& end, uint64_t calls) {
    if (log.many_processes()) {
      const LogProcess& source = log.processes()[process];
      return source.totals && source.totals->calls == calls && source.totals->frames == source.frames.size();
    }
    if (!end.has_threads) return true;
    uint64_t recorded = end.counted;
    for (const auto& [number, thread_calls] : end.thread_calls) recorded += thread_calls;
    return recorded == calls;
  }

  absl::Status TellDamage(const LogReader& log, uint32_t log_process, const LogEnd& end, Damage damage,
                          uint32_t process) {
    ConfigTable configs;
    std::vector<uint64_t> counts;
    const LogSurvey survey = SurveyLog(log, log_process, end, &configs, &counts);
    damage.sentences.insert(damage.sentences.end(), survey.damage.sentences.begin(), survey.damage.sentences.end());
    if (damage.sentences.empty() && survey.damage.lost_calls == 0 && survey.damage.lost_calls_exact) {
      return absl::OkStatus();
    }
    Damage& sum = processes_[process].damage;
    for (const std::string& sentence : damage.sentences) {
      if (sum.sentences.size() < kMaxSentences)
        sum.sentences.push_back(absl::StrCat(log.file().path(), ": ", sentence));
    }
    sum.lost_calls += survey.damage.lost_calls;
    sum.lost_calls_exact = sum.lost_calls_exact && survey.damage.lost_calls_exact;
    sum.lost_bytes += damage.lost_bytes + survey.damage.lost_bytes;
    return WriteMetadata(process, {{"damage", FormatSourceDamage(sum)}});
  }

  absl::Status Append(std::string_view bytes) {
    file_->Append(bytes);
    return file_->status();
  }

  const std::unique_ptr<OutputFile> file_;
  uint64_t sequence_ = 0;
  std::vector<WrittenProcess> processes_;
  std::vector<std::unique_ptr<WrittenThread>> threads_;  // by first use: equal calls make equal files
  absl::flat_hash_map<std::pair<uint32_t, uint64_t>, size_t> thread_index_;
  WrittenThread* last_ = nullptr;
  uint64_t open_bytes_ = 0;  // of their frames
  ConfigTable configs_;
  StackTable stacks_;
  const StackTable* taken_from_ = nullptr;       // the last table that TakeOver used
  absl::flat_hash_map<StackId, StackId> taken_;  // ids of that table to ids of stacks_
  std::vector<char> copy_;
  std::set<std::pair<std::string, std::string>> operators_;  // written, with PyTorch's version
};

}  // namespace

absl::StatusOr<std::unique_ptr<TraceWriter>> TraceWriter::Create(const std::string& path) {
  if (access(path.c_str(), F_OK) == 0) return absl::AlreadyExistsError(absl::StrCat(path, " exists"));
  absl::StatusOr<std::unique_ptr<OutputFile>> file = OutputFile::Create(path);
  if (!file.ok()) return file.status();
  auto writer = std::make_unique<LogTraceWriter>(*std::move(file));
  if (absl::Status s = writer->WriteSuperblock(); !s.ok()) return s;
  return writer;
}

Json InNanoseconds(Json metadata) {
  const LogClock clock(metadata);
  if (!clock.known()) {
    if (metadata.is_object()) metadata.erase("clock");
    return metadata;
  }
  Json& json = metadata["clock"];
  json["unit_ns"] = 1.0;
  json["origin_units"] = clock.origin_ns();
  // Readers would compute the unit from it.
  metadata.erase("clock_again");
  if (const auto end = metadata.find("end"); end != metadata.end() && end->is_object()) {
    end->erase("units");
  }
  return metadata;
}

}  // namespace torchtrace
