#include "serialize/model/torch_types.h"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <iterator>

namespace torchtrace {
namespace {

struct Dtype {
  std::string_view name;
  std::string_view cpp = {};           // in C++, as GCC spells it
  std::string_view abbreviation = {};  // TorchBench's
  bool loader = true;                  // TorchBench's loader knows the abbreviation
};

// By c10::ScalarType.
constexpr Dtype kDtypes[] = {
    {"uint8", "unsigned char", "u8"},
    {"int8", "signed char", "i8"},
    {"int16", "short int", "i16"},
    {"int32", "int", "i32"},
    {"int64", "long int", "i64"},
    {"float16", "c10::Half", "f16"},
    {"float32", "float", "f32"},
    {"float64", "double", "f64"},
    {"complex32", "c10::complex<c10::Half>", "c32"},
    {"complex64", "c10::complex<float>", "c64"},
    {"complex128", "c10::complex<double>", "c128"},
    {"bool", "bool", "b8"},
    {"qint8"},
    {"quint8"},
    {"qint32"},
    {"bfloat16", "c10::BFloat16", "bf16"},
    {"quint4x2"},
    {"quint2x4"},
    {"bits1x8"},
    {"bits2x4"},
    {"bits4x2"},
    {"bits8"},
    {"bits16"},
    {"float8_e5m2", "c10::Float8_e5m2"},
    {"float8_e4m3fn", "c10::Float8_e4m3fn"},
    {"float8_e5m2fnuz", "c10::Float8_e5m2fnuz"},
    {"float8_e4m3fnuz", "c10::Float8_e4m3fnuz"},
    {"uint16", "short unsigned int", "u16", false},
    {"uint32", "unsigned int", "u32", false},
    {"uint64", "long unsigned int", "u64", false},
    {"uint1"},
    {"uint2"},
    {"uint3"},
    {"uint4"},
    {"uint5"},
    {"uint6"},
    {"uint7"},
    {"int1"},
    {"int2"},
    {"int3"},
    {"int4"},
    {"int5"},
    {"int6"},
    {"int7"},
    {"float8_e8m0fnu", "c10::Float8_e8m0fnu"},
    {"float4_e2m1fn_x2", "c10::Float4_e2m1fn_x2"},
};
// By c10::Layout and c10::MemoryFormat.
constexpr std::string_view kLayouts[] = {"strided",    "sparse_coo", "sparse_csr", "_mkldnn",
                                         "sparse_csc", "sparse_bsr", "sparse_bsc", "jagged"};
constexpr std::string_view kMemoryFormats[] = {"contiguous_format", "preserve_format", "channels_last",
                                               "channels_last_3d"};
constexpr std::string_view kDeviceTypes[] = {"cpu", "cuda", "hip",  "hpu", "ipu",           "lazy",   "maia", "meta",
                                             "mps", "mtia", "musa", "npu", "privateuseone", "vulkan", "xla",  "xpu"};
constexpr std::string_view kPaddlesDeviceTypes[] = {"gpu", "gpu_pinned"};

struct Synonym {
  std::string_view synonym, dtype;
};
constexpr Synonym kSynonyms[] = {
    {"half", "float16"},     {"float", "float32"},      {"double", "float64"},  {"short", "int16"},
    {"int", "int32"},        {"long", "int64"},         {"byte", "uint8"},      {"char", "int8"},
    {"cfloat", "complex64"}, {"cdouble", "complex128"}, {"chalf", "complex32"},
};
constexpr Synonym kPeoplesNames[] = {
    {"fp16", "float16"}, {"bf16", "bfloat16"}, {"fp32", "float32"}, {"fp64", "float64"}};

template <size_t n>
bool Has(const std::string_view (&names)[n], std::string_view name) {
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

template <size_t n>
std::string_view ByNumber(const std::string_view (&names)[n], int64_t number) {
  return number >= 0 && static_cast<uint64_t>(number) < n ? names[number] : std::string_view();
}

template <size_t n>
std::string_view DtypeOf(const Synonym (&synonyms)[n], std::string_view name) {
  for (const auto& [synonym, dtype] : synonyms) {
    if (name == synonym) return dtype;
  }
  return name;
}

}  // namespace

std::string_view DtypeOfNumber(int64_t number) {
  return number >= 0 && static_cast<uint64_t>(number) < std::size(kDtypes) ? kDtypes[number].name : std::string_view();
}
std::string_view LayoutOfNumber(int64_t number) { return ByNumber(kLayouts, number); }
std::string_view MemoryFormatOfNumber(int64_t number) { return ByNumber(kMemoryFormats, number); }

std::vector<std::string_view> DtypeNames() {
  std::vector<std::string_view> names;
  for (const Dtype& dtype : kDtypes) names.push_back(dtype.name);
  return names;
}
std::vector<std::string_view> LayoutNames() { return {std::begin(kLayouts), std::end(kLayouts)}; }
std::vector<std::string_view> DeviceTypes() { return {std::begin(kDeviceTypes), std::end(kDeviceTypes)}; }

bool IsDeviceName(std::string_view text) {
  const size_t colon = text.find(':');
  const std::string_view type = text.substr(0, colon);
  if (!Has(kDeviceTypes, type) && !Has(kPaddlesDeviceTypes, type)) return false;
  if (colon == std::string_view::npos) return true;
  const std::string_view index = text.substr(colon + 1);
  return !index.empty() && index.find_first_not_of("0123456789") == std::string_view::npos;
}

std::string_view CanonicalDtype(std::string_view name) { return DtypeOf(kSynonyms, name); }
std::string_view DtypeMeantBy(std::string_view name) { return CanonicalDtype(DtypeOf(kPeoplesNames, name)); }

std::string_view DtypeOfAbbreviation(std::string_view abbreviation) {
  for (const Dtype& dtype : kDtypes) {
    if (!abbreviation.empty() && dtype.abbreviation == abbreviation) return dtype.name;
  }
  return {};
}

std::string_view LoaderAbbreviation(std::string_view name) {
  for (const Dtype& dtype : kDtypes) {
    if (dtype.loader && dtype.name == name) return dtype.abbreviation;
  }
  return {};
}

std::string_view CppNameOfDtype(std::string_view name) {
  for (const Dtype& dtype : kDtypes) {
    if (dtype.name == name && !dtype.cpp.empty()) return dtype.cpp;
  }
  return name;
}

uint64_t BytesOfDtype(std::string_view dtype) {
  // In most names the first number is that of bits: float8_e4m3fn, complex64.
  const size_t digits = dtype.find_first_of("0123456789");
  if (digits == std::string_view::npos) return 1;
  uint64_t bits = 0;
  std::from_chars(dtype.data() + digits, dtype.data() + dtype.size(), bits);
  return std::max<uint64_t>(bits / 8, 1);
}

bool IsDtypeName(std::string_view name) {
  static constexpr std::string_view kKinds[] = {"int", "uint", "qint", "quint", "float", "bfloat", "complex", "bits"};
  const size_t digit = name.find_first_of("0123456789");
  if (digit == std::string_view::npos) return name == "bool";
  return std::find(std::begin(kKinds), std::end(kKinds), name.substr(0, digit)) != std::end(kKinds) &&
         std::all_of(name.begin() + static_cast<ptrdiff_t>(digit), name.end(),
                     [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || c == '_'; });
}

ValueTag KindOfTorchName(std::string_view name) {
  if (Has(kLayouts, name)) return ValueTag::kLayout;
  if (Has(kMemoryFormats, name)) return ValueTag::kMemoryFormat;
  return !name.empty() && name[0] >= 'A' && name[0] <= 'Z' ? ValueTag::kType : ValueTag::kDtype;
}

}  // namespace torchtrace
