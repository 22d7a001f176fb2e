// The metadata of a run in its log.

#ifndef TORCHTRACE_TRACER_LAUNCH_RUN_METADATA_H_
#define TORCHTRACE_TRACER_LAUNCH_RUN_METADATA_H_

#include <optional>
#include <string>
#include <vector>

#include "tracer/record/recording_options.h"

namespace torchtrace {

// The version of torchtrace.
inline constexpr char kVersion[] = "0.2.0";

// What is known of a run before it starts, as it is at the head of every log:
//
//   {"torchtrace": "0.2.0", "command": [...], "program": [...], "cwd": "/home/me",
//    "host": "box", "boot_id": "9c9b...", "python": {"executable": ..., "version": "3.11.7"},
//    "packages": {"torch": "2.13.0+cpu"}, "dialect": "torch", "levels": [1, 2],
//    "include": [], "exclude": [], "include_getters": false, "outermost": false, "api_list": [...],
//    "frames": "python", "frame_include": [...], "frame_exclude": [...], "frame_depth": 3,  (at level 3; if set)
//    "skip": 100, "duration_ns": 10000000000, "first": 3, "sample": 0.1, "max_calls": 1000, "steps": "10-12",
//    "max_steps": 3, "max_size": 1000000,  (those that are set)
//    "stacks": "first", "stack_format": "short",  (if stacks are recorded)
//    "recorded_by": "torchtrace run", "run": "8c1f...",  (if other processes join it)
//    "follow_only": [...],  (if only some do)
//    "environment": {"RANK": "0", ...}}
//
// Of the environment, it contains only variables that change what the framework does, or identify one of several
// processes.
struct RunMetadata {
  std::vector<std::string> command;  // as it was typed
  std::vector<std::string> program;  // its part that would be python's arguments
  std::string python_executable;
  std::string python_version;
  std::string package_version;         // of the dialect's package; empty: it isn't installed
  std::vector<const char*> variables;  // environment variables that the dialect's framework reads, by prefix
  const char* recorded_by = "torchtrace run";
  // What the self-test switched off, a sentence each; nullopt if it didn't run.
  std::optional<std::vector<std::string>> switched_off;
  std::string run;                       // the run's id, if other processes join it
  std::vector<std::string> follow_only;  // which of the programs that it starts are traced; empty: all
  std::string api_list;                  // what level 0 traces: a JSON list; empty: level 0 is off
};

// A JSON object's text; `options` as the user gave them. Bytes that aren't UTF-8 are replaced.
std::string FormatRunMetadata(const RunMetadata& metadata, const RecordingOptions& options);

// The member "environment", a JSON object's text.
std::string FormatEnvironment(const std::vector<const char*>& variables);

std::string HostName();  // of this machine

// The same, with only the variables that identify one of several processes, as they are now.
std::string FormatRankVariables();

}  // namespace torchtrace

#endif  // TORCHTRACE_TRACER_LAUNCH_RUN_METADATA_H_
