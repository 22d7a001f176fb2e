// Tests what every native entry does around the original, without Python: objects are just addresses here.

#include "dialects/python/setattr/call_through.h"

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace torchtrace::python_dialect {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

PyObject* Object(size_t number) {
  static PyObject objects[4];
  return &objects[number];
}

class Observer final : public CallObserver {
 public:
  bool Begin(const TracedApi& api, const CallArguments& arguments) override {
    told.push_back(api.name + (arguments.self == nullptr ? "" : " of an object"));
    return !refuses;
  }
  void End(PyObject* result) override { told.push_back(result == nullptr ? "raised" : "returned"); }
  void CountGetter() override { told.push_back("getter"); }

  std::vector<std::string> told;
  bool refuses = false;
};

class CallThroughTest : public ::testing::Test {
 protected:
  PyObject* Through(const TracedApi& api, PyObject* result) {
    return CallThrough(layer_, api, {}, [result] { return result; });
  }

  Observer observer_;
  Layer layer_{.observer = &observer_};
  const TracedApi function_{.name = "function"};
  const TracedApi other_{.name = "other"};
  const TracedApi getter_{.getter = true, .name = "getter"};
};

TEST_F(CallThroughTest, TellsAboutTheCall) {
  EXPECT_EQ(Through(function_, Object(1)), Object(1));
  EXPECT_EQ(CallThrough(layer_, function_, {.self = Object(2)}, [] { return static_cast<PyObject*>(nullptr); }),
            nullptr);
  EXPECT_THAT(observer_.told, ElementsAre("function", "returned", "function of an object", "raised"));
}

TEST_F(CallThroughTest, WhatIsRefusedIsCalledAllTheSame) {
  observer_.refuses = true;
  EXPECT_EQ(Through(function_, Object(1)), Object(1));
  EXPECT_EQ(Through(function_, nullptr), nullptr);
  EXPECT_THAT(observer_.told, ElementsAre("function", "function"));
}

TEST_F(CallThroughTest, GettersAreNoise) {
  EXPECT_EQ(Through(getter_, Object(1)), Object(1));
  EXPECT_THAT(observer_.told, ElementsAre("getter"));
  observer_.told.clear();
  layer_.include_getters = true;
  Through(getter_, Object(1));
  EXPECT_THAT(observer_.told, ElementsAre("getter", "returned"));
}

TEST_F(CallThroughTest, CallsWithinCalls) {
  for (const bool outermost : {false, true}) {
    layer_.outermost = outermost;
    observer_.told.clear();
    CallThrough(layer_, function_, {}, [this] {
      EXPECT_EQ(Through(other_, Object(2)), Object(2));
      Through(getter_, Object(2));
      return Object(1);
    });
    if (outermost) {
      EXPECT_THAT(observer_.told, ElementsAre("function", "getter", "returned"));
    } else {
      EXPECT_THAT(observer_.told, ElementsAre("function", "other", "returned", "getter", "returned"));
    }
    EXPECT_EQ(t_depth, 0);
  }
}

TEST_F(CallThroughTest, CallsWithinARefusedCallAreOutermost) {
  layer_.outermost = true;
  observer_.refuses = true;
  CallThrough(layer_, function_, {}, [this] {
    observer_.refuses = false;
    return Through(other_, nullptr);
  });
  EXPECT_THAT(observer_.told, ElementsAre("function", "other", "raised"));
  EXPECT_EQ(t_depth, 0);
}

// A layer may change during a call, as Uninstall does.
TEST_F(CallThroughTest, TheObserverThatBeganEnds) {
  Observer next;
  for (const bool outermost : {false, true}) {
    layer_.observer = &observer_;
    layer_.outermost = outermost;
    observer_.told.clear();
    // The call began with a depth, or without one.
    bool changed = false;
    CallThrough(layer_, function_, {}, [&] {
      layer_.observer = &next;
      changed = true;
      return Object(1);
    });
    EXPECT_TRUE(changed);
    EXPECT_THAT(observer_.told, ElementsAre("function", "returned"));
    EXPECT_THAT(next.told, IsEmpty());
    EXPECT_EQ(t_depth, 0);
  }
}

TEST_F(CallThroughTest, LayersAreIndependent) {
  Observer inner;
  const Layer inner_layer{.observer = &inner};
  layer_.outermost = true;
  CallThrough(layer_, function_, {},
              [&] { return CallThrough(inner_layer, other_, {}, [&] { return Through(other_, Object(1)); }); });
  EXPECT_THAT(observer_.told, ElementsAre("function", "returned"));
  EXPECT_THAT(inner.told, ElementsAre("other", "returned"));
}

// Each thread has its own outermost calls.
TEST_F(CallThroughTest, ThreadsAreOutermostEachForItself) {
  layer_.outermost = true;
  std::vector<std::thread> threads;
  std::atomic<int> entered{0};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      Observer own;
      const Layer layer{.observer = &own, .outermost = true};
      CallThrough(layer, function_, {}, [&] {
        ++entered;
        while (entered < 4) std::this_thread::yield();
        for (int i = 0; i < 1000; ++i) {
          EXPECT_EQ(CallThrough(layer, other_, {}, [] { return Object(1); }), Object(1));
          EXPECT_EQ(t_depth, 1);
        }
        return Object(2);
      });
      EXPECT_EQ(t_depth, 0);
      EXPECT_THAT(own.told, ElementsAre("function", "returned"));
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace torchtrace::python_dialect
