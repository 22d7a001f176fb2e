// The formats that are code.

#include "serialize/export/exporter.h"

namespace torchtrace {

extern const Exporter kPythonExporter;
const Exporter kPythonExporter = {
    .name = "python",
    .help = "a script that makes the same calls, with their data flow",
    .suffixes = {"py"},
    .write = WritesCode{},
};

extern const Exporter kPytestExporter;
const Exporter kPytestExporter = {
    .name = "pytest",
    .help = "a test file with a case for each config, for plain pytest",
    .write = WritesCode{},
};

extern const Exporter kFxExporter;
const Exporter kFxExporter = {
    .name = "fx",
    .help = "a Python file that makes a torch.fx.GraphModule of the calls",
    .write = WritesCode{},
};

}  // namespace torchtrace
