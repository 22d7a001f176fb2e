// A stand-in for libcuda and libnvrtc: device memory is the process's, kernels run on the CPU. What it is to do, and
// what it was asked for, is in a StandInCuda, which the library's stand_in_cuda() returns.

#ifndef TORCHTRACE_DIALECTS_TORCH_DEVICE_NUMBERS_TESTING_STAND_IN_CUDA_H_
#define TORCHTRACE_DIALECTS_TORCH_DEVICE_NUMBERS_TESTING_STAND_IN_CUDA_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace torchtrace::torch_dialect {

struct StandInCuda {
  // What to do.
  bool holds = false;  // work stays in its stream, until Release
  bool fails_to_compile = false;
  bool computes_wrong = false;
  bool loses_copies = false;  // to the host
  bool active = true;         // the program uses the device
  bool capturing = false;     // of all streams
  bool capture_implicit = false;
  int launch_error = 0;  // of the next launches
  int event_error = 0;   // of queries
  int capability = 90;
  std::vector<int> known_capabilities = {75, 80, 90};

  // What it was asked for.
  std::vector<std::string> calls;  // `launch STREAM`, `copy STREAM`, `record STREAM`, `compile OPTIONS`, `query`
  size_t contexts = 0;             // that are pushed
  size_t unsafe_calls = 0;         // not in the relaxed capture mode, or in no context
  size_t device_bytes = 0;
  size_t host_bytes = 0;

  // Runs `count` operations of the stream.
  void (*release)(void* stream, size_t count) = nullptr;
};

}  // namespace torchtrace::torch_dialect

#endif  // TORCHTRACE_DIALECTS_TORCH_DEVICE_NUMBERS_TESTING_STAND_IN_CUDA_H_
