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


SECONDS = {"us": 1e-6, "ms": 1e-3, "s": 1, "min": 60, "h": 3600}
TAKES = r"takes ([\d.,]+) (us|ms|s|min|h)\b"


def seconds(number, unit):
    return float(number.replace(",", "")) * SECONDS[unit]


def with_flags(question, words):
    """The question with these flags in place of its own."""
    changed = list(question)
    for flag in words[::2]:
        if flag in changed:
            at = changed.index(flag)
            del changed[at:at + 2]
    return changed + words


def claims_of(hint):
    """What a hint says of changed questions: (flags to set or drop, "fits", "tight" or "runs", seconds of a step)."""
    if batches := re.match(r"batch [\d,]+ = .*: (.*)$", hint):
        for number, *step in re.findall(r"([\d,]+) " + TAKES, batches[1]):
            yield ["--batch", number.replace(",", "")], "fits", seconds(*step)
        return
    step = re.search(TAKES, hint)
    claim = "tight" if "it is tight" in hint else "fits"
    for pattern in (r"on ([\d,]+) GPUs?", r"least: ([\d,]+) GPU", r"use ([\d,]+):"):
        if (size := re.match(pattern, hint)) and step:
            yield (["--gpus", size[1].replace(",", "")] + (["drop"] if "other degrees" in hint else []), claim,
                   seconds(*step.groups()))
            return
    if (dropped := re.match(r"with(?:out| another) (--[\w-]+) it (?:fits|is tight)", hint)) and step:
        yield [dropped[1], None], claim, seconds(*step.groups())
    elif (flags := re.match(r'with (other degrees(?: and )?)?((?:--[\w-]+ (?:"[^"]*"|[^ ]+) ?)*)', hint)) and flags[0] != "with " and step:
        words = [word.rstrip(",") for word in shlex.split(flags[2])]
        yield words + (["drop"] if flags[1] else []), claim, seconds(*step.groups())


DEGREES = ["--dp", "--pp", "--tp", "--cp", "--ep", "--zero", "--micro-batch", "--recompute"]


class Hints(unittest.TestCase):
    def follow(self, question, hint, followed):
        for words, claim, step in claims_of(hint):
            changed = list(map(str, question))
            if words[-1:] == ["drop"] or words[-1:] == [None]:
                for flag in DEGREES if words[-1] == "drop" else [words[0]]:
                    changed = with_flags(changed, [flag, ""])[:-2]
                words = words[:-1] if words[-1] == "drop" else []
            changed = with_flags(changed, words)
            answer = run(*changed, "--top", 1, "--format", "json")
            what = f"{shlex.join(map(str, question))}\n{hint}\n{shlex.join(changed)}\n{answer.stderr}"
            self.assertEqual(answer.returncode, 0, what)
            plan = json.loads(answer.stdout)["plans"][0]
            (self.assertGreater if claim == "tight" else self.assertLessEqual)(plan["memory_risk"], 0.1, what)
            # A hint is one search; a search for plans also recomputes fewer layers, and may stop at a tie.
            self.assertLess(plan["step_time_s"] / step, 1.03, what)
            self.assertGreater(plan["step_time_s"] / step, 0.8, what)
            followed[claim] += 1

    def test_what_a_hint_says_holds(self):
        rng = random.Random(SEED)
        followed = collections.Counter()
        for _ in range(ROUNDS):
            hw, gpus = rng.choice([("rtx-4090", 1), ("l40s", 4), ("dgx-h100", 8), ("perlmutter", 4), ("dgx-h100", 96), ("selene", 256)])
            model = rng.choice(["llama3-70b", "qwen2.5-32b", "llama3.1-8b", "mixtral-8x7b", "qwen3-30b-a3b"])
            question = ["--hw", hw, "--model", model, *rng.choice([["--gpus", gpus]] * 4 + [[]]), "--batch", rng.choice([8, 64, 100, 1538]),
                        *rng.choice([[], [], ["--task", "sft"], ["--task", "lora"], ["--framework", "fsdp2"], ["--target", "axolotl"]]),
                        *rng.choice([[], [], [], ["--zero", 0], ["--tp", 2], ["--recompute", "none"], ["--pp", 4], ["--dp", 2]]),
                        "--seq-len", rng.choice([2048, 8192])]
            answer = run(*question)
            refused = re.search(r"(?m)^error: .*\n(?:.*\n)*?hint: ((?:.*\n?)*)", answer.stderr) if answer.returncode == 2 else None
            hints = refused[1].replace("\n  ", " ").strip().split("; ") if refused else []
            hints += re.findall(r"(?m)^hint: (.*)$", re.sub(r"\n {2,}", " ", answer.stdout))
            self.assertEqual(len(hints), len(set(hints)), question)
            if answer.returncode != 0:
                followed["refused, without a way out"] += not any("takes" in hint or "legal values" in hint for hint in hints)
            for hint in hints:
                self.follow(question, hint, followed)
        print(f"  {dict(followed)}", file=sys.stderr)
        self.assertGreater(followed["fits"], ROUNDS // 4)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--binary", required=True)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--seed", type=int, default=SEED)
    options, rest = parser.parse_known_args()
    BINARY, ROUNDS, SEED = options.binary, options.rounds, options.seed
    unittest.main(argv=[sys.argv[0], *rest])
