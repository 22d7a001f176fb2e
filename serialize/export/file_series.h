// A text that is split into files of limited size: their names, and their commit, all or none.
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

// `128MB`: a whole number of KB, MB or GB, powers of 1024, in bytes. InvalidArgument for anything else, for zero and
// for overflow.
absl::StatusOr<uint64_t> ParseFileSize(std::string_view text);

// Facts about the calls in a file, for its name.
struct FileFacts {
  int64_t pid = -1;  // -1: unknown, or several processes
  int64_t rank = -1;
};

// The names of a series' files, without folder and suffix.
class FileNames {
 public:
  // "timestamp", "datetime" or "serial", or a pattern: %Y %m %d %H %M %S %j %y %% format `now_ns` since 1970 in local
  // time, {timestamp} is that number itself, {index} the number of the file from 1, {pid} and {rank} are the traced
  // process's. A doubled brace is a literal one. InvalidArgument names the mistake and the choices.
  static absl::StatusOr<FileNames> Parse(std::string_view spec, int64_t now_ns);
  // The keywords that Parse accepts besides patterns.
  static std::vector<std::string> Specs();
  // Takes the name as it is, not as a pattern.
  static FileNames Literal(std::string_view name);

  // Without {index} in the pattern, files from the second on end in -2, -3.
  std::string Name(const FileFacts& facts, uint64_t index) const;
  // Equal for facts that give the same names, whose calls can share a file.
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

// Where a text is written, file by file. Not thread-safe.
class TextSeries {
 public:
  virtual ~TextSeries() = default;

  // Starts the next file.
  virtual absl::Status Begin(const FileFacts& facts) = 0;
  virtual void Append(std::string_view text) = 0;
  // The limit for a file; a single item above it gets its own file.
  virtual uint64_t max_bytes() const { return UINT64_MAX; }
};

class FileSeries final : public TextSeries {
 public:
  struct Options {
    std::string suffix = {};
    uint64_t max_bytes = UINT64_MAX;
    bool force = false;                              // replace files that exist
    const char* force_text = "--force replaces it";  // the end of the error for a file that exists
  };
  // Makes `folder` and its parents as needed.
  FileSeries(std::string folder, FileNames names, Options options);
  ~FileSeries() override;

  // Makes the folder, which Begin does otherwise. AlreadyExists when something else has its name.
  absl::Status MakeFolder();
  // AlreadyExists for an existing file, unless force.
  absl::Status Begin(const FileFacts& facts) override;
  void Append(std::string_view text) override { files_.back()->Append(text); }
  uint64_t max_bytes() const override { return options_.max_bytes; }

  // Gives all files their names; they are invisible before. After an error only those that were already named stay.
  absl::Status Commit();

  // In the order of Begin.
  std::vector<std::string> paths() const;

 private:
  const std::string folder_;
  const FileNames names_;
  const Options options_;
  std::vector<std::unique_ptr<Unfinished>> folders_;  // that it made, outer ones first
  std::vector<std::unique_ptr<OutputFile>> files_;
  std::map<std::string, uint64_t> count_;  // of files, by FileNames::Key
  std::set<std::string> taken_;
};

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_EXPORT_FILE_SERIES_H_
