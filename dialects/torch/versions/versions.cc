#include "dialects/torch/versions/versions.h"

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace torchtrace::torch_dialect {
namespace {

constexpr char kEras[] =
#include "dialects/torch/versions/eras.inc"
    ;

std::vector<TorchEra> ParseEras(absl::string_view text) {
  std::vector<TorchEra> eras;
  for (const absl::string_view line : absl::StrSplit(text, '\n', absl::SkipWhitespace())) {
    if (line[0] == '#') continue;
    const std::pair<std::string, std::string> ends = absl::StrSplit(line, ' ');
    eras.push_back({*ParseMinorVersion(ends.first), *ParseMinorVersion(ends.second)});
  }
  return eras;
}

}  // namespace

const std::vector<TorchEra>& TorchEras() {
  static const auto* const eras = new std::vector<TorchEra>(ParseEras(kEras));
  return *eras;
}

absl::StatusOr<TorchEra> FindTorchEra(std::string_view version, bool untested) {
  const std::optional<TorchVersion> wanted = ParseMinorVersion(version);
  const std::vector<TorchEra>& eras = TorchEras();
  const std::string range = DescribeTorchEra({eras.front().first, eras.back().last});
  const auto refuse = [&](absl::string_view why) {
    return absl::FailedPreconditionError(
        absl::StrCat("torch ", absl::string_view(version.data(), version.size()), why));
  };
  if (version.empty()) return refuse(absl::StrCat("has no version; torchtrace traces torch ", range));
  if (!wanted) return refuse(absl::StrCat(" has a version that is not a number; torchtrace traces torch ", range));
  if (*wanted < eras.front().first) {
    return refuse(absl::StrCat(" is too old: torchtrace traces torch ", range, ", which have the new C++ ABI"));
  }
  if (*wanted > eras.back().last) {
    if (untested) return eras.back();
    return refuse(absl::StrCat(" is newer than what this torchtrace was tested with, torch ", range,
                               "; --untested-torch (untested_torch=True) tries it"));
  }
  // A version between two eras belongs to the earlier one.
  TorchEra found = eras.front();
  for (const TorchEra& era : eras) {
    if (era.first <= *wanted) found = era;
  }
  return found;
}

std::string TorchModuleName(const TorchEra& era) {
  return absl::StrCat("torchtrace_torch-", FormatMinorVersion(era.first), ".so");
}

std::string DescribeTorchEra(const TorchEra& era) {
  const std::string first = FormatMinorVersion(era.first);
  return era.first == era.last ? first : absl::StrCat(first, " to ", FormatMinorVersion(era.last));
}

}  // namespace torchtrace::torch_dialect
