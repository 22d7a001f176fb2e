// How far a long verb has come: one line on standard error, when that is a
// terminal and the work has taken a second, and gone when the work is done. Costs
// next to nothing per Add. Not thread-safe.
//
//   Progress progress("merging", Progress::kBytes, total);
//   ... progress.Add(bytes); ...

#ifndef TORCHTRACE_CMD_PROGRESS_H_
#define TORCHTRACE_CMD_PROGRESS_H_

#include <cstdint>
#include <string>

namespace torchtrace {

class Progress {
 public:
  enum Unit : uint8_t { kBytes, kCalls, kInputs };

  // `total` is 0 when it isn't known.
  Progress(std::string what, Unit unit, uint64_t total);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void Add(uint64_t amount) {
    done_ += amount;
    if (--until_look_ == 0) Look();
  }
  // Takes the line away, for something else to be said. It comes back by itself.
  void Hide();

 private:
  void Look();

  const std::string what_;
  const Unit unit_;
  const uint64_t total_;
  const bool wanted_;
  const int64_t started_ns_;
  int64_t looked_ns_;
  int64_t drawn_ns_ = 0;
  bool visible_ = false;
  uint64_t done_ = 0;
  uint64_t stride_ = 1;  // Adds from one look at the clock to the next
  uint64_t until_look_ = 1;
};

// The line: `merging: 45% (1.2 of 2.7 GB), 12 s left`.
std::string FormatProgress(const std::string& what, Progress::Unit unit, uint64_t done, uint64_t total,
                           int64_t elapsed_ns);

}  // namespace torchtrace

#endif  // TORCHTRACE_CMD_PROGRESS_H_
