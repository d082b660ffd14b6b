# SPDX-License-Identifier: Apache-2.0
"""torchtitan's own ConfigManager (tyro) on exported command lines, then its ParallelDims and the
arithmetic of its pipeline stages."""

import sys
from types import SimpleNamespace

import validator

ROOT = validator.checkout("PLANSEARCH_TORCHTITAN", "torchtitan/config/configs.py")
sys.path.insert(0, str(ROOT))
validator.need("torch")
validator.need("tyro")
validator.need("spmd_types")
validator.need("grain")
from torchtitan.config import ConfigManager  # noqa: E402
from torchtitan.distributed import pipeline_parallel  # noqa: E402
from torchtitan.distributed.parallel_dims import ParallelDims  # noqa: E402


def check(case):
    words = list(case["arguments"])
    if "--module" not in words:  # a network that is not registered: any configuration will do
        words = ["--module", "llama3", "--config", "llama3_8b", *words]
    config = ConfigManager().parse_args(words)
    dims = ParallelDims.from_config(config.parallelism, case["world"])
    if dims.pp > 1:
        layers = SimpleNamespace(layers=range(case["layers"]))
        stages, *rest = pipeline_parallel._get_pipeline_metadata(dims, config.parallelism, layers)
        pipeline_parallel._generate_llm_fqn_per_model_part(stages, *rest)
    return {"dp": dims.dp_replicate * dims.dp_shard, "tp": dims.tp, "cp": dims.cp, "pp": dims.pp,
            "recompute": type(config.activation_checkpoint).__qualname__}


validator.run(check, validator.commit(ROOT))
