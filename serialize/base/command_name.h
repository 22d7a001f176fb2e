// The command that runs torchtrace in this installation, for messages that suggest a command.

#ifndef TORCHTRACE_SERIALIZE_BASE_COMMAND_NAME_H_
#define TORCHTRACE_SERIALIZE_BASE_COMMAND_NAME_H_

#include <filesystem>
#include <string>

namespace torchtrace {

// The full path of the shared library that contains this code; empty if it is in an executable.
std::filesystem::path OwnLibrary();

// "torchtrace"; in a checkout, whose binaries are in its .build, its tools/torchtrace, which is not on PATH and
// rebuilds what is out of date. Quoted for a shell, relative to the working folder.
std::string CommandName();

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_BASE_COMMAND_NAME_H_
