# SPDX-License-Identifier: Apache-2.0
"""axolotl's own AxolotlInputConfig (pydantic, with its validators) on exported files, then the sizes that
_get_parallel_config_kwargs makes of them."""

import os
import sys

import validator
from stand_in import stand_in

ROOT = validator.checkout("PLANSEARCH_AXOLOTL", "src/axolotl/utils/schemas/config.py")
validator.need("torch")
validator.need("transformers")
validator.need("accelerate")
yaml = validator.need("yaml")
os.environ["AXOLOTL_DO_NOT_TRACK"] = "1"
sys.path.insert(0, str(ROOT / "src"))
stand_in("ring_flash_attn", "addict", "posthog", "datasets", "colorama", "bitsandbytes", "peft", "trl", "huggingface_hub",
         "torchao", "torchdata", "psutil", "flash_attn", "art", "fire", "wandb", "axolotl_contribs_lgpl", "axolotl_contribs_mit")
from axolotl.utils.distributed import _get_parallel_config_kwargs  # noqa: E402
from axolotl.utils.schemas.config import AxolotlInputConfig  # noqa: E402

KNOWN = set(AxolotlInputConfig.model_fields)


def check(case):
    words = yaml.safe_load(case["config"])
    unknown = set(words) - KNOWN
    assert not unknown, f"no field {unknown}"
    config = AxolotlInputConfig(**words)
    fsdp = config.fsdp_config is not None
    sizes = _get_parallel_config_kwargs(case["world"], config.tensor_parallel_size, config.context_parallel_size,
                                        config.dp_shard_size, config.dp_replicate_size, fsdp)
    data = sizes.get("dp_shard_size", 1) * sizes.get("dp_replicate_size", 1)
    zero = 0 if not fsdp else 3 if config.fsdp_config.reshard_after_forward else 2
    return {"dp": data, "tp": config.tensor_parallel_size, "cp": config.context_parallel_size, "zero": zero,
            "micro_batch": config.micro_batch_size, "seq_len": config.sequence_len,
            "batch": config.micro_batch_size * config.gradient_accumulation_steps * data}


validator.run(check, f"axolotl {validator.commit(ROOT)}")
