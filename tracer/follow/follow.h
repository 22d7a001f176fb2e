// Following what a traced program starts. The executable and the preloaded library define the functions by which
// programs start others; they precede the C library's for everything that the process loads. While the process follows,
// what it starts gets two more variables, behind all others:
//
//   LD_PRELOAD=libtorchtrace_preload.so[:the program's own]   the dynamic linker takes the last one
//   TORCHTRACE_FOLLOW=FOLDER/log/.follow-RUN                  the task
//
// In every program that starts with them the library's first action, before any other code reads the environment, is to
// take them off again, out of /proc/PID/environ too. The program hands them on to what it starts in turn; a Python runs
// with the runtime (cmd/run/preload.cc).
//
// The functions are found by dlsym; if another executable runs the program (`import torchtrace` under python) they
// don't exist.

#ifndef TORCHTRACE_TRACER_FOLLOW_FOLLOW_H_
#define TORCHTRACE_TRACER_FOLLOW_FOLLOW_H_

// From now on this process follows what it starts, with this task (its path) and this library; null: with those that it
// inherited. False: the names are too long, or LD_PRELOAD can't express the library's.
extern "C" bool torchtrace_follow(const char* task, const char* library);

// Notes that this process isn't recorded, unless `why` is null, and what forked processes could not note, as they had
// become another user's. Call it at the end.
extern "C" void torchtrace_note_not_followed(const char* command, const char* why);

// Whether this process or a fork of it has started one with the task, or is about to become one.
extern "C" bool torchtrace_task_handed_on();
extern "C" void torchtrace_hand_on_task();

// `exits` is called, perhaps in a signal handler or in a forked or vforked child, when C code ends the
// process by _exit.
extern "C" void torchtrace_watch_exit(void (*exits)(int status));

namespace torchtrace {

inline constexpr char kWatchExitName[] = "torchtrace_watch_exit";
using WatchExitFunction = decltype(&torchtrace_watch_exit);

inline constexpr char kNoteNotFollowedName[] = "torchtrace_note_not_followed";
using NoteNotFollowedFunction = decltype(&torchtrace_note_not_followed);

inline constexpr char kHandOnTaskName[] = "torchtrace_hand_on_task";
using HandOnTaskFunction = decltype(&torchtrace_hand_on_task);

inline constexpr char kTaskHandedOnName[] = "torchtrace_task_handed_on";
using TaskHandedOnFunction = decltype(&torchtrace_task_handed_on);

inline constexpr char kFollowName[] = "torchtrace_follow";
using FollowFunction = decltype(&torchtrace_follow);

inline constexpr char kPreloadLibraries[] = "LD_PRELOAD";
inline constexpr char kFollowTask[] = "TORCHTRACE_FOLLOW";

// The task that this process started with; null: none.
const char* InheritedTask();
// What this process follows; null: nothing.
const char* FollowedTask();

// Begins to follow: torchtrace_follow without what forked processes note.
bool BeginToFollow(const char* task, const char* library);

// Appends a line to the list beside the task (serialize/base/log_folder.h). Async-signal-safe.
void NoteNotFollowed(const char* task, const char* file, const char* why);

}  // namespace torchtrace

#endif  // TORCHTRACE_TRACER_FOLLOW_FOLLOW_H_
