#include "serialize/where/where.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "serialize/where/where_parts.h"

namespace torchtrace {
namespace {

Truth Not(Truth truth) {
  return truth == Truth::kUnknown ? truth : truth == Truth::kTrue ? Truth::kFalse : Truth::kTrue;
}

class Comparison : public WhereExpression {
 public:
  Comparison(WhereFieldUse field, WhereOp op, std::vector<WhereLiteral> literals)
      : field_(std::move(field)), op_(op), literals_(std::move(literals)) {}

  Truth Ask(const WhereSubject& subject, const WhereTensor* tensor) const override {
    if (field_.info->scope != WhereScope::kTensor) return Judge(ValueOfSubject(field_, subject));
    if (tensor != nullptr) return Judge(ValueOfTensor(field_, *tensor, subject));
    return AskTensors(subject, /*all=*/false,
                      [&](const WhereTensor& one) { return Judge(ValueOfTensor(field_, one, subject)); });
  }

  std::string ToString() const override {
    if (op_ == WhereOp::kIs) return field_.ToString();
    const auto append = [](std::string* out, const WhereLiteral& literal) { out->append(literal.ToString()); };
    const bool list = TakesList(op_);
    return absl::StrCat(field_.ToString(), " ", WhereOpText(op_), list ? " (" : " ",
                        absl::StrJoin(literals_, ", ", append), list ? ")" : "");
  }

 private:
  Truth Judge(const WhereValue& value) const { return CompareWhereValue(value, field_.info->field, op_, literals_); }

  const WhereFieldUse field_;
  const WhereOp op_;
  const std::vector<WhereLiteral> literals_;
};

class Negation : public WhereExpression {
 public:
  explicit Negation(WhereNode inner) : inner_(std::move(inner)) {}
  Truth Ask(const WhereSubject& subject, const WhereTensor* tensor) const override {
    return Not(inner_->Ask(subject, tensor));
  }
  std::string ToString() const override { return absl::StrCat("not (", inner_->ToString(), ")"); }

 private:
  const WhereNode inner_;
};

class Junction : public WhereExpression {
 public:
  Junction(bool is_and, std::vector<WhereNode> parts) : is_and_(is_and), parts_(std::move(parts)) {}
  Truth Ask(const WhereSubject& subject, const WhereTensor* tensor) const override {
    const Truth decided = is_and_ ? Truth::kFalse : Truth::kTrue;
    bool unknown = false;
    for (const WhereNode& part : parts_) {
      const Truth truth = part->Ask(subject, tensor);
      if (truth == decided) return decided;
      unknown = unknown || truth == Truth::kUnknown;
    }
    return unknown ? Truth::kUnknown : Not(decided);
  }
  std::string ToString() const override {
    const auto append = [](std::string* out, const WhereNode& part) { out->append(part->ToString()); };
    return absl::StrCat("(", absl::StrJoin(parts_, is_and_ ? " and " : " or ", append), ")");
  }

 private:
  const bool is_and_;
  const std::vector<WhereNode> parts_;
};

class Quantifier : public WhereExpression {
 public:
  Quantifier(bool all, WhereNode inner) : all_(all), inner_(std::move(inner)) {}
  Truth Ask(const WhereSubject& subject, const WhereTensor*) const override {
    return AskTensors(subject, all_, [&](const WhereTensor& tensor) { return inner_->Ask(subject, &tensor); });
  }
  std::string ToString() const override { return absl::StrCat(all_ ? "all(" : "any(", inner_->ToString(), ")"); }

 private:
  const bool all_;
  const WhereNode inner_;
};

}  // namespace

WhereNode MakeComparison(WhereFieldUse field, WhereOp op, std::vector<WhereLiteral> literals) {
  return std::make_shared<Comparison>(std::move(field), op, std::move(literals));
}

WhereNode MakeNegation(WhereNode inner) { return std::make_shared<Negation>(std::move(inner)); }

WhereNode MakeJunction(bool is_and, std::vector<WhereNode> parts) {
  return std::make_shared<Junction>(is_and, std::move(parts));
}

WhereNode MakeQuantifier(bool all, WhereNode inner) { return std::make_shared<Quantifier>(all, std::move(inner)); }

absl::StatusOr<Where> Where::Parse(std::string_view text, const WhereNames& names) {
  absl::StatusOr<ParsedWhere> parsed = ParseWhere(text, names);
  if (!parsed.ok()) return parsed.status();
  Where where;
  where.expression_ = std::move(parsed->expression);
  where.to_be_known_ = std::move(parsed->to_be_known);
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
