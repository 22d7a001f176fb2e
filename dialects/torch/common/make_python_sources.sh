#!/bin/bash
# Prints Python files as rows of compile_contexts.cc's table. Part of the build.
set -euo pipefail
for file in "$@"; do
  name=$(basename "$file" .py)
  printf '{"%s", R"torchtrace(' "$name"
  cat "$file"
  printf ')torchtrace"},\n'
done
