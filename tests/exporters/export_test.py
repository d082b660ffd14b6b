#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`plansearch export`: every key that is written read back, refusals, launch scripts, golden files.

  python3 tests/exporters/export_test.py --binary build/check/plansearch [ReadBack Refusals ...]
  python3 tests/exporters/export_test.py --binary build/check/plansearch --update   # golden files
"""

import argparse
import functools
import itertools
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
import unittest

import matrix_test
import plans
import readers
import shell

HERE = pathlib.Path(__file__).resolve().parent
SOURCE = HERE.parent.parent
BINARY = None
UPDATE = False
TARGETS = ["megatron", "deepspeed", "megatron-deepspeed", "torchtitan", "torchtitan-0.2",
           "nanotron", "accelerate", "axonn"]
SHELL_TARGETS = ["megatron", "megatron-deepspeed", "torchtitan", "axonn"]


def run(*arguments):
    return subprocess.run([BINARY, *map(str, arguments)], capture_output=True, text=True,
                          timeout=120, check=False)


def names(listing):
    return [row["name"] for row in json.loads(run("list", listing, "--format", "json").stdout)]


@functools.lru_cache
def parameters_of(model):
    answer = run("predict", "--hw", "dgx-h100", "--model", model, "--gpus", "8", "--batch", "8",
                 "--format", "json")
    return json.loads(answer.stdout)["question"]["parameters"]


class Case(unittest.TestCase):
    def setUp(self):
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="plansearch-export-"))
        self.addCleanup(shutil.rmtree, self.directory, ignore_errors=True)

    def export(self, plan, target, *arguments):
        result = run("export", plan, "--to", target, *arguments)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stdout

    def plan_file(self, plan):
        path = self.directory / "plan.yaml"
        path.write_text(plans.text_of(plan))
        return path


class ReadBack(Case):
    """20 drawn plans a target, each read back by a reader that knows nothing of plansearch."""

    def read(self, target, plan, text):
        world = plan["gpus"]
        nodes = max(1, world // plans.MACHINES[plan["hardware"]])
        if target in SHELL_TARGETS:
            started = shell.run_script(text, self.directory, nodes)[0]
            words = started["arguments"]
            self.assertEqual(words[:4], ["--nnodes", str(nodes), "--nproc-per-node",
                                         str(world // nodes)])
            last = next(i for i, word in enumerate(words)
                        if word in ("pretrain_gpt.py", "torchtitan.train"))
            words, environment = words[last + 1:], started["environment"]
            if target == "megatron":
                return readers.read_megatron(words, environment, world)
            if target == "torchtitan":
                return readers.read_torchtitan(words, world)
            if target == "axonn":
                return readers.read_axonn(words, environment, world)
            config = pathlib.Path(words[words.index("--deepspeed_config") + 1]).read_text()
            return readers.read_megatron_deepspeed(words, environment, world, config)
        return {"deepspeed": readers.read_deepspeed, "nanotron": readers.read_nanotron,
                "torchtitan-0.2": readers.read_torchtitan_toml,
                "accelerate": readers.read_accelerate}[target](text, world)

    def expected(self, target, plan):
        d = plan["degrees"]
        wanted = {key: value for key, value in plan.items() if key not in ("hardware", "framework")}
        del wanted["degrees"]
        wanted |= {"shard_group": 0, "recompute_layers": 0, "attention": "flash"} | d
        wanted["micro_batches"] = plan["batch"] // (d["dp"] * d.get("tp_z", 1) * d["micro_batch"])
        if d["dp"] * d["cp"] == 1:  # nothing to shard over
            wanted["zero"] = 0 if target not in ("torchtitan", "torchtitan-0.2", "accelerate") else d["zero"]
        if d["pp"] == 1:
            wanted["schedule"] = "1f1b"
        if target in ("megatron", "nanotron"):
            wanted["parameters"] = parameters_of(plan["model"])
        return wanted

    def check(self, target):
        seen, count = {}, 0
        for plan in plans.drawn(target):
            path = self.plan_file(plan)
            # Rules come and go; 20 of the 25 that were drawn must be left.
            launch = ("--launch", "torchrun") if target in SHELL_TARGETS else ()
            exported = run("export", path, "--to", target, *launch) if count < 20 else None
            if exported is None or exported.returncode != 0:
                continue
            count += 1
            back = self.read(target, plan, exported.stdout)
            wanted = self.expected(target, plan)
            for key in ("layers", "layers_per_stage"):
                self.check_layers(plan, key, back.pop(key, None))
            for key, value in back.items():
                self.assertEqual(value, wanted[key], (target, key, plans.text_of(plan)))
            missing = [key for key in wanted if key not in back]
            for key in missing:  # not said: must be what the target does anyway
                neutral = {"pp": 1, "vpp": 1, "tp": 1, "ep": 1, "etp": 1, "shard_group": 0,
                           "recompute_layers": 0,
                           "sp": plan["degrees"]["tp"] > 1 if target == "torchtitan-0.2" else False,
                           "schedule": "1f1b", "optimizer": "adam", "attention": "flash",
                           "model": plan["model"]}
                if key == "vpp" and plan["degrees"]["pp"] > 1 and target == "torchtitan":
                    continue  # decided by layers per stage, checked above
                self.assertIn(key, neutral, (target, plans.text_of(plan)))
                self.assertEqual(wanted[key], neutral[key], (target, key, plans.text_of(plan)))
            for key, value in wanted.items():
                seen.setdefault(key, set()).add(value)
        self.assertEqual(count, 20, f"too many plans of {target} are refused: draw them anew")
        return seen

    def check_layers(self, plan, key, value):
        if value is None:
            return
        _, layers, _ = plans.MODELS[plan["model"]]
        stages = plan["degrees"]["pp"] * plan["degrees"]["vpp"]
        if key == "layers":
            self.assertEqual(len(value), stages, plans.text_of(plan))
            self.assertEqual(sum(value), layers)
        elif value:
            self.assertEqual(-(-(layers + 2) // value), stages)
        else:
            self.assertEqual(plan["degrees"]["vpp"], 1)  # one stage a rank needs no key

    def check_spread(self, seen, **wanted):
        for key, values in wanted.items():
            self.assertLessEqual(set(values), seen[key], (key, seen[key]))

    def test_megatron(self):
        seen = self.check("megatron")
        self.check_spread(seen, zero=[0, 1, 2, 3], vpp=[1, 2], recompute=["none", "full", "selective"],
                          cp_kind=["ring", "ulysses"], sp=[True, False])
        self.assertTrue(seen["ep"] - {1})

    def test_axonn(self):
        seen = self.check("axonn")
        self.check_spread(seen, tp_x=[1, 2], tp_y=[1], tp_z=[1, 2, 4], pp=[1, 2], recompute=["none", "full"])

    def test_deepspeed(self):
        seen = self.check("deepspeed")
        self.check_spread(seen, zero=[0, 1, 2, 3], cp_kind=["ring", "ulysses"],
                          recompute=["none", "full"])

    def test_megatron_deepspeed(self):
        seen = self.check("megatron-deepspeed")
        self.check_spread(seen, zero=[0, 1], recompute=["none", "full"], pp=[1, 2])

    def test_torchtitan(self):
        seen = self.check("torchtitan")
        self.check_spread(seen, zero=[2, 3], recompute=["none", "full", "selective"], cp=[1, 2])
        self.assertTrue(seen["pp"] - {1})
        self.assertTrue(seen["ep"] - {1})

    def test_rings_are_asynchronous_tensor_parallelism(self):
        asked = ("--hw", "dgx-h100", "--model", "llama3-70b", "--gpus", "64", "--batch", "64", "--framework", "torchtitan-async-tp",
                 "--tp", "8", "--zero", "3", "--recompute", "selective")
        path = self.directory / "ring.yaml"
        for rings in (["--temporal", "ring"], []):
            written = run("predict", *asked, "--pp", "2", *rings, "--write-plan", path)
            self.assertEqual(written.returncode, 0, written.stderr)
            line = run("export", path, "--to", "torchtitan")
            self.assertEqual(line.returncode, 0, line.stderr)
            flags = ("--compile.enable", "--compile.enable_async_tensor_parallel")
            self.assertEqual([flag in line.stdout.split() for flag in flags], [bool(rings)] * 2)
            toml = run("export", path, "--to", "torchtitan-0.2")
            self.assertEqual(toml.returncode, 0, toml.stderr)
            read = readers.flat(tomllib.loads(toml.stdout))
            self.assertEqual([read.get(key) for key in ("compile.enable", "parallelism.enable_async_tensor_parallel")],
                             [True if rings else None] * 2)
        run("predict", *asked, "--temporal", "ring", "--write-plan", path)
        refused = run("export", path, "--to", "nanotron")
        self.assertEqual(refused.returncode, 4)
        self.assertIn("temporal ring (takes none)", refused.stderr)
        # Rings under some products are no flag of any target; written out under all they are the degree.
        ring = "cut: {%s: [t0]}, ring: {rows: sequence, factors: [t0]}"
        lines = [("query", "heads"), ("key", "kv_heads"), ("value", "kv_heads"), ("projection", "heads"), ("mlp_in", "ffn"), ("mlp_out", "ffn")]
        written = [f"    - {{operators: [{op}], blocks: [decoder], {ring % dim}}}\n" for op, dim in lines]
        degrees = path.read_text().replace("  temporal: ring\n", "") + "placements:\n  factors: [8]\n  operators:\n"
        path.write_text(degrees + "".join(written))
        self.assertEqual(run("export", path, "--to", "torchtitan").returncode, 0)
        path.write_text(degrees + "".join(written[:-1]))
        refused = run("export", path, "--to", "torchtitan")
        self.assertEqual(refused.returncode, 4)
        self.assertIn("placed one by one", refused.stderr)

    def test_torchtitan_toml(self):
        seen = self.check("torchtitan-0.2")
        self.check_spread(seen, zero=[2, 3], recompute=["none", "full", "selective"])
        self.assertTrue(seen["vpp"] - {1})

    def test_nanotron(self):
        seen = self.check("nanotron")
        self.check_spread(seen, zero=[0, 1], recompute=["none", "full"], sp=[True, False])

    def test_accelerate(self):
        seen = self.check("accelerate")
        self.check_spread(seen, zero=[2, 3], recompute=["none", "full"])
        self.assertTrue(seen["cp"] - {1})


class ByHand(Case):
    """Small files, written out by hand from the source of their readers."""

    def test_galvatron(self):
        path = self.plan_file({"hardware": "dgx-h100", "model": "llama3-8b", "framework": "megatron", "gpus": 32, "batch": 64,
                               "seq_len": 8192, "precision": "bf16",
                               "degrees": {"dp": 4, "tp": 2, "pp": 4, "sp": True, "zero": 0, "micro_batch": 2, "recompute": "full",
                                           "recompute_layers": 3}})
        text = json.loads(self.export(path, "galvatron"))
        self.assertIn("set in the training script: ", " ".join(text.pop("plansearch")))
        layers = 32
        self.assertEqual(text, {
            "pp_deg": 4, "tp_sizes_enc": ",".join(["2"] * layers), "tp_consecutive_flags": ",".join(["1"] * layers),
            "dp_types_enc": ",".join(["0"] * layers), "use_sp": ",".join(["0"] * layers), "cp_sizes_enc": ",".join(["1"] * layers),
            "checkpoint": ",".join((["1"] * 3 + ["0"] * 5) * 4), "global_bsz": 64, "chunks": 8, "pp_division": "8,8,8,8",
            "pipeline_type": "pipedream_flush", "default_dp_type": "ddp", "vtp": 2, "vsp": 0, "vcp": 1, "vocab_sdp": 0})
        path = self.plan_file(BASE | {"gpus": 32, "batch": 64, "degrees": {"dp": 8, "cp": 4, "cp_kind": "ulysses", "zero": 3, "micro_batch": 1}})
        text = json.loads(self.export(path, "galvatron"))
        self.assertEqual([text[key].split(",")[0] for key in ("tp_sizes_enc", "use_sp", "cp_sizes_enc")], ["4", "1", "1"])
        self.assertEqual([text[key] for key in ("default_dp_type", "vtp", "vsp", "vocab_sdp", "chunks")], ["zero3", 4, 1, 1, 8])
        plan = self.plan_file(BASE | {"degrees": {"dp": 32, "tp": 2, "zero": 1}})
        refused = run("export", plan, "--to", "galvatron")
        self.assertEqual(refused.returncode, 4)
        self.assertIn("zero 1 (takes 0, 2, 3)", refused.stderr)
        self.assertIn("sp 0 (takes 1)", run("export", self.plan_file(BASE | {"degrees": {"dp": 32, "tp": 2, "sp": False, "zero": 0}}),
                                            "--to", "galvatron").stderr)

    def test_megatron_bridge(self):
        path = self.plan_file(BASE | {"batch": 64, "degrees": {"dp": 4, "tp": 4, "pp": 4, "vpp": 2, "sp": True, "zero": 1, "micro_batch": 2,
                                                               "recompute": "full", "schedule": "interleaved"}})
        started = shell.run_script(self.export(path, "megatron-bridge", "--launch", "torchrun"), self.directory, 8)[0]["arguments"]
        words = started[started.index("scripts/training/run_recipe.py") + 1:]
        self.assertEqual(dict(word.split("=", 1) for word in words), {
            "model.tensor_model_parallel_size": "4", "model.sequence_parallel": "true", "model.pipeline_model_parallel_size": "4",
            "model.virtual_pipeline_model_parallel_size": "2", "model.pipeline_model_parallel_layout": "null",
            "model.context_parallel_size": "1", "model.recompute_granularity": "full", "model.recompute_method": "uniform",
            "model.recompute_num_layers": "1", "train.micro_batch_size": "2", "train.global_batch_size": "64",
            "dataset.seq_length": "8192", "ddp.use_distributed_optimizer": "true", "ddp.use_megatron_fsdp": "false",
            "ddp.num_distributed_optimizer_instances": "1", "ddp.overlap_grad_reduce": "true", "comm_overlap.overlap_grad_reduce": "true",
            "ddp.overlap_param_gather": "true", "comm_overlap.overlap_param_gather": "true", "comm_overlap.tp_comm_overlap": "true",
            "dist.use_tp_pp_dp_mapping": "false", "mixed_precision": "bf16_mixed"})

    def test_megatron_bridge_saves_sharded_parameters_in_their_own_format(self):
        for zero, kept in ((1, False), (3, True)):
            path = self.plan_file(BASE | {"batch": 64, "degrees": {"dp": 64, "zero": zero}})
            words = self.export(path, "megatron-bridge")
            self.assertEqual("checkpoint.ckpt_format=fsdp_dtensor" in words, kept)
            self.assertEqual("ddp.use_megatron_fsdp=true" in words, kept)

    def words_of(self, plan, target, nodes, *arguments):
        """What the program of a launch script gets, and its environment."""
        script = self.export(self.plan_file(plan), target, "--launch", "torchrun", *arguments)
        started = shell.run_script(script, self.directory, nodes)[0]
        return started["arguments"], started["environment"]

    def test_axolotl(self):
        lora = {"framework": "hf-trainer", "gpus": 16, "batch": 64, "seq_len": 4096, "lora_rank": 16, "lora_targets": "q,v,head",
                "base_precision": "nf4", "optimizer_states": "int8"}
        plan = BASE | lora | {"degrees": {"dp": 16, "zero": 3, "micro_batch": 1, "recompute": "full"}}
        read = readers.flat_yaml(self.export(self.plan_file(plan), "axolotl"))
        for placeholder in ("base_model", "datasets", "learning_rate", "max_steps", "output_dir", "lora_alpha", "fsdp_config.state_dict_type"):
            read.pop(placeholder)
        self.assertEqual(read, {
            "sequence_len": 4096, "micro_batch_size": 1, "gradient_accumulation_steps": 4, "dp_shard_size": 16,
            "tensor_parallel_size": 1, "context_parallel_size": 1, "fsdp_version": 2, "fsdp_config.reshard_after_forward": True,
            "fsdp_config.auto_wrap_policy": "TRANSFORMER_BASED_WRAP", "gradient_checkpointing": True,
            "gradient_checkpointing_kwargs.use_reentrant": False, "bf16": True, "fp16": False, "attn_implementation": "flash_attention_2",
            "optimizer": "adamw_torch_8bit", "adapter": "qlora", "lora_r": 16, "lora_target_modules": ["q_proj", "v_proj"],
            "lora_modules_to_save": ["lm_head"], "load_in_4bit": True})
        plan = BASE | {"framework": "any", "batch": 64, "attention": "flash", "degrees": {
            "dp": 8, "tp": 2, "cp": 4, "zero": 2, "shard_group": 4, "micro_batch": 1, "cp_kind": "all-gather", "sp": False}}
        read = readers.flat_yaml(self.export(self.plan_file(plan), "axolotl"))
        self.assertEqual([read[key] for key in ("dp_shard_size", "dp_replicate_size", "tensor_parallel_size", "context_parallel_size",
                                                "ring_attn_func", "fsdp_config.reshard_after_forward", "sample_packing")],
                         [4, 2, 2, 4, "varlen_llama3", False, True])
        words, _ = self.words_of(BASE | {"framework": "hf-trainer", "degrees": {"dp": 64, "zero": 0}}, "axolotl", 8)
        self.assertEqual(words[words.index("-m") + 1], "axolotl.cli.train")
        self.assertNotIn("fsdp", pathlib.Path(words[-1]).read_text())

    def test_packed_documents(self):
        """--packing is said by the targets that pack, by their own keys, and refused where they do not run it."""
        plan = BASE | {"framework": "hf-trainer", "gpus": 8, "batch": 64, "seq_len": 4096, "packing": "512x3+2048",
                       "degrees": {"dp": 8, "zero": 3, "micro_batch": 1, "recompute": "full"}}
        for target, keys in (("axolotl", ["sample_packing"]), ("llama-factory", ["packing", "neat_packing"])):
            read = readers.flat_yaml(self.export(self.plan_file(plan), target))
            self.assertEqual([read[key] for key in keys], [True] * len(keys))
            bare = {key: value for key, value in plan.items() if key != "packing"}
            read = readers.flat_yaml(self.export(self.plan_file(bare), target))
            self.assertFalse(set(keys) & set(read))
        megatron = BASE | {"batch": 64, "packing": "512", "degrees": {"dp": 64, "zero": 1, "micro_batch": 1}}
        words, _ = self.words_of(megatron, "ms-swift", 8)
        self.assertEqual(words[words.index("--packing") + 1], "true")
        several = plan | {"degrees": plan["degrees"] | {"micro_batch": 2}}
        pairs = plan | {"task": "dpo", "degrees": plan["degrees"] | {"micro_batch": 2}}
        ring = plan | {"framework": "any", "degrees": {"dp": 4, "cp": 2, "cp_kind": "ring", "zero": 3, "micro_batch": 1}}
        for refused, target, words in ((several, "llama-factory", "packed documents in several"),
                                       (pairs, "llama-factory", "packed documents outside supervised training"),
                                       (ring, "axolotl", "packed documents under ring attention"),
                                       (plan, "accelerate", "packing 512x3+2048")):
            result = run("export", self.plan_file(refused), "--to", target)
            self.assertEqual(result.returncode, 4, result.stderr)
            self.assertIn(words, result.stderr)

    def test_llama_factory(self):
        lora = {"framework": "hf-trainer", "gpus": 8, "batch": 64, "seq_len": 4096, "lora_rank": 8, "lora_targets": "all-linear",
                "base_precision": "int8"}
        plan = BASE | lora | {"degrees": {"dp": 8, "zero": 2, "micro_batch": 2, "recompute": "none"}}
        read = readers.flat_yaml(self.export(self.plan_file(plan), "llama-factory", "--checkpoints", "/data/run"))
        for placeholder in ("model_name_or_path", "stage", "do_train", "dataset", "template", "max_steps", "learning_rate"):
            read.pop(placeholder)
        self.assertEqual(read, {
            "cutoff_len": 4096, "per_device_train_batch_size": 2, "gradient_accumulation_steps": 4,
            "disable_gradient_checkpointing": True, "use_reentrant_gc": False, "fsdp": "shard_grad_op auto_wrap",
            "fsdp_config.version": 2, "fsdp_config.reshard_after_forward": False, "bf16": True, "fp16": False, "flash_attn": "fa2",
            "optim": "adamw_torch_fused", "finetuning_type": "lora", "lora_rank": 8, "lora_target": "all", "quantization_bit": 8,
            "output_dir": "/data/run", "save_steps": 500})
        refused = run("export", self.plan_file(BASE | {"framework": "any", "degrees": {"dp": 32, "tp": 2, "zero": 3}}), "--to",
                      "llama-factory")
        self.assertEqual(refused.returncode, 4)
        self.assertIn("tp 2 (takes 1)", refused.stderr)

    def test_swift(self):
        plan = BASE | {"model": "qwen3-30b-a3b", "batch": 64, "lora_rank": 8, "lora_targets": "attention", "degrees": {
            "dp": 8, "tp": 2, "pp": 4, "ep": 8, "sp": True, "zero": 1, "micro_batch": 1, "recompute": "full"}}
        words, environment = self.words_of(plan, "ms-swift", 8, "--checkpoints", "/data/run", "--save-every", "100")
        words = words[words.index("swift/cli/_megatron/sft.py") + 1:]
        flags = readers.flags_of(words, [word for word in words if word.startswith("--")])
        self.assertEqual(flags, {"--" + key: value for key, value in {
            "tensor_model_parallel_size": "2", "sequence_parallel": "true", "pipeline_model_parallel_size": "4", "context_parallel_size": "1",
            "expert_model_parallel_size": "8", "expert_tensor_parallel_size": "1", "moe_token_dispatcher_type": "alltoall",
            "micro_batch_size": "1", "global_batch_size": "64", "max_length": "8192", "recompute_granularity": "full",
            "recompute_method": "uniform", "recompute_num_layers": "1", "attention_backend": "flash", "optimizer": "adam",
            "use_distributed_optimizer": "true", "overlap_grad_reduce": "true", "overlap_param_gather": "true", "tp_comm_overlap": "true",
            "torch_dtype": "bfloat16", "tuner_type": "lora", "lora_rank": "8", "target_modules": ["linear_qkv", "linear_proj"],
            "model": "qwen3-30b-a3b", "output_dir": "/data/run", "add_version": "false", "save_steps": "100"}.items()})
        self.assertNotEqual(environment.get("CUDA_DEVICE_MAX_CONNECTIONS"), "32")

    def test_verl(self):
        plan = BASE | {"batch": 64, "degrees": {"dp": 4, "tp": 4, "pp": 4, "vpp": 2, "sp": True, "zero": 1, "micro_batch": 2,
                                                "schedule": "interleaved", "recompute": "selective"}}
        words, environment = self.words_of(plan, "verl", 8, "--offload", "optimizer")
        self.assertEqual(words[:3], ["-m", "verl.trainer.main_ppo", "--config-name=ppo_megatron_trainer"])
        keys = dict(word.split("=", 1) for word in words[3:])
        megatron = "actor_rollout_ref.actor.megatron."
        self.assertEqual({key[len(megatron):]: value for key, value in keys.items() if key.startswith(megatron)}, {
            "tensor_model_parallel_size": "4", "sequence_parallel": "true", "pipeline_model_parallel_size": "4",
            "virtual_pipeline_model_parallel_size": "2", "context_parallel_size": "1", "expert_model_parallel_size": "1",
            "expert_tensor_parallel_size": "1", "use_distributed_optimizer": "true", "dtype": "bfloat16",
            "override_transformer_config.recompute_granularity": "selective", "override_transformer_config.recompute_modules": "[core_attn]",
            "override_transformer_config.attention_backend": "flash"})
        self.assertEqual({key: value for key, value in keys.items() if key.startswith("+")}, {
            f"+{megatron}override_ddp_config.overlap_grad_reduce": "true", f"+{megatron}override_ddp_config.overlap_param_gather": "true",
            f"+{megatron}override_transformer_config.tp_comm_overlap": "true",
            "+actor_rollout_ref.actor.optim.override_optimizer_config.optimizer_cpu_offload": "true",
            "+actor_rollout_ref.actor.optim.override_optimizer_config.optimizer_offload_fraction": "1.0",
            "+actor_rollout_ref.actor.optim.override_optimizer_config.use_precision_aware_optimizer": "true"})
        self.assertEqual([keys[key] for key in ("actor_rollout_ref.actor.ppo_mini_batch_size", "trainer.nnodes", "trainer.n_gpus_per_node",
                                                "data.max_prompt_length", "data.max_response_length")], ["64", "8", "8", "4096", "4096"])
        plan = BASE | {"framework": "any", "batch": 64, "degrees": {"dp": 16, "cp": 4, "cp_kind": "ulysses", "zero": 3, "shard_group": 8,
                                                                     "micro_batch": 1, "recompute": "full"}}
        words, _ = self.words_of(plan, "verl-fsdp", 8)
        keys = dict(word.split("=", 1) for word in words[2:])
        self.assertEqual([keys[f"actor_rollout_ref.{key}"] for key in (
            "actor.strategy", "actor.fsdp_config.fsdp_size", "actor.fsdp_config.reshard_after_forward",
            "actor.ulysses_sequence_parallel_size", "model.enable_gradient_checkpointing")], ["fsdp2", "32", "true", "4", "true"])

    def test_maxtext(self):
        plan = BASE | {"model": "qwen3-30b-a3b", "framework": "maxtext", "batch": 128, "seq_len": 4096, "degrees": {
            "dp": 16, "tp": 2, "cp": 2, "ep": 4, "etp": 2, "zero": 3, "sp": True, "micro_batch": 2, "recompute": "selective",
            "cp_kind": "ring"}}
        words, environment = self.words_of(plan, "maxtext", 8)
        self.assertEqual(words[:3], ["-m", "maxtext.trainers.pre_train.train", "src/maxtext/configs/base.yml"])
        keys = dict(word.split("=", 1) for word in words[3:])
        # 8 GPUs a node: experts 4 and tensor 2 fill it; the others lie between nodes.
        sizes = {"expert": (4, 1), "tensor": (2, 1), "context": (1, 2), "fsdp": (1, 4), "pipeline": (1, 1), "data": (1, 1)}
        for axis, (inside, outside) in sizes.items():
            self.assertEqual((keys[f"ici_{axis}_parallelism"], keys[f"dcn_{axis}_parallelism"]), (str(inside), str(outside)), axis)
        # 128 sequences in 4 passes of 32 on 64 devices.
        self.assertEqual([keys[key] for key in ("gradient_accumulation_steps", "per_device_batch_size", "max_target_length", "remat_policy",
                                                "decoder_block", "num_experts", "num_experts_per_tok", "base_moe_mlp_dim", "use_qk_norm",
                                                "context_parallel_strategy")],
                         ["4", "0.5", "4096", "minimal", "qwen3_moe", "128", "8", "768", "true", "ring"])
        self.assertEqual([environment[key] for key in ("NNODES", "NODE_RANK", "JAX_COORDINATOR_IP")], ["8", "0", "node-a"])
        plan = BASE | {"framework": "maxtext", "batch": 64, "degrees": {"dp": 8, "pp": 8, "vpp": 2, "schedule": "breadth-first", "zero": 0,
                                                                       "micro_batch": 1, "recompute": "full"}}
        words, _ = self.words_of(plan, "maxtext", 8)
        keys = dict(word.split("=", 1) for word in words[3:])
        self.assertEqual([keys[key] for key in ("ici_data_parallelism", "ici_pipeline_parallelism", "dcn_data_parallelism",
                                                "num_layers_per_pipeline_stage", "num_pipeline_repeats", "num_pipeline_microbatches",
                                                "gradient_accumulation_steps", "per_device_batch_size")],
                         ["1", "8", "8", "2", "2", "8", "1", "1.0"])

    def test_kubernetes(self):
        """The job by its parts, and its script as Kubernetes hands it to bash."""
        plan = self.plan_file(BASE | {"gpus": 16, "batch": 64, "degrees": {"dp": 16, "zero": 1}})
        text = self.export(plan, "megatron", "--launch", "kubernetes", "--image", 'my/image:"x"', "--checkpoints", "/data/$(id)")
        job = readers.yaml_of(text)
        self.assertEqual((job["apiVersion"], job["kind"]), ("kubeflow.org/v1", "PyTorchJob"))
        self.assertRegex(job["metadata"]["name"], "^plan-[0-9a-f]{16}$")
        replicas = job["spec"]["pytorchReplicaSpecs"]
        self.assertEqual({kind: spec["replicas"] for kind, spec in replicas.items()}, {"Master": 1, "Worker": 1})
        container = replicas["Worker"]["template"]["spec"]["containers"][0]
        self.assertEqual((container["name"], container["image"], container["command"]), ("pytorch", 'my/image:"x"', ["bash", "-c"]))
        self.assertEqual(container["resources"]["limits"], {"nvidia.com/gpu": 8})
        # Kubernetes reads $$ as $ and would replace $(NAME).
        self.assertNotRegex(container["args"][0].replace("$$", ""), r"\$\(")
        script = container["args"][0].replace("$$", "$")
        started = shell.run_script(script, self.directory, 2, environment={"RANK": "1", "MASTER_ADDR": "node-a"})[0]
        words = started["arguments"]
        self.assertEqual(words[words.index("--node-rank") + 1], "1")
        self.assertEqual(words[words.index("--save") + 1], "/data/$(id)")

    def test_nnscaler(self):
        path = self.plan_file(BASE | {"framework": "nnscaler", "batch": 64,
                                      "degrees": {"dp": 16, "pp": 4, "vpp": 2, "zero": 1, "micro_batch": 1, "schedule": "interleaved"}})
        text = self.export(path, "nnscaler")
        read = readers.flat_yaml(text)
        self.assertEqual(read, {
            "compute_config.plan_ngpus": 4, "compute_config.runtime_ngpus": 64, "compute_config.use_end2end": True,
            "compute_config.use_zero": True, "compute_config.use_async_reducer": False,
            "compute_config.pas_config.pipeline_nstages": 8, "compute_config.pas_config.pp_size": 4,
            "compute_config.pas_config.pipeline_nmicros": 4, "compute_config.pas_config.pipeline_scheduler": "1f1b_interleaved",
            "pas_policy": "hybrid", "micro_batch_size": 1, "global_batch_size": 64, "grad_accumulation_steps": 4,
            "precision": "bf16"})
        path = self.plan_file(BASE | {"framework": "nnscaler", "batch": 128, "degrees": {"dp": 64, "zero": 0, "micro_batch": 2}})
        read = readers.flat_yaml(self.export(path, "nnscaler"))
        self.assertEqual((read["pas_policy"], read["compute_config.plan_ngpus"], read["micro_batch_size"]), ("dp", 1, 2))
        self.assertNotIn("compute_config.pas_config.pipeline_nstages", read)

    def test_adapters_on_latent_attention(self):
        """Megatron's own modules (multi_latent_attention.py), which are no linear_qkv; read back."""
        for model, gpus, queries in (("deepseek-v3", 128, ["linear_q_down_proj", "linear_q_up_proj"]), ("deepseek-v2-lite", 16, ["linear_q_proj"])):
            plan = self.directory / "lora.yaml"
            question = ("--hw", "dgx-h100", "--model", model, "--gpus", gpus)
            made = run("predict", *question, "--batch", "64", "--tp", "8" if gpus > 16 else "1", "--ep", "8", "--micro-batch", "1", "--framework",
                       "megatron", "--lora-rank", "16", "--lora-targets", "attention", "--write-plan", plan)
            self.assertTrue(plan.exists(), made.stderr)
            modules = [*queries, "linear_kv_down_proj", "linear_kv_up_proj", "linear_proj"]
            for target, said in (("ms-swift", " ".join(modules)), ("verl", ",".join(modules))):
                script = self.directory / "train.sh"
                script.write_text(self.export(plan, target, "--launch", "torchrun"))
                self.assertIn(said, script.read_text())
                back = run("import", script, *question)
                self.assertEqual(back.returncode, 0, back.stderr)
                words = [name.removeprefix("linear_").removesuffix("_proj") for name in queries]
                self.assertIn(f'lora_targets: "{",".join(words)},kv_down,kv_up,o"', back.stdout)
            plan.unlink()

    def test_alpa(self):
        """Stages over whole hosts, parts of one, and stages that differ; launched on a Ray cluster."""
        path = self.plan_file({"hardware": "aws-p3", "model": "gpt2-xl", "framework": "alpa", "gpus": 64, "batch": 1024, "precision": "fp16",
                               "degrees": {"dp": 16, "pp": 4, "zero": 1, "micro_batch": 2, "recompute": "full"}})
        read = readers.read_alpa(self.export(path, "alpa"))
        stages = read["ManualStageOption"]
        self.assertEqual(stages["forward_stage_layer_ids"], [list(range(at, at + 12)) for at in (0, 12, 24, 36)])
        self.assertEqual((stages["submesh_physical_shapes"], stages["submesh_logical_shapes"]), ([[2, 8]] * 4, [[16, 1]] * 4))
        self.assertEqual(stages["submesh_autosharding_option_dicts"], [{"force_batch_dim_to_mesh_dim": 0}] * 4)
        self.assertEqual(read["PipeshardParallel"]["num_micro_batches"], 32)  # 1024 / (16 * 2)
        self.assertEqual(read["PipeshardParallel"]["pipeline_schedule"], "1f1b")
        self.assertEqual((read["ManualLayerOption"], read["AutoShardingOption"]), ({"remat_layer": True}, {"prefer_reduce_scatter": True}))
        self.assertEqual(read["init"], {"cluster": "ray", "num_nodes": 8, "num_devices_per_node": 8})

        uneven = self.directory / "uneven.yaml"
        uneven.write_text(
            "schema: plansearch/plan/v1\nhardware: aws-p3\nmodel: gpt2-xl\nframework: alpa\nbatch: 256\nprecision: fp16\n"
            "order: {schedule: eager-1f1b, micro_batches: 64}\nstages:\n"
            "  - {layers: 5, dp: 2, zero: 1, recompute: full, first_rank: 12}\n  - {layers: 11, dp: 4, zero: 0, first_rank: 0}\n"
            "  - {layers: 14, dp: 4, zero: 1, first_rank: 4}\n  - {layers: 7, dp: 2, zero: 1, recompute: full, first_rank: 14}\n"
            "  - {layers: 11, dp: 4, zero: 1, recompute: full, first_rank: 8}\n")
        text = self.export(uneven, "alpa")
        self.assertIn("dp 2, 4, 4, 2, 4 by stage", text)
        self.assertIn("flax.linen.remat of layers 0 to 4, 30 to 36, 37 to 47", text)
        read = readers.read_alpa(text)
        stages = read["ManualStageOption"]
        self.assertEqual([len(ids) for ids in stages["forward_stage_layer_ids"]], [5, 11, 14, 7, 11])
        self.assertEqual(stages["submesh_physical_shapes"], [[1, 2], [1, 4], [1, 4], [1, 2], [1, 4]])
        self.assertEqual(stages["submesh_logical_shapes"], [[2, 1], [4, 1], [4, 1], [2, 1], [4, 1]])
        self.assertEqual([options.get("prefer_reduce_scatter") for options in stages["submesh_autosharding_option_dicts"]],
                         [None, False, None, None, None])
        self.assertEqual((read["PipeshardParallel"]["pipeline_schedule"], read["ManualLayerOption"]["remat_layer"]),
                         ("1f1b_overlap_friendly", False))
        refused = run("export", uneven, "--to", "megatron")
        self.assertEqual(refused.returncode, 4)
        self.assertIn("the stages differ in dp: 2, 4", refused.stderr)
        self.assertIn("--to alpa can express this one", refused.stderr)
        # Two stages of six devices do not lie in hosts of eight.
        gaps = self.directory / "gaps.yaml"
        gaps.write_text(
            "schema: plansearch/plan/v1\nhardware: aws-p3\nmodel: gpt2-xl\nframework: alpa\nbatch: 96\nprecision: fp16\n"
            "order: {schedule: 1f1b, micro_batches: 8}\nstages:\n"
            "  - {layers: 20, dp: 6}\n  - {layers: 20, dp: 6}\n  - {layers: 8, dp: 4}\n")
        refused = run("export", gaps, "--to", "alpa")
        self.assertEqual(refused.returncode, 4, refused.stderr)
        self.assertIn("submeshes that do not fill hosts", refused.stderr)
        started = shell.run_script(self.export(path, "alpa", "--launch", "slurm"), self.directory, 8)
        self.assertEqual(len(started), 1)  # the others join its cluster
        self.assertEqual((started[0]["program"], started[0]["arguments"][0]), ("python3", "train.py"))
        self.assertEqual(readers.read_alpa(pathlib.Path(started[0]["arguments"][1]).read_text())["PipeshardParallel"]["num_micro_batches"], 32)

    def test_pytorch_csv(self):
        degrees = {"dp": 16, "pp": 4, "zero": 0, "micro_batch": 1}
        path = self.plan_file(BASE | {"batch": 64, "degrees": degrees})
        self.assertEqual(self.export(path, "pytorch-csv").split(), [
            "0F0,0F1,0F2,0F3,0B0,0B1,0B2,0B3", "1F0,1F1,1F2,1B0,1F3,1B1,1B2,1B3",
            "2F0,2F1,2B0,2F2,2B1,2F3,2B2,2B3", "3F0,3B0,3F1,3B1,3F2,3B2,3F3,3B3"])
        for schedule, framework, vpp in (("interleaved", "megatron", 2), ("zb-v", "torchtitan", 2), ("dualpipe-v", "torchtitan", 2),
                                         ("breadth-first", "torchtitan", 4)):
            path = self.plan_file(BASE | {"framework": framework, "batch": 256, "degrees": degrees | {
                "vpp": vpp, "schedule": schedule, "zero": 2 if framework == "torchtitan" else 0}})
            rows = self.export(path, "pytorch-csv").split()
            self.assertEqual(len(rows), 4)
            # As _validate_schedule counts: every stage on one rank, every micro-batch forward and backward on it.
            where, done = {}, {}
            for rank, row in enumerate(rows):
                for stage, kind, micro_batch in re.findall(r"(\d+)([FBIW])(\d+)", row):
                    self.assertEqual(where.setdefault(stage, rank), rank)
                    done.setdefault((stage, micro_batch), []).append(kind)
            self.assertEqual(len(where), 4 * vpp)
            self.assertEqual(len(done), 4 * vpp * 16)
            self.assertTrue(all("".join(kinds) in ("FB", "FIW") for kinds in done.values()))
        for degrees, words in (({"dp": 64}, "one pipeline stage"), ({"dp": 16, "pp": 4, "schedule": "zb-auto"}, "an order made for the times"),
                               ({"dp": 16, "pp": 4, "schedule": "dualpipe"}, "two copies of the network")):
            path = self.plan_file(BASE | {"framework": "any", "batch": 256, "degrees": degrees | {"zero": 0, "micro_batch": 1}})
            refused = run("export", path, "--to", "pytorch-csv")
            self.assertEqual(refused.returncode, 4, refused.stderr)
            self.assertIn(words, refused.stderr)


BASE = {"hardware": "dgx-h100", "model": "llama3-8b", "framework": "megatron", "gpus": 64,
        "batch": 512, "seq_len": 8192, "precision": "bf16"}


# What a shell, YAML or TOML would run or end a text at.
HOSTILE = "it's $(touch pwned) `touch pwned` \"; touch pwned; ' #\\$HOME"


class Hybrids(Case):
    """Layers that differ one by one, as Megatron-LM's pattern: its own allocation takes it apart."""

    # Letters that the published configurations themselves have, or the layers that they list.
    CASES = (
        ("nemotron-3-nano-30b-a3b", None, {"ep": 8}),
        ("nemotron-h-56b-base-8k", None, {"tp": 8, "pp": 2}),
        ("qwen3.5-27b", "G-G-G-*-" * 16, {"tp": 4, "pp": 4}),
        ("qwen3-next-80b-a3b", "GEGEGE*E" * 12, {"pp": 4, "vpp": 2, "ep": 8}),
        ("granite-4.0-h-tiny", ("ME" * 5 + "*E" + "ME" * 4) * 4, {}),
        ("bamba-9b", None, {}),
    )

    def words(self, text):
        """The array of arguments as flags and values."""
        listed = re.search(r"(?s)MEGATRON_ARGS=\((.*?)\n\)", text)[1]
        words = subprocess.run(["bash", "-c", f'A=({listed}\n); printf "%s\\n" "${{A[@]}}"'], capture_output=True, text=True,
                               check=True).stdout.splitlines()
        flags, name = {}, None
        for word in words:
            if word.startswith("--"):
                name = word
                flags[name] = True
            else:
                flags[name] = word if flags[name] is True else f"{flags[name]} {word}"
        trial = re.search(r"--vocab-size (\d+)", text)
        return flags | ({"--vocab-size": trial[1]} if trial else {})

    def published(self, model):
        config = json.loads((SOURCE / f"tests/data/families/{model}.json").read_text())
        if "hybrid_override_pattern" in config:
            return config["hybrid_override_pattern"]
        return "".join("*-" if i in config["attn_layer_indices"] else "M-" for i in range(config["num_hidden_layers"]))

    def test_patterns(self):
        for model, letters, degrees in self.CASES:
            with self.subTest(model):
                d = {"pp": 1, "vpp": 1, "tp": 1} | degrees
                d |= {"dp": 64 // (d["tp"] * d["pp"]), "micro_batch": 1, "zero": 1}
                if d["vpp"] > 1:
                    d["schedule"] = "interleaved"
                plan = self.plan_file(BASE | {"model": model, "seq_len": 4096, "degrees": d})
                text = self.export(plan, "megatron", "--launch", "torchrun")
                self.assertIn("pretrain_hybrid.py", text)
                self.assertIn("--spec megatron.core.models.hybrid.hybrid_layer_specs hybrid_stack_spec", text)
                flags = self.words(text)
                for other in ("--num-layers", "--pipeline-model-parallel-layout", "--num-layers-per-virtual-pipeline-stage",
                              "--moe-layer-freq"):
                    self.assertNotIn(other, flags)
                pattern = flags["--hybrid-layer-pattern"]
                ranks, modules = readers.hybrid_stages(pattern, d["pp"])
                self.assertEqual([len(chunks) for chunks in ranks], [d["vpp"]] * d["pp"])
                self.assertEqual(modules, [])
                joined = "".join(ranks[rank][chunk] for chunk in range(d["vpp"]) for rank in range(d["pp"]))
                self.assertEqual(joined, letters or self.published(model))
                self.assertEqual(readers.hybrid_parameters(flags), parameters_of(model))
                script, back = self.directory / "launch.sh", self.directory / "back.yaml"
                script.write_text(text)
                again = run("import", script, "--hw", "dgx-h100", "--out", back)
                self.assertEqual(again.returncode, 0, again.stderr)
                self.assertIn(f'model: "{model}"', back.read_text())
                both = [json.loads(run("predict", "--plan", path, "--format", "json").stdout)["plans"][0] for path in (plan, back)]
                self.assertEqual(both[0]["step_time_s"], both[1]["step_time_s"])

    def test_prediction_modules(self):
        config = json.loads((SOURCE / "tests/data/families/nemotron-3-nano-30b-a3b.json").read_text())
        self.assertEqual(readers.hybrid_stages("M*|-E/*E/*E", 2), ([["M*"], ["-E"]], ["*E", "*E"]))
        plan = self.plan_file(BASE | {"model": "nemotron-3-nano-30b-a3b", "seq_len": 4096, "degrees": {"dp": 64, "ep": 8}})
        flags = self.words(self.export(plan, "megatron", "--set", "model.mtp_layers=1"))
        self.assertEqual(flags["--hybrid-layer-pattern"], config["hybrid_override_pattern"] + "/E")

    def test_what_is_refused(self):
        listed = "layers that differ one by one"
        pattern = "more than Megatron-LM's pattern has letters for"
        for target, model, words in (
                ("nanotron", "nemotron-3-nano-30b-a3b", listed), ("axonn", "nemotron-3-nano-30b-a3b", listed),
                ("maxtext", "nemotron-3-nano-30b-a3b", listed), ("megatron-deepspeed", "nemotron-3-nano-30b-a3b", listed),
                ("nanotron", "qwen3.5-27b", "a gate on attention"), ("axonn", "qwen3.5-27b", listed),
                ("maxtext", "qwen3-next-80b-a3b", "a gate on attention"), ("megatron-deepspeed", "qwen3.5-27b", listed),
                ("nanotron", "granite-4.0-h-tiny", listed), ("maxtext", "bamba-9b", listed),
                ("megatron", "falcon-h1-0.5b", pattern), ("megatron", "jamba-v0.1", pattern),
                ("megatron", "kimi-linear-48b-a3b", pattern), ("megatron", "minimax-text-01", pattern),
                ("megatron", "lfm2-1.2b", pattern), ("megatron", "llama-3.3-nemotron-super-49b", pattern),
                ("megatron", "step-3.7-flash", "a gate a head"), ("megatron", "glm-5.2", "keys that an indexer chooses"),
                ("megatron", "deepseek-v3.2", "keys that an indexer chooses"),
                ("megatron", "deepseek-v4-pro", "a residual of several streams")):
            with self.subTest(f"{target} {model}"):
                plan = self.plan_file(BASE | {"model": model, "seq_len": 4096, "framework": "any", "degrees": {"dp": 64}})
                result = run("export", plan, "--to", target)
                self.assertEqual(result.returncode, 4, result.stdout + result.stderr)
                self.assertIn(words, result.stderr)


class Refusals(Case):
    """Exit code 4, nothing on standard output, every setting that cannot be expressed named."""

    def refuse(self, target, expect, **changes):
        degrees = changes.pop("degrees", {})
        path = self.plan_file(BASE | changes | {"degrees": degrees})
        result = run("export", path, "--to", target)
        self.assertEqual(result.returncode, 4, (result.stdout, result.stderr))
        self.assertEqual(result.stdout, "")
        self.assertIn(f"error: {target} cannot express this plan: ", result.stderr)
        self.assertIn("hint: ", result.stderr)
        for text in expect:
            self.assertIn(text, result.stderr)
        return result.stderr

    def test_every_setting_is_named(self):
        self.refuse("nanotron", ["zero 3 (takes 0, 1)", "recompute selective (takes none, full)", "--to megatron"],
                    degrees={"zero": 3, "recompute": "selective"}, attention="unfused")
        self.assertIn("plansearch --target nanotron", self.refuse("nanotron", ["zero 3 (takes 0, 1)"], degrees={"zero": 3}))

    def exported(self, source, target):
        """Whether a file is written; otherwise a refusal that says what stands in the way, never an internal error."""
        result = run("export", source, "--to", target)
        self.assertIn(result.returncode, (0, 4), result.stderr)
        self.assertNotIn("internal", result.stderr)
        self.assertTrue(result.returncode == 0 or "hint: " in result.stderr)
        return result.returncode == 0

    def test_plans_of_every_framework_to_every_target(self):
        frameworks = names("frameworks")
        targets = [name for name in names("exporters") if name != "chakra"]  # takes what is priced: trace_test.py
        self.assertGreater(len(frameworks) * len(targets), 100)
        rows = []
        for framework in frameworks:
            cells = []
            for hardware, model, gpus in (("perlmutter", "gpt2-medium", 8), ("dgx-h100", "llama3-8b", 16)):
                question = ("--hw", hardware, "--model", model, "--gpus", gpus, "--framework", framework)
                answer = self.directory / f"{framework}-{model}.json"
                run("search", *question, "--top", "1", "--format", "json", "--out", answer)
                found = json.loads(answer.read_text())["plans"]
                taken = [target for target in targets if found and self.exported(f"{answer}#1", target)]
                cells.append(", ".join(taken) or ("none" if found else "(no plan fits)"))
                # A grid of tensor ranks, where the framework has one.
                grid = self.directory / f"{framework}.yaml"
                run("predict", *question, "--tp-x", "2", "--tp-y", "2", "--write-plan", grid)
                if grid.exists():
                    for target in targets:
                        self.exported(grid, target)
            rows.append(f"| `{framework}` | {cells[0]} | {cells[1]} |")
        page = SOURCE / "docs" / "export.md"
        text = page.read_text()
        head, table, tail = re.fullmatch(r"(?s)(.*\| plan 1 of \|[^\n]*\n[^\n]*\n)(.*?)(\n\n.*)", text).groups()
        if UPDATE:
            page.write_text(head + "\n".join(rows) + tail)
        else:
            self.assertEqual(table, "\n".join(rows), "docs/export.md: if this is meant, run with --update")

    def test_chunks(self):
        self.refuse("nanotron", ["vpp 2 (takes 1)", "schedule interleaved"],
                    degrees={"pp": 4, "vpp": 2})

    def test_tensor_parallelism_in_deepspeed(self):
        self.refuse("deepspeed", ["tp 4 (takes 1)", "--to megatron-deepspeed"],
                    degrees={"tp": 4, "zero": 1})

    def test_pipeline_in_accelerate(self):
        self.refuse("accelerate", ["pp 2 (takes 1)", "zero 1 (takes 2, 3)"],
                    degrees={"pp": 2, "zero": 1})

    def test_rank_order(self):
        self.refuse("nanotron", ["rank_order tp-pp-dp (takes tp-cp-dp-pp)"], rank_order="tp-cp-pp-dp",
                    degrees={"tp": 2, "pp": 2, "zero": 0})
        self.refuse("megatron", ["rank_order dp-tp (takes tp-cp-dp-pp, tp-cp-pp-dp)"],
                    rank_order="cp-dp-tp-pp", degrees={"tp": 2, "zero": 0})

    def test_grid_of_tensor_axes(self):
        self.refuse("megatron", ["tp_x 2 (takes 1)", "tp_z 2 (takes 1)"], framework="axonn",
                    degrees={"tp_x": 2, "tp_y": 2, "tp_z": 2})

    def test_what_a_grid_hides(self):
        """AxoNN hides the messages of the depth axis beside all-reduces or not at all; what it lacks has a name."""
        grid = {"framework": "axonn", "model": "gpt3-175b", "gpus": 64, "batch": 64, "seq_len": 2048}
        path = self.plan_file(BASE | grid | {"degrees": {"tp_x": 2, "tp_y": 8, "tp_z": 4, "recompute": "full"}})
        for overlap, flags in (("tensor,grad,param", ["comm", "reduce-scatter", "all-gather"]),
                               ("tensor", ["comm"]), ("tensor,param", ["comm", "all-gather"]), ("none", [])):
            text = self.export(path, "axonn", "--overlap", overlap)
            self.assertEqual(re.findall(r"--overlap-axonn-(\S+)", text), flags, overlap)
        self.refuse("axonn", ["linear layers without a bias"], framework="axonn",
                    degrees={"tp_x": 2, "tp_y": 2, "tp_z": 2})

    def test_kind_of_context_parallelism(self):
        self.refuse("torchtitan", ["cp_kind ulysses (takes ring)", "zero 1 (takes 2, 3)"],
                    degrees={"cp": 2, "cp_kind": "ulysses", "zero": 1})
        self.refuse("megatron-deepspeed",
                    ["sequence parallelism (Ulysses) runs without tensor parallelism"],
                    model="llama2-7b", seq_len=4096,
                    degrees={"cp": 2, "cp_kind": "ulysses", "tp": 2})

    def test_precision(self):
        self.refuse("accelerate", ["precision fp8 (takes bf16, fp16, fp32)"], precision="fp8",
                    degrees={"zero": 3})

    def test_optimizer(self):
        self.refuse("megatron", ["optimizer adafactor (takes adam, sgd, muon)"],
                    optimizer="adafactor")

    def test_architecture(self):
        self.refuse("megatron", ["gemma2-9b has norms elsewhere than before each sublayer"],
                    model="gemma2-9b")
        self.refuse("nanotron", ["mixtral-8x7b has experts"], model="mixtral-8x7b",
                    degrees={"zero": 1})
        self.refuse("megatron", ["bert-large has an encoder"], model="bert-large", seq_len=512)

    def test_layers(self):
        # torchtitan's command line splits 32 layers over two stages itself: 16 and 16.
        path = self.directory / "plan.yaml"
        path.write_text(
            "schema: plansearch/plan/v1\nhardware: dgx-h100\nmodel: llama3-8b\n"
            "framework: torchtitan\nbatch: 64\nseq_len: 8192\n"
            "order: {schedule: 1f1b, micro_batches: 8}\nstages:\n"
            "  - {layers: 20, dp: 8, zero: 3}\n  - {layers: 12, dp: 8, zero: 3}\n")
        result = run("export", path, "--to", "torchtitan")
        self.assertEqual(result.returncode, 4, result.stderr)
        self.assertIn("layers uneven (takes its own split)", result.stderr)
        self.assertIn("--to torchtitan-0.2", result.stderr)
        result = run("export", path, "--to", "torchtitan-0.2")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(readers.read_torchtitan_toml(result.stdout, 16)["layers"], [20, 12])
        path.write_text(path.read_text().replace("zero: 3", "zero: 1")
                        .replace("framework: torchtitan", "framework: megatron"))
        words = self.export(path, "megatron")
        self.assertIn("--pipeline-model-parallel-layout 'Et*20|t*12L'", words)

    def test_stages_that_differ(self):
        path = self.directory / "plan.yaml"
        path.write_text(
            "schema: plansearch/plan/v1\nhardware: dgx-h100\nmodel: llama3-8b\nbatch: 64\n"
            "seq_len: 8192\norder: {schedule: 1f1b, micro_batches: 8}\nstages:\n"
            "  - {layers: 16, dp: 8, recompute: full}\n  - {layers: 16, dp: 8}\n")
        result = run("export", path, "--to", "megatron")
        self.assertEqual(result.returncode, 4, result.stderr)
        self.assertIn("the stages differ in recompute: full, none", result.stderr)

    def test_usage(self):
        path = self.plan_file(BASE | {"degrees": {}})
        for arguments, text in ((("--to", "jax"), "jax"), ((), "--to is missing"),
                                (("--to", "megatron", "--launch", "pbs"), "slurm, torchrun")):
            result = run("export", path, *arguments)
            self.assertEqual(result.returncode, 2, result.stderr)
            self.assertIn("error:", result.stderr)
            self.assertIn(text, result.stderr)
        result = run("export", self.directory / "none.yaml", "--to", "megatron")
        self.assertEqual(result.returncode, 2, result.stderr)


class Defaults(Case):
    """The default answer of every shipped model goes to the framework it was priced for, or the refusal names the field."""

    def test_every_shipped_model(self):
        written = 0
        for model in names("models"):
            with self.subTest(model=model):
                answer = self.directory / "answer.json"
                # The largest do not fit on 64; layers of Swin with 27 B parameters are too large for one GPU.
                for size in (["64"], ["4096"], ["256", "--framework", "megatron"]):
                    found = run("--hw", "dgx-h100", "--model", model, "--top", "1", "--format", "json", "--out", answer, "--quiet",
                                "--gpus", *size)
                    if found.returncode == 0:
                        break
                self.assertEqual(found.returncode, 0, found.stderr)
                framework = json.loads(answer.read_text())["question"]["framework"]
                target = "accelerate" if framework == "fsdp2" else framework
                result = run("export", f"{answer}#1", "--to", target)
                self.assertIn(result.returncode, (0, 4), result.stderr)
                written += result.returncode == 0
                if result.returncode == 0:
                    continue
                error = result.stderr.splitlines()[0]
                self.assertTrue(error.startswith(f"error: {target} cannot express this plan: "), error)
                for reason in error.split("this plan: ")[1].replace("images; only", "images, only").split("; "):
                    self.assertRegex(reason, rf"^({re.escape(model)} has .*\([a-z_]+[a-z_., ]*\)|\w+ \S+ \(takes .*\))$")
        self.assertGreaterEqual(written, 45)

    def test_a_release_is_its_framework(self):
        answer = self.directory / "answer.json"
        for machine, framework in (("dgx-b200", "megatron-2026"), ("dgx-h100", "megatron")):
            run("--hw", machine, "--model", "llama3-8b", "--gpus", "8", "--zero", "1", "--top", "1", "--format", "json", "--out", answer, "--quiet")
            self.assertEqual(json.loads(answer.read_text())["question"]["framework"], framework)
            for target in ("megatron", "megatron-bridge", "verl"):
                result = run("export", f"{answer}#1", "--to", target)
                self.assertEqual(result.returncode, 0, result.stderr)
                self.assertNotIn("predicted as", result.stderr)


class Launch(Case):
    """Launch scripts run with stand-ins for srun, torchrun and accelerate."""

    def script(self, target, launcher, **changes):
        degrees = changes.pop("degrees", {})
        path = self.plan_file(BASE | changes | {"degrees": degrees})
        return self.export(path, target, "--launch", launcher)

    def test_slurm(self):
        script = self.script("megatron", "slurm", gpus=16, degrees={"tp": 4, "zero": 1})
        for line in ("#SBATCH --nodes=2", "#SBATCH --gpus-per-node=8", "#SBATCH --ntasks-per-node=1",
                     "#SBATCH --distribution=block"):
            self.assertIn(line, script)
        started = shell.run_script(script, self.directory, 2)
        self.assertEqual(len(started), 2)
        for node, process in enumerate(started):
            # torchrun numbers ranks by node: node 1 holds 8 to 15, as the plan was priced.
            self.assertEqual(process["arguments"][:11],
                             ["--nnodes", "2", "--nproc-per-node", "8", "--node-rank", str(node),
                              "--master-addr", "node-a", "--master-port", "29500",
                              "pretrain_gpt.py"])
            self.assertEqual(process["environment"]["CUDA_DEVICE_MAX_CONNECTIONS"], "1")
            self.assertIn("--mock-data", process["arguments"])

    def test_wrong_number_of_nodes(self):
        script = self.script("megatron", "slurm", gpus=16, degrees={"zero": 1})
        with self.assertRaisesRegex(AssertionError, "the plan needs 2 nodes"):
            shell.run_script(script, self.directory, 3)

    def test_own_arguments(self):
        script = self.script("megatron", "torchrun", gpus=8, degrees={"zero": 1})
        words = shell.run_script(script, self.directory, 1, ["--data-path", "a b"])[0]["arguments"]
        self.assertEqual(words[-2:], ["--data-path", "a b"])
        self.assertNotIn("--mock-data", words)
        script = self.script("torchtitan", "torchrun", gpus=8, framework="torchtitan",
                             degrees={"zero": 3, "recompute": "none"})
        words = shell.run_script(script, self.directory, 1, ["--training.steps", "5"])[0]["arguments"]
        self.assertEqual(words[-1], "activation-checkpoint:none")
        self.assertIn("--training.steps", words)

    def test_accelerate(self):
        script = self.script("accelerate", "slurm", gpus=16, framework="fsdp", batch=64,
                             degrees={"zero": 3, "micro_batch": 2})
        started = shell.run_script(script, self.directory, 2)
        self.assertEqual([p["program"] for p in started], ["accelerate", "accelerate"])
        self.assertEqual(started[1]["arguments"][:2], ["launch", "--config_file"])
        self.assertIn("--machine_rank", started[1]["arguments"])
        self.assertEqual(started[0]["environment"]["ACCELERATE_GRADIENT_ACCUMULATION_STEPS"], "2")
        config = pathlib.Path(started[0]["arguments"][2]).read_text()
        self.assertEqual(readers.read_accelerate(config, 16)["dp"], 16)

    def test_files_of_the_others(self):
        for target, framework, flag in (("deepspeed", "deepspeed", "--deepspeed_config"),
                                        ("nanotron", "nanotron", "--config-file"),
                                        ("torchtitan-0.2", "torchtitan", "--job.config_file")):
            zero = 3 if framework == "torchtitan" else 1
            for launcher in ("slurm", "torchrun"):
                script = self.script(target, launcher, framework=framework, gpus=16,
                                     degrees={"zero": zero})
                started = shell.run_script(script, self.directory, 2)
                words = started[0]["arguments"]
                config = pathlib.Path(words[words.index(flag) + 1])
                self.assertTrue(config.read_text(), target)

    def test_what_a_job_asks_for(self):
        script = self.script("megatron", "slurm", gpus=16, hardware="perlmutter", degrees={"zero": 1})
        self.assertIn("#SBATCH --requeue\n", script)
        started = shell.run_script(script, self.directory, 4)
        self.assertEqual(started[0]["environment"]["NCCL_NET"], "AWS Libfabric")  # Slingshot
        started = shell.run_script(script, self.directory, 4, environment={"NCCL_NET": "IB"})
        self.assertEqual(started[0]["environment"]["NCCL_NET"], "IB")  # what the site says wins
        plan = self.plan_file(BASE | {"gpus": 16, "degrees": {"zero": 1}})
        script = self.export(plan, "megatron", "--launch", "slurm", "--sbatch", "time=1-00:00:00", "--sbatch", "constraint=hbm80g",
                             "--checkpoints", "/data/it's $(touch pwned) `id`", "--save-every", "250")
        self.assertIn("#SBATCH --time=1-00:00:00\n#SBATCH --constraint=hbm80g\n", script)
        words = shell.run_script(script, self.directory, 2)[0]["arguments"]
        for flag in ("--save", "--load"):
            self.assertEqual(words[words.index(flag) + 1], "/data/it's $(touch pwned) `id`")
        self.assertEqual(words[words.index("--save-interval") + 1], "250")
        self.assertFalse((self.directory / "pwned").exists())
        for wrong, text in ((["--launch", "slurm", "--sbatch", "time=1\n#SBATCH --uid=0"], "line of sbatch"),
                            (["--launch", "slurm", "--sbatch", "--wrap=id"], "not OPTION=VALUE"), (["--sbatch", "time=1"], "add --launch slurm"),
                            (["--launch", "kubernetes", "--image", "a\nb"], "line break"), (["--launch", "slurm", "--image", "x"], "--launch kubernetes"),
                            (["--save-every", "5"], "--checkpoints")):
            refused = run("export", plan, "--to", "megatron", *wrong)
            self.assertEqual((refused.returncode, refused.stdout), (2, ""), refused.stderr)
            self.assertIn(text, refused.stderr)
        refused = run("export", self.plan_file(BASE | {"framework": "axonn", "model": "gpt3-175b", "seq_len": 2048, "degrees": {"tp_x": 2, "tp_y": 4}}),
                      "--to", "axonn", "--checkpoints", "/data")
        self.assertEqual(refused.returncode, 4)
        self.assertIn("checkpoints /data", refused.stderr)

    def test_ray_on_every_node(self):
        script = self.script("verl", "slurm", gpus=16, batch=64, degrees={"zero": 1})
        started = shell.run_script(script, self.directory, 2)
        self.assertEqual([(one["program"], one["arguments"][:2]) for one in started], [("python3", ["-m", "verl.trainer.main_ppo"])])

    def test_names_cannot_leave_their_comment(self):
        model = self.directory / "model.yaml"
        text = (SOURCE / "models" / "llama3-8b.yaml").read_text()
        model.write_text(re.sub(r"(?m)^name: .*$", r'name: "evil\\n$(touch pwned)"', text))
        self.assertEqual(run("show", "model", model).returncode, 2)  # a name is one line
        model.write_text(re.sub(r"(?m)^name: .*$", 'name: "evil $(touch pwned) `touch pwned`"', text))
        script = self.script("megatron", "torchrun", model=str(model), gpus=8, degrees={"zero": 1})
        shell.run_script(script, self.directory, 1)
        self.assertFalse((self.directory / "pwned").exists())

    def test_no_name_is_executed(self):
        """Every target by every launcher, with names of files, networks and folders that a shell would run."""
        folder = self.directory / HOSTILE.replace("/", "")
        folder.mkdir()
        model = folder / "net.yaml"
        text = (SOURCE / "models" / "llama3-8b.yaml").read_text()
        model.write_text(re.sub(r"(?m)^name: .*$", lambda _: "name: " + json.dumps(HOSTILE), text))
        ran = 0
        for target, (framework, _) in matrix_test.TARGETS.items():
            plan = folder / f"{target}.yaml"
            made = run("predict", "--hw", "dgx-h100", "--model", model, "--gpus", 16, "--batch", 64, "--framework", framework,
                       "--write-plan", plan, "--quiet")
            self.assertTrue(plan.exists(), made.stderr)
            for launcher, checkpoints in itertools.product(("torchrun", "slurm", "kubernetes"), ((), ("--checkpoints", HOSTILE))):
                with self.subTest(target, launcher=launcher, checkpoints=bool(checkpoints)):
                    exported = run("export", plan, "--to", target, "--launch", launcher, *checkpoints)
                    self.assertIn(exported.returncode, (0, 4))  # 4: no word for checkpoints, or for this plan
                    if exported.returncode == 0:
                        self.run_hostile(exported, launcher, checkpoints)
                        ran += 1
        self.assertGreater(ran, 70)

    def run_hostile(self, exported, launcher, checkpoints):
        script, place = exported.stdout, {}
        if launcher == "kubernetes":
            replicas = readers.yaml_of(script)["spec"]["pytorchReplicaSpecs"]
            script = replicas["Worker"]["template"]["spec"]["containers"][0]["args"][0].replace("$$", "$")
            place = {"RANK": "0", "MASTER_ADDR": "node-a"}
        started = shell.run_script(script, self.directory, 2, environment=place)
        self.assertTrue(started)
        self.assertEqual([path.name for path in self.directory.rglob("pwned")], [])
        if checkpoints:
            files = "".join(path.read_text() for path in self.directory.iterdir() if path.suffix in (".yaml", ".toml", ".json"))
            self.assertIn("$(touch pwned)", "".join(started[0]["arguments"]) + files)


GOLDEN = {
    "megatron-llama3-70b": ("megatron", None, {"model": "llama3-70b", "gpus": 512, "batch": 1024}, {
        "tp": 8, "sp": True, "pp": 4, "vpp": 4, "zero": 1, "recompute": "full"}),
    "megatron-405b-uneven": ("megatron", None, {"model": "llama3.1-405b", "gpus": 1024, "batch": 512}, {
        "tp": 8, "sp": True, "pp": 16, "zero": 1}),
    "megatron-deepseek-v3": ("megatron", "slurm", {"model": "deepseek-v3", "gpus": 1024, "batch": 2048,
                                                   "seq_len": 4096, "precision": "fp8"}, {
        "pp": 16, "ep": 64, "zero": 1, "recompute": "full"}),
    "deepspeed-llama3-8b": ("deepspeed", None, {"framework": "deepspeed"}, {"zero": 3}),
    "megatron-deepspeed-gpt3": ("megatron-deepspeed", None, {
        "framework": "megatron-deepspeed", "model": "gpt3-175b", "gpus": 1024, "batch": 1024,
        "seq_len": 2048, "precision": "fp16"}, {"tp": 8, "pp": 16, "recompute": "full"}),
    "torchtitan-llama3-70b": ("torchtitan", "slurm", {
        "framework": "torchtitan", "model": "llama3-70b", "gpus": 256, "batch": 256}, {
        "tp": 8, "sp": True, "pp": 4, "zero": 3, "recompute": "selective"}),
    "torchtitan-0.2-llama3-70b": ("torchtitan-0.2", None, {
        "framework": "torchtitan", "model": "llama3-70b", "gpus": 256, "batch": 256}, {
        "tp": 8, "sp": True, "pp": 4, "zero": 3, "recompute": "selective"}),
    "nanotron-llama3-8b": ("nanotron", None, {"framework": "nanotron"}, {
        "tp": 4, "sp": True, "zero": 1, "recompute": "full"}),
    "axonn-gpt3": ("axonn", "torchrun", {
        "framework": "axonn", "model": "gpt3-175b", "gpus": 256, "batch": 256, "seq_len": 2048}, {
        "tp_x": 2, "tp_y": 8, "tp_z": 8, "recompute": "full"}),
    "accelerate-llama3-8b": ("accelerate", "torchrun", {"framework": "torchtitan", "gpus": 8}, {
        "zero": 3, "recompute": "none"}),
}


class Golden(Case):
    """Whole files, byte for byte; predicted numbers are left out."""

    def test_files(self):
        for name, (target, launcher, changes, degrees) in GOLDEN.items():
            path = self.plan_file(BASE | changes | {"degrees": degrees})
            text = self.export(path, target, *(("--launch", launcher) if launcher else ()))
            text = re.sub(r"step \S+ \S+ \([^)]*\), peak memory \S+ \S+ of", "step TIME, peak memory SIZE of",
                          text)
            text = re.sub(r"(?m)^.*the prediction says that the plan does not fit.*\n", "", text)
            text = re.sub(r"plan(-| )[0-9a-f]{16}", r"plan\1IDENTITY", text)
            text = re.sub(r"plansearch \d+\.\d+\.\d+", "plansearch VERSION", text)
            golden = HERE / "golden" / f"{name}.txt"
            if UPDATE:
                golden.write_text(text)
            with self.subTest(name):
                self.assertEqual(golden.read_text(), text)


class Sources(Case):
    """Plans of answers, files, flags; the list and its page."""

    def test_result_and_rank(self):
        answer = self.directory / "answer.json"
        result = run("--hw", "dgx-h100", "--model", "llama3-8b", "--gpus", "64", "--format", "json",
                     "--out", answer, "--quiet")
        self.assertEqual(result.returncode, 0, result.stderr)
        first = self.export(f"{answer}#1", "megatron")
        self.assertNotEqual(first, self.export(f"{answer}#2", "megatron"))
        out = self.directory / "plan.sh"
        self.assertEqual(self.export(f"{answer}#1", "megatron", "--out", out), "")
        self.assertEqual(out.read_text(), first)
        result = run("export", f"{answer}#999", "--to", "megatron")
        self.assertEqual(result.returncode, 2, result.stderr)

    def test_identity_does_not_depend_on_spelling(self):
        degrees = {"tp": 2, "zero": 1}
        texts = []
        for hardware, model in (("dgx-h100", "llama3-8b"), ("dgx_h100.yaml", "llama-3-8b")):
            path = self.plan_file(BASE | {"hardware": hardware, "model": model, "degrees": degrees})
            texts.append(self.export(path, "megatron"))
        self.assertEqual(texts[0], texts[1])

    def test_notes_on_standard_error(self):
        path = self.plan_file(BASE | {"framework": "deepspeed", "degrees": {"zero": 3}})
        result = run("export", path, "--to", "deepspeed")
        self.assertIn("set in the training script:", result.stderr)
        self.assertIn("seq_len 8192", result.stderr)
        self.assertEqual(run("export", path, "--to", "deepspeed", "--quiet").stderr, "")

    def test_page_shows_the_list(self):
        listing = json.loads(run("list", "exporters", "--format", "json").stdout)
        rows = listing if isinstance(listing, list) else listing["exporters"]
        page = (SOURCE / "docs" / "export.md").read_text()
        shown = re.search(r"(?s)\| setting \|(.*?)\n\n", page)
        self.assertIsNotNone(shown, "the table of capabilities")
        table = [[cell.strip() for cell in line.strip("|").split("|")]
                 for line in ("| setting |" + shown[1]).splitlines()]
        columns = table[0][1:]
        self.assertEqual(columns, [row["name"] for row in rows])
        for line in table[2:]:
            self.assertEqual(line[1:], [row[line[0]] for row in rows], line[0])
        self.assertEqual({line[0] for line in table[2:]},
                         set(rows[0]) - {"name", "writes", "checked"})


def main():
    global BINARY, UPDATE
    parser = argparse.ArgumentParser()
    parser.add_argument("--binary", required=True)
    parser.add_argument("--update", action="store_true")
    parser.add_argument("groups", nargs="*")
    arguments = parser.parse_args()
    BINARY, UPDATE = str(pathlib.Path(arguments.binary).resolve()), arguments.update
    groups = ["Golden", "Refusals"] if UPDATE else arguments.groups
    sys.argv = [sys.argv[0], *groups]
    unittest.main(verbosity=1)


if __name__ == "__main__":
    main()
