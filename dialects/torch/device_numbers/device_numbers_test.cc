#include "dialects/torch/device_numbers/device_numbers.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "dialects/torch/device_numbers/testing/stand_in_device.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace torchtrace::torch_dialect {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class DeviceNumbersTest : public testing::Test {
 protected:
  void SetUp() override {
    const absl::Status prepared = device_.numbers.Prepare(0);
    ASSERT_TRUE(prepared.ok()) << prepared;
    cuda_->calls.clear();
  }
  // Nothing may be under way when the device goes.
  void TearDown() override {
    for (int& stream : streams_) cuda_->release(&stream, SIZE_MAX);
    EXPECT_EQ(cuda_->contexts, 0u);
    EXPECT_EQ(cuda_->unsafe_calls, 0u);
    EXPECT_EQ(std::count(cuda_->calls.begin(), cuda_->calls.end(), "synchronize"), 0);
  }

  Launched Launch(uint64_t ticket, int stream = 0, int number = 0) {
    static const int64_t stride = 1;
    const int64_t size = static_cast<int64_t>(ticket % 50 + 1);
    return device_.numbers.Launch({ElementType::kFloat32,
                                   reinterpret_cast<uintptr_t>(data_.data()),
                                   {&size, 1},
                                   {&stride, 1},
                                   number,
                                   &streams_[stream]},
                                  ticket);
  }
  // What Poll visits: tickets, negative ones for lost numbers. Others are right.
  std::vector<int> Poll() {
    return Visited([&](DeviceNumbers::Visit visit) { device_.numbers.Poll(visit); });
  }
  std::vector<int> Drain(double seconds) {
    return Visited([&](DeviceNumbers::Visit visit) { device_.numbers.Drain(visit, seconds); });
  }
  template <typename Show>
  std::vector<int> Visited(const Show& show) {
    std::vector<int> tickets;
    show([&](uint64_t ticket, const Numbers* numbers) {
      tickets.push_back(numbers == nullptr ? -static_cast<int>(ticket) : static_cast<int>(ticket));
      if (numbers == nullptr) return;
      const int64_t size = static_cast<int64_t>(ticket % 50 + 1), stride = 1;
      EXPECT_EQ(numbers->fingerprint,
                NumbersOf(ElementType::kFloat32, data_.data(), {&size, 1}, {&stride, 1}).fingerprint);
    });
    return tickets;
  }
  // The driver's calls but for queries; streams by index.
  std::vector<std::string> Calls() const {
    std::vector<std::string> calls;
    for (std::string call : cuda_->calls) {
      if (call == "query") continue;
      for (int i = 0; i < 3; ++i) {
        const std::string address = std::to_string(reinterpret_cast<uintptr_t>(&streams_[i]));
        if (const size_t at = call.find(address); at != std::string::npos) {
          call.replace(at, address.size(), std::to_string(i));
        }
      }
      calls.push_back(call);
    }
    return calls;
  }

  StandInDevice device_;
  StandInCuda* const cuda_ = device_.cuda;
  std::vector<float> data_ = std::vector<float>(50, 1.5f);
  int streams_[3] = {};
};

TEST_F(DeviceNumbersTest, LaunchesInOrderOnTheStream) {
  EXPECT_EQ(Launch(1), Launched::kYes);
  EXPECT_EQ(Launch(2, 1), Launched::kYes);
  EXPECT_THAT(Calls(), ElementsAre("launch 0", "copy 0", "record 0", "launch 1", "copy 1", "record 1"));
  EXPECT_TRUE(device_.numbers.waits());
  EXPECT_THAT(Poll(), ElementsAre(1, 2));
  EXPECT_FALSE(device_.numbers.waits());
  EXPECT_THAT(Poll(), IsEmpty());
}

TEST_F(DeviceNumbersTest, WaitsForNothing) {
  cuda_->holds = true;
  for (const int ticket : {1, 2, 3}) EXPECT_EQ(Launch(ticket, ticket % 2), Launched::kYes);
  EXPECT_THAT(Poll(), IsEmpty());
  // Its kernel and copy, but not its event.
  cuda_->release(&streams_[1], 2);
  EXPECT_THAT(Poll(), IsEmpty());
  cuda_->release(&streams_[0], 3);
  EXPECT_THAT(Poll(), ElementsAre(2));
  cuda_->release(&streams_[1], 1);
  EXPECT_THAT(Poll(), ElementsAre(1));
  cuda_->release(&streams_[1], SIZE_MAX);
  EXPECT_THAT(Poll(), ElementsAre(3));
}

TEST_F(DeviceNumbersTest, LosesNumbersWhenAllSlotsAreUsed) {
  cuda_->holds = true;
  for (size_t i = 0; i < DeviceNumbers::kSlots; ++i) EXPECT_EQ(Launch(i), Launched::kYes);
  EXPECT_EQ(Launch(1000), Launched::kFull);
  cuda_->release(&streams_[0], 6);
  // Their slots are free again.
  EXPECT_EQ(Launch(1001), Launched::kYes);
  EXPECT_EQ(Launch(1002), Launched::kYes);
  EXPECT_EQ(Launch(1003), Launched::kFull);
  EXPECT_THAT(Poll(), ElementsAre(0, 1));
  cuda_->release(&streams_[0], SIZE_MAX);
  const std::vector<int> rest = Poll();
  EXPECT_EQ(rest.size(), DeviceNumbers::kSlots);
  EXPECT_TRUE(std::is_sorted(rest.begin(), rest.end()));
  EXPECT_EQ(rest.back(), 1002);
}

TEST_F(DeviceNumbersTest, LeavesCapturedStreamsAlone) {
  cuda_->capturing = true;
  EXPECT_EQ(Launch(1), Launched::kCapturing);
  cuda_->capturing = false;
  cuda_->capture_implicit = true;
  EXPECT_EQ(Launch(2), Launched::kCapturing);
  cuda_->capture_implicit = false;
  EXPECT_THAT(Calls(), IsEmpty());
  EXPECT_EQ(Launch(3), Launched::kYes);
  EXPECT_THAT(Poll(), ElementsAre(3));
}

TEST_F(DeviceNumbersTest, DrainWaits) {
  cuda_->holds = true;
  for (const int ticket : {1, 2}) EXPECT_EQ(Launch(ticket), Launched::kYes);
  std::thread later([&] {
    usleep(20'000);
    cuda_->release(&streams_[0], SIZE_MAX);
  });
  EXPECT_THAT(Drain(60), ElementsAre(1, 2));
  later.join();
  EXPECT_EQ(Launch(3), Launched::kYes);
  EXPECT_THAT(Drain(0.01), ElementsAre(-3));
}

TEST_F(DeviceNumbersTest, LostBuffersAreNoticed) {
  cuda_->loses_copies = true;
  EXPECT_EQ(Launch(1), Launched::kYes);
  cuda_->loses_copies = false;
  EXPECT_EQ(Launch(2), Launched::kYes);
  std::vector<int> visited;
  for (int i = 0; i < 1000 && visited.empty(); ++i) visited = Poll();
  EXPECT_THAT(visited, ElementsAre(-1, 2));
  cuda_->loses_copies = true;
  EXPECT_EQ(Launch(3), Launched::kYes);
  EXPECT_THAT(Drain(60), ElementsAre(-3));
}

TEST_F(DeviceNumbersTest, AsksEventsRarely) {
  cuda_->holds = true;
  EXPECT_EQ(Launch(1), Launched::kYes);
  for (int i = 0; i < 200; ++i) EXPECT_THAT(Poll(), IsEmpty());
  EXPECT_EQ(std::count(cuda_->calls.begin(), cuda_->calls.end(), "query"), 0);
}

TEST_F(DeviceNumbersTest, AFailureTurnsItOff) {
  cuda_->holds = true;
  EXPECT_EQ(Launch(1), Launched::kYes);
  cuda_->launch_error = 700;
  EXPECT_EQ(Launch(2), Launched::kOff);
  EXPECT_EQ(Launch(3), Launched::kOff);
  EXPECT_THAT(std::string(device_.numbers.Failure(0).message()),
              HasSubstr("cuLaunchKernel: CUDA_ERROR_ILLEGAL_ADDRESS"));
  EXPECT_THAT(Poll(), ElementsAre(-1));
}

TEST_F(DeviceNumbersTest, AnErrorOfTheProgramTurnsItOff) {
  for (const int ticket : {1, 2}) EXPECT_EQ(Launch(ticket), Launched::kYes);
  cuda_->event_error = 710;
  EXPECT_THAT(Poll(), ElementsAre(-1, -2));
  cuda_->event_error = 0;
  EXPECT_EQ(Launch(3), Launched::kOff);
  EXPECT_FALSE(device_.numbers.Failure(0).ok());
}

TEST_F(DeviceNumbersTest, DevicesAreApart) {
  EXPECT_EQ(Launch(1, 0, 1), Launched::kOff);
  EXPECT_TRUE(device_.numbers.Prepare(1).ok());
  EXPECT_EQ(Launch(2, 0, 1), Launched::kYes);
  EXPECT_THAT(Poll(), ElementsAre(2));
  EXPECT_FALSE(device_.numbers.Prepare(7).ok());
  EXPECT_EQ(Launch(3, 0, 7), Launched::kOff);
}

TEST_F(DeviceNumbersTest, AllocatesBeforeTheFirstLaunchAlone) {
  const size_t device_bytes = cuda_->device_bytes, host_bytes = cuda_->host_bytes;
  EXPECT_LT(device_bytes, 27'000'000u);
  EXPECT_LT(host_bytes, 50'000u);
  EXPECT_TRUE(device_.numbers.Prepare(0).ok());
  for (int i = 0; i < 2000; ++i) EXPECT_EQ(Launch(i), Launched::kYes);
  Poll();
  EXPECT_EQ(cuda_->device_bytes, device_bytes);
  EXPECT_EQ(cuda_->host_bytes, host_bytes);
}

TEST_F(DeviceNumbersTest, WhatTheKernelCannotRead) {
  const std::vector<int64_t> sizes(40, 2), strides(40, 3), huge = {int64_t{1} << 40, int64_t{1} << 20};
  EXPECT_EQ(device_.numbers.Launch({ElementType::kBool, 0, sizes, strides, 0, nullptr}, 1), Launched::kUnsupported);
  EXPECT_EQ(device_.numbers.Launch({ElementType::kBool, 0, huge, huge, 0, nullptr}, 1), Launched::kUnsupported);
  EXPECT_THAT(Poll(), IsEmpty());
}

// A fork can't use CUDA, and may have been made while another thread held the lock.
TEST_F(DeviceNumbersTest, AForkForgets) {
  cuda_->holds = true;
  EXPECT_EQ(Launch(1), Launched::kYes);
  const pid_t child = fork();
  if (child == 0) {
    const size_t calls = cuda_->calls.size();
    cuda_->release(&streams_[0], SIZE_MAX);
    int visits = 0;
    const auto count = [&](uint64_t, const Numbers*) { ++visits; };
    device_.numbers.Poll(count);
    device_.numbers.Drain(count, 60);
    const bool off = Launch(2) == Launched::kOff && !device_.numbers.Prepare(0).ok() && device_.numbers.Failure(0).ok();
    _exit(off && visits == 0 && cuda_->calls.size() == calls ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  cuda_->release(&streams_[0], SIZE_MAX);
  EXPECT_THAT(Poll(), ElementsAre(1));
}

TEST_F(DeviceNumbersTest, ThreadsShareIt) {
  std::atomic<int> visited{0}, launched{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 300; ++i) {
        if (Launch(i, t) == Launched::kYes) ++launched;
        device_.numbers.Poll([&](uint64_t, const Numbers* numbers) { visited += numbers != nullptr; });
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  device_.numbers.Drain([&](uint64_t, const Numbers* numbers) { visited += numbers != nullptr; }, 60);
  EXPECT_EQ(visited, launched);
  EXPECT_EQ(launched, 900);
}

// As wheels of PyTorch for CUDA 13 have it, and as those that bring their own.
TEST(CudaLibrariesTest, FindsNvrtcBesideTorch) {
  namespace fs = std::filesystem;
  const fs::path root = fs::path(testing::TempDir()) / "site-packages";
  fs::remove_all(root);
  for (const char* const folder : {"torch/lib", "nvidia/cu13/lib"}) fs::create_directories(root / folder);
  const fs::path torch = root / "torch/lib/libc10_cuda.so";
  fs::copy_file(fs::canonical(kStandInPath), torch);
  for (const char* const name :
       {"libnvrtc.so.13", "libnvrtc.alt.so.13", "libnvrtc-builtins.so.13.0", "libcublas.so.13"}) {
    std::ofstream(root / "nvidia/cu13/lib" / name) << "no library";
  }
  fs::copy_file(fs::canonical(kStandInPath), root / "torch/lib/libnvrtc-672ee683.so.11.2");
  void* const library = dlopen(torch.c_str(), RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(library, nullptr) << dlerror();
  const std::vector<std::string> names = NvrtcNames(dlsym(library, "stand_in_cuda"));
  ASSERT_EQ(names.size(), 5u);
  EXPECT_TRUE(names[0].ends_with("torch/lib/./libnvrtc-672ee683.so.11.2"));
  EXPECT_TRUE(names[1].ends_with("nvidia/cu13/lib/libnvrtc.so.13"));
  EXPECT_THAT(std::vector<std::string>(names.begin() + 2, names.end()),
              ElementsAre("libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so.11.2"));
  EXPECT_TRUE(Nvrtc::Load({names[1], names[0]}).ok());
}

// Why a device's numbers are off.
std::string Refusal(StandInDevice* device) { return std::string(device->numbers.Prepare(0).message()); }

TEST(DeviceNumbersPrepareTest, CompilesForTheDevice) {
  const std::pair<int, const char*> targets[] = {{90, "sm_90"}, {86, "sm_80"}, {80, "sm_80"}, {120, "compute_90"}};
  for (const auto& [capability, target] : targets) {
    StandInDevice device;
    device.cuda->capability = capability;
    EXPECT_EQ(Refusal(&device), "");
    EXPECT_THAT(device.cuda->calls[0], HasSubstr(std::string("--gpu-architecture=") + target + " "));
  }
  StandInDevice old;
  old.cuda->capability = 52;
  EXPECT_EQ(Refusal(&old), "NVRTC knows no device as old as 5.2: its oldest is 7.5");
}

TEST(DeviceNumbersPrepareTest, Failures) {
  {
    StandInDevice device;
    device.cuda->fails_to_compile = true;
    const std::string expected = "NVRTC cannot compile the kernel (6): numbers_kernel.cu(7): error: too new";
    EXPECT_EQ(Refusal(&device), expected);
    device.cuda->fails_to_compile = false;
    EXPECT_EQ(Refusal(&device), expected);
    EXPECT_EQ(device.cuda->calls.size(), 1u);
  }
  {
    StandInDevice device;
    device.cuda->active = false;
    EXPECT_EQ(Refusal(&device), "the program doesn't use the device");
    EXPECT_THAT(device.cuda->calls, IsEmpty());
  }
  {
    StandInDevice device;
    device.cuda->computes_wrong = true;
    EXPECT_EQ(Refusal(&device), "the device computes other numbers than the CPU");
  }
  {
    StandInDevice device;
    device.cuda->loses_copies = true;
    EXPECT_EQ(Refusal(&device), "the device computes other numbers than the CPU");
  }
  {
    StandInDevice device;
    device.cuda->capturing = true;
    EXPECT_EQ(Refusal(&device), "a graph is being captured");
    EXPECT_THAT(device.cuda->calls, IsEmpty());
    device.cuda->capturing = false;
    EXPECT_EQ(Refusal(&device), "");
  }
  DeviceNumbers no_driver({"/nonexistent/libcuda.so.1", {}});
  EXPECT_THAT(std::string(no_driver.Prepare(0).message()), HasSubstr("/nonexistent/libcuda.so.1"));
  DeviceNumbers no_nvrtc({kStandInPath, {"/nonexistent/libnvrtc.so.12"}});
  EXPECT_THAT(std::string(no_nvrtc.Prepare(0).message()), HasSubstr("no NVRTC is found: /nonexistent"));
}

}  // namespace
}  // namespace torchtrace::torch_dialect
