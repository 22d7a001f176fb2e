#include "dialects/torch/function/function_protocol.h"

namespace torchtrace::torch_dialect {
namespace {

// An array of pieces: no string literal may be so long.
constexpr std::string_view kTable[] = {
#include "dialects/torch/function/function_protocol.inc"
};

}  // namespace

std::vector<HandedOn> FunctionProtocol() {
  std::vector<HandedOn> rows;
  for (const std::string_view line : kTable) {
    const size_t told = line.find('\t') + 1;
    const size_t form = line.find('\t', told);
    rows.push_back({line.substr(0, told - 1), line.substr(told, form - told),
                    form == std::string_view::npos ? std::string_view() : line.substr(form + 1)});
  }
  return rows;
}

}  // namespace torchtrace::torch_dialect
