// SPDX-License-Identifier: Apache-2.0
// Plans that say for single operators how they are cut: the known schemes, written out, are what
// degrees make of them; work is conserved; names of factors do not matter.
#include <doctest/doctest.h>

#include <algorithm>
#include <random>

#include "communication/derive/placement.hpp"
#include "plansearch/evaluator.hpp"
#include "plansearch/placements.hpp"
#include "plansearch/plan_report.hpp"
#include "plansearch/plan_stages.hpp"
#include "support/toy_problem.hpp"

namespace plansearch::placed_plan_test {

namespace {

PlanDegrees degrees_of(const Problem& problem, int in, int out, int data, int micro_batch) {
  PlanDegrees degrees;
  degrees.tensor_in = in;
  degrees.tensor_out = out;
  degrees.data = data;
  degrees.micro_batch = micro_batch;
  degrees.micro_batches = static_cast<int>(problem.global_batch / (data * micro_batch));
  return degrees;
}

struct Placed {
  Problem problem;
  ParallelPlan plan;
};

Placed place(Problem problem, const PlanDegrees& degrees, const PlacementNames& names) {
  auto made = resolve_placements(names, *problem.network, degrees, *problem.framework);
  if (const auto* fault = std::get_if<PlacementFault>(&made)) FAIL(fault->message);
  auto& distinguished = std::get<DistinguishedNetwork>(made);
  problem.network = distinguished.network;
  auto plan = plan_of_stages(
      [&] {
        std::vector<StageDescription> stages(1);
        stages[0].degrees = degrees;
        stages[0].chunks = {problem.network->order};
        return stages;
      }(),
      {degrees.schedule, degrees.micro_batches}, problem.global_batch, *problem.framework,
      *problem.network);
  REQUIRE(std::holds_alternative<ParallelPlan>(plan));
  auto placed = with_placements(std::get<ParallelPlan>(plan), distinguished.placements,
                                *problem.network, *problem.framework);
  if (const auto* bad = std::get_if<Infeasible>(&placed)) FAIL(bad->detail);
  return {problem, std::get<ParallelPlan>(placed)};
}

Estimate price(const Placed& placed) {
  const Evaluation result = PlanEvaluator(placed.problem).evaluate(placed.plan);
  if (const auto* bad = std::get_if<InfeasiblePlan>(&result)) FAIL(bad->reason.detail);
  return std::get<Estimate>(result);
}

/// What moves, but over which axes: kinds, groups, sizes and times in a fixed order.
using Message = std::tuple<int, int, int, int, double, double, double>;
std::vector<Message> messages(const PlanEvaluator& evaluator, const ParallelPlan& plan) {
  std::vector<Message> result;
  for (const PricedCommunication& line : plan_details(evaluator, plan).communication) {
    const Communication& c = line.communication;
    result.emplace_back(static_cast<int>(c.kind), static_cast<int>(c.phase),
                        static_cast<int>(c.subject), c.group_size, line.bytes.value(),
                        line.time.value(), line.count);
  }
  std::sort(result.begin(), result.end());
  return result;
}

bool has_role(const Network& network, const Operator& op, DimRole role) {
  return std::any_of(op.loop.begin(), op.loop.end(),
                     [&](DimId dim) { return network.dimension(dim).role == role; });
}

/// The rules by role, written out for every operator: heads, FFN and vocabulary over `out`,
/// features of the stream over `in`; under sequence parallelism tokens over `out` where neither is
/// there.
PlacementNames written_out(const Network& network, std::vector<int> factors, const FactorList& in,
                           const FactorList& out, bool spread) {
  PlacementNames names;
  names.factors = std::move(factors);
  const auto cut_of = [&](DimId dim, bool tokens) {
    const Dimension& d = network.dimension(dim);
    FactorList list;
    if (d.role == DimRole::Hidden) list = in;
    if (d.role == DimRole::Head || d.role == DimRole::KvHead || d.role == DimRole::Ffn ||
        d.role == DimRole::Vocab || (d.role == DimRole::Sequence && tokens)) {
      list = out;
    }
    return NamedCut{d.name, list};
  };
  for (const Block& block : network.blocks) {
    for (const Operator& op : block.operators) {
      const bool tokens = spread && !has_role(network, op, DimRole::Head) &&
                          !has_role(network, op, DimRole::KvHead) &&
                          !has_role(network, op, DimRole::Ffn) &&
                          !has_role(network, op, DimRole::Vocab);
      PlacementEntry entry{{op.name}, {block.name}, {}, {}};
      for (const DimId dim : op.loop) entry.cut.push_back(cut_of(dim, tokens));
      names.operators.push_back(entry);
    }
    if (block.outputs.empty()) continue;
    PlacementEntry edge{{}, {block.name}, {}, {}};
    for (const DimId dim : block.tensor(block.outputs.front()).dims) {
      edge.cut.push_back(cut_of(dim, spread));
    }
    names.edges.push_back(edge);
  }
  return names;
}

FactorList list_of(std::initializer_list<std::uint8_t> factors) {
  return FactorList(factors);
}

PlacementEntry others_over_batch() {
  return {{}, {"decoder"}, {}, {{"batch", std::nullopt}}};
}

std::string name_of(const Network& network, DimRole role) {
  for (const Dimension& dimension : network.dimensions) {
    if (dimension.role == role) return dimension.name;
  }
  FAIL("no such dimension");
  return {};
}

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("Megatron's tensor parallelism written out costs what --tp costs") {
    for (const bool spread : {false, true}) {
      for (const std::int64_t kv_heads : {std::int64_t{0}, std::int64_t{8}}) {
        test::ToyOptions options;
        options.kv_heads = kv_heads;
        const Problem problem = test::toy_problem(options);
        PlanDegrees degrees = degrees_of(problem, 1, 8, 2, 4);
        degrees.sequence_parallel = spread ? SequenceParallel::On : SequenceParallel::Off;
        CAPTURE(spread);
        CAPTURE(kv_heads);
        const Placed placed = place(
            problem, degrees,
            written_out(*problem.network, {2, 2, 2}, list_of({}), list_of({2, 1, 0}), spread));
        CHECK(placed.plan.transforms[0].placements->factors == std::vector<int>{8});
        const PlanEvaluator evaluator(problem);
        const auto plan = evaluator.expand(degrees);
        REQUIRE(std::holds_alternative<ParallelPlan>(plan));
        const auto& by_role = std::get<ParallelPlan>(plan);
        const Evaluation expected = evaluator.evaluate(by_role);
        REQUIRE(std::holds_alternative<Estimate>(expected));
        CHECK(price(placed) == std::get<Estimate>(expected));
        CHECK(messages(PlanEvaluator(placed.problem), placed.plan) == messages(evaluator, by_role));
      }
    }
  }

  TEST_CASE("a grid of AxoNN written out costs what --tp-x and --tp-y cost") {
    for (const auto& [in, out] : {std::pair{2, 4}, std::pair{4, 2}}) {
      Problem problem = test::toy_problem();
      Framework framework = *problem.framework;
      framework.rank_order = {Axis::In,      Axis::Out,  Axis::Depth,
                              Axis::Context, Axis::Data, Axis::Pipeline};
      framework.vocab_multiple = 0;
      problem.framework = std::make_shared<const Framework>(framework);
      const PlanDegrees grid = degrees_of(problem, in, out, 2, 4);
      const PlanDegrees group = degrees_of(problem, 1, in * out, 2, 4);
      const Placed placed =
          place(problem, group,
                written_out(*problem.network, {in, out}, list_of({0}), list_of({1}), false));
      const PlanEvaluator evaluator(problem);
      const auto plan = evaluator.expand(grid);
      REQUIRE(std::holds_alternative<ParallelPlan>(plan));
      const auto& by_role = std::get<ParallelPlan>(plan);
      const Evaluation expected = evaluator.evaluate(by_role);
      REQUIRE(std::holds_alternative<Estimate>(expected));
      CHECK(price(placed) == std::get<Estimate>(expected));
      CHECK(messages(PlanEvaluator(placed.problem), placed.plan) == messages(evaluator, by_role));
    }
  }

  TEST_CASE("25 heads: the FFN over eight devices, attention whole or over the batch") {
    test::ToyOptions options;
    options.heads = 25;
    options.hidden = 1600;
    options.gpus = 8;
    const Problem problem = test::toy_problem(options);
    const PlanDegrees degrees = degrees_of(problem, 1, 8, 1, 8);
    REQUIRE(PlanEvaluator(problem).legality(degrees));
    const std::string ffn = name_of(*problem.network, DimRole::Ffn);
    std::vector<std::string> wide;
    std::vector<std::string> heads;
    for (const Block& block : problem.network->blocks) {
      if (block.kind != BlockKind::Decoder) continue;
      for (const Operator& op : block.operators) {
        if (has_role(*problem.network, op, DimRole::Ffn)) wide.push_back(op.name);
        const bool attends = has_role(*problem.network, op, DimRole::Head) ||
                             has_role(*problem.network, op, DimRole::KvHead);
        if (attends) heads.push_back(op.name);
      }
    }
    PlacementNames whole;
    whole.operators = {{wide, {}, {}, {{ffn, std::nullopt}}}, {heads, {}, {}, {}}};
    PlacementNames spread = whole;
    spread.operators[1].cut = {{"batch", std::nullopt}};
    const Placed replicated = place(problem, degrees, whole);
    const Placed over_batch = place(problem, degrees, spread);
    // The row-parallel product of the FFN is summed in one all-reduce of eight ranks per layer.
    const PlanEvaluator evaluator(replicated.problem);
    double reduced = 0.0;
    for (const PricedCommunication& line : plan_details(evaluator, replicated.plan).communication) {
      const Communication& c = line.communication;
      if (c.phase != DemandPhase::Forward || c.subject != Subject::Activation) continue;
      if (line.what.find("mlp") == std::string::npos) continue;
      CHECK(c.kind == CommunicationKind::AllReduce);
      CHECK(c.group_size == 8);
      reduced += line.count;
    }
    CHECK(reduced == 8.0 * degrees.micro_batches);  // 8 layers
    // Every device computes one sequence's attention instead of eight: faster, but its weights are
    // replicas whose gradients are summed, and the batch is gathered for the FFN.
    CHECK(price(over_batch).step.compute < price(replicated).step.compute);
    bool gathers = false;
    bool sums = false;
    for (const PricedCommunication& line :
         plan_details(PlanEvaluator(over_batch.problem), over_batch.plan).communication) {
      const Communication& c = line.communication;
      gathers = gathers || (c.kind == CommunicationKind::AllGather && c.group_size == 8 &&
                            c.subject == Subject::Activation);
      sums = sums || (c.subject == Subject::Gradient && c.group_size == 8);
    }
    CHECK(gathers);
    CHECK(sums);
  }

  TEST_CASE("layers that are cut differently pay for their seam once") {
    test::ToyOptions options;
    options.gpus = 4;
    const Problem problem = test::toy_problem(options);
    const PlanDegrees degrees = degrees_of(problem, 1, 4, 1, 4);
    PlacementNames names;
    names.operators = {others_over_batch()};
    names.operators[0].layers = {{0, 3}};
    names.edges = {{{}, {"decoder"}, {{0, 3}}, {{"batch", std::nullopt}}}};
    const Placed placed = place(problem, degrees, names);
    std::vector<std::string> blocks;
    for (const Block& block : placed.problem.network->blocks) blocks.push_back(block.name);
    // The first layer takes the whole batch, the fifth one gathers it again.
    CHECK(blocks == std::vector<std::string>{"embedding", "decoder@0", "decoder@1", "decoder@4",
                                             "decoder@5", "head"});
    CHECK(placed.problem.network->order[2] == BlockRun{2, 3});
    CHECK(placed.problem.network->order[4] == BlockRun{4, 3});
    double gathers = 0.0;
    const PlanEvaluator evaluator(placed.problem);
    for (const PricedCommunication& line : plan_details(evaluator, placed.plan).communication) {
      const Communication& c = line.communication;
      if (c.kind == CommunicationKind::AllGather && c.subject == Subject::Activation &&
          c.phase == DemandPhase::Forward) {
        gathers += line.count;
      }
    }
    CHECK(gathers == degrees.micro_batches);  // one seam, one gather per micro-batch
    // What is written down leads back to the plan.
    const PlacementNames again =
        names_of(*placed.plan.transforms[0].placements, *placed.problem.network);
    const Placed second = place(problem, degrees, again);
    CHECK(second.plan == placed.plan);
    CHECK(price(second) == price(placed));
  }

  TEST_CASE("wrong placements name what would be right") {
    const Problem problem = test::toy_problem();
    const PlanDegrees degrees = degrees_of(problem, 1, 8, 1, 4);
    const auto fault_of = [&](PlacementNames names) {
      auto made = resolve_placements(names, *problem.network, degrees, *problem.framework);
      REQUIRE(std::holds_alternative<PlacementFault>(made));
      const PlacementFault fault = std::get<PlacementFault>(made);
      return fault.message + " / " + fault.hint;
    };
    const auto with = [](PlacementEntry entry) {
      PlacementNames names;
      names.operators = {std::move(entry)};
      return names;
    };
    CHECK(fault_of(with({{"mlp_inn"}, {}, {}, {}})).find("its operators are") != std::string::npos);
    CHECK(fault_of(with({{"mlp_in"}, {"decodr"}, {}, {}})).find("its blocks are") !=
          std::string::npos);
    CHECK(fault_of(with({{"mlp_in"}, {}, {{0, 8}}, {}})).find("its layers are 0-7") !=
          std::string::npos);
    CHECK(fault_of(with({{"mlp_in"}, {}, {}, {{"heads", std::nullopt}}})).find("legal: batch") !=
          std::string::npos);
    CHECK(fault_of(with({{"mlp_in"}, {}, {}, {{"ffn", list_of({0, 0})}}})).find("used twice") !=
          std::string::npos);
    CHECK(fault_of(with({{"mlp_in"}, {}, {}, {{"batch", std::nullopt}}})).find("do not divide") !=
          std::string::npos);
    PlacementNames factors = with({{"mlp_in"}, {}, {}, {{"ffn", std::nullopt}}});
    factors.factors = {2, 2};
    CHECK(fault_of(factors).find("prime factors of 8, innermost first: [2, 2, 2]") !=
          std::string::npos);
  }
}

namespace {

/// Cuts of one operator at random: every factor over one of its dimensions that divide, or none.
std::vector<NamedCut> random_cut(const Network& network, const std::vector<DimId>& dims,
                                 const std::vector<int>& factors, int micro_batch,
                                 std::mt19937& random) {
  std::vector<NamedCut> cuts;
  std::vector<std::int64_t> left;
  for (const DimId dim : dims) {
    const Dimension& d = network.dimension(dim);
    cuts.push_back({d.name, FactorList{}});
    const bool may = d.role == DimRole::Sequence || d.role == DimRole::Hidden ||
                     d.role == DimRole::Head || d.role == DimRole::Ffn || d.role == DimRole::Vocab;
    left.push_back(d.role == DimRole::Batch ? micro_batch : may ? d.extent : 1);
  }
  for (std::size_t f = factors.size(); f-- > 0;) {
    const std::size_t i = random() % (dims.size() + 1);
    if (i == dims.size() || left[i] % factors[f] != 0) continue;
    left[i] /= factors[f];
    cuts[i].factors->push_back(static_cast<std::uint8_t>(f));
  }
  return cuts;
}

/// Every operator of the layers at random; the others by role.
PlacementNames random_placements(const Network& network, const std::vector<int>& factors,
                                 int micro_batch, std::mt19937& random) {
  PlacementNames names;
  names.factors = factors;
  for (const Block& block : network.blocks) {
    if (block.kind != BlockKind::Decoder) continue;
    for (const Operator& op : block.operators) {
      names.operators.push_back({{op.name},
                                 {block.name},
                                 {},
                                 random_cut(network, op.loop, factors, micro_batch, random)});
    }
    names.edges.push_back({{},
                           {block.name},
                           {},
                           random_cut(network, block.tensor(block.outputs.front()).dims, factors,
                                      micro_batch, random)});
  }
  return names;
}

/// Two factors of one size trade places.
PlacementNames swapped(PlacementNames names) {
  for (auto* entries : {&names.operators, &names.edges}) {
    for (PlacementEntry& entry : *entries) {
      for (NamedCut& cut : entry.cut) {
        FactorList list;
        for (const std::uint8_t f : *cut.factors) list.push_back(f < 2 ? 1 - f : f);
        cut.factors = list;
      }
    }
  }
  return names;
}

}  // namespace

TEST_SUITE("property") {
  TEST_CASE("random placements conserve the work of every operator") {
    // Over the devices, local loop nests sum to the nest of the whole batch, once for every
    // replica: the ranks of the factors that the operator does not use.
    const Problem problem = test::toy_problem();
    const PlanDegrees degrees = degrees_of(problem, 1, 8, 2, 8);
    std::mt19937 random(9);
    for (int round = 0; round < 300; ++round) {
      const std::vector<int> factors =
          round % 2 == 0 ? std::vector<int>{2, 2, 2} : std::vector<int>{4, 2};
      const Placed placed =
          place(problem, degrees,
                random_placements(*problem.network, factors, degrees.micro_batch, random));
      const Network& network = *placed.problem.network;
      const Transform& transform = placed.plan.transforms[0];
      const PlacementRules rules =
          placement_rules(network, transform.degrees, transform.mesh, *placed.problem.framework,
                          transform.placements.get());
      for (std::size_t b = 0; b < network.blocks.size(); ++b) {
        const Block& block = network.blocks[b];
        BlockPlacement placement;
        place_block(block, index_block(network, block), rules, placement, b);
        for (std::size_t i = 0; i < block.operators.size(); ++i) {
          double local = 1.0;
          double whole = 1.0;
          AxisSet used{Axis::Data};
          for (std::size_t p = 0; p < block.operators[i].loop.size(); ++p) {
            const DimId dim = block.operators[i].loop[p];
            const double extent = rules.extents[static_cast<std::size_t>(dim)];
            const SliceMap& map = placement.operators[i].loop[p];
            whole *= extent;
            local *= extent / map.slices();
            used = used | map.axes();
          }
          const int replicas =
              transform.mesh.size(kFactorAxes) / transform.mesh.size(used & kFactorAxes);
          CHECK(local * degrees.devices() == doctest::Approx(whole * replicas).epsilon(1e-12));
        }
      }
    }
  }

  TEST_CASE("random placements: priced alike whatever their factors are called") {
    test::ToyOptions options;
    options.gpus = 8;
    options.layers = 2;
    const Problem problem = test::toy_problem(options);
    const PlanDegrees degrees = degrees_of(problem, 1, 8, 1, 4);
    std::mt19937 random(3);
    for (int round = 0; round < 60; ++round) {
      const PlacementNames names =
          random_placements(*problem.network, {2, 2, 2}, degrees.micro_batch, random);
      // Eight devices of one node are all equally far from each other.
      const Estimate one = price(place(problem, degrees, names));
      const Estimate other = price(place(problem, degrees, swapped(names)));
      CHECK(one.step.total().value() == doctest::Approx(other.step.total().value()).epsilon(1e-12));
      CHECK(one.memory.total().value() ==
            doctest::Approx(other.memory.total().value()).epsilon(1e-12));
    }
  }
}

}  // namespace plansearch::placed_plan_test
