# SPDX-License-Identifier: Apache-2.0
"""torchtitan 0.2's own ConfigManager on exported TOML files (unknown keys are errors), then its
ParallelDims."""

import sys
import tempfile

import validator

ROOT = validator.checkout("PLANSEARCH_TORCHTITAN_0_2", "torchtitan/config/job_config.py")
sys.path.insert(0, str(ROOT))
validator.need("torch")
validator.need("tyro")
from torchtitan.config import ConfigManager  # noqa: E402
from torchtitan.distributed.parallel_dims import ParallelDims  # noqa: E402


def check(case):
    with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
        file.write(case["config"])
        file.flush()
        config = ConfigManager().parse_args(["--job.config_file", file.name])
    p = config.parallelism
    dims = ParallelDims(
        dp_replicate=p.data_parallel_replicate_degree, dp_shard=p.data_parallel_shard_degree,
        cp=p.context_parallel_degree, tp=p.tensor_parallel_degree, pp=p.pipeline_parallel_degree,
        ep=p.expert_parallel_degree, etp=p.expert_tensor_parallel_degree, world_size=case["world"])
    assert config.training.local_batch_size % p.pipeline_parallel_microbatch_size == 0 or dims.pp == 1
    return {"dp": dims.dp_replicate * dims.dp_shard, "tp": dims.tp, "cp": dims.cp, "pp": dims.pp,
            "batch": config.training.global_batch_size}


validator.run(check, "v0.2.2")
