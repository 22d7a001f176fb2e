// Configs with what varies replaced by placeholders, and the proof that each stands for what it replaced.

#ifndef TORCHTRACE_SERIALIZE_CONFIGS_GENERALIZE_H_
#define TORCHTRACE_SERIALIZE_CONFIGS_GENERALIZE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <ostream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "serialize/configs/dedup.h"

namespace torchtrace {

// Generalizing keeps, of each family of configurations (family.h), a subset that
// covers what can matter to a kernel or a compiler. Of every number: zero, one,
// minus one, odd, and the largest of 2, 4, ... 128 that divides it; whether it is a
// power of two; negative; symbolic; int or float; the least and the greatest of the
// family, and one in each quarter between them on a log scale. Of every two sizes:
// equal or not. Of every two tensors: how they broadcast. Flags, dtypes, ranks and
// other structure tell families apart, so that all of them are kept.
//
// Each of these that some member has is a feature; a greedy set cover chooses members
// until every feature is there, then lets go of those that the others have made
// superfluous. Quarters are of the range, not of the ranks, for the result to
// have the same features: generalizing it again keeps it all. The choice depends on the
// configurations and the seed alone, not on their order.

inline constexpr uint64_t kDefaultFamilyBudget = 64;

struct GeneralizeOptions {
  uint64_t seed = 0;  // chooses among members that are equally good
  // At most so many members of each family; what covers most comes first. 0: no limit.
  uint64_t budget = kDefaultFamilyBudget;
};

// What became of one configuration, for the audit. Features that all members of
// the family have are not mentioned.
struct GeneralizeEntry {
  size_t config = 0;  // index into what was given
  bool kept = false;
  // Kept:
  std::vector<size_t> covers;        // dropped configs that it stands for
  std::vector<std::string> because;  // features that no other kept member has
  // Dropped:
  size_t covered_by = 0;                                   // the kept member that is most like it
  std::vector<std::string> shares;                         // the features that both have
  std::vector<std::pair<std::string, size_t>> covered_in;  // its other features: which kept member has them
  std::vector<std::string> uncovered;                      // and those that the budget left out
};

struct GeneralizeResult {
  std::vector<bool> kept;  // by index into what was given
  size_t families = 0;
  // Families for which the budget was too small, and the features that were lost.
  size_t families_cut = 0;
  size_t features_lost = 0;
};

// `identities` differ. `audit` is called once for each, family by family; may be
// empty, which saves time. Its error ends the work and is returned.
using GeneralizeAudit = std::function<absl::Status(const GeneralizeEntry&)>;
absl::StatusOr<GeneralizeResult> Generalize(const std::vector<std::string_view>& identities,
                                            const GeneralizeOptions& options, const GeneralizeAudit& audit = {});

// The audit of `dedup --generalize`: a file that says of every configuration whether
// it was kept, what it stands for or what stands for it, and why (generalize.h).
// docs/DEDUP.md describes the columns.

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

#endif  // TORCHTRACE_SERIALIZE_CONFIGS_GENERALIZE_H_
