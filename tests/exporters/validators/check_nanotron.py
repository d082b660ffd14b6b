# SPDX-License-Identifier: Apache-2.0
"""nanotron's own get_config_from_file (dacite, strict; Config.__post_init__) on exported files.

Stood in for: packages of kernels and datasets that its modules import and its configuration does
not use."""

import importlib.abc
import importlib.machinery
import sys
import tempfile
import types
from unittest import mock

import validator

ROOT = validator.checkout("PLANSEARCH_NANOTRON", "src/nanotron/config/config.py")
sys.path.insert(0, str(ROOT / "src"))
validator.need("torch")
validator.need("dacite")

ABSENT = ("flash_attn", "datasets", "datatrove", "transformers", "functorch", "ring_flash_attn",
          "grouped_gemm", "triton", "boto3", "s3fs", "lighteval", "huggingface_hub", "wandb")


class StandIns(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Any module of an absent package, with any name in it."""

    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ABSENT:
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec):
        module = types.ModuleType(spec.name)
        module.__getattr__ = lambda name: mock.MagicMock(name=name) if name[:2] != "__" else None
        module.__path__ = []
        module.__version__ = "99.0"
        return module

    def exec_module(self, module):
        pass


sys.meta_path.append(StandIns())
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
