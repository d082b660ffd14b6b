# SPDX-License-Identifier: Apache-2.0
"""Megatron-AxoNN's own parse_args and validate_args on exported arguments, and AxoNN's communication_handle
on the grid that they name: where every rank lies.

Stood in for: kernels and training packages that the modules import, devices, and process groups,
which are lists of ranks."""

import importlib.util
import os
import sys
from unittest import mock

import validator
from stand_in import stand_in

ROOT = validator.checkout("PLANSEARCH_MEGATRON_AXONN", "megatron/arguments.py")
AXONN = validator.checkout("PLANSEARCH_AXONN", "axonn/communication.py")
sys.path.insert(0, str(ROOT))
torch = validator.need("torch")
validator.need("numpy")

ABSENT = ("apex", "amp_C", "transformer_engine", "flash_attn", "axonn", "einops", "nltk", "transformers",
          "tensorboard", "h5py", "faiss", "tqdm", "six", "sentencepiece", "regex")

stand_in(*ABSENT)
torch.cuda.set_device = lambda *_: None
torch.cuda.device_count = lambda: 8


def read(path, name):
    """A module by its file: the packages around it start devices."""
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


arguments = read(ROOT / "megatron" / "arguments.py", "axonn_arguments")
communication = read(AXONN / "axonn" / "communication.py", "axonn_communication")
VERSION = f"Megatron-AxoNN {validator.commit(ROOT)}, axonn {validator.commit(AXONN)}"


def place(args, rank):
    """Of one rank: (column, row, depth, stage, replica), as AxoNN's initialiser finds it."""
    with mock.patch.object(torch.distributed, "is_initialized", return_value=True), \
         mock.patch.object(torch.distributed, "get_rank", return_value=rank), \
         mock.patch.object(torch.distributed, "get_world_size", return_value=args.world_size), \
         mock.patch.object(torch.distributed, "new_group", side_effect=lambda ranks, **_: list(ranks)):
        handle = communication.communication_handle(
            args.pipeline_model_parallel_size, args.data_parallel_size, args.row_tensor_model_parallel_size,
            args.column_tensor_model_parallel_size, args.depth_tensor_model_parallel_size)
    return (handle.intra_layer_column_parallel_rank, handle.intra_layer_row_parallel_rank,
            handle.intra_layer_depth_parallel_rank, handle.inter_layer_parallel_rank, handle.data_parallel_rank)


def check(case):
    os.environ.pop("CUDA_DEVICE_MAX_CONNECTIONS", None)
    os.environ.update(case["environment"])
    os.environ.update(WORLD_SIZE=str(case["world"]), RANK="0")
    sys.argv = ["pretrain_gpt.py", *case["arguments"]]
    args = arguments.parse_args()
    arguments.validate_args(args, {"tokenizer_type": "GPT2BPETokenizer"})
    sizes = (args.column_tensor_model_parallel_size, args.row_tensor_model_parallel_size,
             args.depth_tensor_model_parallel_size, args.pipeline_model_parallel_size, args.data_parallel_size)
    for rank in {0, 1, case["world"] // 2, case["world"] - 1} & set(range(case["world"])):
        rest, wanted = rank, []
        for size in sizes:
            wanted.append(rest % size)
            rest //= size
        assert place(args, rank) == tuple(wanted), (rank, sizes, place(args, rank), wanted)
    assert args.num_layers == case["layers"]
    return {"tp_x": sizes[0], "tp_y": sizes[1], "tp_z": sizes[2], "pp": sizes[3], "dp": sizes[4],
            "micro_batch": args.micro_batch_size // sizes[2], "batch": args.global_batch_size}


validator.run(check, VERSION)
