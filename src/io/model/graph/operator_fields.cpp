// SPDX-License-Identifier: Apache-2.0
#include "io/model/graph/operator_fields.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/names.hpp"
#include "io/document/fields.hpp"
#include "io/model/graph/graph_words.hpp"

namespace plansearch::io {
namespace {

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
    const auto found = std::find(names.begin(), names.end(), item.text());
    const auto place = static_cast<std::size_t>(found - names.begin());
    if (found == names.end()) {
      item.fail(fmt::format("there is no '{}'", item.text()), did_you_mean(item.text(), names));
    }
    if (std::find(order.begin(), order.end(), place) != order.end()) {
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
