// Precompiled for the tests of rooms.

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tools/bazel/precompiled/common.h"
