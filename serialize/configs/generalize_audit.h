// The audit of `dedup --generalize`: a file that says of every configuration whether
// it was kept, what it stands for or what stands for it, and why (generalize.h).
// docs/DEDUP.md describes the columns.

#ifndef TORCHTRACE_SERIALIZE_CONFIGS_GENERALIZE_AUDIT_H_
#define TORCHTRACE_SERIALIZE_CONFIGS_GENERALIZE_AUDIT_H_

#include <cstddef>
#include <cstdint>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "serialize/configs/dedup.h"
#include "serialize/configs/generalize.h"

namespace torchtrace {

enum class AuditFormat : uint8_t { kJson, kJsonl, kCsv };

// By the file name's suffix (.json, .jsonl, .csv); InvalidArgument with the choices.
absl::StatusOr<AuditFormat> AuditFormatOf(std::string_view file_name);

class AuditWriter {
 public:
  // `configs`, which the entries count, and `out` must outlive it.
  AuditWriter(AuditFormat format, const std::vector<DedupConfig>* configs, std::ostream* out);

  // Aborted when `out` fails, as Finish.
  absl::Status Add(const GeneralizeEntry& entry);
  absl::Status Finish(const GeneralizeOptions& options, const GeneralizeResult& result);

 private:
  void AddJson(const GeneralizeEntry& entry);
  void AddCsv(const GeneralizeEntry& entry);
  const std::string& Line(size_t config) const { return (*configs_)[config].line; }
  absl::Status StreamStatus() const;

  const AuditFormat format_;
  const std::vector<DedupConfig>* const configs_;
  std::ostream* const out_;
  size_t entries_ = 0;
};

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_CONFIGS_GENERALIZE_AUDIT_H_
