// The functions of CUDA's driver and of NVRTC, found in the process: nothing is linked against them.

#ifndef TORCHTRACE_DIALECTS_TORCH_DEVICE_NUMBERS_CUDA_LIBRARIES_H_
#define TORCHTRACE_DIALECTS_TORCH_DEVICE_NUMBERS_CUDA_LIBRARIES_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace torchtrace::torch_dialect {

// As cuda.h and nvrtc.h have them.
using CuResult = int;
using CuDevice = int;
using CuAddress = unsigned long long;
using CuHandle = void*;  // of a context, module, function, stream or event
using NvrtcProgram = void*;

inline constexpr CuResult kCuSuccess = 0;
inline constexpr CuResult kCuNotReady = 600;
inline constexpr CuResult kCuCaptureImplicit = 906;
inline constexpr int kCuCaptureNone = 0;
inline constexpr int kCuCaptureRelaxed = 2;
inline constexpr unsigned kCuEventWithoutTiming = 2;
inline constexpr unsigned kCuStreamNonBlocking = 1;
inline constexpr unsigned kCuHostPortable = 1;
inline constexpr int kCuCapabilityMajor = 75;
inline constexpr int kCuCapabilityMinor = 76;

#define TORCHTRACE_CU_FUNCTIONS(F)                                                                              \
  F(cuDeviceGet, (CuDevice*, int))                                                                              \
  F(cuDeviceGetAttribute, (int*, int, CuDevice))                                                                \
  F(cuDevicePrimaryCtxGetState, (CuDevice, unsigned*, int*))                                                    \
  F(cuDevicePrimaryCtxRetain, (CuHandle*, CuDevice))                                                            \
  F(cuDevicePrimaryCtxRelease_v2, (CuDevice))                                                                   \
  F(cuCtxPushCurrent_v2, (CuHandle))                                                                            \
  F(cuCtxPopCurrent_v2, (CuHandle*))                                                                            \
  F(cuThreadExchangeStreamCaptureMode, (int*))                                                                  \
  F(cuModuleLoadData, (CuHandle*, const void*))                                                                 \
  F(cuModuleGetFunction, (CuHandle*, CuHandle, const char*))                                                    \
  F(cuMemAlloc_v2, (CuAddress*, size_t))                                                                        \
  F(cuMemFree_v2, (CuAddress))                                                                                  \
  F(cuMemsetD8Async, (CuAddress, unsigned char, size_t, CuHandle))                                              \
  F(cuMemHostAlloc, (void**, size_t, unsigned))                                                                 \
  F(cuMemFreeHost, (void*))                                                                                     \
  F(cuMemcpyDtoHAsync_v2, (void*, CuAddress, size_t, CuHandle))                                                 \
  F(cuStreamCreate, (CuHandle*, unsigned))                                                                      \
  F(cuStreamDestroy_v2, (CuHandle))                                                                             \
  F(cuStreamIsCapturing, (CuHandle, int*))                                                                      \
  F(cuEventCreate, (CuHandle*, unsigned))                                                                       \
  F(cuEventRecord, (CuHandle, CuHandle))                                                                        \
  F(cuEventQuery, (CuHandle))                                                                                   \
  F(cuEventSynchronize, (CuHandle))                                                                             \
  F(cuLaunchKernel,                                                                                             \
    (CuHandle, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, CuHandle, void**, void**)) \
  F(cuGetErrorName, (CuResult, const char**))

#define TORCHTRACE_NVRTC_FUNCTIONS(F)                                                                           \
  F(nvrtcGetNumSupportedArchs, (int*))                                                                          \
  F(nvrtcGetSupportedArchs, (int*))                                                                             \
  F(nvrtcCreateProgram, (NvrtcProgram*, const char*, const char*, int, const char* const*, const char* const*)) \
  F(nvrtcDestroyProgram, (NvrtcProgram*))                                                                       \
  F(nvrtcCompileProgram, (NvrtcProgram, int, const char* const*))                                               \
  F(nvrtcGetProgramLogSize, (NvrtcProgram, size_t*))                                                            \
  F(nvrtcGetProgramLog, (NvrtcProgram, char*))                                                                  \
  F(nvrtcGetCUBINSize, (NvrtcProgram, size_t*))                                                                 \
  F(nvrtcGetCUBIN, (NvrtcProgram, char*))                                                                       \
  F(nvrtcGetPTXSize, (NvrtcProgram, size_t*))                                                                   \
  F(nvrtcGetPTX, (NvrtcProgram, char*))

#define TORCHTRACE_MEMBER(name, parameters) int(*name) parameters = nullptr;

struct CudaDriver {
  TORCHTRACE_CU_FUNCTIONS(TORCHTRACE_MEMBER)

  // `name` of a library that is loaded already, or can be.
  static absl::StatusOr<CudaDriver> Load(const std::string& name);
  // An error that names the function; OK for kCuSuccess.
  absl::Status Check(CuResult result, const char* function) const;
};

struct Nvrtc {
  TORCHTRACE_NVRTC_FUNCTIONS(TORCHTRACE_MEMBER)

  // The first of `names` that can be loaded. Its `builtins` are loaded from beside it first: some of NVIDIA's packages
  // don't find them themselves.
  static absl::StatusOr<Nvrtc> Load(const std::vector<std::string>& names);
  // `source` compiled for a device of that capability (90: 9.0): as a cubin, or as PTX for a device of a generation
  // that is newer than the library. No macro is defined, no file is included.
  absl::StatusOr<std::string> Compile(const char* source, const char* name, int capability) const;
};

#undef TORCHTRACE_MEMBER

// Where the libraries may be: by their names, and where wheels of PyTorch have them beside the library that `torch`, an
// address in PyTorch, is in.
std::vector<std::string> NvrtcNames(const void* torch);

}  // namespace torchtrace::torch_dialect

#endif  // TORCHTRACE_DIALECTS_TORCH_DEVICE_NUMBERS_CUDA_LIBRARIES_H_
