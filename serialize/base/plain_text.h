// What may be shown to people of text that anybody wrote: names of processes, threads,
// files, exceptions in a trace. Escape sequences, other controls, marks that turn the direction
// of writing and bytes that are no UTF-8 reach no terminal: they become escapes, `\x1b` or
// `\u202e`. All that the verbs write to a terminal goes through AppendPlainText (StandardOutput,
// SayLines); what must stay on its line or in its cell is made a PlainLine before.
//
//   PlainLine("a\x1b[2J\n") is "a\\x1b[2J\\n"

#ifndef TORCHTRACE_SERIALIZE_BASE_PLAIN_TEXT_H_
#define TORCHTRACE_SERIALIZE_BASE_PLAIN_TEXT_H_

#include <cstddef>
#include <string>
#include <string_view>

namespace torchtrace {

struct PlainTextOptions {
  bool layout = true;   // line breaks and tabs stay
  bool colors = false;  // sequences that choose a colour stay
  bool more = false;    // the text goes on: what may be the beginning of something is left
};

// Returns how many bytes of `text` were taken: all of it, unless options.more.
size_t AppendPlainText(std::string_view text, const PlainTextOptions& options, std::string* out);

// The whole text, on one line.
std::string PlainLine(std::string_view text);

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_BASE_PLAIN_TEXT_H_
