// SPDX-License-Identifier: Apache-2.0
// Passes over a finished network: frozen parameters, saved tensors listed once.
#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "base/ranges.hpp"
#include "workload/block_builder.hpp"
#include "workload/operator_traits.hpp"

namespace plansearch {
namespace {

/// '*' matches any run of characters; one backtracking point suffices.
bool matches(std::string_view pattern, std::string_view text) {
  std::size_t p = 0;
  std::size_t t = 0;
  std::size_t star = std::string_view::npos;
  std::size_t resume = 0;
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      resume = t;
    } else if (p < pattern.size() && pattern[p] == text[t]) {
      ++p;
      ++t;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      t = ++resume;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', p) == std::string_view::npos;
}

bool any_match(const std::vector<std::string>& patterns, const std::string& name) {
  return std::ranges::any_of(patterns,
                             [&](const std::string& pattern) { return matches(pattern, name); });
}

/// Gradients of one block, whose inputs have one or not.
class GradientFlow {
 public:
  explicit GradientFlow(Block& block) : block_(block) {}

  void run(bool inputs) {
    for (const TensorId id : block_.inputs) tensor(id).gradient = inputs;
    for (Operator& op : block_.operators) {
      const bool needed = has_backward(op);
      for (const TensorId id : op.outputs) tensor(id).gradient = needed;
    }
    for (Operator& op : block_.operators) drop_needless(op);
  }

 private:
  Tensor& tensor(TensorId id) { return block_.tensors[static_cast<std::size_t>(id)]; }

  [[nodiscard]] bool has_backward(const Operator& op) const {
    return needs_input_gradient(block_, op) ||
           std::ranges::any_of(op.parameters, [&](ParameterId id) {
             return block_.parameter(id).trainable == Trainable::Yes;
           });
  }

  /// A product keeps its input for its weight's gradient, other operators for their input's. A
  /// tensor that is kept where it is produced is for the other operators that read it.
  [[nodiscard]] bool needed(const Operator& op, TensorId id) const {
    if (contains(op.inputs, id)) {
      return traits(op).multiplies_weight() ? trains_weight(block_, op) : has_backward(op);
    }
    if (has_backward(op)) return true;
    return std::ranges::any_of(block_.operators, [&](const Operator& reader) {
      const OperatorTraits& row = traits(reader);
      const bool reads = row.reads_inputs() || row.backward_reads == BackwardReads::ByFunction;
      return reads && !row.multiplies_weight() && contains(reader.inputs, id) &&
             has_backward(reader);
    });
  }

  void drop_needless(Operator& op) {
    if (traits(op).multiplies_weight()) {
      const int gradients = static_cast<int>(needs_input_gradient(block_, op)) +
                            static_cast<int>(trains_weight(block_, op));
      op.backward_kernels = op.backward_kernels * gradients / 2;
      op.backward_flops_factor = gradients;
    }
    std::erase_if(op.saved, [&](const Saved& saved) { return !needed(op, saved.tensor); });
  }

  Block& block_;
};

bool trains_anything(const Block& block) {
  return std::ranges::any_of(block.parameters,
                             [](const Parameter& p) { return p.trainable == Trainable::Yes; });
}

/// The variants of one block with and without a gradient of its inputs, as far as they are used.
struct Variants {
  std::optional<std::size_t> with{};
  std::optional<std::size_t> without{};
};

class NetworkFlow {
 public:
  explicit NetworkFlow(Network& network) : network_(network), variants_(network.blocks.size()) {}

  void run() {
    bool flows = false;
    for (const BlockRun& run : network_.order) {
      const bool begins = !flows && trains_anything(network_.blocks[run.block]);
      // The first copy is the lowest one that is trained: nothing below it needs a gradient.
      const bool divided = begins && run.count > 1;
      append({run.block, begins ? 1 : run.count}, flows, divided ? "-first" : "");
      flows = flows || begins;
      if (divided) append({run.block, run.count - 1}, true, "");
    }
    network_.blocks = std::move(blocks_);
    network_.order = std::move(order_);
  }

 private:
  void append(const BlockRun& run, bool inputs, const char* suffix) {
    Variants& known = variants_[run.block];
    std::optional<std::size_t>& place = inputs ? known.with : known.without;
    if (!place) {
      Block copy = network_.blocks[run.block];
      copy.name += suffix;
      GradientFlow(copy).run(inputs);
      place = blocks_.size();
      blocks_.push_back(std::move(copy));
    }
    order_.push_back({*place, run.count});
  }

  Network& network_;
  std::vector<Variants> variants_;
  std::vector<Block> blocks_;
  std::vector<BlockRun> order_;
};

}  // namespace

void freeze(Network& network, const std::vector<std::string>& patterns) {
  for (Block& block : network.blocks) {
    for (Parameter& parameter : block.parameters) {
      if (any_match(patterns, block.name + "/" + parameter.name)) {
        parameter.trainable = Trainable::No;
      }
    }
  }
}

void follow_gradients(Network& network) {
  NetworkFlow(network).run();
}

std::vector<std::string> parameter_names(const Network& network) {
  std::vector<std::string> names;
  for (const Block& block : network.blocks) {
    for (const Parameter& parameter : block.parameters) {
      names.push_back(block.name + "/" + parameter.name);
    }
  }
  return names;
}

std::vector<std::string> patterns_without_match(const Network& network,
                                                const std::vector<std::string>& patterns) {
  const std::vector<std::string> names = parameter_names(network);
  std::vector<std::string> missed;
  for (const std::string& pattern : patterns) {
    const bool hit =
        std::ranges::any_of(names, [&](const std::string& name) { return matches(pattern, name); });
    if (!hit) missed.push_back(pattern);
  }
  return missed;
}

std::int64_t trainable_parameter_count(const Network& network) {
  Network trained = network;
  for (Block& block : trained.blocks) {
    std::erase_if(block.parameters,
                  [](const Parameter& p) { return p.trainable == Trainable::No; });
  }
  return parameter_count(trained);
}

void list_saved_once(Network& network) {
  for (Block& block : network.blocks) {
    std::set<std::pair<TensorId, SavedAs>> seen;
    for (Operator& op : block.operators) {
      std::erase_if(op.saved, [&](const Saved& saved) {
        return !seen.insert({saved.tensor, saved.as}).second;
      });
    }
  }
}

}  // namespace plansearch
