# SPDX-License-Identifier: Apache-2.0
"""Galvatron's own get_hybrid_parallel_configs_api and check_hp_config on exported strategies.

Stood in for: torch, numpy and scipy, of which both use no more than the world size."""

import json
import sys
from types import ModuleType, SimpleNamespace
from unittest import mock

import validator

ROOT = validator.checkout("PLANSEARCH_GALVATRON", "galvatron/core/runtime/hybrid_parallel_config.py")
WORLD = SimpleNamespace(size=1)


def stand_in(name, **members):
    module = ModuleType(name)
    module.__dict__.update(members)
    module.__getattr__ = lambda member: mock.MagicMock(name=member) if member[:2] != "__" else None
    sys.modules[name] = module


def load(path):
    members = {}
    exec(compile((ROOT / path).read_text(), path, "exec"), members)  # alone: its package imports kernels
    return members


stand_in("torch", distributed=SimpleNamespace(get_world_size=lambda: WORLD.size))
for package in ("numpy", "scipy", "scipy.optimize", "galvatron", "galvatron.core", "galvatron.core.runtime",
                "galvatron.core.runtime.args_schema"):
    stand_in(package)
utilities = load("galvatron/utils/config_utils.py")
stand_in("galvatron.utils", **{name: utilities[name] for name in ("config2strategy", "read_json_config", "str2array")})
reader = load("galvatron/core/runtime/hybrid_parallel_config.py")


def check(case):
    WORLD.size = case["world"]
    parallel = SimpleNamespace(galvatron_config_path=json.loads(case["config"]), pipeline_type="gpipe", default_dp_type="ddp",
                               vocab_sdp=0, sdp=0, use_ulysses=False, vocab_tp=1, vocab_sp=0, vocab_cp=1)
    arguments = SimpleNamespace(local_rank=1, parallel=parallel, train=SimpleNamespace(global_batch_size=0, chunks=0),
                                model=SimpleNamespace(num_layers=case["layers"], is_moe_model=False),
                                ckpt=SimpleNamespace(distributed_checkpoint=False))
    made = reader["get_hybrid_parallel_configs_api"](arguments)
    reader["check_hp_config"](made, [case["layers"]])
    group, ring = made["tp_sizes_enc"][0], made["cp_sizes_enc"][0]
    ulysses = made["use_sp"][0] == 1
    data = case["world"] // made["pp_deg"] // group // ring
    return {"dp": data, "pp": made["pp_deg"], "tp": 1 if ulysses else group, "cp": group if ulysses else ring,
            "batch": arguments.train.global_batch_size,
            "micro_batch": arguments.train.global_batch_size // data // arguments.train.chunks,
            "zero": {"ddp": 0, "zero2": 2, "zero3": 3}[made["default_dp_type"]]}


validator.run(check, validator.commit(ROOT))
