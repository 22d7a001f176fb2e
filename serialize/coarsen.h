// Coarsening forgets parts of configurations, so that those which differ in
// nothing else become equal: `--ignore device,stride,dtype` of dedup, diff and stats.

#ifndef TORCHTRACE_SERIALIZE_COARSEN_H_
#define TORCHTRACE_SERIALIZE_COARSEN_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "serialize/config.h"

namespace torchtrace {

class Coarsening {
 public:
  Coarsening() = default;
  // Names of what to forget: device, stride, layout, dtype, shape (rank stays), scalars
  // (numbers and bools), strings, level. InvalidArgument with the choices and the nearest one.
  static absl::StatusOr<Coarsening> Parse(const std::vector<std::string>& names);

  bool empty() const { return parts_ == 0; }
  // What is forgotten takes its default or a placeholder that text_form shows as `*`;
  // the result is a valid config. The same bytes when nothing is forgotten.
  Config Apply(Config config) const;
  std::string Apply(std::string_view identity) const;

 private:
  unsigned parts_ = 0;
};

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_COARSEN_H_
