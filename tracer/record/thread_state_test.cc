// The scratch and recorder of each thread: sessions and pauses begin and end, threads end, processes fork, descriptions
// fail, and many threads record at the same time (for tools/test --tsan).

#include "tracer/record/thread_state.h"

#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "serialize/forms/forms.h"
#include "serialize/log/log_trace.h"
#include "serialize/model/config.h"
#include "serialize/model/tensor_notes.h"
#include "serialize/trace/trace.h"

namespace torchtrace {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;

std::string NewFolder() {
  std::string pattern = ::testing::TempDir() + "/thread_state_XXXXXX";
  return mkdtemp(pattern.data());
}

std::string Start() {
  RecorderOptions options;
  options.log_folder = NewFolder();
  options.recording.quiet = true;
  std::string folder = options.log_folder;
  EXPECT_TRUE(Recorder::Start(std::move(options)).ok());
  return folder;
}
void EndSession() { Recorder::Get()->Finish({.program_goes_on = true}); }

// The calls in the log, by thread and in order, as "api", indented below their caller, with what they raised.
using Calls = std::map<std::pair<uint32_t, uint32_t>, std::vector<std::string>>;
Calls ReadCalls(const std::string& folder) {
  Calls calls;
  const auto trace = OpenLogs(folder).value();
  std::map<uint64_t, std::pair<ConfigId, VariantId>> configs;
  const absl::Status status = trace->Read([&](const CallRecord& call) {
    std::vector<std::string>& own = calls[{call.process, call.thread}];
    const absl::StatusOr<Config> config = ParseConfig(trace->identity(call.config));
    EXPECT_TRUE(config.ok()) << config.status();
    if (call.kind == CallRecord::kEnter) {
      own.push_back(std::string(2 * call.depth, ' ') + config->api);
    } else if (call.kind == CallRecord::kRaise) {
      own.push_back(config->api + " raised " + std::string(call.exception));
    }
    return absl::OkStatus();
  });
  EXPECT_TRUE(status.ok()) << status;
  for (const ProcessInfo& process : trace->processes()) EXPECT_THAT(process.damage.sentences, IsEmpty());
  return calls;
}
// The same for a trace of one thread.
std::vector<std::string> OnlyCalls(const std::string& folder) {
  const Calls calls = ReadCalls(folder);
  EXPECT_LE(calls.size(), 1u);
  return calls.empty() ? std::vector<std::string>() : calls.begin()->second;
}

bool Enter(const std::string& api, int64_t argument = 0) {
  return t_thread.Enter([&](ConfigBuilder* config) {
    config->Begin(ConfigBuilder::EncodeHead(1, api));
    config->Positional(1);
    config->values().Int(argument);
    config->Keywords(0);
  });
}
bool Call(const std::string& api, int64_t argument = 0) {
  if (!Enter(api, argument)) return false;
  t_thread.Leave();
  return true;
}

bool InChild(const std::function<bool()>& body) {
  const pid_t child = fork();
  if (child == 0) _exit(body() ? 0 : 1);
  int status = 1;
  waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

TEST(ThreadStateTest, BeforeAnySession) {
  // Only if no other test has run in this process before.
  if (Recorder::Get() != nullptr) GTEST_SKIP();
  EXPECT_FALSE(t_thread.Recording());
  EXPECT_FALSE(t_thread.Enter([](ConfigBuilder*) { ADD_FAILURE() << "nobody asked for it"; }));
  t_thread.Leave();
  t_thread.Raise("Error");
  t_thread.CountGetter();
  EXPECT_EQ(t_thread.recorder, nullptr);
}

TEST(ThreadStateTest, CallsAreRecorded) {
  const std::string folder = Start();
  EXPECT_TRUE(Enter("outer"));
  EXPECT_TRUE(Call("inner"));
  EXPECT_TRUE(Enter("failing"));
  t_thread.Raise("ValueError");
  t_thread.Leave();
  t_thread.CountGetter();
  EndSession();
  EXPECT_FALSE(t_thread.Recording());
  EXPECT_THAT(OnlyCalls(folder), ElementsAre("outer", "  inner", "  failing", "failing raised ValueError"));
  const auto trace = OpenLogs(folder).value();
  EXPECT_EQ((*trace->processes()[0].metadata)["end"]["getters"], 1);
}

TEST(ThreadStateTest, FirstNotesAreOfTheFirstCallsOfEachConfig) {
  const std::string folder = Start();
  int described = 0;
  const auto call = [&described](int64_t argument, bool offers) {
    EXPECT_TRUE(t_thread.Enter([&](ConfigBuilder* config) {
      ++described;
      config->Begin(ConfigBuilder::EncodeHead(1, "f"));
      config->Positional(1);
      config->values().Int(argument);
      config->Keywords(0);
      if (offers) config->OfferFirstNotes();
      if (config->takes_first_notes()) config->Note({.range = TensorNote::Range{argument, described}});
    }));
    t_thread.Leave();
  };
  constexpr int kCalls = 10'000;
  for (int i = 0; i < kCalls; ++i) {
    call(1, true);
    call(2, false);
    call(3 + i % 2, true);
  }
  EXPECT_EQ(described, 3 * kCalls + 3 * static_cast<int>(kFirstNotes));
  EndSession();
  const auto trace = OpenLogs(folder).value();
  std::map<int64_t, int> notes;
  int entered = 0;
  const absl::Status status = trace->Read([&](const CallRecord& record) {
    if (record.kind != CallRecord::kEnter) return absl::OkStatus();
    ++entered;
    for (const TensorNote& note : ReadTensorNotes(record.notes)) ++notes[note.range->least];
    return absl::OkStatus();
  });
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(entered, 3 * kCalls);
  const int first = static_cast<int>(kFirstNotes);
  EXPECT_THAT(notes, UnorderedElementsAre(Pair(1, first), Pair(3, first), Pair(4, first)));
}

// Describes calls of `head` with an integer, by a key too.
class KeyedCall {
 public:
  explicit KeyedCall(const std::string& api) : head_(ConfigBuilder::EncodeHead(1, api)) {}

  bool Make(int64_t argument) {
    const bool recorded = t_thread.Enter([&](auto* call) {
      if constexpr (std::is_same_v<decltype(call), ConfigBuilder*>) {
        ++described;
      }
      call->Begin(head_);
      call->Positional(1);
      if constexpr (std::is_same_v<decltype(call), ConfigBuilder*>) {
        if (fails) throw std::runtime_error("no sizes");
      }
      call->values().Int(argument);
      call->Keywords(0);
      if constexpr (std::is_same_v<decltype(call), ConfigBuilder*>) {
        if (offers_notes) call->OfferFirstNotes();
        if (call->takes_first_notes()) call->Note({.range = TensorNote::Range{argument, argument}});
      }
    });
    if (recorded) t_thread.Leave();
    return recorded;
  }

  int described = 0;
  bool fails = false;
  bool offers_notes = false;

 private:
  const std::string head_;
};

TEST(ThreadStateTest, CallsOfKnownKeysAreNotDescribed) {
  RecorderOptions options;
  options.log_folder = NewFolder();
  options.recording.quiet = true;
  options.recording.exclude = {"hidden"};
  options.max_frame_bytes = 64 << 10;
  const std::string folder = options.log_folder;
  ASSERT_TRUE(Recorder::Start(std::move(options)).ok());
  KeyedCall seen("seen"), noted("noted"), hidden("hidden");
  noted.offers_notes = true;
  constexpr int64_t kCalls = 50'000;
  for (int64_t i = 0; i < kCalls; ++i) {
    EXPECT_TRUE(seen.Make(i % 10));
    EXPECT_TRUE(noted.Make(i % 2));
    EXPECT_FALSE(hidden.Make(i % 3));
  }
  // Without a key, and known already.
  EXPECT_TRUE(Call("seen", 3));
  EndSession();
  const auto trace = OpenLogs(folder).value();
  std::map<std::string, int64_t> next, notes;
  const absl::Status status = trace->Read([&](const CallRecord& call) {
    if (call.kind != CallRecord::kEnter) return absl::OkStatus();
    const Config config = ParseConfig(trace->identity(call.config)).value();
    const int64_t number = next[config.api]++;
    const int64_t wanted = number == kCalls ? 3 : number % (config.api == "seen" ? 10 : 2);
    EXPECT_EQ(FormatValue(config.args[0]), std::to_string(wanted));
    notes[config.api] += static_cast<int64_t>(ReadTensorNotes(call.notes).size());
    return absl::OkStatus();
  });
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_THAT(next, UnorderedElementsAre(Pair("seen", kCalls + 1), Pair("noted", kCalls)));
  EXPECT_THAT(notes, UnorderedElementsAre(Pair("seen", 0), Pair("noted", int64_t{2} * kFirstNotes)));
  EXPECT_EQ(hidden.described, 3);
  // In each frame again.
  EXPECT_GE(seen.described, 20);
  EXPECT_LE(seen.described, 300);

  Start();
  seen.described = 0;
  EXPECT_TRUE(seen.Make(1));
  EXPECT_TRUE(seen.Make(1));
  EXPECT_TRUE(hidden.Make(1));
  EXPECT_EQ(seen.described, 1);
  EXPECT_TRUE(InChild([&] { return seen.Make(1) && seen.Make(1) && seen.described == 2; }));
  EndSession();
}

TEST(ThreadStateTest, AFailedDescriptionIsNotThatOfItsKey) {
  const std::string folder = Start();
  KeyedCall call("f");
  call.fails = true;
  EXPECT_TRUE(call.Make(1));
  call.fails = false;
  EXPECT_TRUE(call.Make(1));
  EXPECT_TRUE(call.Make(1));
  EXPECT_EQ(call.described, 2);
  EndSession();
  const auto trace = OpenLogs(folder).value();
  std::vector<std::string> arguments;
  const absl::Status status = trace->Read([&](const CallRecord& call) {
    if (call.kind == CallRecord::kEnter) {
      arguments.push_back(FormatValue(ParseConfig(trace->identity(call.config)).value().args[0]));
    }
    return absl::OkStatus();
  });
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_THAT(arguments, ElementsAre(R"(object("not described"))", "1", "1"));
}

TEST(ThreadStateTest, KeysCountInTheBudgetOfMemory) {
  RecorderOptions options;
  options.log_folder = NewFolder();
  options.recording.quiet = true;
  options.max_intern_bytes = 1 << 20;
  const std::string folder = options.log_folder;
  ASSERT_TRUE(Recorder::Start(std::move(options)).ok());
  KeyedCall call("f");
  constexpr int64_t kCalls = 30'000;
  for (int64_t i = 0; i < kCalls; ++i) ASSERT_TRUE(call.Make(i) && call.Make(i));
  EndSession();
  const auto trace = OpenLogs(folder).value();
  EXPECT_EQ(ReadCalls(folder).begin()->second.size(), size_t{2} * kCalls);
  EXPECT_GT((*trace->processes()[0].metadata)["end"]["intern_resets"], 1);
}

TEST(ThreadStateTest, NothingIsDescribedWhilePausedOrSuspended) {
  const std::string folder = Start();
  EXPECT_TRUE(Call("first"));
  Recorder::Get()->SetPaused(true);
  EXPECT_FALSE(t_thread.Enter([](ConfigBuilder*) { ADD_FAILURE(); }));
  Recorder::Get()->SetPaused(false);
  EXPECT_TRUE(Call("second"));
  ++t_thread.suspended;
  ++t_thread.suspended;
  EXPECT_FALSE(t_thread.Enter([](ConfigBuilder*) { ADD_FAILURE(); }));
  t_thread.CountGetter();
  --t_thread.suspended;
  EXPECT_FALSE(t_thread.Recording());
  // Another thread is not suspended.
  std::thread([] { EXPECT_TRUE(Call("other")); }).join();
  --t_thread.suspended;
  // The end of a call is recorded even if the thread was suspended in it.
  EXPECT_TRUE(Enter("third"));
  ++t_thread.suspended;
  t_thread.Leave();
  --t_thread.suspended;
  EXPECT_TRUE(Call("fourth"));
  EndSession();
  const Calls calls = ReadCalls(folder);
  ASSERT_EQ(calls.size(), 2u);
  EXPECT_THAT(calls.at({0, 0}), ElementsAre("first", "second", "third", "fourth"));
  EXPECT_THAT(calls.at({0, 1}), ElementsAre("other"));
}

TEST(ThreadStateTest, ACallInADescription) {
  const std::string folder = Start();
  EXPECT_TRUE(t_thread.Enter([](ConfigBuilder* config) {
    config->Begin(ConfigBuilder::EncodeHead(1, "outer"));
    config->Positional(1);
    EXPECT_FALSE(Call("inner"));
    config->values().Int(3);
    config->Keywords(0);
  }));
  t_thread.Leave();
  EXPECT_TRUE(Call("next"));
  EndSession();
  EXPECT_THAT(OnlyCalls(folder), ElementsAre("outer", "next"));
}

TEST(ThreadStateTest, WhatCanNotBeDescribedIsCounted) {
  RecorderOptions options;
  options.log_folder = NewFolder();
  options.recording.quiet = true;
  options.recording.outputs = true;
  const std::string folder = options.log_folder;
  ASSERT_TRUE(Recorder::Start(std::move(options)).ok());
  const auto fail = [](ConfigBuilder* config) -> void {
    config->Begin(ConfigBuilder::EncodeHead(1, "failing"));
    config->Positional(2);
    config->values().Int(1);
    throw std::runtime_error("no sizes\nframe #0");
  };
  const auto fail_at_once = [](ConfigBuilder*) -> void { throw std::runtime_error("no name"); };
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(t_thread.Enter(fail));
    t_thread.Leave(fail_at_once);
  }
  EXPECT_FALSE(t_thread.Enter(fail_at_once));
  // Everything is described except the notes.
  EXPECT_TRUE(t_thread.Enter([&](ConfigBuilder* config) {
    config->Begin(ConfigBuilder::EncodeHead(1, "without notes"));
    config->Positional(0);
    config->Keywords(0);
    config->OfferFirstNotes();
    if (config->takes_first_notes()) throw std::runtime_error("no memory");
  }));
  t_thread.Leave([](ConfigBuilder* config) { config->BeginResult(0); });
  EXPECT_TRUE(Call("after"));
  EXPECT_EQ(Recorder::Get()->stop_reason(), "");
  EndSession();
  EXPECT_THAT(OnlyCalls(folder), ElementsAre("failing", "failing", "failing", "without notes", "after"));
  const auto trace = OpenLogs(folder).value();
  ASSERT_TRUE(trace->Read([](const CallRecord&) { return absl::OkStatus(); }).ok());
  EXPECT_EQ(FormatConfig(ParseConfig(trace->identity(0)).value()), R"(failing(object("not described")))");
  const nlohmann::json end = (*trace->processes()[0].metadata)["end"];
  EXPECT_EQ(end["cut"], nlohmann::json({{"calls that are missing", 1},
                                        {"calls without notes on their tensors", 1},
                                        {"calls without their arguments", 3},
                                        {"calls without their result", 3}}));
  EXPECT_EQ(end["not_seen"],
            nlohmann::json({"calls that are missing: no name", "calls without notes on their tensors: no memory",
                            "calls without their arguments: no sizes", "calls without their result: no name"}));
}

TEST(ThreadStateTest, ADescriptionWithoutMemoryStopsRecording) {
  const std::string folder = Start();
  EXPECT_TRUE(Enter("open"));
  EXPECT_FALSE(t_thread.Enter([](ConfigBuilder* config) {
    config->Begin(ConfigBuilder::EncodeHead(1, "failing"));
    throw std::bad_alloc();
  }));
  EXPECT_THAT(std::string(Recorder::Get()->stop_reason()), HasSubstr("bad_alloc"));
  EXPECT_FALSE(Call("after"));
  t_thread.Leave();
  EndSession();
  EXPECT_THAT(OnlyCalls(folder), ElementsAre("open"));
  // The next session is not affected.
  const std::string next = Start();
  EXPECT_TRUE(Call("again"));
  EndSession();
  EXPECT_THAT(OnlyCalls(next), ElementsAre("again"));
}

TEST(ThreadStateTest, SessionsThatEndWithinCalls) {
  std::vector<std::string> folders;
  for (int session = 0; session < 5; ++session) {
    folders.push_back(Start());
    EXPECT_TRUE(Enter(absl::StrCat("open", session)));
    EXPECT_TRUE(Enter("inner"));
    t_thread.Leave();
    EndSession();
    EXPECT_FALSE(Call("between"));
  }
  folders.push_back(Start());
  EXPECT_TRUE(Call("last"));
  // The ends of earlier sessions' calls are ignored.
  for (int session = 0; session < 5; ++session) session % 2 == 0 ? t_thread.Leave() : t_thread.Raise("Error");
  EXPECT_TRUE(Enter("outer"));
  EXPECT_TRUE(Call("inner"));
  t_thread.Leave();
  EndSession();
  for (size_t session = 0; session < 5; ++session) {
    EXPECT_THAT(OnlyCalls(folders[session]), ElementsAre(absl::StrCat("open", session), "  inner"));
  }
  EXPECT_THAT(OnlyCalls(folders[5]), ElementsAre("last", "outer", "  inner"));
}

// Makes a call at the very end of its thread.
struct CallsAtTheEnd {
  ~CallsAtTheEnd() { *recorded = Call("at the end"); }
  bool* recorded;
};

TEST(ThreadStateTest, CallsWhileAThreadEnds) {
  const std::string folder = Start();
  bool late = true, early = false;
  std::thread([&] {
    // Destroyed last, after the scratch.
    static thread_local CallsAtTheEnd first{&late};
    static_cast<void>(first.recorded);
    EXPECT_TRUE(Enter("open"));
    static thread_local CallsAtTheEnd second{&early};
    static_cast<void>(second.recorded);
  }).join();
  EXPECT_FALSE(late);
  EXPECT_TRUE(early);
  EndSession();
  EXPECT_THAT(OnlyCalls(folder), ElementsAre("open", "  at the end"));
}

TEST(ThreadStateTest, AThreadThatOutlivesSessions) {
  std::atomic<int> step{0};
  const auto wait_for = [&step](int wanted) {
    while (step != wanted) std::this_thread::yield();
  };
  std::thread thread([&] {
    for (int session = 0; session < 4; ++session) {
      wait_for(2 * session + 1);
      EXPECT_TRUE(Call(absl::StrCat("session", session)));
      ++step;
    }
  });
  std::vector<std::string> folders;
  for (int session = 0; session < 4; ++session) {
    folders.push_back(Start());
    ++step;
    wait_for(2 * session + 2);
    EndSession();
  }
  thread.join();
  for (size_t session = 0; session < folders.size(); ++session) {
    EXPECT_THAT(OnlyCalls(folders[session]), ElementsAre(absl::StrCat("session", session)));
  }
}

TEST(ThreadStateTest, ForkedProcessesGoOnInTheirOwnLogs) {
  const std::string folder = Start();
  EXPECT_TRUE(Enter("open"));
  EXPECT_TRUE(InChild([] {
    // The child has copies of the scratch and of the thread's state.
    if (!Call("child")) return false;
    if (!InChild([] { return Call("grandchild"); })) return false;
    std::thread([] { Call("child's thread"); }).join();
    Recorder::Get()->Finish({});
    return true;
  }));
  // Forks in the middle of a description.
  EXPECT_TRUE(t_thread.Enter([](ConfigBuilder* config) {
    config->Begin(ConfigBuilder::EncodeHead(1, "described"));
    EXPECT_TRUE(InChild([] { return !Call("within"); }));
    config->Positional(0);
    config->Keywords(0);
  }));
  t_thread.Leave();
  t_thread.Leave();
  EndSession();
  std::vector<std::string> all;
  for (const auto& [thread, calls] : ReadCalls(folder)) {
    for (const std::string& call : calls) all.push_back(call.substr(call.find_first_not_of(' ')));
  }
  EXPECT_THAT(all, testing::UnorderedElementsAre("open", "described", "child", "grandchild", "child's thread"));
}

// Each thread has its own scratch: simultaneous descriptions don't mix.
TEST(ThreadStateTest, ManyThreadsDescribeAtOnce) {
  constexpr int kThreads = 6;
  constexpr int kCalls = 3000;
  const std::string folder = Start();
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([t] {
      for (int i = 0; i < kCalls; ++i) {
        EXPECT_TRUE(t_thread.Enter([&](ConfigBuilder* config) {
          config->Begin(ConfigBuilder::EncodeHead(1, absl::StrCat("thread", t)));
          config->Positional(1);
          config->Container(ValueTag::kList, static_cast<size_t>(1 + (i + t) % 50),
                            [&](size_t) { config->values().Int(t); });
          config->Keywords(0);
        }));
        i % 10 == 0 ? t_thread.Raise("Error") : t_thread.Leave();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EndSession();
  const auto trace = OpenLogs(folder).value();
  std::map<std::string, int> calls;
  ASSERT_TRUE(trace
                  ->Read([&](const CallRecord& call) {
                    if (call.kind != CallRecord::kEnter) return absl::OkStatus();
                    const absl::StatusOr<Config> config = ParseConfig(trace->identity(call.config));
                    EXPECT_TRUE(config.ok()) << config.status();
                    if (!config.ok()) return config.status();
                    ++calls[config->api];
                    for (const Value& item : config->args[0].items) {
                      EXPECT_EQ(config->api, absl::StrCat("thread", item.integer));
                    }
                    return absl::OkStatus();
                  })
                  .ok());
  EXPECT_EQ(calls.size(), static_cast<size_t>(kThreads));
  for (const auto& [api, count] : calls) EXPECT_EQ(count, kCalls) << api;
  EXPECT_THAT(trace->processes()[0].damage.sentences, IsEmpty());
}

// ASan's allocator may be locked for ever in a process that was forked while other threads ran.
#ifdef __SANITIZE_ADDRESS__
constexpr bool kForksAmongThreads = false;
#else
constexpr bool kForksAmongThreads = true;
#endif

// Records while sessions begin, end, pause and stop, and processes are forked.
TEST(ThreadStateTest, ThreadsRecordWhileAllElseChanges) {
  std::atomic<bool> done{false};
  std::vector<std::thread> threads;
  std::vector<std::string> folders = {Start()};
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&done, t] {
      for (int i = 0; !done; ++i) {
        const std::string api = absl::StrCat("thread", t);
        const bool entered = Enter(api, i % 100);
        Call("inner", i % 7);
        if (i % 30 == 0) std::thread([] { Call("short"); }).join();
        if (entered) t_thread.Leave();
      }
    });
  }
  for (int i = 0; i < 40; ++i) {
    Recorder::Get()->SetPaused(i % 3 == 0);
    Recorder::Get()->SetTags(absl::StrCat(R"({"step":)", i, "}"));
    if (i % 4 == 0 && kForksAmongThreads) {
      EXPECT_TRUE(InChild([] {
        Call("child");
        return true;
      }));
    }
    if (i % 9 == 0) Recorder::Get()->Stop("for a trial");
    EndSession();
    folders.push_back(Start());
  }
  done = true;
  for (std::thread& thread : threads) thread.join();
  EndSession();
  for (const std::string& folder : folders) {
    ReadCalls(folder);  // undamaged
    std::filesystem::remove_all(folder);
  }
}

}  // namespace
}  // namespace torchtrace
