#include <c10/core/TensorImpl.h>

#include <array>
#include <optional>

#include "dialects/torch/describe/describe.h"

namespace torchtrace::torch_dialect {
namespace {

// The fields behind TensorImpl's accessors that may call Python: a derived
// class may name a protected member, and a pointer to it serves any tensor.
struct Fields : c10::TensorImpl {
  static const std::optional<c10::Device>& DeviceOf(const c10::TensorImpl& tensor) {
    return tensor.*(&Fields::device_opt_);
  }
};

c10::Layout LayoutOf(const c10::TensorImpl& tensor) {
  const c10::DispatchKeySet keys = tensor.key_set();
  constexpr auto kOtherLayoutKeys = c10::sparse_ks | c10::sparse_csr_ks | c10::mkldnn_ks;
  if (!keys.has_any(kOtherLayoutKeys)) return c10::kStrided;
  if (keys.has_any(c10::sparse_ks)) return c10::kSparse;
  // Of the compressed layouts only the tensor knows which; without a custom
  // layout policy the answer comes from C++.
  if (!keys.has(c10::DispatchKey::Python)) return tensor.layout();
  return keys.has_any(c10::mkldnn_ks) ? c10::kMkldnn : c10::kSparseCsr;
}

// Of a dtype that no torch.dtype stands for, typeMetaToScalarType would throw.
c10::ScalarType ScalarTypeOf(const c10::TensorImpl& tensor) {
  const caffe2::TypeMeta type = tensor.dtype();
  return type.isScalarType() ? c10::typeMetaToScalarType(type) : c10::ScalarType::Undefined;
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

// The first bytes of the usual tensor: on the CPU, strided and contiguous.
struct UsualTensor {
  std::array<char, 32> bytes;
  size_t count;
};

const UsualTensor& UsualTensorOf(c10::ScalarType type) {
  constexpr size_t kTypes = static_cast<size_t>(c10::ScalarType::NumOptions);
  static const auto* const tensors = [] {
    auto* const made = new std::array<UsualTensor, kTypes>();
    for (size_t i = 0; i < kTypes; ++i) {
      std::string bytes;
      ValueWriter(&bytes).BeginTensor(0, DtypeName(static_cast<c10::ScalarType>(i)), "cpu");
      (*made)[i].count = bytes.copy((*made)[i].bytes.data(), sizeof((*made)[i].bytes));
    }
    return made;
  }();
  return (*tensors)[static_cast<size_t>(type)];
}

}  // namespace

void DescribeTensor(const at::Tensor& tensor, std::string_view subclass, ConfigBuilder* config,
                    std::string_view device) {
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
  const std::optional<c10::Device> own = device.empty() ? Fields::DeviceOf(impl) : std::nullopt;
  const bool cpu = own == c10::Device(c10::kCPU);
  if (cpu && bits == 0) {
    const UsualTensor& usual = UsualTensorOf(type);
    config->bytes()->append(usual.bytes, usual.count);
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
}

bool DescribeWrappedNumber(const at::Tensor& tensor, ConfigBuilder* config) {
  if (!tensor.defined()) return false;
  const c10::TensorImpl& impl = *tensor.unsafeGetTensorImpl();
  if (!impl.is_wrapped_number() || impl.is_python_dispatch() || !impl.has_storage() ||
      Fields::DeviceOf(impl) != c10::Device(c10::kCPU)) {
    return false;
  }
  const auto* const start = static_cast<const char*>(impl.unsafe_storage().data());
  if (start == nullptr) return false;
  const char* const data = start + impl.itemsize() * static_cast<size_t>(impl.storage_offset());
  ConfigBuilder::Writer values = config->values();
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

std::string_view DtypeName(c10::ScalarType type) {
  // torch's own names: those of torch.<dtype>, without the prefix.
  switch (type) {
    case c10::ScalarType::Byte:
      return "uint8";
    case c10::ScalarType::Char:
      return "int8";
    case c10::ScalarType::Short:
      return "int16";
    case c10::ScalarType::Int:
      return "int32";
    case c10::ScalarType::Long:
      return "int64";
    case c10::ScalarType::Half:
      return "float16";
    case c10::ScalarType::Float:
      return "float32";
    case c10::ScalarType::Double:
      return "float64";
    case c10::ScalarType::ComplexHalf:
      return "complex32";
    case c10::ScalarType::ComplexFloat:
      return "complex64";
    case c10::ScalarType::ComplexDouble:
      return "complex128";
    case c10::ScalarType::Bool:
      return "bool";
    case c10::ScalarType::QInt8:
      return "qint8";
    case c10::ScalarType::QUInt8:
      return "quint8";
    case c10::ScalarType::QInt32:
      return "qint32";
    case c10::ScalarType::BFloat16:
      return "bfloat16";
    case c10::ScalarType::QUInt4x2:
      return "quint4x2";
    case c10::ScalarType::QUInt2x4:
      return "quint2x4";
    case c10::ScalarType::Bits1x8:
      return "bits1x8";
    case c10::ScalarType::Bits2x4:
      return "bits2x4";
    case c10::ScalarType::Bits4x2:
      return "bits4x2";
    case c10::ScalarType::Bits8:
      return "bits8";
    case c10::ScalarType::Bits16:
      return "bits16";
    case c10::ScalarType::Float8_e5m2:
      return "float8_e5m2";
    case c10::ScalarType::Float8_e4m3fn:
      return "float8_e4m3fn";
    case c10::ScalarType::Float8_e5m2fnuz:
      return "float8_e5m2fnuz";
    case c10::ScalarType::Float8_e4m3fnuz:
      return "float8_e4m3fnuz";
    case c10::ScalarType::UInt16:
      return "uint16";
    case c10::ScalarType::UInt32:
      return "uint32";
    case c10::ScalarType::UInt64:
      return "uint64";
    case c10::ScalarType::UInt1:
      return "uint1";
    case c10::ScalarType::UInt2:
      return "uint2";
    case c10::ScalarType::UInt3:
      return "uint3";
    case c10::ScalarType::UInt4:
      return "uint4";
    case c10::ScalarType::UInt5:
      return "uint5";
    case c10::ScalarType::UInt6:
      return "uint6";
    case c10::ScalarType::UInt7:
      return "uint7";
    case c10::ScalarType::Int1:
      return "int1";
    case c10::ScalarType::Int2:
      return "int2";
    case c10::ScalarType::Int3:
      return "int3";
    case c10::ScalarType::Int4:
      return "int4";
    case c10::ScalarType::Int5:
      return "int5";
    case c10::ScalarType::Int6:
      return "int6";
    case c10::ScalarType::Int7:
      return "int7";
    case c10::ScalarType::Float8_e8m0fnu:
      return "float8_e8m0fnu";
    case c10::ScalarType::Float4_e2m1fn_x2:
      return "float4_e2m1fn_x2";
    default:
      return "unknown";
  }
}

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
