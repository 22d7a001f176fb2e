#include "serialize/where/where_comparison.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string_view>
#include <utility>

#include "serialize/base/glob.h"

namespace torchtrace {

namespace {

Truth FromBool(bool value) { return value ? Truth::kTrue : Truth::kFalse; }

// Names that PyTorch has for the same dtype.
std::string_view CanonicalDtype(std::string_view name) {
  static constexpr std::pair<const char*, const char*> kSynonyms[] = {
      {"half", "float16"}, {"float", "float32"}, {"double", "float64"},   {"short", "int16"},
      {"int", "int32"},    {"long", "int64"},    {"cfloat", "complex64"}, {"cdouble", "complex128"},
      {"byte", "uint8"},   {"char", "int8"},     {"chalf", "complex32"},
  };
  for (const auto& [synonym, dtype] : kSynonyms) {
    if (name == synonym) return dtype;
  }
  return name;
}

bool TextEquals(WhereField field, std::string_view value, std::string_view wanted) {
  if (value == wanted) return true;
  // `torch.float16` is float16, `half` too, and `cuda` any of its devices.
  if (field == WhereField::kDtype || field == WhereField::kLayout || field == WhereField::kArg) {
    if (wanted.starts_with("torch.")) wanted.remove_prefix(6);
    return value == wanted || (field == WhereField::kDtype && value == CanonicalDtype(wanted));
  }
  return field == WhereField::kDevice && value.substr(0, value.find(':')) == wanted;
}

bool Equals(WhereField field, const WhereValue& value, const WhereLiteral& literal) {
  switch (value.type) {
    case WhereValue::kText:
      return literal.type == WhereLiteral::kText && TextEquals(field, value.text, literal.text);
    case WhereValue::kNumber:
      return !literal.quoted && literal.number.has_value() && CompareNumbers(value.number, *literal.number) == 0;
    case WhereValue::kBool:
      return literal.boolean() == value.boolean;
    case WhereValue::kNone:
      return literal.Is("none") || literal.Is("None");
    case WhereValue::kDims:
      return literal.type == WhereLiteral::kDims &&
             std::equal(value.dims.begin(), value.dims.end(), literal.dims.begin(), literal.dims.end(),
                        [](const Dim& dim, const std::optional<int64_t>& wanted) {
                          return !wanted.has_value() || dim == wanted;
                        });
    default:
      return false;
  }
}

bool Holds(WhereOp op, std::optional<int> order) {
  if (!order.has_value()) return false;
  switch (op) {
    case WhereOp::kLess:
      return *order < 0;
    case WhereOp::kLessEqual:
      return *order <= 0;
    case WhereOp::kGreater:
      return *order > 0;
    default:
      return *order >= 0;
  }
}

}  // namespace

const char* WhereOpText(WhereOp op) {
  static constexpr const char* kTexts[] = {"", "=", "!=", "<", "<=", ">", ">=", "~", "!~", "in", "not in"};
  return kTexts[static_cast<size_t>(op)];
}

bool TakesOperator(WhereKind kind, WhereOp op) {
  if (kind == WhereKind::kAnything) return true;
  if (op == WhereOp::kIs) return kind == WhereKind::kBool;
  if (IsLike(op)) return kind == WhereKind::kText;
  if (IsOrder(op)) return kind == WhereKind::kNumber;
  return !TakesList(op) || kind != WhereKind::kBool;
}

const char* OperatorsOf(WhereKind kind) {
  switch (kind) {
    case WhereKind::kText:
      return "= != ~ !~ in";
    case WhereKind::kNumber:
      return "= != < <= > >= in";
    case WhereKind::kBool:
      return "= !=";
    case WhereKind::kDims:
      return "= != in";
    case WhereKind::kAnything:
      break;
  }
  return "= != < <= > >= ~ !~ in";
}

Truth CompareWhereValue(const WhereValue& value, WhereField field, WhereOp op,
                        const std::vector<WhereLiteral>& literals) {
  if (value.type == WhereValue::kUnknown) return Truth::kUnknown;
  if (value.type == WhereValue::kMissing) return Truth::kFalse;
  switch (op) {
    case WhereOp::kIs:
      return FromBool(field == WhereField::kArg || value.boolean);
    case WhereOp::kEqual:
      return FromBool(Equals(field, value, literals[0]));
    case WhereOp::kNotEqual:
      return FromBool(!Equals(field, value, literals[0]));
    case WhereOp::kLike:
    case WhereOp::kNotLike:
      if (value.type != WhereValue::kText) return Truth::kFalse;
      return FromBool(GlobMatch(literals[0].text, value.text) == (op == WhereOp::kLike));
    case WhereOp::kIn:
    case WhereOp::kNotIn: {
      const bool found = std::any_of(literals.begin(), literals.end(),
                                     [&](const WhereLiteral& literal) { return Equals(field, value, literal); });
      return FromBool(found == (op == WhereOp::kIn));
    }
    default:
      return FromBool(value.type == WhereValue::kNumber &&
                      Holds(op, CompareNumbers(value.number, *literals[0].number)));
  }
}

}  // namespace torchtrace
