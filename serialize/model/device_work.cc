#include "serialize/model/device_work.h"

#include "serialize/base/bytes.h"
#include "serialize/base/monotonic_clock.h"
#include "serialize/base/saturating.h"

namespace torchtrace {

const char* DeviceWorkName(DeviceWork::Kind kind) {
  return kind == DeviceWork::kKernel ? "kernel" : kind == DeviceWork::kCopy ? "memcpy" : "memset";
}

void AppendDeviceWork(const DeviceWork& work, std::string* bytes) {
  AppendVarint(work.kind, bytes);
  AppendVarint(work.device, bytes);
  for (const uint64_t number :
       {work.stream, static_cast<uint64_t>(work.start_ns), static_cast<uint64_t>(work.duration_ns), work.name,
        work.bytes, work.correlation, static_cast<uint64_t>(work.launched_before_ns),
        static_cast<uint64_t>(work.launch_ns)}) {
    AppendVarint(number, bytes);
  }
}

void ReadDeviceWork(std::string_view bytes, std::vector<DeviceWork>* work) {
  work->clear();
  ByteReader reader(bytes);
  while (reader.offset() < bytes.size()) {
    uint64_t kind, device, start, duration, before, launch;
    DeviceWork one;
    if (!reader.Varint(&kind) || !reader.Varint(&device) || !reader.Varint(&one.stream) || !reader.Varint(&start) ||
        !reader.Varint(&duration) || !reader.Varint(&one.name) || !reader.Varint(&one.bytes) ||
        !reader.Varint(&one.correlation) || !reader.Varint(&before) || !reader.Varint(&launch)) {
      return;
    }
    if (kind >= DeviceWork::kKinds || device >= DeviceWork::kMostDevices || start > kMostMonotonicNs ||
        duration > DeviceWork::kMostNs || before > DeviceWork::kMostNs || launch > DeviceWork::kMostNs) {
      return;
    }
    one.kind = static_cast<DeviceWork::Kind>(kind);
    one.device = static_cast<uint8_t>(device);
    one.start_ns = static_cast<int64_t>(start);
    one.duration_ns = static_cast<int64_t>(duration);
    one.launched_before_ns = static_cast<int64_t>(before);
    one.launch_ns = static_cast<int64_t>(launch);
    work->push_back(one);
  }
}

int64_t DeviceNs(std::string_view bytes, std::vector<DeviceWork>* scratch) {
  ReadDeviceWork(bytes, scratch);
  int64_t ns = 0;
  for (const DeviceWork& work : *scratch) AddSaturating(work.duration_ns, &ns);
  return ns;
}

}  // namespace torchtrace
