#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The first ten plans of many searches against what the frameworks check.

usage: plans_run.py PLANSEARCH [--every] [TEXT]     --every: all plans that were priced; TEXT: searches that contain it

Always against the conditions restated in restated.py; with PLANSEARCH_MEGATRON_LM and PLANSEARCH_TORCHTITAN naming checkouts
(the commits of docs/legality/sources.csv) against the frameworks' own validators too.
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import yaml

from restated import broken

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
PLANS = 10
#: hardware, model, GPUs, framework, further flags
SEARCHES = [
    ("dgx-h100", "llama3-8b", 64, "megatron", "--seq-len 131072"),
    ("dgx-h100", "llama3-8b", 8, "torchtitan", ""),
    ("dgx-h100", "deepseek-v3", 2048, "megatron", ""),
    ("dgx-h100", "llama3.1-405b", 8192, "megatron", ""),
    ("dgx-h100", "llama3.1-405b", 16384, "megatron", ""),
    ("aws-p5", "mixtral-8x7b", 64, "megatron", ""),
    ("dgx-h100", "qwen3-30b-a3b", 32, "megatron", ""),
    ("dgx-h100", "llama3-70b", 128, "megatron", "--batch 16"),
    ("dgx-h100", "llama3-70b", 512, "megatron", ""),
    ("dgx-h100", "gpt-oss-20b", 32, "megatron", ""),
    ("dgx-h100", "gpt-oss-120b", 64, "megatron", "--seq-len 131072 --batch 64"),
    ("dgx-h100", "gemma2-27b", 64, "megatron", "--seq-len 65536 --batch 64"),
    ("perlmutter", "gpt2-xl", 128, "megatron", ""),
    ("perlmutter", "gpt2-xl", 1024, "megatron", ""),
    ("selene", "gpt3-175b", 1536, "megatron", ""),
    ("selene", "gpt3-175b", 1024, "megatron", ""),
    ("selene", "turing-530b", 2240, "megatron", ""),
    ("dgx-h100", "turing-530b", 512, "megatron", ""),
    ("dgx-h100", "bloom-176b", 512, "megatron", ""),
    ("jean-zay-a100", "bloom-176b", 384, "megatron", ""),
    ("mosaic-a100-40", "gpt-neox-20b", 96, "megatron", "--batch 1536"),
    ("dgx-h100", "llama3-70b", 64, "megatron", "--batch 128"),
    ("dgx-h100", "llama3.1-8b", 8, "megatron", "--batch 128"),
    ("dgx-h100", "mixtral-8x7b", 64, "megatron", ""),
    ("dgx-h100", "qwen3-235b-a22b", 256, "megatron", "--batch 2048"),
    ("h800-8", "deepseek-v3", 2048, "megatron", "--precision fp8"),
    ("h100-500w", "llama3.1-8b", 128, "torchtitan", ""),
    ("h100-500w", "llama3.1-70b", 256, "torchtitan", "--precision fp8"),
    ("h100-500w", "llama3.1-405b", 512, "torchtitan", "--precision fp8"),
    ("selene", "megatron-1t", 3072, "megatron", ""),
    ("dgx-h100", "qwen2.5-72b", 256, "megatron", "--precision fp8"),
    ("dgx-h100", "qwen3-235b-a22b", 256, "megatron", "--precision fp8"),
    ("dgx-h100", "mistral-7b-v0.1", 16, "megatron", "--seq-len 32768 --batch 32"),
    ("dgx-h100", "kimi-k2", 1024, "megatron", ""),
    ("dgx-h100", "deepseek-v2-lite", 16, "megatron", ""),
    ("dgx-h100", "llama3-70b", 64, "megatron", "--attention unfused --batch 64"),
    ("dgx-h100", "llama3-70b", 256, "megatron-2026", ""),
    ("dgx-h100", "qwen3-30b-a3b", 64, "megatron-2026", "--precision fp8"),
    ("dgx-h100", "llama3-8b", 64, "torchtitan", "--seq-len 131072 --batch 64"),
    ("dgx-h100", "llama3-70b", 256, "torchtitan", ""),
    ("dgx-h100", "llama3-70b", 128, "torchtitan", "--batch 32"),
    ("dgx-h100", "llama3.1-405b", 512, "torchtitan", ""),
    ("dgx-h100", "qwen3-0.6b", 64, "torchtitan", ""),
    ("dgx-h100", "qwen3-32b", 64, "torchtitan", ""),
    ("dgx-h100", "qwen3-30b-a3b", 32, "torchtitan", ""),
    ("dgx-h100", "deepseek-v3", 1024, "torchtitan", ""),
    ("dgx-h100", "gpt-oss-20b", 64, "torchtitan", ""),
    ("dgx-h100", "llama3-70b", 64, "torchtitan", "--precision fp8"),
    ("dgx-h100", "llama3-8b", 64, "deepspeed", ""),
    ("dgx-h100", "llama3-70b", 128, "deepspeed", ""),
    ("dgx-h100", "llama3-8b", 32, "deepspeed", "--seq-len 131072 --batch 32"),
    ("aws-p5", "mixtral-8x7b", 64, "deepspeed", ""),
    ("perlmutter", "gpt-neox-20b", 128, "deepspeed", ""),
    ("selene", "bloom-176b", 384, "megatron-deepspeed", ""),
    ("selene", "llama2-13b", 64, "megatron-deepspeed", "--seq-len 32768 --batch 64"),
    ("selene", "llama2-70b", 128, "megatron-deepspeed", ""),
    ("selene", "turing-530b", 2240, "megatron-deepspeed", ""),
    ("aws-p5", "llama3.2-1b", 16, "nanotron", ""),
    ("aws-p5", "llama3-8b", 64, "nanotron", ""),
    ("aws-p5", "llama3-70b", 128, "nanotron", ""),
    ("aws-p5", "qwen2.5-14b", 64, "nanotron", ""),
    ("dgx-h100", "llama3.1-405b", 512, "nanotron", ""),
    ("dgx-h100", "llama3-8b", 64, "maxtext", ""),
    ("dgx-h100", "llama3-70b", 256, "maxtext", ""),
    ("dgx-h100", "llama3-8b", 32, "maxtext", "--seq-len 131072 --batch 32"),
    ("dgx-h100", "mixtral-8x7b", 64, "maxtext", ""),
    ("dgx-h100", "gemma2-9b", 32, "maxtext", "--seq-len 65536 --batch 32"),
    ("dgx-h100", "llama3-70b", 128, "maxtext", "--precision fp8"),
]


def search(binary, hardware, model, gpus, framework, flags, every):
    """The answer, and the plans with their rank (with --every: their line)."""
    with tempfile.TemporaryDirectory() as folder:
        listed = pathlib.Path(folder) / "all.jsonl"
        more = ["--all", str(listed)] if every else []
        result = answer(binary, hardware, model, gpus, framework, flags, more)
        if every:
            rows = [json.loads(line) for line in listed.read_text(encoding="utf-8").splitlines()]
            return result, list(enumerate(rows, start=1))
    configs = [dict(plan["config"], layers=[round(stage["layers"]) for stage in plan["stages"]])
               for plan in result["plans"]]
    return result, list(enumerate(configs, start=1))


def answer(binary, hardware, model, gpus, framework, flags, more):
    command = [binary, "search", "--hw", hardware, "--model", model, "--gpus", str(gpus), "--framework", framework,
               "--top", str(PLANS), "--format", "json", "--quiet"] + flags.split() + more
    run = subprocess.run(command, capture_output=True, text=True, timeout=600)
    if run.returncode not in (0, 3):
        raise RuntimeError(f"{' '.join(command)}: exit {run.returncode}: {run.stderr.strip()[:300]}")
    return json.loads(run.stdout)


#: what takes whole ranks; the others are backends of one kind, flex
DISPATCHERS = {None: "alltoall", "own": "alltoall", "all-to-all": "alltoall", "all-gather": "allgather"}


def megatron_flags(p, model, q):
    """Flags by hand: those the validator looks at."""
    a, e = model["attention"], model.get("experts") or {}
    mlp = model.get("mlp", {})
    heads = a["heads"]
    flags = {
        "num-layers": model["layers"], "hidden-size": model["hidden"], "num-attention-heads": heads,
        "seq-length": q["seq_len"], "max-position-embeddings": q["seq_len"], "micro-batch-size": p["micro_batch"],
        "global-batch-size": q["global_batch"], "train-iters": 10, "lr": "1e-4", "vocab-size": 32000,
        "tokenizer-type": "NullTokenizer", "tensor-model-parallel-size": p["tp"],
        "pipeline-model-parallel-size": p["pp"], "context-parallel-size": p["cp"],
        "position-embedding-type": "rope", "kv-channels": a.get("head_size", model["hidden"] // heads),
    }
    switches = ["bf16", "mock-data"]
    if "latent" not in a and a.get("kv_heads", heads) != heads:
        switches.append("group-query-attention")
        flags["num-query-groups"] = a["kv_heads"]
    if mlp.get("gated"):
        switches.append("swiglu")
    if not mlp.get("bias") and not e.get("bias"):
        switches.append("disable-bias-linear")
    if not model.get("embedding", {}).get("tied"):
        switches.append("untie-embeddings-and-output-weights")
    if p["cp"] > 1:
        flags["cp-comm-type"] = "p2p" if p["cp_kind"] == "ring" else "a2a"
    if p["sp"]:
        switches.append("sequence-parallel")
    if p["zero"] == 1:
        switches.append("use-distributed-optimizer")
    if p["zero"] > 1:
        switches += ["use-distributed-optimizer", "use-megatron-fsdp"]
        flags["data-parallel-sharding-strategy"] = "optim_grads" if p["zero"] == 2 else "optim_grads_params"
        flags["ckpt-format"] = "fsdp_dtensor"
    if e:
        switches.append("moe-grouped-gemm")
        flags |= {"num-experts": e["count"], "moe-router-topk": e["top_k"], "moe-ffn-hidden-size": e["width"],
                  "expert-model-parallel-size": p["ep"], "expert-tensor-parallel-size": p["etp"],
                  "moe-token-dispatcher-type": DISPATCHERS.get(p.get("dispatcher"), "flex")}
        if flags["moe-token-dispatcher-type"] == "flex":
            flags["moe-flex-dispatcher-backend"] = p["dispatcher"]
        if "pairs" in p["schedule"]:
            switches.append("overlap-moe-expert-parallel-comm")
    if p["recompute"] == "full":
        flags |= {"recompute-granularity": "full", "recompute-method": "uniform", "recompute-num-layers": 1}
    if p["recompute"] == "selective":
        flags["recompute-granularity"] = "selective"
        named = p.get("recompute_modules", "own")
        if named != "own":
            flags["recompute-modules"] = named.replace("+", ",").split(",")
    if "latent" in a:
        switches.append("multi-latent-attention")
    if model["layers"] % (p["pp"] * p["vpp"]):
        stages, left = [], model["layers"]
        count = p["pp"] * p["vpp"]
        for stage in range(count):
            held = left // (count - stage)
            stages.append("t" * held)
            left -= held
        flags["pipeline-model-parallel-layout"] = "E" + "|".join(stages) + "L"
    elif p["vpp"] > 1:
        flags["num-virtual-stages-per-pipeline-rank"] = p["vpp"]
    listed = [f"--{switch}" for switch in switches]
    for flag, value in flags.items():
        listed += [f"--{flag}", *map(str, value)] if isinstance(value, list) else [f"--{flag}", str(value)]
    env = {} if p["zero"] > 1 else {"CUDA_DEVICE_MAX_CONNECTIONS": "1"}
    return {"flags": listed, "gpus": q["gpus"], "env": env}


def torchtitan_dims(p, model, q):
    shard = p["shard_group"] or p["dp"]
    return {"gpus": q["gpus"], "layers": model["layers"], "stages_per_rank": p["vpp"],
            "dims": {"dp_replicate": p["dp"] // shard, "dp_shard": shard, "cp": p["cp"], "tp": p["tp"],
                     "pp": p["pp"], "ep": p["ep"]}}


#: framework: variable that names a checkout, validator, what it takes
VALIDATORS = {
    "megatron": ("PLANSEARCH_MEGATRON_LM", "megatron.py", megatron_flags),
    "megatron-2026": ("PLANSEARCH_MEGATRON_LM", "megatron.py", megatron_flags),
    "torchtitan": ("PLANSEARCH_TORCHTITAN", "torchtitan.py", torchtitan_dims),
}


def run_validator(script, checkout, cases):
    run = subprocess.run([sys.executable, "-W", "ignore", HERE / "validators" / script, checkout],
                         input=json.dumps(cases), capture_output=True, text=True, timeout=1800)
    if run.returncode != 0:
        raise RuntimeError(f"{script}: {run.stderr[-600:]}")
    return [json.loads(line) for line in run.stdout.splitlines()]


def main(arguments):
    binary = arguments[0]
    every = "--every" in arguments
    only = " ".join(word for word in arguments[1:] if word != "--every")
    faults, asked, waiting = [], {}, {}
    for hardware, name, gpus, framework, flags in SEARCHES:
        label = f"{framework} {name} {gpus} {hardware} {flags}".strip()
        if only not in label:
            continue
        result, plans = search(binary, hardware, name, gpus, framework, flags, every)
        model = yaml.safe_load((ROOT / "models" / (name + ".yaml")).read_text(encoding="utf-8"))
        question = result["question"]
        for rank, config in plans:
            case = f"{label} #{rank}"
            asked[framework] = asked.get(framework, 0) + 1
            faults += [f"{case}: {sentence}" for sentence in broken(config, model, question)]
            if framework in VALIDATORS and VALIDATORS[framework][0] in os.environ:
                variable, script, make = VALIDATORS[framework]
                waiting.setdefault((script, os.environ[variable]), []).append(
                    {"name": case, **make(config, model, question)})
        print(f"{label}: {len(plans)} plans", flush=True)
    for (script, checkout), cases in waiting.items():
        verdicts = run_validator(script, checkout, cases)
        faults += [f"{v['name']}: {script} says {v['error']}" for v in verdicts if not v["accepted"]]
        print(f"{script}: {sum(v['accepted'] for v in verdicts)} of {len(verdicts)} accepted")
    print("\n".join(faults))
    print(f"{sum(asked.values())} plans {asked}, {len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
