// SPDX-License-Identifier: Apache-2.0
// Computes: the share of a job's time in which it trains for good.
// Source: J. T. Daly, "A higher order estimate of the optimum checkpoint interval for restart
//         dumps", FGCS 22 (2006): equation 20 (total wall time), equation 37 (interval).
// Assumes: interruptions come independently (exponential times between them), also while a
//          checkpoint is written and while the job restarts; a checkpoint stops training; every
//          interruption costs the restart, the reading of a checkpoint and the work since the last
//          one; a node that failed is replaced at once where there are spares.
// Units: seconds, bytes; shares.
// Checked by: tests/unit/evaluate/goodput_test.cpp (a job simulated interruption by interruption)
#include "evaluate/answer/goodput.hpp"

#include <algorithm>
#include <cmath>

#include "evaluate/answer/interval.hpp"
#include "plansearch/transformer_builder.hpp"

namespace plansearch {
namespace {

constexpr double kSpareQuantile = 0.95;

/// The fewest failures that are not exceeded in 95 % of the time, of a mean number at once.
int poisson_quantile(double mean) {
  double probability = std::exp(-mean);
  double sum = probability;
  int count = 0;
  const int most = static_cast<int>(std::ceil(mean + 10.0 * std::sqrt(mean) + 10.0));
  while (sum < kSpareQuantile && count < most) {
    ++count;
    probability *= mean / count;
    sum += probability;
  }
  return count;
}

double bytes_of(const std::optional<DataType>& type) {
  return type ? element_size(*type).value() : 0.0;
}

}  // namespace

Reliability with_rate_of(std::vector<ReliabilityRecord> records, Reliability rest) {
  std::vector<double> logs;
  for (const ReliabilityRecord& record : records) {
    logs.push_back(std::log(record.gpu_mtbf().value()));
  }
  std::sort(logs.begin(), logs.end());
  const std::size_t half = logs.size() / 2;
  const double median = logs.size() % 2 == 1 ? logs[half] : 0.5 * (logs[half - 1] + logs[half]);
  double squares = 0.0;
  for (const double log : logs) squares += (log - median) * (log - median);
  rest.gpu_mtbf = Seconds(std::exp(median));
  rest.spread = logs.size() < 2 ? 0.0 : std::sqrt(squares / static_cast<double>(logs.size() - 1));
  rest.records = std::move(records);
  return rest;
}

Reliability reliability_on(const std::string& machine, const Reliability& published) {
  std::vector<ReliabilityRecord> own;
  for (const ReliabilityRecord& record : published.records) {
    if (record.machine == machine) own.push_back(record);
  }
  if (own.empty()) return published;
  Reliability there = with_rate_of(std::move(own), published);
  there.spread = published.spread;
  for (const ReliabilityRecord& record : there.records) {
    if (record.restart) there.restart = *record.restart;
  }
  return there;
}

Bytes checkpoint_bytes(const Problem& problem) {
  const PrecisionPolicy& policy = problem.framework->precision.at(problem.precision);
  const double trained = static_cast<double>(trainable_parameter_count(*problem.network));
  const double moments = optimizer_moments(problem.model->training.optimizer);
  return Bytes(trained * (element_size(policy.parameter).value() + bytes_of(policy.master) +
                          moments * element_size(policy.moment).value()));
}

Seconds checkpoint_interval(Seconds write, Seconds mtbf) {
  const double delta = write.value();
  const double mean = mtbf.value();
  if (delta >= 2.0 * mean) return mtbf;
  const double root = std::sqrt(delta / (2.0 * mean));
  return Seconds(std::sqrt(2.0 * delta * mean) * (1.0 + root / 3.0 + root * root / 9.0) - delta);
}

double elapsed_over_useful(Seconds interval, Seconds write, Seconds restart, Seconds mtbf) {
  const double mean = mtbf.value();
  return mean / interval.value() * std::exp(restart / mtbf) * std::expm1((interval + write) / mtbf);
}

Goodput goodput_of(const Problem& problem, const Reliability& published) {
  Goodput goodput;
  goodput.rests_on = reliability_on(problem.cluster->name, published);
  const Reliability& reliability = goodput.rests_on;
  const int per_node = problem.cluster->accelerators_per_node;
  const int nodes = (problem.gpus + per_node - 1) / per_node;
  goodput.checkpoint = checkpoint_bytes(problem);
  goodput.write =
      goodput.checkpoint / std::min(reliability.storage_of_site,
                                    reliability.storage_per_node * static_cast<double>(nodes));
  goodput.mtbf = reliability.gpu_mtbf / static_cast<double>(problem.gpus);
  goodput.interval =
      reliability.interval.value_or(checkpoint_interval(goodput.write, goodput.mtbf));
  const Seconds restart = reliability.restart + goodput.write;  // reads as fast as it writes
  const auto share_at = [&](double factor) {
    return 1.0 /
           elapsed_over_useful(goodput.interval, goodput.write, restart, goodput.mtbf * factor);
  };
  const double tail = std::exp(kNormalP90 * reliability.spread);
  goodput.share = share_at(1.0);
  goodput.p10 = share_at(1.0 / tail);
  goodput.p90 = share_at(tail);
  goodput.spare_nodes = poisson_quantile(reliability.repair / goodput.mtbf);
  return goodput;
}

}  // namespace plansearch
