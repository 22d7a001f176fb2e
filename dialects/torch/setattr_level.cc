#include "dialects/torch/setattr_level.h"

#include <Python.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "dialects/python/call_through.h"
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
    config->Begin(api.head);
    AppendVarint(static_cast<uint64_t>(arguments.count + (arguments.self != nullptr)), config->bytes());
    if (arguments.self != nullptr) DescribePython(arguments.self, config);
    for (Py_ssize_t i = 0; i < arguments.count; ++i) DescribePython(arguments.positional[i], config);
    if (arguments.names != nullptr) {
      const Py_ssize_t count = PyTuple_GET_SIZE(arguments.names);
      AppendVarint(static_cast<uint64_t>(count), config->bytes());
      for (Py_ssize_t i = 0; i < count; ++i) {
        Keyword(PyTuple_GET_ITEM(arguments.names, i), arguments.positional[arguments.count + i], config);
      }
    } else if (arguments.keywords != nullptr) {
      AppendVarint(static_cast<uint64_t>(PyDict_GET_SIZE(arguments.keywords)), config->bytes());
      PyObject *name, *value;
      Py_ssize_t position = 0;
      while (PyDict_Next(arguments.keywords, &position, &name, &value)) Keyword(name, value, config);
    } else {
      AppendVarint(0, config->bytes());
    }
    const std::string_view bytes = config->Finish();
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
  static void Keyword(PyObject* name, PyObject* value, ConfigBuilder* config) {
    AppendString(Utf8(name), config->bytes());
    DescribePython(value, config);
  }

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
  setattr.names = options.apis.empty() ? DefaultApis() : options.apis;
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
