#include "serialize/model/config.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "serialize/base/bytes.h"

namespace torchtrace {
namespace {}  // namespace

std::string_view FrameworkOf(std::string_view name) {
  for (const std::string_view framework : kFrameworks) {
    if (name.starts_with(framework) && name.substr(framework.size()).starts_with('.')) return framework;
  }
  return "";
}

std::string_view FrameworkOfApi(std::string_view api) {
  const std::string_view framework = FrameworkOf(api);
  return framework.empty() ? kFrameworks[0] : framework;
}

namespace {

bool IsOfFramework(const Value& value) {
  switch (value.tag) {
    case ValueTag::kTensor:
    case ValueTag::kUndefined:
    case ValueTag::kStorage:
    case ValueTag::kSize:
    case ValueTag::kDtype:
    case ValueTag::kDevice:
    case ValueTag::kLayout:
    case ValueTag::kMemoryFormat:
    case ValueTag::kGenerator:
      return true;
    default:
      return std::any_of(value.items.begin(), value.items.end(), IsOfFramework);
  }
}

}  // namespace

bool HasFrameworkValue(const Config& config) {
  return std::any_of(config.args.begin(), config.args.end(), IsOfFramework) ||
         std::any_of(config.kwargs.begin(), config.kwargs.end(),
                     [](const auto& argument) { return IsOfFramework(argument.second); });
}

absl::StatusOr<Config> ParseConfig(std::string_view identity) {
  ByteReader reader(identity);
  Config config;
  uint8_t level;
  if (!reader.Byte(&level)) return Expected(reader, "a config's level");
  config.level = level;
  std::string_view text;
  if (!reader.String(&text)) return Expected(reader, "an API name");
  config.api = text;

  uint64_t count;
  if (!reader.Varint(&count) || count > reader.remaining()) return Expected(reader, "the number of arguments");
  config.args.resize(count);
  for (Value& arg : config.args) {
    if (absl::Status s = ReadValue(&reader, &arg); !s.ok()) return s;
  }

  if (!reader.Varint(&count) || count > reader.remaining() / 2) {
    return Expected(reader, "the number of keyword arguments");
  }
  config.kwargs.resize(count);
  for (auto& [name, value] : config.kwargs) {
    if (!reader.String(&text)) return Expected(reader, "a keyword");
    name = text;
    if (absl::Status s = ReadValue(&reader, &value); !s.ok()) return s;
  }
  if (!reader.done()) {
    if (!reader.String(&text) ||
        std::find(std::begin(kFrameworks), std::end(kFrameworks), text) == std::end(kFrameworks) ||
        text == FrameworkOfApi(config.api)) {
      return Expected(reader, "another framework or the end of the config");
    }
    config.other_framework = text;
  }
  if (!reader.done()) return Expected(reader, "the end of the config");
  return config;
}

bool HasCutArgument(std::string_view identity) {
  ByteReader reader(identity);
  uint8_t level;
  std::string_view text;
  uint64_t count;
  bool cut = reader.Byte(&level) && reader.String(&text) && reader.Varint(&count) && FindsCutValue(&reader, count);
  if (!cut && reader.Varint(&count)) {
    while (count-- > 0 && !cut && reader.String(&text)) cut = FindsCutValue(&reader, 1);
  }
  return cut && ParseConfig(identity).ok();
}

absl::StatusOr<std::vector<TensorFacet>> ParseFacets(std::string_view facets) {
  std::vector<TensorFacet> result;
  if (facets.empty()) return result;
  ByteReader reader(facets);
  uint64_t count;
  if (!reader.Varint(&count) || count > reader.remaining() / 2) return Expected(reader, "the number of facets");
  result.resize(count);
  for (TensorFacet& facet : result) {
    uint64_t bits;
    if (!reader.Varint(&facet.tensor)) return Expected(reader, "a tensor's ordinal");
    if (!reader.Varint(&bits)) return Expected(reader, "a tensor's facet bits");
    facet.requires_grad = (bits & kFacetRequiresGrad) != 0;
    if ((bits & kFacetSubclass) != 0) {
      std::string_view subclass;
      if (!reader.String(&subclass)) return Expected(reader, "a tensor's subclass");
      facet.subclass = subclass;
    }
  }
  if (!reader.done()) return Expected(reader, "the end of the facets");
  const auto earlier = [](const TensorFacet& a, const TensorFacet& b) { return a.tensor < b.tensor; };
  // Our writers sort them, others may not.
  if (!std::is_sorted(result.begin(), result.end(), earlier)) std::stable_sort(result.begin(), result.end(), earlier);
  return result;
}

std::string EncodeConfig(const Config& config) {
  std::string out;
  out.push_back(static_cast<char>(config.level));
  AppendString(config.api, &out);
  AppendVarint(config.args.size(), &out);
  for (const Value& arg : config.args) EncodeValue(arg, &out);
  AppendVarint(config.kwargs.size(), &out);
  for (const auto& [name, value] : config.kwargs) {
    AppendString(name, &out);
    EncodeValue(value, &out);
  }
  if (!config.other_framework.empty()) AppendString(config.other_framework, &out);
  return out;
}

ConfigHead ReadConfigHead(std::string_view identity) {
  ByteReader reader(identity);
  uint8_t level;
  std::string_view api;
  if (!reader.Byte(&level) || !reader.String(&api)) return {};
  return {level, api};
}

Config ReadableConfig(std::string_view identity) {
  absl::StatusOr<Config> config = ParseConfig(identity);
  if (config.ok()) return *std::move(config);
  const ConfigHead head = ReadConfigHead(identity);
  Config stand_in;
  stand_in.level = head.level;
  stand_in.api = head.api;
  Value& why = stand_in.args.emplace_back();
  why.tag = ValueTag::kObject;
  why.text = "unreadable: " + std::string(config.status().message());
  return stand_in;
}

std::vector<Value> ReadableResult(std::string_view values) {
  std::vector<Value> result;
  ByteReader reader(values);
  uint64_t count = 0;
  if (!reader.Varint(&count)) return result;
  for (Value value; result.size() < count && ReadValue(&reader, &value).ok(); value = Value()) {
    result.push_back(std::move(value));
  }
  return result;
}

std::vector<TensorFacet> ReadableFacets(std::string_view facets) {
  absl::StatusOr<std::vector<TensorFacet>> parsed = ParseFacets(facets);
  return parsed.ok() ? *std::move(parsed) : std::vector<TensorFacet>();
}

const TensorFacet* FindFacet(const std::vector<TensorFacet>& facets, uint64_t tensor) {
  const auto at = std::lower_bound(facets.begin(), facets.end(), tensor,
                                   [](const TensorFacet& facet, uint64_t wanted) { return facet.tensor < wanted; });
  return at != facets.end() && at->tensor == tensor ? &*at : nullptr;
}

}  // namespace torchtrace
