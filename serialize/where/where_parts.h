// What conditions are made of: literals, fields, values, comparisons, the expression, its parser.

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

// The values that a user writes in a condition of --where: numbers, durations, texts and
// sizes. Plain data that owns what it shows; callable from any thread.

// Whole ones are compared as such: a double doesn't hold all of them.
struct WhereNumber {
  bool whole = true;
  int64_t integer = 0;
  double real = 0;  // also of a whole one

  static WhereNumber Whole(int64_t value) { return {true, value, static_cast<double>(value)}; }
  static WhereNumber Real(double value) { return {false, 0, value}; }
};

// Below, at or above 0, as strcmp; nothing when one is a nan.
std::optional<int> CompareNumbers(const WhereNumber& a, const WhereNumber& b);

// The whole of `text`: `-3`, `1e5`, `inf`, `nan`.
std::optional<WhereNumber> ParseWhereNumber(std::string_view text);

// `10us`, `1.5ms`, in nanoseconds.
std::optional<WhereNumber> ParseWhereDuration(std::string_view text);

// A word that is a number, true, false or none is that where the field takes it, and a
// text elsewhere.
struct WhereLiteral {
  enum Type : uint8_t { kText, kDims } type = kText;
  bool quoted = false;
  bool glob = false;  // of another name of an API: also where the operator takes none
  std::string text;
  std::optional<WhereNumber> number;
  std::vector<std::optional<int64_t>> dims;  // empty: any size

  bool Is(std::string_view word) const { return type == kText && !quoted && text == word; }
  std::optional<bool> boolean() const;
  // What parses to the same.
  std::string ToString() const;
};

// As a quoted value is written: a backslash before each quote and backslash.
std::string QuoteWhereText(std::string_view text);

// What a condition of --where is asked about, and what it answers. The subject owns
// nothing: what it points to outlives the question.

// An answer that may have to wait: for a call's thread, or for its end.
enum class Truth : uint8_t { kFalse, kTrue, kUnknown };

// Null: not known yet.
struct WhereSubject {
  const Config* config = nullptr;
  const std::vector<TensorFacet>* facets = nullptr;

  // Known from a call's entry on. `process` is the one that the call ran in.
  const CallRecord* entry = nullptr;
  const ProcessInfo* process = nullptr;
  const nlohmann::json* tags = nullptr;  // with `entry`: of Trace::tags, parsed; null: none

  // Known from a call's end on.
  bool ended = false;
  bool returned = false;     // with `ended`: false also for a call that never returned
  bool raised = false;       // with `ended`
  int64_t duration_ns = -1;  // -1: not known
  std::string_view exception;
};

// The fields that a condition of --where can name: one table, which docs/FILTER.md
// describes. Constants; callable from any thread.

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

// What its values are; kAnything for an argument or a tag.
enum class WhereKind : uint8_t { kText, kNumber, kBool, kDims, kAnything };

// What has to be known of a call before the field has a value. kTensor: its configuration,
// of which the field is one tensor's.
enum class WhereScope : uint8_t { kConfig, kTensor, kCall, kEnd };

struct WhereFieldInfo {
  const char* name;
  WhereField field;
  WhereKind kind;
  WhereScope scope;
};

// Whether it stands before parentheses.
inline bool TakesOperand(WhereField field) {
  return field == WhereField::kSize || field == WhereField::kArg || field == WhereField::kTag;
}

// Lives as long as the program; null when there is none of that name.
const WhereFieldInfo* FindWhereField(std::string_view name);

std::vector<std::string> WhereFieldNames();

// What a field of --where is for one subject, or for one tensor among its arguments.
// A value points into its subject and owns nothing but sizes. Callable from any thread.

// A field as a condition names it: size(0), arg(1), arg(dim), tag(step), and all others without more.
struct WhereFieldUse {
  const WhereFieldInfo* info;                      // of FindWhereField
  int64_t number = 0;                              // of size() and arg()
  std::optional<std::string> name = std::nullopt;  // of arg(), instead of a number, and of tag()

  std::string ToString() const;
};

struct WhereValue {
  // kMissing: the subject has no such thing; kUnknown: it can't be said yet.
  enum Type : uint8_t { kMissing, kUnknown, kText, kNumber, kBool, kDims, kNone, kOther } type = kMissing;
  std::string_view text;
  WhereNumber number;
  bool boolean = false;
  bool big = false;  // kText: the digits of an integer, which `number` is near to
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
  const TensorFacet* facet;  // null: nothing beside its config
};

// Of a field of WhereScope::kTensor.
WhereValue ValueOfTensor(const WhereFieldUse& field, const WhereTensor& tensor, const WhereSubject& subject);

// Of a field of any other scope.
WhereValue ValueOfSubject(const WhereFieldUse& field, const WhereSubject& subject);

// Whether `ask` is true of any tensor, or (`all`) of every one and of one at least.
Truth AskTensors(const WhereSubject& subject, bool all, const std::function<Truth(const WhereTensor&)>& ask);

// The operators of --where: which kinds of fields take them, and what they say of one
// value. Owns nothing; callable from any thread.

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

// The tree that a condition of --where is: comparisons, and what joins them. Nodes are
// made once, immutable, and shared by whoever holds them; callable from any thread.

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

// Reads a condition of --where (docs/FILTER.md has the grammar) into its tree. Callable
// from any thread.

// A value, or the name of an argument, that is something only where it is known.
struct WhereKnown {
  WhereField field;
  bool like;  // a glob
  WhereLiteral literal;
  size_t column;         // from 1
  std::string tag = {};  // that it is a value of; empty: a name, or of another field
};

// All patterns of names that the API or glob comes to, itself first (serialize/apis/api_names.h).
using WhereNames = std::function<std::vector<std::string>(const std::string& pattern)>;

struct ParsedWhere {
  WhereNode expression;
  std::vector<WhereKnown> to_be_known;
  // Whether it names a field of that scope.
  bool needs_call = false;
  bool needs_end = false;
};

// InvalidArgument for what is no condition; the message names the column (from 1) and
// what was expected there.
absl::StatusOr<ParsedWhere> ParseWhere(std::string_view text, const WhereNames& names = nullptr);

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_WHERE_WHERE_PARTS_H_
