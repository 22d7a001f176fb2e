print(__debug__)
assert False, "only without -O"
