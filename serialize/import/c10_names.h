// PyTorch's names for what its own tools write as C++ type names and as enum
// numbers.

#ifndef TORCHTRACE_SERIALIZE_IMPORT_C10_NAMES_H_
#define TORCHTRACE_SERIALIZE_IMPORT_C10_NAMES_H_

#include <cstdint>
#include <string>
#include <string_view>

namespace torchtrace {

// "float" -> "float32", "long int" -> "int64", "c10::Half" -> "float16"; a name
// that is not known comes back without its namespace. Empty: a tensor that is not defined.
std::string DtypeOfCppName(std::string_view name);

// c10::ScalarType, c10::Layout and c10::MemoryFormat by number; empty when out of range.
std::string_view DtypeOfNumber(int64_t number);
std::string_view LayoutOfNumber(int64_t number);
std::string_view MemoryFormatOfNumber(int64_t number);

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_IMPORT_C10_NAMES_H_
