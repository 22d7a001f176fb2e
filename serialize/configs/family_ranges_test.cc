#include "serialize/configs/family_ranges.h"

#include <gtest/gtest.h>

#include <sstream>
#include <string>
#include <vector>

#include "nlohmann/json.hpp"
#include "serialize/forms/forms.h"
#include "serialize/model/config.h"

namespace torchtrace {
namespace {

std::string Ranges(const std::vector<std::string>& lines, bool json) {
  std::vector<std::string> identities;
  for (const std::string& line : lines) {
    absl::StatusOr<Config> config = ParseConfigText(line);
    EXPECT_TRUE(config.ok()) << config.status();
    config->level = 1;
    identities.push_back(EncodeConfig(*config));
  }
  std::vector<DedupConfig> configs;
  for (size_t i = 0; i < lines.size(); ++i) {
    DedupConfig& config = configs.emplace_back();
    config.identity = config.example = identities[i];
    config.line = lines[i];
    config.calls = i + 1;
  }
  std::ostringstream out;
  EXPECT_TRUE(WriteRanges(configs, json, &out).ok());
  return out.str();
}

const std::vector<std::string> kLines = {
    R"(torch.add(Tensor([2, 48], "float32"), 6148914691236000000, alpha=0.5, name="12"))",
    R"(torch.add(Tensor([16, 48], "float32"), 3, alpha=0.25, name="12"))",
    R"(torch.add(Tensor([16, 48], "float64"), 3, alpha=1, name="12"))",
    R"(torch.add(Tensor([9, 48], "float64"), -3, alpha=2.5, name="12"))",
    R"(torch.relu(Tensor([9], "float32", stride=[2]), slice(None, 5, None)))",
};

TEST(FamilyRangesTest, TextHasRangesInPlaceOfNumbers) {
  EXPECT_EQ(Ranges(kLines, /*json=*/false),
            "torch.add(Tensor([2..16, 48], \"float32\"), 3..6148914691236000000, alpha=0.25..0.5, name=\"12\")"
            "\t2 configs, 3 calls\n"
            "torch.add(Tensor([9..16, 48], \"float64\"), -3..3, alpha=1.0..2.5, name=\"12\")\t2 configs, 7 calls\n"
            "torch.relu(Tensor([9], \"float32\", stride=[2]), slice(None, 5, None))\t1 config, 5 calls\n");
}

TEST(FamilyRangesTest, JsonNamesEachNumber) {
  const nlohmann::json rows = nlohmann::json::parse(Ranges(kLines, /*json=*/true));
  ASSERT_EQ(rows.size(), 3U);
  const nlohmann::json expected = {{"api", "torch.add"},
                                   {"family", R"x(torch.add(Tensor([*, *], "float32"), *, alpha=*, name="12"))x"},
                                   {"level", 1},
                                   {"configs", 2},
                                   {"calls", 3},
                                   {"ranges",
                                    {{"args[0].shape[0]", {2, 16}},
                                     {"args[0].shape[1]", {48, 48}},
                                     {"args[1]", {3, 6148914691236000000}},
                                     {"alpha", {0.25, 0.5}}}}};
  EXPECT_EQ(rows[0], expected);
  EXPECT_EQ(nlohmann::json::parse(Ranges({}, /*json=*/true)), nlohmann::json::array());
}

TEST(FamilyRangesTest, UnknownAndOddNumbers) {
  EXPECT_EQ(Ranges({R"(f(nan, SymInt, Tensor([*, 3], "float32")))", R"(f(inf, 3, Tensor([*, SymInt], "float32")))"},
                   /*json=*/false),
            "f(inf or nan, 3 or *, Tensor([*, 3 or *], \"float32\"))\t2 configs, 3 calls\n");
}

}  // namespace
}  // namespace torchtrace
