// SPDX-License-Identifier: Apache-2.0
#include "exchange/networks/draft.hpp"

#include <algorithm>

namespace plansearch::io {

AtomId AxisTable::make(std::int64_t extent) {
  atoms_.emplace_back().extent = extent;
  return atoms_.size() - 1;
}

ImportedAxis AxisTable::make_axis(std::int64_t extent) {
  if (extent == 1) return {};
  return {make(extent)};
}

AtomId AxisTable::make_batch(std::int64_t extent) {
  if (!batch_) batch_ = make(extent);
  return *batch_;
}

AtomId AxisTable::find(AtomId atom) const {
  AtomId root = atom;
  while (atoms_[root].same) root = *atoms_[root].same;
  while (atoms_[atom].same) {  // the next search is shorter
    const AtomId next = *atoms_[atom].same;
    atoms_[atom].same = root;
    atom = next;
  }
  return root;
}

ImportedAxis AxisTable::leaves(const ImportedAxis& axis) const {
  ImportedAxis result;
  for (const AtomId id : axis) {
    const AtomId atom = find(id);
    if (atoms_[atom].parts.empty()) {
      result.push_back(atom);
      continue;
    }
    const ImportedAxis parts = leaves(atoms_[atom].parts);
    result.insert(result.end(), parts.begin(), parts.end());
  }
  return result;
}

std::int64_t AxisTable::extent(const ImportedAxis& axis) const {
  std::int64_t product = 1;
  for (const AtomId atom : axis) product *= extent(atom);
  return product;
}

bool AxisTable::is_batch(AtomId atom) const {
  return batch_ && find(atom) == find(*batch_);
}

void AxisTable::split(AtomId atom, std::int64_t first) {
  atom = find(atom);
  if (!atoms_[atom].parts.empty()) return;
  const AtomId outer = make(first);
  const AtomId inner = make(atoms_[atom].extent / first);
  atoms_[atom].parts = {outer, inner};
  for (const AtomId part : {outer, inner}) {
    atoms_[part].place = atoms_[atom].place;
    atoms_[part].token = atoms_[atom].token;
  }
  const std::vector<AtomId> apart = atoms_[atom].apart;
  for (const AtomId id : apart) {
    const AtomId other = find(id);
    if (other == atom) continue;
    if (atoms_[other].parts.empty()) split(other, first);
    const ImportedAxis& parts = atoms_[other].parts;
    if (parts.size() != 2 || extent(parts[0]) != first) continue;
    for (std::size_t i = 0; i < 2; ++i) {
      const AtomId a = find(atoms_[atom].parts[i]);
      const AtomId b = find(atoms_[other].parts[i]);
      if (are_apart(a, b)) continue;
      atoms_[a].apart.push_back(b);
      atoms_[b].apart.push_back(a);
    }
  }
}

bool AxisTable::are_apart(AtomId a, AtomId b) const {
  const auto& list = atoms_[find(a)].apart;
  return std::ranges::any_of(list, [&](AtomId id) { return find(id) == find(b); });
}

void AxisTable::join(AtomId a, AtomId b) {
  a = find(a);
  b = find(b);
  if (a == b || are_apart(a, b)) return;
  if (is_batch(b)) std::swap(a, b);
  Atom& kept = atoms_[a];
  Atom& gone = atoms_[b];
  gone.same = a;
  kept.place |= gone.place;
  kept.token |= gone.token;
  kept.apart.insert(kept.apart.end(), gone.apart.begin(), gone.apart.end());
}

ImportedAxis AxisTable::without_batch(const ImportedAxis& axis) const {
  ImportedAxis rest = leaves(axis);
  std::erase_if(rest, [&](AtomId atom) { return is_batch(atom) && extent(atom) == 1; });
  return rest;
}

bool AxisTable::fits(const ImportedAxis& a, const ImportedAxis& b) const {
  std::size_t i = 0;
  std::size_t j = 0;
  std::int64_t left = 1;
  std::int64_t right = 1;
  while (i < a.size() || j < b.size() || left > 1 || right > 1) {
    if (left == 1 && i < a.size()) left = extent(a[i++]);
    if (right == 1 && j < b.size()) right = extent(b[j++]);
    const std::int64_t step = std::min(left, right);
    if (step == 1 || left % step != 0 || right % step != 0) return false;
    left /= step;
    right /= step;
  }
  return true;
}

bool AxisTable::unify(const ImportedAxis& a, const ImportedAxis& b) {
  if (!fits(without_batch(a), without_batch(b))) return false;
  for (;;) {
    const ImportedAxis left = without_batch(a);
    const ImportedAxis right = without_batch(b);
    bool whole = true;
    for (std::size_t i = 0; i < left.size() && i < right.size(); ++i) {
      const std::int64_t x = extent(left[i]);
      const std::int64_t y = extent(right[i]);
      if (x == y) {
        join(left[i], right[i]);
        continue;
      }
      split(x > y ? left[i] : right[i], std::min(x, y));
      whole = false;
      break;
    }
    if (whole) return true;
  }
}

std::optional<ImportedAxes> AxisTable::reshaped(const ImportedAxes& axes,
                                                const std::vector<std::int64_t>& shape) {
  ImportedAxis flat;
  for (const ImportedAxis& axis : axes) {
    const ImportedAxis atoms = leaves(axis);
    flat.insert(flat.end(), atoms.begin(), atoms.end());
  }
  ImportedAxes result;
  std::size_t next = 0;
  for (const std::int64_t wanted : shape) {
    ImportedAxis axis;
    std::int64_t have = 1;
    // A batch of one sample becomes a dimension of one place, else a part of the next dimension.
    const bool last = result.size() + 1 == shape.size();
    const auto lone_batch = [&] {
      const bool room = axis.empty() || have < wanted || last;
      return room && next < flat.size() && is_batch(flat[next]) && extent(flat[next]) == 1;
    };
    while (have < wanted || lone_batch()) {
      if (next == flat.size()) return std::nullopt;
      const std::int64_t size = extent(flat[next]);
      if (have * size <= wanted) {
        if (wanted % (have * size) != 0) return std::nullopt;
        have *= size;
        axis.push_back(flat[next++]);
        continue;
      }
      const std::int64_t first = wanted / have;
      if (wanted % have != 0 || size % first != 0) return std::nullopt;
      split(flat[next], first);
      const ImportedAxis parts = leaves({flat[next]});
      flat.erase(flat.begin() + static_cast<std::ptrdiff_t>(next));
      flat.insert(flat.begin() + static_cast<std::ptrdiff_t>(next), parts.begin(), parts.end());
    }
    result.push_back(std::move(axis));
  }
  if (next != flat.size()) return std::nullopt;
  return result;
}

ImportedAxis AxisTable::twin(const ImportedAxis& axis) {
  ImportedAxis result;
  for (const AtomId atom : leaves(axis)) {
    if (extent(atom) == 1) continue;
    const AtomId other = make(extent(atom));
    atoms_[other].token = atoms_[atom].token;
    atoms_[other].apart.push_back(atom);
    atoms_[atom].apart.push_back(other);
    result.push_back(other);
  }
  return result;
}

void AxisTable::mark_place(const ImportedAxis& axis) {
  for (const AtomId atom : leaves(axis)) atoms_[atom].place = true;
}

void AxisTable::mark_token(const ImportedAxis& axis) {
  for (const AtomId atom : leaves(axis)) atoms_[atom].token = true;
}

}  // namespace plansearch::io
