#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Exports of drawn plans, judged by the parser or validator of the framework itself.

  python3 tests/exporters/validate_test.py --binary build/check/plansearch megatron

Exit code 77 (skipped) where the framework is not found: see README.md here. What a framework makes of
the degrees is compared with the plan."""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import plans
import shell

HERE = pathlib.Path(__file__).resolve().parent
SCRIPTS = {"megatron": "check_megatron.py", "megatron-bridge": "check_megatron_bridge.py",
           "megatron-deepspeed": "check_megatron_deepspeed.py", "deepspeed": "check_deepspeed.py",
           "torchtitan": "check_torchtitan.py", "torchtitan-0.2": "check_torchtitan_toml.py",
           "nanotron": "check_nanotron.py", "nnscaler": "check_nnscaler.py", "accelerate": "check_accelerate.py",
           "axonn": "check_axonn.py", "galvatron": "check_galvatron.py", "axolotl": "check_axolotl.py",
           "llama-factory": "check_llama_factory.py", "maxtext": "check_maxtext.py", "alpa": "check_alpa.py",
           "ms-swift": "check_swift.py", "verl": "check_verl.py", "verl-fsdp": "check_verl.py"}
BY_COMMAND_LINE = ("megatron", "megatron-bridge", "megatron-deepspeed", "torchtitan", "axonn", "maxtext", "ms-swift", "verl",
                   "verl-fsdp")
PROGRAMS = ("pretrain_gpt.py", "scripts/training/run_recipe.py", "torchtitan.train", "src/maxtext/configs/base.yml",
            "swift/cli/_megatron/sft.py", "verl.trainer.main_ppo")
DRAWN_FOR = {"megatron-bridge": "megatron"}  # targets that have no plans of their own in plans.jsonl


def case_of(binary, target, plan, directory):
    """What the framework gets of a plan; None where the plan is refused."""
    path = pathlib.Path(directory) / "plan.yaml"
    path.write_text(plans.text_of(plan))
    launch = ["--launch", "torchrun"] if target in BY_COMMAND_LINE else []
    result = subprocess.run([binary, "export", path, "--to", target, "--quiet", *launch],
                            capture_output=True, text=True, timeout=120, check=False)
    if result.returncode != 0:
        return None
    case = {"world": plan["gpus"], "layers": plans.MODELS[plan["model"]][1]}
    if target not in BY_COMMAND_LINE:
        return case | {"config": result.stdout}
    nodes = max(1, plan["gpus"] // plans.MACHINES[plan["hardware"]])
    started = shell.run_script(result.stdout, directory, nodes)[0]
    words = started["arguments"]
    last = next(i for i, word in enumerate(words) if word in PROGRAMS)
    return case | {"arguments": words[last + 1:], "environment": started["environment"]}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--binary", required=True)
    parser.add_argument("target", choices=SCRIPTS)
    arguments = parser.parse_args()
    python = os.environ.get("PLANSEARCH_FRAMEWORK_PYTHON", sys.executable)
    command = [python, "-B", "-W", "ignore", HERE / "validators" / SCRIPTS[arguments.target]]
    found = subprocess.run(command, capture_output=True, text=True, input="", check=False)
    if found.returncode == 77:
        print(found.stdout.strip())
        return 77
    cases = []
    with tempfile.TemporaryDirectory() as directory:
        for plan in plans.drawn(DRAWN_FOR.get(arguments.target, arguments.target)):
            case = case_of(arguments.binary, arguments.target, plan, directory)
            if case is not None and len(cases) < 20:
                cases.append((plan, case))
        result = subprocess.run(command, capture_output=True, text=True,
                                input="".join(json.dumps(case) + "\n" for _, case in cases), check=False)
    lines = [json.loads(line) for line in result.stdout.splitlines() if line.startswith("{")]
    if result.returncode != 0 or len(lines) != len(cases) + 1:
        print(result.stdout[-2000:], result.stderr[-2000:])
        return 1
    accepted = 0
    for (plan, _), verdict in zip(cases, lines[1:]):
        known = {"batch": plan["batch"], "seq_len": plan["seq_len"], "lora_rank": plan.get("lora_rank", 0), **plan["degrees"]}
        made = verdict.get("made", {})
        differs = {key: (value, known[key]) for key, value in made.items()
                   if key in known and isinstance(value, int) and value != known[key]
                   and not (key == "zero" and plan["degrees"]["dp"] * plan["degrees"]["cp"] == 1)}
        if made and not differs:
            accepted += 1
        else:
            print(plans.text_of(plan), differs or verdict, sep="\n")
    print(f"{arguments.target}: {lines[0]['version']} accepts {accepted} of {len(cases)}")
    return 0 if accepted == len(cases) == 20 else 1


if __name__ == "__main__":
    sys.exit(main())
