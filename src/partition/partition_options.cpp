// SPDX-License-Identifier: Apache-2.0
// Computes: sequences over the bits of a tensor group as cuts of operators; operators whole, or cut
//           along one feature over a whole tensor group.
// Source: PrimePar (ASPLOS 2024, section 3.2): linear operators take batch, rows, contraction,
//         columns and squares; all others their batch, rows and features (softmax dimension and
//         features of one head left out). Beyond the paper: replicas of what carries the residual
//         stream, as Megatron has them. One feature: Zheng et al., Alpa (OSDI'22), the choice
//         inside operators on one axis.
// Assumes: bits count from the outermost one, which lies furthest apart.
// Units: numbers of factors.
// Checked by: tests/unit/evaluate/choice_tables_test.cpp
#include "partition/partition_options.hpp"

#include <algorithm>
#include <array>
#include <bit>

#include "base/ranges.hpp"
#include "communication/derive/partition_sequence.hpp"
#include "plan/placements/check_placements.hpp"
#include "plansearch/device_mesh.hpp"
#include "workload/operator_traits.hpp"

namespace plansearch {
namespace {

using Kind = SequencePart::Kind;

/// Dimensions of one operator by the letter of a sequence; squares come on top.
using Letters = std::array<std::optional<DimId>, 4>;

std::size_t letter(Kind kind) {
  return static_cast<std::size_t>(kind);
}

Letters letters_of(const Network& network, const Block& block, const Operator& op) {
  Letters letters;
  const bool linear = traits(op).runs_in_steps;
  for (const DimId dim : op.loop) {
    const DimRole role = network.dimension(dim).role;
    if (role == DimRole::Batch) letters[letter(Kind::Batch)] = dim;
    if (role == DimRole::Sequence) letters[letter(Kind::Rows)] = dim;
    if (!is_feature(role)) continue;
    const bool contracted = linear && !contains(block.tensor(op.outputs.front()).dims, dim);
    auto& place = letters[letter(contracted ? Kind::Contraction : Kind::Columns)];
    // Norms of queries have heads outside what they normalise.
    if (!place) place = dim;
  }
  return letters;
}

/// The cuts of a sequence; nothing where the operator has no such dimension.
std::optional<OperatorCut> cut_of(const PartitionSequence& sequence, const Letters& letters,
                                  Kind rows_of_squares) {
  OperatorCut result{FactorCuts{}};
  FactorCuts& cuts = *result.cuts;
  int bit = 0;
  for (const SequencePart& part : sequence) bit += part.bits();
  const auto add = [&](DimId dim, std::uint8_t factor) {
    auto cut = std::ranges::find(cuts, dim, &DimensionCut::dim);
    if (cut == cuts.end()) cut = cuts.insert(cut, {dim, {}});
    cut->factors.push_back(factor);
  };
  for (const SequencePart& part : sequence) {
    if (part.kind == Kind::Replicas) {
      --bit;
      continue;
    }
    if (part.kind != Kind::Square) {
      const auto& dim = letters[letter(part.kind)];
      if (!dim) return std::nullopt;
      add(*dim, static_cast<std::uint8_t>(--bit));
      continue;
    }
    const auto& m = letters[letter(rows_of_squares)];
    const auto& n = letters[letter(Kind::Contraction)];
    const auto& k = letters[letter(Kind::Columns)];
    if (!m || !n || !k) return std::nullopt;
    SquareCut& square = result.squares.emplace_back(SquareCut{{}, {}, *m, *n, *k});
    for (int i = 0; i < part.log_side; ++i) {
      square.rows.push_back(static_cast<std::uint8_t>(--bit));
      square.columns.push_back(static_cast<std::uint8_t>(--bit));
    }
  }
  return result;
}

/// Some bits that cut the batch, some that cut nothing, and what rows and columns of a square leave
/// for others: tokens or sequences, and features.
std::vector<PartitionSequence> sequences_with_replicas(int bits) {
  std::vector<PartitionSequence> found;
  const auto holds = [](const PartitionSequence& tail, Kind kind) {
    return std::ranges::any_of(tail, [&](const auto& part) { return part.kind == kind; });
  };
  constexpr std::array kKinds{Kind::Batch, Kind::Rows, Kind::Columns};
  for (int batch = 0; batch < bits; ++batch) {
    for (int replicas = 1; batch + replicas <= bits; ++replicas) {
      for (const PartitionSequence& tail : plain_sequences(bits - batch - replicas, kKinds)) {
        if (holds(tail, Kind::Batch) && holds(tail, Kind::Rows)) continue;
        PartitionSequence& sequence = found.emplace_back();
        sequence.insert(sequence.end(), static_cast<std::size_t>(batch), {Kind::Batch});
        sequence.insert(sequence.end(), static_cast<std::size_t>(replicas), {Kind::Replicas});
        sequence.insert(sequence.end(), tail.begin(), tail.end());
      }
    }
  }
  return found;
}

/// By bit of the tensor group, the innermost first: the narrowest tier that its two halves reach
/// each other in.
std::vector<int> tiers_of_bits(const Problem& problem, const PlanDegrees& degrees,
                               const std::vector<int>& factors) {
  const DeviceMesh mesh =
      with_factors(make_device_mesh(degrees, problem.framework->rank_order), factors);
  const std::vector<LinkTier>& tiers = problem.cluster->tiers;
  std::vector<int> found;
  for (std::size_t bit = 0; bit < factors.size(); ++bit) {
    const int span = factors[bit] * mesh.neighbour_distance(factor_axis(bit));
    const auto tier =
        std::ranges::find_if(tiers, [&](const LinkTier& other) { return other.size >= span; });
    found.push_back(static_cast<int>(tier - tiers.begin()));
  }
  return found;
}

class OptionMaker {
 public:
  OptionMaker(const Problem& problem, const PlanDegrees& degrees, const Block& block,
              PartitionSpace space)
      : problem_(problem),
        block_(block),
        space_(space),
        factors_(bit_factors(bits_of(degrees.tensor_out).value())),
        plan_{degrees, *problem.framework, factors_} {
    const auto bits = static_cast<int>(factors_.size());
    const std::vector<int> tiers = tiers_of_bits(problem, degrees, factors_);
    sequences_ = space == PartitionSpace::Sorted ? sorted_sequences(tiers) : all_sequences(bits);
    if (space == PartitionSpace::Paper) return;
    for (const PartitionSequence& sequence : sequences_with_replicas(bits)) {
      if (space != PartitionSpace::Sorted || is_sorted(sequence, tiers)) {
        replicating_.push_back(sequence);
      }
    }
  }

  [[nodiscard]] FusedGroupOptions options_of(std::vector<std::size_t> operators) const {
    FusedGroupOptions launch{std::move(operators), {}};
    for (const PartitionSequence& sequence : sequences_) {
      const bool square =
          std::ranges::any_of(sequence, [](const auto& part) { return part.kind == Kind::Square; });
      add(sequence, Kind::Rows, launch);
      if (square && space_ != PartitionSpace::Paper) add(sequence, Kind::Batch, launch);
    }
    if (carries_stream(launch.operators)) {
      for (const PartitionSequence& sequence : replicating_) add(sequence, Kind::Rows, launch);
    }
    return launch;
  }

  [[nodiscard]] std::vector<std::optional<FactorCuts>> edges() const {
    std::vector<std::optional<FactorCuts>> found;
    Letters letters;
    for (const TensorId id : block_.outputs) {
      for (const DimId dim : block_.tensor(id).dims) {
        const DimRole role = problem_.network->dimension(dim).role;
        if (role == DimRole::Batch) letters[letter(Kind::Batch)] = dim;
        if (role == DimRole::Sequence) letters[letter(Kind::Rows)] = dim;
        if (is_feature(role)) letters[letter(Kind::Columns)] = dim;
      }
    }
    for (const auto* sequences : {&sequences_, &replicating_}) {
      for (const PartitionSequence& sequence : *sequences) {
        const auto cut = cut_of(sequence, letters, Kind::Rows);
        if (!cut || !cut->squares.empty()) continue;
        if (!check_edge(*problem_.network, block_, *cut->cuts, plan_)) found.push_back(cut->cuts);
      }
    }
    return found;
  }

 private:
  /// Whether these operators have no feature but those of the residual stream: norms, residuals.
  [[nodiscard]] bool carries_stream(const std::vector<std::size_t>& operators) const {
    return std::ranges::all_of(operators, [&](std::size_t i) {
      const Operator& op = block_.operators[i];
      return !traits(op).runs_in_steps && std::ranges::all_of(op.loop, [&](DimId dim) {
        const DimRole role = problem_.network->dimension(dim).role;
        return !is_feature(role) || role == DimRole::Hidden;
      });
    });
  }

  void add(const PartitionSequence& sequence, Kind rows, FusedGroupOptions& launch) const {
    SequenceOption option;
    for (const std::size_t i : launch.operators) {
      const Operator& op = block_.operators[i];
      const Network& network = *problem_.network;
      auto cut = cut_of(sequence, letters_of(network, block_, op), rows);
      if (!cut) return;
      const auto bad = cut->squares.empty()
                           ? check_cuts(network, op, *cut->cuts, plan_)
                           : check_squares(network, block_, op, *cut->cuts, cut->squares, plan_);
      if (bad) return;
      option.operators.push_back(*std::move(cut));
    }
    option.name = to_text(sequence) + (rows == Kind::Batch ? " over sequences" : "");
    launch.options.push_back(std::move(option));
  }

  const Problem& problem_;
  const Block& block_;
  PartitionSpace space_;
  std::vector<int> factors_;
  PlacedDegrees plan_;
  std::vector<PartitionSequence> sequences_;
  std::vector<PartitionSequence> replicating_;  ///< for what carries the residual stream
};

}  // namespace

std::optional<int> bits_of(int tensor) {
  const auto size = static_cast<unsigned>(tensor);
  if (tensor < 1 || !std::has_single_bit(size)) return std::nullopt;
  return std::countr_zero(size);
}

std::vector<int> bit_factors(int bits) {
  return std::vector<int>(static_cast<std::size_t>(bits), 2);
}

std::vector<int> factors_of(PartitionSpace space, int tensor) {
  if (space == PartitionSpace::OneDimension) return {tensor};
  return bit_factors(bits_of(tensor).value());
}

bool is_feature(DimRole role) {
  return role == DimRole::Hidden || role == DimRole::Head || role == DimRole::KvHead ||
         role == DimRole::Ffn || role == DimRole::Latent || role == DimRole::Vocab;
}

std::vector<std::vector<std::size_t>> launches_of(const Block& block) {
  std::vector<std::vector<std::size_t>> launches;
  for (std::size_t i = 0; i < block.operators.size(); ++i) {
    const std::string& key = block.operators[i].fused_key;
    const bool joins = i > 0 && !key.empty() && block.operators[i - 1].fused_key == key;
    if (!joins) launches.emplace_back();
    launches.back().push_back(i);
  }
  return launches;
}

std::vector<FusedGroupOptions> sequence_options(const Problem& problem, const PlanDegrees& degrees,
                                                const Block& block, PartitionSpace space) {
  if (space == PartitionSpace::OneDimension) return dimension_options(problem, degrees, block);
  const OptionMaker maker(problem, degrees, block, space);
  std::vector<FusedGroupOptions> launches;
  for (std::vector<std::size_t>& operators : launches_of(block)) {
    launches.push_back(maker.options_of(std::move(operators)));
  }
  return launches;
}

std::vector<std::optional<FactorCuts>> edge_options(const Problem& problem,
                                                    const PlanDegrees& degrees, const Block& block,
                                                    PartitionSpace space) {
  if (space == PartitionSpace::OneDimension) return {std::nullopt};
  return OptionMaker(problem, degrees, block, space).edges();
}

namespace {

/// Options of a launch of this operator alone.
std::vector<SequenceOption> options_of(const Network& network, const Operator& op,
                                       const PlacedDegrees& plan) {
  if (check_cuts(network, op, {}, plan)) return {{"by role", {OperatorCut{}}}};
  std::vector<SequenceOption> options{{"whole", {OperatorCut{FactorCuts{}}}}};
  for (const DimId dim : op.loop) {
    if (!is_feature(network.dimension(dim).role)) continue;
    FactorCuts cuts{{dim, FactorList{0}}};
    if (check_cuts(network, op, cuts, plan)) continue;
    options.push_back({network.dimension(dim).name, {OperatorCut{std::move(cuts)}}});
  }
  return options;
}

}  // namespace

std::vector<FusedGroupOptions> dimension_options(const Problem& problem, const PlanDegrees& degrees,
                                                 const Block& block) {
  const std::vector<int> factors = factors_of(PartitionSpace::OneDimension, degrees.tensor_out);
  const PlacedDegrees plan{degrees, *problem.framework, factors};
  std::vector<FusedGroupOptions> launches;
  for (std::vector<std::size_t>& operators : launches_of(block)) {
    FusedGroupOptions& launch =
        launches.emplace_back(FusedGroupOptions{std::move(operators), {{}}});
    for (const std::size_t op : launch.operators) {
      std::vector<SequenceOption> joined;
      for (const SequenceOption& before : launch.options) {
        for (const SequenceOption& own : options_of(*problem.network, block.operators[op], plan)) {
          SequenceOption& option = joined.emplace_back(before);
          option.name += (option.name.empty() ? "" : ", ") + own.name;
          option.operators.push_back(own.operators.front());
        }
      }
      launch.options = std::move(joined);
    }
  }
  return launches;
}

}  // namespace plansearch
