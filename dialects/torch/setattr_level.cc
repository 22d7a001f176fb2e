#include "dialects/torch/setattr_level.h"

#include <Python.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "dialects/python/describe_call.h"
#include "dialects/python/setattr_hook.h"
#include "dialects/torch/api_names.h"
#include "dialects/torch/default_apis.h"
#include "dialects/torch/describe_python.h"
#include "dialects/torch/python_call.h"
#include "dialects/torch/thread_state.h"

namespace torchtrace::torch_dialect {
namespace {

using python_dialect::CallArguments;
using python_dialect::TracedApi;

class TorchCalls final : public python_dialect::SetattrDialect {
 public:
  bool Begin(const TracedApi& api, const CallArguments& arguments) override {
    ThreadState& state = t_state;
    if (!state.Recording()) return false;
    ConfigBuilder* const config = state.config;
    const std::string_view bytes = python_dialect::DescribeCall(
        api, arguments, config, [config](PyObject* value) { DescribePython(value, config); });
    return state.recorder->Enter(bytes, config->identity_bytes());
  }

  void End(PyObject* result) override { EndCall(result); }

  void CountGetter() override {
    if (t_state.Recording()) t_state.recorder->CountGetter();
  }

  absl::StatusOr<std::string> PublicName(PyObject* callable) override {
    if (names_ == nullptr) {
      auto names = std::make_unique<ApiNames>();
      if (absl::Status status = names->Load(); !status.ok()) return status;
      names_ = std::move(names);
    }
    const Api* const api = names_->FindPublic(callable);
    return api == nullptr ? std::string() : api->name;
  }

  void NoteNotSeen(const std::string& text) override { Recorder::Get()->NoteNotSeen(text); }

 private:
  std::unique_ptr<ApiNames> names_;
};

// Where level 1 makes PyTorch hand calls over to modes, these are called because of us.
bool IsOverrideProtocol(const std::string& name) {
  const std::string_view last = std::string_view(name).substr(name.rfind('.') + 1);
  return last == "handle_torch_function" || last.substr(0, 18) == "has_torch_function";
}

}  // namespace

std::unique_ptr<TracingHook> MakeSetattrHook(const HookOptions& options) {
  python_dialect::SetattrOptions setattr;
  // The other libraries' were entered when the program started.
  for (const std::string& name : options.apis) {
    if (IsOf("torch", name)) setattr.names.push_back(name);
  }
  if (options.default_apis) {
    for (std::string& name : DefaultApis()) setattr.names.push_back(std::move(name));
  }
  if (std::find(options.levels.begin(), options.levels.end(), 1) != options.levels.end()) {
    std::erase_if(setattr.names, IsOverrideProtocol);
  }
  setattr.outermost = options.outermost;
  setattr.include_getters = options.include_getters;
  // Never destroyed: calls may be under way when the hook is uninstalled.
  static auto* const calls = new TorchCalls;
  return std::make_unique<python_dialect::SetattrHook>(calls, std::move(setattr));
}

}  // namespace torchtrace::torch_dialect
