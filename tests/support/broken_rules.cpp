// SPDX-License-Identifier: Apache-2.0
#include "support/broken_rules.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "workload/network_edges.hpp"
#include "workload/operator_traits.hpp"

namespace plansearch::test {
namespace {

class BlockChecker {
 public:
  BlockChecker(const Network& network, const Block& block, std::vector<std::string>& findings)
      : network_(network), block_(block), findings_(findings) {}

  void run() {
    const std::size_t before = findings_.size();
    for (const Tensor& tensor : block_.tensors) check_dims(tensor.name, tensor.dims);
    for (const Parameter& parameter : block_.parameters) {
      check_dims(parameter.name, parameter.dims);
    }
    for (const TensorId id : block_.inputs) produce(id, "block input");
    for (const Operator& op : block_.operators) check_operator(op);
    for (const TensorId id : block_.outputs) {
      if (!produced_.contains(id)) report("block output", "is not produced");
    }
    if (used_parameters_.size() != block_.parameters.size()) {
      report("parameters", "are not all used by an operator");
    }
    if (findings_.size() > before) return;  // ids may point nowhere
    for (const Operator& op : block_.operators) check_kept(op);
  }

 private:
  void report(const std::string& what, const std::string& problem) {
    findings_.push_back(fmt::format("{}: {} {}", block_.name, what, problem));
  }

  void check_dims(const std::string& what, const std::vector<DimId>& dims) {
    for (const DimId id : dims) {
      if (static_cast<std::size_t>(id) >= network_.dimensions.size()) {
        report(what, "has an unknown dimension");
      } else if (network_.dimension(id).extent < 1) {
        report(what, "has a dimension without extent");
      }
    }
  }

  void produce(TensorId id, const std::string& by) {
    if (static_cast<std::size_t>(id) >= block_.tensors.size()) {
      report(by, "writes an unknown tensor");
    } else if (!produced_.insert(id).second) {
      report(block_.tensor(id).name, "is produced twice");
    }
  }

  void check_operator(const Operator& op) {
    check_dims(op.name, op.loop);
    if (!names_.insert(op.name).second) report(op.name, "is the name of two operators");
    if (!op.fused_key.empty() && op.fused_key != last_fused_ &&
        !fused_.insert(op.fused_key).second) {
      report(op.name, "is apart from the operators it is fused with");
    }
    last_fused_ = op.fused_key;
    for (const TensorId id : op.inputs) {
      if (!produced_.contains(id)) report(op.name, "reads a tensor that nothing produced");
    }
    for (const TensorId id : op.outputs) produce(id, op.name);
    if (traits(op).multiplies_weight() && op.parameters.empty()) {
      report(op.name, "multiplies with a weight that it does not have");
    }
    for (const ParameterId id : op.parameters) check_parameter(op, id);
    for (const Saved& saved : op.saved) {
      if (!produced_.contains(saved.tensor)) {
        report(op.name, "saves a tensor that nothing produced");
      }
      if (!saved_.insert({saved.tensor, saved.as}).second) {
        report(op.name, "saves a tensor that is saved already");
      }
    }
  }

  /// Checks that tensors that backward reads are kept in some form; of several, only the first.
  void check_kept(const Operator& op) {
    const OperatorTraits& row = traits(op);
    const bool runs =
        trains_weight(block_, op) || (!row.multiplies_weight() && needs_input_gradient(block_, op));
    if (!runs) return;
    if (row.reads_inputs() && !is_kept(op.inputs)) {
      report(op.name, "reads its input in backward, which nothing keeps");
    }
    if (row.reads_outputs() && !is_kept(op.outputs)) {
      report(op.name, "reads its output in backward, which nothing keeps");
    }
  }

  [[nodiscard]] bool is_kept(const std::vector<TensorId>& tensors) const {
    const auto first = std::find_if(tensors.begin(), tensors.end(),
                                    [&](TensorId id) { return differentiable(block_.tensor(id)); });
    if (first == tensors.end()) return true;
    const auto kept = saved_.lower_bound({*first, SavedAs::Itself});
    return kept != saved_.end() && kept->first == *first;
  }

  void check_parameter(const Operator& op, ParameterId id) {
    if (static_cast<std::size_t>(id) >= block_.parameters.size()) {
      report(op.name, "uses an unknown parameter");
      return;
    }
    used_parameters_.insert(id);
    for (const DimId dim : block_.parameter(id).dims) {
      if (std::find(op.loop.begin(), op.loop.end(), dim) == op.loop.end()) {
        report(op.name, "has a parameter dimension outside its loop nest");
      }
    }
  }

  const Network& network_;
  const Block& block_;
  std::vector<std::string>& findings_;
  std::set<TensorId> produced_;
  std::set<std::pair<TensorId, SavedAs>> saved_;
  std::set<ParameterId> used_parameters_;
  std::set<std::string> names_;
  std::set<std::string> fused_;
  std::string last_fused_;
};

}  // namespace

namespace {

/// Both ends are there and have the same dimensions; what is read was made before.
void check_edge(const Network& network, const std::vector<std::size_t>& blocks, const Edge& edge,
                std::vector<std::string>& findings) {
  const auto copies = static_cast<std::int64_t>(blocks.size());
  if (edge.from < 0 || edge.from >= edge.to || edge.readers < 1 ||
      edge.to + edge.readers > copies) {
    findings.push_back("edges: one leads nowhere or back");
    return;
  }
  const Block& maker = network.blocks[blocks[static_cast<std::size_t>(edge.from)]];
  for (std::int64_t p = edge.to; p < edge.to + edge.readers; ++p) {
    const Block& reader = network.blocks[blocks[static_cast<std::size_t>(p)]];
    if (edge.output >= maker.outputs.size() || edge.input >= reader.inputs.size()) {
      findings.push_back("edges: " + maker.name + " to " + reader.name + " has no such end");
    } else if (maker.tensor(maker.outputs[edge.output]).dims !=
               reader.tensor(reader.inputs[edge.input]).dims) {
      findings.push_back("edges: " + maker.name + " to " + reader.name + " differ in dimensions");
    }
  }
}

}  // namespace

std::vector<std::string> broken_rules(const Network& network) {
  std::vector<std::string> findings;
  for (const BlockRun& run : network.order) {
    if (run.block >= network.blocks.size() || run.count < 1) {
      findings.push_back("order: a run of an unknown block or without copies");
    }
  }
  for (const Block& block : network.blocks) BlockChecker(network, block, findings).run();
  if (!findings.empty()) return findings;
  const std::vector<std::size_t> blocks = block_of_copies(network);
  for (const Edge& edge : network.edges) check_edge(network, blocks, edge, findings);
  return findings;
}

}  // namespace plansearch::test
