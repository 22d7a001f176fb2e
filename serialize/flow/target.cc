#include "serialize/flow/target.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "serialize/base/matching.h"
#include "serialize/model/levels.h"

namespace torchtrace {
namespace {

// As in replay/rules.yaml.
constexpr std::string_view kNamespaces[] = {"aten",   "prims",  "quantized",  "sparse",
                                            "mkldnn", "onednn", "_quantized", "quantized_decomposed"};
constexpr std::string_view kPlaces[] = {"torch",
                                        "torch.Tensor",
                                        "torch.nn",
                                        "torch.nn.functional",
                                        "torch.nn.init",
                                        "torch.nn.utils",
                                        "torch.nn.utils.rnn",
                                        "torch.linalg",
                                        "torch.fft",
                                        "torch.special",
                                        "torch.sparse",
                                        "torch.nested",
                                        "torch.signal.windows",
                                        "torch.masked",
                                        "torch.functional",
                                        "torch._C._VariableFunctions",
                                        "torch._C._nn",
                                        "torch._C._linalg",
                                        "torch._C._fft",
                                        "torch._C._special",
                                        "torch._C._sparse",
                                        "torch._C._nested",
                                        "torch._VF",
                                        "torch.autograd"};
struct Refusal {
  std::string_view glob;
  const char* why;
};
constexpr Refusal kRefusals[] = {
    {"*from_file*", "it opens a file"},
    {"*load*", "it may open a file"},
    {"*save*", "it may write a file"},
    {"*share_memory*", "it makes memory that other processes see"},
    {"*_shared*", "it makes memory that other processes see"},
    {"*share_filename*", "it makes memory that other processes see"},
    {"torch.compile*", "it compiles code and writes files"},
    {"torch.import_ir_module*", "it opens a file"},
    {"torch._import*", "it imports code"},
    {"torch.fork", "it runs a function that only the program has"},
    {"torch.get_file_path", "it asks for files"},
    {"torch.Tensor.__reduce*", "it hands a tensor over, to a file or another process"},
    {"torch.Tensor.__setstate__", "it takes a tensor over, from a file or another process"},
    {"torch.Tensor.register_*", "it takes a function that only the program has"},
    {"torch.Tensor.__*attr*__", "it is the language's"},
    {"torch.Tensor.__new__", "it is the language's"},
    {"torch.Tensor.__class__", "it is the language's"},
};

constexpr std::string_view kKeywords[] = {"False",  "None",   "True",    "and",      "as",       "assert", "async",
                                          "await",  "break",  "class",   "continue", "def",      "del",    "elif",
                                          "else",   "except", "finally", "for",      "from",     "global", "if",
                                          "import", "in",     "is",      "lambda",   "nonlocal", "not",    "or",
                                          "pass",   "raise",  "return",  "try",      "while",    "with",   "yield"};

template <typename Range>
bool Has(const Range& range, std::string_view text) {
  return std::find(std::begin(range), std::end(range), text) != std::end(range);
}

CallTarget Refused(std::string why) { return {CallTarget::kRefused, std::move(why)}; }

// aten::add.Tensor
CallTarget Overload(std::string_view api) {
  const size_t colons = api.find("::");
  const std::string_view space = api.substr(0, colons);
  std::string_view name = api.substr(colons + 2), overload = "default";
  if (const size_t dot = name.find('.'); dot != std::string_view::npos) {
    overload = name.substr(dot + 1);
    name = name.substr(0, dot);
  }
  if (!Has(kNamespaces, space)) return Refused("operators of its namespace may be anything");
  if (!IsIdentifier(name) || !IsIdentifier(overload)) return Refused("it is no name of an operator");
  return {CallTarget::kOverload,
          absl::StrCat("torch.ops.", std::string(space), ".", std::string(name), ".", std::string(overload))};
}

}  // namespace

bool IsIdentifier(std::string_view text) {
  const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
  return !text.empty() && letter(text[0]) &&
         std::all_of(text.begin(), text.end(), [&](char c) { return letter(c) || (c >= '0' && c <= '9'); }) &&
         !Has(kKeywords, text);
}

CallTarget TargetOf(std::string_view api, int level) {
  if (level == kFrameLevel) return Refused("level 3 records functions of the program, which only the program has");
  for (const Refusal& refusal : kRefusals) {
    if (GlobMatch(refusal.glob, api)) return Refused(refusal.why);
  }
  if (api.find("::") != std::string_view::npos) return Overload(api);
  std::vector<std::string_view> parts;
  for (std::string_view rest = api;;) {
    const size_t dot = rest.find('.');
    parts.push_back(rest.substr(0, dot));
    if (!IsIdentifier(parts.back())) return Refused("it is no dotted name");
    if (dot == std::string_view::npos) break;
    rest.remove_prefix(dot + 1);
  }
  CallTarget::Kind kind = CallTarget::kFunction;
  std::string_view name = parts.back();
  std::string_view place = api.substr(0, api.size() - std::min(api.size(), name.size() + 1));
  if ((name == "__get__" || name == "__set__") && parts.size() > 2) {
    kind = name == "__get__" ? CallTarget::kGetter : CallTarget::kSetter;
    name = parts[parts.size() - 2];
    place.remove_suffix(name.size() + 1);
    if (place != "torch.Tensor") return Refused("it is a property of something else than tensors");
  }
  if (!Has(kPlaces, place)) return Refused("it is no API that is known to be harmless");
  if (place != "torch.Tensor") return {kind, std::string(api)};
  return {kind == CallTarget::kFunction ? CallTarget::kMethod : kind, std::string(name)};
}

}  // namespace torchtrace
