// The sizes of a call under their usual names, such as M, N and K of a matmul, and the call's cost. shapes.yaml has the
// rules for each API.

#ifndef TORCHTRACE_SERIALIZE_REPORTS_SHAPES_H_
#define TORCHTRACE_SERIALIZE_REPORTS_SHAPES_H_

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"
#include "serialize/base/matching.h"
#include "serialize/model/config.h"
#include "serialize/reports/formula.h"
#include "serialize/trace/call_costs.h"

namespace torchtrace {

struct CallSize {
  std::string name;
  std::optional<Numbers> numbers;  // nullopt: symbolic
};

struct CallShapes {
  // The API costs FLOPs, but there is no formula for this call.
  bool lacks_formula = false;
  bool own = false;             // by a rule of the user's
  std::vector<CallSize> sizes;  // empty: no rule matches this call
  std::string dtype;            // with `sizes`: of the first floating-point tensor, else of the first tensor
  CallCost cost;

  ConfigCost config_cost() const { return {cost, lacks_formula, /*whole=*/own && cost.flops.has_value()}; }
};

// The rules of shapes.yaml, which describes their syntax. Not thread-safe.
class ShapeRules {
 public:
  static ShapeRules BuiltIn();
  // The rules of `text`, the user's own, before the built-in ones, which they replace where both fit. InvalidArgument
  // as from Parse, after `name`.
  static absl::StatusOr<ShapeRules> WithOwn(const std::string& text, const std::string& name);
  // InvalidArgument with the line and what is wrong there.
  static absl::StatusOr<ShapeRules> Parse(const std::string& text);

  // Applies the first rule for the call's API whose pattern matches the arguments.
  CallShapes Find(const Config& config);

 private:
  CallShapes FindSizes(const Config& config);

  struct Parameter {
    std::vector<std::string> names;
    bool optional = false;
    bool tensor = false;                 // has dims
    std::vector<std::string> dims;       // of a tensor; "X...": any number of them
    std::optional<std::string> must_be;  // true, false or a quoted string
    std::optional<Formula> otherwise;    // the default
  };
  struct ShownSize {
    std::string name;
    Formula formula;
    bool spatial = false;           // L; H and W; D, H and W
    std::optional<Formula> unless;  // hidden if it has this value
  };
  struct Rule {
    std::vector<std::string> names;
    GlobFilter groups;
    bool einsum = false;
    bool own = false;
    std::vector<Parameter> parameters;
    std::vector<std::pair<std::string, Formula>> let;
    std::optional<Formula> condition, flops, bytes;
    std::vector<ShownSize> sizes;
  };
  using Variables = std::map<std::string, std::optional<Numbers>>;

  // APIs that cost FLOPs, as globs.
  struct Costly {
    GlobFilter apis;
    std::vector<std::string> names, free;

    void Add(const Costly& other) {
      for (const auto member : {&Costly::names, &Costly::free}) {
        (this->*member).insert((this->*member).end(), (other.*member).begin(), (other.*member).end());
      }
      apis.include.insert(apis.include.end(), other.apis.include.begin(), other.apis.include.end());
    }
  };
  bool IsCostly(const std::string& api);
  bool MatchesCostly(const std::string& api) const;

  // That each name in a formula has a meaning.
  static absl::Status CheckNames(const Rule& rule);
  static absl::StatusOr<std::vector<Parameter>> ParseCall(const std::string& text);
  static absl::StatusOr<std::vector<ShownSize>> ParseSizes(const std::string& text);
  static bool Bind(const Parameter& parameter, const Value* value, Variables* variables);
  static bool BindDims(const Parameter& parameter, const std::vector<Dim>& shape, Variables* variables);
  static bool Fits(const Rule& rule, const Config& config, Variables* variables);
  const std::vector<size_t>& RulesOf(const std::string& api);

  std::vector<Rule> rules_;
  Costly costly_;
  std::map<std::string, bool> is_costly_;              // a cache, by API
  std::map<std::string, std::vector<size_t>> by_api_;  // a cache: indexes into rules_
};

// `M=32 N=64 kernel=3x3`; `*` for an unknown size.
std::string FormatSizes(const std::vector<CallSize>& sizes);
// `{"M": 32, "kernel": [3, 3]}`, null for an unknown size.
nlohmann::ordered_json SizesJson(const std::vector<CallSize>& sizes);

// An integer if it fits 64 bits.
nlohmann::ordered_json AmountJson(double amount);
// Three digits and an SI prefix, for a unit to follow: `12.3 G`, `1.00 k`, `512 `.
std::string FormatAmount(double amount);

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_REPORTS_SHAPES_H_
