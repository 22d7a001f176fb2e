// Where torchtrace is: the verbs are in its executable, and once more in a library that Pythons load.
//
//   PREFIX/bin/torchtrace
//   PREFIX/lib/torchtrace/libtorchtrace_verbs.so, libtorchtrace_preload.so
//   PREFIX/runtime/, or PREFIX/lib/python3.11/site-packages/torchtrace/runtime/ of a wheel, see cmd/run/run_request.h

#ifndef TORCHTRACE_CMD_CLI_INSTALLATION_H_
#define TORCHTRACE_CMD_CLI_INSTALLATION_H_

#include <filesystem>
#include <string>

namespace torchtrace {

// Whether this is the library: the process is a Python.
bool InPython();

// PREFIX, for both.
std::filesystem::path InstallationFolder();

// The runtimes that a wheel installed, into a Python's folder or a virtual environment; empty where
// this is no wheel's.
std::filesystem::path RuntimesOfWheel();

// The environment of that wheel; may be the folder of a user, which has no Python. Else empty.
std::string EnvironmentOfWheel();

std::filesystem::path VerbsLibrary();
std::filesystem::path PreloadLibrary();

}  // namespace torchtrace

#endif  // TORCHTRACE_CMD_CLI_INSTALLATION_H_
