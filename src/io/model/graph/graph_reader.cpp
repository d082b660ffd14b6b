// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/names.hpp"
#include "base/ranges.hpp"
#include "io/document/fields.hpp"
#include "io/model/graph/block_reader.hpp"
#include "io/model/graph/dimension_reader.hpp"
#include "io/model/graph/graph_words.hpp"
#include "io/model/model_sections.hpp"
#include "workload/network_edges.hpp"

namespace plansearch::io {
namespace {

constexpr std::size_t kMostBlocks = 2'000;
constexpr int kMostForwards = 64;

Routing read_routing(const Node& node) {
  Routing routing;
  const Fields fields(node);
  routing.experts = node.at("experts").integer(kSizeRange);
  routing.top_k = node.at("top_k").integer(kSizeRange);
  fields.take("capacity_factor", routing.capacity_factor, &Node::positive_number);
  fields.take("imbalance", routing.imbalance, &Node::positive_number);
  fields.take("groups", routing.groups, kSizeRange);
  fields.take("top_groups", routing.top_groups, kSizeRange);
  const std::vector<std::string> faults = routing_faults(routing);
  if (!faults.empty()) node.fail(faults.front());
  return routing;
}

std::int64_t largest(const Network& network, DimRole role) {
  std::int64_t extent = 0;
  for (const Dimension& dimension : network.dimensions) {
    if (dimension.role == role) extent = std::max(extent, dimension.extent);
  }
  return extent;
}

/// Sizes that search and listings look up in a description.
void describe(const Network& network, ModelDescription& model) {
  model.layers = std::max<std::int64_t>(1, layer_count(network));
  model.hidden = largest(network, DimRole::Hidden);
  model.attention.heads = largest(network, DimRole::Head);
  model.attention.kv_heads = largest(network, DimRole::KvHead);
  model.attention.head_size = largest(network, DimRole::HeadSize);
  model.embedding.vocab = largest(network, DimRole::Vocab);
  model.training.seq_len = std::max<std::int64_t>(1, largest(network, DimRole::Sequence));
  if (!network.routing) return;
  MoeDescription moe;
  moe.experts = network.routing->experts;
  moe.top_k = network.routing->top_k;
  moe.capacity_factor = network.routing->capacity_factor;
  moe.imbalance = network.routing->imbalance;
  moe.groups = network.routing->groups;
  moe.top_groups = network.routing->top_groups;
  moe.expert_width = largest(network, DimRole::ExpertFfn);
  model.moe = moe;
}

/// The share of keys inside a window is a number of the file, for its number of tokens.
void check_moved(const Node& root, const Network& network) {
  const auto tokens = root.find("seq_len");
  if (!tokens) return;
  for (const Block& block : network.blocks) {
    for (const Operator& op : block.operators) {
      if (!op.windowed) continue;
      tokens->fail(fmt::format("{} of {} attends to a window, whose share is another at {} tokens",
                               op.name, block.name, tokens->text()),
                   "write the file for that length");
    }
  }
}

constexpr IntegerRange kLaunches{0, 1000};

double bounded(const Node& node, double low, double high) {
  const double value = node.number();
  if (!(value >= low && value <= high)) {
    node.report(fmt::format("must be between {} and {}", low, high));
    return low;
  }
  return value;
}

/// The inverse of an order: the new id of every old place.
template <typename Id>
std::vector<Id> new_ids(const std::vector<std::size_t>& order) {
  std::vector<Id> ids(order.size());
  for (std::size_t i = 0; i < order.size(); ++i) ids[order[i]] = static_cast<Id>(i);
  return ids;
}

template <typename Id>
void rename(std::vector<Id>& list, const std::vector<Id>& ids) {
  for (Id& id : list) id = ids[static_cast<std::size_t>(id)];
}

}  // namespace

ModelDescription read_graph(const Node& root) {
  ModelDescription model;
  model.stack = StackKind::Graph;
  model.name = root.at("name").name();
  Fields(root).take("source", model.source, &Node::text);
  auto network = std::make_shared<Network>();
  network->name = model.name;
  Fields(root).take("routing", network->routing, read_routing);
  if (const auto forwards = root.find("forwards"))
    network->forwards = forwards->count(1, kMostForwards);
  const DimNames dims = read_dimensions(root, *network);
  std::vector<GraphBlock> blocks;
  const std::set<std::string> left_out = blocks_left_out(root.at("order"));
  for (const Node::Entry& entry : root.at("blocks").entries()) {
    if (left_out.contains(entry.key)) {
      entry.value.ignore();
      continue;
    }
    if (blocks.size() >= kMostBlocks)
      entry.value.fail(fmt::format("more than {} blocks", kMostBlocks));
    blocks.push_back(read_block(*network, dims, entry.key, entry.value));
    blocks.back().where = entry.where;
    network->blocks.push_back(blocks.back().block);
  }
  if (blocks.empty()) root.at("blocks").fail("there are no blocks");
  join_blocks(root, blocks, *network);
  check_moved(root, *network);
  model.training.assumed = true;
  Fields(root).with("training",
                    [&](const Node& node) { model.training = read_training(node, model.stack); });
  describe(*network, model);
  model.graph = std::move(network);
  return model;
}

void read_operator_fields(const Node& node, Operator& op) {
  const Fields fields(node);
  fields.take("passes", op.passes, choices_of<MemoryBound, kMemoryBoundCount>());
  fields.with("modules", [&](const Node& list) {
    for (const Node& item : list.items()) {
      const auto module = find_layer_module(item.text());
      if (!module)
        item.fail("unknown module; known: " + plansearch::to_text(~LayerModules(), ", "));
      op.modules |= bit_of(*module);
    }
  });
  const auto number = [&](const char* key, double& field, double low, double high) {
    fields.take(key, field, [&](const Node& value) { return bounded(value, low, high); });
  };
  op.flops_per_point = usual_flops(op.kind);
  number("flops_per_point", op.flops_per_point, 0.0, 1e6);
  number("useful_fraction", op.useful_fraction, 0.0, 1.0);
  number("backward_flops_factor", op.backward_flops_factor, 0.0, 10.0);
  number("extra_forward_passes", op.extra_forward_passes, 0.0, 1e3);
  number("extra_backward_passes", op.extra_backward_passes, 0.0, 1e3);
  fields.take("windowed", op.windowed, &Node::boolean);
  fields.take("whole_sequence", op.whole_sequence, &Node::boolean);
  fields.take("kernel", op.kernel, &Node::text);
  fields.take("groups", op.groups, [](const Node& value) { return value.integer(kPositive); });
  number("selected", op.selected, 0.0, 1e9);
  number("carries", op.carried, 0.0, 1e6);
  fields.take("fused", op.fused_key, &Node::text);
  op.backward_kernels = usual_backward_kernels(op.kind);
  const auto launches = [&](const char* key, int& field) {
    fields.take(key, field, [&](const Node& value) {
      return value.count(static_cast<int>(kLaunches.low), static_cast<int>(kLaunches.high));
    });
  };
  launches("products", op.products);
  launches("forward_kernels", op.forward_kernels);
  launches("backward_kernels", op.backward_kernels);
}

std::vector<std::size_t> block_order(const Node& list, const std::vector<std::string>& names) {
  std::vector<std::size_t> order;
  for (const Node& item : list.items()) {
    const auto found = std::ranges::find(names, item.text());
    const auto place = static_cast<std::size_t>(found - names.begin());
    if (found == names.end()) {
      item.fail(fmt::format("there is no '{}'", item.text()), did_you_mean(item.text(), names));
    }
    if (contains(order, place)) {
      item.fail(fmt::format("'{}' is listed twice", item.text()));
    }
    order.push_back(place);
  }
  if (order.size() != names.size()) {
    list.fail(fmt::format("{} are listed, the block has {}", order.size(), names.size()),
              "list all, or leave the key out: then they are numbered as they come");
  }
  return order;
}

void renumber(Block& block, const std::vector<std::size_t>& order) {
  const auto ids = new_ids<TensorId>(order);
  std::vector<Tensor> tensors;
  for (const std::size_t place : order) tensors.push_back(std::move(block.tensors[place]));
  block.tensors = std::move(tensors);
  rename(block.inputs, ids);
  rename(block.outputs, ids);
  for (Operator& op : block.operators) {
    rename(op.inputs, ids);
    rename(op.outputs, ids);
    for (Saved& saved : op.saved) saved.tensor = ids[static_cast<std::size_t>(saved.tensor)];
  }
}

void renumber_parameters(Block& block, const std::vector<std::size_t>& order) {
  const auto ids = new_ids<ParameterId>(order);
  std::vector<Parameter> parameters;
  for (const std::size_t place : order) parameters.push_back(std::move(block.parameters[place]));
  block.parameters = std::move(parameters);
  for (Operator& op : block.operators) rename(op.parameters, ids);
}

}  // namespace plansearch::io
