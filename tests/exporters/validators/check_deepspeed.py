# SPDX-License-Identifier: Apache-2.0
"""DeepSpeed's own DeepSpeedConfig on exported configurations, one process of a world that exists in
the environment only."""

import json
import os
import sys

import validator

os.environ.setdefault("DS_ACCELERATOR", "cpu")
torch = validator.need("torch")
deepspeed = validator.need("deepspeed")
import deepspeed.comm as dist  # noqa: E402
from deepspeed.runtime import config as module  # noqa: E402

# What DeepSpeed reads; a top-level key that it does not know it passes over.
TOP_LEVEL = {"train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps",
             "bf16", "fp16", "zero_optimization", "sequence_parallel_size", "plansearch"}


def check(case):
    config = json.loads(case["config"])
    unknown = set(config) - TOP_LEVEL
    assert not unknown, f"keys nobody reads: {unknown}"
    dist.get_world_size = lambda *_: case["world"]
    dist.get_rank = lambda *_: 0
    module.dist.get_world_size = dist.get_world_size
    read = module.DeepSpeedConfig(config)
    return {"batch": read.train_batch_size, "zero": read.zero_optimization_stage,
            "micro_batch": read.train_micro_batch_size_per_gpu,
            "micro_batches": read.gradient_accumulation_steps}


validator.run(check, f"deepspeed {deepspeed.__version__}")
