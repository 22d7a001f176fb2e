#include "serialize/configs/folding.h"

#include <algorithm>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "serialize/model/config.h"
#include "serialize/model/value.h"
#include "yaml-cpp/yaml.h"

namespace torchtrace {
namespace {

// Generated from test_folds.yaml: see BUILD.
constexpr char kTestFolds[] =
#include "serialize/configs/test_folds_yaml.inc"
    ;

constexpr char kTests[] = "tests";

absl::Status Wrong(const YAML::Mark& mark, const std::string& expected) {
  return absl::InvalidArgumentError(absl::StrCat("line ", mark.line + 1, ": expected ", expected));
}

absl::Status ReadPart(const std::string& key, const YAML::Node& node, FoldRule* rule) {
  if (key == "rule" || key == "because") {
    if (!node.IsScalar() || node.Scalar().empty()) return Wrong(node.Mark(), "a text");
    (key == "rule" ? rule->name : rule->because) = node.Scalar();
    return absl::OkStatus();
  }
  if (key != "apis" && key != "arguments" && key != "fold") {
    return Wrong(node.Mark(), "rule, because, apis, arguments or fold");
  }
  if (!node.IsSequence()) return Wrong(node.Mark(), "a list");
  for (const YAML::Node& item : node) {
    if (!item.IsScalar()) return Wrong(item.Mark(), "a text");
    const std::string& text = item.Scalar();
    size_t place;
    if (key == "apis") {
      rule->apis.include.push_back(text);
    } else if (key == "arguments" && absl::SimpleAtoi(text, &place)) {
      rule->places.push_back(place);
    } else if (key == "arguments") {
      rule->names.push_back(text);
    } else if (text == "numbers") {
      rule->numbers = true;
    } else if (text == "sizes") {
      rule->sizes = true;
    } else {
      return Wrong(item.Mark(), "numbers or sizes");
    }
  }
  return absl::OkStatus();
}

void FoldValue(const FoldRule& rule, Value* value) {
  if (rule.numbers) {
    if (value->tag == ValueTag::kBigInt) {
      value->tag = ValueTag::kInt;
      value->text.clear();
    }
    value->integer = 0;
    value->real = value->imaginary = 0;
  }
  if (rule.sizes) {
    std::fill(value->shape.begin(), value->shape.end(), Dim(0));
    value->tensor_bits &= ~static_cast<uint64_t>(kTensorHasStride);
    value->strides.clear();
  }
  // Keys of dicts are names, not values.
  const bool dict = value->tag == ValueTag::kDict;
  for (size_t i = dict ? 1 : 0; i < value->items.size(); i += dict ? 2 : 1) FoldValue(rule, &value->items[i]);
}

}  // namespace

absl::StatusOr<std::vector<FoldRule>> ParseFoldRules(const std::string& yaml) {
  std::vector<FoldRule> rules;
  try {
    const YAML::Node root = YAML::Load(yaml);
    if (!root.IsSequence()) return Wrong(root.Mark(), "a list of rules");
    for (const YAML::Node& item : root) {
      if (!item.IsMap()) return Wrong(item.Mark(), "a rule");
      FoldRule& rule = rules.emplace_back();
      for (const auto& part : item) {
        if (!part.first.IsScalar()) return Wrong(part.first.Mark(), "a name");
        if (absl::Status s = ReadPart(part.first.Scalar(), part.second, &rule); !s.ok()) return s;
      }
      if (rule.name.empty() || rule.because.empty() || rule.apis.include.empty() || !(rule.numbers || rule.sizes)) {
        return Wrong(item.Mark(), "rule, because, apis and fold");
      }
    }
  } catch (const YAML::Exception& error) {
    return Wrong(error.mark, absl::StrCat("YAML: ", error.msg));
  }
  return rules;
}

std::vector<std::string> Folding::Purposes() { return {kTests}; }

absl::StatusOr<Folding> Folding::For(std::string_view purpose) {
  if (purpose != kTests) {
    return absl::InvalidArgumentError(absl::StrCat("'", std::string(purpose), "' is not a purpose; there is ", kTests));
  }
  absl::StatusOr<std::vector<FoldRule>> rules = ParseFoldRules(kTestFolds);
  if (!rules.ok()) return rules.status();
  return Folding(*std::move(rules));
}

size_t Folding::RuleFor(std::string_view api) {
  const auto [at, fresh] = rule_of_.try_emplace(std::string(api), 0);
  if (fresh) {
    const auto meant = [api](const FoldRule& rule) { return rule.apis.Accepts(api); };
    at->second = static_cast<size_t>(std::find_if(rules_.begin(), rules_.end(), meant) - rules_.begin());
  }
  return at->second;
}

std::optional<Folding::Folded> Folding::Fold(std::string_view identity) {
  const size_t number = RuleFor(ReadConfigHead(identity).api);
  if (number == rules_.size()) return std::nullopt;
  const FoldRule& rule = rules_[number];
  absl::StatusOr<Config> config = ParseConfig(identity);
  if (!config.ok()) return std::nullopt;
  const bool all = rule.places.empty() && rule.names.empty();
  for (size_t i = 0; i < config->args.size(); ++i) {
    const bool meant = all || std::find(rule.places.begin(), rule.places.end(), i) != rule.places.end();
    if (meant) FoldValue(rule, &config->args[i]);
  }
  for (auto& [name, value] : config->kwargs) {
    const bool meant = all || std::find(rule.names.begin(), rule.names.end(), name) != rule.names.end();
    if (meant) FoldValue(rule, &value);
  }
  return Folded{number, EncodeConfig(*config)};
}

}  // namespace torchtrace
