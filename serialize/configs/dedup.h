// Unique configs of traces, and the parts of configs to ignore when comparing them.

#ifndef TORCHTRACE_SERIALIZE_CONFIGS_DEDUP_H_
#define TORCHTRACE_SERIALIZE_CONFIGS_DEDUP_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "serialize/base/matching.h"
#include "serialize/configs/folding.h"
#include "serialize/model/config.h"
#include "serialize/trace/tables.h"
#include "serialize/trace/trace.h"

namespace torchtrace {

// Replaces parts of configurations by placeholders, so that those that differ only in
// these parts become equal: `--ignore device,stride,dtype` of dedup, diff and stats.
//
//   torch.add(Tensor([2, 3], "float32"), alpha=10)     shape,scalars,device:
//   torch.add(Tensor([*, *], "float32", device=*), alpha=*)
class Coarsening {
 public:
  Coarsening() = default;
  // The names of the parts. InvalidArgument with the choices and the nearest one.
  //   device   of tensors, storages and generators; torch.device arguments, arguments
  //            named `device`, and strings that name a device
  //   stride   of tensors, contiguous or not
  //   layout   of tensors; torch.layout and torch.memory_format arguments
  //   dtype    of tensors and NumPy's values; torch.dtype arguments
  //   shape    sizes of tensors and arrays, and their strides if recorded,
  //            bytes of storages, numbers in a torch.Size; ranks stay
  //   scalars  numbers and bools, also in containers, except keys of dicts
  //   strings  texts and bytes, except keys of dicts
  //   level    the level of the call
  static absl::StatusOr<Coarsening> Parse(const std::vector<std::string>& names);
  static const std::vector<std::string>& Names();
  // "device, stride, ...", for help.
  static std::string Choices();

  bool empty() const { return parts_ == 0; }
  // Placeholders (config.h) show as `*` in text; the result is a valid config.
  // Idempotent.
  Config Apply(Config config) const;
  // Returns the same bytes if this is empty, or if they are not a valid config.
  std::string Apply(std::string_view identity) const;

 private:
  unsigned parts_ = 0;
};

// Unifies the spellings of operators in several traces: aten::mm.default and aten::mm (CanonicalName) both get the name
// that came first. Memory grows with the operators. Not thread-safe.
class OneSpelling {
 public:
  // The identity under that name; valid until the next call.
  std::string_view Apply(std::string_view identity);

 private:
  absl::flat_hash_map<std::string, std::string> first_;  // by level and canonical name
  std::string respelled_;
};

struct DedupOptions {
  GlobFilter filter;        // over API names
  std::vector<int> levels;  // empty: all
  Coarsening ignore;
  // The same call at two levels is two configs; false for formats that show no level.
  bool levels_apart = true;
  bool provenance = false;
  bool times = false;                             // how long the calls of each config took
  std::optional<Folding> folding = std::nullopt;  // keeps one real call of the configs that it makes equal
  uint64_t keep_first = 0;                        // only the first so many configs of each API; 0: all
};

// A process of one of the traces.
struct DedupSource {
  std::string trace;    // its name, as given to Add
  std::string process;  // `main-1234`
  std::string host;     // empty, -1: unknown
  int64_t pid = -1;
  int64_t rank = -1;
};

// The effect of one folding rule.
struct DedupFold {
  std::string rule;
  uint64_t before = 0;  // configs that were folded with others
  uint64_t after = 0;   // and into how many
};

// Calls of a config in one process.
struct DedupShare {
  uint32_t source = 0;  // index into sources()
  uint64_t calls = 0;
  int64_t time_ns = -1;  // of all of them; -1: unknown, or not asked for
};

struct DedupConfig {
  std::string_view identity;  // coarsened; folded: the example
  std::string_view example;   // of the identities that became this one, the least by bytes
  std::string line;           // its text
  uint64_t calls = 0;
  int64_t time_ns = -1;             // as in DedupShare
  std::vector<DedupShare> sources;  // with provenance; by source
};

// Gathers the unique configurations of any number of traces. Counts each trace once, and
// does not use it after Add: memory grows with the configurations (and, with provenance,
// with the processes of each), not with calls or traces.
//
//   Dedup dedup(options);
//   for (each trace) dedup.Add(trace, path);
//   const std::vector<DedupConfig> configs = dedup.Finish();
class Dedup {
 public:
  explicit Dedup(DedupOptions options) : options_(std::move(options)) {}

  // `name` is the trace's name in the provenance.
  absl::Status Add(Trace* trace, const std::string& name);

  // In the order of api_configs.txt: by line, then by level. Call it once; the result
  // points to bytes that the Dedup owns.
  std::vector<DedupConfig> Finish();

  const std::vector<DedupSource>& sources() const { return sources_; }
  // In the order of the rules, without those that folded nothing.
  std::vector<DedupFold> folds() const;

 private:
  struct Entry {
    uint64_t calls = 0;
    int64_t time_ns = 0;  // -1: unknown for some of the calls
    std::string example;  // empty: the identity
    // With a folding that has a rule for its API:
    int rule = -1;
    uint64_t folded = 0;  // configs that became this one
    std::string kept;     // the least of them, by bytes; coarsened
    std::vector<DedupShare> sources;
  };

  bool Accepts(std::string_view identity) const;
  std::string Coarsen(std::string_view identity) const;
  absl::Status AddShares(Trace* trace, uint32_t first_source, const std::vector<uint32_t>& entry_of);

  DedupOptions options_;
  OneSpelling spelling_;
  ConfigTable unfolded_;        // with a folding: each config before it
  ConfigTable table_;           // numbers the entries, in the order in which they were first seen
  std::vector<Entry> entries_;  // by ConfigId
  std::vector<DedupSource> sources_;
};

// Writes each config as a line of text with its sources: `LINE\tout/main-12: 3 calls, b.ttlog: 1 call`. `counts` puts
// the total number of calls before the line. Aborted when `out` fails.
absl::Status WriteProvenanceText(const std::vector<DedupConfig>& configs, const std::vector<DedupSource>& sources,
                                 bool counts, std::ostream* out);

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_CONFIGS_DEDUP_H_
