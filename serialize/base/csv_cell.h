// Cells of CSV as RFC 4180 has them: quoted where a comma or a quote is in them. Controls, line
// breaks among them, are escaped as in text (plain_text.h).

#ifndef TORCHTRACE_SERIALIZE_BASE_CSV_CELL_H_
#define TORCHTRACE_SERIALIZE_BASE_CSV_CELL_H_

#include <string>
#include <string_view>

#include "serialize/base/plain_text.h"

namespace torchtrace {

inline std::string CsvCell(std::string_view text) {
  std::string plain = PlainLine(text);
  if (plain.find_first_of(",\"") == std::string::npos) return plain;
  std::string quoted = "\"";
  for (const char c : plain) {
    if (c == '"') quoted += '"';
    quoted += c;
  }
  return quoted + "\"";
}

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_BASE_CSV_CELL_H_
