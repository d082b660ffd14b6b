#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Asks for the first plan of published jobs, prices the plan that was published, and checks plan 1 by rules of its own.

    python3 tools/first_plans.py BIN            # prints docs/first_plans.md; exit status 1 where a check fails
    python3 tools/first_plans.py BIN --write    # and writes it

The checks are written after the sources of the frameworks, not after frameworks/*.yaml. Only the standard library is needed.
"""
import json
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "first_plans.md"
MEGATRON = "NVIDIA/Megatron-LM@d98e8a64 (2026-08-22)"
TORCH = "pytorch/torchtitan@b5bcd76c (2026-08-21) and pytorch/pytorch@00722e64"

# The question; the published degrees as `predict` takes them, and where they stand; why another plan may come first.
JOBS = [
    ("--hw selene --model gpt3-175b --gpus 1024", "--tp 8 --pp 16 --micro-batch 1",
     "arXiv 2104.04473, table 1", "fused attention frees the memory that 16 stages were for; 4 are enough, with larger micro-batches"),
    ("--hw selene --model turing-530b --gpus 2240", "--tp 8 --pp 35 --dp 8 --micro-batch 1 --recompute full",
     "arXiv 2201.11990", "nothing is recomputed; 240 micro-batches of a replica do not divide by 35 stages, so neither interleaves"),
    ("--hw dgx-h100 --model turing-530b --gpus 512", "--tp 8 --pp 16 --micro-batch 1",
     "as on A100: tensor groups are nodes", "the same groups"),
    ("--hw dgx-h100 --model bloom-176b --gpus 512", "--tp 8 --pp 4 --micro-batch 1",
     "as on A100 (arXiv 2211.05100), in whole nodes", "the same groups, with chunks"),
    ("--hw jean-zay-a100 --model bloom-176b --gpus 384",
     "--framework megatron-deepspeed --tp 4 --pp 12 --dp 8 --zero 1 --micro-batch 2 --recompute full", "arXiv 2211.05100",
     "sequence parallelism and fused attention, which that framework had not, make recomputation needless"),
    ("--hw selene --model megatron-1t --gpus 3072", "--tp 8 --pp 64 --dp 6 --micro-batch 1 --recompute full",
     "arXiv 2104.04473, table 1", "nothing is recomputed, so 32 stages have room, and chunks halve the bubble"),
    ("--hw mosaic-a100-40 --model gpt-neox-20b --gpus 96 --batch 1536",
     "--framework megatron-deepspeed --tp 2 --pp 4 --dp 12 --zero 1 --micro-batch 4 --recompute full", "arXiv 2204.06745",
     "sharded optimizer and fused attention leave room without stages or recomputation"),
    ("--hw dgx-h100 --model llama3.1-405b --gpus 8192", "--tp 8 --pp 16 --dp 64 --vpp 8 --micro-batch 1 --main-grads bf16",
     "arXiv 2407.21783, table 4; chunks are not published, FSDP beside stages is not priced", "the same but for context ranks, which halve what a stage keeps"),
    ("--hw dgx-h100 --model llama3.1-405b --gpus 16384", "--tp 8 --pp 16 --dp 128 --vpp 8 --micro-batch 1 --main-grads bf16",
     "arXiv 2407.21783, table 4; chunks are not published", "the same but for context ranks"),
    ("--hw dgx-h100 --model llama3-70b --gpus 64 --batch 128", "--tp 4 --pp 4 --vpp 5 --cp 2 --micro-batch 1",
     "NeMo performance recipe, 2024", "within 5 %"),
    ("--hw dgx-h100 --model llama3.1-8b --gpus 8 --batch 128", "--tp 1 --cp 2 --micro-batch 1 --main-grads bf16",
     "Megatron-Bridge recipe", "within 5 %"),
    ("--hw dgx-h100 --model mixtral-8x7b --gpus 64", "--tp 1 --pp 4 --vpp 8 --ep 8 --micro-batch 1",
     "NeMo performance recipe, 2024", "exchanges hide under another micro-batch, which came in 2025, and Megatron-FSDP needs no stages"),
    ("--hw dgx-h100 --model qwen3-235b-a22b --gpus 256 --batch 2048",
     "--tp 2 --pp 8 --vpp 4 --ep 32 --micro-batch 1 --dispatcher deepep --schedule interleaved-pairs --recompute selective "
     "--recompute-modules layernorm,moe_act", "Megatron-MoE-ModelZoo, 2026-05", "within 5 %: larger micro-batches, smaller ep"),
    ("--hw h800-8 --model deepseek-v3 --gpus 2048 --precision fp8",
     "--framework deepseek --pp 16 --ep 64 --dp 128 --zero 1 --micro-batch 1 --schedule dualpipe", "arXiv 2412.19437",
     "Megatron-LM runs no DualPipe and keeps activations in bf16: of what it runs, stages and ep 32"),
    ("--hw h100-500w --model llama3.1-8b --gpus 128 --framework torchtitan", "--zero 3 --micro-batch 2 --recompute selective",
     "torchtitan performance.md, 2024-12", "nothing is recomputed: its 95 GiB hold it"),
    ("--hw h100-500w --model llama3.1-70b --gpus 256 --framework torchtitan --precision fp8",
     "--tp 8 --dp 32 --zero 3 --micro-batch 16 --recompute full", "torchtitan performance.md, 2024-12",
     "sharded over all ranks the weights need no tensor ranks; the published run shows asynchronous tensor parallelism"),
    ("--hw h100-500w --model llama3.1-405b --gpus 512 --framework torchtitan --precision fp8",
     "--tp 8 --pp 8 --dp 8 --vpp 2 --schedule interleaved --zero 3 --micro-batch 1 --recompute full",
     "torchtitan performance.md, 2024-12",
     "64 stages in a V leave room for selective in place of full recomputation; they pay with this many micro-batches only"),
]


def megatron_checks(c, job):
    """(what its source asserts, whether the plan is so); file names below megatron/."""
    joins = c["schedule"] in ("pairs", "interleaved-pairs")
    fsdp = c["zero"] >= 2
    world = c["tp_y"] * c["pp"] * c["cp"] * c["dp"]
    sp, moe = bool(c["sp"]), job["experts"]
    flex = c.get("dispatcher") in ("deepep", "hybridep")
    modules = c.get("recompute_modules", "").replace("+", ",").split(",")
    return [
        ("training/arguments.py, validate_args: world size is divisible by tp x pp x cp", world == job["gpus"]),
        ("training/arguments.py, validate_args: global batch is divisible by micro-batch times data ranks",
         job["batch"] % (c["micro_batch"] * c["dp"]) == 0),
        ("core/transformer/transformer_config.py: attention heads are divisible by tp", job["heads"] % c["tp_y"] == 0),
        ("core/pipeline_parallel/schedules.py: micro-batches are divisible by stages when interleaving",
         c["vpp"] == 1 or c["micro_batches"] % c["pp"] == 0),
        ("core/transformer/transformer_config.py: expert parallelism divides the experts", not moe or moe % c["ep"] == 0),
        ("core/transformer/moe/moe_layer.py: experts with tensor parallelism need sequence parallelism",
         not moe or c["tp_y"] == 1 or sp),
        ("core/transformer/transformer_config.py: chunks must be specified with stages under overlap_moe_expert_parallel_comm",
         not joins or c["pp"] == 1 or c["vpp"] > 1),
        ("core/transformer/transformer_config.py: overlap_moe_expert_parallel_comm is only supported with expert parallelism",
         not joins or c["ep"] > 1),
        ("core/transformer/transformer_config.py: disable full recomputation and moe in recompute_modules under it",
         not joins or (c["recompute"] != "full" and "moe" not in modules)),
        ("core/transformer/transformer_config.py: it is supported with alltoall and flex dispatchers",
         not joins or c.get("dispatcher") != "all-gather"),
        ("training/arguments.py, validate_args: Megatron-FSDP supports sgd and adam", not fsdp or job["optimizer"] in ("adam", "sgd")),
        ("core/distributed/fsdp/mcore_fsdp_adapter.py: version 2 of Megatron-FSDP has no stages", not fsdp or c["pp"] == 1),
        ("Megatron-Bridge, flex_dispatcher_backend.py: DeepEP on Ampere, Hopper, B200 and B300", not flex or job["nvlink"] <= 8),
        ("TransformerEngine issue 1071: user buffers of tensor groups inside one NVLink domain", c["tp_y"] <= job["nvlink"]),
    ]


def torch_checks(c, job):
    stages = c["pp"] * c["vpp"]
    v = c["schedule"] in ("zb-v", "dualpipe-v")
    return [
        ("torchtitan/distributed/parallel_dims.py: dp x cp x tp x pp is the world size",
         c["tp_y"] * c["pp"] * c["cp"] * c["dp"] == job["gpus"]),
        ("torch/distributed/tensor: heads and key/value heads are divisible by tp",
         job["heads"] % c["tp_y"] == 0 and job["kv_heads"] % c["tp_y"] == 0),
        ("torchtitan/distributed/pipeline_parallel.py: no more stages than layers, the embedding and the head",
         c["pp"] == 1 or stages <= job["layers"] + 2),
        ("torch/distributed/pipelining/schedules.py: ScheduleZBVZeroBubble has two stages a rank", not v or c["vpp"] == 2),
        ("torch/distributed/pipelining/schedules.py: at least as many micro-batches as stages of a V",
         not v or c["micro_batches"] >= c["pp"]),
        ("torchtitan: the batch is divisible by data ranks times micro-batches",
         job["batch"] % (c["micro_batch"] * c["dp"]) == 0),
    ]


def ask(binary, command, flags):
    environment = dict(os.environ)
    environment.setdefault("PLANSEARCH_DATA", str(ROOT))
    line = [binary, *command, *flags.split(), "--format", "json", "--quiet"]
    done = subprocess.run(line, capture_output=True, text=True, check=False, env=environment)
    if not done.stdout:
        sys.exit(" ".join(line) + "\n" + done.stderr)
    return json.loads(done.stdout)


def words(config, features=()):
    parts = [f"dp {config['dp']}"]
    for key, name in (("pp", "pp"), ("vpp", "vpp"), ("tp_y", "tp"), ("cp", "cp"), ("ep", "ep")):
        if config[key] > 1:
            parts.append(f"{name} {config[key]}")
    if config["dp"] * config["cp"] > 1:
        parts.append(f"zero {config['zero']}")
    parts.append(f"mbs {config['micro_batch']}")
    if config["recompute"] != "none":
        named = config.get("recompute_modules", "own")
        parts.append(f"{config['recompute']} recompute" if named == "own" else f"{named} recomputed")
    if config.get("dispatcher") not in (None, "own"):
        parts.append(config["dispatcher"])
    if config["pp"] > 1 and config["schedule"] not in ("1f1b", "interleaved") or "pairs" in config["schedule"]:
        parts.append(config["schedule"])
    return ", ".join(parts) + "".join(f" ({name})" for name in features)


def facts(binary, flags, answer):
    rows = {row["field"]: row["value"] for row in ask(binary, ["show", "model", flags["--model"]], "")["rows"]}
    heads = int(rows["attention.heads"])
    settings = {s["key"]: s["value"] for s in answer["question"]["settings"]}
    return {"layers": int(rows["layers"]), "heads": heads, "kv_heads": int(rows.get("attention.kv_heads") or heads),
            "experts": int(rows.get("moe.experts") or 0), "gpus": answer["question"]["gpus"],
            "batch": answer["question"]["global_batch"], "nvlink": 8, "optimizer": settings.get("optimizer", "adam")}


def percent(value):
    return f"{100 * value:+.0f} %"


def row_of(binary, job):
    question, published, source, reason = job
    flags = dict(zip(question.split()[::2], question.split()[1::2]))
    answer = ask(binary, [], f"{question} --top 1")
    if not answer["plans"]:
        sys.exit(f"{question}: no plan fits")
    first = answer["plans"][0]
    known = facts(binary, flags, answer)
    torch = flags.get("--framework") == "torchtitan"
    checks = (torch_checks if torch else megatron_checks)(first["config"], known)
    broken = [name for name, holds in checks if not holds]
    rest = " ".join(f"{k} {v}" for k, v in flags.items() if not (k == "--framework" and "--framework" in published))
    theirs = ask(binary, ["predict"], f"{rest} --batch {known['batch']} {published}" if "--batch" not in rest
                 else f"{rest} {published}")["plans"][0]
    beside = theirs["step_time_s"] / first["step_time_s"] - 1
    fit = "" if theirs["memory_risk"] <= 0.1 else f", risk {100 * theirs['memory_risk']:.0f} %"
    without = answer.get("without_features")
    feature = "" if not without else (f"; without {without['features']} {percent(without['over_first'])}"
                                      if without["config"] else f"; nothing fits without {without['features']}")
    cells = [f"`{question}`", f"{words(first['config'], first.get('features', []))}{feature}", f"{first['step_time_s']:.3g} s",
             f"{words(theirs['config'])} ({source})", f"{theirs['step_time_s']:.3g} s, {percent(beside)}{fit}", reason]
    return "| " + " | ".join(cells) + " |", broken, len(checks)


HEADER = """# First plans beside published ones

Written by `tools/first_plans.py`; do not edit. Plan 1 of each question, the published plan as the same question prices it,
and why they differ. Published degrees have the batch, sequence and precision of the question, so that both prices are of one
job. A difference below 5 % is within the errors that both share.

| question | plan 1 | step | published | its price here | why |
|---|---|---|---|---|---|
"""


def page(binary):
    rows, broken, checks = [], [], 0
    for job in JOBS:
        row, wrong, count = row_of(binary, job)
        rows.append(row)
        broken += [f"{job[0]}: {name}" for name in wrong]
        checks += count
    lists = []
    empty = {"dp": 1, "pp": 1, "vpp": 1, "tp_y": 1, "cp": 1, "ep": 1, "zero": 0, "sp": 0, "micro_batch": 1, "micro_batches": 1,
             "recompute": "none", "schedule": "1f1b"}
    none = {"layers": 1, "heads": 1, "kv_heads": 1, "experts": 0, "gpus": 1, "batch": 1, "nvlink": 8, "optimizer": "adam"}
    for title, names in ((MEGATRON, megatron_checks(empty, none)), (TORCH, torch_checks(empty, none))):
        lists.append(f"{title}:\n\n" + "\n".join(f"- `{n.split(': ', 1)[0]}`: {n.split(': ', 1)[1]}" for n, _ in names))
    verdict = "None is broken." if not broken else "Broken: " + "; ".join(broken)
    return (HEADER + "\n".join(rows) + "\n\n## What plan 1 was checked against\n\n"
            f"{checks} checks of {len(JOBS)} plans, written after the frameworks' own assertions. {verdict}\n\n"
            + "\n\n".join(lists) + "\n"), broken


def main():
    text, broken = page(sys.argv[1])
    if "--write" in sys.argv:
        PAGE.write_text(text)
    else:
        print(text, end="")
    for line in broken:
        print(f"broken: {line}", file=sys.stderr)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
