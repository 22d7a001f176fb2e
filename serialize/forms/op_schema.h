// Operator schemas as other tools write them, and the C++ names of dtypes.

#ifndef TORCHTRACE_SERIALIZE_FORMS_OP_SCHEMA_H_
#define TORCHTRACE_SERIALIZE_FORMS_OP_SCHEMA_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "serialize/model/config.h"
#include "serialize/model/value.h"

namespace torchtrace {

// PyTorch's tools write dtypes as C++ type names and enums as numbers.

// "float" -> "float32", "long int" -> "int64", "c10::Half" -> "float16"; an unknown
// name is returned without its namespace. Empty: an undefined tensor.
std::string DtypeOfCppName(std::string_view name);

enum class IntMeaning : uint8_t { kInt, kDtype, kLayout, kMemoryFormat };

struct SchemaArgument {
  std::string name;
  std::string type;  // "Tensor", "SymInt[2]", "ScalarType?"
  IntMeaning int_meaning = IntMeaning::kInt;
  bool keyword_only = false;
  uint64_t list_size = 0;  // "int[2]"; 0: any size, or not a list
  // Enums are still numbers here, and `int[2] stride=1` is the one number for all items.
  std::optional<Value> default_value;
};

// OpSchema is the arguments of an operator's schema, read from the text that PyTorch prints:
//
//   aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor
//
// With it, values in the schema's order become a call as __torch_dispatch__
// passes it and torchtrace's level 2 records it: keyword-only arguments by
// name, enums by name, trailing defaults left out.
struct OpSchema {
  std::string name;  // with the overload
  std::vector<SchemaArgument> arguments;
};

// None: not a schema.
std::optional<OpSchema> ParseOpSchema(std::string_view text);

// A scalar or a list of scalars as PyTorch's C++ prints them: `None`, `True`, `2`, `0.5`, `1.`, `1e-05`, `inf`,
// `1.+2.j`, `[1, 2]`, `"mean"`. None: anything else.
std::optional<Value> ParsePrintedValue(std::string_view text);

// Where an argument of a call comes from.
struct ArgumentSource {
  std::optional<size_t> index;  // among the config's args followed by its kwargs
  Value default_value;          // if there is no index; an enum's is its number
};
// The source of each argument of the schema: the inverse of CallOfSchema. None: the config is not a call of the
// schema.
std::optional<std::vector<ArgumentSource>> SourcesOfArguments(const OpSchema& schema, const Config& config);

// The call with `values`, one per argument of the schema from the first on. `six_decimals`: floats were printed with
// six decimals, so one that prints like its default is taken as the default.
Config CallOfSchema(const OpSchema& schema, std::vector<Value> values, bool six_decimals);

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_FORMS_OP_SCHEMA_H_
