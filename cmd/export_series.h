// `torchtrace export` into several files, or as one text to standard output.

#ifndef TORCHTRACE_CMD_EXPORT_SERIES_H_
#define TORCHTRACE_CMD_EXPORT_SERIES_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "serialize/export/exporter.h"
#include "serialize/export/exports.h"

namespace torchtrace {

class App;

// --format, --max-file-size and --file-name-spec, and what -o means with them.
class SeriesOptions {
 public:
  // Must outlive the parsing.
  void AddTo(App* app);
  // `otherwise`, unless the user gave the format by --format: then an error that says where it belongs.
  absl::Status CheckFormat(const absl::Status& otherwise) const;
  // After parsing, for formats of a single file: an error if any of the options is given.
  absl::Status CheckUnused() const;

  // Writes the traces' calls into the file or folder `output`, or to standard output. Returns
  // the files' paths, none for standard output; errors are printed, and `exit_code` is set to the verb's.
  std::vector<std::string> Write(const WritesSeries& series, const std::vector<LabelledTrace>& traces,
                                 const CallSelection& selection, const std::string& output, bool force,
                                 int* exit_code) const;

 private:
  std::string format_;
  std::string max_file_size_ = "128MB";
  std::string file_name_spec_ = "timestamp";
  App* app_ = nullptr;
};

}  // namespace torchtrace

#endif  // TORCHTRACE_CMD_EXPORT_SERIES_H_
