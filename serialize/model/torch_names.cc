#include "serialize/model/torch_names.h"

#include <algorithm>
#include <iterator>

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
