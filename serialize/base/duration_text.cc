#include "serialize/base/duration_text.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace torchtrace {

std::string FormatDuration(int64_t ns) {
  if (ns > -1000 && ns < 1000) return absl::StrCat(ns, " ns");
  const struct {
    double ns;
    const char* name;
  } kUnits[] = {{1e3, "us"}, {1e6, "ms"}, {1e9, "s"}};
  const double exact = static_cast<double>(ns);
  for (const auto& unit : kUnits) {
    const double value = exact / unit.ns;
    const double size = std::fabs(value);
    // What would be rounded to four digits belongs to the next unit.
    if (size >= 999.5 && unit.ns < 1e9) continue;
    const int decimals = size < 9.995 ? 2 : size < 99.95 ? 1 : 0;
    return absl::StrFormat("%.*f %s", decimals, value, unit.name);
  }
  return "";
}

}  // namespace torchtrace
