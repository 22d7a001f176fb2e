// A stand-in for libcupti, whose "device" runs what is launched at once: records as CUDA 12 writes them, in buffers
// that it asks its client for.
#include <sched.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
  kKernel = 10,
  kMemcpy = 1,
  kExternal = 39,
  kDriver = 4,
  kRuntime = 5,
  kKinds = 64,
  kCustom2 = 5,
  kDepth = 64,
  kLaunchKernel = 211,
  kDriverLaunchKernel = 307,
  kLaunchNs = 100,
  kStartsAfterNs = 700
};
typedef void (*Requested)(uint8_t**, size_t*, size_t*);
typedef void (*Completed)(void*, uint32_t, uint8_t*, size_t, size_t);

static Requested requested;
static Completed completed;
static uint64_t (*timestamp)(void);
static char enabled[kKinds];
static char launches_recorded, driver_launches_recorded;
static uint8_t* buffer;
static size_t room, used, dropped;
static uint32_t correlation;
static volatile int lock, held;
static __thread uint64_t ids[kDepth];
static __thread int depth;

static void take(void) {
  while (__sync_lock_test_and_set(&lock, 1)) {
  }
}
static void release(void) { __sync_lock_release(&lock); }

int cuptiGetVersion(uint32_t* version) { return *version = 22, 0; }
int cuptiActivityRegisterCallbacks(Requested r, Completed c) { return requested = r, completed = c, 0; }
int cuptiActivityRegisterTimestampCallback(uint64_t (*t)(void)) { return timestamp = t, 0; }
int cuptiActivityEnable(int kind) { return enabled[kind] = 1, 0; }
int cuptiActivityDisable(int kind) {
  if (kind == kRuntime) launches_recorded = 0;
  if (kind == kDriver) driver_launches_recorded = 0;
  return enabled[kind] = 0, 0;
}
int cuptiActivityEnableRuntimeApi(uint32_t function, uint8_t enable) {
  if (function == kLaunchKernel) launches_recorded = enable;
  return 0;
}
int cuptiActivityEnableDriverApi(uint32_t function, uint8_t enable) {
  if (function == kDriverLaunchKernel) driver_launches_recorded = enable;
  return 0;
}
int cuptiActivityPushExternalCorrelationId(int kind, uint64_t id) {
  if (kind != kCustom2 || depth == kDepth) return 1;
  return ids[depth++] = id, 0;
}
int cuptiActivityPopExternalCorrelationId(int kind, uint64_t* last) {
  if (kind != kCustom2 || depth == 0) return 1;
  return *last = ids[--depth], 0;
}
int cuptiActivityGetNumDroppedRecords(void* context, uint32_t stream, size_t* count) {
  return *count = dropped, dropped = 0, 0;
}

static void give(void) {
  uint8_t* const full = buffer;
  const size_t bytes = used;
  buffer = NULL, used = 0;
  if (full != NULL) completed(NULL, 0, full, room, bytes);
}
int cuptiActivityFlushAll(uint32_t flag) {
  take();
  give();
  release();
  return 0;
}

static size_t bytes_of(const uint8_t* record) {
  const int kind = *(const int*)record;
  return kind == kKernel ? 208 : kind == kMemcpy ? 88 : kind == kRuntime || kind == kDriver ? 40 : 24;
}
int cuptiActivityGetNextRecord(uint8_t* from, size_t valid, uint8_t** record) {
  while (held) sched_yield();
  uint8_t* const next = *record == NULL ? from : *record + bytes_of(*record);
  if (next >= from + valid) return 12;
  return *record = next, 0;
}

static void append(const uint8_t* record) {
  const size_t bytes = bytes_of(record);
  if (buffer != NULL && used + bytes > room) give();
  if (buffer == NULL) {
    size_t most;
    requested(&buffer, &room, &most);
  }
  if (buffer == NULL) {
    ++dropped;
    return;
  }
  memcpy(buffer + used, record, bytes);
  used += bytes;
}
static void append_id(uint64_t id, uint32_t of) {
  uint8_t record[24] = {0};
  *(int*)record = kExternal;
  *(int*)(record + 4) = kCustom2;
  *(uint64_t*)(record + 8) = id;
  *(uint32_t*)(record + 16) = of;
  append(record);
}

// What launches it: the innermost call's number, then the function of the runtime, or of the driver.
static void append_launch(uint32_t of, uint64_t at, int driver) {
  append_id(ids[depth - 1], of);
  uint8_t record[40] = {0};
  *(int*)record = driver ? kDriver : kRuntime;
  *(uint32_t*)(record + 4) = driver ? kDriverLaunchKernel : kLaunchKernel;
  *(uint64_t*)(record + 8) = at;
  *(uint64_t*)(record + 16) = at + kLaunchNs;
  *(uint32_t*)(record + 32) = of;
  append(record);
}
static void append_work(int kind, int device, int stream, uint64_t start, uint64_t ns, uint64_t bytes, const char* name,
                        uint32_t of) {
  uint8_t record[208] = {0};
  *(int*)record = kind;
  *(uint64_t*)(record + 16) = start;
  *(uint64_t*)(record + 24) = ns == 0 ? 0 : start + ns;
  if (kind == kKernel) {
    *(int*)(record + 40) = device;
    *(int*)(record + 48) = stream;
    *(uint32_t*)(record + 92) = of;
    *(const char**)(record + 104) = name;
  } else {
    record[4] = 1;  // to the device
    *(uint64_t*)(record + 8) = bytes;
    *(int*)(record + 32) = device;
    *(int*)(record + 40) = stream;
    *(uint32_t*)(record + 44) = of;
  }
  append(record);
}

// For the program that is traced. `ns`: how long it runs; 0: it doesn't end. `nodes`: of the graph that is launched,
// one after the other; 1: it is none. `driver`: launched by the driver's function, as Triton does, and NCCL.
void stand_in_launch(int kind, int device, int stream, uint64_t ns, uint64_t bytes, const char* name, int nodes,
                     int driver) {
  if (!enabled[kind]) return;
  take();
  const uint32_t of = ++correlation;
  const int tells = depth > 0 && enabled[kExternal] &&
                    (driver ? driver_launches_recorded || enabled[kDriver] : launches_recorded || enabled[kRuntime]);
  const uint64_t at = timestamp();
  // In either order, as CUPTI does.
  if (tells && of % 2 == 0) append_launch(of, at, driver);
  for (int i = 0; i < nodes; ++i) {
    append_work(kind, device, stream, at + kStartsAfterNs + i * ns, ns, bytes, name, of);
  }
  if (tells && of % 2 != 0) append_launch(of, at, driver);
  release();
}
void stand_in_drop(int records) { dropped += records; }
// Its client's reader stays in a buffer.
void stand_in_hold(int now) { held = now; }
int stand_in_enabled(void) {
  int count = launches_recorded + driver_launches_recorded;
  for (int i = 0; i < kKinds; ++i) count += enabled[i];
  return count;
}
int stand_in_depth(void) { return depth; }
