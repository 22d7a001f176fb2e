#include "serialize/base/unfinished.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace torchtrace {
namespace {

namespace fs = std::filesystem;

struct Entry {
  const Unfinished* owner;
  std::string path;
  Unfinished::Kind kind;
};

struct Registry {
  std::recursive_mutex mutex;
  std::vector<Entry> entries;  // what stands in another one's folder comes behind it
};
Registry& TheRegistry() {
  static auto* const registry = new Registry;  // a thread uses it until the process ends
  return *registry;
}

void Remove(const std::string& path, Unfinished::Kind kind) {
  std::error_code error;
  if (kind == Unfinished::kFile) {
    fs::remove(path, error);
    return;
  }
  // While it goes, another thread may write into it.
  for (int attempt = 0; attempt < 100; ++attempt) {
    fs::remove_all(path, error);
    if (!fs::exists(path, error)) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

}  // namespace

Unfinished::Unfinished(std::string path, Kind kind) : path_(std::move(path)), kind_(kind) {
  const auto lock = Lock();
  TheRegistry().entries.push_back({this, path_, kind_});
}

Unfinished::~Unfinished() {
  if (complete_) return;
  const auto lock = Lock();
  Remove(path_, kind_);
  Complete();
}

void Unfinished::Complete() {
  const auto lock = Lock();
  complete_ = true;
  std::erase_if(TheRegistry().entries, [this](const Entry& entry) { return entry.owner == this; });
}

std::unique_lock<std::recursive_mutex> Unfinished::Lock() {
  return std::unique_lock<std::recursive_mutex>(TheRegistry().mutex);
}

void RemoveUnfinished() {
  Registry& registry = TheRegistry();
  registry.mutex.lock();  // and never unlocked
  std::for_each(registry.entries.rbegin(), registry.entries.rend(),
                [](const Entry& entry) { Remove(entry.path, entry.kind); });
}

}  // namespace torchtrace
