#include "serialize/reports/shapes.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <set>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "serialize/apis/apis.h"
#include "serialize/forms/forms.h"
#include "serialize/model/torch_names.h"
#include "serialize/model/torch_types.h"
#include "yaml-cpp/yaml.h"

namespace torchtrace {
namespace {

using nlohmann::ordered_json;

// Generated from shapes.yaml: see BUILD.
constexpr char kBuiltIn[] =
#include "serialize/reports/shapes_yaml.inc"
    ;

// `mm` of torch.mm, torch.Tensor.mm_ and aten::mm.out.
std::string_view BareName(std::string_view api) {
  for (const std::string_view prefix :
       {"torch.nn.functional.", "torch.ops.aten.", "torch.special.", "torch.Tensor.", "torch._C._VariableFunctions.",
        "torch._C._nn.", "torch._VF.", "torch.", "aten::special_", "aten::", "paddle.nn.functional.", "paddle.Tensor.",
        "paddle."}) {
    if (!api.starts_with(prefix)) continue;
    api.remove_prefix(prefix.size());
    if (prefix.starts_with("aten") || prefix == "torch.ops.aten.") api = api.substr(0, api.find('.'));
    break;
  }
  if (api.ends_with('_') && !api.ends_with("__")) api.remove_suffix(1);
  return api;
}

// Where an operator's overload begins.
size_t OperatorEnd(std::string_view api) {
  const size_t colons = api.find("::");
  return colons == std::string_view::npos ? colons : api.find('.', colons);
}

bool IsFloating(std::string_view dtype) {
  return dtype.find("float") != std::string_view::npos || dtype.starts_with("complex");
}

// False for symbolic sizes and for placeholders.
bool IsKnown(const Dim& dim) { return dim.has_value() && *dim >= 0; }

std::optional<Numbers> NumbersOf(const std::vector<Dim>& dims) {
  Numbers numbers;
  for (const Dim& dim : dims) {
    if (!IsKnown(dim)) return std::nullopt;
    numbers.push_back(static_cast<double>(*dim));
  }
  return numbers;
}

double ProductOf(const Numbers& numbers) {
  double product = 1;
  for (const double number : numbers) product *= number;
  return product;
}

// nullopt if they can't be broadcast.
std::optional<std::vector<Dim>> BroadcastTogether(const std::vector<Dim>& a, const std::vector<Dim>& b) {
  std::vector<Dim> result = a.size() >= b.size() ? a : b;
  const std::vector<Dim>& shorter = a.size() >= b.size() ? b : a;
  for (size_t i = 0; i < shorter.size(); ++i) {
    Dim& size = result[result.size() - 1 - i];
    const Dim& other = shorter[shorter.size() - 1 - i];
    if (size == 1) {
      size = other;
    } else if (IsKnown(size) && IsKnown(other) && other != 1 && size != other) {
      return std::nullopt;
    } else if (!IsKnown(other)) {
      size.reset();
    }
  }
  return result;
}

// All tensors among the arguments.
struct Tensors {
  std::vector<const Value*> all;
  size_t of_first = 0;  // how many of them the first argument has

  void Add(const Value& value) {
    if (value.tag == ValueTag::kTensor) all.push_back(&value);
    for (const Value& item : value.items) Add(item);
  }

  std::string dtype() const {
    const auto floating =
        std::find_if(all.begin(), all.end(), [](const Value* tensor) { return IsFloating(tensor->text); });
    return floating != all.end() ? (*floating)->text : all.empty() ? "" : all[0]->text;
  }

  std::optional<double> bytes(size_t count) const {
    double sum = 0;
    for (size_t i = 0; i < count; ++i) {
      const std::optional<double> elements = ElementsOf(*all[i]);
      if (!elements.has_value()) return std::nullopt;
      sum += *elements * static_cast<double>(BytesOfDtype(all[i]->text));
    }
    return sum;
  }

  static std::optional<double> ElementsOf(const Value& tensor) {
    if ((tensor.tensor_bits & kTensorShapeUnknown) != 0) return std::nullopt;
    const std::optional<Numbers> sizes = NumbersOf(tensor.shape);
    return sizes.has_value() ? std::optional(ProductOf(*sizes)) : std::nullopt;
  }
};

std::optional<Numbers> One(const std::optional<double>& number) {
  return number.has_value() ? std::optional(Numbers{*number}) : std::nullopt;
}

bool IsNumber(const Value& value) {
  return value.tag == ValueTag::kInt || value.tag == ValueTag::kFloat || value.tag == ValueTag::kTrue ||
         value.tag == ValueTag::kFalse;
}

double NumberOf(const Value& value) {
  return value.tag == ValueTag::kInt     ? static_cast<double>(value.integer)
         : value.tag == ValueTag::kFloat ? value.real
                                         : static_cast<double>(value.tag == ValueTag::kTrue);
}

// For values other than tensors; nullopt if the value is not numeric. A dtype counts as its size in bytes.
std::optional<Numbers> NumbersOf(const Value& value) {
  if (IsNumber(value)) return Numbers{NumberOf(value)};
  if (value.tag == ValueTag::kDtype) return Numbers{static_cast<double>(BytesOfDtype(value.text))};
  if (value.tag != ValueTag::kList && value.tag != ValueTag::kTuple && value.tag != ValueTag::kSize) return {};
  Numbers numbers;
  for (const Value& item : value.items) {
    if (!IsNumber(item)) return std::nullopt;
    numbers.push_back(NumberOf(item));
  }
  return numbers;
}

std::string Stripped(const std::string& text) { return std::string(absl::StripAsciiWhitespace(text)); }

// Multiplies the size of each letter of an equation of two tensors, `bij,bjk->bik`, into B, M, N or K.
bool BindEquation(const Config& config, const std::vector<const Value*>& tensors,
                  std::map<std::string, std::optional<Numbers>>* variables) {
  if (config.args.empty() || config.args[0].tag != ValueTag::kString || tensors.size() != 2) return false;
  std::string text = config.args[0].text;
  std::erase(text, ' ');
  const size_t arrow = text.find("->");
  const std::string_view left = std::string_view(text).substr(0, arrow);
  const size_t comma = left.find(',');
  if (comma == std::string_view::npos || left.find('.') != std::string_view::npos) return false;
  const std::string_view letters[] = {left.substr(0, comma), left.substr(comma + 1)};
  std::map<char, double> in[2];
  for (size_t i = 0; i < 2; ++i) {
    const std::optional<Numbers> sizes = NumbersOf(tensors[i]->shape);
    if (!sizes.has_value() || sizes->size() != letters[i].size()) return false;
    for (size_t j = 0; j < letters[i].size(); ++j) {
      if (!in[i].emplace(letters[i][j], (*sizes)[j]).second) return false;  // a diagonal
    }
  }
  std::map<std::string, double> products = {{"B", 1}, {"M", 1}, {"N", 1}, {"K", 1}};
  for (const auto& [letter, size] : in[0]) {
    const auto other = in[1].find(letter);
    // Without an arrow, letters of both tensors are summed over.
    const bool stays = arrow != std::string::npos && text.find(letter, arrow) != std::string::npos;
    products[other == in[1].end() ? "M"
             : stays              ? "B"
                                  : "K"] *= other == in[1].end() ? size : std::max(size, other->second);
  }
  for (const auto& [letter, size] : in[1]) {
    if (in[0].count(letter) == 0) products["N"] *= size;
  }
  for (const auto& [name, product] : products) (*variables)[name] = Numbers{product};
  return true;
}

// Splits `A, B[C, D], at(E, 0)` at the commas outside of brackets, and strips blanks.
std::vector<std::string> SplitOutside(std::string_view text, char separator) {
  std::vector<std::string> parts(1);
  int depth = 0;
  for (const char c : text) {
    if (c == '(' || c == '[') ++depth;
    if (c == ')' || c == ']') --depth;
    if (c == separator && depth == 0) {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  for (std::string& part : parts) part = Stripped(part);
  return parts;
}

absl::Status ParseInto(const std::string& text, std::optional<Formula>* formula) {
  absl::StatusOr<Formula> parsed = Formula::Parse(text);
  if (!parsed.ok()) {
    return absl::InvalidArgumentError(absl::StrCat("\"", text, "\": ", std::string(parsed.status().message())));
  }
  *formula = *std::move(parsed);
  return absl::OkStatus();
}

// Names of the dimensions of an image, from the last one on.
constexpr const char* kSpatialNames[] = {"W", "H", "D"};

}  // namespace

absl::StatusOr<std::vector<ShapeRules::Parameter>> ShapeRules::ParseCall(const std::string& text) {
  std::vector<Parameter> parameters;
  for (std::string part : SplitOutside(text, ',')) {
    Parameter parameter;
    if (const size_t equals = part.find('='); equals != std::string::npos) {
      const bool twice = part.compare(equals, 2, "==") == 0;
      const std::string right = Stripped(part.substr(equals + (twice ? 2 : 1)));
      if (twice) {
        parameter.must_be = right;
      } else if (absl::Status s = ParseInto(right, &parameter.otherwise); !s.ok()) {
        return s;
      }
      part = Stripped(part.substr(0, equals));
    }
    const bool may_be_missing = part.ends_with('?');
    if (may_be_missing) part.pop_back();
    parameter.optional = may_be_missing || parameter.otherwise.has_value();
    if (const size_t bracket = part.find('['); bracket != std::string::npos) {
      if (!part.ends_with(']')) return absl::InvalidArgumentError(absl::StrCat("expected ] after ", part));
      parameter.tensor = true;
      parameter.dims = SplitOutside(part.substr(bracket + 1, part.size() - bracket - 2), ',');
      part = part.substr(0, bracket);
    }
    parameter.names = SplitOutside(part, '|');
    parameters.push_back(std::move(parameter));
  }
  return parameters;
}

absl::StatusOr<std::vector<ShapeRules::ShownSize>> ShapeRules::ParseSizes(const std::string& text) {
  std::vector<ShownSize> sizes;
  for (std::string part : SplitOutside(text, ',')) {
    ShownSize size;
    constexpr std::string_view kUnless = " unless ";
    if (const size_t unless = part.find(kUnless); unless != std::string::npos) {
      if (absl::Status s = ParseInto(part.substr(unless + kUnless.size()), &size.unless); !s.ok()) return s;
      part.resize(unless);
    }
    size.spatial = part.starts_with('*');
    if (size.spatial) part.erase(0, 1);
    const size_t equals = part.find('=');
    size.name = part.substr(0, equals);
    std::optional<Formula> formula;
    if (absl::Status s = ParseInto(equals == std::string::npos ? part : part.substr(equals + 1), &formula); !s.ok()) {
      return s;
    }
    size.formula = *std::move(formula);
    sizes.push_back(std::move(size));
  }
  return sizes;
}

absl::Status ShapeRules::CheckNames(const Rule& rule) {
  std::set<std::string> known = {"in", "first", "elements", "largest", "broadcast", "tensors", "item", "matrices"};
  if (rule.einsum) known.insert({"B", "M", "N", "K"});
  const auto check = [&known](const std::optional<Formula>& formula) {
    for (const std::string& name : formula.has_value() ? formula->names() : std::vector<std::string>()) {
      if (known.count(name) != 0) continue;
      return absl::InvalidArgumentError(absl::StrCat(
          "nothing is called ", name, ": name it in `call` or `let` (known: ", absl::StrJoin(known, ", "), ")"));
    }
    return absl::OkStatus();
  };
  for (const Parameter& parameter : rule.parameters) {
    if (absl::Status s = check(parameter.otherwise); !s.ok()) return s;
    known.insert(parameter.names[0]);
    for (const std::string& dim : parameter.dims) known.insert(dim.substr(0, dim.find("...")));
  }
  if (absl::Status s = check(rule.condition); !s.ok()) return s;
  for (const auto& [name, formula] : rule.let) {
    if (absl::Status s = check(formula); !s.ok()) return s;
    known.insert(name);
  }
  for (const ShownSize& size : rule.sizes) {
    if (absl::Status s = check(size.formula); !s.ok()) return s;
    if (absl::Status s = check(size.unless); !s.ok()) return s;
  }
  for (const std::optional<Formula>* const formula : {&rule.flops, &rule.bytes}) {
    if (absl::Status s = check(*formula); !s.ok()) return s;
  }
  return absl::OkStatus();
}

absl::StatusOr<ShapeRules> ShapeRules::WithOwn(const std::string& text, const std::string& name) {
  absl::StatusOr<ShapeRules> own = Parse(text);
  if (!own.ok()) return absl::InvalidArgumentError(absl::StrCat(name, ": ", own.status().message()));
  if (own->rules_.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        name, " has no rules: write some as - {names: [\"mylib::op\"], call: \"x[M, K]\", flops: \"2 * M * K\"}"));
  }
  // The first rule that fits applies.
  for (Rule& rule : own->rules_) rule.own = true;
  ShapeRules rules = BuiltIn();
  rules.rules_.insert(rules.rules_.begin(), own->rules_.begin(), own->rules_.end());
  rules.costly_.Add(own->costly_);
  return rules;
}

absl::StatusOr<ShapeRules> ShapeRules::Parse(const std::string& text) {
  ShapeRules rules;
  int line = 1;
  try {
    const YAML::Node list = YAML::Load(text);
    if (!list.IsSequence() && !list.IsNull()) {
      return absl::InvalidArgumentError("line 1: expected a list of rules, - {names: [...], ...}");
    }
    for (const YAML::Node& node : list) {
      line = node.Mark().line + 1;
      const auto wrong = [&line](absl::string_view what) {
        return absl::InvalidArgumentError(absl::StrCat("line ", line, ": ", what));
      };
      if (!node.IsMap()) return wrong("expected a rule, {names: [...], ...}");
      if (node["costly"]) {
        const auto list = [&node](const char* key) {
          return node[key] ? node[key].as<std::vector<std::string>>() : std::vector<std::string>();
        };
        for (const std::string& group : list("costly")) rules.costly_.apis.include.push_back("%" + group);
        const absl::StatusOr<std::vector<std::string>> globs = ApiGroups::BuiltIn().Expand(rules.costly_.apis.include);
        if (!globs.ok()) return wrong(globs.status().message());
        rules.costly_.apis.include = *globs;
        for (const std::string& glob : list("globs")) rules.costly_.apis.include.push_back(glob);
        rules.costly_.names = list("names");
        rules.costly_.free = list("free");
        continue;
      }
      Rule rule;
      std::set<std::string> keys;
      for (const auto& entry : node) {
        const std::string key = entry.first.as<std::string>();
        line = entry.first.Mark().line + 1;
        absl::Status read;
        if (!keys.insert(key).second) return wrong(absl::StrCat(key, " is there twice"));
        if (key == "names") {
          rule.names = entry.second.as<std::vector<std::string>>();
        } else if (key == "groups") {
          for (const std::string& group : entry.second.as<std::vector<std::string>>()) {
            rule.groups.include.push_back("%" + group);
          }
          const absl::StatusOr<std::vector<std::string>> globs = ApiGroups::BuiltIn().Expand(rule.groups.include);
          if (!globs.ok()) return wrong(globs.status().message());
          rule.groups.include = *globs;
        } else if (key == "call") {
          absl::StatusOr<std::vector<Parameter>> parameters = ParseCall(entry.second.as<std::string>());
          read = parameters.status();
          if (read.ok()) rule.parameters = *std::move(parameters);
        } else if (key == "let") {
          for (const auto& variable : entry.second) {
            std::optional<Formula> formula;
            if (read = ParseInto(variable.second.as<std::string>(), &formula); !read.ok()) break;
            rule.let.emplace_back(variable.first.as<std::string>(), *std::move(formula));
          }
        } else if (key == "sizes") {
          absl::StatusOr<std::vector<ShownSize>> sizes = ParseSizes(entry.second.as<std::string>());
          read = sizes.status();
          if (read.ok()) rule.sizes = *std::move(sizes);
        } else if (key == "einsum") {
          rule.einsum = entry.second.as<bool>();
        } else if (key == "if") {
          read = ParseInto(entry.second.as<std::string>(), &rule.condition);
        } else if (key == "flops") {
          read = ParseInto(entry.second.as<std::string>(), &rule.flops);
        } else if (key == "bytes") {
          read = ParseInto(entry.second.as<std::string>(), &rule.bytes);
        } else if (key == "out") {
          read = ParseInto(absl::StrCat("in + item * (", entry.second.as<std::string>(), ")"), &rule.bytes);
        } else {
          read = absl::InvalidArgumentError(absl::StrCat(
              "unknown key ", key, " (known: names, groups, call, let, if, einsum, sizes, flops, out, bytes)"));
        }
        if (!read.ok()) return wrong(read.message());
      }
      line = node.Mark().line + 1;
      if (rule.names.empty() && rule.groups.include.empty()) return wrong("the rule has no names");
      if (rule.sizes.empty() && !rule.flops.has_value() && !rule.bytes.has_value()) {
        return wrong("the rule has no flops, bytes or sizes");
      }
      if (absl::Status s = CheckNames(rule); !s.ok()) return wrong(s.message());
      rules.rules_.push_back(std::move(rule));
    }
  } catch (const YAML::Exception& error) {
    if (!error.mark.is_null()) line = error.mark.line + 1;
    return absl::InvalidArgumentError(absl::StrCat("line ", line, ": ", error.msg));
  }
  return rules;
}

ShapeRules ShapeRules::BuiltIn() {
  // It has no errors: a test parses it too.
  return Parse(kBuiltIn).value_or(ShapeRules());
}

const std::vector<size_t>& ShapeRules::RulesOf(const std::string& api) {
  const auto [at, fresh] = by_api_.try_emplace(api);
  if (fresh) {
    const std::string_view bare = BareName(api);
    // `mylib::op` of mylib::op.out.
    const std::string_view packet = std::string_view(api).substr(0, OperatorEnd(api));
    for (size_t i = 0; i < rules_.size(); ++i) {
      const Rule& rule = rules_[i];
      const bool named = std::any_of(rule.names.begin(), rule.names.end(), [&](const std::string& name) {
        return name == bare || name == api || name == packet;
      });
      if (named || (!rule.groups.include.empty() && rule.groups.Accepts(api))) at->second.push_back(i);
    }
  }
  return at->second;
}

// Whether a shape matches the parameter's dims; new names get their sizes.
bool ShapeRules::BindDims(const Parameter& parameter, const std::vector<Dim>& shape, Variables* variables) {
  const auto is_list = [](const std::string& dim) { return dim.ends_with("..."); };
  const auto list = std::find_if(parameter.dims.begin(), parameter.dims.end(), is_list);
  const bool has_list = list != parameter.dims.end();
  const size_t least = parameter.dims.size() - (has_list ? 1 : 0);
  if (shape.size() < least || (!has_list && shape.size() > least)) return false;
  auto size = shape.begin();
  for (const std::string& dim : parameter.dims) {
    const bool many = is_list(dim);
    const std::string name = many ? dim.substr(0, dim.size() - 3) : dim;
    const auto end = size + static_cast<ptrdiff_t>(many ? shape.size() - least : 1);
    std::vector<Dim> sizes(size, end);
    size = end;
    if (name == "_") continue;
    const auto [at, fresh] = variables->try_emplace(name, NumbersOf(sizes));
    if (fresh) continue;
    if (!many) {
      if (!at->second.has_value()) at->second = NumbersOf(sizes);
      if (IsKnown(sizes[0]) && at->second != NumbersOf(sizes)) return false;
      continue;
    }
    if (!at->second.has_value()) continue;
    std::vector<Dim> known;
    for (const double number : *at->second) known.emplace_back(static_cast<int64_t>(number));
    const std::optional<std::vector<Dim>> together = BroadcastTogether(known, sizes);
    if (!together.has_value()) return false;
    at->second = NumbersOf(*together);
  }
  return true;
}

// `value`: null if it isn't given.
bool ShapeRules::Bind(const Parameter& parameter, const Value* value, Variables* variables) {
  if (value != nullptr && value->tag == ValueTag::kNone) value = nullptr;
  if (parameter.must_be.has_value()) {
    if (value == nullptr) return false;
    if (value->tag == ValueTag::kString) return *parameter.must_be == absl::StrCat("'", value->text, "'");
    return (value->tag == ValueTag::kTrue && *parameter.must_be == "true") ||
           (value->tag == ValueTag::kFalse && *parameter.must_be == "false");
  }
  if (value == nullptr) {
    if (!parameter.otherwise.has_value()) return parameter.optional;
    (*variables)[parameter.names[0]] = parameter.otherwise->Evaluate([variables](const std::string& name) {
      const auto at = variables->find(name);
      return at == variables->end() ? std::nullopt : at->second;
    });
    return true;
  }
  const bool tensor = value->tag == ValueTag::kTensor;
  if (parameter.tensor) {
    return tensor && (value->tensor_bits & kTensorShapeUnknown) == 0 && BindDims(parameter, value->shape, variables);
  }
  if (value->tag == ValueTag::kString) return parameter.optional && !parameter.otherwise.has_value();
  (*variables)[parameter.names[0]] = tensor ? One(Tensors::ElementsOf(*value)) : NumbersOf(*value);
  return true;
}

bool ShapeRules::Fits(const Rule& rule, const Config& config, Variables* variables) {
  for (size_t i = 0; i < rule.parameters.size(); ++i) {
    const Parameter& parameter = rule.parameters[i];
    const Value* value = i < config.args.size() ? &config.args[i] : nullptr;
    for (const auto& [name, keyword] : config.kwargs) {
      if (std::find(parameter.names.begin(), parameter.names.end(), name) != parameter.names.end()) value = &keyword;
    }
    if (!Bind(parameter, value, variables)) return false;
  }
  const auto values = [variables](const std::string& name) {
    const auto at = variables->find(name);
    return at == variables->end() ? std::nullopt : at->second;
  };
  if (rule.condition.has_value()) {
    if (const std::optional<Numbers> holds = rule.condition->Evaluate(values); holds == Numbers{0}) return false;
  }
  for (const auto& [name, formula] : rule.let) (*variables)[name] = formula.Evaluate(values);
  return true;
}

bool ShapeRules::IsCostly(const std::string& api) {
  const auto [known, is_new] = is_costly_.try_emplace(api, false);
  if (is_new) known->second = MatchesCostly(CanonicalName(api));
  return known->second;
}

bool ShapeRules::MatchesCostly(const std::string& api) const {
  const std::string bare(BareName(api));
  const auto is_of = [&](const std::vector<std::string>& names) {
    return std::any_of(names.begin(), names.end(),
                       [&](const std::string& name) { return name == bare || name == api || GlobMatch(name, api); });
  };
  if (is_of(costly_.free)) return false;
  return is_of(costly_.names) || (!costly_.apis.include.empty() && costly_.apis.Accepts(api));
}

CallShapes ShapeRules::Find(const Config& config) {
  CallShapes shapes = FindSizes(config);
  if (shapes.cost.flops.has_value() || !IsCostly(config.api)) return shapes;
  Tensors tensors;
  for (const Value& value : config.args) tensors.Add(value);
  for (const auto& [name, value] : config.kwargs) tensors.Add(value);
  shapes.lacks_formula = !tensors.all.empty();
  return shapes;
}

CallShapes ShapeRules::FindSizes(const Config& config) {
  CallShapes shapes;
  const std::vector<size_t>& rules = RulesOf(config.api);
  if (rules.empty()) return shapes;
  Tensors tensors;
  for (const Value& value : config.args) {
    tensors.Add(value);
    if (&value == config.args.data()) tensors.of_first = tensors.all.size();
  }
  for (const auto& [name, value] : config.kwargs) tensors.Add(value);
  if (tensors.all.empty()) return shapes;

  Variables always;
  shapes.dtype = tensors.dtype();
  always["item"] = Numbers{static_cast<double>(BytesOfDtype(shapes.dtype))};
  always["in"] = One(tensors.bytes(tensors.all.size()));
  always["first"] = One(tensors.bytes(tensors.of_first));
  always["tensors"] = Numbers{static_cast<double>(tensors.all.size())};
  // Weights of recurrent layers are lists.
  std::optional<double> matrices = 0;
  const auto add_matrices = [&matrices](const Value& list) {
    for (const Value& item : list.items) {
      if (item.tag != ValueTag::kTensor || item.shape.size() != 2) continue;
      const std::optional<double> size = Tensors::ElementsOf(item);
      matrices = matrices.has_value() && size.has_value() ? std::optional(*matrices + *size) : std::nullopt;
    }
  };
  for (const Value& value : config.args) add_matrices(value);
  for (const auto& [name, value] : config.kwargs) add_matrices(value);
  always["matrices"] = One(matrices);
  std::optional<double> elements = 0, largest = 0;
  std::optional<std::vector<Dim>> together = std::vector<Dim>();
  for (const Value* tensor : tensors.all) {
    const std::optional<double> of_one = Tensors::ElementsOf(*tensor);
    elements = elements.has_value() && of_one.has_value() ? std::optional(*elements + *of_one) : std::nullopt;
    largest = largest.has_value() && of_one.has_value() ? std::optional(std::max(*largest, *of_one)) : std::nullopt;
    if (together.has_value()) together = BroadcastTogether(*together, tensor->shape);
  }
  always["elements"] = One(elements);
  always["largest"] = One(largest);
  const std::optional<Numbers> broadcast = together.has_value() ? NumbersOf(*together) : std::nullopt;
  always["broadcast"] = broadcast.has_value() && elements.has_value() ? One(ProductOf(*broadcast)) : std::nullopt;

  for (const size_t index : rules) {
    const Rule& rule = rules_[index];
    Variables variables = always;
    if (rule.einsum && !BindEquation(config, tensors.all, &variables)) continue;
    if (!Fits(rule, config, &variables)) continue;
    const auto values = [&variables](const std::string& name) {
      const auto at = variables.find(name);
      return at == variables.end() ? std::nullopt : at->second;
    };
    for (const ShownSize& size : rule.sizes) {
      const std::optional<Numbers> numbers = size.formula.Evaluate(values);
      if (size.unless.has_value() && numbers.has_value()) {
        const std::optional<Numbers> hidden = size.unless->Evaluate(values);
        const auto is_hidden = [&](double number) { return hidden == Numbers{number}; };
        if (numbers == hidden || std::all_of(numbers->begin(), numbers->end(), is_hidden)) continue;
      }
      if (!size.spatial || !numbers.has_value() || numbers->size() > std::size(kSpatialNames)) {
        shapes.sizes.push_back({size.name, numbers});
        continue;
      }
      for (size_t i = 0; i < numbers->size(); ++i) {
        const char* const name = numbers->size() == 1 ? "L" : kSpatialNames[numbers->size() - 1 - i];
        shapes.sizes.push_back({name, Numbers{(*numbers)[i]}});
      }
    }
    constexpr double kMostOfACall = 1e21;
    const auto amount = [&values](const std::optional<Formula>& formula) -> std::optional<double> {
      const std::optional<Numbers> numbers = formula.has_value() ? formula->Evaluate(values) : std::nullopt;
      if (!numbers.has_value() || numbers->size() != 1) return std::nullopt;
      const double number = (*numbers)[0];
      // A formula or a damaged log may have any number.
      return number >= 0 && number <= kMostOfACall ? std::optional(number) : std::nullopt;
    };
    shapes.cost = {amount(rule.flops), amount(rule.bytes)};
    shapes.own = rule.own;
    return shapes;
  }
  return {};
}

std::string FormatSizes(const std::vector<CallSize>& sizes) {
  return absl::StrJoin(sizes, " ", [](std::string* out, const CallSize& size) {
    absl::StrAppend(out, size.name, "=");
    if (!size.numbers.has_value()) {
      *out += "*";
      return;
    }
    *out +=
        absl::StrJoin(*size.numbers, "x", [](std::string* text, double number) { *text += AmountJson(number).dump(); });
  });
}

ordered_json SizesJson(const std::vector<CallSize>& sizes) {
  ordered_json json = ordered_json::object();
  for (const CallSize& size : sizes) {
    ordered_json& value = json[size.name];
    if (!size.numbers.has_value()) continue;
    ordered_json numbers = ordered_json::array();
    for (const double number : *size.numbers) numbers.push_back(AmountJson(number));
    value = numbers.size() == 1 ? numbers[0] : numbers;
  }
  return json;
}

ordered_json AmountJson(double amount) {
  if (amount == std::floor(amount) && std::abs(amount) < 9e18) return static_cast<int64_t>(amount);
  return amount;
}

std::string FormatAmount(double amount) {
  static constexpr const char* kPowers[] = {"", "k", "M", "G", "T", "P", "E"};
  size_t power = 0;
  while (amount >= 999.5 && power + 1 < std::size(kPowers)) {
    amount /= 1000;
    ++power;
  }
  const int decimals = power == 0 || amount >= 99.95 ? 0 : amount >= 9.995 ? 1 : 2;
  return absl::StrCat(absl::StrFormat("%.*f", decimals, amount), " ", kPowers[power]);
}

}  // namespace torchtrace
