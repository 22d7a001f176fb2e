"""Calls that are repeated, and change from one to the next."""

import warnings

import repeated
from attempts import attempt

warnings.simplefilter("ignore")
for again in range(2):
    for part in [*repeated.REPEATED, repeated.changed_types, repeated.changed_functions]:
        attempt(f"{part.__name__} {again}", part)
