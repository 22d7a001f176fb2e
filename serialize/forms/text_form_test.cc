#include "serialize/forms/text_form.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <random>
#include <string>

#include "serialize/model/value.h"
#include "serialize/testing/fake_trace.h"
#include "serialize/testing/value_samples.h"

namespace torchtrace {
namespace {

TEST(TextForm, EveryKind) {
  for (const ValueSample& sample : ValueSamples()) {
    EXPECT_EQ(FormatValue(SampleConfig(sample, "f").args[0]), sample.text) << sample.name;
  }
}

TEST(TextForm, DifferentValuesDiffer) {
  std::map<std::string, std::string> seen;
  for (const ValueSample& sample : ValueSamples()) {
    const auto [at, fresh] = seen.emplace(sample.text, sample.name);
    EXPECT_TRUE(fresh) << sample.name << " and " << at->second << " are both " << sample.text;
  }
}

TEST(TextForm, StaysOnOneLine) {
  for (const ValueSample& sample : ValueSamples()) {
    for (const char c : sample.text) EXPECT_GE(static_cast<unsigned char>(c), 0x20) << sample.name;
  }
}

TEST(TextForm, TheSeedExample) {
  Config config;
  config.api = "torch.randn";
  config.args = {IntValue(2), IntValue(3)};
  config.kwargs = {{"device", TextValue("cpu")}};
  EXPECT_EQ(FormatConfig(config), R"(torch.randn(2, 3, device="cpu"))");

  config.api = "torch.add";
  config.args = {TensorValue({2, 3}), TensorValue({2, 3})};
  config.kwargs = {{"alpha", IntValue(10)}};
  EXPECT_EQ(FormatConfig(config), R"(torch.add(Tensor([2, 3], "float32"), Tensor([2, 3], "float32"), alpha=10))");
}

TEST(TextForm, CallsWithoutArgumentsOrOnlyKeywords) {
  Config config;
  config.api = "f";
  EXPECT_EQ(FormatConfig(config), "f()");
  config.kwargs = {{"tensor", IntValue(1)}, {"not a name", IntValue(2)}, {"größe", IntValue(3)}};
  EXPECT_EQ(FormatConfig(config), R"(f(tensor=1, "not a name"=2, "größe"=3))");
}

TEST(TextForm, NamesThatWouldBreakTheLineAreQuoted) {
  Config config;
  config.api = "m.f.<locals>.g";
  EXPECT_EQ(FormatConfig(config), "m.f.<locals>.g()");
  config.api = "a(b\n";
  EXPECT_EQ(FormatConfig(config), R"("a(b\n"())");
  config.api = "";
  EXPECT_EQ(FormatConfig(config), R"(""())");
}

TEST(TextForm, FloatsReadBackAsTheSameDouble) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 200'000; ++i) {
    const uint64_t bits = random();
    double value;
    std::memcpy(&value, &bits, sizeof value);
    if (value != value) continue;
    const std::string text = FormatFloat(value);
    EXPECT_EQ(std::strtod(text.c_str(), nullptr), value) << text;
    EXPECT_NE(text.find_first_of(".enf"), std::string::npos) << text;
  }
}

}  // namespace
}  // namespace torchtrace
