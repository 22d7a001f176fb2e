// Notes on tensors in the memory of CUDA devices, whose numbers come later than the call (device_numbers.h).

#ifndef TORCHTRACE_DIALECTS_TORCH_DESCRIBE_DEVICE_NOTES_H_
#define TORCHTRACE_DIALECTS_TORCH_DESCRIBE_DEVICE_NOTES_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "dialects/torch/device_numbers/device_numbers.h"
#include "dialects/torch/numbers/element_type.h"
#include "serialize/model/config_builder.h"
#include "serialize/model/tensor_notes.h"
#include "tracer/record/thread_recorder.h"

namespace torchtrace::torch_dialect {

// Elements that a device reads: for all notes that show their numbers.
class DeviceRead {
 private:
  friend class DeviceNotes;
  struct Note {
    EnteredCall call;
    LaterOf of;
    uint64_t position;
    uint64_t shape_seed;
  };
  uint64_t shape_seed_ = 0;
  // With the lock of DeviceNotes.
  bool lost_ = false;
  std::optional<TensorNote::Numbers> numbers_;  // with the shape as it was read
  std::vector<Note> waiting_;
};

// The numbers of a tensor of some shape whose elements are read.
struct LaterNumbers {
  std::shared_ptr<DeviceRead> read = {};
  uint64_t shape_seed = 0;  // fingerprint.h

  // Once they have arrived.
  std::optional<TensorNote::Numbers> Arrived() const;
};

// Has the tensor read on its device's current stream. Null: it can't be; that was counted.
std::shared_ptr<DeviceRead> ReadOnDevice(ElementType type, const void* first, std::span<const int64_t> sizes,
                                         std::span<const int64_t> strides, FlippedSigns flipped, int device);

// The tensor that `config` has described last has these numbers: they are noted on the call that is described
// when they arrive.
void NoteLater(const LaterNumbers& numbers, ConfigBuilder* config);

// Records what has arrived, if anything is under way.
void PollDeviceNotes();

// Until EndDeviceNotes, which waits for what is under way, calls may have such notes.
void BeginDeviceNotes();
void EndDeviceNotes();

// For tests: in place of the process's CUDA and of the current stream of a device.
// False: it has none.
using StreamOfDevice = bool(int device, void** stream);
void UseDeviceNumbers(DeviceNumbers* numbers, StreamOfDevice* stream_of);

}  // namespace torchtrace::torch_dialect

#endif  // TORCHTRACE_DIALECTS_TORCH_DESCRIBE_DEVICE_NOTES_H_
