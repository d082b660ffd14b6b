// SPDX-License-Identifier: Apache-2.0
// Measured kernels or collectives of several tables that one set of constants explains.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "plansearch/cluster.hpp"
#include "studies/fit/fit_tables.hpp"

namespace plansearch {

class KernelSample {
 public:
  /// Rows that `belongs` chooses; those that cannot be predicted are added to `unused`.
  void add(const KernelTable& table, const Cluster& base,
           const std::function<bool(const KernelRow&)>& belongs, std::vector<std::string>& unused);

  /// ln of the time of every row on this machine.
  [[nodiscard]] std::vector<double> predict(const Cluster& cluster) const;
  [[nodiscard]] const std::vector<double>& measured() const { return measured_; }
  /// Median of measured over predicted times, as the base predicts them.
  [[nodiscard]] double ratio() const;
  [[nodiscard]] std::string place(std::size_t row) const;
  [[nodiscard]] std::vector<std::string> files() const;

 private:
  std::vector<KernelTable> tables_;
  std::vector<double> measured_;
  std::vector<double> predicted_;
};

}  // namespace plansearch
