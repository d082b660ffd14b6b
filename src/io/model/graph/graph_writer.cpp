// SPDX-License-Identifier: Apache-2.0
#include "base/ranges.hpp"
#include "io/model/model_writer.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>

#include "io/model/graph/block_reader.hpp"
#include "io/model/graph/graph_words.hpp"
#include "io/model/model_sections.hpp"
#include "io/plan/plan_document.hpp"
#include "workload/network_edges.hpp"

namespace plansearch::io {
namespace {

template <typename Range>
std::string list_of(const Range& texts) {
  return fmt::format("[{}]", fmt::join(texts, ", "));
}

/// Names under which the ends of the chain and of edges find each other.
class PortNames {
 public:
  explicit PortNames(const Network& network)
      : network_(network), blocks_(block_of_copies(network)) {
    for (const Block& block : network.blocks) {
      inputs_.emplace_back(block.inputs.size());
      outputs_.emplace_back(block.outputs.size());
    }
    const auto handed = handed_on(network);
    for (std::size_t p = 0; p + 1 < blocks_.size(); ++p) join(handed, p);
    for (std::size_t b = 0; b < network.blocks.size(); ++b) {
      name_rest(network.blocks[b].outputs, b, outputs_[b]);
      name_rest(network.blocks[b].inputs, b, inputs_[b]);
    }
  }

  [[nodiscard]] const std::string& input(std::size_t block, std::size_t i) const {
    return inputs_[block][i];
  }
  [[nodiscard]] const std::string& output(std::size_t block, std::size_t o) const {
    return outputs_[block][o];
  }
  [[nodiscard]] const std::vector<std::size_t>& blocks() const { return blocks_; }

 private:
  [[nodiscard]] bool along_edge(std::size_t position, std::size_t input) const {
    return std::ranges::any_of(network_.edges, [&](const Edge& edge) {
      const auto at = static_cast<std::int64_t>(position);
      return edge.input == input && edge.to <= at && at < edge.to + edge.readers;
    });
  }

  /// Gives each place of the chain one name: the one that its first reader uses.
  void join(const std::vector<std::vector<bool>>& handed, std::size_t position) {
    const std::size_t from = blocks_[position];
    const std::size_t to = blocks_[position + 1];
    const Block& reader = network_.blocks[to];
    for (std::size_t i = 0; i < handed[from].size() && i < reader.inputs.size(); ++i) {
      if (along_edge(position + 1, i)) continue;
      const auto [name, is_new] = chain_.try_emplace(i, reader.tensor(reader.inputs[i]).name);
      outputs_[from][i] = name->second;
      inputs_[to][i] = name->second;
    }
  }

  void name_rest(const std::vector<TensorId>& ids, std::size_t block,
                 std::vector<std::string>& names) const {
    for (std::size_t i = 0; i < ids.size(); ++i) {
      if (!names[i].empty()) continue;
      std::string name = network_.blocks[block].tensor(ids[i]).name;
      const auto is_taken = [&] {
        const bool chain =
            std::ranges::any_of(chain_, [&](const auto& other) { return other.second == name; });
        return chain || contains(names, name);
      };
      while (is_taken()) name += "_";
      names[i] = std::move(name);
    }
  }

  const Network& network_;
  std::vector<std::size_t> blocks_;
  std::map<std::size_t, std::string> chain_;
  std::vector<std::vector<std::string>> inputs_;
  std::vector<std::vector<std::string>> outputs_;
};

class BlockWriter {
 public:
  BlockWriter(const Network& network, const PortNames& names, std::size_t block, std::string& out)
      : network_(network),
        names_(names),
        number_(block),
        block_(network.blocks[block]),
        out_(out) {}

  void run() {
    line(2, fmt::format("{}:", in_quotes(block_.name)));
    line(4, fmt::format("kind: {}", word_of(kBlockKinds, block_.kind)));
    line(4, block_.inputs.empty() ? "in: {}" : "in:");
    for (std::size_t i = 0; i < block_.inputs.size(); ++i) write_input(i);
    if (!block_.outputs.empty()) line(4, "out:");
    for (std::size_t o = 0; o < block_.outputs.size(); ++o) {
      line(6, fmt::format("{}: {}", in_quotes(names_.output(number_, o)),
                          in_quotes(block_.tensor(block_.outputs[o]).name)));
    }
    write_orders();
    line(4, "operators:");
    for (const Operator& op : block_.operators) write_operator(op);
  }

 private:
  void line(int indent, const std::string& text) {
    out_.append(static_cast<std::size_t>(indent), ' ');
    out_ += text;
    out_ += '\n';
  }

  [[nodiscard]] std::string dims(const std::vector<DimId>& ids) const {
    std::vector<std::string> names;
    for (const DimId id : ids) names.push_back(network_.dimension(id).name);
    return list_of(names);
  }

  /// Whether some copy stands at the front of the network, or behind one that hands it nothing.
  [[nodiscard]] bool comes_from_outside(std::size_t input) const {
    const auto& blocks = names_.blocks();
    for (std::size_t p = 1; p < blocks.size(); ++p) {
      if (blocks[p] != number_) continue;
      const bool edge = std::ranges::any_of(network_.edges, [&](const Edge& other) {
        const auto at = static_cast<std::int64_t>(p);
        return other.input == input && other.to <= at && at < other.to + other.readers;
      });
      if (!edge && input >= network_.blocks[blocks[p - 1]].outputs.size()) return true;
    }
    return false;
  }

  void write_input(std::size_t i) {
    const Tensor& tensor = block_.tensor(block_.inputs[i]);
    std::string text = fmt::format("{}: {{dims: {}", in_quotes(tensor.name), dims(tensor.dims));
    if (tensor.element != ElementClass::Activation) {
      text += fmt::format(", element: {}", word_of(kElements, tensor.element));
    }
    if (!tensor.gradient) text += ", gradient: false";
    const std::string& name = names_.input(number_, i);
    if (name != tensor.name) text += fmt::format(", joins: {}", in_quotes(name));
    if (comes_from_outside(i)) text += ", outside: true";
    line(6, text + "}");
  }

  /// Writes the orders of tensors and parameters that are not numbered as they come.
  void write_orders() {
    std::vector<TensorId> tensors = block_.inputs;
    std::vector<ParameterId> parameters;
    for (const Operator& op : block_.operators) {
      tensors.insert(tensors.end(), op.outputs.begin(), op.outputs.end());
      parameters.insert(parameters.end(), op.parameters.begin(), op.parameters.end());
    }
    if (!std::ranges::is_sorted(tensors)) write_names("tensors", block_.tensors);
    if (!std::ranges::is_sorted(parameters)) {
      write_names("parameters", block_.parameters);
    }
  }

  template <typename T>
  void write_names(const char* key, const std::vector<T>& items) {
    std::vector<std::string> names;
    for (const T& item : items) names.push_back(in_quotes(item.name));
    line(4, fmt::format("{}: {}", key, list_of(names)));
  }

  [[nodiscard]] std::string read_text(const Operator& op, std::size_t i) const {
    const std::string& name = block_.tensor(op.inputs[i]).name;
    if (i >= op.reads.size() || op.reads[i].empty()) return in_quotes(name);
    std::vector<std::string> indices;
    for (const IndexExpression& expression : op.reads[i]) {
      IndexText text{{}, expression.offset, expression.divisor};
      for (const IndexTerm& term : expression.terms) {
        text.terms.push_back({network_.dimension(term.dim).name, term.factor});
      }
      indices.push_back(to_text(text));
    }
    return in_quotes(name + list_of(indices));
  }

  [[nodiscard]] std::string made_text(TensorId id) const {
    const Tensor& tensor = block_.tensor(id);
    std::string text = tensor.name + dims(tensor.dims);
    std::vector<std::string_view> words;
    if (tensor.element != ElementClass::Activation) {
      words.push_back(word_of(kElements, tensor.element));
    }
    if (!tensor.gradient) words.push_back(kNoGradient);
    if (!words.empty()) text += fmt::format(": {}", fmt::join(words, " "));
    return in_quotes(text);
  }

  [[nodiscard]] std::string parameter_text(const Parameter& parameter, bool named,
                                           ParameterClass usual) const {
    std::string text = fmt::format("dims: {}", dims(parameter.dims));
    if (named) text = fmt::format("name: {}, {}", in_quotes(parameter.name), text);
    if (parameter.kind != usual) {
      text += fmt::format(", class: {}", word_of(kParameterClasses, parameter.kind));
    }
    if (!parameter.shared_key.empty())
      text += fmt::format(", shared: {}", in_quotes(parameter.shared_key));
    if (parameter.trainable == Trainable::No) text += ", trained: false";
    return fmt::format("{{{}}}", text);
  }

  void write_parameters(const Operator& op) {
    std::size_t next = 0;
    const auto take = [&](const char* part, ParameterClass usual) {
      if (next >= op.parameters.size()) return;
      const Parameter& parameter = block_.parameter(op.parameters[next]);
      if (parameter.name != parameter_name(op, part)) return;
      const bool plain = parameter.kind == usual && parameter.shared_key.empty() &&
                         parameter.trainable == Trainable::Yes;
      line(8, fmt::format("{}: {}", part,
                          plain ? dims(parameter.dims) : parameter_text(parameter, false, usual)));
      ++next;
    };
    take("weight", usual_class(op.kind));
    take("bias", ParameterClass::Vector);
    if (next == op.parameters.size()) return;
    line(8, "parameters:");
    for (; next < op.parameters.size(); ++next) {
      line(10, "- " + parameter_text(block_.parameter(op.parameters[next]), true,
                                     usual_class(op.kind)));
    }
  }

  void write_saved(const Operator& op) {
    if (op.saved == usual_saved(block_, op)) return;
    std::vector<std::string> texts;
    for (const Saved& saved : op.saved) {
      std::string text = block_.tensor(saved.tensor).name;
      std::vector<std::string> words;
      if (saved.as != SavedAs::Itself) words.emplace_back(word_of(kSavedForms, saved.as));
      if (saved.count != 1) words.push_back(fmt::format("{}", saved.count));
      if (!words.empty()) text += fmt::format(": {}", fmt::join(words, " "));
      texts.push_back(in_quotes(text));
    }
    line(8, fmt::format("keep: {}", list_of(texts)));
  }

  template <typename T>
  void write_number(const char* key, const T& value, const T& usual) {
    if (value != usual) line(8, fmt::format("{}: {}", key, value));
  }

  void write_operator(const Operator& op) {
    line(6, fmt::format("- name: {}", in_quotes(op.name)));
    line(8, fmt::format("kind: {}", traits(op).word));
    std::vector<std::string> reads;
    for (std::size_t i = 0; i < op.inputs.size(); ++i) reads.push_back(read_text(op, i));
    line(8, fmt::format("read: {}", reads.size() == 1 ? reads.front() : list_of(reads)));
    write_parameters(op);
    std::vector<std::string> makes;
    for (const TensorId id : op.outputs) makes.push_back(made_text(id));
    line(8, fmt::format("make: {}", makes.size() == 1 ? makes.front() : list_of(makes)));
    if (op.loop != usual_loop(block_, op)) line(8, fmt::format("loop: {}", dims(op.loop)));
    if (op.passes != MemoryBound::Plain)
      line(8, fmt::format("passes: {}", plansearch::to_text(op.passes)));
    write_saved(op);
    if (op.modules.any())
      line(8, fmt::format("modules: [{}]", plansearch::to_text(op.modules, ", ")));
    const Operator usual;
    write_number("flops_per_point", op.flops_per_point, usual_flops(op.kind));
    write_number("useful_fraction", op.useful_fraction, usual.useful_fraction);
    write_number("backward_flops_factor", op.backward_flops_factor, usual.backward_flops_factor);
    write_number("extra_forward_passes", op.extra_forward_passes, usual.extra_forward_passes);
    write_number("extra_backward_passes", op.extra_backward_passes, usual.extra_backward_passes);
    if (op.windowed) line(8, "windowed: true");
    if (op.whole_sequence) line(8, "whole_sequence: true");
    if (!op.kernel.empty()) line(8, fmt::format("kernel: {}", in_quotes(op.kernel)));
    write_number("groups", op.groups, usual.groups);
    write_number("selected", op.selected, usual.selected);
    write_number("carries", op.carried, usual.carried);
    if (!op.fused_key.empty()) line(8, fmt::format("fused: {}", in_quotes(op.fused_key)));
    write_number("products", op.products, usual.products);
    write_number("forward_kernels", op.forward_kernels, usual.forward_kernels);
    write_number("backward_kernels", op.backward_kernels, usual_backward_kernels(op.kind));
  }

  const Network& network_;
  const PortNames& names_;
  std::size_t number_;
  const Block& block_;
  std::string& out_;
};

void write_head(const ModelDescription& model, const Network& network, std::string& out) {
  const auto into = std::back_inserter(out);
  fmt::format_to(into, "schema: {}\nname: {}\n", kGraphSchema, in_quotes(network.name));
  if (!model.source.empty()) fmt::format_to(into, "source: {}\n", in_quotes(model.source));
  const TrainingDefaults& training = model.training;
  if (training.global_batch > 0) {
    fmt::format_to(into, "training: {{global_batch: {}", training.global_batch);
    if (training.precision)
      fmt::format_to(into, ", precision: {}", plansearch::to_text(*training.precision));
    fmt::format_to(into, ", optimizer: {}}}\n", word_of(kOptimizers, training.optimizer));
  }
  if (network.forwards > 1) fmt::format_to(into, "forwards: {}\n", network.forwards);
  if (network.routing) {
    const Routing& routing = *network.routing;
    fmt::format_to(into, "routing: {{experts: {}, top_k: {}", routing.experts, routing.top_k);
    if (routing.capacity_factor) {
      fmt::format_to(into, ", capacity_factor: {}", *routing.capacity_factor);
    }
    if (routing.groups > 1) {
      fmt::format_to(into, ", groups: {}, top_groups: {}", routing.groups, routing.top_groups);
    }
    fmt::format_to(into, ", imbalance: {}}}\n", routing.imbalance);
  }
  out += "dims:\n";
  for (const Dimension& dimension : network.dimensions) {
    fmt::format_to(into, "  {}: {{extent: {}, role: {}}}\n", dimension.name, dimension.extent,
                   word_of(kRoles, dimension.role));
  }
}

/// The name of a copy: with its number where the block has several.
std::string copy_text(const Network& network, const std::vector<std::size_t>& blocks,
                      std::int64_t position) {
  const std::size_t block = blocks[static_cast<std::size_t>(position)];
  const auto here = blocks.begin() + static_cast<std::ptrdiff_t>(position);
  const std::string& name = network.blocks[block].name;
  if (std::ranges::count(blocks, block) == 1) return name;
  return fmt::format("{}:{}", name, std::count(blocks.begin(), here, block));
}

void write_order(const Network& network, const PortNames& names, std::string& out) {
  out += "order:\n";
  for (const BlockRun& run : network.order) {
    out += fmt::format("  - {{block: {}, copies: {}}}\n", in_quotes(network.blocks[run.block].name),
                       run.count);
  }
  if (network.edges.empty()) return;
  out += "edges:\n";
  const std::vector<std::size_t>& blocks = names.blocks();
  for (const Edge& edge : network.edges) {
    const std::size_t from = blocks[static_cast<std::size_t>(edge.from)];
    const auto write = [&](const std::string& reader, std::size_t to) {
      out += fmt::format(
          "  - {{from: {}, to: {}}}\n",
          in_quotes(copy_text(network, blocks, edge.from) + "." + names.output(from, edge.output)),
          in_quotes(reader + "." + names.input(to, edge.input)));
    };
    const std::size_t first = blocks[static_cast<std::size_t>(edge.to)];
    if (std::ranges::count(blocks, first) == edge.readers) {
      write(network.blocks[first].name, first);
      continue;
    }
    for (std::int64_t p = edge.to; p < edge.to + edge.readers; ++p) {
      write(copy_text(network, blocks, p), blocks[static_cast<std::size_t>(p)]);
    }
  }
}

}  // namespace

std::string write_graph(const ModelDescription& model, const Network& network) {
  std::string out;
  write_head(model, network, out);
  const PortNames names(network);
  out += "blocks:\n";
  for (std::size_t b = 0; b < network.blocks.size(); ++b) BlockWriter(network, names, b, out).run();
  write_order(network, names, out);
  return out;
}

}  // namespace plansearch::io
