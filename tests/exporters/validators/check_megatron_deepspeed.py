# SPDX-License-Identifier: Apache-2.0
"""Megatron-DeepSpeed's own parse_args and validate_args on exported arguments, and DeepSpeed's own DeepSpeedConfig on the
file that they name.

Stood in for: packages of kernels and data that its modules import, and process groups, which are their sizes."""

import os
import pathlib
import sys
import types

import validator
from stand_in import stand_in

ROOT = validator.checkout("PLANSEARCH_MEGATRON_DEEPSPEED", "megatron/arguments.py")
sys.path.insert(0, str(ROOT))
os.environ.setdefault("DS_ACCELERATOR", "cpu")
torch = validator.need("torch")
deepspeed = validator.need("deepspeed")
import deepspeed.comm as dist  # noqa: E402
from deepspeed.runtime import config as ds_config  # noqa: E402

stand_in("apex", "amp_C", "transformer_engine", "flash_attn", "nltk", "h5py", "faiss", "six", "regex", "sentencepiece",
         "einops", "pybind11", "wandb", "lm_eval", "fused_layer_norm_cuda")
torch.cuda.get_device_capability = lambda *_: (9, 0)

from megatron import arguments  # noqa: E402

VERSION = f"Megatron-DeepSpeed {validator.commit(ROOT)}, deepspeed {deepspeed.__version__}"


def check(case):
    os.environ.update(case["environment"])
    os.environ.update(WORLD_SIZE=str(case["world"]), RANK="0")
    sys.argv = ["pretrain_gpt.py", *case["arguments"]]
    args = arguments.parse_args()
    arguments.validate_args(args, {"tokenizer_type": "NullTokenizer"})
    for module in (dist, ds_config.dist):
        module.get_world_size, module.get_rank = (lambda *_: case["world"]), (lambda *_: 0)
    # As pretrain() hands the file over: data ranks are those of Megatron's groups.
    groups = types.SimpleNamespace(get_data_parallel_world_size=lambda: args.data_parallel_size)
    assert pathlib.Path(args.deepspeed_config).is_file()
    read = ds_config.DeepSpeedConfig(args.deepspeed_config, groups)
    assert read.zero_optimization_stage == args.zero_stage, (read.zero_optimization_stage, args.zero_stage)
    assert read.train_batch_size == args.global_batch_size
    assert read.train_micro_batch_size_per_gpu == args.micro_batch_size
    return {"tp": args.tensor_model_parallel_size, "pp": args.pipeline_model_parallel_size, "zero": read.zero_optimization_stage,
            "dp": args.data_parallel_size, "cp": args.ds_sequence_parallel_size, "batch": read.train_batch_size,
            "micro_batch": read.train_micro_batch_size_per_gpu}


validator.run(check, VERSION)
