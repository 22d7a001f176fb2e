#include "serialize/configs/generalize.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_join.h"
#include "serialize/configs/family.h"
#include "serialize/forms/forms.h"
#include "serialize/model/config.h"
#include "serialize/testing/fake_trace.h"

namespace torchtrace {
namespace {

using Identities = std::vector<std::string>;

std::vector<std::string_view> Views(const Identities& identities) { return {identities.begin(), identities.end()}; }

Identities Encode(const std::vector<Config>& configs) {
  std::set<std::string> identities;
  for (const Config& config : configs) identities.insert(EncodeConfig(config));
  return {identities.begin(), identities.end()};
}

GeneralizeResult Generalized(const Identities& identities, const GeneralizeOptions& options,
                             const GeneralizeAudit& audit = {}) {
  absl::StatusOr<GeneralizeResult> result = Generalize(Views(identities), options, audit);
  EXPECT_TRUE(result.ok()) << result.status();
  return *std::move(result);
}

std::set<std::string> Kept(const Identities& identities, const GeneralizeOptions& options) {
  const GeneralizeResult result = Generalized(identities, options);
  std::set<std::string> kept;
  for (size_t i = 0; i < identities.size(); ++i) {
    if (result.kept[i]) kept.insert(identities[i]);
  }
  return kept;
}

// The texts of the kept configs, one per line.
std::string KeptText(const Identities& identities, const GeneralizeOptions& options = {}) {
  std::string text;
  for (const std::string& identity : Kept(identities, options)) text += FormatConfig(*ParseConfig(identity)) + "\n";
  return text;
}

// Features by family, then by member, in words.
std::map<std::string, std::vector<std::set<std::string>>> FeaturesOf(const Identities& identities) {
  std::map<std::string, std::vector<FamilyMember>> families;
  std::map<std::string, FamilyNames> names;
  for (const std::string& identity : identities) {
    const Config config = *ParseConfig(identity);
    FamilyMember member = FindFamily(config);
    names.emplace(member.key, NameFamily(config));
    families[member.key].push_back(member);
  }
  std::map<std::string, std::vector<std::set<std::string>>> result;
  for (const auto& [key, members] : families) {
    const FamilyFeatures features = FindFeatures(members);
    for (const std::vector<uint32_t>& of : features.of) {
      std::set<std::string>& texts = result[key].emplace_back();
      for (const uint32_t feature : of) texts.insert(DescribeFeature(features.features[feature], names[key]));
    }
  }
  return result;
}

// Configurations of a few families, with typical sizes of models and corner cases.
Identities RandomConfigs(uint64_t seed, size_t count) {
  std::mt19937_64 random(seed);
  const auto size = [&]() -> Dim {
    static constexpr int64_t kCommon[] = {0, 1, 1, 2, 3, 8, 16, 64, 100, 128, 256, 768, 1024, 50257};
    if (random() % 40 == 0) return Dim();
    if (random() % 3 == 0) return static_cast<int64_t>(random() % 5000);
    return kCommon[random() % std::size(kCommon)];
  };
  const auto number = [&]() -> Value {
    static constexpr double kFloats[] = {0, -0.0, 1, 0.5, -3.25, 1e-5, INFINITY, NAN, 1e300};
    switch (random() % 4) {
      case 0:
        return FloatValue(kFloats[random() % std::size(kFloats)]);
      case 1:
        return IntValue(std::numeric_limits<int64_t>::min() + static_cast<int64_t>(random() % 2));
      default:
        return IntValue(static_cast<int64_t>(random() % 70) - 5);
    }
  };
  std::vector<Config> configs;
  for (size_t i = 0; i < count; ++i) {
    switch (random() % 4) {
      case 0:
        configs.push_back(MakeConfig(1, "f", {TensorValue({size(), size()}), TensorValue({size(), size()})}));
        break;
      case 1:
        configs.push_back(
            MakeConfig(1, "f", {TensorValue({size(), size(), size()}), TensorValue({size()})}, {{"alpha", number()}}));
        break;
      case 2:
        configs.push_back(MakeConfig(2, "g", {number(), TextValue(random() % 2 == 0 ? "sum" : "mean")}));
        break;
      default: {
        Value strided = TensorValue({size(), size()});
        strided.tensor_bits = kTensorHasStride;
        strided.strides = {size(), size()};
        configs.push_back(MakeConfig(2, "h", {strided}));
      }
    }
  }
  return Encode(configs);
}

constexpr GeneralizeOptions kNoBudget = {.seed = 0, .budget = 0};

TEST(Generalize, FeaturesOfNumbers) {
  struct Row {
    std::vector<Value> values;
    std::vector<std::string> features;  // of each, joined, without common ones
  };
  const std::vector<Row> rows = {
      {{IntValue(0), IntValue(1), IntValue(3), IntValue(8)},
       {"args[0]: 0, args[0]: minimum, args[0]: quarter 1 of the range", "args[0]: 1, args[0]: quarter 2 of the range",
        "args[0]: no power of two, args[0]: odd, args[0]: quarter 3 of the range",
        "args[0]: maximum, args[0]: multiple of 8, args[0]: power of two, args[0]: quarter 4 of the range"}},
      {{IntValue(-2), IntValue(-1)},
       {"args[0]: minimum, args[0]: multiple of 2, args[0]: power of two, args[0]: quarter 1 of the range",
        "args[0]: -1, args[0]: maximum, args[0]: quarter 4 of the range"}},
      {{IntValue(128), IntValue(1024)},
       {"args[0]: minimum, args[0]: quarter 1 of the range", "args[0]: maximum, args[0]: quarter 4 of the range"}},
      {{FloatValue(0.5), FloatValue(-0.0), FloatValue(NAN), FloatValue(-INFINITY)},
       {"args[0]: fraction, args[0]: maximum, args[0]: quarter 4 of the range",
        "args[0]: 0, args[0]: minimum, args[0]: negative, args[0]: quarter 1 of the range", "args[0]: nan",
        "args[0]: infinite, args[0]: negative"}},
      {{IntValue(2), FloatValue(2)},
       {"args[0]: int, args[0]: multiple of 2, args[0]: power of two", "args[0]: float, args[0]: whole"}},
      {{IntValue(INT64_MIN), IntValue(INT64_MAX)},
       {"args[0]: minimum, args[0]: multiple of 128, args[0]: negative, args[0]: power of two, args[0]: quarter 1 of "
        "the range",
        "args[0]: maximum, args[0]: no power of two, args[0]: odd, args[0]: quarter 4 of the range"}},
      {{TensorValue({Dim()}), TensorValue({4})},
       {"args[0].shape[0]: symbolic", "args[0].shape[0]: multiple of 4, args[0].shape[0]: power of two"}},
      {{IntValue(5)}, {""}},
  };
  for (const Row& row : rows) {
    Identities identities;
    for (const Value& value : row.values) identities.push_back(EncodeConfig(MakeConfig(1, "f", {value})));
    std::vector<std::string> features;
    for (const auto& [key, members] : FeaturesOf(identities)) {
      for (const std::set<std::string>& of : members) features.push_back(absl::StrJoin(of, ", "));
    }
    EXPECT_EQ(features, row.features) << FormatValue(row.values.front());
  }
}

TEST(Generalize, HowTensorsBroadcast) {
  struct Row {
    std::vector<Dim> a, b;
    std::string relation;
  };
  // One family: two tensors of rank 2.
  const std::vector<Row> rows = {
      {{2, 3}, {2, 3}, "same shape"},
      {{1, 3}, {2, 3}, "the first is broadcast"},
      {{2, 3}, {2, 1}, "the second is broadcast"},
      {{2, 1}, {1, 3}, "both are broadcast"},
      {{2, 3}, {4, 3}, "no broadcast"},
      {{2, Dim()}, {2, 3}, ""},
  };
  Identities identities;
  for (const Row& row : rows) {
    identities.push_back(EncodeConfig(MakeConfig(1, "f", {TensorValue(row.a), TensorValue(row.b)})));
  }
  const auto features = FeaturesOf(identities).begin()->second;
  for (size_t i = 0; i < rows.size(); ++i) {
    std::string relation;
    for (const std::string& feature : features[i]) {
      if (feature.starts_with("args[0], args[1]: ")) relation += feature.substr(18);
    }
    EXPECT_EQ(relation, rows[i].relation) << i;
  }
  // A missing dimension is broadcast.
  const Identities ranks = {EncodeConfig(MakeConfig(1, "f", {TensorValue({2, 3}), TensorValue({3})})),
                            EncodeConfig(MakeConfig(1, "f", {TensorValue({2, 3}), TensorValue({4})}))};
  const auto of_ranks = FeaturesOf(ranks).begin()->second;
  EXPECT_TRUE(of_ranks[0].contains("args[0], args[1]: the second is broadcast"));
  EXPECT_TRUE(of_ranks[0].contains("args[0].shape[1] == args[1].shape[0]"));
  EXPECT_TRUE(of_ranks[1].contains("args[0].shape[1] != args[1].shape[0]"));
}

TEST(Generalize, KeepsWhatDiffersInMoreThanNumbers) {
  std::vector<Config> configs;
  for (const char* reduction : {"sum", "mean", "none"}) {
    configs.push_back(MakeConfig(1, "f", {TensorValue({2, 3}), TextValue(reduction)}));
  }
  configs.push_back(MakeConfig(1, "f", {TensorValue({2, 3, 4}), TextValue("sum")}));
  configs.push_back(MakeConfig(1, "g", {TensorValue({2, 3}), TextValue("sum")}));
  configs.push_back(MakeConfig(2, "f", {TensorValue({2, 3}), TextValue("sum")}));
  const Identities identities = Encode(configs);
  EXPECT_EQ(Kept(identities, {}).size(), 6u);
}

TEST(Generalize, DropsWhatAddsNothing) {
  std::vector<Config> configs;
  for (int64_t batch = 2; batch <= 200; batch += 2) configs.push_back(MakeConfig(1, "f", {TensorValue({batch, 768})}));
  const Identities identities = Encode(configs);
  const std::string kept = KeptText(identities);
  EXPECT_NE(kept.find("[2, 768]"), std::string::npos) << kept;
  EXPECT_NE(kept.find("[200, 768]"), std::string::npos) << kept;
  EXPECT_NE(kept.find("[128, 768]"), std::string::npos) << kept;  // the only multiple of 128
  EXPECT_LE(Kept(identities, {}).size(), 10u) << kept;
}

TEST(Generalize, OneOfThoseThatAreAlike) {
  // All are multiples of 128 above 4,096 and not powers of two: they differ only in their place in the range.
  std::vector<Config> configs;
  for (int64_t size = 33; size < 63; ++size) configs.push_back(MakeConfig(1, "f", {IntValue(size * 128)}));
  const Identities identities = Encode(configs);
  EXPECT_EQ(Kept(identities, {}).size(), 4u) << KeptText(identities);
}

TEST(Generalize, EveryFeatureIsKept) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const Identities identities = RandomConfigs(seed, 400);
    const std::set<std::string> kept = Kept(identities, kNoBudget);
    ASSERT_LT(kept.size(), identities.size());
    // With the features of the whole family, not of the kept members.
    std::map<std::string, size_t> next;
    const auto features = FeaturesOf(identities);
    std::map<std::string, std::set<std::string>> seen, covered;
    for (const std::string& identity : identities) {
      const std::string key = FindFamily(*ParseConfig(identity)).key;
      const std::set<std::string>& own = features.at(key)[next[key]++];
      seen[key].insert(own.begin(), own.end());
      covered[key];
      if (kept.contains(identity)) covered[key].insert(own.begin(), own.end());
    }
    EXPECT_EQ(seen, covered) << seed;
  }
}

TEST(Generalize, SameSeedSameResultInAnyOrder) {
  const Identities identities = RandomConfigs(1, 500);
  const std::set<std::string> kept = Kept(identities, {.seed = 7});
  std::mt19937 random(3);
  for (int i = 0; i < 10; ++i) {
    Identities shuffled = identities;
    std::shuffle(shuffled.begin(), shuffled.end(), random);
    EXPECT_EQ(Kept(shuffled, {.seed = 7}), kept);
  }
  std::set<std::set<std::string>> results;
  for (uint64_t seed = 0; seed < 10; ++seed) results.insert(Kept(identities, {.seed = seed}));
  EXPECT_GT(results.size(), 1u);
}

TEST(Generalize, AgainKeepsAll) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    for (const uint64_t budget : {0, 1, 2, 5, 12, 64}) {
      const std::set<std::string> kept = Kept(RandomConfigs(seed, 400), {.seed = seed, .budget = budget});
      for (const uint64_t other : {seed, seed + 1}) {
        EXPECT_EQ(Kept({kept.begin(), kept.end()}, {.seed = other, .budget = budget}), kept) << seed << " " << budget;
      }
    }
  }
}

TEST(Generalize, Budget) {
  const Identities identities = RandomConfigs(2, 400);
  std::map<std::string, size_t> members;
  for (const std::string& identity : Kept(identities, {.budget = 3})) {
    ++members[FindFamily(*ParseConfig(identity)).key];
  }
  for (const auto& [key, count] : members) EXPECT_LE(count, 3u);
  const GeneralizeResult cut = Generalized(identities, {.budget = 3});
  EXPECT_GT(cut.families_cut, 0u);
  EXPECT_GT(cut.features_lost, cut.families_cut);
  const GeneralizeResult whole = Generalized(identities, kNoBudget);
  EXPECT_EQ(whole.families_cut, 0u);
  EXPECT_EQ(whole.features_lost, 0u);
  EXPECT_EQ(whole.families, cut.families);
}

TEST(Generalize, AuditAccountsForEachOnce) {
  for (const uint64_t budget : {0, 4}) {
    const Identities identities = RandomConfigs(5, 400);
    std::map<size_t, GeneralizeEntry> entries;
    const GeneralizeResult result = Generalized(identities, {.budget = budget}, [&](const GeneralizeEntry& entry) {
      EXPECT_TRUE(entries.emplace(entry.config, entry).second) << entry.config;
      return absl::OkStatus();
    });
    ASSERT_EQ(entries.size(), identities.size());
    EXPECT_EQ(Generalized(identities, {.budget = budget}).kept, result.kept);
    std::map<size_t, size_t> representative;
    size_t uncovered = 0;
    std::map<std::string, size_t> next;
    const auto features = FeaturesOf(identities);
    for (const auto& [config, entry] : entries) {
      const std::string key = FindFamily(*ParseConfig(identities[config])).key;
      std::set<std::string> own = features.at(key)[next[key]++];
      EXPECT_EQ(entry.kept, result.kept[config]);
      for (const size_t covered : entry.covers) EXPECT_TRUE(representative.emplace(covered, config).second);
      uncovered += entry.uncovered.size();
      if (entry.kept) {
        for (const std::string& feature : entry.because) EXPECT_TRUE(own.contains(feature)) << feature;
        EXPECT_TRUE(entry.shares.empty() && entry.covered_in.empty() && entry.uncovered.empty());
        continue;
      }
      // Each of its features is listed exactly once, in the right list.
      EXPECT_TRUE(entry.covers.empty() && entry.because.empty());
      std::set<std::string> told(entry.shares.begin(), entry.shares.end());
      for (const auto& [feature, by] : entry.covered_in) {
        EXPECT_TRUE(told.insert(feature).second);
        EXPECT_TRUE(result.kept[by]);
        EXPECT_EQ(FindFamily(*ParseConfig(identities[by])).key, key);
      }
      for (const std::string& feature : entry.uncovered) EXPECT_TRUE(told.insert(feature).second);
      EXPECT_EQ(told, own);
    }
    for (const auto& [config, entry] : entries) {
      if (!entry.kept) {
        EXPECT_EQ(representative.at(config), entry.covered_by);
      }
    }
    EXPECT_EQ(representative.size(), identities.size() - Kept(identities, {.budget = budget}).size());
    EXPECT_EQ(uncovered > 0, budget > 0);
  }
}

TEST(Generalize, AuditSaysWhy) {
  std::vector<Config> configs;
  for (const int64_t size : {64, 192, 320, 1024, 576}) configs.push_back(MakeConfig(1, "f", {IntValue(size)}));
  Identities identities;
  for (const Config& config : configs) identities.push_back(EncodeConfig(config));
  std::string text;
  const auto line = [&](size_t i) { return FormatConfig(configs[i]); };
  Generalized(identities, {}, [&](const GeneralizeEntry& entry) {
    text += line(entry.config);
    if (entry.kept) {
      text += " kept for " + absl::StrJoin(entry.because, ", ");
      for (const size_t covered : entry.covers) text += "; covers " + line(covered);
    } else {
      text += " as " + line(entry.covered_by) + ": " + absl::StrJoin(entry.shares, ", ");
      for (const auto& [feature, by] : entry.covered_in) text += "; " + feature + ": " + line(by);
    }
    text += "\n";
    return absl::OkStatus();
  });
  EXPECT_EQ(text, R"(f(64) kept for args[0]: minimum, args[0]: quarter 1 of the range
f(192) kept for args[0]: quarter 2 of the range; covers f(576)
f(320) kept for args[0]: quarter 3 of the range
f(1024) kept for args[0]: multiple of 128, args[0]: maximum, args[0]: quarter 4 of the range
f(576) as f(192): args[0]: multiple of 64, args[0]: no power of two; args[0]: quarter 4 of the range: f(1024)
)");
}

TEST(Generalize, AuditsErrorIsReturned) {
  const Identities identities = RandomConfigs(1, 10);
  const auto result =
      Generalize(Views(identities), {}, [](const GeneralizeEntry&) { return absl::AbortedError("full"); });
  EXPECT_EQ(std::string(result.status().message()), "full");
}

TEST(Generalize, WhatCannotBeReadIsKept) {
  const Identities identities = {"no config", "nor this", EncodeConfig(MakeConfig(1, "f"))};
  const GeneralizeResult result = Generalized(identities, {});
  EXPECT_EQ(result.families, 3u);
  EXPECT_EQ(result.kept, std::vector<bool>({true, true, true}));
  EXPECT_TRUE(Generalized({}, {}).kept.empty());
}

}  // namespace
}  // namespace torchtrace
