// SPDX-License-Identifier: Apache-2.0
// Computes: memory of a host that holds optimizer states or parameters, time of an update there, of
//           the gradients' way to it and of the parameters' way back.
// Source: Ren et al., ZeRO-Offload (USENIX ATC 2021, arXiv 2101.06840), sections 3 and 4: states
//         and update on the CPU; the update is bound by the host's memory (table 4 as bytes per
//         second against two sockets' peak: `host.optimizer_efficiency`).
// Assumes: the ranks of a node update equal shares at the same time and share its memory bandwidth;
//          copies of all ranks run together at the rates of the profile; gradients that leave as
//          they are reduced hide behind backward passes, all else waits for its turn.
// Units: bytes, seconds.
// Checked by: tests/unit/evaluate/host_update_test.cpp
#include "evaluate/states/host_update.hpp"

#include <algorithm>

namespace plansearch {
namespace {

/// Bytes of one rank.
struct RankBytes {
  double memory = 0.0;
  double traffic = 0.0;
  double parameters = 0.0;
  double at_step = 0.0;
  double reduced = 0.0;

  void add(double elements, double frozen, const ModelStateBytes& bytes, double extra) {
    memory += elements * bytes.host + frozen * bytes.host_frozen;
    traffic += elements * (bytes.host_traffic + extra * bytes.host_share);
    parameters += elements * bytes.host_parameter;
    at_step += elements * bytes.gradient_at_step;
    reduced += elements * bytes.gradient_reduced;
  }
};

}  // namespace

HostUpdate host_update(const PricingInput& view, const ParameterCount& count,
                       const ModelStatePolicy& statics, const HostTensors& tensors) {
  const Framework& framework = *view.problem.framework;
  if (!tensors.optimizer && !tensors.parameters) return {};
  const Cluster& cluster = *view.problem.cluster;
  const Host& host = cluster.host.value();
  const double ranks = std::min(cluster.accelerators_per_node, view.problem.gpus);
  const double extra = tensors.optimizer ? framework.optimizer_offload.value().extra_bytes : 0.0;
  RankBytes bytes;
  bytes.add(count.trainable_dense, count.frozen_dense, statics.dense, extra);
  bytes.add(count.trainable_expert, count.frozen_expert, statics.expert, extra);
  HostUpdate update;
  update.memory = Bytes(ranks * bytes.memory);
  update.update =
      Bytes(ranks * bytes.traffic) / (host.memory_bandwidth * host.optimizer_efficiency);
  update.parameters = Bytes(bytes.parameters) / host.to_device;
  update.gradients = Bytes(bytes.at_step) / host.from_device;
  // The sum so far comes back to be added to.
  update.reduced = Bytes(bytes.reduced) / host.from_device + Bytes(bytes.reduced) / host.to_device;
  return update;
}

Seconds exposed_copies(const PricingInput& view, const HostUpdate& update,
                       const PhaseLengths& pass) {
  const auto& offload = view.problem.framework->optimizer_offload;
  if (!offload || offload->gradients == GradientsToHost::AtStep) return update.gradients;
  const bool leave = update.reduced > Seconds(0);
  const bool several = leave && view.order.micro_batches > 1;
  const auto repeats = static_cast<double>(view.repeats());
  const Seconds copies = update.gradients + update.reduced * (several ? repeats : 0.0);
  return std::max(copies - pass.backward * (leave ? repeats : 1.0), Seconds(0));
}

}  // namespace plansearch
