#include "dialects/torch/describe/device_notes.h"

#include <c10/core/Storage.h>
#include <c10/core/TensorImpl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "dialects/torch/describe/describe.h"
#include "dialects/torch/describe/nan_stop.h"
#include "dialects/torch/describe/tensor_notes.h"
#include "dialects/torch/device_numbers/testing/stand_in_device.h"
#include "nlohmann/json.hpp"
#include "serialize/log/log_trace.h"
#include "serialize/model/config.h"
#include "serialize/model/levels.h"
#include "tracer/record/recorder.h"
#include "tracer/record/thread_state.h"

namespace torchtrace::torch_dialect {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

int g_stream;
bool TheStream(int, void** stream) {
  *stream = &g_stream;
  return true;
}

// A tensor whose memory is the stand-in's.
class CudaTensor {
 public:
  explicit CudaTensor(float value) : data_(8, value) {
    const int64_t sizes[] = {4};
    c10::Storage storage(c10::Storage::use_byte_size_t(), 8 * sizeof(float),
                         c10::DataPtr(data_.data(), c10::Device(c10::kCUDA, 0)), nullptr, false);
    auto impl = c10::make_intrusive<c10::TensorImpl>(std::move(storage), c10::DispatchKeySet(c10::DispatchKey::CUDA),
                                                     caffe2::TypeMeta::Make<float>());
    impl->set_sizes_contiguous(sizes);
    tensor_ = at::Tensor(std::move(impl));
  }
  // As an operator does.
  void Write(float value) {
    std::fill(data_.begin(), data_.end(), value);
    tensor_.unsafeGetTensorImpl()->bump_version();
  }
  const at::Tensor& tensor() const { return tensor_; }

 private:
  std::vector<float> data_;
  at::Tensor tensor_;
};

void Describe(const std::string& api, const std::vector<const CudaTensor*>& tensors, ConfigBuilder* config,
              Elements elements = Elements::kRead) {
  config->Begin(ConfigBuilder::EncodeHead(2, api));
  config->Positional(tensors.size());
  for (const CudaTensor* const tensor : tensors) {
    config->SetElements(elements);
    DescribeTensor(tensor->tensor(), {}, config);
  }
  config->Keywords(0);
}

struct Calls {
  std::vector<const CudaTensor*> arguments = {};
  std::vector<const CudaTensor*> results = {};
  std::vector<const CudaTensor*> written = {};
  std::function<void()> inside = [] {};
};

std::vector<std::string> g_nans;  // of calls that are known to have made one when they end

// As level 2 does, with --stop-on-nan too.
bool Call(const std::string& api, const Calls& call) {
  SeenOnThread() = {};
  if (!t_thread.Enter([&](ConfigBuilder* config) { Describe(api, call.arguments, config); })) return false;
  NanCall nan{t_thread.recorder->LastEntered(), std::exchange(SeenOnThread().taken, {})};
  call.inside();
  SeenOnThread().made = {};
  t_thread.Leave([&](ConfigBuilder* config) {
    Describe(api, call.written, config, Elements::kWritten);
    config->KeepWritten();
    config->BeginResult(call.results.size());
    for (const CudaTensor* const tensor : call.results) {
      config->SetElements(Elements::kWritten);
      DescribeTensor(tensor->tensor(), {}, config);
    }
  });
  nan.made = std::exchange(SeenOnThread().made, {});
  nan.api = api;
  if (const auto made = JudgeNan(std::move(nan))) g_nans.push_back(NanMessage(*made));
  return true;
}

// What was known at the ends of calls, and what of earlier ones has come since.
std::vector<std::string> NansSoFar() {
  PollDeviceNotes();
  while (const auto made = NextNan()) g_nans.push_back(NanMessage(*made));
  return std::exchange(g_nans, {});
}

// In a process of its own: records what `body` calls, into the folder that it returns.
std::string Record(const std::function<void(StandInDevice*)>& body, RecorderOptions options = {},
                   bool prepares = true) {
  std::string folder = testing::TempDir() + "/device_notes_XXXXXX";
  folder = mkdtemp(folder.data());
  const pid_t child = fork();
  if (child == 0) {
    options.log_folder = folder;
    options.recording.levels = {kDispatchLevel};
    options.recording.numbers = WhichNumbers::kAll;
    options.recording.quiet = true;
    ResolveImplied(&options.recording);
    options.metadata_json = R"({"numbers":"all"})";
    if (!Recorder::Start(options).ok()) _exit(1);
    StandInDevice device;
    // With work that is held back it would wait for long.
    if (prepares && !device.numbers.Prepare(0).ok()) _exit(4);
    device.cuda->calls.clear();
    UseDeviceNumbers(&device.numbers, TheStream);
    TensorNotesHook hook(2, options.recording);
    if (!hook.Install().ok()) _exit(2);
    body(&device);
    hook.Uninstall();
    Recorder::Get()->Finish({.exit_code = 0});
    _exit(device.cuda->contexts == 0 && device.cuda->unsafe_calls == 0 && !testing::Test::HasFailure() ? 0 : 3);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  return folder;
}

// Each tensor's numbers that a call's record or a later one has, by call: `argument 0 = 1.5` (its mean); `later` before
// those that came later.
std::map<uint64_t, std::vector<std::string>> NumbersByCall(const std::string& folder) {
  const auto trace = OpenLogs(folder).value();
  const LaterNotesShown shown(trace.get());
  std::map<uint64_t, std::vector<std::string>> by_call;
  const absl::Status read = trace->Read([&](const CallRecord& record) {
    const auto add = [&](const char* what, std::string_view notes) {
      for (const TensorNote& note : ReadTensorNotes(notes)) {
        if (!note.numbers) continue;
        by_call[record.call].push_back(absl::StrCat(record.kind == CallRecord::kLater ? "later " : "", what, " ",
                                                    note.position, " = ", note.numbers->mean));
      }
    };
    add("argument", record.notes);
    add("result", record.result.notes);
    add("written", record.result.written);
    return absl::OkStatus();
  });
  EXPECT_TRUE(read.ok()) << read;
  EXPECT_THAT(trace->processes()[0].damage.sentences, IsEmpty());
  for (auto& [call, numbers] : by_call) std::sort(numbers.begin(), numbers.end());
  return by_call;
}

nlohmann::json EndOf(const std::string& folder) { return (*OpenLogs(folder).value()->processes()[0].metadata)["end"]; }

TEST(DeviceNotes, ComeLater) {
  const auto numbers = NumbersByCall(Record([](StandInDevice* device) {
    CudaTensor a(1), b(2), c(3);
    Call("aten::f", {.arguments = {&a, &b}, .results = {&c}});
    // An argument that was read before is not read again. Its numbers are there by now.
    const auto launches = [device] {
      return std::count_if(device->cuda->calls.begin(), device->cuda->calls.end(),
                           [](const std::string& call) { return call.starts_with("launch"); });
    };
    const auto before = launches();
    Call("aten::g", {.arguments = {&c}});
    EXPECT_EQ(launches(), before);
    device->cuda->holds = true;
    a.Write(5);
    Call("aten::h", {.arguments = {&b, &a}, .written = {&c}});
    Call("aten::h", {.arguments = {&a}});
    EXPECT_EQ(launches(), before + 2);
    device->cuda->release(&g_stream, SIZE_MAX);
  }));
  EXPECT_THAT(numbers.at(0), ElementsAre("later argument 0 = 1", "later argument 1 = 2", "later result 0 = 3"));
  EXPECT_THAT(numbers.at(1), ElementsAre("argument 0 = 3"));
  EXPECT_THAT(numbers.at(2), ElementsAre("argument 0 = 2", "later argument 1 = 5", "later written 0 = 3"));
  EXPECT_THAT(numbers.at(3), ElementsAre("later argument 0 = 5"));
}

// A view shows the same elements in another shape: they are read once, and its fingerprint is its own.
TEST(DeviceNotes, OfOtherShapes) {
  const std::string folder = Record([](StandInDevice* device) {
    device->cuda->holds = true;
    CudaTensor a(1);
    Call("aten::f", {.arguments = {&a}});
    const int64_t square[] = {2, 2};
    a.tensor().unsafeGetTensorImpl()->set_sizes_contiguous(square);
    Call("aten::g", {.arguments = {&a}});
    EXPECT_EQ(device->cuda->calls.size(), 3u);
    device->cuda->release(&g_stream, SIZE_MAX);
    Call("aten::h", {.arguments = {&a}});
  });
  const std::vector<float> ones(4, 1);
  const auto fingerprint = [&](const std::vector<int64_t>& sizes, const std::vector<int64_t>& strides) {
    return NumbersOf(ElementType::kFloat32, ones.data(), sizes, strides).fingerprint;
  };
  std::vector<uint64_t> fingerprints(3);
  const auto trace = OpenLogs(folder).value();
  const LaterNotesShown shown(trace.get());
  const absl::Status read = trace->Read([&](const CallRecord& record) {
    for (const TensorNote& note : ReadTensorNotes(record.notes)) {
      if (note.numbers) fingerprints.at(record.call) = note.numbers->fingerprint;
    }
    return absl::OkStatus();
  });
  EXPECT_TRUE(read.ok()) << read;
  EXPECT_THAT(fingerprints,
              ElementsAre(fingerprint({4}, {1}), fingerprint({2, 2}, {2, 1}), fingerprint({2, 2}, {2, 1})));
}

// The notes are of the call around, not of the last one that was entered.
TEST(DeviceNotes, OfCallsAroundOthers) {
  const auto numbers = NumbersByCall(Record([](StandInDevice*) {
    CudaTensor a(1), b(2), c(3), d(4);
    Call("aten::outer", {.arguments = {&a}, .results = {&b}, .inside = [&] {
                           Call("aten::inner", {.arguments = {&c}, .results = {&d}});
                           Call("aten::last", {.arguments = {&d}});
                         }});
  }));
  EXPECT_THAT(numbers.at(0), ElementsAre("later argument 0 = 1", "later result 0 = 2"));
  EXPECT_THAT(numbers.at(1), ElementsAre("later argument 0 = 3", "later result 0 = 4"));
  EXPECT_THAT(numbers.at(2), ElementsAre("argument 0 = 4"));
}

TEST(DeviceNotes, OfCallsThatAreLeftOut) {
  RecorderOptions options;
  options.recording.exclude = {"aten::no"};
  const auto numbers = NumbersByCall(Record(
      [](StandInDevice*) {
        CudaTensor a(1), b(2);
        EXPECT_FALSE(Call("aten::no", {.arguments = {&a}}));
        Call("aten::yes", {.arguments = {&b}});
      },
      options));
  ASSERT_EQ(numbers.size(), 1u);
  EXPECT_THAT(numbers.at(0), ElementsAre("later argument 0 = 2"));
}

// A description that is repeated launches, and notes, once.
TEST(DeviceNotes, WithFirstNotes) {
  RecorderOptions options;
  options.recording.int_ranges = WhichCalls::kFirst;
  const auto numbers = NumbersByCall(Record(
      [](StandInDevice* device) {
        device->cuda->holds = true;
        CudaTensor a(1);
        t_thread.Enter([&](ConfigBuilder* config) {
          Describe("aten::f", {&a}, config);
          config->SetElements(Elements::kRead);
          config->OfferFirstNotes();
        });
        t_thread.Leave();
        EXPECT_EQ(device->cuda->calls.size(), 3u);
        device->cuda->release(&g_stream, SIZE_MAX);
      },
      options));
  EXPECT_THAT(numbers.at(0), ElementsAre("later argument 0 = 1"));
}

// Like the backward thread's, which waits when the program ends.
TEST(DeviceNotes, OfOtherThreads) {
  const auto numbers = NumbersByCall(Record([](StandInDevice* device) {
    CudaTensor a(1), b(2);
    Call("aten::main", {.arguments = {&a}});
    std::atomic<bool> called{false};
    std::thread([&] {
      device->cuda->holds = true;
      Call("aten::backward", {.arguments = {&b}});
      called = true;
      pause();
    }).detach();
    while (!called) usleep(1000);
    device->cuda->release(&g_stream, SIZE_MAX);
    // It arrives here, and isn't this thread's.
    Call("aten::main", {.arguments = {&a}});
  }));
  EXPECT_THAT(numbers.at(0), ElementsAre("later argument 0 = 1"));
  EXPECT_THAT(numbers.at(1), ElementsAre("later argument 0 = 2"));
  EXPECT_THAT(numbers.at(2), ElementsAre("argument 0 = 1"));
}

TEST(DeviceNotes, WhatIsLostIsCounted) {
  const std::string folder = Record(
      [](StandInDevice* device) {
        std::vector<std::unique_ptr<CudaTensor>> tensors;
        for (size_t i = 0; i < DeviceNumbers::kSlots + 3; ++i) tensors.push_back(std::make_unique<CudaTensor>(1));
        device->cuda->capturing = true;
        Call("aten::f", {.arguments = {tensors[0].get()}});
        device->cuda->capturing = false;
        Call("aten::f", {.arguments = {tensors[0].get()}});
        device->cuda->capturing = true;
        Call("aten::f", {.arguments = {tensors[1].get()}});
        device->cuda->capturing = false;
        device->cuda->holds = true;
        for (const auto& tensor : tensors) {
          tensor->Write(2);
          Call("aten::f", {.arguments = {tensor.get()}});
        }
        device->cuda->release(&g_stream, SIZE_MAX);
      },
      {}, /*prepares=*/false);
  const nlohmann::json end = EndOf(folder);
  EXPECT_EQ(end["cut"], nlohmann::json({{"numbers of tensors on a GPU in calls that a CUDA graph captures", 2},
                                        {"numbers of tensors on a GPU while too many were under way", 3}}));
  EXPECT_EQ(NumbersByCall(folder).size(), DeviceNumbers::kSlots + 1);
}

TEST(DeviceNotes, AFailureIsReportedOnce) {
  const std::string folder = Record(
      [](StandInDevice* device) {
        device->cuda->fails_to_compile = true;
        CudaTensor a(1), b(2);
        Call("aten::f", {.arguments = {&a}, .results = {&b}});
        Call("aten::f", {.arguments = {&b}, .results = {&a}});
        EXPECT_EQ(device->cuda->calls.size(), 1u);
      },
      {}, /*prepares=*/false);
  EXPECT_EQ(EndOf(folder)["not_seen"],
            nlohmann::json({"numbers of tensors on cuda:0: NVRTC cannot compile the kernel (6): numbers_kernel.cu(7): "
                            "error: too new"}));
  EXPECT_THAT(NumbersByCall(folder), IsEmpty());
}

RecorderOptions StoppingOnNan() {
  RecorderOptions options;
  options.recording.stop_on_nan = true;
  return options;
}

TEST(DeviceNotes, TheCallThatMadeANanIsKnownOnceItsNumbersCome) {
  const std::string folder = Record(
      [](StandInDevice* device) {
        CudaTensor a(1), b(kNan), c(kNan), d(kNan), e(kNan);
        device->cuda->holds = true;
        Call("aten::no", {.arguments = {&a}, .results = {&a}});
        Call("aten::f", {.arguments = {&a}, .results = {&b}});
        Call("aten::spreads", {.arguments = {&a, &b}, .written = {&c}});
        Call("aten::g", {.written = {&d}});
        EXPECT_THAT(NansSoFar(), IsEmpty());
        device->cuda->release(&g_stream, SIZE_MAX);
        EXPECT_THAT(NansSoFar(), ElementsAre(StartsWith("aten::f (call 1 of thread 0) made a NaN: "),
                                             StartsWith("aten::g (call 3 of thread 0) made a NaN: ")));
        Call("aten::spreads", {.arguments = {&b}, .results = {&e}});
        device->cuda->release(&g_stream, SIZE_MAX);
        EXPECT_THAT(NansSoFar(), IsEmpty());
      },
      StoppingOnNan());
  EXPECT_EQ(EndOf(folder)["exit_code"], 0);
}

// Of what can't be known, nothing is said.
TEST(DeviceNotes, ACallWhoseArgumentsAreLostMadeNoNan) {
  const std::string folder = Record(
      [](StandInDevice* device) {
        CudaTensor a(1), b(kNan);
        device->cuda->loses_copies = true;
        Call("aten::f",
             {.arguments = {&a}, .results = {&b}, .inside = [device] { device->cuda->loses_copies = false; }});
        EXPECT_THAT(NansSoFar(), IsEmpty());
      },
      StoppingOnNan());
  EXPECT_EQ(EndOf(folder)["exit_code"], 0);
}

TEST(DeviceNotes, ANanThatComesAtTheEndChangesTheExitCode) {
  const std::string folder = Record(
      [](StandInDevice* device) {
        CudaTensor a(1), b(kNan);
        device->cuda->holds = true;
        Call("aten::f", {.arguments = {&a}, .results = {&b}});
        EXPECT_THAT(NansSoFar(), IsEmpty());
        device->cuda->release(&g_stream, SIZE_MAX);
      },
      StoppingOnNan());
  EXPECT_EQ(EndOf(folder)["exit_code"], 1);
}

// The parent keeps what is under way, and the child's calls have none.
TEST(DeviceNotes, AfterAFork) {
  const std::string folder = Record([](StandInDevice* device) {
    device->cuda->holds = true;
    CudaTensor a(1), b(2);
    Call("aten::f", {.arguments = {&a}, .inside = [&] {
                       const pid_t child = fork();
                       if (child == 0) {
                         Call("aten::in_child", {.arguments = {&b}});
                         Recorder::Get()->Finish({.exit_code = 0});
                         _exit(0);
                       }
                       waitpid(child, nullptr, 0);
                     }});
    device->cuda->release(&g_stream, SIZE_MAX);
  });
  const auto numbers = NumbersByCall(folder);
  ASSERT_EQ(numbers.size(), 1u);
  EXPECT_THAT(numbers.at(0), ElementsAre("later argument 0 = 1"));
}

}  // namespace
}  // namespace torchtrace::torch_dialect
