// ConfigBuilder writes the layout of config.h, and keeps the limits of descriptions.

#include "serialize/model/config_builder.h"

#include <cstdint>
#include <cstdlib>
#include <new>
#include <random>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace {
int64_t g_allocations = 0;
}  // namespace

void* operator new(size_t bytes) {
  ++g_allocations;
  if (void* const memory = malloc(bytes)) return memory;
  throw std::bad_alloc();
}
void* operator new(size_t bytes, const std::nothrow_t&) noexcept {
  ++g_allocations;
  return malloc(bytes);
}
void operator delete(void* memory) noexcept { free(memory); }
void operator delete(void* memory, size_t) noexcept { free(memory); }

namespace torchtrace {
namespace {

const std::string& Head() {
  static const auto* const head = new std::string(ConfigBuilder::EncodeHead(2, "aten::f"));
  return *head;
}

// Parses the builder's bytes; checks that encoding the result gives the same bytes.
Config Parsed(ConfigBuilder* builder) {
  const std::string whole(builder->Finish());
  const std::string identity = whole.substr(0, builder->identity_bytes());
  const absl::StatusOr<Config> config = ParseConfig(identity);
  EXPECT_TRUE(config.ok()) << config.status();
  if (!config.ok()) return {};
  EXPECT_EQ(EncodeConfig(*config), identity);
  EXPECT_EQ(config->level, 2);
  EXPECT_EQ(config->api, "aten::f");
  return *config;
}

std::vector<TensorFacet> Facets(ConfigBuilder* builder) {
  const std::string whole(builder->Finish());
  absl::StatusOr<std::vector<TensorFacet>> facets = ParseFacets(whole.substr(builder->identity_bytes()));
  EXPECT_TRUE(facets.ok()) << facets.status();
  return std::move(facets).value_or(std::vector<TensorFacet>());
}

// The value of a single argument that `describe(builder)` describes.
template <typename Describe>
Value Described(Describe&& describe) {
  ConfigBuilder builder;
  builder.Begin(Head());
  builder.Positional(1);
  describe(&builder);
  builder.Keywords(0);
  const Config config = Parsed(&builder);
  return config.args.size() == 1 ? config.args[0] : Value();
}

void Tensor(ConfigBuilder* builder, bool requires_grad, std::string_view subclass = {}) {
  builder->values().BeginTensor(0, "float32", "cpu");
  builder->values().Rank(0);
  builder->EndTensor(requires_grad, subclass);
}

TEST(ConfigBuilder, ACall) {
  ConfigBuilder builder;
  builder.Begin(Head());
  builder.Positional(2);
  builder.values().Int(7);
  builder.values().None();
  builder.Keywords(1);
  builder.Keyword("axis");
  builder.values().Bool(true);
  const Config config = Parsed(&builder);
  ASSERT_EQ(config.args.size(), 2u);
  EXPECT_EQ(config.args[0].tag, ValueTag::kInt);
  EXPECT_EQ(config.args[1].tag, ValueTag::kNone);
  ASSERT_EQ(config.kwargs.size(), 1u);
  EXPECT_EQ(config.kwargs[0].first, "axis");
  EXPECT_EQ(config.kwargs[0].second.tag, ValueTag::kTrue);
}

TEST(ConfigBuilder, ManyArguments) {
  ConfigBuilder builder;
  for (const size_t count : {0, 1, 127, 128, 300, 20'000}) {
    builder.Begin(Head());
    builder.Positional(count);
    for (size_t i = 0; i < count; ++i) builder.values().None();
    builder.Keywords(count);
    for (size_t i = 0; i < count; ++i) {
      builder.Keyword(absl::StrCat("k", i));
      builder.values().None();
    }
    const Config config = Parsed(&builder);
    EXPECT_EQ(config.args.size(), count);
    EXPECT_EQ(config.kwargs.size(), count);
  }
}

TEST(ConfigBuilder, FacetsAreOfTensorsInOrder) {
  ConfigBuilder builder;
  for (int round = 0; round < 2; ++round) {
    builder.Begin(Head());
    builder.Positional(1);
    builder.Container(ValueTag::kList, 5,
                      [&](size_t i) { Tensor(&builder, i == 1 || i == 4, i >= 3 ? "a.Subclass" : ""); });
    builder.Keywords(0);
    const std::vector<TensorFacet> facets = Facets(&builder);
    ASSERT_EQ(facets.size(), 3u);
    EXPECT_EQ(facets[0].tensor, 1u);
    EXPECT_TRUE(facets[0].requires_grad);
    EXPECT_EQ(facets[0].subclass, "");
    EXPECT_EQ(facets[1].tensor, 3u);
    EXPECT_FALSE(facets[1].requires_grad);
    EXPECT_EQ(facets[1].subclass, "a.Subclass");
    EXPECT_EQ(facets[2].tensor, 4u);
    EXPECT_TRUE(facets[2].requires_grad);
    EXPECT_EQ(facets[2].subclass, "a.Subclass");
    // The next call has none of them.
    builder.Begin(Head());
    builder.Positional(1);
    Tensor(&builder, false);
    builder.Keywords(0);
    EXPECT_TRUE(Facets(&builder).empty());
  }
}

TEST(ConfigBuilder, LongContainersAreCut) {
  for (const size_t whole : {size_t{0}, kMaxItems, kMaxItems + 1, 10 * kMaxItems}) {
    size_t next = 0;
    const Value list = Described([&](ConfigBuilder* builder) {
      builder->Container(ValueTag::kList, whole, [&](size_t i) {
        EXPECT_EQ(i, next++);
        builder->values().None();
      });
    });
    EXPECT_EQ(next, std::min(whole, kMaxItems));
    EXPECT_EQ(list.items.size(), next);
    EXPECT_EQ(list.whole, whole);
  }
}

TEST(ConfigBuilder, DeepContainersAreLeftOut) {
  int deepest = 0;
  const Value outer = Described([&](ConfigBuilder* builder) {
    const auto nest = [&](auto& self, int depth) -> void {
      deepest = std::max(deepest, depth);
      builder->Container(ValueTag::kTuple, 2, [&](size_t) { self(self, depth + 1); });
    };
    // Each container is left again: there are 2^kMaxDepth innermost ones.
    nest(nest, 0);
  });
  EXPECT_EQ(deepest, kMaxDepth);
  const Value* value = &outer;
  for (int depth = 0; depth < kMaxDepth; ++depth) {
    ASSERT_EQ(value->tag, ValueTag::kTuple);
    ASSERT_FALSE(value->items.empty());
    value = &value->items.front();
  }
  EXPECT_EQ(value->tag, ValueTag::kDeep);
}

TEST(ConfigBuilder, ADescriptionThatFailedLeavesNothing) {
  ConfigBuilder builder;
  for (int i = 0; i < 3 * kMaxDepth; ++i) {
    builder.Begin(Head());
    builder.Positional(1);
    EXPECT_THROW(builder.Container(ValueTag::kList, 3, [](size_t) { throw std::bad_alloc(); }), std::bad_alloc);
  }
  builder.Begin(Head());
  builder.Positional(1);
  builder.Container(ValueTag::kList, 0, [](size_t) {});
  builder.Keywords(0);
  const Config config = Parsed(&builder);
  ASSERT_EQ(config.args.size(), 1u);
  EXPECT_EQ(config.args[0].tag, ValueTag::kList);
}

TEST(ConfigBuilder, ConfigsThatAreFullTakeNoMoreItems) {
  ConfigBuilder builder;
  builder.Begin(Head());
  constexpr size_t kStrings = 100;
  builder.Positional(kStrings);
  const std::string text(kMaxStringBytes, 'x');
  for (size_t i = 0; i < kStrings; ++i) {
    builder.Container(ValueTag::kList, 1, [&](size_t) { builder.values().String(text, text.size()); });
  }
  builder.Keywords(0);
  const Config config = Parsed(&builder);
  ASSERT_EQ(config.args.size(), kStrings);
  EXPECT_EQ(config.args.front().items.size(), 1u);
  EXPECT_TRUE(config.args.back().items.empty());
  EXPECT_EQ(config.args.back().whole, 1u);
  EXPECT_LT(builder.identity_bytes(), kMaxConfigBytes + 2 * kMaxStringBytes);
}

TEST(ConfigBuilder, EqualSetsHaveEqualBytes) {
  std::vector<int64_t> items;
  for (int64_t i = 0; i < 200; ++i) items.push_back(i * i * i - 1000);
  std::mt19937 random(1);
  std::string first;
  for (int round = 0; round < 5; ++round) {
    std::shuffle(items.begin(), items.end(), random);
    ConfigBuilder builder;
    builder.Begin(Head());
    builder.Positional(1);
    // And with a set in each item of a set.
    builder.Set(ValueTag::kSet, items.size(), [&](size_t i) {
      builder.Set(ValueTag::kFrozenSet, 2, [&](size_t k) { builder.values().Int(items[i] + static_cast<int64_t>(k)); });
    });
    builder.Keywords(0);
    const Config config = Parsed(&builder);
    ASSERT_EQ(config.args.size(), 1u);
    EXPECT_EQ(config.args[0].items.size(), items.size());
    const std::string bytes(builder.bytes()->view());
    if (round == 0) first = bytes;
    EXPECT_EQ(bytes, first);
  }
}

TEST(ConfigBuilder, TextIsNotCutInsideACharacter) {
  EXPECT_EQ(KeptText("abc"), "abc");
  const std::string ascii(kMaxStringBytes + 1, 'x');
  EXPECT_EQ(KeptText(ascii).size(), kMaxStringBytes);
  for (const std::string_view character : {"\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x98\x80"}) {
    for (size_t before = 0; before < 5; ++before) {
      std::string text(before, 'x');
      while (text.size() <= kMaxStringBytes + 8) text += character;
      const size_t kept = KeptText(text).size();
      EXPECT_EQ((kept - before) % character.size(), 0u);
      EXPECT_LE(kept, kMaxStringBytes);
      EXPECT_GT(kept + character.size(), kMaxStringBytes);
    }
  }
  // Invalid UTF-8 without a character boundary.
  EXPECT_EQ(KeptText(std::string(5000, '\x80')), "");
}

TEST(ConfigBuilder, DescribingAgainAllocatesNothing) {
  ConfigBuilder builder;
  int64_t before = 0;
  for (int round = 0; round < 100; ++round) {
    if (round == 1) before = g_allocations;
    builder.Begin(Head());
    builder.Positional(1);
    builder.Container(ValueTag::kList, 100, [&](size_t) { Tensor(&builder, true, "a.Subclass"); });
    builder.Keywords(1);
    builder.Keyword("name");
    builder.values().String("text", 4);
    builder.Finish();
  }
  EXPECT_EQ(g_allocations, before);
}

// ---- SchemaArguments ----

std::string IntBytes(int64_t value) {
  std::string bytes;
  ValueWriter(&bytes).Int(value);
  return bytes;
}

struct Parameter {
  std::string name;
  int64_t value;
  bool has_default;
  int64_t by_default;
};

Value IntValue(int64_t value) {
  const std::string bytes = IntBytes(value);
  ByteReader reader(bytes);
  Value parsed;
  EXPECT_TRUE(ReadValue(&reader, &parsed).ok());
  return parsed;
}

// The expected bytes of a call with these arguments.
std::string Expected(const std::vector<Parameter>& parameters, size_t positional) {
  const auto is_default = [](const Parameter& p) { return p.has_default && p.value == p.by_default; };
  Config config;
  config.level = 2;
  config.api = "aten::f";
  size_t kept = positional;
  while (kept > 0 && is_default(parameters[kept - 1])) --kept;
  for (size_t i = 0; i < kept; ++i) config.args.push_back(IntValue(parameters[i].value));
  for (size_t i = positional; i < parameters.size(); ++i) {
    if (!is_default(parameters[i])) config.kwargs.emplace_back(parameters[i].name, IntValue(parameters[i].value));
  }
  return EncodeConfig(config);
}

std::string LaidOut(const std::vector<Parameter>& parameters, size_t positional, ConfigBuilder* builder) {
  SchemaArguments arguments(Head(), positional, builder);
  for (const Parameter& parameter : parameters) {
    arguments.Add(parameter.name, parameter.has_default ? IntBytes(parameter.by_default) : "",
                  [&] { builder->values().Int(parameter.value); });
  }
  return std::string(builder->Finish().substr(0, builder->identity_bytes()));
}

TEST(SchemaArguments, DefaultsAreLeftOut) {
  ConfigBuilder builder;
  const Parameter given = {"a", 1, false, 0}, other = {"b", 2, true, 3}, same = {"c", 3, true, 3};
  for (const std::vector<Parameter>& parameters : std::vector<std::vector<Parameter>>{{},
                                                                                      {given},
                                                                                      {same},
                                                                                      {given, same},
                                                                                      {same, given},
                                                                                      {same, same, other, same},
                                                                                      {given, other, same, same},
                                                                                      {same, same, same}}) {
    for (size_t positional = 0; positional <= parameters.size(); ++positional) {
      EXPECT_EQ(LaidOut(parameters, positional, &builder), Expected(parameters, positional))
          << parameters.size() << " " << positional;
    }
  }
}

TEST(SchemaArguments, AnySchema) {
  std::mt19937 random(7);
  ConfigBuilder builder;
  for (int round = 0; round < 2000; ++round) {
    const size_t count = random() % (round % 20 == 0 ? 128 : 8);
    const size_t positional = count == 0 ? 0 : random() % (count + 1);
    std::vector<Parameter> parameters;
    for (size_t i = 0; i < count; ++i) {
      parameters.push_back({std::string(1 + random() % 3, static_cast<char>('a' + i % 26)),
                            static_cast<int64_t>(random() % 3) * 1000, random() % 4 != 0,
                            static_cast<int64_t>(random() % 3) * 1000});
    }
    ASSERT_EQ(LaidOut(parameters, positional, &builder), Expected(parameters, positional)) << round;
  }
}

TEST(SchemaArguments, ManyThatAreKept) {
  ConfigBuilder builder;
  for (const size_t count : {63, 64, 127}) {
    const std::vector<Parameter> parameters(count, {"name", 5, true, 6});
    for (const size_t positional : {size_t{0}, size_t{1}, count / 2, count}) {
      EXPECT_EQ(LaidOut(parameters, positional, &builder), Expected(parameters, positional)) << count;
    }
  }
}

TEST(SchemaArguments, TensorsKeepTheirFacets) {
  ConfigBuilder builder;
  SchemaArguments arguments(Head(), 2, &builder);
  std::string none;
  ValueWriter(&none).None();
  arguments.Add("self", "", [&] { Tensor(&builder, true); });
  arguments.Add("weight", none, [&] { builder.values().None(); });
  arguments.Add("out", none, [&] { Tensor(&builder, false, "a.Subclass"); });
  const std::vector<TensorFacet> facets = Facets(&builder);
  ASSERT_EQ(facets.size(), 2u);
  EXPECT_EQ(facets[0].tensor, 0u);
  EXPECT_EQ(facets[1].tensor, 1u);
  EXPECT_EQ(facets[1].subclass, "a.Subclass");
}

}  // namespace
}  // namespace torchtrace
