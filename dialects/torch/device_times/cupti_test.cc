#include "dialects/torch/device_times/cupti.h"

#include <cstring>
#include <string>

#include "gtest/gtest.h"

namespace torchtrace::torch_dialect {
namespace {

// A record of `bytes` bytes, filled with what no reader may look at.
class Record {
 public:
  Record(int kind, size_t bytes) : bytes_(bytes, '\xee') { Set(0, kind); }
  template <typename T>
  Record& Set(size_t at, T value) {
    std::memcpy(bytes_.data() + at, &value, sizeof value);
    return *this;
  }
  CuptiRecord Read() const { return ReadCuptiRecord(bytes_.data()); }

 private:
  std::string bytes_;
};

// The sizes of CUpti_ActivityKernel4 and 7 to 13: CUDA 11.8 to 13.5, as NVIDIA's headers have them.
TEST(CuptiTest, KernelsOfAllVersions) {
  static const char name[] = "a_kernel";
  for (const size_t bytes : {144, 176, 200, 208, 216, 224, 232, 248}) {
    Record record(kCuptiConcurrentKernel, bytes);
    record.Set<uint64_t>(16, 1000).Set<uint64_t>(24, 1250).Set<uint32_t>(40, 3).Set<uint32_t>(48, 7);
    record.Set<uint32_t>(92, 4711).Set<const char*>(104, name);
    const CuptiRecord read = record.Read();
    EXPECT_EQ(read.kind, CuptiRecord::kWork) << bytes;
    EXPECT_EQ(read.work, (DeviceWork{DeviceWork::kKernel, 3, 7, 1000, 250, 0, 0, 4711})) << bytes;
    EXPECT_EQ(read.name, name) << bytes;
    EXPECT_TRUE(read.ended);
    record.Set<uint64_t>(24, 0);
    EXPECT_FALSE(record.Read().ended);
    record.Set<uint32_t>(40, 256);
    EXPECT_EQ(record.Read().kind, CuptiRecord::kOther);
  }
}

TEST(CuptiTest, CopiesAndMemsets) {
  for (const size_t bytes : {88, 96, 112}) {
    Record copy(kCuptiMemcpy, bytes);
    copy.Set<uint8_t>(4, 2).Set<uint64_t>(8, 4096).Set<uint64_t>(16, 5).Set<uint64_t>(24, 9);
    copy.Set<uint32_t>(32, 1).Set<uint32_t>(40, 8).Set<uint32_t>(44, 12);
    EXPECT_EQ(copy.Read().work, (DeviceWork{DeviceWork::kCopy, 1, 8, 5, 4, 0, 4096, 12}));
    EXPECT_STREQ(copy.Read().name, "Memcpy DtoH");
    copy.Set<uint8_t>(4, 99);
    EXPECT_EQ(copy.Read().name, nullptr);
  }
  Record set(kCuptiMemset, 104);
  set.Set<uint64_t>(8, 64).Set<uint64_t>(16, 5).Set<uint64_t>(24, 9);
  set.Set<uint32_t>(32, 0).Set<uint32_t>(40, 8).Set<uint32_t>(44, 12);
  EXPECT_EQ(set.Read().work, (DeviceWork{DeviceWork::kMemset, 0, 8, 5, 4, 0, 64, 12}));
}

TEST(CuptiTest, ExternalIdsAndOthers) {
  Record id(kCuptiExternalCorrelation, 24);
  id.Set<int>(4, kCuptiCustom2).Set<uint64_t>(8, uint64_t{1} << 60).Set<uint32_t>(16, 77);
  const CuptiRecord read = id.Read();
  EXPECT_EQ(read.kind, CuptiRecord::kExternalId);
  EXPECT_EQ(read.external_kind, kCuptiCustom2);
  EXPECT_EQ(read.external_id, uint64_t{1} << 60);
  EXPECT_EQ(read.correlation, 77U);
  for (const int kind : {kCuptiRuntime, kCuptiDriver}) {
    Record launch(kind, 40);
    launch.Set<uint64_t>(8, 1000).Set<uint64_t>(16, 1300).Set<uint32_t>(32, 4711);
    EXPECT_EQ(launch.Read().kind, CuptiRecord::kLaunch);
    EXPECT_EQ(launch.Read().correlation, 4711U);
    EXPECT_EQ(launch.Read().launch_start_ns, 1000);
    EXPECT_EQ(launch.Read().launch_ns, 300);
    launch.Set<uint64_t>(16, 0);
    EXPECT_EQ(launch.Read().kind, CuptiRecord::kOther);
  }
  EXPECT_EQ(Record(kCuptiMemset + 1, 48).Read().kind, CuptiRecord::kOther);
}

TEST(CuptiTest, AProcessWithoutItHasNone) { EXPECT_TRUE(absl::IsNotFound(Cupti::Find().status())); }

}  // namespace
}  // namespace torchtrace::torch_dialect
