// SPDX-License-Identifier: Apache-2.0
// Computes: the time of each operator of a stage in one micro-batch, and that of its messages.
// Source: operator_price and edge_price, the parts that block profiles are added up from.
// Assumes: nothing is hidden and nothing recomputed.
// Units: seconds per micro-batch and copy of the block.
// Checked by: tests/unit/evaluate/operator_report_test.cpp (the rows sum to the passes)
#include "evaluate/answer/plan_details.hpp"

#include "evaluate/block/operator_price.hpp"
#include "evaluate/step/plan_invariants.hpp"

namespace plansearch {
namespace {

/// The messages that bring an operator its inputs, and those that take the block's outputs from it.
Seconds messages_of(const BlockWork& work, const BlockIndex& index, std::size_t op) {
  PhaseTimes sum = edge_price(work, index, kEdge, op);
  for (std::size_t producer = 0; producer < op; ++producer) {
    sum += edge_price(work, index, producer, op);
  }
  sum += edge_price(work, index, op, kNextBlock);
  return sum.total();
}

/// One row per launch: operators that run as one kernel are named together.
void append_block(const Block& block, const BlockIndex& index, const BlockWork& work, double copies,
                  std::vector<OperatorReport>& lines) {
  const std::string* launch = nullptr;
  for (std::size_t op = 0; op < block.operators.size(); ++op) {
    const Operator& described = block.operators[op];
    const bool joins = launch != nullptr && !launch->empty() && *launch == described.fused_key;
    launch = &described.fused_key;
    const PhaseTimes own = operator_price(work, op);
    const OperatorReport line{block.name,
                              copies,
                              described.name,
                              own.forward,
                              own.input_gradient,
                              own.weight_gradient,
                              messages_of(work, index, op)};
    if (joins) {
      lines.back().add(line);
    } else {
      lines.push_back(line);
    }
  }
}

}  // namespace

void OperatorReport::add(const OperatorReport& other) {
  name += ", " + other.name;
  forward += other.forward;
  input_gradient += other.input_gradient;
  weight_gradient += other.weight_gradient;
  messages += other.messages;
}

std::vector<OperatorReport> operators_at(const ProfileMaker& profiles, const PricingInput& view,
                                         int position) {
  const Network& network = *view.problem.network;
  std::vector<OperatorReport> lines;
  for_each_transform_at(view, position, [&](int number) {
    const TransformInvariants& transform = view.ground.transforms[static_cast<std::size_t>(number)];
    const std::vector<BlockWork>& work = transform.profile->work->blocks;
    const std::vector<double> copies = copies_at(view, position, number);
    for (std::size_t b = 0; b < copies.size(); ++b) {
      if (copies[b] <= 0.0) continue;
      append_block(network.blocks[b], profiles.index()[b], work[b],
                   copies[b] * transform.degrees->pieces, lines);
    }
  });
  std::erase_if(lines, [](const OperatorReport& line) { return line.total() == Seconds(0); });
  return lines;
}

}  // namespace plansearch
