#include "dialects/torch/describe/object_numbers.h"

#include <link.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

#include "absl/container/flat_hash_map.h"

namespace torchtrace::torch_dialect {
namespace {

using Object = c10::intrusive_ptr_target;
using Deleter = void (*)(Object*);
using VirtualTable = Deleter*;

// Itanium C++ ABI: a class whose first virtual function is its destructor has two entries for it; the second one also
// frees the object.
constexpr size_t kDeleting = 1;

VirtualTable TableOf(const Object& object) { return *reinterpret_cast<const VirtualTable*>(&object); }

// The pages around `address` that the loader made read-only after relocation; empty if it is writable.
struct Pages {
  uintptr_t begin = 0;
  uintptr_t end = 0;
};

Pages ReadOnlyPages(const void* address) {
  struct Search {
    uintptr_t address;
    Pages found;
  } search = {reinterpret_cast<uintptr_t>(address), {}};
  const auto visit = [](dl_phdr_info* info, size_t, void* data) {
    auto* const search = static_cast<Search*>(data);
    for (size_t i = 0; i < info->dlpi_phnum; ++i) {
      const ElfW(Phdr) & header = info->dlpi_phdr[i];
      const uintptr_t begin = info->dlpi_addr + header.p_vaddr;
      if (header.p_type != PT_GNU_RELRO || search->address - begin >= header.p_memsz) continue;
      const uintptr_t page = sysconf(_SC_PAGESIZE);
      search->found = {search->address / page * page, (search->address + sizeof(void*) + page - 1) / page * page};
      return 1;
    }
    return 0;
  };
  dl_iterate_phdr(visit, &search);
  return search.found;
}

class ObjectNumbers {
 public:
  static ObjectNumbers& Get() {
    // Never destroyed: objects are deleted until the process ends.
    static auto* const numbers = new ObjectNumbers;
    return *numbers;
  }

  void Begin() {
    const std::lock_guard<std::mutex> lock(mutex_);
    last_ = 0;
    open_ = true;
  }

  void End() {
    const std::lock_guard<std::mutex> lock(mutex_);
    open_ = false;
    numbers_.clear();
  }

  uint64_t Of(const Object& object) {
    const Place place = PlaceOf(object);
    const std::lock_guard<std::mutex> lock(mutex_);
    Entry* const entry = EntryOf(object, place);
    return entry == nullptr ? 0 : entry->number;
  }

  TensorNumber Of(const Object& tensor, const Object* storage, bool with_state) {
    const Place tensor_place = PlaceOf(tensor);
    const Place storage_place = storage == nullptr ? Place() : PlaceOf(*storage);
    TensorNumber number;
    const std::lock_guard<std::mutex> lock(mutex_);
    if (const Entry* const entry = EntryOf(tensor, tensor_place)) number.tensor = entry->number;
    if (storage == nullptr) return number;
    if (Entry* const entry = EntryOf(*storage, storage_place)) {
      number.storage = entry->number;
      if (with_state && entry->state == nullptr) entry->state = std::make_shared<StorageState>();
      number.state = entry->state;
    }
    return number;
  }

  uint64_t last() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return last_;
  }

  std::vector<uint64_t> Living(uint64_t least) {
    const std::lock_guard<std::mutex> lock(mutex_);
    std::vector<uint64_t> living;
    for (const auto& [object, entry] : numbers_) {
      if (entry.number > least) living.push_back(entry.number);
    }
    std::sort(living.begin(), living.end());
    return living;
  }

 private:
  struct Entry {
    uint64_t number;
    std::shared_ptr<StorageState> state;  // null until it is wanted
  };
  // What is needed to watch an object's class. Finding it takes the loader's lock, which must be before ours: a thread
  // that holds it may delete objects.
  struct Place {
    bool watched = false;
    Pages pages;
  };
  Place PlaceOf(const Object& object) const {
    const VirtualTable table = TableOf(object);
    if (RealDeleter(table) != nullptr) [[likely]]
      return {.watched = true, .pages = {}};
    return {.watched = false, .pages = ReadOnlyPages(table + kDeleting)};
  }
  // With the lock. Null: the object can't have a number.
  Entry* EntryOf(const Object& object, const Place& place) {
    if (!open_ || (!place.watched && !Watch(TableOf(object), place.pages))) return nullptr;
    const auto [entry, is_new] = numbers_.try_emplace(&object, Entry{last_ + 1, nullptr});
    last_ += is_new;
    return &entry->second;
  }

  struct Watched {
    VirtualTable table;
    Deleter real;
  };

  // The only thread of a forked process must not wait for one that is gone.
  ObjectNumbers() {
    pthread_atfork([] { Get().mutex_.lock(); }, [] { Get().mutex_.unlock(); }, [] { Get().mutex_.unlock(); });
  }

  static void Delete(Object* object) {
    ObjectNumbers& numbers = Get();
    const Deleter real = numbers.RealDeleter(TableOf(*object));
    if (numbers.open_) {
      const std::lock_guard<std::mutex> lock(numbers.mutex_);
      numbers.numbers_.erase(object);
    }
    real(object);
  }

  // Null: the class isn't watched.
  Deleter RealDeleter(VirtualTable table) const {
    const size_t count = watched_count_.load(std::memory_order_acquire);
    for (size_t i = 0; i < count; ++i) {
      if (watched_[i].table == table) return watched_[i].real;
    }
    return nullptr;
  }

  bool Watch(VirtualTable table, const Pages& pages) {
    if (RealDeleter(table) != nullptr) return true;
    const size_t count = watched_count_.load(std::memory_order_relaxed);
    if (count == watched_.size()) return false;
    const auto protect = [&pages](int protection) {
      return pages.begin == pages.end ||
             mprotect(reinterpret_cast<void*>(pages.begin), pages.end - pages.begin, protection) == 0;
    };
    if (!protect(PROT_READ | PROT_WRITE)) return false;
    watched_[count] = {table, table[kDeleting]};
    watched_count_.store(count + 1, std::memory_order_release);
    __atomic_store_n(&table[kDeleting], &Delete, __ATOMIC_RELEASE);
    protect(PROT_READ);
    return true;
  }

  std::mutex mutex_;
  std::atomic<bool> open_{false};
  absl::flat_hash_map<const Object*, Entry> numbers_;
  uint64_t last_ = 0;
  // Tensors have about ten classes, storages one.
  std::array<Watched, 64> watched_;
  std::atomic<size_t> watched_count_{0};
};

}  // namespace

void BeginObjectNumbers() { ObjectNumbers::Get().Begin(); }
void EndObjectNumbers() { ObjectNumbers::Get().End(); }
uint64_t LastNumber() { return ObjectNumbers::Get().last(); }
std::vector<uint64_t> LivingNumbers(uint64_t least) { return ObjectNumbers::Get().Living(least); }
uint64_t NumberOf(const c10::intrusive_ptr_target& object) { return ObjectNumbers::Get().Of(object); }
TensorNumber NumberOf(const c10::intrusive_ptr_target& tensor, const c10::intrusive_ptr_target* storage,
                      bool with_state) {
  return ObjectNumbers::Get().Of(tensor, storage, with_state);
}

}  // namespace torchtrace::torch_dialect
