"""Runs a query in DuckDB on one thread and prints its number of rows."""

import sys

import duckdb

connection = duckdb.connect(config={"threads": 1})
print(len(connection.execute(sys.argv[1]).fetchall()))
