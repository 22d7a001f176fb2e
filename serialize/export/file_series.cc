#include "serialize/export/file_series.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "serialize/base/text.h"

namespace torchtrace {

namespace fs = std::filesystem;

absl::StatusOr<uint64_t> ParseFileSize(std::string_view text) {
  const absl::StatusOr<uint64_t> size = ParseSize(text);
  const bool has_unit = !text.empty() && !absl::ascii_isdigit(static_cast<unsigned char>(text.back()));
  if (size.ok() && *size > 0 && has_unit) return size;
  return absl::InvalidArgumentError(
      absl::StrCat("'", std::string(text), "' is not a size of a file: expected a number and KB, MB or GB, as 128MB"));
}

namespace {

constexpr std::string_view kTimeLetters = "YmdHMSjy%";

struct NamedSpec {
  std::string_view name;
  std::string_view pattern;
};
constexpr NamedSpec kNamedSpecs[] = {
    {"timestamp", "timing_{timestamp}"},
    {"datetime", "timing_%Y-%m-%d_%H-%M-%S"},
    {"serial", "timing_{index}"},
};

absl::Status BadPattern(std::string_view spec, std::string_view what) {
  return absl::InvalidArgumentError(
      absl::StrCat("the files' name '", std::string(spec), "' ", std::string(what),
                   "; there are timestamp, datetime, serial, and patterns of %Y %m %d %H %M %S %j %y, {timestamp}, "
                   "{index}, {pid} and {rank}"));
}

std::string FormatTime(char letter, int64_t now_ns) {
  const time_t seconds = now_ns / 1'000'000'000;
  tm local = {};
  localtime_r(&seconds, &local);
  char text[16];
  const char format[] = {'%', letter, '\0'};
  return std::string(text, strftime(text, sizeof text, format, &local));
}

std::string Number(int64_t number) { return number < 0 ? "none" : absl::StrCat(number); }

}  // namespace

void FileNames::AddText(std::string_view text) {
  if (pieces_.empty() || pieces_.back().part != Part::kText) pieces_.push_back({Part::kText, ""});
  pieces_.back().text += text;
}

std::vector<std::string> FileNames::Specs() {
  std::vector<std::string> specs;
  for (const NamedSpec& named : kNamedSpecs) specs.emplace_back(named.name);
  return specs;
}

absl::StatusOr<FileNames> FileNames::Parse(std::string_view spec, int64_t now_ns) {
  std::string_view rest = spec;
  for (const NamedSpec& named : kNamedSpecs) {
    if (spec == named.name) rest = named.pattern;
  }
  if (rest.empty()) return BadPattern(spec, "is empty");
  FileNames names;
  while (!rest.empty()) {
    const size_t special = std::min(rest.find_first_of("%{}"), rest.size());
    if (special > 0) {
      names.AddText(rest.substr(0, special));
      rest.remove_prefix(special);
      continue;
    }
    if (rest.substr(0, 2) == "{{" || rest.substr(0, 2) == "}}") {
      names.AddText(rest.substr(0, 1));
      rest.remove_prefix(2);
    } else if (rest[0] == '%') {
      if (rest.size() < 2 || kTimeLetters.find(rest[1]) == std::string_view::npos) {
        return BadPattern(spec, absl::StrCat("has an unknown '", std::string(rest.substr(0, 2)), "'"));
      }
      names.AddText(FormatTime(rest[1], now_ns));
      rest.remove_prefix(2);
    } else {
      const size_t end = rest.find('}');
      const std::string_view field = rest.substr(0, end == std::string_view::npos ? end : end + 1);
      if (field == "{timestamp}") {
        names.AddText(absl::StrCat(now_ns));
      } else if (field == "{index}") {
        names.pieces_.push_back({Part::kIndex, ""});
        names.has_index_ = true;
      } else if (field == "{pid}") {
        names.pieces_.push_back({Part::kPid, ""});
      } else if (field == "{rank}") {
        names.pieces_.push_back({Part::kRank, ""});
      } else {
        return BadPattern(spec, absl::StrCat("has an unknown '", std::string(field), "'"));
      }
      rest.remove_prefix(field.size());
    }
  }
  for (const Piece& piece : names.pieces_) {
    if (piece.text.find('/') != std::string::npos) return BadPattern(spec, "has a slash in it");
    if (piece.text.find('\0') != std::string::npos) return BadPattern(spec, "has a null character in it");
  }
  return names;
}

FileNames FileNames::Literal(std::string_view name) {
  FileNames names;
  names.AddText(name);
  return names;
}

std::string FileNames::Expand(const FileFacts& facts, const std::string& index) const {
  std::string name;
  for (const Piece& piece : pieces_) {
    switch (piece.part) {
      case Part::kText:
        name += piece.text;
        break;
      case Part::kIndex:
        name += index;
        break;
      case Part::kPid:
        name += Number(facts.pid);
        break;
      case Part::kRank:
        name += Number(facts.rank);
        break;
    }
  }
  return name;
}

std::string FileNames::Name(const FileFacts& facts, uint64_t index) const {
  std::string name = Expand(facts, absl::StrCat(index));
  if (!has_index_ && index > 1) absl::StrAppend(&name, "-", index);
  return name;
}

FileSeries::FileSeries(std::string folder, FileNames names, Options options)
    : folder_(std::move(folder)), names_(std::move(names)), options_(std::move(options)) {}

FileSeries::~FileSeries() {
  files_.clear();
  while (!folders_.empty()) folders_.pop_back();
}

absl::Status FileSeries::MakeFolder() {
  fs::path path;
  for (const fs::path& part : fs::path(folder_)) {
    path /= part;
    std::error_code error;
    if (fs::is_directory(path, error)) continue;
    auto made = std::make_unique<Unfinished>(path.string(), Unfinished::kFile);
    if (mkdir(path.c_str(), 0777) != 0) {
      const int failure = errno;
      made->Complete();  // it isn't ours to remove
      if (failure != EEXIST) return FileError(absl::StrCat("cannot make the folder ", path.string()), failure);
      if (fs::is_directory(path, error)) continue;
      return absl::AlreadyExistsError(absl::StrCat(path.string(), " is not a folder"));
    }
    folders_.push_back(std::move(made));
  }
  return absl::OkStatus();
}

absl::Status FileSeries::Begin(const FileFacts& facts) {
  if (!files_.empty()) {
    if (absl::Status s = files_.back()->Finish(); !s.ok()) return s;
  } else if (absl::Status s = MakeFolder(); !s.ok()) {
    return s;
  }
  const uint64_t index = ++count_[names_.Key(facts)];
  const std::string name = names_.Name(facts, index) + options_.suffix;
  const std::string path = folder_ == "." ? name : (fs::path(folder_) / name).string();
  if (!taken_.insert(path).second) {
    return absl::InvalidArgumentError(absl::StrCat("two files would have the name ", path, "; give another pattern"));
  }
  std::error_code error;
  if (fs::is_directory(path, error)) return absl::AlreadyExistsError(absl::StrCat(path, " is a folder"));
  if (!options_.force && fs::is_regular_file(path, error)) {
    return absl::AlreadyExistsError(absl::StrCat(path, " exists; ", options_.force_text));
  }
  absl::StatusOr<std::unique_ptr<OutputFile>> file = OutputFile::Create(path);
  if (!file.ok()) return file.status();
  files_.push_back(*std::move(file));
  return absl::OkStatus();
}

absl::Status FileSeries::Commit() {
  for (const auto& file : files_) {
    if (absl::Status s = file->Finish(); !s.ok()) return s;
  }
  const auto lock = Unfinished::Lock();
  for (const auto& file : files_) {
    if (absl::Status s = file->Commit(); !s.ok()) return s;
  }
  for (const auto& folder : folders_) folder->Complete();
  return absl::OkStatus();
}

std::vector<std::string> FileSeries::paths() const {
  std::vector<std::string> paths;
  paths.reserve(files_.size());
  for (const auto& file : files_) paths.push_back(file->path());
  return paths;
}

}  // namespace torchtrace
