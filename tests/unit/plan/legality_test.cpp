// SPDX-License-Identifier: Apache-2.0
#include "plan/legality/legality.hpp"

#include <doctest/doctest.h>

#include "plan/stages/layer_distribution.hpp"
#include "plan/stages/pipeline_shape.hpp"
#include "support/schedules.hpp"
#include "unit/communication/small_networks.hpp"

namespace plansearch::legality_test {
namespace {

/// embedding, `layers` decoder layers, head; 16 query heads, 4 key/value heads.
Network decoder(std::int64_t layers) {
  Network network = test::attention_block(1024, 16, 4, 8);
  network.name = "toy";
  network.dimensions.push_back({"vocab", DimRole::Vocab, 1000});
  Block embedding;
  embedding.kind = BlockKind::Embedding;
  Block head;
  head.kind = BlockKind::Head;
  Parameter table;
  table.name = "head";
  table.dims = {static_cast<DimId>(7), static_cast<DimId>(3)};
  head.parameters.push_back(table);
  network.blocks.push_back(embedding);
  network.blocks.push_back(head);
  network.order = {{1, 1}, {0, layers}, {2, 1}};
  return network;
}

std::vector<std::int64_t> layers_of(const std::variant<StageRuns, Infeasible>& distribution) {
  std::vector<std::int64_t> result;
  for (const auto& stage : std::get<StageRuns>(distribution)) {
    std::int64_t layers = 0;
    for (const BlockRun& run : stage) layers += run.block == 0 ? run.count : 0;
    result.push_back(layers);
  }
  return result;
}

using Counts = std::vector<std::int64_t>;

TEST_SUITE("unit") {
  TEST_CASE("tensor ranks cut features and heads, no channels; experts do not count") {
    Network network;
    network.dimensions = {{"channels", DimRole::Channel, 30},
                          {"kernel", DimRole::Kernel, 3},
                          {"hidden", DimRole::Hidden, 10},
                          {"ffn", DimRole::Ffn, 27},
                          {"experts", DimRole::Expert, 100}};
    const auto dims = [](std::initializer_list<int> ids) {
      std::vector<DimId> all;
      for (const int id : ids) all.push_back(static_cast<DimId>(id));
      return all;
    };
    Block once;
    Block thrice;
    once.parameters.resize(1);
    once.parameters[0].dims = dims({0, 0, 1});  // 2,700 that stay whole
    thrice.parameters.resize(2);
    thrice.parameters[0].dims = dims({2, 3});     // 270 that are cut, three times
    thrice.parameters[1].dims = dims({4, 2, 3});  // of experts
    network.blocks = {once, thrice};
    network.order = {{0, 1}, {1, 3}};
    CHECK(tensor_share(network) == doctest::Approx(810.0 / 3510.0));
    network.order = {{0, 1}, {1, 10}};
    CHECK(tensor_share(network) == doctest::Approx(0.5));
    network.order = {};
    CHECK(tensor_share(network) == 1.0);
  }

  TEST_CASE("layers: even, earlier first, inner first") {
    PlanDegrees plan;
    plan.pipeline = 4;
    Framework framework = test::plain_framework();
    CHECK(layers_of(distribute_layers(decoder(8), plan, framework)) == Counts{2, 2, 2, 2});
    const auto refused = distribute_layers(decoder(10), plan, framework);
    CHECK(std::get<Infeasible>(refused).obstacle == Obstacle::LayersNotDivisible);
    framework.layers = LayerDistribution::EvenCeil;
    CHECK(layers_of(distribute_layers(decoder(9), plan, framework)) == Counts{3, 2, 2, 2});
    CHECK(layers_of(distribute_layers(decoder(11), plan, framework)) == Counts{3, 3, 3, 2});
    // 10 + embedding + head = 12 make four even stages of three
    CHECK(layers_of(distribute_layers(decoder(10), plan, framework)) == Counts{2, 3, 3, 2});
    framework.layers = LayerDistribution::EvenInner;
    CHECK(layers_of(distribute_layers(decoder(10), plan, framework)) == Counts{2, 3, 3, 2});
    CHECK(layers_of(distribute_layers(decoder(11), plan, framework)) == Counts{3, 3, 3, 2});
    const auto few = distribute_layers(decoder(3), plan, framework);
    CHECK(std::get<Infeasible>(few).obstacle == Obstacle::MoreStagesThanLayers);
  }

  TEST_CASE("layers: embedding opens the first stage, the head closes the last") {
    PlanDegrees plan;
    plan.pipeline = 2;
    plan.chunks = 2;
    plan.schedule = test::kInterleaved;
    const auto runs =
        std::get<StageRuns>(distribute_layers(decoder(8), plan, test::plain_framework()));
    CHECK(runs == StageRuns{{{1, 1}, {0, 2}}, {{0, 2}}, {{0, 2}}, {{0, 2}, {2, 1}}});
  }

  TEST_CASE("layers: by cost, with a head as dear as four layers") {
    // A layer has 4 x 128 x 128 = 65536 weights counted with one key/value head per query head;
    // the head 2048 x 128 = four layers. 16 layers + 4 = 20 units: shares of 10, then of 5, then
    // of 2.5; the layer that fills the shares so far (2.5, 5, 7.5, ...) is the last of its stage.
    Network network = decoder(16);
    network.dimensions.back().extent = 2048;
    Framework framework = test::plain_framework();
    framework.layers = LayerDistribution::EmbeddingAndHeadCount;
    PlanDegrees plan;
    plan.pipeline = 2;
    CHECK(layers_of(distribute_layers(network, plan, framework)) == Counts{10, 6});
    plan.pipeline = 4;
    CHECK(layers_of(distribute_layers(network, plan, framework)) == Counts{5, 5, 5, 1});
    plan.pipeline = 8;
    CHECK(layers_of(distribute_layers(network, plan, framework)) == Counts{3, 2, 3, 2, 3, 2, 1, 0});
  }

  TEST_CASE("legality: a rule is broken by what is decided, whatever the open degrees are") {
    const Network network = decoder(8);
    Framework framework = test::plain_framework();
    framework.rules = {{"no-mixture-of-experts", 0, "none"},
                       {"min-zero", 2, "shards"},
                       {"max-zero", 1, "shards little"}};
    const auto broken = [&](const PinnedDegrees& decided) {
      return rule_broken_by(decided, network, framework);
    };
    CHECK_FALSE(broken({}));
    CHECK_FALSE(broken({{Degree::Zero, 1}}));  // one data rank may need none
    const auto sharded = broken({{Degree::Zero, 2}});
    REQUIRE(sharded.has_value());
    CHECK(sharded->reads == DegreeSet{Degree::Zero});
    CHECK(sharded->why.detail == "plain: shards little");
    CHECK(broken({{Degree::Zero, 1}, {Degree::Data, 2}, {Degree::Context, 1}}).has_value());
  }

  TEST_CASE("legality: each obstacle with the legal values") {
    const Network network = decoder(8);
    const Framework framework = test::plain_framework();
    const auto check = [&](const PlanDegrees& plan) {
      return check_legality(plan, network, framework, plan.devices());
    };
    PlanDegrees plan;
    CHECK_FALSE(check(plan).has_value());
    CHECK(check_legality(plan, network, framework, 2)->obstacle == Obstacle::DegreesDoNotMultiply);
    plan.tensor_out = 3;
    CHECK(check(plan)->obstacle == Obstacle::HeadsNotDivisible);
    CHECK(check(plan)->detail == "16 attention heads do not divide by tensor degree 3");
    CHECK(check(plan)->legal_numbers == std::vector<int>{1, 2, 4, 8, 16});
    CHECK(find_obstacle(plan, network, framework, plan.devices()) == Obstacle::HeadsNotDivisible);
    plan.tensor_out = 8;  // four key/value heads are repeated
    CHECK_FALSE(check(plan).has_value());
    plan.tensor_out = 2;  // or shared out
    CHECK_FALSE(check(plan).has_value());
    plan.tensor_out = 6;  // every one of six ranks would need another part of four
    CHECK(check_legality(plan, test::attention_block(1024, 12, 4, 8), framework, 6)->obstacle ==
          Obstacle::KvHeadsNotDivisible);
    plan.tensor_out = 1;
    plan.tensor_in = 3;
    CHECK(check(plan)->obstacle == Obstacle::HiddenNotDivisible);
    plan.tensor_in = 1;
    plan.context = 3;
    CHECK(check(plan)->obstacle == Obstacle::SequenceNotDivisible);
    plan.context = 32;
    plan.context_kind = ContextKind::Ulysses;
    CHECK(check(plan)->obstacle == Obstacle::HeadsNotDivisible);
    plan.context = 1;
    plan.expert = 2;
    plan.data = 2;
    CHECK(check(plan)->obstacle == Obstacle::NoSuchFeature);
    plan.expert = 1;
    plan.pipeline = 3;
    CHECK(check(plan)->obstacle == Obstacle::LayersNotDivisible);
    plan.pipeline = 16;
    CHECK(check(plan)->obstacle == Obstacle::MoreStagesThanLayers);
    plan.pipeline = 4;
    plan.chunks = 2;
    CHECK(check(plan)->obstacle == Obstacle::NoSuchFeature);
    plan.schedule = test::kInterleaved;
    plan.micro_batches = 6;
    CHECK(check(plan)->obstacle == Obstacle::ScheduleNeedsMicroBatches);
    plan.micro_batches = 8;
    CHECK_FALSE(check(plan).has_value());
  }

  TEST_CASE("legality: sequence parallelism cuts the sequence over context and tensor ranks") {
    Network network = decoder(8);
    for (Dimension& dimension : network.dimensions) {
      if (dimension.role == DimRole::Sequence) dimension.extent = 1022;
    }
    const Framework framework = test::plain_framework();
    const auto check = [&](const PlanDegrees& plan) {
      return check_legality(plan, network, framework, plan.devices());
    };
    PlanDegrees plan;
    plan.tensor_out = 4;
    CHECK_FALSE(check(plan).has_value());
    plan.sequence_parallel = SequenceParallel::On;
    REQUIRE(check(plan).has_value());
    CHECK(check(plan)->obstacle == Obstacle::SequenceNotDivisible);
    CHECK(check(plan)->detail ==
          "1022 tokens of a sequence do not divide by context x tensor degree 4");
    plan.tensor_out = 2;
    CHECK_FALSE(check(plan).has_value());
    plan.context = 2;
    CHECK(check(plan)->obstacle == Obstacle::SequenceNotDivisible);
  }

  TEST_CASE("legality: pieces divide the micro-batch and need messages that kernels run beside") {
    const Network network = decoder(8);
    Framework framework = test::plain_framework();
    PlanDegrees plan;
    plan.micro_batch = 6;
    plan.pieces = 2;
    CHECK(check_legality(plan, network, framework, 1)->obstacle == Obstacle::NoSuchFeature);
    framework.overlap[static_cast<std::size_t>(Overlap::TensorParallel)].wait = MessageWait::Use;
    CHECK_FALSE(check_legality(plan, network, framework, 1).has_value());
    plan.pieces = 4;
    const auto refused = check_legality(plan, network, framework, 1);
    REQUIRE(refused);
    CHECK(refused->detail == "a micro-batch of 6 sequences is not cut into 4 pieces");
    CHECK(refused->legal_numbers == std::vector<int>{1, 2, 3, 6});
    plan.pieces = 2;
    framework.rules = {{"max-overdecompose", 1.0, "one piece"}};
    CHECK(check_legality(plan, network, framework, 1)->obstacle == Obstacle::NoSuchFeature);
  }

  TEST_CASE("legality: a framework runs the schedules it lists") {
    const Network network = decoder(16);
    Framework framework = test::plain_framework();
    framework.schedules = {"1f1b", "gpipe"};
    PlanDegrees plan;
    plan.pipeline = 4;
    plan.micro_batches = 8;
    plan.schedule = *find_schedule("gpipe");
    CHECK_FALSE(check_legality(plan, network, framework, 4).has_value());
    plan.schedule = *find_schedule("interleaved");
    plan.chunks = 2;
    const auto refused = check_legality(plan, network, framework, 4);
    REQUIRE(refused);
    CHECK(refused->obstacle == Obstacle::FrameworkForbids);
    CHECK(to_text(*refused) == "plain does not run interleaved; legal: 1f1b, gpipe");
    // Asked for chunks alone, it says so too; asked for nothing it runs the default.
    CHECK(default_schedule(framework, network, 4, 2) == *find_schedule("interleaved"));
    CHECK(default_schedule(framework, network, 4, 1) == kDefaultSchedule);
    framework.schedules = {"gpipe"};
    CHECK(default_schedule(framework, network, 4, 1) == *find_schedule("gpipe"));
    CHECK(default_schedule(framework, network, 1, 1) == kDefaultSchedule);
  }

  TEST_CASE("legality: groups of micro-batches are the framework's") {
    const Network network = decoder(16);
    Framework framework = test::plain_framework();
    PlanDegrees plan;
    plan.pipeline = 4;
    plan.chunks = 2;
    plan.schedule = *find_schedule("interleaved");
    const auto legal = [&](int micro_batches) {
      plan.micro_batches = micro_batches;
      return !check_legality(plan, network, framework, 4).has_value();
    };
    CHECK_FALSE(legal(6));
    CHECK(legal(8));
    CHECK_FALSE(legal(9));
    CHECK_FALSE(legal(10));
    // PyTorch: m // max(1, m // p) in a round, so 6 in one, 5 + 5, but not 9 in two.
    framework.micro_batch_groups = MicroBatchGroups::Rounds;
    CHECK(legal(6));
    CHECK(pipeline_shape(plan, framework, network).group == 6);
    CHECK(legal(8));
    CHECK_FALSE(pipeline_shape(plan, framework, network).group.has_value());
    CHECK_FALSE(legal(9));
    CHECK(legal(10));
    CHECK(pipeline_shape(plan, framework, network).group == 5);
    CHECK_FALSE(legal(11));
  }

  TEST_CASE("legality: experts over the ranks of a stage") {
    const Network network = test::expert_block(1024, 64, 8, 2, 128);
    const Framework framework = test::plain_framework();
    PlanDegrees plan;
    plan.data = 4;
    plan.expert = 8;
    CHECK(check_legality(plan, network, framework, 4)->obstacle == Obstacle::ExpertsNotDivisible);
    plan.expert = 4;
    CHECK_FALSE(check_legality(plan, network, framework, 4).has_value());
    plan.data = 3;
    plan.expert = 3;
    CHECK(check_legality(plan, network, framework, 3)->obstacle == Obstacle::ExpertsNotDivisible);
  }

  TEST_CASE("legality: framework rules speak with the framework's name") {
    const Network network = decoder(8);
    Framework framework = test::plain_framework();
    framework.rules = {{"max-zero-with-pipeline", 1, "no ZeRO-2 or 3 with a pipeline"},
                       {"kv-heads-divide-tensor", 0, "needs a key/value head per tensor rank"}};
    PlanDegrees plan;
    plan.pipeline = 2;
    plan.data = 2;
    plan.zero = ZeroStage::Gradients;
    const auto refused = check_legality(plan, network, framework, 4);
    REQUIRE(refused.has_value());
    CHECK(refused->obstacle == Obstacle::FrameworkForbids);
    CHECK(refused->detail == "plain: no ZeRO-2 or 3 with a pipeline");
    plan.zero = ZeroStage::Optimizer;
    CHECK_FALSE(check_legality(plan, network, framework, 4).has_value());
    plan.tensor_out = 8;
    CHECK(check_legality(plan, network, framework, 32)->obstacle == Obstacle::FrameworkForbids);
    CHECK(framework_rules().size() >= 20);
  }

  TEST_CASE("legality: shards where several data or context ranks hold the same parameters") {
    Framework framework = test::plain_framework();
    framework.rules = {{"min-zero", 2, "FSDP shards"}};
    const auto legal = [&](int data, int context, ZeroStage zero) {
      PlanDegrees plan;
      plan.data = data;
      plan.context = context;
      plan.zero = zero;
      return !check_legality(plan, decoder(8), framework, data * context).has_value();
    };
    CHECK(legal(1, 1, ZeroStage::None));
    CHECK_FALSE(legal(2, 1, ZeroStage::Optimizer));
    CHECK_FALSE(legal(1, 2, ZeroStage::Optimizer));
    CHECK(legal(2, 1, ZeroStage::Gradients));
    CHECK(legal(1, 2, ZeroStage::Parameters));
  }
}

}  // namespace
}  // namespace plansearch::legality_test
