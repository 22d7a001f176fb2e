// Replaces a virtual function of a class whose code is in another library, for all its objects: by the pointer in the
// class's table of virtual functions, laid out as the C++ ABI of GCC and Clang says. An object that forwards its other
// calls to the first one would do the same, but its calls would cost more.

#ifndef TORCHTRACE_DIALECTS_TORCH_COMMON_VIRTUAL_FUNCTIONS_H_
#define TORCHTRACE_DIALECTS_TORCH_COMMON_VIRTUAL_FUNCTIONS_H_

#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "tracer/python/python_patch.h"

namespace torchtrace::torch_dialect {

// Stores a pointer into a table of a library, in memory that is `constant` or not; other threads may read it meanwhile.
// False: it can't be written.
inline bool StoreInTable(void** place, void* pointer, bool constant) {
  static const auto page_bytes = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  void* const page = reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(place) & ~(page_bytes - 1));
  if (constant && mprotect(page, page_bytes, PROT_READ | PROT_WRITE) != 0) return false;
  std::atomic_ref<void*>(*place).store(pointer, std::memory_order_release);
  if (constant) mprotect(page, page_bytes, PROT_READ);
  return true;
}

// A const member function is called as a function of the object and its arguments.
template <typename Class, typename Result, typename... Arguments>
using VirtualFunction = Result (*)(const Class* object, Arguments... arguments);

// Replaces `function` of the class of `object` for ever; other threads may call it meanwhile. Sets `replaced` to what
// the table had. False: the table can't be written.
template <typename Class, typename Result, typename... Arguments>
bool ReplaceVirtual(const Class* object, Result (Class::*function)(Arguments...) const,
                    std::type_identity_t<VirtualFunction<Class, Result, Arguments...>> replacement,
                    std::type_identity_t<VirtualFunction<Class, Result, Arguments...>>* replaced) {
  struct {
    uintptr_t pointer;
    uintptr_t adjustment;
  } member;
  static_assert(sizeof member == sizeof function);
  std::memcpy(&member, &function, sizeof member);
#if defined(__aarch64__)
  const uintptr_t offset = member.pointer;
#else
  const uintptr_t offset = member.pointer - 1;  // the lowest bit says that it is virtual
#endif
  void** const place = reinterpret_cast<void**>(*reinterpret_cast<const uintptr_t*>(object) + offset);
  *replaced = reinterpret_cast<VirtualFunction<Class, Result, Arguments...>>(*place);
  return StoreInTable(place, reinterpret_cast<void*>(replacement), !IsWritable(place));
}

}  // namespace torchtrace::torch_dialect

#endif  // TORCHTRACE_DIALECTS_TORCH_COMMON_VIRTUAL_FUNCTIONS_H_
