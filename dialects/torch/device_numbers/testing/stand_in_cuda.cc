#include "dialects/torch/device_numbers/testing/stand_in_cuda.h"

#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <string>

#include "dialects/torch/device_numbers/numbers_kernel.h"
#include "dialects/torch/device_numbers/testing/kernel_on_cpu.h"

namespace torchtrace::torch_dialect {
namespace {

constexpr int kSuccess = 0, kNotReady = 600, kInvalid = 1, kImplicit = 906;

struct Event {
  size_t recorded = 0;
  size_t reached = 0;
};

std::recursive_mutex g_stand_in_mutex;
StandInCuda g_state;
std::map<void*, std::deque<std::function<void()>>> g_streams;
thread_local int t_mode = 0;
thread_local size_t t_contexts = 0;
int g_context;

void Release(void* stream, size_t count) {
  const std::lock_guard<std::recursive_mutex> lock(g_stand_in_mutex);
  std::deque<std::function<void()>>& work = g_streams[stream];
  for (; count != 0 && !work.empty(); --count) {
    work.front()();
    work.pop_front();
  }
}

void Note(const char* what, const void* stream) {
  g_state.calls.push_back(std::string(what) + " " + std::to_string(reinterpret_cast<uintptr_t>(stream)));
}

// A call that must not come while others capture, or outside of a context.
void Check() {
  if (t_mode != 2 || t_contexts == 0) ++g_state.unsafe_calls;
}

void Add(void* stream, std::function<void()> work) {
  g_streams[stream].push_back(std::move(work));
  if (!g_state.holds) Release(stream, SIZE_MAX);
}

}  // namespace

#define TORCHTRACE_ENTRY extern "C" __attribute__((visibility("default")))
#define TORCHTRACE_LOCK const std::lock_guard<std::recursive_mutex> lock(g_stand_in_mutex)

TORCHTRACE_ENTRY StandInCuda* stand_in_cuda() {
  g_state.release = Release;
  return &g_state;
}

TORCHTRACE_ENTRY int cuDeviceGet(int* device, int number) {
  *device = number;
  return number < 2 ? kSuccess : 101;
}
TORCHTRACE_ENTRY int cuDeviceGetAttribute(int* value, int attribute, int) {
  *value = attribute == 75 ? g_state.capability / 10 : attribute == 76 ? g_state.capability % 10 : -1;
  return kSuccess;
}
TORCHTRACE_ENTRY int cuDevicePrimaryCtxGetState(int, unsigned* flags, int* active) {
  *flags = 0;
  *active = g_state.active ? 1 : 0;
  return kSuccess;
}
TORCHTRACE_ENTRY int cuDevicePrimaryCtxRetain(void** context, int) {
  *context = &g_context;
  return kSuccess;
}
TORCHTRACE_ENTRY int cuDevicePrimaryCtxRelease_v2(int) { return kSuccess; }
TORCHTRACE_ENTRY int cuCtxPushCurrent_v2(void* context) {
  TORCHTRACE_LOCK;
  if (context != &g_context) return kInvalid;
  ++t_contexts;
  ++g_state.contexts;
  return kSuccess;
}
TORCHTRACE_ENTRY int cuCtxPopCurrent_v2(void** context) {
  TORCHTRACE_LOCK;
  *context = &g_context;
  --t_contexts;
  --g_state.contexts;
  return kSuccess;
}
TORCHTRACE_ENTRY int cuThreadExchangeStreamCaptureMode(int* mode) {
  std::swap(*mode, t_mode);
  return kSuccess;
}
TORCHTRACE_ENTRY int cuModuleLoadData(void** module, const void* image) {
  TORCHTRACE_LOCK;
  Check();
  static int loaded;
  *module = &loaded;
  return std::strcmp(static_cast<const char*>(image), "compiled") == 0 ? kSuccess : 209;
}
TORCHTRACE_ENTRY int cuModuleGetFunction(void** function, void*, const char* name) {
  static int kernel;
  *function = &kernel;
  return std::strcmp(name, kNumbersKernelName) == 0 ? kSuccess : 500;
}
TORCHTRACE_ENTRY int cuMemAlloc_v2(unsigned long long* address, size_t bytes) {
  TORCHTRACE_LOCK;
  Check();
  g_state.device_bytes += bytes;
  void* const memory = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  std::memset(memory, 0x5a, bytes);
  *address = reinterpret_cast<uintptr_t>(memory);
  return kSuccess;
}
TORCHTRACE_ENTRY int cuMemFree_v2(unsigned long long address) {
  std::free(reinterpret_cast<void*>(address));
  return kSuccess;
}
TORCHTRACE_ENTRY int cuMemsetD8Async(unsigned long long address, unsigned char value, size_t bytes, void* stream) {
  TORCHTRACE_LOCK;
  Add(stream, [=] { std::memset(reinterpret_cast<void*>(address), value, bytes); });
  return kSuccess;
}
TORCHTRACE_ENTRY int cuMemHostAlloc(void** memory, size_t bytes, unsigned) {
  TORCHTRACE_LOCK;
  Check();
  g_state.host_bytes += bytes;
  *memory = std::malloc(bytes);
  return kSuccess;
}
TORCHTRACE_ENTRY int cuMemFreeHost(void* memory) {
  std::free(memory);
  return kSuccess;
}
TORCHTRACE_ENTRY int cuMemcpyDtoHAsync_v2(void* to, unsigned long long from, size_t bytes, void* stream) {
  TORCHTRACE_LOCK;
  Note("copy", stream);
  const bool lost = g_state.loses_copies;
  Add(stream, [=] {
    if (!lost) std::memcpy(to, reinterpret_cast<const void*>(from), bytes);
  });
  return kSuccess;
}
TORCHTRACE_ENTRY int cuStreamCreate(void** stream, unsigned) {
  *stream = new int();
  return kSuccess;
}
TORCHTRACE_ENTRY int cuStreamDestroy_v2(void* stream) {
  delete static_cast<int*>(stream);
  return kSuccess;
}
TORCHTRACE_ENTRY int cuStreamIsCapturing(void*, int* status) {
  *status = g_state.capturing ? 1 : 0;
  return g_state.capture_implicit ? kImplicit : kSuccess;
}
TORCHTRACE_ENTRY int cuEventCreate(void** event, unsigned) {
  *event = new Event();
  return kSuccess;
}
TORCHTRACE_ENTRY int cuEventRecord(void* event, void* stream) {
  TORCHTRACE_LOCK;
  Note("record", stream);
  auto* const recorded = static_cast<Event*>(event);
  const size_t number = ++recorded->recorded;
  Add(stream, [=] { recorded->reached = number; });
  return kSuccess;
}
TORCHTRACE_ENTRY int cuEventQuery(void* event) {
  TORCHTRACE_LOCK;
  Check();
  g_state.calls.emplace_back("query");
  if (g_state.event_error != 0) return g_state.event_error;
  const auto* const asked = static_cast<Event*>(event);
  return asked->reached == asked->recorded ? kSuccess : kNotReady;
}
TORCHTRACE_ENTRY int cuEventSynchronize(void*) {
  g_state.calls.emplace_back("synchronize");
  return kInvalid;
}
TORCHTRACE_ENTRY int cuLaunchKernel(void*, unsigned blocks, unsigned, unsigned, unsigned threads, unsigned, unsigned,
                                    unsigned, void* stream, void** parameters, void**) {
  TORCHTRACE_LOCK;
  if (g_state.launch_error != 0) return g_state.launch_error;
  Note("launch", stream);
  KernelArguments arguments;
  std::memcpy(&arguments, parameters[0], sizeof arguments);
  arguments.elements -= g_state.computes_wrong;
  Add(stream, [=] { RunKernelOnCpu(arguments, blocks, threads); });
  return kSuccess;
}
TORCHTRACE_ENTRY int cuGetErrorName(int error, const char** name) {
  *name = error == 700 ? "CUDA_ERROR_ILLEGAL_ADDRESS" : nullptr;
  return error == 700 ? kSuccess : kInvalid;
}

TORCHTRACE_ENTRY int nvrtcGetNumSupportedArchs(int* count) {
  *count = static_cast<int>(g_state.known_capabilities.size());
  return kSuccess;
}
TORCHTRACE_ENTRY int nvrtcGetSupportedArchs(int* all) {
  for (const int each : g_state.known_capabilities) *all++ = each;
  return kSuccess;
}
TORCHTRACE_ENTRY int nvrtcCreateProgram(void** program, const char* source, const char*, int, const char* const*,
                                        const char* const*) {
  static int one;
  *program = &one;
  return std::strstr(source, kNumbersKernelName) == nullptr ? kInvalid : kSuccess;
}
TORCHTRACE_ENTRY int nvrtcDestroyProgram(void**) { return kSuccess; }
TORCHTRACE_ENTRY int nvrtcCompileProgram(void*, int count, const char* const* options) {
  TORCHTRACE_LOCK;
  std::string call = "compile";
  for (int i = 0; i < count; ++i) call += std::string(" ") + options[i];
  g_state.calls.push_back(call);
  return g_state.fails_to_compile ? 6 : kSuccess;
}
constexpr char kLog[] = "numbers_kernel.cu(7): error: too new\nmore";
constexpr char kCompiled[] = "compiled";
TORCHTRACE_ENTRY int nvrtcGetProgramLogSize(void*, size_t* bytes) {
  *bytes = sizeof kLog;
  return kSuccess;
}
TORCHTRACE_ENTRY int nvrtcGetProgramLog(void*, char* log) {
  std::memcpy(log, kLog, sizeof kLog);
  return kSuccess;
}
TORCHTRACE_ENTRY int nvrtcGetCUBINSize(void*, size_t* bytes) {
  *bytes = sizeof kCompiled;
  return kSuccess;
}
TORCHTRACE_ENTRY int nvrtcGetCUBIN(void*, char* to) {
  std::memcpy(to, kCompiled, sizeof kCompiled);
  return kSuccess;
}
TORCHTRACE_ENTRY int nvrtcGetPTXSize(void*, size_t* bytes) { return nvrtcGetCUBINSize(nullptr, bytes); }
TORCHTRACE_ENTRY int nvrtcGetPTX(void*, char* to) { return nvrtcGetCUBIN(nullptr, to); }

}  // namespace torchtrace::torch_dialect
