// The inverse of plain_form.h: what YAML and JSON hold, as configs. Takes the maps
// with a `type` that docs/TEXT.md lists, as we and as api_tracer write them.
// Callable from any thread.

#ifndef TORCHTRACE_SERIALIZE_FORMS_PLAIN_PARSER_H_
#define TORCHTRACE_SERIALIZE_FORMS_PLAIN_PARSER_H_

#include <string>

#include "absl/status/statusor.h"
#include "serialize/forms/parsed_call.h"
#include "serialize/forms/plain_form.h"
#include "serialize/model/value_tree.h"

namespace torchtrace {

// Deeper lists and maps than any value of ours needs are refused before they are built.
inline constexpr int kMaxPlainDepth = 3 * kMaxValueDepth;

// {api, args, kwargs}, and level and calls (or count) where they are there; other members are
// not looked at. Errors say where in it and what was expected: `args[2].shape: expected ...`.
absl::StatusOr<ParsedCall> ParsePlainCall(const Plain& item);

// The member of that name, or null.
const Plain* FindField(const Plain& map, const char* name);

// "a list", for errors.
std::string DescribePlain(const Plain& plain);

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_FORMS_PLAIN_PARSER_H_
