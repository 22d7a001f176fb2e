#include "serialize/base/command_name.h"

#include <dlfcn.h>
#include <link.h>

#include <system_error>

#include "serialize/base/text.h"

namespace torchtrace {

namespace fs = std::filesystem;

fs::path OwnLibrary() {
  Dl_info info;
  link_map* map = nullptr;
  if (dladdr1(reinterpret_cast<void*>(&OwnLibrary), &info, reinterpret_cast<void**>(&map), RTLD_DL_LINKMAP) == 0) {
    return {};
  }
  return map->l_name;
}

std::string CommandName() {
  static constexpr char kScript[] = "tools/torchtrace";
  std::error_code error;
  fs::path binary = OwnLibrary();
  if (binary.empty()) binary = fs::read_symlink("/proc/self/exe", error);
  for (fs::path folder = binary.parent_path(); folder.has_relative_path(); folder = folder.parent_path()) {
    if (folder.filename() != ".build") continue;
    const fs::path checkout = folder.parent_path();
    if (!fs::exists(checkout / kScript, error)) continue;
    return fs::equivalent(checkout, ".", error) ? kScript : ShellQuote((checkout / kScript).string());
  }
  return "torchtrace";
}

}  // namespace torchtrace
