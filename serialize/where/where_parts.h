// The parts of --where conditions: literals, fields, values, comparisons, the expression, its parser. Everything here
// is callable from any thread.

#ifndef TORCHTRACE_SERIALIZE_WHERE_WHERE_PARTS_H_
#define TORCHTRACE_SERIALIZE_WHERE_WHERE_PARTS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "nlohmann/json_fwd.hpp"
#include "serialize/model/config.h"
#include "serialize/model/value.h"
#include "serialize/trace/trace.h"

namespace torchtrace {

// A number in a condition. Integers are compared as integers: a double can't hold all of them.
struct WhereNumber {
  bool whole = true;
  int64_t integer = 0;
  double real = 0;  // also set for integers

  static WhereNumber Whole(int64_t value) { return {true, value, static_cast<double>(value)}; }
  static WhereNumber Real(double value) { return {false, 0, value}; }
};

// Below, equal to or above 0, like strcmp; nullopt if one is a nan.
std::optional<int> CompareNumbers(const WhereNumber& a, const WhereNumber& b);

// `-3`, `1e5`, `inf`, `nan`; nullopt unless the whole text is a number.
std::optional<WhereNumber> ParseWhereNumber(std::string_view text);

// `10us`, `1.5ms`, in nanoseconds.
std::optional<WhereNumber> ParseWhereDuration(std::string_view text);

// A value that a user writes in a condition. A word such as `3`, `true` or `none` is a
// number, bool or None if the field takes these, else a text.
struct WhereLiteral {
  enum Type : uint8_t { kText, kDims } type = kText;
  bool quoted = false;
  bool glob = false;  // a glob for another name of an API, even if the operator takes no globs
  std::string text;
  std::optional<WhereNumber> number;
  std::vector<std::optional<int64_t>> dims;  // empty: any size

  bool Is(std::string_view word) const { return type == kText && !quoted && text == word; }
  std::optional<bool> boolean() const;
  // Parses to the same literal.
  std::string ToString() const;
};

// In quotes, with a backslash before each quote and backslash.
std::string QuoteWhereText(std::string_view text);

// kUnknown: not decided before more is known, such as the call's thread or its end.
enum class Truth : uint8_t { kFalse, kTrue, kUnknown };

// The call that a condition is evaluated for. Owns nothing. Null: not known yet.
struct WhereSubject {
  const Config* config = nullptr;
  const std::vector<TensorFacet>* facets = nullptr;

  // Known from the call's entry on. `process` is the one that the call ran in.
  const CallRecord* entry = nullptr;
  const ProcessInfo* process = nullptr;
  const nlohmann::json* tags = nullptr;  // with `entry`: parsed Trace::tags; null: none

  // Known from the call's end on.
  bool ended = false;
  bool returned = false;     // with `ended`: false also for a call that never returned
  bool raised = false;       // with `ended`
  int64_t duration_ns = -1;  // -1: unknown
  std::string_view exception;
};

// The fields of conditions, which docs/FILTER.md describes.
enum class WhereField : uint8_t {
  kApi,
  kLevel,
  kNargs,
  kArg,
  kDtype,
  kDevice,
  kNdim,
  kNumel,
  kShape,
  kSize,
  kStride,
  kContiguous,
  kLayout,
  kRequiresGrad,
  kSubclass,
  kCall,
  kThread,
  kThreadName,
  kProcess,
  kPid,
  kHost,
  kRank,
  kLabel,
  kDepth,
  kTag,
  kReturned,
  kRaised,
  kException,
  kDuration,
};

// The type of a field's values; kAnything for an argument or a tag.
enum class WhereKind : uint8_t { kText, kNumber, kBool, kDims, kAnything };

// What the value of a field depends on. kTensor: on one tensor of the configuration.
enum class WhereScope : uint8_t { kConfig, kTensor, kCall, kEnd };

struct WhereFieldInfo {
  const char* name;
  WhereField field;
  WhereKind kind;
  WhereScope scope;
};

// Whether the field has an operand in parentheses.
inline bool TakesOperand(WhereField field) {
  return field == WhereField::kSize || field == WhereField::kArg || field == WhereField::kTag;
}

// A constant; null if there is no field of that name.
const WhereFieldInfo* FindWhereField(std::string_view name);

std::vector<std::string> WhereFieldNames();

// A field as used in a condition: size(0), arg(1), arg(dim), tag(step); all others have no operand.
struct WhereFieldUse {
  const WhereFieldInfo* info;                      // of FindWhereField
  int64_t number = 0;                              // of size() and arg()
  std::optional<std::string> name = std::nullopt;  // of arg(), instead of a number, and of tag()

  std::string ToString() const;
};

// The value of a field for one subject, or for one of its tensors. Points into the subject; owns only sizes.
struct WhereValue {
  // kMissing: the subject has no such value; kUnknown: not known yet.
  enum Type : uint8_t { kMissing, kUnknown, kText, kNumber, kBool, kDims, kNone, kOther } type = kMissing;
  std::string_view text;
  WhereNumber number;
  bool boolean = false;
  bool big = false;  // kText: the digits of a large integer; `number` is approximate
  std::vector<Dim> dims;

  static WhereValue Of(Type type) {
    WhereValue value;
    value.type = type;
    return value;
  }
  static WhereValue Text(std::string_view text) {
    WhereValue value = Of(kText);
    value.text = text;
    return value;
  }
  static WhereValue Number(WhereNumber number) {
    WhereValue value = Of(kNumber);
    value.number = number;
    return value;
  }
  static WhereValue Whole(int64_t number) { return Number(WhereNumber::Whole(number)); }
  static WhereValue Bool(bool boolean) {
    WhereValue value = Of(kBool);
    value.boolean = boolean;
    return value;
  }
  static WhereValue Dims(std::vector<Dim> dims) {
    WhereValue value = Of(kDims);
    value.dims = std::move(dims);
    return value;
  }
};

// One tensor among the arguments.
struct WhereTensor {
  const Value* value;
  const TensorFacet* facet;  // null: none
};

// For a field of WhereScope::kTensor.
WhereValue ValueOfTensor(const WhereFieldUse& field, const WhereTensor& tensor, const WhereSubject& subject);

// For a field of any other scope.
WhereValue ValueOfSubject(const WhereFieldUse& field, const WhereSubject& subject);

// Whether `ask` is true for any tensor; with `all`, for every tensor and at least one.
Truth AskTensors(const WhereSubject& subject, bool all, const std::function<Truth(const WhereTensor&)>& ask);

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

// All operators that the kind takes, for messages: "= != in".
const char* OperatorsOf(WhereKind kind);

// `literals`: none for kIs, a list for operators that take one, else one; a number if the
// operator is an order.
Truth CompareWhereValue(const WhereValue& value, WhereField field, WhereOp op,
                        const std::vector<WhereLiteral>& literals);

// A node of the expression tree: a comparison, or a combination of nodes. Immutable and shared.
class WhereExpression {
 public:
  virtual ~WhereExpression() = default;
  // `tensor` is the current one inside of any() or all(); null outside of them.
  virtual Truth Ask(const WhereSubject& subject, const WhereTensor* tensor) const = 0;
  // With all parentheses.
  virtual std::string ToString() const = 0;
};

using WhereNode = std::shared_ptr<const WhereExpression>;

// `field op literals`, as for CompareWhereValue.
WhereNode MakeComparison(WhereFieldUse field, WhereOp op, std::vector<WhereLiteral> literals);
WhereNode MakeNegation(WhereNode inner);
// and, or.
WhereNode MakeJunction(bool is_and, std::vector<WhereNode> parts);
// all(), any().
WhereNode MakeQuantifier(bool all, WhereNode inner);

// A value, or the name of an argument, that must exist (see Where::CheckValues).
struct WhereKnown {
  WhereField field;
  bool like;  // a glob
  WhereLiteral literal;
  size_t column;         // from 1
  std::string tag = {};  // the tag whose value it is; empty: a name, or a value of another field
};

// Returns all names and globs of an API's name or glob, itself first (ApiNames::Resolve).
using WhereNames = std::function<std::vector<std::string>(const std::string& pattern)>;

struct ParsedWhere {
  WhereNode expression;
  std::vector<WhereKnown> to_be_known;
  // Whether it has a field of that scope.
  bool needs_call = false;
  bool needs_end = false;
};

// Parses a condition (docs/FILTER.md has the grammar). InvalidArgument for a syntax error; the message
// names the column (from 1) and what was expected there.
absl::StatusOr<ParsedWhere> ParseWhere(std::string_view text, const WhereNames& names = nullptr);

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_WHERE_WHERE_PARTS_H_
