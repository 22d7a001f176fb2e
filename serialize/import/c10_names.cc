#include "serialize/import/c10_names.h"

#include <cstddef>

namespace torchtrace {
namespace {

struct Spelling {
  std::string_view cpp;
  std::string_view torch;
};

// As compilers and torch::dtype().name() spell them; without namespaces.
constexpr Spelling kSpellings[] = {
    {"float", "float32"},
    {"double", "float64"},
    {"Half", "float16"},
    {"BFloat16", "bfloat16"},
    {"bool", "bool"},
    {"unsigned char", "uint8"},
    {"signed char", "int8"},
    {"char", "int8"},
    {"short", "int16"},
    {"short int", "int16"},
    {"int", "int32"},
    {"long", "int64"},
    {"long int", "int64"},
    {"long long", "int64"},
    {"long long int", "int64"},
    {"__int64", "int64"},
    {"unsigned short", "uint16"},
    {"short unsigned int", "uint16"},
    {"unsigned int", "uint32"},
    {"unsigned long", "uint64"},
    {"long unsigned int", "uint64"},
    {"unsigned long long", "uint64"},
    {"long long unsigned int", "uint64"},
    {"unsigned __int64", "uint64"},
    {"complex<Half>", "complex32"},
    {"complex<float>", "complex64"},
    {"complex<double>", "complex128"},
    {"Float8_e5m2", "float8_e5m2"},
    {"Float8_e4m3fn", "float8_e4m3fn"},
    {"Float8_e5m2fnuz", "float8_e5m2fnuz"},
    {"Float8_e4m3fnuz", "float8_e4m3fnuz"},
    {"Float8_e8m0fnu", "float8_e8m0fnu"},
    {"Float4_e2m1fn_x2", "float4_e2m1fn_x2"},
};

constexpr std::string_view kDtypes[] = {
    "uint8",
    "int8",
    "int16",
    "int32",
    "int64",
    "float16",
    "float32",
    "float64",
    "complex32",
    "complex64",
    "complex128",
    "bool",
    "qint8",
    "quint8",
    "qint32",
    "bfloat16",
    "quint4x2",
    "quint2x4",
    "bits1x8",
    "bits2x4",
    "bits4x2",
    "bits8",
    "bits16",
    "float8_e5m2",
    "float8_e4m3fn",
    "float8_e5m2fnuz",
    "float8_e4m3fnuz",
    "uint16",
    "uint32",
    "uint64",
    "uint1",
    "uint2",
    "uint3",
    "uint4",
    "uint5",
    "uint6",
    "uint7",
    "int1",
    "int2",
    "int3",
    "int4",
    "int5",
    "int6",
    "int7",
    "float8_e8m0fnu",
    "float4_e2m1fn_x2",
};
constexpr std::string_view kLayouts[] = {"strided",    "sparse_coo", "sparse_csr", "_mkldnn",
                                         "sparse_csc", "sparse_bsr", "sparse_bsc", "jagged"};
constexpr std::string_view kMemoryFormats[] = {"contiguous_format", "preserve_format", "channels_last",
                                               "channels_last_3d"};

template <size_t n>
std::string_view ByNumber(const std::string_view (&names)[n], int64_t number) {
  return number >= 0 && static_cast<uint64_t>(number) < n ? names[number] : std::string_view();
}

// "c10::complex<c10::Half>" -> "complex<Half>"
std::string WithoutNamespaces(std::string_view name) {
  std::string out;
  size_t word = 0;  // where the word that is being copied begins in `out`
  for (size_t i = 0; i < name.size(); ++i) {
    if (name.substr(i, 2) == "::") {
      out.resize(word);
      ++i;
      continue;
    }
    out.push_back(name[i]);
    if (name[i] == '<' || name[i] == ' ') word = out.size();
  }
  return out;
}

}  // namespace

std::string DtypeOfCppName(std::string_view name) {
  if (name.find("uninitialized") != name.npos) return "";
  const std::string plain = WithoutNamespaces(name);
  for (const Spelling& spelling : kSpellings) {
    if (plain == spelling.cpp) return std::string(spelling.torch);
  }
  // dummy_uint1_7_t<3>: integers of less than a byte have no type of their own.
  for (const std::string_view kind : {"uint", "int"}) {
    const std::string prefix = "dummy_" + std::string(kind) + "1_7_t<";
    if (plain.starts_with(prefix) && plain.size() == prefix.size() + 2 && plain.back() == '>') {
      return std::string(kind) + plain[prefix.size()];
    }
  }
  return plain;
}

std::string_view DtypeOfNumber(int64_t number) { return ByNumber(kDtypes, number); }
std::string_view LayoutOfNumber(int64_t number) { return ByNumber(kLayouts, number); }
std::string_view MemoryFormatOfNumber(int64_t number) { return ByNumber(kMemoryFormats, number); }

}  // namespace torchtrace
