// SPDX-License-Identifier: Apache-2.0
// Operators that pass over memory: element by element, row by row, window by window.
#include <algorithm>

#include "exchange/networks/lowering.hpp"

namespace plansearch::io {
namespace {

/// Axes of a result that all operands are walked along together, counted from the last one.
ImportedAxes broadcast(Lowering& l, const ImportedNode& node, const std::vector<ImportedId>& ids) {
  const ImportedShape& shape = l.shape(node.outputs.front());
  ImportedAxes made(shape.size());
  const auto has_batch = [&](const ImportedAxis& axis) {
    return std::ranges::any_of(axis, [&](AtomId a) { return l.axes().is_batch(a); });
  };
  for (std::size_t i = 0; i < shape.size(); ++i) {
    ImportedAxis& axis = made[shape.size() - 1 - i];
    const std::int64_t extent = shape[shape.size() - 1 - i];
    for (const ImportedId id : ids) {
      if (l.shape(id).size() <= i) continue;
      const ImportedAxis& mine = l.at(id).axes[l.shape(id).size() - 1 - i];
      if (mine.empty() || l.axes().extent(mine) != extent) continue;
      if (axis.empty() || (has_batch(mine) && !has_batch(axis))) axis = mine;
    }
    if (axis.empty()) axis = l.axes().make_axis(extent);
  }
  return made;
}

/// Reads an operand along the axes of the result; laid out anew where its parts do not fit them.
DraftRead operand(Lowering& l, const ImportedNode& node, ImportedId id, const ImportedAxes& made) {
  ImportedAxes own = l.at(id).axes;
  bool fits = true;
  for (std::size_t i = 0; i < own.size() && i < made.size(); ++i) {
    const ImportedAxis& mine = own[own.size() - 1 - i];
    const ImportedAxis& axis = made[made.size() - 1 - i];
    if (l.axes().extent(mine) != l.axes().extent(axis)) continue;
    if (l.axes().unify(mine, axis)) continue;
    own[own.size() - 1 - i] = axis;
    fits = false;
  }
  if (fits) return l.read_along(node, id, made);
  DraftOperator op = l.start(node, "elementwise", id);
  op.name += "_layout";
  op.keeps = Keeps::Nothing;
  const DraftId tensor = l.make(op, own);
  l.add(std::move(op));
  return {tensor, {}, {}};
}

std::vector<ImportedId> priced(const Lowering& l, const ImportedNode& node) {
  std::vector<ImportedId> ids;
  for (const ImportedId id : Lowering::inputs(node)) {
    if (l.at(id).is == DraftValue::Is::Plain) continue;
    ids.push_back(id);
  }
  return ids;
}

/// Result of an operator on plain numbers and masks: the share that a mask leaves, and the axis
/// along which they still count up.
void plain_result(Lowering& l, const ImportedNode& node) {
  double visible = 1.0;
  std::optional<std::size_t> counts;
  std::size_t counting = 0;
  for (const ImportedId id : Lowering::inputs(node)) {
    visible = std::min(visible, l.at(id).visible);
    if (!l.at(id).counts_along) continue;
    counts = l.at(id).counts_along;
    ++counting;
  }
  if (counting != 1) counts.reset();
  for (const ImportedId id : node.outputs) {
    ImportedAxes axes = l.fresh(l.shape(id));
    if (id == node.outputs.front()) axes = broadcast(l, node, Lowering::inputs(node));
    l.set_plain(id, std::move(axes), visible, counts);
  }
}

/// Whether the node only computes with whole numbers, truth values and constants.
bool is_plain(const Lowering& l, const ImportedNode& node) {
  const bool whole = std::ranges::none_of(
      node.outputs, [&](ImportedId id) { return l.graph().values[id].floating; });
  const auto ids = priced(l, node);
  const bool indices = std::ranges::all_of(ids, [&](ImportedId id) {
    return l.is_tensor(id) && l.tensor_of(id).element == ElementClass::Index;
  });
  return whole || indices;
}

DraftOperator stream(Lowering& l, const ImportedNode& node, const ImportedRow& row,
                     ImportedAxes& made) {
  const std::vector<ImportedId> ids = priced(l, node);
  made = broadcast(l, node, Lowering::inputs(node));
  DraftOperator op = l.start(node, "elementwise");
  op.keeps = row.keeps;
  op.passes = row.passes;
  for (const ImportedId id : ids) {
    if (!l.is_parameter(id)) {
      op.reads.push_back(operand(l, node, id, made));
      continue;
    }
    const ImportedAxes& own = l.at(id).axes;
    for (std::size_t i = 0; i < own.size() && i < made.size(); ++i) {
      const ImportedAxis& axis = made[made.size() - 1 - i];
      if (l.axes().extent(own[own.size() - 1 - i]) == l.axes().extent(axis)) {
        static_cast<void>(l.axes().unify(own[own.size() - 1 - i], axis));
      }
    }
    op.parameters.push_back({l.at(id).parameter, joined(own), std::nullopt});
  }
  return op;
}

void finish(Lowering& l, const ImportedNode& node, DraftOperator op, const ImportedAxes& made) {
  l.add_result(node, std::move(op), made);
  l.leave_rest(node);
}

}  // namespace

void lower_elementwise(Lowering& l, const ImportedNode& node, const ImportedRow& row) {
  if (node.outputs.empty()) return;
  if (is_plain(l, node)) return plain_result(l, node);
  ImportedAxes made;
  DraftOperator op = stream(l, node, row, made);
  double visible = 1.0;
  for (const ImportedId id : Lowering::inputs(node)) {
    if (l.at(id).is == DraftValue::Is::Plain) visible = std::min(visible, l.at(id).visible);
  }
  finish(l, node, std::move(op), made);
  if (visible < 1.0) l.mask(l.at(node.outputs.front()).tensor, visible);
}

/// Two tensors of one shape: an addition to the stream, whose backward copies nothing.
void lower_add(Lowering& l, const ImportedNode& node, const ImportedRow& row) {
  const auto ids = priced(l, node);
  const bool two = ids.size() == 2 && l.is_tensor(ids[0]) && l.is_tensor(ids[1]) &&
                   l.shape(ids[0]) == l.shape(ids[1]);
  ImportedRow used = row;
  if (two) used.passes = MemoryBound::Residual;
  lower_elementwise(l, node, used);
}

/// Lowers a comparison. Numbers that count along one axis, compared with numbers that count along
/// another (or their difference with a number), form a triangle.
void lower_compare(Lowering& l, const ImportedNode& node, const ImportedRow& row) {
  lower_elementwise(l, node, row);
  const auto ids = Lowering::inputs(node);
  if (ids.size() != 2 || l.at(node.outputs.front()).is != DraftValue::Is::Plain) return;
  const auto a = l.at(ids[0]).counts_along;
  const auto b = l.at(ids[1]).counts_along;
  if (!a || !b || *a == *b) return;
  const ImportedShape& shape = l.shape(node.outputs.front());
  if (std::max(*a, *b) >= shape.size()) return;
  l.set_plain(node.outputs.front(), l.at(node.outputs.front()).axes,
              below_diagonal(shape[shape.size() - 1 - *a], shape[shape.size() - 1 - *b]));
}

void lower_counting(Lowering& l, const ImportedNode& node, const ImportedRow&) {
  const ImportedId id = node.outputs.front();
  l.set_plain(id, l.fresh(l.shape(id)), 1.0,
              l.shape(id).size() == 1 ? std::optional<std::size_t>(0) : std::nullopt);
}

void lower_triangle(Lowering& l, const ImportedNode& node, const ImportedRow& row) {
  if (!is_plain(l, node)) return lower_elementwise(l, node, row);
  const ImportedId id = node.outputs.front();
  const ImportedShape& shape = l.shape(id);
  if (shape.size() < 2) return lower_nothing(l, node, row);
  l.set_plain(id, l.fresh(shape), below_diagonal(shape[shape.size() - 2], shape.back()));
}

/// Numbers by numbers; rows of an activation or of a table.
void lower_index(Lowering& l, const ImportedNode& node, const ImportedRow& row) {
  if (is_plain(l, node)) {
    plain_result(l, node);
    const ImportedId id = node.outputs.front();
    std::optional<std::size_t> counts;
    const ImportedId source = first_input(l, node);
    for (const ImportedId by : Lowering::inputs(node)) {
      if (by != source && l.at(by).counts_along && l.at(source).counts_along) {
        counts = l.at(by).counts_along;
      }
    }
    l.set_plain(id, l.fresh(l.shape(id)), 1.0, counts);
    return;
  }
  ImportedAxes made = l.carried(node, first_input(l, node), node.outputs.front());
  DraftOperator op = l.start(node, "elementwise");
  op.keeps = row.keeps;
  for (const ImportedId id : priced(l, node)) op.reads.push_back(l.read(node, id));
  finish(l, node, std::move(op), made);
}

void lower_dropout(Lowering& l, const ImportedNode& node, const ImportedRow& row) {
  if (!node.get<bool>("train", true) || node.get<double>("p", 0.5) <= 0.0) {
    return lower_alias(l, node, row);
  }
  ImportedAxes made;
  DraftOperator op = stream(l, node, row, made);
  const DraftId mask = l.make(op, made, ElementClass::Mask, "mask");
  op.made.clear();
  const DraftId tensor = l.make(op, made);
  op.made = {tensor, mask};
  l.draft().tensors[mask].gradient = false;
  l.add(std::move(op));
  l.set(node.outputs.front(), tensor, made);
  l.leave_rest(node);
}

void lower_softmax(Lowering& l, const ImportedNode& node, const ImportedRow& row) {
  const ImportedId in = first_input(l, node);
  if (!l.is_tensor(in)) return lower_elementwise(l, node, row);
  const std::size_t dim = l.place(node, in, node.get<std::int64_t>("dim", -1));
  DraftOperator op = l.start(node, "softmax", in);
  const ImportedAxes made = l.at(in).axes;
  op.contracted = made[dim];
  finish(l, node, std::move(op), made);
}

/// Layer and root-mean-square norms: over the last dimensions, with one or two numbers a row.
void lower_norm(Lowering& l, const ImportedNode& node, const ImportedRow& row) {
  const ImportedId in = l.need(node, "input");
  static_cast<void>(l.read(node, in));
  const std::size_t rank = l.shape(in).size();
  const std::size_t count = std::min(rank, node.numbers("normalized_shape").size());
  DraftOperator op = l.start(node, "norm", in);
  op.passes = row.passes;
  const ImportedAxes made = l.at(in).axes;
  op.contracted = joined({made.end() - static_cast<std::ptrdiff_t>(count), made.end()});
  for (const char* name : {"weight", "bias"}) {
    const auto id = node.value(name);
    if (!id || !l.is_parameter(*id)) continue;
    const ImportedAxis dims = joined(l.at(*id).axes);
    static_cast<void>(l.axes().unify(dims, op.contracted));
    op.parameters.push_back({l.at(*id).parameter, dims, std::nullopt});
  }
  ImportedAxes rows(made.begin(), made.end() - static_cast<std::ptrdiff_t>(count));
  if (row.passes == MemoryBound::LayerNorm) rows.push_back({l.pair()});
  op.backward_kernels = op.parameters.empty() ? 1 : 2;
  const DraftId statistics = l.make(op, rows, ElementClass::Statistic, "statistics");
  op.made.clear();
  const DraftId tensor = l.make(op, made);
  op.made = {tensor, statistics};
  l.add(std::move(op));
  l.set(node.outputs.front(), tensor, made);
  l.leave_rest(node);
}

/// Batch, group and instance norms: weight and bias of the channels.
void lower_channel_norm(Lowering& l, const ImportedNode& node, const ImportedRow& row) {
  const ImportedId in = l.need(node, "input");
  static_cast<void>(l.read(node, in));
  if (l.shape(in).size() < 2) l.fail(node, "it has no channels");
  DraftOperator op = l.start(node, "norm", in);
  op.passes = row.passes;
  const ImportedAxes made = l.at(in).axes;
  for (const char* name : {"weight", "bias"}) {
    const auto id = node.value(name);
    if (!id || !l.is_parameter(*id) || l.shape(*id).size() != 1) continue;
    const ImportedAxis own = l.at(*id).axes.front();
    if (!l.axes().unify(own, made[1])) l.fail(node, "its weight does not fit the channels");
    op.parameters.push_back({l.at(*id).parameter, own, std::nullopt});
  }
  finish(l, node, std::move(op), made);
}

void lower_pool(Lowering& l, const ImportedNode& node, const ImportedRow& row) {
  const ImportedId in = first_input(l, node);
  const ImportedId to = node.outputs.front();
  if (!l.is_tensor(in)) return lower_elementwise(l, node, row);
  const std::vector<std::int64_t> taps = node.numbers("kernel_size");
  std::vector<std::int64_t> strides = node.numbers("stride");
  if (strides.empty()) strides = taps;
  const std::vector<std::int64_t> paddings = node.numbers("padding");
  const std::size_t rank = l.shape(in).size();
  if (taps.empty() || taps.size() >= rank || l.shape(to).size() != rank) {
    l.fail(node, "its window does not fit its tensors");
  }
  DraftOperator op = l.start(node, "elementwise", in);
  op.keeps = row.keeps;
  ImportedAxes made = l.at(in).axes;
  const std::size_t count = std::min(rank - 1, std::max<std::size_t>(taps.size(), rank - 2));
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t axis = rank - count + i;
    const SlidingWindow window{nth_of(taps, i, 1), nth_of(strides, i, 1), nth_of(paddings, i, 0), 1,
                               false};
    made[axis] = slide(l, node, op.reads.front(), made[axis], l.axes().make_axis(window.taps),
                       window, l.shape(to)[axis]);
  }
  finish(l, node, std::move(op), made);
}

/// Sums, means and the like over some dimensions, or over all of them.
void lower_reduction(Lowering& l, const ImportedNode& node, const ImportedRow& row) {
  const ImportedId in = first_input(l, node);
  const ImportedId to = node.outputs.front();
  if (is_plain(l, node)) return plain_result(l, node);
  std::vector<std::int64_t> dims = node.numbers("dim");
  const std::size_t rank = l.shape(in).size();
  if (dims.empty()) dims = node.numbers("output_size");  // of places, the last ones
  const bool places = node.find("output_size") != nullptr;
  std::vector<bool> gone(rank, dims.empty());
  for (std::size_t i = 0; i < dims.size(); ++i) {
    if (places && i < rank) gone[rank - 1 - i] = true;
    if (!places) gone[l.place(node, in, dims[i])] = true;
  }
  const bool flat = l.shape(to).size() < rank;
  DraftOperator op = l.start(node, "elementwise", in);
  op.keeps = row.keeps;
  ImportedAxes made;
  const ImportedAxes own = l.at(in).axes;
  for (std::size_t i = 0; i < rank; ++i) {
    if (!gone[i]) {
      made.push_back(own[i]);
    } else if (!flat) {
      made.push_back(l.shape(to)[i] == l.shape(in)[i] ? own[i]
                                                      : l.axes().make_axis(l.shape(to)[i]));
    }
  }
  if (made.size() != l.shape(to).size()) l.fail(node, "its result has other dimensions");
  finish(l, node, std::move(op), made);
}

void lower_concatenation(Lowering& l, const ImportedNode& node, const ImportedRow& row) {
  const auto ids = Lowering::inputs(node);
  const ImportedId to = node.outputs.front();
  if (ids.empty() || priced(l, node).empty() || is_plain(l, node))
    return lower_nothing(l, node, row);
  const bool stacks = l.shape(to).size() > l.shape(ids.front()).size();
  const std::size_t dim = l.place(node, to, node.get<std::int64_t>("dim", 0));
  DraftOperator op = l.start(node, "elementwise");
  op.keeps = Keeps::Nothing;
  ImportedAxes made(l.shape(to).size());
  for (const ImportedId id : ids) {
    if (l.at(id).is == DraftValue::Is::Plain) continue;
    const ImportedAxes own = l.at(id).axes;
    for (std::size_t i = 0; i < own.size(); ++i) {
      const std::size_t place = i + (stacks && i >= dim ? 1 : 0);
      if (place >= made.size()) l.fail(node, "its tensors have unequal dimensions");
      if (place == dim) continue;
      if (made[place].empty()) {
        made[place] = own[i];
      } else if (!own[i].empty() && !l.axes().unify(made[place], own[i])) {
        l.fail(node, "its tensors do not fit each other");
      }
    }
    op.reads.push_back(l.read(node, id));
  }
  for (std::size_t i = 0; i < made.size(); ++i) {
    if (made[i].empty()) made[i] = l.axes().make_axis(l.shape(to)[i]);
  }
  made[dim] = l.axes().make_axis(l.shape(to)[dim]);
  finish(l, node, std::move(op), made);
}

/// Lowers an enlargement: nearest neighbours read few places, other interpolations read all.
void lower_enlarge(Lowering& l, const ImportedNode& node, const ImportedRow& row) {
  const ImportedId in = first_input(l, node);
  const ImportedId to = node.outputs.front();
  if (!l.is_tensor(in)) return lower_elementwise(l, node, row);
  DraftOperator op = l.start(node, "elementwise", in);
  op.keeps = Keeps::Nothing;
  ImportedAxes made = l.at(in).axes;
  if (made.size() != l.shape(to).size()) l.fail(node, "its result has other dimensions");
  for (std::size_t i = 0; i < made.size(); ++i) {
    const std::int64_t times = l.shape(to)[i] / l.shape(in)[i];
    if (l.shape(to)[i] == l.shape(in)[i]) continue;
    const ImportedAxis own = made[i];
    made[i] = l.axes().make_axis(l.shape(to)[i]);
    l.axes().mark_place(own);
    l.axes().mark_place(made[i]);
    if (l.axes().leaves(own).size() != 1 || times * l.shape(in)[i] != l.shape(to)[i]) continue;
    op.reads.front().windows.push_back({own.front(), {{made[i], 1}}, 0, times});
  }
  finish(l, node, std::move(op), made);
}

/// Cross-entropy of [rows..., classes] or [rows, classes, places...].
void lower_loss(Lowering& l, const ImportedNode& node, const ImportedRow& row) {
  const ImportedId in = first_input(l, node);
  const ImportedAxes own = l.at(in).axes;
  if (!l.is_tensor(in) || own.empty()) return lower_elementwise(l, node, row);
  DraftOperator op = l.start(node, "cross-entropy", in);
  op.name = "loss";
  op.passes = MemoryBound::Loss;
  const std::size_t classes = own.size() > 1 ? 1 : 0;
  op.contracted = own[classes];
  ImportedAxes rows = own;
  rows.erase(rows.begin() + static_cast<std::ptrdiff_t>(classes));
  op.forward_kernels = 2;  // log-softmax, and the choice of the target
  op.backward_kernels = 2;
  const DraftId probabilities = l.make(op, own, ElementClass::Logit, "probabilities");
  op.made.clear();
  const DraftId loss = l.make(op, rows, ElementClass::Statistic);
  op.made = {loss, probabilities};
  l.add(std::move(op));
  // Later operators work on single numbers.
  const bool probabilities_leave = l.shape(node.outputs.front()) == l.shape(in);
  if (probabilities_leave) {
    l.set(node.outputs.front(), probabilities, own);
  } else {
    l.set(node.outputs.front(), loss, l.fresh(l.shape(node.outputs.front())));
  }
  l.leave_rest(node);
}

}  // namespace plansearch::io
