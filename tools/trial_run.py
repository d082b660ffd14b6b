#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs plans of a folder of `plansearch tune` for real, on processors, with PyTorch's fully_shard.

  tools/trial_run.py FOLDER [--ranks N...]: the trials that have no log; --ranks: these ranks of plans.json instead
                     --steps 4 --rounds 3 --model MODEL.yaml

A GPT of the sizes of the model file, random tokens, AdamW, gloo between processes, one thread each. Every plan runs in
rounds, so that a busy machine disturbs all alike; what a step took goes to FOLDER/trial-N.log (rank-N.log) in the words of
other training programs, for `plansearch tune --continue FOLDER` to read.
"""
import argparse
import csv
import datetime
import json
import os
import pathlib
import sys
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.distributed.fsdp import fully_shard
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

import plain_yaml


class Block(torch.nn.Module):
    def __init__(self, hidden, heads, ffn, selective):
        super().__init__()
        self.heads, self.selective = heads, selective
        self.norm, self.second = torch.nn.LayerNorm(hidden), torch.nn.LayerNorm(hidden)
        self.qkv, self.out = torch.nn.Linear(hidden, 3 * hidden), torch.nn.Linear(hidden, hidden)
        self.up, self.down = torch.nn.Linear(hidden, ffn), torch.nn.Linear(ffn, hidden)

    def attend(self, qkv):
        batch, length, hidden = qkv.shape
        q, k, v = (part.view(batch, length, self.heads, -1).transpose(1, 2) for part in qkv.split(hidden // 3, 2))
        return F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2)

    def forward(self, x):
        qkv = self.qkv(self.norm(x))
        seen = checkpoint(self.attend, qkv, use_reentrant=False) if self.selective else self.attend(qkv)
        x = x + self.out(seen)
        return x + self.down(F.gelu(self.up(self.second(x))))


class Model(torch.nn.Module):
    def __init__(self, sizes, recompute):
        super().__init__()
        hidden = sizes["hidden"]
        self.recompute = recompute
        self.tokens = torch.nn.Embedding(sizes["embedding"]["vocab"], hidden)
        self.places = torch.nn.Embedding(sizes["max_positions"], hidden)
        self.blocks = torch.nn.ModuleList(
            Block(hidden, sizes["attention"]["heads"], sizes["mlp"]["width"], recompute == "selective")
            for _ in range(sizes["layers"]))
        self.norm = torch.nn.LayerNorm(hidden)
        self.logits = torch.nn.Linear(hidden, sizes["embedding"]["vocab"], bias=False)

    def forward(self, tokens):
        x = self.tokens(tokens) + self.places(torch.arange(tokens.shape[1]))
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False) if self.recompute == "full" else block(x)
        return F.cross_entropy(self.logits(self.norm(x)).flatten(0, 1), tokens.flatten())


def step_times(plan, sizes, batch, length, count):
    """Seconds of so many steps on this rank; the first, which warms up, is left out."""
    model = Model(sizes, plan["recompute"])
    if plan["dp"] > 1:
        for unit in (*model.blocks, model):
            fully_shard(unit, reshard_after_forward=plan["zero"] == 3)
    optimizer = torch.optim.AdamW(model.parameters())
    passes = batch // (plan["dp"] * plan["micro_batch"])
    times = []
    for _ in range(count + 1):
        dist.barrier()
        begin = time.perf_counter()
        for _ in range(passes):
            tokens = torch.randint(sizes["embedding"]["vocab"], (plan["micro_batch"], length))
            (model(tokens) / passes).backward()
        optimizer.step()
        optimizer.zero_grad()
        dist.barrier()
        times.append(time.perf_counter() - begin)
    return times[1:]


def run_rank(rank, trials, sizes, question, options):
    """All plans in turn, several times; the first rank writes the logs."""
    plans = list(trials.values())
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29613")
    torch.set_num_threads(1)
    torch.manual_seed(rank)
    dist.init_process_group("gloo", rank=rank, world_size=plans[0]["dp"], timeout=datetime.timedelta(minutes=5))
    times = {log: [] for log in trials}
    for _ in range(options.rounds):
        for log, plan in trials.items():
            times[log] += step_times(plan, sizes, question["global_batch"], question["seq_len"], options.steps)
    tokens = question["global_batch"] * question["seq_len"]
    for log, seen in times.items() if rank == 0 else ():
        (options.folder / log).write_text("".join(
            f"step {i:05}/{len(seen):05} (0.00%) | dt: {1e3 * t:.2f}ms | tok/sec: {tokens / t:,.0f} |\n"
            for i, t in enumerate(seen)))
    dist.destroy_process_group()


def whole_numbers(value):
    """A tree of YAML with its numbers as numbers."""
    if isinstance(value, dict):
        return {key: whole_numbers(inner) for key, inner in value.items()}
    return int(value) if isinstance(value, str) and value.isdigit() else value


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--model", required=True)
    parser.add_argument("--ranks", nargs="*", type=int)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    sizes = whole_numbers(plain_yaml.load(pathlib.Path(options.model).read_text()))
    answer = json.loads((options.folder / "plans.json").read_text())
    with (options.folder / "trials.csv").open(newline="") as file:
        ranks = {f"trial-{row['trial']}.log": int(row["rank"]) for row in csv.DictReader(file)}
    if options.ranks:
        ranks = {f"rank-{rank}.log": rank for rank in options.ranks}
    trials = {log: answer["plans"][rank - 1]["config"] for log, rank in ranks.items()
              if not (options.folder / log).exists()}
    if trials:
        mp.spawn(run_rank, (trials, sizes, answer["question"], options), nprocs=next(iter(trials.values()))["dp"])
    return 0


if __name__ == "__main__":
    sys.exit(main())
