#include "tracer/attach/process_status.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace torchtrace {
namespace {

using ::testing::HasSubstr;

TEST(ProcessStatusTest, Parses) {
  const ProcessStatus status = ParseProcessStatus(
      "Name:\tpython3\nUmask:\t0022\nState:\tt (tracing stop)\nTgid:\t12\nNgid:\t0\nPid:\t12\nPPid:\t3\n"
      "TracerPid:\t99\nUid:\t1000\t1001\t1002\t1003\nGid:\t5\t6\t7\t8\n");
  EXPECT_EQ(status.process, 12);
  EXPECT_EQ(status.name, "python3");
  EXPECT_EQ(status.state, 't');
  EXPECT_EQ(status.tracer, 99);
  EXPECT_EQ(status.user, 1001u);
  EXPECT_EQ(status.group, 6u);
  for (const char* text : {"", "\n\n", "Uid:", "Uid:\t", "State:\t", "Uid:\t-\n"}) ParseProcessStatus(text);
}

TEST(ProcessStatusTest, ReadsAProcess) {
  const pid_t child = fork();
  if (child == 0) {
    pause();
    _exit(0);
  }
  const absl::StatusOr<ProcessStatus> status = ReadProcessStatus(child);
  ASSERT_TRUE(status.ok()) << status.status();
  EXPECT_TRUE(CheckAttachable(child, *status).ok());
  EXPECT_THAT(ProcessesBelow(getpid()), ::testing::Contains(child));
  EXPECT_EQ(CommandLineOf(child), CommandLineOf(getpid()));
  EXPECT_TRUE(CheckSeesFile(child, "/proc/self/exe").ok());
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  EXPECT_TRUE(absl::IsNotFound(ReadProcessStatus(child).status()));
}

TEST(ProcessStatusTest, SaysWhatToDoAboutARefusal) {
  EXPECT_THAT(DescribeRefusal(7, EPERM, "1\n"), HasSubstr("ptrace_scope is 1"));
  EXPECT_THAT(DescribeRefusal(7, EPERM, "1\n"), HasSubstr("sudo"));
  EXPECT_THAT(DescribeRefusal(7, EPERM, "2\n"), HasSubstr("is 2"));
  EXPECT_THAT(DescribeRefusal(7, EPERM, "3\n"), HasSubstr("until the machine starts again"));
  EXPECT_THAT(DescribeRefusal(7, EPERM, ""), HasSubstr("--cap-add SYS_PTRACE"));
  EXPECT_THAT(DescribeRefusal(7, EACCES, "0\n"), HasSubstr("attach 7"));
  EXPECT_EQ(DescribeRefusal(7, EIO, "1\n"), "the kernel refuses access to process 7 (Input/output error)");
}

TEST(ProcessStatusTest, RefusesBeforehand) {
  ProcessStatus status;
  status.user = geteuid();
  status.state = 'S';
  EXPECT_TRUE(CheckAttachable(1, status).ok());
  status.state = 'T';
  EXPECT_THAT(std::string(CheckAttachable(1, status).message()), HasSubstr("kill -CONT 1"));
  status.state = 'Z';
  EXPECT_THAT(std::string(CheckAttachable(1, status).message()), HasSubstr("has ended"));
  status.state = 't';
  status.tracer = getpid();
  EXPECT_THAT(std::string(CheckAttachable(1, status).message()), HasSubstr("end that first"));
}

}  // namespace
}  // namespace torchtrace
