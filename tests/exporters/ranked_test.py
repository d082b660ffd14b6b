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


class Exports(unittest.TestCase):
    def test_plan_1_exports(self):
        rng = random.Random(SEED)
        done = collections.Counter()
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
                    self.assertIn(searched.returncode, (2, 3, 4), f"{words}\n{searched.stderr}")
                    reason = first_lines(searched.stderr)
                    if searched.returncode != 3:
                        self.assertTrue(reason, words)
                    done["no plan fits" if searched.returncode == 3 else re.sub(r"^error: ", "", reason[0])[:70]] += 1
                    continue
                exported = run("export", f"{answer}#1", "--to", target)
                self.assertEqual(exported.returncode, 0, f"{words}\n{exported.stderr}")
                done["exported"] += 1
        for reason, count in done.most_common():
            print(f"  {count:5} {reason}", file=sys.stderr)
        self.assertGreaterEqual(4 * done["exported"], ROUNDS, done)


class Hints(unittest.TestCase):
    def test_what_a_hint_says_holds(self):
        rng = random.Random(SEED)
        followed = collections.Counter()
        for _ in range(ROUNDS):
            hw, gpus = rng.choice([("rtx-4090", 1), ("l40s", 4), ("dgx-h100", 8), ("perlmutter", 4)])
            question = ["--hw", hw, "--model", rng.choice(["llama3-70b", "qwen2.5-32b", "llama3.1-8b", "mixtral-8x7b"]), "--gpus", gpus,
                        "--batch", 64, *rng.choice([[], ["--task", "sft"], ["--task", "lora"], ["--framework", "fsdp2"]]),
                        "--seq-len", rng.choice([2048, 8192])]
            for hint in re.findall(r"(?m)^hint: (.*)$", run(*question).stdout):
                flags = re.match(r'with ((?:--[\w-]+ (?:"[^"]*"|\S+) ?)+)', hint)
                more = re.match(r"on ([\d,]+) GPUs it", hint)
                claim = re.search(r"it (fits|is tight)", hint)
                if not claim or not (flags or more):
                    followed["not of this kind"] += 1
                    continue
                changed = list(map(str, question))
                if more:
                    changed[changed.index("--gpus") + 1] = more.group(1).replace(",", "")
                words = shlex.split(flags.group(1)) if flags else []
                words = [word.rstrip(",") for word in words]
                for flag in words:
                    if flag.startswith("--") and flag in changed:
                        at = changed.index(flag)
                        del changed[at:at + 2]
                answer = run(*changed, *words, "--top", 1, "--format", "json")
                what = f"{shlex.join(map(str, question))}\n{hint}\n{answer.stderr}"
                self.assertEqual(answer.returncode, 0, what)
                risk = json.loads(answer.stdout)["plans"][0]["memory_risk"]
                (self.assertLessEqual if claim.group(1) == "fits" else self.assertGreater)(risk, 0.1, what)
                followed[claim.group(1)] += 1
        print(f"  {dict(followed)}", file=sys.stderr)
        self.assertGreater(followed["fits"], ROUNDS // 10)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--binary", required=True)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--seed", type=int, default=SEED)
    options, rest = parser.parse_known_args()
    BINARY, ROUNDS, SEED = options.binary, options.rounds, options.seed
    unittest.main(argv=[sys.argv[0], *rest])
