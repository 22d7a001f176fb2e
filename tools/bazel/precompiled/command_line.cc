// Precompiled for the command line.

#include "tools/bazel/precompiled/common.h"
