# SPDX-License-Identifier: Apache-2.0
"""nnScaler's own TrainerArgs on exported files, with a model, an optimizer and data of PyTorch's beside the plan."""

import sys

import validator

ROOT = validator.checkout("PLANSEARCH_NNSCALER", "nnscaler/cli/trainer_args.py")
sys.path.insert(0, str(ROOT))
yaml = validator.need("yaml")
validator.need("torch")
for package in ("dill", "more_itertools", "pulp", "psutil", "tqdm"):
    validator.need(package)
from nnscaler.cli.trainer_args import TrainerArgs  # noqa: E402
from nnscaler.parallel import _PREDEFINED_POLICIES  # noqa: E402

REST = {"max_train_steps": 1, "model": {"type": "torch.nn.Linear", "args": {"in_features": 8, "out_features": 8}},
        "optimizer": {"type": "torch.optim.Adam"}, "dataset": {"type": "torch.utils.data.TensorDataset"},
        "dataloader": {"type": "torch.utils.data.DataLoader"}}


def check(case):
    args = TrainerArgs.from_dict({**yaml.safe_load(case["config"]), **REST})
    assert args.resolved_pas_policy in _PREDEFINED_POLICIES, args.pas_policy
    assert args.compute_config.runtime_ngpus == case["world"]
    return {"dp": args.scaling_factor, "batch": args.global_batch_size, "micro_batch": args.micro_batch_size,
            "micro_batches": args.grad_accumulation_steps}


validator.run(check, f"nnscaler {validator.commit(ROOT)}")
