#include <errno.h>
#include <fcntl.h>

#include <string>
#include <vector>

#include "cmd/cli/options.h"

namespace {

// Else the next file that is opened would be a standard stream. What stands in for a closed one fails as that does, and
// programs that are started have it closed.
void OccupyClosedStreams() {
  for (const int stream : {0, 1, 2}) {
    if (fcntl(stream, F_GETFD) < 0 && errno == EBADF)
      open("/dev/null", (stream == 0 ? O_WRONLY : O_RDONLY) | O_CLOEXEC);
  }
}

}  // namespace

int main(int argc, char** argv) {
  OccupyClosedStreams();
  return torchtrace::RunCommandLine(std::vector<std::string>(argv + (argc > 0), argv + argc));
}
