// SPDX-License-Identifier: Apache-2.0
// Computes: the parts of a predicted step by what its kernels do; their likelihood.
// Source: operators of the busiest stage by class of cost, messages by kind, the step's breakdown.
// Assumes: what a step computes beyond one micro-batch times their number (contention, uneven
//          loads) is shared out evenly; recomputation repeats all of forward alike; errors of parts
//          are independent, log-normal for large ones and a fiftieth of the step for small ones.
// Units: seconds of one step.
// Checked by: tests/unit/question/measured_terms_test.cpp
#include "answer/diagnose.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "workload/operator_traits.hpp"

namespace plansearch {
namespace {

using io::ProfileTerm;

/// The share of a step that one cannot see in a profile.
constexpr double kSmallPart = 0.02;

ProfileTerm term_of(CostClass cost) {
  switch (cost) {
    case CostClass::Product:
    case CostClass::GroupedProduct:
    case CostClass::ActivationProduct:
    case CostClass::Scores:
      return ProfileTerm::Product;
    case CostClass::FusedAttention:
    case CostClass::Recurrence:
      return ProfileTerm::Attention;
    case CostClass::Loss:
    case CostClass::Stream:
    case CostClass::LookUp:
      return ProfileTerm::MemoryBound;
  }
  return ProfileTerm::MemoryBound;
}

std::optional<ProfileTerm> term_of(CommunicationKind kind) {
  switch (kind) {
    case CommunicationKind::AllGather:
      return ProfileTerm::AllGather;
    case CommunicationKind::ReduceScatter:
      return ProfileTerm::ReduceScatter;
    case CommunicationKind::AllReduce:
      return ProfileTerm::AllReduce;
    case CommunicationKind::AllToAll:
    case CommunicationKind::SendReceive:
    case CommunicationKind::Permute:
      return ProfileTerm::Exchange;
    case CommunicationKind::Slice:
      return std::nullopt;
  }
  return std::nullopt;
}

/// The term of the operator that a row names first.
ProfileTerm term_of(const Network& network, const OperatorReport& row) {
  const std::string first = row.name.substr(0, row.name.find(", "));
  for (const Block& block : network.blocks) {
    if (block.name != row.block) continue;
    for (const Operator& op : block.operators) {
      if (op.name == first) return term_of(traits(op).cost);
    }
  }
  return ProfileTerm::MemoryBound;
}

Seconds sum_of(const std::array<Seconds, io::kProfileTerms>& terms) {
  return std::accumulate(terms.begin(), terms.end(), Seconds(0));
}

struct Part {
  double predicted;
  double measured;
};

struct Parts {
  double step = 0.0;  ///< predicted
  std::vector<Part> parts;
};

/// Those that both sides know, without those that hardly matter to either.
Parts parts_of(const StepTerms& predicted, const io::StepProfile& measured, double steps) {
  Parts all;
  all.step = (predicted.exposed + predicted.idle).value();
  for (std::size_t i = 0; i < io::kProfileTerms; ++i) {
    const double kernels = predicted.kernels[i].value();
    all.parts.push_back({kernels, measured.terms[i].time.value() / steps});
    if (!io::is_message(static_cast<ProfileTerm>(i))) all.step += kernels;
  }
  const auto add = [&](Seconds time, const std::optional<Seconds>& seen) {
    if (seen) all.parts.push_back({time.value(), seen->value() / steps});
  };
  add(predicted.exposed, measured.exposed);
  add(predicted.idle, measured.idle);
  std::erase_if(all.parts, [&](const Part& part) {
    return std::max(part.predicted, part.measured) < kSmallPart * all.step;
  });
  return all;
}

}  // namespace

StepTerms predicted_terms(const Network& network, const PlanReport& plan) {
  StepTerms terms;
  std::array<Seconds, io::kProfileTerms> all{};
  std::array<Seconds, io::kProfileTerms> forward{};
  for (const OperatorReport& row : plan.operators) {
    const auto i = static_cast<std::size_t>(term_of(network, row));
    all[i] += row.copies * (row.forward + row.input_gradient + row.weight_gradient);
    forward[i] += row.copies * row.forward;
  }
  const StepTimeBreakdown& step = plan.estimate.step;
  const Seconds whole = sum_of(all);
  const Seconds once = sum_of(forward);
  for (std::size_t i = 0; i < io::kProfileTerms; ++i) {
    if (whole > Seconds(0)) terms.kernels[i] += step.compute * (all[i] / whole);
    if (once > Seconds(0)) terms.kernels[i] += step.recompute * (forward[i] / once);
  }
  terms.kernels[static_cast<std::size_t>(ProfileTerm::Optimizer)] += step.optimizer;
  for (const PricedCommunication& message : plan.communication) {
    const auto term = term_of(message.communication.kind);
    if (term) terms.kernels[static_cast<std::size_t>(*term)] += message.count * message.time;
  }
  terms.exposed = step.exposed_total();
  terms.idle = step.bubble + step.host;
  terms.site = step.site;
  return terms;
}

std::vector<TermReport> terms_beside(const StepTerms& predicted, const io::StepProfile& measured,
                                     double steps) {
  std::vector<TermReport> rows;
  for (std::size_t i = 0; i < io::kProfileTerms; ++i) {
    const io::TermTime& seen = measured.terms[i];
    rows.push_back({std::string(to_text(static_cast<ProfileTerm>(i))), predicted.kernels[i],
                    seen.time / steps, seen.calls / steps});
  }
  const auto beside = [&](const char* name, Seconds time, const std::optional<Seconds>& seen) {
    rows.push_back({name, time, seen ? std::optional(*seen / steps) : std::nullopt, 0.0});
  };
  beside("exposed messages", predicted.exposed, measured.exposed);
  beside("nothing runs", predicted.idle, measured.idle);
  beside("further time of the site", predicted.site, std::nullopt);
  std::erase_if(rows, [](const TermReport& row) {
    return row.predicted == Seconds(0) && row.measured.value_or(Seconds(0)) == Seconds(0);
  });
  return rows;
}

double density_of_terms(const StepTerms& predicted, const io::StepProfile& measured, double steps,
                        double sigma) {
  const Parts all = parts_of(predicted, measured, steps);
  const double small = kSmallPart * all.step;
  double density = 1.0;
  for (const Part& part : all.parts) {
    const double scatter = std::hypot(sigma * part.predicted, small);
    const double z = (part.measured - part.predicted) / scatter;
    density *= std::exp(-0.5 * z * z) * small / scatter;
  }
  return density;
}

}  // namespace plansearch
