// Tests the YAML and JSON forms, and the files in both that yaml_form_pyyaml_test.py
// reads: testdata/forms/values.yaml and .json. After an intended change, run this
// test with UPDATE_GOLDENS set to the checkout's folder.

#include <gtest/gtest.h>
#include <yaml-cpp/yaml.h>

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

#include "nlohmann/json.hpp"
#include "serialize/forms/forms.h"
#include "serialize/testing/value_samples.h"

namespace torchtrace {
namespace {

using nlohmann::ordered_json;

Value Parsed(const ValueSample& sample) { return SampleConfig(sample, "f").args[0]; }

// Expects `yaml`, as a YAML reader read it, to equal `json`, our JSON form of the same value. `what`: for messages.
void ExpectSame(const YAML::Node& yaml, const ordered_json& json, const std::string& what) {
  const bool tagged_number = json.is_object() && json.size() == 2 && json.contains("value") &&
                             (json.value("type", "") == "float" || json.value("type", "") == "int");
  if (tagged_number && yaml.IsScalar()) {
    const std::string text = json["value"];
    if (json["type"] == "int") {
      EXPECT_EQ(yaml.Scalar(), text) << what;
    } else if (text == "nan") {
      EXPECT_TRUE(std::isnan(yaml.as<double>())) << what;
    } else {
      EXPECT_EQ(yaml.as<double>(), text == "inf" ? INFINITY : -INFINITY) << what;
    }
  } else if (json.is_object()) {
    ASSERT_TRUE(yaml.IsMap()) << what;
    ASSERT_EQ(yaml.size(), json.size()) << what;
    for (const auto& [name, value] : json.items()) ExpectSame(yaml[name], value, what + "." + name);
  } else if (json.is_array()) {
    ASSERT_TRUE(yaml.IsSequence()) << what;
    ASSERT_EQ(yaml.size(), json.size()) << what;
    for (size_t i = 0; i < json.size(); ++i) ExpectSame(yaml[i], json[i], what + "[" + std::to_string(i) + "]");
  } else if (json.is_null()) {
    EXPECT_TRUE(yaml.IsNull()) << what;
  } else if (json.is_string()) {
    EXPECT_EQ(yaml.as<std::string>(), json.get<std::string>()) << what;
  } else if (json.is_boolean()) {
    EXPECT_EQ(yaml.as<bool>(), json.get<bool>()) << what;
  } else if (json.is_number_integer()) {
    EXPECT_EQ(yaml.as<int64_t>(), json.get<int64_t>()) << what;
  } else {
    const double value = yaml.as<double>();
    EXPECT_EQ(value, json.get<double>()) << what;
    EXPECT_EQ(std::signbit(value), std::signbit(json.get<double>())) << what;
  }
}

TEST(YamlForm, EveryKind) {
  for (const ValueSample& sample : ValueSamples()) {
    EXPECT_EQ(FormatYaml(ToPlain(Parsed(sample))), sample.yaml) << sample.name;
  }
}

TEST(JsonForm, EveryKind) {
  for (const ValueSample& sample : ValueSamples()) {
    EXPECT_EQ(DumpJson(ValueToJson(Parsed(sample))), sample.json) << sample.name;
  }
}

TEST(YamlForm, YamlCppReadsWhatJsonSays) {
  for (const ValueSample& sample : ValueSamples()) {
    const Config config = SampleConfig(sample, "torch.f");
    const YAML::Node node = YAML::Load(FormatYamlItem(config, {}));
    ASSERT_EQ(node.size(), 1u);
    EXPECT_EQ(node[0]["api"].as<std::string>(), "torch.f");
    ExpectSame(node[0]["args"], ConfigToJson(config, {})["args"], sample.name);
    EXPECT_EQ(node[0]["kwargs"].size(), 0u);
  }
}

// Both forms name the framework and read back as the same call.
TEST(Forms, OfAnotherFramework) {
  for (const ValueSample& sample : ValueSamples()) {
    for (const char* const api : {"paddle.f", "numpy.f"}) {
      Config config = SampleConfig(sample, api);
      config.level = 1;
      const std::string torch_form = FormatYaml(ToPlain(config.args[0]));
      const bool has_names = torch_form.find("type: torch.") != std::string::npos;
      if (has_names && config.framework() != "paddle") config.other_framework = "paddle";
      const std::string yaml = FormatYamlItem(config, {});
      EXPECT_EQ(has_names, yaml.find("type: paddle.") != std::string::npos) << yaml;
      EXPECT_EQ(yaml.find("type: torch."), std::string::npos) << yaml;
      const absl::StatusOr<Plain> plain = ParseJsonText(DumpJson(ConfigToJson(config, {})));
      ASSERT_TRUE(plain.ok()) << sample.name << ": " << plain.status();
      const absl::StatusOr<ParsedCall> parsed = ParsePlainCall(*plain);
      ASSERT_TRUE(parsed.ok()) << sample.name << ": " << parsed.status();
      EXPECT_EQ(parsed->identity, EncodeConfig(config)) << yaml;
    }
  }
}

// Any bytes that can be read can be formatted, and read back from YAML and JSON.
TEST(Forms, OfDamagedValuesThatCanBeRead) {
  for (const ValueSample& sample : ValueSamples()) {
    for (size_t bit = 0; bit < 8 * sample.bytes.size(); ++bit) {
      std::string bytes = sample.bytes;
      bytes[bit / 8] ^= static_cast<char>(1 << bit % 8);
      ByteReader reader(bytes);
      Value value;
      if (!ReadValue(&reader, &value).ok()) continue;
      const std::string what = sample.name + " bit " + std::to_string(bit);
      for (const char c : FormatValue(value)) ASSERT_GE(static_cast<unsigned char>(c), 0x20) << what;
      const ordered_json json = ValueToJson(value);
      ASSERT_EQ(ordered_json::parse(DumpJson(json)), json) << what;
      ExpectSame(YAML::Load(FormatYaml(ToPlain(value))), json, what);
    }
  }
}

TEST(YamlForm, Item) {
  Config config = SampleConfig(ValueSamples()[0], "aten::add.Tensor");
  config.kwargs.emplace_back("on", config.args[0]);
  EXPECT_EQ(FormatYamlItem(config, {}), "- api: aten::add.Tensor\n  args: [null]\n  kwargs: {\"on\": null}\n");
  EXPECT_EQ(FormatYamlItem(config, {}, {"level: 2", "calls: 3"}),
            "- api: aten::add.Tensor\n  args: [null]\n  kwargs: {\"on\": null}\n  level: 2\n  calls: 3\n");
}

TEST(YamlForm, ApisWithCharactersOfYamlAreQuoted) {
  EXPECT_EQ(YamlScalar("aten::add.Tensor", false), "aten::add.Tensor");
  EXPECT_EQ(YamlScalar("aten::add.Tensor", true), "\"aten::add.Tensor\"");
  EXPECT_EQ(YamlScalar("f.<locals>.g", false), "\"f.<locals>.g\"");
  EXPECT_EQ(YamlScalar("a:", false), "\"a:\"");
}

TEST(YamlForm, KeysBeyondTheReadersLimit) {
  Config config;
  config.api = "f";
  const std::string key(5000, 'k');
  config.kwargs.emplace_back(key, SampleConfig(ValueSamples()[0], "f").args[0]);
  const YAML::Node node = YAML::Load(FormatYamlItem(config, {}));
  EXPECT_TRUE(node[0]["kwargs"][key].IsNull());
  EXPECT_EQ(node[0]["kwargs"].size(), 1u);
}

TEST(YamlForm, FacetsGoToTheirTensor) {
  Value tensor;
  for (const ValueSample& sample : ValueSamples()) {
    if (sample.name == "tensor_of_rank_0") tensor = Parsed(sample);
  }
  Value list;
  list.tag = ValueTag::kList;
  list.items = {tensor, tensor};
  list.whole = 2;
  Config config;
  config.api = "f";
  config.args = {list, tensor};
  config.kwargs = {{"weight", tensor}};
  const std::vector<TensorFacet> facets = {{1, false, "pkg.Special"}, {3, true, "torch.nn.parameter.Parameter"}};
  const std::string plain = "{type: torch.Tensor, shape: [], dtype: torch.int64, device: cpu";
  EXPECT_EQ(FormatYamlItem(config, facets),
            "- api: f\n"
            "  args: [{type: list, value: [" +
                plain + "}, " + plain + ", subclass: pkg.Special}]}, " + plain +
                "}]\n"
                "  kwargs: {weight: " +
                plain + ", subclass: torch.nn.parameter.Parameter, requires_grad: true}}\n");
}

TEST(JsonForm, Config) {
  Config config = SampleConfig(ValueSamples()[0], "torch.f");
  config.kwargs.emplace_back("a\xff", config.args[0]);
  EXPECT_EQ(DumpJson(ConfigToJson(config, {})),
            R"({"level":1,"api":"torch.f","args":[null],"kwargs":{"a\\xff":null}})");
}

TEST(JsonForm, TextThatIsNoUtf8DoesNotThrow) { EXPECT_EQ(DumpJson(ordered_json{{"a", "\xff"}}), "{\"a\":\"\ufffd\"}"); }

void ExpectGolden(const std::string& name, const std::string& content) {
  const std::string path = "testdata/forms/" + name;
  if (const char* const checkout = std::getenv("UPDATE_GOLDENS"); checkout != nullptr) {
    std::ofstream(std::string(checkout) + "/" + path) << content;
    return;
  }
  std::ifstream file(path);
  std::stringstream golden;
  golden << file.rdbuf();
  EXPECT_EQ(golden.str(), content) << path << " is not what the samples give";
}

TEST(YamlForm, GoldensThatOtherReadersAreTestedWith) {
  std::string yaml;
  ordered_json json = ordered_json::array();
  for (const ValueSample& sample : ValueSamples()) {
    Config config = SampleConfig(sample, "aten::f.Tensor");
    config.kwargs.emplace_back(sample.name, config.args[0]);
    yaml += FormatYamlItem(config, {});
    ordered_json item = ConfigToJson(config, {});
    item.erase("level");
    json.push_back(std::move(item));
  }
  ExpectGolden("values.yaml", yaml);
  ExpectGolden("values.json", DumpPrettyJson(json));
}

}  // namespace
}  // namespace torchtrace
