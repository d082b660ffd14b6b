#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Exported programs beside the shipped models of the same networks.

    tests/imports/import_test.py --binary build/release/plansearch
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile
import time
import zipfile

DATA = pathlib.Path(__file__).resolve().parents[1] / "data" / "imports"
# Products of activations and of weights, convolutions and attention: at most this far from the shipped model.
NEAR_FLOPS = 1e-3
# The step of GPT-2 XL, spelled-out plan, eager kernels, where kernels and not launches bind.
NEAR_STEP = 0.05
PLAN = ["--hw", "dgx-h100", "--gpus", "5", "--tp", "5", "--pp", "1", "--dp", "1", "--sp", "0", "--batch", "64",
        "--micro-batch", "16", "--implementation", "eager", "--cuda-graphs", "1"]


def run(binary, *arguments):
    return subprocess.run([binary, *map(str, arguments)], capture_output=True, text=True, timeout=120)


def ask(binary, *arguments):
    done = run(binary, *arguments, "--format", "json")
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, arguments))}: {done.stderr}")
    return json.loads(done.stdout)


def derived(binary, model):
    values = {row["field"]: row["value"] for row in ask(binary, "show", "model", model)["rows"]}
    return values["parameters"], next(v for k, v in values.items() if k.startswith("flops"))


def check_counts(binary):
    for file in ("gpt2-xl.pt2", "sdxl-unet.pt2", "wide-resnet50-2.pt2", "wide-resnet50-2.onnx"):
        parameters, flops = derived(binary, DATA / file)
        name = file.split(".")[0]
        expected, its_flops = derived(binary, name)
        if parameters != expected:
            yield f"{name}: {parameters} parameters, the shipped model has {expected}"
        if abs(flops / its_flops - 1) > NEAR_FLOPS:
            yield f"{name}: {flops} FLOP, the shipped model has {its_flops}"


def check_step(binary):
    steps = [ask(binary, "predict", "--model", model, *PLAN)["plans"][0]["step_time_s"]
             for model in (DATA / "gpt2-xl.pt2", "gpt2-xl")]
    if abs(steps[0] / steps[1] - 1) > NEAR_STEP:
        yield f"gpt2-xl: a step of {steps[0]:.4f} s, the shipped model {steps[1]:.4f} s"


def check_round_trip(binary, directory):
    """Written as a graph file it has the same price, bit for bit."""
    plan = ["--hw", "dgx-h100", "--gpus", "8", "--dp", "8", "--batch", "64", "--micro-batch", "4"]
    for name in ("gpt2-small-eager", "llama-small", "sdxl-unet", "wide-resnet50-2"):
        graph = directory / f"{name}.yaml"
        graph.write_text(run(binary, "show", "model", DATA / f"{name}.pt2", "--graph").stdout)
        steps = [ask(binary, "predict", "--model", model, *plan)["plans"][0]["step_time_s"]
                 for model in (DATA / f"{name}.pt2", graph)]
        if steps[0] != steps[1]:
            yield f"{name}: {steps[0]} s imported, {steps[1]} s as a graph file"


def check_older_layout(binary, directory):
    """PyTorch 2.3 to 2.7 wrote the same JSON into another entry (torch/export/__init__.py: save)."""
    source = zipfile.ZipFile(DATA / "gpt2-small-eager.pt2")
    program = json.loads(source.read(source.namelist()[0]))
    program["schema_version"] = {"major": 7, "minor": 3}
    older = directory / "older.pt2"
    with zipfile.ZipFile(older, "w") as archive:
        archive.writestr("serialized_exported_program.json", json.dumps(program))
        archive.writestr("serialized_state_dict.pt", b"")
        archive.writestr("version", "7.3")
    if derived(binary, older) != derived(binary, DATA / "gpt2-small-eager.pt2"):
        yield "the older layout is another network"


def check_speed(binary):
    """Reading and folding; a debug build gets five times as long."""
    start = time.monotonic()
    run(binary, "show", "model", DATA / "sdxl-unet.pt2")
    if time.monotonic() - start > 5:
        yield f"sdxl-unet, 3,634 operators: read in {time.monotonic() - start:.1f} s"


def check_refusals(binary, directory):
    cases = {
        "weights.pt2": ("torch.save and torch.jit.save write other archives", {"data.pkl": b"x"}),
        "truncated.pt2": ("is the file truncated?", None),
        "text.pt2": ("not a zip archive", b"hello, this is no archive at all"),
    }
    whole = (DATA / "gpt2-small-eager.pt2").read_bytes()
    for name, (words, content) in cases.items():
        path = directory / name
        if isinstance(content, dict):
            with zipfile.ZipFile(path, "w") as archive:
                for entry, data in content.items():
                    archive.writestr(entry, data)
        else:
            path.write_bytes(whole[:len(whole) // 2] if content is None else content)
        done = run(binary, "show", "model", path)
        if done.returncode != 2 or words not in done.stderr or name not in done.stderr:
            yield f"{name}: exit {done.returncode}, {done.stderr!r}"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--binary", required=True)
    binary = parser.parse_args().binary
    with tempfile.TemporaryDirectory() as name:
        directory = pathlib.Path(name)
        faults = [*check_counts(binary), *check_step(binary), *check_round_trip(binary, directory),
                  *check_older_layout(binary, directory), *check_speed(binary), *check_refusals(binary, directory)]
    for fault in faults:
        print(fault)
    print(f"imports: {len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
