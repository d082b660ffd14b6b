#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Shipped graph files against counts from the modules of the published networks, and graphs against their models.

Counts come from what diffusers and torchvision build (Conv2d, Linear, GroupNorm, BatchNorm2d), not from the files.
A model that is written with `show model NAME --graph` has to be priced as the model itself, digit by digit.

    tests/graphs/graph_test.py --binary build/release/plansearch
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile


def conv(i, o, k, bias=True):
    return i * o * k * k + (o if bias else 0)


def linear(i, o, bias=True):
    return i * o + (o if bias else 0)


def norm(c):
    return 2 * c


def resnet_block(i, o, time):
    """diffusers ResnetBlock2D: two norms, two convolutions, the time projection, a shortcut where widths differ."""
    shortcut = conv(i, o, 1) if i != o else 0
    return norm(i) + conv(i, o, 3) + linear(time, o) + norm(o) + conv(o, o, 3) + shortcut


def transformer_block(c, text):
    self_attention = 3 * linear(c, c, False) + linear(c, c)
    cross_attention = linear(c, c, False) + 2 * linear(text, c, False) + linear(c, c)
    feed_forward = linear(c, 8 * c) + linear(4 * c, c)  # GEGLU
    return 3 * norm(c) + self_attention + cross_attention + feed_forward


def transformer(c, text, depth):
    projections = 2 * (c * c + c)  # 1 x 1 convolutions or Linear: as many
    return (norm(c) + projections + depth * transformer_block(c, text)) if depth else 0


def unet(channels, depths, text, added=0):
    time = 4 * channels[0]
    total = conv(4, channels[0], 3) + linear(channels[0], time) + linear(time, time)
    total += (linear(added, time) + linear(time, time)) if added else 0
    skips, c = [channels[0]], channels[0]
    for level, (width, depth) in enumerate(zip(channels, depths)):
        for _ in range(2):
            total += resnet_block(c, width, time) + transformer(width, text, depth)
            c = width
            skips.append(c)
        if level + 1 < len(channels):
            total += conv(c, c, 3)
            skips.append(c)
    total += 2 * resnet_block(c, c, time) + transformer(c, text, max(depths))
    for level, (width, depth) in reversed(list(enumerate(zip(channels, depths)))):
        for _ in range(3):
            total += resnet_block(c + skips.pop(), width, time) + transformer(width, text, depth)
            c = width
        if level:
            total += conv(c, c, 3)
    assert not skips
    return total + norm(c) + conv(c, 4, 3)


def wide_resnet():
    """torchvision's Bottleneck with base width 128: 1 x 1, 3 x 3, 1 x 1, no biases beside batch norms."""
    total, c = conv(3, 64, 7, False) + norm(64), 64
    for level, depth in enumerate((3, 4, 6, 3)):
        width, out = 128 << level, 256 << level
        for _ in range(depth):
            total += conv(c, width, 1, False) + conv(width, width, 3, False) + conv(width, out, 1, False)
            total += 2 * norm(width) + norm(out)
            total += conv(c, out, 1, False) + norm(out) if c != out else 0
            c = out
    return total + linear(c, 1000)


COUNTS = {
    "sd15-unet": (unet((320, 640, 1280, 1280), (1, 1, 1, 0), 768), 859520964),
    "sdxl-unet": (unet((320, 640, 1280), (0, 2, 10), 2048, 2816), 2567463684),
    "wide-resnet50-2": (wide_resnet(), 68883240),
}

PLANS = {
    "llama3-8b": "--hw perlmutter --gpus 16 --tp 4 --pp 2 --dp 2 --sp 1 --micro-batch 2 --batch 64 --recompute selective",
    "t5-v1_1-xxl": "--hw dgx-h100 --gpus 32 --tp 4 --pp 4 --dp 2 --micro-batch 1 --batch 64 --recompute full",
    "mixtral-8x7b": "--hw dgx-h100 --gpus 32 --tp 2 --pp 2 --dp 8 --ep 4 --sp 1 --micro-batch 1 --batch 64",
    "deepseek-v2-lite": "--hw dgx-h100 --gpus 16 --tp 1 --pp 2 --dp 8 --ep 8 --micro-batch 1 --batch 64 --zero 1",
    "sd15-unet": "--hw dgx-h100 --gpus 8 --tp 1 --pp 4 --dp 2 --micro-batch 2 --batch 64",
}


def ask(binary, *words):
    return json.loads(subprocess.run([binary, *words, "--format", "json"], check=True, capture_output=True, text=True).stdout)


def shown_count(binary, name):
    rows = json.dumps(ask(binary, "show", "model", name))
    return rows


def check_counts(binary):
    for name, (counted, published) in COUNTS.items():
        if counted != published:
            yield f"{name}: the modules make {counted} parameters, {published} are published"
        if str(published) not in shown_count(binary, name):
            yield f"{name}: show model does not say {published} parameters"


def check_prices(binary):
    with tempfile.TemporaryDirectory() as directory:
        for name, flags in PLANS.items():
            path = pathlib.Path(directory) / f"{name}.yaml"
            text = subprocess.run([binary, "show", "model", name, "--graph"], check=True, capture_output=True, text=True)
            path.write_text(text.stdout)
            given = [ask(binary, "predict", "--model", model, *flags.split())["plans"][0] for model in (name, str(path))]
            for key in ("step_time_s", "step", "memory", "communication", "stages"):
                if given[0].get(key) != given[1].get(key):
                    yield f"{name} as a graph: another {key}: {given[0].get(key)} and {given[1].get(key)}"


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--binary", required=True)
    binary = arguments.parse_args().binary
    problems = [*check_counts(binary), *check_prices(binary)]
    print("\n".join(problems) or f"{len(COUNTS)} counts and {len(PLANS)} prices agree")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
