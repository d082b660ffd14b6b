// SPDX-License-Identifier: Apache-2.0
#include "io/model/graph/graph_reader.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "io/document/fields.hpp"
#include "io/model/graph/block_reader.hpp"
#include "io/model/graph/graph_joins.hpp"
#include "io/model/graph/graph_words.hpp"
#include "io/model/model_sections.hpp"
#include "workload/routing_faults.hpp"

namespace plansearch::io {
namespace {

constexpr std::size_t kMostDimensions = 2'000;
constexpr std::size_t kMostBlocks = 2'000;
constexpr int kMostForwards = 64;

bool is_name(const std::string& text) {
  const auto good = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  };
  return !text.empty() && !(text.front() >= '0' && text.front() <= '9') &&
         std::all_of(text.begin(), text.end(), good);
}

/// Shapes are static.
std::int64_t read_extent(const Node& node) {
  if (!node.is_scalar() || !is_name(node.text())) return node.integer(kLengthRange);
  node.report(fmt::format("'{}' is not a number: shapes are static", node.text()),
              "write one extent; plans scale the batch");
  return 1;
}

/// Extents, or maps of extent and role.
DimNames read_dimensions(const Node& map, Network& network) {
  DimNames names;
  for (const Node::Entry& entry : map.entries()) {
    if (!is_name(entry.key)) {
      throw InputError(entry.where, fmt::format("'{}' is not a name of a dimension", entry.key),
                       "letters, digits and underscores");
    }
    Dimension dimension{entry.key, DimRole::Other, 1};
    if (entry.value.is_map()) {
      dimension.extent = read_extent(entry.value.at("extent"));
      Fields(entry.value).take("role", dimension.role, kRoles);
    } else {
      dimension.extent = read_extent(entry.value);
    }
    names.emplace(entry.key, static_cast<DimId>(network.dimensions.size()));
    network.dimensions.push_back(std::move(dimension));
  }
  if (network.dimensions.size() > kMostDimensions) {
    map.fail(fmt::format("more than {} dimensions", kMostDimensions));
  }
  const auto batches = std::count_if(network.dimensions.begin(), network.dimensions.end(),
                                     [](const Dimension& d) { return d.role == DimRole::Batch; });
  if (batches != 1) {
    map.fail(fmt::format("{} dimensions have the role batch", batches),
             "one has it, with extent 1: plans scale it");
  }
  return names;
}

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

}  // namespace

ModelDescription read_graph(const Node& root) {
  ModelDescription model;
  model.stack = StackKind::Graph;
  model.name = root.at("name").text();
  Fields(root).take("source", model.source, &Node::text);
  auto network = std::make_shared<Network>();
  network->name = model.name;
  Fields(root).take("routing", network->routing, read_routing);
  if (const auto forwards = root.find("forwards"))
    network->forwards = forwards->count(1, kMostForwards);
  const DimNames dims = read_dimensions(root.at("dims"), *network);
  std::vector<GraphBlock> blocks;
  for (const Node::Entry& entry : root.at("blocks").entries()) {
    if (blocks.size() >= kMostBlocks)
      entry.value.fail(fmt::format("more than {} blocks", kMostBlocks));
    blocks.push_back(read_block(*network, dims, entry.key, entry.value));
    blocks.back().where = entry.where;
    network->blocks.push_back(blocks.back().block);
  }
  if (blocks.empty()) root.at("blocks").fail("there are no blocks");
  join_blocks(root, blocks, *network);
  model.training.assumed = true;
  Fields(root).with("training",
                    [&](const Node& node) { model.training = read_training(node, model.stack); });
  describe(*network, model);
  model.graph = std::move(network);
  return model;
}

}  // namespace plansearch::io
