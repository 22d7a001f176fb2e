// Opens traces for a verb, and shows how far reading them has come (progress.h).
//
//   ReadingProgress progress(quiet, paths.size());
//   absl::StatusOr<std::unique_ptr<Trace>> trace = progress.Open(path);

#ifndef TORCHTRACE_CMD_READING_READING_PROGRESS_H_
#define TORCHTRACE_CMD_READING_READING_PROGRESS_H_

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cmd/cli/progress.h"
#include "serialize/trace/reading_observer.h"
#include "serialize/trace/trace.h"

namespace torchtrace {

// Outlives the traces.
class ReadingProgress {
 public:
  // `traces`: how many there will be. `what` is done with them.
  explicit ReadingProgress(bool quiet, size_t traces = 1, std::string what = "reading");
  ~ReadingProgress();

  // OpenTrace; standard input once.
  absl::StatusOr<std::unique_ptr<Trace>> Open(const std::string& path);
  // For a trace that is opened in another way.
  ReadingObserver* NextObserver();

 private:
  class Observer;

  Progress progress_;
  const size_t traces_;
  const std::string what_;
  bool standard_input_was_read_ = false;
  std::vector<std::unique_ptr<Observer>> observers_;
};

}  // namespace torchtrace

#endif  // TORCHTRACE_CMD_READING_READING_PROGRESS_H_
