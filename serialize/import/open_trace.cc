#include "serialize/import/open_trace.h"

#include <sys/stat.h>

#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "serialize/base/command_name.h"
#include "serialize/import/imported_trace.h"
#include "serialize/import/importer.h"
#include "serialize/import/input_file.h"
#include "serialize/log/log_format.h"
#include "serialize/log/log_trace.h"

namespace torchtrace {
namespace {

// Ordered by how much they contain.
constexpr const char* kFolderFiles[] = {"api_trace.yaml", "api_trace.txt", "api_configs.yaml", "api_configs.txt"};

// Files of a trace's folder without calls.
struct NoCalls {
  std::string_view file_name;
  const char* holds;
};
constexpr NoCalls kNoCalls[] = {{"api_statistics.yaml", "counts"},
                                {"api_statistics.txt", "counts"},
                                {"api_apis.txt", "names of APIs"},
                                {"api_stacks.yaml", "stacks of APIs"},
                                {"run.json", "what is known of a run"}};

struct Packing {
  std::string_view magic;
  const char* name;
  const char* unpack;
};
constexpr Packing kPackings[] = {{"\x28\xb5\x2f\xfd", "zstd", "zstd -dc"},
                                 {"\xfd"
                                  "7zXZ",
                                  "xz", "xz -dc"}};

absl::Status UnknownFormat(const InputFile& file, std::string_view head) {
  for (const Packing& packing : kPackings) {
    if (!head.starts_with(packing.magic)) continue;
    return absl::InvalidArgumentError(absl::StrCat(file.name(), " is compressed by ", packing.name,
                                                   "; unpack it first: ", packing.unpack, " ",
                                                   file.is_copy() ? "FILE" : file.name(), " | torchtrace ... -"));
  }
  std::string text = absl::StrCat(file.name(), " is not a trace; expected a torchtrace log");
  const std::vector<const Importer*>& importers = Importers();
  for (size_t i = 0; i < importers.size(); ++i) {
    absl::StrAppend(&text, i + 1 == importers.size() ? " or " : ", ", importers[i]->expected);
  }
  return absl::InvalidArgumentError(text);
}

absl::StatusOr<std::unique_ptr<Trace>> OpenLog(InputFile* file, ReadingObserver* observer) {
  absl::StatusOr<std::unique_ptr<LogFile>> log = file->TakeFile();
  return log.ok() ? OpenLogs(*std::move(log), observer) : log.status();
}

absl::StatusOr<std::unique_ptr<Trace>> OpenFile(const std::string& path, ReadingObserver* observer) {
  absl::StatusOr<std::unique_ptr<InputFile>> opened = InputFile::Open(path, observer);
  if (!opened.ok()) return opened.status();
  std::unique_ptr<InputFile> file = *std::move(opened);
  const std::string bytes = file->Head(kFileHeadBytes);
  file->Rest();
  const FileHead head = {bytes, file->file_name()};
  if (head.bytes.starts_with(std::string_view(kLogMagic, sizeof kLogMagic)) || head.file_name.ends_with(".ttlog")) {
    return OpenLog(file.get(), observer);
  }
  if (!file->status().ok()) return file->status();
  if (bytes.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(file->name(), " is empty; expected a trace"));
  }
  for (const NoCalls& known : kNoCalls) {
    if (head.file_name != known.file_name) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(file->name(), " holds ", known.holds, ", not calls; name the folder that it is in"));
  }
  for (const Importer* const importer : Importers()) {
    if (!importer->sniff(head)) continue;
    const std::string name = file->name();
    const uint64_t file_bytes = file->bytes();
    absl::StatusOr<std::unique_ptr<CallSource>> source = importer->open(std::move(file));
    if (!source.ok()) return source.status();
    return std::make_unique<ImportedTrace>(name, file_bytes, *std::move(source));
  }
  const absl::Status unknown = UnknownFormat(*file, bytes);
  // A log with a damaged first page may still have readable frames; a newer version is reported as such.
  absl::StatusOr<std::unique_ptr<Trace>> log = OpenLog(file.get(), observer);
  if (log.ok() || absl::IsUnimplemented(log.status())) return log;
  return unknown;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Trace>> OpenTrace(const std::string& path, ReadingObserver* observer) {
  struct stat file;
  if (path == "-" || stat(path.c_str(), &file) != 0 || !S_ISDIR(file.st_mode)) return OpenFile(path, observer);
  absl::StatusOr<std::unique_ptr<Trace>> logs = OpenLogs(path, observer);
  if (logs.ok() || !absl::IsNotFound(logs.status())) return logs;
  for (const char* const name : kFolderFiles) {
    const std::string in_folder = absl::StrCat(path, path.ends_with('/') ? "" : "/", name);
    if (stat(in_folder.c_str(), &file) == 0 && S_ISREG(file.st_mode)) return OpenFile(in_folder, observer);
  }
  return absl::NotFoundError(absl::StrCat(std::string(logs.status().message()), ", or ", kFolderFiles[0], " or ",
                                          kFolderFiles[1], " in it; name a folder that ", CommandName(),
                                          " run -o wrote, or a file"));
}

std::string TraceFormat(const Trace& trace) {
  const auto* const imported = dynamic_cast<const ImportedTrace*>(&trace);
  return imported == nullptr ? "torchtrace log" : imported->source().format();
}

bool IsImported(const Trace& trace) { return dynamic_cast<const ImportedTrace*>(&trace) != nullptr; }

std::vector<std::string> TraceNotes(const Trace& trace) {
  const auto* const imported = dynamic_cast<const ImportedTrace*>(&trace);
  return imported == nullptr ? std::vector<std::string>() : imported->source().notes();
}

}  // namespace torchtrace
