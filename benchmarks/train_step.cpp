// SPDX-License-Identifier: Apache-2.0
// A training step predicted from a profile, then measured: blocks of two products with a residual,
// forward, backward, gradients summed over data ranks or activations over tensor ranks, Adam.
//
//   train_step mine.yaml HIDDEN LAYERS ROWS [tensor]      one process, or several under mpirun
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "cost/collective/collective_cost.hpp"
#include "cost/kernels/compute_cost.hpp"
#include "measure/calibrate/backend.hpp"
#include "measure/calibrate/backends/cpu_loops.hpp"
#include "measure/calibrate/backends/cpu_trials.hpp"
#include "measure/calibrate/processes/processes.hpp"
#include "plansearch/error.hpp"
#include "plansearch/shipped_data.hpp"

namespace {

using namespace plansearch;  // NOLINT: a program of one file

using Floats = std::vector<float>;

struct Job {
  std::size_t hidden;
  std::size_t inner;  ///< of this rank
  std::size_t layers;
  std::size_t rows;  ///< of this rank
  int ranks;
  bool tensor;
};

Floats random_floats(std::size_t count, float scale, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0.0F, scale);
  Floats values(count);
  for (float& value : values) value = normal(random);
  return values;
}

/// A parameter with what Adam keeps of it: weight, two moments; and its gradient.
struct Parameter {
  explicit Parameter(std::size_t size, float scale, unsigned seed)
      : count(size), states(3 * size), gradient(size) {
    const Floats start = random_floats(size, scale, seed);
    std::copy(start.begin(), start.end(), states.begin());
  }
  std::size_t count;
  Floats states;
  Floats gradient;
};

class Trainer {
 public:
  Trainer(const Job& job, const calibrate::Blas& blas, calibrate::MpiProcesses* ranks)
      : job_(job), blas_(blas), ranks_(ranks), summed_(largest()) {
    const auto rank = static_cast<unsigned>(ranks == nullptr ? 0 : ranks->rank());
    for (std::size_t layer = 0; layer < job.layers; ++layer) {
      const auto seed = static_cast<unsigned>(10 * layer) + (job.tensor ? 1000 * rank : 0);
      const float scale = 0.5F / std::sqrt(static_cast<float>(job.hidden));
      up_.emplace_back(job.hidden * job.inner, scale, seed);
      down_.emplace_back(job.inner * job.hidden, 0.5F * scale, seed + 1);
      inner_.emplace_back(job.rows * job.inner);
    }
    streams_.assign(job.layers + 1, Floats(job.rows * job.hidden));
    streams_[0] = random_floats(job.rows * job.hidden, 1.0F, job.tensor ? 5 : 5 + rank);
    target_ = random_floats(job.rows * job.hidden, 1.0F, job.tensor ? 6 : 6 + rank);
    slope_.resize(job.rows * job.hidden);
    part_.resize(job.rows * job.hidden);
    inner_slope_.resize(job.rows * job.inner);
  }

  /// The mean square that is left.
  double step() {
    for (std::size_t layer = 0; layer < job_.layers; ++layer) forward(layer);
    double loss = 0.0;
    const Floats& last = streams_.back();
    for (std::size_t i = 0; i < last.size(); ++i) {
      slope_[i] = last[i] - target_[i];
      loss += static_cast<double>(slope_[i]) * static_cast<double>(slope_[i]);
    }
    for (std::size_t layer = job_.layers; layer-- > 0;) backward(layer);
    for (std::size_t layer = 0; layer < job_.layers; ++layer) {
      update(up_[layer]);
      update(down_[layer]);
    }
    return loss / static_cast<double>(last.size());
  }

 private:
  [[nodiscard]] std::size_t largest() const {
    return std::max(job_.rows * job_.hidden, job_.hidden * job_.inner);
  }

  /// c (m x n) = a b; an operand that is turned lies as its transpose.
  void multiply(bool turn_a, const float* a, bool turn_b, const float* b, float* c, std::size_t m,
                std::size_t n, std::size_t k) const {
    const auto whole = [](std::size_t value) { return static_cast<int>(value); };
    blas_.sgemm(101, turn_a ? 112 : 111, turn_b ? 112 : 111, whole(m), whole(n), whole(k), 1.0F, a,
                whole(turn_a ? m : k), b, whole(turn_b ? k : n), 0.0F, c, whole(n));
  }

  void sum_over_ranks(Floats& values) {
    if (ranks_ == nullptr) return;
    const double bytes = static_cast<double>(values.size() * sizeof(float));
    ranks_->communicate("all_reduce", {job_.ranks, 1, false}, values.data(), summed_.data(), bytes);
    std::copy_n(summed_.begin(), values.size(), values.begin());
  }

  void forward(std::size_t layer) {
    Floats& inner = inner_[layer];
    multiply(false, streams_[layer].data(), false, up_[layer].states.data(), inner.data(),
             job_.rows, job_.inner, job_.hidden);
    for (float& value : inner) value = std::max(value, 0.0F);
    multiply(false, inner.data(), false, down_[layer].states.data(), part_.data(), job_.rows,
             job_.hidden, job_.inner);
    if (job_.tensor) sum_over_ranks(part_);
    const Floats& in = streams_[layer];
    Floats& out = streams_[layer + 1];
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = in[i] + part_[i];
  }

  void backward(std::size_t layer) {
    const Floats& inner = inner_[layer];
    multiply(true, inner.data(), false, slope_.data(), down_[layer].gradient.data(), job_.inner,
             job_.hidden, job_.rows);
    multiply(false, slope_.data(), true, down_[layer].states.data(), inner_slope_.data(), job_.rows,
             job_.inner, job_.hidden);
    for (std::size_t i = 0; i < inner.size(); ++i) {
      inner_slope_[i] = inner[i] > 0.0F ? inner_slope_[i] : 0.0F;
    }
    multiply(true, streams_[layer].data(), false, inner_slope_.data(), up_[layer].gradient.data(),
             job_.hidden, job_.inner, job_.rows);
    multiply(false, inner_slope_.data(), true, up_[layer].states.data(), part_.data(), job_.rows,
             job_.hidden, job_.inner);
    if (job_.tensor) sum_over_ranks(part_);
    for (std::size_t i = 0; i < slope_.size(); ++i) slope_[i] += part_[i];
  }

  void update(Parameter& parameter) {
    if (!job_.tensor) sum_over_ranks(parameter.gradient);
    calibrate::memory_pass("optimizer")(parameter.gradient.data(), parameter.states.data(),
                                        parameter.count, parameter.count);
  }

  Job job_;
  const calibrate::Blas& blas_;
  calibrate::MpiProcesses* ranks_;
  std::vector<Parameter> up_;
  std::vector<Parameter> down_;
  std::vector<Floats> inner_;
  std::vector<Floats> streams_;
  Floats target_;
  Floats slope_;
  Floats part_;
  Floats inner_slope_;
  Floats summed_;
};

/// The same, from a profile.
double predicted(const Job& job, const Cluster& cluster) {
  const Accelerator& chip = cluster.accelerator;
  const auto rows = static_cast<double>(job.rows);
  const auto hidden = static_cast<double>(job.hidden);
  const auto inner = static_cast<double>(job.inner);
  const auto product = [&](double m, double n, double k) {
    const MatmulShape shape{1.0, m, n, k};
    return matmul_time(chip, DataType::Fp32, shape, Clock::Burst, rows_of(DataType::Fp32, shape))
        .value();
  };
  const auto pass = [&](double floats) {
    return stream_time(chip, Bytes(floats * sizeof(float)), 1).value();
  };
  const auto sum = [&](double floats) {
    return collective_cost(cluster, CommunicationKind::AllReduce, Bytes(floats * sizeof(float)),
                           {job.ranks, 1})
        .time.value();
  };
  double layer = product(rows, inner, hidden) + product(rows, hidden, inner) +
                 product(inner, hidden, rows) + product(rows, inner, hidden) +
                 product(hidden, inner, rows) + product(rows, hidden, inner);
  layer += pass(2.0 * rows * inner) + pass(3.0 * rows * hidden);  // forward
  layer += pass(3.0 * rows * inner) + pass(3.0 * rows * hidden);  // backward
  layer += 2.0 * pass(7.0 * hidden * inner);                      // Adam
  if (job.ranks > 1) {
    const double floats = job.tensor ? rows * hidden : hidden * inner;
    layer += 2.0 * (sum(floats) + pass(2.0 * floats));
  }
  return static_cast<double>(job.layers) * layer + pass(3.0 * rows * hidden);
}

double median_of(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

int run(int argc, char** argv) {
  if (argc < 5) {
    fmt::print(stderr, "usage: train_step mine.yaml HIDDEN LAYERS ROWS [tensor]\n");
    return 2;
  }
  const ShippedData data{std::filesystem::path(PLANSEARCH_DATA_DIR)};
  const Cluster cluster = data.cluster(argv[1]);
  const auto ranks = calibrate::MpiProcesses::join();
  const bool first = !ranks || ranks->rank() == 0;
  Job job{};
  job.hidden = std::strtoul(argv[2], nullptr, 10);
  job.layers = std::strtoul(argv[3], nullptr, 10);
  job.rows = std::strtoul(argv[4], nullptr, 10);
  job.ranks = ranks ? ranks->size() : 1;
  job.tensor = argc > 5 && job.ranks > 1;
  job.inner = 4 * job.hidden / static_cast<std::size_t>(job.tensor ? job.ranks : 1);
  const calibrate::Blas blas = calibrate::load_blas(cluster.accelerator.multiprocessors);
  Trainer trainer(job, blas, ranks.get());
  const double begin_loss = trainer.step();
  double loss = trainer.step();
  std::vector<double> times;
  for (int repetition = 0; repetition < 5; ++repetition) {
    if (ranks) ranks->wait_for_all();
    const auto begin = std::chrono::steady_clock::now();
    loss = trainer.step();
    const double own =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    times.push_back(ranks ? ranks->max(own) : own);
  }
  if (!first) return 0;
  const double measured = median_of(times);
  const auto [low, high] = std::minmax_element(times.begin(), times.end());
  const double expected = predicted(job, cluster);
  fmt::print(
      "hidden {} layers {} rows {} on {} {}: predicted {:.2f} ms, measured {:.2f} ms "
      "({:.2f} - {:.2f}), {:+.1f} %; loss {:.4f} -> {:.4f}\n",
      job.hidden, job.layers, job.rows, job.ranks,
      job.ranks == 1 ? "rank" : (job.tensor ? "tensor ranks" : "data ranks"), 1e3 * expected,
      1e3 * measured, 1e3 * *low, 1e3 * *high, 100.0 * (expected / measured - 1.0), begin_loss,
      loss);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const InputError& error) {
    fmt::print(stderr, "error: {}\n", error.what());
  } catch (const calibrate::Unmeasurable& missing) {
    fmt::print(stderr, "error: {}\n", missing.reason);
  }
  return 2;
}
