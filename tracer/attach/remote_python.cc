#include "tracer/attach/remote_python.h"

#include <elf.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "tracer/attach/process_status.h"
#include "tracer/attach/remote_memory.h"

namespace torchtrace {
namespace {

// What is read may be anything: no loop is longer than these.
constexpr size_t kMostHeaders = 64;
constexpr size_t kMostDynamic = 256;
constexpr size_t kMostChain = 1 << 16;
constexpr uint64_t kMostCodeBytes = 64 << 20;

// CPython 3.11 and later say their version in it; 3.10 has the other, which earlier ones don't.
constexpr char kVersionSymbol[] = "Py_Version";
constexpr char kSymbolOf310[] = "PyModule_AddObjectRef";

// `mov $15, %rax; syscall`: where a signal handler returns to.
constexpr std::string_view kSigreturn("\x48\xc7\xc0\x0f\x00\x00\x00\x0f\x05", 9);

uint32_t GnuHash(const std::string& name) {
  uint32_t hash = 5381;
  for (const char c : name) hash = hash * 33 + static_cast<unsigned char>(c);
  return hash;
}

// A library or program as the dynamic linker has mapped it, with its table of symbols.
class RemoteImage {
 public:
  // Nullopt: nothing that has one is mapped there.
  static std::optional<RemoteImage> At(pid_t pid, uint64_t base) {
    RemoteImage image(pid, base);
    return image.ReadHeaders() && image.ReadDynamic() ? std::optional(image) : std::nullopt;
  }

  RemoteFunction Find(const std::string& name) const {
    // The hash table: four numbers, a bloom filter, buckets, chains.
    uint32_t header[4];
    if (!ReadMemory(pid_, hash_, &header)) return {};
    const auto [buckets, first, bloom_words, shift] = header;
    if (buckets == 0) return {};
    const uint64_t bucket_table = hash_ + sizeof header + uint64_t{8} * bloom_words;
    const uint64_t chain_table = bucket_table + uint64_t{4} * buckets;
    const uint32_t wanted = GnuHash(name);
    uint32_t index = 0;
    if (!ReadMemory(pid_, bucket_table + uint64_t{4} * (wanted % buckets), &index) || index < first) return {};
    for (size_t i = 0; i < kMostChain; ++i, ++index) {
      uint32_t hash = 0;
      if (!ReadMemory(pid_, chain_table + uint64_t{4} * (index - first), &hash)) return {};
      if ((hash | 1) == (wanted | 1)) {
        if (const RemoteFunction found = SymbolIfNamed(index, name); found.address != 0) return found;
      }
      if ((hash & 1) != 0) break;  // the chain's last
    }
    return {};
  }

 private:
  RemoteImage(pid_t pid, uint64_t base) : pid_(pid), base_(base) {}

  bool ReadHeaders() {
    Elf64_Ehdr header;
    if (!ReadMemory(pid_, base_, &header) || std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 ||
        header.e_ident[EI_CLASS] != ELFCLASS64) {
      return false;
    }
    bool loaded = false;
    for (size_t i = 0; i < std::min<size_t>(header.e_phnum, kMostHeaders); ++i) {
      Elf64_Phdr program;
      if (!ReadMemory(pid_, base_ + header.e_phoff + i * sizeof program, &program)) return false;
      if (program.p_type == PT_LOAD && !std::exchange(loaded, true))
        bias_ = base_ - (program.p_vaddr - program.p_offset);
      if (program.p_type == PT_DYNAMIC) dynamic_ = program.p_vaddr;
    }
    return loaded && dynamic_ != 0;
  }

  bool ReadDynamic() {
    for (size_t i = 0; i < kMostDynamic; ++i) {
      Elf64_Dyn entry;
      if (!ReadMemory(pid_, bias_ + dynamic_ + i * sizeof entry, &entry) || entry.d_tag == DT_NULL) break;
      // glibc replaces the offsets by addresses.
      const uint64_t address = entry.d_un.d_ptr < base_ ? bias_ + entry.d_un.d_ptr : entry.d_un.d_ptr;
      if (entry.d_tag == DT_SYMTAB) symbols_ = address;
      if (entry.d_tag == DT_STRTAB) names_ = address;
      if (entry.d_tag == DT_GNU_HASH) hash_ = address;
    }
    return symbols_ != 0 && names_ != 0 && hash_ != 0;
  }

  RemoteFunction SymbolIfNamed(uint32_t index, const std::string& name) const {
    Elf64_Sym symbol;
    std::string found(name.size() + 1, 'x');
    if (!ReadMemory(pid_, symbols_ + index * sizeof symbol, &symbol) || symbol.st_shndx == SHN_UNDEF ||
        !ReadMemory(pid_, names_ + symbol.st_name, found.data(), found.size()) || found.c_str() != name ||
        ELF64_ST_TYPE(symbol.st_info) == STT_GNU_IFUNC) {
      return {};
    }
    return {bias_ + symbol.st_value, symbol.st_size};
  }

  pid_t pid_;
  uint64_t base_;
  uint64_t bias_ = 0;  // what addresses in the file are less by
  uint64_t dynamic_ = 0;
  uint64_t symbols_ = 0;
  uint64_t names_ = 0;
  uint64_t hash_ = 0;
};

// Visits what is mapped, in the order of addresses, until `visit` returns true.
void VisitImages(pid_t pid, const std::vector<Mapping>& mappings,
                 const std::function<bool(const RemoteImage& image, const std::string& path)>& visit) {
  for (const Mapping& mapping : mappings) {
    if (mapping.offset != 0 || !mapping.readable || !mapping.path.starts_with('/')) continue;
    const std::optional<RemoteImage> image = RemoteImage::At(pid, mapping.begin);
    if (image.has_value() && visit(*image, mapping.path)) return;
  }
}

std::string ProgramOf(pid_t pid) {
  std::error_code error;
  return std::filesystem::read_symlink(absl::StrCat("/proc/", pid, "/exe"), error).string();
}

bool Is32Bit(pid_t pid) {
  char ident[EI_NIDENT] = "";
  std::ifstream(absl::StrCat("/proc/", pid, "/exe"), std::ios::binary).read(ident, sizeof ident);
  return std::memcmp(ident, ELFMAG, SELFMAG) == 0 && ident[EI_CLASS] == ELFCLASS32;
}

// Where `bytes` are in the executable mappings of a file; 0: nowhere.
uint64_t FindCode(pid_t pid, const std::vector<Mapping>& mappings, const std::string& path, std::string_view bytes) {
  for (const Mapping& mapping : mappings) {
    if (!mapping.executable || mapping.path != path || mapping.end - mapping.begin > kMostCodeBytes) continue;
    std::string code(mapping.end - mapping.begin, '\0');
    if (!ReadMemory(pid, mapping.begin, code.data(), code.size())) continue;
    if (const size_t at = code.find(bytes); at != std::string::npos) return mapping.begin + at;
  }
  return 0;
}

absl::Status NoPython(pid_t pid, const std::string& why) {
  return absl::NotFoundError(absl::StrCat("process ", pid, " ", why));
}

// Sets the version; false: it is older than all that are known.
bool ReadVersion(pid_t pid, const RemoteImage& image, RemotePython* python) {
  uint64_t hex = 0;
  const RemoteFunction version = image.Find(kVersionSymbol);
  if (version.address != 0 && ReadMemory(pid, version.address, &hex)) {
    python->minor = static_cast<int>(hex >> 16 & 0xff);
    python->version = absl::StrCat(hex >> 24 & 0xff, ".", python->minor, ".", hex >> 8 & 0xff);
    return true;
  }
  python->minor = 10;
  python->version = "3.10";
  return image.Find(kSymbolOf310).address != 0;
}

}  // namespace

// Where the kernel has put the program and its random bytes.
std::string ImageOf(pid_t pid) {
  std::ifstream file(absl::StrCat("/proc/", pid, "/auxv"), std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

RemoteLibc FindRemoteLibc(pid_t pid) {
  RemoteLibc libc;
  const std::vector<Mapping> mappings = MappingsOf(pid);
  VisitImages(pid, mappings, [&](const RemoteImage& image, const std::string& path) {
    // A sanitizer's library has an mmap, too.
    if (image.Find("__libc_start_main").address == 0) return false;
    libc.mmap = image.Find("mmap");
    libc.munmap = image.Find("munmap");
    libc.sigemptyset = image.Find("sigemptyset");
    libc.sigreturn = FindCode(pid, mappings, path, kSigreturn);
    return libc.mmap.address != 0;
  });
  return libc;
}

absl::StatusOr<RemotePython> FindRemotePython(pid_t pid) {
  RemotePython python;
  python.image = ImageOf(pid);
  python.program = ProgramOf(pid);
  if (python.program.empty()) return WhyRefused(pid, errno == 0 ? ESRCH : errno);
  if (Is32Bit(pid)) return NoPython(pid, "is a 32-bit program, which torchtrace can't trace");
  const std::vector<Mapping> mappings = MappingsOf(pid);
  if (mappings.empty()) return WhyRefused(pid, access(absl::StrCat("/proc/", pid).c_str(), F_OK) == 0 ? EACCES : ESRCH);
  uint32_t magic = 0;
  if (!ReadMemory(pid, mappings[0].begin, &magic) && errno != EFAULT) return WhyRefused(pid, errno);

  bool is_known = true;
  VisitImages(pid, mappings, [&](const RemoteImage& image, const std::string&) {
    python.add_pending_call = image.Find("Py_AddPendingCall");
    if (python.add_pending_call.address == 0) return false;
    python.run_simple_string = image.Find("PyRun_SimpleString");
    python.destroy_table = image.Find("_Py_hashtable_destroy");
    python.acquire_lock = image.Find("PyThread_acquire_lock_timed");
    is_known = ReadVersion(pid, image, &python);
    return true;
  });
  if (!is_known) return NoPython(pid, absl::StrCat("(", python.program, ") runs a Python older than 3.10"));
  if (python.run_simple_string.address == 0 || python.destroy_table.address == 0) {
    return NoPython(pid, absl::StrCat("(", python.program, ") runs no CPython that torchtrace can find"));
  }
  python.libc = FindRemoteLibc(pid);
  return python;
}

}  // namespace torchtrace
