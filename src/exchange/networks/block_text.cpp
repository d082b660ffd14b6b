// SPDX-License-Identifier: Apache-2.0
#include "exchange/networks/graph_text.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/ranges.hpp"
#include "io/model/graph/graph_words.hpp"
#include "workload/operator_traits.hpp"

namespace plansearch::io {
namespace {

std::string in_quotes(std::string_view text) {
  return fmt::format("\"{}\"", text);
}

/// Which operator keeps a tensor for backward, each of them once.
class KeptPlan {
 public:
  KeptPlan(const Draft& draft, const DraftSegment& segment) : draft_(draft) {
    for (const DraftId id : segment.operators) {
      for (const DraftId made : draft.operators[id].made) makers_[made] = id;
    }
    for (const DraftId id : segment.operators) plan(id);
  }
  [[nodiscard]] const std::vector<DraftId>& of(DraftId op) { return kept_[op]; }

 private:
  void plan(DraftId id) {
    const DraftOperator& op = draft_.operators[id];
    if (!draft_.tensors[op.made.front()].gradient) return;
    const OperatorTraits& row = (*op.row);
    const bool by_function = row.backward_reads == BackwardReads::ByFunction;
    const bool usual =
        op.keeps == Keeps::Usual && by_function && op.reads.size() + op.parameters.size() > 1;
    const bool sum = op.passes == MemoryBound::Residual;
    const bool inputs =
        by_function ? (usual && !sum) || op.keeps == Keeps::Inputs || op.keeps == Keeps::Both
                    : row.reads_inputs() || op.keeps == Keeps::Inputs;
    const bool outputs =
        by_function ? op.keeps == Keeps::Outputs || op.keeps == Keeps::Both : row.reads_outputs();
    if (inputs) {
      for (const DraftRead& read : op.reads) {
        // Operands of attention are kept by what makes them.
        const auto maker = makers_.find(read.tensor);
        const bool there = row.multiplies_activations() && maker != makers_.end();
        keep(there ? maker->second : id, read.tensor);
      }
    }
    for (const DraftId made : op.made) {
      const ElementClass element = draft_.tensors[made].element;
      const bool extra = element == ElementClass::Mask || element == ElementClass::Statistic;
      if (outputs || extra) keep(id, made);
    }
  }

  void keep(DraftId op, DraftId tensor) {
    if (!seen_.insert(tensor).second) return;
    kept_[op].push_back(tensor);
  }

  const Draft& draft_;
  std::map<DraftId, DraftId> makers_;
  std::map<DraftId, std::vector<DraftId>> kept_;
  std::set<DraftId> seen_;
};

class BlockTextWriter {
 public:
  BlockTextWriter(const BlockTextContext& context, const DraftSegment& segment,
                  const BlockPorts& ports)
      : c_(context), segment_(segment), ports_(ports), kept_(context.draft, segment) {}

  std::string run(std::string_view kind) {
    std::vector<std::string> in;
    for (const auto& [port, id] : ports_.in) {
      const DraftTensor& tensor = c_.draft.tensors[id];
      tensors_[id] = port;
      std::string text = fmt::format("\"{}\": {{\"dims\": [{}]", port, dims(tensor.dims));
      if (tensor.element != ElementClass::Activation) {
        text += fmt::format(", \"element\": \"{}\"", word_of(kElements, tensor.element));
      }
      if (!tensor.gradient) text += ", \"gradient\": false";
      in.push_back(text + "}");
    }
    std::vector<std::string> operators;
    for (const DraftId id : segment_.operators) operators.push_back(operator_text(id));
    std::vector<std::string> out;
    for (const auto& [port, id] : ports_.out) {
      out.push_back(fmt::format("\"{}\": \"{}\"", port, tensors_.at(id)));
    }
    return fmt::format(
        "{{\"kind\": \"{}\", \"in\": {{{}}}, \"out\": {{{}}}, \"operators\": [\n{}]}}", kind,
        fmt::join(in, ", "), fmt::join(out, ", "), fmt::join(operators, ",\n"));
  }

 private:
  [[nodiscard]] std::string dims(const ImportedAxis& axis) {
    std::vector<std::string> names;
    for (const AtomId atom : c_.draft.axes.leaves(axis)) names.push_back(in_quotes(dim(atom)));
    return fmt::format("{}", fmt::join(names, ", "));
  }
  [[nodiscard]] std::string dim(AtomId atom) {
    return contains(seconds_, atom) ? c_.names.second(atom) : c_.names.name(atom);
  }
  [[nodiscard]] std::string made_dims(const ImportedAxis& axis) {
    std::vector<std::string> names;
    for (const AtomId atom : c_.draft.axes.leaves(axis)) names.push_back(c_.names.name(atom));
    return fmt::format("{}", fmt::join(names, ", "));
  }

  /// "attn.c_proj" of "transformer.h.3.attn.c_proj" in the block transformer.h.3.
  [[nodiscard]] std::string inside(const std::string& path) const {
    const std::string& module = segment_.module;
    if (module.empty() || !path.starts_with(module)) return path;
    return path.size() > module.size() ? path.substr(module.size() + 1) : std::string();
  }

  [[nodiscard]] std::string name_of(const DraftOperator& op) {
    std::string name = plain_name(inside(op.module));
    const bool itself =
        !op.parameters.empty() && op.row->backward_reads != BackwardReads::ByFunction;
    if (name.empty() || !itself) name += (name.empty() ? "" : ".") + plain_name(op.name);
    if (op.parameters.size() > 0 && op.parameters.front().piece) {
      name += fmt::format(".{}", *op.parameters.front().piece);
    }
    std::string unique = name;
    for (int i = 2; !names_.insert(unique).second; ++i) unique = fmt::format("{}_{}", name, i);
    return unique;
  }

  [[nodiscard]] std::string operator_text(DraftId id) {
    const DraftOperator& op = c_.draft.operators[id];
    const std::string name = name_of(op);
    // A dimension that a product both makes and contracts is two in its loop nest.
    const ImportedAxis made = c_.draft.axes.leaves(c_.draft.tensors[op.made.front()].dims);
    seconds_.clear();
    if (op.row->multiplies_weight()) {
      for (const AtomId atom : c_.draft.axes.leaves(op.contracted)) {
        if (contains(made, atom)) seconds_.push_back(atom);
      }
    }
    std::vector<std::string> reads;
    for (const DraftRead& read : op.reads) reads.push_back(read_text(read));
    std::string text = fmt::format("{{\"name\": \"{}\", \"kind\": \"{}\", \"read\": [{}]", name,
                                   op.row->word, fmt::join(reads, ", "));
    if (!op.parameters.empty()) text += parameters_text(op);
    std::vector<std::string> makes;
    for (const DraftId made_id : op.made) makes.push_back(made_text(op, name, made_id));
    text += fmt::format(", \"make\": [{}]", fmt::join(makes, ", "));
    if (op.loop) {
      text += fmt::format(", \"loop\": [{}]", loop_text(*op.loop));
    } else if (const auto loop = short_loop(op)) {
      text += fmt::format(", \"loop\": [{}]", loop_text(*loop));
    }
    std::vector<std::string> kept;
    for (const DraftId tensor : kept_.of(id)) kept.push_back(in_quotes(tensors_.at(tensor)));
    text += fmt::format(", \"keep\": [{}]", fmt::join(kept, ", "));
    return text + numbers_text(op) + "}";
  }

  /// The loop of an operator that reads many tensors (a concatenation): its result, and the
  /// dimensions that degrees cut.
  [[nodiscard]] std::optional<ImportedAxis> short_loop(const DraftOperator& op) {
    constexpr std::size_t kFew = 12;
    if (!op.row->goes_by_element()) return std::nullopt;
    ImportedAxis loop = c_.draft.axes.leaves(c_.draft.tensors[op.made.front()].dims);
    ImportedAxis all = loop;
    for (const DraftRead& read : op.reads) {
      for (const AtomId atom : c_.draft.axes.leaves(c_.draft.tensors[read.tensor].dims)) {
        if (contains(all, atom)) continue;
        all.push_back(atom);
        if (c_.names.is_cut(atom)) loop.push_back(atom);
      }
    }
    return all.size() > kFew && op.parameters.empty() ? std::optional(loop) : std::nullopt;
  }

  [[nodiscard]] std::string loop_text(const ImportedAxis& axis) {
    std::vector<std::string> names;
    const ImportedAxis loop = c_.draft.axes.leaves(axis);
    for (std::size_t i = 0; i < loop.size(); ++i) {
      const bool again = std::find(loop.begin(), loop.begin() + static_cast<std::ptrdiff_t>(i),
                                   loop[i]) != loop.begin() + static_cast<std::ptrdiff_t>(i);
      names.push_back(in_quotes(again ? dim(loop[i]) : c_.names.name(loop[i])));
    }
    return fmt::format("{}", fmt::join(names, ", "));
  }

  [[nodiscard]] std::string read_text(const DraftRead& read) {
    const AxisTable& axes = c_.draft.axes;
    const DraftTensor& tensor = c_.draft.tensors[read.tensor];
    std::map<AtomId, std::string> by;
    for (const auto& [mine, loop] : read.renamed) {
      const ImportedAxis from = axes.leaves(mine);
      const ImportedAxis to = axes.leaves(loop);
      if (from.size() != to.size()) continue;
      for (std::size_t i = 0; i < from.size(); ++i) by[from[i]] = dim(to[i]);
    }
    for (const DraftIndex& index : read.windows) {
      const ImportedAxis own = axes.leaves({index.dim});
      if (own.size() != 1) continue;
      IndexText text{{}, index.offset, index.divisor};
      for (const auto& [axis, factor] : index.terms) {
        for (const AtomId atom : axes.leaves(axis))
          text.terms.push_back({c_.names.name(atom), factor});
      }
      by[own.front()] = to_text(text);
    }
    bool plain = true;
    std::vector<std::string> indices;
    for (const AtomId atom : axes.leaves(tensor.dims)) {
      const auto renamed = by.find(atom);
      indices.push_back(renamed == by.end() ? dim(atom) : renamed->second);
      plain &= indices.back() == c_.names.name(atom);
    }
    const std::string& name = tensors_.at(read.tensor);
    return in_quotes(plain ? name : fmt::format("{}[{}]", name, fmt::join(indices, ", ")));
  }

  [[nodiscard]] std::string parameters_text(const DraftOperator& op) {
    std::vector<std::string> texts;
    for (std::size_t i = 0; i < op.parameters.size(); ++i) {
      const DraftParameter& parameter = op.parameters[i];
      const ImportedValue& value = c_.graph.values[parameter.value];
      std::string name = plain_name(inside(value.name));
      if (parameter.piece) name += fmt::format(".{}", *parameter.piece);
      std::string unique = name;
      for (int n = 2; !parameters_.insert(unique).second; ++n)
        unique = fmt::format("{}_{}", name, n);
      std::string text =
          fmt::format("{{\"name\": \"{}\", \"dims\": [{}]", unique, parameter_dims(op, parameter));
      const bool table = c_.tables.contains(parameter.value);
      const bool matrix = value.shape.size() > 1;
      text += fmt::format(", \"class\": \"{}\"", table    ? "embedding"
                                                 : matrix ? "matrix"
                                                          : "vector");
      if (c_.uses.at(parameter.value) > 1 && !parameter.piece) {
        text += fmt::format(", \"shared\": \"{}\"", plain_name(value.name));
      }
      texts.push_back(text + "}");
    }
    return fmt::format(", \"parameters\": [{}]", fmt::join(texts, ", "));
  }

  /// Dimensions of a weight. A contracted and a produced dimension may have become equal; their
  /// original atoms distinguish them.
  [[nodiscard]] std::string parameter_dims(const DraftOperator& op,
                                           const DraftParameter& parameter) {
    std::vector<std::string> names;
    for (const AtomId was : parameter.dims) {
      const bool contracted = contains(op.contracted, was);
      for (const AtomId atom : c_.draft.axes.leaves({was})) {
        names.push_back(in_quotes(contracted ? dim(atom) : c_.names.name(atom)));
      }
    }
    return fmt::format("{}", fmt::join(names, ", "));
  }

  [[nodiscard]] std::string made_text(const DraftOperator& op, const std::string& name,
                                      DraftId id) {
    const DraftTensor& tensor = c_.draft.tensors[id];
    const ImportedAxis atoms = c_.draft.axes.leaves(tensor.dims);
    for (std::size_t i = 0; i < atoms.size(); ++i) {
      if (std::ranges::count(atoms, atoms[i]) == 1) continue;
      c_.graph.fail(
          fmt::format("{} in {} makes a tensor two of whose dimensions turn out to be one", op.name,
                      op.module.empty() ? "the network itself" : op.module),
          "write it as a graph file (docs/graphs.md), with a name for each");
    }
    const std::string& own = tensors_[id] = tensor.name.empty() ? name : name + "." + tensor.name;
    std::string text = fmt::format("{}[{}]", own, made_dims(tensor.dims));
    std::vector<std::string_view> words;
    if (tensor.element != ElementClass::Activation)
      words.push_back(word_of(kElements, tensor.element));
    if (!tensor.gradient && tensor.element == ElementClass::Activation)
      words.push_back(kNoGradient);
    if (!words.empty()) text += fmt::format(": {}", fmt::join(words, " "));
    return in_quotes(text);
  }

  [[nodiscard]] std::string numbers_text(const DraftOperator& op) {
    std::string text;
    if (op.passes != MemoryBound::Plain) {
      text += fmt::format(", \"passes\": \"{}\"", plansearch::to_text(op.passes));
    }
    if (op.modules.any()) {
      text += fmt::format(", \"modules\": [\"{}\"]", plansearch::to_text(op.modules, "\", \""));
    }
    if (op.flops_per_point > 0.0) {
      text += fmt::format(", \"flops_per_point\": {}", op.flops_per_point);
    }
    if (op.useful_fraction < 1.0) {
      text += fmt::format(", \"useful_fraction\": {}", op.useful_fraction);
    }
    if (op.backward_factor != 2.0) {
      text += fmt::format(", \"backward_flops_factor\": {}", op.backward_factor);
    }
    if (op.fused) {
      const auto [number, is_new] = fusions_.try_emplace(*op.fused, fusions_.size() + 1);
      text += fmt::format(", \"fused\": \"f{}\"", number->second);
    }
    const int forward = op.launches ? op.forward_kernels : 0;
    if (forward != 1) text += fmt::format(", \"forward_kernels\": {}", forward);
    if (!op.launches) {
      text += ", \"backward_kernels\": 0";
    } else if (op.backward_kernels > 0) {
      text += fmt::format(", \"backward_kernels\": {}", op.backward_kernels);
    }
    return text;
  }

  BlockTextContext c_;
  const DraftSegment& segment_;
  const BlockPorts& ports_;
  KeptPlan kept_;
  std::map<DraftId, std::string> tensors_;
  std::map<std::size_t, std::size_t> fusions_;
  std::set<std::string> names_;
  std::set<std::string> parameters_;
  ImportedAxis seconds_;
};

constexpr std::pair<DimRole, std::string_view> kBaseNames[] = {
    {DimRole::Batch, "batch"},        {DimRole::Sequence, "tokens"}, {DimRole::KeySequence, "keys"},
    {DimRole::Hidden, "hidden"},      {DimRole::Head, "heads"},      {DimRole::KvHead, "kv_heads"},
    {DimRole::HeadSize, "head_size"}, {DimRole::Ffn, "ffn"},         {DimRole::Vocab, "vocabulary"},
    {DimRole::Position, "positions"}, {DimRole::Pixel, "places"},    {DimRole::Channel, "channels"},
    {DimRole::Kernel, "taps"}};

std::string base_name(DimRole role) {
  for (const auto& [known, name] : kBaseNames) {
    if (known == role) return std::string(name);
  }
  return "d";
}

}  // namespace

DimRole DimensionNames::role(AtomId atom) const {
  const auto found = roles_.find(atom);
  return found == roles_.end() ? DimRole::Other : found->second;
}

std::string DimensionNames::take(DimRole role, std::int64_t extent, std::size_t number) {
  const bool batch = role == DimRole::Batch;
  std::string name = batch ? "batch" : fmt::format("{}_{}", base_name(role), extent);
  if (number > 0) name += fmt::format("_{}", number + 1);
  std::string unique = name;
  for (int i = 2; !used_.insert(unique).second; ++i) unique = fmt::format("{}_x{}", name, i);
  lines_.push_back(fmt::format("\"{}\": {{\"extent\": {}, \"role\": \"{}\"}}", unique,
                               batch ? 1 : extent, word_of(kRoles, role)));
  return unique;
}

bool DimensionNames::is_cut(AtomId atom) const {
  constexpr DimRole kCut[] = {DimRole::Hidden, DimRole::Head,     DimRole::KvHead, DimRole::Ffn,
                              DimRole::Vocab,  DimRole::Sequence, DimRole::Batch};
  return std::find(std::begin(kCut), std::end(kCut), role(atom)) != std::end(kCut);
}

void DimensionNames::make_outer(AtomId atom) {
  if (outer_.contains(atom)) return;
  outer_[atom] = take(role(atom), axes_.extent(atom), 0);
}

void DimensionNames::start_block() {
  inner_.clear();
  seconds_.clear();
  counts_.clear();
}

const std::string& DimensionNames::name(AtomId atom) {
  if (const auto outer = outer_.find(atom); outer != outer_.end()) return outer->second;
  const auto [known, is_new] = inner_.try_emplace(atom);
  if (!is_new) return known->second;
  const std::int64_t extent = axes_.extent(atom);
  const std::size_t number = counts_[{role(atom), extent}]++;
  std::string& shared = pool_[{role(atom), extent, number}];
  if (shared.empty()) shared = take(role(atom), extent, number);
  return known->second = shared;
}

const std::string& DimensionNames::second(AtomId atom) {
  const auto [known, is_new] = seconds_.try_emplace(atom);
  if (!is_new) return known->second;
  const std::int64_t extent = axes_.extent(atom);
  const std::size_t number = counts_[{DimRole::Other, extent}]++;
  std::string& shared = pool_[{DimRole::Other, extent, number}];
  if (shared.empty()) shared = take(DimRole::Other, extent, number);
  return known->second = shared;
}

std::string DimensionNames::text() const {
  return fmt::format("{}", fmt::join(lines_, ",\n"));
}

std::string plain_name(std::string_view text) {
  std::string name;
  for (const char c : text) {
    const bool good = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                      c == '_' || c == '.';
    name += good ? c : '_';
  }
  return name;
}

std::string block_text(const BlockTextContext& context, const DraftSegment& segment,
                       const BlockPorts& ports, std::string_view kind) {
  context.names.start_block();
  return BlockTextWriter(context, segment, ports).run(kind);
}

}  // namespace plansearch::io
