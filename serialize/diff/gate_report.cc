#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "serialize/base/text.h"
#include "serialize/diff/gates.h"
#include "serialize/diff/reports.h"

namespace torchtrace {
namespace {

using nlohmann::ordered_json;

// A text of an XML element or attribute. XML has no way to write most control characters, so they are escapes already.
std::string XmlText(std::string_view text) {
  std::string xml;
  for (const char c : PlainLine(text)) {
    switch (c) {
      case '&':
        xml += "&amp;";
        break;
      case '<':
        xml += "&lt;";
        break;
      case '>':
        xml += "&gt;";
        break;
      case '"':
        xml += "&quot;";
        break;
      default:
        xml += c;
    }
  }
  return xml;
}

std::string Passed(const GateResults& results, const char* quote) {
  return absl::StrJoin(results.gates, ", ", [quote](std::string* text, const GateResult& gate) {
    absl::StrAppend(text, quote, PlainLine(gate.gate), quote);
  });
}

GateResults WithoutFired(const GateResults& results) {
  GateResults passed;
  for (const GateResult& gate : results.gates) {
    if (!gate.fired) passed.gates.push_back(gate);
  }
  return passed;
}

}  // namespace

void WriteGatesText(const GateResults& results, bool color, std::ostream* out) {
  if (results.gates.empty()) return;
  *out << "\n";
  for (const GateResult& gate : results.gates) {
    if (!gate.fired) continue;
    *out << (color ? kRed : "") << PlainLine(gate.sentence) << (color ? kReset : "") << "\n";
  }
  const GateResults passed = WithoutFired(results);
  if (!passed.gates.empty()) *out << "passed: " << Passed(passed, "") << "\n";
  for (const std::string& sentence : results.incomplete)
    *out << "gates see only what is there: " << PlainLine(sentence) << "\n";
}

void WriteGatesMarkdown(const GateResults& results, std::ostream* out) {
  if (results.gates.empty()) return;
  *out << "\n";
  for (const GateResult& gate : results.gates) {
    if (!gate.fired) continue;
    *out << "- **failed** " << MarkdownCode(gate.sentence) << "\n";
    for (const std::string& line : gate.more) *out << "  - " << MarkdownCode(line) << "\n";
  }
  const GateResults passed = WithoutFired(results);
  if (!passed.gates.empty()) *out << "- passed: " << Passed(passed, "`") << "\n";
  for (const std::string& sentence : results.incomplete) {
    *out << "- gates see only what is there: " << MarkdownCode(sentence) << "\n";
  }
}

void WriteGatesJunit(const GateResults& results, std::string_view a_name, std::string_view b_name, std::ostream* out) {
  const size_t failures = results.gates.size() - WithoutFired(results).gates.size();
  const std::string suite = absl::StrCat("torchtrace diff ", std::string(a_name), " ", std::string(b_name));
  *out << "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n  <testsuite name=\"" << XmlText(suite)
       << "\" tests=\"" << results.gates.size() << "\" failures=\"" << failures << "\" errors=\"0\" skipped=\"0\">\n";
  for (const GateResult& gate : results.gates) {
    *out << "    <testcase classname=\"torchtrace.diff\" name=\"" << XmlText(gate.gate) << "\"";
    if (!gate.fired && results.incomplete.empty()) {
      *out << "/>\n";
      continue;
    }
    *out << ">\n";
    if (gate.fired) {
      *out << "      <failure message=\"" << XmlText(gate.sentence) << "\">" << XmlText(gate.sentence);
      for (const std::string& line : gate.more) *out << "\n" << XmlText(line);
      *out << "</failure>\n";
    }
    if (!results.incomplete.empty()) {
      *out << "      <system-out>gates see only what is there";
      for (const std::string& sentence : results.incomplete) *out << "\n" << XmlText(sentence);
      *out << "</system-out>\n";
    }
    *out << "    </testcase>\n";
  }
  *out << "  </testsuite>\n</testsuites>\n";
}

ordered_json GatesJson(const GateResults& results) {
  ordered_json json = ordered_json::array();
  for (const GateResult& gate : results.gates) {
    json.push_back({{"gate", gate.gate}, {"fired", gate.fired}, {"sentence", gate.sentence}, {"more", gate.more}});
  }
  return json;
}

ordered_json IncompleteJson(const GateResults& results) { return results.incomplete; }

}  // namespace torchtrace
