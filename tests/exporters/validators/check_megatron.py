# SPDX-License-Identifier: Apache-2.0
"""Megatron-LM's own parse_args, validate_args and TransformerConfig on exported arguments.

Stood in for: the compute capability (9.0) and, as Transformer Engine need not be installed, its
version (2.9) and its fused rotary embedding (--no-rope-fusion)."""

import os
import sys
import typing

import validator

ROOT = validator.checkout("PLANSEARCH_MEGATRON_LM", "megatron/training/arguments.py")
sys.path.insert(0, str(ROOT))
if not hasattr(typing, "override"):  # Python 3.11
    typing.override = lambda function: function

torch = validator.need("torch")
torch.cuda.get_device_capability = lambda *_: (9, 0)
torch.cuda.get_device_properties = lambda *_: type("Device", (), {"major": 9, "minor": 0})()

from megatron.core import utils  # noqa: E402
from megatron.training import arguments  # noqa: E402

try:
    import transformer_engine  # noqa: F401
except ImportError:
    utils._te_version = utils.PkgVersion("2.9.0")

VERSION = validator.commit(ROOT)


def check(case):
    os.environ.pop("CUDA_DEVICE_MAX_CONNECTIONS", None)
    os.environ.update(case["environment"])
    os.environ.update(WORLD_SIZE=str(case["world"]), RANK="0")
    sys.argv = ["pretrain_gpt.py", *case["arguments"], "--no-rope-fusion"]
    args = arguments.parse_args()
    arguments.validate_args(args, {"tokenizer_type": "NullTokenizer"})
    config = arguments.core_transformer_config_from_args(args)
    return {"tp": config.tensor_model_parallel_size, "pp": config.pipeline_model_parallel_size,
            "vpp": config.virtual_pipeline_model_parallel_size or 1,
            "cp": config.context_parallel_size, "dp": args.data_parallel_size}


validator.run(check, VERSION)
