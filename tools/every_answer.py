#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What no answer may say, over every shipped model, five machines and four tasks: a rate above 70 % of the peak in
bf16, less memory than the parameters take, an efficiency above 100 %, or "no plan fits" without a change that helps.

  python3 tools/every_answer.py --binary BIN [--models TEXT] [--part I/N] [--follow]

Prints a line for each answer that does, and the counts. --follow asks the first change of a refusal and expects a plan.
"""

import argparse
import collections
import json
import re
import shlex
import subprocess
import sys

MACHINES = ["dgx-h100", "perlmutter", "mi300x-8", "tpu-v5p", "rtx-4090-box"]
TASKS = ["pretrain", "sft", "lora", "dpo"]
MOST_MFU = 0.70


def ask(binary, arguments):
    done = subprocess.run([binary, *arguments, "--format", "json", "--top", "1", "--threads", "1"], capture_output=True, text=True,
                          timeout=900, check=False)
    return done, json.loads(done.stdout) if done.stdout.startswith("{") else None


def changed_by(hint):
    """The options of "with --seq-len 2048 it fits", of "with --hw h200 --gpus 64 it fits", or of "on 16 GPUs it fits"."""
    more = re.match(r"on ([\d,]+) GPUs it fits", hint)
    if more:
        return ["--gpus", more.group(1).replace(",", "")]
    flags = re.match(r'with ((?:--[\w-]+ (?:"[^"]*"|\S+) ?)+).*it fits', hint)
    return [word.rstrip(",") for word in shlex.split(flags.group(1))] if flags else None


def changed_question(words, change, gpus):
    """The question after a change, whose options take the place of those that it has."""
    options = dict(zip(words[::2], words[1::2])) | {"--gpus": str(gpus)} | dict(zip(change[::2], change[1::2]))
    return [word for option in options.items() for word in option]


def faults_of(answer):
    question = answer["question"]
    plans = [(rung["gpus"], rung["plan"]) for rung in answer.get("ladder", []) if rung["plan"]]
    plans += [(question["gpus"], plan) for plan in answer["plans"]]
    smallest = 0.5 if any(s["key"] == "base_precision" for s in question.get("settings", [])) else 2
    for gpus, plan in plans:
        if question["precision"] == "bf16" and plan["mfu"] > MOST_MFU:
            yield f"MFU {100 * plan['mfu']:.1f} % on {gpus}"
        offloads = plan["config"].get("offload", "none") != "none" if "config" in plan else False
        if not offloads and plan["peak_memory_bytes"] * gpus < smallest * question["parameters"]:
            yield f"peak {plan['peak_memory_bytes']} on {gpus} is below the parameters"
    for rung in answer.get("ladder", []):
        if rung["efficiency"] is not None and rung["efficiency"] > 1.0 + 1e-9:
            yield f"efficiency {rung['efficiency']:.3f} on {rung['gpus']}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", required=True)
    parser.add_argument("--models", default="", help="only those whose names have this in them")
    parser.add_argument("--part", default="1/1", help="every N-th question, from the I-th on")
    parser.add_argument("--follow", action="store_true")
    options = parser.parse_args()
    listed = subprocess.run([options.binary, "list", "models", "--format", "json"], capture_output=True, text=True, check=True)
    listed = json.loads(listed.stdout)
    rows = listed if isinstance(listed, list) else next(value for value in listed.values() if isinstance(value, list))
    models = [row["name"] if isinstance(row, dict) else row[0] for row in rows]
    part, parts = map(int, options.part.split("/"))
    questions = [(model, machine, task) for model in models if options.models in model for machine in MACHINES for task in TASKS]
    counts = collections.Counter()
    for model, machine, task in questions[part - 1::parts]:
        words = ["--hw", machine, "--model", model, "--task", task]
        done, answer = ask(options.binary, words)
        faults = []
        if answer is None:
            counts["refused"] += 1
            if done.returncode not in (2, 3, 4) or not done.stderr:
                faults.append(f"exit {done.returncode} {done.stderr[:200]}")
            else:
                counts[re.sub(r"'.*?'|\d+|" + re.escape(model), "_", done.stderr.splitlines()[0])[:90]] += 1
        else:
            faults = list(faults_of(answer))
            counts["answered"] += 1
            if not answer["feasible"]:
                counts["no plan fits"] += 1
                helps = [changed for changed in map(changed_by, answer["remedies"]) if changed]
                if not helps:
                    faults.append(f"no way out: {answer['remedies']}")
                elif options.follow:
                    _, then = ask(options.binary, changed_question(words, helps[0], answer["question"]["gpus"]))
                    if then is None or not then["feasible"] or then["admitted"] != "fits":
                        faults.append(f"{' '.join(helps[0])} does not fit")
        for fault in faults:
            counts["faults"] += 1
            print(f"{shlex.join(words)}: {fault}", flush=True)
    for what, count in counts.most_common():
        print(f"{count:6} {what}", file=sys.stderr)
    return 1 if counts["faults"] else 0


if __name__ == "__main__":
    sys.exit(main())
