#include "serialize/base/reused_stack.h"

#include <string>

#include "gtest/gtest.h"

namespace torchtrace {
namespace {

TEST(ReusedStackTest, KeepsItsOrderWhileItGrowsAndShrinks) {
  ReusedStack<std::string> stack;
  EXPECT_TRUE(stack.empty());
  for (int i = 0; i < 100; ++i) stack.Push() = std::to_string(i);
  EXPECT_EQ(stack.size(), 100u);
  for (int i = 99; i > 1; --i) {
    EXPECT_EQ(stack.back(), std::to_string(i));
    stack.Pop();
  }
  stack.Push() = "new";
  std::string all;
  for (const std::string& element : stack) all += element;
  EXPECT_EQ(all, "01new");
  EXPECT_EQ(stack[1], "1");
}

}  // namespace
}  // namespace torchtrace
