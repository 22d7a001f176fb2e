#include "dialects/torch/device_numbers/cuda_libraries.h"

#include <dlfcn.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <system_error>

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace torchtrace::torch_dialect {
namespace {

namespace fs = std::filesystem;

// Where wheels have it, seen from torch/lib: their own, the packages of CUDA 13, 12 and 11.
constexpr const char* kFolders[] = {".", "../../nvidia/cu13/lib", "../../nvidia/cuda_nvrtc/lib"};
constexpr const char* kNames[] = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so.11.2"};
constexpr size_t kMostLogBytes = 300;

std::string LastError() {
  const char* const error = dlerror();
  return error == nullptr ? "cannot be loaded" : error;
}

// The paths of the folder's files whose names begin so, but for the alternative builds.
std::vector<std::string> Libraries(const fs::path& folder, const std::string& prefix) {
  std::vector<std::string> paths;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (absl::StartsWith(name, prefix) && absl::StrContains(name, ".so") && !absl::StrContains(name, ".alt.")) {
      paths.push_back(entry->path().string());
    }
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

template <typename Function>
void Find(void* library, const char* name, Function** function, std::string* missing) {
  *function = reinterpret_cast<Function*>(dlsym(library, name));
  if (*function == nullptr) *missing = name;
}

}  // namespace

absl::StatusOr<CudaDriver> CudaDriver::Load(const std::string& name) {
  void* const library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return absl::NotFoundError(LastError());
  CudaDriver driver;
  std::string missing;
#define TORCHTRACE_FIND(function, parameters) Find(library, #function, &driver.function, &missing);
  TORCHTRACE_CU_FUNCTIONS(TORCHTRACE_FIND)
  if (!missing.empty()) return absl::NotFoundError(absl::StrCat(name, " has no ", missing));
  return driver;
}

absl::Status CudaDriver::Check(CuResult result, const char* function) const {
  if (result == kCuSuccess) return absl::OkStatus();
  const char* error = nullptr;
  if (cuGetErrorName(result, &error) != kCuSuccess || error == nullptr) error = "an unknown error";
  return absl::InternalError(absl::StrCat(function, ": ", error, " (", result, ")"));
}

absl::StatusOr<Nvrtc> Nvrtc::Load(const std::vector<std::string>& names) {
  std::string error = "no path is known";
  for (const std::string& name : names) {
    if (absl::StrContains(name, '/')) {
      for (const std::string& builtins : Libraries(fs::path(name).parent_path(), "libnvrtc-builtins")) {
        if (dlopen(builtins.c_str(), RTLD_NOW | RTLD_LOCAL) == nullptr) error = LastError();
      }
    }
    void* const library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
      error = LastError();
      continue;
    }
    Nvrtc nvrtc;
    std::string missing;
#define TORCHTRACE_FIND_TOO(function, parameters) Find(library, #function, &nvrtc.function, &missing);
    TORCHTRACE_NVRTC_FUNCTIONS(TORCHTRACE_FIND_TOO)
    if (!missing.empty()) return absl::NotFoundError(absl::StrCat(name, " has no ", missing));
    return nvrtc;
  }
  return absl::NotFoundError(absl::StrCat("no NVRTC is found: ", error));
}

absl::StatusOr<std::string> Nvrtc::Compile(const char* source, const char* name, int capability) const {
  int count = 0;
  if (nvrtcGetNumSupportedArchs(&count) != 0 || count <= 0) return absl::InternalError("NVRTC knows no device");
  std::vector<int> known(static_cast<size_t>(count));
  if (nvrtcGetSupportedArchs(known.data()) != 0) return absl::InternalError("NVRTC knows no device");
  std::sort(known.begin(), known.end());
  const auto newer = std::upper_bound(known.begin(), known.end(), capability);
  if (newer == known.begin()) {
    return absl::UnimplementedError(absl::StrCat("NVRTC knows no device as old as ", capability / 10, ".",
                                                 capability % 10, ": its oldest is ", known[0] / 10, ".",
                                                 known[0] % 10));
  }
  // A cubin serves all later devices of its generation. The driver compiles PTX, but may not know that of this NVRTC.
  const int target = *(newer - 1);
  const bool exact = target / 10 == capability / 10;
  const std::string architecture = absl::StrCat("--gpu-architecture=", exact ? "sm_" : "compute_", target);
  // Products are rounded before they are added, as on the CPU.
  const char* const options[] = {architecture.c_str(), "--std=c++17", "--fmad=false"};
  NvrtcProgram program = nullptr;
  if (nvrtcCreateProgram(&program, source, name, 0, nullptr, nullptr) != 0) {
    return absl::InternalError("NVRTC makes no program");
  }
  const int result = nvrtcCompileProgram(program, 3, options);
  std::string text;
  size_t bytes = 0;
  absl::Status status;
  if (result != 0) {
    if (nvrtcGetProgramLogSize(program, &bytes) == 0) {
      text.resize(bytes);
      if (nvrtcGetProgramLog(program, text.data()) != 0) text.clear();
    }
    text.resize(std::min({text.size(), text.find('\0'), text.find('\n'), kMostLogBytes}));
    status = absl::InternalError(absl::StrCat("NVRTC cannot compile the kernel (", result, "): ", text));
  } else if ((exact ? nvrtcGetCUBINSize : nvrtcGetPTXSize)(program, &bytes) != 0 || bytes == 0) {
    status = absl::InternalError("NVRTC has compiled nothing");
  } else {
    text.resize(bytes);
    if ((exact ? nvrtcGetCUBIN : nvrtcGetPTX)(program, text.data()) != 0) {
      status = absl::InternalError("NVRTC has compiled nothing");
    }
  }
  static_cast<void>(nvrtcDestroyProgram(&program));
  if (!status.ok()) return status;
  return text;
}

std::vector<std::string> NvrtcNames(const void* torch) {
  std::vector<std::string> names;
  for (const char* const name : kNames) {
    // Loaded already: it is the right one.
    if (void* const library = dlopen(name, RTLD_NOW | RTLD_NOLOAD)) {
      dlclose(library);
      names.insert(names.begin(), name);
    }
  }
  Dl_info info;
  if (torch != nullptr && dladdr(torch, &info) != 0 && info.dli_fname != nullptr) {
    for (const char* const folder : kFolders) {
      const std::vector<std::string> found = Libraries(fs::path(info.dli_fname).parent_path() / folder, "libnvrtc.so");
      names.insert(names.end(), found.rbegin(), found.rend());
      const std::vector<std::string> renamed = Libraries(fs::path(info.dli_fname).parent_path() / folder, "libnvrtc-");
      std::copy_if(renamed.rbegin(), renamed.rend(), std::back_inserter(names),
                   [](const std::string& name) { return !absl::StrContains(name, "builtins"); });
    }
  }
  names.insert(names.end(), std::begin(kNames), std::end(kNames));
  return names;
}

}  // namespace torchtrace::torch_dialect
