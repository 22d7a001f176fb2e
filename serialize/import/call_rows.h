// What the readers of JSON lines and CSV share: each row is a map with the member names of `dump` and `export`.

#ifndef TORCHTRACE_SERIALIZE_IMPORT_CALL_ROWS_H_
#define TORCHTRACE_SERIALIZE_IMPORT_CALL_ROWS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "serialize/forms/plain_form.h"
#include "serialize/import/imported_trace.h"
#include "serialize/import/input_file.h"

namespace torchtrace {

// Where calls were made, as far as the row contains it.
struct Origin {
  std::string process;  // main-1234
  std::string trace;
  std::string host;
  int64_t pid = -1;
  int64_t rank = -1;

  friend bool operator==(const Origin&, const Origin&) = default;
  template <typename H>
  friend H AbslHashValue(H h, const Origin& origin) {
    return H::combine(std::move(h), origin.process, origin.trace, origin.host, origin.pid, origin.rank);
  }
};

// What a row contains about a call besides its configuration.
struct CallFacts {
  Origin origin;
  uint32_t thread = 0;
  uint32_t depth = 0;
  int64_t time_ns = kUnknownTime;
  int64_t duration_ns = -1;  // -1: unknown
  CallOutcome outcome = CallOutcome::kReturned;
  bool unfinished = false;  // a later row has its end
  std::string exception;
  uint64_t number = UINT64_MAX;
};

// Leaves `number` as it is when there is no such member.
absl::Status ReadCallNumber(const Plain& map, const char* member, int64_t lowest, int64_t highest, int64_t* number);

// Whether the row is of a configuration, not of a call.
bool TellsCounts(const Plain& map);

// Reads how a call ended.
absl::Status ReadCallEnd(const Plain& map, CallFacts* facts);
// Reads all of CallFacts.
absl::Status ReadCallFacts(const Plain& map, CallFacts* facts);

// The call of a row whose `config` is in the text form. Valid until the next Add to the cache.
absl::StatusOr<const ParsedCall*> ParseCallWithText(const Plain& map, const std::string& text, IdentityCache* cache);

// The processes that rows name, numbered in order of appearance.
class CallOrigins {
 public:
  uint32_t ProcessOf(const Origin& origin);
  const std::vector<ImportedProcess>& processes() const { return processes_; }

 private:
  std::vector<ImportedProcess> processes_{1};
  absl::flat_hash_map<Origin, uint32_t> numbers_;
};

// A file of rows; subclasses read a row.
class RowSource : public CallSource {
 public:
  explicit RowSource(std::unique_ptr<InputFile> file) : file_(std::move(file)) {}

  const std::vector<ImportedProcess>& processes() const override { return origins_.processes(); }
  std::vector<std::string> notes() const override;

 protected:
  InputFile* file() { return file_.get(); }
  // `status` prefixed with the file and the line.
  absl::Status At(const LineReader& lines, const absl::Status& status) const;
  absl::Status Visit(const Visitor& visit, const ParsedCall& call, const CallFacts& facts);

 private:
  const std::unique_ptr<InputFile> file_;
  CallOrigins origins_;
  bool times_ = false;
};

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_IMPORT_CALL_ROWS_H_
