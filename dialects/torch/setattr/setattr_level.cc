#include "dialects/torch/setattr/setattr_level.h"

#include <Python.h>

#include <string>
#include <string_view>

#include "dialects/python/setattr/native_entries.h"
#include "dialects/python/setattr/recorded_calls.h"
#include "dialects/torch/common/api_names.h"
#include "dialects/torch/describe/describe.h"
#include "serialize/model/levels.h"

namespace torchtrace::torch_dialect {
namespace {

// One name a line: those of api_list/torch_api_list.yaml, and torch.Tensor's properties, whose reads are only
// counted unless the user asks for them.
constexpr std::string_view kDefaultApis =
#include "dialects/torch/setattr/default_apis.inc"
    ;

class TorchCalls final : public python_dialect::RecordedCalls<DescribePython> {
 public:
  // Under the name that the other levels know.
  absl::StatusOr<const python_dialect::TracedApi*> Api(PyObject* object, const std::string& name) override {
    const torch_dialect::Api* const known = ApiNames::Loaded()->FindPublic(object);
    return python_dialect::MakeTracedApi(kSetattrLevel, known == nullptr ? name : known->name, object);
  }
};

}  // namespace

std::unique_ptr<TracingHook> MakeSetattrHook(const RecordingOptions& options) {
  // Never destroyed: calls may be under way when the hook is uninstalled.
  static auto* const calls = new TorchCalls;
  return std::make_unique<python_dialect::SetattrHook>(
      calls, python_dialect::FrameworkEntries("torch", kDefaultApis, options));
}

}  // namespace torchtrace::torch_dialect
