#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "serialize/base/matching.h"
#include "serialize/forms/forms.h"
#include "serialize/model/levels.h"
#include "serialize/where/where_parts.h"

namespace torchtrace {
namespace {

constexpr WhereFieldInfo kFields[] = {
    {"api", WhereField::kApi, WhereKind::kText, WhereScope::kConfig},
    {"level", WhereField::kLevel, WhereKind::kNumber, WhereScope::kConfig},
    {"nargs", WhereField::kNargs, WhereKind::kNumber, WhereScope::kConfig},
    {"arg", WhereField::kArg, WhereKind::kAnything, WhereScope::kConfig},
    {"dtype", WhereField::kDtype, WhereKind::kText, WhereScope::kTensor},
    {"device", WhereField::kDevice, WhereKind::kText, WhereScope::kTensor},
    {"ndim", WhereField::kNdim, WhereKind::kNumber, WhereScope::kTensor},
    {"numel", WhereField::kNumel, WhereKind::kNumber, WhereScope::kTensor},
    {"shape", WhereField::kShape, WhereKind::kDims, WhereScope::kTensor},
    {"size", WhereField::kSize, WhereKind::kNumber, WhereScope::kTensor},
    {"stride", WhereField::kStride, WhereKind::kDims, WhereScope::kTensor},
    {"contiguous", WhereField::kContiguous, WhereKind::kBool, WhereScope::kTensor},
    {"layout", WhereField::kLayout, WhereKind::kText, WhereScope::kTensor},
    {"requires_grad", WhereField::kRequiresGrad, WhereKind::kBool, WhereScope::kTensor},
    {"subclass", WhereField::kSubclass, WhereKind::kText, WhereScope::kTensor},
    {"call", WhereField::kCall, WhereKind::kNumber, WhereScope::kCall},
    {"thread", WhereField::kThread, WhereKind::kNumber, WhereScope::kCall},
    {"thread_name", WhereField::kThreadName, WhereKind::kText, WhereScope::kCall},
    {"process", WhereField::kProcess, WhereKind::kText, WhereScope::kCall},
    {"pid", WhereField::kPid, WhereKind::kNumber, WhereScope::kCall},
    {"host", WhereField::kHost, WhereKind::kText, WhereScope::kCall},
    {"rank", WhereField::kRank, WhereKind::kNumber, WhereScope::kCall},
    {"label", WhereField::kLabel, WhereKind::kText, WhereScope::kCall},
    {"depth", WhereField::kDepth, WhereKind::kNumber, WhereScope::kCall},
    {"tag", WhereField::kTag, WhereKind::kAnything, WhereScope::kCall},
    {"returned", WhereField::kReturned, WhereKind::kBool, WhereScope::kEnd},
    {"raised", WhereField::kRaised, WhereKind::kBool, WhereScope::kEnd},
    {"exception", WhereField::kException, WhereKind::kText, WhereScope::kEnd},
    {"duration", WhereField::kDuration, WhereKind::kNumber, WhereScope::kEnd},
};

// Other words that users may write for a field, for suggestions.
constexpr std::pair<std::string_view, std::string_view> kOtherNames[] = {
    {"time", "duration"}, {"name", "api"}, {"function", "api"},   {"operator", "api"},
    {"op", "api"},        {"dim", "ndim"}, {"step", "tag(step)"},
};

}  // namespace

const WhereFieldInfo* FindWhereField(std::string_view name) {
  for (const WhereFieldInfo& field : kFields) {
    if (field.name == name) return &field;
  }
  return nullptr;
}

std::vector<std::string> WhereFieldNames() {
  std::vector<std::string> names;
  for (const WhereFieldInfo& field : kFields) names.emplace_back(field.name);
  return names;
}

namespace {

// Deeper nesting is an error: each level is a recursion.
constexpr int kMaxDepth = 200;

// What is expected after `op`, for messages.
std::string LiteralOf(const WhereFieldInfo& field, WhereOp op) {
  if (IsLike(op)) return "a glob";
  switch (field.kind) {
    case WhereKind::kText:
      return "a text";
    case WhereKind::kNumber:
      switch (field.field) {
        case WhereField::kDuration:
          return "a duration, as 10us";
        case WhereField::kLevel:
          return absl::StrCat("a level, ", DescribeLevels());
        case WhereField::kThread:
          return "a number (thread_name is compared with names)";
        case WhereField::kCall:
          return "a number (call >= 1 and call <= 3; --calls takes ranges)";
        default:
          return "a number";
      }
    case WhereKind::kBool:
      return "true or false";
    case WhereKind::kDims:
      return "sizes, as [2, *]";
    case WhereKind::kAnything:
      break;
  }
  return IsOrder(op) ? "a number" : "a value";
}

// Whether `literal` is of the kind that LiteralOf names.
bool Fits(const WhereFieldInfo& field, WhereOp op, const WhereLiteral& literal) {
  switch (field.kind) {
    case WhereKind::kText:
      return literal.type == WhereLiteral::kText;
    case WhereKind::kNumber:
      return literal.number.has_value() && !literal.quoted;
    case WhereKind::kBool:
      return literal.boolean().has_value();
    case WhereKind::kDims:
      return literal.type == WhereLiteral::kDims;
    case WhereKind::kAnything:
      break;
  }
  if (IsLike(op)) return literal.type == WhereLiteral::kText;
  return !IsOrder(op) || (literal.number.has_value() && !literal.quoted);
}

// Recursive descent; each function parses the rule in its name, from at_ on.
class Parser {
 public:
  Parser(std::string_view text, const WhereNames& names) : text_(text), names_(names) {}

  absl::StatusOr<ParsedWhere> Parse() {
    absl::StatusOr<WhereNode> node = Or(0);
    if (!node.ok()) return node.status();
    if (!AtEnd()) return Expected("and, or, or the end");
    parsed_.expression = *std::move(node);
    return std::move(parsed_);
  }

 private:
  static bool IsWordCharacter(char c) {
    return !absl::ascii_isspace(static_cast<unsigned char>(c)) &&
           std::string_view("()[],=<>!~\"'").find(c) == std::string_view::npos;
  }
  static bool IsNameCharacter(char c) { return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_'; }

  void SkipSpace() {
    while (at_ < text_.size() && absl::ascii_isspace(static_cast<unsigned char>(text_[at_]))) ++at_;
  }
  bool AtEnd() {
    SkipSpace();
    return at_ == text_.size();
  }
  bool Take(std::string_view symbol) {
    SkipSpace();
    if (text_.substr(at_, symbol.size()) != symbol) return false;
    at_ += symbol.size();
    return true;
  }
  std::string_view PeekName() {
    SkipSpace();
    size_t end = at_;
    while (end < text_.size() && IsNameCharacter(text_[end])) ++end;
    return text_.substr(at_, end - at_);
  }
  bool TakeKeyword(std::string_view keyword) {
    if (PeekName() != keyword) return false;
    at_ += keyword.size();
    return true;
  }

  absl::Status Expected(const std::string& what) {
    SkipSpace();
    std::string found = "the end";
    if (at_ < text_.size()) {
      size_t end = at_;
      while (end < text_.size() && IsWordCharacter(text_[end])) ++end;
      found = QuoteText(text_.substr(at_, std::clamp<size_t>(end - at_, 1, 40)));
    }
    return absl::InvalidArgumentError(absl::StrCat("column ", at_ + 1, ": expected ", what, ", found ", found));
  }

  absl::StatusOr<WhereNode> Or(int depth) { return Join(depth, /*is_and=*/false); }
  absl::StatusOr<WhereNode> And(int depth) { return Join(depth, /*is_and=*/true); }
  absl::StatusOr<WhereNode> Join(int depth, bool is_and) {
    std::vector<WhereNode> parts;
    do {
      absl::StatusOr<WhereNode> part = is_and ? Term(depth) : And(depth);
      if (!part.ok()) return part;
      parts.push_back(*std::move(part));
    } while (TakeKeyword(is_and ? "and" : "or"));
    if (parts.size() == 1) return parts[0];
    return MakeJunction(is_and, std::move(parts));
  }

  absl::StatusOr<WhereNode> Term(int depth) {
    if (depth > kMaxDepth) return Expected("less nesting");
    if (TakeKeyword("not")) {
      absl::StatusOr<WhereNode> inner = Term(depth + 1);
      if (!inner.ok()) return inner;
      return MakeNegation(*std::move(inner));
    }
    if (Take("(")) return Inside(depth);
    const std::string_view name = PeekName();
    if (name == "any" || name == "all") {
      at_ += name.size();
      if (!Take("(")) return Expected(absl::StrCat("( behind ", std::string(name)));
      absl::StatusOr<WhereNode> inner = Inside(depth);
      if (!inner.ok()) return inner;
      return MakeQuantifier(name == "all", *std::move(inner));
    }
    return Comparison();
  }

  absl::StatusOr<WhereNode> Inside(int depth) {
    absl::StatusOr<WhereNode> inner = Or(depth + 1);
    if (inner.ok() && !Take(")")) return Expected("and, or, or )");
    return inner;
  }

  absl::StatusOr<WhereNode> Comparison() {
    const std::string name(PeekName());
    const WhereFieldInfo* const field = FindWhereField(name);
    if (field == nullptr) {
      std::string nearest = Nearest(name, WhereFieldNames());
      for (const auto& [other, field_name] : kOtherNames) {
        if (name == other) nearest = field_name;
      }
      return Expected(nearest.empty() ? absl::StrCat("a field (", absl::StrJoin(WhereFieldNames(), ", "), ")")
                                      : absl::StrCat("a field (did you mean ", nearest, "?)"));
    }
    at_ += name.size();
    if (field->scope == WhereScope::kCall) parsed_.needs_call = true;
    if (field->scope == WhereScope::kEnd) parsed_.needs_end = true;
    WhereFieldUse use{field};
    if (TakesOperand(field->field)) {
      if (absl::Status status = Operand(&use); !status.ok()) return status;
    }
    absl::StatusOr<WhereOp> op = Operator(*field);
    if (!op.ok()) return op.status();
    std::vector<WhereLiteral> literals;
    const bool list = TakesList(*op);
    if (list && !Take("(")) return Expected("( and a list of values");
    if (*op != WhereOp::kIs) {
      do {
        absl::StatusOr<WhereLiteral> literal = OneLiteral(use, *op);
        if (!literal.ok()) return literal.status();
        literals.push_back(*literal);
        if (field->field != WhereField::kApi || !names_) continue;
        for (std::string& other : names_(literal->text)) {
          if (other == literal->text) continue;
          literals.emplace_back().text = std::move(other);
          literals.back().glob = literals.back().quoted = true;
        }
      } while (list && Take(","));
    }
    if (list && !Take(")")) return Expected(", or )");
    return MakeComparison(std::move(use), *op, std::move(literals));
  }

  // The operand of size(), arg() and tag(), in parentheses.
  absl::Status Operand(WhereFieldUse* use) {
    const bool size = use->info->field == WhereField::kSize;
    const bool tag = use->info->field == WhereField::kTag;
    const std::string what = size  ? "a dimension, as in size(0)"
                             : tag ? "a name, as in tag(step)"
                                   : "a name or a position, as in arg(dim) or arg(0)";
    if (!Take("(")) return Expected(absl::StrCat("( and ", what));
    SkipSpace();
    const size_t start = at_;
    const absl::StatusOr<WhereLiteral> literal = AnyLiteral(what);
    if (!literal.ok()) return literal.status();
    const bool whole = !tag && !literal->quoted && literal->number.has_value() && literal->number->whole;
    if (whole && (size || literal->number->integer >= 0)) {
      use->number = literal->number->integer;
    } else if (!size && literal->type == WhereLiteral::kText && !whole) {
      WhereLiteral name = *literal;
      Know(use->info->field, /*like=*/false, start, &name);
      use->name = name.text;
    } else {
      at_ = start;
      return Expected(what);
    }
    return Take(")") ? absl::OkStatus() : Expected(")");
  }

  absl::StatusOr<WhereOp> Operator(const WhereFieldInfo& field) {
    SkipSpace();
    const size_t start = at_;
    std::optional<WhereOp> op;
    // Longer ones first.
    static constexpr std::pair<const char*, WhereOp> kOps[] = {
        {"==", WhereOp::kEqual},        {"!=", WhereOp::kNotEqual}, {"<=", WhereOp::kLessEqual},
        {">=", WhereOp::kGreaterEqual}, {"!~", WhereOp::kNotLike},  {"=", WhereOp::kEqual},
        {"<", WhereOp::kLess},          {">", WhereOp::kGreater},   {"~", WhereOp::kLike},
    };
    for (const auto& [symbol, candidate] : kOps) {
      if (!op.has_value() && Take(symbol)) op = candidate;
    }
    if (!op.has_value() && TakeKeyword("in")) op = WhereOp::kIn;
    if (!op.has_value() && TakeKeyword("not")) {
      if (!TakeKeyword("in")) return Expected("in");
      op = WhereOp::kNotIn;
    }
    if (TakesOperator(field.kind, op.value_or(WhereOp::kIs))) return op.value_or(WhereOp::kIs);
    at_ = start;
    return Expected(absl::StrCat("one of ", OperatorsOf(field.kind), " behind ", field.name));
  }

  absl::StatusOr<WhereLiteral> OneLiteral(const WhereFieldUse& use, WhereOp op) {
    const WhereFieldInfo& field = *use.info;
    SkipSpace();
    const size_t start = at_;
    const std::string what = LiteralOf(field, op);
    absl::StatusOr<WhereLiteral> literal = AnyLiteral(what);
    if (!literal.ok()) return literal;
    if (field.field == WhereField::kDuration && !literal->number.has_value() && !literal->quoted) {
      literal->number = ParseWhereDuration(literal->text);
    }
    for (const Level& level : AllLevels()) {
      if (field.field != WhereField::kLevel || literal->quoted || literal->text != level.name) continue;
      literal->text = std::to_string(level.number);
      literal->number = WhereNumber::Whole(level.number);
    }
    if (field.kind == WhereKind::kNumber && !literal->quoted && literal->text.starts_with('?')) {
      literal->number = ParseWhereNumber(std::string_view(literal->text).substr(1));
    }
    if (Fits(field, op, *literal)) {
      const bool of_tag = field.field == WhereField::kTag && literal->type == WhereLiteral::kText && !IsOther(*literal);
      if (!IsOrder(op) && (of_tag || !TakesOperand(field.field))) {
        Know(field.field, IsLike(op), start, &*literal, of_tag ? *use.name : "");
      }
      return literal;
    }
    at_ = start;
    return Expected(what);
  }

  // Whether it is a number, true, false or none, for fields of any type.
  static bool IsOther(const WhereLiteral& literal) {
    return !literal.quoted &&
           (literal.number.has_value() || literal.boolean().has_value() || literal.Is("none") || literal.Is("None"));
  }

  // `?NAME` is NAME without a check.
  void Know(WhereField field, bool like, size_t at, WhereLiteral* literal, const std::string& tag = "") {
    if (!literal->quoted && literal->text.size() > 1 && literal->text[0] == '?') {
      literal->text.erase(0, 1);
    } else {
      parsed_.to_be_known.push_back({field, like, *literal, at + 1, tag});
    }
  }

  absl::StatusOr<WhereLiteral> AnyLiteral(const std::string& what) {
    SkipSpace();
    WhereLiteral literal;
    if (at_ == text_.size()) return Expected(what);
    if (text_[at_] == '"' || text_[at_] == '\'') return Quoted();
    if (text_[at_] == '[') return Sizes();
    const size_t start = at_;
    while (at_ < text_.size() && IsWordCharacter(text_[at_])) ++at_;
    if (at_ == start) return Expected(what);
    literal.text = text_.substr(start, at_ - start);
    literal.number = ParseWhereNumber(literal.text);
    return literal;
  }

  // A backslash escapes the next character.
  absl::StatusOr<WhereLiteral> Quoted() {
    WhereLiteral literal;
    literal.quoted = true;
    const char quote = text_[at_++];
    while (at_ < text_.size() && text_[at_] != quote) {
      if (text_[at_] == '\\' && at_ + 1 < text_.size()) ++at_;
      literal.text += text_[at_++];
    }
    if (at_ == text_.size()) return Expected(quote == '"' ? "a closing \"" : "a closing '");
    ++at_;
    return literal;
  }

  absl::StatusOr<WhereLiteral> Sizes() {
    WhereLiteral literal;
    literal.type = WhereLiteral::kDims;
    ++at_;
    if (Take("]")) return literal;
    do {
      SkipSpace();
      const size_t start = at_;
      while (at_ < text_.size() && IsWordCharacter(text_[at_])) ++at_;
      const std::string_view word = text_.substr(start, at_ - start);
      const std::optional<WhereNumber> number = ParseWhereNumber(word);
      if (word == "*") {
        literal.dims.emplace_back();
      } else if (number.has_value() && number->whole) {
        literal.dims.emplace_back(number->integer);
      } else {
        at_ = start;
        return Expected("a size or *");
      }
    } while (Take(","));
    if (!Take("]")) return Expected(", or ]");
    return literal;
  }

  const std::string_view text_;
  const WhereNames& names_;
  size_t at_ = 0;
  ParsedWhere parsed_;
};

}  // namespace

absl::StatusOr<ParsedWhere> ParseWhere(std::string_view text, const WhereNames& names) {
  return Parser(text, names).Parse();
}

}  // namespace torchtrace
