// Schemas of operators as other tools write them, and c10's names of dtypes, layouts and devices.

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

// PyTorch's names for what its own tools write as C++ type names and as enum
// numbers.

// "float" -> "float32", "long int" -> "int64", "c10::Half" -> "float16"; a name
// that is not known comes back without its namespace. Empty: a tensor that is not defined.
std::string DtypeOfCppName(std::string_view name);

// c10::ScalarType, c10::Layout and c10::MemoryFormat by number; empty when out of range.
std::string_view DtypeOfNumber(int64_t number);
std::string_view LayoutOfNumber(int64_t number);
std::string_view MemoryFormatOfNumber(int64_t number);

// OpSchema is what an operator's schema tells of its arguments, read from the
// text that PyTorch prints:
//
//   aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor
//
// With it, values in the schema's order become a call as __torch_dispatch__
// shows it, and as torchtrace's level 2 records it: keyword-only arguments by
// name, enums by name, defaults at the end left out.

enum class IntMeaning : uint8_t { kInt, kDtype, kLayout, kMemoryFormat };

struct SchemaArgument {
  std::string name;
  std::string type;  // "Tensor", "SymInt[2]", "ScalarType?"
  IntMeaning int_meaning = IntMeaning::kInt;
  bool keyword_only = false;
  uint64_t list_size = 0;  // "int[2]"; 0: any, or no list
  // An enum is still a number in it, and `int[2] stride=1` has the number for all items.
  std::optional<Value> default_value;
};

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
  std::optional<size_t> index;  // among the config's args and, behind them, its kwargs
  Value default_value;          // where there is none; of an enum its number
};
// Of each of the schema's arguments: the way back from a config to the values in the schema's order. None: it is no
// call of that schema.
std::optional<std::vector<ArgumentSource>> SourcesOfArguments(const OpSchema& schema, const Config& config);

// The call of `values`, one per argument of the schema from the first on. With six_decimals, floats were
// printed with so many decimals, and one that reads like its default is taken for it.
Config CallOfSchema(const OpSchema& schema, std::vector<Value> values, bool six_decimals);

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_FORMS_OP_SCHEMA_H_
