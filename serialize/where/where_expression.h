// The tree that a condition of --where is: comparisons, and what joins them. Nodes are
// made once, immutable, and shared by whoever holds them; callable from any thread.

#ifndef TORCHTRACE_SERIALIZE_WHERE_WHERE_EXPRESSION_H_
#define TORCHTRACE_SERIALIZE_WHERE_WHERE_EXPRESSION_H_

#include <memory>
#include <string>
#include <vector>

#include "serialize/where/where_comparison.h"
#include "serialize/where/where_literal.h"
#include "serialize/where/where_subject.h"
#include "serialize/where/where_value.h"

namespace torchtrace {

class WhereExpression {
 public:
  virtual ~WhereExpression() = default;
  // `tensor` is the one that any() or all() speaks of; null outside of them.
  virtual Truth Ask(const WhereSubject& subject, const WhereTensor* tensor) const = 0;
  // With all parentheses.
  virtual std::string ToString() const = 0;
};

using WhereNode = std::shared_ptr<const WhereExpression>;

// `field op literals`, which CompareWhereValue takes.
WhereNode MakeComparison(WhereFieldUse field, WhereOp op, std::vector<WhereLiteral> literals);
WhereNode MakeNegation(WhereNode inner);
// and, or.
WhereNode MakeJunction(bool is_and, std::vector<WhereNode> parts);
// all(), any().
WhereNode MakeQuantifier(bool all, WhereNode inner);

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_WHERE_WHERE_EXPRESSION_H_
