# SPDX-License-Identifier: Apache-2.0
"""MaxText's own configs/base.yml and MaxTextConfig (pydantic; unknown keys are errors) on exported overrides.

Stood in for: jax, which the classes ask for the number of devices."""

import sys

import validator
from stand_in import stand_in

ROOT = validator.checkout("PLANSEARCH_MAXTEXT", "src/maxtext/configs/base.yml")
validator.need("pydantic")
omegaconf = validator.need("omegaconf")
sys.path.insert(0, str(ROOT / "src"))
stand_in("jax", "jaxlib", "flax", "optax", "orbax", "tensorflow", "tensorboardX", "google", "etils", "qwix", "numpy", "grain", "psutil",
         "pathwaysutils", "aqt", "ml_collections", "safetensors", "transformers", "huggingface_hub", "datasets", "tiktoken",
         "sentencepiece", "drjax", "cloud_tpu_diagnostics", "ml_goodput_measurement", "tensorflow_datasets", "tensorflow_text",
         "jsonlines", "pandas", "array_record", "tokamax", "tunix", "chex")
import yaml  # noqa: E402
from maxtext.configs import types  # noqa: E402

KNOWN = set(types.MaxTextConfig.model_fields)
BASE = yaml.safe_load((ROOT / "src/maxtext/configs/base.yml").read_text())


def check(case):
    words = omegaconf.OmegaConf.to_container(omegaconf.OmegaConf.from_cli(case["arguments"]))
    unknown = set(words) - KNOWN
    assert not unknown, f"no key {unknown}"
    assert set(words) <= set(BASE) | {"hf_access_token"}, set(words) - set(BASE)
    annotations = {name: types.MaxTextConfig.model_fields[name] for name in words}
    made = {}
    for name, field in annotations.items():  # each by its own type: the whole asks for devices
        from pydantic import TypeAdapter
        made[name] = TypeAdapter(field.rebuild_annotation()).validate_python(words[name])
    inside = outside = 1
    for axis in ("data", "fsdp", "pipeline", "context", "tensor", "expert"):
        inside *= made[f"ici_{axis}_parallelism"]
        outside *= made[f"dcn_{axis}_parallelism"]
    assert inside * outside == case["world"], (inside, outside)
    sizes = {axis: made[f"ici_{axis}_parallelism"] * made[f"dcn_{axis}_parallelism"]
             for axis in ("data", "fsdp", "pipeline", "context", "tensor", "expert")}
    forward = int(case["world"] * made["per_device_batch_size"])  # calculate_global_batch_sizes
    if sizes["pipeline"] > 1:
        pieces = made["num_pipeline_microbatches"]
        assert pieces % sizes["pipeline"] == 0 and forward % pieces == 0
        stages = sizes["pipeline"] * made["num_pipeline_repeats"] * made["num_layers_per_pipeline_stage"]
        assert stages == made["base_num_decoder_layers"], "validate_pipeline"
    return {"dp": sizes["data"] * sizes["fsdp"] * sizes["expert"], "pp": sizes["pipeline"], "tp": sizes["tensor"],
            "cp": sizes["context"], "ep": sizes["expert"], "batch": forward * made["gradient_accumulation_steps"],
            "seq_len": made["max_target_length"]}


validator.run(check, f"MaxText {validator.commit(ROOT)}")
