#include "dialects/torch/describe/copied_numbers.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/from_blob.h>
#include <ATen/record_function.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/util/strides.h>
#include <torch/csrc/Exceptions.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <memory>
#include <string>

#include "dialects/torch/describe/describe.h"
#include "dialects/torch/numbers/noted_numbers.h"
#include "dialects/torch/numbers/numbers.h"
#include "tracer/record/recorder.h"

namespace torchtrace::torch_dialect {
namespace {

std::atomic<uint64_t> g_failed_devices{0};  // bits, by the kind of device

uint64_t KindOf(const c10::TensorImpl& impl) {
  return uint64_t{1} << static_cast<unsigned>(impl.unsafe_storage().device_type());
}

void TurnOff(const c10::TensorImpl& impl, std::string why) {
  if ((g_failed_devices.fetch_or(KindOf(impl)) & KindOf(impl)) != 0) return;
  why.resize(std::min(why.size(), why.find('\n')));
  Recorder::Get()->NoteNotSeen("numbers of tensors on " + DeviceName(impl.unsafe_storage().device()) +
                               ": they can't be copied to the CPU: " + why);
}

// On this thread operators go right to the kernels of their devices.
class KernelsAlone {
 private:
  static c10::DispatchKeySet AllOtherKeys() {
    const c10::DispatchKeySet all(c10::DispatchKeySet::FULL);
    const c10::DispatchKeySet functionalities(c10::DispatchKeySet::RAW, all.raw_repr() & ~c10::full_backend_mask);
    return functionalities - c10::DispatchKeySet(c10::DispatchKey::Dense);
  }

  const at::DisableRecordFunctionGuard without_profilers_;
  const c10::impl::ForceDispatchKeyGuard keys_{c10::DispatchKeySet(), AllOtherKeys()};
};

}  // namespace

bool CanBeCopied(const c10::TensorImpl& impl) {
  return impl.unsafe_storage().device_type() != c10::kMeta && impl.key_set().has(c10::DispatchKey::Dense) &&
         !impl.key_set().has_any(c10::DispatchKeySet({c10::DispatchKey::Conjugate, c10::DispatchKey::Negative})) &&
         (g_failed_devices.load(std::memory_order_relaxed) & KindOf(impl)) == 0;
}

std::optional<TensorNote::Numbers> NumbersOfCopy(const c10::TensorImpl& impl, ElementType type) {
  const c10::IntArrayRef sizes = impl.sizes_default();
  const c10::DimVector contiguous = c10::contiguous_strides(sizes);
  // As the tensor has them, if all of that memory is its elements: most devices then copy it as it is.
  const c10::IntArrayRef strides =
      impl.is_non_overlapping_and_dense_default() ? impl.strides_default() : c10::IntArrayRef(contiguous);
  // Not from PyTorch's allocator, whose counts the program may read.
  const std::unique_ptr<void, decltype(&std::free)> memory(
      std::malloc(static_cast<size_t>(impl.numel_default()) * ElementSize(type)), &std::free);
  if (memory == nullptr) return std::nullopt;
  try {
    const KernelsAlone kernels_alone;
    const auto tensor = at::Tensor(c10::intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>::reclaim_copy(
        const_cast<c10::TensorImpl*>(&impl)));
    at::from_blob(memory.get(), sizes, strides, at::TensorOptions(impl.dtype()).device(c10::kCPU)).copy_(tensor);
  } catch (const c10::Error& error) {
    TurnOff(impl, error.what_without_backtrace());
    return std::nullopt;
  } catch (python_error& error) {  // of a kernel that is written in Python
    error.persist();
    TurnOff(impl, error.what());
    return std::nullopt;
  } catch (const std::exception& error) {
    TurnOff(impl, error.what());
    return std::nullopt;
  }
  return NotedNumbers(NumbersOf(type, memory.get(), {sizes.data(), sizes.size()}, {strides.data(), strides.size()}));
}

void BeginCopiedNumbers() { g_failed_devices = 0; }

}  // namespace torchtrace::torch_dialect
