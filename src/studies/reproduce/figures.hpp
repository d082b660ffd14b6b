// SPDX-License-Identifier: Apache-2.0
// What a paper published, with bands that were set before anything was predicted
// (validation/published), and the rows of a study beside it.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "io/csv.hpp"
#include "plansearch/shipped_data.hpp"

namespace plansearch {

/// One figure. Absent bounds do not bind; without any the figure is reported, not checked.
struct ReproducedRow {
  std::string check;
  std::string unit;  ///< empty: a number by itself
  std::optional<double> published;
  std::optional<double> predicted;  ///< absent: no plan, or not to be had here
  std::optional<double> low;
  std::optional<double> high;
  std::string source;

  /// Absent where nothing is checked; false where there is nothing to check.
  [[nodiscard]] std::optional<bool> within() const;
};

/// One paper: its file, and what is predicted so far. Figures are found by their `id`.
class Figures {
 public:
  Figures(const ShippedData& data, std::string_view paper);

  [[nodiscard]] bool has(std::string_view id) const { return known_.contains(id); }
  [[nodiscard]] double published(std::string_view id) const;
  /// Adds a row: the figure of the file, its {} filled with `words`, beside what is predicted.
  ReproducedRow& add(std::string_view id, std::optional<double> predicted,
                     const std::vector<std::string>& words = {});
  /// Adds a row that no paper has.
  void add(ReproducedRow row) { rows_.push_back(std::move(row)); }
  [[nodiscard]] const std::vector<ReproducedRow>& rows() const { return rows_; }

 private:
  [[nodiscard]] const ReproducedRow& at(std::string_view id) const;

  std::map<std::string, ReproducedRow, std::less<>> known_;
  std::vector<ReproducedRow> rows_;
};

}  // namespace plansearch
