#include "serialize/log/mapped_frames.h"

#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "serialize/log/log_writer.h"
#include "serialize/testing/log_samples.h"

namespace torchtrace {
namespace {

void OnBusError(int, siginfo_t* info, void*) {
  if (!MapZerosOverFrame(info->si_addr)) _exit(3);
}

TEST(MappedFramesTest, AFileThatIsCutGivesWayToZeros) {
  const std::string path = TestFolder() + "/a.ttlog";
  const auto writer = LogWriter::Create(path).value();
  const Frame frame = writer->Reserve(FrameType::kCalls, 100'000).value();
  std::memset(frame.payload(), 'x', frame.payload_bytes());
  struct sigaction action = {}, before;
  action.sa_sigaction = OnBusError;
  action.sa_flags = SA_SIGINFO;
  ASSERT_EQ(sigaction(SIGBUS, &action, &before), 0);
  std::filesystem::resize_file(path, 0);
  std::memset(frame.payload() + 50'000, 'y', 1000);
  EXPECT_EQ(frame.payload()[0], 0);
  EXPECT_EQ(frame.payload()[50'999], 'y');
  LogWriter::Close(frame, 1);
  sigaction(SIGBUS, &before, nullptr);
  EXPECT_EQ(std::filesystem::file_size(path), 0u);
}

TEST(MappedFramesTest, OnlyFramesAreOurs) {
  std::vector<char> pages(9 * 4096);
  char* const page = reinterpret_cast<char*>((reinterpret_cast<uintptr_t>(pages.data()) + 4095) / 4096 * 4096);
  EXPECT_FALSE(MapZerosOverFrame(page));
  AddMappedFrame(page + 4096, 2 * 4096);
  EXPECT_FALSE(MapZerosOverFrame(page + 4095));
  EXPECT_FALSE(MapZerosOverFrame(page + 3 * 4096));
  RemoveMappedFrame(page + 4096, 2 * 4096);
  EXPECT_FALSE(MapZerosOverFrame(page + 4096));
  AddMappedFrame(page + 4096, 2 * 4096);
  ForgetMappedFrames();
  EXPECT_FALSE(MapZerosOverFrame(page + 4096));
}

TEST(MappedFramesTest, ManyThreads) {
  constexpr size_t kFrames = 500;
  constexpr size_t kBytes = 4096;
  char* const pages = static_cast<char*>(
      mmap(nullptr, 4 * kFrames * kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  std::vector<std::thread> threads;
  for (size_t t = 0; t < 4; ++t) {
    threads.emplace_back([pages, t] {
      for (size_t i = 0; i < kFrames; ++i) AddMappedFrame(pages + (t * kFrames + i) * kBytes, kBytes);
      for (size_t i = 0; i + 1 < kFrames; ++i) RemoveMappedFrame(pages + (t * kFrames + i) * kBytes, kBytes);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (size_t i = 0; i < 4 * kFrames; ++i) {
    EXPECT_EQ(MapZerosOverFrame(pages + i * kBytes + 7), i % kFrames == kFrames - 1) << i;
  }
  ForgetMappedFrames();
  munmap(pages, 4 * kFrames * kBytes);
}

}  // namespace
}  // namespace torchtrace
