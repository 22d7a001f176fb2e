#include "dialects/torch/setattr/setattr_level.h"

#include <Python.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "dialects/python/setattr/native_entries.h"
#include "dialects/python/setattr/recorded_calls.h"
#include "dialects/torch/common/api_names.h"
#include "dialects/torch/describe/describe.h"
#include "serialize/base/version_spans.h"
#include "serialize/model/levels.h"

namespace torchtrace::torch_dialect {
namespace {

// One name a line, after the versions of torch that have it unless all have: the names of api_list/torch_api_list.yaml,
// and torch.Tensor's properties, whose reads are only counted unless the user asks for them.
constexpr char kDefaultApis[] =
#include "dialects/torch/setattr/default_apis.inc"
    ;

// The names for this torch, one a line.
std::string DefaultNames(const TorchVersion& torch) {
  std::string names;
  for (const absl::string_view line : absl::StrSplit(kDefaultApis, '\n', absl::SkipEmpty())) {
    const size_t blank = line.find(' ');
    const bool in_all = blank == absl::string_view::npos;
    if (!in_all && !IsAmong({line.data(), blank}, torch)) continue;
    absl::StrAppend(&names, in_all ? line : line.substr(blank + 1), "\n");
  }
  return names;
}

class TorchCalls final : public python_dialect::RecordedCalls<DescribePython, AddPythonToKey> {
 public:
  // Uses the name that the other levels use.
  absl::StatusOr<const python_dialect::TracedApi*> Api(PyObject* object, const std::string& name) override {
    const torch_dialect::Api* const known = ApiNames::Loaded()->FindPublic(object);
    return python_dialect::MakeTracedApi(kSetattrLevel, known == nullptr ? name : known->name, object);
  }
};

}  // namespace

std::unique_ptr<TracingHook> MakeSetattrHook(const TorchVersion& torch, const RecordingOptions& options) {
  // Never destroyed: calls may be under way when the hook is uninstalled.
  static auto* const calls = new TorchCalls;
  return std::make_unique<python_dialect::SetattrHook>(
      calls, python_dialect::FrameworkEntries("torch", DefaultNames(torch), options));
}

}  // namespace torchtrace::torch_dialect
