#include "dialects/torch/setattr/setattr_level.h"

#include <Python.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "dialects/python/setattr/native_entries.h"
#include "dialects/python/setattr/recorded_calls.h"
#include "dialects/torch/common/api_names.h"
#include "dialects/torch/describe/describe.h"

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

namespace {

class TorchCalls final : public python_dialect::RecordedCalls<DescribePython> {
 public:
  // Under the name that the other levels know.
  absl::StatusOr<const python_dialect::TracedApi*> Api(PyObject* object, const std::string& name) override {
    const torch_dialect::Api* const known = ApiNames::Loaded()->FindPublic(object);
    return python_dialect::MakeTracedApi(0, known == nullptr ? name : known->name, object);
  }
};

}  // namespace

std::unique_ptr<TracingHook> MakeSetattrHook(const RecordingOptions& options) {
  python_dialect::EntryOptions setattr;
  // The other libraries' were entered when the program started.
  for (const std::string& name : options.apis) {
    if (IsOf("torch", name)) setattr.names.push_back(name);
  }
  if (options.default_apis) {
    for (std::string& name : DefaultApis()) setattr.names.push_back(std::move(name));
  }
  setattr.outermost = options.outermost;
  setattr.include_getters = options.include_getters;
  setattr.constructors = true;
  // Never destroyed: calls may be under way when the hook is uninstalled.
  static auto* const calls = new TorchCalls;
  return std::make_unique<python_dialect::SetattrHook>(calls, std::move(setattr));
}

}  // namespace torchtrace::torch_dialect
