// What a log says last: how the program ended, what each thread recorded, and what the session didn't see.

#ifndef TORCHTRACE_TRACER_RECORD_LAST_WORDS_H_
#define TORCHTRACE_TRACER_RECORD_LAST_WORDS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "serialize/model/step_marks.h"

namespace torchtrace {

// The most bytes of the reason why recording stopped.
inline constexpr size_t kMaxStopReason = 1024;

// How the traced program ended, for the log's last words.
struct ProgramEnd {
  int exit_code = 0;
  int signal = 0;                // 0: it exited
  bool program_goes_on = false;  // only the recording ends: both above are unknown
};

struct ThreadTotals {
  uint64_t calls = 0;
  uint64_t getters = 0;
  uint64_t left_out = 0;  // by CallWindow

  void Add(const ThreadTotals& more) {
    calls += more.calls;
    getters += more.getters;
    left_out += more.left_out;
  }
};

// A program that the traced one started, which isn't traced.
struct StartedTotals {
  bool python = false;
  uint64_t count = 0;
};

// For run.json's lists.
struct SessionNotes {
  std::set<std::string> not_seen;
  std::set<std::string> not_imported;  // packages whose calls were to be recorded, a sentence each
  std::string steps_not_seen;          // a sentence, if no step that was to be recorded came
  std::map<std::string, uint64_t> cut;
  std::map<std::string, StartedTotals> started;
};

struct LastWords {
  ProgramEnd end;
  std::map<uint64_t, ThreadTotals> threads;  // by number
  std::optional<ThreadTotals> others;        // of threads that are not in `threads`, together: none is listed then
  SessionNotes notes;
  uint64_t intern_resets = 0;
  uint64_t counted = 0;          // calls that are counted, not listed
  std::string_view stop_reason;  // empty: recording has not stopped early
  StepMarks steps = {};          // where the program was in its steps

  ThreadTotals AllThreads() const {
    ThreadTotals all = others.value_or(ThreadTotals());
    for (const auto& [number, total] : threads) all.Add(total);
    return all;
  }
};

// JSON is written by hand: the library's destructors allocate, which ends the process if memory has run out. Bytes that
// aren't UTF-8 become U+FFFD.
void AppendJson(std::string_view text, std::string* json);

// Members of a JSON object.
std::string NotSeenJson(const SessionNotes& notes);
std::string StartedJson(const std::map<std::string, StartedTotals>& programs);

// A JSON object's text.
std::string FormatLastWords(const LastWords& words, bool with_threads);
// A short version that always fits; async-signal-safe. Returns its size.
size_t FormatShortLastWords(const ProgramEnd& end, std::string_view stop_reason, const StepMarks& steps, char* json,
                            size_t capacity);

}  // namespace torchtrace

#endif  // TORCHTRACE_TRACER_RECORD_LAST_WORDS_H_
