// The operators of --where: which kinds of fields take them, and what they say of one
// value. Owns nothing; callable from any thread.

#ifndef TORCHTRACE_SERIALIZE_WHERE_WHERE_COMPARISON_H_
#define TORCHTRACE_SERIALIZE_WHERE_WHERE_COMPARISON_H_

#include <cstdint>
#include <vector>

#include "serialize/where/where_fields.h"
#include "serialize/where/where_literal.h"
#include "serialize/where/where_subject.h"
#include "serialize/where/where_value.h"

namespace torchtrace {

// kIs: no operator and no literal, as in `raised`.
enum class WhereOp : uint8_t {
  kIs,
  kEqual,
  kNotEqual,
  kLess,
  kLessEqual,
  kGreater,
  kGreaterEqual,
  kLike,
  kNotLike,
  kIn,
  kNotIn
};

inline bool IsOrder(WhereOp op) { return op >= WhereOp::kLess && op <= WhereOp::kGreaterEqual; }
inline bool IsLike(WhereOp op) { return op == WhereOp::kLike || op == WhereOp::kNotLike; }
inline bool TakesList(WhereOp op) { return op == WhereOp::kIn || op == WhereOp::kNotIn; }

// As it is written; empty for kIs.
const char* WhereOpText(WhereOp op);

bool TakesOperator(WhereKind kind, WhereOp op);

// All that it takes, for messages: "= != in".
const char* OperatorsOf(WhereKind kind);

// `literals`: none for kIs, a list for those that take one, else one; a number where the
// operator is an order.
Truth CompareWhereValue(const WhereValue& value, WhereField field, WhereOp op,
                        const std::vector<WhereLiteral>& literals);

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_WHERE_WHERE_COMPARISON_H_
