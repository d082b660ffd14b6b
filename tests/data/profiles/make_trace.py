#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes cpu_step.json: two training steps of a small GPT under DDP, two processes on one processor.

    python3 make_trace.py [folder]

Needs PyTorch (the fixture: 2.15.0). Of every event name, category, phase, start, duration, process and
thread are kept, and only events that take some time.
"""
import json
import os
import pathlib
import sys

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.nn import functional

LAYERS, HIDDEN, HEADS, VOCAB, TOKENS, BATCH, STEPS = 2, 256, 4, 1024, 128, 4, 2
SHORTEST = 5  # microseconds
KEPT = ("ph", "cat", "name", "pid", "tid", "ts", "dur")


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(HIDDEN), nn.LayerNorm(HIDDEN)
        self.qkv, self.out = nn.Linear(HIDDEN, 3 * HIDDEN), nn.Linear(HIDDEN, HIDDEN)
        self.up, self.down = nn.Linear(HIDDEN, 4 * HIDDEN), nn.Linear(4 * HIDDEN, HIDDEN)

    def forward(self, x):
        q, k, v = self.qkv(self.norm1(x)).view(BATCH, TOKENS, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        seen = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(seen.transpose(1, 2).reshape(BATCH, TOKENS, HIDDEN))
        return x + self.down(functional.gelu(self.up(self.norm2(x))))


def cut(trace):
    """Events of SHORTEST or more, from time zero, one a line."""
    events = [event for event in trace["traceEvents"] if event.get("ph") == "X" and event["dur"] >= SHORTEST]
    start = min(event["ts"] for event in events)
    for event in events:
        event["ts"] = round(event["ts"] - start, 3)
    lines = ",\n".join(json.dumps({key: event[key] for key in KEPT if key in event}) for event in events)
    return f'{{"schemaVersion": {trace["schemaVersion"]}, "traceEvents": [\n{lines}\n]}}\n'


def train(rank, folder):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29517")
    dist.init_process_group("gloo", rank=rank, world_size=2)
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = nn.Sequential(nn.Embedding(VOCAB, HIDDEN), *[Layer() for _ in range(LAYERS)],
                          nn.LayerNorm(HIDDEN), nn.Linear(HIDDEN, VOCAB, bias=False))
    model = nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    tokens = torch.randint(VOCAB, (BATCH, TOKENS))
    wait = torch.profiler.schedule(wait=0, warmup=2, active=STEPS, repeat=1)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], schedule=wait) as profiler:
        for _ in range(2 + STEPS):
            logits = model(tokens)
            functional.cross_entropy(logits.view(-1, VOCAB), tokens.view(-1)).backward()
            optimizer.step()
            optimizer.zero_grad()
            profiler.step()
    if rank == 0:
        path = pathlib.Path(folder) / "cpu_step.json"
        profiler.export_chrome_trace(str(path))
        path.write_text(cut(json.loads(path.read_text())), encoding="utf-8")
    dist.destroy_process_group()


if __name__ == "__main__":
    mp.spawn(train, args=(sys.argv[1] if len(sys.argv) > 1 else ".",), nprocs=2)
