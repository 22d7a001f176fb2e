// What torchtrace says to its user: on standard error, after `torchtrace: `, on one line
// whatever names are in it. Standard output is for what was asked for.

#ifndef TORCHTRACE_CMD_CLI_MESSAGE_H_
#define TORCHTRACE_CMD_CLI_MESSAGE_H_

#include <string>

#include "absl/status/status.h"

namespace torchtrace {

// Writes in one piece, so that what several processes say doesn't mix. Nothing
// is written when standard error isn't what it was when the process started.
void Say(const std::string& text);

// Says what went wrong and returns `exit_code`.
int Fail(int exit_code, const std::string& text);
// The same of a status that is not OK: its message.
int Fail(int exit_code, const absl::Status& status);

}  // namespace torchtrace

#endif  // TORCHTRACE_CMD_CLI_MESSAGE_H_
