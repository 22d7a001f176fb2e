// What torchtrace says to its user: on standard error, line by line after
// `torchtrace: `. Standard output is for what was asked for.

#ifndef TORCHTRACE_TRACER_LAUNCH_SAY_LINES_H_
#define TORCHTRACE_TRACER_LAUNCH_SAY_LINES_H_

#include <string>

namespace torchtrace {

// Writes in one piece, so that what several processes say doesn't mix. Nothing
// is written when standard error isn't what it was when the process started.
void SayLines(const std::string& text);

}  // namespace torchtrace

#endif  // TORCHTRACE_TRACER_LAUNCH_SAY_LINES_H_
