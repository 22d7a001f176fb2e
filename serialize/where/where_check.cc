#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "nlohmann/json.hpp"
#include "serialize/base/matching.h"
#include "serialize/model/levels.h"
#include "serialize/model/torch_types.h"
#include "serialize/trace/parsed_tags.h"
#include "serialize/where/where.h"
#include "serialize/where/where_parts.h"

namespace torchtrace {
namespace {

const WhereFieldInfo& InfoOf(WhereField field) {
  const std::vector<std::string> names = WhereFieldNames();
  return *FindWhereField(*std::find_if(
      names.begin(), names.end(), [field](const std::string& name) { return FindWhereField(name)->field == field; }));
}

// Suggests the nearest text, or lists the numbers.
std::string Hint(const WhereKnown& wanted, const std::set<std::string>& known) {
  std::string_view meant;
  if (wanted.field == WhereField::kDtype) meant = DtypeMeantBy(wanted.literal.text);
  if (wanted.field == WhereField::kDevice && wanted.literal.text == "gpu") meant = "cuda";
  if (!meant.empty() && meant != wanted.literal.text) return absl::StrCat(", did you mean ", std::string(meant), "?");
  std::vector<std::string> values(known.begin(), known.end());
  if (InfoOf(wanted.field).kind != WhereKind::kNumber) return DidYouMean(wanted.literal.text, values);
  if (values.empty()) return "; there is none";
  std::sort(values.begin(), values.end(),
            [](const auto& a, const auto& b) { return std::pair(a.size(), a) < std::pair(b.size(), b); });
  constexpr size_t kMost = 10;
  const bool more = values.size() > kMost;
  if (more) values.resize(kMost);
  return absl::StrCat(", known ", values.size() == 1 ? "is " : "are ", absl::StrJoin(values, ", "),
                      more ? ", ..." : "");
}

// By field, and by tag for values of tags.
using Values = std::map<std::pair<WhereField, std::string>, std::set<std::string>>;

Values KnownValues() {
  Values values;
  // Traces add those of other versions of PyTorch, and of numpy's arrays.
  const auto add = [&values](WhereField field, const std::vector<std::string_view>& names) {
    values[{field, ""}].insert(names.begin(), names.end());
  };
  add(WhereField::kDtype, DtypeNames());
  add(WhereField::kLayout, LayoutNames());
  add(WhereField::kDevice, DeviceTypes());
  for (const Level& level : AllLevels()) values[{WhereField::kLevel, ""}].insert(std::to_string(level.number));
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

bool IsAmong(const WhereKnown& wanted, const std::set<std::string>& values) {
  return std::any_of(values.begin(), values.end(), [&](const std::string& value) {
    const WhereOp op = wanted.like ? WhereOp::kLike : WhereOp::kEqual;
    return CompareWhereValue(WhereValue::Text(value), wanted.field, op, {wanted.literal}) == Truth::kTrue;
  });
}

void AddTensors(const Value& value, Values* values) {
  if (value.tag == ValueTag::kTensor) {
    (*values)[{WhereField::kDtype, ""}].insert(value.text);
    (*values)[{WhereField::kDevice, ""}].insert(value.device);
    if (!value.layout.empty()) (*values)[{WhereField::kLayout, ""}].insert(value.layout);
  }
  for (const Value& item : value.items) AddTensors(item, values);
}

// Adds the names of the calls' tags, and their text values.
absl::Status AddTags(Trace* trace, Values* values) {
  std::set<uint32_t> ids;
  const absl::Status read = trace->ReadCounted([&](const CallRecord& record) {
    if (record.tags != kNoTags) ids.insert(record.tags);
    return absl::OkStatus();
  });
  ParsedTags parsed(trace);
  for (const uint32_t id : ids) {
    const nlohmann::json* const tags = parsed.Get(id);
    if (tags == nullptr) continue;
    for (const auto& [name, value] : tags->items()) {
      (*values)[{WhereField::kTag, ""}].insert(name);
      if (value.is_string()) (*values)[{WhereField::kTag, name}].insert(value.get<std::string>());
    }
  }
  return read;
}

absl::Status AddValues(Trace* trace, Values* values) {
  if (const auto calls = trace->Count(); !calls.ok()) return calls.status();
  for (size_t id = 0; id < trace->config_count(); ++id) {
    const Config config = ReadableConfig(trace->identity(static_cast<ConfigId>(id)));
    for (const Value& value : config.args) AddTensors(value, values);
    for (const auto& [name, value] : config.kwargs) {
      (*values)[{WhereField::kArg, ""}].insert(name);
      AddTensors(value, values);
    }
  }
  for (size_t id = 0; id < trace->variant_count(); ++id) {
    for (const TensorFacet& facet : ReadableFacets(trace->facets(static_cast<VariantId>(id)))) {
      (*values)[{WhereField::kSubclass, ""}].insert(facet.subclass);
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
      if (value.type == WhereValue::kText) (*values)[{field, ""}].emplace(value.text);
      if (value.type == WhereValue::kNumber) (*values)[{field, ""}].insert(std::to_string(value.number.integer));
    }
    for (const ThreadInfo& thread : process.threads) (*values)[{WhereField::kThreadName, ""}].insert(thread.name);
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

absl::Status Where::CheckValues(
    const std::function<absl::Status(const std::function<absl::Status(Trace*)>& look)>& each) const {
  Values values = KnownValues();
  const auto is_unknown = [&values](const WhereKnown& wanted) {
    return IsChecked(wanted.field) && !IsAmong(wanted, values[{wanted.field, wanted.tag}]);
  };
  bool of_traces = false, of_tags = false;
  for (const WhereKnown& wanted : to_be_known_) {
    if (is_unknown(wanted)) (wanted.field == WhereField::kTag ? of_tags : of_traces) = true;
  }
  if (!of_traces && !of_tags) return absl::OkStatus();
  const absl::Status looked = each([&](Trace* trace) {
    absl::Status status = of_traces ? AddValues(trace, &values) : absl::OkStatus();
    if (of_tags) status.Update(AddTags(trace, &values));
    return status;
  });
  if (!looked.ok()) return looked;
  for (const WhereKnown& wanted : to_be_known_) {
    if (!is_unknown(wanted)) continue;
    const std::set<std::string>& known = values[{wanted.field, wanted.tag}];
    // Only text values of tags are collected: don't check others.
    if (!wanted.tag.empty() && known.empty()) continue;
    const std::string what = !wanted.tag.empty() ? absl::StrCat("no call of the trace has a tag ", wanted.tag,
                                                                " that is ", wanted.literal.text)
                             : wanted.field == WhereField::kArg
                                 ? absl::StrCat("no call of the trace has an argument named ", wanted.literal.text)
                             : wanted.field == WhereField::kTag
                                 ? absl::StrCat("no call of the trace has a tag named ", wanted.literal.text)
                                 : absl::StrCat("unknown ", InfoOf(wanted.field).name, " ", wanted.literal.text);
    return absl::InvalidArgumentError(absl::StrCat("--where: column ", wanted.column, ": ", what, Hint(wanted, known),
                                                   " (write ?", wanted.literal.text, " to use it anyway)"));
  }
  return absl::OkStatus();
}

}  // namespace torchtrace
