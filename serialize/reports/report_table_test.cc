#include "serialize/reports/report_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "serialize/reports/reports.h"

namespace torchtrace {
namespace {

// Two tables that share a list in JSON; CSV has only the second one, which has a group for each of two traces.
std::string Report(StatsFormat format) {
  std::ostringstream out;
  ReportWriter report(format, &out);
  report.AddLine("3 calls");
  report.AddMembers({{"total", 3}, {"of", "a\"b"}});
  report.BeginTable("rows", {{"API", "api", "", TextTable::kLeft}, {"calls", "calls"}, {"levels", "levels"}});
  report.AddRow({ApiCell("torch.add"), 2, std::vector<int>{1, 2}});
  report.EndTable(4);
  const std::string a = "a", b = "b,c";
  report.BeginTable("rows", {{"other API", "api", "name", TextTable::kLeft},
                             {"", "", "levels"},
                             {"calls", "calls", "count", TextTable::kRight, &a},
                             {"time", "ns", "", TextTable::kRight, &a},
                             {"calls", "calls", "count", TextTable::kRight, &b},
                             {"time", "ns", "", TextTable::kRight, &b}});
  report.AddRow({ApiCell("not a|name"), std::vector<int>{1, 2}, 0, TimeCell(0), 1, TimeCell(1500)});
  report.EndTable();
  EXPECT_TRUE(report.Finish("this").ok());
  return out.str();
}

TEST(ReportTable, Text) {
  EXPECT_EQ(Report(StatsFormat::kText),
            "3 calls\n"
            "\n"
            "API        calls  levels\n"
            "torch.add      2     1,2\n"
            "... and 4 more (--top 0 shows all)\n"
            "\n"
            "                        a             b,c\n"
            "other API     calls  time  calls     time\n"
            "\"not a|name\"      -     -      1  1.50 us\n");
}

// Many groups on a narrow terminal: a line each, with one number of each row, and the rows in a legend.
TEST(ReportTable, GroupsAsLines) {
  std::vector<std::string> names;
  for (int i = 1; i <= 12; ++i) names.push_back(absl::StrCat("runs/number_", i));
  const auto text = [&names](size_t width, bool rows_fit) {
    std::ostringstream out;
    ReportWriter report(StatsFormat::kText, &out, {.width = width}, rows_fit);
    std::vector<ReportColumn> columns = {{"API", "api", "", TextTable::kLeft, nullptr, /*clips=*/true}};
    for (const std::string& name : names) {
      columns.push_back({"calls", "calls", "", TextTable::kRight, &name});
      columns.push_back({"time", "ns", "", TextTable::kRight, &name, false, /*leads=*/true});
    }
    report.BeginTable("rows", columns);
    for (const char* const api : {"torch.nn.functional.scaled_dot_product_attention", "f", "g"}) {
      std::vector<ReportCell> cells = {{api}};
      for (size_t i = 0; i < names.size(); ++i) {
        cells.emplace_back(i);
        cells.push_back(TimeCell(static_cast<int64_t>(1500 + 10 * i)));
      }
      report.AddRow(cells);
    }
    report.EndTable(7);
    return out.str();
  };
  const std::string narrow = text(34, /*rows_fit=*/true);
  EXPECT_EQ(narrow.substr(0, narrow.find("runs/number_3")),
            "\n"
            "time                [1]      [2]\n"
            "runs/number_1         -        -\n"
            "runs/number_2   1.51 us  1.51 us\n");
  EXPECT_EQ(narrow.substr(narrow.find("\n\n", 1)),
            "\n\n"
            "[1] torch.nn.functional.scaled_...\n"
            "[2] f\n"
            "... of each trace only its time (`| cat` shows all)\n"
            "... and 8 more rows (--top 0 shows all)\n");
  const std::string every = text(34, /*rows_fit=*/false);
  EXPECT_THAT(every, testing::HasSubstr("time                [3]\nruns/number_1         -\n"));
  EXPECT_THAT(every, testing::HasSubstr("[2] f  [3] g\n... of each trace only its time"));
  EXPECT_THAT(text(0, true), testing::HasSubstr("API"));
}

// Groups beyond the edge are mentioned; the first group and the columns after the groups are always shown.
TEST(ReportTable, GroupsThatDontFit) {
  const std::string names[] = {"one", "two", "three"};
  const auto text = [&names](size_t width) {
    std::ostringstream out;
    ReportWriter report(StatsFormat::kText, &out, {.width = width});
    std::vector<ReportColumn> columns = {{"API", "api", "", TextTable::kLeft}};
    for (const std::string& name : names) {
      columns.push_back({"calls", "calls", "", TextTable::kRight, &name});
      columns.push_back({"time", "ns", "", TextTable::kRight, &name});
    }
    columns.push_back({"config", "config", "", TextTable::kLeft});
    report.BeginTable("rows", columns);
    report.AddRow({"f", 1, TimeCell(2), 0, TimeCell(0), 3, TimeCell(4), "f()"});
    report.EndTable();
    return out.str();
  };
  const std::string all =
      "\n"
      "             one          two        three\n"
      "API  calls  time  calls  time  calls  time  config\n"
      "f        1  2 ns      -     -      3  4 ns  f()\n";
  EXPECT_EQ(text(0), all);
  EXPECT_EQ(text(100), all);
  const std::string first =
      "\n"
      "             one\n"
      "API  calls  time  config\n"
      "f        1  2 ns  f()\n"
      "... and 2 more to the right (`| cat` shows all)\n";
  EXPECT_EQ(text(10), first);
}

TEST(ReportTable, Markdown) {
  EXPECT_EQ(Report(StatsFormat::kMarkdown),
            "3 calls\n"
            "\n"
            "| API | calls | levels |\n"
            "|---|--:|--:|\n"
            "| `torch.add` | 2 | 1,2 |\n"
            "\n"
            "... and 4 more (--top 0 shows all)\n"
            "\n"
            "| other API | a calls | a time | b,c calls | b,c time |\n"
            "|---|--:|--:|--:|--:|\n"
            "| `\"not a\\|name\"` | - | - | 1 | 1.50 us |\n");
}

TEST(ReportTable, Json) {
  EXPECT_EQ(Report(StatsFormat::kJson),
            "{\n"
            "  \"total\": 3,\n"
            "  \"of\": \"a\\\"b\",\n"
            "  \"rows\": [\n"
            "    {\"api\":\"torch.add\",\"calls\":2,\"levels\":[1,2]},\n"
            "    {\"api\":\"not a|name\",\"traces\":[{\"calls\":0,\"ns\":0},{\"calls\":1,\"ns\":1500}]}\n"
            "  ]\n"
            "}\n");
}

TEST(ReportTable, Csv) {
  EXPECT_EQ(Report(StatsFormat::kCsv),
            "name,levels,a count,\"b,c count\"\n"
            "not a|name,1 2,0,1\n");
}

TEST(ReportTable, Empty) {
  const auto report = [](StatsFormat format) {
    std::ostringstream out;
    ReportWriter writer(format, &out);
    writer.BeginTable("rows", {{"API", "api", "name", TextTable::kLeft}});
    writer.EndTable();
    writer.BeginTable("more", {{"", "x"}});
    writer.AddRow({ReportCell()});
    writer.EndTable();
    EXPECT_TRUE(writer.Finish("this").ok());
    return out.str();
  };
  // A single column is a list in Markdown.
  EXPECT_EQ(report(StatsFormat::kText), "\nAPI\n");
  EXPECT_EQ(report(StatsFormat::kMarkdown), "\nAPI\n\n");
  EXPECT_EQ(report(StatsFormat::kJson), "{\n  \"rows\": [],\n  \"more\": [\n    {\"x\":null}\n  ]\n}\n");
  EXPECT_EQ(report(StatsFormat::kCsv), "name\n");
}

TEST(ReportTable, Cells) {
  EXPECT_EQ(PercentCell(1, 3).value, 33.3333);
  EXPECT_EQ(PercentCell(1, 3).text, "33.33%");
  EXPECT_EQ(PercentCell(0, 0).value, 0.0);
}

TEST(ReportTable, FailingStream) {
  std::ostringstream out;
  ReportWriter report(StatsFormat::kJson, &out);
  out.setstate(std::ios::badbit);
  EXPECT_EQ(report.Finish("the numbers").message(), "cannot write the numbers");
}

}  // namespace
}  // namespace torchtrace
