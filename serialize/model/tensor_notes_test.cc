#include "serialize/model/tensor_notes.h"

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace torchtrace {
namespace {

TEST(TensorNotesTest, ComeBackByPosition) {
  std::string bytes;
  AppendTensorNote({.position = 2, .range = TensorNote::Range{INT64_MIN, INT64_MAX}}, &bytes);
  AppendTensorNote({.position = 0, .identity = TensorNote::Identity{1, 0, INT64_MAX}, .contents = ""}, &bytes);
  const std::vector<TensorNote> notes = ReadTensorNotes(bytes);
  ASSERT_EQ(notes.size(), 2u);
  EXPECT_EQ(notes[0].position, 0u);
  EXPECT_EQ(notes[0].identity, (TensorNote::Identity{1, 0, INT64_MAX}));
  EXPECT_EQ(notes[0].contents, "");
  EXPECT_FALSE(notes[0].range);
  EXPECT_EQ(notes[1].range, (TensorNote::Range{INT64_MIN, INT64_MAX}));
  EXPECT_FALSE(notes[1].identity || notes[1].contents);
  EXPECT_EQ(FindNote(notes, 0), &notes[0]);
  EXPECT_EQ(FindNote(notes, 1), nullptr);
  EXPECT_EQ(FindNote(notes, 2), &notes[1]);
  EXPECT_EQ(FindNote(notes, 3), nullptr);
}

TEST(TensorNotesTest, AnOffsetThatNoTensorHasIsLeftOut) {
  std::string bytes;
  AppendTensorNote({.position = 0, .identity = TensorNote::Identity{1, 1, uint64_t{INT64_MAX} + 1}}, &bytes);
  AppendTensorNote({.position = 1, .identity = TensorNote::Identity{2, 2, 3}}, &bytes);
  const std::vector<TensorNote> notes = ReadTensorNotes(bytes);
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_EQ(notes[0].position, 1u);
}

TEST(TensorNotesTest, WhatIsMalformedEndsTheList) {
  std::string bytes;
  AppendTensorNote({.position = 0, .identity = TensorNote::Identity{1, 2, 3}}, &bytes);
  const size_t whole = bytes.size();
  AppendTensorNote({.position = 1, .contents = "abc"}, &bytes);
  for (size_t size = whole; size < bytes.size(); ++size) {
    EXPECT_EQ(ReadTensorNotes(bytes.substr(0, size)).size(), 1u) << size;
  }
  EXPECT_EQ(ReadTensorNotes(bytes).size(), 2u);
  // Bits of a later version.
  bytes.resize(whole);
  bytes += std::string("\x01\x11", 2);
  EXPECT_EQ(ReadTensorNotes(bytes).size(), 1u);
}

TEST(TensorNotesTest, NumbersComeBack) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double infinity = std::numeric_limits<double>::infinity();
  const TensorNote::Numbers all = {.nans = 1,
                                   .positive_infinities = 200,
                                   .negative_infinities = UINT64_MAX,
                                   .zeros = 4,
                                   .finite = 5,
                                   .least = -1.5,
                                   .most = 0.1,
                                   .mean = -infinity,
                                   .norm = infinity,
                                   .fingerprint = 0x0123456789abcdef};
  TensorNote::Numbers no_mean = all;
  no_mean.mean = nan;
  const TensorNote::Numbers none_finite = {.nans = 3, .fingerprint = UINT64_MAX};
  std::string bytes;
  AppendTensorNote({.position = 0, .identity = TensorNote::Identity{1, 1, 0}, .contents = "abc", .numbers = all},
                   &bytes);
  AppendTensorNote({.position = 1, .numbers = none_finite}, &bytes);
  const size_t whole = bytes.size();
  AppendTensorNote({.position = 2, .numbers = no_mean}, &bytes);
  const std::vector<TensorNote> notes = ReadTensorNotes(bytes);
  ASSERT_EQ(notes.size(), 3u);
  EXPECT_EQ(notes[0].identity, (TensorNote::Identity{1, 1, 0}));
  EXPECT_EQ(notes[0].contents, "abc");
  EXPECT_EQ(notes[0].numbers, all);
  EXPECT_EQ(notes[1].numbers, none_finite);
  EXPECT_TRUE(std::isnan(notes[2].numbers->mean));
  EXPECT_EQ(notes[2].numbers->norm, infinity);
  for (size_t size = whole; size < bytes.size(); ++size) {
    EXPECT_EQ(ReadTensorNotes(bytes.substr(0, size)).size(), 2u) << size;
  }
}

}  // namespace
}  // namespace torchtrace
