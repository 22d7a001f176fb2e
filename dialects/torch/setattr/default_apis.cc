#include "dialects/torch/setattr/default_apis.h"

#include <string_view>

namespace torchtrace::torch_dialect {
namespace {

// One name a line.
constexpr std::string_view kNames =
#include "dialects/torch/setattr/default_apis.inc"
    ;

}  // namespace

std::vector<std::string> DefaultApis() {
  std::vector<std::string> names;
  for (size_t start = 0; start < kNames.size();) {
    size_t end = kNames.find('\n', start);
    if (end == std::string_view::npos) end = kNames.size();
    if (end > start) names.emplace_back(kNames.substr(start, end - start));
    start = end + 1;
  }
  return names;
}

}  // namespace torchtrace::torch_dialect
