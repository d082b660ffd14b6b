// SPDX-License-Identifier: Apache-2.0
#include "report/page/html.hpp"

#include <fmt/format.h>

#include "report/page/style.hpp"

namespace plansearch::page {

std::string escaped(std::string_view text) {
  std::string safe;
  for (const char c : text) {
    switch (c) {
      case '&':
        safe += "&amp;";
        break;
      case '<':
        safe += "&lt;";
        break;
      case '>':
        safe += "&gt;";
        break;
      case '"':
        safe += "&quot;";
        break;
      case '\'':
        safe += "&#39;";
        break;
      default:
        if (static_cast<unsigned char>(c) >= 0x20 || c == '\n') safe += c;
    }
  }
  return safe;
}

std::string table(const TextTable& cells, std::string_view caption, Rows rows) {
  const SpelledTable spelled = cells.spelled_out();
  const auto side = [&](std::size_t c) {
    return spelled.columns[c].align == Align::Left ? "" : " class=\"number\"";
  };
  std::string text =
      fmt::format("<div class=\"scroll\"><table{}><caption>{}</caption><thead><tr>",
                  rows == Rows::Sortable ? " class=\"sortable\"" : "", escaped(caption));
  for (std::size_t c = 0; c < spelled.columns.size(); ++c) {
    text += fmt::format("<th scope=\"col\"{}>{}</th>", side(c), escaped(spelled.columns[c].title));
  }
  text += "</tr></thead><tbody>\n";
  for (const auto& row : spelled.rows) {
    text += "<tr>";
    for (std::size_t c = 0; c < row.size(); ++c) {
      const std::string key =
          row[c].value ? fmt::format(" data-value=\"{:.6g}\"", *row[c].value) : "";
      text += fmt::format("<td{}{}>{}</td>", side(c), key, escaped(row[c].text));
    }
    text += "</tr>\n";
  }
  return text + "</tbody></table></div>\n";
}

std::string section(std::string_view name, std::string_view heading, std::string_view content) {
  if (content.empty()) return {};
  return fmt::format("<section id=\"{}\">\n<h2>{}</h2>\n{}</section>\n", name, escaped(heading),
                     content);
}

std::string paragraph(std::string_view text, std::string_view kind) {
  if (text.empty()) return {};
  const std::string mark = kind.empty() ? "" : fmt::format(" class=\"{}\"", kind);
  return fmt::format("<p{}>{}</p>\n", mark, escaped(text));
}

std::string list(const std::vector<std::string>& lines) {
  if (lines.empty()) return {};
  std::string text = "<ul>\n";
  for (const std::string& line : lines) text += fmt::format("<li>{}</li>\n", escaped(line));
  return text + "</ul>\n";
}

std::string document(std::string_view title, std::string_view body) {
  return fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<title>{}</title>\n<style>\n{}</style>\n</head>\n<body>\n<main>\n{}</main>\n"
      "<script>\n{}</script>\n</body>\n</html>\n",
      escaped(title), kStyle, body, kScript);
}

}  // namespace plansearch::page
