// Files and folders that stand under a temporary name until they are complete. The name
// can't be known before, and nothing that has it already is taken: who can write to the
// same folder (/tmp) can't have us write to a file of his choice. Thread-safe.

#ifndef TORCHTRACE_SERIALIZE_BASE_NEW_FILE_H_
#define TORCHTRACE_SERIALIZE_BASE_NEW_FILE_H_

#include <sys/types.h>

#include <string>

namespace torchtrace {

// The hidden name beside `path` that it has until it is complete: `out/.run.json.8f3k...tmp`.
std::string TemporaryName(const std::string& path);

// Creates a file to write. Fails, with errno, where there is anything, also a link. The
// umask applies to `mode`.
int CreateNewFile(const std::string& path, mode_t mode);

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_BASE_NEW_FILE_H_
