#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes models/*.yaml of networks that are no transformers, operator by operator (docs/graphs.md).

Sizes are those of the published configurations: diffusers' UNet2DConditionModel of Stable Diffusion 1.5 and SDXL,
torchvision's wide_resnet50_2. tests/graphs/graph_test.py counts their parameters by itself.

    tools/graphs.py [MODELS [STUDIES]]      default: models validation/reproduce
"""
import pathlib
import sys

HEAD = """# SPDX-License-Identifier: Apache-2.0
# {comment}
# Written by tools/graphs.py.
schema: plansearch/graph/v1
name: {name}
source: "{source}"
parameters: {parameters}
training: {{global_batch: {batch}, precision: {precision}, optimizer: {optimizer}}}
"""


class Graph:
    """Dimensions, blocks, their order and edges, as they come."""

    def __init__(self):
        self.dims, self.blocks, self.order, self.edges = {"b": "{extent: 1, role: batch}"}, {}, [], []

    def dim(self, name, extent, role=None):
        self.dims[name] = f"{{extent: {extent}, role: {role}}}" if role else str(extent)
        return name

    def add(self, block):
        """A block that reads like an earlier one is one more copy of it; returns `NAME:COPY`."""
        name = next((n for n, text in self.blocks.items() if text == block.text()), None)
        if name is None:
            name, number = block.name, 2
            while name in self.blocks:
                name, number = f"{block.name}-{number}", number + 1
            self.blocks[name] = block.text()
        if self.order and self.order[-1][0] == name:
            self.order[-1][1] += 1
        else:
            self.order.append([name, 1])
        return f"{name}:{sum(copies for n, copies in self.order if n == name) - 1}"

    def edge(self, source, target):
        self.edges.append((source, target))

    def text(self):
        lines = ["dims:"] + [f"  {name}: {value}" for name, value in self.dims.items()] + ["blocks:"]
        for name, text in self.blocks.items():
            lines += [f"  {name}:"] + text
        lines += ["order:"] + [f"  - {{block: {n}, copies: {c}}}" if c > 1 else f"  - {n}" for n, c in self.order]
        if self.edges:
            lines += ["edges:"] + [f'  - {{from: "{a}", to: "{b}"}}' for a, b in self.edges]
        return "\n".join(lines) + "\n"


class Block:
    def __init__(self, name, kind="layer"):
        self.name, self.kind, self.ins, self.outs, self.ops = name, kind, [], [], []

    def read(self, name, dims, **more):
        value = f"[{', '.join(dims)}]"
        if more:
            value = "{dims: " + value + "".join(f", {k}: {v}" for k, v in more.items()) + "}"
        self.ins.append(f"{name}: {value}")
        return name

    def op(self, name, kind, read, make, **more):
        quote = lambda x: f'"{x}"' if isinstance(x, str) else "[" + ", ".join(f'"{y}"' for y in x) + "]"
        fields = [f"name: {name}", f"kind: {kind}", f"read: {quote(read)}"]
        fields += [f"{k}: {v}" for k, v in more.items()]
        self.ops.append("      - {" + ", ".join(fields + [f"make: {quote(make)}"]) + "}")
        return (make if isinstance(make, str) else make[0]).split("[")[0]

    def text(self):
        outs = ", ".join(self.outs)
        outs = f"{{{outs}}}" if ":" in outs else f"[{outs}]"
        return [f"    kind: {self.kind}", f"    in: {{{', '.join(self.ins)}}}", f"    out: {outs}",
                "    operators:"] + self.ops


def at(*dims):
    return f"[{', '.join(dims)}]"


class Image:
    """A tensor [b, y, x, channels] of a block."""

    def __init__(self, name, side, channels):
        self.name, self.side, self.channels = name, side, channels

    def dims(self):
        return ["b", f"y{self.side}", f"x{self.side}", self.channels]

    def under(self, channels):
        """Read with its channels under another name, which tensor ranks cut otherwise."""
        return f"{self.name}{at(*self.dims()[:3], channels)}"


def convolution(block, name, image, out, taps=3, stride=1, bias=True, under=None):
    """`out` channels; a window of taps x taps, every stride-th place. `under`: a name for the channels it reads."""
    side, channels = image.side // stride, under or image.channels
    pad = taps // 2

    def index(axis, tap):
        place = f"{stride}*{axis}{side}" if stride > 1 else f"{axis}{side}"
        return place + (f"+{tap}{taps}-{pad}" if taps > 1 else "")

    window = [f"p{taps}", f"q{taps}"] if taps > 1 else []
    more = {"weight": at(*window, channels, out)}
    if bias:
        more["bias"] = at(out)
    read = f"{image.name}[b, {index('y', 'p')}, {index('x', 'q')}, {channels}]"
    made = block.op(name, "convolution", read, f"{name}[b, y{side}, x{side}, {out}]", **more)
    return Image(made, side, out)


GROUPS = 32  # of channels, in every U-Net here


def norm(block, name, image, groups=GROUPS, **more):
    """Group or batch normalisation: one launch that keeps its input."""
    made = block.op(name, "norm", image.name, f"{name}{at(*image.dims())}", weight=at(image.channels),
                    bias=at(image.channels), passes="layer_norm", groups=groups, **more)
    return Image(made, image.side, image.channels)


def activation(block, name, image, channels=None):
    made = Image(name, image.side, channels or image.channels)
    read = image.under(channels) if channels else image.name
    block.op(name, "elementwise", read, f"{name}{at(*made.dims())}", passes="activation")
    return made


def add(block, name, a, b):
    """The second one may have its channels under another name."""
    second = b.name if a.channels == b.channels else b.under(a.channels)
    return Image(block.op(name, "elementwise", [a.name, second], f"{name}{at(*a.dims())}", passes="residual"),
                 a.side, a.channels)


def enlarge(block, name, image, times, channels):
    """The nearest places, written out (F.interpolate)."""
    side = image.side * times
    read = f"{image.name}[b, y{side}/{times}, x{side}/{times}, {channels}]"
    made = block.op(name, "elementwise", read, f"{name}[b, y{side}, x{side}, {channels}]", keep="[]")
    return Image(made, side, channels)


class Unet:
    """Tensor ranks cut every convolution: the first of a residual block on its results (role ffn), the second on what it
    reads, as axonn-ai/improved-diffusion does (branch axonn-easy, unet.py); those that stand alone on what they read, which
    needs the fewest bytes, and shortcuts on their results. Channels of the stream (role channel) are cut by a second axis.
    """

    def __init__(self, name, side, channels, depths, heads_of, text_tokens, text_width, linear, extra):
        self.graph, self.name, self.channels, self.depths = Graph(), name, channels, depths
        self.heads_of, self.linear, self.extra, self.text_width = heads_of, linear, extra, text_width
        g = self.graph
        for level in range(len(channels)):
            s = side >> level
            g.dim(f"y{s}", s, "pixel"), g.dim(f"x{s}", s, "pixel")
            g.dim(f"t{s}", s * s, "sequence"), g.dim(f"s{s}", s * s, "key-sequence")
        g.dim("p3", 3, "kernel"), g.dim("q3", 3, "kernel")
        g.dim("text", text_tokens, "sequence"), g.dim("text_keys", text_tokens, "key-sequence")
        g.dim("text_width", text_width), g.dim("two", 2)
        g.dim("phase", channels[0]), g.dim("time_width", 4 * channels[0], "ffn"), g.dim("time", 4 * channels[0])
        self.skips, self.side = [], side

    def c(self, n):
        return self.graph.dim(f"c{n}", n, "channel")

    @staticmethod
    def extent(channels):
        return int(channels[1:])

    def inner(self, n):
        """Channels inside a block."""
        return self.graph.dim(f"k{n}", n, "ffn")

    def enter(self):
        g, block = self.graph, Block("enter", "embedding")
        block.read("image", ["b", f"y{self.side}", f"x{self.side}", g.dim("latent", 4)])
        block.read("phases", ["b", "phase"])
        block.read("text", ["b", "text", "text_width"], gradient="false")
        block.op("time_in", "product", "phases", "time_in[b, time_width]", weight="[phase, time_width]",
                 bias="[time_width]")
        block.op("time_act", "elementwise", "time_in", "time_act[b, time_width]", passes="activation")
        block.op("time_out", "product", "time_act", "time_out[b, time]", weight="[time_width, time]", bias="[time]")
        temb = "time_out"
        if self.extra:
            g.dim("labels", self.extra)
            block.read("added", ["b", "labels"])
            block.op("label_in", "product", "added", "label_in[b, time_width]", weight="[labels, time_width]",
                     bias="[time_width]")
            block.op("label_act", "elementwise", "label_in", "label_act[b, time_width]", passes="activation")
            block.op("label_out", "product", "label_act", "label_out[b, time]", weight="[time_width, time]",
                     bias="[time]")
            temb = block.op("embedding", "elementwise", [temb, "label_out"], "embedding[b, time]", passes="residual")
        h = convolution(block, "conv_in", Image("image", self.side, "latent"), self.c(self.channels[0]))
        block.outs = [h.name, temb, "text"]
        place = g.add(block)
        self.temb, self.text, self.h = f"enter.{temb}", "enter.text", h
        self.here = f"{place}.{h.name}"
        self.skips.append((self.here, h))

    def start(self, name, skip=None):
        """A block that reads the stream as `h`, and a skip that it appends to the channels."""
        block = Block(name)
        h = Image(block.read("h", self.h.dims(), joins=self.h.name), self.h.side, self.h.channels)
        if skip:
            source, image = skip
            block.read("skip", image.dims())
            n = self.extent(h.channels) + self.extent(image.channels)
            made = block.op("append", "elementwise", ["h", "skip"],
                            f"append{at('b', f'y{h.side}', f'x{h.side}', self.c(n))}", keep="[]")
            h = Image(made, h.side, self.c(n))
        return block, h

    def residual(self, block, name, h, out):
        """ResnetBlock2D."""
        equal = self.extent(h.channels) == out
        result, inner = self.c(out), self.inner(out)
        n = norm(block, f"{name}norm1", h)
        a = activation(block, f"{name}act1", n)
        x = convolution(block, f"{name}conv1", a, inner)
        time = block.op(f"{name}time_act", "elementwise", "time", f"{name}time_act[b, time]", passes="activation")
        shift = block.op(f"{name}time_proj", "product", time, f"{name}time_proj[b, {inner}]",
                         weight=at("time", inner), bias=at(inner))
        made = block.op(f"{name}shift", "elementwise", [x.name, shift], f"{name}shift{at(*x.dims())}", passes="residual")
        x = Image(made, x.side, inner)
        x = activation(block, f"{name}act2", norm(block, f"{name}norm2", x))
        x = convolution(block, f"{name}conv2", x, result)
        if not equal:
            h = convolution(block, f"{name}shortcut", h, inner, taps=1)
        return add(block, f"{name}residual", x, h)

    def attend(self, block, name, x, width, token, source, source_dim, key_dim, heads, size):
        """Projections without bias, the core, the output with one."""
        g = self.graph
        names = {}
        for what, read, rows, contracted in (("query", x, token, width), ("key", source, source_dim[0], source_dim[1]),
                                             ("value", source, source_dim[0], source_dim[1])):
            names[what] = block.op(f"{name}{what}", "product", read, f"{name}{what}[b, {rows}, {heads}, {size}]",
                                   weight=at(contracted, heads, size))
        keys = [f"{names[w]}[b, {key_dim}, {heads}, {size}]" for w in ("key", "value")]
        core = block.op(f"{name}core", "attention", [names["query"]] + keys,
                        [f"{name}core[b, {token}, {heads}, {size}]", f"{name}sums[b, {heads}, {token}]: statistic"],
                        flops_per_point=4)
        return block.op(f"{name}out", "product", core, f"{name}out[b, {token}, {width}]",
                        weight=at(heads, size, width), bias=at(width))

    def transformer(self, block, h, depth):
        """Transformer2DModel with BasicTransformerBlocks."""
        g, n = self.graph, self.extent(h.channels)
        width, inner = g.dim(f"w{n}", n, "channel"), self.inner(n)
        heads = g.dim(f"heads{self.heads_of(n)}", self.heads_of(n), "head")
        size = g.dim(f"size{n // self.heads_of(n)}", n // self.heads_of(n), "head-size")
        ffn = g.dim(f"ffn{4 * n}", 4 * n, "ffn")
        token, keys = f"t{h.side}", f"s{h.side}"
        start = norm(block, "attn_norm", h)
        row = f"{token}/{h.side}"  # tokens are places, row by row
        tokens = lambda x, channels: block.op("tokens", "elementwise", f"{x.name}[b, {row}, x{h.side}, {channels}]",
                                              f"tokens[b, {token}, {channels}]", keep="[]")
        if self.linear:
            x = tokens(start, inner)
            x = block.op("proj_in", "product", x, f"proj_in[b, {token}, {width}]", weight=at(inner, width), bias=at(width))
        else:
            x = tokens(convolution(block, "proj_in", start, inner, taps=1), width)
        stream = f"[b, {token}, {width}]"
        for i in range(depth):
            t = f"t{i}_" if depth > 1 else ""
            for part, source, dims, key in (("self_", None, None, keys),
                                            ("cross_", "text", ("text", "text_width"), "text_keys")):
                y = block.op(f"{t}{part}norm", "norm", x, f"{t}{part}norm{stream}", weight=at(width), bias=at(width),
                             passes="layer_norm")
                y = self.attend(block, t + part, y, width, token, source or y, dims or (token, width), key, heads, size)
                x = block.op(f"{t}{part}add", "elementwise", [y, x], f"{t}{part}add{stream}", passes="residual")
            y = block.op(f"{t}ff_norm", "norm", x, f"{t}ff_norm{stream}", weight=at(width), bias=at(width),
                         passes="layer_norm")
            y = block.op(f"{t}ff_in", "product", y, f"{t}ff_in[b, {token}, two, {ffn}]", weight=at(width, "two", ffn),
                         bias=at("two", ffn))
            y = block.op(f"{t}ff_gate", "elementwise", y, f"{t}ff_gate[b, {token}, {ffn}]", passes="gated_activation")
            y = block.op(f"{t}ff_out", "product", y, f"{t}ff_out{stream}", weight=at(ffn, width), bias=at(width))
            x = block.op(f"{t}ff_add", "elementwise", [y, x], f"{t}ff_add{stream}", passes="residual")
        place = f"{h.side}*y{h.side}+x{h.side}"
        image = lambda x, channels: Image(block.op("image", "elementwise", f"{x}[b, {place}, {channels}]",
                                                   f"image{at('b', *h.dims()[1:3], channels)}", keep="[]"), h.side, channels)
        if self.linear:
            x = block.op("proj_out", "product", x, f"proj_out[b, {token}, {inner}]", weight=at(width, inner),
                         bias=at(inner))
            x = image(x, h.channels)
        else:
            x = convolution(block, "proj_out", image(x, inner), h.channels, taps=1)
        return add(block, "attn_residual", x, h)

    def finish(self, block, h, reads_text, skip=None):
        block.outs = [h.name]
        place = self.graph.add(block)
        if reads_text:
            self.graph.edge(self.text, f"{place}.text")
        if skip:
            self.graph.edge(skip[0], f"{place}.skip")
        self.h, self.here = h, f"{place}.{h.name}"
        return place

    def layer(self, name, out, depth, skip=None):
        block, h = self.start(name, skip)
        block.read("time", ["b", "time"])
        if depth:
            block.read("text", ["b", "text", "text_width"], gradient="false")
        h = self.residual(block, "", h, out)
        if depth:
            h = self.transformer(block, h, depth)
        place = self.finish(block, h, bool(depth), skip)
        self.graph.edge(self.temb, f"{place}.time")

    def shrink(self, name):
        block, h = self.start(name)
        inner = self.inner(self.extent(h.channels))
        self.finish(block, convolution(block, "conv", h, h.channels, stride=2, under=inner), False)

    def grow(self, name):
        block, h = self.start(name)
        inner = self.inner(self.extent(h.channels))
        self.finish(block, convolution(block, "conv", enlarge(block, "enlarge", h, 2, inner), h.channels), False)

    def middle(self):
        block, h = self.start("middle")
        block.read("time", ["b", "time"])
        block.read("text", ["b", "text", "text_width"], gradient="false")
        n = self.extent(h.channels)
        h = self.residual(block, "first_", h, n)
        h = self.transformer(block, h, max(self.depths))if max(self.depths) > 1 else self.transformer(block, h, 1)
        h = self.residual(block, "second_", h, n)
        place = self.finish(block, h, True)
        self.graph.edge(self.temb, f"{place}.time")

    def leave(self):
        block, h = self.start("leave")
        block.kind = "head"
        h = activation(block, "act_out", norm(block, "norm_out", h))
        h = convolution(block, "conv_out", h, "latent")
        block.op("loss", "elementwise", h.name, f"loss{at(*h.dims())}")
        self.graph.add(block)

    def build(self):
        self.enter()
        levels = len(self.channels)
        for level, n in enumerate(self.channels):
            for i in range(2):
                self.layer(f"down{level}", n, self.depths[level])
                self.skips.append((self.here, self.h))
            if level + 1 < levels:
                self.shrink(f"shrink{level}")
                self.skips.append((self.here, self.h))
        self.middle()
        for level in reversed(range(levels)):
            for i in range(3):
                self.layer(f"up{level}", self.channels[level], self.depths[level], self.skips.pop())
            if level > 0:
                self.grow(f"grow{level}")
        self.leave()
        return self.graph.text()


def norm32(block, name, image):
    """GroupNorm32 of openai/improved-diffusion: of a copy in fp32."""
    return norm(block, name, image, keep=f'["{image.name}: single"]')


class ImprovedUnet(Unet):
    """UNetModel of openai/improved-diffusion, as AxoNN's authors train it: attention at `attended` sides, one product for
    queries, keys and values, norms scaled and shifted by the time, means and variances as results."""

    def __init__(self, width, multiples=(1, 2, 2, 2), residuals=3, heads=4, side=32, attended=(16, 8)):
        self.graph, self.side, self.width, self.attended = Graph(), side, width, attended
        self.multiples, self.residuals, self.heads = multiples, residuals, heads
        g = self.graph
        for level in range(len(multiples)):
            s = side >> level
            g.dim(f"y{s}", s, "pixel"), g.dim(f"x{s}", s, "pixel")
        for s in attended + (side >> len(self.multiples) - 1,):
            g.dim(f"t{s}", s * s, "sequence"), g.dim(f"s{s}", s * s, "key-sequence")
        g.dim("p3", 3, "kernel"), g.dim("q3", 3, "kernel"), g.dim("two", 2), g.dim("heads", self.heads, "head")
        g.dim("phase", width), g.dim("time_width", 4 * width, "ffn"), g.dim("time", 4 * width)
        self.skips = []

    def enter(self):
        block = Block("enter", "embedding")
        block.read("image", ["b", f"y{self.side}", f"x{self.side}", self.graph.dim("rgb", 3)], gradient="false")
        block.read("phases", ["b", "phase"], gradient="false")
        block.op("time_in", "product", "phases", "time_in[b, time_width]", weight="[phase, time_width]",
                 bias="[time_width]")
        block.op("time_act", "elementwise", "time_in", "time_act[b, time_width]", passes="activation")
        temb = block.op("time_out", "product", "time_act", "time_out[b, time]", weight="[time_width, time]", bias="[time]")
        h = convolution(block, "conv_in", Image("image", self.side, "rgb"), self.c(self.width))
        block.outs = [h.name, temb]
        place = self.graph.add(block)
        self.temb, self.h, self.here = f"enter.{temb}", h, f"{place}.{h.name}"
        self.skips.append((self.here, h))

    def residual(self, block, name, h, out):
        """ResBlock with use_scale_shift_norm."""
        equal = self.extent(h.channels) == out
        result, inner = self.c(out), self.inner(out)
        x = activation(block, f"{name}act1", norm32(block, f"{name}norm1", h))
        x = convolution(block, f"{name}conv1", x, inner)
        time = block.op(f"{name}time_act", "elementwise", "time", f"{name}time_act[b, time]", passes="activation")
        moves = block.op(f"{name}time_proj", "product", time, f"{name}time_proj[b, two, {inner}]",
                         weight=at("time", "two", inner), bias=at("two", inner))
        x = norm32(block, f"{name}norm2", x)
        made = block.op(f"{name}scale_shift", "elementwise", [x.name, moves], f"{name}scale_shift{at(*x.dims())}",
                        forward_kernels=3, backward_kernels=3)
        x = activation(block, f"{name}act2", Image(made, x.side, inner))
        x = Image(block.op(f"{name}dropout", "elementwise", x.name, f"{name}dropout{at(*x.dims())}", passes="dropout",
                           keep="[]"), x.side, inner)
        x = convolution(block, f"{name}conv2", x, result)
        if not equal:
            h = convolution(block, f"{name}shortcut", h, inner, taps=1)
        return add(block, f"{name}residual", x, h)

    def attention(self, block, name, h):
        """AttentionBlock: a residual of its own."""
        g, n = self.graph, self.extent(h.channels)
        token, keys, stream = f"t{h.side}", f"s{h.side}", h.channels
        size = g.dim(f"size{n // self.heads}", n // self.heads, "head-size")
        x = norm32(block, f"{name}attn_norm", h)
        x = block.op(f"{name}tokens", "elementwise", f"{x.name}[b, {token}/{h.side}, x{h.side}, {x.channels}]",
                     f"{name}tokens[b, {token}, {x.channels}]", keep="[]")
        names = [block.op(f"{name}{what}", "product", x, f"{name}{what}[b, {token}, heads, {size}]",
                          weight=at(h.channels, "heads", size), bias=at("heads", size), fused=f"{name}qkv")
                 for what in ("query", "key", "value")]
        core = block.op(f"{name}core", "attention", [names[0]] + [f"{n}[b, {keys}, heads, {size}]" for n in names[1:]],
                        [f"{name}core[b, {token}, heads, {size}]", f"{name}sums[b, heads, {token}]: statistic"],
                        flops_per_point=4)
        x = block.op(f"{name}proj", "product", core, f"{name}proj[b, {token}, {stream}]", weight=at("heads", size, stream),
                     bias=at(stream))
        x = Image(block.op(f"{name}image", "elementwise", f"{x}[b, {h.side}*y{h.side}+x{h.side}, {stream}]",
                           f"{name}image{at(*h.dims())}", keep="[]"), h.side, stream)
        return add(block, f"{name}attn_residual", x, h)

    def layer(self, name, out, skip=None):
        block, h = self.start(name, skip)
        block.read("time", ["b", "time"])
        h = self.residual(block, "", h, out)
        if h.side in self.attended:
            h = self.attention(block, "", h)
        self.graph.edge(self.temb, f"{self.finish(block, h, False, skip)}.time")

    def middle(self):
        block, h = self.start("middle")
        block.read("time", ["b", "time"])
        n = self.extent(h.channels)
        h = self.residual(block, "first_", h, n)
        h = self.residual(block, "second_", self.attention(block, "", h), n)
        self.graph.edge(self.temb, f"{self.finish(block, h, False)}.time")

    def leave(self):
        block, h = self.start("leave")
        block.kind = "head"
        h = activation(block, "act_out", norm32(block, "norm_out", h))
        h = convolution(block, "conv_out", h, self.graph.dim("means_and_variances", 6))
        block.op("loss", "elementwise", h.name, f"loss{at(*h.dims())}")
        self.graph.add(block)

    def build(self):
        self.enter()
        levels = len(self.multiples)
        for level, multiple in enumerate(self.multiples):
            for _ in range(self.residuals):
                self.layer(f"down{level}", multiple * self.width)
                self.skips.append((self.here, self.h))
            if level + 1 < levels:
                self.shrink(f"shrink{level}")
                self.skips.append((self.here, self.h))
        self.middle()
        for level, multiple in reversed(list(enumerate(self.multiples))):
            for _ in range(self.residuals + 1):
                self.layer(f"up{level}", multiple * self.width, self.skips.pop())
            if level > 0:
                self.grow(f"grow{level}")
        self.leave()
        return self.graph.text()


def improved_unet_parameters(width, multiples=(1, 2, 2, 2), residuals=3):
    """Counted from the modules, not from the graph."""
    time = 4 * width
    conv = lambda a, b, taps=9: a * b * taps + b
    block = lambda a, b: (2 * a + conv(a, b) + time * 2 * b + 2 * b + 2 * b + conv(b, b) + (conv(a, b, 1) if a != b else 0))
    attention = lambda c: 2 * c + conv(c, 3 * c, 1) + conv(c, c, 1)
    total, c, skips = conv(width, time, 1) + conv(time, time, 1) + conv(3, width), width, [width]
    for level, multiple in enumerate(multiples):
        for _ in range(residuals):
            total += block(c, multiple * width) + (attention(multiple * width) if level in (1, 2) else 0)
            c = multiple * width
            skips.append(c)
        if level < 3:
            total += conv(c, c)
            skips.append(c)
    total += 2 * block(c, c) + attention(c)
    for level, multiple in reversed(list(enumerate(multiples))):
        for _ in range(residuals + 1):
            total += block(c + skips.pop(), multiple * width) + (attention(multiple * width) if level in (1, 2) else 0)
            c = multiple * width
        total += conv(c, c) if level else 0
    return total + 2 * c + conv(c, 6)


def wide_resnet(depths, widths, classes):
    g = Graph()
    for side in (224, 112, 56, 28, 14, 7):
        g.dim(f"y{side}", side, "pixel"), g.dim(f"x{side}", side, "pixel")
    for taps in (3, 7):
        g.dim(f"p{taps}", taps, "kernel"), g.dim(f"q{taps}", taps, "kernel")
    def c(n, family="c"):
        """Tensor ranks cut the channels k that stay in a block, each convolution once."""
        return g.dim(f"{family}{n}", n, "ffn" if family == "k" else "channel")

    def batch_norm(block, name, x):
        return norm(block, name, x, int(x.channels[1:]))

    block = Block("stem", "embedding")
    image = Image(block.read("image", ["b", "y224", "x224", g.dim("rgb", 3)]), 224, "rgb")
    h = convolution(block, "conv", image, c(64), taps=7, stride=2, bias=False)
    h = activation(block, "act", batch_norm(block, "norm", h))
    made = block.op("pool", "elementwise", f"{h.name}[b, 2*y56+p3-1, 2*x56+q3-1, c64]", "pool[b, y56, x56, c64]")
    h = Image(made, 56, "c64")
    block.outs = ["pool"]
    g.add(block)
    for level, (depth, width) in enumerate(zip(depths, widths)):
        out = c(256 << level)
        for i in range(depth):
            block = Block(f"layer{level + 1}")
            stride = 2 if level > 0 and i == 0 else 1
            x = Image(block.read("h", h.dims(), joins=h.name), h.side, h.channels)
            inner = c(width, "k")
            y = convolution(block, "conv1", x, inner, taps=1, bias=False)
            y = activation(block, "act1", batch_norm(block, "norm1", y))
            y = convolution(block, "conv2", y, c(width, "v"), stride=stride, bias=False)
            y = activation(block, "act2", batch_norm(block, "norm2", y), inner)
            y = batch_norm(block, "norm3", convolution(block, "conv3", y, out, taps=1, bias=False))
            if x.channels != out:
                x = convolution(block, "shortcut", x, c(256 << level, "k"), taps=1, stride=stride, bias=False)
                x = batch_norm(block, "norm4", x)
            h = activation(block, "act3", add(block, "residual", y, x))
            block.outs = [h.name]
            g.add(block)
    block = Block("classifier", "head")
    block.read("h", h.dims(), joins=h.name)
    g.dim("classes", classes)
    block.op("average", "elementwise", "h", f"average[b, {h.channels}]", keep="[]")
    block.op("logits", "product", "average", "logits[b, classes]: logit", weight=at(h.channels, "classes"), bias="[classes]")
    block.op("loss", "elementwise", "logits", "loss[b, classes]: logit")
    g.add(block)
    return g.text()


class Swin:
    """swin_transformer.py of microsoft/Swin-Transformer: attention inside windows, every second layer shifted.

    Tokens lie window by window: [b, windows, tokens of a window, features].
    """

    def __init__(self, image, patch, window, depths, width, heads, classes):
        self.graph, self.depths, self.classes, self.patch = Graph(), depths, classes, 3 * patch * patch
        g = self.graph
        self.side, self.window, self.width, self.heads = image // patch, window, width, heads
        g.dim("t", window * window, "sequence"), g.dim("s", window * window, "key-sequence")
        g.dim("size", width // heads, "head-size"), g.dim("places", (2 * window - 1) ** 2, "position")

    def c(self, n):
        return self.graph.dim(f"c{n}", n, "hidden")

    def windows(self, stage):
        n = ((self.side >> stage) // self.window) ** 2
        return self.graph.dim(f"n{n}", n)

    def place(self, block, made):
        block.outs = [made]
        self.graph.add(block)

    def norm(self, block, name, x, dims, c):
        return block.op(name, "norm", x, f"{name}{at(*dims)}", weight=at(c), bias=at(c), passes="layer_norm")

    def enter(self):
        n, c = self.windows(0), self.c(self.width)
        block, dims = Block("enter", "embedding"), ["b", n, "t", c]
        block.read("patches", ["b", n, "t", self.graph.dim("patch", self.patch)], gradient="false")
        x = block.op("embed", "product", "patches", f"embed{at(*dims)}", weight=at("patch", c), bias=at(c))
        self.place(block, self.norm(block, "h", x, dims, c))

    def attention(self, block, x, n, c, heads, shifted):
        stream, scores = at("b", n, "t", c), at("b", n, heads, "t", "s")
        copy = lambda name, x: block.op(name, "elementwise", x, f"{name}{stream}", keep="[]")
        x = copy("partition", copy("roll", x) if shifted else x)
        for what in ("query", "key", "value"):
            block.op(what, "product", x, f"{what}{at('b', n, 't', heads, 'size')}", weight=at(c, heads, "size"),
                     bias=at(heads, "size"), fused="qkv")
        y = block.op("scores", "batched-product", ["query", f"key{at('b', n, 's', heads, 'size')}"], f"scores{scores}")
        y = block.op("offsets", "elementwise", y, f"offsets{scores}", keep="[]", parameters=f"[[places, {heads}]]")
        if shifted:
            y = block.op("mask", "elementwise", y, f"mask{scores}", keep="[]")
        y = block.op("shares", "softmax", y, f"shares{scores}")
        y = block.op("core", "batched-product", [y, f"value{at('b', n, 's', heads, 'size')}"],
                     f"core{at('b', n, 't', heads, 'size')}")
        y = block.op("out", "product", y, f"out{stream}", weight=at(heads, "size", c), bias=at(c))
        y = copy("reverse", y)
        return copy("roll_back", y) if shifted else y

    def layer(self, stage, shifted):
        n, c = self.windows(stage), self.c(self.width << stage)
        heads = self.graph.dim(f"heads{self.heads << stage}", self.heads << stage, "head")
        f = self.graph.dim(f"ffn{4 * (self.width << stage)}", 4 * (self.width << stage), "ffn")
        block, dims = Block(f"stage{stage + 1}" + ("_shifted" if shifted else "")), ["b", n, "t", c]
        x = block.read("h", dims)
        y = self.attention(block, self.norm(block, "norm1", x, dims, c), n, c, heads, shifted)
        x = block.op("add1", "elementwise", [y, x], f"add1{at(*dims)}", passes="residual")
        y = self.norm(block, "norm2", x, dims, c)
        y = block.op("up", "product", y, f"up{at('b', n, 't', f)}", weight=at(c, f), bias=at(f))
        y = block.op("gelu", "elementwise", y, f"gelu{at('b', n, 't', f)}", passes="activation")
        y = block.op("down", "product", y, f"down{at(*dims)}", weight=at(f, c), bias=at(c))
        y = block.op("add2", "elementwise", [y, x], f"add2{at(*dims)}", passes="residual")
        block.outs = [f"h: {y}"]
        self.graph.add(block)

    def merge(self, stage):
        """Four neighbours become one token of twice the width."""
        before, n = self.windows(stage), self.windows(stage + 1)
        c, m, out = self.c(self.width << stage), self.c(4 * self.width << stage), self.c(2 * self.width << stage)
        block = Block(f"merge{stage + 1}", "other")
        x = block.read("h", ["b", before, "t", c])
        x = block.op("gather", "elementwise", x, f"gather{at('b', n, 't', m)}", keep="[]")
        x = self.norm(block, "norm", x, ["b", n, "t", m], m)
        # Two names where the merged width is that of a later stage.
        x = block.op("reduce", "product", x, f"reduce{at('b', n, 't', out)}", weight=at(m, out))
        block.outs = [f"h: {x}"]
        self.graph.add(block)

    def leave(self):
        stage = len(self.depths) - 1
        n, c = self.windows(stage), self.c(self.width << stage)
        block, dims = Block("leave", "head"), ["b", n, "t", c]
        block.read("h", dims)
        x = self.norm(block, "norm", "h", dims, c)
        x = block.op("average", "elementwise", x, f"average[b, {c}]", keep="[]")
        self.graph.dim("classes", self.classes)
        block.op("logits", "product", x, "logits[b, classes]: logit", weight=at(c, "classes"), bias="[classes]")
        block.op("loss", "elementwise", "logits", "loss[b, classes]: logit")
        self.graph.add(block)

    def build(self):
        self.enter()
        for stage, depth in enumerate(self.depths):
            for i in range(depth):
                self.layer(stage, i % 2 == 1)
            if stage + 1 < len(self.depths):
                self.merge(stage)
        self.leave()
        return self.graph.text()


# Name, layers, features of the first stage, its heads (nnScaler, OSDI 2024, table 9), parameters.
SWIN = (("swin-1.8b", 32, 512, 16), ("swin-5b", 40, 768, 24), ("swin-10b", 48, 1024, 32), ("swin-27b", 56, 1536, 32))


class Evoformer:
    """Jumper et al. (Nature 2021), supplement 1.6: the rows of an alignment, and pairs of residues."""

    def __init__(self, rows, residues, msa, pair, inner=32, msa_heads=8, pair_heads=4):
        g = self.graph = Graph()
        g.dim("s", rows), g.dim("t", rows, "key-sequence"), g.dim("i", residues, "sequence"), g.dim("j", residues)
        g.dim("k", residues, "key-sequence")
        g.dim("m", msa, "hidden"), g.dim("z", pair), g.dim("e", inner), g.dim("f", inner), g.dim("size", inner, "head-size")
        g.dim("mheads", msa_heads, "head"), g.dim("zheads", pair_heads, "head")
        g.dim("mffn", 4 * msa, "ffn"), g.dim("zffn", 4 * pair, "ffn"), g.dim("n", pair, "ffn")

    def norm(self, name, x, dims, c):
        return self.block.op(name, "norm", x, f"{name}{at(*dims)}", weight=at(c), bias=at(c), passes="layer_norm")

    def product(self, name, x, made, weight, bias=None):
        more = {"bias": at(*bias)} if bias else {}
        return self.block.op(name, "product", x, f"{name}{at(*made)}", weight=at(*weight), **more)

    def gate(self, name, x, y, dims):
        return self.block.op(name, "elementwise", [x, y], f"{name}{at(*dims)}", passes="gated_activation")

    def add(self, name, x, y, dims):
        return self.block.op(name, "elementwise", [x, y], f"{name}{at(*dims)}", passes="residual")

    def attend(self, p, x, dims, c, heads, query, key, bias=None):
        """Gated attention along `query`; `bias`: a tensor of pairs that the scores add, and its dimensions."""
        op, inner = self.block.op, [d for d in dims if d not in (query, c)]
        projected = lambda d: [d if n == query else n for n in dims[:-1]] + [heads, "size"]
        for what in ("query", "key", "value"):
            self.product(f"{p}{what}", x, projected(query), [c, heads, "size"])
        g = self.product(f"{p}gate", x, projected(query), [c, heads, "size"], [heads, "size"])
        scores = inner + [heads, query, key]
        y = op(f"{p}scores", "batched-product", [f"{p}query{at(*projected(query))}", f"{p}key{at(*projected(key))}"],
               f"{p}scores{at(*scores)}")
        if bias:
            y = op(f"{p}biased", "elementwise", [y, bias], f"{p}biased{at(*scores)}", keep="[]")
        y = op(f"{p}shares", "softmax", y, f"{p}shares{at(*scores)}")
        y = op(f"{p}core", "batched-product", [f"{y}{at(*scores)}", f"{p}value{at(*projected(key))}"],
               f"{p}core{at(*projected(query))}")
        y = self.gate(f"{p}gated", g, y, projected(query))
        return self.product(f"{p}out", y, dims, [heads, "size", c], [c])

    def transition(self, p, x, dims, c, wide):
        y = self.norm(f"{p}norm", x, dims, c)
        y = self.product(f"{p}up", y, dims[:-1] + [wide], [c, wide], [wide])
        y = self.block.op(f"{p}relu", "elementwise", y, f"{p}relu{at(*dims[:-1], wide)}", passes="activation")
        y = self.product(f"{p}down", y, dims, [wide, c], [c])
        return self.add(f"{p}add", y, x, dims)

    def triangle(self, p, z, left, right):
        """Multiplicative update: sides of a triangle over its third corner k."""
        dims = ["b", "i", "j", "z"]
        x = self.norm(f"{p}norm", z, dims, "z")
        for side in ("a", "b"):
            y = self.product(f"{p}{side}", x, dims[:-1] + ["n"], ["z", "n"], ["n"])
            g = self.product(f"{p}{side}_gate", x, dims[:-1] + ["n"], ["z", "n"], ["n"])
            self.gate(f"{p}{side}_gated", g, y, dims[:-1] + ["n"])
        y = self.block.op(f"{p}sum", "batched-product", [f"{p}a_gated{at('b', *left, 'n')}", f"{p}b_gated{at('b', *right, 'n')}"],
                          f"{p}sum[b, i, j, n]")
        y = self.norm(f"{p}inner_norm", y, dims[:-1] + ["n"], "n")
        y = self.product(f"{p}out", y, dims, ["n", "z"], ["z"])
        g = self.block.op(f"{p}out_gate", "product", x, f"{p}out_gate[b, i, j, n]", weight="[z, n]", bias="[n]")
        y = self.block.op(f"{p}gated", "elementwise", [g, y], f"{p}gated[b, i, j, z]", passes="gated_activation")
        return self.add(f"{p}add", y, z, dims)

    def build(self, blocks):
        b = self.block = Block("evoformer")
        rows, pairs = ["b", "s", "i", "m"], ["b", "i", "j", "z"]
        m, z = b.read("msa", rows), b.read("pair", pairs)
        # Row by row, the pairs as a bias; then column by column.
        bias = self.product("row_bias", self.norm("row_pair_norm", z, pairs, "z"), ["b", "i", "j", "mheads"], ["z", "mheads"])
        bias = f"{bias}[b, i, k, mheads]"
        m = self.add("row_add", self.attend("row_", self.norm("row_norm", m, rows, "m"), rows, "m", "mheads", "i", "k", bias), m, rows)
        m = self.add("column_add", self.attend("column_", self.norm("column_norm", m, rows, "m"), rows, "m", "mheads", "s", "t"), m, rows)
        m = self.transition("msa_", m, rows, "m", "mffn")
        x = self.norm("outer_norm", m, rows, "m")
        self.product("outer_a", x, ["b", "s", "i", "e"], ["m", "e"], ["e"])
        self.product("outer_b", x, ["b", "s", "i", "f"], ["m", "f"], ["f"])
        y = b.op("outer", "batched-product", ["outer_a[b, s, i, e]", "outer_b[b, s, j, f]"], "outer[b, i, j, e, f]")
        z = self.add("outer_add", self.product("outer_out", y, pairs, ["e", "f", "z"], ["z"]), z, pairs)
        z = self.triangle("outgoing_", z, ("i", "k"), ("j", "k"))
        z = self.triangle("incoming_", z, ("k", "i"), ("k", "j"))
        for p, query in (("start_", "j"), ("end_", "i")):
            x = self.norm(f"{p}norm", z, pairs, "z")
            bias = self.product(f"{p}bias", x, ["b", "i", "j", "zheads"], ["z", "zheads"])
            bias += "[b, j, k, zheads]" if query == "j" else "[b, k, i, zheads]"
            z = self.add(f"{p}add", self.attend(p, x, pairs, "z", "zheads", query, "k", bias), z, pairs)
        z = self.transition("pair_", z, pairs, "z", "zffn")
        b.outs = [f"msa: {m}", f"pair: {z}"]
        for _ in range(blocks):
            self.graph.add(b)
        b = Block("leave", "head")
        b.read("msa", rows), b.read("pair", pairs)
        b.op("msa_loss", "elementwise", "msa", f"msa_loss{at(*rows)}", keep="[]")
        b.op("pair_loss", "elementwise", "pair", f"pair_loss{at(*pairs)}", keep="[]")
        self.graph.add(b)
        return self.graph.text()


def swin_parameters(layers, width, heads):
    """Counted from the modules, not from the graph."""
    total = 48 * width + width + 2 * width
    for stage, depth in enumerate((2, 2, layers - 6, 2)):
        c, h = width << stage, heads << stage
        block = 2 * 2 * c + 4 * (c * c + c) + 95 * 95 * h + (4 * c * c + 4 * c) + (4 * c * c + c)
        total += depth * block
        if stage < 3:
            total += 2 * 4 * c + 4 * c * 2 * c
    return total + 2 * (width << 3) + (width << 3) * 1000 + 1000


IMPROVED = (("axonn-unet-550m", 416), ("axonn-unet-1b", 576), ("axonn-unet-2b", 800), ("axonn-unet-4b", 1120),
            ("axonn-unet-8b", 1600))


def models():
    sd = Unet("sd15-unet", 64, (320, 640, 1280, 1280), (1, 1, 1, 0), lambda n: 8, 77, 768, False, 0)
    xl = Unet("sdxl-unet", 128, (320, 640, 1280), (0, 2, 10), lambda n: n // 64, 77, 2048, True, 2816)
    yield dict(name="sd15-unet", comment="The U-Net of Stable Diffusion 1.5 on latents of 64 x 64 (images of 512 x 512).",
               source="huggingface.co/stable-diffusion-v1-5/stable-diffusion-v1-5 unet/config.json; arXiv:2112.10752",
               parameters=859520964, batch=2048, precision="bf16", optimizer="adam"), sd.build()
    yield dict(name="sdxl-unet", comment="The U-Net of SDXL on latents of 128 x 128 (images of 1024 x 1024).",
               source="huggingface.co/stabilityai/stable-diffusion-xl-base-1.0 unet/config.json; arXiv:2307.01952",
               parameters=2567463684, batch=2048, precision="bf16", optimizer="adam"), xl.build()
    yield dict(name="wide-resnet50-2", comment="Wide ResNet-50-2 on images of 224 x 224.",
               source="torchvision.models.wide_resnet50_2; arXiv:1605.07146", parameters=68883240, batch=1024,
               precision="fp16", optimizer="sgd"), wide_resnet((3, 4, 6, 3), (128, 256, 512, 1024), 1000)
    yield dict(name="alphafold2-evoformer", comment="The Evoformer of AlphaFold 2: 128 rows of an alignment of 256 residues.",
               source="Jumper et al., Nature 596 (2021), supplement 1.6 and 1.11.3; google-deepmind/alphafold model/config.py",
               parameters=87837696, batch=128, precision="bf16", optimizer="adam",
               forwards="3  # recycling: Lin et al., nnScaler (OSDI 2024), section 2; AlphaFold 2 draws 1 to 4 (1.10)"
               ), Evoformer(128, 256, 256, 128).build(48)
    for name, width in IMPROVED:
        yield dict(name=name, comment="U-Net of AxoNN's evaluation, on images of 32 x 32.",
                   source="axonn-ai/improved-diffusion@4f20d9bd scripts/launch_per_comm_model.py, template_perlmutter.sh; "
                   "openai/improved-diffusion improved_diffusion/unet.py",
                   parameters=improved_unet_parameters(width), batch=2048, precision="fp16",
                   optimizer="adam"), ImprovedUnet(width).build()
    for name, layers, width, heads in SWIN:
        yield dict(name=name, comment="Swin Transformer of nnScaler's evaluation: images of 1536 x 1536, windows of 48 x 48.",
                   source="Lin et al., nnScaler (OSDI 2024), table 9; microsoft/Swin-Transformer models/swin_transformer.py",
                   parameters=swin_parameters(layers, width, heads), batch=256, precision="fp16",
                   optimizer="adam"), Swin(1536, 4, 48, (2, 2, layers - 6, 2), width, heads, 1000).build()


def studies():
    """Networks of published figures only (validation/reproduce): sizes of pairs, widths of U-Nets are not published."""
    for name, blocks in (("alphafold2-2.4b", 96), ("alphafold2-3.2b", 128)):
        yield dict(name=name, comment="AlphaFold 2 of nnScaler's evaluation; c_z 384 is the multiple of 64 (heads of 32, two tensor "
                   "ranks)\n# that comes within 6 % of the published parameters.", source="Lin et al., nnScaler (OSDI 2024), table 9",
                   parameters=blocks * 23810368, batch=256, precision="fp16", optimizer="adam",
                   forwards="3", folder="nnscaler"), Evoformer(128, 256, 1024, 384, msa_heads=32, pair_heads=12).build(blocks)
    for name, width, multiples, residuals in (("unet-28b-2944", 2944, (1, 2, 2, 2), 3), ("unet-28b-5760", 5760, (1, 1, 1, 1), 2)):
        yield dict(name=name, comment=f"A U-Net of about 28 billion parameters: {residuals} residual blocks a level, channels times "
                   f"{', '.join(map(str, multiples))}.", source="Singh and Bhatele, Tensor3D (arXiv 2305.13525v1), names the parameters "
                   "alone; openai/improved-diffusion improved_diffusion/unet.py",
                   parameters=improved_unet_parameters(width, multiples, residuals), batch=2048, precision="fp16",
                   optimizer="adam", folder="tensor3d"), ImprovedUnet(width, multiples, residuals, heads=16).build()


def write(directory, graphs):
    for head, text in graphs:
        forwards = f"forwards: {head['forwards']}\n" if "forwards" in head else ""
        (directory / head.get("folder", "") / f"{head['name']}.yaml").write_text(HEAD.format(**head) + forwards + text)


def main():
    write(pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "models"), models())
    write(pathlib.Path(sys.argv[2] if len(sys.argv) > 2 else "validation/reproduce"), studies())


if __name__ == "__main__":
    main()
