// Many lists of rows that grow in parallel and are read one after the other. Memory holds at most one chunk per list,
// an unnamed file the rest.
//
//   RowLists<Row> rows("out");
//   const uint64_t place = rows.Append(list, row);
//   rows.Set(list, place, row);
//   rows.Read(list, [](const Row& row) { ...; return absl::OkStatus(); });
//
// Not thread-safe.

#ifndef TORCHTRACE_SERIALIZE_EXPORT_ROW_LISTS_H_
#define TORCHTRACE_SERIALIZE_EXPORT_ROW_LISTS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/status/status.h"

namespace torchtrace {

// An unnamed file, made in a folder at the first write. It disappears with its owner, even if the process is killed.
class NamelessFile {
 public:
  explicit NamelessFile(std::string folder) : folder_(std::move(folder)) {}
  ~NamelessFile();
  NamelessFile(const NamelessFile&) = delete;
  NamelessFile& operator=(const NamelessFile&) = delete;

  uint64_t size() const { return size_; }
  // Appends at size(), or overwrites below it.
  absl::Status Write(const void* data, size_t bytes, uint64_t offset);
  absl::Status Read(void* data, size_t bytes, uint64_t offset) const;

 private:
  absl::Status Make();

  const std::string folder_;
  int fd_ = -1;
  uint64_t size_ = 0;
};

template <typename Row>
class RowLists {
  static_assert(std::is_trivially_copyable_v<Row>);

 public:
  // The folder in which the file is made.
  explicit RowLists(std::string folder) : file_(std::move(folder)) {}

  // Returns the new list's number, from 0.
  size_t AddList() {
    lists_.emplace_back();
    return lists_.size() - 1;
  }
  uint64_t size(size_t list) const { return lists_[list].chunks.size() * kChunkRows + lists_[list].last.size(); }

  // The row's place is size(list) before the call.
  absl::Status Append(size_t list, const Row& row) {
    List& to = lists_[list];
    if (to.last.size() == kChunkRows) {
      to.chunks.push_back(file_.size());
      if (absl::Status s = file_.Write(to.last.data(), kChunkRows * sizeof(Row), file_.size()); !s.ok()) return s;
      to.last.clear();
    }
    to.last.push_back(row);
    return absl::OkStatus();
  }

  // Replaces the row at `place`.
  absl::Status Set(size_t list, uint64_t place, const Row& row) {
    List& to = lists_[list];
    const uint64_t chunk = place / kChunkRows;
    if (chunk == to.chunks.size()) {
      to.last[place % kChunkRows] = row;
      return absl::OkStatus();
    }
    return file_.Write(&row, sizeof row, to.chunks[chunk] + place % kChunkRows * sizeof(Row));
  }

  // Visits the rows by place. An error of the visitor ends the reading and is returned.
  absl::Status Read(size_t list, const std::function<absl::Status(const Row& row)>& visitor) const {
    const List& from = lists_[list];
    std::vector<Row> rows(kChunkRows);
    for (const uint64_t chunk : from.chunks) {
      if (absl::Status s = file_.Read(rows.data(), kChunkRows * sizeof(Row), chunk); !s.ok()) return s;
      for (const Row& row : rows) {
        if (absl::Status s = visitor(row); !s.ok()) return s;
      }
    }
    for (const Row& row : from.last) {
      if (absl::Status s = visitor(row); !s.ok()) return s;
    }
    return absl::OkStatus();
  }

 private:
  static constexpr size_t kChunkRows = 128;

  struct List {
    std::vector<uint64_t> chunks;  // their offsets in the file, in order
    std::vector<Row> last;         // at most a chunk; empty only if the list is
  };

  NamelessFile file_;
  std::vector<List> lists_;
};

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_EXPORT_ROW_LISTS_H_
