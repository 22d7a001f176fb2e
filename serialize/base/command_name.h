// How torchtrace is called where this is installed, for messages that tell the next command.

#ifndef TORCHTRACE_SERIALIZE_BASE_COMMAND_NAME_H_
#define TORCHTRACE_SERIALIZE_BASE_COMMAND_NAME_H_

#include <filesystem>
#include <string>

namespace torchtrace {

// The library that this code is of, by its full path. Empty for an executable.
std::filesystem::path OwnLibrary();

// "torchtrace"; of a checkout, whose binaries lie in its .build, its tools/torchtrace: that is on no PATH, and builds
// what is out of date. As a shell takes it, from the working folder.
std::string CommandName();

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_BASE_COMMAND_NAME_H_
