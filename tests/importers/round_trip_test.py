#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Random plans written by `plansearch export`, with a launcher or without, and read by `plansearch import` are the same
plans: the same degrees, and to the last digit the same prediction. The target is known by the file.

  python3 tests/importers/round_trip_test.py --binary build/check/plansearch megatron [--count 125] [--seed 1]"""

import argparse
import functools
import json
import pathlib
import random
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "exporters"))
import plans  # noqa: E402

FRAMEWORKS = {"megatron": "megatron", "deepspeed": "deepspeed", "megatron-deepspeed": "megatron-deepspeed",
              "torchtitan": "torchtitan", "torchtitan-0.2": "torchtitan", "nanotron": "nanotron",
              "accelerate": "fsdp", "galvatron": "megatron", "axolotl": "hf-trainer", "llama-factory": "hf-trainer",
              "ms-swift": "megatron", "verl": "megatron", "verl-fsdp": "fsdp2", "maxtext": "maxtext"}
SUFFIXES = {"deepspeed": ".json", "galvatron": ".json", "torchtitan-0.2": ".toml", "nanotron": ".yaml", "accelerate": ".yaml",
            "axolotl": ".yaml", "llama-factory": ".yaml"}
LAUNCHERS = {None: None, "slurm": ".sh", "torchrun": ".sh", "kubernetes": ".yaml"}  # and the suffix of their files
# What a target's files leave to the training script, by the flag that says it to `import`.
LEFT_OUT = {
    "galvatron": {"model": "--model", "seq_len": "--seq-len", "precision": "--precision"},
    "deepspeed": {"model": "--model", "seq_len": "--seq-len", "recompute": "--recompute"},
    "accelerate": {"model": "--model", "seq_len": "--seq-len", "batch": "--batch", "micro_batch": "--micro-batch"},
    "ms-swift": {"model": "--model"},
}
# Targets whose files do not say how many ranks there are; a launcher does.
WITHOUT_RANKS = ("axolotl", "deepspeed", "galvatron", "llama-factory", "megatron", "megatron-deepspeed", "ms-swift",
                 "torchtitan")
# Targets that say no sharding where there is one rank.
SHARDS_NOTHING = ("megatron", "galvatron", "deepspeed", "megatron-deepspeed", "nanotron", "axolotl", "llama-factory",
                  "ms-swift", "verl", "maxtext")


def run(binary, *arguments):
    return subprocess.run([binary, *map(str, arguments), "--quiet"], capture_output=True, text=True, timeout=120,
                          check=False)


def drawn(binary, target, rng, directory):
    """A random plan of the target's own framework, a launcher, and what it is exported as."""
    path = directory / "plan.yaml"
    while True:
        plan = plans.draw(rng, target)
        if plan is None:
            continue
        plan["framework"] = FRAMEWORKS[target]
        if target in ("axolotl", "verl-fsdp") and plan["degrees"]["tp"] * plan["degrees"]["cp"] > 1:
            plan["framework"] = "any"  # Trainer and FSDP alone have neither
        if target in SHARDS_NOTHING and plan["degrees"]["dp"] * plan["degrees"]["cp"] == 1:
            plan["degrees"]["zero"] = 0
        path.write_text(plans.text_of(plan))
        launcher = rng.choice(list(LAUNCHERS))
        exported = run(binary, "export", path, "--to", target, *(("--launch", launcher) if launcher else ()))
        assert exported.returncode in (0, 2, 4), exported.stderr
        if exported.returncode == 0:
            return plan, launcher, exported.stdout


def importing_notes(binary, source, target, plan):
    """What `import` says beside the plan."""
    result = subprocess.run([binary, "import", source, "--from", target, "--hw", plan["hardware"], "--gpus", str(plan["gpus"]),
                             "--model", plan["model"]], capture_output=True, text=True, timeout=120, check=False)
    return result.stderr


def imported(binary, target, plan, launcher, text, directory):
    source = directory / ("launch" + (LAUNCHERS[launcher] or SUFFIXES.get(target, ".sh")))
    back = directory / "back.yaml"
    source.write_text(text)
    flat = plan | plan["degrees"]
    left_out = dict(LEFT_OUT.get(target, {}))
    if launcher is None and target in WITHOUT_RANKS:
        left_out["gpus"] = "--gpus"
    if target.startswith("torchtitan") and "\n  --module " not in text and "\nflavor = " not in text:
        left_out["model"] = "--model"  # none that torchtitan has a name for; the notes of the export say so
    if "packing" in plan:  # that documents are packed is in the file, how long they are in the data
        assert "packing" in text and "--packing" in importing_notes(binary, source, target, plan), text
        left_out["packing"] = "--packing"
    given = [word for key, flag in left_out.items() for word in (flag, flat[key])]
    if target == "megatron-deepspeed":  # the vocabulary is the tokenizer's
        given += ["--define", f"vocab-size={vocabulary_of(binary, plan['model'])}"]
    result = run(binary, "import", source, "--hw", plan["hardware"], "--out", back, *given)
    assert result.returncode == 0, (result.stderr, plans.text_of(plan), text)
    assert f"read as {target}\n" in back.read_text(), back.read_text()
    return back


@functools.lru_cache
def vocabulary_of(binary, model):
    shown = run(binary, "show", "model", model, "--format", "json")
    return next(int(row["value"]) for row in json.loads(shown.stdout)["rows"] if row["field"] == "embedding.vocab")


def prediction(binary, path):
    result = run(binary, "predict", "--plan", path, "--format", "json")
    assert result.returncode in (0, 3), (result.stderr, path.read_text())
    answer = json.loads(result.stdout)
    plan = answer["plans"][0]
    question = {key: answer["question"][key] for key in ("gpus", "parameters")}
    return question | {key: plan[key] for key in ("step_time_s", "peak_memory_bytes", "config")}


def differences(before, after):
    found = {key: (value, after[key]) for key, value in before.items() if key != "config" and after[key] != value}
    config = before["config"]
    for key, value in config.items():
        if after["config"].get(key) != value:
            found[key] = (value, after["config"].get(key))
    return found


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--binary", required=True)
    parser.add_argument("target", choices=FRAMEWORKS)
    parser.add_argument("--count", type=int, default=125)
    parser.add_argument("--seed", default="1")
    arguments = parser.parse_args()
    rng = random.Random(f"{arguments.target} {arguments.seed}")
    failures = 0
    with tempfile.TemporaryDirectory() as name:
        directory = pathlib.Path(name)
        for _ in range(arguments.count):
            plan, launcher, text = drawn(arguments.binary, arguments.target, rng, directory)
            back = imported(arguments.binary, arguments.target, plan, launcher, text, directory)
            before = prediction(arguments.binary, directory / "plan.yaml")
            found = differences(before, prediction(arguments.binary, back))
            if found:
                failures += 1
                print(found, plans.text_of(plan), back.read_text(), sep="\n")
    print(f"{arguments.count - failures} of {arguments.count} plans are the same after export to {arguments.target} "
          "and import")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
