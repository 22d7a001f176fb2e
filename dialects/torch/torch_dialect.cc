#include "dialects/torch/torch_dialect.h"

#include <Python.h>
#include <dlfcn.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "dialects/python/frame/c_calls.h"
#include "dialects/python/frame/python_calls.h"
#include "dialects/python/setattr/recorded_calls.h"
#include "dialects/torch/steps/step_hook.h"
#include "dialects/torch/torch_module.h"
#include "dialects/torch/versions/versions.h"
#include "serialize/base/version_spans.h"
#include "serialize/model/levels.h"
#include "tracer/framework_dialect.h"
#include "tracer/python/python_patch.h"

namespace torchtrace {
namespace {

using torch_dialect::FindTorchEra;
using torch_dialect::TorchEra;

// The modules are next to the runtime library, which this is a part of.
absl::StatusOr<std::string> FindModule(const TorchEra& era) {
  Dl_info self;
  if (dladdr(reinterpret_cast<void*>(&RegisterTorchDialect), &self) == 0) {
    return absl::InternalError("cannot find the runtime library's own path");
  }
  const std::string own(self.dli_fname);
  std::string path = absl::StrCat(own.substr(0, own.rfind('/') + 1), torch_dialect::TorchModuleName(era));
  if (access(path.c_str(), R_OK) == 0) return path;
  return absl::NotFoundError(absl::StrCat("this installation has no module for torch ",
                                          torch_dialect::DescribeTorchEra(era), " (", path,
                                          "); `tools/torchtrace run --python PYTHON ...` builds it, with a PYTHON "
                                          "that has that torch"));
}

// The version of the imported torch, which may differ from the one in the environment's metadata.
std::string ImportedVersion() {
  PyObject* const module = ImportedModule("torch.version");
  PyObject* const version = module == nullptr ? nullptr : PyObject_GetAttrString(module, "__version__");
  // torch.version.__version__ is a str, torch.__version__ a subclass of it.
  const char* const text = version == nullptr || !PyUnicode_Check(version) ? nullptr : PyUnicode_AsUTF8(version);
  std::string found = text == nullptr ? "" : text;
  PyErr_Clear();
  Py_XDECREF(version);
  return found;
}

std::unique_ptr<TracingHook> MakePythonCallsHook(const RecordingOptions& options) {
  // What nn.Module.__call__ consists of; level 3 records the module's call.
  std::vector<std::string> plumbing, closed;
  for (const char* const name : {"_wrapped_call_impl", "_call_impl"}) {
    plumbing.push_back(absl::StrCat("torch.nn.modules.module.Module.", name));
    plumbing.push_back(absl::StrCat("torch.nn.modules.module.", name));  // in 3.10
  }
  // These open and close a scope, which level 4 records: their own work is neither in the scope nor around it.
  for (const char* const name : {"__enter__", "__exit__"}) {
    closed.push_back(absl::StrCat("torch.autograd.profiler.record_function.", name));
    closed.push_back(absl::StrCat("torch.autograd.profiler.", name));
  }
  return std::make_unique<python_dialect::PythonCallsHook>(options, std::move(plumbing), std::move(closed));
}

std::unique_ptr<TracingHook> MakeCCallsHook(const RecordingOptions& options) {
  // The torch module watches where threads start, for as long as the process lives (common/thread_starts.h).
  return std::make_unique<python_dialect::CCallsHook>(
      options,
      std::vector<std::string>{"_thread.start_new_thread", "_thread.start_new", "_thread.start_joinable_thread"});
}

class TorchDialect : public FrameworkDialect {
 public:
  std::string name() const override { return "torch"; }
  std::string package() const override { return "torch"; }
  std::vector<int> levels() const override {
    return {kSetattrLevel, kFunctionLevel, kDispatchLevel, kFrameLevel, kRecordLevel};
  }

  absl::Status CheckVersion(const std::string& version, const RecordingOptions& options) const override {
    const absl::StatusOr<TorchEra> era = FindTorchEra(version, options.untested_torch);
    return era.ok() ? FindModule(*era).status() : era.status();
  }

  // Level 0 of other libraries, and the part of level 3 that isn't torch's.
  std::vector<std::unique_ptr<TracingHook>> CreateEarlyHooks(const RecordingOptions& options) override {
    std::vector<std::unique_ptr<TracingHook>> hooks;
    if (options.traces_c_frames()) hooks.push_back(MakeCCallsHook(options));
    for (auto& hook : python_dialect::MakeOtherLibrariesHooks(package(), options)) hooks.push_back(std::move(hook));
    if (options.traces_python_frames()) hooks.push_back(MakePythonCallsHook(options));
    return hooks;
  }

  absl::StatusOr<std::vector<std::unique_ptr<TracingHook>>> CreateHooks(Recorder* recorder,
                                                                        const RecordingOptions& options) override {
    const std::string version = ImportedVersion();
    if (absl::Status status = Load(version, options); !status.ok()) return status;
    // Finds the C functions that torch's import made, before other levels' hooks are in them.
    python_dialect::CCallsHook::FindMore();
    static TorchModule* const module = module_;
    python_dialect::CCallsHook::SetNames(package(), [](PyObject* callable) { return module->NameOf(callable); });
    std::vector<std::unique_ptr<TracingHook>> hooks;
    const auto note = [](PyObject* object) { module->NoteParameters(object); };
    hooks.push_back(torch_dialect::MakeStepHook(options, options.memory ? +note : nullptr));
    absl::Status status = module_->CreateHooks(recorder, options, *ParseMinorVersion(version), &hooks);
    if (!status.ok()) return status;
    return hooks;
  }

 private:
  // torch is imported, so the module finds torch's libraries in the process. RTLD_NOW: what torch lacks fails here, and
  // not at the first call.
  absl::Status Load(const std::string& version, const RecordingOptions& options) {
    if (module_ != nullptr) return absl::OkStatus();
    const absl::StatusOr<TorchEra> era = FindTorchEra(version, options.untested_torch);
    if (!era.ok()) return era.status();
    const absl::StatusOr<std::string> path = FindModule(*era);
    if (!path.ok()) return path.status();
    void* const library = dlopen(path->c_str(), RTLD_NOW | RTLD_LOCAL);
    void* const symbol = library == nullptr ? nullptr : dlsym(library, kTorchModuleSymbol);
    if (symbol == nullptr) {
      return absl::InternalError(
          absl::StrCat("torch ", version, " lacks what ", *path, " needs: ", std::string(dlerror())));
    }
    module_ = reinterpret_cast<TorchModuleFunction>(symbol)();
    return absl::OkStatus();
  }

  TorchModule* module_ = nullptr;
};

}  // namespace

void RegisterTorchDialect() { RegisterDialect(std::make_unique<TorchDialect>()); }

}  // namespace torchtrace
