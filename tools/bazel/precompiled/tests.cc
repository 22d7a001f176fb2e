// The same for tests.

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tools/bazel/precompiled/library.cc"
