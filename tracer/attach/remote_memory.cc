#include "tracer/attach/remote_memory.h"

#include <sys/uio.h>

#include <cerrno>

namespace torchtrace {
namespace {

bool All(ssize_t moved, size_t bytes) {
  if (moved == static_cast<ssize_t>(bytes)) return true;
  if (moved >= 0) errno = EFAULT;
  return false;
}

void* There(uint64_t address) { return reinterpret_cast<void*>(address); }  // NOLINT(performance-no-int-to-ptr)

}  // namespace

bool ReadMemory(pid_t pid, uint64_t address, void* to, size_t bytes) {
  const iovec here = {to, bytes}, there = {There(address), bytes};
  return All(process_vm_readv(pid, &here, 1, &there, 1, 0), bytes);
}

bool WriteMemory(pid_t pid, uint64_t address, std::string_view bytes) {
  const iovec here = {const_cast<char*>(bytes.data()), bytes.size()}, there = {There(address), bytes.size()};
  return All(process_vm_writev(pid, &here, 1, &there, 1, 0), bytes.size());
}

}  // namespace torchtrace
