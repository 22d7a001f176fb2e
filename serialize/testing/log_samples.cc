#include "serialize/testing/log_samples.h"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <utility>

#include "absl/hash/hash.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "serialize/base/bytes.h"
#include "serialize/forms/forms.h"
#include "serialize/log/log_trace.h"
#include "serialize/model/tensor_notes.h"
#include "serialize/model/value.h"
#include "serialize/testing/fake_trace.h"

namespace torchtrace {
namespace {

using Json = nlohmann::json;

constexpr uint32_t kEndFrameBytes = 1024;

std::string_view ApiOf(std::string_view identity) {
  ByteReader reader(identity);
  uint8_t level;
  std::string_view api;
  return reader.Byte(&level) && reader.String(&api) ? api : "?";
}

}  // namespace

std::string SampleIdentity(int level, std::string_view api, int64_t arg) {
  std::string identity(1, static_cast<char>(level));
  AppendString(api, &identity);
  AppendVarint(1, &identity);
  ValueWriter(&identity).Int(arg);
  AppendVarint(0, &identity);
  return identity;
}

SampleLog::SampleLog(const std::string& path, std::string_view metadata) {
  writer_ = LogWriter::Create(path).value();
  Json json = {{"format", 1},
               {"role", "main"},
               {"pid", 41},
               {"host", "machine"},
               {"clock",
                {{"unit_ns", 1.0},
                 {"origin_units", kStart},
                 {"origin_monotonic_ns", kStart},
                 {"origin_realtime_ns", 1'700'000'000'000'000'000}}}};
  json.merge_patch(Json::parse(metadata));
  const std::string text = json.dump();
  writer_->AppendMetadata(text).IgnoreError();
  file_bytes_ += (sizeof(FrameHeader) + text.size() + kPageBytes - 1) / kPageBytes * kPageBytes;
  uint64_t offset;
  end_frame_ = Reserve(FrameType::kMetadata, kEndFrameBytes, &offset);
}

Frame SampleLog::Reserve(FrameType type, uint32_t payload_bytes, uint64_t* offset) {
  const Frame frame = writer_->Reserve(type, payload_bytes).value();
  *offset = file_bytes_;
  file_bytes_ += frame.header->capacity_bytes;
  return frame;
}

void SampleLog::NewFrame(uint64_t thread, uint32_t payload_bytes) {
  CloseFrame(thread);
  Thread& t = threads_[thread];
  t.writer = CallWriter(Reserve(FrameType::kCalls, payload_bytes, &t.offset));
  t.definitions.clear();
  WriteThread(thread);
}

void SampleLog::TakeFrame(uint64_t thread, uint64_t from) {
  CloseFrame(thread);
  Thread& t = threads_[thread];
  t.writer = std::exchange(threads_[from].writer, CallWriter());
  t.offset = threads_[from].offset;
  t.definitions.clear();
  WriteThread(thread);
}

void SampleLog::WriteThread(uint64_t number) {
  Thread& thread = threads_[number];
  thread.writer.Thread(number, 100 + number, now_ += 10, thread.calls, thread.open.size(),
                       absl::StrCat("thread-", number));
}

void SampleLog::CloseFrame(uint64_t thread) {
  Thread& t = threads_[thread];
  if (t.writer.open()) LogWriter::Close(t.writer.frame(), t.writer.calls());
  t.writer = CallWriter();
}

void SampleLog::CloseFrames() {
  for (auto& [number, thread] : threads_) CloseFrame(number);
}

void SampleLog::MakeRoom(uint64_t thread, uint64_t bytes) {
  Thread& t = threads_[thread];
  if (!t.writer.open() || !t.writer.Fits(bytes)) NewFrame(thread);
}

SamplePlace SampleLog::Here(const Thread& thread) const {
  return {thread.offset, thread.offset + sizeof(FrameHeader) + thread.writer.frame().header->committed_bytes};
}

void SampleLog::Enter(uint64_t thread, int level, const std::string& api, int64_t arg, std::string_view facets) {
  const std::string identity = SampleIdentity(level, api, arg);
  MakeRoom(thread, CallWriter::kMaxRecordOverhead + CallWriter::kMaxEventBytes + identity.size() + facets.size());
  Thread& t = threads_[thread];
  const auto [definition, is_new] = t.definitions.try_emplace(absl::StrCat(identity, "|", std::string(facets)));
  if (is_new) definition->second = t.writer.Define(identity, facets);
  t.writer.Enter(definition->second, now_ += 10);
  ++t.calls;
  t.open.push_back(calls_.size());
  SampleCall call;
  call.thread = thread;
  call.api = api;
  call.entered = static_cast<int64_t>(now_);
  call.entry = Here(t);
  calls_.push_back(call);
}

void SampleLog::Exit(uint64_t thread, SampleCall::Outcome outcome) {
  Thread& t = threads_[thread];
  const std::optional<size_t> index = t.open.back();
  t.open.pop_back();
  if (!index.has_value()) return;
  SampleCall& call = calls_[*index];
  call.outcome = outcome;
  call.ended = static_cast<int64_t>(now_);
  call.exit = Here(t);
}

void SampleLog::Leave(uint64_t thread) {
  MakeRoom(thread, CallWriter::kMaxEventBytes);
  threads_[thread].writer.Leave(now_ += 10);
  Exit(thread, SampleCall::kLeft);
}

void SampleLog::Raise(uint64_t thread, std::string_view exception) {
  MakeRoom(thread, CallWriter::kMaxRecordOverhead + exception.size());
  threads_[thread].writer.Raise(now_ += 10, exception);
  Exit(thread, SampleCall::kRaised);
}

void SampleLog::Drop(uint64_t thread, uint64_t count, std::string_view reason) {
  MakeRoom(thread, CallWriter::kMaxRecordOverhead + reason.size());
  char lengths[2 * kMaxVarintBytes];
  const char* const end = EncodeVarint(reason.size(), EncodeVarint(count, lengths));
  std::string body(lengths, static_cast<size_t>(end - lengths));
  threads_[thread].writer.Append(OtherRecord::kDropped, body.append(reason));
}

void SampleLog::Call(uint64_t thread, int level, const std::string& api, int times) {
  for (int i = 0; i < times; ++i) {
    Enter(thread, level, api);
    Leave(thread);
  }
}

void SampleLog::BeginInside(uint64_t thread, uint64_t open_calls) { threads_[thread].open.resize(open_calls); }

void SampleLog::End(int exit_code) {
  Json threads = Json::array();
  for (const auto& [number, thread] : threads_) {
    threads.push_back({{"number", number}, {"calls", thread.calls}, {"getters", 0}});
  }
  now_ += 10;
  const Json end = {{"exit_code", exit_code}, {"units", now_}, {"monotonic_ns", now_}, {"threads", std::move(threads)}};
  const std::string text = Json({{"end", end}}).dump();
  ASSERT_LE(text.size(), end_frame_.payload_bytes());
  std::memcpy(end_frame_.payload(), text.data(), text.size());
  end_frame_.header->committed_bytes = static_cast<uint32_t>(text.size());
  LogWriter::Close(end_frame_, 0);
}

std::unique_ptr<SampleLog> WriteSampleLog(const std::string& path, SampleEnd end) {
  auto log = std::make_unique<SampleLog>(path);
  // Thread 0 is in a call that spans all its frames.
  log->Enter(0, 1, "torch.outer");
  for (int i = 0; i < 20; ++i) {
    log->Enter(0, 1, "torch.add", i);
    log->Enter(0, 2, "aten::add.Tensor", i % 3);
    log->Leave(0);
    log->Leave(0);
  }
  // Threads 1 and 2 interleave, each in its own frame.
  for (int i = 0; i < 10; ++i) {
    log->Enter(1, 1, "torch.mul");
    log->Enter(2, 1, "torch.matmul", i);
    log->Enter(1, 2, "aten::mul.Tensor", 0, "\x01\x02");
    if (i % 4 == 0) {
      log->Raise(1, "RuntimeError");
      log->Raise(1, "RuntimeError");
    } else {
      log->Leave(1);
      log->Leave(1);
    }
    log->Leave(2);
  }
  log->Drop(2, 7, "recursion");
  // Thread 0's second frame: begins with ends only.
  log->Enter(0, 1, "torch.add");
  log->NewFrame(0);
  log->Leave(0);
  log->Call(0, 2, "aten::mm", 30);
  // Thread 1 ends; thread 2 continues in its frame, which is before thread 2's
  // own frame in the file; then thread 3 continues there.
  log->Enter(2, 1, "torch.matmul", 99);
  log->TakeFrame(2, 1);
  log->Enter(2, 2, "aten::mul.Tensor", 0, "\x01\x02");
  log->Leave(2);
  log->Leave(2);
  log->Call(2, 1, "torch.softmax", 3);
  log->TakeFrame(3, 2);
  log->Call(3, 1, "torch.softmax", 3);
  log->Enter(3, 1, "torch.never");
  // A last frame of thread 0 with the end of its first call.
  log->NewFrame(0);
  log->Call(0, 1, "torch.sub", 5);
  log->Call(0, 1, "torch.add", 5);
  if (end == SampleEnd::kKilled) return log;
  log->Leave(0);
  log->CloseFrames();
  log->End();
  return log;
}

void WriteNumbersLog(const std::string& path) {
  const auto writer = LogWriter::Create(path).value();
  ASSERT_TRUE(writer->AppendMetadata(R"({"format":1,"ids":true,"levels":[2],"numbers":"all","outputs":true})").ok());
  const Frame frame = writer->Reserve(FrameType::kCalls, 2000).value();
  CallWriter calls(frame);
  calls.Thread(0, 4711, 1000, 0, 0, "main");
  const Value tensor = TensorValue({2, 2});
  const auto result_of = [](const std::vector<Value>& values) {
    std::string bytes;
    AppendVarint(values.size(), &bytes);
    for (const Value& value : values) EncodeValue(value, &bytes);
    return bytes;
  };
  const TensorNote::Numbers ones = {.finite = 4, .least = 1, .most = 1, .mean = 1, .norm = 2, .fingerprint = 7};
  const TensorNote::Numbers mixed = {.nans = 1,
                                     .zeros = 1,
                                     .finite = 3,
                                     .least = -2,
                                     .most = 0.25,
                                     .mean = -0.5833333333333334,
                                     .norm = 2.0155644370746373,
                                     .fingerprint = 0xfedcba9876543210};
  const TensorNote::Numbers lost = {.nans = 1, .positive_infinities = 2, .negative_infinities = 1, .fingerprint = 8};
  const auto note = [](uint64_t position, const TensorNote::Numbers& numbers) {
    std::string bytes;
    AppendTensorNote({.position = position, .numbers = numbers}, &bytes);
    return bytes;
  };

  std::string arguments;
  AppendTensorNote({.position = 0, .identity = TensorNote::Identity{1, 1, 0}, .numbers = ones}, &arguments);
  calls.Notes(arguments + note(1, mixed));
  const uint64_t mul = calls.Define(EncodeConfig(MakeConfig(2, "aten::mul.Tensor", {tensor, tensor})), "");
  calls.Enter(mul, 1005);
  calls.Result({result_of({tensor}), note(0, mixed)});
  calls.Leave(1010);

  const Value list = ItemsValue(ValueTag::kList, {tensor, tensor});
  const Config foreach_log = MakeConfig(2, "aten::_foreach_log_", {list});
  calls.Enter(calls.Define(EncodeConfig(foreach_log), ""), 1015);
  calls.Result({result_of({}), {}});
  calls.Written(note(0, lost) + note(1, mixed));
  calls.Leave(1020);

  const uint64_t add = calls.Define(EncodeConfig(MakeConfig(2, "aten::add_.Tensor", {tensor, tensor})), "");
  calls.Enter(add, 1025);
  calls.Written(note(0, ones));
  calls.Raise(1030, "RuntimeError");

  calls.Enter(add, 1035);
  calls.Result({result_of({tensor}), note(0, lost)});
  calls.Written(note(0, lost));
  calls.Leave(1040);

  calls.Enter(mul, 1045);
  calls.Leave(1050);
  LogWriter::Close(frame, calls.calls());
}

void WriteMemoryLog(const std::string& path) {
  const auto writer = LogWriter::Create(path).value();
  ASSERT_TRUE(writer->AppendMetadata(R"({"format":1,"memory":true,"levels":[1]})").ok());
  const Frame frame = writer->Reserve(FrameType::kCalls, 1000).value();
  CallWriter calls(frame);
  calls.Thread(0, 4711, 1000, 0, 0, "main");
  calls.Memory({.address = 64, .bytes = 100}, 1002);
  const uint64_t add = calls.Define(SampleIdentity(1, "torch.add"), "");
  calls.Enter(add, 1005);
  calls.Enter(add, 1006);
  calls.Memory({.address = 0x7f0012345640, .bytes = 4096}, 1007);
  calls.Leave(1010);
  calls.Memory({.freed = true, .address = 64}, 1012);
  calls.Memory({.device = {MemoryKind::kCuda, 3}, .address = 64, .bytes = 512}, 1013);
  calls.Leave(1020);
  calls.Thread(1, 4712, 1025, 0, 0, "worker");
  calls.Memory({.freed = true, .address = 0x7f0012345640}, 1030);
  calls.Enter(add, 1035);
  calls.Leave(1040);
  LogWriter::Close(frame, calls.calls());
}

void WriteStepsLog(const std::string& path) {
  const auto writer = LogWriter::Create(path).value();
  ASSERT_TRUE(writer->AppendMetadata(R"({"format":1,"levels":[1]})").ok());
  const Frame frame = writer->Reserve(FrameType::kCalls, 1000).value();
  CallWriter calls(frame);
  calls.Thread(0, 4711, 1000, 0, 0, "main");
  const uint64_t add = calls.Define(SampleIdentity(1, "torch.add"), "");
  const auto call = [&](uint64_t time) {
    calls.Enter(add, time);
    calls.Leave(time + 2);
  };
  StepMarks before, now;
  const auto move = [&] {
    calls.Steps(before, now);
    before = now;
  };
  now.at(StepKind::kForward) = {1, 1003};
  move();
  call(1005);
  now.at(StepKind::kForward) = {2, 1008};
  now.at(StepKind::kStep) = {1, 1003};
  move();
  call(1010);
  calls.Tags(WithStepMarks(R"({"phase":"train"})", now));
  call(1015);
  now.at(StepKind::kForward) = {};  // an optimizer has decided
  now.at(StepKind::kStep) = {2, 1018};
  move();
  call(1020);
  calls.Thread(1, 4712, 1025, 0, 0, "worker");  // without tags
  call(1030);
  now.at(StepKind::kTag) = {1, 1033};
  calls.Steps(StepMarks(), now);
  call(1035);
  LogWriter::Close(frame, calls.calls());
}

void WriteLaterLog(const std::string& path) {
  const auto writer = LogWriter::Create(path).value();
  ASSERT_TRUE(writer->AppendMetadata(R"({"format":1,"numbers":"all","levels":[2]})").ok());
  const auto note = [](uint64_t position, uint64_t nans) {
    std::string bytes;
    AppendTensorNote({.position = position, .numbers = TensorNote::Numbers{.nans = nans, .fingerprint = nans}}, &bytes);
    return bytes;
  };
  const Value tensor = TensorValue({2, 2});
  const std::string mul = EncodeConfig(MakeConfig(2, "aten::mul.Tensor", {tensor, tensor}));
  const std::string add = EncodeConfig(MakeConfig(2, "aten::add_.Tensor", {tensor, tensor}));
  std::string values;
  AppendVarint(1, &values);
  EncodeValue(tensor, &values);

  const Frame first = writer->Reserve(FrameType::kCalls, 1000).value();
  CallWriter calls(first);
  calls.Thread(0, 4711, 1000, 0, 0, "main");
  calls.Enter(calls.Define(mul, ""), 1005);
  calls.Later({0, LaterOf::kArguments, note(0, 1) + note(1, 2)});
  calls.Result({values, {}});
  calls.Later({0, LaterOf::kWritten, note(0, 3)});
  calls.Leave(1010);
  calls.Enter(calls.Define(add, ""), 1015);
  calls.Enter(0, 1020);
  calls.Later({2, LaterOf::kResult, note(0, 4)});
  calls.Later({3, LaterOf::kResult, note(0, 5)});
  calls.Append(OtherRecord::kLater, std::string("\1\7", 2) + note(0, 6));
  calls.Leave(1025);
  calls.Leave(1030);
  LogWriter::Close(first, calls.calls());

  const Frame second = writer->Reserve(FrameType::kCalls, 1000).value();
  CallWriter more(second);
  more.Thread(1, 4712, 1040, 0, 0, "backward");
  more.Enter(more.Define(add, ""), 1045);
  more.Leave(1050);
  more.Thread(0, 4711, 1055, 3, 0, "main");
  more.Later({1, LaterOf::kWritten, note(0, 7)});
  more.Enter(0, 1060);
  more.Leave(1065);
  LogWriter::Close(second, more.calls());

  const Frame last = writer->Reserve(FrameType::kCalls, 1000).value();
  CallWriter kept(last);
  kept.Thread(0, 4711, 1070, 4, 0, "main");
  kept.Later({0, LaterOf::kWritten, note(0, 8)});
  kept.Thread(1, 4712, 1075, 1, 0, "backward");
  kept.Later({0, LaterOf::kWritten, note(0, 9)});
  LogWriter::Close(last, kept.calls());
}

namespace {

std::string NotesText(const char* lead, std::string_view notes) {
  std::string text;
  for (const TensorNote& note : ReadTensorNotes(notes)) {
    absl::StrAppendFormat(&text, "%stensor at %d:", lead, note.position);
    if (note.identity) {
      absl::StrAppendFormat(&text, " %d of storage %d at %d", note.identity->tensor, note.identity->storage,
                            note.identity->offset);
    }
    if (note.range) absl::StrAppendFormat(&text, " from %d to %d", note.range->least, note.range->most);
    for (const char byte : note.contents.value_or(""))
      absl::StrAppendFormat(&text, " %02x", static_cast<uint8_t>(byte));
    if (const std::optional<TensorNote::Numbers>& numbers = note.numbers) {
      absl::StrAppendFormat(&text, " %d nan, %d inf, %d -inf, %d zeros, %d finite", numbers->nans,
                            numbers->positive_infinities, numbers->negative_infinities, numbers->zeros,
                            numbers->finite);
      if (numbers->finite != 0) {
        absl::StrAppendFormat(&text, " (from %g to %g, mean %g, norm %g)", numbers->least, numbers->most, numbers->mean,
                              numbers->norm);
      }
      absl::StrAppendFormat(&text, ", fingerprint %016x", numbers->fingerprint);
    }
  }
  return text;
}

}  // namespace

std::string DumpTrace(Trace* trace) {
  std::string dump;
  const LaterNotesShown shown(trace);
  const MemoryShown shown_too(trace);
  const absl::Status status = trace->ReadCounted([&](const CallRecord& record) {
    static constexpr const char* kKinds[] = {"enter", "leave", "raise", "later", "memory"};
    absl::StrAppendFormat(&dump, "%6d %d/%d %s%s", record.time_ns, record.process, record.thread,
                          std::string(2 * record.depth, ' '), kKinds[record.kind]);
    if (record.call != kNoCall) absl::StrAppendFormat(&dump, " #%d", record.call);
    if (record.parent != kNoCall) absl::StrAppendFormat(&dump, " in #%d", record.parent);
    if (record.thread == kNoThread) absl::StrAppendFormat(&dump, " %d times", record.count);
    if (record.kind == CallRecord::kEnter) {
      const std::string_view api = ApiOf(trace->identity(record.config));
      absl::StrAppendFormat(&dump, " %s level %d config %d variant %d", std::string(api), record.level, record.config,
                            record.variant);
      for (StackId at = record.stack; at != kNoStack; at = trace->stacks().place(at).caller) {
        const StackPlace& place = trace->stacks().place(at);
        const StackCode& code = trace->stacks().code(place.code);
        absl::StrAppendFormat(&dump, "%s %s:%d %s %s%s", at == record.stack ? ", at" : " <", std::string(code.file),
                              place.line, std::string(code.module), std::string(code.function),
                              code.library ? " (library)" : "");
      }
      if (const RecordFacts& facts = record.facts; !facts.plain()) {
        absl::StrAppendFormat(&dump, ", %s, thread %d, sequence %d, forward thread %d, id %d",
                              RecordScopeName(facts.scope), facts.thread, facts.sequence, facts.forward_thread,
                              facts.id);
      }
      dump += NotesText(", ", record.notes);
      if (const std::string tags = WithStepMarks(trace->tags(record.tags), trace->steps(record.tags)); !tags.empty()) {
        absl::StrAppend(&dump, ", ", tags);
      }
    } else if (record.kind == CallRecord::kMemory) {
      const MemoryEvent& memory = record.memory;
      absl::StrAppendFormat(&dump, " %s %d/%d at %d: %d bytes", memory.freed ? "freed" : "allocated",
                            static_cast<int>(memory.device.kind), memory.device.index, memory.address, memory.bytes);
    } else if (record.kind == CallRecord::kLater) {
      const std::string_view api = ApiOf(trace->identity(record.config));
      absl::StrAppendFormat(&dump, " %s level %d variant %d", std::string(api), record.level, record.variant);
      dump += NotesText(", ", record.notes);
      dump += NotesText("; ", record.result.notes);
      dump += NotesText("; wrote ", record.result.written);
    } else {
      absl::StrAppendFormat(&dump, " after %d", record.duration_ns);
      if (record.result.known()) {
        dump += " returned";
        for (const Value& value : ReadableResult(record.result.values)) absl::StrAppend(&dump, " ", FormatValue(value));
        dump += NotesText("; ", record.result.notes);
      }
      dump += NotesText("; wrote ", record.result.written);
    }
    if (record.kind == CallRecord::kRaise) absl::StrAppend(&dump, " ", std::string(record.exception));
    absl::StrAppend(&dump, "\n");
    return absl::OkStatus();
  });
  if (!status.ok()) absl::StrAppend(&dump, status.ToString(), "\n");
  for (const ProcessInfo& process : trace->processes()) {
    absl::StrAppendFormat(&dump, "process: calls %d, open %d, closed %d\n", process.calls, process.open_calls,
                          process.closed);
    for (const ThreadInfo& thread : process.threads) {
      absl::StrAppendFormat(&dump, "  thread %d: os id %d, name %s, calls %d\n", thread.number, thread.os_id,
                            thread.name, thread.calls);
    }
    for (const auto& [reason, count] : process.dropped)
      absl::StrAppendFormat(&dump, "  dropped %d: %s\n", count, reason);
    for (const std::string& sentence : process.damage.sentences)
      absl::StrAppendFormat(&dump, "  damage: %s\n", sentence);
    if (process.damage.lost_calls > 0 || !process.damage.lost_calls_exact) {
      absl::StrAppendFormat(&dump, "  lost calls: %s%d\n", process.damage.lost_calls_exact ? "" : "at least ",
                            process.damage.lost_calls);
    }
  }
  return dump;
}

namespace {

// A hash of all records of each thread, and how many there are. Calls are numbered by thread.
class ThreadHashes {
 public:
  explicit ThreadHashes(const Trace& trace) : trace_(trace) {}

  void Add(const CallRecord& record) {
    Thread& thread = threads_[{record.process, record.thread}];
    const auto number = [&](uint64_t call) { return call == kNoCall ? kNoCall : thread.numbers.at(call); };
    if (record.kind == CallRecord::kEnter) thread.numbers.emplace(record.call, thread.numbers.size());
    ++thread.records;
    if (record.kind == CallRecord::kMemory) {
      thread.hash = absl::HashOf(thread.hash, number(record.call), record.depth, record.config, record.time_ns,
                                 record.memory.freed, static_cast<int>(record.memory.device.kind),
                                 record.memory.device.index, record.memory.address, record.memory.bytes);
      return;
    }
    thread.hash = absl::HashOf(thread.hash, static_cast<int>(record.kind), record.level, record.depth,
                               trace_.identity(record.config), trace_.facets(record.variant), number(record.call),
                               record.count, trace_.tags(record.tags), record.notes, record.result.values,
                               record.result.notes, record.result.written, number(record.parent), record.time_ns,
                               record.duration_ns, record.exception, record.facts.scope, record.facts.thread,
                               record.facts.sequence, record.facts.forward_thread, record.facts.id);
    for (StackId at = record.stack; at != kNoStack; at = trace_.stacks().place(at).caller) {
      const StackPlace& place = trace_.stacks().place(at);
      const StackCode& code = trace_.stacks().code(place.code);
      thread.hash = absl::HashOf(thread.hash, place.line, code.file, code.function, code.module, code.library);
    }
  }

  std::string Compare(const ThreadHashes& other) const {
    if (threads_.size() != other.threads_.size()) {
      return absl::StrCat(threads_.size(), " threads, not ", other.threads_.size());
    }
    for (const auto& [key, thread] : threads_) {
      const auto at = other.threads_.find(key);
      if (at != other.threads_.end() && at->second.hash == thread.hash) continue;
      return absl::StrCat("process ", key.first, " thread ", key.second, ": ", thread.records, " records, and ",
                          at == other.threads_.end() ? 0 : at->second.records, " others");
    }
    return "";
  }

 private:
  struct Thread {
    std::map<uint64_t, uint64_t> numbers;
    uint64_t records = 0;
    uint64_t hash = 0;
  };

  const Trace& trace_;
  std::map<std::pair<uint32_t, uint32_t>, Thread> threads_;
};

}  // namespace

std::string CompareReadings(const std::string& path) {
  struct Helped : ReadingObserver {
    void OnRead(Unit, uint64_t, uint64_t) override {}
    size_t threads() const override { return 2; }
  } observer;
  const auto one_pass = OpenLogs(path, &observer);
  const auto ordered = OpenLogs(path);
  if (!one_pass.ok() || !ordered.ok()) return one_pass.status() == ordered.status() ? "" : "only one can be opened";
  ThreadHashes threads(**one_pass), all(**ordered);
  const LaterNotesShown shown_once(one_pass->get()), shown_in_order(ordered->get());
  const MemoryShown memory_once(one_pass->get()), memory_in_order(ordered->get());
  absl::Status status = (*one_pass)->ReadThreads([&](const CallRecord& record) { threads.Add(record); });
  status.Update((*ordered)->ReadCounted([&](const CallRecord& record) {
    all.Add(record);
    return absl::OkStatus();
  }));
  if (!status.ok()) return status.ToString();
  if ((*one_pass)->Count().value() != (*ordered)->Count().value()) return "other counts";
  for (size_t i = 0; i < (*ordered)->processes().size(); ++i) {
    const ProcessInfo& a = (*one_pass)->processes()[i];
    const ProcessInfo& b = (*ordered)->processes()[i];
    if (a.calls != b.calls || a.counted != b.counted || a.open_calls != b.open_calls ||
        a.threads.size() != b.threads.size() || a.damage.sentences != b.damage.sentences) {
      return absl::StrCat("process ", i, " has other numbers");
    }
  }
  return threads.Compare(all);
}

std::string TestFolder() {
  const testing::TestInfo* const test = testing::UnitTest::GetInstance()->current_test_info();
  std::string name = absl::StrCat(test->test_suite_name(), ".", test->name());
  for (char& c : name) c = c == '/' ? '.' : c;
  const std::string folder = absl::StrCat(testing::TempDir(), "/", name);
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  return folder;
}

std::string ReadFile(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(in), {});
}

void WriteFile(const std::string& path, std::string_view bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

}  // namespace torchtrace
