// Precompiled for the files of rooms.

#include "tools/bazel/precompiled/common.h"
