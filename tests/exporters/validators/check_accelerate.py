# SPDX-License-Identifier: Apache-2.0
"""accelerate's own ClusterConfig and launch parser on exported configurations, then its
ParallelismConfig on the environment that the launcher makes of them."""

import os
import tempfile

import validator

validator.need("torch")
accelerate = validator.need("accelerate")
from accelerate.commands.config.config_args import ClusterConfig  # noqa: E402
from accelerate.commands.launch import launch_command_parser  # noqa: E402
from accelerate.parallelism_config import ParallelismConfig  # noqa: E402


def check(case):
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        file.write(case["config"])
        file.flush()
        config = ClusterConfig.from_yaml_file(file.name)
        flags = set(vars(launch_command_parser().parse_args(["--config_file", file.name, "x.py"])))
    for section in (config.fsdp_config, config.parallelism_config):
        unknown = set(section) - flags
        assert not unknown, f"the launcher has no option for {unknown}"
    for name, value in config.parallelism_config.items():
        os.environ[name.upper()] = str(value)
    sizes = ParallelismConfig()
    assert sizes.total_size == config.num_processes == case["world"], sizes
    return {"dp": sizes.dp_replicate_size * sizes.dp_shard_size, "tp": sizes.tp_size,
            "cp": sizes.cp_size}


validator.run(check, f"accelerate {accelerate.__version__}")
