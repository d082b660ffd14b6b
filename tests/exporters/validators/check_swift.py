# SPDX-License-Identifier: Apache-2.0
"""ms-swift's own MegatronArguments through transformers' HfArgumentParser. Stood in for: megatron, mcore_bridge. Arguments of
swift's other classes are looked up in their source."""

import re
import sys
from importlib import util

import validator
from stand_in import stand_in

ROOT = validator.checkout("PLANSEARCH_MS_SWIFT", "swift/megatron/arguments/megatron_args.py")
validator.need("torch")
transformers = validator.need("transformers")
stand_in("megatron", "mcore_bridge", "swift")
spec = util.spec_from_file_location("megatron_args", ROOT / "swift/megatron/arguments/megatron_args.py")
module = util.module_from_spec(spec)
sys.modules["megatron_args"] = module
spec.loader.exec_module(module)
OTHERS = "".join((ROOT / "swift/arguments/base_args" / name).read_text()
                 for name in ("template_args.py", "data_args.py", "model_args.py", "base_args.py"))
module.MegatronArguments.__post_init__ = lambda self: None  # it starts processes


def check(case):
    (made, rest) = transformers.HfArgumentParser(module.MegatronArguments).parse_args_into_dataclasses(
        case["arguments"], return_remaining_strings=True)
    others = dict(zip(rest[::2], rest[1::2], strict=True))
    for name in others:
        known = re.search(rf"(?m)^    {name[2:]}: ", OTHERS) or name == "--add_version"
        assert known, f"no argument {name}"
    replica = made.tensor_model_parallel_size * made.pipeline_model_parallel_size * made.context_parallel_size
    data = case["world"] // replica
    assert made.global_batch_size % (made.micro_batch_size * data) == 0
    assert not (made.recompute_granularity == "selective" and made.recompute_method), "__post_init__"
    assert made.sequence_parallel or not made.tp_comm_overlap, "__post_init__"
    zero = 1 if made.use_distributed_optimizer else 0
    if made.use_megatron_fsdp:
        assert case["environment"].get("CUDA_DEVICE_MAX_CONNECTIONS") == "32", "_check_megatron_fsdp"
        zero = {"optim_grads": 2, "optim_grads_params": 3}[made.data_parallel_sharding_strategy]
    return {"dp": data, "pp": made.pipeline_model_parallel_size, "tp": made.tensor_model_parallel_size,
            "cp": made.context_parallel_size, "ep": made.expert_model_parallel_size, "zero": zero,
            "micro_batch": made.micro_batch_size, "batch": made.global_batch_size, "seq_len": int(others["--max_length"]),
            "lora_rank": made.lora_rank if made.tuner_type == "lora" else 0}


validator.run(check, f"ms-swift {validator.commit(ROOT)}, transformers {transformers.__version__}")
