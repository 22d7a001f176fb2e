#include "serialize/model/torch_names.h"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <iterator>
#include <utility>

namespace torchtrace {
namespace {

struct Row {
  std::string_view abbreviation;
  std::string_view dtype;
  bool loader = true;
};

constexpr Row kRows[] = {
    {"bf16", "bfloat16"}, {"f64", "float64"},       {"f32", "float32"},       {"f16", "float16"},
    {"c32", "complex32"}, {"c64", "complex64"},     {"c128", "complex128"},   {"i8", "int8"},
    {"i16", "int16"},     {"i32", "int32"},         {"i64", "int64"},         {"b8", "bool"},
    {"u8", "uint8"},      {"u16", "uint16", false}, {"u32", "uint32", false}, {"u64", "uint64", false},
};

}  // namespace

std::string_view DtypeOfAbbreviation(std::string_view abbreviation) {
  for (const Row& row : kRows) {
    if (row.abbreviation == abbreviation) return row.dtype;
  }
  return {};
}

std::string_view LoaderAbbreviation(std::string_view dtype) {
  for (const Row& row : kRows) {
    if (row.loader && row.dtype == dtype) return row.abbreviation;
  }
  return {};
}

std::string_view CppNameOfDtype(std::string_view dtype) {
  static constexpr std::pair<std::string_view, std::string_view> kNames[] = {
      {"float32", "float"},
      {"float64", "double"},
      {"float16", "c10::Half"},
      {"bfloat16", "c10::BFloat16"},
      {"int64", "long int"},
      {"int32", "int"},
      {"int16", "short int"},
      {"int8", "signed char"},
      {"uint8", "unsigned char"},
      {"uint16", "short unsigned int"},
      {"uint32", "unsigned int"},
      {"uint64", "long unsigned int"},
      {"complex32", "c10::complex<c10::Half>"},
      {"complex64", "c10::complex<float>"},
      {"complex128", "c10::complex<double>"},
      {"float8_e5m2", "c10::Float8_e5m2"},
      {"float8_e4m3fn", "c10::Float8_e4m3fn"},
  };
  for (const auto& [torch, cpp] : kNames) {
    if (torch == dtype) return cpp;
  }
  return dtype;
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

std::vector<Dim> StridesOf(const Value& tensor) {
  if (!tensor.strides.empty() || (tensor.tensor_bits & kTensorHasLayout) != 0) return tensor.strides;
  std::vector<Dim> strides(tensor.shape.size());
  int64_t next = 1;
  for (size_t i = strides.size(); i-- > 0;) {
    strides[i] = next;
    const int64_t size = std::max<int64_t>(tensor.shape[i].value_or(1), 1);
    if (__builtin_mul_overflow(next, size, &next)) next = 0;
  }
  return strides;
}

ValueTag KindOfTorchName(std::string_view name) {
  static constexpr std::string_view kLayouts[] = {"strided",    "sparse_coo", "sparse_csr", "sparse_csc",
                                                  "sparse_bsr", "sparse_bsc", "_mkldnn",    "jagged"};
  static constexpr std::string_view kMemoryFormats[] = {"contiguous_format", "preserve_format", "channels_last",
                                                        "channels_last_3d"};
  const auto is_one_of = [name](const auto& names) {
    return std::find(std::begin(names), std::end(names), name) != std::end(names);
  };
  if (is_one_of(kLayouts)) return ValueTag::kLayout;
  if (is_one_of(kMemoryFormats)) return ValueTag::kMemoryFormat;
  return !name.empty() && name[0] >= 'A' && name[0] <= 'Z' ? ValueTag::kType : ValueTag::kDtype;
}

}  // namespace torchtrace
