// Cells of CSV as RFC 4180 has them: quoted where a comma, a quote or a line break
// is in them.

#ifndef TORCHTRACE_SERIALIZE_CSV_CELL_H_
#define TORCHTRACE_SERIALIZE_CSV_CELL_H_

#include <string>
#include <string_view>

namespace torchtrace {

inline std::string CsvCell(std::string_view text) {
  if (text.find_first_of(",\"\r\n") == std::string_view::npos) return std::string(text);
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"') quoted += '"';
    quoted += c;
  }
  return quoted + "\"";
}

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_CSV_CELL_H_
