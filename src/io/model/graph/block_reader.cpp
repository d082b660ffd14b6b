// SPDX-License-Identifier: Apache-2.0
#include "io/model/graph/block_reader.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>

#include "base/names.hpp"
#include "base/ranges.hpp"
#include "io/document/fields.hpp"
#include "io/model/graph/graph_words.hpp"
#include "workload/operator_traits.hpp"

namespace plansearch::io {
namespace {

constexpr std::size_t kMostRank = 6;
/// Roles of dimensions that degrees cut; an operator that sums over them has to say so.
constexpr RoleSet kCutRoles{DimRole::Hidden,    DimRole::Head,   DimRole::Ffn,   DimRole::Vocab,
                            DimRole::ExpertFfn, DimRole::Expert, DimRole::Routed};
constexpr std::size_t kMostLoop = 24;

template <typename T>
std::vector<std::string> names_of(const std::vector<T>& items) {
  std::vector<std::string> names;
  for (const T& item : items) names.push_back(item.name);
  return names;
}

/// A value, or each of a list of values.
std::vector<Node> one_or_more(const Node& node) {
  return node.is_list() ? node.items() : std::vector<Node>{node};
}

class BlockReader {
 public:
  BlockReader(const Network& network, const DimNames& dims, const std::string& name,
              const Node& node)
      : network_(network), dims_(dims), node_(node) {
    graph_.block.name = name;
    graph_.where = node.where();
  }

  GraphBlock run() {
    Block& block = graph_.block;
    block.kind = BlockKind::Layer;
    Fields(node_).take("kind", block.kind, kBlockKinds);
    for (const Node::Entry& entry : node_.at("in").entries()) read_input(entry);
    for (const Node& op : node_.at("operators").items()) read_operator(op);
    if (block.operators.empty()) node_.fail(fmt::format("{} has no operators", block.name));
    read_outputs(node_.find("out"));
    if (const auto order = node_.find("tensors")) {
      renumber(block, block_order(*order, names_of(block.tensors)));
    }
    if (const auto order = node_.find("parameters")) {
      renumber_parameters(block, block_order(*order, names_of(block.parameters)));
    }
    return std::move(graph_);
  }

 private:
  [[nodiscard]] DimId dim(const Node& at, const std::string& name) const {
    const auto known = dims_.find(name);
    if (known != dims_.end()) return known->second;
    std::vector<std::string> names;
    for (const auto& [other, id] : dims_) names.push_back(other);
    std::string hint = did_you_mean(name, names);
    if (hint.empty()) hint = fmt::format("dims has {}", fmt::join(names, ", "));
    at.fail(fmt::format("unknown dimension '{}'", name), std::move(hint));
  }

  [[nodiscard]] std::vector<DimId> dim_list(const Node& list) const {
    std::vector<DimId> dims;
    for (const Node& item : list.items()) dims.push_back(dim(item, item.text()));
    check_rank(list, dims);
    return dims;
  }

  static void check_rank(const Node& at, const std::vector<DimId>& dims) {
    if (dims.size() > kMostRank) {
      at.fail(fmt::format("{} dimensions: a tensor has at most {}", dims.size(), kMostRank));
    }
    for (std::size_t i = 0; i < dims.size(); ++i) {
      if (std::ranges::count(dims, dims[i]) > 1) {
        at.fail("a dimension stands there twice", "give the second one a name of its own");
      }
    }
  }

  [[nodiscard]] TensorText tensor_text(const Node& node) const {
    auto text = parse_tensor(node.text());
    if (const auto* problem = std::get_if<TextProblem>(&text)) {
      node.fail(problem->what, "write it as h[b, y, x, c]");
    }
    return std::get<TensorText>(std::move(text));
  }

  TensorId add_tensor(const Node& at, Tensor tensor) {
    for (const Tensor& other : graph_.block.tensors) {
      if (other.name == tensor.name) {
        at.fail(fmt::format("'{}' is made twice in {}", tensor.name, graph_.block.name));
      }
    }
    graph_.block.tensors.push_back(std::move(tensor));
    return static_cast<TensorId>(graph_.block.tensors.size() - 1);
  }

  [[nodiscard]] TensorId tensor(const Node& at, const std::string& name) const {
    const auto& tensors = graph_.block.tensors;
    const auto found = std::ranges::find(tensors, name, &Tensor::name);
    if (found == tensors.end()) {
      std::string hint = did_you_mean(name, names_of(tensors));
      if (hint.empty()) hint = "it is an input of the block, or made by an operator above";
      at.fail(fmt::format("{} has no tensor '{}' here", graph_.block.name, name), hint);
    }
    return static_cast<TensorId>(found - tensors.begin());
  }

  void read_input(const Node::Entry& entry) {
    Tensor input{entry.key, {}, ElementClass::Activation, true};
    std::string joined = entry.key;
    if (entry.value.is_map()) {
      const Fields fields(entry.value);
      input.dims = dim_list(entry.value.at("dims"));
      fields.take("element", input.element, kElements);
      fields.take("gradient", input.gradient, &Node::boolean);
      fields.take("joins", joined, &Node::text);
      bool outside = false;
      fields.take("outside", outside, &Node::boolean);
      if (outside) graph_.outside.insert(entry.key);
    } else {
      input.dims = dim_list(entry.value);
    }
    graph_.block.inputs.push_back(add_tensor(entry.value, std::move(input)));
    graph_.inputs.push_back(joined);
  }

  void read_outputs(const std::optional<Node>& out) {
    if (!out) return;
    const auto add = [&](const Node& at, const std::string& outside, const std::string& inside) {
      const TensorId id = tensor(at, inside);
      auto& outputs = graph_.block.outputs;
      if (contains(outputs, id)) {
        at.fail(fmt::format("'{}' is handed out twice", inside));
      }
      outputs.push_back(id);
      graph_.outputs.push_back(outside);
    };
    if (out->is_map()) {
      for (const Node::Entry& entry : out->entries())
        add(entry.value, entry.key, entry.value.text());
    } else {
      for (const Node& item : out->items()) add(item, item.text(), item.text());
    }
  }

  void read_operator(const Node& node) {
    Operator op;
    op.name = node.at("name").name();
    for (const Operator& other : graph_.block.operators) {
      if (other.name == op.name) {
        node.at("name").fail(
            fmt::format("two operators of {} are called {}", graph_.block.name, op.name));
      }
    }
    Fields(node).take("kind", op.kind, std::span(kind_words()));
    for (const Node& read : one_or_more(node.at("read"))) read_tensor(read, op);
    for (const Node& made : one_or_more(node.at("make"))) make_tensor(made, op);
    drop_plain_reads(op);
    read_parameters(node, op);
    op.loop = usual_loop(graph_.block, op);
    if (const auto loop = node.find("loop")) read_loop(*loop, op);
    check(node, op);
    check_reads(node, op);
    read_operator_fields(node, op);
    check_groups(node, op);
    read_kept(node, op);
    graph_.block.operators.push_back(std::move(op));
  }

  void read_tensor(const Node& node, Operator& op) const {
    const TensorText text = tensor_text(node);
    const TensorId id = tensor(node, text.name);
    const std::vector<DimId>& dims = graph_.block.tensor(id).dims;
    std::vector<IndexExpression> read;
    if (text.indexed && text.indices.size() != dims.size()) {
      node.fail(fmt::format("'{}' has {} dimensions, {} are read", text.name, dims.size(),
                            text.indices.size()));
    }
    for (const IndexText& index : text.indices) {
      IndexExpression expression{{}, index.offset, index.divisor};
      for (const IndexText::Term& term : index.terms) {
        expression.terms.push_back({dim(node, term.dim), term.factor});
      }
      read.push_back(std::move(expression));
    }
    op.inputs.push_back(id);
    op.reads.push_back(std::move(read));
  }

  /// Removes the indices of tensors that are read by their own dimensions.
  void drop_plain_reads(Operator& op) const {
    for (std::size_t i = 0; i < op.reads.size(); ++i) {
      std::vector<IndexExpression> own;
      for (const DimId id : graph_.block.tensor(op.inputs[i]).dims)
        own.push_back({{{id, 1}}, 0, 1});
      if (op.reads[i] == own) op.reads[i].clear();
    }
    while (!op.reads.empty() && op.reads.back().empty()) op.reads.pop_back();
  }

  void make_tensor(const Node& node, Operator& op) {
    const TensorText text = tensor_text(node);
    Tensor made{text.name, {}, ElementClass::Activation, true};
    if (!text.indexed) node.fail(fmt::format("'{}' is made without dimensions", text.name));
    for (const IndexText& index : text.indices) {
      if (!index.is_plain()) {
        node.fail(fmt::format("'{}' is written at '{}'", text.name, to_text(index)),
                  "a result is written once for every place: name its dimensions");
      }
      made.dims.push_back(dim(node, index.terms.front().dim));
    }
    check_rank(node, made.dims);
    for (const std::string& word : text.words) {
      if (word == kNoGradient) {
        made.gradient = false;
        continue;
      }
      const auto* known = std::find_if(std::begin(kElements), std::end(kElements),
                                       [&](const auto& other) { return other.name == word; });
      if (known == std::end(kElements)) {
        node.fail(fmt::format("'{}' is not a class of elements", word),
                  "activation, statistic, mask, index or logit");
      }
      made.element = known->value;
    }
    op.outputs.push_back(add_tensor(node, std::move(made)));
  }

  void add_parameter(const Node& at, Parameter parameter, Operator& op) {
    auto& parameters = graph_.block.parameters;
    for (const Parameter& other : parameters) {
      if (other.name == parameter.name) {
        at.fail(fmt::format("two parameters of {} are called {}", graph_.block.name, other.name));
      }
    }
    parameters.push_back(std::move(parameter));
    op.parameters.push_back(static_cast<ParameterId>(parameters.size() - 1));
  }

  /// Dimensions, or a map with what is not usual.
  void read_parameter(const Node& node, Parameter parameter, Operator& op) {
    if (node.is_map()) {
      const Fields fields(node);
      parameter.dims = dim_list(node.at("dims"));
      fields.take("name", parameter.name, &Node::text);
      fields.take("class", parameter.kind, kParameterClasses);
      fields.take("shared", parameter.shared_key, &Node::text);
      bool trained = true;
      fields.take("trained", trained, &Node::boolean);
      parameter.trainable = trained ? Trainable::Yes : Trainable::No;
    } else {
      parameter.dims = dim_list(node);
    }
    add_parameter(node, std::move(parameter), op);
  }

  void read_parameters(const Node& node, Operator& op) {
    if (const auto weight = node.find("weight")) {
      read_parameter(*weight,
                     {parameter_name(op, "weight"), {}, usual_class(op.kind), Trainable::Yes, {}},
                     op);
    }
    if (const auto bias = node.find("bias")) {
      read_parameter(
          *bias, {parameter_name(op, "bias"), {}, ParameterClass::Vector, Trainable::Yes, {}}, op);
    }
    const auto more = node.find("parameters");
    if (!more) return;
    for (const Node& item : more->items()) {
      read_parameter(
          item, {parameter_name(op, "parameter"), {}, usual_class(op.kind), Trainable::Yes, {}},
          op);
    }
  }

  void read_loop(const Node& node, Operator& op) const {
    const std::vector<DimId> needed = op.loop;
    op.loop.clear();
    for (const Node& item : node.items()) op.loop.push_back(dim(item, item.text()));
    for (std::size_t i = 0; i < op.loop.size(); ++i) {
      if (std::ranges::count(op.loop, op.loop[i]) > 1) {
        node.fail(fmt::format("{} loops over a dimension twice", op.name));
      }
    }
    for (const ParameterId id : op.parameters) {
      for (const DimId own : graph_.block.parameter(id).dims) {
        if (contains(op.loop, own)) continue;
        node.fail(fmt::format("{} has a parameter over {}, which is not in its loop", op.name,
                              network_.dimension(own).name));
      }
    }
  }

  void check(const Node& node, const Operator& op) const {
    const OperatorTraits& row = traits(op);
    const auto needs = [&](bool right, const std::string& what) {
      if (!right) node.fail(fmt::format("{} is a {}: {}", op.name, row.name, what));
    };
    needs(op.loop.size() <= kMostLoop,
          fmt::format("its loop has more than {} dimensions", kMostLoop));
    const bool streams = row.cost == CostClass::Stream || row.cost == CostClass::LookUp;
    needs(streams || !op.inputs.empty(), "it reads a tensor");
    needs(!row.multiplies_weight() || !op.parameters.empty(), "it has a weight");
    needs(!row.multiplies_activations() || op.inputs.size() >= 2, "it reads two tensors");
    needs(row.cost != CostClass::FusedAttention || op.inputs.size() >= 3,
          "it reads queries, keys and values");
    needs(!row.exchanges_tokens || network_.routing.has_value(), "the file has no 'routing'");
    if (row.exchanges_tokens || row.multiplies_activations()) return;
    for (std::size_t i = 0; i < op.inputs.size(); ++i) {
      if (i < op.reads.size() && !op.reads[i].empty()) continue;
      for (const DimId dim : graph_.block.tensor(op.inputs[i]).dims) {
        const Dimension& own = network_.dimension(dim);
        const bool looped = contains(op.loop, dim);
        needs(looped || !kCutRoles.contains(own.role),
              fmt::format("its loop has no '{}', over which what it reads is cut", own.name));
      }
    }
  }

  void check_groups(const Node& node, const Operator& op) const {
    if (op.groups > 1 && !traits(op).statistics.over.contains(DimRole::Channel)) {
      node.at("groups").fail("only a norm takes its channels in groups");
    }
    for (const DimId dim : op.loop) {
      const Dimension& own = network_.dimension(dim);
      if (!lies_in_groups(own.role) || own.extent % op.groups == 0) continue;
      node.at("groups").fail(
          fmt::format("{} {} do not divide into {} groups", own.extent, own.name, op.groups));
    }
  }

  /// The first and the last place that an index reaches, and how far its window does by itself.
  struct Reach {
    std::int64_t low = 0;
    std::int64_t high = 0;
    std::int64_t window = 0;
  };

  [[nodiscard]] Reach reach(const Operator& op, const IndexExpression& index) const {
    Reach reach{index.offset, index.offset, 0};
    const auto& out = graph_.block.tensor(op.outputs.front()).dims;
    for (const IndexTerm& term : index.terms) {
      const std::int64_t span = term.factor * (network_.dimension(term.dim).extent - 1);
      (span < 0 ? reach.low : reach.high) += span;
      const bool slides = contains(out, term.dim);
      if (!slides) reach.window += span < 0 ? -span : span;
    }
    const auto divided = [&](std::int64_t value) {
      return value >= 0 ? value / index.divisor : -((-value + index.divisor - 1) / index.divisor);
    };
    return {divided(reach.low), divided(reach.high), reach.window};
  }

  /// A dimension by itself reads one as long, and no other of the same tensor.
  void check_plain(const Node& node, const Operator& op, const Tensor& tensor,
                   const std::vector<IndexExpression>& read, std::size_t place) const {
    if (!read[place].plain()) return;
    const Dimension& by = network_.dimension(read[place].terms.front().dim);
    const Dimension& own = network_.dimension(tensor.dims[place]);
    if (by.extent != own.extent) {
      node.at("read").fail(fmt::format("{} reads {} along {}, which has {}, by {}, which has {}",
                                       op.name, tensor.name, own.name, own.extent, by.name,
                                       by.extent));
    }
    for (std::size_t other = 0; other < place; ++other) {
      if (!(read[other] == read[place])) continue;
      node.at("read").fail(
          fmt::format("{} reads {} by {} in two places", op.name, tensor.name, by.name),
          "give the second dimension a name of its own");
    }
  }

  /// Padding is at most as wide as the window that needs it; without a window extents agree.
  void check_reads(const Node& node, const Operator& op) const {
    for (std::size_t i = 0; i < op.reads.size(); ++i) {
      const Tensor& tensor = graph_.block.tensor(op.inputs[i]);
      for (std::size_t d = 0; d < op.reads[i].size(); ++d) {
        check_plain(node, op, tensor, op.reads[i], d);
        const Dimension& own = network_.dimension(tensor.dims[d]);
        const Reach range = reach(op, op.reads[i][d]);
        if (range.low >= -range.window && range.high <= own.extent - 1 + range.window) continue;
        node.at("read").fail(
            fmt::format("{} reads places {} to {} of {}, which has {} along {}", op.name, range.low,
                        range.high, tensor.name, own.extent, own.name),
            "a window may reach beyond the tensor by its own width at most");
      }
    }
  }

  void read_kept(const Node& node, Operator& op) const {
    op.saved = usual_saved(graph_.block, op);
    const auto keep = node.find("keep");
    if (!keep) return;
    op.saved.clear();
    for (const Node& item : keep->items()) {
      const TensorText text = tensor_text(item);
      Saved saved(tensor(item, text.name));
      for (const std::string& word : text.words) read_saved_word(item, word, saved);
      op.saved.push_back(saved);
    }
  }

  static void read_saved_word(const Node& at, const std::string& word, Saved& saved) {
    for (const auto& form : kSavedForms) {
      if (form.name != word) continue;
      saved.as = form.value;
      return;
    }
    const bool number = !word.empty() && word.size() < 5 &&
                        std::ranges::all_of(word, [](char c) { return c >= '0' && c <= '9'; });
    if (!number)
      at.fail(fmt::format("'{}' is not a form of a kept tensor", word), "itself, single or like");
    saved.count = std::max(1, std::stoi(word));
  }

  const Network& network_;
  const DimNames& dims_;
  const Node& node_;
  GraphBlock graph_;
};

}  // namespace

GraphBlock read_block(const Network& network, const DimNames& dims, const std::string& name,
                      const Node& node) {
  return BlockReader(network, dims, name, node).run();
}

}  // namespace plansearch::io
