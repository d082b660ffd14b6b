# SPDX-License-Identifier: Apache-2.0
"""nanotron's own get_config_from_file (dacite, strict; Config.__post_init__) on exported files.

Stood in for: packages of kernels and datasets that its modules import and its configuration does
not use."""

import sys
import tempfile

import validator
from stand_in import stand_in

ROOT = validator.checkout("PLANSEARCH_NANOTRON", "src/nanotron/config/config.py")
sys.path.insert(0, str(ROOT / "src"))
validator.need("torch")
validator.need("dacite")

ABSENT = ("flash_attn", "datasets", "datatrove", "transformers", "functorch", "ring_flash_attn",
          "grouped_gemm", "triton", "boto3", "s3fs", "lighteval", "huggingface_hub", "wandb")

stand_in(*ABSENT)
from nanotron.config import get_config_from_file  # noqa: E402


def check(case):
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        file.write(case["config"])
        file.flush()
        config = get_config_from_file(file.name)
    p = config.parallelism
    assert p.dp * p.pp * p.tp * p.context_parallel_size == case["world"]
    kind = type(config.model.model_config).__name__
    assert kind in ("LlamaConfig", "Qwen2Config"), kind
    return {"dp": p.dp, "pp": p.pp, "tp": p.tp, "cp": p.context_parallel_size,
            "batch": config.global_batch_size}


validator.run(check, validator.commit(ROOT))
