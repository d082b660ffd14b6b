// SPDX-License-Identifier: Apache-2.0
// Whether what a plan says of single operators can be done: factors that exist, each used once per
// operator, extents that divide.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <bitset>

#include "plan/legality/legality_parts.hpp"
#include "plan/placements/check_placements.hpp"
#include "workload/operator_traits.hpp"
#include "workload/window.hpp"

namespace plansearch {
namespace {

using legality::broken;

using Result = std::optional<Infeasible>;

/// Extent on one device of the tensor group, were nothing cut over it.
std::int64_t extent_of(const Dimension& dimension, const PlanDegrees& degrees,
                       const Framework& framework) {
  if (dimension.role == DimRole::Batch) return degrees.micro_batch;
  if (dimension.role == DimRole::Sequence) return dimension.extent / degrees.context;
  if (dimension.role != DimRole::Vocab || framework.vocab_multiple == 0) return dimension.extent;
  const std::int64_t multiple = framework.vocab_multiple * std::int64_t{degrees.tensor_out};
  return (dimension.extent + multiple - 1) / multiple * multiple;
}

/// "t1 (2), t0 (4)".
std::string factors_text(const PlacedDegrees& plan) {
  if (plan.factors.empty()) return "none: it has one device";
  std::vector<std::string> names;
  for (std::size_t f = plan.factors.size(); f-- > 0;) {
    names.push_back(fmt::format("t{} ({})", f, plan.factors[f]));
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

Result check_exist(const FactorList& list, const PlacedDegrees& plan, std::string_view what) {
  for (const std::uint8_t factor : list) {
    if (factor < plan.factors.size()) continue;
    return broken(fmt::format("{}: no factor t{}; the factors of the tensor group are {}", what,
                              factor, factors_text(plan)));
  }
  return std::nullopt;
}

Result check_list(const FactorList& list, const PlacedDegrees& plan, std::bitset<32>& used,
                  std::string_view what) {
  if (auto bad = check_exist(list, plan, what)) return bad;
  for (const std::uint8_t factor : list) {
    if (used[factor]) return broken(fmt::format("{}: factor t{} is used twice", what, factor));
    used.set(factor);
  }
  return std::nullopt;
}

/// Factors that may cut a dimension beside the axes that cut it by role.
std::size_t most_factors(const Dimension& dimension, const PlanDegrees& degrees) {
  if (dimension.role == DimRole::Batch) return kMostFactorsOfDimension;
  return kMostCutsOfDimension - (degrees.tensor_in > 1 ? 1U : 0U) - (degrees.context > 1 ? 1U : 0U);
}

/// `repeats`: fewer slices than ranks will do, several ranks hold the same one.
Result check_extent(const DimensionCut& cut, const Dimension& dimension, const PlacedDegrees& plan,
                    std::string_view what, bool repeats = false) {
  if (cut.factors.empty()) return std::nullopt;
  if (!may_be_cut(dimension.role)) {
    return broken(fmt::format("{}: {} is never cut over a tensor group", what, dimension.name));
  }
  const std::size_t most = most_factors(dimension, plan.degrees);
  if (cut.factors.size() > most) {
    return broken(
        fmt::format("{}: {} is cut over {} factors, at most {}; factors that are always "
                    "used together count as one",
                    what, dimension.name, cut.factors.size(), most));
  }
  std::int64_t pieces = 1;
  for (const std::uint8_t factor : cut.factors) pieces *= plan.factors[factor];
  const std::int64_t extent = extent_of(dimension, plan.degrees, plan.framework);
  if (extent % pieces == 0 || (repeats && pieces % extent == 0)) return std::nullopt;
  return legality::refuse_indivisible(
      legality::Wording::Full, obstacle_of(dimension.role), pieces, extent, [&] {
        return fmt::format("{}: {} {} of one device do not divide by {}", what, extent,
                           dimension.name, pieces);
      });
}

/// Whether the statistics of a norm are over it is told by the role of a dimension.
Result check_reduced(const Network& network, const Operator& op, const DimensionCut& cut) {
  const Dimension& dimension = network.dimension(cut.dim);
  const bool open = dimension.role == DimRole::Other;
  if (cut.factors.empty() || !open || traits(op).statistics.over.empty()) return std::nullopt;
  return broken(
      fmt::format("{}: a {} over {} is not cut: nothing says whether it normalises over "
                  "that dimension",
                  op.name, traits(op).name, dimension.name));
}

bool has_role(const Network& network, const Operator& op, DimRole role) {
  return std::ranges::any_of(op.loop,
                             [&](DimId dim) { return network.dimension(dim).role == role; });
}

constexpr std::string_view kValueInSteps = "an operator in steps has its inputs whole in value";

bool splits_value(const FactorCuts& cuts) {
  return std::ranges::any_of(cuts, [](const DimensionCut& cut) { return cut.dim == kValue; });
}

/// Query heads and the key/value heads under them.
Result check_groups(const Network& network, const Operator& op, const FactorCuts& cuts,
                    const PlacedDegrees& plan) {
  if (has_role(network, op, DimRole::KvHead)) return std::nullopt;
  for (const DimensionCut& cut : cuts) {
    if (cut.dim == kValue || network.dimension(cut.dim).role != DimRole::Head) continue;
    for (const Dimension& dimension : network.dimensions) {
      if (dimension.role != DimRole::KvHead) continue;
      if (auto bad = check_extent({{}, cut.factors}, dimension, plan, op.name, true)) return bad;
    }
  }
  return std::nullopt;
}

/// The factors over which a use of a parameter cuts one of its dimensions.
FactorList effective(const Network& network, const std::optional<FactorCuts>& cuts, DimId dim,
                     std::size_t factors) {
  FactorList list;
  if (cuts) {
    for (const DimensionCut& cut : *cuts) {
      if (cut.dim == dim) list = cut.factors;
    }
    return list;
  }
  const DimRole role = network.dimension(dim).role;
  const bool by_role = role == DimRole::Vocab || role == DimRole::Head || role == DimRole::Ffn ||
                       role == DimRole::KvHead;
  for (std::size_t f = factors; by_role && f-- > 0;) list.push_back(static_cast<std::uint8_t>(f));
  return list;
}

/// One tensor in several places lies in one way.
Result check_shared(const Network& network, const Placements& placements) {
  struct Use {
    std::string_view key;
    std::string_view op;
    std::vector<std::pair<DimId, FactorList>> lists;  ///< by dimension
  };
  std::vector<Use> uses;
  for (std::size_t b = 0; b < network.blocks.size(); ++b) {
    const Block& block = network.blocks[b];
    for (std::size_t i = 0; i < block.operators.size(); ++i) {
      for (const ParameterId id : block.operators[i].parameters) {
        const Parameter& parameter = block.parameter(id);
        if (parameter.shared_key.empty()) continue;
        Use use{parameter.shared_key, block.operators[i].name, {}};
        for (const DimId dim : parameter.dims) {
          use.lists.emplace_back(dim, effective(network, placements.blocks[b].operators[i], dim,
                                                placements.factors.size()));
        }
        std::ranges::sort(use.lists,
                          [](const auto& x, const auto& y) { return x.first < y.first; });
        for (const Use& other : uses) {
          if (other.key != use.key || other.lists == use.lists) continue;
          return broken(fmt::format("{} and {} share one parameter: both cut it in the same way",
                                    other.op, use.op));
        }
        uses.push_back(std::move(use));
      }
    }
  }
  return std::nullopt;
}

/// Batch is cut by role over up to three axes (data as two, depth) beside the factors.
Result check_digits(const Network& network, const BlockChoice& choice) {
  const auto fits = [&](const std::optional<FactorCuts>& cuts) {
    return !cuts || std::ranges::all_of(*cuts, [&](const DimensionCut& cut) {
      return cut.dim == kValue || network.dimension(cut.dim).role != DimRole::Batch ||
             cut.factors.size() <= kMostFactorsOfDimension;
    });
  };
  if (std::ranges::all_of(choice.operators, fits) && fits(choice.leaving) &&
      fits(choice.entering)) {
    return std::nullopt;
  }
  return broken(
      fmt::format("the batch is cut over more than {} factors that other cuts use separately",
                  kMostFactorsOfDimension));
}

Result check_block(const Network& network, std::size_t b, const BlockChoice& choice,
                   const PlacedDegrees& plan) {
  const Block& block = network.blocks[b];
  if (auto bad = check_digits(network, choice)) return bad;
  for (std::size_t i = 0; i < block.operators.size(); ++i) {
    const Operator& op = block.operators[i];
    if (choice.operators[i]) {
      const FactorCuts& cuts = *choice.operators[i];
      const std::span<const SquareCut> squares = choice.squares_of(i);
      auto bad = squares.empty() ? check_cuts(network, op, cuts, plan)
                                 : check_squares(network, block, op, cuts, squares, plan);
      if (bad) return bad;
      if (auto unfit = check_windows(network, block, op, cuts, plan)) return unfit;
      const RingCut* ring = choice.ring(i);
      if (ring == nullptr) continue;
      if (auto unfit = check_ring(network, block, op, cuts, *ring, plan)) return unfit;
      continue;
    }
    for (const DimId dim : op.loop) {
      if (auto bad = legality::check_by_role(plan.degrees, plan.framework, network.dimension(dim)))
        return bad;
    }
  }
  for (const auto* cuts : {&choice.entering, &choice.leaving}) {
    if (!*cuts) continue;
    if (auto bad = check_edge(network, block, **cuts, plan)) return bad;
  }
  for (const PieceRegion& region : choice.regions) {
    if (auto bad = check_region(network, block, choice, region, plan)) return bad;
  }
  return std::nullopt;
}

Result check_shape(const Block& block, const Operator& op, const SquareCut& square,
                   const PlacedDegrees& plan) {
  const int side = product_of(square.rows, plan);
  if (side != product_of(square.columns, plan) || side < 2) {
    return broken(
        fmt::format("{}: {} rows and {} columns; only squares have phases that fit each other "
                    "(PrimePar, ASPLOS 2024), such as 2x2, 4x4",
                    op.name, side, product_of(square.columns, plan)));
  }
  const auto& weight = block.parameter(op.parameters.front()).dims;
  const auto& input = block.tensor(op.inputs.front()).dims;
  const auto& output = block.tensor(op.outputs.front()).dims;
  const bool fits =
      contains(input, square.m) && contains(output, square.m) && !contains(weight, square.m) &&
      contains(input, square.n) && !contains(output, square.n) && contains(weight, square.n) &&
      !contains(input, square.k) && contains(output, square.k) && contains(weight, square.k);
  if (fits) return std::nullopt;
  return broken(
      fmt::format("{}: m is of its input and its output, n of its input and its weight, "
                  "k of its weight and its output",
                  op.name));
}

}  // namespace

Obstacle obstacle_of(DimRole role) {
  switch (role) {
    case DimRole::Batch:
      return Obstacle::BatchNotDivisible;
    case DimRole::Head:
      return Obstacle::HeadsNotDivisible;
    case DimRole::KvHead:
      return Obstacle::KvHeadsNotDivisible;
    case DimRole::Ffn:
      return Obstacle::FfnNotDivisible;
    case DimRole::Vocab:
      return Obstacle::VocabNotDivisible;
    case DimRole::Sequence:
      return Obstacle::SequenceNotDivisible;
    default:
      return Obstacle::HiddenNotDivisible;
  }
}

bool may_be_cut(DimRole role) {
  switch (role) {
    case DimRole::Batch:
    case DimRole::Sequence:
    case DimRole::Hidden:
    case DimRole::Head:
    case DimRole::KvHead:
    case DimRole::Ffn:
    case DimRole::Vocab:
    case DimRole::Latent:
    case DimRole::Pixel:
    case DimRole::Channel:
    case DimRole::Other:
      return true;
    default:
      return false;
  }
}

std::vector<std::string> cuttable(const Network& network, const Operator& op,
                                  const std::vector<DimId>& but) {
  std::vector<std::string> names;
  for (const DimId dim : op.loop) {
    const Dimension& dimension = network.dimension(dim);
    const bool reduced = check_reduced(network, op, {dim, {0}}).has_value();
    if (may_be_cut(dimension.role) && !reduced && !contains(but, dim))
      names.push_back(dimension.name);
  }
  return names;
}

int product_of(const FactorList& list, const PlacedDegrees& plan) {
  int product = 1;
  for (const std::uint8_t factor : list) {
    product *= factor < plan.factors.size() ? plan.factors[factor] : 1;
  }
  return product;
}

std::optional<Infeasible> check_cuts(const Network& network, const Operator& op,
                                     const FactorCuts& cuts, const PlacedDegrees& plan) {
  const bool experts = has_role(network, op, DimRole::Expert) ||
                       has_role(network, op, DimRole::Routed) ||
                       has_role(network, op, DimRole::ExpertFfn);
  if (experts) {
    return broken(fmt::format("{}: operators of experts are placed by ep and etp", op.name));
  }
  std::bitset<32> used;
  for (const DimensionCut& cut : cuts) {
    if (cut.dim == kValue) {
      if (auto bad = check_list(cut.factors, plan, used, op.name)) return bad;
      if (auto bad = check_value(network, op)) return bad;
      continue;
    }
    if (std::ranges::find(op.loop, cut.dim) == op.loop.end()) {
      Infeasible bad =
          broken(fmt::format("{} has no dimension {}", op.name, network.dimension(cut.dim).name));
      for (const DimId dim : op.loop) bad.legal_words.push_back(network.dimension(dim).name);
      return bad;
    }
    if (auto bad = check_list(cut.factors, plan, used, op.name)) return bad;
    const Dimension& dimension = network.dimension(cut.dim);
    const auto reduced = check_reduced(network, op, cut);
    auto bad = check_extent(cut, dimension, plan, op.name);
    if (!bad) bad = reduced;
    if (!bad) continue;
    if (reduced || !may_be_cut(dimension.role)) bad->legal_words = cuttable(network, op, {cut.dim});
    return bad;
  }
  return check_groups(network, op, cuts, plan);
}

std::int64_t local_extent(const Network& network, const std::optional<FactorCuts>& cuts, DimId dim,
                          const PlacedDegrees& plan) {
  const std::int64_t extent = extent_of(network.dimension(dim), plan.degrees, plan.framework);
  const FactorList list = effective(network, cuts, dim, plan.factors.size());
  return extent / std::min<std::int64_t>(extent, product_of(list, plan));
}

std::optional<Infeasible> check_squares(const Network& network, const Block& block,
                                        const Operator& op, const FactorCuts& cuts,
                                        std::span<const SquareCut> squares,
                                        const PlacedDegrees& plan) {
  if (!traits(op).runs_in_steps) {
    return broken(
        fmt::format("{} is not a product with a weight: it does not run over a square", op.name));
  }
  if (splits_value(cuts)) return broken(fmt::format("{}: {}", op.name, kValueInSteps));
  // As one cut: the factors around, and those of the squares.
  FactorCuts rows = cuts;
  FactorCuts contracted = cuts;
  const auto add = [](FactorCuts& all, DimId dim, const FactorList& own) {
    auto cut = std::ranges::find(all, dim, &DimensionCut::dim);
    if (cut == all.end()) cut = all.insert(all.end(), {dim, {}});
    for (const std::uint8_t factor : own) cut->factors.push_back(factor);
  };
  for (const SquareCut& square : squares) {
    if (auto bad = check_exist(square.rows, plan, op.name)) return bad;
    if (auto bad = check_exist(square.columns, plan, op.name)) return bad;
    if (auto bad = check_shape(block, op, square, plan)) return bad;
    if (square.rows.size() > kMostFactorsOfDimension ||
        square.columns.size() > kMostFactorsOfDimension) {
      return broken(fmt::format("{}: a square of more than {} factors a side", op.name,
                                kMostFactorsOfDimension));
    }
    add(rows, square.m, square.rows);
    add(rows, square.k, square.columns);
    add(contracted, square.n, square.rows);
  }
  if (auto bad = check_cuts(network, op, rows, plan)) return bad;
  for (const DimensionCut& cut : contracted) {
    if (auto bad = check_extent(cut, network.dimension(cut.dim), plan, op.name)) return bad;
  }
  return std::nullopt;
}

std::optional<Infeasible> check_ring(const Network& network, const Block& block, const Operator& op,
                                     const FactorCuts& cuts, const RingCut& ring,
                                     const PlacedDegrees& plan) {
  if (!traits(op).runs_in_steps) {
    return broken(fmt::format("{} is not a product with a weight: no ring runs under it", op.name));
  }
  if (splits_value(cuts)) return broken(fmt::format("{}: {}", op.name, kValueInSteps));
  if (auto bad = check_exist(ring.factors, plan, op.name)) return bad;
  const auto& weight = block.parameter(op.parameters.front()).dims;
  const auto& input = block.tensor(op.inputs.front()).dims;
  const auto& output = block.tensor(op.outputs.front()).dims;
  if (!contains(input, ring.rows) || !contains(output, ring.rows) || contains(weight, ring.rows)) {
    return broken(fmt::format("{}: rows of a ring are of its input and its output", op.name));
  }
  DimensionCut rows{ring.rows, {}};
  const DimensionCut* features = nullptr;
  for (const DimensionCut& cut : cuts) {
    if (cut.dim == ring.rows) rows.factors = cut.factors;
    if (contains(weight, cut.dim) && cut.factors == ring.factors) features = &cut;
  }
  if (features == nullptr || product_of(ring.factors, plan) < 2) {
    return broken(
        fmt::format("{}: no dimension of its weight is cut over the factors of the ring", op.name));
  }
  for (const std::uint8_t factor : ring.factors) {
    if (contains(std::vector(rows.factors.begin(), rows.factors.end()), factor)) {
      return broken(
          fmt::format("{}: its rows are cut over factor t{} of the ring", op.name, factor));
    }
    rows.factors.push_back(factor);
  }
  return check_extent(rows, network.dimension(ring.rows), plan, op.name);
}

std::optional<Infeasible> check_edge(const Network& network, const Block& block,
                                     const FactorCuts& cuts, const PlacedDegrees& plan) {
  const std::string what = fmt::format("the edge of {}", block.name);
  for (const DimensionCut& cut : cuts) {
    if (cut.dim == kValue) {
      return broken(fmt::format("{} is whole in its value: what a block hands on is summed", what));
    }
    if (auto bad = check_exist(cut.factors, plan, what)) return bad;
    if (auto bad = check_extent(cut, network.dimension(cut.dim), plan, what)) return bad;
  }
  // A factor may cut another dimension of tensors that have others.
  for (const auto* ports : {&block.inputs, &block.outputs}) {
    for (const TensorId id : *ports) {
      std::bitset<32> used;
      for (const DimensionCut& cut : cuts) {
        if (!contains(block.tensor(id).dims, cut.dim)) continue;
        if (auto bad = check_list(cut.factors, plan, used, what)) return bad;
      }
    }
  }
  return std::nullopt;
}

std::optional<Infeasible> check_placements(const Placements& placements, const Network& network,
                                           const PlanDegrees& degrees, const Framework& framework) {
  std::int64_t product = 1;
  for (const int size : placements.factors) product *= std::max(size, 1);
  if (product != degrees.tensor_out) {
    return broken(fmt::format("factors that multiply to {} for a tensor degree of {}", product,
                              degrees.tensor_out));
  }
  if (placements.factors.size() > kMostFactors) {
    return broken(
        fmt::format("{} factors are used separately, at most {} can be: those that are always "
                    "used together count as one",
                    placements.factors.size(), kMostFactors));
  }
  if (degrees.recompute == Recompute::Selective && placements.in_pieces()) {
    return broken("operators in pieces beside selective recompute: --recompute none or full");
  }
  if (degrees.tensor_in > 1) {
    return broken("placements cut the tensor group of tp: write the grid as placements");
  }
  bool fits = placements.blocks.size() == network.blocks.size();
  for (std::size_t b = 0; fits && b < network.blocks.size(); ++b) {
    fits = placements.blocks[b].operators.size() == network.blocks[b].operators.size();
  }
  if (!fits) return broken("the placements were made for another network");
  const PlacedDegrees plan{degrees, framework, placements.factors};
  for (std::size_t b = 0; b < network.blocks.size(); ++b) {
    if (auto bad = check_block(network, b, placements.blocks[b], plan)) return bad;
  }
  return check_shared(network, placements);
}

}  // namespace plansearch
