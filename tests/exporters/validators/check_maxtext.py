# SPDX-License-Identifier: Apache-2.0
"""MaxText's own configs/base.yml, its reader (unknown keys are errors) and MaxTextConfig with all its checks on exported overrides.

Stood in for: jax, which is asked for devices, and what else the package imports."""

import sys
from types import ModuleType, SimpleNamespace
from unittest import mock

import validator
from stand_in import stand_in

ROOT = validator.checkout("PLANSEARCH_MAXTEXT", "src/maxtext/configs/base.yml")
validator.need("pydantic")
omegaconf = validator.need("omegaconf")
WORLD = SimpleNamespace(devices=1, slices=1)


def module(name, **members):
    made = ModuleType(name)
    made.__dict__.update(members)
    made.__getattr__ = lambda member: mock.MagicMock(name=member) if member[:2] != "__" else None
    sys.modules[name] = made
    parent, _, last = name.rpartition(".")
    if parent in sys.modules:
        setattr(sys.modules[parent], last, made)
    return made


sys.path.insert(0, str(ROOT / "src"))
stand_in("absl", "jinja2", "flax")
numpy = module("jax.numpy")
module("jax", numpy=numpy, devices=lambda: [None] * WORLD.devices, local_device_count=lambda: 8)
module("maxtext", __path__=[str(ROOT / "src/maxtext")])
module("maxtext.utils", __path__=[])
module("maxtext.utils.max_utils", get_num_slices=lambda keys, config=None: WORLD.slices)
module("maxtext.utils.globals", MAXTEXT_CONFIGS_DIR=str(ROOT / "src/maxtext/configs"), MAXTEXT_ASSETS_ROOT="assets", HF_IDS={},
       MAXTEXT_PKG_DIR=str(ROOT / "src/maxtext"))
for name in ("gcs_utils", "elastic_utils", "accelerator_to_spec_map", "max_logging"):
    module(f"maxtext.utils.{name}")
module("maxtext.configs.pyconfig_deprecated")
module("maxtext.inference", __path__=[])
module("maxtext.inference.inference_utils", str2bool=lambda text: str(text).lower() == "true")
from maxtext.configs import pyconfig, types  # noqa: E402


def check(case):
    WORLD.devices = case["world"]
    words = omegaconf.OmegaConf.to_container(omegaconf.OmegaConf.from_cli(case["arguments"]))
    base = omegaconf.OmegaConf.to_container(pyconfig._load_config(str(ROOT / "src/maxtext/configs/base.yml")))
    assert set(words) <= set(base), set(words) - set(base)
    axes = ("data", "fsdp", "pipeline", "context", "tensor", "expert")
    inside = outside = 1
    for axis in axes:
        inside *= words[f"ici_{axis}_parallelism"]
        outside *= words[f"dcn_{axis}_parallelism"]
    assert inside * outside == case["world"], (inside, outside)
    WORLD.slices = outside
    made = types.MaxTextConfig(**pyconfig._prepare_for_pydantic(base | words))
    sizes = {axis: getattr(made, f"ici_{axis}_parallelism") * getattr(made, f"dcn_{axis}_parallelism") for axis in axes}
    return {"dp": sizes["data"] * sizes["fsdp"] * sizes["expert"], "pp": sizes["pipeline"], "tp": sizes["tensor"],
            "cp": sizes["context"], "ep": sizes["expert"], "batch": made.global_batch_size_to_train_on,
            "seq_len": made.max_target_length}


validator.run(check, f"MaxText {validator.commit(ROOT)}")
