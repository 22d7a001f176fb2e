// Reduces families of configs to members that have all their features, and writes an audit of each decision.

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
// equal or not. Of every two tensors: how they broadcast. Different flags, dtypes, ranks
// and other structure make different families, so all of them are kept.
//
// Each of these that some member has is a feature. A greedy set cover chooses members
// until every feature is covered, then drops those that have become redundant. Quarters
// divide the range of values, not the ranks, for the result to have the same features:
// generalizing it again keeps all of it. The choice depends on the configurations and
// the seed, not on their order.

inline constexpr uint64_t kDefaultFamilyBudget = 64;

struct GeneralizeOptions {
  uint64_t seed = 0;  // chooses among members that are equally good
  // At most so many members of each family, those that cover most first. 0: no limit.
  uint64_t budget = kDefaultFamilyBudget;
};

// The decision on one configuration, for the audit. Leaves out features that all members
// of the family have.
struct GeneralizeEntry {
  size_t config = 0;  // index into `identities`
  bool kept = false;
  // Kept:
  std::vector<size_t> covers;        // dropped configs that it represents
  std::vector<std::string> because;  // features that no other kept member has
  // Dropped:
  size_t covered_by = 0;                                   // the most similar kept member
  std::vector<std::string> shares;                         // the features that both have
  std::vector<std::pair<std::string, size_t>> covered_in;  // other features, and the kept member that has each
  std::vector<std::string> uncovered;                      // features lost because of the budget
};

struct GeneralizeResult {
  std::vector<bool> kept;  // by index into `identities`
  size_t families = 0;
  // Families for which the budget was too small, and the features that were lost.
  size_t families_cut = 0;
  size_t features_lost = 0;
};

// Called once for each configuration, family by family. An error stops Generalize, which returns it.
using GeneralizeAudit = std::function<absl::Status(const GeneralizeEntry&)>;
// `identities` must be distinct. Without an audit it is faster.
absl::StatusOr<GeneralizeResult> Generalize(const std::vector<std::string_view>& identities,
                                            const GeneralizeOptions& options, const GeneralizeAudit& audit = {});

enum class AuditFormat : uint8_t { kJson, kJsonl, kCsv };

// By the file name's suffix (.json, .jsonl, .csv); InvalidArgument with the choices.
absl::StatusOr<AuditFormat> AuditFormatOf(std::string_view file_name);

// Writes the audit of `dedup --generalize`: for every configuration whether it was kept, which ones it represents or
// which one represents it, and why. docs/DEDUP.md describes the columns.
class AuditWriter {
 public:
  // The entries' indexes are into `configs`. `configs` and `out` must outlive it.
  AuditWriter(AuditFormat format, const std::vector<DedupConfig>* configs, std::ostream* out);

  // Both return Aborted when `out` fails.
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
