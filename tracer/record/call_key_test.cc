#include "tracer/record/call_key.h"

#include <cmath>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace torchtrace {
namespace {

using Describe = std::function<void(CallKey*)>;

std::string BytesOf(const Describe& describe) {
  CallKey key;
  key.Begin(7);
  describe(&key);
  EXPECT_TRUE(key.valid());
  return std::string(key.bytes());
}

void Ints(CallKey* key, ValueTag tag, std::vector<int64_t> numbers) {
  key->Container(tag, numbers.size(), [&](size_t i) { key->Int(numbers[i]); });
}

TEST(CallKeyTest, DifferentCallsHaveDifferentKeys) {
  const std::vector<Describe> calls = {
      [](CallKey*) {},
      [](CallKey* key) { key->None(); },
      [](CallKey* key) { key->Bool(false); },
      [](CallKey* key) { key->Bool(true); },
      [](CallKey* key) { key->Int(0); },
      [](CallKey* key) { key->Int(1); },
      [](CallKey* key) { key->Int(-1); },
      [](CallKey* key) { key->Int(INT64_MIN); },
      [](CallKey* key) { key->Float(0.0); },
      [](CallKey* key) { key->Float(-0.0); },
      [](CallKey* key) { key->Float(1.0); },
      [](CallKey* key) { key->Float(NAN); },
      [](CallKey* key) { key->Complex(1.0, 0.0); },
      [](CallKey* key) { key->Complex(0.0, 1.0); },
      [](CallKey* key) { key->String(""); },
      [](CallKey* key) { key->String("a"); },
      [](CallKey* key) { key->String({"a\0", 2}); },
      [](CallKey* key) { key->String("abcdefgh"); },
      [](CallKey* key) { key->String("abcdefghi"); },
      [](CallKey* key) { key->String("abcdefgh"), key->Int('i'); },
      [](CallKey* key) { key->Named(ValueTag::kDtype, 1); },
      [](CallKey* key) { key->Named(ValueTag::kDtype, 2); },
      [](CallKey* key) { key->Named(ValueTag::kDevice, 1); },
      [](CallKey* key) { Ints(key, ValueTag::kTuple, {}); },
      [](CallKey* key) { Ints(key, ValueTag::kTuple, {1}); },
      [](CallKey* key) { Ints(key, ValueTag::kList, {1}); },
      [](CallKey* key) { Ints(key, ValueTag::kList, {1, 2}); },
      [](CallKey* key) { Ints(key, ValueTag::kList, {1}), key->Int(2); },
      [](CallKey* key) { Ints(key, ValueTag::kList, {}), key->Int(1), key->Int(2); },
      [](CallKey* key) { key->Positional(1), key->Int(1), key->Keywords(0); },
      [](CallKey* key) { key->Positional(0), key->Keywords(1), key->Keyword("a"), key->Int(1); },
      [](CallKey* key) { key->Positional(0), key->Keywords(1), key->Keyword("b"), key->Int(1); },
      [](CallKey* key) { *key->Tensor(0, 1) = 5; },
      [](CallKey* key) { *key->Tensor(1, 1) = 5; },
      [](CallKey* key) { *key->Tensor(0, 1) = 6; },
      [](CallKey* key) { key->Begin(8); },
  };
  std::set<std::string> keys;
  for (const Describe& call : calls) {
    EXPECT_EQ(BytesOf(call), BytesOf(call));
    keys.insert(BytesOf(call));
  }
  EXPECT_EQ(keys.size(), calls.size());
}

TEST(CallKeyTest, WhatDoesNotFitHasNoKey) {
  CallKey key;
  const std::vector<Describe> large = {
      [](CallKey* key) { key->String(std::string(1000, 'x')); },
      [](CallKey* key) { Ints(key, ValueTag::kList, std::vector<int64_t>(40)); },
      [](CallKey* key) { Ints(key, ValueTag::kList, std::vector<int64_t>(1'000'000)); },
      [](CallKey* key) {
        for (int i = 0; i < 100; ++i) key->Int(i);
      },
      [](CallKey* key) { EXPECT_EQ(key->Tensor(0, 64), nullptr); },
      [](CallKey* key) { key->Fail(); },
  };
  for (const Describe& describe : large) {
    key.Begin(1);
    describe(&key);
    EXPECT_FALSE(key.valid());
    // Whatever follows.
    key.None();
    EXPECT_FALSE(key.valid());
    EXPECT_LE(key.bytes().size(), 64 * sizeof(uint64_t));
  }
  key.Begin(1);
  key.Int(1);
  EXPECT_TRUE(key.valid());
}

TEST(CallKeyTest, FunctionsAreKnownByNameOrNumber) {
  CallKey key;
  const auto bytes_of = [&key](auto function) {
    key.Begin(function);
    return std::string(key.bytes());
  };
  std::string name = "torch.nn.functional.relu";
  const std::string_view view = name;
  const std::string relu = bytes_of(view);
  EXPECT_EQ(bytes_of(std::string_view("torch.nn.functional.relu")), relu);
  name.replace(20, 4, "gelu");  // the same memory
  EXPECT_NE(bytes_of(view), relu);
  EXPECT_NE(CallKey::NewFunctionNumber(), CallKey::NewFunctionNumber());
  EXPECT_NE(bytes_of(CallKey::NewFunctionNumber()), bytes_of(CallKey::NewFunctionNumber()));
}

TEST(CallKeyTest, NestedWithoutEnd) {
  CallKey key;
  key.Begin(1);
  std::function<void(size_t)> nest = [&](size_t) { key.Container(ValueTag::kList, 1, nest); };
  nest(0);
  EXPECT_FALSE(key.valid());
}

}  // namespace
}  // namespace torchtrace
