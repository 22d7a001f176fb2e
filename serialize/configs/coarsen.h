// Coarsening forgets parts of configurations, so that those which differ in
// nothing else become equal: `--ignore device,stride,dtype` of dedup, diff and stats.
//
//   torch.add(Tensor([2, 3], "float32"), alpha=10)     shape,scalars,device:
//   torch.add(Tensor([*, *], "float32", device=*), alpha=*)

#ifndef TORCHTRACE_SERIALIZE_CONFIGS_COARSEN_H_
#define TORCHTRACE_SERIALIZE_CONFIGS_COARSEN_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "serialize/model/config.h"

namespace torchtrace {

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
  // "device, stride, ...", for help.
  static std::string Choices();

  bool empty() const { return parts_ == 0; }
  // What is forgotten takes a placeholder (placeholder.h) that text shows as `*`; the
  // result is a valid config. Applied again, it changes nothing.
  Config Apply(Config config) const;
  // The same bytes when nothing is forgotten, or when they are no config.
  std::string Apply(std::string_view identity) const;

 private:
  unsigned parts_ = 0;
};

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_CONFIGS_COARSEN_H_
