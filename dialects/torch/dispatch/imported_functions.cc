#include "dialects/torch/dispatch/imported_functions.h"

#include <elf.h>
#include <link.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>

#include "dialects/torch/common/virtual_functions.h"

namespace torchtrace::torch_dialect {
namespace {

#if defined(__x86_64__)
constexpr uint32_t kInTable[] = {R_X86_64_JUMP_SLOT, R_X86_64_GLOB_DAT};
#elif defined(__aarch64__)
constexpr uint32_t kInTable[] = {R_AARCH64_JUMP_SLOT, R_AARCH64_GLOB_DAT};
#else
#error "how does this processor's linker name an imported function?"
#endif

// The parts of a loaded library that list what it imports.
class Library {
 public:
  explicit Library(const dl_phdr_info& info) : base_(info.dlpi_addr) {
    for (int i = 0; i < info.dlpi_phnum; ++i) {
      const ElfW(Phdr) & header = info.dlpi_phdr[i];
      if (header.p_type == PT_LOAD) end_ = std::max<uintptr_t>(end_, base_ + header.p_vaddr + header.p_memsz);
      if (header.p_type == PT_DYNAMIC) ReadDynamic(reinterpret_cast<const ElfW(Dyn)*>(base_ + header.p_vaddr));
      if (header.p_type != PT_GNU_RELRO) continue;
      // Whole pages, as the dynamic linker protects them.
      constant_begin_ = PageOf(base_ + header.p_vaddr);
      constant_end_ = PageOf(base_ + header.p_vaddr + header.p_memsz);
    }
  }

  bool Replace(std::span<const ReplacedFunction> functions) const {
    if (symbols_ == nullptr || names_ == nullptr) return true;
    return Replace(functions, calls_) && Replace(functions, data_);
  }

 private:
  using Relocations = std::span<const ElfW(Rela)>;

  static uintptr_t PageSize() {
    static const auto size = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
    return size;
  }
  static uintptr_t PageOf(uintptr_t address) { return address & ~(PageSize() - 1); }

  // The dynamic linker has turned the offsets into addresses, except in the kernel's own library.
  uintptr_t AddressOf(ElfW(Addr) pointer) const { return pointer < base_ ? base_ + pointer : pointer; }

  void ReadDynamic(const ElfW(Dyn) * entry) {
    uintptr_t calls = 0, data = 0;
    size_t calls_bytes = 0, data_bytes = 0;
    for (; entry->d_tag != DT_NULL; ++entry) {
      switch (entry->d_tag) {
        case DT_SYMTAB:
          symbols_ = reinterpret_cast<const ElfW(Sym)*>(AddressOf(entry->d_un.d_ptr));
          break;
        case DT_STRTAB:
          names_ = reinterpret_cast<const char*>(AddressOf(entry->d_un.d_ptr));
          break;
        case DT_JMPREL:
          calls = AddressOf(entry->d_un.d_ptr);
          break;
        case DT_PLTRELSZ:
          calls_bytes = entry->d_un.d_val;
          break;
        case DT_RELA:
          data = AddressOf(entry->d_un.d_ptr);
          break;
        case DT_RELASZ:
          data_bytes = entry->d_un.d_val;
          break;
        default:
          break;
      }
    }
    if (calls != 0) calls_ = {reinterpret_cast<const ElfW(Rela)*>(calls), calls_bytes / sizeof(ElfW(Rela))};
    if (data != 0) data_ = {reinterpret_cast<const ElfW(Rela)*>(data), data_bytes / sizeof(ElfW(Rela))};
  }

  bool Has(const void* code) const {
    const auto address = reinterpret_cast<uintptr_t>(code);
    return base_ <= address && address < end_;
  }

  bool Replace(std::span<const ReplacedFunction> functions, Relocations relocations) const {
    for (const ElfW(Rela) & relocation : relocations) {
      const auto type = static_cast<uint32_t>(ELF64_R_TYPE(relocation.r_info));
      if (type != kInTable[0] && type != kInTable[1]) continue;
      const char* const name = names_ + symbols_[ELF64_R_SYM(relocation.r_info)].st_name;
      for (const ReplacedFunction& function : functions) {
        if (std::strcmp(name, function.name) != 0 || !IsImporterOf(function)) continue;
        if (!Store(base_ + relocation.r_offset, function)) return false;
      }
    }
    return true;
  }

  bool IsImporterOf(const ReplacedFunction& function) const {
    return function.importer == nullptr || Has(function.importer);
  }

  bool Store(uintptr_t place, const ReplacedFunction& function) const {
    void** const slot = reinterpret_cast<void**>(place);
    void* const before = std::atomic_ref<void*>(*slot).load(std::memory_order_relaxed);
    if (before == function.replacement) return true;
    // Before the first call it leads to the library's own code, which has the dynamic linker find the function.
    if (function.replaced != nullptr && !Has(before)) {
      function.replaced->store(before, std::memory_order_relaxed);
    }
    return StoreInTable(slot, function.replacement, constant_begin_ <= place && place < constant_end_);
  }

  const uintptr_t base_;
  uintptr_t end_ = 0;
  const ElfW(Sym) * symbols_ = nullptr;
  const char* names_ = nullptr;
  Relocations calls_;
  Relocations data_;
  uintptr_t constant_begin_ = 0;
  uintptr_t constant_end_ = 0;
};

}  // namespace

bool ReplaceImported(std::span<const ReplacedFunction> functions) {
  // 1 ends the walk after a failure. No library is unloaded meanwhile.
  const auto replace = [](dl_phdr_info* info, size_t, void* data) {
    return Library(*info).Replace(*static_cast<std::span<const ReplacedFunction>*>(data)) ? 0 : 1;
  };
  return dl_iterate_phdr(replace, &functions) == 0;
}

}  // namespace torchtrace::torch_dialect
