#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "nlohmann/json.hpp"
#include "serialize/base/matching.h"
#include "serialize/model/torch_types.h"
#include "serialize/model/unknown_arguments.h"
#include "serialize/trace/run_facts.h"
#include "serialize/trace/trace.h"
#include "serialize/where/where_parts.h"

namespace torchtrace {
namespace {

template <typename T>
bool ParseWhole(std::string_view text, T* number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *number);
  return !text.empty() && error == std::errc() && end == text.data() + text.size();
}

}  // namespace

std::optional<int> CompareNumbers(const WhereNumber& a, const WhereNumber& b) {
  if (a.whole && b.whole) return a.integer < b.integer ? -1 : a.integer > b.integer ? 1 : 0;
  if (std::isnan(a.real) || std::isnan(b.real)) return std::nullopt;
  return a.real < b.real ? -1 : a.real > b.real ? 1 : 0;
}

std::optional<WhereNumber> ParseWhereNumber(std::string_view text) {
  int64_t integer;
  if (ParseWhole(text, &integer)) return WhereNumber::Whole(integer);
  // The words that from_chars accepts (inf, nan, infinity) are valid here too.
  double real;
  if (ParseWhole(text, &real)) return WhereNumber::Real(real);
  return std::nullopt;
}

std::optional<WhereNumber> ParseWhereDuration(std::string_view text) {
  static constexpr std::pair<std::string_view, double> kUnits[] = {{"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}};
  for (const auto& [unit, ns] : kUnits) {
    if (!text.ends_with(unit)) continue;
    const std::optional<WhereNumber> number = ParseWhereNumber(text.substr(0, text.size() - unit.size()));
    if (!number.has_value()) continue;
    const double total = number->real * ns;
    if (!(std::abs(total) < 9e18)) return std::nullopt;
    return WhereNumber::Whole(static_cast<int64_t>(total));
  }
  return std::nullopt;
}

std::optional<bool> WhereLiteral::boolean() const {
  if (Is("true") || Is("True")) return true;
  if (Is("false") || Is("False")) return false;
  return std::nullopt;
}

std::string WhereLiteral::ToString() const {
  if (type == kText) return quoted ? QuoteWhereText(text) : text;
  const auto append = [](std::string* out, const std::optional<int64_t>& dim) {
    dim.has_value() ? absl::StrAppend(out, *dim) : absl::StrAppend(out, "*");
  };
  return absl::StrCat("[", absl::StrJoin(dims, ", ", append), "]");
}

std::string QuoteWhereText(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += c;
  }
  return quoted + "\"";
}

namespace {

Truth FromBool(bool value) { return value ? Truth::kTrue : Truth::kFalse; }

// Calls `visit` with every tensor until it returns true.
using TensorVisitor = std::function<bool(const WhereTensor&)>;
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

WhereValue NumelOf(const Value& tensor) {
  int64_t numel = 1;
  double real = 1;
  bool whole = true;
  for (const Dim& dim : tensor.shape) {
    if (!dim.has_value()) return {};
    whole = whole && !__builtin_mul_overflow(numel, *dim, &numel);
    real *= static_cast<double>(*dim);
  }
  // If a size is 0, the product is 0, even if the other sizes overflow.
  if (real == 0) return WhereValue::Whole(0);
  return whole ? WhereValue::Whole(numel) : WhereValue::Number(WhereNumber::Real(real));
}

// A negative `dim` counts from the end.
WhereValue SizeOf(const Value& tensor, int64_t dim) {
  const auto rank = static_cast<int64_t>(tensor.shape.size());
  if (dim < 0) dim += rank;
  if (dim < 0 || dim >= rank || !tensor.shape[static_cast<size_t>(dim)].has_value()) return {};
  return WhereValue::Whole(*tensor.shape[static_cast<size_t>(dim)]);
}

WhereValue OfArgument(const Value& value) {
  switch (value.tag) {
    case ValueTag::kNone:
      return WhereValue::Of(WhereValue::kNone);
    case ValueTag::kFalse:
    case ValueTag::kTrue:
      return WhereValue::Bool(value.tag == ValueTag::kTrue);
    case ValueTag::kInt:
      return WhereValue::Whole(value.integer);
    case ValueTag::kFloat:
      return WhereValue::Number(WhereNumber::Real(value.real));
    case ValueTag::kBigInt: {
      WhereValue digits = WhereValue::Text(value.text);
      digits.big = true;
      digits.number = ParseWhereNumber(value.text).value_or(WhereNumber());
      return digits;
    }
    case ValueTag::kString:
    case ValueTag::kDtype:
    case ValueTag::kDevice:
    case ValueTag::kLayout:
    case ValueTag::kMemoryFormat:
    case ValueTag::kFunction:
    case ValueTag::kType:
    case ValueTag::kObject:
      return WhereValue::Text(value.text);
    case ValueTag::kList:
    case ValueTag::kTuple:
    case ValueTag::kSize: {
      std::vector<Dim> dims;
      for (const Value& item : value.items) {
        const bool symbol = item.tag == ValueTag::kSymbol;
        if (item.tag != ValueTag::kInt && !symbol) return WhereValue::Of(WhereValue::kOther);
        dims.push_back(symbol ? Dim() : Dim(item.integer));
      }
      return WhereValue::Dims(std::move(dims));
    }
    default:
      return WhereValue::Of(WhereValue::kOther);
  }
}

WhereValue Argument(const WhereFieldUse& field, const Config& config) {
  if (HasUnknownArguments(config)) return {};
  if (!field.name.has_value()) {
    const auto at = static_cast<uint64_t>(field.number);
    return at < config.args.size() ? OfArgument(config.args[at]) : WhereValue();
  }
  for (const auto& [name, value] : config.kwargs) {
    if (name == *field.name) return OfArgument(value);
  }
  return {};
}

WhereValue Tag(const std::string& name, const nlohmann::json* tags) {
  const auto at = tags == nullptr ? nlohmann::json::const_iterator() : tags->find(name);
  if (tags == nullptr || at == tags->end()) return {};
  if (at->is_boolean()) return WhereValue::Bool(at->get<bool>());
  if (at->is_string()) return WhereValue::Text(at->get_ref<const std::string&>());
  // Unsigned integers that don't fit int64 are compared as floating-point numbers.
  if (at->is_number_integer() && (!at->is_number_unsigned() || at->get<uint64_t>() <= INT64_MAX)) {
    return WhereValue::Whole(at->get<int64_t>());
  }
  return at->is_number() ? WhereValue::Number(WhereNumber::Real(at->get<double>()))
                         : WhereValue::Of(WhereValue::kOther);
}

WhereValue OfNumber(const std::optional<int64_t>& number) {
  return number.has_value() ? WhereValue::Whole(*number) : WhereValue();
}

WhereValue OfText(const std::string& text) { return text.empty() ? WhereValue() : WhereValue::Text(text); }

}  // namespace

std::string WhereFieldUse::ToString() const {
  if (!TakesOperand(info->field)) return info->name;
  if (name.has_value()) return absl::StrCat(info->name, "(", QuoteWhereText(*name), ")");
  return absl::StrCat(info->name, "(", number, ")");
}

WhereValue ValueOfTensor(const WhereFieldUse& field, const WhereTensor& tensor, const WhereSubject& subject) {
  const Value& value = *tensor.value;
  const bool shaped = (value.tensor_bits & kTensorShapeUnknown) == 0;
  const bool strided = (value.tensor_bits & kTensorHasLayout) == 0;
  switch (field.info->field) {
    case WhereField::kDtype:
      return WhereValue::Text(value.text);
    case WhereField::kDevice:
      return WhereValue::Text(value.device);
    case WhereField::kLayout:
      return WhereValue::Text(strided ? std::string_view("strided") : value.layout);
    case WhereField::kNdim:
      return shaped ? WhereValue::Whole(static_cast<int64_t>(value.shape.size())) : WhereValue();
    case WhereField::kNumel:
      return shaped ? NumelOf(value) : WhereValue();
    case WhereField::kShape:
      return shaped ? WhereValue::Dims(value.shape) : WhereValue();
    case WhereField::kSize:
      return SizeOf(value, field.number);
    case WhereField::kStride:
      return shaped && strided ? WhereValue::Dims(StridesOf(value)) : WhereValue();
    case WhereField::kContiguous:
      return WhereValue::Bool(strided && (value.tensor_bits & kTensorHasStride) == 0);
    case WhereField::kRequiresGrad:
      if (subject.facets == nullptr) return WhereValue::Of(WhereValue::kUnknown);
      return WhereValue::Bool(tensor.facet != nullptr && tensor.facet->requires_grad);
    default:  // kSubclass
      if (subject.facets == nullptr) return WhereValue::Of(WhereValue::kUnknown);
      if (tensor.facet == nullptr || tensor.facet->subclass.empty()) return {};
      return WhereValue::Text(tensor.facet->subclass);
  }
}

WhereValue ValueOfSubject(const WhereFieldUse& field, const WhereSubject& subject) {
  const WhereScope scope = field.info->scope;
  const bool known = scope == WhereScope::kConfig ? subject.config != nullptr
                     : scope == WhereScope::kCall ? subject.entry != nullptr
                                                  : subject.ended;
  if (!known) return WhereValue::Of(WhereValue::kUnknown);
  switch (field.info->field) {
    case WhereField::kApi:
      return WhereValue::Text(subject.config->api);
    case WhereField::kLevel:
      return WhereValue::Whole(subject.config->level);
    case WhereField::kNargs:
      if (HasUnknownArguments(*subject.config)) return {};
      return WhereValue::Whole(static_cast<int64_t>(subject.config->args.size() + subject.config->kwargs.size()));
    case WhereField::kArg:
      return Argument(field, *subject.config);
    case WhereField::kCall:
      return WhereValue::Whole(static_cast<int64_t>(subject.entry->call));
    case WhereField::kThread:
      return WhereValue::Whole(subject.entry->thread);
    case WhereField::kDepth:
      return WhereValue::Whole(subject.entry->depth);
    case WhereField::kThreadName:
      for (const ThreadInfo& thread : subject.process->threads) {
        if (thread.number == subject.entry->thread) return WhereValue::Text(thread.name);
      }
      return {};
    case WhereField::kProcess:
      return WhereValue::Text(UnlabelledName(*subject.process));
    case WhereField::kPid:
      return OfNumber(subject.process->known.pid);
    case WhereField::kHost:
      return OfText(subject.process->known.host);
    case WhereField::kRank:
      return OfNumber(subject.process->known.ranked.rank);
    case WhereField::kLabel:
      return OfText(subject.process->known.label);
    case WhereField::kTag:
      return Tag(*field.name, subject.tags);
    case WhereField::kReturned:
      return WhereValue::Bool(subject.returned);
    case WhereField::kRaised:
      return WhereValue::Bool(subject.raised);
    case WhereField::kException:
      return subject.raised ? WhereValue::Text(subject.exception) : WhereValue();
    default:  // kDuration
      return subject.duration_ns < 0 ? WhereValue() : WhereValue::Whole(subject.duration_ns);
  }
}

Truth AskTensors(const WhereSubject& subject, bool all, const std::function<Truth(const WhereTensor&)>& ask) {
  if (subject.config == nullptr) return Truth::kUnknown;
  const Truth decided = all ? Truth::kFalse : Truth::kTrue;
  bool some = false, unknown = false;
  uint64_t ordinal = 0;
  const auto visit = [&](const WhereTensor& tensor) {
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

namespace {

bool TextEquals(WhereField field, std::string_view value, std::string_view wanted) {
  if (value == wanted) return true;
  // `torch.float16` and `half` mean float16, and `cuda` means any of its devices.
  if (field == WhereField::kDtype || field == WhereField::kLayout || field == WhereField::kArg) {
    if (const std::string_view framework = FrameworkOf(wanted); !framework.empty()) {
      wanted.remove_prefix(framework.size() + 1);
    }
    return value == wanted || (field == WhereField::kDtype && value == CanonicalDtype(wanted));
  }
  return field == WhereField::kDevice && value.substr(0, value.find(':')) == wanted;
}

bool Equals(WhereField field, const WhereValue& value, const WhereLiteral& literal) {
  switch (value.type) {
    case WhereValue::kText:
      if (literal.glob) return GlobMatch(literal.text, value.text);
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
      return FromBool(field == WhereField::kArg || field == WhereField::kTag || value.boolean);
    case WhereOp::kLike:
    case WhereOp::kNotLike: {
      if (value.type != WhereValue::kText) return Truth::kFalse;
      const bool found = std::any_of(literals.begin(), literals.end(),
                                     [&](const WhereLiteral& literal) { return GlobMatch(literal.text, value.text); });
      return FromBool(found == (op == WhereOp::kLike));
    }
    case WhereOp::kEqual:
    case WhereOp::kNotEqual:
    case WhereOp::kIn:
    case WhereOp::kNotIn: {
      const bool found = std::any_of(literals.begin(), literals.end(),
                                     [&](const WhereLiteral& literal) { return Equals(field, value, literal); });
      return FromBool(found == (op == WhereOp::kIn || op == WhereOp::kEqual));
    }
    default:
      return FromBool((value.type == WhereValue::kNumber || value.big) &&
                      Holds(op, CompareNumbers(value.number, *literals[0].number)));
  }
}

}  // namespace torchtrace
