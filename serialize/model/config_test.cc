#include "serialize/model/config.h"

#include <gtest/gtest.h>

#include <string>

#include "serialize/testing/value_samples.h"

namespace torchtrace {
namespace {

Config Example() {
  Config config;
  config.level = 2;
  config.api = "aten::add.Tensor";
  for (const ValueSample& sample : ValueSamples()) {
    const Value value = SampleConfig(sample, "f").args[0];
    config.args.push_back(value);
    config.kwargs.emplace_back(sample.name, value);
  }
  return config;
}

TEST(Config, EncodeIsTheInverseOfParse) {
  const Config config = Example();
  const std::string identity = EncodeConfig(config);
  const absl::StatusOr<Config> parsed = ParseConfig(identity);
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(parsed->level, 2);
  EXPECT_EQ(parsed->api, "aten::add.Tensor");
  EXPECT_EQ(parsed->args, config.args);
  EXPECT_EQ(parsed->kwargs, config.kwargs);
  EXPECT_EQ(EncodeConfig(*parsed), identity);
}

TEST(Config, EveryCutAndAnyRestIsAnError) {
  const std::string identity = EncodeConfig(Example());
  for (size_t bytes = 0; bytes < identity.size(); ++bytes) {
    EXPECT_FALSE(ParseConfig(std::string_view(identity).substr(0, bytes)).ok()) << bytes;
  }
  const absl::Status status = ParseConfig(identity + "x").status();
  EXPECT_EQ(std::string(status.message()),
            "byte " + std::to_string(identity.size()) + ": expected another framework or the end of the config");
  EXPECT_FALSE(ParseConfig(identity + std::string("\4nobo", 5)).ok());
  EXPECT_FALSE(ParseConfig(identity + std::string("\5torch", 6)).ok());  // redundant: the API's framework
  EXPECT_FALSE(ParseConfig(identity + std::string("\0", 1)).ok());
}

TEST(Config, FrameworkIsTheApisUnlessSaid) {
  EXPECT_EQ(FrameworkOfApi("torch.add"), "torch");
  EXPECT_EQ(FrameworkOfApi("aten::add.Tensor"), "torch");
  EXPECT_EQ(FrameworkOfApi("numpy.sum"), "torch");
  EXPECT_EQ(FrameworkOfApi("paddle.add"), "paddle");
  EXPECT_EQ(FrameworkOfApi("paddlenlp.add"), "torch");
  EXPECT_EQ(FrameworkOfApi("paddle"), "torch");

  Config config = Example();
  const std::string bare = EncodeConfig(config);
  EXPECT_EQ(config.framework(), "torch");
  config.other_framework = "paddle";
  const std::string marked = EncodeConfig(config);
  EXPECT_EQ(marked, bare + "\6paddle");
  const absl::StatusOr<Config> parsed = ParseConfig(marked);
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(parsed->framework(), "paddle");
  EXPECT_EQ(EncodeConfig(*parsed), marked);
  EXPECT_EQ(ReadConfigHead(marked).api, config.api);
}

TEST(Config, HeadReadsLevelAndApi) {
  const std::string identity = EncodeConfig(Example());
  const ConfigHead head = ReadConfigHead(identity);
  EXPECT_EQ(head.level, 2);
  EXPECT_EQ(head.api, "aten::add.Tensor");
  EXPECT_EQ(ReadConfigHead("").api, "");
  EXPECT_EQ(ReadConfigHead("\x01\x7f").api, "");
}

TEST(Config, Facets) {
  std::string facets;
  AppendVarint(2, &facets);
  AppendVarint(0, &facets);
  AppendVarint(kFacetRequiresGrad | kFacetSubclass, &facets);
  AppendString("torch.nn.parameter.Parameter", &facets);
  AppendVarint(3, &facets);
  AppendVarint(kFacetRequiresGrad, &facets);

  const auto parsed = ParseFacets(facets);
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  ASSERT_EQ(parsed->size(), 2u);
  EXPECT_EQ((*parsed)[0].tensor, 0u);
  EXPECT_TRUE((*parsed)[0].requires_grad);
  EXPECT_EQ((*parsed)[0].subclass, "torch.nn.parameter.Parameter");
  EXPECT_EQ((*parsed)[1].tensor, 3u);
  EXPECT_EQ((*parsed)[1].subclass, "");
  EXPECT_EQ(FindFacet(*parsed, 3), &(*parsed)[1]);
  EXPECT_EQ(FindFacet(*parsed, 1), nullptr);
  EXPECT_EQ(FindFacet(*parsed, 4), nullptr);
  // From other writers, in any order.
  EXPECT_EQ(ParseFacets(std::string("\x02\x03\x01\x00\x01", 5))->front().tensor, 0u);

  EXPECT_TRUE(ParseFacets("")->empty());
  for (size_t bytes = 1; bytes < facets.size(); ++bytes) {
    EXPECT_FALSE(ParseFacets(std::string_view(facets).substr(0, bytes)).ok()) << bytes;
  }
}

}  // namespace

}  // namespace torchtrace
