#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "serialize/base/matching.h"
#include "serialize/trace/parsed_tags.h"
#include "serialize/where/where.h"
#include "serialize/where/where_parts.h"

namespace torchtrace {
namespace {

// Values that are known without a trace. More come with versions of PyTorch, and of numpy's arrays.
constexpr const char* kDtypes[] = {
    "bool",        "uint8",           "uint16",         "uint32",           "uint64",        "int8",
    "int16",       "int32",           "int64",          "float16",          "bfloat16",      "float32",
    "float64",     "complex32",       "complex64",      "complex128",       "float8_e4m3fn", "float8_e4m3fnuz",
    "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu", "float4_e2m1fn_x2", "qint8",         "quint8",
    "qint32",      "quint4x2",        "quint2x4",
};
constexpr const char* kLayouts[] = {"strided",    "sparse_coo", "sparse_csr", "sparse_csc",
                                    "sparse_bsr", "sparse_bsc", "_mkldnn",    "jagged"};
constexpr const char* kDevices[] = {"cpu",  "cuda", "meta", "xpu",  "mps",    "xla",           "hpu",
                                    "mtia", "ipu",  "hip",  "lazy", "vulkan", "privateuseone", "gpu"};
constexpr const char* kLevels[] = {"0", "1", "2", "3", "4"};

// What is said for them.
constexpr std::pair<std::string_view, std::string_view> kOtherDtypes[] = {
    {"fp16", "float16"}, {"half", "float16"},   {"bf16", "bfloat16"}, {"fp32", "float32"}, {"float", "float32"},
    {"fp64", "float64"}, {"double", "float64"}, {"int", "int32"},     {"long", "int64"},   {"short", "int16"},
};

std::string Hint(const WhereKnown& wanted, const std::set<std::string>& known) {
  for (const auto& [other, dtype] : kOtherDtypes) {
    if (wanted.field == WhereField::kDtype && wanted.literal.text == other) {
      return absl::StrCat(", did you mean ", std::string(dtype), "?");
    }
  }
  return DidYouMean(wanted.literal.text, {known.begin(), known.end()});
}

using Values = std::map<WhereField, std::set<std::string>>;

Values KnownValues() {
  Values values;
  values[WhereField::kDtype] = {std::begin(kDtypes), std::end(kDtypes)};
  values[WhereField::kLayout] = {std::begin(kLayouts), std::end(kLayouts)};
  values[WhereField::kDevice] = {std::begin(kDevices), std::end(kDevices)};
  values[WhereField::kLevel] = {std::begin(kLevels), std::end(kLevels)};
  return values;
}

bool IsChecked(WhereField field) {
  switch (field) {
    case WhereField::kArg:
    case WhereField::kTag:
    case WhereField::kDtype:
    case WhereField::kDevice:
    case WhereField::kLayout:
    case WhereField::kSubclass:
    case WhereField::kLevel:
    case WhereField::kThreadName:
    case WhereField::kProcess:
    case WhereField::kPid:
    case WhereField::kHost:
    case WhereField::kRank:
    case WhereField::kLabel:
      return true;
    default:
      return false;
  }
}

const WhereFieldInfo& InfoOf(WhereField field) {
  const std::vector<std::string> names = WhereFieldNames();
  return *FindWhereField(*std::find_if(
      names.begin(), names.end(), [field](const std::string& name) { return FindWhereField(name)->field == field; }));
}

bool IsAmong(const WhereKnown& wanted, const std::set<std::string>& values) {
  return std::any_of(values.begin(), values.end(), [&](const std::string& value) {
    const WhereOp op = wanted.like ? WhereOp::kLike : WhereOp::kEqual;
    return CompareWhereValue(WhereValue::Text(value), wanted.field, op, {wanted.literal}) == Truth::kTrue;
  });
}

void AddTensors(const Value& value, Values* values) {
  if (value.tag == ValueTag::kTensor) {
    (*values)[WhereField::kDtype].insert(value.text);
    (*values)[WhereField::kDevice].insert(value.device);
    if (!value.layout.empty()) (*values)[WhereField::kLayout].insert(value.layout);
  }
  for (const Value& item : value.items) AddTensors(item, values);
}

// The names of the tags that calls have.
absl::Status AddTags(Trace* trace, std::set<std::string>* names) {
  std::set<uint32_t> ids;
  const absl::Status read = trace->ReadCounted([&](const CallRecord& record) {
    if (record.tags != kNoTags) ids.insert(record.tags);
    return absl::OkStatus();
  });
  ParsedTags parsed(trace);
  for (const uint32_t id : ids) {
    const nlohmann::json* const tags = parsed.Get(id);
    if (tags == nullptr) continue;
    for (const auto& [name, value] : tags->items()) names->insert(name);
  }
  return read;
}

absl::Status AddValues(Trace* trace, Values* values) {
  if (const auto calls = trace->Count(); !calls.ok()) return calls.status();
  for (size_t id = 0; id < trace->config_count(); ++id) {
    const Config config = ReadableConfig(trace->identity(static_cast<ConfigId>(id)));
    for (const Value& value : config.args) AddTensors(value, values);
    for (const auto& [name, value] : config.kwargs) {
      (*values)[WhereField::kArg].insert(name);
      AddTensors(value, values);
    }
  }
  for (size_t id = 0; id < trace->variant_count(); ++id) {
    for (const TensorFacet& facet : ReadableFacets(trace->facets(static_cast<VariantId>(id)))) {
      (*values)[WhereField::kSubclass].insert(facet.subclass);
    }
  }
  const CallRecord call;
  for (const ProcessInfo& process : trace->processes()) {
    WhereSubject subject;
    subject.entry = &call;
    subject.process = &process;
    for (const WhereField field :
         {WhereField::kProcess, WhereField::kPid, WhereField::kHost, WhereField::kRank, WhereField::kLabel}) {
      const WhereValue value = ValueOfSubject({&InfoOf(field)}, subject);
      if (value.type == WhereValue::kText) (*values)[field].emplace(value.text);
      if (value.type == WhereValue::kNumber) (*values)[field].insert(std::to_string(value.number.integer));
    }
    for (const ThreadInfo& thread : process.threads) (*values)[WhereField::kThreadName].insert(thread.name);
  }
  return absl::OkStatus();
}

}  // namespace

std::vector<std::string> Where::Apis() const {
  std::vector<std::string> apis;
  for (const WhereKnown& wanted : to_be_known_) {
    if (wanted.field == WhereField::kApi) apis.push_back(wanted.literal.text);
  }
  return apis;
}

absl::Status Where::CheckValues(Trace* trace) const {
  Values values = KnownValues();
  bool of_trace = false, of_tags = false;
  for (const WhereKnown& wanted : to_be_known_) {
    if (!IsChecked(wanted.field) || IsAmong(wanted, values[wanted.field])) continue;
    if (wanted.field == WhereField::kTag) {
      if (!std::exchange(of_tags, true)) {
        if (absl::Status s = AddTags(trace, &values[WhereField::kTag]); !s.ok()) return s;
      }
    } else if (!std::exchange(of_trace, true)) {
      if (absl::Status s = AddValues(trace, &values); !s.ok()) return s;
    }
    const std::set<std::string>& known = values[wanted.field];
    if (IsAmong(wanted, known)) continue;
    const std::string what =
        wanted.field == WhereField::kArg
            ? absl::StrCat("no call of the trace has an argument by the name ", wanted.literal.text)
        : wanted.field == WhereField::kTag
            ? absl::StrCat("no call of the trace has a tag by the name ", wanted.literal.text)
            : absl::StrCat("no ", InfoOf(wanted.field).name, " ", wanted.literal.text, " is known");
    return absl::InvalidArgumentError(absl::StrCat("--where: column ", wanted.column, ": ", what, Hint(wanted, known),
                                                   " (?", wanted.literal.text, " stands for it nevertheless)"));
  }
  return absl::OkStatus();
}

}  // namespace torchtrace
