// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <array>
#include <cmath>
#include <random>

#include "base/hash.hpp"
#include "cost/collective/collective_cost.hpp"
#include "cost/kernels/compute_cost.hpp"
#include "measure/calibrate/backend.hpp"
#include "measure/calibrate/probe.hpp"

namespace plansearch::calibrate {
namespace {

struct KindWord {
  std::string_view word;
  CommunicationKind kind;
};
constexpr std::array kKinds{KindWord{"all_reduce", CommunicationKind::AllReduce},
                            KindWord{"all_gather", CommunicationKind::AllGather},
                            KindWord{"reduce_scatter", CommunicationKind::ReduceScatter},
                            // Every link carries the whole message once, as of an all-gather.
                            KindWord{"broadcast", CommunicationKind::AllGather},
                            KindWord{"all_to_all", CommunicationKind::AllToAll},
                            KindWord{"send_recv", CommunicationKind::SendReceive}};

double products(const Cluster& truth, const Point& point) {
  const auto type = parse_data_type(point.word("dtype"));
  if (!type) throw Unmeasurable{fmt::format("dtype \"{}\" is unknown", point.word("dtype"))};
  const MatmulShape shape{point.number("batch"), point.number("m"), point.number("n"),
                          point.number("k")};
  return matmul_time(truth.accelerator, *type, shape, plansearch::Clock::Burst,
                     rows_of(*type, shape))
      .value();
}

double attention(const Cluster& truth, const Point& point) {
  const auto type = parse_data_type(point.word("dtype"));
  if (!type) throw Unmeasurable{fmt::format("dtype \"{}\" is unknown", point.word("dtype"))};
  const Pass pass = point.word("direction") == "backward" ? Pass::Backward : Pass::Forward;
  return attention_time(truth.accelerator, *type, attention_shape(point), pass).value();
}

double launches(const Cluster& truth, const Point& point) {
  const StreamCurve& curve = truth.accelerator.kernels.stream;
  return (point.word("kernel") == "graph" ? curve.graph_launch : curve.launch).value();
}

double passes(const Cluster& truth, const Point& point) {
  return stream_time(truth.accelerator, Bytes(point.number("bytes")), 1).value();
}

double copies(const Cluster& truth, const Point& point) {
  constexpr double kStart = 10e-6;
  const Host& host = truth.host.value();
  const Bandwidth rate = point.word("direction") == "to_device" ? host.to_device : host.from_device;
  return kStart + (Bytes(point.number("bytes")) / rate).value();
}

double messages(const Cluster& truth, const Point& point) {
  for (const KindWord& row : kKinds) {
    if (row.word != point.word("collective")) continue;
    return collective_cost(
               truth, row.kind, Bytes(point.number("bytes")),
               {static_cast<int>(point.number("ranks")), static_cast<int>(point.number("stride"))})
        .time.value();
  }
  throw Unmeasurable{fmt::format("collective \"{}\" is unknown", point.word("collective"))};
}

Activity activity_of(const Point& part) {
  if (part.probe == "collective") return Activity::Local;
  if (part.probe != "host_copy") return Activity::Compute;
  return part.word("direction") == "to_device" ? Activity::FromHost : Activity::ToHost;
}

double part_time(const Cluster& truth, const Point& part) {
  if (part.probe == "collective") return messages(truth, part);
  return part.probe == "host_copy" ? copies(truth, part) : products(truth, part);
}

/// Time of one part while the other runs all along.
double overlapped(const Cluster& truth, const Point& point) {
  const OverlapParts parts = overlap_parts(point);
  const double alone = part_time(truth, parts.timed);
  if (!parts.beside) return alone;
  const Activity own = activity_of(parts.timed);
  const auto both = static_cast<ActivityMask>(bit(own) | bit(activity_of(*parts.beside)));
  return alone / concurrency_rates(truth.accelerator.concurrency).rate(both, own);
}

struct TruthRow {
  std::string_view probe;
  double (*time)(const Cluster& truth, const Point& point);
};
constexpr std::array kTruths{TruthRow{"gemm", products},       TruthRow{"batched_gemm", products},
                             TruthRow{"attention", attention}, TruthRow{"launch", launches},
                             TruthRow{"overlap", overlapped},  TruthRow{"stream", passes},
                             TruthRow{"host_copy", copies},    TruthRow{"collective", messages}};

class SyntheticBackend final : public Backend {
 public:
  SyntheticBackend(Cluster truth, const BackendOptions& options)
      : truth_(std::move(truth)), options_(options) {}

  [[nodiscard]] io::SampledMachine machine() const override {
    const Accelerator& chip = truth_.accelerator;
    return {.backend = "synthetic",
            .name = chip.name,
            .multiprocessors = chip.multiprocessors,
            .memory_bytes = chip.memory.value(),
            .cache_bytes = chip.l2_cache.value(),
            .accelerators = truth_.accelerators_per_node,
            .facts = {{"truth", truth_.name},
                      {"noise", fmt::format("{:g}", options_.noise)},
                      {"wild", fmt::format("{:g}", options_.wild)}}};
  }
  [[nodiscard]] double flop_rate() const override {
    const auto type = *parse_data_type(formats().front());
    return truth_.accelerator.peak_of(type).value().value();
  }
  [[nodiscard]] double byte_rate() const override {
    return truth_.accelerator.memory_bandwidth.value();
  }
  [[nodiscard]] std::vector<std::string> formats() const override {
    for (const DataType type : {DataType::Bf16, DataType::Fp16, DataType::Fp32}) {
      if (truth_.accelerator.peak_of(type)) return {std::string(to_text(type))};
    }
    return {};
  }
  [[nodiscard]] std::optional<std::string> lacks(const Probe& probe) const override {
    const bool copies = probe.name == "host_copy" || probe.name == "overlap";
    if (copies && !truth_.host) return "the profile has no host";
    if (probe.name == "attention" && !truth_.accelerator.kernels.attention_backward) {
      return "the profile has no fused attention";
    }
    if (probe.name == "collective" && truth_.accelerators_per_node < 2) {
      return "one accelerator has nobody to send to";
    }
    return std::nullopt;
  }

  /// The same noise for the same point, whatever the order.
  [[nodiscard]] std::unique_ptr<Trial> prepare(const Point& point) override {
    std::mt19937_64 random(content_hash(point.key()) ^ options_.seed);
    std::uniform_real_distribution<double> uniform;
    const bool wild = uniform(random) < options_.wild;
    const double factor = wild ? 3.0 + 7.0 * uniform(random) : 1.0;
    for (const TruthRow& row : kTruths) {
      if (row.probe != point.probe) continue;
      // Each block of calls has its own noise.
      return trial_of([time = factor * row.time(truth_, point), random, this](int calls) mutable {
        std::normal_distribution<double> normal;
        const double taken = time * calls * std::exp(options_.noise * normal(random));
        clock_ += taken;
        return taken;
      });
    }
    throw Unmeasurable{"the model has no such probe"};
  }

  [[nodiscard]] double now() const override { return clock_; }

 private:
  Cluster truth_;
  BackendOptions options_;
  double clock_ = 0.0;
};

}  // namespace

std::unique_ptr<Backend> make_synthetic(const BackendOptions& options, const ShippedData& data) {
  return std::make_unique<SyntheticBackend>(
      data.cluster(options.truth.empty() ? "dgx-h100" : options.truth), options);
}

}  // namespace plansearch::calibrate
