// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "plan/legality/legality.hpp"
#include "plan/legality/legality_parts.hpp"
#include "plansearch/transformer_builder.hpp"
#include "unit/communication/small_networks.hpp"

namespace plansearch::framework_rules_test {
namespace {

/// Two layers, 16 query and 4 key/value heads of 64, sequence 512.
ModelDescription small_model() {
  ModelDescription model;
  model.name = "small";
  model.layers = 2;
  model.hidden = 1024;
  model.attention.heads = 16;
  model.attention.kv_heads = 4;
  model.attention.head_size = 64;
  model.mlp.width = 4096;
  model.embedding.vocab = 1024;
  model.training.seq_len = 512;
  return model;
}

ModelDescription with_experts() {
  ModelDescription model = small_model();
  model.moe = MoeDescription{};
  model.moe->experts = 8;
  model.moe->top_k = 2;
  model.moe->expert_width = 2048;
  return model;
}

/// One rule alone, on a framework that runs everything.
struct Ruled {
  Framework framework = test::plain_framework();

  explicit Ruled(const char* rule, double limit = 0.0) {
    framework.rules = {{rule, limit, "refused"}};
  }
  [[nodiscard]] bool runs(const PlanDegrees& plan, const ModelDescription& model,
                          const NetworkOptions& options = {},
                          DataType precision = DataType::Bf16) const {
    const auto bad =
        check_legality(plan, build_network(model, options), framework, plan.devices(), precision);
    if (bad) CHECK(bad->detail == "plain: refused");
    return !bad.has_value();
  }
};

PlanDegrees ring(int context) {
  PlanDegrees plan;
  plan.context = context;
  return plan;
}

PlanDegrees ulysses(int context) {
  PlanDegrees plan = ring(context);
  plan.context_kind = ContextKind::Ulysses;
  return plan;
}

TEST_SUITE("unit") {
  TEST_CASE("rules: what a network has is read from its operators") {
    ModelDescription model = small_model();
    const auto network = [&] { return build_network(model); };
    CHECK_FALSE(legality::attends_to_window(network()));
    CHECK_FALSE(legality::has_attention_sinks(network()));
    CHECK_FALSE(legality::has_attention_bias(network()));
    CHECK_FALSE(legality::ties_embeddings(network()));
    CHECK_FALSE(legality::materialises_scores(network()));
    CHECK(legality::materialises_scores(build_network(model, {AttentionKind::Unfused})));
    model.attention.window = 512;  // all of the sequence is no window
    CHECK_FALSE(legality::attends_to_window(network()));
    model.attention.window = 128;
    CHECK(legality::attends_to_window(network()));
    model.attention.sinks = true;
    CHECK(legality::has_attention_sinks(network()));
    CHECK(legality::has_attention_sinks(build_network(model, {AttentionKind::Unfused})));
    model.attention.positions = PositionKind::Relative;
    model.attention.relative_buckets = 32;
    CHECK(legality::has_attention_bias(network()));
    model.embedding.tied = true;
    CHECK(legality::ties_embeddings(network()));
    model = with_experts();
    CHECK_FALSE(legality::has_expert_bias(network()));
    model.moe->expert_bias = true;
    CHECK(legality::has_expert_bias(network()));
  }

  TEST_CASE("rules: context parallelism and kinds of attention") {
    ModelDescription windowed = small_model();
    windowed.attention.window = 128;
    CHECK_FALSE(Ruled("no-ring-context-with-window").runs(ring(2), windowed));
    CHECK(Ruled("no-ring-context-with-window").runs(ulysses(2), windowed));
    CHECK(Ruled("no-ring-context-with-window").runs(ring(2), small_model()));
    CHECK(Ruled("no-ring-context-with-window").runs(ring(1), windowed));

    ModelDescription sinks = small_model();
    sinks.attention.sinks = true;
    CHECK_FALSE(Ruled("no-ring-context-with-sinks").runs(ring(2), sinks));
    CHECK(Ruled("no-ring-context-with-sinks").runs(ulysses(2), sinks));
    CHECK_FALSE(Ruled("no-fused-attention-with-sinks").runs({}, sinks));
    CHECK(Ruled("no-fused-attention-with-sinks").runs({}, sinks, {AttentionKind::Unfused}));
    CHECK(Ruled("no-fused-attention-with-sinks").runs({}, small_model()));

    ModelDescription biased = small_model();
    biased.attention.positions = PositionKind::Relative;
    biased.attention.relative_buckets = 32;
    CHECK_FALSE(Ruled("no-ulysses-context-with-bias").runs(ulysses(2), biased));
    CHECK(Ruled("no-ulysses-context-with-bias").runs(ring(2), biased));

    const NetworkOptions unfused{AttentionKind::Unfused};
    CHECK_FALSE(Ruled("context-needs-fused-attention").runs(ulysses(2), small_model(), unfused));
    CHECK(Ruled("context-needs-fused-attention").runs(ulysses(2), small_model()));
    CHECK(Ruled("context-needs-fused-attention").runs(ulysses(1), small_model(), unfused));

    // 516 = 4 x 129 tokens make four pieces, not eight, whatever is exchanged.
    const NetworkOptions odd{.attention = AttentionKind::Fused, .seq_len = 516};
    CHECK_FALSE(Ruled("sequence-twice-context").runs(ring(4), small_model(), odd));
    CHECK_FALSE(Ruled("sequence-twice-context").runs(ulysses(4), small_model(), odd));
    CHECK(Ruled("sequence-twice-context").runs(ulysses(2), small_model(), odd));

    CHECK_FALSE(Ruled("context-multiple", 4).runs(ring(2), small_model()));
    CHECK(Ruled("context-multiple", 2).runs(ring(2), small_model()));
    CHECK(Ruled("context-multiple", 4).runs(ring(1), small_model()));

    ModelDescription threes = small_model();
    threes.attention.heads = 12;
    threes.attention.kv_heads = 3;
    const NetworkOptions whole{.attention = AttentionKind::Fused, .seq_len = 768};
    CHECK_FALSE(Ruled("ulysses-needs-even-heads").runs(ulysses(3), threes, whole));
    CHECK(Ruled("ulysses-needs-even-heads").runs(ring(3), threes, whole));
    threes.attention.kv_heads = 6;
    CHECK(Ruled("ulysses-needs-even-heads").runs(ulysses(3), threes, whole));

    PlanDegrees both = ulysses(2);
    both.tensor_out = 2;
    CHECK_FALSE(Ruled("no-context-with-tensor").runs(both, small_model()));
    CHECK(Ruled("no-context-with-tensor").runs(ulysses(2), small_model()));
  }

  TEST_CASE("rules: tensor ranks, experts and sequence parallelism") {
    PlanDegrees plan;
    plan.tensor_out = 8;  // 4 key/value heads are repeated
    CHECK_FALSE(Ruled("kv-heads-divide-tensor").runs(plan, small_model()));
    plan.tensor_out = 4;
    CHECK(Ruled("kv-heads-divide-tensor").runs(plan, small_model()));

    // With any expert degree, 1 included: the layer looks at the tensor ranks of attention.
    CHECK_FALSE(Ruled("experts-need-sequence-parallel").runs(plan, with_experts()));
    CHECK(Ruled("experts-need-sequence-parallel").runs(plan, small_model()));
    plan.sequence_parallel = SequenceParallel::On;
    CHECK(Ruled("experts-need-sequence-parallel").runs(plan, with_experts()));

    ModelDescription biased = with_experts();
    biased.moe->expert_bias = true;
    plan.expert_tensor = 2;
    CHECK_FALSE(Ruled("no-expert-tensor-with-bias").runs(plan, biased));
    CHECK(Ruled("no-expert-tensor-with-bias").runs(plan, with_experts()));
    plan.expert_tensor = 1;
    CHECK(Ruled("no-expert-tensor-with-bias").runs(plan, biased));
  }

  TEST_CASE("rules: a forward beside a backward") {
    ModelDescription model = with_experts();
    model.layers = 4;
    PlanDegrees plan;
    plan.schedule = *find_schedule("interleaved-pairs");
    plan.pipeline = 2;
    plan.chunks = 2;
    plan.data = 2;
    plan.micro_batches = 4;
    const auto runs = [&](const char* rule, bool own_order = true) {
      Ruled ruled(rule);
      ruled.framework.schedules = {"interleaved"};
      if (!own_order) ruled.framework.schedules.emplace_back("interleaved-pairs");
      if (own_order) ruled.framework.paired_schedules = {"interleaved-pairs"};
      return ruled.runs(plan, model);
    };
    CHECK_FALSE(runs("pairs-need-experts"));
    CHECK(runs("pairs-need-experts", false));  // priced as if the framework ran it
    CHECK(runs("no-recompute-in-pairs"));
    plan.expert = 2;
    CHECK(runs("pairs-need-experts"));
    CHECK(runs("no-gathered-tokens-in-pairs"));
    CHECK(runs("delayed-weights-need-pairs"));  // none runs later
    const auto later = [&](bool own_order) {
      Ruled ruled("delayed-weights-need-pairs");
      ruled.framework.schedules = {"interleaved", "interleaved-pairs"};
      if (own_order) ruled.framework.paired_schedules = {"interleaved-pairs"};
      ruled.framework.delays_weight_gradients = true;
      return ruled.runs(plan, model);
    };
    CHECK(later(true));
    CHECK_FALSE(later(false));
    Ruled gathers("no-gathered-tokens-in-pairs");
    gathers.framework.schedules = {"interleaved"};
    gathers.framework.paired_schedules = {"interleaved-pairs"};
    const DispatcherId gathered = find_dispatcher("all-gather").value();
    gathers.framework.dispatchers.push_back({"all-gather", gathered, TokenPath::Gather});
    CHECK(gathers.runs(plan, model));
    plan.dispatcher = gathered;
    CHECK_FALSE(gathers.runs(plan, model));
    plan.dispatcher = kOwnDispatcher;
    plan.recompute = Recompute::Full;
    CHECK_FALSE(runs("no-recompute-in-pairs"));
    plan.schedule = *find_schedule("interleaved");
    CHECK(runs("no-recompute-in-pairs"));
  }

  TEST_CASE("rules: frameworks that always recompute, and those that never do") {
    PlanDegrees plan;
    for (const Recompute level : {Recompute::None, Recompute::Selective, Recompute::Full}) {
      plan.recompute = level;
      const bool keeps = level == Recompute::None;
      CHECK(Ruled("recompute-always").runs(plan, small_model()) == !keeps);
      CHECK(Ruled("no-recompute").runs(plan, small_model()) == keeps);
    }
  }

  TEST_CASE("features: plans that a rule would forbid have them") {
    Framework framework = Ruled("no-zero-2").framework;
    framework.rules.clear();
    framework.features = {{"Toy-FSDP", "zero 2, 3", {"max-zero", 1.0, "by Toy-FSDP"}}};
    const Network network = build_network(small_model());
    PlanDegrees plan;
    plan.data = 2;
    plan.zero = ZeroStage::Optimizer;
    CHECK(features_of(plan, network, framework).empty());
    plan.zero = ZeroStage::Gradients;
    const auto found = features_of(plan, network, framework);
    REQUIRE(found.size() == 1);
    CHECK(found.front()->name == "Toy-FSDP");
    CHECK(!find_obstacle(plan, network, framework, 2));  // a name, no rule
  }

  TEST_CASE("rules: pipelines and their micro-batches") {
    ModelDescription model = small_model();
    model.layers = 4;
    PlanDegrees plan;
    plan.pipeline = 4;
    plan.micro_batches = 6;
    CHECK_FALSE(Ruled("micro-batches-multiple-of-stages").runs(plan, model));
    plan.micro_batches = 8;
    CHECK(Ruled("micro-batches-multiple-of-stages").runs(plan, model));

    plan.micro_batches = 3;
    CHECK_FALSE(Ruled("micro-batches-fill-1f1b", 0).runs(plan, model));
    CHECK(Ruled("micro-batches-fill-1f1b", 1).runs(plan, model));
    plan.schedule = *find_schedule("gpipe");
    CHECK(Ruled("micro-batches-fill-1f1b", 0).runs(plan, model));
    // A batch that would do is another plan's matter: not a thing the framework cannot do.
    const Ruled fill("micro-batches-fill-1f1b", 0);
    plan.schedule = kDefaultSchedule;
    CHECK(find_obstacle(plan, build_network(model), fill.framework, 4) ==
          Obstacle::ScheduleNeedsMicroBatches);

    PlanDegrees pair;
    pair.pipeline = pair.chunks = 2;
    pair.micro_batches = 4;
    pair.schedule = *find_schedule("interleaved");
    Ruled blocking("interleaved-pair-needs-overlap");
    const auto sends = static_cast<std::size_t>(Overlap::PipelineSend);
    blocking.framework.overlap[sends].share = 0.5;
    CHECK(blocking.runs(pair, model));
    blocking.framework.overlap[sends].share = 0.0;
    CHECK_FALSE(blocking.runs(pair, model));
    pair.chunks = 1;
    pair.schedule = kDefaultSchedule;
    CHECK(blocking.runs(pair, model));

    CHECK(Ruled("one-stage-with-prediction-modules").runs(plan, model));
    CHECK(Ruled("no-context-with-prediction-modules").runs(ring(2), model));
    model.mtp_layers = 1;
    CHECK_FALSE(Ruled("one-stage-with-prediction-modules").runs(plan, model));
    CHECK_FALSE(Ruled("no-context-with-prediction-modules").runs(ring(2), model));
    CHECK(
        Ruled("one-stage-with-tied-embeddings").runs(plan, model));  // shared, but not by the head
    model.mtp_layers = 0;

    model.embedding.tied = true;
    CHECK_FALSE(Ruled("one-stage-with-tied-embeddings").runs(plan, model));
    plan.pipeline = 1;
    CHECK(Ruled("one-stage-with-tied-embeddings").runs(plan, model));
  }

  TEST_CASE("rules: sharding") {
    PlanDegrees plan;
    plan.data = 4;
    plan.shard_group = 2;
    plan.zero = ZeroStage::Gradients;
    CHECK_FALSE(Ruled("shard-group-needs-zero", 3).runs(plan, small_model()));
    CHECK_FALSE(Ruled("no-zero-2").runs(plan, small_model()));
    plan.shard_group = 4;
    CHECK(Ruled("shard-group-needs-zero", 3).runs(plan, small_model()));
    plan.shard_group = 2;
    plan.zero = ZeroStage::Parameters;
    CHECK(Ruled("shard-group-needs-zero", 3).runs(plan, small_model()));
    CHECK(Ruled("no-zero-2").runs(plan, small_model()));
  }

  TEST_CASE("rules: narrow formats want whole blocks") {
    Ruled ruled("narrow-operands-in-blocks");
    for (const DataType type : {DataType::Fp8, DataType::Mxfp8}) {
      ruled.framework.precision[type] = ruled.framework.precision.at(DataType::Bf16);
      ruled.framework.precision[type].matmul = type;
    }
    const auto runs = [&](const PlanDegrees& plan, const ModelDescription& model, DataType type) {
      return ruled.runs(plan, model, {}, type);
    };
    ModelDescription model = small_model();
    CHECK(runs({}, model, DataType::Fp8));
    CHECK(runs({}, model, DataType::Mxfp8));
    // 4096 + 16 inner features: whole blocks of 16, not of 32; of 2 ranks 2056 each, of neither.
    model.mlp.width = 4112;
    CHECK(runs({}, model, DataType::Fp8));
    CHECK_FALSE(runs({}, model, DataType::Mxfp8));
    PlanDegrees plan;
    plan.tensor_out = 2;
    CHECK_FALSE(runs(plan, model, DataType::Fp8));
    CHECK(runs(plan, model, DataType::Bf16));
    // 512 tokens over 2 x 16 ranks: 16 each, whole blocks of 8, of 32 with two sequences at a time.
    plan = ring(16);
    plan.tensor_out = 2;
    plan.sequence_parallel = SequenceParallel::On;
    CHECK(runs(plan, small_model(), DataType::Fp8));
    CHECK_FALSE(runs(plan, small_model(), DataType::Mxfp8));
    plan.micro_batch = 2;
    CHECK(runs(plan, small_model(), DataType::Mxfp8));
    // Adapters multiply in the activation format: a rank of 4 is no block of 16, and need not be.
    model = small_model();
    model.training.lora = LoraDescription{4, {"q", "v"}};
    CHECK(runs({}, model, DataType::Fp8));

    const Ruled once("fp8-without-accumulation");
    PlanDegrees step;
    step.micro_batches = 2;
    CHECK_FALSE(once.runs(step, small_model(), {}, DataType::Fp8));
    CHECK(once.runs(step, small_model(), {}, DataType::Bf16));
    step.micro_batches = 1;
    CHECK(once.runs(step, small_model(), {}, DataType::Fp8));
  }
}

}  // namespace
}  // namespace plansearch::framework_rules_test
