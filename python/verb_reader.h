// Calls the verbs of libtorchtrace_verbs.so (verb_calls.h) from Python: the report of one, or the rows of
// `export parquet` as they are read, on a thread of their own.

#ifndef TORCHTRACE_PYTHON_VERB_READER_H_
#define TORCHTRACE_PYTHON_VERB_READER_H_

// Python.h must come first.
#include <Python.h>

namespace torchtrace {

// call_verb(library, words, not_tables): runs the verb. Returns its exit code, its report (None if it printed nothing)
// as a dict of Rows by name and the rest as JSON, its remarks, and its error: None, or a code and a text. `not_tables`:
// names of lists that stay in the rest; None: all do.
PyObject* CallVerbOf(PyObject*, PyObject* args);

// rows_of(json): Rows of a list of objects.
PyObject* RowsOfJson(PyObject*, PyObject* text);

// close_streams(): closes all, before the process ends and what they read with is gone.
PyObject* CloseStreams(PyObject*, PyObject*);

// Adds the types to the module:
//
//   Rows                     a table in memory
//     names, kinds           of its columns; kinds are "bool", "int", "float", "str", "json"
//     len(rows)
//     columns(start, stop, of_json)   lists of their values; of_json makes those of JSON's texts
//     __arrow_c_schema__, __arrow_c_array__, __arrow_c_stream__
//   Stream(library, words)   of rows that are read while they are taken
//     next()                 Rows, or None at the end
//     close()                stops reading
//     exit_code, remarks, error       of the verb that has ended
//     __arrow_c_stream__     what is left
bool AddReaderTypes(PyObject* module);

}  // namespace torchtrace

#endif  // TORCHTRACE_PYTHON_VERB_READER_H_
