#include "serialize/model/step_marks.h"

#include "gtest/gtest.h"

namespace torchtrace {
namespace {

TEST(StepMarksTest, ArePutBesideTheProgramsTagsAndTakenOutAgain) {
  StepMarks marks;
  marks.at(StepKind::kStep) = {12, 345};
  marks.at(StepKind::kForward) = {1, 2};
  for (const char* const tags : {"", R"({"phase":"a } \"@step\": b","x":1})", R"({"step":3})"}) {
    const std::string text = WithStepMarks(tags, marks);
    std::string own;
    EXPECT_EQ(TakeStepMarks(text, &own), marks) << text;
    EXPECT_EQ(own, tags);
  }
  EXPECT_EQ(WithStepMarks("", marks), R"({"@forward":1,"@forward_ns":2,"@step":12,"@step_ns":345})");
}

TEST(StepMarksTest, NoMarksChangeNothing) {
  EXPECT_EQ(WithStepMarks(R"({"x":1})", StepMarks()), R"({"x":1})");
  EXPECT_EQ(WithStepMarks("", StepMarks()), "");
  std::string own;
  EXPECT_EQ(TakeStepMarks(R"({"mail":"@step"})", &own), StepMarks());
  EXPECT_EQ(own, R"({"mail":"@step"})");
}

TEST(StepMarksTest, DamagedTextIsNoMark) {
  std::string own;
  for (const char* const text : {"\"@step\":", "{\"@step\":x}", "\"@", "@step_ns\":1"}) {
    EXPECT_EQ(TakeStepMarks(text, &own), StepMarks()) << text;
  }
  StepMarks marks;
  marks.at(StepKind::kStep) = {1, 2};
  EXPECT_EQ(TakeStepMarks(R"("@step":1,"@step_ns":2)", &own), marks);
  EXPECT_EQ(own, "");
  for (const char* const ns : {"3000000000000000001", "9223372036854775808", "18446744073709551615"}) {
    EXPECT_EQ(TakeStepMarks(R"({"x":1,"@step":1,"@step_ns":)" + std::string(ns) + "}", &own), StepMarks()) << ns;
    EXPECT_EQ(own, R"({"x":1})");
  }
}

TEST(StepMarksTest, TheProgramsTagIsFoundAmongOthers) {
  EXPECT_EQ(StepTagOf(R"({"step":3})"), "3");
  EXPECT_EQ(StepTagOf(R"({"a": "x,\"step\":1", "b": {"step": 2}, "step": "e,1"})"), "\"e,1\"");
  for (const char* const tags : {"", "{}", R"({"steps":3})", R"({"a":"step"})", R"({"step)"}) {
    EXPECT_EQ(StepTagOf(tags), "") << tags;
  }
}

}  // namespace
}  // namespace torchtrace
