import sys

print(sys.argv, "read", sys.stdin.read())
