// SPDX-License-Identifier: Apache-2.0
// Launch files as keys and values, and what each framework does where nothing is said.
#include <doctest/doctest.h>

#include "exchange/launch/read_configuration.hpp"
#include "plansearch/error.hpp"
#include "plansearch/shipped_data.hpp"

namespace plansearch::importers::launch_files_test {
namespace {

const exporters::Targets& targets() {
  static const exporters::Targets kTargets(shipped_data().directory());
  return kTargets;
}

constexpr const char* kNetwork =
    "--num-layers 32 --hidden-size 4096 --num-attention-heads 32 --max-position-embeddings 2048 "
    "--seq-length 2048 --vocab-size 32000 --micro-batch-size 2 ";

ReadConfiguration read(const std::string& name, const std::string& text, Typed typed = {}) {
  return read_configuration(targets(), find_keys(targets(), {{text, name}}, typed.definitions),
                            typed);
}

exporters::Reading megatron(const std::string& flags) {
  return read("run.sh", "torchrun --nproc-per-node 8 pretrain_gpt.py " + (kNetwork + flags))
      .reading;
}

const FoundKey& key(const FoundKeys& found, const std::string& name) {
  for (const FoundKey& one : found.keys) {
    if (one.name == name) return one;
  }
  throw std::runtime_error(name);
}

TEST_CASE("launch files: flags, their values and places") {
  const FoundKeys found = find_keys(
      targets(),
      {{"T=4\ntorchrun --nnodes=2 --nproc-per-node 8 train.py --a 1 --b=x --c \\\n  --d 1 2 $T\n",
        "r.sh"}},
      {});
  CHECK(key(found, "--a").value == "1");
  CHECK(key(found, "--b").value == "x");
  CHECK(key(found, "--c").value == true);
  CHECK(key(found, "--d").value == Value({"1", "2", "4"}));
  CHECK(key(found, "--d").where.line == 3);
  CHECK(key(found, "--d").where.column == 3);
  CHECK(found.gpus == 16);
  CHECK(found.node_gpus == 8);
  CHECK(found.program == "train.py");
}

TEST_CASE("launch files: TOML") {
  const FoundKeys found = find_keys(targets(),
                                    {{"top = 1\n[a]\nb = 1_000 # c\n'd e' = \"x\\ny\"\n[a.f]\ng = "
                                      "[1, [2, 'h'],\n 3]\ni = {j = true, k.l = 0.5}\n",
                                      "r.toml"}},
                                    {});
  CHECK(key(found, "top").value == 1);
  CHECK(key(found, "a.b").value == 1000);
  CHECK(key(found, "a.d e").value == "x\ny");
  CHECK(key(found, "a.f.g").value == Value::parse("[1, [2, \"h\"], 3]"));
  CHECK(key(found, "a.f.i.j").value == true);
  CHECK(key(found, "a.f.i.k.l").value == 0.5);
  CHECK(key(found, "a.b").where.line == 3);
  CHECK_THROWS_AS(static_cast<void>(find_keys(targets(), {{"[a\n", "r.toml"}}, {})), InputError);
  CHECK_THROWS_AS(static_cast<void>(find_keys(targets(), {{"a = \"b\n", "r.toml"}}, {})),
                  InputError);
}

TEST_CASE("launch files: interpolation of YAML") {
  const FoundKeys found = find_keys(
      targets(),
      {{"a:\n  b: 2\nc: ${a.b}\nd:\n  e: ${.f}\n  f: 3\n  g: ${TP}\n  h: ${U}\n", "r.yaml"}},
      {{"TP", "4"}});
  CHECK(key(found, "c").value == 2);
  CHECK(key(found, "d.e").value == 3);
  CHECK(key(found, "d.g").value == 4);
  CHECK(key(found, "d.h").unknown == "U");
}

TEST_CASE("launch files: Megatron-LM's own defaults") {
  const exporters::Reading plain = megatron("");
  CHECK(plain.degrees.data == 8);
  CHECK(plain.degrees.zero == ZeroStage::None);
  CHECK(plain.asked.batch == 16);  // one micro-batch a data rank
  CHECK(plain.asked.precision == "fp32");
  CHECK(plain.asked.overlap == "grad=0");
  CHECK(plain.model.mlp.width == 4 * 4096);
  CHECK(plain.model.embedding.tied);
  CHECK(plain.model.attention.kv_heads == 32);
  CHECK(plain.model.attention.query_key_value_bias);
  CHECK(plain.model.attention.positions == PositionKind::Learned);
  CHECK(plain.model.dropout == doctest::Approx(0.1));
  CHECK(megatron("--swiglu").model.mlp.width == 10880);  // int((4 * 4096 * 2 / 3) / 64) * 64
  CHECK(megatron("--num-experts 8 --tensor-model-parallel-size 4").degrees.expert_tensor == 4);
  // Said where it is not what the framework does in that format.
  CHECK_FALSE(megatron("--fp16").asked.main_grads);
  CHECK(megatron("--fp16 --accumulate-allreduce-grads-in-fp32").asked.main_grads == "fp32");
  CHECK_FALSE(megatron("--bf16").asked.main_grads);
  CHECK(megatron("--bf16 --grad-reduce-in-bf16").asked.main_grads == "bf16");
  CHECK(megatron("--bf16 --fp8-format hybrid").asked.main_grads == "fp32");
  CHECK(megatron("--bf16 --fp8-format hybrid --grad-reduce-in-bf16").asked.main_grads == "bf16");
}

TEST_CASE("launch files: patterns of layers") {
  const auto hybrid = megatron(
      "--hybrid-override-pattern 'M-M*|-M-/*-' --pipeline-model-parallel-size 2 --is-hybrid-model "
      "--mamba-num-heads 64 --mamba-head-dim 32 --mamba-state-dim 16 --mamba-num-groups 4");
  CHECK(hybrid.model.layers == 7);
  CHECK(hybrid.model.list.layer_mixers ==
        std::vector<std::string>{"mamba", "none", "mamba", "attention", "none", "mamba", "none"});
  CHECK(hybrid.model.list.layer_feed_forwards ==
        std::vector<std::string>{"none", "mlp", "none", "none", "mlp", "none", "mlp"});
  CHECK(hybrid.model.mtp_layers == 1);
  CHECK(hybrid.model.list.prediction_mixers == std::vector<std::string>{"attention"});
  REQUIRE(hybrid.model.list.mixers.size() == 1);
  const RecurrenceDescription& mamba = *hybrid.model.list.mixers.front().recurrence;
  CHECK(mamba.heads == 64);
  CHECK(mamba.value_size == 32);
  CHECK(mamba.key_size == 16);
  CHECK(mamba.key_heads == 4);
  REQUIRE(hybrid.stages.size() == 2);
  CHECK(hybrid.stages[0].layers == 4);
  CHECK(hybrid.stages[1].layers == 3);
  CHECK(hybrid.degrees.chunks == 1);
  // Pairs of a mixer and a feed-forward are one layer; unsaid sizes are Megatron-LM's own.
  const auto pairs =
      megatron("--hybrid-layer-pattern 'M-|M-|*-|M-' --pipeline-model-parallel-size 2");
  CHECK(pairs.model.layers == 4);
  CHECK(pairs.degrees.chunks == 2);
  CHECK(pairs.model.list.mixers.front().recurrence->heads == 2 * 4096 / 64);
  const auto linear = megatron(
      "--experimental-attention-variant gdn --linear-attention-freq 4 --attention-output-gate");
  CHECK(linear.model.list.layer_mixers[2] == "delta");
  CHECK(linear.model.list.layer_mixers[3] == "attention");
  CHECK(linear.model.attention.gate == OutputGate::Full);
  CHECK(megatron("--experimental-attention-variant gdn --linear-attention-freq '([1]*3+[0])*8'")
            .model.list.layer_mixers == linear.model.list.layer_mixers);
  for (const char* wrong :
       {"--hybrid-layer-pattern 'M-X'", "--hybrid-layer-pattern 'M+'", "--hybrid-layer-pattern '|'",
        "--hybrid-layer-pattern 'M|M|M' --pipeline-model-parallel-size 2",
        "--experimental-attention-variant gdn", "--experimental-attention-variant dsa",
        "--is-hybrid-model", "--hybrid-layer-pattern 'G' --linear-num-key-heads 5",
        "--hybrid-layer-pattern 'M' --mamba-num-groups 7"})
    CHECK_THROWS_AS(static_cast<void>(megatron(wrong)), InputError);
}

TEST_CASE("launch files: several arguments of Megatron-LM together") {
  const auto chunked = megatron(
      "--pipeline-model-parallel-size 4 --num-layers-per-virtual-pipeline-stage 2 "
      "--global-batch-size 64");
  CHECK(chunked.degrees.chunks == 4);
  CHECK(chunked.degrees.micro_batches == 16);
  const auto ends = megatron(
      "--pipeline-model-parallel-size 4 --decoder-first-pipeline-num-layers 5 "
      "--decoder-last-pipeline-num-layers 7");
  REQUIRE(ends.stages.size() == 4);
  CHECK(ends.stages[0].layers == 5);
  CHECK(ends.stages[1].layers == 10);
  CHECK(ends.stages[3].layers == 7);
  const auto sharded =
      megatron("--use-megatron-fsdp --data-parallel-sharding-strategy optim_grads_params");
  CHECK(sharded.degrees.zero == ZeroStage::Parameters);
  const auto copies =
      megatron("--use-distributed-optimizer --num-distributed-optimizer-instances 2");
  CHECK(copies.degrees.shard_group == 4);
  const auto block =
      megatron("--recompute-granularity full --recompute-method block --recompute-num-layers 3");
  CHECK(block.degrees.recompute == Recompute::Full);
  CHECK(block.degrees.recompute_layers == 3);
  CHECK(megatron("--checkpoint-activations").degrees.recompute == Recompute::Full);
  CHECK(megatron("--fp8-format hybrid --fp8-recipe blockwise --bf16").asked.fp8_recipe == "block");
}

TEST_CASE("launch files: a machine's nodes decide whether tensor messages could hide") {
  Typed typed;
  typed.node_gpus = 4;
  const std::string text =
      "torchrun --nproc-per-node 8 pretrain_gpt.py " +
      (kNetwork + std::string("--tensor-model-parallel-size 8 --sequence-parallel"));
  CHECK_FALSE(read("run.sh", text, typed).reading.asked.overlap);
  typed.node_gpus = 8;
  CHECK(read("run.sh", text, typed).reading.asked.overlap == "tensor=0");
}

TEST_CASE("launch files: the keys tell the framework") {
  CHECK(read("ds.json", R"({"train_batch_size": 64, "train_micro_batch_size_per_gpu": 4})",
             {.request = {.gpus = 8}})
            .target->name == "deepspeed");
  const auto titan = read(
      "run.toml", "[training]\nlocal_batch_size = 2\n[parallelism]\ntensor_parallel_degree = 2\n",
      {.request = {.gpus = 8}});
  CHECK(titan.target->name == "torchtitan-0.2");
  CHECK(titan.reading.degrees.data == 4);
  CHECK(titan.reading.degrees.zero == ZeroStage::Parameters);
  CHECK(titan.reading.degrees.recompute == Recompute::Selective);
  CHECK(titan.reading.asked.batch == 8);
}

TEST_CASE("launch files: layers of Galvatron's strategies") {
  const std::string start =
      R"({"pp_deg": 2, "tp_sizes_enc": "2,2,2,2", "tp_consecutive_flags": "1,1,1,1",
    "dp_types_enc": "0,0,0,0", "global_bsz": 16, "chunks": 4, "pp_division": "2,2", "default_dp_type": "zero2", "checkpoint": )";
  const auto part = read("g.json", start + "\"1,0,1,0\"}", {.request = {.gpus = 8}}).reading;
  CHECK(part.degrees.data == 2);
  CHECK(part.degrees.micro_batch == 2);
  CHECK(part.degrees.recompute_layers == 1);
  CHECK(part.degrees.zero == ZeroStage::Gradients);
  CHECK_THROWS_AS(read("g.json", start + "\"0,1,1,0\"}", {.request = {.gpus = 8}}), InputError);
}

}  // namespace
}  // namespace plansearch::importers::launch_files_test
