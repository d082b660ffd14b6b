// SPDX-License-Identifier: Apache-2.0
// Computes: tables of message times that never fall with the size, and the error of a size that is
//           left out.
// Source: isotonic regression (pool adjacent violators) on logarithms; leave-one-out.
// Assumes: sizes of one collective and group are measured once each.
// Units: logarithms of seconds and bytes.
// Checked by: tests/unit/measure/fit/measured_links_test.cpp
#include "measure/fit/kernel_fit.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include "base/names.hpp"
#include "cost/collective/collective_cost.hpp"
#include "evidence/evidence.hpp"

namespace plansearch {
namespace {

constexpr std::size_t kFewestSizes = 3;

struct Key {
  std::string kind;
  int ranks;
  auto operator<=>(const Key&) const = default;
};

/// Time by size.
using Sweep = std::map<double, double>;

/// Benchmarks write alltoall and sendrecv, profiles all-to-all and send-receive.
std::string profile_word(const std::string& collective) {
  std::string name = canonical_name(collective);
  name.erase(std::remove(name.begin(), name.end(), '-'), name.end());
  for (const char* word :
       {"all-gather", "reduce-scatter", "all-reduce", "all-to-all", "send-receive"}) {
    std::string plain(word);
    plain.erase(std::remove(plain.begin(), plain.end(), '-'), plain.end());
    if (name == plain || (name == "sendrecv" && plain == "sendreceive")) return word;
  }
  return canonical_name(collective);
}

double number(const KernelTable& table, const io::CsvRow& row, std::string_view column) {
  return table.table.number(row, column, 0.0).value_or(0.0);
}

std::map<Key, Sweep> sweeps_of(const std::vector<KernelTable>& tables, int node) {
  constexpr double kMicrosecond = 1e-6;
  std::map<Key, Sweep> sweeps;
  for (const KernelTable& table : tables) {
    if (table.kind != TableKind::Collective || !table.table.has("gpus")) continue;
    for (const io::CsvRow& row : table.table.rows()) {
      const auto ranks = static_cast<int>(number(table, row, "gpus"));
      const std::string kind = profile_word(table.table.text(row, "collective"));
      const double time = number(table, row, "time_us") * kMicrosecond;
      if (ranks <= node && time > 0.0) sweeps[{kind, ranks}][number(table, row, "bytes")] = time;
    }
  }
  std::erase_if(sweeps, [](const auto& sweep) { return sweep.second.size() < kFewestSizes; });
  return sweeps;
}

/// Means of neighbours that would fall.
std::vector<double> never_falling(const std::vector<double>& logs) {
  struct Pool {
    double sum;
    std::size_t count;
    [[nodiscard]] double mean() const { return sum / static_cast<double>(count); }
  };
  std::vector<Pool> pools;
  for (const double log : logs) {
    pools.push_back({log, 1});
    while (pools.size() > 1 && pools[pools.size() - 2].mean() > pools.back().mean()) {
      const Pool last = pools.back();
      pools.pop_back();
      pools.back().sum += last.sum;
      pools.back().count += last.count;
    }
  }
  std::vector<double> result;
  for (const Pool& pool : pools) result.insert(result.end(), pool.count, pool.mean());
  return result;
}

MeasuredTimes table_of(const Key& key, const Sweep& sweep) {
  MeasuredTimes table{key.kind, key.ranks, {}, {}};
  std::vector<double> logs;
  for (const auto& [size, time] : sweep) {
    table.sizes.emplace_back(size);
    logs.push_back(std::log(time));
  }
  for (const double log : never_falling(logs)) table.times.emplace_back(std::exp(log));
  return table;
}

/// ln(measured / predicted) of every size but the ends by a table without it.
std::vector<double> left_out(const Key& key, const Sweep& sweep) {
  std::vector<double> logs;
  for (auto size = std::next(sweep.begin()); std::next(size) != sweep.end(); ++size) {
    Sweep others = sweep;
    others.erase(size->first);
    logs.push_back(
        std::log(size->second / time_of(table_of(key, others), Bytes(size->first)).value()));
  }
  return logs;
}

std::vector<std::string> files_of(const std::vector<KernelTable>& tables) {
  std::vector<std::string> files;
  for (const KernelTable& table : tables) {
    if (table.kind == TableKind::Collective && (files.empty() || files.back() != table.file)) {
      files.push_back(table.file);
    }
  }
  return files;
}

}  // namespace

bool keep_measured_times(const std::vector<KernelTable>& tables, KernelFit& fit) {
  LinkTier& tier = fit.cluster.tiers.front();
  auto* curve = std::get_if<LocalLinkCurve>(&tier.curve);
  if (curve == nullptr) return false;
  std::vector<double> left;
  KernelGroupFit group;
  group.part = "collectives";
  for (const auto& [key, sweep] : sweeps_of(tables, tier.size)) {
    curve->measured.push_back(table_of(key, sweep));
    const std::vector<double> logs = left_out(key, sweep);
    left.insert(left.end(), logs.begin(), logs.end());
    group.rows += sweep.size();
  }
  if (left.empty()) return false;
  std::ranges::sort(left);
  std::vector<double> errors;
  double squares = 0.0;
  for (const double log : left) {
    errors.push_back(std::abs(log));
    squares += log * log;
  }
  curve->residual = {quantile(left, 0.1), quantile(left, 0.5), quantile(left, 0.9)};
  group.files = files_of(tables);
  group.scatter = std::sqrt(squares / static_cast<double>(left.size()));
  group.error_before = group.error_after = median(errors);
  group.held_out = HeldOut{median(errors), *curve->residual};
  fit.tiers.push_back(tier.name);
  fit.groups.push_back(std::move(group));
  return true;
}

}  // namespace plansearch
