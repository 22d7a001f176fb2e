#include <string>
#include <vector>

#include "cmd/cli/options.h"

int main(int argc, char** argv) {
  return torchtrace::RunCommandLine(std::vector<std::string>(argv + (argc > 0), argv + argc));
}
