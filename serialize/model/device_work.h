// Work of a device that a call launched: kernels, copies and memsets, with the times at which they ran there.

#ifndef TORCHTRACE_SERIALIZE_MODEL_DEVICE_WORK_H_
#define TORCHTRACE_SERIALIZE_MODEL_DEVICE_WORK_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace torchtrace {

struct DeviceWork {
  // The numbers are those of the log.
  enum Kind : uint8_t { kKernel = 0, kCopy = 1, kMemset = 2 };
  static constexpr uint64_t kKinds = 3;
  static constexpr uint64_t kMostDevices = 256;
  // Two weeks: longer ones are damage.
  static constexpr uint64_t kMostNs = uint64_t{1} << 50;

  Kind kind = kKernel;
  uint8_t device = 0;
  uint64_t stream = 0;       // as the driver numbers it
  int64_t start_ns = 0;      // of CLOCK_MONOTONIC
  int64_t duration_ns = 0;   // at least 0
  uint64_t name = 0;         // of the process's names, from 1; 0: it has none
  uint64_t bytes = 0;        // of copies and memsets
  uint64_t correlation = 0;  // of the driver's call that launched it, as tools for CUDA show it
  // How long before start_ns the driver was called to launch it, and how long that took; 0: unknown.
  int64_t launched_before_ns = 0;
  int64_t launch_ns = 0;

  friend bool operator==(const DeviceWork&, const DeviceWork&) = default;
};

// "kernel", "memcpy", "memset".
const char* DeviceWorkName(DeviceWork::Kind kind);

void AppendDeviceWork(const DeviceWork& work, std::string* bytes);

// All that AppendDeviceWork has appended, up to what is malformed or of a kind that a later version has.
void ReadDeviceWork(std::string_view bytes, std::vector<DeviceWork>* work);

// How long that work took together. `scratch` only saves memory from being asked for.
int64_t DeviceNs(std::string_view bytes, std::vector<DeviceWork>* scratch);

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_MODEL_DEVICE_WORK_H_
