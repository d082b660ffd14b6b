# SPDX-License-Identifier: Apache-2.0
"""Hydra composes verl's own configuration with the exported overrides: keys that it does not have are errors."""

import validator

ROOT = validator.checkout("PLANSEARCH_VERL", "verl/trainer/config/ppo_trainer.yaml")
hydra = validator.need("hydra")


def check(case):
    named = [word.split("=", 1)[1] for word in case["arguments"] if word.startswith("--config-name=")]
    overrides = [word for word in case["arguments"] if not word.startswith("--")]
    with hydra.initialize_config_dir(str(ROOT / "verl/trainer/config"), version_base=None):
        made = hydra.compose(named[0] if named else "ppo_trainer", overrides)
    actor, trainer = made.actor_rollout_ref.actor, made.trainer
    world = trainer.nnodes * trainer.n_gpus_per_node
    assert world == case["world"]
    common = {"micro_batch": actor.ppo_micro_batch_size_per_gpu, "batch": actor.ppo_mini_batch_size * made.actor_rollout_ref.rollout.n,
              "seq_len": made.data.max_prompt_length + made.data.max_response_length}
    assert made.data.train_batch_size >= actor.ppo_mini_batch_size
    if not named:
        cp = actor.ulysses_sequence_parallel_size
        return common | {"dp": world // cp, "cp": cp, "zero": 3 if actor.fsdp_config.reshard_after_forward else 2}
    m = actor.megatron
    replica = m.tensor_model_parallel_size * m.pipeline_model_parallel_size * m.context_parallel_size
    return common | {"dp": world // replica, "tp": m.tensor_model_parallel_size, "pp": m.pipeline_model_parallel_size,
                     "cp": m.context_parallel_size, "ep": m.expert_model_parallel_size,
                     "zero": 1 if m.use_distributed_optimizer else 0}


validator.run(check, f"verl {validator.commit(ROOT)}, hydra {hydra.__version__}")
