// Names in a trace's folder log/, which holds a log for each process.

#ifndef TORCHTRACE_SERIALIZE_BASE_LOG_FOLDER_H_
#define TORCHTRACE_SERIALIZE_BASE_LOG_FOLDER_H_

namespace torchtrace {

inline constexpr char kLogSuffix[] = ".ttlog";
// Of a log that has not begun: its process is about to write its first metadata, or was killed.
inline constexpr char kUnfinishedLogSuffix[] = ".ttlog.new";

// What the run's processes started and could not follow, one line each: the reason, a tab, the file or command.
inline constexpr char kNotFollowedName[] = ".not-followed";

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_BASE_LOG_FOLDER_H_
