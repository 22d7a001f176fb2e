#include "tracer/follow/preloadable.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <initializer_list>
#include <string_view>

namespace torchtrace {
namespace {

#if defined(__x86_64__)
constexpr std::string_view kLinker = "ld-linux-x86-64.so.2";
constexpr char kOwnLinker[] = "/lib64/ld-linux-x86-64.so.2";
constexpr Elf64_Half kMachine = EM_X86_64;
#else
constexpr std::string_view kLinker = "ld-linux-aarch64.so.1";
constexpr char kOwnLinker[] = "/lib/ld-linux-aarch64.so.1";
constexpr Elf64_Half kMachine = EM_AARCH64;
#endif

// The newest version of symbols that the library needs.
constexpr std::string_view kNeededVersion = "GLIBC_2.34";
constexpr size_t kMaxHeaders = 64;
constexpr size_t kMaxNeeded = 256;
constexpr int kMaxScripts = 5;  // one may name another as its interpreter, as often as Linux allows

class OpenFile {
 public:
  OpenFile(int folder, const char* path, int flags) : descriptor_(Open(folder, path, flags)) {}
  ~OpenFile() {
    if (descriptor_ >= 0) close(descriptor_);
  }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;
  int descriptor() const { return descriptor_; }

  // The bytes read of `count`, from `at` on.
  size_t Read(void* to, size_t count, uint64_t at) const {
    const ssize_t bytes = pread(descriptor_, to, count, static_cast<off_t>(at));
    return bytes > 0 ? static_cast<size_t>(bytes) : 0;
  }

 private:
  static int Open(int folder, const char* path, int flags) {
    constexpr int kOpen = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;
    if ((flags & AT_EMPTY_PATH) == 0 || *path != '\0') return openat(folder, path, kOpen);
    // The descriptor itself, which may not be open for reading.
    char name[32];
    snprintf(name, sizeof name, "/proc/self/fd/%d", folder);
    return open(name, kOpen);
  }

  const int descriptor_;
};

// AddressSanitizer ends a program in which any library is loaded before its own, ThreadSanitizer one in which any runs
// before.
bool NeedsSanitizer(const OpenFile& file, const Elf64_Phdr* headers, size_t count) {
  Elf64_Dyn dynamic[kMaxNeeded];
  size_t entries = 0;
  for (size_t i = 0; i < count; ++i) {
    if (headers[i].p_type != PT_DYNAMIC) continue;
    entries = file.Read(dynamic, std::min<size_t>(headers[i].p_filesz, sizeof dynamic), headers[i].p_offset) /
              sizeof dynamic[0];
  }
  uint64_t names = 0;  // where in the file
  for (size_t i = 0; i < entries; ++i) {
    if (dynamic[i].d_tag != DT_STRTAB) continue;
    for (size_t j = 0; j < count; ++j) {
      const uint64_t in_segment = dynamic[i].d_un.d_ptr - headers[j].p_vaddr;
      if (headers[j].p_type == PT_LOAD && in_segment < headers[j].p_filesz) names = in_segment + headers[j].p_offset;
    }
  }
  for (size_t i = 0; names != 0 && i < entries && dynamic[i].d_tag != DT_NULL; ++i) {
    if (dynamic[i].d_tag != DT_NEEDED) continue;
    char text[32];
    const std::string_view name(text, file.Read(text, sizeof text, names + dynamic[i].d_un.d_val));
    for (const std::string_view sanitizer : {"libasan.so", "libtsan.so", "libclang_rt.asan", "libclang_rt.tsan"}) {
      if (name.starts_with(sanitizer)) return true;
    }
  }
  return false;
}

// Whether the program's C library has what our library needs. Another linker than ours is of another C library.
bool IsNewEnough(const char* linker) {
  struct stat info, own;
  if (stat(linker, &info) != 0) return true;  // exec says so
  if (stat(kOwnLinker, &own) == 0 && own.st_dev == info.st_dev && own.st_ino == info.st_ino) return true;
  const int file = open(linker, O_RDONLY | O_CLOEXEC);
  if (file < 0) return false;
  const auto bytes = static_cast<size_t>(info.st_size);
  void* const text = mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE, file, 0);
  close(file);
  if (text == MAP_FAILED) return false;
  const bool found = memmem(text, bytes, kNeededVersion.data(), kNeededVersion.size()) != nullptr;
  munmap(text, bytes);
  return found;
}

Preloadable IsPreloadableProgram(const OpenFile& file, const Elf64_Ehdr& header) {
  if (header.e_ident[EI_CLASS] != ELFCLASS64) return {.why_not = "it is a 32-bit program"};
  if (header.e_machine != kMachine) return {.why_not = "it is for another kind of processor"};
  Elf64_Phdr headers[kMaxHeaders];
  if (header.e_phentsize != sizeof headers[0]) return {};
  const size_t count =
      file.Read(headers, std::min<size_t>(header.e_phnum, kMaxHeaders) * sizeof headers[0], header.e_phoff) /
      sizeof headers[0];
  for (size_t i = 0; i < count; ++i) {
    if (headers[i].p_type != PT_INTERP) continue;
    char linker[256];
    linker[file.Read(linker, std::min<size_t>(headers[i].p_filesz, sizeof linker - 1), headers[i].p_offset)] = '\0';
    const char* const name = strrchr(linker, '/');
    if (name == nullptr || name + 1 != kLinker) return {.why_not = "its dynamic linker is not glibc's"};
    if (!IsNewEnough(linker)) return {.why_not = "it has an older C library of its own"};
    if (NeedsSanitizer(file, headers, count)) return {.why_not = "its sanitizer lets no library come before its own"};
    return {.yes = true};
  }
  return {.why_not = "it is linked statically"};
}

Preloadable IsPreloadableFile(int folder, const char* path, int flags, int scripts) {
  const OpenFile file(folder, path, flags);
  if (file.descriptor() < 0) {
    const bool exec_says_so = errno == ENOENT || errno == ENOTDIR || errno == ELOOP || errno == ENAMETOOLONG;
    return {.why_not = exec_says_so ? nullptr : "its file can't be read"};
  }
  struct stat info;
  if (fstat(file.descriptor(), &info) != 0 || !S_ISREG(info.st_mode)) return {};
  if ((info.st_mode & (S_ISUID | S_ISGID)) != 0) return {.why_not = "it is setuid or setgid"};
  if (fgetxattr(file.descriptor(), "security.capability", nullptr, 0) > 0) return {.why_not = "it has capabilities"};
  char head[512];
  const size_t bytes = file.Read(head, sizeof head - 1, 0);
  head[bytes] = '\0';
  if (bytes == 0) return {.why_not = "its file can't be read"};
  if (head[0] == '#' && head[1] == '!') {
    char* const interpreter = head + 2 + strspn(head + 2, " \t");
    interpreter[strcspn(interpreter, " \t\n")] = '\0';
    return scripts < kMaxScripts ? IsPreloadableFile(AT_FDCWD, interpreter, 0, scripts + 1) : Preloadable();
  }
  Elf64_Ehdr header;
  if (bytes < sizeof header || memcmp(head, ELFMAG, SELFMAG) != 0) {
    // The C library's execvp and posix_spawnp give a file without `#!` to the shell.
    return scripts < kMaxScripts ? IsPreloadableFile(AT_FDCWD, "/bin/sh", 0, kMaxScripts) : Preloadable();
  }
  memcpy(&header, head, sizeof header);
  return IsPreloadableProgram(file, header);
}

}  // namespace

Preloadable IsPreloadable(int folder, const char* path, int flags) {
  const int error = errno;
  const Preloadable result = IsPreloadableFile(folder, path, flags, 0);
  errno = error;
  return result;
}

}  // namespace torchtrace
