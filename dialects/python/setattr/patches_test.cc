// Tests the tables behind native entries: the list of patches, and the map from addresses.

#include <cstdint>
#include <memory>
#include <random>
#include <unordered_map>
#include <vector>

#include "dialects/python/setattr/patch_list.h"
#include "gtest/gtest.h"

namespace torchtrace::python_dialect {
namespace {

TEST(PointerMap, NothingIsThereAtFirst) {
  const PointerMap<int> map;
  int key = 0;
  EXPECT_EQ(map.Find(&key), nullptr);
  EXPECT_EQ(map.Find(nullptr), nullptr);
}

TEST(PointerMap, TheLastValueOfAKeyCounts) {
  PointerMap<int> map;
  int keys[2] = {}, values[3] = {};
  map.Insert(&keys[0], &values[0]);
  map.Insert(&keys[1], &values[1]);
  map.Insert(&keys[0], &values[2]);
  EXPECT_EQ(map.Find(&keys[0]), &values[2]);
  EXPECT_EQ(map.Find(&keys[1]), &values[1]);
  EXPECT_EQ(map.Find(&values[0]), nullptr);
}

// Like a hash table of the standard library, for addresses like those of objects and method definitions.
TEST(PointerMap, AnyAddresses) {
  std::mt19937_64 random(3);
  for (const uint64_t stride : {uint64_t{1}, uint64_t{16}, uint64_t{4096}, uint64_t{1} << 32}) {
    PointerMap<char> map;
    std::unordered_map<const void*, char*> model;
    std::vector<char> values(3000);
    for (char& value : values) {
      const auto* const key = reinterpret_cast<const void*>((1 + random() % 2000) * stride);
      map.Insert(key, &value);
      model[key] = &value;
    }
    for (uint64_t i = 1; i <= 2500; ++i) {
      const auto* const key = reinterpret_cast<const void*>(i * stride);
      const auto known = model.find(key);
      ASSERT_EQ(map.Find(key), known == model.end() ? nullptr : known->second) << stride << " " << i;
    }
  }
}

TEST(PatchList, IsUndoneFromTheEnd) {
  int objects[4] = {};
  int *place = &objects[0], *other = &objects[1];
  uint32_t number = 5;
  PatchList patches;
  patches.UndoAll();
  for (int round = 0; round < 2; ++round) {
    patches.Replace(&place, &objects[2]);
    patches.ReplaceNumber(&number, 6);
    patches.Replace(&place, &objects[3]);
    patches.Replace(&other, &objects[3]);
    patches.ReplaceNumber(&number, 7);
    EXPECT_EQ(place, &objects[3]);
    EXPECT_EQ(number, 7u);
    patches.UndoAll();
    EXPECT_EQ(place, &objects[0]);
    EXPECT_EQ(other, &objects[1]);
    EXPECT_EQ(number, 5u);
    // A second UndoAll does nothing.
    place = &objects[2];
    patches.UndoAll();
    EXPECT_EQ(place, &objects[2]);
    place = &objects[0];
  }
}

TEST(PatchList, WhatOthersReplacedSinceIsTheirs) {
  int objects[4] = {};
  int *place = &objects[0], *other = &objects[0];
  uint32_t number = 5;
  PatchList patches;
  patches.Replace(&place, &objects[1]);
  patches.Replace(&other, &objects[1]);
  patches.ReplaceNumber(&number, 6);
  place = &objects[2];
  number = 9;
  patches.UndoAll();
  EXPECT_EQ(place, &objects[2]);
  EXPECT_EQ(other, &objects[0]);
  EXPECT_EQ(number, 9u);
}

}  // namespace
}  // namespace torchtrace::python_dialect
