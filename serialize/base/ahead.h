// Ahead makes the items of a sequence on other threads, some ahead of the one that uses them in order.

#ifndef TORCHTRACE_SERIALIZE_BASE_AHEAD_H_
#define TORCHTRACE_SERIALIZE_BASE_AHEAD_H_

#include <condition_variable>
#include <cstddef>
#include <functional>
#include <map>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace torchtrace {

//   Ahead<Frame> frames(count, threads, [&](size_t i) { return ReadFrame(i); });
//   for (size_t i = 0; i < count; ++i) Use(frames.Next());
template <typename T>
class Ahead {
 public:
  // `make(0)` to `make(count - 1)` are called, at once on `threads` threads; at most so many items and one more wait
  // for their use. Without threads, or where none can be started, Next makes the item.
  Ahead(size_t count, size_t threads, std::function<T(size_t)> make)
      : count_(count), most_ahead_(threads), make_(std::move(make)) {
    for (size_t i = 0; i < threads && i < count; ++i) {
      try {
        threads_.emplace_back([this] { Work(); });
      } catch (const std::system_error&) {
        break;
      }
    }
  }
  ~Ahead() {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      begun_ = count_;
    }
    room_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }
  Ahead(const Ahead&) = delete;
  Ahead& operator=(const Ahead&) = delete;

  // Call it at most `count` times.
  T Next() {
    if (threads_.empty()) return make_(used_++);
    std::unique_lock<std::mutex> lock(mutex_);
    made_.wait(lock, [this] { return items_.count(used_) != 0; });
    T item = std::move(items_.extract(used_++).mapped());
    lock.unlock();
    room_.notify_one();
    return item;
  }

 private:
  void Work() {
    std::unique_lock<std::mutex> lock(mutex_);
    for (;;) {
      room_.wait(lock, [this] { return begun_ >= count_ || begun_ <= used_ + most_ahead_; });
      if (begun_ >= count_) return;
      const size_t number = begun_++;
      lock.unlock();
      T item = make_(number);
      lock.lock();
      items_.emplace(number, std::move(item));
      made_.notify_one();
    }
  }

  const size_t count_;
  const size_t most_ahead_;  // of the item that is used next
  const std::function<T(size_t)> make_;
  std::mutex mutex_;
  std::condition_variable made_;
  std::condition_variable room_;
  size_t begun_ = 0;
  size_t used_ = 0;
  std::map<size_t, T> items_;
  std::vector<std::thread> threads_;
};

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_BASE_AHEAD_H_
