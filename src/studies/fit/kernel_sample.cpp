// SPDX-License-Identifier: Apache-2.0
#include "studies/fit/kernel_sample.hpp"

#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "studies/validate/statistics.hpp"

namespace plansearch {
namespace {

KernelProfiles only(const Cluster& cluster) {
  return {[&](std::string_view) { return cluster.accelerator; },
          [&](std::string_view) { return cluster; }, [&] { return std::vector<Cluster>{cluster}; }};
}

}  // namespace

void KernelSample::add(const KernelTable& table, const Cluster& base,
                       const std::function<bool(const KernelRow&)>& belongs,
                       std::vector<std::string>& unused) {
  const auto rows = predict_kernels(table.table, table.kind, only(base));
  std::vector<std::size_t> kept;
  for (std::size_t row = 0; row < rows.size(); ++row) {
    if (!belongs(rows[row])) continue;
    if (rows[row].measured && rows[row].predicted) {
      kept.push_back(row);
      measured_.push_back(std::log(rows[row].measured->value()));
      predicted_.push_back(std::log(rows[row].predicted->value()));
    } else {
      unused.push_back(fmt::format("{}: {}", table.place(row), rows[row].reason));
    }
  }
  if (!kept.empty()) tables_.push_back(table.subset(kept));
}

std::vector<double> KernelSample::predict(const Cluster& cluster) const {
  std::vector<double> logs;
  for (const KernelTable& table : tables_) {
    for (const KernelRow& row : predict_kernels(table.table, table.kind, only(cluster))) {
      logs.push_back(std::log(row.predicted.value().value()));
    }
  }
  return logs;
}

std::string KernelSample::place(std::size_t row) const {
  std::size_t at = row;
  for (const KernelTable& table : tables_) {
    if (at < table.lines.size()) return table.place(at);
    at -= table.lines.size();
  }
  return {};
}

std::vector<std::string> KernelSample::files() const {
  std::vector<std::string> names;
  for (const KernelTable& table : tables_) {
    if (names.empty() || names.back() != table.file) names.push_back(table.file);
  }
  return names;
}

double KernelSample::ratio() const {
  std::vector<double> logs;
  for (std::size_t row = 0; row < measured_.size(); ++row) {
    logs.push_back(measured_[row] - predicted_[row]);
  }
  return std::exp(median(std::move(logs)));
}

}  // namespace plansearch
