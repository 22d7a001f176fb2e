"""Runs a query in DuckDB on one thread and prints how many rows it gave."""

import sys

import duckdb

connection = duckdb.connect(config={"threads": 1})
print(len(connection.execute(sys.argv[1]).fetchall()))
