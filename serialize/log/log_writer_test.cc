#include "serialize/log/log_writer.h"

#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "serialize/base/bytes.h"
#include "serialize/testing/log_samples.h"

namespace torchtrace {
namespace {

using ::testing::HasSubstr;

FrameHeader HeaderAt(const std::string& bytes, size_t offset) {
  FrameHeader header;
  std::memcpy(&header, bytes.data() + offset, sizeof header);
  return header;
}

TEST(LogWriterTest, MovesWithoutReplacing) {
  const std::string folder = TestFolder();
  const auto writer = LogWriter::Create(folder + "/a.ttlog.new").value();
  WriteFile(folder + "/a.ttlog", "another's");
  EXPECT_TRUE(absl::IsAlreadyExists(writer->MoveTo(folder + "/a.ttlog")));
  ASSERT_TRUE(writer->AppendMetadata("{}").ok());
  ASSERT_TRUE(writer->MoveTo(folder + "/b.ttlog").ok());
  EXPECT_EQ(writer->path(), folder + "/b.ttlog");
  ASSERT_TRUE(writer->AppendMetadata("{}").ok());
  EXPECT_FALSE(std::filesystem::exists(folder + "/a.ttlog.new"));
  EXPECT_EQ(ReadFile(folder + "/a.ttlog"), "another's");
  EXPECT_FALSE(writer->MoveTo(folder + "/no/c.ttlog").ok());
}

TEST(LogWriterTest, FileOfTwoFrames) {
  const std::string path = TestFolder() + "/a.ttlog";
  {
    const auto writer = LogWriter::Create(path).value();
    EXPECT_EQ(writer->path(), path);
    ASSERT_TRUE(writer->AppendMetadata(R"({"a":1})").ok());
    const Frame frame = writer->Reserve(FrameType::kCalls, 5000).value();
    EXPECT_GE(frame.payload_bytes(), 5000u);
    std::memcpy(frame.payload(), "records", 7);
    frame.header->committed_bytes = 7;
    LogWriter::Close(frame, 3);
  }
  const std::string bytes = ReadFile(path);
  ASSERT_EQ(bytes.size(), 4 * kPageBytes);
  Superblock block;
  std::memcpy(&block, bytes.data(), sizeof block);
  EXPECT_EQ(std::string_view(block.magic, sizeof block.magic), std::string_view(kLogMagic, sizeof kLogMagic));
  EXPECT_EQ(block.version, kOneProcessVersion);
  EXPECT_EQ(block.page_bytes, kPageBytes);
  EXPECT_EQ(block.hash, Hash64(&block, 16));

  const struct {
    size_t offset;
    FrameType type;
    uint32_t capacity;
    std::string_view payload;
    uint64_t calls;
  } kFrames[] = {{kPageBytes, FrameType::kMetadata, kPageBytes, R"({"a":1})", 0},
                 {2 * kPageBytes, FrameType::kCalls, 2 * kPageBytes, "records", 3}};
  uint64_t sequence = 0;
  for (const auto& expected : kFrames) {
    const FrameHeader header = HeaderAt(bytes, expected.offset);
    const char* const start = bytes.data() + expected.offset;
    EXPECT_EQ(header.magic, kFrameMagic);
    EXPECT_EQ(header.type, static_cast<uint16_t>(expected.type));
    EXPECT_EQ(header.capacity_bytes, expected.capacity);
    EXPECT_EQ(header.sequence, sequence++);
    EXPECT_EQ(header.open_hash, Hash64(start, kOpenHashedBytes));
    EXPECT_EQ(header.committed_bytes, expected.payload.size());
    EXPECT_EQ(header.closed, kFrameClosed);
    EXPECT_EQ(header.calls, expected.calls);
    EXPECT_EQ(std::string_view(start + sizeof header, header.committed_bytes), expected.payload);
    EXPECT_EQ(header.payload_hash, Hash64(expected.payload.data(), expected.payload.size()));
    EXPECT_EQ(header.close_hash, Hash64(start + kCloseHashedOffset, kCloseHashedBytes));
  }
}

TEST(LogWriterTest, FramesOutliveTheWriter) {
  const std::string path = TestFolder() + "/a.ttlog";
  auto writer = LogWriter::Create(path).value();
  const Frame frame = writer->Reserve(FrameType::kCalls, 100).value();
  writer.reset();
  std::memcpy(frame.payload(), "late", 4);
  frame.header->committed_bytes = 4;
  EXPECT_EQ(ReadFile(path).substr(kPageBytes + sizeof(FrameHeader), 4), "late");  // before it's closed
  LogWriter::Close(frame, 1);
  EXPECT_EQ(HeaderAt(ReadFile(path), kPageBytes).calls, 1u);
}

TEST(LogWriterTest, NothingIsOverwritten) {
  const std::string path = TestFolder() + "/a.ttlog";
  WriteFile(path, "mine");
  const absl::Status status = LogWriter::Create(path).status();
  EXPECT_THAT(std::string(status.message()), HasSubstr(path + ": File exists"));
  EXPECT_EQ(ReadFile(path), "mine");
  EXPECT_FALSE(LogWriter::Create(path + "/no/folder").ok());
}

// The descriptors that the process has open.
std::vector<std::string> Descriptors() {
  std::vector<std::string> open;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;  // the iterator's own descriptor
    const std::filesystem::path target = std::filesystem::read_symlink(entry.path(), gone);
    if (!gone && target.string().find("/proc/") == std::string::npos) open.push_back(target);
  }
  return open;
}

TEST(LogWriterTest, NoDescriptorIsKept) {
  const std::vector<std::string> before = Descriptors();
  const auto writer = LogWriter::Create(TestFolder() + "/a.ttlog").value();
  const Frame frame = writer->Reserve(FrameType::kCalls, 100).value();
  EXPECT_EQ(Descriptors(), before);
  LogWriter::Close(frame, 0);
}

TEST(LogWriterTest, ProgramHasAllDescriptorsThatItMay) {
  const auto writer = LogWriter::Create(TestFolder() + "/a.ttlog").value();
  rlimit limit, after;
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  const rlimit few = {64, limit.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
  std::vector<int> own;
  for (int fd; (fd = dup(0)) >= 0;) own.push_back(fd);
  const absl::Status status = writer->AppendMetadata("{}");
  for (const int fd : own) close(fd);
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &after), 0);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(after.rlim_cur, 64u);
}

TEST(LogWriterTest, OnlyItsUserReadsIt) {
  for (const mode_t mask : {022, 0, 0777}) {
    const std::string path = TestFolder() + "/" + std::to_string(mask) + ".ttlog";
    const mode_t before = umask(mask);
    const auto writer = LogWriter::Create(path);
    umask(before);
    ASSERT_TRUE(writer.ok());
    struct stat info;
    ASSERT_EQ(stat(path.c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 07777, 0600u);
  }
}

// A file that replaced the log must not be touched.
TEST(LogWriterTest, AnotherFileInItsPlace) {
  const std::string path = TestFolder() + "/a.ttlog";
  const std::string other = TestFolder() + "/mine";
  const auto writer = LogWriter::Create(path).value();
  ASSERT_TRUE(writer->AppendMetadata("{}").ok());
  std::filesystem::rename(path, path + ".moved");
  EXPECT_THAT(std::string(writer->AppendMetadata("{}").message()), HasSubstr(path + ": No such file"));
  // Many file systems would reuse the inode number for the new file.
  std::filesystem::remove(path + ".moved");
  WriteFile(path, "mine");
  EXPECT_THAT(std::string(writer->AppendMetadata("{}").message()), HasSubstr(path + ": it is another file now"));
  EXPECT_EQ(ReadFile(path), "mine");
  std::filesystem::rename(path, other);
  std::filesystem::create_symlink(other, path);
  EXPECT_FALSE(writer->AppendMetadata("{}").ok());
  EXPECT_EQ(ReadFile(other), "mine");
}

TEST(LogWriterTest, AFileThatWasCutIsLeftAlone) {
  const std::string path = TestFolder() + "/a.ttlog";
  const auto writer = LogWriter::Create(path).value();
  ASSERT_TRUE(writer->AppendMetadata("{}").ok());
  std::filesystem::resize_file(path, 1);
  EXPECT_THAT(std::string(writer->AppendMetadata("{}").message()), HasSubstr(path + ": it was cut"));
  EXPECT_EQ(std::filesystem::file_size(path), 1u);
}

TEST(LogWriterTest, FrameTooLarge) {
  const auto writer = LogWriter::Create(TestFolder() + "/a.ttlog").value();
  EXPECT_EQ(writer->Reserve(FrameType::kCalls, UINT32_MAX).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(writer->Reserve(FrameType::kCalls, 1).ok());
}

TEST(LogWriterTest, ThreadsReserveAtTheSameTime) {
  const std::string path = TestFolder() + "/a.ttlog";
  constexpr int kThreads = 4;
  constexpr int kFrames = 100;
  {
    const auto writer = LogWriter::Create(path).value();
    std::vector<std::thread> threads;
    for (int i = 0; i < kThreads; ++i) {
      threads.emplace_back([&writer] {
        for (int j = 0; j < kFrames; ++j) LogWriter::Close(writer->Reserve(FrameType::kCalls, 5000).value(), 0);
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
  const std::string bytes = ReadFile(path);
  ASSERT_EQ(bytes.size(), kPageBytes * (1 + 2 * kThreads * kFrames));
  for (uint64_t i = 0; i < kThreads * kFrames; ++i) {
    EXPECT_EQ(HeaderAt(bytes, kPageBytes * (1 + 2 * i)).sequence, i);
  }
}

// A forked child can't accidentally write into its parent's frames.
TEST(LogWriterTest, FramesAreNotMappedInAChild) {
  const auto writer = LogWriter::Create(TestFolder() + "/a.ttlog").value();
  const Frame frame = writer->Reserve(FrameType::kCalls, 100).value();
  const pid_t child = fork();
  if (child == 0) {
    const rlimit no_core = {0, 0};
    setrlimit(RLIMIT_CORE, &no_core);
    signal(SIGSEGV, SIG_DFL);  // a sanitizer would turn it into an exit
    frame.payload()[0] = 1;
    _exit(0);
  }
  int status;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
  EXPECT_EQ(frame.payload()[0], 0);
}

// Checks writing when the folder of `path` has room only for the superblock and a
// few frames.
void ExpectFull(const std::string& path) {
  const auto writer = LogWriter::Create(path).value();
  absl::Status status;
  uint64_t frames = 0;
  for (; frames < 1000 && status.ok(); ++frames) {
    const absl::StatusOr<Frame> frame = writer->Reserve(FrameType::kCalls, 5000);
    status = frame.status();
    if (!frame.ok()) break;
    std::memset(frame->payload(), 'x', frame->payload_bytes());  // SIGBUS if it weren't reserved
    LogWriter::Close(*frame, 0);
  }
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(path));
  EXPECT_GT(frames, 2u);
  EXPECT_EQ(std::filesystem::file_size(path), kPageBytes * (1 + 2 * frames));
  EXPECT_TRUE(absl::IsResourceExhausted(writer->AppendMetadata(std::string(5000, ' '))));
}

TEST(LogWriterTest, FileSizeLimit) {
  const std::string folder = TestFolder();
  rlimit limit;
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &limit), 0);
  const rlimit small = {50'000, limit.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  ExpectFull(folder + "/a.ttlog");
  const rlimit none = {100, limit.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &none), 0);
  EXPECT_TRUE(absl::IsResourceExhausted(LogWriter::Create(folder + "/b.ttlog").status()));
  EXPECT_FALSE(std::filesystem::exists(folder + "/b.ttlog"));
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

TEST(LogWriterTest, DiskFull) {
  const std::string folder = TestFolder();
  // In a mount namespace that ends with this process.
  if (unshare(CLONE_NEWNS) != 0 || mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
      mount("tmpfs", folder.c_str(), "tmpfs", 0, "size=64k") != 0) {
    GTEST_SKIP() << "may not mount a small disk";
  }
  ExpectFull(folder + "/a.ttlog");
  umount(folder.c_str());
}

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
