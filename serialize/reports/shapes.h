// The sizes of a call as people say them, M, N and K of a matmul, and what such a call costs. What is known of which
// API is data: shapes.yaml.

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

namespace torchtrace {

// Of one call. Nothing: no formula is known, or a size that it takes isn't.
struct CallCost {
  std::optional<double> flops = {};  // of products of matrices, as torch.utils.flop_counter counts them
  std::optional<double> bytes = {};  // of tensors, read and written once each
};

struct CallSize {
  std::string name;
  std::optional<Numbers> numbers;  // nothing: symbolic
};

struct CallShapes {
  // It has no FLOPs, and is of an API that costs some.
  bool lacks_formula = false;
  std::vector<CallSize> sizes;  // none: no rule is known of this call
  std::string dtype;            // of the first tensor of floating point, else of the first one; with `sizes`
  CallCost cost;
};

// What shapes.yaml says; it describes the form of rules. One thread.
class ShapeRules {
 public:
  // What is in shapes.yaml.
  static ShapeRules BuiltIn();
  // InvalidArgument with the rule and what is wrong in it.
  static absl::StatusOr<ShapeRules> Parse(const std::string& text);

  // By the first rule that is of the call's API and whose pattern fits its arguments.
  CallShapes Find(const Config& config);

 private:
  CallShapes FindSizes(const Config& config);

  struct Parameter {
    std::vector<std::string> names;
    bool optional = false;
    bool tensor = false;                 // has dims
    std::vector<std::string> dims;       // of a tensor; "X..." any number of them
    std::optional<std::string> must_be;  // true, false or a text in quotes
    std::optional<Formula> otherwise;    // where it isn't given
  };
  struct ShownSize {
    std::string name;
    Formula formula;
    bool spatial = false;           // L; H and W; D, H and W
    std::optional<Formula> unless;  // not shown where it is that
  };
  struct Rule {
    std::vector<std::string> names;
    GlobFilter groups;
    bool einsum = false;
    std::vector<Parameter> parameters;
    std::vector<std::pair<std::string, Formula>> let;
    std::optional<Formula> condition, flops, bytes;
    std::vector<ShownSize> sizes;
  };
  using Variables = std::map<std::string, std::optional<Numbers>>;

  // Globs.
  struct Costly {
    GlobFilter apis;
    std::vector<std::string> names, free;
  };
  bool IsCostly(const std::string& api);
  bool MatchesCostly(const std::string& api) const;

  static absl::StatusOr<std::vector<Parameter>> ParseCall(const std::string& text);
  static absl::StatusOr<std::vector<ShownSize>> ParseSizes(const std::string& text);
  static bool Bind(const Parameter& parameter, const Value* value, Variables* variables);
  static bool BindDims(const Parameter& parameter, const std::vector<Dim>& shape, Variables* variables);
  static bool Fits(const Rule& rule, const Config& config, Variables* variables);
  const std::vector<size_t>& RulesOf(const std::string& api);

  std::vector<Rule> rules_;
  Costly costly_;
  std::map<std::string, bool> is_costly_;              // of those that were asked for
  std::map<std::string, std::vector<size_t>> by_api_;  // of those that were asked for, into rules_
};

// `M=32 N=64 kernel=3x3`; `*` is a size that isn't known.
std::string FormatSizes(const std::vector<CallSize>& sizes);
// `{"M": 32, "kernel": [3, 3]}`, null for one that isn't known.
nlohmann::ordered_json SizesJson(const std::vector<CallSize>& sizes);

// Whole where it fits 64 bits.
nlohmann::ordered_json AmountJson(double amount);
// Three digits and the power of a thousand: `12.3 G`, `1.00 k`, `512 `. The unit goes behind it.
std::string FormatAmount(double amount);

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_REPORTS_SHAPES_H_
