// Reads a condition of --where (docs/FILTER.md has the grammar) into its tree. Callable
// from any thread.

#ifndef TORCHTRACE_SERIALIZE_WHERE_WHERE_PARSER_H_
#define TORCHTRACE_SERIALIZE_WHERE_WHERE_PARSER_H_

#include <string_view>

#include "absl/status/statusor.h"
#include "serialize/where/where_expression.h"

namespace torchtrace {

struct ParsedWhere {
  WhereNode expression;
  // Whether it names a field of that scope.
  bool needs_call = false;
  bool needs_end = false;
};

// InvalidArgument for what is no condition; the message names the column (from 1) and
// what was expected there.
absl::StatusOr<ParsedWhere> ParseWhere(std::string_view text);

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_WHERE_WHERE_PARSER_H_
