// Where torchtrace is installed. The verbs are in its executable, and also in a library that Pythons load.
//
//   PREFIX/bin/torchtrace
//   PREFIX/lib/torchtrace/libtorchtrace_verbs.so, libtorchtrace_preload.so
//   PREFIX/runtime/, or for a wheel PREFIX/lib/python3.11/site-packages/torchtrace/runtime/, see cmd/run/run_request.h

#ifndef TORCHTRACE_CMD_CLI_INSTALLATION_H_
#define TORCHTRACE_CMD_CLI_INSTALLATION_H_

#include <filesystem>
#include <string>

namespace torchtrace {

// Whether this code is in the library, and the process is a Python.
bool InPython();

// PREFIX, for the executable and the library.
std::filesystem::path InstallationFolder();

// The runtimes that a wheel installed, into a Python's folder or a virtual environment; empty if torchtrace was not
// installed by a wheel.
std::filesystem::path RuntimesOfWheel();

// The environment that the wheel was installed into, which may be a user's folder without a Python; else empty.
std::string EnvironmentOfWheel();

std::filesystem::path VerbsLibrary();
std::filesystem::path PreloadLibrary();

}  // namespace torchtrace

#endif  // TORCHTRACE_CMD_CLI_INSTALLATION_H_
