#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`plansearch import`: published launch files, what scripts can look like, and what cannot be known.

  python3 tests/importers/launch_test.py --binary build/check/plansearch [Published Scripts Refusals]"""

import argparse
import dataclasses
import enum
import json
import pathlib
import pprint
import re
import resource
import shlex
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
BINARY = None
# What a plan has where it says nothing.
NEUTRAL = {"pp": 1, "vpp": 1, "tp": 1, "cp": 1, "cp_kind": "ring", "ep": 1, "etp": 1, "zero": 0, "shard_group": 0,
           "sp": False, "recompute": "none", "recompute_layers": 0, "schedule": "1f1b", "temporal": "none",
           "overdecompose": 1, "recompute_modules": "own", "dispatcher": "own", "attention": None, "main_grads": None,
           "fp8_recipe": None}


def run(*arguments, **options):
    return subprocess.run([BINARY, *map(str, arguments)], capture_output=True, text=True, timeout=120, check=False,
                          **options)


def scalar(text):
    text = text.strip().strip('"')
    return int(text) if re.fullmatch(r"-?\d+", text) else {"true": True, "false": False}.get(text, text)


def keys_of(plan):
    """The settings and degrees of a plan file, as one dictionary."""
    return {m[1]: scalar(m[2]) for m in re.finditer(r"(?m)^ *([a-z_0-9]+): (.+)$", plan)}


class Case(unittest.TestCase):
    def setUp(self):
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="plansearch-import-"))
        self.addCleanup(shutil.rmtree, self.directory, ignore_errors=True)

    def file(self, name, text):
        path = self.directory / name
        path.write_text(text)
        return path

    def read(self, *arguments):
        """The plan file that `import` writes, and its messages."""
        out = self.directory / "plan.yaml"
        result = run("import", *arguments, "--out", out)
        self.assertEqual(result.returncode, 0, result.stderr)
        return out.read_text(), result.stderr

    def refuse(self, *arguments, expect, **options):
        result = run("import", *arguments, **options)
        self.assertEqual((result.returncode, result.stdout), (2, ""), result.stderr)
        for text in expect:
            self.assertIn(text, result.stderr)
        self.assertIn("hint: ", result.stderr)
        return result.stderr


def nested(keys):
    tree = {}
    for path, value in keys.items():
        node = tree
        *parents, last = path.split(".")
        for parent in parents:
            node = node.setdefault(parent, {})
        node[last] = value
    return tree


def yaml_of(tree, indent=""):
    lines = []
    for key, value in tree.items():
        if isinstance(value, dict):
            lines += [f"{indent}{key}:", *yaml_of(value, indent + "  ")]
        else:
            lines.append(f"{indent}{key}: {json.dumps(value)}")
    return lines


def toml_of(keys):
    lines, table = [], None
    for path, value in keys.items():
        head, last = path.rsplit(".", 1)
        if head != table:
            table = head
            lines.append(f"[{table}]")
        lines.append(f"{last} = {json.dumps(value)}")
    return lines


def words_of(keys):
    words = []
    for flag, value in keys.items():
        if not flag.startswith("--"):
            continue
        values = [] if value is True else value if isinstance(value, list) else [value]
        words += [flag, *map(str, values)]
    return words


def scripts_of(keys):
    """The same arguments as people write them: an array, a text of continued lines, variables, "bash -c"."""
    nodes, each = keys["nnodes"], keys["nproc_per_node"]
    launcher = f"torchrun --nnodes {nodes} --nproc_per_node {each} pretrain_gpt.py"
    words = [shlex.quote(word) for word in words_of(keys)]
    yield "array.sh", f"ARGS=(\n  {' '.join(words)}\n)\n{launcher} \"${{ARGS[@]}}\" \"$@\"\n"
    lines = " \\\n    ".join(words)
    yield "text.sh", f"#!/bin/bash\nGPT_ARGS=\" \\\n    {lines} \\\n    \"\n{launcher} $GPT_ARGS\n"
    assigned, used = [], []
    for i, word in enumerate(words):
        if word.startswith("-") or " " in word or word.startswith("'"):
            used.append(word)
        else:
            assigned.append(f"V_{i}={word}")
            used.append(f"${{V_{i}}}" if i % 2 else f"${{UNSET_{i}:-$V_{i}}}")
    yield "variables.sh", "\n".join(assigned) + f"\nexport CMD=\"{' '.join(used)}\"\n{launcher} $CMD\n"
    header = f"#SBATCH --nodes={nodes} --gres=gpu:{each}\n#SBATCH --ntasks-per-node=1\n"
    inner = f"python -u -m torch.distributed.run --nproc_per_node {each} --nnodes $SLURM_NNODES pretrain_gpt.py"
    yield "job.sbatch", (f"#!/bin/bash\n{header}LAUNCHER=\"{inner}\"\nCMD=\" \\\n    {lines} \"\n"
                         "srun bash -c \"$LAUNCHER --node_rank \\$SLURM_PROCID $CMD\"\n")


class Published(Case):
    """Keys of launch files that their authors published (published.jsonl): the plan that they make."""

    def check(self, entry, path):
        plan, _ = self.read(path, "--hw", "dgx-h100", *entry["given"])
        found = NEUTRAL | keys_of(plan)
        wanted = dict(entry["plan"])
        parameters = wanted.pop("parameters")
        for key, value in (NEUTRAL | wanted).items():
            self.assertEqual(found.get(key), value, (entry["name"], path.name, key, plan))
        answer = run("predict", "--plan", self.directory / "plan.yaml", "--format", "json")
        self.assertIn(answer.returncode, (0, 3), answer.stderr)
        self.assertEqual(json.loads(answer.stdout)["question"]["parameters"], parameters, entry["name"])

    def test_every_file(self):
        entries = [json.loads(line) for line in (HERE / "published.jsonl").read_text().splitlines()]
        self.assertGreaterEqual(len(entries), 30)
        for entry in entries:
            with self.subTest(entry["name"]):
                self.assertTrue(entry["source"].startswith("https://github.com/"))
                keys = entry["keys"]
                if entry["form"] == "arguments":
                    for name, text in scripts_of(keys):
                        self.check(entry, self.file(name, text))
                elif entry["form"] == "toml":
                    self.check(entry, self.file("run.toml", "\n".join(toml_of(keys)) + "\n"))
                elif entry["form"] == "yaml":
                    self.check(entry, self.file("run.yaml", "\n".join(yaml_of(nested(keys))) + "\n"))
                else:
                    self.check(entry, self.file("run.json", json.dumps(nested(keys), indent=2)))


LLAMA = ("--num-layers 32 --hidden-size 4096 --ffn-hidden-size 14336 --num-attention-heads 32 --group-query-attention "
         "--num-query-groups 8 --swiglu --normalization RMSNorm --disable-bias-linear --position-embedding-type rope "
         "--untie-embeddings-and-output-weights --hidden-dropout 0 --attention-dropout 0 --max-position-embeddings 8192 "
         "--seq-length 8192 --micro-batch-size 1 --global-batch-size 64 --bf16 --vocab-size 128256")


class Scripts(Case):
    """What stands in scripts: conditions, arithmetic, documents, files that share variables."""

    def plan_of(self, text, *arguments):
        plan, self.messages = self.read(self.file("run.sh", text), "--from", "megatron", "--hw", "dgx-h100", *arguments)
        return keys_of(plan)

    def test_arguments_that_logs_print(self):
        """torchtitan's JSON on several ranks, transformers, MaxText, Megatron-DeepSpeed; defaults that are printed say nothing."""
        titan = ["Running with configs: {", '  "model": {"name": "llama3",', '    "flavor": "8B"},',
                 '  "training": {"local_batch_size": 2, "global_batch_size": -1, "seq_len": 8192},',
                 '  "parallelism": {"data_parallel_shard_degree": -1, "tensor_parallel_degree": 2,',
                 '    "pipeline_parallel_degree": 1, "context_parallel_degree": 1},',
                 '  "activation_checkpoint": {"mode": "full"}}']
        lines = [f"\x1b[32m[rank{rank}]:\x1b[0m{line}" for line in titan for rank in (0, 1)]
        plan = keys_of(self.read(self.file("titan.log", "\n".join(lines)), "--hw", "dgx-h100", "--gpus", "8")[0])
        self.assertEqual([plan[key] for key in ("model", "tp", "dp", "batch", "micro_batch", "recompute")],
                         ["llama3.1-8b", 2, 4, 8, 2, "full"])
        trainer = ["parameters TrainingArguments(", "_n_gpu=1,", "adam_beta1=0.9,", "bf16=True,", "bf16_full_eval=False,",
                   "deepspeed=None,", "fsdp=[],", "gradient_accumulation_steps=4,", "gradient_checkpointing=True,",
                   "optim=OptimizerNames.ADAMW_TORCH,", "per_device_train_batch_size=2,", "seed=42,", ")"]
        plan = keys_of(self.read(self.file("hf.log", "\n".join(trainer)), "--hw", "dgx-h100", "--gpus", "8", "--model",
                                 "llama3-8b", "--seq-len", "4096")[0])
        self.assertEqual([plan[key] for key in ("batch", "micro_batch", "recompute", "precision")], [64, 2, "full", "bf16"])
        sizes = {"base_emb_dim": 4096, "base_mlp_dim": 14336, "base_num_decoder_layers": 32, "model_name": "llama3-8b",
                 "per_device_batch_size": 2, "max_target_length": 8192, "ici_fsdp_parallelism": -1,
                 "ici_tensor_parallelism": 1, "remat_policy": "full", "dtype": "bfloat16"}
        text = "\n".join(f"Config param {key}: {value}" for key, value in sizes.items())
        plan = keys_of(self.read(self.file("maxtext.log", text), "--hw", "tpu-v5p", "--gpus", "8")[0])
        self.assertEqual([plan[key] for key in ("model", "zero", "batch")], ["llama3-8b", 3, 16])
        arguments = {"world_size": 16, "zero_stage": 1, "tensor_model_parallel_size": 4, "pipeline_model_parallel_size": 2,
                     "num_layers": 24, "hidden_size": 2048, "num_attention_heads": 16, "seq_length": 2048, "fp16": True,
                     "bf16": False, "max_position_embeddings": 2048, "micro_batch_size": 4, "global_batch_size": 64,
                     "padded_vocab_size": 50432, "num_experts": [1], "swiglu": False, "rampup_batch_size": None}
        text = "\n".join(f"0:   {key} {'.' * (45 - len(key))} {value}" for key, value in arguments.items())
        plan, messages = self.read(self.file("deepspeed.log", text), "--hw", "selene")
        self.assertIn("read as megatron-deepspeed", plan)
        self.assertEqual([keys_of(plan)[key] for key in ("gpus", "tp", "pp", "dp", "zero", "precision")],
                         [16, 4, 2, 2, 1, "fp16"])
        self.assertNotIn("not read", messages)

    @staticmethod
    def printed(value, head, between="loading a tokenizer"):
        """As pprint shows it (verl/trainer/main_ppo.py, nanotron/trainer.py), behind a head, with lines of others."""
        lines = [f"{head}{line}" for line in pprint.pformat(value, width=80).splitlines()]
        return "\n".join([*lines[:9], f"(pid=7) {between}", f"{head}{between}: 'a', b=2", *lines[9:]]) + "\n"

    def test_objects_that_logs_print(self):
        """verl's dictionary by Ray, nanotron's dataclasses."""
        actor = {"fsdp_config": {"fsdp_size": -1, "param_offload": False, "reshard_after_forward": True, "wrap_policy": {"min_num_params": 0}},
                 "ppo_epochs": 1, "ppo_micro_batch_size": None, "ppo_micro_batch_size_per_gpu": 4, "ppo_mini_batch_size": 64,
                 "strategy": "fsdp2", "ulysses_sequence_parallel_size": 2, "use_dynamic_bsz": False, "use_torch_compile": True}
        megatron = {"tensor_model_parallel_size": 4, "pipeline_model_parallel_size": 2, "sequence_parallel": False,
                    "virtual_pipeline_model_parallel_size": None, "use_distributed_optimizer": True, "context_parallel_size": 1}
        config = {"actor_rollout_ref": {"actor": actor, "model": {
            "enable_gradient_checkpointing": True, "lora_rank": 0, "override_config": {}, "path": "~/models/Qwen/Qwen2.5-7B-Instruct",
            "use_remove_padding": True}, "rollout": {"n": 8, "name": "vllm", "val_kwargs": {"n": 1, "top_p": 1.0}}},
            "data": {"max_prompt_length": 512, "max_response_length": 1536, "train_batch_size": 256, "train_files": ["a.parquet"]},
            "trainer": {"logger": ["console"], "n_gpus_per_node": 8, "nnodes": 2}}
        head = "\x1b[36m(TaskRunner pid=4711)\x1b[0m "
        text, messages = self.read(self.file("verl.log", "Started Ray\n" + self.printed(config, head)), "--hw", "dgx-h100")
        self.assertIn("read as verl-fsdp", text)
        keys = ("model", "gpus", "batch", "seq_len", "micro_batch", "cp", "recompute")
        self.assertEqual([keys_of(text)[key] for key in keys], ["qwen2-7b", 16, 512, 2048, 4, 2, "full"])
        config["actor_rollout_ref"]["actor"] = {key: actor[key] for key in actor if key.startswith("ppo")} | {
            "strategy": "megatron", "megatron": megatron}
        text, _ = self.read(self.file("verl.log", self.printed(config, head)), "--hw", "dgx-h100")
        self.assertEqual([keys_of(text)[key] for key in ("tp", "pp", "dp", "sp", "zero")], [4, 2, 2, False, 1])

        def made(kind, /, **fields):
            return dataclasses.make_dataclass(kind, fields)(**fields)

        class Pipe:
            def __repr__(self):
                return "<nanotron.parallel.pipeline_parallel.engine.AllForwardAllBackwardPipelineEngine object at 0x7fcc5c65c910>"
        mode = enum.Enum("TensorParallelLinearMode", ["ALL_REDUCE", "REDUCE_SCATTER"])
        config = made(
            "Config", general=made("GeneralArgs", project="debug", run="tiny_%date", step=None, ignore_sanity_checks=True),
            parallelism=made("ParallelismArgs", dp=4, pp=2, tp=2, pp_engine=Pipe(), tp_mode=mode.REDUCE_SCATTER,
                             tp_linear_async_communication=False, recompute_layer=True, expert_parallel_size=1),
            model=made("ModelArgs", model_config=made(
                "LlamaConfig", hidden_act="silu", hidden_size=4096, intermediate_size=14336, is_llama_config=True, num_attention_heads=32,
                num_hidden_layers=32, num_key_value_heads=8, rope_scaling=None, tie_word_embeddings=False, vocab_size=128256,
                max_position_embeddings=8192), init_method=made("RandomInit", std=0.025), make_vocab_size_divisible_by=1),
            checkpoints=made("CheckpointsArgs", checkpoints_path=pathlib.PurePosixPath("checkpoints"), checkpoint_interval=10),
            tokens=made("TokensArgs", sequence_length=4096, micro_batch_size=2, batch_accumulation_per_replica=8),
            optimizer=made("OptimizerArgs", zero_stage=1, accumulate_grad_in_fp32=True, clip_grad=1.0),
            data_stages=[made("DatasetStageArgs", name="stage", start_training_step=1, data=made("DataArgs", dataset=None, seed=42))])
        text, _ = self.read(self.file("nano.log", self.printed(config, "08/31/2024 14:37:22 [INFO|DP=0|PP=0|TP=0]: ")), "--hw", "dgx-h100")
        self.assertIn("read as nanotron", text)
        keys = ("gpus", "tp", "pp", "dp", "sp", "zero", "schedule", "recompute", "micro_batch", "batch", "seq_len")
        self.assertEqual([keys_of(text).get(key) for key in keys], [16, 2, 2, 4, True, 1, "gpipe", "full", 2, 64, 4096])

    def test_conditions_follow_what_is_known(self):
        plan = self.plan_of(f"""#!/bin/bash
SIZE=8b; DTYPE=${{1:-fp8}}
if [ "$SIZE" == "8b" ] && [[ $DTYPE != bf16 ]]; then TP=2; elif [ $SIZE = 70b ]; then TP=8; else TP=4; fi
case $SIZE in 70b) PP=4 ;; 8b|13b) PP=2 ;; *) PP=1 ;; esac
NODES=$((PP * 2)); [[ -n "$UNSET" ]] && TP=16
args=({LLAMA})
args+=(--tensor-model-parallel-size $TP --pipeline-model-parallel-size ${{PP}})
function unused {{ echo no; }}
for i in 1 2 3; do echo $i; done
torchrun --nnodes=$NODES --nproc-per-node 8 pretrain_gpt.py "${{args[@]}}" 2>&1 | tee log.txt
""")
        self.assertEqual((plan["tp"], plan["pp"], plan["dp"], plan["gpus"]), (2, 2, 8, 32))

    def test_conditions_that_nobody_knows_are_named(self):
        plan = self.plan_of(f"""args=({LLAMA})
if [ -f /etc/recompute ]; then args+=(--recompute-granularity full); fi
torchrun --nproc-per-node 8 pretrain_gpt.py ${{args[@]}}
""")
        self.assertEqual(plan["recompute"], "none")
        self.assertIn("run.sh:2: --recompute-granularity stands behind a condition that is known only when the script "
                      "runs", self.messages)

    def test_words_that_may_hold_options_are_named(self):
        plan = self.plan_of(f"""EXTRA=$(cat flags.txt)
for flag in --bf16 "--tensor-model-parallel-size 2"; do ARGS="$ARGS $flag"; done
torchrun --nproc-per-node 8 pretrain_gpt.py {LLAMA} --lr 1e-4 $EXTRA $ARGS
""")
        self.assertEqual((plan["tp"], plan["dp"]), (2, 4))
        self.assertIn("run.sh:1: options in $(cat flags.txt) are not read: known only when the script runs", self.messages)

    def test_the_target_s_defaults_count(self):
        plan = self.plan_of(f"torchrun --nproc-per-node 8 pretrain_gpt.py {LLAMA} --tensor-model-parallel-size 2 --num-experts 8\n",
                            "--model", "mixtral-8x7b")
        self.assertEqual((plan["zero"], plan["etp"], plan["sp"]), (0, 2, False))
        self.assertIn("grad=0", plan["overlap"])

    def test_layout_and_chunks(self):
        layout = "Et*7|(t*8|)*2t*9L"
        plan, _ = self.read(self.file("run.sh", f"torchrun --nproc-per-node 8 pretrain_gpt.py {LLAMA} "
                                      f"--pipeline-model-parallel-size 4 --pipeline-model-parallel-layout '{layout}'\n"))
        self.assertEqual(re.findall(r"layers: (\d+)", plan), ["7", "8", "8", "9"])
        plan = self.plan_of(f"torchrun --nproc-per-node 8 pretrain_gpt.py {LLAMA} --pipeline-model-parallel-size 4 "
                            "--num-layers-per-virtual-pipeline-stage 4\n")
        self.assertEqual((plan["vpp"], plan["schedule"]), (2, "interleaved"))

    def test_scripts_share_their_variables(self):
        first = self.file("sizes.sh", "TP=4\nNODES=2\n. ./run.sh\n")
        second = self.file("run.sh", f"torchrun --nnodes $NODES --nproc-per-node 8 pretrain_gpt.py {LLAMA} "
                           "--tensor-model-parallel-size $TP\n")
        plan, _ = self.read(first, second)
        self.assertEqual((keys_of(plan)["tp"], keys_of(plan)["gpus"]), (4, 16))

    def test_a_configuration_inside_a_script(self):
        plan, _ = self.read(self.file("run.sh", f"""ZERO=2; MBS=1
cat <<EOT > ds.json
{{"train_micro_batch_size_per_gpu": $MBS, "zero_optimization": {{"stage": $ZERO, "overlap_comm": true}}, "bf16": {{"enabled": true}}}}
EOT
deepspeed --num_nodes 2 --num_gpus 8 pretrain_gpt.py {LLAMA} --deepspeed --deepspeed_config ds.json
"""))
        plan = keys_of(plan)
        self.assertEqual((plan["framework"], plan["zero"], plan["dp"]), ("megatron-deepspeed", 2, 16))

    AXOLOTL = ("base_model: meta-llama/Meta-Llama-3-8B\nsequence_len: 4096\nmicro_batch_size: 2\n"
               "gradient_accumulation_steps: 4\ntensor_parallel_size: 2\nbf16: true\n")

    def test_yaml_and_toml_inside_a_script(self):
        start = "torchrun --nnodes 2 --nproc-per-node 8 -m axolotl.cli.train plan.yaml\n"
        hosts = "cat > hosts <<END\nnode-1: slots=8\nnode-2: slots=8\nEND\n"
        plan, _ = self.read(self.file("a.sh", f"{hosts}cat > plan.yaml <<'END'\n{self.AXOLOTL}END\n{start}"))
        keys = keys_of(plan)
        self.assertEqual((keys["model"], keys["gpus"], keys["tp"], keys["dp"], keys["micro_batch"]), ("llama3-8b", 16, 2, 8, 2))
        self.assertIn("read as axolotl", plan)
        toml = "[training]\nlocal_batch_size = 2\nseq_len = 4096\n[parallelism]\ntensor_parallel_degree = 4\n"
        plan, _ = self.read(self.file("t.sh", f"cat > job.toml <<END\n{toml}END\ntorchrun --nproc-per-node 8 -m torchtitan.train\n"),
                            "--model", "llama3-8b")
        self.assertIn("read as torchtitan-0.2", plan)
        self.assertEqual((keys_of(plan)["tp"], keys_of(plan)["dp"], keys_of(plan)["micro_batch"]), (4, 2, 2))

    NEMO = ("trainer:\n  devices: 8\n  num_nodes: 16\n  precision: bf16\nmodel:\n  micro_batch_size: 1\n  global_batch_size: 256\n"
            "  tensor_model_parallel_size: 8\n  pipeline_model_parallel_size: 4\n  virtual_pipeline_model_parallel_size: null\n"
            "  sequence_parallel: True\n  encoder_seq_length: 8192\n  max_position_embeddings: ${.encoder_seq_length}\n"
            "  num_layers: 80\n  hidden_size: 8192\n  ffn_hidden_size: 28672\n  num_attention_heads: 64\n  num_query_groups: 8\n"
            "  hidden_dropout: 0.0\n  attention_dropout: 0.0\n  normalization: rmsnorm\n  activation: fast-swiglu\n  bias: False\n"
            "  position_embedding_type: rope\n  share_embeddings_and_output_weights: False\n"
            "  optim: {name: distributed_fused_adam, overlap_grad_sync: True}\n")

    def test_megatron_s_keys_without_dashes_in_yaml(self):
        plan, _ = self.read(self.file("nemo.yaml", self.NEMO), "--hw", "dgx-h100", "--define", "vocab-size=128256")
        keys = keys_of(plan)
        self.assertEqual([keys[k] for k in ("model", "gpus", "batch", "seq_len", "precision", "tp", "pp", "dp", "zero", "sp")],
                         ["llama3-70b", 128, 256, 8192, "bf16", 8, 4, 4, 1, True])
        primus = ("modules:\n  pre_trainer:\n    framework: megatron\n    overrides:\n      micro_batch_size: 2\n      global_batch_size: 128\n"
                  "      seq_length: 4096\n      use_distributed_optimizer: true\n      bf16: true\n      recompute_granularity: full\n"
                  "      recompute_method: block\n      recompute_num_layers: 4\n")
        plan, _ = self.read(self.file("primus.yaml", primus), "--hw", "mi355x-8", "--gpus", "8", "--model", "llama3-8b")
        keys = keys_of(plan)
        self.assertEqual([keys[k] for k in ("micro_batch", "batch", "seq_len", "zero", "recompute", "recompute_layers")],
                         [2, 128, 4096, 1, "full", 4])

    def test_gpt_neox(self):
        sizes = {"model_parallel_size": 8, "num_layers": 48, "hidden_size": 8192, "num_attention_heads": 64,
                 "train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 16}
        plan, _ = self.read(self.file("neox.json", json.dumps(sizes)), "--hw", "selene", "--gpus", "256")
        keys = keys_of(plan)
        self.assertEqual([keys[k] for k in ("tp", "dp", "pp", "micro_batch", "batch")], [8, 32, 1, 2, 1024])
        dashes = {key.replace("_", "-"): value for key, value in sizes.items()}
        self.assertEqual(keys_of(self.read(self.file("old.json", json.dumps(dashes)), "--hw", "selene", "--gpus", "256")[0]), keys)
        self.refuse(self.file("mamba.json", json.dumps(sizes | {"attention_config": [[["mamba"], 48]]})), "--gpus", "256",
                    expect=["its layers are mamba, not all plain attention"])

    def test_keys_of_a_configuration_as_options(self):
        start = "torchrun --nproc_per_node 8 train.py --training.seq_len 512 "
        for words, wanted in (("--training.local_batch_size 16 --parallelism.pipeline_parallel_degree 8", (512, 16, 8, 1, 1)),
                              ("--training.batch_size 8 --experimental.pipeline_parallel_degree 2 --training.tensor_parallel_degree 2 "
                               "--experimental.pipeline_parallel_microbatches 4", (512, 16, 2, 2, 2))):
            plan, messages = self.read(self.file("titan.sh", start + words + "\n"), "--hw", "dgx-h100", "--model", "llama3-8b")
            keys = keys_of(plan)
            self.assertEqual(tuple(keys[k] for k in ("seq_len", "batch", "pp", "tp", "micro_batch")), wanted)
            self.assertNotIn("not read", messages)

    def test_the_script_of_a_kubernetes_job(self):
        script = f"torchrun --nnodes=2 --nproc-per-node=8 pretrain_gpt.py {LLAMA} --tensor-model-parallel-size $$TP"
        job = ("apiVersion: kubeflow.org/v1\nkind: PyTorchJob\nspec:\n  containers:\n    - name: pytorch\n"
               f"      command: [bash, -c]\n      args:\n        - |\n          TP=4\n          {script}\n")
        plan, _ = self.read(self.file("job.yaml", job))
        self.assertEqual((keys_of(plan)["gpus"], keys_of(plan)["tp"]), (16, 4))

    def test_a_job_of_replicas_counts_its_accelerators(self):
        words = ", ".join(json.dumps(word) for word in f"{LLAMA} --tensor-model-parallel-size 2".split())
        replica = ("    {0}:\n      replicas: {1}\n      template:\n        spec:\n          containers:\n            - name: pytorch\n"
                   "              command: [torchrun, --nproc_per_node=8, pretrain_gpt.py]\n"
                   "              args: [{2}]\n              resources:\n                limits: {{nvidia.com/gpu: 8}}\n"
                   "                requests: {{nvidia.com/gpu: 8}}\n")
        job = ("apiVersion: kubeflow.org/v1\nkind: PyTorchJob\nspec:\n  pytorchReplicaSpecs:\n" + replica.format("Master", 1, words)
               + replica.format("Worker", 3, words))
        plan, _ = self.read(self.file("job.yaml", job))
        self.assertEqual((keys_of(plan)["gpus"], keys_of(plan)["tp"], keys_of(plan)["dp"]), (32, 2, 16))

    def test_arrays_of_jobs(self):
        script = (f"#!/bin/bash\n#SBATCH --nodes=4\n#SBATCH --gpus-per-node=8\n#SBATCH --ntasks-per-node=1\n#SBATCH --array=0-3\n"
                  ": \"${PP:=2}\"\nTPS=(1 2 4 8)\nTP=${TPS[$SLURM_ARRAY_TASK_ID]}\nGBS=$((2**(SLURM_ARRAY_TASK_ID + 5)))\n"
                  f"srun torchrun --nnodes $SLURM_NNODES --nproc_per_node 8 pretrain_gpt.py {LLAMA} --global-batch-size $GBS "
                  "--tensor-model-parallel-size $TP --pipeline-model-parallel-size $PP\n")
        plan = self.plan_of(script, "--define", "SLURM_ARRAY_TASK_ID=2")
        self.assertEqual([plan[k] for k in ("gpus", "batch", "tp", "pp", "dp")], [32, 128, 4, 2, 4])
        self.refuse(self.file("array.sbatch", script), expect=["depends on", "--define"])

    def test_lists_of_overrides(self):
        plan, _ = self.read(self.file("list.sh", "ARGS=(\n  actor_rollout_ref.actor.ppo_mini_batch_size=64\n"
                                      "  actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=2\n  trainer.nnodes=2 trainer.n_gpus_per_node=8\n"
                                      "  actor_rollout_ref.actor.megatron.tensor_model_parallel_size=4\n)\n"),
                            "--model", "llama3-8b", "--seq-len", "4096")
        self.assertIn("read as verl", plan)
        self.assertEqual((keys_of(plan)["gpus"], keys_of(plan)["tp"], keys_of(plan)["micro_batch"]), (16, 4, 2))

    def test_environment_of_lists_of_flags(self):
        text = "ENV_VARS:\n  A: 1\nMODEL_ARGS:\n" + "".join(
            f"  {flag}: {json.dumps(value)}\n" for flag, value in
            {"--num-layers": 32, "--hidden-size": 4096, "--num-attention-heads": 32, "--vocab-size": 32000, "--bf16": True,
             "--tensor-model-parallel-size": "${TP}", "--micro-batch-size": 1, "--seq-length": "${SEQ}",
             "--max-position-embeddings": 2048}.items())
        path = self.file("model.yaml", text)
        plan, _ = self.read(path, "--gpus", 8, "--define", "TP=4", "--define", "SEQ=2048")
        self.assertEqual((keys_of(plan)["tp"], keys_of(plan)["seq_len"]), (4, 2048))
        self.refuse(path, "--gpus", 8, expect=["model.yaml:9:3: error: --tensor-model-parallel-size depends on $TP",
                                               "--define TP=VALUE"])

    def test_a_network_of_its_own_becomes_a_model_file(self):
        text = f"torchrun --nproc-per-node 8 pretrain_gpt.py {LLAMA.replace('--num-layers 32', '--num-layers 20')}\n"
        plan, _ = self.read(self.file("run.sh", text))
        model = self.directory / "plan.model.yaml"
        self.assertIn(str(model), plan)
        self.assertEqual(run("show", "model", model).returncode, 0)
        self.refuse(self.directory / "run.sh", expect=["its network is none of the models that ship", "--write-model FILE"])

    def test_what_is_typed_wins(self):
        text = f"torchrun --nproc-per-node 8 pretrain_gpt.py {LLAMA} --tensor-model-parallel-size 2\n"
        plan = self.plan_of(text, "--gpus", 64, "--tp", 8, "--batch", 256, "--recompute", "full")
        self.assertEqual((plan["gpus"], plan["tp"], plan["dp"], plan["batch"], plan["recompute"]), (64, 8, 8, 256, "full"))

    def test_plans_are_answered(self):
        text = f"torchrun --nproc-per-node 8 pretrain_gpt.py {LLAMA} --tensor-model-parallel-size 2 --use-distributed-optimizer\n"
        self.plan_of(text)
        answer = run("predict", "--plan", self.directory / "plan.yaml", "--format", "json")
        self.assertEqual(answer.returncode, 0, answer.stderr)
        again = run("export", self.directory / "plan.yaml", "--to", "megatron")
        self.assertEqual(again.returncode, 0, again.stderr)
        self.assertIn("--tensor-model-parallel-size 2", again.stdout)


class Exports(Case):
    """What `export` wrote says so in its header, whatever its keys look like; those that are read are in
    round_trip_test.py."""

    PLAN = {"hardware": "dgx-h100", "model": "llama2-13b", "framework": "megatron", "gpus": 8, "batch": 16}
    OTHER = {"axonn": {"framework": "axonn", "model": "gpt2-xl", "degrees": {"dp": 4, "tp_z": 2, "zero": 0}},
             "pytorch-csv": {"degrees": {"dp": 1, "pp": 8, "micro_batch": 1}}}

    def test_targets_that_are_not_read(self):
        usage = run("import", "--help").stdout + run("export", "--help").stdout
        listed = [set(re.split(r"[\s|]+", words)) for words in
                  re.findall(r"--(?:from|to) ([a-z0-9.| \n-]+?)\n {20,}(?:the framework|as in)", usage)]
        self.assertEqual(len(listed), 2, usage)
        unread = sorted(listed[1] - listed[0] - {"chakra", ""})  # traces of ranks, no configuration
        self.assertIn("axonn", unread)
        for target in unread:
            plan = self.PLAN | {"degrees": {"dp": 8, "micro_batch": 2}} | self.OTHER.get(target, {})
            source = self.file("plan.json", json.dumps({"schema": "plansearch/plan/v1", **plan}))
            for launcher, suffix in ((None, ".sh"), (None, ".txt"), ("slurm", ".sh"), ("torchrun", ".sh"), ("kubernetes", ".yaml")):
                exported = run("export", source, "--to", target, *(("--launch", launcher) if launcher else ()))
                self.assertEqual(exported.returncode, 0, exported.stderr)
                if exported.stdout.startswith("0F0"):  # rows of an order alone, which have no header
                    continue
                self.refuse(self.file("back" + suffix, exported.stdout), "--model", "gpt2-xl", "--gpus", "8",
                            expect=[f"back{suffix}: error: it was exported to {target}, whose files are not read back",
                                    "give the plan file or result that it was exported from"])

    def test_a_trainer_beside_its_deepspeed_file(self):
        stages = self.file("ds.json", json.dumps({"gradient_accumulation_steps": "auto", "train_micro_batch_size_per_gpu": "auto",
                                                  "zero_optimization": {"stage": 2}}))
        llama = self.file("llama.yaml", "model_name_or_path: meta-llama/Llama-3.1-8B\nstage: sft\nfinetuning_type: full\n"
                          "per_device_train_batch_size: 2\ngradient_accumulation_steps: 8\ncutoff_len: 2048\ndeepspeed: ds.json\nbf16: true\n")
        axolotl = self.file("axolotl.yaml", "base_model: meta-llama/Llama-3.1-8B\nsequence_len: 2048\nmicro_batch_size: 2\n"
                            "gradient_accumulation_steps: 8\nbf16: true\ndeepspeed: ds.json\nflash_attention: true\n")
        for name, trainer in (("llama-factory", llama), ("axolotl", axolotl)):
            for files in ([trainer, stages], [stages, trainer]):
                with self.subTest(name=name, first=files[0].name):
                    text, _ = self.read(*files, "--hw", "dgx-h100", "--gpus", "8")
                    plan = keys_of(text)
                    self.assertIn(f"read as {name}", text)
                    self.assertEqual((plan["zero"], plan["dp"], plan["batch"], plan["seq_len"]), (2, 8, 128, 2048))
            self.refuse(trainer, "--hw", "dgx-h100", "--gpus", "8", expect=["deepspeed: the file that it names", "import it too"])
        inline = self.file("accelerate.yaml", "compute_environment: LOCAL_MACHINE\ndistributed_type: DEEPSPEED\nmixed_precision: bf16\n"
                           "num_machines: 1\nnum_processes: 8\ndeepspeed_config:\n  zero_stage: 3\n  gradient_accumulation_steps: 4\n")
        plan = keys_of(self.read(inline, "--hw", "dgx-h100", "--model", "llama3-8b", "--seq-len", "2048", "--micro-batch", "1",
                                 "--batch", "32")[0])
        self.assertEqual((plan["zero"], plan["framework"]), (3, "deepspeed"))
        self.refuse(axolotl, "--from", "megatron", "--hw", "dgx-h100", "--gpus", "8",
                    expect=["few of its keys are megatron's, most are axolotl's", "--from axolotl"])


class Refusals(Case):
    """Exit code 2, nothing on standard output, the place and a remedy; nothing of a script ever runs."""

    def script(self, text):
        return self.file("run.sh", text)

    def test_unknown_variables(self):
        path = self.script(f"\ntorchrun --nproc-per-node 8 pretrain_gpt.py {LLAMA} \\\n  --tensor-model-parallel-size $TP\n")
        self.refuse(path, expect=["run.sh:3:3: error: --tensor-model-parallel-size depends on $TP, which is known only when "
                                  "the script runs", "--define TP=VALUE"])
        plan, _ = self.read(path, "--define", "TP=4")
        self.assertEqual(keys_of(plan)["tp"], 4)

    def test_nothing_runs(self):
        for evil in ("$(touch ran)", "`touch ran`", "$((touch ran))", "${x:-$(touch ran)}", "'; touch ran; '", "\"$(touch ran)\""):
            path = self.script(f"touch ran\ntorchrun --nproc-per-node 8 pretrain_gpt.py {LLAMA} --tensor-model-parallel-size {evil}\n")
            result = run("import", path, cwd=self.directory)
            self.assertEqual(result.returncode, 2, (evil, result.stdout))
            self.assertFalse((self.directory / "ran").exists(), evil)
        # Names go into the plan as text.
        name = self.directory / 'a"b $(touch ran)\nc: d.sh'
        name.write_text(f"torchrun --nproc-per-node 8 pretrain_gpt.py {LLAMA}\n")
        plan, _ = self.read(name)
        self.assertIn(run("predict", "--plan", self.directory / "plan.yaml", "--hw", "dgx-h100").returncode, (0, 3), plan)
        self.assertFalse((self.directory / "ran").exists())

    def test_wrong_values(self):
        for flag, value, words in (("--tensor-model-parallel-size", "two", "'two' is not a whole number"),
                                   ("--tensor-model-parallel-size", "0", "'0' is not from 1 to"),
                                   ("--tensor-model-parallel-size", "99999999999999999999", "is not"),
                                   ("--position-embedding-type", "round", "'round' is not"),
                                   ("--cp-comm-type", "pigeon", "'pigeon' is not p2p, all_gather or a2a")):
            path = self.script(f"torchrun --nproc-per-node 8 pretrain_gpt.py {LLAMA} {flag} {value}\n")
            self.refuse(path, expect=["run.sh:1:", f"error: {flag}: ", words])

    def test_numbers_that_contradict_each_other(self):
        start = f"torchrun --nproc-per-node 8 pretrain_gpt.py {LLAMA} "
        self.refuse(self.script(start + "--tensor-model-parallel-size 3\n"),
                    expect=["run.sh: error: one replica takes 3 GPUs, which do not divide 8", "--gpus N"])
        self.refuse(self.script(start + "--global-batch-size 12\n"), expect=["a batch of 12 is not a whole number of micro-batches"])
        self.refuse(self.script(f"pretrain_gpt.py {LLAMA}\n"), expect=["nothing says how many GPUs there are", "--gpus N"])
        self.refuse(self.script(start.replace("--vocab-size 128256", "")),
                    expect=["the number of words is the tokenizer's", "--define vocab-size=32000 or 32768 or 92544 or 128256"])

    def test_other_programs_and_files(self):
        start = f"torchrun --nproc-per-node 8 pretrain_bert.py {LLAMA}\n"
        self.refuse(self.script(start), expect=["pretrain_bert.py does not train a decoder of text", "--model NAME"])
        self.refuse(self.script("echo hello\n"), expect=["no key of a known framework is in it", "--from megatron"])
        self.refuse(self.script(start), "--from", "torchtitan", expect=["no key of torchtitan is in it"])
        self.refuse(self.file("x.toml", "[a\nb = 1\n"), expect=["x.toml:1:3: error: not TOML"])
        self.refuse(self.file("x.json", '{"a": '), expect=["x.json:1:"])
        result = run("import", self.directory / "none.sh")
        self.assertEqual(result.returncode, 2)
        self.assertIn("none.sh", result.stderr)
        result = run("import", self.directory / "run.sh", "--define", "TP")
        self.assertEqual(result.returncode, 2)
        self.assertIn("'TP' is not NAME=VALUE", result.stderr)

    def test_scripts_that_grow(self):
        start = f"torchrun --nproc-per-node 8 pretrain_gpt.py {LLAMA}\n"
        self.refuse(self.script("A=x\n" + "A=$A$A\n" * 40 + start), expect=["run.sh: error: a variable of the script grows beyond"])
        for lines in ("A=(x)\n" + "A=(${A[@]} ${A[@]})\n" * 40, "A=x\n" + "A=$A$A\n" * 18 + "echo $A\n" * 400):
            self.refuse(self.script(lines + start),
                        expect=["run.sh: error: the words of the script come to more than 33 million letters", "made of themselves"])

    def test_long_files_take_time_in_proportion(self):
        # Places of 100,000 keys were each counted from the beginning of the file: a minute.
        script = self.script(f"torchrun --nproc-per-node 8 pretrain_gpt.py {LLAMA} " + " ".join(f"--flag-{i} {i}" for i in range(100000)) + "\n")
        toml = self.file("run.toml", "".join(f"[a{i}]\nb = {i}\n" for i in range(100000)) +
                         "[training]\nlocal_batch_size = 1\nseq_len = 4096\n[parallelism]\ntensor_parallel_degree = 2\n")
        conditions = self.file("if.sh", "".join(f"if [ $A{i} -gt 1 ]; then X{i}='--lr 1'; fi\n" for i in range(40000)) +
                               f"torchrun --nproc-per-node 8 pretrain_gpt.py {LLAMA}\n")
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        for arguments in ((script,), (toml, "--model", "llama3-8b", "--gpus", "8"), (conditions,)):
            self.read(*arguments)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        self.assertLess(after.ru_utime - before.ru_utime, 12)

    def test_odd_input_ends_soon(self):
        for text in ("\0\1\2" * 100, "(" * 5000, "x=" + "${x:-" * 3000, "$((" + "(" * 5000, "if " * 3000, "case " * 2000,
                     "a=$a$a$a$a\n" * 3, "x=--y\n" + "x=$x$x\n" * 60, "'" * 999, "[" * 5000 + "\n", '{"a":' * 3000, "--a " * 20000,
                     "\n".join(f"--f{i} {{" for i in range(3000))):
            for name in ("run.sh", "run.toml", "run.yaml", "run.json", "run"):
                result = run("import", self.file(name, text), "--from", "megatron")
                self.assertEqual(result.returncode, 2, (name, text[:40], result.stderr[:300]))


def main():
    global BINARY
    parser = argparse.ArgumentParser()
    parser.add_argument("--binary", required=True)
    arguments, rest = parser.parse_known_args()
    BINARY = pathlib.Path(arguments.binary).resolve()
    unittest.main(argv=[sys.argv[0], *rest])


if __name__ == "__main__":
    main()
