#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Training steps of GPT-2 and Llama-like networks in PyTorch on one GPU, as a table of runs for `plansearch validate`.

  python3 tools/train_times.py --hw mine.yaml --out runs.csv [--models gpt2,gpt2-medium,gpt2-large,gpt2-xl,llama-1b,llama-3b]
                               [--batch 8] [--device cpu] [--steps 5]

Eager PyTorch with scaled_dot_product_attention, parameters in fp32 under autocast to bf16, fused AdamW, random tokens. The
step time is the median, the memory what the allocator reached at most. Models that do not fit are left out by name.
"""

import argparse
import csv
import math
import statistics
import sys
import time

# name: layers, hidden, heads, kv_heads, ffn, vocabulary, sequence, gated (Llama) or not (GPT-2)
MODELS = {
    "gpt2": (12, 768, 12, 12, 3072, 50257, 1024, False),
    "gpt2-medium": (24, 1024, 16, 16, 4096, 50257, 1024, False),
    "gpt2-large": (36, 1280, 20, 20, 5120, 50257, 1024, False),
    "gpt2-xl": (48, 1600, 25, 25, 6400, 50257, 1024, False),
    "llama-1b": (16, 2048, 32, 8, 8192, 128256, 2048, True),
    "llama-3b": (28, 3072, 24, 8, 8192, 128256, 2048, True),
}
COLUMNS = ["id", "source", "hw", "framework", "gpus", "model", "mlp", "layers", "hidden", "heads", "kv_heads", "ffn_hidden", "vocab",
           "seq_len", "batch", "micro_batch", "zero", "precision", "optimizer", "attention", "implementation", "recompute",
           "step_time_s", "peak_mem_gib", "mem_kind"]


def network(torch, sizes):
    layers, hidden, heads, kv_heads, ffn, vocabulary, sequence, gated = sizes
    nn, functional = torch.nn, torch.nn.functional
    head = hidden // heads

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            norm = nn.RMSNorm if gated else nn.LayerNorm
            self.first, self.second = norm(hidden), norm(hidden)
            self.qkv = nn.Linear(hidden, hidden + 2 * kv_heads * head, bias=not gated)
            self.out = nn.Linear(hidden, hidden, bias=not gated)
            self.up = nn.Linear(hidden, (2 if gated else 1) * ffn, bias=not gated)
            self.down = nn.Linear(ffn, hidden, bias=not gated)

        def forward(self, x):
            batch, length, _ = x.shape
            query, key, value = self.qkv(self.first(x)).split([hidden, kv_heads * head, kv_heads * head], dim=-1)
            query = query.view(batch, length, heads, head).transpose(1, 2)
            key, value = (part.view(batch, length, kv_heads, head).transpose(1, 2) for part in (key, value))
            more = {"enable_gqa": True} if heads != kv_heads else {}
            context = functional.scaled_dot_product_attention(query, key, value, is_causal=True, **more)
            x = x + self.out(context.transpose(1, 2).reshape(batch, length, hidden))
            inner = self.up(self.second(x))
            if gated:
                gate, inner = inner.chunk(2, dim=-1)
                inner = functional.silu(gate) * inner
            else:
                inner = functional.gelu(inner, approximate="tanh")
            return x + self.down(inner)

    class Network(nn.Module):
        def __init__(self):
            super().__init__()
            self.words = nn.Embedding(vocabulary, hidden)
            self.places = None if gated else nn.Embedding(sequence, hidden)
            self.blocks = nn.ModuleList(Block() for _ in range(layers))
            self.last = nn.RMSNorm(hidden) if gated else nn.LayerNorm(hidden)

        def forward(self, tokens, targets):
            x = self.words(tokens)
            if self.places is not None:
                x = x + self.places.weight
            for block in self.blocks:
                x = block(x)
            logits = functional.linear(self.last(x), self.words.weight)
            return functional.cross_entropy(logits.float().view(-1, vocabulary), targets.view(-1))

    return Network()


def measure(torch, sizes, batch, device, steps):
    sequence, vocabulary = sizes[6], sizes[5]
    torch.manual_seed(1)
    with torch.device(device):
        model = network(torch, sizes)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=device == "cuda")
    if device == "cuda":
        torch.cuda.reset_peak_memory_stats()
    times = []
    for step in range(3 + steps):
        tokens = torch.randint(vocabulary, (batch, sequence + 1), device=device)
        if device == "cuda":
            torch.cuda.synchronize()
        begin = time.perf_counter()
        with torch.autocast(device, dtype=torch.bfloat16, enabled=device == "cuda"):
            loss = model(tokens[:, :-1], tokens[:, 1:])
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        if device == "cuda":
            torch.cuda.synchronize()
        if step >= 3:
            times.append(time.perf_counter() - begin)
    if not math.isfinite(loss.item()):
        sys.exit("error: the loss is not a number")
    memory = torch.cuda.max_memory_allocated() / 2**30 if device == "cuda" else None
    return statistics.median(times), memory


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hw", required=True, help="the profile that the rows are predicted with")
    parser.add_argument("--out", required=True)
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--device", default="cuda", choices=["cuda", "cpu"])
    arguments = parser.parse_args()
    unknown = [name for name in arguments.models.split(",") if name not in MODELS]
    if unknown:
        parser.error(f"unknown model {unknown[0]}: one of {', '.join(MODELS)}")
    try:
        import torch
    except ImportError as missing:
        sys.exit(f"error: {missing}\nhint: pip install torch")
    if arguments.device == "cuda" and not torch.cuda.is_available():
        print("error: PyTorch sees no GPU", file=sys.stderr)
        sys.exit(3)
    with open(arguments.out, "w", newline="") as target:
        table = csv.DictWriter(target, COLUMNS)
        table.writeheader()
        for name in arguments.models.split(","):
            layers, hidden, heads, kv_heads, ffn, vocabulary, sequence, gated = MODELS[name]
            try:
                step, memory = measure(torch, MODELS[name], arguments.batch, arguments.device, arguments.steps)
            except torch.OutOfMemoryError:
                print(f"{name}: does not fit with batch {arguments.batch}", file=sys.stderr)
                continue
            own = {"mlp": "gated" if gated else "gelu", "layers": layers, "hidden": hidden, "heads": heads, "kv_heads": kv_heads,
                   "ffn_hidden": ffn, "vocab": vocabulary}
            fused = arguments.device == "cuda"
            table.writerow({"id": f"one-gpu-{name}", "source": f"tools/train_times.py, PyTorch {torch.__version__}",
                            "hw": arguments.hw, "framework": "fsdp", "gpus": 1, "model": name, **own, "seq_len": sequence,
                            "batch": arguments.batch, "micro_batch": arguments.batch, "zero": 0,
                            "precision": "bf16" if fused else "fp32", "optimizer": "adam",
                            "attention": "flash" if fused else "unfused", "implementation": "eager", "recompute": "none",
                            "step_time_s": f"{step:.6g}", "peak_mem_gib": "" if memory is None else f"{memory:.4g}",
                            "mem_kind": "" if memory is None else "torch-peak"})
            target.flush()
            print(f"{name}: {step:.4g} s" + ("" if memory is None else f", {memory:.1f} GiB"))


if __name__ == "__main__":
    main()
