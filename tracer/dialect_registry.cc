#include <utility>

#include "tracer/framework_dialect.h"

namespace torchtrace {
namespace {

// Never destroyed: hooks may outlive static destruction.
std::vector<std::unique_ptr<FrameworkDialect>>& Dialects() {
  static auto* const dialects = new std::vector<std::unique_ptr<FrameworkDialect>>;
  return *dialects;
}

}  // namespace

void RegisterDialect(std::unique_ptr<FrameworkDialect> dialect) { Dialects().push_back(std::move(dialect)); }

FrameworkDialect* FindDialect(const std::string& name) {
  for (const std::unique_ptr<FrameworkDialect>& dialect : Dialects()) {
    if (dialect->name() == name) return dialect.get();
  }
  return nullptr;
}

std::vector<std::string> RegisteredDialects() {
  std::vector<std::string> names;
  for (const std::unique_ptr<FrameworkDialect>& dialect : Dialects()) names.push_back(dialect->name());
  return names;
}

}  // namespace torchtrace
