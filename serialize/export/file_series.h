// A text that goes into one file after the other, none larger than asked for: how they are named, and that all of them
// are there or none.
//
//   absl::StatusOr<FileNames> names = FileNames::Parse("calls_%Y-%m-%d_{rank}", now_ns);
//   FileSeries files("out", *names, {.suffix = ".json"});
//   files.Begin({.rank = 3});  // out/calls_2026-11-24_3.json, then ..._3-2.json, ..._3-3.json
//   files.Append(text);
//   files.Commit();

#ifndef TORCHTRACE_SERIALIZE_EXPORT_FILE_SERIES_H_
#define TORCHTRACE_SERIALIZE_EXPORT_FILE_SERIES_H_

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "serialize/base/files.h"

namespace torchtrace {

// `128MB`: a whole number of KB, MB or GB, powers of 1024, in bytes. InvalidArgument for all else, for none and for
// more than there is.
absl::StatusOr<uint64_t> ParseFileSize(std::string_view text);

// What a file's name may tell of the calls in it.
struct FileFacts {
  int64_t pid = -1;  // -1: not known, or of several processes
  int64_t rank = -1;
};

// The names of a series' files, without folder and suffix.
class FileNames {
 public:
  // "timestamp", "datetime" or "serial", or a pattern: %Y %m %d %H %M %S %j %y %% are of `now_ns` since 1970 in local
  // time, {timestamp} is that number itself, {index} the number of the file from 1, {pid} and {rank} are of the traced
  // process. Two braces stand for one. InvalidArgument names what is wrong and what there is.
  static absl::StatusOr<FileNames> Parse(std::string_view spec, int64_t now_ns);
  // What Parse takes that is no pattern.
  static std::vector<std::string> Specs();
  // This name, and no pattern.
  static FileNames Literal(std::string_view name);

  // Where the pattern has no {index}, files from the second on end in -2, -3.
  std::string Name(const FileFacts& facts, uint64_t index) const;
  // The same for all facts that have the same names: what may stand in one file.
  std::string Key(const FileFacts& facts) const { return Expand(facts, ""); }

 private:
  enum class Part : uint8_t { kText, kIndex, kPid, kRank };
  struct Piece {
    Part part;
    std::string text;
  };

  void AddText(std::string_view text);
  std::string Expand(const FileFacts& facts, const std::string& index) const;

  std::vector<Piece> pieces_;
  bool has_index_ = false;
};

// What a text is written into, file by file. Not thread-safe.
class TextSeries {
 public:
  virtual ~TextSeries() = default;

  // What follows is of the next file.
  virtual absl::Status Begin(const FileFacts& facts) = 0;
  virtual void Append(std::string_view text) = 0;
  // Of a file; what is larger by itself than that has a file of its own.
  virtual uint64_t max_bytes() const { return UINT64_MAX; }
};

class FileSeries final : public TextSeries {
 public:
  struct Options {
    std::string suffix = {};
    uint64_t max_bytes = UINT64_MAX;
    bool force = false;                              // replace files that exist
    const char* force_text = "--force replaces it";  // what the error for one that exists ends in
  };
  // `folder` is made where it isn't there, and its parents.
  FileSeries(std::string folder, FileNames names, Options options);
  ~FileSeries() override;

  // Makes the folder, which Begin does else. AlreadyExists where something else has its name.
  absl::Status MakeFolder();
  // AlreadyExists for a file that is there, unless force.
  absl::Status Begin(const FileFacts& facts) override;
  void Append(std::string_view text) override { files_.back()->Append(text); }
  uint64_t max_bytes() const override { return options_.max_bytes; }

  // Gives all files their names; before that nothing is to be seen, and after an error nothing stays but what had got
  // its name already.
  absl::Status Commit();

  // In the order in which they were begun.
  std::vector<std::string> paths() const;

 private:
  const std::string folder_;
  const FileNames names_;
  const Options options_;
  std::vector<std::unique_ptr<Unfinished>> folders_;  // that were made, the outer ones first
  std::vector<std::unique_ptr<OutputFile>> files_;
  std::map<std::string, uint64_t> count_;  // of files, by key of their names
  std::set<std::string> taken_;
};

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_EXPORT_FILE_SERIES_H_
