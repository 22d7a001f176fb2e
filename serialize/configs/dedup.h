// Unique configs of traces, or a covering subset of them, and the facts that may be left out of account.

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

// Coarsening forgets parts of configurations, so that those which differ in
// nothing else become equal: `--ignore device,stride,dtype` of dedup, diff and stats.
//
//   torch.add(Tensor([2, 3], "float32"), alpha=10)     shape,scalars,device:
//   torch.add(Tensor([*, *], "float32", device=*), alpha=*)

class Coarsening {
 public:
  Coarsening() = default;
  // Names of what to forget. InvalidArgument with the choices and the nearest one.
  //   device   of tensors, storages and generators; torch.device arguments, arguments
  //            named `device`, and strings that name a device
  //   stride   of tensors: whether they are contiguous, and how not
  //   layout   of tensors; torch.layout and torch.memory_format arguments
  //   dtype    of tensors and NumPy's values; torch.dtype arguments
  //   shape    sizes of tensors and arrays, and their strides where there are any,
  //            bytes of storages, numbers in a torch.Size; ranks stay
  //   scalars  numbers and bools, those in containers too, but for keys of dicts
  //   strings  texts and bytes, but for keys of dicts
  //   level    the level of the call
  static absl::StatusOr<Coarsening> Parse(const std::vector<std::string>& names);
  static const std::vector<std::string>& Names();
  // "device, stride, ...", for help.
  static std::string Choices();

  bool empty() const { return parts_ == 0; }
  // What is forgotten takes a placeholder (config.h) that text shows as `*`; the
  // result is a valid config. Applied again, it changes nothing.
  Config Apply(Config config) const;
  // The same bytes when nothing is forgotten, or when they are no config.
  std::string Apply(std::string_view identity) const;

 private:
  unsigned parts_ = 0;
};

// Operators that traces spell differently, as one API: calls of aten::mm.default are calls of aten::mm (CanonicalName),
// by the name that came first. Memory goes with the operators. Not thread-safe.
class OneSpelling {
 public:
  // The identity with that name; valid until the next call.
  std::string_view Apply(std::string_view identity);

 private:
  absl::flat_hash_map<std::string, std::string> first_;  // by level and canonical name
  std::string respelled_;
};

// Dedup gathers the unique configurations of any number of traces. Each trace is
// counted once and may be closed then: memory goes with the configurations (and,
// with provenance, with the processes that each came from), not with calls or traces.
//
//   Dedup dedup(options);
//   for (each trace) dedup.Add(trace, path);
//   const std::vector<DedupConfig> configs = dedup.Finish();

struct DedupOptions {
  GlobFilter filter;        // over API names
  std::vector<int> levels;  // empty: all
  Coarsening ignore;
  // The same call of two levels is two configs. Formats that show no level say no.
  bool levels_apart = true;
  bool provenance = false;
  bool times = false;                             // how long the calls of each config took
  std::optional<Folding> folding = std::nullopt;  // of configs that become one by it a call that was made stays
  uint64_t keep_first = 0;                        // so many configs of each API, the first seen; 0: all
};

// A process of one of the traces.
struct DedupSource {
  std::string trace;    // as it was named to Add
  std::string process;  // `main-1234`
  std::string host;     // empty, -1: not known
  int64_t pid = -1;
  int64_t rank = -1;
};

// What a rule of the folding made of configs.
struct DedupFold {
  std::string rule;
  uint64_t before = 0;  // configs that became one with others
  uint64_t after = 0;
};

// Calls of a config in one process.
struct DedupShare {
  uint32_t source = 0;  // index into sources()
  uint64_t calls = 0;
  int64_t time_ns = -1;  // of all of them; -1: not known, or not asked for
};

struct DedupConfig {
  std::string_view identity;  // coarsened; folded: the example
  std::string_view example;   // the least identity, by bytes, of those that became this one
  std::string line;           // its text
  uint64_t calls = 0;
  int64_t time_ns = -1;             // as in DedupShare
  std::vector<DedupShare> sources;  // with provenance; by source
};

class Dedup {
 public:
  explicit Dedup(DedupOptions options) : options_(std::move(options)) {}

  // `name` is how provenance calls the trace.
  absl::Status Add(Trace* trace, const std::string& name);

  // In the order of api_configs.txt: by line, then by level. Once; what it returns shows
  // bytes that the Dedup owns.
  std::vector<DedupConfig> Finish();

  const std::vector<DedupSource>& sources() const { return sources_; }
  // By rule, in their order; without those that made nothing one.
  std::vector<DedupFold> folds() const;

 private:
  struct Entry {
    uint64_t calls = 0;
    int64_t time_ns = 0;  // -1: of some of the calls it is not known
    std::string example;  // empty: the identity
    // With a folding, where one of its rules is for it:
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
  ConfigTable table_;           // its ConfigIds number the entries, as they were first seen
  std::vector<Entry> entries_;  // by ConfigId
  std::vector<DedupSource> sources_;
};

// Text lines with where each comes from: `LINE\tout/main-12: 3 calls, b.ttlog: 1 call`. With `counts` the
// calls of all before the line. Aborted when `out` fails.
absl::Status WriteProvenanceText(const std::vector<DedupConfig>& configs, const std::vector<DedupSource>& sources,
                                 bool counts, std::ostream* out);

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_CONFIGS_DEDUP_H_
