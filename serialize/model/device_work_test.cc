#include "serialize/model/device_work.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace torchtrace {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr DeviceWork kLaunched = {DeviceWork::kKernel, 1, 7, 1'000'000'000'007, 1200, 3, 0, 99, 5000, 900};
constexpr DeviceWork kCopied = {DeviceWork::kCopy, 255, 1 << 20, 5, 0, 0, uint64_t{1} << 40, 100};

std::vector<DeviceWork> Read(std::string_view bytes) {
  std::vector<DeviceWork> work = {kCopied};  // what was there before is gone
  ReadDeviceWork(bytes, &work);
  return work;
}

TEST(DeviceWorkTest, IsReadAsItWasWritten) {
  std::string bytes;
  AppendDeviceWork(kLaunched, &bytes);
  AppendDeviceWork(kCopied, &bytes);
  EXPECT_THAT(Read(bytes), ElementsAre(kLaunched, kCopied));
  // Cut anywhere, what is whole is read.
  for (size_t size = 0; size < bytes.size(); ++size) EXPECT_LE(Read(bytes.substr(0, size)).size(), 1U) << size;
}

TEST(DeviceWorkTest, ImpossibleNumbersEndIt) {
  std::string bytes;
  AppendDeviceWork(kLaunched, &bytes);
  std::string unknown = bytes;
  unknown[0] = DeviceWork::kKinds;
  EXPECT_THAT(Read(unknown), IsEmpty());
  std::string device = bytes.substr(0, 1) + std::string("\x80\x02") + bytes.substr(2);  // 256
  EXPECT_THAT(Read(device), IsEmpty());
  DeviceWork late = kLaunched;
  late.launched_before_ns = INT64_MAX;
  bytes.clear();
  AppendDeviceWork(late, &bytes);
  EXPECT_THAT(Read(bytes), IsEmpty());
  DeviceWork absurd = kLaunched;
  absurd.start_ns = 3'000'000'000'000'000'001;
  bytes.clear();
  AppendDeviceWork(absurd, &bytes);
  EXPECT_THAT(Read(bytes), IsEmpty());
}

}  // namespace
}  // namespace torchtrace
