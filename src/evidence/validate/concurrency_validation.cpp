// SPDX-License-Identifier: Apache-2.0
// Groups with members on several nodes use the network, others the links of the node.
#include "evidence/validate/kernel_validation.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <tuple>
#include <utility>

#include "cost/kernels/compute_cost.hpp"
#include "evidence/validate/lookup.hpp"

namespace plansearch {
namespace {

constexpr double kMillisecond = 1e-3;
/// A part has ended when this share of it is left.
constexpr double kRounding = 1e-12;

/// One thing that runs: the columns that say how large it is; zero in one of them: it does not run.
struct PartColumns {
  Activity activity;
  std::array<std::string_view, 3> sizes;
};
constexpr std::array<PartColumns, 4> kParts{{{Activity::Compute, {"m", "n", "k"}},
                                             {Activity::Local, {"gpu_to_gpu_mb", "", ""}},
                                             {Activity::FromHost, {"cpu_to_gpu_mb", "", ""}},
                                             {Activity::ToHost, {"gpu_to_cpu_mb", "", ""}}}};
/// Parts are the same only where these columns are.
constexpr std::array<std::string_view, 3> kPlaces{"nodes", "intra_group", "inter_group"};

using Sizes = std::array<double, 3>;
/// Accelerator, place, activity, sizes.
using PartKey = std::tuple<std::string, std::array<double, 3>, Activity, Sizes>;

struct Part {
  Activity activity = Activity::Compute;
  double work = 0.0;  ///< seconds, alone
};

double cell(const io::CsvTable& table, const io::CsvRow& row, std::string_view column) {
  const auto value = table.number(row, column, 0.0);
  if (!value)
    table.fail(row, column, fmt::format("column {} is empty", column), "0 where it does not run");
  return *value;
}

std::vector<PartKey> parts_of(const io::CsvTable& table, const io::CsvRow& row) {
  std::array<double, kPlaces.size()> place{};
  for (std::size_t i = 0; i < kPlaces.size(); ++i) place[i] = cell(table, row, kPlaces[i]);
  std::vector<PartKey> parts;
  for (const auto& [activity, columns] : kParts) {
    Sizes sizes{};
    bool runs = true;
    for (std::size_t i = 0; i < columns.size() && !columns[i].empty(); ++i) {
      sizes[i] = cell(table, row, columns[i]);
      runs = runs && sizes[i] > 0.0;
    }
    const bool leaves_node = activity == Activity::Local && place.back() > 1.0;
    if (runs) {
      parts.emplace_back(table.text(row, "gpu"), place, leaves_node ? Activity::Fabric : activity,
                         sizes);
    }
  }
  return parts;
}

std::string names_of(const std::vector<PartKey>& parts) {
  std::string names;
  for (const PartKey& part : parts) {
    names += fmt::format("{}{}", names.empty() ? "" : " + ", key_of(std::get<Activity>(part)));
  }
  return names.empty() ? "nothing" : names;
}

/// Until the last part has ended, all started at once.
double end_of(std::vector<Part> parts, const ConcurrencyRates& rates) {
  double now = 0.0;
  while (!parts.empty()) {
    ActivityMask active = 0;
    for (const Part& part : parts) active |= bit(part.activity);
    double step = parts.front().work / rates.rate(active, parts.front().activity);
    for (const Part& part : parts)
      step = std::min(step, part.work / rates.rate(active, part.activity));
    now += step;
    for (Part& part : parts) {
      const double left = part.work - step * rates.rate(active, part.activity);
      part.work = left <= kRounding * part.work ? 0.0 : left;
    }
    std::erase_if(parts, [](const Part& part) { return part.work <= 0.0; });
  }
  return now;
}

/// Time alone by part; several measurements are averaged.
class AloneTimes {
 public:
  AloneTimes(const io::CsvTable& table) {
    for (const io::CsvRow& row : table.rows()) {
      const auto parts = parts_of(table, row);
      const double time = cell(table, row, "time_ms") * kMillisecond;
      if (time <= 0.0) table.fail(row, "time_ms", "column time_ms must be above zero");
      if (parts.size() != 1) continue;
      auto& [sum, count] = times_[parts.front()];
      sum += time;
      ++count;
    }
  }
  [[nodiscard]] std::optional<double> of(const PartKey& part) const {
    const auto found = times_.find(part);
    if (found == times_.end()) return std::nullopt;
    return found->second.first / found->second.second;
  }

 private:
  std::map<PartKey, std::pair<double, int>> times_;
};

Seconds predict(const std::vector<PartKey>& keys, const AloneTimes& alone,
                Lookup<ConcurrencyRates>& rates, const std::string& gpu) {
  if (keys.empty()) throw refusal("nothing runs");
  if (keys.size() == 1) throw refusal("one part alone: what the others are predicted from");
  const ConcurrencyRates& of_gpu = *rates.get(gpu);
  std::vector<Part> parts;
  for (const PartKey& key : keys) {
    const auto [time, activity] = std::pair(alone.of(key), std::get<Activity>(key));
    if (!time) {
      throw refusal(fmt::format("its {} part is not in the table alone", key_of(activity)));
    }
    parts.push_back({activity, *time});
  }
  return Seconds(end_of(std::move(parts), of_gpu));
}

}  // namespace

std::vector<KernelRow> predict_concurrent(const io::CsvTable& table,
                                          const KernelProfiles& profiles) {
  const AloneTimes alone(table);
  Lookup<ConcurrencyRates> rates([&](std::string_view gpu) {
    return concurrency_rates(profiles.accelerator(gpu).concurrency);
  });
  return kernel_rows(table, [&](const io::CsvRow& cells, KernelRow& row) {
    const auto parts = parts_of(table, cells);
    row.cells["parts"] = names_of(parts);
    row.measured = Seconds(cell(table, cells, "time_ms") * kMillisecond);
    row.predicted = predict(parts, alone, rates, table.text(cells, "gpu"));
  });
}

}  // namespace plansearch
