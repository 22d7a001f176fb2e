#include "serialize/configs/generalize.h"

#include <algorithm>
#include <numeric>
#include <queue>

#include "absl/container/flat_hash_map.h"
#include "serialize/base/bytes.h"
#include "serialize/configs/family.h"
#include "serialize/model/config.h"

namespace torchtrace {
namespace {

// Breaks ties: with the same seed a config has the same rank, independent of the order.
uint64_t Rank(std::string_view identity, uint64_t seed) {
  return XXH3_64bits_withSeed(identity.data(), identity.size(), seed);
}

class Family {
 public:
  Family(std::vector<std::string_view> identities, const std::vector<FamilyMember>& members, uint64_t seed)
      : identities_(std::move(identities)), features_(FindFeatures(members)) {
    ranks_.reserve(identities_.size());
    for (const std::string_view identity : identities_) ranks_.push_back(Rank(identity, seed));
  }

  const FamilyFeatures& features() const { return features_; }

  // At most `budget` members, in the order chosen.
  std::vector<size_t> Cover(uint64_t budget) const {
    std::vector<size_t> chosen;
    std::vector<uint32_t> members_with(features_.features.size());  // of the chosen
    const auto gain = [&](size_t member) {
      const std::vector<uint32_t>& features = features_.of[member];
      return static_cast<size_t>(
          std::count_if(features.begin(), features.end(), [&](uint32_t f) { return members_with[f] == 0; }));
    };
    // Gains only decrease: the top candidate is the best if its gain is still the same.
    struct Candidate {
      size_t gain;
      size_t member;
    };
    const auto worse = [this](const Candidate& a, const Candidate& b) {
      return a.gain != b.gain ? a.gain < b.gain : Precedes(b.member, a.member);
    };
    std::priority_queue<Candidate, std::vector<Candidate>, decltype(worse)> queue(worse);
    for (size_t member = 0; member < features_.of.size(); ++member) queue.push({gain(member), member});
    while (!queue.empty() && (budget == 0 || chosen.size() < budget)) {
      const Candidate top = queue.top();
      queue.pop();
      const size_t now = gain(top.member);
      if (now < top.gain) {
        queue.push({now, top.member});
        continue;
      }
      // Keep the first one even if no feature distinguishes them.
      if (now == 0 && !chosen.empty()) break;
      chosen.push_back(top.member);
      for (const uint32_t feature : features_.of[top.member]) ++members_with[feature];
    }
    // Later choices can make earlier ones redundant.
    for (size_t i = chosen.size(); i-- > 0 && chosen.size() > 1;) {
      const std::vector<uint32_t>& features = features_.of[chosen[i]];
      if (std::any_of(features.begin(), features.end(), [&](uint32_t f) { return members_with[f] == 1; })) continue;
      for (const uint32_t feature : features) --members_with[feature];
      chosen.erase(chosen.begin() + static_cast<ptrdiff_t>(i));
    }
    return chosen;
  }

 private:
  bool Precedes(size_t a, size_t b) const {
    return ranks_[a] != ranks_[b] ? ranks_[a] < ranks_[b] : identities_[a] < identities_[b];
  }

  const std::vector<std::string_view> identities_;
  const FamilyFeatures features_;
  std::vector<uint64_t> ranks_;
};

class Generalizer {
 public:
  Generalizer(const std::vector<std::string_view>& identities, const GeneralizeOptions& options,
              const GeneralizeAudit& audit)
      : identities_(identities), options_(options), audit_(audit) {}

  absl::StatusOr<GeneralizeResult> Run() {
    result_.kept.resize(identities_.size());
    for (const std::vector<size_t>& family : FindFamilies()) {
      if (absl::Status s = Choose(family); !s.ok()) return s;
    }
    return std::move(result_);
  }

 private:
  // Indexes of each family's members, ascending; families are sorted by their first. Keeps only keys in memory.
  std::vector<std::vector<size_t>> FindFamilies() const {
    std::vector<std::vector<size_t>> families;
    absl::flat_hash_map<std::string, size_t> by_key;
    for (size_t i = 0; i < identities_.size(); ++i) {
      const absl::StatusOr<Config> config = ParseConfig(identities_[i]);
      // A malformed config is a separate family.
      if (!config.ok()) {
        families.push_back({i});
        continue;
      }
      const auto [at, fresh] = by_key.try_emplace(FindFamily(*config).key, families.size());
      if (fresh) families.emplace_back();
      families[at->second].push_back(i);
    }
    return families;
  }

  absl::Status Choose(const std::vector<size_t>& family) {
    ++result_.families;
    if (family.size() == 1) {
      result_.kept[family.front()] = true;
      GeneralizeEntry entry;
      entry.config = family.front();
      entry.kept = true;
      return audit_ ? audit_(entry) : absl::OkStatus();
    }
    const Family whole = Of(family);
    std::vector<size_t> kept = whole.Cover(options_.budget);
    const size_t lost = CountLost(whole, kept);
    // The reduced family has other features than the whole one: reduce it again until it no longer changes.
    while (lost > 0) {
      std::vector<size_t> indexes;
      indexes.reserve(kept.size());
      for (const size_t member : kept) indexes.push_back(family[member]);
      const std::vector<size_t> again = Of(indexes).Cover(options_.budget);
      if (again.size() == kept.size()) break;
      std::vector<size_t> fewer;
      fewer.reserve(again.size());
      for (const size_t member : again) fewer.push_back(kept[member]);
      kept = std::move(fewer);
    }
    std::sort(kept.begin(), kept.end());
    for (const size_t member : kept) result_.kept[family[member]] = true;
    if (lost > 0) {
      ++result_.families_cut;
      result_.features_lost += CountLost(whole, kept);
    }
    return audit_ ? Audit(family, whole.features(), kept) : absl::OkStatus();
  }

  Family Of(const std::vector<size_t>& indexes) const {
    std::vector<std::string_view> identities;
    std::vector<FamilyMember> members;
    identities.reserve(indexes.size());
    members.reserve(indexes.size());
    for (const size_t i : indexes) {
      identities.push_back(identities_[i]);
      members.push_back(FindFamily(*ParseConfig(identities_[i])));
    }
    return Family(std::move(identities), members, options_.seed);
  }

  static size_t CountLost(const Family& family, const std::vector<size_t>& kept) {
    std::vector<bool> covered(family.features().features.size());
    for (const size_t member : kept) {
      for (const uint32_t feature : family.features().of[member]) covered[feature] = true;
    }
    return static_cast<size_t>(std::count(covered.begin(), covered.end(), false));
  }

  absl::Status Audit(const std::vector<size_t>& family, const FamilyFeatures& features,
                     const std::vector<size_t>& kept) const {
    const FamilyNames names = NameFamily(*ParseConfig(identities_[family.front()]));
    std::vector<std::string> texts;
    texts.reserve(features.features.size());
    for (const Feature& feature : features.features) texts.push_back(DescribeFeature(feature, names));

    // has: by kept member and feature. kept_with: by feature, how many kept members have it.
    std::vector<std::vector<bool>> has(kept.size(), std::vector<bool>(texts.size()));
    std::vector<uint32_t> kept_with(texts.size());
    for (size_t k = 0; k < kept.size(); ++k) {
      for (const uint32_t feature : features.of[kept[k]]) {
        has[k][feature] = true;
        ++kept_with[feature];
      }
    }
    // By member: the kept member that shares the most features with it.
    std::vector<size_t> nearest(family.size());
    std::vector<std::vector<size_t>> covers(kept.size());
    for (size_t member = 0; member < family.size(); ++member) {
      if (result_.kept[family[member]]) continue;
      const std::vector<uint32_t>& own = features.of[member];
      size_t most = 0;
      for (size_t k = 0; k < kept.size(); ++k) {
        const auto shared = static_cast<size_t>(
            std::count_if(own.begin(), own.end(), [&](uint32_t feature) { return has[k][feature]; }));
        if (shared <= most) continue;
        nearest[member] = k;
        most = shared;
      }
      covers[nearest[member]].push_back(family[member]);
    }

    size_t next_kept = 0;
    for (size_t member = 0; member < family.size(); ++member) {
      GeneralizeEntry entry;
      entry.config = family[member];
      entry.kept = result_.kept[family[member]];
      const std::vector<uint32_t>& own = features.of[member];
      if (entry.kept) {
        entry.covers = std::move(covers[next_kept++]);
        for (const uint32_t feature : own) {
          if (kept_with[feature] == 1) entry.because.push_back(texts[feature]);
        }
      } else {
        entry.covered_by = family[kept[nearest[member]]];
        for (const uint32_t feature : own) {
          if (has[nearest[member]][feature]) {
            entry.shares.push_back(texts[feature]);
          } else if (kept_with[feature] == 0) {
            entry.uncovered.push_back(texts[feature]);
          } else {
            size_t k = 0;
            while (!has[k][feature]) ++k;
            entry.covered_in.emplace_back(texts[feature], family[kept[k]]);
          }
        }
      }
      if (absl::Status s = audit_(entry); !s.ok()) return s;
    }
    return absl::OkStatus();
  }

  const std::vector<std::string_view>& identities_;
  const GeneralizeOptions& options_;
  const GeneralizeAudit& audit_;
  GeneralizeResult result_;
};

}  // namespace

absl::StatusOr<GeneralizeResult> Generalize(const std::vector<std::string_view>& identities,
                                            const GeneralizeOptions& options, const GeneralizeAudit& audit) {
  return Generalizer(identities, options, audit).Run();
}

}  // namespace torchtrace
