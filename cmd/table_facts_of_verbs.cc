#include "cmd/table_facts_of_verbs.h"

#include <cmath>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "serialize/forms/call_labels.h"
#include "serialize/reports/module_owners.h"
#include "serialize/reports/shapes.h"

namespace torchtrace {
namespace {

constexpr double kMostExact = 9'007'199'254'740'992;  // 2^53

int64_t SizeNamed(std::string_view name, const std::vector<CallSize>& sizes) {
  for (const CallSize& size : sizes) {
    if (size.name != name || !size.numbers.has_value() || size.numbers->size() != 1) continue;
    const double number = size.numbers->front();
    if (std::abs(number) <= kMostExact) return static_cast<int64_t>(number);
  }
  return kNullCell;
}

class VerbTableFacts final : public TableFacts {
 public:
  SizeCells SizesOf(const Config& config) override {
    const CallShapes shapes = rules_.Find(config);
    return {.m = SizeNamed("M", shapes.sizes),
            .n = SizeNamed("N", shapes.sizes),
            .k = SizeNamed("K", shapes.sizes),
            .cost = shapes.cost};
  }

  void Begin(const Trace& trace) override {
    trace_ = &trace;
    several_models_ = SeveralModels::In(trace);
    names_ = {std::string(), "optimizer"};
    owners_.reset();
    bool modules = false;
    for (ConfigId id = 0; id < trace.config_count() && !modules; ++id) {
      modules = !ModuleLabelOf(trace.identity(id)).empty();
    }
    if (!modules) return;
    owners_.emplace(trace, ModuleOwners::Places{.module = [this](ConfigId id) { return PlaceOf(id); },
                                                .optimizer = [] { return kOptimizer; },
                                                .nowhere = [] { return kNowhere; }});
  }

  std::string_view ModuleOf(const CallRecord& entry) override {
    return owners_.has_value() && entry.config != kLostId ? std::string_view(names_[owners_->Of(entry).place])
                                                          : std::string_view();
  }

 private:
  static constexpr PlaceId kNowhere = 0, kOptimizer = 1;

  PlaceId PlaceOf(ConfigId id) {
    const ModuleLabel label = ModuleLabelOf(trace_->identity(id));
    if (label.empty()) return kNoPlace;
    names_.push_back(several_models_ ? label.WholePath() : label.path);
    return static_cast<PlaceId>(names_.size() - 1);
  }

  ShapeRules rules_ = ShapeRules::BuiltIn();
  // Of the trace being read.
  const Trace* trace_ = nullptr;
  bool several_models_ = false;
  std::deque<std::string> names_;  // by place
  std::optional<ModuleOwners> owners_;
};

}  // namespace

std::unique_ptr<TableFacts> MakeTableFacts() { return std::make_unique<VerbTableFacts>(); }

}  // namespace torchtrace
