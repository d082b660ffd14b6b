// SPDX-License-Identifier: Apache-2.0
// Does a model fit, and on which cards: the verdict, the memory of the best plan, one row for each kind of card.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "plansearch/report.hpp"

namespace plansearch {

/// A kind of card in the machine that stands for it, and the fewest of them on which a plan fits.
struct CardRow {
  std::string accelerator, hardware;
  Bytes capacity;
  std::string why_none{};     ///< where no number of them does
  std::optional<int> gpus{};  ///< absent: none
  std::string plan{};
  std::optional<Bytes> memory{};  ///< of the fullest GPU
  std::optional<double> risk{};   ///< of running out of memory
  std::optional<double> rate{};   ///< tokens per second and GPU
};

struct FitsReport {
  std::string model, method;             ///< "lora"
  std::optional<SearchReport> answer{};  ///< on the machine asked about
  bool priced = false;                   ///< its plan does not fit and is priced all the same
  std::vector<CardRow> cards{};          ///< those that need fewest first

  /// Whether it does, more likely than not.
  [[nodiscard]] bool fits() const;
};

[[nodiscard]] std::string render_fits(const FitsReport& report, Format format, int columns = 0);

}  // namespace plansearch
