#include "serialize/log/log_follower.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "serialize/log/call_counts.h"
#include "serialize/log/log_survey.h"

namespace torchtrace {
namespace {

// How often frames are tried in one step, while threads move between them.
constexpr int kMaxPasses = 4;
constexpr uint64_t kDefinitionWindowBytes = 4096;
// A record's time is taken before it is committed, and clocks of different cores may differ. A larger step back means a
// damaged frame.
constexpr int64_t kMaxBehindNs = 1'000'000'000;

}  // namespace

uint32_t ActivitySums::Number(uint32_t name) {
  const auto [at, fresh] = numbers_.try_emplace(name, static_cast<uint32_t>(sums_.size()));
  if (fresh) sums_.push_back({.name = name});
  return at->second;
}

std::vector<Activity> ActivitySums::Take() {
  std::vector<Activity> taken;
  for (Activity& sum : sums_) {
    if (sum.calls != 0 || sum.self_ns != 0) taken.push_back(std::exchange(sum, {.name = sum.name}));
  }
  return taken;
}

absl::StatusOr<std::unique_ptr<LogFollower>> LogFollower::Open(const std::string& path,
                                                               std::shared_ptr<LogFilePool> pool, CallNaming naming,
                                                               uint64_t recent_bytes) {
  absl::StatusOr<std::unique_ptr<LogReader>> reader = LogReader::Open(path, std::move(pool));
  if (!reader.ok()) return reader.status();
  if ((*reader)->many_processes()) {
    return absl::FailedPreconditionError(absl::StrCat(path, " was made of other traces: nothing runs in it"));
  }
  std::unique_ptr<LogFollower> follower(new LogFollower(*std::move(reader), std::move(naming)));
  follower->info_.path = path;
  follower->Start(recent_bytes);
  return follower;
}

void LogFollower::Start(uint64_t recent_bytes) {
  counts_ = recent_bytes == UINT64_MAX;
  info_.file_bytes = reader_->file().bytes();
  TakeMetadata();
  const std::vector<LogFrame>& frames = reader_->frames();
  uint64_t bytes = 0;  // from the frame to the log's end
  for (auto i = static_cast<uint32_t>(frames.size()); i-- > 0;) {
    const LogFrame& frame = frames[i];
    if (frame.type() == FrameType::kCounts) counts_of_calls_.push_back({.index = i});
    if (frame.type() != FrameType::kCalls) continue;
    bytes += frame.header.capacity_bytes;
    const bool wanted = !frame.closed() || bytes <= recent_bytes;
    if (wanted && (counts_ || !info_.closed)) {
      frames_.push_back({.index = i});
    } else if (frame.closed()) {
      info_.calls += frame.header.calls;
    }
  }
  std::reverse(frames_.begin(), frames_.end());
  known_frames_ = frames.size();
}

void LogFollower::TakeMetadata() {
  info_.damage = {};
  info_.SetMetadata(ReadMetadata(*reader_, 0, &info_.damage));
  const LogEnd end = ReadLogEnd(*info_.metadata);
  info_.closed = end.present;
  thread_count_ = std::max<uint64_t>(thread_count_, end.thread_calls.size());
  clock_ = std::make_unique<LogClock>(*info_.metadata);
}

void LogFollower::Step() {
  grew_ = false;
  if (is_over_) return;
  bool tells = false;
  for (const uint32_t i : reader_->Update()) {
    const LogFrame& frame = reader_->frames()[i];
    grew_ = true;
    tells = tells || frame.type() == FrameType::kMetadata;
    if (i < known_frames_) continue;
    if (frame.type() == FrameType::kCalls) frames_.push_back({.index = i});
    if (frame.type() == FrameType::kCounts) counts_of_calls_.push_back({.index = i});
  }
  known_frames_ = reader_->frames().size();
  if (tells) TakeMetadata();
  info_.file_bytes = reader_->file().bytes();
  ReadFrames();
  for (FollowedCounts& counts : counts_of_calls_) ReadCounts(&counts);
  const auto closed = [this](const auto& each) { return reader_->frames()[each.index].closed(); };
  std::erase_if(frames_, [&](const FollowedFrame& each) { return closed(each) && !each.waits; });
  std::erase_if(counts_of_calls_, closed);
  is_over_ = info_.closed && !grew_;
  if (is_over_) reader_->file().Rest();
}

void LogFollower::ReadFrames() {
  if (!counts_) {
    for (FollowedFrame& frame : frames_) ReadFrame(/*force=*/true, &frame);
    return;
  }
  std::vector<FollowedFrame*> waiting;
  for (FollowedFrame& frame : frames_) waiting.push_back(&frame);
  for (int pass = 0; pass < kMaxPasses && !waiting.empty(); ++pass) {
    std::erase_if(waiting, [this](FollowedFrame* frame) { return ReadFrame(/*force=*/false, frame); });
  }
  for (FollowedFrame* const frame : waiting) {
    // What should come first was not yet committed when its frame was read, or is lost.
    if (std::exchange(frame->waits, true)) ReadFrame(/*force=*/true, frame);
  }
}

// The time up to then is the innermost call's.
void LogFollower::Charge(int64_t time_ns, Thread* thread) {
  if (time_ns <= thread->time_ns) {
    if (time_ns < thread->time_ns - kMaxBehindNs) thread->time_ns = time_ns;
    return;
  }
  const auto spent = static_cast<uint64_t>(time_ns - thread->time_ns);
  thread->time_ns = time_ns;
  if (thread->open.empty() || thread->open.back().unknown != 0) return;
  const Definition& innermost = thread->open.back().definition;
  apis_.At(innermost.api).self_ns += spent;
  if (innermost.module != kNoName) modules_.At(innermost.module).self_ns += spent;
}

void LogFollower::Enter(const Definition& definition, uint64_t payload, int64_t time_ns, Thread* thread) {
  Charge(time_ns, thread);
  const uint32_t around = thread->open.empty() ? kNoName : thread->open.back().definition.module;
  OpenCall& open = thread->open.Push();
  open.definition.api = definition.api;
  open.definition.module = definition.module == kNoName ? around : definition.module;
  open.definition.offset = definition.offset;
  open.payload = payload;
  open.time_ns = time_ns;
  open.unknown = 0;
  ++thread->depth;
  ++thread->calls;
  CountCalls(definition, 1);
}

void LogFollower::CountCalls(const Definition& definition, uint64_t calls) {
  info_.calls += calls;
  calls_ += calls;
  apis_.At(definition.api).calls += calls;
  if (definition.module != kNoName) modules_.At(definition.module).calls += calls;
}

LogFollower::Definition LogFollower::Define(std::string_view identity, uint64_t offset) {
  const CallName name = naming_(identity);
  return {apis_.Number(name.api), name.module == kNoName ? kNoName : modules_.Number(name.module),
          static_cast<uint32_t>(offset)};
}

void LogFollower::ReadCounts(FollowedCounts* counts) {
  const LogFrame& frame = reader_->frames()[counts->index];
  const std::string payload = reader_->file().ReadAt(
      frame.payload_offset(), std::min<uint64_t>(frame.header.committed_bytes, frame.payload_capacity()));
  size_t number = 0;
  VisitCounts(payload, [&](std::string_view identity, std::string_view, uint64_t calls) {
    if (number == counts->counts.size()) counts->counts.push_back({Define(identity, 0)});
    FollowedCounts::Count& count = counts->counts[number++];
    const uint64_t more = calls - std::min(calls, std::exchange(count.calls, calls));
    if (more == 0) return;
    CountCalls(count.definition, more);
    info_.counted += more;
    grew_ = true;
  });
}

void LogFollower::Pop(Thread* thread) {
  if (thread->open.empty()) return;
  --thread->depth;
  if (thread->open.back().unknown > 1) {
    --thread->open.back().unknown;
  } else {
    thread->open.Pop();
  }
}

// Reads the committed records. False: the next one continues a thread whose records before it were not all read;
// `force` goes on anyway.
bool LogFollower::ReadFrame(bool force, FollowedFrame* frame) {
  const LogFrame& log_frame = reader_->frames()[frame->index];
  const uint64_t payload = log_frame.payload_offset();
  const uint64_t end = std::min<uint64_t>(log_frame.header.committed_bytes, log_frame.payload_capacity());
  if (frame->read >= end || frame->broken) return true;
  CallReader reader(&reader_->file(), payload, frame->read, end);
  reader.StartAt(frame->time);
  bool goes_on = true;
  for (auto kind = reader.Next(); kind != CallReader::kEnd; kind = reader.Next()) {
    frame->broken = kind == CallReader::kBroken || (frame->thread == nullptr && kind != CallReader::kThread) ||
                    (kind == CallReader::kEnter && reader.definition() >= frame->definitions.size()) ||
                    (kind == CallReader::kThread && reader.thread().number >= UINT32_MAX);
    if (frame->broken) break;
    if (kind == CallReader::kThread) {
      goes_on = force || Continues(reader.thread());
      if (!goes_on) break;
      // Whoever was in the frame has ended: a thread that goes on elsewhere closes its frame.
      if (frame->thread != nullptr && frame->thread->number != reader.thread().number) EndThread(frame->thread);
      frame->thread = Begin(reader.thread());
    } else if (kind == CallReader::kEnter) {
      Enter(frame->definitions[reader.definition()], payload, clock_->Nanoseconds(reader.time()), frame->thread);
    } else if (kind == CallReader::kLeave || kind == CallReader::kRaise) {
      Charge(clock_->Nanoseconds(reader.time()), frame->thread);
      Pop(frame->thread);
    } else if (kind == CallReader::kDefine) {
      frame->definitions.push_back(Define(reader.identity(), reader.offset()));
    }
    frame->time = reader.time();
    frame->read = reader.next_offset();
  }
  if (frame->thread != nullptr) last_ns_ = std::max(last_ns_, clock_->Nanoseconds(frame->time));
  if (goes_on) frame->waits = false;
  return goes_on;
}

void LogFollower::EndThread(const Thread* thread) {
  if (thread == &stray_) return;
  // In a damaged log it may be in another frame, too.
  for (FollowedFrame& frame : frames_) {
    if (frame.thread == thread) frame.thread = nullptr;
  }
  ended_.insert(thread->number);
  threads_.erase(thread->number);
}

bool LogFollower::Continues(const LogRecord::ThreadRecord& record) const {
  const auto known = threads_.find(record.number);
  if (known == threads_.end()) return record.calls_before == 0 || ended_.contains(record.number);
  const Thread& thread = known->second;
  return record.calls_before < thread.calls ||  // an old one
         (record.calls_before == thread.calls && record.open_calls >= thread.depth);
}

LogFollower::Thread* LogFollower::Begin(const LogRecord::ThreadRecord& record) {
  const auto known = threads_.find(record.number);
  const bool fresh = known == threads_.end();
  const bool continues =
      !fresh && record.calls_before == known->second.calls && record.open_calls == known->second.depth;
  const bool old = fresh ? ended_.contains(record.number) : !continues && record.calls_before <= known->second.calls;
  if (old) stray_ = {};
  Thread* const thread = old ? &stray_ : &threads_[record.number];
  thread_count_ = std::max(thread_count_, record.number + 1);
  thread->number = record.number;
  thread->name = record.name;
  const int64_t time_ns = clock_->Nanoseconds(record.time);
  if (continues) {
    Charge(time_ns, thread);
    return thread;
  }
  thread->time_ns = time_ns;
  LogSegment segment;
  segment.open_calls = record.open_calls;
  const uint64_t lost = record.calls_before - std::min(record.calls_before, thread->calls);
  const uint64_t surviving = SurvivingCalls(thread->depth, lost, segment);
  while (thread->depth > surviving) Pop(thread);
  if (record.open_calls > thread->depth) {
    OpenCall& open = thread->open.Push();
    open = {};
    open.unknown = record.open_calls - thread->depth;
  }
  thread->calls = record.calls_before;
  thread->depth = record.open_calls;
  return thread;
}

LiveThread LogFollower::Describe(const Thread& thread) const {
  LiveThread described = {.number = thread.number, .name = thread.name, .open_calls = thread.depth};
  const OpenCall& call = thread.open.back();
  if (call.unknown != 0) return described;
  CallReader reader(&reader_->file(), call.payload, call.definition.offset, UINT32_MAX, kDefinitionWindowBytes);
  if (reader.Next() == CallReader::kDefine) described.identity = reader.identity();
  described.entered_ns = call.time_ns;
  return described;
}

LiveProcess LogFollower::Report(Running running, int64_t now_ns) {
  LiveProcess report;
  const bool lasts = running == Running::kYes && clock_->known();
  for (auto& [number, thread] : threads_) {
    if (lasts) Charge(now_ns, &thread);
    if (thread.depth > 0) report.inside.push_back(Describe(thread));
  }
  report.apis = apis_.Take();
  report.modules = modules_.Take();
  report.calls = std::exchange(calls_, 0);
  if (!std::exchange(counts_, true)) {
    report.apis.clear();
    report.modules.clear();
    report.calls = 0;
  }
  report.info = info_;
  report.running = running;
  report.threads = thread_count_;
  last_ns_ = std::max(last_ns_, lasts ? now_ns : 0);
  report.until_ns = last_ns_;
  return report;
}

}  // namespace torchtrace
