// DeviceNumbers with the stand-in driver.

#ifndef TORCHTRACE_DIALECTS_TORCH_DEVICE_NUMBERS_TESTING_STAND_IN_DEVICE_H_
#define TORCHTRACE_DIALECTS_TORCH_DEVICE_NUMBERS_TESTING_STAND_IN_DEVICE_H_

#include <dlfcn.h>

#include <string>

#include "dialects/torch/device_numbers/device_numbers.h"
#include "dialects/torch/device_numbers/testing/stand_in_cuda.h"

namespace torchtrace::torch_dialect {

inline constexpr char kStandInPath[] = "dialects/torch/device_numbers/testing/libstand_in_cuda.so";

// The library's state, as new.
inline StandInCuda* NewStandIn() {
  using Get = StandInCuda*();
  void* const library = dlopen(kStandInPath, RTLD_NOW | RTLD_LOCAL);
  auto* const state = reinterpret_cast<Get*>(dlsym(library, "stand_in_cuda"))();
  auto* const release = state->release;
  *state = {};
  state->release = release;
  return state;
}

struct StandInDevice {
  StandInCuda* const cuda = NewStandIn();
  DeviceNumbers numbers{{kStandInPath, {"/nonexistent/libnvrtc.so", kStandInPath}}};
};

}  // namespace torchtrace::torch_dialect

#endif  // TORCHTRACE_DIALECTS_TORCH_DEVICE_NUMBERS_TESTING_STAND_IN_DEVICE_H_
