// CUPTI, the library by which CUDA reports what its devices do, as far as device times need it: torch has loaded it, so
// nothing of CUDA is needed to build. What is declared here is the same in all versions from CUDA 11.8 to 13: later
// versions of a record have more members at its end.

#ifndef TORCHTRACE_DIALECTS_TORCH_DEVICE_TIMES_CUPTI_H_
#define TORCHTRACE_DIALECTS_TORCH_DEVICE_TIMES_CUPTI_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "absl/status/statusor.h"
#include "serialize/model/device_work.h"

namespace torchtrace::torch_dialect {

using CuptiResult = int;
inline constexpr CuptiResult kCuptiSuccess = 0;

// Kinds of activities.
enum CuptiKind : int {
  kCuptiMemcpy = 1,
  kCuptiMemset = 2,
  kCuptiDriver = 4,
  kCuptiRuntime = 5,
  kCuptiConcurrentKernel = 10,
  kCuptiMemcpyPeer = 22,
  kCuptiExternalCorrelation = 39,
};
// PyTorch's profiler has CUSTOM0 and CUSTOM1.
inline constexpr int kCuptiCustom2 = 5;
// Of cuptiActivityFlushAll: also buffers with records that aren't complete.
inline constexpr uint32_t kCuptiForced = 1;
// That of CUDA 11.8.
inline constexpr uint32_t kOldestCupti = 18;

using CuptiRequested = void (*)(uint8_t** buffer, size_t* bytes, size_t* most_records);
using CuptiCompleted = void (*)(void* context, uint32_t stream, uint8_t* buffer, size_t bytes, size_t valid_bytes);
using CuptiTimestamp = uint64_t (*)();

#define TORCHTRACE_CUPTI_FUNCTIONS(F)                                                     \
  F(cuptiGetVersion, (uint32_t* version))                                                 \
  F(cuptiActivityRegisterCallbacks, (CuptiRequested requested, CuptiCompleted completed)) \
  F(cuptiActivityRegisterTimestampCallback, (CuptiTimestamp timestamp))                   \
  F(cuptiActivityEnable, (int kind))                                                      \
  F(cuptiActivityDisable, (int kind))                                                     \
  F(cuptiActivityFlushAll, (uint32_t flag))                                               \
  F(cuptiActivityGetNextRecord, (uint8_t* buffer, size_t valid_bytes, void** record))     \
  F(cuptiActivityGetNumDroppedRecords, (void* context, uint32_t stream, size_t* dropped)) \
  F(cuptiActivityPushExternalCorrelationId, (int kind, uint64_t id))                      \
  F(cuptiActivityPopExternalCorrelationId, (int kind, uint64_t* last))

struct Cupti {
#define TORCHTRACE_DECLARE(function, parameters) CuptiResult(*function) parameters = nullptr;
  TORCHTRACE_CUPTI_FUNCTIONS(TORCHTRACE_DECLARE)
#undef TORCHTRACE_DECLARE
  // Null before CUDA 12.6: there all functions of the kind have records.
  CuptiResult (*cuptiActivityEnableRuntimeApi)(uint32_t function, uint8_t enable) = nullptr;
  CuptiResult (*cuptiActivityEnableDriverApi)(uint32_t function, uint8_t enable) = nullptr;

  // The process's own. NotFound: it has loaded none.
  static absl::StatusOr<Cupti> Find();
};

// The functions of CUDA's runtime and driver that launch kernels and graphs, copy or fill memory, by CUPTI's numbers.
std::span<const uint16_t> LaunchingRuntimeFunctions();
std::span<const uint16_t> LaunchingDriverFunctions();

// What a record says, as far as it is known here.
struct CuptiRecord {
  enum Kind : uint8_t { kOther, kWork, kExternalId, kLaunch } kind = kOther;
  uint32_t correlation = 0;  // of the driver's call that launched it
  // kWork: without its name's number, by CUPTI's clock.
  DeviceWork work = {};
  bool ended = false;          // false: it was still running
  const char* name = nullptr;  // or null; lives as long as the process
  // kExternalId.
  int external_kind = 0;
  uint64_t external_id = 0;
  // kLaunch: the driver's call, by CUPTI's clock.
  int64_t launch_start_ns = 0;
  int64_t launch_ns = 0;
};
CuptiRecord ReadCuptiRecord(const void* record);

}  // namespace torchtrace::torch_dialect

#endif  // TORCHTRACE_DIALECTS_TORCH_DEVICE_TIMES_CUPTI_H_
