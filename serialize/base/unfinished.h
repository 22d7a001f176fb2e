// What stands under a temporary name until it is complete, in this process: it goes
// when its writer gives up, and RemoveUnfinished takes all of it away when a signal ends
// the program. Nothing here installs a signal handler (cmd/cli/ending_signals.h does).
// Any thread may use it.

#ifndef TORCHTRACE_SERIALIZE_BASE_UNFINISHED_H_
#define TORCHTRACE_SERIALIZE_BASE_UNFINISHED_H_

#include <mutex>
#include <string>

namespace torchtrace {

class Unfinished {
 public:
  enum Kind : uint8_t {
    kFile,  // or a folder, which then stays when it is not empty
    kTree,  // a folder with all that is in it
  };
  // Before the file or folder is created.
  Unfinished(std::string path, Kind kind);
  ~Unfinished();  // takes it away, unless it is complete
  Unfinished(const Unfinished&) = delete;
  Unfinished& operator=(const Unfinished&) = delete;

  const std::string& path() const { return path_; }
  // It is complete, and has its name.
  void Complete();

  // While this is held, RemoveUnfinished waits: for the moment in which something gets its name.
  static std::unique_lock<std::recursive_mutex> Lock();

 private:
  const std::string path_;
  const Kind kind_;
  bool complete_ = false;
};

// Takes away all that is unfinished, and lets nothing be completed, created or told of
// afterwards: other threads that come to it wait for ever. The process is about to end.
void RemoveUnfinished();

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_BASE_UNFINISHED_H_
