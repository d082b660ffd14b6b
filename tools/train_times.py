#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Training steps of GPT-2 and Llama-like networks in PyTorch on one GPU, as a table of runs for `plansearch validate`.

  python3 tools/train_times.py --hw mine.yaml --out runs.csv [--models gpt2,gpt2-medium,gpt2-large,gpt2-xl,llama-1b,llama-3b]
                               [--batch 8] [--seq-len N] [--implementation eager,compiled] [--recompute none,full]
                               [--lora-rank 0] [--mixed fsdp,autocast,bf16] [--device cpu] [--steps 5] [--append]
                               [--offload none,activations,parameters] [--optimizer-in-backward 0,1] [--trace trace.json]

PyTorch with scaled_dot_product_attention and fused AdamW, random tokens. Parameters are fp32, and bf16 where they multiply: by
FSDP's policy of mixed precision (fully_shard of every block over the one GPU), or with --mixed autocast by torch.autocast;
with --mixed bf16 everything is bf16, optimizer states as well. --offload activations copies the inputs of recomputed blocks to
the host under the next block, and back one block ahead (with --recompute full); parameters is FSDP's CPUOffloadPolicy (with
--mixed fsdp): parameters, gradients and optimizer on the host. --optimizer-in-backward 1 updates a parameter and frees its
gradient as soon as it is whole.
With --lora-rank the base is frozen in bf16 and every product of a block has an adapter. `compiled` compiles
each block and the loss (torch.compile); `full` recomputes each block (torch.utils.checkpoint). The step time is the median,
the memory what the allocator reached at most. Models that do not fit are left out by name. --trace writes the profiler's trace
of one more step of the last case.
"""

import argparse
import csv
import functools
import gc
import itertools
import math
import statistics
import sys
import time
from typing import NamedTuple


class Sizes(NamedTuple):
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    ffn: int
    vocabulary: int
    sequence: int
    gated: bool = False  # Llama: RMS norms, gated products, projections of their own; else GPT-2
    tied: bool = True  # the head multiplies the embedding


MODELS = {
    "gpt2": Sizes(12, 768, 12, 12, 3072, 50257, 1024),
    "gpt2-medium": Sizes(24, 1024, 16, 16, 4096, 50257, 1024),
    "gpt2-large": Sizes(36, 1280, 20, 20, 5120, 50257, 1024),
    "gpt2-xl": Sizes(48, 1600, 25, 25, 6400, 50257, 1024),
    "llama-1b": Sizes(16, 2048, 32, 8, 8192, 128256, 2048, gated=True),
    "llama-3b": Sizes(28, 3072, 24, 8, 8192, 128256, 2048, gated=True),
    "llama-8b": Sizes(32, 4096, 32, 8, 14336, 128256, 2048, gated=True, tied=False),
}
DEFAULT = "gpt2,gpt2-medium,gpt2-large,gpt2-xl,llama-1b,llama-3b"
COLUMNS = ["id", "source", "hw", "framework", "gpus", "model", "mlp", "layers", "hidden", "heads", "kv_heads", "ffn_hidden", "vocab",
           "seq_len", "batch", "micro_batch", "zero", "precision", "optimizer", "attention", "implementation", "recompute",
           "lora_rank", "lora_targets", "base_precision", "offload", "optimizer_in_backward", "step_time_s", "peak_mem_gib",
           "mem_kind"]


class Case(NamedTuple):
    model: str
    batch: int
    sequence: int
    implementation: str
    recompute: str
    rank: int
    mixed: str
    offload: str
    in_backward: str

    def name(self):
        parts = [self.model, f"b{self.batch}", f"s{self.sequence}", self.mixed, self.implementation]
        if self.recompute != "none":
            parts.append(f"recompute-{self.recompute}")
        if self.rank:
            parts.append(f"lora{self.rank}")
        if self.offload != "none":
            parts.append(f"offload-{self.offload}")
        if self.in_backward == "1":
            parts.append("in-backward")
        return "-".join(parts)


@functools.cache
def block_class(torch, sizes, rank):
    """One class for all blocks of a network: compiled code is shared by class."""
    nn, functional = torch.nn, torch.nn.functional
    hidden, heads, kv_heads = sizes.hidden, sizes.heads, sizes.kv_heads
    head = hidden // heads

    class Adapted(nn.Module):
        """A frozen product in bf16, with a trained one of this rank beside it."""

        def __init__(self, base):
            super().__init__()
            self.base = base.to(torch.bfloat16).requires_grad_(False)
            self.down = nn.Linear(base.in_features, rank, bias=False)
            self.up = nn.Linear(rank, base.out_features, bias=False)

        def forward(self, x):
            return self.base(x) + 2.0 * self.up(self.down(x))

    def product(inner, outer):
        plain = nn.Linear(inner, outer, bias=not sizes.gated)
        return Adapted(plain) if rank else plain

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            norm = nn.RMSNorm if sizes.gated else nn.LayerNorm
            self.first, self.second = norm(hidden), norm(hidden)
            widths = [hidden, kv_heads * head, kv_heads * head]
            self.qkv = nn.ModuleList(product(hidden, width) for width in (widths if sizes.gated else [sum(widths)]))
            self.out = product(hidden, hidden)
            self.up = nn.ModuleList(product(hidden, sizes.ffn) for _ in range(2 if sizes.gated else 1))
            self.down = product(sizes.ffn, hidden)

        def forward(self, x):
            batch, length, _ = x.shape
            normed = self.first(x)
            parts = [one(normed) for one in self.qkv]
            query, key, value = parts if sizes.gated else parts[0].split(hidden, dim=-1)
            query = query.view(batch, length, heads, head).transpose(1, 2)
            key, value = (part.view(batch, length, kv_heads, head).transpose(1, 2) for part in (key, value))
            more = {"enable_gqa": True} if heads != kv_heads else {}
            context = functional.scaled_dot_product_attention(query, key, value, is_causal=True, **more)
            x = x + self.out(context.transpose(1, 2).reshape(batch, length, hidden))
            normed = self.second(x)
            inner = [one(normed) for one in self.up]
            active = functional.silu(inner[0]) * inner[1] if sizes.gated else functional.gelu(inner[0], approximate="tanh")
            return x + self.down(active)

    return Block


class HostStore:
    """Inputs of blocks in pinned memory of the host, copied on a stream of their own."""

    def __init__(self, torch):
        self.torch, self.stream = torch, torch.cuda.Stream()
        self.there, self.back = {}, {}

    def put(self, index, tensor):
        if index not in self.there:
            self.there[index] = self.torch.empty_like(tensor, device="cpu", pin_memory=True)
        self.stream.wait_stream(self.torch.cuda.current_stream())
        with self.torch.cuda.stream(self.stream):
            self.there[index].copy_(tensor, non_blocking=True)
        tensor.record_stream(self.stream)

    def fetch(self, index):
        if index not in self.there or index in self.back:
            return
        # Not before the block after it is through: one block in use, one on its way.
        self.stream.wait_stream(self.torch.cuda.current_stream())
        with self.torch.cuda.stream(self.stream):
            self.back[index] = self.there[index].to("cuda", non_blocking=True)

    def take(self, index):
        self.fetch(index)
        now = self.torch.cuda.current_stream()
        now.wait_stream(self.stream)
        tensor = self.back.pop(index)
        tensor.record_stream(now)
        self.fetch(index - 1)
        return tensor


@functools.cache
def offloaded_block(torch):
    """Runs a block again in backward, from an input that waited on the host."""

    class Offloaded(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, block, store, index):
            ctx.block, ctx.store, ctx.index = block, store, index
            store.put(index, x)
            with torch.no_grad():
                return block(x)

        @staticmethod
        def backward(ctx, gradient):
            x = ctx.store.take(ctx.index).detach().requires_grad_()
            with torch.enable_grad():
                out = ctx.block(x)
            torch.autograd.backward(out, gradient)
            return x.grad, None, None, None

    return Offloaded


def sharding(torch, device, on_host):
    """A function that shards a network over this process alone: parameters are gathered as over many."""
    from torch.distributed.fsdp import CPUOffloadPolicy, MixedPrecisionPolicy, OffloadPolicy, fully_shard

    if not torch.distributed.is_initialized():
        both = "cpu:gloo,cuda:nccl" if device == "cuda" else "gloo"
        torch.distributed.init_process_group(both, rank=0, world_size=1,
                                             store=torch.distributed.HashStore())

    def shard(model, adapted):
        policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
        if adapted:  # a group has one format: all of an adapted network is bf16
            model.to(torch.bfloat16)
        host = CPUOffloadPolicy() if on_host else OffloadPolicy()
        for one in model.blocks:
            fully_shard(one, mp_policy=policy, offload_policy=host)
        fully_shard(model, mp_policy=policy, offload_policy=host)

    return shard


def network(torch, case, sizes, device):
    from torch.utils.checkpoint import checkpoint

    nn, functional = torch.nn, torch.nn.functional
    compiled = case.implementation == "compiled"
    shard = sharding(torch, device, case.offload == "parameters") if case.mixed == "fsdp" else None
    store = HostStore(torch) if case.offload == "activations" else None

    def loss_of(logits, targets):
        return functional.cross_entropy(logits.float().view(-1, sizes.vocabulary), targets.reshape(-1))

    class Network(nn.Module):
        def __init__(self):
            super().__init__()
            self.words = nn.Embedding(sizes.vocabulary, sizes.hidden)
            self.places = None if sizes.gated else nn.Embedding(case.sequence, sizes.hidden)
            self.blocks = nn.ModuleList(block_class(torch, sizes, case.rank)() for _ in range(sizes.layers))
            self.last = nn.RMSNorm(sizes.hidden) if sizes.gated else nn.LayerNorm(sizes.hidden)
            self.head = nn.Linear(sizes.hidden, sizes.vocabulary, bias=False)
            if sizes.tied:
                self.head.weight = self.words.weight
            if case.rank:
                frozen = [self.words, self.places, self.head, self.last]
                for part in frozen + [norm for one in self.blocks for norm in (one.first, one.second)]:
                    if part is not None:
                        part.to(torch.bfloat16).requires_grad_(False)
            if case.mixed == "bf16":
                self.to(torch.bfloat16)
            if compiled:
                for one in self.blocks:
                    one.compile()
            if case.mixed == "fsdp":
                shard(self, case.rank > 0)
            self.loss = torch.compile(loss_of) if compiled else loss_of

        def forward(self, tokens, targets):
            x = self.words(tokens)
            if self.places is not None:
                x = x + self.places.weight
            for index, one in enumerate(self.blocks):
                if store:
                    x = offloaded_block(torch).apply(x, one, store, index)
                elif case.recompute == "full":
                    x = checkpoint(one, x.requires_grad_(), use_reentrant=False)
                else:
                    x = one(x)
            return self.loss(self.head(self.last(x)), targets)

    return Network()


class Training:
    """One network, its optimizer and random tokens on one device."""

    def __init__(self, torch, case, device):
        self.torch, self.case, self.device = torch, case, device
        self.sizes = MODELS[case.model]
        torch.manual_seed(1)
        with torch.device(device):
            self.model = network(torch, case, self.sizes, device)
        trained = [one for one in self.model.parameters() if one.requires_grad]
        self.hooks = []
        if case.in_backward == "1":
            self.optimizer = None
            for one in trained:
                self.update_in_backward(one)
        else:
            self.optimizer = torch.optim.AdamW(trained, lr=1e-4, fused=device == "cuda")

    def update_in_backward(self, parameter):
        optimizer = self.torch.optim.AdamW([parameter], lr=1e-4, fused=self.device == "cuda")

        def update(one):
            optimizer.step()
            one.grad = None

        self.hooks.append(parameter.register_post_accumulate_grad_hook(update))

    def end(self):
        """Hooks hold the network, which nothing else would free."""
        for hook in self.hooks:
            hook.remove()

    def wait(self):
        if self.device == "cuda":
            self.torch.cuda.synchronize()

    def step(self):
        """Seconds."""
        torch, case = self.torch, self.case
        tokens = torch.randint(self.sizes.vocabulary, (case.batch, case.sequence + 1), device=self.device)
        self.wait()
        begin = time.perf_counter()
        with torch.autocast(self.device, dtype=torch.bfloat16, enabled=case.mixed == "autocast"):
            loss = self.model(tokens[:, :-1], tokens[:, 1:])
        loss.backward()
        if self.optimizer is not None:
            self.optimizer.step()
            self.optimizer.zero_grad(set_to_none=True)
        self.wait()
        seconds = time.perf_counter() - begin
        if not math.isfinite(loss.item()):
            sys.exit("error: the loss is not a number")
        return seconds

    def trace(self, path):
        from torch.profiler import ProfilerActivity, profile

        with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiler:
            self.step()
        profiler.export_chrome_trace(path)


def measure(torch, case, device, steps, trace):
    """Median step time in seconds, and the allocator's peak in GiB on a GPU."""
    gc.collect()
    if device == "cuda":
        torch.cuda.empty_cache()
    torch.compiler.reset()
    training = Training(torch, case, device)
    for _ in range(3):
        training.step()
    if device == "cuda":
        torch.cuda.reset_peak_memory_stats()
    seconds = statistics.median(training.step() for _ in range(steps))
    memory = torch.cuda.max_memory_allocated() / 2**30 if device == "cuda" else None
    if trace:
        training.trace(trace)
    training.end()
    return seconds, memory


def row(torch, case, arguments, seconds, memory):
    sizes = MODELS[case.model]
    fused = arguments.device == "cuda"
    adapters = {"lora_rank": case.rank, "lora_targets": "all-linear", "base_precision": "bf16"} if case.rank else {}
    return {"id": f"one-gpu-{case.name()}", "source": f"tools/train_times.py, PyTorch {torch.__version__}",
            "hw": arguments.hw, "framework": {"fsdp": "fsdp2", "autocast": "ddp", "bf16": "torchtune"}[case.mixed], "gpus": 1,
            "model": f"train_times {case.model}", "mlp": "gated" if sizes.gated else "gelu",
            "layers": sizes.layers, "hidden": sizes.hidden, "heads": sizes.heads, "kv_heads": sizes.kv_heads,
            "ffn_hidden": sizes.ffn, "vocab": sizes.vocabulary, "seq_len": case.sequence,
            "batch": case.batch, "micro_batch": case.batch, "zero": 3 if case.mixed == "fsdp" else 0, "precision": "bf16",
            "optimizer": "adam", "attention": "flash" if fused else "unfused",
            "implementation": "" if case.implementation == "eager" else case.implementation,  # eager: as the framework
            "recompute": case.recompute, **adapters,
            "offload": {"none": "", "parameters": "optimizer,parameters"}.get(case.offload, case.offload),
            "optimizer_in_backward": case.in_backward, "step_time_s": f"{seconds:.6g}",
            "peak_mem_gib": "" if memory is None else f"{memory:.4g}", "mem_kind": "" if memory is None else "torch-peak"}


def cases_of(parser, arguments):
    def words(name, known=None):
        listed = getattr(arguments, name).split(",")
        for word in listed:
            if known is not None and word not in known:
                parser.error(f"unknown {name} {word}: one of {', '.join(known)}")
        return listed

    def numbers(name):
        try:
            return [int(word) for word in words(name)]
        except ValueError:
            parser.error(f"{name}: whole numbers between commas")

    cases = [Case(model, batch, arguments.seq_len or MODELS[model].sequence, *others)
             for model, batch, *others in itertools.product(
                 words("models", MODELS), numbers("batch"), words("implementation", ["eager", "compiled"]),
                 words("recompute", ["none", "full"]), numbers("lora_rank"), words("mixed", ["fsdp", "autocast", "bf16"]),
                 words("offload", ["none", "activations", "parameters"]), words("optimizer_in_backward", ["0", "1"]))]
    for case in cases:
        if case.offload == "activations" and (case.recompute != "full" or arguments.device != "cuda"):
            parser.error("--offload activations takes --recompute full and a GPU")
        if case.offload == "parameters" and (case.mixed != "fsdp" or case.in_backward == "1"):
            parser.error("--offload parameters takes --mixed fsdp, and updates after backward")
    return cases


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hw", required=True, help="the profile that the rows are predicted with")
    parser.add_argument("--out", required=True)
    parser.add_argument("--models", default=DEFAULT)
    parser.add_argument("--batch", default="8")
    parser.add_argument("--seq-len", type=int)
    parser.add_argument("--implementation", default="eager")
    parser.add_argument("--recompute", default="none")
    parser.add_argument("--lora-rank", default="0")
    parser.add_argument("--mixed", default="fsdp")
    parser.add_argument("--offload", default="none")
    parser.add_argument("--optimizer-in-backward", default="0")
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--device", default="cuda", choices=["cuda", "cpu"])
    parser.add_argument("--append", action="store_true", help="to a table that is there")
    parser.add_argument("--trace", help="a file for the profiler's trace")
    arguments = parser.parse_args()
    cases = cases_of(parser, arguments)
    try:
        import torch
    except ImportError as missing:
        sys.exit(f"error: {missing}\nhint: pip install torch")
    if arguments.device == "cuda" and not torch.cuda.is_available():
        print("error: PyTorch sees no GPU", file=sys.stderr)
        sys.exit(3)
    with open(arguments.out, "a" if arguments.append else "w", newline="") as target:
        table = csv.DictWriter(target, COLUMNS)
        if target.tell() == 0:
            table.writeheader()
        for case in cases:
            try:
                seconds, memory = measure(torch, case, arguments.device, arguments.steps,
                                          arguments.trace if case == cases[-1] else None)
            except torch.OutOfMemoryError:
                print(f"{case.name()}: does not fit", file=sys.stderr)
                continue
            table.writerow(row(torch, case, arguments, seconds, memory))
            target.flush()
            print(f"{case.name()}: {seconds:.4g} s" + ("" if memory is None else f", {memory:.1f} GiB"), flush=True)


if __name__ == "__main__":
    main()
