# SPDX-License-Identifier: Apache-2.0
"""LLaMA-Factory's own argument classes through transformers' HfArgumentParser (unknown keys are errors), with their
__post_init__ and _verify_model_args."""

import os
import sys
import tempfile

import validator
from stand_in import stand_in

ROOT = validator.checkout("PLANSEARCH_LLAMA_FACTORY", "src/llamafactory/hparams/parser.py")
validator.need("torch")
validator.need("accelerate")
transformers = validator.need("transformers")
yaml = validator.need("yaml")
os.environ["DISABLE_VERSION_CHECK"] = "1"
sys.path.insert(0, str(ROOT / "src"))
stand_in("peft", "trl", "datasets", "omegaconf", "torchvision", "PIL", "av", "librosa", "gradio", "fire", "modelscope")
from llamafactory.hparams import parser as own  # noqa: E402


def check(case):
    with tempfile.TemporaryDirectory() as folder:
        words = yaml.safe_load(case["config"]) | {"output_dir": folder, "use_cpu": True}
        words.pop("bf16", None), words.pop("fp16", None)  # there is no GPU here
        arguments = transformers.HfArgumentParser(own._TRAIN_ARGS)
        model, data, training, tuning, _ = arguments.parse_dict(words)
    own._verify_model_args(model, data, tuning)
    zero = 0
    if training.fsdp:
        zero = 3 if training.fsdp_plugin_args["reshard_after_forward"] else 2
        assert training.fsdp_plugin_args["fsdp_version"] == 2
    batch = training.per_device_train_batch_size * training.gradient_accumulation_steps * case["world"]
    return {"dp": case["world"], "zero": zero, "micro_batch": training.per_device_train_batch_size, "batch": batch,
            "seq_len": data.cutoff_len, "lora_rank": tuning.lora_rank if tuning.finetuning_type == "lora" else 0}


validator.run(check, f"LLaMA-Factory {validator.commit(ROOT)}, transformers {transformers.__version__}")
