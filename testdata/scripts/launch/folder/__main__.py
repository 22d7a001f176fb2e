import sys

import beside

print(__name__, __package__, __file__, __spec__, sys.argv, sys.path[0], beside.value)
sys.exit("from a folder")
