#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Answers that hold when acted on: plan 1 of `--target X` exports to X, and a hint that says "it fits" fits.

  python3 tests/exporters/ranked_test.py --binary build/check/plansearch [--rounds 60] [--seed 1] [Exports Hints]

A search under --target either has a plan 1 that exports, or says before it ranks what the target cannot express.
Refused searches are counted by reason; at least a quarter of the draws has to export.
"""

import argparse
import collections
import json
import pathlib
import random
import re
import shlex
import subprocess
import sys
import tempfile
import unittest

BINARY = None
ROUNDS = 60
SEED = 1

MODELS = ["llama3.1-8b", "qwen2.5-14b", "mistral-7b", "gpt2-xl", "llama3-70b", "mixtral-8x7b"]
MACHINES = [("dgx-h100", 8), ("dgx-h100", 64), ("perlmutter", 16), ("l40s", 4), ("rtx4090", 1)]
TARGETS = ["axolotl", "llama-factory", "ms-swift", "accelerate"] * 3 + [
    "megatron", "megatron-bridge", "torchtitan", "torchtitan-0.2", "deepspeed", "megatron-deepspeed", "nanotron", "verl", "verl-fsdp",
    "galvatron", "nnscaler", "maxtext", "axonn", "alpa"]
FRAMEWORKS = ["megatron", "fsdp2", "hf-trainer", "deepspeed", "torchtitan"]
TASKS = [[], ["--task", "sft"], ["--task", "lora"], ["--task", "lora", "--lora-targets", "all-linear"], ["--task", "qlora"],
         ["--task", "dpo"]]
# Those that hints name.
SETTINGS = [[], [], ["--kernels", "fused-linear-loss"], ["--recompute", "full"], ["--optimizer", "adafactor"],
            ["--optimizer", "adamw-8bit"], ["--main-grads", "bf16"], ["--offload", "optimizer"], ["--zero", "1"]]


def run(*arguments):
    return subprocess.run([BINARY, *map(str, arguments)], capture_output=True, text=True, timeout=300, check=False)


def first_lines(text):
    return text.strip().splitlines()[:1]


def is_kept(text, step_s):
    """Whether a step is no longer than as printed ("369 ms", "1.2 h"), but for a tie: of plans that tie the simplest is shown."""
    number, unit = re.match(r"([\d.,]+) (\w+)", text).groups()
    seconds = float(number.replace(",", "")) * {"us": 1e-6, "ms": 1e-3, "s": 1, "min": 60, "h": 3600, "days": 86400}[unit]
    return step_s < 1.03 * seconds


class Exports(unittest.TestCase):
    def test_plan_1_exports(self):
        rng = random.Random(SEED)
        done = collections.Counter()
        broken = []
        with tempfile.TemporaryDirectory() as folder:
            answer = pathlib.Path(folder) / "answer.json"
            for _ in range(ROUNDS):
                hw, gpus = rng.choice(MACHINES)
                target = rng.choice(TARGETS)
                framework = ["--framework", rng.choice(FRAMEWORKS)] if rng.random() < 0.2 else []
                question = ["--hw", hw, "--model", rng.choice(MODELS), "--gpus", gpus, "--seq-len", 1024, "--batch", 64,
                            *rng.choice(TASKS if target in TARGETS[:4] else TASKS[:2] * 3 + TASKS), "--target", target, *framework, *rng.choice(SETTINGS)]
                words = shlex.join(map(str, question))
                searched = run(*question, "--top", 1, "--format", "json", "--out", answer)
                if searched.returncode != 0:
                    # Nothing was ranked, and a reason is said.
                    reason = first_lines(searched.stderr)
                    if searched.returncode not in (2, 3, 4) or (searched.returncode != 3 and not reason):
                        broken.append(f"{words}\n{searched.stderr}")
                    done["no plan fits" if searched.returncode == 3 else re.sub(r"^error: ", "", "".join(reason))[:70]] += 1
                    continue
                exported = run("export", f"{answer}#1", "--to", target)
                if exported.returncode != 0:
                    broken.append(f"{words}\n{exported.stderr}")
                done["exported"] += 1
        for reason, count in done.most_common(12):
            print(f"  {count:5} {reason}", file=sys.stderr)
        self.assertEqual(broken, [], f"{len(broken)} of {ROUNDS}")
        self.assertGreaterEqual(4 * done["exported"], ROUNDS, done)


class Hints(unittest.TestCase):
    """Every hint is followed to its word: flags added, degrees let go, sizes and risks taken over."""

    QUESTIONS = [("rtx-4090", 1), ("rtx-4090", 4), ("l40s", 4), ("dgx-h100", 8), ("dgx-h100", 16), ("perlmutter", 4), ("perlmutter", 64)]
    SETTINGS = [[], [], ["--task", "sft"], ["--task", "lora"], ["--task", "dpo"], ["--framework", "fsdp2"], ["--framework", "deepspeed"],
                ["--tp", 2], ["--zero", 1], ["--micro-batch", 4], ["--recompute", "none"], ["--pp", 2]]

    @staticmethod
    def without(question, flag):
        changed = list(question)
        if flag in changed:
            at = changed.index(flag)
            del changed[at:at + 2]
        return changed

    def changed_by(self, question, hint):
        """The question that the hint speaks of; nothing where it advises nothing that can be typed."""
        more = re.match(r"on ([\d,]+) GPUs( and with other degrees)? it", hint) or re.match(
            r"the least that trains this model: ([\d,]+) GPUs?()", hint) or re.match(r"use ([\d,]+)()", hint)
        if more:
            changed = self.without(question, "--gpus")
            for flag in ("--tp", "--zero", "--micro-batch", "--recompute", "--pp") if more.group(2) else ():
                changed = self.without(changed, flag)
            return changed + ["--gpus", more.group(1).replace(",", "")]
        admits = re.search(r"--mem-risk ([\d.]+) admits it", hint)
        if admits:
            return question + ["--mem-risk", admits.group(1)]
        freed = re.match(r"with another (--[\w-]+) it", hint)
        if freed:
            return self.without(question, freed.group(1))
        if hint.startswith("with other degrees it"):
            for flag in ("--tp", "--zero", "--micro-batch", "--recompute", "--pp"):
                question = self.without(question, flag)
            return question
        flags = re.match(r'with ((?:--[\w-]+ (?:"[^"]*"|\S+) ?)+)', hint)
        if not flags:
            return None
        words = [word.rstrip(",") for word in shlex.split(flags.group(1))]
        for flag in words:
            if flag.startswith("--"):
                question = self.without(question, flag)
        return question + words

    def test_what_a_hint_says_holds(self):
        rng = random.Random(SEED)
        followed = collections.Counter()
        broken = []
        for _ in range(ROUNDS):
            hw, gpus = rng.choice(self.QUESTIONS)
            question = ["--hw", hw, "--model", rng.choice(["llama3-70b", "qwen2.5-32b", "llama3.1-8b", "mixtral-8x7b", "gpt2-xl"]), "--gpus", gpus,
                        "--batch", rng.choice([48, 64, 100]), *rng.choice(self.SETTINGS), "--seq-len", rng.choice([2048, 8192])]
            question = list(map(str, question))
            said = run(*question)
            lines = re.findall(r"(?m)^(?:hint: |faster, but tight: )(.*)$", said.stdout + said.stderr)
            if len(set(lines)) != len(lines):
                broken.append(f"{shlex.join(question)}\nsaid twice: {lines}")
            for hint in lines:
                changed = self.changed_by(question, hint)
                if changed is None:
                    followed["advises nothing that is typed"] += 1
                    continue
                answer = run(*changed, "--top", 1, "--format", "json")
                what = f"{shlex.join(question)}\n{hint}\n{shlex.join(changed)}\n{answer.stderr}"
                if answer.returncode != 0:
                    broken.append(what)
                    continue
                plan = json.loads(answer.stdout)["plans"][0]
                limit = float(changed[changed.index("--mem-risk") + 1]) if "--mem-risk" in changed else 0.1
                tight = "it is tight" in hint
                step = re.search(r"takes ([\d.,]+ \w+)", hint)
                if (plan["memory_risk"] <= limit) == tight:
                    broken.append(f"{what}\na risk of {plan['memory_risk']}")
                elif step and not is_kept(step.group(1), plan["step_time_s"]):
                    broken.append(f"{what}\na step of {plan['step_time_s']} s")
                followed["tight" if tight else "holds"] += 1
        print(f"  {dict(followed)}", file=sys.stderr)
        self.assertEqual(broken, [], f"{len(broken)} of {sum(followed.values())}:\n" + "\n\n".join(broken))
        self.assertGreater(followed["holds"], ROUNDS // 10)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--binary", required=True)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--seed", type=int, default=SEED)
    options, rest = parser.parse_known_args()
    BINARY, ROUNDS, SEED = options.binary, options.rounds, options.seed
    unittest.main(argv=[sys.argv[0], *rest])
