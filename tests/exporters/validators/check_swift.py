# SPDX-License-Identifier: Apache-2.0
"""Fields, types and words of ms-swift's own MegatronArguments, and what its __post_init__ asserts. Stood in for: megatron,
mcore_bridge and swift's model files. Arguments of swift's other classes are looked up in their source."""

import dataclasses
import re
import sys
import typing
from importlib import util
from types import SimpleNamespace

import validator
from stand_in import stand_in

ROOT = validator.checkout("PLANSEARCH_MS_SWIFT", "swift/megatron/arguments/megatron_args.py")
validator.need("torch")
validator.need("transformers")
stand_in("megatron", "mcore_bridge", "swift")
sys.modules["megatron.core.transformer.enums"] = SimpleNamespace(AttnBackend=str)
spec = util.spec_from_file_location("megatron_args", ROOT / "swift/megatron/arguments/megatron_args.py")
module = util.module_from_spec(spec)
sys.modules["megatron_args"] = module
spec.loader.exec_module(module)
FIELDS = {field.name: field for field in dataclasses.fields(module.MegatronArguments)}
TYPES = typing.get_type_hints(module.MegatronArguments)
OTHERS = "".join(path.read_text() for folder in ("swift/arguments", "swift/megatron/arguments") for path in (ROOT / folder).rglob("*.py"))


def default(field):
    return field.default if field.default_factory is dataclasses.MISSING else field.default_factory()


def typed(kind, words):
    """The words as a value of an annotation; an error for words that it does not have."""
    choices = typing.get_args(kind)
    if typing.get_origin(kind) is typing.Literal:
        assert words[0] in choices, (words, choices)
        return words[0]
    if typing.get_origin(kind) is list:
        return [typed(choices[0], [word]) for word in words]
    if typing.get_origin(kind) is typing.Union:
        return words[0] if str in choices else typed(next(choice for choice in choices if choice is not type(None)), words)
    if kind is bool:
        return {"true": True, "false": False}[words[0]]
    assert len(words) == 1, words
    return kind(words[0])


def check(case):
    flags, others = {}, {}
    for word in case["arguments"]:
        if word.startswith("--"):
            name = word[2:]
            flags[name] = []
        else:
            flags[name].append(word)
    made = SimpleNamespace(**{name: default(field) for name, field in FIELDS.items()})
    for name, words in flags.items():
        if name in FIELDS:
            setattr(made, name, typed(TYPES[name], words))
        else:
            assert re.search(rf"(?m)^    {name}: ", OTHERS), f"no argument {name}"
            others[name] = words[0]
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
            "micro_batch": made.micro_batch_size, "batch": made.global_batch_size, "seq_len": int(others["max_length"]),
            "lora_rank": made.lora_rank if made.tuner_type == "lora" else 0}


validator.run(check, f"ms-swift {validator.commit(ROOT)}")
