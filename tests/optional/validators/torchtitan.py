# SPDX-License-Identifier: Apache-2.0
"""torchtitan's own ParallelDims, pipeline metadata and stage split on lists of degrees.

usage: torchtitan.py CHECKOUT < cases.json
cases: [{"name", "gpus", "dims": {dp_replicate, dp_shard, cp, tp, pp, ep}, "layers", "stages_per_rank",
         "single_stage": bool}]
Prints one JSON line per case: {"name", "accepted", "error"}. Needs no GPU and no PyTorch.
"""
import json
import pathlib
import sys
import types

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from stand_in import Anything, bare_package, stand_in_for  # noqa: E402


def load(checkout):
    stand_in_for("torch", "spmd_types", "tyro", "numpy", "torchao", "datasets", "tokenizers", "tensorboard", "wandb")
    root = pathlib.Path(checkout)
    sys.path.insert(0, str(root))
    bare_package("torchtitan", root / "torchtitan")
    bare_package("torchtitan.config", root / "torchtitan" / "config")
    bare_package("torchtitan.distributed", root / "torchtitan" / "distributed")
    bare_package("torchtitan.models", root / "torchtitan" / "models")
    bare_package("torchtitan.protocols", root / "torchtitan" / "protocols")
    bare_package("torchtitan.tools", root / "torchtitan" / "tools")
    utils = sys.modules["torchtitan.tools"]
    utils.utils = Anything("utils")
    import torchtitan.distributed.parallel_dims as dims
    import torchtitan.distributed.pipeline_parallel as pipeline
    return dims, pipeline


def judge(dims, pipeline, case):
    try:
        d = case["dims"]
        made = dims.ParallelDims(**d, world_size=case["gpus"])
        made._validate()
        if d["pp"] > 1:
            stages = d["pp"] * case["stages_per_rank"]
            parts = pipeline._generate_llm_fqn_per_model_part(stages, case["layers"], 1, 1)
            held = [sum(name.startswith("layers.") for name in part) for part in parts]
            if sum(held) != case["layers"] or len(parts) != stages:
                raise ValueError(f"{held} are not {case['layers']} layers")
            if case.get("held") and held != case["held"]:
                raise ValueError(f"torchtitan places {held}, the plan {case['held']}")
        return {"name": case["name"], "accepted": True, "error": ""}
    except Exception as error:  # whatever a validator raises is its verdict
        return {"name": case["name"], "accepted": False, "error": f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"}


def main():
    dims, pipeline = load(sys.argv[1])
    for case in json.load(sys.stdin):
        print(json.dumps(judge(dims, pipeline, case)))


if __name__ == "__main__":
    main()
