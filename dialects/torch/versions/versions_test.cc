#include "dialects/torch/versions/versions.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace torchtrace::torch_dialect {
namespace {

using ::testing::HasSubstr;

std::string Module(std::string_view version, bool untested = false) {
  const absl::StatusOr<TorchEra> era = FindTorchEra(version, untested);
  return era.ok() ? TorchModuleName(*era) : std::string(era.status().message());
}

TEST(Versions, ErasFollowOneAnother) {
  TorchVersion last;
  for (const TorchEra& era : TorchEras()) {
    EXPECT_LT(last, era.first);
    EXPECT_LE(era.first, era.last);
    last = era.last;
  }
}

TEST(Versions, EachVersionHasItsModule) {
  EXPECT_EQ(Module("2.7.1"), "torchtrace_torch-2.7.so");
  EXPECT_EQ(Module("2.11.0+cu128"), "torchtrace_torch-2.10.so");
  EXPECT_EQ(Module("2.12.1"), "torchtrace_torch-2.10.so");
  EXPECT_EQ(Module("2.13.0+cpu"), "torchtrace_torch-2.13.so");
}

TEST(Versions, RefusesWhatItWasNotTestedWith) {
  EXPECT_THAT(Module("2.6.0"), HasSubstr("torch 2.6.0 is too old: torchtrace traces torch 2.7 to "));
  EXPECT_THAT(Module("1.13.1"), HasSubstr("too old"));
  EXPECT_THAT(Module("2.6.0", true), HasSubstr("too old"));
  EXPECT_THAT(Module("9.0.1"), HasSubstr("--untested-torch"));
  EXPECT_EQ(Module("9.0.1", true), TorchModuleName(TorchEras().back()));
  EXPECT_THAT(Module("main"), HasSubstr("not a number"));
}

}  // namespace
}  // namespace torchtrace::torch_dialect
