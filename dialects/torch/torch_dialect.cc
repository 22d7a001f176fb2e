#include "dialects/torch/torch_dialect.h"

#include <dlfcn.h>

#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "dialects/python/setattr/recorded_calls.h"
#include "dialects/torch/torch_module.h"
#include "local_torch/environment.h"
#include "serialize/model/levels.h"
#include "tracer/framework_dialect.h"

namespace torchtrace {
namespace {

constexpr char kLibrary[] = "torchtrace_torch.so";

class TorchDialect : public FrameworkDialect {
 public:
  std::string name() const override { return "torch"; }
  std::string package() const override { return "torch"; }
  std::vector<int> levels() const override { return {kSetattrLevel, kFunctionLevel, kDispatchLevel}; }
  std::string required_version() const override { return local_torch::kTorchVersion; }

  // Level 0 of other libraries.
  std::vector<std::unique_ptr<TracingHook>> CreateEarlyHooks(const RecordingOptions& options) override {
    return python_dialect::MakeOtherLibrariesHooks(package(), options);
  }

  absl::StatusOr<std::vector<std::unique_ptr<TracingHook>>> CreateHooks(Recorder* recorder,
                                                                        const RecordingOptions& options) override {
    if (absl::Status status = Load(); !status.ok()) return status;
    std::vector<std::unique_ptr<TracingHook>> hooks;
    if (absl::Status status = module_->CreateHooks(recorder, options, &hooks); !status.ok()) return status;
    return hooks;
  }

 private:
  // The library takes torch's libraries from the process: torch is imported.
  absl::Status Load() {
    Dl_info self;
    if (dladdr(reinterpret_cast<void*>(&RegisterTorchDialect), &self) == 0) {
      return absl::InternalError("cannot find the runtime library's own path");
    }
    const std::string own(self.dli_fname);
    const std::string path = absl::StrCat(own.substr(0, own.rfind('/') + 1), kLibrary);
    void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    void* const symbol = library == nullptr ? nullptr : dlsym(library, kTorchModuleSymbol);
    if (symbol == nullptr) return absl::InternalError(absl::StrCat("cannot load ", path, ": ", std::string(dlerror())));
    module_ = reinterpret_cast<TorchModuleFunction>(symbol)();
    return absl::OkStatus();
  }

  TorchModule* module_ = nullptr;
};

}  // namespace

void RegisterTorchDialect() { RegisterDialect(std::make_unique<TorchDialect>()); }

}  // namespace torchtrace
