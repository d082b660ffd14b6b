# SPDX-License-Identifier: Apache-2.0
"""Megatron-LM's own argument parser, validate_args and TransformerConfig on lists of flags.

usage: megatron.py CHECKOUT < cases.json     cases: [{"name", "flags": [...], "gpus": N, "env": {...}}]
Prints one JSON line per case: {"name", "accepted", "error"}. Needs no GPU, PyTorch or Transformer Engine.
"""
import contextlib
import io
import json
import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from stand_in import Anything, bare_package, stand_in_for  # noqa: E402

TORCH, TRANSFORMER_ENGINE, CAPABILITY = "2.9.0", "2.12.0", 9


def load(checkout):
    """The argument module of a checkout, with what it needs to decide and nothing else."""
    stand_in_for("torch", "numpy", "apex", "einops", "triton", "flashinfer", "nvidia_resiliency_ext", "multistorageclient")
    import torch
    torch.__version__ = TORCH
    root = pathlib.Path(checkout)
    sys.path.insert(0, str(root))
    bare_package("megatron", root / "megatron")
    bare_package("megatron.core", root / "megatron" / "core")
    bare_package("megatron.training", root / "megatron" / "training")
    for name in ("get_adlr_autoresume", "get_args", "get_timers"):
        setattr(sys.modules["megatron.training"], name, Anything(name))
    transformer = bare_package("megatron.core.transformer", root / "megatron" / "core" / "transformer")
    import megatron.core.parallel_state as parallel_state  # before utils, which imports it back
    sys.modules["megatron.core"].mpu = parallel_state
    import megatron.core.utils as utils
    from packaging.version import Version
    utils.get_te_version = lambda: Version(TRANSFORMER_ENGINE)
    utils.is_te_min_version = lambda version, check_equality=True: Version(TRANSFORMER_ENGINE) >= Version(version)
    utils.is_torch_min_version = lambda version, check_equality=True: Version(TORCH) >= Version(version)
    import megatron.core.transformer.transformer_config as config
    transformer.TransformerConfig = config.TransformerConfig
    transformer.MLATransformerConfig = config.MLATransformerConfig
    import megatron.training.arguments as arguments
    arguments.get_device_arch_version = lambda: CAPABILITY
    torch.cuda.get_device_capability = lambda *ignored: (CAPABILITY, 0)
    return arguments


def judge(arguments, case):
    kept = dict(os.environ)
    argv = sys.argv
    os.environ.update({"WORLD_SIZE": str(case["gpus"]), "RANK": "0", "LOCAL_RANK": "0", **case.get("env", {})})
    sys.argv = ["pretrain_gpt.py", "--no-rope-fusion"] + case["flags"]  # the kernel is not there
    said = io.StringIO()
    try:
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            args = arguments.parse_args()
            arguments.validate_args(args, {})
            arguments.core_transformer_config_from_args(args)
        return {"name": case["name"], "accepted": True, "error": ""}
    except SystemExit:
        return {"name": case["name"], "accepted": False, "error": said.getvalue().strip().splitlines()[-1]}
    except Exception as error:  # whatever a validator raises is its verdict
        text = " ".join(str(error).split())[:300]
        return {"name": case["name"], "accepted": False, "error": f"{type(error).__name__}: {text}"}
    finally:
        sys.argv = argv
        os.environ.clear()
        os.environ.update(kept)


def main():
    arguments = load(sys.argv[1])
    for case in json.load(sys.stdin):
        print(json.dumps(judge(arguments, case)))


if __name__ == "__main__":
    main()
