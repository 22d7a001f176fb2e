#include "cmd/reading/reading_progress.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "serialize/import/open_trace.h"

namespace torchtrace {

class ReadingProgress::Observer : public ReadingObserver {
 public:
  Observer(std::string what, Progress* progress) : what_(std::move(what)), progress_(progress) {}

  void OnRead(Unit unit, uint64_t done, uint64_t total) override {
    progress_->Show(what_, unit == kBytes ? Progress::kBytes : Progress::kCalls, done, total);
  }

 private:
  const std::string what_;
  Progress* const progress_;
};

ReadingProgress::ReadingProgress(bool quiet, size_t traces, std::string what)
    : progress_(quiet), traces_(traces), what_(std::move(what)) {}

ReadingProgress::~ReadingProgress() = default;

absl::StatusOr<std::unique_ptr<Trace>> ReadingProgress::Open(const std::string& path) {
  if (path == "-" && std::exchange(standard_input_was_read_, true)) {
    return absl::InvalidArgumentError("standard input (-) was given twice, and can be read only once");
  }
  return OpenTrace(path, NextObserver());
}

ReadingObserver* ReadingProgress::NextObserver() {
  const size_t number = observers_.size() + 1;
  std::string what = traces_ > 1 ? absl::StrCat(what_, " trace ", number, " of ", traces_) : what_;
  return observers_.emplace_back(std::make_unique<Observer>(std::move(what), &progress_)).get();
}

}  // namespace torchtrace
