#include "tracer/attach/stopped_thread.h"

#ifdef __x86_64__

#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <ctime>
#include <memory>
#include <thread>

#include "absl/status/status.h"
#include "gtest/gtest.h"
#include "tracer/attach/remote_python.h"

namespace torchtrace {
namespace {

// What the test, the process that is stopped and the one that stops it share.
struct Shared {
  std::atomic<int> entered, left;
  std::atomic<int> signals, signals_inside;
  std::atomic<bool> ends;
};
Shared* g_shared;

void Spin(int64_t ms) {
  timespec begin, now;
  clock_gettime(CLOCK_MONOTONIC, &begin);
  do {
    clock_gettime(CLOCK_MONOTONIC, &now);
  } while ((now.tv_sec - begin.tv_sec) * 1000 + (now.tv_nsec - begin.tv_nsec) / 1'000'000 < ms);
}

// What the stopped process is made to call: leaves nothing of its registers.
void Called(int64_t ms) {
  ++g_shared->entered;
  Spin(ms);
  asm volatile("pcmpeqd %%xmm0, %%xmm0; pcmpeqd %%xmm1, %%xmm1; pcmpeqd %%xmm2, %%xmm2; pcmpeqd %%xmm7, %%xmm7"
               :
               :
               : "xmm0", "xmm1", "xmm2", "xmm7");
  ++g_shared->left;
}

// Works with many registers, and with vectors if the processor has them, until told to end. 0: nothing went wrong.
__attribute__((noinline)) int Work() {
  for (uint64_t round = 1; !g_shared->ends; ++round) {
    uint64_t a = round, b = 2 * round, c = 3 * round, d = 5 * round;
    double x = static_cast<double>(round), y = 2 * x, z = 3 * x;
    for (int i = 0; i < 20'000; ++i) {
      asm volatile("" : "+r"(a), "+r"(b), "+r"(c), "+r"(d), "+x"(x), "+x"(y), "+x"(z));
    }
    if (a != round || b != 2 * a || c != 3 * a || d != 5 * a) return 1;
    if (x != static_cast<double>(round) || y != 2 * x || z != 3 * x) return 2;
  }
  return 0;
}

// Sleeps, with a timeout that is begun anew only by the kernel.
int Sleep() {
  while (!g_shared->ends) {
    const timespec time = {0, 20'000'000};
    if (clock_nanosleep(CLOCK_MONOTONIC, 0, &time, nullptr) != 0) return 1;
  }
  return 0;
}

class StoppedThreadTest : public ::testing::Test {
 protected:
  void SetUp() override {
    void* const memory = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(memory, MAP_FAILED);
    g_shared = new (memory) Shared();
  }

  void Start(int (*program)()) {
    child_ = fork();
    if (child_ == 0) {
      signal(SIGUSR1, [](int) {
        ++g_shared->signals;
        if (g_shared->entered != g_shared->left) ++g_shared->signals_inside;
      });
      _exit(program());
    }
    usleep(20'000);
    libc_ = FindRemoteLibc(child_);
  }

  // What the child said at its end.
  int End() {
    g_shared->ends = true;
    int status = 0;
    EXPECT_EQ(waitpid(child_, &status, 0), child_);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }

  absl::Status CallInChild(uint64_t ms) const {
    absl::StatusOr<std::unique_ptr<StoppedThread>> thread = StoppedThread::Stop(child_, libc_);
    if (!thread.ok()) return thread.status();
    const RemoteFunction called = {reinterpret_cast<uint64_t>(Called), 0};
    return (*thread)->Call(called, {ms}).status();
  }

  pid_t child_ = 0;
  RemoteLibc libc_;
};

TEST_F(StoppedThreadTest, GoesOnAsItWas) {
  for (const auto program : {Work, Sleep}) {
    g_shared->ends = false;
    Start(program);
    const int before = g_shared->left;
    for (int i = 0; i < 50; ++i) {
      const absl::Status status = CallInChild(0);
      ASSERT_TRUE(status.ok()) << status;
      usleep(500);
    }
    EXPECT_EQ(g_shared->left, before + 50);
    EXPECT_EQ(End(), 0);
  }
}

TEST_F(StoppedThreadTest, ReturnsWhatASystemCallReturned) {
  Start(Work);
  {
    absl::StatusOr<std::unique_ptr<StoppedThread>> thread = StoppedThread::Stop(child_, libc_);
    ASSERT_TRUE(thread.ok()) << thread.status();
    const absl::StatusOr<int64_t> memory =
        (*thread)->Call(libc_.mmap, {0, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, static_cast<uint64_t>(-1), 0});
    ASSERT_TRUE(memory.ok()) << memory.status();
    EXPECT_GT(*memory, 0);
    const absl::StatusOr<int64_t> freed = (*thread)->Call(libc_.munmap, {static_cast<uint64_t>(*memory), 4096});
    EXPECT_EQ(freed.value_or(-1), 0);
  }
  EXPECT_EQ(End(), 0);
}

TEST_F(StoppedThreadTest, GoesOnIfItsTracerIsKilled) {
  Start(Work);
  constexpr int kKills = 20;
  for (int i = 0; i < kKills; ++i) {
    const int before = g_shared->entered;
    const pid_t tracer = fork();
    if (tracer == 0) {
      CallInChild(20).IgnoreError();
      _exit(0);
    }
    while (g_shared->entered == before) usleep(100);
    kill(tracer, SIGKILL);
    waitpid(tracer, nullptr, 0);
    while (g_shared->entered != g_shared->left) usleep(100);
  }
  EXPECT_EQ(g_shared->left, kKills);
  EXPECT_EQ(End(), 0);
}

TEST_F(StoppedThreadTest, SignalsWaitForTheEnd) {
  Start(Work);
  std::thread sender([this] {
    while (g_shared->entered == 0) usleep(100);
    kill(child_, SIGUSR1);
  });
  const absl::Status status = CallInChild(50);
  sender.join();
  EXPECT_TRUE(status.ok()) << status;
  usleep(20'000);
  EXPECT_EQ(g_shared->signals, 1);
  EXPECT_EQ(g_shared->signals_inside, 0);
  EXPECT_EQ(End(), 0);
}

TEST_F(StoppedThreadTest, AFunctionThatFaultsHarmsNothing) {
  Start(Work);
  {
    absl::StatusOr<std::unique_ptr<StoppedThread>> thread = StoppedThread::Stop(child_, libc_);
    ASSERT_TRUE(thread.ok()) << thread.status();
    EXPECT_TRUE(absl::IsFailedPrecondition((*thread)->Call({8, 0}, {}).status()));
  }
  EXPECT_EQ(End(), 0);
}

TEST_F(StoppedThreadTest, TellsThatTheProcessHasEnded) {
  Start([] { return 0; });
  EXPECT_EQ(End(), 0);
  EXPECT_FALSE(CallInChild(0).ok());
}

TEST_F(StoppedThreadTest, RefusesAProcessThatIsStopped) {
  Start(Work);
  kill(child_, SIGSTOP);
  usleep(20'000);
  EXPECT_TRUE(absl::IsFailedPrecondition(CallInChild(0)));
  kill(child_, SIGCONT);
  EXPECT_EQ(End(), 0);
}

}  // namespace
}  // namespace torchtrace

#endif
