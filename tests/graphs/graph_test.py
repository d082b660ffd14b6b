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

import templates


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


def improved_unet(width):
    """UNetModel of openai/improved-diffusion: 3 x 32 x 32, multiples 1, 2, 2, 2, three residual blocks, attention at 16 and
    8, norms scaled and shifted by the time, means and variances."""
    time, side, c = 4 * width, 32, width
    inside = lambda a, b: norm(a) + conv(a, b, 3) + linear(time, 2 * b) + norm(b) + conv(b, b, 3) + (
        conv(a, b, 1) if a != b else 0)
    attention = lambda n: norm(n) + conv(n, 3 * n, 1) + conv(n, n, 1)
    total, skips = conv(3, width, 3) + linear(width, time) + linear(time, time), [width]
    for multiple in (1, 2, 2, 2):
        for _ in range(3):
            total += inside(c, multiple * width)
            c = multiple * width
            total += attention(c) if side in (16, 8) else 0
            skips.append(c)
        if side > 4:
            total += conv(c, c, 3)
            skips.append(c)
            side //= 2
    total += 2 * inside(c, c) + attention(c)
    for multiple in (2, 2, 2, 1):
        for _ in range(4):
            total += inside(c + skips.pop(), multiple * width)
            c = multiple * width
            total += attention(c) if side in (16, 8) else 0
        if side < 32:
            total += conv(c, c, 3)
            side *= 2
    assert not skips
    return total + norm(c) + conv(c, 6, 3)


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


def swin(layers, c, heads):
    """microsoft/Swin-Transformer with patches of 4 x 4 and windows of 48 x 48."""
    total = conv(3, c, 4) + norm(c)
    for stage, depth in enumerate((2, 2, layers - 6, 2)):
        block = 2 * norm(c) + linear(c, 3 * c) + linear(c, c) + 95 * 95 * heads + linear(c, 4 * c) + linear(4 * c, c)
        total += depth * block
        if stage < 3:
            total += norm(4 * c) + linear(4 * c, 2 * c, False)
            c, heads = 2 * c, 2 * heads
    return total + norm(c) + linear(c, 1000)


def evoformer(m, z, inner=32, msa_heads=8, pair_heads=4):
    """One block of AlphaFold 2 (supplement, algorithms 7 to 15)."""
    def gated(c, heads):
        return norm(c) + 3 * linear(c, heads * inner, False) + linear(c, heads * inner) + linear(heads * inner, c)

    rows = gated(m, msa_heads) + norm(z) + linear(z, msa_heads, False)
    outer = norm(m) + 2 * linear(m, inner) + linear(inner * inner, z)
    triangle = 2 * norm(z) + 6 * linear(z, z)
    around = gated(z, pair_heads) + linear(z, pair_heads, False)
    transitions = sum(norm(c) + linear(c, 4 * c) + linear(4 * c, c) for c in (m, z))
    return rows + gated(m, msa_heads) + outer + 2 * triangle + 2 * around + transitions


COUNTS = {
    "sd15-unet": (unet((320, 640, 1280, 1280), (1, 1, 1, 0), 768), 859520964),
    "sdxl-unet": (unet((320, 640, 1280), (0, 2, 10), 2048, 2816), 2567463684),
    "wide-resnet50-2": (wide_resnet(), 68883240),
    "axonn-unet-550m": (improved_unet(416), 554281318),
    "axonn-unet-1b": (improved_unet(576), 1062470598),
    "axonn-unet-2b": (improved_unet(800), 2049272806),
    "axonn-unet-4b": (improved_unet(1120), 4016220326),
    "axonn-unet-8b": (improved_unet(1600), 8195825606),
    "alphafold2-evoformer": (48 * evoformer(256, 128), 87837696),
}

# Published to two digits (nnScaler, OSDI 2024, table 9), in billions: within 6 %.
ROUNDED = {
    "swin-1.8b": (swin(32, 512, 16), 1.8),
    "swin-5b": (swin(40, 768, 24), 5.0),
    "swin-10b": (swin(48, 1024, 32), 10),
    "swin-27b": (swin(56, 1536, 32), 27),
}

def unet_windows(channels, depths, side):
    """Rows, input channels, stride and taps of every convolution of diffusers' UNet2DConditionModel, in order."""
    windows, skips, c = [(side, 4, 1, 3)], [channels[0]], channels[0]

    def residual(i, o):
        windows.extend([(side, i, 1, 3), (side, o, 1, 3)] + ([(side, i, 1, 1)] if i != o else []))

    def transformer(width, depth):
        windows.extend([(side, width, 1, 1)] * 2 if depth else [])

    for level, (width, depth) in enumerate(zip(channels, depths)):
        for _ in range(2):
            residual(c, width)
            transformer(width, depth)
            c = width
            skips.append(c)
        if level + 1 < len(channels):
            windows.append((side, c, 2, 3))
            side //= 2
            skips.append(c)
    residual(c, c)
    transformer(c, 1)
    residual(c, c)
    for level, (width, depth) in reversed(list(enumerate(zip(channels, depths)))):
        for _ in range(3):
            residual(c + skips.pop(), width)
            transformer(width, depth)
            c = width
        if level:
            side *= 2  # F.interpolate, then a convolution
            windows.append((side, c, 1, 3))
    return windows + [(side, c, 1, 3)]


def missing_rows(rows, stride, taps, devices):
    """By device: rows that its windows touch and it does not hold, counted one by one."""
    result, out = [], rows // stride
    for device in range(devices):
        held = set(range(device * rows // devices, (device + 1) * rows // devices))
        read = {place * stride + tap - taps // 2 for place in range(device * out // devices, (device + 1) * out // devices)
                for tap in range(taps)}
        result.append(len((read & set(range(rows))) - held))
    return result


ROWS = """schema: plansearch/plan/v1
model: {model}
hardware: dgx-h100
framework: nnscaler
batch: {batch}
precision: bf16
degrees: {{tp: 2, dp: 1, pp: 1, micro_batch: 1}}
placements:
  operators: [{operators}]
  edges: [{{cut: {{{edges}}}}}]
{more}"""


def rows_in_two(model, batch, dims, more=""):
    cuts = [f"{{operators: others, cut: {{{dim}: all}}}}" for dim in dims]
    edges = ", ".join(f"{dim}: all" for dim in dims if not dim.startswith("t"))
    return ROWS.format(model=model, batch=batch, operators=", ".join(cuts), edges=edges, more=more)


def predicted(binary, text):
    with tempfile.TemporaryDirectory() as directory:
        path = pathlib.Path(directory) / "plan.yaml"
        path.write_text(text)
        return ask(binary, "predict", "--plan", str(path))["plans"][0]


def halo_elements(plan, batch, element=2):
    """Of one forward pass, of the device that receives most; each is sent again for the weights."""
    return sum(m["bytes"] * m["count"] for m in plan["communication"]
               if m["kind"] == "send-receive" and not m["what"].startswith("gradient")) / 2 / batch / element


def check_halos(binary):
    windows = unet_windows((320, 640, 1280, 1280), (1, 1, 1, 0), 64)
    if len(windows) != 98:
        yield f"{len(windows)} convolutions, not 98"
    everywhere = sum(sum(missing_rows(side, stride, taps, 2)) * side * c for side, c, stride, taps in windows)
    if everywhere != 2253312:
        yield f"rows in two: {everywhere} elements between both devices, counted by hand 2253312"
    most = sum(max(missing_rows(side, stride, taps, 2)) * side * c for side, c, stride, taps in windows)
    found = halo_elements(predicted(binary, rows_in_two("sd15-unet", 8, [f"{d}{s}" for s in (64, 32, 16, 8) for d in "yt"])), 8)
    if found != most:
        yield f"sd15-unet, rows in two: a device receives {found} elements, counted {most}"


def check_small_skip(binary):
    """The example of docs/graphs.md: 3 x 3 windows over 64 and 32 rows, a skip, a region in four pieces."""
    model = pathlib.Path(__file__).resolve().parents[1] / "data" / "graphs" / "small-skip.yaml"
    region = "  regions: [{operators: [widen, narrow], dimensions: [v], pieces: 4, recompute: true}]\n"
    plain, pieces = [predicted(binary, rows_in_two(model, 8, ["y", "v"], more)) for more in ("", region)]
    words = "transform:\n  - {of: '*', split: {y: 2, v: 2}}\n  - {of: middle/widen, pieces: {v: 4}, recompute: true}\n"
    words = words.replace("middle/widen", "[middle/widen, middle/narrow]")
    selected = predicted(binary, rows_in_two(model, 8, ["y", "v"]).split("placements:")[0].replace("tp: 2, ", "") + words)
    if any(selected[key] != pieces[key] for key in ("step_time_s", "step", "memory", "communication")):
        yield "small-skip: transform comes to another price than placements"
    # A row of the image each way, of h one way (16 * 2 - 1), of g each way: what one device receives.
    wanted = 64 * 4 + 64 * 320 + 32 * 640
    if halo_elements(pieces, 8) != wanted:
        yield f"small-skip: a device receives {halo_elements(pieces, 8)} elements, by hand {wanted}"
    if any(m["what"] in ("h", "gradient of h") and m["kind"] != "send-receive" for m in pieces["communication"]):
        yield "small-skip: the skip moves"
    w = 32 * 32 * 2560 * 2 // 2  # bytes of one device
    dropped = plain["memory"]["activations_bytes"] - pieces["memory"]["activations_bytes"]
    # A piece made again beside the gradients that enter the block, of a piece and of what the region reads: a quarter each.
    if dropped != w or pieces["memory"]["transient_bytes"] != 4 * (w // 4):
        yield f"small-skip: pieces drop {dropped} and hold {pieces['memory']['transient_bytes']}, by hand {w} and {w}"
    flops = [2 * plan["step_time_s"] * plan["hardware_tflops_per_gpu"] * 1e12 / 8 for plan in (plain, pieces)]
    if abs(flops[1] - flops[0] - 6710886400) > 1:
        yield f"small-skip: pieces repeat {flops[1] - flops[0]} FLOP, by hand 6710886400"
    if not pieces["step"]["compute_s"] > plain["step"]["compute_s"]:
        yield "small-skip: kernels of a quarter of the rows take no longer"


class Cut:
    """What one of `ranks` tensor ranks holds of a U-Net, and the elements of all messages for one image, module by module:
    the first convolution of a residual block cut on its results, the second on what it reads, attention by its heads, the
    rest of an MLP's kind; whole are the first and the last convolution, norms of the stream and biases of what is summed."""

    def __init__(self, ranks):
        self.ranks, self.parameters, self.reduced, self.gathered = ranks, 0, 0, 0

    def results(self, i, o, taps=1, bias=True):
        self.parameters += (i * o * taps + (o if bias else 0)) // self.ranks

    def reads(self, i, o, taps=1, bias=True):
        self.parameters += i * o * taps // self.ranks + (o if bias else 0)

    def residual(self, side, i, o, time, moves):
        places = side * side
        self.parameters += norm(i) + norm(o) // self.ranks
        self.results(i, o, 9), self.results(time, moves * o), self.reads(o, o, 9)
        self.reduced += places * o + places * i + time  # results of the second, gradients of what the first and the time read
        if i != o:
            self.results(i, o)
            self.gathered, self.reduced = self.gathered + places * o, self.reduced + places * i

    def transformer(self, side, c, text, depth, linear):
        stream = side * side * c
        self.parameters += norm(c) + depth * 3 * norm(c)
        (self.reads if linear else self.results)(c, c)  # into tokens; out of them
        (self.results if linear else self.reads)(c, c)
        # Before and after: results that are summed or gathered, and the same of gradients.
        self.reduced, self.gathered = self.reduced + 2 * stream, self.gathered + 2 * stream
        for _ in range(depth):
            for source in (c, text):
                self.results(c, c, bias=False), self.results(source, 2 * c, bias=False), self.reads(c, c)
                self.reduced += 2 * stream
            self.results(c, 8 * c), self.reads(4 * c, c)
            self.reduced += 2 * stream

    def resample(self, side, c, made):
        """Alone: cut on what it reads, whose gradient is gathered."""
        self.reads(c, c, 9)
        self.reduced, self.gathered = self.reduced + made * made * c, self.gathered + side * side * c

    def time(self, phases, time):
        self.results(phases, time), self.reads(time, time)
        self.reduced += time


def cut_diffusers(ranks, channels, depths, text, side, linear, added):
    unit, time = Cut(ranks), 4 * channels[0]
    unit.parameters += conv(4, channels[0], 3)
    unit.time(channels[0], time)
    unit.reduced += channels[0]  # the gradient of the phases
    if added:
        unit.time(added, time)
        unit.reduced += added
    skips, c = [channels[0]], channels[0]

    def level(width, depth, count, skip):
        nonlocal c
        for _ in range(count):
            unit.residual(side, c + (skips.pop() if skip else 0), width, time, 1)
            if depth:
                unit.transformer(side, width, text, depth, linear)
            c = width
            if not skip:
                skips.append(c)

    for number, (width, depth) in enumerate(zip(channels, depths)):
        level(width, depth, 2, False)
        if number + 1 < len(channels):
            unit.resample(side, c, side // 2)
            side //= 2
            skips.append(c)
    unit.residual(side, c, c, time, 1), unit.transformer(side, c, text, max(depths), linear), unit.residual(side, c, c, time, 1)
    for number, (width, depth) in reversed(list(enumerate(zip(channels, depths)))):
        level(width, depth, 3, True)
        if number:
            unit.resample(side, c, 2 * side)
            side *= 2
    unit.parameters += norm(c) + conv(c, 4, 3)
    return unit


def cut_improved(ranks, width):
    unit, time, side, c, skips = Cut(ranks), 4 * width, 32, width, [width]
    unit.parameters += conv(3, width, 3)
    unit.time(width, time)

    def attention(n):
        unit.parameters += norm(n)
        unit.results(n, 3 * n), unit.reads(n, n)
        unit.reduced += 2 * side * side * n

    def block(i, o):
        unit.residual(side, i, o, time, 2)

    for multiple in (1, 2, 2, 2):
        for _ in range(3):
            block(c, multiple * width)
            c = multiple * width
            if side in (16, 8):
                attention(c)
            skips.append(c)
        if side > 4:
            unit.resample(side, c, side // 2)
            side //= 2
            skips.append(c)
    block(c, c), attention(c), block(c, c)
    for multiple in (2, 2, 2, 1):
        for _ in range(4):
            block(c + skips.pop(), multiple * width)
            c = multiple * width
            if side in (16, 8):
                attention(c)
        if side < 32:
            unit.resample(side, c, 2 * side)
            side *= 2
    unit.parameters += norm(c) + conv(c, 6, 3)
    return unit


CUTS = {
    "sd15-unet": ((2, 4, 8), lambda ranks: cut_diffusers(ranks, (320, 640, 1280, 1280), (1, 1, 1, 0), 768, 64, False, 0)),
    "sdxl-unet": ((2,), lambda ranks: cut_diffusers(ranks, (320, 640, 1280), (0, 2, 10), 2048, 128, True, 2816)),
    "axonn-unet-1b": ((2, 4), lambda ranks: cut_improved(ranks, 576)),
}


def check_tensor_cuts(binary):
    for name, (degrees, count) in CUTS.items():
        for ranks in degrees:
            wanted = count(ranks)
            flags = f"--hw dgx-h100 --gpus {ranks} --tp {ranks} --dp 1 --micro-batch 1 --batch 1 --precision bf16 --framework megatron"
            plan = ask(binary, "predict", "--model", name, *flags.split(), "--sp", "0", "--recompute", "none")["plans"][0]
            found = {"parameters": plan["memory"]["parameters_bytes"] / 2}
            for kind, key in (("all-reduce", "reduced"), ("all-gather", "gathered")):
                found[key] = sum(m["bytes"] * m["count"] for m in plan["communication"] if m["kind"] == kind) / 2
            for key, value in found.items():
                if value != getattr(wanted, key):
                    yield f"{name} on {ranks} tensor ranks: {value:.0f} {key}, by hand {getattr(wanted, key)}"
            others = {m["kind"] for m in plan["communication"]} - {"all-reduce", "all-gather"}
            if others or any("statistics" in m["what"] for m in plan["communication"]):
                yield f"{name} on {ranks} tensor ranks: halos or statistics of norms: {others}"


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


def check_rounded(binary):
    for name, (counted, published) in ROUNDED.items():
        if abs(counted / 1e9 / published - 1) > 0.06:
            yield f"{name}: the modules make {counted} parameters, {published} B are published"
        if str(counted) not in shown_count(binary, name):
            yield f"{name}: show model does not say {counted} parameters"


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
    problems = [*check_counts(binary), *check_rounded(binary), *check_prices(binary), *check_halos(binary), *check_small_skip(binary), *check_tensor_cuts(binary),
                *templates.check_templates(ask, binary)]
    print("\n".join(problems) or f"{len(COUNTS)} counts, {len(PLANS)} prices, halos and pieces agree")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
