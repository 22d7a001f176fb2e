#include <c10/core/TensorImpl.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <optional>
#include <string>

#include "dialects/torch/describe/describe.h"
#include "dialects/torch/describe/tensor_elements.h"
#include "dialects/torch/describe/tensor_notes.h"

namespace torchtrace::torch_dialect {
namespace {

constexpr auto kOtherLayoutKeys = c10::sparse_ks | c10::sparse_csr_ks | c10::mkldnn_ks;

c10::Layout LayoutOf(const c10::TensorImpl& tensor) {
  const c10::DispatchKeySet keys = tensor.key_set();
  if (!keys.has_any(kOtherLayoutKeys)) return c10::kStrided;
  if (keys.has_any(c10::sparse_ks)) return c10::kSparse;
  // Only the tensor knows which compressed layout it has; without a custom layout policy the answer comes from C++. A
  // functorch wrapper has no answer.
  if (!keys.has(c10::DispatchKey::Python) && !keys.has_any(c10::functorch_transforms_ks)) return tensor.layout();
  return keys.has_any(c10::mkldnn_ks) ? c10::kMkldnn : c10::kSparseCsr;
}

// typeMetaToScalarType would throw for a type without a torch.dtype. The number of ScalarType::Undefined depends on the
// version of torch.
c10::ScalarType ScalarTypeOf(const c10::TensorImpl& tensor) {
  const caffe2::TypeMeta type = tensor.dtype();
  return type.isScalarType() ? c10::typeMetaToScalarType(type) : static_cast<c10::ScalarType>(-1);
}

void AppendDims(c10::SymIntArrayRef dims, ByteBuffer* out) {
  ConfigBuilder::Writer values(out);
  values.Rank(dims.size());
  for (const c10::SymInt& dim : dims) {
    if (dim.is_heap_allocated()) {
      values.SymbolicDim();
    } else {
      values.Dim(dim.as_int_unchecked());
    }
  }
}

void AppendDims(c10::IntArrayRef dims, ByteBuffer* out) { ConfigBuilder::Writer(out).Dims(dims.data(), dims.size()); }

struct Dtype {
  std::string name;
  std::string usual_tensor;  // the first bytes of one on the CPU, strided and contiguous
};

// Uses the table of the running torch, which may have more dtypes than the version that this was built with.
Dtype MakeDtype(c10::ScalarType type) {
  Dtype made = {"unknown", ""};
  try {
    made.name = c10::getDtypeNames(type).first;
  } catch (const c10::Error&) {
    // It has no torch.dtype.
  }
  ValueWriter(&made.usual_tensor).BeginTensor(0, made.name, "cpu");
  return made;
}

constinit std::array<std::atomic<const Dtype*>, 256> g_dtypes;

const Dtype& DtypeOf(c10::ScalarType type) {
  std::atomic<const Dtype*>& slot = g_dtypes[static_cast<uint8_t>(type)];
  if (const Dtype* const dtype = slot.load(std::memory_order_acquire)) return *dtype;
  // Kept for ever; if two threads make one at the same time, both are.
  const auto* const made = new Dtype(MakeDtype(type));
  slot.store(made, std::memory_order_release);
  return *made;
}

}  // namespace

void DescribeTensor(const at::Tensor& tensor, std::string_view subclass, ConfigBuilder* config, std::string_view device,
                    const at::Tensor* inner) {
  ConfigBuilder::Writer values = config->values();
  if (!tensor.defined()) {
    values.Undefined();
    return;
  }
  const c10::TensorImpl& impl = *tensor.unsafeGetTensorImpl();
  const bool nested = impl.key_set().has(c10::DispatchKey::NestedTensor) && !impl.is_python_dispatch();
  const c10::Layout layout = LayoutOf(impl);
  const bool symbolic = impl.has_symbolic_sizes_strides();

  uint64_t bits = 0;
  if (nested) bits |= kTensorShapeUnknown;
  if (layout != c10::kStrided) {
    bits |= kTensorHasLayout;
  } else if (!nested && !symbolic && !impl.is_contiguous_default(c10::MemoryFormat::Contiguous)) {
    bits |= kTensorHasStride;
  }
  const c10::ScalarType type = ScalarTypeOf(impl);
  const std::optional<c10::Device> own = device.empty() ? PassiveFields::DeviceOf(impl) : std::nullopt;
  const bool cpu = own == c10::Device(c10::kCPU);
  if (cpu && bits == 0) {
    config->bytes()->append(DtypeOf(type).usual_tensor);
  } else {
    std::string device_name;
    if (cpu) {
      device = "cpu";
    } else if (device.empty()) {
      device_name = own ? DeviceName(*own) : "none";
      device = device_name;
    }
    values.BeginTensor(bits, DtypeName(type), device);
  }
  if (!nested) {
    if (symbolic) {
      AppendDims(impl.sym_sizes_default(), config->bytes());
    } else {
      AppendDims(impl.sizes_default(), config->bytes());
      if (bits & kTensorHasStride) AppendDims(impl.strides_default(), config->bytes());
    }
  }
  if (bits & kTensorHasLayout) values.Layout(LayoutName(layout));
  config->EndTensor(impl.requires_grad(), subclass);
  if (cpu && c10::isIntegralType(type, /*includeBool=*/true)) config->OfferFirstNotes();
  if (g_tensor_notes_wanted.load(std::memory_order_relaxed) || config->takes_first_notes()) [[unlikely]]
    NoteTensor(tensor, inner == nullptr ? tensor : *inner, config);
}

void DescribeTensor(const at::Tensor& tensor, uint32_t subclass, CallKey* key) {
  if (!tensor.defined()) return key->Named(ValueTag::kUndefined, 0);
  const c10::TensorImpl& impl = *tensor.unsafeGetTensorImpl();
  constexpr c10::DispatchKeySet kUnusual =
      kOtherLayoutKeys | c10::functorch_transforms_ks |
      c10::DispatchKeySet({c10::DispatchKey::Python, c10::DispatchKey::NestedTensor});
  const std::optional<c10::Device>& device = PassiveFields::DeviceOf(impl);
  if (impl.key_set().has_any(kUnusual) || impl.has_symbolic_sizes_strides() || !device.has_value() ||
      device->type() == c10::DeviceType::PrivateUse1 || g_tensor_notes_wanted.load(std::memory_order_relaxed)) {
    return key->Fail();
  }
  const c10::IntArrayRef sizes = impl.sizes_default();
  const bool strided = !impl.is_contiguous_default(c10::MemoryFormat::Contiguous);
  const bool grad = impl.requires_grad();
  const uint64_t fields = uint64_t{strided} | uint64_t{grad} << 1 | uint64_t{subclass != 0} << 2 |
                          uint64_t{static_cast<uint8_t>(ScalarTypeOf(impl))} << 8 |
                          uint64_t{static_cast<uint8_t>(device->type())} << 16 |
                          uint64_t{static_cast<uint8_t>(device->index())} << 24 | uint64_t{sizes.size()} << 32;
  uint64_t* words = key->Tensor(fields, sizes.size() * (strided ? 2 : 1) + (subclass != 0 ? 1 : 0));
  if (words == nullptr) return;
  for (const int64_t size : sizes) *words++ = static_cast<uint64_t>(size);
  if (strided) {
    for (const int64_t stride : impl.strides_default()) *words++ = static_cast<uint64_t>(stride);
  }
  if (subclass != 0) *words = subclass;
}

namespace {

template <typename Call>
bool DescribeNumber(const at::Tensor& tensor, Call* call) {
  if (!tensor.defined()) return false;
  const c10::TensorImpl& impl = *tensor.unsafeGetTensorImpl();
  if (!impl.is_wrapped_number() || impl.is_python_dispatch() || !impl.has_storage() ||
      PassiveFields::DeviceOf(impl) != c10::Device(c10::kCPU)) {
    return false;
  }
  const auto* const start = static_cast<const char*>(impl.unsafe_storage().data());
  if (start == nullptr) return false;
  const char* const data = start + impl.itemsize() * static_cast<size_t>(impl.storage_offset());
  auto&& values = call->values();
  switch (ScalarTypeOf(impl)) {
    case c10::ScalarType::Double:
      values.Float(*reinterpret_cast<const double*>(data));
      return true;
    case c10::ScalarType::Long:
      values.Int(*reinterpret_cast<const int64_t*>(data));
      return true;
    case c10::ScalarType::Bool:
      values.Bool(*reinterpret_cast<const bool*>(data));
      return true;
    case c10::ScalarType::ComplexDouble: {
      const auto number = *reinterpret_cast<const c10::complex<double>*>(data);
      values.Complex(number.real(), number.imag());
      return true;
    }
    default:
      return false;
  }
}

}  // namespace

bool DescribeWrappedNumber(const at::Tensor& tensor, ConfigBuilder* config) { return DescribeNumber(tensor, config); }
bool DescribeWrappedNumber(const at::Tensor& tensor, CallKey* key) { return DescribeNumber(tensor, key); }

std::string_view DtypeName(c10::ScalarType type) { return DtypeOf(type).name; }

std::string DeviceName(c10::Device device) {
  std::string name = c10::DeviceTypeName(device.type(), /*lower_case=*/true);
  if (device.has_index()) name += ":" + std::to_string(static_cast<int>(device.index()));
  return name;
}

std::string_view LayoutName(c10::Layout layout) {
  switch (layout) {
    case c10::kStrided:
      return "strided";
    case c10::kSparse:
      return "sparse_coo";
    case c10::kSparseCsr:
      return "sparse_csr";
    case c10::kSparseCsc:
      return "sparse_csc";
    case c10::kSparseBsr:
      return "sparse_bsr";
    case c10::kSparseBsc:
      return "sparse_bsc";
    case c10::kMkldnn:
      return "_mkldnn";
    case c10::kJagged:
      return "jagged";
    default:
      return "unknown";
  }
}

std::string_view MemoryFormatName(c10::MemoryFormat format) {
  switch (format) {
    case c10::MemoryFormat::Contiguous:
      return "contiguous_format";
    case c10::MemoryFormat::Preserve:
      return "preserve_format";
    case c10::MemoryFormat::ChannelsLast:
      return "channels_last";
    case c10::MemoryFormat::ChannelsLast3d:
      return "channels_last_3d";
    default:
      return "unknown";
  }
}

}  // namespace torchtrace::torch_dialect
