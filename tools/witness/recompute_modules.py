#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tensors that autograd keeps of one of Megatron-Core's layers when parts of it run again, against those of plansearch.

    python3 tools/witness/recompute_modules.py BIN     # prints a table; exit status 1 beyond 3 %

Layers are written out after NVIDIA/Megatron-LM@d98e8a64 (transformer_layer.py, attention.py, multi_latent_attention.py,
moe/moe_layer.py, moe/experts.py) on torch's meta device. Every kernel is a function of autograd that keeps what Transformer
Engine's keeps. Parts run again as there: `tensor_parallel.checkpoint` keeps its inputs (core_attn, mlp, moe,
shared_experts), `CheckpointWithoutOutput` its inputs and throws its results away (layernorm, mla_up_proj, moe_act). A norm
that is fused into a product is no module of its own there (IdentityOp) and runs again in none. What autograd saves is
counted once per storage; plansearch's layer is the difference between two depths. Needs torch; not part of the build.
"""
import dataclasses
import json
import pathlib
import subprocess
import sys
import tempfile

import torch
from torch.utils.checkpoint import checkpoint

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
TOKENS = 2048
TOLERANCE = 0.03


class Kernel(torch.autograd.Function):
    """Keeps `kept` and new tensors of `extra`; results are `shapes`."""

    @staticmethod
    def forward(ctx, shapes, kept, extra, *inputs):
        rows = [torch.empty(s, dtype=d, device="meta") for s, d in extra]
        ctx.save_for_backward(*[inputs[i] for i in kept], *rows)
        ctx.inputs = [(t.shape, t.dtype) for t in inputs]
        made = tuple(torch.empty(s, dtype=d, device="meta") for s, d in shapes)
        return made if len(made) > 1 else made[0]

    @staticmethod
    def backward(ctx, *grads):
        return (None, None, None, *[torch.empty(s, dtype=d, device="meta") for s, d in ctx.inputs])


BF16, FP32 = torch.bfloat16, torch.float32


def run(inputs, widths, kept=(), extra=(), rows=TOKENS, dtype=BF16):
    """A kernel with results of `widths` a row; `extra`: (width, dtype) of what it keeps besides."""
    return Kernel.apply([((rows, w), dtype) for w in widths], tuple(kept), [((rows, w), d) for w, d in extra], *inputs)


def linear(x, width, rows=TOKENS):
    return run([x], [width], kept=[0], rows=rows)


def norm(x):
    return run([x], [x.shape[1]], kept=[0], extra=[(1, FP32)])


def norm_linear(x, width):  # TELayerNormColumnParallelLinear: input, statistic, and the norm's result for the weight gradient
    return run([x], [width], kept=[0], extra=[(1, FP32), (x.shape[1], BF16)])


def attention(q, k, v, heads, width):
    class Flash(torch.autograd.Function):
        @staticmethod
        def forward(ctx, q, k, v):
            out = torch.empty(TOKENS, width, dtype=BF16, device="meta")
            ctx.save_for_backward(q, k, v, out, torch.empty(TOKENS, heads, dtype=FP32, device="meta"))
            return out

        @staticmethod
        def backward(ctx, grad):
            return tuple(torch.empty_like(t) for t in ctx.saved_tensors[:3])

    return Flash.apply(q, k, v)


def add(x, y):
    return run([x, y], [x.shape[1]])


class Discarding(torch.autograd.Function):
    """CheckpointWithoutOutput: inputs are kept, results are thrown away where they have been used."""

    @staticmethod
    def forward(ctx, function, thrown, *inputs):
        with torch.no_grad():
            made = function(*inputs)
        ctx.save_for_backward(*inputs)
        ctx.inputs = [(t.shape, t.dtype) for t in inputs]
        for tensor in made if isinstance(made, tuple) else (made,):
            thrown.add(tensor.untyped_storage()._cdata)
        return made

    @staticmethod
    def backward(ctx, *grads):
        return (None, None, *[torch.empty(s, dtype=d, device="meta") for s, d in ctx.inputs])


@dataclasses.dataclass
class Sizes:
    hidden: int
    heads: int
    kv_heads: int = 0
    head: int = 0
    ffn: int = 0
    latent: tuple = ()  # ranks of queries and keys, sizes of content, rotation and values
    experts: int = 0
    topk: int = 0
    expert_ffn: int = 0
    shared_ffn: int = 0
    head_norms: bool = False


class Layer:
    def __init__(self, sizes, modules):
        self.s, self.modules, self.thrown, self.alive = sizes, modules, set(), []

    def again(self, name, function, *inputs):
        return checkpoint(function, *inputs, use_reentrant=False) if name in self.modules else function(*inputs)

    def discarding(self, name, function, *inputs):
        if name not in self.modules:
            return function(*inputs)
        made = Discarding.apply(function, self.thrown, *inputs)
        self.alive.append(made)
        return made

    def core(self, q, k, v):
        s = self.s
        width = s.heads * (s.latent[4] if s.latent else s.head)
        return self.again("core_attn", lambda *t: attention(*t, s.heads, width), q, k, v)

    def plain_attention(self, x):
        s = self.s
        kv = s.kv_heads * s.head
        mixed = norm_linear(x, s.heads * s.head + 2 * kv)
        v = run([mixed], [kv])            # made contiguous
        q, k = run([mixed], [s.heads * s.head, kv])  # rotated
        if s.head_norms:
            q, k = (run([t], [t.shape[1]], kept=[0], extra=[(t.shape[1] // s.head, FP32)]) for t in (q, k))
            q, k = run([q], [q.shape[1]]), run([k], [kv])
        return linear(self.core(q, k, v), s.hidden)

    def latent_attention(self, x):
        s = self.s
        q_rank, kv_rank, content, rotation, value = s.latent
        y = self.discarding("layernorm", norm, x)
        q_low, kv_low = linear(y, q_rank), linear(y, kv_rank + rotation)
        latent, position = run([kv_low], [kv_rank]), run([kv_low], [rotation])

        def up(q_low, latent, position):
            q = run([norm_linear(q_low, s.heads * (content + rotation))], [s.heads * (content + rotation)])
            kv = norm_linear(latent, s.heads * (content + value))
            return q, run([kv, position], [s.heads * (content + rotation)]), run([kv], [s.heads * value])

        q, k, v = self.discarding("mla_up_proj", up, q_low, latent, position)
        return linear(self.core(q, k, v), s.hidden)

    def mlp(self, x):
        return linear(self.gated(norm_linear(x, 2 * self.s.ffn)), self.s.hidden)

    @staticmethod
    def gated(x, rows=TOKENS):
        return run([x], [x.shape[1] // 2], kept=[0], rows=rows)

    def moe(self, y):
        s = self.s
        rows = TOKENS * s.topk
        logits = run([y], [s.experts], kept=[0], dtype=FP32)
        scores = run([logits], [s.experts], extra=[(s.experts, FP32)] * 2, dtype=FP32)  # and those of the auxiliary loss
        weights = run([scores], [s.topk], extra=[(s.topk, torch.int64)] * 2, dtype=FP32)  # of the choice, of the permutation
        tokens = run([y], [s.hidden], rows=rows)
        inner = linear(tokens, 2 * s.expert_ffn, rows=rows)
        act = lambda inner, w: Kernel.apply([((rows, s.expert_ffn), BF16)], (0, 1), [], inner, w)
        routed = linear(self.discarding("moe_act", act, inner, weights), s.hidden, rows=rows)
        out = run([routed], [s.hidden])
        if s.shared_ffn:
            both = lambda y: linear(self.gated(linear(y, 2 * s.shared_ffn)), s.hidden)
            out = add(out, self.again("shared_experts", both, y))
        return out

    def __call__(self, x):
        x = add(x, self.latent_attention(x) if self.s.latent else self.plain_attention(x))
        if not self.s.experts:
            return add(x, self.again("mlp", self.mlp, x))
        y = self.discarding("layernorm", norm, x)
        return add(x, self.again("moe", self.moe, y))


def kept(sizes, modules):
    """Bytes per token that autograd keeps of the middle one of three layers, and by what is kept."""
    totals = []
    for depth in (1, 2):
        seen, alive, layers = {}, [], [Layer(sizes, modules) for _ in range(depth)]

        def pack(tensor):
            storage = tensor.untyped_storage()
            alive.append(tensor)
            seen[storage._cdata] = storage.nbytes()
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            x = torch.empty(TOKENS, sizes.hidden, dtype=BF16, device="meta", requires_grad=True)
            for layer in layers:
                x = layer(x)
        thrown = set().union(*[layer.thrown for layer in layers])
        totals.append(sum(b for key, b in seen.items() if key not in thrown))
    return (totals[1] - totals[0]) / TOKENS


def plansearch(binary, name, depth, modules):
    with tempfile.TemporaryDirectory() as folder:
        raw = json.loads((ROOT / "tests" / "data" / "hf" / f"{name}.json").read_text())
        raw["num_hidden_layers"] = depth
        if "first_k_dense_replace" in raw:
            raw["first_k_dense_replace"] = 1
        raw.pop("num_nextn_predict_layers", None)
        path = pathlib.Path(folder) / "config.json"
        path.write_text(json.dumps(raw))
        command = [binary, "predict", "--hw", "dgx-h100", "--model", str(path), "--framework", "megatron", "--gpus", "8", "--dp",
                   "8", "--zero", "1", "--micro-batch", "1", "--batch", "8", "--seq-len", str(TOKENS), "--precision", "bf16",
                   "--format", "json", "--quiet", "--recompute", "selective" if modules else "none"]
        if modules:
            command += ["--recompute-modules", ",".join(modules)]
        answer = subprocess.run(command, capture_output=True, text=True)
    if not answer.stdout:
        sys.exit(f"{' '.join(command)}\n{answer.stderr}")
    return json.loads(answer.stdout)["plans"][0]["memory"]["activations_bytes"]


CASES = [
    ("dense", "llama-3-8b", Sizes(4096, 32, 8, 128, 14336),
     [[], ["core_attn"], ["mlp"], ["core_attn", "mlp"]]),
    ("experts", "qwen3-30b-a3b", Sizes(2048, 32, 4, 128, experts=128, topk=8, expert_ffn=768, head_norms=True),
     [[], ["core_attn"], ["layernorm"], ["moe_act"], ["moe"], ["layernorm", "moe_act"], ["layernorm", "moe"]]),
    ("latent attention, experts", "deepseek-v3",
     Sizes(7168, 128, latent=(1536, 512, 128, 64, 128), experts=256, topk=8, expert_ffn=2048, shared_ffn=2048),
     [[], ["core_attn"], ["layernorm"], ["mla_up_proj"], ["moe_act"], ["shared_experts"], ["moe"],
      ["layernorm", "mla_up_proj", "moe_act"], ["layernorm", "mla_up_proj", "moe_act", "shared_experts"],
      ["mla_up_proj", "moe"]]),
]


def main():
    binary = sys.argv[1]
    worst = 0.0
    print("| block | parts that run again | torch | plansearch | ratio |\n|---|---|---:|---:|---:|")
    for block, name, sizes, sets in CASES:
        for modules in sets:
            measured = kept(sizes, modules)
            ours = (plansearch(binary, name, 5, modules) - plansearch(binary, name, 4, modules)) / TOKENS
            worst = max(worst, abs(ours / measured - 1.0))
            words = ", ".join(modules) or "none"
            print(f"| {block} | {words} | {measured:,.0f} | {ours:,.0f} | {ours / measured:.4f} |", flush=True)
    print(f"\ntorch {torch.__version__}, bytes per token and layer, {TOKENS} tokens")
    return 1 if worst > TOLERANCE else 0


if __name__ == "__main__":
    sys.exit(main())
