# SPDX-License-Identifier: Apache-2.0
"""Runs launch scripts with stand-ins for Slurm and the starters: what a process would have got."""

import json
import os
import pathlib
import stat
import subprocess
import sys

RECORDER = """#!{python}
import json, os, sys
kept = ("CUDA_", "PYTORCH_", "ACCELERATE_", "MASTER_", "JAX_", "NNODES", "NODE_RANK", "NCCL_", "FI_")
record = dict(program=os.path.basename(sys.argv[0]), arguments=sys.argv[1:],
              environment=dict((k, v) for k, v in os.environ.items() if k.startswith(kept)))
print(json.dumps(record))
"""
SRUN = """#!/bin/bash
# Every node in turn, as srun starts one task on each.
for node in $(seq 0 $((SLURM_JOB_NUM_NODES - 1))); do
  words=("$@")
  while [[ "${words[0]}" == --* ]]; do words=("${words[@]:1}"); done
  SLURM_NODEID=$node "${words[@]}"
done
"""
SCONTROL = """#!/bin/bash
echo node-a; echo node-b
"""


def stand_ins(directory):
    """A folder with srun, scontrol, torchrun, accelerate, python3 and ray."""
    folder = pathlib.Path(directory) / "bin"
    folder.mkdir(exist_ok=True)
    recorder = RECORDER.replace("{python}", sys.executable)
    for name, text in (("torchrun", recorder), ("accelerate", recorder), ("python3", recorder), ("srun", SRUN),
                       ("scontrol", SCONTROL), ("ray", "#!/bin/bash\nexit 0\n")):
        path = folder / name
        path.write_text(text)
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return folder


def run_script(script, directory, nodes, arguments=(), environment=None):
    """What each started process got: program, arguments, environment."""
    folder = stand_ins(directory)
    variables = {"PATH": f"{folder}:{os.environ['PATH']}", "SLURM_JOB_NODELIST": "node-[a-b]",
                 "SLURM_JOB_NUM_NODES": str(nodes), "CUDA_DEVICE_MAX_CONNECTIONS": "8",
                 "NODE_RANK": "0", "MASTER_ADDR": "node-a", "TMPDIR": str(directory)}
    path = pathlib.Path(directory) / "launch.sh"
    path.write_text(script)
    subprocess.run(["bash", "-n", path], check=True)
    result = subprocess.run(["bash", path, *arguments], cwd=directory, capture_output=True,
                            text=True, env=variables | (environment or {}), timeout=60, check=False)
    if result.returncode != 0:
        raise AssertionError(f"{result.stderr}\n{script}")
    return [json.loads(line) for line in result.stdout.splitlines()]
