# SPDX-License-Identifier: Apache-2.0
"""Megatron-Bridge's own overrides, as its run_recipe.py applies them, on a container of its common recipe and a network of
the plan's layers; then its runtime_config_update(), which validates the container.

Stood in for: kernels and networks that its packages import, devices, and its table of recipes, which imports diffusion
models. What a network's own recipe sets is not tried."""

import importlib
import os
import sys
import types
import typing

import validator
from stand_in import stand_in

ROOT = validator.checkout("PLANSEARCH_MEGATRON_BRIDGE", "src/megatron/bridge/training/config.py")
MEGATRON = validator.checkout("PLANSEARCH_MEGATRON_LM", "megatron/core/utils.py")
sys.path[:0] = [str(ROOT / "src"), str(MEGATRON)]
if not hasattr(typing, "override"):  # Python 3.11
    typing.override = lambda function: function
torch = validator.need("torch")
validator.need("transformers")
validator.need("hydra")
torch.cuda.get_device_capability = lambda *_: (9, 0)
torch.cuda.get_device_properties = lambda *_: type("Device", (), {"major": 9, "minor": 0, "name": "NVIDIA H100"})()
stand_in("transformer_engine", "modelopt", "mamba_ssm", "causal_conv1d", "flash_attn", "apex", "nvidia_resiliency_ext",
         "flashinfer", "megatron_energon", "qwen_vl_utils", "nemo_run", "fla", "tilelang", "diffusers")


def package(name, **members):
    """A package of which only what is named is imported."""
    module = types.ModuleType(name)
    module.__dict__.update(members)
    sys.modules[name] = module
    return module


extension = package("megatron.core.extensions.transformer_engine")  # classes that others inherit
extension.__getattr__ = lambda name: type(name, (), {}) if name[:2] != "__" else None
from megatron.bridge.models import GPTModelProvider  # noqa: E402
from megatron.bridge.training.comm_overlap import CommOverlapConfig  # noqa: E402
from megatron.bridge.training.config import runtime_config_update  # noqa: E402
from megatron.bridge.training.utils.omegaconf_utils import process_config_with_overrides  # noqa: E402

package("megatron.bridge.recipes", __path__=[str(ROOT / "src" / "megatron" / "bridge" / "recipes")])
common = importlib.import_module("megatron.bridge.recipes.common")


def check(case):
    os.environ.update(case["environment"])
    os.environ.update(WORLD_SIZE=str(case["world"]), RANK="0")
    config = common._pretrain_common()
    config.model = GPTModelProvider(num_layers=case["layers"], hidden_size=8192, num_attention_heads=64, vocab_size=128256,
                                    seq_length=4096, add_bias_linear=False)
    if any(".expert_" in word or ".moe_" in word for word in case["arguments"]):
        config.model.num_moe_experts, config.model.moe_ffn_hidden_size, config.model.moe_router_topk = 256, 2048, 8
        config.model.moe_token_dispatcher_type = "alltoall"
    config.comm_overlap = CommOverlapConfig(tp_comm_overlap=False)  # as recipes that take its overrides
    config = process_config_with_overrides(config, cli_overrides=case["arguments"])
    config.model.seq_length = config.dataset.seq_length  # run_recipe.py: sync_model_dataset_sequence_length
    config.tokenizer.tokenizer_type = "NullTokenizer"
    runtime_config_update(config)  # as pretrain() does first
    model = config.model
    return {"tp": model.tensor_model_parallel_size, "pp": model.pipeline_model_parallel_size,
            "vpp": model.virtual_pipeline_model_parallel_size or 1, "cp": model.context_parallel_size,
            "dp": config.data_parallel_size, "batch": config.train.global_batch_size, "seq_len": model.seq_length,
            "micro_batch": config.train.micro_batch_size}


validator.run(check, f"Megatron-Bridge {validator.commit(ROOT)}")
