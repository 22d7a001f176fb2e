#include "serialize/where/where.h"

#include <utility>

#include "serialize/where/where_expression.h"
#include "serialize/where/where_fields.h"
#include "serialize/where/where_parser.h"

namespace torchtrace {

absl::StatusOr<Where> Where::Parse(std::string_view text) {
  absl::StatusOr<ParsedWhere> parsed = ParseWhere(text);
  if (!parsed.ok()) return parsed.status();
  Where where;
  where.expression_ = std::move(parsed->expression);
  where.needs_call_ = parsed->needs_call;
  where.needs_end_ = parsed->needs_end;
  return where;
}

Truth Where::Ask(const WhereSubject& subject) const {
  return expression_ == nullptr ? Truth::kTrue : expression_->Ask(subject, nullptr);
}

std::string Where::ToString() const { return expression_ == nullptr ? "" : expression_->ToString(); }

std::vector<std::string> Where::FieldNames() { return WhereFieldNames(); }

}  // namespace torchtrace
