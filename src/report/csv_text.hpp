// SPDX-License-Identifier: Apache-2.0
// Writing comma-separated values (RFC 4180).
#pragma once

#include <string>
#include <string_view>

namespace plansearch {

class CsvLine {
 public:
  void add(std::string_view cell) {
    if (!text_.empty() || cells_ > 0) text_.push_back(',');
    ++cells_;
    if (cell.find_first_of(",\"\r\n") == std::string_view::npos) {
      text_.append(cell);
      return;
    }
    text_.push_back('"');
    for (const char c : cell) {
      if (c == '"') text_.push_back('"');
      text_.push_back(c);
    }
    text_.push_back('"');
  }

  [[nodiscard]] std::string text() const { return text_ + "\n"; }

 private:
  std::string text_;
  int cells_ = 0;
};

}  // namespace plansearch
