#include "tracer/record/recorder.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <new>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "serialize/base/files.h"
#include "serialize/log/log_trace.h"
#include "serialize/model/config.h"
#include "serialize/model/tensor_notes.h"
#include "serialize/model/value.h"
#include "serialize/trace/trace.h"
#include "tracer/record/clock.h"
#include "tracer/record/fatal_signals.h"

namespace {
// How many more allocations succeed; negative: all.
std::atomic<int64_t> g_allocations_left{-1};
std::atomic<int64_t> g_allocated{0};  // and not freed

// Null if no allocation is left.
void* Allocate(size_t bytes) {
  if (g_allocations_left >= 0 && g_allocations_left-- <= 0) {
    g_allocations_left = 0;
    return nullptr;
  }
  ++g_allocated;
  return malloc(bytes == 0 ? 1 : bytes);
}
void Free(void* memory) {
  if (memory != nullptr) --g_allocated;
  free(memory);
}
void* AllocateOrThrow(size_t bytes) {
  void* const memory = Allocate(bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
}  // namespace

void* operator new(size_t bytes) { return AllocateOrThrow(bytes); }
void* operator new[](size_t bytes) { return AllocateOrThrow(bytes); }
void* operator new(size_t bytes, const std::nothrow_t&) noexcept { return Allocate(bytes); }
void operator delete(void* memory) noexcept { Free(memory); }
void operator delete[](void* memory) noexcept { Free(memory); }
void operator delete(void* memory, size_t) noexcept { Free(memory); }
void operator delete[](void* memory, size_t) noexcept { Free(memory); }

namespace torchtrace {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;
using Json = nlohmann::json;

std::string NewFolder(const std::string& parent = ::testing::TempDir()) {
  std::string pattern = parent + "/recorder_XXXXXX";
  return mkdtemp(pattern.data());
}

// A configuration with its facets, as hooks describe them.
std::string Described(const std::string& api) {
  Config config;
  config.level = 1;
  config.api = api;
  return EncodeConfig(config) + '\0';
}

void Call(const std::string& described) {
  ThreadRecorder* const thread = Recorder::Get()->ThisThread();
  if (thread != nullptr && thread->Enter(described, static_cast<uint32_t>(described.size() - 1))) thread->Leave();
}

absl::Status Start(const std::string& folder, RecorderOptions options = {}) {
  options.log_folder = folder;
  options.recording.quiet = true;
  return Recorder::Start(std::move(options));
}

RecorderOptions WithMaxSize(uint64_t bytes) {
  RecorderOptions options;
  options.recording.max_size = bytes;
  return options;
}

// What is in the log of the only process in `folder`.
struct Recorded {
  uint64_t calls = 0;
  Json metadata;
  std::vector<std::string> damage;
};
Recorded ReadRecorded(const std::string& folder) {
  const auto trace = OpenLogs(folder).value();
  EXPECT_TRUE(trace->Count().ok());
  const ProcessInfo& process = trace->processes().at(0);
  return {process.calls, *process.metadata, process.damage.sentences};
}

// Runs `body` in a child and returns its wait status, with what `body` returns as the exit code.
int InChild(const std::function<int()>& body) {
  const pid_t child = fork();
  if (child == 0) {
    const rlimit no_core = {0, 0};
    setrlimit(RLIMIT_CORE, &no_core);
    _exit(body());
  }
  int status = 0;
  waitpid(child, &status, 0);
  return status;
}
bool Succeeded(int status) { return WIFEXITED(status) && WEXITSTATUS(status) == 0; }

void EndSession() { Recorder::Get()->Finish({.program_goes_on = true}); }

// The process's mappings, descriptors and objects.
struct Held {
  size_t mappings = 0;
  size_t descriptors = 0;
  int64_t objects = g_allocated;
};
Held HeldNow() {
  Held held;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) ++held.mappings;
  held.descriptors =
      static_cast<size_t>(std::distance(fs::directory_iterator("/proc/self/fd"), fs::directory_iterator()));
  return held;
}

TEST(RecorderTest, RecordsCalls) {
  const std::string folder = NewFolder();
  RecorderOptions options;
  options.metadata_json = R"({"program":["a"]})";
  ASSERT_TRUE(Start(folder, options).ok());
  for (int i = 0; i < 10; ++i) Call(Described(absl::StrCat("f", i % 3)));
  Recorder::Get()->NoteNotSeen("\"quoted\" \\ \n \xff \xe2\x82\xac");
  Recorder::Get()->CountCut("things", 3);
  EndSession();
  const Recorded recorded = ReadRecorded(folder);
  EXPECT_EQ(recorded.calls, 10u);
  EXPECT_THAT(recorded.damage, IsEmpty());
  EXPECT_EQ(recorded.metadata["program"], Json::array({"a"}));
  EXPECT_EQ(recorded.metadata["role"], "main");
  EXPECT_EQ(recorded.metadata["pid"], getpid());
  EXPECT_GT(recorded.metadata["clock"]["unit_ns"].get<double>(), 0);
  Json end = recorded.metadata["end"];
  end.erase("units");
  end.erase("monotonic_ns");
  EXPECT_EQ(end, Json({{"program_goes_on", true},
                       {"threads", Json::array({{{"number", 0}, {"calls", 10}, {"getters", 0}}})},
                       {"getters", 0},
                       {"not_seen", Json::array({"\"quoted\" \\ \n \xef\xbf\xbd \xe2\x82\xac"})},
                       {"cut", {{"things", 3}}}}));
}

// Notes and results of any size stay with their calls, across frames.
TEST(RecorderTest, NotesAndResults) {
  const std::string folder = NewFolder();
  RecorderOptions options;
  options.max_frame_bytes = 64 << 10;
  ASSERT_TRUE(Start(folder, options).ok());
  constexpr size_t kCalls = 200;
  const std::string described = Described("f");
  ThreadRecorder& thread = *Recorder::Get()->ThisThread();
  for (size_t i = 0; i < kCalls; ++i) {
    std::string notes, values, result_notes, written;
    AppendTensorNote({.position = i, .contents = std::string(i * 37, 'n')}, &notes);
    AppendVarint(1, &values);
    ValueWriter(&values).Int(static_cast<int64_t>(i));
    AppendTensorNote({.position = i, .contents = std::string(i * 41, 'r')}, &result_notes);
    ASSERT_TRUE(thread.Enter(described, static_cast<uint32_t>(described.size() - 1), {.notes = notes}));
    if (i % 3 != 0) AppendTensorNote({.position = i, .contents = std::string(i * 43, 'w')}, &written);
    if (i % 5 == 0) {
      thread.Raise("ValueError", written);
    } else {
      thread.Leave(i % 2 == 0 ? CallResult{values, result_notes, written} : CallResult{.written = written});
    }
  }
  EndSession();
  const auto trace = OpenLogs(folder).value();
  size_t entered = 0, left = 0;
  const absl::Status read = trace->Read([&](const CallRecord& record) {
    if (record.kind == CallRecord::kEnter) {
      EXPECT_EQ(ReadTensorNotes(record.notes).at(0).contents, std::string(entered++ * 37, 'n'));
      EXPECT_FALSE(record.result.known());
    } else {
      EXPECT_EQ(record.notes, "");
      EXPECT_EQ(record.kind == CallRecord::kRaise, left % 5 == 0);
      EXPECT_EQ(record.result.known(), left % 2 == 0 && left % 5 != 0);
      EXPECT_EQ(record.result.written.empty(), left % 3 == 0);
      if (left % 3 != 0) {
        EXPECT_EQ(ReadTensorNotes(record.result.written).at(0).contents, std::string(left * 43, 'w'));
      }
      if (record.result.known()) {
        EXPECT_EQ(ReadableResult(record.result.values).at(0).integer, static_cast<int64_t>(left));
        EXPECT_EQ(ReadTensorNotes(record.result.notes).at(0).contents, std::string(left * 41, 'r'));
      }
      ++left;
    }
    return absl::OkStatus();
  });
  EXPECT_TRUE(read.ok()) << read;
  EXPECT_EQ(left, kCalls);
}

// The calls as a tree on one line: `a(b c)`, with `!` for a call that never ended.
std::string Tree(const std::string& folder) {
  const auto trace = OpenLogs(folder).value();
  std::string tree;
  std::set<uint64_t> open;
  const absl::Status read = trace->Read([&](const CallRecord& record) {
    if (record.kind == CallRecord::kEnter) {
      open.insert(record.call);
      const std::string api(ReadConfigHead(trace->identity(record.config)).api);
      absl::StrAppend(&tree, api, record.facts.scope == kUserScope ? "*(" : "(");
    } else {
      open.erase(record.call);
      tree += ')';
    }
    return absl::OkStatus();
  });
  EXPECT_TRUE(read.ok()) << read;
  return tree + std::string(open.size(), '!');
}

TEST(RecorderTest, ScopesThatAreOpenedAndClosedInCallsNest) {
  const std::string folder = NewFolder();
  RecorderOptions options;
  options.recording.exclude = {"hidden"};
  ASSERT_TRUE(Start(folder, options).ok());
  ThreadRecorder& thread = *Recorder::Get()->ThisThread();
  const auto enter = [&](const std::string& api) {
    const std::string described = Described(api);
    EXPECT_TRUE(thread.Enter(described, static_cast<uint32_t>(described.size() - 1)));
  };
  const auto open = [](const std::string& api) {
    const std::string described = Described(api);
    const RecordFacts facts = {.scope = kUserScope};
    return Recorder::Get()->ThisThread()->OpenScope(described, static_cast<uint32_t>(described.size() - 1),
                                                    {.facts = &facts});
  };
  const auto close = [&](const std::shared_ptr<Scope>& scope) {
    ThreadRecorder::CloseScope(&thread, scope.get(), /*raised=*/false);
  };
  // Opened by a call that returns before the scope's calls: `with record_function("step"):`.
  enter("__enter__");
  const auto step = open("step");
  thread.Leave(), enter("work"), thread.Leave();
  enter("__exit__"), close(step), enter("inner"), thread.Leave(), thread.Leave();
  enter("after"), thread.Leave();
  // An empty scope; two scopes, the outer one closed first; one that is filtered out.
  close(open("empty"));
  const auto first = open("first"), second = open("second");
  enter("both"), thread.Leave(), close(first), enter("one"), thread.Leave(), close(second);
  // Opened in a scope that is closed before any call: a function around __enter__.
  const auto around = open("around"), inside = open("step");
  close(around), enter("work");
  const auto again = open("around");
  enter("more"), close(again), thread.Leave(), thread.Leave();
  const auto last = open("around");
  close(inside), close(last);
  // Closed while a call in it is open.
  const auto kept = open("kept");
  enter("long"), close(kept);
  const auto in_it = open("again");
  enter("in"), thread.Leave(), close(in_it), enter("out"), thread.Leave(), thread.Leave();
  const auto hidden = open("hidden");
  enter("shown"), thread.Leave(), close(hidden);
  // A generator's scope ends with the call in which it began.
  enter("next");
  const auto generator = open("generator");
  enter("work"), thread.Leave(), thread.Raise("StopIteration"), close(generator);
  // Closed on another thread: before it begins, and while a call in it is open.
  const auto elsewhere = [](const std::shared_ptr<Scope>& scope) {
    std::thread([&] { ThreadRecorder::CloseScope(Recorder::Get()->ThisThread(), scope.get(), false); }).join();
  };
  const auto waits = open("waits"), suspended = open("suspended");
  elsewhere(suspended), elsewhere(waits), enter("then"), thread.Leave();
  const auto goes_on = open("goes on");
  enter("part"), elsewhere(goes_on), thread.Leave(), enter("next"), thread.Leave();
  // A scope as a thread's first action; a scope left open is not in the next session.
  std::thread([&] {
    const auto scope = open("of a thread");
    ThreadRecorder::CloseScope(Recorder::Get()->ThisThread(), scope.get(), /*raised=*/false);
  }).join();
  const auto left = open("not closed");
  enter("last"), thread.Leave();
  EndSession();
  const std::string next = NewFolder();
  ASSERT_TRUE(Start(next).ok());
  close(left);
  const auto waiting = open("waits");
  EndSession();
  close(waiting);
  ASSERT_TRUE(Start(NewFolder()).ok());
  Call(Described("f"));
  EndSession();
  EXPECT_EQ(Tree(next), "");
  EXPECT_EQ(Tree(folder),
            "__enter__()step*(work()__exit__(inner()))after()"
            "empty*()first*(second*(both()one()))"
            "around*()step*(work(around*(more())))around*()kept*(long(again*(in())out()))"
            "shown()next(generator*(work()))waits*(suspended*())then()goes on*(part())next()"
            "of a thread*()not closed*(last()!");
}

TEST(RecorderTest, ProgramClosesAllDescriptorsAndOpensItsOwn) {
  const std::string folder = NewFolder();
  const std::string mine = folder + "/mine";
  constexpr int kCalls = 200'000;  // some frames
  EXPECT_TRUE(Succeeded(InChild([&] {
    const std::string log_folder = folder + "/log";
    fs::create_directory(log_folder);
    if (!Start(log_folder).ok()) return 1;
    Call(Described("f"));
    for (int fd = 3; fd < 1024; ++fd) close(fd);
    const int own = open(mine.c_str(), O_RDWR | O_CREAT, 0600);
    if (write(own, "mine", 4) != 4) return 2;
    for (int fd = own + 1; fd < 1024; ++fd) dup2(own, fd);
    close(800);  // leaves one free
    for (int i = 1; i < kCalls; ++i) Call(Described("f"));
    Recorder::Get()->Finish({});
    return Recorder::Get()->stop_reason().empty() ? 0 : 3;
  })));
  std::string text;
  std::getline(std::ifstream(mine), text, '\0');
  EXPECT_EQ(text, "mine");
  EXPECT_EQ(ReadRecorded(folder + "/log").calls, static_cast<uint64_t>(kCalls));
}

// Needs a new frame, whatever room the current one has.
void CallLarge() {
  static int number = 0;
  Call(Described(absl::StrCat("large", ++number, std::string(100'000, 'x'))));
}

TEST(RecorderTest, LogThatIsNotThereAnyMoreStopsRecording) {
  const std::string folder = NewFolder();
  ASSERT_TRUE(Start(folder).ok());
  CallLarge();
  EXPECT_EQ(Recorder::Get()->stop_reason(), "");
  fs::rename(folder, folder + "-moved");
  CallLarge();
  EXPECT_THAT(std::string(Recorder::Get()->stop_reason()), HasSubstr("cannot go on with " + folder + "/main-"));
  EXPECT_FALSE(Recorder::Recording());
  EndSession();
  // The reason is in the last words, whose frame was reserved.
  const Recorded recorded = ReadRecorded(folder + "-moved");
  EXPECT_EQ(recorded.calls, 1u);
  EXPECT_THAT(recorded.metadata["end"]["stopped"].get<std::string>(), HasSubstr("No such file"));
}

// Wherever memory runs out, the program goes on and the log has the reason.
TEST(RecorderTest, MemoryRunsOut) {
  constexpr uint64_t kCalls = 700;
  std::vector<std::string> configs;
  for (uint64_t i = 0; i < kCalls; ++i) configs.push_back(Described(absl::StrCat("function", i)));
  const std::string text = "what was not seen, in a sentence that takes memory";
  const std::string tags = R"({"step": 1, "phase": "a tag that takes memory"})";
  uint64_t stops = 0;
  for (int64_t left = 0; left < 60; ++left) {
    const std::string folder = NewFolder();
    RecorderOptions options;
    options.max_frame_bytes = 64 << 10;
    ASSERT_TRUE(Start(folder, options).ok());
    const ProgramEnd end = {.exit_code = 7};
    std::thread program([&] {
      g_allocations_left = left;
      for (size_t i = 0; i < configs.size(); ++i) {
        ThreadRecorder* const thread = Recorder::Get()->ThisThread();
        const std::string_view config = configs[i];
        if (thread == nullptr || !thread->Enter(config, static_cast<uint32_t>(config.size() - 1))) continue;
        if (i % 2 == 0) thread->Leave();
        if (i % 2 == 1) thread->Raise("SomeError");
        if (i == 5) Recorder::Get()->SetTags(tags);
        if (i == 10) thread->CountGetter();
      }
      Recorder::Get()->NoteNotSeen(text);
      Recorder::Get()->CountCut(text, 1);
      Recorder::Get()->AddMetadata(tags);
      Recorder::Get()->AddOwnMetadata(tags);
      if (left % 2 == 0) Recorder::Get()->Finish(end);
    });
    program.join();  // frees its ThreadRecorder without memory too
    g_allocations_left = left % 4 == 1 ? 0 : -1;
    Recorder::Get()->Finish(end);
    g_allocations_left = -1;
    const Recorded recorded = ReadRecorded(folder);
    EXPECT_EQ(recorded.metadata["end"].value("exit_code", -1), 7) << left;
    const bool stopped = recorded.metadata["end"].contains("stopped");
    EXPECT_EQ(stopped, !Recorder::Get()->stop_reason().empty()) << left;
    if (stopped) {
      ++stops;
      EXPECT_EQ(recorded.metadata["end"]["stopped"], "no memory is left to record with");
    } else {
      EXPECT_EQ(recorded.calls, kCalls) << left;
    }
    fs::remove_all(folder);
  }
  EXPECT_GT(stops, 10u);
  EXPECT_LT(stops, 60u);
}

// The later notes in a log: thread, call of that thread, notes.
std::vector<std::string> LaterNotesIn(const std::string& folder) {
  const auto trace = OpenLogs(folder).value();
  const LaterNotesShown shown(trace.get());
  std::map<uint32_t, std::vector<uint64_t>> calls;  // by thread
  std::vector<std::string> later;
  const absl::Status read = trace->Read([&](const CallRecord& record) {
    std::vector<uint64_t>& of_thread = calls[record.thread];
    if (record.kind == CallRecord::kEnter) of_thread.push_back(record.call);
    if (record.kind == CallRecord::kLater) {
      const auto call = std::find(of_thread.begin(), of_thread.end(), record.call) - of_thread.begin();
      later.push_back(absl::StrCat(record.thread, ":", call, " ", std::string(record.notes),
                                   std::string(record.result.notes), std::string(record.result.written)));
    }
    return absl::OkStatus();
  });
  EXPECT_TRUE(read.ok()) << read;
  EXPECT_THAT(trace->processes()[0].damage.sentences, IsEmpty());
  std::sort(later.begin(), later.end());
  return later;
}

TEST(RecorderTest, LaterNotes) {
  const std::string folder = NewFolder();
  ASSERT_TRUE(Succeeded(InChild([&] {
    RecorderOptions options;
    options.recording.device_times = true;
    if (!Start(folder, options).ok()) return 1;
    ThreadRecorder* const thread = Recorder::Get()->ThisThread();
    const std::string described = Described("torch.f");
    if (thread->Later(thread->LastEntered(), LaterOf::kResult, "none")) return 2;
    Call(described);
    const EnteredCall first = thread->LastEntered();
    Call(described);
    if (!thread->Later(first, LaterOf::kArguments, "own")) return 3;
    EnteredCall other_session = first;
    ++other_session.session;
    if (thread->Later(other_session, LaterOf::kResult, "other session")) return 4;
    // Larger than a frame.
    if (!thread->Later(first, LaterOf::kResult, std::string(100'000, 'x'))) return 5;
    for (uint64_t i = 0; i < kRecentCalls - 2; ++i) Call(described);
    if (!thread->Later(first, LaterOf::kWritten, "last chance")) return 6;
    Call(described);
    if (thread->Later(first, LaterOf::kWritten, "too late")) return 7;

    // A thread that lives at the end, one that has ended.
    EnteredCall of_waiting, of_ended;
    std::atomic<bool> called{false}, over{false};
    std::thread waiting([&] {
      Call(described);
      of_waiting = Recorder::Get()->ThisThread()->LastEntered();
      Call(described);
      called = true;
      while (!over) usleep(1000);
    });
    while (!called) usleep(1000);
    std::thread([&] {
      Call(described);
      of_ended = Recorder::Get()->ThisThread()->LastEntered();
    }).join();
    if (thread->Later(of_waiting, LaterOf::kResult, "another's")) return 8;
    Recorder* const recorder = Recorder::Get();
    recorder->KeepLater(of_waiting, LaterOf::kResult, "waiting");
    recorder->KeepLater(of_ended, LaterOf::kResult, "ended");
    recorder->KeepLater(thread->LastEntered(), LaterOf::kResult, "kept");
    recorder->KeepLater(first, LaterOf::kResult, "too old");
    static std::atomic<int> asked{0};
    Recorder::SetBeforeFinish([] { ++asked; });
    recorder->Finish({.exit_code = 0});
    over = true;
    waiting.join();
    return asked == 1 ? 0 : 9;
  })));
  std::vector<std::string> later = LaterNotesIn(folder);
  ASSERT_EQ(later.size(), 6u);
  EXPECT_EQ(later[2].size(), 100'000u + 4);
  later.erase(later.begin() + 2);
  EXPECT_THAT(later, ElementsAre("0:0 last chance", "0:0 own", absl::StrCat("0:", kRecentCalls, " kept"), "1:0 waiting",
                                 "2:0 ended"));
  EXPECT_EQ(ReadRecorded(folder).metadata["end"]["cut"].dump(),
            R"({"numbers of tensors and device times that came too late":1})");
}

// With device times each open call is marked, and unmarked at its end; a call that the marks refuse isn't.
TEST(RecorderTest, CallsAreMarked) {
  const std::string folder = NewFolder();
  ASSERT_TRUE(Succeeded(InChild([&] {
    static std::string told;
    static bool refuses = false;
    static constexpr CallMarks kMarks = {[](ThreadRecorder*, const EnteredCall& call) {
                                           told += refuses ? "-" : std::to_string(call.call);
                                           return !refuses;
                                         },
                                         [] { told += ")"; }};
    Recorder::SetMarks(&kMarks);
    RecorderOptions options;
    options.log_folder = folder;
    options.recording.device_times = true;
    if (!Recorder::Start(options).ok()) return 1;
    const std::string described = Described("torch.f");
    const auto bytes = static_cast<uint32_t>(described.size() - 1);
    ThreadRecorder* const thread = Recorder::Get()->ThisThread();
    thread->Enter(described, bytes);
    refuses = true;
    thread->Enter(described, bytes);
    refuses = false;
    thread->Enter(described, bytes);
    thread->Leave();
    thread->Raise("E");
    if (thread->InnermostCall()->call != 0) return 2;
    thread->Leave();
    if (told != "0-2))") return 3;
    thread->Enter(described, bytes);
    thread->UnmarkAll();
    thread->Leave();
    if (told != "0-2))3)") return 4;
    Recorder::Get()->Finish({.exit_code = 0});
    return 0;
  })));
}

// What is alive is known only if ends are recorded while recording is paused, and every frame has room for them.
TEST(RecorderTest, Memory) {
  const std::string folder = NewFolder();
  constexpr uint64_t kBlocks = 20'000;  // more than a frame has
  ASSERT_TRUE(Succeeded(InChild([&] {
    if (!Start(folder).ok()) return 1;
    Recorder* const recorder = Recorder::Get();
    ThreadRecorder* const thread = recorder->ThisThread();
    thread->Memory({.address = 1, .bytes = 10});
    Call(Described("torch.f"));
    for (uint64_t i = 0; i < kBlocks; ++i) thread->Memory({.address = i + 2, .bytes = 1});
    recorder->SetPaused(true);
    for (uint64_t i = 0; i < kBlocks; ++i) thread->Memory({.freed = true, .address = i + 2});
    recorder->Finish({.exit_code = 0});
    thread->Memory({.address = 1, .bytes = 1});
    return 0;
  })));
  const auto trace = OpenLogs(folder).value();
  const MemoryShown shown(trace.get());
  uint64_t allocated = 0, freed = 0, bytes = 0;
  const absl::Status read = trace->Read([&](const CallRecord& record) {
    if (record.kind != CallRecord::kMemory) return absl::OkStatus();
    EXPECT_EQ(record.call, kNoCall);
    ++(record.memory.freed ? freed : allocated);
    bytes += record.memory.bytes;
    return absl::OkStatus();
  });
  EXPECT_TRUE(read.ok()) << read;
  EXPECT_EQ(allocated, kBlocks + 1);
  EXPECT_EQ(freed, kBlocks);
  EXPECT_EQ(bytes, kBlocks + 10);
}

TEST(RecorderTest, MemoryInAScopeComesAfterItsEntry) {
  const std::string folder = NewFolder();
  ASSERT_TRUE(Start(folder).ok());
  ThreadRecorder* const thread = Recorder::Get()->ThisThread();
  thread->Memory({.address = 1, .bytes = 10});
  const std::string described = Described("scope");
  const RecordFacts facts = {.scope = kUserScope};
  const auto scope = thread->OpenScope(described, static_cast<uint32_t>(described.size() - 1), {.facts = &facts});
  thread->Memory({.freed = true, .address = 1});
  ThreadRecorder::CloseScope(thread, scope.get(), /*raised=*/false);
  EndSession();
  const auto trace = OpenLogs(folder).value();
  const MemoryShown shown(trace.get());
  std::vector<CallRecord::Kind> kinds;
  ASSERT_TRUE(trace
                  ->Read([&](const CallRecord& record) {
                    kinds.push_back(record.kind);
                    return absl::OkStatus();
                  })
                  .ok());
  EXPECT_THAT(kinds, ElementsAre(CallRecord::kMemory, CallRecord::kEnter, CallRecord::kMemory, CallRecord::kLeave));
}

// Within calls and after a pause, what is kept for the end does no harm to the calls of its thread.
TEST(RecorderTest, LaterNotesKeptWithinCalls) {
  const std::string folder = NewFolder();
  ASSERT_TRUE(Succeeded(InChild([&] {
    if (!Start(folder).ok()) return 1;
    const std::string described = Described("torch.f");
    const auto bytes = static_cast<uint32_t>(described.size() - 1);
    ThreadRecorder* const thread = Recorder::Get()->ThisThread();
    if (!thread->Enter(described, bytes) || !thread->Enter(described, bytes)) return 2;
    thread->Leave();
    Recorder::Get()->KeepLater(thread->LastEntered(), LaterOf::kWritten, "kept");
    Recorder::Get()->Finish({.exit_code = 0});
    thread->Leave();
    return 0;
  })));
  EXPECT_THAT(LaterNotesIn(folder), ElementsAre("0:1 kept"));
  const auto trace = OpenLogs(folder).value();
  ASSERT_TRUE(trace->Count().ok());
  EXPECT_EQ(trace->processes()[0].calls, 2u);
  EXPECT_EQ(trace->processes()[0].open_calls, 1u);
}

// A schema is written with the first call of each operator in each log, as the process may die at the next call.
TEST(RecorderTest, SchemasOfOperators) {
  const std::string folder = NewFolder();
  RecorderOptions options;
  options.max_frame_bytes = 64 << 10;
  Recorder::SetSchemaOf([](std::string_view api) {
    if (api == "own::unknown") return std::string();
    static std::atomic<int> told{0};
    return absl::StrCat(std::string(api), "(", std::string(60'000, ' '), "int told=", told++, ") -> ()");
  });
  ASSERT_TRUE(Start(folder, options).ok());
  for (int i = 0; i < 100; ++i) {
    for (const char* const api : {"own::f", "torch.f", "own::g.out", "own::unknown"}) Call(Described(api));
    std::thread([] { Call(Described("own::f")); }).join();
  }
  EXPECT_FALSE(Succeeded(InChild([] {
    Call(Described("own::g.out"));
    Call(Described("own::h"));
    kill(getpid(), SIGKILL);
    return 0;
  })));
  EndSession();
  Recorder::SetSchemaOf(nullptr);
  const auto trace = OpenLogs(folder).value();
  ASSERT_TRUE(trace->Count().ok());
  const auto told = [&](size_t process) {
    Json schemas = trace->processes().at(process).metadata->at("schemas");
    for (Json& schema : schemas) {
      std::string& text = schema.get_ref<std::string&>();
      text.erase(std::remove(text.begin(), text.end(), ' '), text.end());
    }
    return schemas;
  };
  EXPECT_EQ(trace->processes().at(0).calls, 500u);
  EXPECT_EQ(told(0), Json({{"own::f", "own::f(inttold=0)->()"}, {"own::g.out", "own::g.out(inttold=1)->()"}}));
  EXPECT_EQ(told(1), Json({{"own::g.out", "own::g.out(inttold=2)->()"}, {"own::h", "own::h(inttold=3)->()"}}));
}

// Forking works without memory too.
TEST(RecorderTest, ForkWithoutMemory) {
  const std::string folder = NewFolder();
  EXPECT_TRUE(Succeeded(InChild([&] {
    if (!Start(folder).ok()) return 1;
    Call(Described("f"));
    g_allocations_left = 0;
    const pid_t child = fork();
    if (child == 0) _exit(0);
    int status = 1;
    waitpid(child, &status, 0);
    g_allocations_left = -1;
    return status;
  })));
}

class ForksWithoutLogTest : public ::testing::TestWithParam<uint64_t> {};
INSTANTIATE_TEST_SUITE_P(MaxSizes, ForksWithoutLogTest, ::testing::Values(0, 1));

TEST_P(ForksWithoutLogTest, AreTold) {
  const std::string folder = NewFolder();
  EXPECT_TRUE(Succeeded(InChild([&] {
    if (!Start(folder, WithMaxSize(GetParam())).ok()) return 1;
    Call(Described("f"));
    fs::rename(folder, folder + ".away");
    for (int i = 0; i < 2; ++i) {
      const int status = InChild([] {
        Call(Described("f"));
        return Recorder::Recording() ? 1 : 0;
      });
      if (!Succeeded(status)) return 2;
    }
    fs::rename(folder + ".away", folder);
    Recorder::Get()->Finish({});
    return 0;
  })));
  EXPECT_EQ(ReadRecorded(folder).metadata["end"]["not_seen"],
            Json({"the calls of 2 forked processes: no log could be created there"}));
}

// Runs `body` in a child that was forked past the fork handlers. Not 0: the child still records.
int InStrayFork(const std::function<void()>& body) {
  const pid_t child = _Fork();
  if (child == 0) {
    body();
    _exit(Recorder::Recording() ? 1 : 0);
  }
  int status = 1;
  waitpid(child, &status, 0);
  return status;
}

// The parent's frames are not mapped in the child, and no fork handler has run.
TEST(RecorderTest, ForkPastTheHandlers) {
  const std::string folder = NewFolder();
  EXPECT_TRUE(Succeeded(InChild([&] {
    signal(SIGSEGV, SIG_DFL);  // a sanitizer sets its own
    if (!Start(folder).ok()) return 1;
    WatchFatalSignals(nullptr);
    Call(Described("f"));
    const int status = InStrayFork([] { Call(Described("f")); });
    Recorder::Get()->Finish({});
    return status;
  })));
  EXPECT_EQ(ReadRecorded(folder).metadata["end"]["not_seen"],
            Json({"the calls of 1 forked process: no log could be created there"}));
}

TEST(RecorderTest, LogIsCutUnderTheProgram) {
  const std::string folder = NewFolder();
  EXPECT_TRUE(Succeeded(InChild([&] {
    WatchBusErrors();
    if (!Start(folder).ok()) return 1;
    Call(Described("f"));
    for (const auto& log : fs::directory_iterator(folder)) fs::resize_file(log.path(), 0);
    for (int i = 0; i < 10; ++i) Call(Described(absl::StrCat("g", i)));
    if (Recorder::Recording()) return 2;
    if (Recorder::Get()->stop_reason() != "the log was cut by another program, or its disk is gone") return 3;
    Recorder::Get()->Finish({});
    for (const auto& log : fs::directory_iterator(folder)) {
      if (log.file_size() != 0) return 4;
    }
    UnwatchBusErrors();
    return 0;
  })));
}

// A page of the program's own truncated file: an access raises SIGBUS.
volatile char* CutPage() {
  FILE* const file = tmpfile();
  if (ftruncate(fileno(file), 4096) != 0) _exit(50);
  void* const page = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fileno(file), 0);
  if (ftruncate(fileno(file), 0) != 0) _exit(51);
  return static_cast<volatile char*>(page);
}

TEST(RecorderTest, BusErrorsOfTheProgramAreItsOwn) {
  const int killed = InChild([] {
    signal(SIGBUS, SIG_DFL);  // a sanitizer would turn it into an exit
    WatchBusErrors();
    *CutPage() = 1;
    return 0;
  });
  EXPECT_TRUE(WIFSIGNALED(killed) && WTERMSIG(killed) == SIGBUS);

  const int sent = InChild([] {
    signal(SIGBUS, SIG_DFL);
    WatchBusErrors();
    kill(getpid(), SIGBUS);
    return 0;
  });
  EXPECT_TRUE(WIFSIGNALED(sent) && WTERMSIG(sent) == SIGBUS);

  const int handled = InChild([] {
    signal(SIGBUS, [](int) { _exit(42); });
    WatchBusErrors();
    *CutPage() = 1;
    return 0;
  });
  EXPECT_TRUE(WIFEXITED(handled) && WEXITSTATUS(handled) == 42);

  const int with_information = InChild([] {
    static volatile char* const page = CutPage();
    struct sigaction action = {};
    action.sa_flags = SA_SIGINFO | SA_RESETHAND;
    action.sa_sigaction = [](int, siginfo_t* info, void*) {
      struct sigaction now;
      sigaction(SIGBUS, nullptr, &now);
      _exit(info->si_addr == page && now.sa_handler == SIG_DFL ? 43 : 44);
    };
    sigaction(SIGBUS, &action, nullptr);
    WatchBusErrors();
    *page = 1;
    return 0;
  });
  EXPECT_TRUE(WIFEXITED(with_information) && WEXITSTATUS(with_information) == 43);

  const int ignored = InChild([] {
    signal(SIGBUS, SIG_IGN);
    WatchBusErrors();
    kill(getpid(), SIGBUS);
    UnwatchBusErrors();
    struct sigaction now;
    sigaction(SIGBUS, nullptr, &now);
    return now.sa_handler == SIG_IGN ? 0 : 1;
  });
  EXPECT_TRUE(Succeeded(ignored));
}

// The program's handler calls the previous one, ours.
TEST(RecorderTest, BusErrorHandlersThatCallEachOther) {
  const int status = InChild([] {
    signal(SIGBUS, SIG_DFL);
    static struct sigaction found = {};
    WatchBusErrors();
    sigaction(SIGBUS, nullptr, &found);
    struct sigaction action = {};
    action.sa_flags = SA_SIGINFO;
    action.sa_sigaction = [](int signal, siginfo_t* info, void* context) {
      static int calls = 0;
      if (++calls > 3) _exit(45);
      found.sa_sigaction(signal, info, context);
    };
    UnwatchBusErrors();
    WatchBusErrors();
    sigaction(SIGBUS, &action, nullptr);
    UnwatchBusErrors();
    WatchBusErrors();
    *CutPage() = 1;
    return 0;
  });
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGBUS) << status;
}

TEST(RecorderTest, ThousandsOfSessions) {
  // A disk is slow at allocating and freeing blocks.
  const std::string folder = fs::exists("/dev/shm") ? NewFolder("/dev/shm") : NewFolder();
  RecorderOptions options;
  options.recording.include = {std::string(10'000, 'x'), "*"};
  options.metadata_json = absl::StrCat(R"({"padding":")", std::string(10'000, 'x'), R"("})");
  Held before;
  for (int i = 0; i < 3000; ++i) {
    if (i == 500) before = HeldNow();
    ASSERT_TRUE(Start(folder, options).ok());
    Call(Described("f"));
    if (i % 100 == 0) std::thread([] { Call(Described("in a thread")); }).join();
    EndSession();
    for (const auto& log : fs::directory_iterator(folder)) fs::remove(log.path());
  }
  const Held after = HeldNow();
  EXPECT_LT(after.mappings, before.mappings + 100);
  EXPECT_EQ(after.descriptors, before.descriptors);
  EXPECT_LT(after.objects, before.objects + 100);
  fs::remove_all(folder);
}

TEST(RecorderTest, OneThreadsFullTableIsNotTheOthersAffair) {
  const std::string folder = NewFolder();
  RecorderOptions options;
  options.max_intern_bytes = 1 << 20;
  ASSERT_TRUE(Start(folder, options).ok());
  std::thread large([&] {
    for (int i = 0; i < 7000; ++i) Call(Described(absl::StrCat("a function with a name of some length, ", i)));
    std::thread small([] {
      for (int i = 0; i < 1000; ++i) Call(Described(absl::StrCat("f", i % 2)));
    });
    small.join();
    // This thread's own table is bounded.
    for (int i = 0; i < 20'000; ++i) Call(Described(absl::StrCat("another function with a long name, ", i)));
  });
  large.join();
  EndSession();
  const Recorded recorded = ReadRecorded(folder);
  EXPECT_EQ(recorded.calls, 28'000u);
  const uint64_t resets = recorded.metadata["end"]["intern_resets"];
  EXPECT_GE(resets, 1u);
  EXPECT_LE(resets, 10u);
}

TEST(RecorderTest, LastWordsOfManyThreadsOnAFullDisk) {
  const std::string folder = NewFolder();
  ASSERT_TRUE(Start(folder).ok());
  constexpr int kThreads = 1500;
  for (int i = 0; i < kThreads; ++i) std::thread([] { Call(Described("f")); }).join();
  Recorder::Get()->NoteNotSeen("something");
  rlimit limit;
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &limit), 0);
  const rlimit none = {1, limit.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &none), 0);
  Recorder::Get()->Finish({.exit_code = 3});
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
  const Recorded recorded = ReadRecorded(folder);
  EXPECT_EQ(recorded.calls, static_cast<uint64_t>(kThreads));
  const Json& end = recorded.metadata["end"];
  EXPECT_EQ(end["exit_code"], 3);
  EXPECT_EQ(end["not_seen"], Json::array({"something"}));
  EXPECT_FALSE(end.contains("threads"));
  EXPECT_THAT(recorded.damage, IsEmpty());
}

TEST(RecorderTest, SoManyThreadsThatNoneIsListedAtTheEnd) {
  const std::string folder = NewFolder();
  RecorderOptions options;
  options.recording.device_times = true;
  ASSERT_TRUE(Start(folder, options).ok());
  constexpr int kThreads = 10'050;
  int64_t before = 0;
  for (int i = 0; i < kThreads; ++i) {
    if (i == kThreads - 40) before = g_allocated;
    std::thread([i] {
      Call(Described("f"));
      if (i % 100 == 0) Recorder::Get()->ThisThread()->CountGetter();
    }).join();
  }
  EXPECT_EQ(g_allocated, before);
  EndSession();
  const Recorded recorded = ReadRecorded(folder);
  EXPECT_EQ(recorded.calls, static_cast<uint64_t>(kThreads));
  EXPECT_THAT(recorded.damage, IsEmpty());
  const Json& end = recorded.metadata["end"];
  EXPECT_FALSE(end.contains("threads"));
  EXPECT_EQ(end["getters"], 101);
}

TEST(RecorderTest, ASignalSaysWhyRecordingStoppedBefore) {
  const std::string folder = NewFolder();
  EXPECT_TRUE(Succeeded(InChild([&] {
    if (!Start(folder).ok()) return 1;
    Call(Described("f"));
    Recorder::Get()->Stop("it is \"over\"");
    Recorder::Get()->FinishFromSignal(SIGTERM);
    return 0;
  })));
  const Json end = ReadRecorded(folder).metadata["end"];
  EXPECT_EQ(end["signal"], SIGTERM);
  EXPECT_EQ(end["stopped"], "it is ?over?");
}

TEST(RecorderTest, WhatWasNotSeenIsToldBeforeASignal) {
  const std::string folder = NewFolder();
  EXPECT_TRUE(Succeeded(InChild([&] {
    if (!Start(folder).ok()) return 1;
    Recorder::Get()->NoteNotSeen("one");
    Recorder::Get()->NoteNotSeen("another");
    if (!Succeeded(InChild([] {
          Recorder::Get()->NoteNotSeen("of the child");
          Call(Described("f"));
          Recorder::Get()->FinishFromSignal(SIGTERM);
          return 0;
        })))
      return 2;
    Recorder::Get()->FinishFromSignal(SIGTERM);
    return 0;
  })));
  std::vector<Json> not_seen;
  const auto trace = OpenLogs(folder).value();
  ASSERT_TRUE(trace->Count().ok());
  for (const ProcessInfo& process : trace->processes()) not_seen.push_back((*process.metadata)["not_seen"]);
  EXPECT_THAT(not_seen, testing::UnorderedElementsAre(Json({"another", "one"}), Json::array({"of the child"})));
}

TEST(RecorderTest, APauseIsTold) {
  for (const bool at_first : {false, true}) {
    for (const bool later : {false, true}) {
      const std::string folder = NewFolder();
      RecorderOptions options;
      options.recording.start_paused = at_first;
      ASSERT_TRUE(Start(folder, options).ok());
      Recorder::Get()->SetPaused(later);
      Recorder::Get()->SetPaused(false);
      EndSession();
      EXPECT_EQ(ReadRecorded(folder).metadata.contains("paused"), at_first || later);
    }
  }
}

TEST(RecorderTest, TheClockIsToldAgain) {
  const std::string folder = NewFolder();
  ASSERT_TRUE(Start(folder).ok());
  const uint64_t begin = MonotonicNs();
  CallLarge();
  while (MonotonicNs() < begin + 12'000'000) {
  }
  CallLarge();
  const std::string log = fs::directory_iterator(folder)->path();
  // As if the process was killed: the log has no end yet.
  Json metadata = ReadRecorded(folder).metadata;
  EndSession();
  const Json& again = metadata["clock_again"];
  const Json& clock = metadata["clock"];
  ASSERT_TRUE(again.is_object()) << metadata;
  const uint64_t ns = again["monotonic_ns"].get<uint64_t>() - clock["origin_monotonic_ns"].get<uint64_t>();
  const uint64_t units = again["units"].get<uint64_t>() - clock["origin_units"].get<uint64_t>();
  EXPECT_GE(ns, 10'000'000u);
  const double slope = static_cast<double>(ns) / static_cast<double>(units);
  EXPECT_NEAR(slope / clock["unit_ns"].get<double>(), 1, 0.02);
}

// The calls of a log in order, as "api" or indented below their caller, and their tags.
struct Told {
  std::vector<std::string> calls;
  std::vector<std::string> tags;
};
std::map<uint32_t, Told> ReadTold(const std::string& folder) {
  std::map<uint32_t, Told> told;
  const auto trace = OpenLogs(folder).value();
  const absl::Status status = trace->Read([&](const CallRecord& call) {
    if (call.kind != CallRecord::kEnter) return absl::OkStatus();
    Told& own = told[call.thread];
    own.calls.push_back(std::string(2 * call.depth, ' ') +
                        std::string(ReadConfigHead(trace->identity(call.config)).api));
    own.tags.emplace_back(trace->tags(call.tags));
    return absl::OkStatus();
  });
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_THAT(trace->processes()[0].damage.sentences, IsEmpty());
  return told;
}

bool EnterCall(const std::string& api) {
  const std::string described = Described(api);
  ThreadRecorder* const thread = Recorder::Get()->ThisThread();
  return thread != nullptr && thread->Enter(described, static_cast<uint32_t>(described.size() - 1));
}
void LeaveCall() { Recorder::Get()->ThisThread()->Leave(); }

// Pauses and tags change the epoch, in calls and between them.
TEST(RecorderTest, PausesAndTagsWithinCalls) {
  const std::string folder = NewFolder();
  ASSERT_TRUE(Start(folder).ok());
  Recorder* const recorder = Recorder::Get();
  EXPECT_TRUE(EnterCall("a"));
  recorder->SetTags(R"({"step":1})");
  EXPECT_TRUE(EnterCall("b"));
  recorder->SetPaused(true);
  EXPECT_FALSE(Recorder::Recording());
  EXPECT_TRUE(Recorder::SessionIsOn());
  EXPECT_FALSE(EnterCall("not recorded"));
  recorder->ThisThread()->CountGetter();
  LeaveCall();  // ends b, which was recorded
  recorder->SetPaused(false);
  recorder->SetPaused(false);
  EXPECT_TRUE(EnterCall("c"));
  recorder->SetTags("{}");
  LeaveCall();
  EXPECT_TRUE(EnterCall("d"));
  LeaveCall();
  LeaveCall();
  recorder->SetTags(R"({"step":2})");
  recorder->SetTags(R"({"step":3})");
  EXPECT_TRUE(EnterCall("e"));
  LeaveCall();
  EndSession();
  const Told told = ReadTold(folder)[0];
  EXPECT_THAT(told.calls, testing::ElementsAre("a", "  b", "  c", "  d", "e"));
  EXPECT_THAT(told.tags, testing::ElementsAre("", R"({"step":1})", R"({"step":1})", "", R"({"step":3})"));
  EXPECT_EQ(ReadRecorded(folder).metadata["end"]["getters"], 0);
}

// The texts of the records of tags, in order.
std::vector<std::string> AllTagsIn(const std::string& folder) {
  std::vector<std::string> texts;
  const absl::StatusOr<std::unique_ptr<Trace>> trace = OpenLogs(folder);
  EXPECT_TRUE(trace.ok()) << trace.status();
  const absl::Status read = (*trace)->Read([&](const CallRecord& call) {
    if (call.kind == CallRecord::kEnter)
      texts.push_back(WithStepMarks((*trace)->tags(call.tags), (*trace)->steps(call.tags)));
    return absl::OkStatus();
  });
  EXPECT_TRUE(read.ok()) << read;
  return texts;
}

TEST(RecorderTest, StepsAreInTheTags) {
  const std::string folder = NewFolder();
  ASSERT_TRUE(Start(folder).ok());
  Recorder* const recorder = Recorder::Get();
  const auto call = [] {
    EXPECT_TRUE(EnterCall("a"));
    LeaveCall();
  };
  call();
  StepMarks marks;
  marks.at(StepKind::kForward) = {1, 10};
  marks.at(StepKind::kStep) = {1, 11};
  recorder->SetSteps(marks, false);
  recorder->SetTags(R"({"x":1})");
  call();
  marks.at(StepKind::kStep) = {2, 20};
  recorder->SetSteps(marks, true);
  call();
  recorder->SetTags("{}");
  call();
  EndSession();
  EXPECT_THAT(AllTagsIn(folder),
              testing::ElementsAre("", R"({"x":1,"@forward":1,"@forward_ns":10,"@step":1,"@step_ns":11})",
                                   R"({"x":1,"@step":2,"@step_ns":20})", R"({"@step":2,"@step_ns":20})"));
  const nlohmann::json metadata = ReadRecorded(folder).metadata;
  EXPECT_EQ(metadata["steps_by"], "step");
  EXPECT_EQ(metadata["end"]["steps"]["@step"], 2);
}

uint64_t BytesOfLogs(const std::string& folder) {
  uint64_t bytes = 0;
  for (const auto& file : fs::directory_iterator(folder)) {
    if (file.path().extension() == ".ttlog") bytes += file.file_size();
  }
  return bytes;
}

// The log grows little by ends of steps that more recorded ones follow.
TEST(RecorderTest, EndsOfManyTaggedSteps) {
  const std::string folder = NewFolder();
  RecorderOptions options;
  options.recording.steps = "1-";
  ASSERT_TRUE(Start(folder, options).ok());
  constexpr size_t kSteps = 300;
  for (size_t i = 1; i <= kSteps; ++i) {
    Recorder::Get()->SetTags(absl::StrCat(R"({"step":)", i, "}"));
    Call(Described("f"));
    Recorder::Get()->SetTags("");
  }
  const uint64_t bytes = BytesOfLogs(folder);
  EndSession();
  EXPECT_LT(bytes, kSteps << 10);
  EXPECT_EQ(ReadRecorded(folder).metadata["step_ends"]["tag"].size(), kSteps);
}

TEST(RecorderTest, OnlyChosenStepsAreRecorded) {
  const std::string folder = NewFolder();
  RecorderOptions options;
  options.recording.steps = "2,4";
  options.recording.memory = true;
  ASSERT_TRUE(Start(folder, options).ok());
  Recorder* const recorder = Recorder::Get();
  // Of a thread that has no call yet: what is alive is known only if all is.
  recorder->ThisThread()->Memory({.address = 1, .bytes = 10});
  Recorder::SetEnterOpenCalls([] {
    const std::string config = Described("main");
    EXPECT_TRUE(Recorder::Get()->ThisThread()->EnterOpenCall(config, static_cast<uint32_t>(config.size() - 1)));
  });
  StepMarks marks;
  const auto move = [&](uint64_t number) {
    marks.at(StepKind::kStep) = {number, static_cast<int64_t>(10 * number)};
    recorder->SetSteps(marks, number > 1);
  };
  for (uint64_t number = 1; number <= 5; ++number) {
    move(number);
    EXPECT_EQ(EnterCall(std::to_string(number)), number % 2 == 0);
    if (number == 2) {
      EXPECT_TRUE(EnterCall("across"));
    }
    if (number % 2 == 0) LeaveCall();
  }
  LeaveCall();
  Recorder::SetEnterOpenCalls(nullptr);
  EndSession();
  EXPECT_THAT(ReadTold(folder)[0].calls, testing::ElementsAre("main", "  2", "    across", "    4"));
  EXPECT_THAT(AllTagsIn(folder), testing::ElementsAre(R"({"@step":2,"@step_ns":20})", R"({"@step":2,"@step_ns":20})",
                                                      R"({"@step":2,"@step_ns":20})", R"({"@step":4,"@step_ns":40})"));
  const nlohmann::json metadata = ReadRecorded(folder).metadata;
  EXPECT_EQ(metadata["step_ends"]["step"], (nlohmann::json{{"2", 30}, {"4", 50}}));
  EXPECT_EQ(metadata["end"]["not_seen"], nlohmann::json::array());
  const auto trace = OpenLogs(folder).value();
  const MemoryShown shown(trace.get());
  uint64_t bytes = 0;
  ASSERT_TRUE(trace
                  ->Read([&](const CallRecord& record) {
                    bytes += record.kind == CallRecord::kMemory ? record.memory.bytes : 0;
                    return absl::OkStatus();
                  })
                  .ok());
  EXPECT_EQ(bytes, 10u);
}

TEST(RecorderTest, StepsThatNeverCameAreReported) {
  const std::string folder = NewFolder();
  RecorderOptions options;
  options.recording.steps = "7-";
  ASSERT_TRUE(Start(folder, options).ok());
  StepMarks marks;
  marks.at(StepKind::kForward) = {3, 30};
  Recorder::Get()->SetSteps(marks, false);
  EXPECT_FALSE(EnterCall("a"));
  EndSession();
  EXPECT_EQ(ReadRecorded(folder).metadata["end"]["steps_not_seen"], "steps 7-: the program ended in step 3");
}

// A loop of small models without an optimizer has a step for each call.
TEST(RecorderTest, StepsAreSmall) {
  const std::string folder = NewFolder();
  ASSERT_TRUE(Start(folder).ok());
  constexpr uint64_t kSteps = 1000;
  StepMarks marks;
  for (uint64_t number = 1; number <= kSteps; ++number) {
    marks.at(StepKind::kForward) = {number, static_cast<int64_t>(1'000'000'000 + 10'000 * number)};
    Recorder::Get()->SetSteps(marks, false);
    EXPECT_TRUE(EnterCall("a"));
    LeaveCall();
  }
  EndSession();
  const auto trace = OpenLogs(folder).value();
  ASSERT_TRUE(trace->Count().ok());
  EXPECT_LT(trace->processes()[0].event_bytes, 20 * kSteps);
  EXPECT_EQ(AllTagsIn(folder).back(), R"({"@forward":1000,"@forward_ns":1010000000})");
}

TEST(RecorderTest, TheProgramsTagHasSteps) {
  const std::string folder = NewFolder();
  ASSERT_TRUE(Start(folder).ok());
  Recorder* const recorder = Recorder::Get();
  StepMarks marks;
  marks.at(StepKind::kStep) = {5, 50};
  recorder->SetSteps(marks, true);
  for (const char* const tags : {R"({"step":7})", R"({"step":7,"x":1})", R"({"step":8})", "{}"}) {
    recorder->SetTags(tags);
    EXPECT_TRUE(EnterCall("a"));
    LeaveCall();
  }
  EndSession();
  const std::vector<std::string> tags = AllTagsIn(folder);
  ASSERT_EQ(tags.size(), 4u);
  std::vector<StepMark> found;
  std::string own;
  for (const std::string& text : tags) {
    const StepMarks all = TakeStepMarks(text, &own);
    EXPECT_EQ(all.at(StepKind::kStep), StepMark()) << text;
    found.push_back(all.at(StepKind::kTag));
  }
  EXPECT_EQ(found[0].number, 1u);
  EXPECT_EQ(found[1], found[0]);
  EXPECT_EQ(found[2].number, 2u);
  EXPECT_GE(found[2].begin_ns, found[1].begin_ns);
  // No step is under way: the last one ended.
  EXPECT_EQ(found[3].number, 2u);
  EXPECT_GE(found[3].begin_ns, found[2].begin_ns);
  EXPECT_EQ(ReadRecorded(folder).metadata["steps_by"], "tag");
}

TEST(RecorderTest, EndsOfCallsOfSessionsBefore) {
  ASSERT_TRUE(Start(NewFolder()).ok());
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(EnterCall("open"));
  EndSession();
  LeaveCall();  // one of the five, without a session
  const std::string folder = NewFolder();
  ASSERT_TRUE(Start(folder).ok());
  LeaveCall();
  EXPECT_TRUE(EnterCall("a"));
  EXPECT_TRUE(EnterCall("b"));
  LeaveCall();
  LeaveCall();
  for (int i = 0; i < 3; ++i) LeaveCall();
  // One too many, as in a child that was forked in a call: ignored.
  LeaveCall();
  EXPECT_TRUE(EnterCall("c"));
  LeaveCall();
  EndSession();
  EXPECT_THAT(ReadTold(folder)[0].calls, testing::ElementsAre("a", "  b", "c"));
}

ThreadRecorder* This() { return Recorder::Get()->ThisThread(); }

TEST(RecorderTest, CallsFromBeforeAreTheOutermost) {
  ASSERT_TRUE(Start(NewFolder()).ok());
  EXPECT_TRUE(EnterCall("stale"));
  EndSession();
  const std::string folder = NewFolder();
  ASSERT_TRUE(Start(folder).ok());
  Recorder::SetEnterOpenCalls([] {
    for (const char* const name : {"main", "step"}) {
      const std::string config = Described(name);
      EXPECT_TRUE(This()->EnterOpenCall(config, static_cast<uint32_t>(config.size() - 1)));
    }
  });
  EXPECT_TRUE(EnterCall("a"));
  // Ignored while calls in it are open.
  This()->LeaveOpenCall();
  LeaveCall();
  // The end of an earlier session's call, which ends none of these.
  LeaveCall();
  EXPECT_TRUE(EnterCall("b"));
  LeaveCall();
  This()->LeaveOpenCall();
  EXPECT_TRUE(EnterCall("c"));
  LeaveCall();
  // Each session enters them again.
  EndSession();
  const std::string next = NewFolder();
  ASSERT_TRUE(Start(next).ok());
  EXPECT_TRUE(EnterCall("d"));
  LeaveCall();
  Recorder::SetEnterOpenCalls(nullptr);
  EndSession();
  EXPECT_THAT(ReadTold(folder)[0].calls, testing::ElementsAre("main", "  step", "    a", "    b", "  c"));
  EXPECT_THAT(ReadTold(next)[0].calls, testing::ElementsAre("main", "  step", "    d"));
}

TEST(RecorderTest, IncludesAndExcludes) {
  const std::string folder = NewFolder();
  RecorderOptions options;
  options.recording.include = {"torch.*", "mine"};
  options.recording.exclude = {"torch.nn.*"};
  ASSERT_TRUE(Start(folder, options).ok());
  for (int round = 0; round < 2; ++round) {
    EXPECT_TRUE(EnterCall("torch.add"));
    EXPECT_FALSE(EnterCall("torch.nn.relu"));
    EXPECT_FALSE(EnterCall("numpy.add"));
    EXPECT_TRUE(EnterCall("mine"));
    LeaveCall();
    LeaveCall();
  }
  EndSession();
  EXPECT_THAT(ReadTold(folder)[0].calls, testing::ElementsAre("torch.add", "  mine", "torch.add", "  mine"));
  // The next session has its own filter, although the table knew these.
  const std::string next = NewFolder();
  ASSERT_TRUE(Start(next).ok());
  EXPECT_TRUE(EnterCall("torch.nn.relu"));
  LeaveCall();
  EndSession();
  EXPECT_THAT(ReadTold(next)[0].calls, testing::ElementsAre("torch.nn.relu"));
}

// The next thread continues a frame that a thread leaves half full.
TEST(RecorderTest, EndedThreadsLeaveTheirFrames) {
  const std::string folder = NewFolder();
  ASSERT_TRUE(Start(folder).ok());
  constexpr uint32_t kThreads = 300;
  for (uint32_t t = 0; t < kThreads; ++t) {
    std::thread([t] {
      for (uint32_t i = 0; i <= t % 5; ++i) Call(Described(absl::StrCat("f", i)));
      EnterCall("open");
    }).join();
  }
  EndSession();
  const uint64_t bytes = fs::file_size(fs::directory_iterator(folder)->path());
  EXPECT_LT(bytes, 1u << 20);  // not one frame per thread
  const std::map<uint32_t, Told> told = ReadTold(folder);
  ASSERT_EQ(told.size(), kThreads);
  for (const auto& [thread, own] : told) {
    ASSERT_EQ(own.calls.size(), thread % 5 + 2) << thread;
    EXPECT_EQ(own.calls.front(), "f0");
    EXPECT_EQ(own.calls.back(), "open");
  }
  const Json end = ReadRecorded(folder).metadata["end"];
  ASSERT_EQ(end["threads"].size(), kThreads);
  EXPECT_EQ(end["threads"][7]["calls"], 7 % 5 + 2);
}

TEST(RecorderTest, FullFramesOfEndedThreadsAreClosed) {
  const std::string folder = NewFolder();
  ASSERT_TRUE(Start(folder).ok());
  for (uint32_t t = 0; t < 1000; ++t) {
    std::thread([t] {
      for (uint32_t i = 0; i < 100; ++i) Call(Described(absl::StrCat("f", 100 * t + i)));
    }).join();
  }
  uint64_t mappings = 0;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) mappings += absl::StrContains(line, folder) ? 1 : 0;
  EXPECT_LT(mappings, 10u);
  EndSession();
  EXPECT_GT(fs::file_size(fs::directory_iterator(folder)->path()), 20u * (64 << 10));
}

TEST(RecorderTest, FramesAreNoLargerThanTheLimit) {
  const std::string folder = NewFolder();
  RecorderOptions options;
  options.max_frame_bytes = 64 << 10;
  ASSERT_TRUE(Start(folder, options).ok());
  constexpr uint64_t kCalls = 100'000;
  for (uint64_t i = 0; i < kCalls; ++i) Call(Described(absl::StrCat("f", i % 1000)));
  // A record larger than max_frame_bytes.
  Call(Described("large" + std::string(300'000, 'x')));
  Call(Described("small"));
  EndSession();
  const Recorded recorded = ReadRecorded(folder);
  EXPECT_EQ(recorded.calls, kCalls + 2);
  EXPECT_THAT(recorded.damage, IsEmpty());
  const uint64_t before = fs::file_size(fs::directory_iterator(folder)->path());
  // Larger frames repeat fewer definitions.
  const std::string other = NewFolder();
  ASSERT_TRUE(Start(other).ok());
  for (uint64_t i = 0; i < kCalls; ++i) Call(Described(absl::StrCat("f", i % 1000)));
  EndSession();
  EXPECT_LT(fs::file_size(fs::directory_iterator(other)->path()), before);
  EXPECT_EQ(ReadRecorded(other).calls, kCalls);
}

// A program whose stack is always the same.
struct OneStack final : ThreadStack {
  RecordedPlace* Take() override {
    ++*taken;
    return &place;
  }
  explicit OneStack(std::atomic<int>* counter) : taken(counter) {
    code.file = "program.py";
    code.function = "main";
    place.code = &code;
    place.line = 7;
  }
  std::atomic<int>* const taken;
  RecordedCode code;
  RecordedPlace place;
};

TEST(RecorderTest, StacksAreTakenOfTheFirstCallsOfEachThread) {
  constexpr int kThreads = 3, kConfigs = 20, kRounds = 50;
  const std::pair<WhichCalls, uint32_t> wanted[] = {
      {WhichCalls::kNone, 0}, {WhichCalls::kFirst, kFirstStacks}, {WhichCalls::kAll, kRounds}};
  for (const auto& [stacks, of_each] : wanted) {
    std::atomic<int> taken{0};
    const std::string folder = NewFolder();
    RecorderOptions options;
    options.recording.stacks = stacks;
    options.make_stack = [&taken] { return std::make_unique<OneStack>(&taken); };
    ASSERT_TRUE(Start(folder, options).ok());
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([] {
        for (int i = 0; i < kConfigs * kRounds; ++i) Call(Described(absl::StrCat("f", i % kConfigs)));
      });
    }
    for (std::thread& thread : threads) thread.join();
    EndSession();
    EXPECT_EQ(taken, kThreads * kConfigs * static_cast<int>(of_each)) << WhichCallsName(stacks);
    const auto trace = OpenLogs(folder).value();
    int with_stack = 0;
    ASSERT_TRUE(trace
                    ->Read([&](const CallRecord& call) {
                      with_stack += call.kind == CallRecord::kEnter && call.stack != kNoStack;
                      return absl::OkStatus();
                    })
                    .ok());
    EXPECT_EQ(with_stack, taken);
  }
}

TEST(RecorderTest, AThreadWithAnotherNameIsToldAgain) {
  const std::string folder = NewFolder();
  std::string name = "first";
  RecorderOptions options;
  options.name_thread = [&name] { return name; };
  ASSERT_TRUE(Start(folder, options).ok());
  for (const char* next : {"second", "second", "", "third"}) {
    Call(Described("f"));
    name = next;
    Recorder::Get()->ThisThread()->TellName();
  }
  EndSession();
  const auto trace = OpenLogs(folder).value();
  ASSERT_TRUE(trace->Count().ok());
  const ProcessInfo& process = trace->processes().at(0);
  ASSERT_EQ(process.threads.size(), 1u);
  EXPECT_EQ(process.threads[0].name, "third");
  EXPECT_EQ(process.threads[0].calls, 4u);
  EXPECT_THAT(process.damage.sentences, IsEmpty());
}

TEST(RecorderTest, AForkedProcessIsAskedAtItsFirstCall) {
  const std::string folder = NewFolder();
  std::string said = R"({"environment":{"RANK":"1"}})";
  RecorderOptions options;
  options.metadata_json = R"({"environment":{"RANK":"0","OMP_NUM_THREADS":"2"}})";
  options.fork_metadata = [&said] { return said; };
  ASSERT_TRUE(Start(folder, options).ok());
  EXPECT_TRUE(Recorder::Get()->OwnsEnvironment());
  EXPECT_TRUE(Succeeded(InChild([&said] {
    said = R"({"environment":{"RANK":"1","X":"1"}})";
    const bool owns = Recorder::Get()->OwnsEnvironment();
    said = R"({"environment":{"RANK":"1"}})";
    Call(Described("f"));
    EndSession();
    return static_cast<int>(!owns);
  })));
  // The environment is the process's own unless it has changed since the first fork.
  EXPECT_TRUE(Recorder::Get()->OwnsEnvironment());
  said = R"({"environment":{"RANK":"2"}})";
  EXPECT_FALSE(Recorder::Get()->OwnsEnvironment());
  EndSession();
  const auto trace = OpenLogs(folder).value();
  std::map<std::string, Json> environments;
  for (const ProcessInfo& process : trace->processes())
    environments[process.known.role] = process.metadata->at("environment");
  EXPECT_EQ(environments["main"], Json::parse(R"({"RANK":"0","OMP_NUM_THREADS":"2"})"));
  EXPECT_EQ(environments["fork"], Json::parse(R"({"RANK":"1","OMP_NUM_THREADS":"2"})"));
}

// The children don't inherit what other threads hold at the fork.
TEST(RecorderTest, ForksWhileThreadsRecord) {
  const std::string folder = NewFolder();
  ASSERT_TRUE(Start(folder).ok());
  std::atomic<bool> done{false};
  std::vector<std::thread> threads;
  for (int t = 0; t < 2; ++t) {
    threads.emplace_back([&done, t] {
      for (int i = 0; !done; ++i) Call(Described(absl::StrCat("thread", t, ".", i % 500)));
    });
  }
  Call(Described("parent"));
  constexpr int kChildren = 20;
  for (int i = 0; i < kChildren; ++i) {
    EXPECT_TRUE(Succeeded(InChild([i] {
      for (int k = 0; k <= i; ++k) Call(Described("child"));
      if (i % 2 == 0) Recorder::Get()->Finish({});
      return Recorder::Get()->stop_reason().empty() ? 0 : 1;
    })));
  }
  done = true;
  for (std::thread& thread : threads) thread.join();
  EndSession();
  const auto trace = OpenLogs(folder).value();
  ASSERT_TRUE(trace->Count().ok());
  ASSERT_EQ(trace->processes().size(), 1u + kChildren);
  std::multiset<uint64_t> calls;
  for (const ProcessInfo& process : trace->processes()) {
    EXPECT_THAT(process.damage.sentences, IsEmpty());
    if ((*process.metadata)["role"] == "main") continue;
    EXPECT_EQ((*process.metadata)["forked_from"], getpid());
    EXPECT_EQ(process.threads.size(), 1u);
    calls.insert(process.calls);
  }
  for (int i = 0; i < kChildren; ++i) EXPECT_EQ(calls.count(static_cast<uint64_t>(i + 1)), 1u) << i;
}

// Calls by API, of all processes.
std::map<std::string, uint64_t> CallsByApi(Trace* trace) {
  std::map<std::string, uint64_t> calls;
  const std::vector<uint64_t> counts = trace->Count().value();
  for (VariantId variant = 0; variant < counts.size(); ++variant) {
    calls[std::string(ReadConfigHead(trace->identity(trace->config_of(variant))).api)] += counts[variant];
  }
  return calls;
}

// A call by its key, as hooks make it.
void CallByKey(const std::string& described, CallKey* key) {
  ThreadRecorder* const thread = Recorder::Get()->ThisThread();
  key->Begin(described);
  const ThreadRecorder::Again again = thread->EnterAgain(*key, nullptr);
  const bool entered = again == ThreadRecorder::Again::kUnknown
                           ? thread->Enter(described, static_cast<uint32_t>(described.size() - 1), {}, key)
                           : again == ThreadRecorder::Again::kEntered;
  if (entered) thread->Leave();
}

TEST(RecorderTest, CallsAreCountedOnceTheLogsAreLarge) {
  constexpr uint64_t kMaxSize = 400 << 10;
  constexpr int kCalls = 60'000;
  // The processes share the count of bytes if the folder is locked.
  for (const bool locked : {true, false}) {
    const std::string folder = NewFolder();
    const auto lock = locked ? FolderLock::Take(folder).value() : nullptr;
    ASSERT_TRUE(Start(folder, WithMaxSize(kMaxSize)).ok());
    const std::string outer = Described("outer");
    ASSERT_TRUE(Recorder::Get()->ThisThread()->Enter(outer, static_cast<uint32_t>(outer.size() - 1)));
    const auto work = [](const std::string& own) {
      CallKey key;
      for (int i = 0; i < kCalls; ++i) {
        Call(Described("f"));
        CallByKey(Described(absl::StrCat("key", i % 3)), &key);
      }
      Call(Described(own));
    };
    std::thread([&] { work("a thread's own"); }).join();
    work("the last");
    Recorder::Get()->ThisThread()->Leave();
    const int ended = InChild([&] {
      work("a child's");
      return Recorder::Get()->stop_reason().empty() ? 0 : 1;  // without last words
    });
    EXPECT_TRUE(Succeeded(ended));
    EndSession();

    const auto trace = OpenLogs(folder).value();
    EXPECT_THAT(CallsByApi(trace.get()), ElementsAre(Pair("a child's", 1), Pair("a thread's own", 1),
                                                     Pair("f", 3 * kCalls), Pair("key0", kCalls), Pair("key1", kCalls),
                                                     Pair("key2", kCalls), Pair("outer", 1), Pair("the last", 1)));
    ASSERT_EQ(trace->processes().size(), 2u);
    for (const ProcessInfo& process : trace->processes()) {
      EXPECT_THAT(process.damage.sentences, IsEmpty());
      EXPECT_EQ(process.damage.lost_calls, 0u);
      EXPECT_EQ(process.open_calls, 0u);
      EXPECT_GT(process.counted, 0u);
      if (process.closed) {
        EXPECT_EQ(process.metadata->at("end").at("counted"), process.counted);
      }
    }
    // A process has its own metadata, counts and ends in any case.
    const uint64_t processes = locked ? 1 : 2;
    EXPECT_GT(BytesOfLogs(folder), kMaxSize - (64 << 10));
    EXPECT_LT(BytesOfLogs(folder), processes * kMaxSize + 2 * (150 << 10));
  }
  // Another session lists calls again.
  const std::string folder = NewFolder();
  ASSERT_TRUE(Start(folder).ok());
  Call(Described("f"));
  EndSession();
  EXPECT_EQ(ReadRecorded(folder).calls, 1u);
}

// A thread knows the counts of a session that another one has ended. They aren't mapped in a forked process.
TEST(RecorderTest, ForkAfterASessionThatCounted) {
  ASSERT_TRUE(Start(NewFolder(), WithMaxSize(1)).ok());
  Call(Described("f"));
  std::thread(EndSession).join();
  EXPECT_TRUE(Succeeded(InChild([] {
    const std::string folder = NewFolder();
    if (!Start(folder).ok()) return 1;
    Call(Described("g"));
    EndSession();
    return ReadRecorded(folder).calls == 1 ? 0 : 2;
  })));
}

TEST(RecorderTest, ForksPastTheHandlersWhereCallsAreCounted) {
  const std::string folder = NewFolder();
  EXPECT_TRUE(Succeeded(InChild([&] {
    if (!Start(folder, WithMaxSize(1)).ok()) return 1;
    Call(Described("f"));
    const int status = InStrayFork([] {
      for (int i = 0; i < 2000; ++i) Call(Described(absl::StrCat("of the child", i)));
    });
    for (int i = 0; i < 2000; ++i) Call(Described(absl::StrCat("f", i)));
    Recorder::Get()->Finish({});
    return status;
  })));
  const Recorded recorded = ReadRecorded(folder);
  EXPECT_EQ(recorded.calls, 2001u);
  EXPECT_THAT(recorded.damage, IsEmpty());
  EXPECT_EQ(recorded.metadata["end"]["not_seen"],
            Json({"the calls of 1 forked process: no log could be created there"}));
}

// The forking thread has no frame that the child could not write to.
TEST(RecorderTest, ForkPastTheHandlersBeforeTheFirstCall) {
  const std::string folder = NewFolder();
  EXPECT_TRUE(Succeeded(InChild([&] {
    if (!Start(folder).ok()) return 1;
    const int status = InStrayFork([] {
      for (int i = 0; i < 2000; ++i) Call(Described(absl::StrCat("of the child", i)));
      Recorder::Get()->NoteNotSeen("of the child");
      Recorder::Get()->AddMetadata(R"({"of": "the child"})");
    });
    for (int i = 0; i < 1000; ++i) Call(Described(absl::StrCat("f", i)));
    Recorder::Get()->Finish({});
    return status;
  })));
  const Recorded recorded = ReadRecorded(folder);
  EXPECT_EQ(recorded.calls, 1000u);
  EXPECT_THAT(recorded.damage, IsEmpty());
  EXPECT_FALSE(recorded.metadata.contains("of"));
  EXPECT_EQ(recorded.metadata["end"]["not_seen"],
            Json({"the calls of 1 forked process: no log could be created there"}));
}

TEST(RecorderTest, ManyConfigsAreCounted) {
  const std::string folder = NewFolder();
  const auto lock = FolderLock::Take(folder).value();
  RecorderOptions options = WithMaxSize(1);
  options.max_intern_bytes = 100 << 10;  // tables are emptied
  ASSERT_TRUE(Start(folder, options).ok());
  constexpr int kConfigs = 3000, kRounds = 4;
  for (int round = 0; round < kRounds; ++round) {
    for (int i = 0; i < kConfigs; ++i) Call(Described(absl::StrCat("f", i)));
  }
  const uint64_t bytes = BytesOfLogs(folder);
  for (int i = 0; i < kConfigs; ++i) Call(Described(absl::StrCat("f", i)));
  EXPECT_EQ(BytesOfLogs(folder), bytes);
  EndSession();
  const auto trace = OpenLogs(folder).value();
  const std::map<std::string, uint64_t> calls = CallsByApi(trace.get());
  EXPECT_EQ(calls.size(), static_cast<size_t>(kConfigs));
  for (const auto& [api, count] : calls) EXPECT_EQ(count, static_cast<uint64_t>(kRounds + 1)) << api;
  EXPECT_EQ(trace->processes()[0].counted, static_cast<uint64_t>(kConfigs * (kRounds + 1)));
  EXPECT_GT(trace->processes()[0].metadata->at("end").at("intern_resets"), 0);
}

TEST(RecorderTest, WindowsAndScopesWhereCallsAreCounted) {
  const std::string folder = NewFolder();
  const auto lock = FolderLock::Take(folder).value();
  RecorderOptions options = WithMaxSize(1);
  options.recording.first = 2;
  ASSERT_TRUE(Start(folder, options).ok());
  ThreadRecorder* const thread = Recorder::Get()->ThisThread();
  const std::string described = Described("scope");
  const RecordFacts facts;
  const std::shared_ptr<Scope> scope =
      thread->OpenScope(described, static_cast<uint32_t>(described.size() - 1), {&facts, {}});
  for (int i = 0; i < 5; ++i) Call(Described("f"));
  ThreadRecorder::CloseScope(thread, scope.get(), false);
  Call(Described("g"));
  EndSession();
  const auto trace = OpenLogs(folder).value();
  EXPECT_THAT(CallsByApi(trace.get()), ElementsAre(Pair("f", 2), Pair("g", 1), Pair("scope", 1)));
  EXPECT_EQ(trace->processes()[0].metadata->at("end").at("left_out"), 3);
}

// Finds data races between threads, with tools/test --tsan.
TEST(RecorderTest, ThreadsRecordWhileSessionsComeAndGo) {
  const std::string folder = NewFolder();
  std::atomic<bool> done{false};
  ASSERT_TRUE(Start(folder).ok());
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&done, t] {
      for (int i = 0; !done; ++i) {
        Call(Described(absl::StrCat("f", t, ".", i % 300)));
        Recorder::Get()->ThisThread();
        if (i % 50 == 0) std::thread([] { Call(Described("short")); }).join();
      }
    });
  }
  for (int i = 0; i < 30; ++i) {
    Recorder::Get()->SetTags(absl::StrCat(R"({"step":)", i, "}"));
    Recorder::Get()->SetPaused(i % 3 == 0);
    if (i % 7 == 0) Recorder::Get()->Stop("for a trial");
    EndSession();
    ASSERT_TRUE(Start(folder, WithMaxSize(i % 2)).ok());
  }
  done = true;
  for (std::thread& thread : threads) thread.join();
  EndSession();
}

}  // namespace
}  // namespace torchtrace
