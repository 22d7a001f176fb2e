// A device of PyTorch's kind for other projects' devices, for other_device.py. Its memory has each byte inverted, so
// that only the device's own copies show what it holds. Those of float64 to the CPU fail.

#include <ATen/EmptyTensor.h>
#include <ATen/core/Tensor.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <ATen/native/CPUFallback.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/view_native.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <c10/core/impl/alloc_cpu.h>
#include <torch/library.h>

constexpr auto kDevice = c10::DeviceType::PrivateUse1;
constexpr c10::DispatchKeySet kKeys(c10::DispatchKey::PrivateUse1);
C10_REGISTER_GUARD_IMPL(PrivateUse1, c10::impl::NoOpDeviceGuardImpl<kDevice>);

struct Allocator final : c10::Allocator {
  c10::DataPtr allocate(size_t bytes) override {
    void* const memory = c10::alloc_cpu(bytes);
    return {memory, memory, &c10::free_cpu, c10::Device(kDevice, 0)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &c10::free_cpu; }
  void copy_data(void* to, const void* from, size_t bytes) const override { default_copy_data(to, from, bytes); }
} g_allocator;
REGISTER_ALLOCATOR(kDevice, &g_allocator);

struct Hooks final : at::PrivateUse1HooksInterface {
  bool isBuilt() const { return true; }
  bool isAvailable() const { return true; }
  bool hasPrimaryContext(c10::DeviceIndex) const { return true; }
} g_hooks;
[[maybe_unused]] const bool g_registered = (at::RegisterPrivateUse1HooksInterface(&g_hooks), true);

at::Tensor Empty(c10::IntArrayRef sizes, std::optional<at::ScalarType> dtype, std::optional<at::Layout>,
                 std::optional<at::Device>, std::optional<bool>, std::optional<at::MemoryFormat> format) {
  return at::detail::empty_generic(sizes, &g_allocator, kKeys, c10::dtype_or_default(dtype), format);
}
at::Tensor EmptyStrided(c10::IntArrayRef sizes, c10::IntArrayRef strides, std::optional<at::ScalarType> dtype,
                        std::optional<at::Layout>, std::optional<at::Device>, std::optional<bool>) {
  return at::detail::empty_strided_generic(sizes, strides, &g_allocator, kKeys, c10::dtype_or_default(dtype));
}

// A tensor on the device; nothing happens to others.
void InvertOn(const at::Tensor& tensor) {
  if (!tensor.is_privateuseone()) return;
  auto* const memory = static_cast<unsigned char*>(tensor.storage().mutable_data());
  for (size_t i = 0; i < tensor.storage().nbytes(); ++i) memory[i] ^= 0xff;
}

at::Tensor CopyFrom(const at::Tensor& from, const at::Tensor& to, bool) {
  TORCH_CHECK(to.is_privateuseone() || from.scalar_type() != at::kDouble, "this device keeps its doubles\nfor itself");
  const auto shown = [](const at::Tensor& tensor) {
    if (!tensor.is_privateuseone()) return tensor;
    return at::from_blob(tensor.data_ptr(), tensor.sizes(), tensor.strides(), tensor.options().device(at::kCPU));
  };
  InvertOn(from);
  InvertOn(to);
  shown(to).copy_(shown(from));
  InvertOn(from);
  InvertOn(to);
  return to;
}
at::Tensor CopyFromAndResize(const at::Tensor& from, const at::Tensor& to) { return CopyFrom(from, to, false); }
at::Tensor& Zero(at::Tensor& tensor) {
  std::memset(tensor.data_ptr(), 0xff, tensor.storage().nbytes());
  return tensor;
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, library) {
  library.impl("empty.memory_format", &Empty);
  library.impl("empty_strided", &EmptyStrided);
  library.impl("_copy_from", &CopyFrom);
  library.impl("_copy_from_and_resize", &CopyFromAndResize);
  library.impl("zero_", &Zero);
  library.impl("view", &at::native::view);
  library.impl("as_strided", &at::native::as_strided_tensorimpl);
}
void Fallback(const c10::OperatorHandle& op, torch::jit::Stack* stack) { at::native::cpu_fallback(op, stack); }
TORCH_LIBRARY_IMPL(_, PrivateUse1, library) {
  library.fallback(torch::CppFunction::makeFromBoxedFunction<&Fallback>());
}
