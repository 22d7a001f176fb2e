#include "serialize/where.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <functional>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "nlohmann/json.hpp"
#include "serialize/edit_distance.h"
#include "serialize/glob.h"
#include "serialize/run_facts.h"
#include "serialize/text_form.h"
#include "serialize/value_tree.h"

namespace torchtrace {

namespace {

// One tensor among the arguments.
struct TensorRef {
  const Value* value;
  const TensorFacet* facet;  // null: nothing beside its config
};

}  // namespace

class WhereExpression {
 public:
  virtual ~WhereExpression() = default;
  // `tensor` is the one that any() or all() speaks of; null outside of them.
  virtual Truth Ask(const WhereSubject& subject, const TensorRef* tensor) const = 0;
  virtual std::string ToString() const = 0;
};

namespace {

using Node = std::shared_ptr<const WhereExpression>;

// Deeper nesting is refused: each level is a recursion.
constexpr int kMaxDepth = 200;

enum class Field : uint8_t {
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
  kReturned,
  kRaised,
  kException,
  kDuration,
};

enum class Kind : uint8_t { kText, kNumber, kBool, kDims, kAnything };
enum class Scope : uint8_t { kConfig, kTensor, kCall, kEnd };

struct FieldInfo {
  const char* name;
  Field field;
  Kind kind;
  Scope scope;
};

constexpr std::array kFields = {
    FieldInfo{"api", Field::kApi, Kind::kText, Scope::kConfig},
    FieldInfo{"level", Field::kLevel, Kind::kNumber, Scope::kConfig},
    FieldInfo{"nargs", Field::kNargs, Kind::kNumber, Scope::kConfig},
    FieldInfo{"arg", Field::kArg, Kind::kAnything, Scope::kConfig},
    FieldInfo{"dtype", Field::kDtype, Kind::kText, Scope::kTensor},
    FieldInfo{"device", Field::kDevice, Kind::kText, Scope::kTensor},
    FieldInfo{"ndim", Field::kNdim, Kind::kNumber, Scope::kTensor},
    FieldInfo{"numel", Field::kNumel, Kind::kNumber, Scope::kTensor},
    FieldInfo{"shape", Field::kShape, Kind::kDims, Scope::kTensor},
    FieldInfo{"size", Field::kSize, Kind::kNumber, Scope::kTensor},
    FieldInfo{"stride", Field::kStride, Kind::kDims, Scope::kTensor},
    FieldInfo{"contiguous", Field::kContiguous, Kind::kBool, Scope::kTensor},
    FieldInfo{"layout", Field::kLayout, Kind::kText, Scope::kTensor},
    FieldInfo{"requires_grad", Field::kRequiresGrad, Kind::kBool, Scope::kTensor},
    FieldInfo{"subclass", Field::kSubclass, Kind::kText, Scope::kTensor},
    FieldInfo{"call", Field::kCall, Kind::kNumber, Scope::kCall},
    FieldInfo{"thread", Field::kThread, Kind::kNumber, Scope::kCall},
    FieldInfo{"thread_name", Field::kThreadName, Kind::kText, Scope::kCall},
    FieldInfo{"process", Field::kProcess, Kind::kText, Scope::kCall},
    FieldInfo{"pid", Field::kPid, Kind::kNumber, Scope::kCall},
    FieldInfo{"host", Field::kHost, Kind::kText, Scope::kCall},
    FieldInfo{"rank", Field::kRank, Kind::kNumber, Scope::kCall},
    FieldInfo{"label", Field::kLabel, Kind::kText, Scope::kCall},
    FieldInfo{"depth", Field::kDepth, Kind::kNumber, Scope::kCall},
    FieldInfo{"returned", Field::kReturned, Kind::kBool, Scope::kEnd},
    FieldInfo{"raised", Field::kRaised, Kind::kBool, Scope::kEnd},
    FieldInfo{"exception", Field::kException, Kind::kText, Scope::kEnd},
    FieldInfo{"duration", Field::kDuration, Kind::kNumber, Scope::kEnd},
};

enum class Op : uint8_t {
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

constexpr std::array kOpTexts = {"", "=", "!=", "<", "<=", ">", ">=", "~", "!~", "in", "not in"};

struct Number {
  bool whole = true;
  int64_t integer = 0;
  double real = 0;
};

// As a quoted value is written.
std::string Quote(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += c;
  }
  return quoted + "\"";
}

Number WholeNumber(int64_t value) { return {true, value, static_cast<double>(value)}; }

// -1, 0 or 1; nothing when one is a nan.
std::optional<int> Compare(const Number& a, const Number& b) {
  if (a.whole && b.whole) return a.integer < b.integer ? -1 : a.integer > b.integer ? 1 : 0;
  if (std::isnan(a.real) || std::isnan(b.real)) return std::nullopt;
  return a.real < b.real ? -1 : a.real > b.real ? 1 : 0;
}

// A value that a user wrote. A word that is a number, true, false or none is that
// where the field takes it, and a text elsewhere.
struct Literal {
  enum Type : uint8_t { kText, kDims } type = kText;
  bool quoted = false;
  std::string text;
  std::optional<Number> number;
  std::vector<std::optional<int64_t>> dims;  // empty: any size

  bool Is(const char* word) const { return type == kText && !quoted && text == word; }
  std::optional<bool> boolean() const {
    if (Is("true") || Is("True")) return true;
    if (Is("false") || Is("False")) return false;
    return std::nullopt;
  }
  std::string ToString() const {
    if (type == kDims) {
      return absl::StrCat("[",
                          absl::StrJoin(dims, ", ",
                                        [](std::string* out, const std::optional<int64_t>& dim) {
                                          dim.has_value() ? absl::StrAppend(out, *dim) : absl::StrAppend(out, "*");
                                        }),
                          "]");
    }
    return quoted ? Quote(text) : text;
  }
};

// What a field is for one subject.
struct FieldValue {
  enum Type : uint8_t { kMissing, kUnknown, kText, kNumber, kBool, kDims, kNone, kOther } type = kMissing;
  std::string_view text;
  Number number;
  bool boolean = false;
  std::vector<Dim> dims;

  static FieldValue Text(std::string_view text) {
    FieldValue value;
    value.type = kText;
    value.text = text;
    return value;
  }
  static FieldValue Whole(int64_t number) {
    FieldValue value;
    value.type = kNumber;
    value.number = WholeNumber(number);
    return value;
  }
  static FieldValue Bool(bool boolean) {
    FieldValue value;
    value.type = kBool;
    value.boolean = boolean;
    return value;
  }
  static FieldValue Dims(std::vector<Dim> dims) {
    FieldValue value;
    value.type = kDims;
    value.dims = std::move(dims);
    return value;
  }
  static FieldValue Of(Type type) {
    FieldValue value;
    value.type = type;
    return value;
  }
};

Truth Not(Truth truth) {
  return truth == Truth::kUnknown ? truth : truth == Truth::kTrue ? Truth::kFalse : Truth::kTrue;
}
Truth FromBool(bool value) { return value ? Truth::kTrue : Truth::kFalse; }

// Calls `visit` with every tensor until it returns true.
using TensorVisitor = std::function<bool(const TensorRef&)>;
bool VisitTensors(const Value& value, const std::vector<TensorFacet>* facets, uint64_t* ordinal,
                  const TensorVisitor& visit) {
  if (value.tag == ValueTag::kTensor) {
    const uint64_t number = (*ordinal)++;
    const TensorFacet* facet = nullptr;
    if (facets != nullptr) {
      for (const TensorFacet& candidate : *facets) {
        if (candidate.tensor == number) facet = &candidate;
      }
    }
    return visit({&value, facet});
  }
  return std::any_of(value.items.begin(), value.items.end(),
                     [&](const Value& item) { return VisitTensors(item, facets, ordinal, visit); });
}

// Whether `visit` is true of any tensor, or (`all`) of every one and of one at least.
Truth AskTensors(const WhereSubject& subject, bool all, const std::function<Truth(const TensorRef&)>& ask) {
  if (subject.config == nullptr) return Truth::kUnknown;
  const Truth decided = all ? Truth::kFalse : Truth::kTrue;
  bool some = false, unknown = false;
  uint64_t ordinal = 0;
  const auto visit = [&](const TensorRef& tensor) {
    some = true;
    const Truth truth = ask(tensor);
    unknown = unknown || truth == Truth::kUnknown;
    return truth == decided;
  };
  for (const Value& value : subject.config->args) {
    if (VisitTensors(value, subject.facets, &ordinal, visit)) return decided;
  }
  for (const auto& [name, value] : subject.config->kwargs) {
    if (VisitTensors(value, subject.facets, &ordinal, visit)) return decided;
  }
  return unknown ? Truth::kUnknown : FromBool(all && some);
}

std::vector<Dim> StridesOf(const Value& tensor) {
  if ((tensor.tensor_bits & kTensorHasStride) != 0) return tensor.strides;
  std::vector<Dim> strides(tensor.shape.size());
  Dim stride = 1;
  for (size_t i = strides.size(); i-- > 0;) {
    strides[i] = stride;
    int64_t product = 0;
    if (!stride.has_value() || !tensor.shape[i].has_value() ||
        __builtin_mul_overflow(*stride, std::max<int64_t>(1, *tensor.shape[i]), &product)) {
      stride.reset();
    } else {
      stride = product;
    }
  }
  return strides;
}

FieldValue NumelOf(const Value& tensor) {
  int64_t numel = 1;
  for (const Dim& dim : tensor.shape) {
    if (!dim.has_value() || __builtin_mul_overflow(numel, *dim, &numel)) return {};
  }
  return FieldValue::Whole(numel);
}

// `dim` counts from the end when it is negative.
FieldValue SizeOf(const Value& tensor, int64_t dim) {
  const auto rank = static_cast<int64_t>(tensor.shape.size());
  if (dim < 0) dim += rank;
  if (dim < 0 || dim >= rank || !tensor.shape[static_cast<size_t>(dim)].has_value()) return {};
  return FieldValue::Whole(*tensor.shape[static_cast<size_t>(dim)]);
}

FieldValue OfArgument(const Value& value) {
  switch (value.tag) {
    case ValueTag::kNone:
      return FieldValue::Of(FieldValue::kNone);
    case ValueTag::kFalse:
    case ValueTag::kTrue:
      return FieldValue::Bool(value.tag == ValueTag::kTrue);
    case ValueTag::kInt:
      return FieldValue::Whole(value.integer);
    case ValueTag::kFloat: {
      FieldValue number = FieldValue::Of(FieldValue::kNumber);
      number.number = {false, 0, value.real};
      return number;
    }
    case ValueTag::kString:
    case ValueTag::kBigInt:
    case ValueTag::kDtype:
    case ValueTag::kDevice:
    case ValueTag::kLayout:
    case ValueTag::kMemoryFormat:
    case ValueTag::kFunction:
    case ValueTag::kType:
    case ValueTag::kObject:
      return FieldValue::Text(value.text);
    case ValueTag::kList:
    case ValueTag::kTuple:
    case ValueTag::kSize: {
      std::vector<Dim> dims;
      for (const Value& item : value.items) {
        const bool symbol = item.tag == ValueTag::kSymbol;
        if (item.tag != ValueTag::kInt && !symbol) return FieldValue::Of(FieldValue::kOther);
        dims.push_back(symbol ? Dim() : Dim(item.integer));
      }
      return FieldValue::Dims(std::move(dims));
    }
    default:
      return FieldValue::Of(FieldValue::kOther);
  }
}

FieldValue OfMetadata(const ProcessInfo& process, const char* key) {
  const nlohmann::json* const member = process.metadata == nullptr ? nullptr : FindMember(*process.metadata, key);
  if (member == nullptr) return {};
  if (member->is_number_integer()) return FieldValue::Whole(member->get<int64_t>());
  if (member->is_string()) return FieldValue::Text(member->get_ref<const std::string&>());
  return {};
}

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

class Test : public WhereExpression {
 public:
  Test(const FieldInfo& field, int64_t number, std::optional<std::string> name, Op op, std::vector<Literal> literals)
      : field_(field), number_(number), name_(std::move(name)), op_(op), literals_(std::move(literals)) {}

  Truth Ask(const WhereSubject& subject, const TensorRef* tensor) const override {
    if (field_.scope != Scope::kTensor) return Judge(ValueOf(subject));
    if (tensor != nullptr) return Judge(ValueOf(*tensor, subject));
    return AskTensors(subject, /*all=*/false, [&](const TensorRef& one) { return Judge(ValueOf(one, subject)); });
  }

  std::string ToString() const override {
    std::string text = field_.name;
    if (field_.field == Field::kSize || (field_.field == Field::kArg && !name_.has_value())) {
      absl::StrAppend(&text, "(", number_, ")");
    } else if (field_.field == Field::kArg) {
      absl::StrAppend(&text, "(", Quote(*name_), ")");
    }
    if (op_ == Op::kIs) return text;
    absl::StrAppend(&text, " ", kOpTexts[static_cast<size_t>(op_)], " ");
    const bool list = op_ == Op::kIn || op_ == Op::kNotIn;
    absl::StrAppend(&text, list ? "(" : "",
                    absl::StrJoin(literals_, ", ",
                                  [](std::string* out, const Literal& literal) { out->append(literal.ToString()); }),
                    list ? ")" : "");
    return text;
  }

 private:
  FieldValue ValueOf(const TensorRef& tensor, const WhereSubject& subject) const {
    const Value& value = *tensor.value;
    const bool shaped = (value.tensor_bits & kTensorShapeUnknown) == 0;
    switch (field_.field) {
      case Field::kDtype:
        return FieldValue::Text(value.text);
      case Field::kDevice:
        return FieldValue::Text(value.device);
      case Field::kLayout:
        if ((value.tensor_bits & kTensorHasLayout) == 0) return FieldValue::Text("strided");
        return FieldValue::Text(value.layout);
      case Field::kNdim:
        return shaped ? FieldValue::Whole(static_cast<int64_t>(value.shape.size())) : FieldValue();
      case Field::kNumel:
        return shaped ? NumelOf(value) : FieldValue();
      case Field::kShape:
        return shaped ? FieldValue::Dims(value.shape) : FieldValue();
      case Field::kSize:
        return SizeOf(value, number_);
      case Field::kStride:
        return shaped && (value.tensor_bits & kTensorHasLayout) == 0 ? FieldValue::Dims(StridesOf(value))
                                                                     : FieldValue();
      case Field::kContiguous:
        return FieldValue::Bool((value.tensor_bits & (kTensorHasStride | kTensorHasLayout)) == 0);
      case Field::kRequiresGrad:
        if (subject.facets == nullptr) return FieldValue::Of(FieldValue::kUnknown);
        return FieldValue::Bool(tensor.facet != nullptr && tensor.facet->requires_grad);
      default:  // kSubclass
        if (subject.facets == nullptr) return FieldValue::Of(FieldValue::kUnknown);
        if (tensor.facet == nullptr || tensor.facet->subclass.empty()) return {};
        return FieldValue::Text(tensor.facet->subclass);
    }
  }

  FieldValue ValueOf(const WhereSubject& subject) const {
    const bool known = field_.scope == Scope::kConfig ? subject.config != nullptr
                       : field_.scope == Scope::kCall ? subject.entry != nullptr
                                                      : subject.ended;
    if (!known) return FieldValue::Of(FieldValue::kUnknown);
    switch (field_.field) {
      case Field::kApi:
        return FieldValue::Text(subject.config->api);
      case Field::kLevel:
        return FieldValue::Whole(subject.config->level);
      case Field::kNargs:
        return FieldValue::Whole(static_cast<int64_t>(subject.config->args.size() + subject.config->kwargs.size()));
      case Field::kArg:
        return Argument(*subject.config);
      case Field::kCall:
        return FieldValue::Whole(static_cast<int64_t>(subject.entry->call));
      case Field::kThread:
        return FieldValue::Whole(subject.entry->thread);
      case Field::kDepth:
        return FieldValue::Whole(subject.entry->depth);
      case Field::kThreadName:
        for (const ThreadInfo& thread : subject.process->threads) {
          if (thread.number == subject.entry->thread) return FieldValue::Text(thread.name);
        }
        return {};
      case Field::kProcess: {
        const std::string& path = subject.process->path;
        std::string_view name(path);
        name.remove_prefix(path.rfind('/') + 1);  // npos + 1 is 0
        return FieldValue::Text(name.substr(0, name.rfind('.')));
      }
      case Field::kPid:
        return OfMetadata(*subject.process, "pid");
      case Field::kHost:
        return OfMetadata(*subject.process, "host");
      case Field::kRank:
        return OfMetadata(*subject.process, "rank");
      case Field::kLabel:
        return OfMetadata(*subject.process, "label");
      case Field::kReturned:
        return FieldValue::Bool(subject.returned);
      case Field::kRaised:
        return FieldValue::Bool(subject.raised);
      case Field::kException:
        return subject.raised ? FieldValue::Text(subject.exception) : FieldValue();
      default:  // kDuration
        return subject.duration_ns < 0 ? FieldValue() : FieldValue::Whole(subject.duration_ns);
    }
  }

  FieldValue Argument(const Config& config) const {
    if (!name_.has_value()) {
      const auto at = static_cast<uint64_t>(number_);
      return at < config.args.size() ? OfArgument(config.args[at]) : FieldValue();
    }
    for (const auto& [name, value] : config.kwargs) {
      if (name == *name_) return OfArgument(value);
    }
    return {};
  }

  Truth Judge(const FieldValue& value) const {
    if (value.type == FieldValue::kUnknown) return Truth::kUnknown;
    if (value.type == FieldValue::kMissing) return Truth::kFalse;
    switch (op_) {
      case Op::kIs:
        return FromBool(field_.field == Field::kArg || value.boolean);
      case Op::kEqual:
        return FromBool(Equals(value, literals_[0]));
      case Op::kNotEqual:
        return FromBool(!Equals(value, literals_[0]));
      case Op::kLike:
      case Op::kNotLike:
        if (value.type != FieldValue::kText) return Truth::kFalse;
        return FromBool(GlobMatch(literals_[0].text, value.text) == (op_ == Op::kLike));
      case Op::kIn:
      case Op::kNotIn: {
        const bool found = std::any_of(literals_.begin(), literals_.end(),
                                       [&](const Literal& literal) { return Equals(value, literal); });
        return FromBool(found == (op_ == Op::kIn));
      }
      default:
        return FromBool(value.type == FieldValue::kNumber && Ordered(Compare(value.number, *literals_[0].number)));
    }
  }

  bool Ordered(std::optional<int> order) const {
    if (!order.has_value()) return false;
    switch (op_) {
      case Op::kLess:
        return *order < 0;
      case Op::kLessEqual:
        return *order <= 0;
      case Op::kGreater:
        return *order > 0;
      default:
        return *order >= 0;
    }
  }

  bool Equals(const FieldValue& value, const Literal& literal) const {
    switch (value.type) {
      case FieldValue::kText:
        return literal.type == Literal::kText && TextEquals(value.text, literal.text);
      case FieldValue::kNumber:
        return !literal.quoted && literal.number.has_value() && Compare(value.number, *literal.number) == 0;
      case FieldValue::kBool:
        return literal.boolean().has_value() && *literal.boolean() == value.boolean;
      case FieldValue::kNone:
        return literal.Is("none") || literal.Is("None");
      case FieldValue::kDims:
        return literal.type == Literal::kDims &&
               std::equal(value.dims.begin(), value.dims.end(), literal.dims.begin(), literal.dims.end(),
                          [](const Dim& dim, const std::optional<int64_t>& wanted) {
                            return !wanted.has_value() || dim == wanted;
                          });
      default:
        return false;
    }
  }

  bool TextEquals(std::string_view value, std::string_view wanted) const {
    if (value == wanted) return true;
    // `torch.float16` is float16, `half` too, and `cuda` any of its devices.
    if (field_.field == Field::kDtype || field_.field == Field::kLayout || field_.field == Field::kArg) {
      if (wanted.substr(0, 6) == "torch.") wanted.remove_prefix(6);
      return value == wanted || (field_.field == Field::kDtype && value == CanonicalDtype(wanted));
    }
    return field_.field == Field::kDevice && value.substr(0, value.find(':')) == wanted;
  }

  const FieldInfo& field_;
  const int64_t number_;                   // of size() and arg()
  const std::optional<std::string> name_;  // of arg()
  const Op op_;
  const std::vector<Literal> literals_;
};

class Negation : public WhereExpression {
 public:
  explicit Negation(Node inner) : inner_(std::move(inner)) {}
  Truth Ask(const WhereSubject& subject, const TensorRef* tensor) const override {
    return Not(inner_->Ask(subject, tensor));
  }
  std::string ToString() const override { return absl::StrCat("not (", inner_->ToString(), ")"); }

 private:
  const Node inner_;
};

class Junction : public WhereExpression {
 public:
  Junction(bool is_and, std::vector<Node> parts) : is_and_(is_and), parts_(std::move(parts)) {}
  Truth Ask(const WhereSubject& subject, const TensorRef* tensor) const override {
    const Truth decided = is_and_ ? Truth::kFalse : Truth::kTrue;
    bool unknown = false;
    for (const Node& part : parts_) {
      const Truth truth = part->Ask(subject, tensor);
      if (truth == decided) return decided;
      unknown = unknown || truth == Truth::kUnknown;
    }
    return unknown ? Truth::kUnknown : Not(decided);
  }
  std::string ToString() const override {
    return absl::StrCat("(",
                        absl::StrJoin(parts_, is_and_ ? " and " : " or ",
                                      [](std::string* out, const Node& part) { out->append(part->ToString()); }),
                        ")");
  }

 private:
  const bool is_and_;
  const std::vector<Node> parts_;
};

class Quantifier : public WhereExpression {
 public:
  Quantifier(bool all, Node inner) : all_(all), inner_(std::move(inner)) {}
  Truth Ask(const WhereSubject& subject, const TensorRef*) const override {
    return AskTensors(subject, all_, [&](const TensorRef& tensor) { return inner_->Ask(subject, &tensor); });
  }
  std::string ToString() const override { return absl::StrCat(all_ ? "all(" : "any(", inner_->ToString(), ")"); }

 private:
  const bool all_;
  const Node inner_;
};

// Recursive descent; each function reads what its name says, from at_ on.
class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  absl::StatusOr<Node> Parse() {
    absl::StatusOr<Node> node = Or(0);
    if (!node.ok()) return node;
    if (!AtEnd()) return Expected("and, or, or the end");
    return node;
  }

  bool needs_call() const { return needs_call_; }
  bool needs_end() const { return needs_end_; }

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

  absl::StatusOr<Node> Or(int depth) { return Join(depth, /*is_and=*/false); }
  absl::StatusOr<Node> And(int depth) { return Join(depth, /*is_and=*/true); }
  absl::StatusOr<Node> Join(int depth, bool is_and) {
    std::vector<Node> parts;
    do {
      absl::StatusOr<Node> part = is_and ? Term(depth) : And(depth);
      if (!part.ok()) return part;
      parts.push_back(*std::move(part));
    } while (TakeKeyword(is_and ? "and" : "or"));
    if (parts.size() == 1) return parts[0];
    return Node(std::make_shared<Junction>(is_and, std::move(parts)));
  }

  absl::StatusOr<Node> Term(int depth) {
    if (depth > kMaxDepth) return Expected("less nesting");
    if (TakeKeyword("not")) {
      absl::StatusOr<Node> inner = Term(depth + 1);
      if (!inner.ok()) return inner;
      return Node(std::make_shared<Negation>(*std::move(inner)));
    }
    if (Take("(")) return Inside(depth);
    const std::string_view name = PeekName();
    if (name == "any" || name == "all") {
      at_ += name.size();
      if (!Take("(")) return Expected(absl::StrCat("( behind ", std::string(name)));
      absl::StatusOr<Node> inner = Inside(depth);
      if (!inner.ok()) return inner;
      return Node(std::make_shared<Quantifier>(name == "all", *std::move(inner)));
    }
    return Comparison();
  }

  absl::StatusOr<Node> Inside(int depth) {
    absl::StatusOr<Node> inner = Or(depth + 1);
    if (inner.ok() && !Take(")")) return Expected("and, or, or )");
    return inner;
  }

  absl::StatusOr<Node> Comparison() {
    const std::string name(PeekName());
    const auto* const field =
        std::find_if(kFields.begin(), kFields.end(), [&](const FieldInfo& info) { return info.name == name; });
    if (field == kFields.end()) {
      const std::string nearest = Nearest(name, Where::FieldNames());
      return Expected(nearest.empty() ? absl::StrCat("a field (", absl::StrJoin(Where::FieldNames(), ", "), ")")
                                      : absl::StrCat("a field (did you mean ", nearest, "?)"));
    }
    at_ += name.size();
    needs_call_ = needs_call_ || field->scope == Scope::kCall;
    needs_end_ = needs_end_ || field->scope == Scope::kEnd;
    int64_t number = 0;
    std::optional<std::string> argument;
    if (field->field == Field::kSize || field->field == Field::kArg) {
      if (absl::Status status = Operand(*field, &number, &argument); !status.ok()) return status;
    }
    absl::StatusOr<Op> op = Operator(*field);
    if (!op.ok()) return op.status();
    std::vector<Literal> literals;
    const bool list = *op == Op::kIn || *op == Op::kNotIn;
    if (list && !Take("(")) return Expected("( and a list of values");
    if (*op != Op::kIs) {
      do {
        absl::StatusOr<Literal> literal = OneLiteral(*field, *op);
        if (!literal.ok()) return literal.status();
        literals.push_back(*std::move(literal));
      } while (list && Take(","));
    }
    if (list && !Take(")")) return Expected(", or )");
    return Node(std::make_shared<Test>(*field, number, std::move(argument), *op, std::move(literals)));
  }

  // What stands in the parentheses of size() and arg().
  absl::Status Operand(const FieldInfo& field, int64_t* number, std::optional<std::string>* argument) {
    const bool size = field.field == Field::kSize;
    const std::string what = size ? "a dimension, as in size(0)" : "a name or a position, as in arg(dim) or arg(0)";
    if (!Take("(")) return Expected(absl::StrCat("( and ", what));
    SkipSpace();
    const size_t start = at_;
    const absl::StatusOr<Literal> literal = AnyLiteral(what);
    if (!literal.ok()) return literal.status();
    const bool whole = !literal->quoted && literal->number.has_value() && literal->number->whole;
    if (whole && (size || literal->number->integer >= 0)) {
      *number = literal->number->integer;
    } else if (!size && literal->type == Literal::kText && !whole) {
      *argument = literal->text;
    } else {
      at_ = start;
      return Expected(what);
    }
    return Take(")") ? absl::OkStatus() : Expected(")");
  }

  absl::StatusOr<Op> Operator(const FieldInfo& field) {
    SkipSpace();
    const size_t start = at_;
    std::optional<Op> op;
    // The longer ones first.
    static constexpr std::pair<const char*, Op> kOps[] = {
        {"==", Op::kEqual},        {"!=", Op::kNotEqual}, {"<=", Op::kLessEqual},
        {">=", Op::kGreaterEqual}, {"!~", Op::kNotLike},  {"=", Op::kEqual},
        {"<", Op::kLess},          {">", Op::kGreater},   {"~", Op::kLike},
    };
    for (const auto& [symbol, candidate] : kOps) {
      if (!op.has_value() && Take(symbol)) op = candidate;
    }
    if (!op.has_value() && TakeKeyword("in")) op = Op::kIn;
    if (!op.has_value() && TakeKeyword("not")) {
      if (!TakeKeyword("in")) return Expected("in");
      op = Op::kNotIn;
    }
    const bool any = field.kind == Kind::kAnything;
    if (!op.has_value()) {
      if (any || field.kind == Kind::kBool) return Op::kIs;
      return Expected(absl::StrCat("one of ", Operators(field.kind), " behind ", field.name));
    }
    const bool like = *op == Op::kLike || *op == Op::kNotLike;
    const bool ordered = *op >= Op::kLess && *op <= Op::kGreaterEqual;
    const bool list = *op == Op::kIn || *op == Op::kNotIn;
    const bool fits = any || (!like && !ordered && (!list || field.kind != Kind::kBool)) ||
                      (like && field.kind == Kind::kText) || (ordered && field.kind == Kind::kNumber);
    if (fits) return *op;
    at_ = start;
    return Expected(absl::StrCat("one of ", Operators(field.kind), " behind ", field.name));
  }

  static const char* Operators(Kind kind) {
    switch (kind) {
      case Kind::kText:
        return "= != ~ !~ in";
      case Kind::kNumber:
        return "= != < <= > >= in";
      case Kind::kBool:
        return "= !=";
      case Kind::kDims:
        return "= != in";
      case Kind::kAnything:
        break;
    }
    return "= != < <= > >= ~ !~ in";
  }

  absl::StatusOr<Literal> OneLiteral(const FieldInfo& field, Op op) {
    SkipSpace();
    const size_t start = at_;
    std::string what;
    switch (field.kind) {
      case Kind::kText:
        what = op == Op::kLike || op == Op::kNotLike ? "a glob" : "a text";
        break;
      case Kind::kNumber:
        what = field.field == Field::kDuration ? "a duration, as 10us" : "a number";
        break;
      case Kind::kBool:
        what = "true or false";
        break;
      case Kind::kDims:
        what = "sizes, as [2, *]";
        break;
      case Kind::kAnything:
        what = "a value";
        break;
    }
    const bool ordered = op >= Op::kLess && op <= Op::kGreaterEqual;
    if (field.kind == Kind::kAnything && ordered) what = "a number";
    if (field.kind == Kind::kAnything && (op == Op::kLike || op == Op::kNotLike)) what = "a glob";
    absl::StatusOr<Literal> literal = AnyLiteral(what);
    if (!literal.ok()) return literal;
    if (field.field == Field::kDuration && !literal->number.has_value() && !literal->quoted) {
      literal->number = Duration(literal->text);
    }
    bool fits = true;
    if (field.kind == Kind::kText || what == "a glob") fits = literal->type == Literal::kText;
    if (field.kind == Kind::kNumber || what == "a number") fits = literal->number.has_value() && !literal->quoted;
    if (field.kind == Kind::kBool) fits = literal->boolean().has_value();
    if (field.kind == Kind::kDims) fits = literal->type == Literal::kDims;
    if (fits) return literal;
    at_ = start;
    return Expected(what);
  }

  // `10us`, `1.5ms`.
  static std::optional<Number> Duration(const std::string& text) {
    static constexpr std::pair<const char*, double> kUnits[] = {{"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}};
    for (const auto& [unit, ns] : kUnits) {
      if (!absl::EndsWith(text, unit)) continue;
      const std::optional<Number> number = ParseNumber(std::string_view(text).substr(0, text.size() - strlen(unit)));
      if (!number.has_value()) continue;
      const double total = number->real * ns;
      if (!(std::abs(total) < 9e18)) return std::nullopt;
      return WholeNumber(static_cast<int64_t>(total));
    }
    return std::nullopt;
  }

  static std::optional<Number> ParseNumber(std::string_view text) {
    Number number;
    const char* const begin = text.data();
    const char* const end = begin + text.size();
    // What from_chars takes beyond that (inf, nan, infinity) are words of ours as well.
    if (auto [at, error] = std::from_chars(begin, end, number.integer); error == std::errc() && at == end) {
      number.real = static_cast<double>(number.integer);
      return text.empty() ? std::nullopt : std::optional<Number>(number);
    }
    number.whole = false;
    number.integer = 0;
    if (auto [at, error] = std::from_chars(begin, end, number.real); error == std::errc() && at == end) {
      return text.empty() ? std::nullopt : std::optional<Number>(number);
    }
    return std::nullopt;
  }

  absl::StatusOr<Literal> AnyLiteral(const std::string& what) {
    SkipSpace();
    Literal literal;
    if (at_ == text_.size()) return Expected(what);
    if (text_[at_] == '"' || text_[at_] == '\'') return Quoted();
    if (text_[at_] == '[') return Sizes();
    const size_t start = at_;
    while (at_ < text_.size() && IsWordCharacter(text_[at_])) ++at_;
    if (at_ == start) return Expected(what);
    literal.text = text_.substr(start, at_ - start);
    literal.number = ParseNumber(literal.text);
    return literal;
  }

  // A backslash takes the next character as it is.
  absl::StatusOr<Literal> Quoted() {
    Literal literal;
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

  absl::StatusOr<Literal> Sizes() {
    Literal literal;
    literal.type = Literal::kDims;
    ++at_;
    if (Take("]")) return literal;
    do {
      SkipSpace();
      const size_t start = at_;
      while (at_ < text_.size() && IsWordCharacter(text_[at_])) ++at_;
      const std::string_view word = text_.substr(start, at_ - start);
      const std::optional<Number> number = ParseNumber(word);
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
  size_t at_ = 0;
  bool needs_call_ = false;
  bool needs_end_ = false;
};

}  // namespace

absl::StatusOr<Where> Where::Parse(std::string_view text) {
  Parser parser(text);
  absl::StatusOr<Node> node = parser.Parse();
  if (!node.ok()) return node.status();
  Where where;
  where.expression_ = *std::move(node);
  where.needs_call_ = parser.needs_call();
  where.needs_end_ = parser.needs_end();
  return where;
}

Truth Where::Ask(const WhereSubject& subject) const {
  return expression_ == nullptr ? Truth::kTrue : expression_->Ask(subject, nullptr);
}

std::string Where::ToString() const { return expression_ == nullptr ? "" : expression_->ToString(); }

std::vector<std::string> Where::FieldNames() {
  std::vector<std::string> names;
  for (const FieldInfo& field : kFields) {
    names.emplace_back(field.field == Field::kSize ? "size" : field.name);
  }
  return names;
}

}  // namespace torchtrace
