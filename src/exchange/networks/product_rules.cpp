// SPDX-License-Identifier: Apache-2.0
// Products with weights and of activations, convolutions, attention and look-ups.

#include <algorithm>

#include "base/ranges.hpp"
#include "exchange/networks/lowering.hpp"

namespace plansearch::io {
namespace {

/// Two axes that are walked together; where their parts do not fit the value is laid out anew.
void meet(Lowering& l, const ImportedNode& node, ImportedId id, std::size_t place,
          const ImportedAxis& other) {
  if (l.axes().unify(l.at(id).axes[place], other)) return;
  if (l.axes().extent(l.at(id).axes[place]) != l.axes().extent(other)) {
    l.fail(node, "its tensors do not fit each other");
  }
  DraftOperator op = l.start(node, "elementwise", id);
  op.name += "_layout";
  op.keeps = Keeps::Nothing;
  ImportedAxes axes = l.at(id).axes;
  axes[place] = other;
  const DraftId made = l.make(op, axes);
  l.add(std::move(op));
  l.set(id, made, axes);
}

/// Bias of the result's last axes, where it is a parameter.
void add_bias(Lowering& l, DraftOperator& op, std::optional<ImportedId> bias,
              const ImportedAxis& made) {
  if (!bias || !l.is_parameter(*bias)) return;
  const ImportedAxes& axes = l.at(*bias).axes;
  if (axes.size() != 1 || !l.axes().unify(axes.front(), made)) return;
  op.parameters.push_back({l.at(*bias).parameter, made, std::nullopt});
}

/// A matrix of parameters, perhaps repeated along dimensions in front.
bool is_weight(Lowering& l, ImportedId id) {
  if (!l.is_parameter(id) || l.shape(id).size() < 2) return false;
  const ImportedAxes& axes = l.at(id).axes;
  const std::int64_t own = l.axes().extent(joined(l.at(l.at(id).parameter).axes));
  return l.axes().extent(axes[axes.size() - 2]) * l.axes().extent(axes.back()) == own;
}

/// [..., k] times a weight [k, n].
void weighted(Lowering& l, const ImportedNode& node, ImportedId in, ImportedId weight,
              std::optional<ImportedId> bias, bool transposed) {
  const ImportedAxes w = l.at(weight).axes;
  if (!is_weight(l, weight) || l.shape(in).empty()) l.fail(node, "its weight is not a matrix");
  const ImportedAxis rows = w[w.size() - (transposed ? 1 : 2)];
  const ImportedAxis columns = w[w.size() - (transposed ? 2 : 1)];
  if (!l.is_tensor(in)) static_cast<void>(l.read(node, in));
  meet(l, node, in, l.shape(in).size() - 1, rows);
  DraftOperator op = l.start(node, "product", in);
  op.contracted = rows;
  op.parameters.push_back({l.at(weight).parameter, joined({rows, columns}), std::nullopt});
  add_bias(l, op, bias, columns);
  ImportedAxes made = l.at(in).axes;
  made.back() = columns;
  l.draft().tensors[l.add_result(node, std::move(op), made)].visible = 1.0;
}

/// Which axes of a result of two operands, from the first to the one in front of the last two.
ImportedAxes common_axes(Lowering& l, const ImportedNode& node, ImportedId a, ImportedId b) {
  const std::size_t rank = std::max(l.shape(a).size(), l.shape(b).size()) - 2;
  ImportedAxes common(rank);
  for (const ImportedId id : {a, b}) {
    const std::size_t own = l.shape(id).size() - 2;
    for (std::size_t i = 0; i < own; ++i) {
      ImportedAxis& axis = common[rank - 1 - i];
      const ImportedAxis mine = l.at(id).axes[own - 1 - i];
      if (axis.empty()) {
        axis = mine;
      } else if (l.axes().extent(mine) > 1) {
        meet(l, node, id, own - 1 - i, axis);
      }
    }
  }
  return common;
}

bool overlap(const ImportedAxis& a, const ImportedAxis& b) {
  return std::ranges::any_of(a, [&](AtomId x) { return contains(b, x); });
}

/// [..., m, k] times [..., k, n], both activations. Columns that are rows too (keys are tokens as
/// queries are) are dimensions of their own.
void of_activations(Lowering& l, const ImportedNode& node, ImportedId a, ImportedId b) {
  if (l.shape(a).size() < 2 || l.shape(b).size() < 2) l.fail(node, "products of vectors");
  for (const ImportedId id : {a, b}) static_cast<void>(l.read(node, id));
  const ImportedAxes common = common_axes(l, node, a, b);
  const ImportedAxis shared = l.at(a).axes.back();
  meet(l, node, b, l.shape(b).size() - 2, shared);
  const ImportedAxis rows = l.at(a).axes[l.shape(a).size() - 2];
  const ImportedAxis own = l.at(b).axes.back();
  const ImportedAxis columns = l.axes().leaves(own);
  ImportedAxes made = common;
  made.push_back(rows);
  const bool tokens =
      std::ranges::any_of(columns, [&](AtomId atom) { return l.axes().is_token(atom); });
  const bool twice = tokens || overlap(columns, l.axes().leaves(joined(made)));
  made.push_back(twice ? l.axes().twin(own) : own);
  DraftOperator op = l.start(node, "batched-product");
  ImportedAxes left = common;
  left.insert(left.end(), {rows, shared});
  ImportedAxes right = common;
  right.insert(right.end(), {shared, made.back()});
  op.reads.push_back(l.read_along(node, a, left));
  op.reads.push_back(l.read_along(node, b, right));
  op.contracted = shared;
  op.heads = joined(common);
  op.rows = rows;
  op.columns = made.back();
  op.useful_fraction = l.draft().tensors[op.reads.front().tensor].visible;
  l.draft().tensors[l.add_result(node, std::move(op), made)].visible = 1.0;
}

/// Channels that a convolution reads and makes; with groups, those of a group times their number.
struct ConvolutionChannels {
  ImportedAxis read;
  ImportedAxis made;
};

ConvolutionChannels channels(Lowering& l, const ImportedNode& node, ImportedId weight,
                             bool transposed) {
  const ImportedAxes w = l.at(weight).axes;
  const std::int64_t groups = std::max<std::int64_t>(1, node.get<std::int64_t>("groups", 1));
  const ImportedAxis group = l.axes().make_axis(groups);
  ConvolutionChannels found{joined({group, w[transposed ? 0 : 1]}),
                            joined({group, w[transposed ? 1 : 0]})};
  if (groups == 1) return found;
  const std::int64_t each = l.shape(weight)[0] / groups;
  if (each * groups != l.shape(weight)[0]) l.fail(node, "groups do not divide channels");
  const ImportedAxis all = joined({group, l.axes().make_axis(each)});
  static_cast<void>(l.axes().unify(w[0], all));
  (transposed ? found.read : found.made) = all;
  return found;
}

/// Whether every channel that is read is a group of its own.
bool is_depthwise(Lowering& l, const ImportedNode& node, ImportedId weight, bool transposed) {
  const auto groups = node.get<std::int64_t>("groups", 1);
  return groups > 1 && l.shape(weight)[transposed ? 0 : 1] == (transposed ? groups : 1);
}

/// Along dimension i of the input.
SlidingWindow window(Lowering& l, const ImportedNode& node, ImportedId weight, std::size_t i,
                     bool transposed) {
  SlidingWindow found{l.shape(weight)[i], nth_of(node.numbers("stride"), i - 2, 1),
                      nth_of(node.numbers("padding"), i - 2, 0),
                      nth_of(node.numbers("dilation"), i - 2, 1), transposed};
  if (node.get<std::string>("padding", "valid") == "same") found.padding = (found.taps - 1) / 2;
  return found;
}

/// Queries [..., s, d], keys [..., t, d], values [..., t, e] of fused attention.
struct AttentionOperands {
  ImportedId q = 0;
  ImportedId k = 0;
  ImportedId v = 0;
  std::size_t rank = 0;
  std::int64_t shared = 1;  ///< heads of queries that share one of keys and values
};

AttentionOperands attention_operands(Lowering& l, const ImportedNode& node) {
  AttentionOperands o{l.need(node, "query"), l.need(node, "key"), l.need(node, "value"), 0, 1};
  o.rank = l.shape(o.q).size();
  if (o.rank < 3 || l.shape(o.k).size() != o.rank || l.shape(o.v).size() != o.rank) {
    l.fail(node, "queries, keys and values have unequal dimensions");
  }
  for (const ImportedId id : {o.q, o.k, o.v}) static_cast<void>(l.read(node, id));
  o.shared = l.shape(o.q)[o.rank - 3] / l.shape(o.k)[o.rank - 3];
  for (const ImportedId id : {o.k, o.v}) {
    if (o.shared * l.shape(id)[o.rank - 3] != l.shape(o.q)[o.rank - 3]) {
      l.fail(node, "its heads do not fit each other");
    }
    const std::size_t common = o.rank - (o.shared == 1 ? 2 : 3);
    for (std::size_t i = 0; i < common; ++i) {
      if (l.shape(id)[i] > 1) meet(l, node, id, i, l.at(o.q).axes[i]);
    }
  }
  meet(l, node, o.k, o.rank - 1, l.at(o.q).axes[o.rank - 1]);
  meet(l, node, o.v, o.rank - 2, l.at(o.k).axes[o.rank - 2]);
  return o;
}

/// Keys and values are walked along dimensions of their own; heads that are shared, so many times.
void read_keys(Lowering& l, const ImportedNode& node, const AttentionOperands& o,
               DraftOperator& op) {
  for (const ImportedId id : {o.k, o.v}) {
    op.reads.push_back(l.read(node, id));
    op.reads.back().renamed.emplace_back(l.at(id).axes[o.rank - 2], op.columns);
    const ImportedAxis own = l.axes().leaves(l.at(id).axes[o.rank - 3]);
    if (o.shared == 1 || own.size() != 1) continue;
    op.reads.back().windows.push_back(
        {own.front(), {{l.at(o.q).axes[o.rank - 3], 1}}, 0, o.shared});
  }
}

}  // namespace

void lower_linear(Lowering& l, const ImportedNode& node, const ImportedRow&) {
  const ImportedId weight = l.need(node, "weight");
  const ImportedId in = l.need(node, "input");
  if (l.is_parameter(weight)) return weighted(l, node, in, weight, node.value("bias"), true);
  l.fail(node, "its weight is computed", "export the module with its weights as parameters");
}

void lower_addmm(Lowering& l, const ImportedNode& node, const ImportedRow&) {
  const bool batched = node.find("batch1") != nullptr;
  const ImportedId a = l.need(node, batched ? "batch1" : "mat1");
  const ImportedId b = l.need(node, batched ? "batch2" : "mat2");
  if (is_weight(l, b)) return weighted(l, node, a, b, node.value("self"), false);
  of_activations(l, node, a, b);
}

void lower_matmul(Lowering& l, const ImportedNode& node, const ImportedRow&) {
  const auto ids = Lowering::inputs(node);
  if (ids.size() != 2) l.fail(node, "it has no two operands");
  if (is_weight(l, ids[1])) return weighted(l, node, ids[0], ids[1], std::nullopt, false);
  of_activations(l, node, ids[0], ids[1]);
}

double below_diagonal(std::int64_t rows, std::int64_t columns) {
  const auto n = static_cast<double>(std::min(rows, columns));
  return n * (n + 1.0) / 2.0 / (static_cast<double>(rows) * static_cast<double>(columns));
}

ImportedAxis slide(Lowering& l, const ImportedNode& node, DraftRead& read, const ImportedAxis& axis,
                   const ImportedAxis& taps, const SlidingWindow& window, std::int64_t out) {
  constexpr std::int64_t kWidest = 1'000'000;
  for (const std::int64_t number : {window.taps, window.stride, window.dilation}) {
    if (number < 1 || number > kWidest) l.fail(node, "its window has no such width or step");
  }
  if (window.padding < 0 || window.padding > kWidest) l.fail(node, "its padding is out of range");
  const ImportedAxis atoms = l.axes().leaves(axis);
  const bool still = window.taps == 1 && window.stride == 1 && window.padding == 0;
  if (still || atoms.empty()) return still ? axis : l.axes().make_axis(out);
  const bool equal = out == l.axes().extent(axis) && window.stride == 1;
  const ImportedAxis made = equal ? axis : l.axes().make_axis(out);
  l.axes().mark_place(axis);
  l.axes().mark_place(made);
  if (atoms.size() != 1) return made;  // read as a whole
  DraftIndex index{axis.front(), {}, 0, 1};
  if (window.transposed) {
    index.terms = {{made, 1}, {taps, -1}};
    index.offset = window.padding;
    index.divisor = window.stride;
  } else {
    index.terms = {{made, window.stride}, {taps, window.dilation}};
    index.offset = -window.padding;
  }
  read.windows.push_back(std::move(index));
  return made;
}

/// [b, c, places...] with a weight [o, c / groups, taps...], or [c, o / groups, taps...]
/// transposed.
void lower_convolution(Lowering& l, const ImportedNode& node, const ImportedRow& row) {
  const ImportedId in = l.need(node, "input");
  const ImportedId weight = l.need(node, "weight");
  const ImportedId to = node.outputs.front();
  const std::size_t rank = l.shape(weight).size();
  if (rank < 3 || !l.is_parameter(weight) || l.shape(in).size() != rank ||
      l.shape(to).size() != rank) {
    l.fail(node, "a convolution of other shapes than [batch, channels, places...]");
  }
  const bool transposed = node.get<bool>("transposed", row.name.find("transpose") != row.name.npos);
  if (!l.is_tensor(in)) static_cast<void>(l.read(node, in));
  const ImportedAxes w = l.at(weight).axes;
  const ConvolutionChannels both = channels(l, node, weight, transposed);
  meet(l, node, in, 1, both.read);
  DraftOperator op = l.start(
      node, is_depthwise(l, node, weight, transposed) ? "depthwise-convolution" : "convolution");
  op.reads.push_back(l.read(node, in));
  op.contracted = w[transposed ? 0 : 1];
  ImportedAxes made = {l.at(in).axes[0], both.made};
  double skipped = 1.0;  // results between the steps of a transposed one
  for (std::size_t i = 2; i < rank; ++i) {
    const SlidingWindow sliding = window(l, node, weight, i, transposed);
    l.axes().mark_place(l.at(in).axes[i]);
    made.push_back(
        slide(l, node, op.reads.front(), l.at(in).axes[i], w[i], sliding, l.shape(to)[i]));
    if (transposed) skipped *= static_cast<double>(sliding.stride);
  }
  op.loop = joined({joined(made), op.contracted, joined({w.begin() + 2, w.end()})});
  op.parameters.push_back({l.at(weight).parameter, joined(w), std::nullopt});
  add_bias(l, op, node.value("bias"), both.made);
  if (skipped > 1.0) op.flops_per_point = 2.0 / skipped;
  l.add_result(node, std::move(op), made);
}

void lower_attention(Lowering& l, const ImportedNode& node, const ImportedRow&) {
  const AttentionOperands o = attention_operands(l, node);
  const ImportedAxes queries = l.at(o.q).axes;
  DraftOperator op = l.start(node, "attention");
  op.name = "attention";
  op.contracted = queries[o.rank - 1];
  op.heads = joined({queries.begin(), queries.end() - 2});
  op.rows = queries[o.rank - 2];
  op.columns = l.axes().twin(l.at(o.k).axes[o.rank - 2]);
  op.features = l.at(o.v).axes[o.rank - 1];
  op.reads.push_back(l.read(node, o.q));
  read_keys(l, node, o, op);
  ImportedAxes made(queries.begin(), queries.end() - 1);
  op.loop = joined({joined(made), op.columns, op.features});
  const auto d = static_cast<double>(l.shape(o.q)[o.rank - 1]);
  const auto e = static_cast<double>(l.shape(o.v)[o.rank - 1]);
  op.flops_per_point = 2.0 * (d + e) / e;
  op.backward_factor = (2.0 * e + 3.0 * d) / (d + e);  // the scores are computed again
  op.backward_kernels = 2;
  const auto bias = node.value("attn_mask");
  if (node.get<bool>("is_causal", false)) {
    op.useful_fraction = below_diagonal(l.shape(o.q)[o.rank - 2], l.shape(o.k)[o.rank - 2]);
  } else if (bias) {
    op.useful_fraction = l.at(*bias).visible;
  }
  const DraftId sums = l.make(op, made, ElementClass::Statistic, "sums");
  made.push_back(op.features);
  const DraftId tensor = l.make(op, made);
  op.made = {tensor, sums};
  l.draft().tensors[tensor].visible = 1.0;
  l.add(std::move(op));
  l.set(node.outputs.front(), tensor, made);
  l.leave_rest(node);
}

/// Rows of a table, by numbers from outside or by places.
void lower_embedding(Lowering& l, const ImportedNode& node, const ImportedRow& row) {
  const ImportedId weight = l.need(node, "weight");
  const ImportedId rows = l.need(node, "indices");
  if (!l.is_parameter(weight)) return lower_copy(l, node, row);
  if (l.shape(weight).size() != 2) l.fail(node, "its table has not two dimensions");
  const ImportedAxes table = l.at(weight).axes;
  DraftOperator op = l.start(node, "embedding");
  if (l.is_tensor(rows)) op.reads.push_back(l.read(node, rows));
  op.keeps = Keeps::Inputs;
  op.parameters.push_back({l.at(weight).parameter, joined(table), std::nullopt});
  op.contracted = table[0];
  ImportedAxes made = l.at(rows).axes;
  made.push_back(table[1]);
  op.loop = joined(made);
  op.loop->insert(op.loop->end() - static_cast<std::ptrdiff_t>(table[1].size()), table[0].begin(),
                  table[0].end());
  l.add_result(node, std::move(op), made);
}

}  // namespace plansearch::io
