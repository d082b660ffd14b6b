# SPDX-License-Identifier: Apache-2.0
"""Plans drawn for one target: random degrees of random models on random machines that
`plansearch export` accepted when they were drawn (plans.jsonl). Everything a plan decides is
pinned, so that readers know what to expect without asking plansearch.

  python3 tests/exporters/plans.py build/check/plansearch   # draw them anew"""

import json
import pathlib
import random
import subprocess
import sys
import tempfile

MACHINES = {"dgx-h100": 8, "perlmutter": 4, "aws-p4d": 8, "selene": 8, "alps": 4}
# Sizes that decide which degrees are worth a try: heads, layers, experts (0: dense).
MODELS = {
    "llama3-8b": (32, 32, 0), "llama3-70b": (64, 80, 0), "llama3.1-405b": (128, 126, 0),
    "gpt3-175b": (96, 96, 0), "qwen2-7b": (28, 28, 0), "qwen3-14b": (40, 40, 0),
    "llama2-13b": (40, 40, 0), "mixtral-8x7b": (32, 32, 8), "qwen3-30b-a3b": (32, 48, 128),
    "deepseek-v3": (128, 61, 256), "gpt2-xl": (25, 48, 0), "llama-7b": (32, 32, 0),
    "gpt-oss-20b": (64, 24, 32), "qwen3-235b-a22b": (64, 94, 128), "pythia-6.9b": (32, 32, 0),
    "llama3.2-3b": (24, 28, 0),
}
# What a target is drawn from; everything else is left to chance.
FAVOUR = {
    "megatron": {"framework": ["megatron"]},
    "deepspeed": {"framework": ["deepspeed"], "tp": [1], "pp": [1], "vpp": [1], "ep": [1],
                  "recompute": ["none", "full"], "cp_kind": ["ulysses"]},
    "megatron-deepspeed": {"framework": ["megatron-deepspeed"], "vpp": [1], "ep": [1], "cp": [1, 1, 2],
                           "recompute": ["none", "full"], "cp_kind": ["ulysses"],
                           "models": ["llama3-8b", "llama3-70b", "gpt3-175b", "llama2-13b",
                                      "gpt2-xl", "llama-7b", "llama3.2-3b"]},
    "torchtitan": {"framework": ["torchtitan"], "zero": [2, 3], "cp_kind": ["ring"], "sp": [True],
                   "schedule": ["gpipe", "1f1b", "interleaved", "breadth-first"],
                   "models": ["llama3-8b", "llama3-70b", "llama3.1-405b", "qwen3-14b",
                              "qwen3-30b-a3b", "deepseek-v3", "gpt-oss-20b", "qwen2-7b"]},
    "nanotron": {"framework": ["nanotron"], "vpp": [1], "ep": [1], "zero": [0, 1],
                 "recompute": ["none", "full"], "cp_kind": ["ring"],
                 "models": ["llama3-8b", "llama3-70b", "llama2-13b", "llama-7b", "qwen2-7b",
                            "llama3.2-3b"]},
    "accelerate": {"framework": ["torchtitan", "fsdp"], "pp": [1], "vpp": [1], "ep": [1],
                   "zero": [2, 3], "recompute": ["none", "full"], "cp_kind": ["ring"],
                   "sp": [False]},
}
FAVOUR["galvatron"] = {"framework": ["megatron"], "vpp": [1], "zero": [0, 0, 3], "sp": [True], "recompute": ["none", "full"],
                       "models": ["llama3-8b", "llama3-70b", "llama2-13b", "mixtral-8x7b", "qwen3-14b", "gpt3-175b"]}
FAVOUR["torchtitan-0.2"] = FAVOUR["torchtitan"]
PACKS = ("axolotl", "llama-factory", "ms-swift")
HF_MODELS = ["llama3-8b", "llama3-70b", "qwen2-7b", "qwen3-14b", "mixtral-8x7b", "llama3.2-3b"]
FAVOUR["axolotl"] = {"framework": ["hf-trainer"], "pp": [1], "vpp": [1], "ep": [1], "zero": [0, 2, 3], "sp": [False],
                     "recompute": ["none", "full"], "cp_kind": ["ring", "all-gather"], "tp": [1, 1, 2], "cp": [1, 1, 2],
                     "models": HF_MODELS}
FAVOUR["llama-factory"] = FAVOUR["axolotl"] | {"tp": [1], "cp": [1]}
FAVOUR["ms-swift"] = {"framework": ["megatron"], "models": [*HF_MODELS, "qwen3-30b-a3b", "deepseek-v3"]}
FAVOUR["verl"] = FAVOUR["ms-swift"] | {"zero": [0, 1]}
FAVOUR["verl-fsdp"] = {"framework": ["fsdp2"], "pp": [1], "vpp": [1], "ep": [1], "tp": [1], "zero": [2, 3], "sp": [False],
                       "recompute": ["none", "full"], "cp_kind": ["ulysses"], "models": HF_MODELS}
FAVOUR["maxtext"] = {"framework": ["maxtext"], "tp": [1, 1, 2, 4, 8], "zero": [0, 1, 3, 3], "sp": [True], "recompute": ["selective", "full"],
                     "cp_kind": ["ring", "all-gather"], "cp": [1, 1, 2, 4], "schedule": ["gpipe", "breadth-first"],
                     "models": ["llama3-8b", "llama3-70b", "qwen2-7b", "qwen3-14b", "mixtral-8x7b", "qwen3-30b-a3b", "deepseek-v3",
                                "gpt3-175b"]}
# Adapters, as each target names them.
ADAPTERS = {"axolotl": ["q,v", "attention", "all-linear", "q,v,down,head"], "llama-factory": ["q,v", "all-linear", "o,up,embedding"],
            "ms-swift": ["all-linear", "attention"], "verl": ["all-linear", "mlp"], "verl-fsdp": ["q,v", "all-linear"]}
FAVOUR["axonn"] = {"framework": ["axonn"], "vpp": [1], "ep": [1], "cp": [1], "cp_kind": ["ring"], "zero": [0],
                   "sp": [False], "recompute": ["none", "full"], "schedule": ["1f1b"],
                   "models": ["gpt3-175b", "gpt2-xl"]}
FAVOUR["alpa"] = {"framework": ["alpa"], "vpp": [1], "ep": [1], "cp": [1], "cp_kind": ["ring"], "zero": [0, 1], "sp": [False],
                  "tp": [1, 1, 2, 4], "recompute": ["none", "full"], "schedule": ["1f1b", "gpipe"],
                  "models": ["gpt3-175b", "gpt2-xl", "llama2-13b", "pythia-6.9b"]}


def draw(rng, target):
    """One plan as a dict, legal or not."""
    favour = FAVOUR[target]

    def pick(key, choices):
        return rng.choice(favour.get(key, choices))

    names = favour.get("models", sorted(MODELS))
    # Half of the draws are mixtures of experts where the target knows them.
    expert_names = [name for name in names if MODELS[name][2]]
    if expert_names and target in ("megatron", "torchtitan", "torchtitan-0.2") and rng.random() < 0.5:
        names = expert_names
    model = rng.choice(names)
    _, layers, experts = MODELS[model]
    hardware = rng.choice(sorted(MACHINES))
    plan = {"hardware": hardware, "model": model, "framework": pick("framework", ["megatron"])}
    pp = pick("pp", [1, 1, 2, 4, 8])
    vpp = pick("vpp", [1, 1, 2, 3, 4]) if pp > 1 else 1
    tp = pick("tp", [1, 1, 2, 4, 5, 8])
    cp = pick("cp", [1, 1, 1, 2, 4])
    dp = rng.choice([1, 2, 4, 8, 16])
    nodes = MACHINES[hardware]
    devices = dp * pp * tp * cp
    if devices > nodes and devices % nodes:
        return None
    micro_batch = rng.choice([1, 1, 2, 4])
    micro_batches = rng.choice([1, 2, 3, 4, 8]) * pp
    # Of a grid: in x out x depth.
    tp_x, tp_z = (rng.choice([1, 2, 4]), rng.choice([1, 2, 4, 8])) if target == "axonn" else (1, 1)
    devices *= tp_x * tp_z
    degrees = {
        "dp": dp, "pp": pp, "vpp": vpp, "tp": tp, "cp": cp,
        "cp_kind": pick("cp_kind", ["ring", "ulysses"]) if cp > 1 else "ring",
        "ep": pick("ep", [1, 2, 4, 8]) if experts else 1,
        "etp": rng.choice([1, tp]) if experts and target == "megatron" else 1,
        "zero": pick("zero", [0, 1, 1, 2, 3]),
        "sp": pick("sp", [True, False]) if tp > 1 else False,
        "micro_batch": micro_batch,
        "recompute": pick("recompute", ["none", "selective", "full"]),
        "schedule": schedule_of(rng, favour, pp, vpp),
    }
    if target == "axonn":
        degrees |= {"tp_x": tp_x, "tp_y": degrees.pop("tp"), "tp_z": tp_z}
    if degrees["ep"] > 1 and tp > 1:
        degrees["sp"] = True
    if degrees["schedule"] is None:
        return None
    if target in ("deepspeed", "accelerate", "torchtitan", "torchtitan-0.2", "megatron"):
        if dp >= 4 and rng.random() < 0.25 and degrees["zero"] and degrees["ep"] == 1:
            degrees["shard_group"] = 2
    plan |= {"gpus": devices, "batch": dp * tp_z * micro_batch * micro_batches,
             "seq_len": rng.choice([1024, 2048, 4096] if model == "gpt2-xl" else [2048, 4096, 8192]),
             "precision": rng.choice(["bf16", "bf16", "bf16", "fp16", "fp32"]), "optimizer": "adam"}
    if target == "megatron" and hardware == "dgx-h100" and rng.random() < 0.3:
        plan["precision"] = "fp8"
    if target == "megatron" and degrees["recompute"] == "full" and plan["seq_len"] > 2048:
        degrees["recompute_layers"] = 1
    draw_more(rng, target, plan, degrees)
    return plan | {"degrees": degrees}


def draw_more(rng, target, plan, degrees):
    """What only some targets can say."""
    if target in ADAPTERS and rng.random() < 0.3:
        plan |= {"lora_rank": rng.choice([8, 16, 64]), "lora_targets": rng.choice(ADAPTERS[target])}
        if target in ("axolotl", "llama-factory"):
            plan["base_precision"] = rng.choice(["nf4", "int8"])
            plan["optimizer_states"] = rng.choice(["int8", "fp32"])
    if target == "maxtext":
        degrees["etp"] = degrees["tp"] if MODELS[plan["model"]][2] else 1
    if target == "ms-swift" and plan["hardware"] == "dgx-h100" and rng.random() < 0.3:
        plan["precision"] = "fp8"
    if target in ("axolotl", "verl-fsdp", "maxtext") and degrees["zero"] == 3 and degrees["dp"] >= 4 and rng.random() < 0.25:
        degrees["shard_group"] = 2
    if target == "ms-swift" and degrees["recompute"] == "full" and plan["seq_len"] > 2048:
        degrees["recompute_layers"] = 1
    if target in PACKS and rng.random() < 0.2:
        plan["packing"] = rng.choice(["512", "256x3+1024", "lognormal:400:0.8"])


def schedule_of(rng, favour, pp, vpp):
    if pp == 1:
        return "1f1b"
    fits = ["interleaved", "breadth-first"] if vpp > 1 else ["gpipe", "1f1b"]
    known = favour.get("schedule", ["1f1b", "interleaved"] if "models" not in favour
                       else ["1f1b", "gpipe"])
    known = [name for name in fits if name in known or name == "interleaved" and vpp > 1]
    return rng.choice(known) if known else None


def text_of(plan):
    """A plan document."""
    def scalar(value):
        return str(value).lower() if isinstance(value, bool) else str(value)

    lines = ["schema: plansearch/plan/v1"]
    lines += [f"{key}: {scalar(value)}" for key, value in plan.items() if key != "degrees"]
    lines += ["degrees:"]
    lines += [f"  {key}: {scalar(value)}" for key, value in plan["degrees"].items()]
    return "\n".join(lines) + "\n"


def accepted(binary, target, directory, count=25, seed=1):
    """`count` plans that export to `target`."""
    rng = random.Random(f"{target} {seed}")
    found = []
    for _ in range(4000):
        plan = draw(rng, target)
        if plan is None:
            continue
        path = pathlib.Path(directory) / "plan.yaml"
        path.write_text(text_of(plan))
        result = subprocess.run([binary, "export", path, "--to", target, "--quiet"],
                                capture_output=True, text=True, timeout=120, check=False)
        if result.returncode not in (0, 2, 4):
            raise AssertionError((result.returncode, result.stderr, text_of(plan)))
        if result.returncode == 0:
            found.append(plan)
        if len(found) == count:
            return found
    raise AssertionError(f"only {len(found)} plans of {count} for {target}")


FILE = pathlib.Path(__file__).resolve().parent / "plans.jsonl"


def drawn(target):
    """The plans of a target as they were drawn."""
    lines = (json.loads(line) for line in FILE.read_text().splitlines())
    return [line["plan"] for line in lines if line["target"] == target]


def main():
    if len(sys.argv) != 2:
        sys.exit("usage: plans.py BINARY   draws the plans of every target anew")
    with tempfile.TemporaryDirectory() as directory:
        lines = [json.dumps({"target": target, "plan": plan})
                 for target in FAVOUR for plan in accepted(sys.argv[1], target, directory)]
    FILE.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
