#include "dialects/torch/dispatch/threads_with_key.h"

#include <ATen/Parallel.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <dlfcn.h>
#include <link.h>
#include <pthread.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <mutex>
#include <new>
#include <span>
#include <vector>

#include "dialects/torch/dispatch/imported_functions.h"
#include "dialects/torch/dispatch/torch_dispatch_hook.h"
#include "tracer/record/static_tls.h"

namespace torchtrace::torch_dialect {

using c10::impl::PODLocalDispatchKeySet;

// Whether KnownSets() has this thread's set.
constinit thread_local bool t_set_known TORCHTRACE_STATIC_TLS = false;

constinit thread_local PODLocalDispatchKeySet* t_own_key_set TORCHTRACE_STATIC_TLS = nullptr;

namespace {

using c10::impl::IncludeDispatchKeyGuard;
using c10::impl::LocalDispatchKeySet;

std::atomic<bool> g_on = false;

std::mutex g_threads_mutex;

// The sets of threads that have had the key, until they end. Guarded by g_threads_mutex.
std::vector<PODLocalDispatchKeySet*>& KnownSets() {
  static auto* const sets = new std::vector<PODLocalDispatchKeySet*>();
  return *sets;
}

// The set's own thread may read and change it meanwhile. That change wins, and may put the key back.
void TakeOut(PODLocalDispatchKeySet* set) {
  std::atomic_ref<uint64_t>(set->included_).fetch_and(~kKeyBit, std::memory_order_relaxed);
}

// Keeps this thread's set in KnownSets() until the thread ends.
class KnownSet {
 public:
  KnownSet() {
    const std::lock_guard<std::mutex> lock(g_threads_mutex);
    t_set_known = true;
    try {
      KnownSets().push_back(set_);
    } catch (const std::bad_alloc&) {  // destructors of PyTorch call this; the thread loses the key in its next guard
    }
  }
  ~KnownSet() {
    const std::lock_guard<std::mutex> lock(g_threads_mutex);
    std::erase(KnownSets(), set_);
  }
  KnownSet(const KnownSet&) = delete;

 private:
  PODLocalDispatchKeySet* const set_ = OwnKeySet();
};

// A forked process has only this thread.
void BeforeFork() { g_threads_mutex.lock(); }
void AfterForkInParent() { g_threads_mutex.unlock(); }
void AfterForkInChild() {
  PODLocalDispatchKeySet* const own = OwnKeySet();
  std::erase_if(KnownSets(), [own](const PODLocalDispatchKeySet* set) { return set != own; });
  g_threads_mutex.unlock();
}

// PyTorch restores a set of included keys in one of these two functions; inline code of guards calls the first.
constexpr char kForceSet[] = "_ZN3c104impl33_force_tls_local_dispatch_key_setENS0_19LocalDispatchKeySetE";
decltype(&c10::impl::_force_tls_local_dispatch_key_set) g_force_set = nullptr;
void ForceSet(LocalDispatchKeySet set) {
  g_force_set(set);
  PutKeyRight();
}

constexpr char kEndInclude[] = "_ZN3c104impl23IncludeDispatchKeyGuardD1Ev";
void (*g_end_include)(IncludeDispatchKeyGuard*) = nullptr;
void EndInclude(IncludeDispatchKeyGuard* guard) {
  g_end_include(guard);
  PutKeyRight();
}

// How PyTorch's kernels, compiled by GCC, run a function on all threads of a parallel region, of which the caller is
// one. Only for PyTorch's own library: others may use another OpenMP.
constexpr char kParallel[] = "GOMP_parallel";
using ParallelFunction = void (*)(void*);
std::atomic<void*> g_parallel = nullptr;
void CallParallel(ParallelFunction function, void* data, unsigned threads, unsigned flags) {
  using Parallel = void (*)(ParallelFunction, void*, unsigned, unsigned);
  reinterpret_cast<Parallel>(g_parallel.load(std::memory_order_relaxed))(function, data, threads, flags);
}

struct Region {
  ParallelFunction function;
  void* data;
};

void RunInside(void* memory) {
  const auto* const region = static_cast<const Region*>(memory);
  const KeyTurnedOff off;
  region->function(region->data);
}

void Parallel(ParallelFunction function, void* data, unsigned threads, unsigned flags) {
  if ((OwnKeySet()->excluded_ & kKeyBit) == 0) return CallParallel(function, data, threads, flags);
  Region region = {function, data};
  CallParallel(RunInside, &region, threads, flags);
}

template <typename Function>
bool Find(const char* name, Function* function) {
  if (*function == nullptr) *function = reinterpret_cast<Function>(dlsym(RTLD_DEFAULT, name));
  return *function != nullptr;
}

// A process may have several OpenMPs. Finds the one that the dynamic linker gives to the library that has `code`.
// False: none has this function.
bool FindParallel(const void* code) {
  if (g_parallel == nullptr) g_parallel = dlsym(RTLD_DEFAULT, kParallel);
  if (g_parallel != nullptr) return true;
  Dl_info info;
  void* const library = dladdr(code, &info) == 0 ? nullptr : dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
  if (library == nullptr) return false;
  g_parallel = dlsym(library, kParallel);
  dlclose(library);
  return g_parallel != nullptr;
}

// How many libraries the process has ever loaded.
uint64_t LibrariesLoaded() {
  uint64_t loaded = 0;
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* data) {
        *static_cast<uint64_t*>(data) = info->dlpi_adds;
        return 1;
      },
      &loaded);
  return loaded;
}

bool FollowGuards() {
  static uint64_t followed = 0;
  const uint64_t loaded = LibrariesLoaded();
  if (followed == loaded) return true;
  const void* const kernels = reinterpret_cast<const void*>(&at::get_num_threads);
  const ReplacedFunction functions[] = {{kForceSet, reinterpret_cast<void*>(ForceSet)},
                                        {kEndInclude, reinterpret_cast<void*>(EndInclude)},
                                        {kParallel, reinterpret_cast<void*>(Parallel), kernels, &g_parallel}};
  const size_t count = std::size(functions) - (FindParallel(kernels) ? 0 : 1);
  if (!Find(kForceSet, &g_force_set) || !Find(kEndInclude, &g_end_include)) return false;
  if (!ReplaceImported(std::span(functions).first(count))) return false;
  followed = loaded;
  return true;
}

}  // namespace

bool TurnKeyOn() {
  static const int watches_forks = pthread_atfork(BeforeFork, AfterForkInParent, AfterForkInChild);
  g_on = true;
  return FollowGuards() && watches_forks == 0;
}

void TurnKeyOff() {
  g_on = false;
  const std::lock_guard<std::mutex> lock(g_threads_mutex);
  for (PODLocalDispatchKeySet* const set : KnownSets()) TakeOut(set);
}

bool KeyIsOn() { return g_on.load(std::memory_order_relaxed); }

void PutKeyRight() {
  PODLocalDispatchKeySet* const set = OwnKeySet();
  const bool has = (set->included_ & kKeyBit) != 0;
  if (!KeyIsOn()) {
    if (has) TakeOut(set);
    return;
  }
  if (!t_set_known) [[unlikely]] {
    static thread_local KnownSet known;
  }
  if (!has) set->included_ |= kKeyBit;
}

}  // namespace torchtrace::torch_dialect
