#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Seven networks under nine settings for every target: written and accepted by the target's own parser (where it is
found, see README.md), or refused by name; never anything else.

  python3 tests/exporters/matrix_test.py --binary build/check/plansearch [TARGET ...]"""

import argparse
import collections
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import shell
from validate_test import BY_COMMAND_LINE, HERE, PROGRAMS, SCRIPTS

# GPUs, layers, degrees of plans that have several ranks in a layer.
MODELS = {"gpt2-xl": (8, 48, {}), "llama3-8b": (64, 32, {"tp": 2, "pp": 2}), "llama3-70b": (64, 80, {"tp": 8, "pp": 2}),
          "llama3.1-405b": (512, 126, {"tp": 8, "pp": 8}), "mixtral-8x7b": (64, 32, {"tp": 2, "pp": 2, "ep": 8}),
          "qwen3-235b-a22b": (256, 94, {"tp": 2, "pp": 8, "ep": 8}), "deepseek-v3": (512, 61, {"tp": 4, "pp": 8, "ep": 8})}
SETTINGS = {"plain": [], "zero 1": ["--zero", "1"], "zero 2": ["--zero", "2", "--pp", "1"], "zero 3": ["--zero", "3", "--pp", "1"],
            "recompute": ["--recompute", "full"], "selective": ["--recompute", "selective", "--attention", "unfused"],
            "offload": ["--offload", "optimizer"], "lora": ["--lora-rank", "16", "--lora-targets", "all-linear"],
            "fp8": ["--precision", "fp8"]}
# The framework whose rules the plans obey, and which degrees beside dp it has.
TARGETS = {"megatron": ("megatron", "tp pp ep"), "megatron-bridge": ("megatron", "tp pp ep"), "ms-swift": ("megatron", "tp pp ep"),
           "verl": ("megatron", "tp pp ep"), "galvatron": ("megatron", "tp pp ep"), "deepspeed": ("deepspeed", ""),
           "megatron-deepspeed": ("megatron-deepspeed", "tp pp"), "torchtitan": ("torchtitan", "tp pp ep"),
           "torchtitan-0.2": ("torchtitan", "tp pp ep"), "nanotron": ("nanotron", "tp pp"), "accelerate": ("fsdp2", ""),
           "axolotl": ("hf-trainer", ""), "llama-factory": ("hf-trainer", ""), "verl-fsdp": ("fsdp2", ""),
           "maxtext": ("maxtext", "tp pp ep"), "alpa": ("alpa", "tp pp"), "nnscaler": ("nnscaler", ""), "axonn": ("axonn", "tp pp")}


class Matrix:
    def __init__(self, binary, folder):
        self.binary, self.folder, self.plans = binary, folder, {}

    def run(self, *words):
        return subprocess.run([self.binary, *map(str, words)], capture_output=True, text=True, timeout=300, check=False)

    def plan(self, model, setting, framework, degrees):
        """None where the framework's own rules forbid it."""
        key = (model, setting, framework, degrees)
        if key not in self.plans:
            gpus, _, own = MODELS[model]
            words = [word for name, value in own.items() if name in degrees.split() and f"--{name}" not in SETTINGS[setting]
                     for word in (f"--{name}", value)]
            path = self.folder / f"{len(self.plans)}.yaml"
            made = self.run("predict", "--hw", "dgx-h100", "--model", model, "--gpus", gpus, "--batch", 2 * gpus, "--micro-batch", 1,
                            "--framework", framework, *words, *SETTINGS[setting], "--write-plan", path, "--quiet")
            assert path.exists() or (made.returncode == 2 and "hint:" in made.stderr), made.stderr
            self.plans[key] = path if path.exists() else None
        return self.plans[key]

    def case(self, path, target, model):
        """What the target gets; None where it is refused by name."""
        gpus, layers, _ = MODELS[model]
        launch = ("--launch", "torchrun") if target in BY_COMMAND_LINE else ()
        made = self.run("export", path, "--to", target, "--quiet", *launch)
        if made.returncode == 4 and "cannot express this plan" in made.stderr:
            return None
        assert made.returncode == 0, (target, model, made.stderr)
        case = {"world": gpus, "layers": layers}
        if target not in BY_COMMAND_LINE:
            return case | {"config": made.stdout}
        started = shell.run_script(made.stdout, self.folder, gpus // 8)[0]
        last = next(i for i, word in enumerate(started["arguments"]) if word in PROGRAMS)
        return case | {"arguments": started["arguments"][last + 1:], "environment": started["environment"]}


def judged(target, cases):
    """(version, rejected) by the target's own parser; nothing where it is not found."""
    if target not in SCRIPTS:
        return None
    python = os.environ.get("PLANSEARCH_FRAMEWORK_PYTHON", sys.executable)
    command = [python, "-B", "-W", "ignore", HERE / "validators" / SCRIPTS[target]]
    done = subprocess.run(command, capture_output=True, text=True, check=False,
                          input="".join(json.dumps(case) + "\n" for _, case in cases))
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode == 77:
        return None
    assert len(lines) == len(cases) + 1, done.stdout[-2000:] + done.stderr[-2000:]
    return lines[0]["version"], [(name, verdict) for (name, _), verdict in zip(cases, lines[1:]) if not verdict.get("made")]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--binary", required=True)
    parser.add_argument("targets", nargs="*")
    arguments = parser.parse_args()
    sums, bad = collections.Counter(), []
    with tempfile.TemporaryDirectory() as folder:
        matrix = Matrix(arguments.binary, pathlib.Path(folder))
        for target in arguments.targets or TARGETS:
            counts, cases = collections.Counter(), []
            for model in MODELS:
                for setting in SETTINGS:
                    path = matrix.plan(model, setting, *TARGETS[target])
                    case = matrix.case(path, target, model) if path else None
                    counts["forbidden by its framework" if path is None else "written" if case else "refused by name"] += 1
                    if case:
                        cases.append((f"{model}, {setting}", case))
            verdict = judged(target, cases) if cases else None
            words = "its own parser is not found"
            if verdict:
                bad += [(target, *one) for one in verdict[1]]
                counts["judged"] = len(cases)
                words = f"{verdict[0]} accepts {len(cases) - len(verdict[1])} of {len(cases)}"
            sums += counts
            print(f"{target}: {', '.join(f'{count} {name}' for name, count in counts.items())}; {words}", flush=True)
    print("together:", ", ".join(f"{count} {name}" for name, count in sums.items()))
    for one in bad:
        print(*one)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
