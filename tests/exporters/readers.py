# SPDX-License-Identifier: Apache-2.0
"""One reader per target: from the exported configuration back to the settings of a plan. A key that
a reader does not know is an error, so that nothing is written that nobody checks."""

import json
import re
import sys
import tomllib
import types
from unittest import mock


class Unknown(AssertionError):
    """A key that the reader does not know."""


def flags_of(words, known):
    """{"--flag": value}: true for a flag without words behind it, a list for several."""
    flags, name = {}, None
    for word in words:
        if re.fullmatch(r"--[a-z].*", word) or word.startswith("activation-checkpoint:"):
            name = word
            flags[name] = []
        else:
            flags[name].append(word)
    unknown = set(flags) - set(known)
    if unknown:
        raise Unknown(f"no reader for {sorted(unknown)}")
    return {name: (True if not values else values[0] if len(values) == 1 else values)
            for name, values in flags.items()}


def yaml_of(text):
    """Block YAML whose scalars are JSON, as the exporters write it."""
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]

    def indent(line):
        return len(line) - len(line.lstrip(" "))

    def block(at, depth):
        result = None
        while at < len(lines) and indent(lines[at]) >= depth:
            line = lines[at].strip()
            here = indent(lines[at])
            if line.startswith("- "):
                result = [] if result is None else result
                if line[2:3] in '"[' or ":" not in line:  # a scalar
                    result.append(json.loads(line[2:]))
                    at += 1
                    continue
                lines[at] = " " * (here + 2) + line[2:]
                value, at = block(at, here + 2)
                result.append(value)
                continue
            result = {} if result is None else result
            key, _, rest = line.partition(":")
            rest = rest.strip()
            if rest:
                result[key] = None if rest == "~" else json.loads(rest)
                at += 1
            else:
                result[key], at = block(at + 1, here + 1)
            if at < len(lines) and indent(lines[at]) < here:
                break
        return result, at

    return block(0, 0)[0]


def flat_yaml(text):
    """YAML without comments as paths and values."""
    return flat(yaml_of(text))


def flat(tree, prefix=""):
    result = {}
    for key, value in tree.items():
        name = f"{prefix}{key}"
        if isinstance(value, dict):
            result |= flat(value, name + ".")
        else:
            result[name] = value
    return result


def check_known(keys, known):
    unknown = set(keys) - set(known)
    if unknown:
        raise Unknown(f"no reader for {sorted(unknown)}")


# ---------------------------------------------------------------- Megatron-LM

MEGATRON = """--tensor-model-parallel-size --sequence-parallel --pipeline-model-parallel-size
  --num-layers-per-virtual-pipeline-stage --pipeline-model-parallel-layout --context-parallel-size
  --cp-comm-type --expert-model-parallel-size --expert-tensor-parallel-size --use-tp-pp-dp-mapping
  --optimizer --use-distributed-optimizer --use-megatron-fsdp --data-parallel-sharding-strategy
  --ckpt-format --num-distributed-optimizer-instances --overlap-grad-reduce --overlap-param-gather
  --no-overlap-p2p-communication --tp-comm-overlap --overlap-moe-expert-parallel-comm
  --micro-batch-size --global-batch-size --seq-length --recompute-granularity --recompute-method
  --recompute-num-layers --recompute-modules --attention-backend --fp16 --bf16 --fp8-format
  --fp8-recipe --fp8-param-gather --fp4-format --grad-reduce-in-bf16 --megatron-fsdp-main-grads-dtype
  --accumulate-allreduce-grads-in-fp32 --cuda-graph-impl --no-check-for-nan-in-loss-and-grad
  --optimizer-cpu-offload --optimizer-offload-fraction --use-precision-aware-optimizer
  --fine-grained-activation-offloading --offload-modules""".split()
MEGATRON_MODEL = """--num-layers --hidden-size --ffn-hidden-size --max-position-embeddings
  --position-embedding-type --normalization --swiglu --quick-geglu --glu-linear-offset
  --activation-func-clamp-value --squared-relu --disable-bias-linear
  --add-qkv-bias --untie-embeddings-and-output-weights --hidden-dropout --attention-dropout
  --mtp-num-layers --num-attention-heads --group-query-attention --num-query-groups --kv-channels
  --qk-layernorm --window-size --window-attn-skip-freq --softmax-type --multi-latent-attention
  --q-lora-rank --kv-lora-rank --qk-head-dim --qk-pos-emb-head-dim --v-head-dim --num-experts
  --moe-router-topk --moe-ffn-hidden-size --moe-layer-freq --moe-shared-expert-intermediate-size
  --moe-shared-expert-gate --moe-router-enable-expert-bias --moe-router-score-function
  --moe-router-dtype --moe-router-pre-softmax --moe-expert-capacity-factor --moe-grouped-gemm
  --moe-token-dispatcher-type --moe-flex-dispatcher-backend --moe-router-num-groups
  --moe-router-group-topk""".split()
MEGATRON_TRIAL = """--mock-data --tokenizer-type --vocab-size --train-iters --lr --log-interval
  --eval-iters --log-throughput""".split()


def layout_layers(layout):
    """Layers of every virtual stage of "Et*3|t*4L"."""
    return [sum(int(n or 1) for n in re.findall(r"t(?:\*(\d+))?", part))
            for part in layout.split("|")]


def read_megatron(words, environment, world):
    f = flags_of(words, MEGATRON + MEGATRON_MODEL + MEGATRON_TRIAL)
    number = {name: int(value) for name, value in f.items()
              if isinstance(value, str) and re.fullmatch(r"\d+", value)}
    tp, pp = number["--tensor-model-parallel-size"], number["--pipeline-model-parallel-size"]
    cp = number["--context-parallel-size"]
    dp = world // (tp * pp * cp)
    layers = number["--num-layers"]
    if "--pipeline-model-parallel-layout" in f:
        parts = layout_layers(f["--pipeline-model-parallel-layout"])
        vpp = len(parts) // pp
        assert sum(parts) == layers, (parts, layers)
    else:
        vpp = layers // pp // number.get("--num-layers-per-virtual-pipeline-stage", layers // pp)
        parts = [layers // (pp * vpp)] * (pp * vpp)
    strategy = {"optim_grads": 2, "optim_grads_params": 3}
    zero = 1 if "--use-distributed-optimizer" in f else 0
    if "--use-megatron-fsdp" in f:
        assert f["--ckpt-format"] == "fsdp_dtensor"
        assert environment.get("CUDA_DEVICE_MAX_CONNECTIONS") is None, environment
        zero = strategy[f["--data-parallel-sharding-strategy"]]
    elif tp > 1 or cp > 1:
        assert environment["CUDA_DEVICE_MAX_CONNECTIONS"] == "1", environment
    recompute = f.get("--recompute-granularity", "none")
    assert ("--recompute-method" in f) == ("--recompute-num-layers" in f) == (recompute == "full")
    first = int(f["--recompute-num-layers"]) if f.get("--recompute-method") == "block" else 0
    assert first or f.get("--recompute-num-layers", "1") == "1"
    assert f.get("--recompute-modules") is None or recompute == "selective"
    if "--overlap-param-gather" in f:
        assert "--overlap-grad-reduce" in f and zero
    if "--tp-comm-overlap" in f:
        assert "--sequence-parallel" in f
    batch, micro_batch = number["--global-batch-size"], number["--micro-batch-size"]
    copies = number.get("--num-distributed-optimizer-instances", 1)
    precision = "bf16" if "--bf16" in f else "fp16" if "--fp16" in f else "fp32"
    if f.get("--fp8-recipe"):
        precision = {"tensorwise": "fp8", "mxfp8": "mxfp8"}[f["--fp8-recipe"]]
        assert f["--fp8-format"] == {"fp8": "hybrid", "mxfp8": "e4m3"}[precision]
    return {
        "dp": dp, "pp": pp, "vpp": vpp, "tp": tp, "cp": cp,
        "cp_kind": {"p2p": "ring", "a2a": "ulysses", "all_gather": "all-gather"}[f.get("--cp-comm-type", "p2p")],
        "ep": number.get("--expert-model-parallel-size", 1),
        "etp": number.get("--expert-tensor-parallel-size", 1), "zero": zero,
        "shard_group": dp // copies if copies > 1 else 0, "sp": "--sequence-parallel" in f,
        "micro_batch": micro_batch, "recompute": recompute, "recompute_layers": first,
        "schedule": "interleaved" if vpp > 1 else "1f1b", "gpus": dp * pp * tp * cp,
        "batch": batch, "micro_batches": batch // dp // micro_batch,
        "seq_len": number["--seq-length"], "precision": precision, "optimizer": f["--optimizer"],
        "layers": parts, "parameters": megatron_parameters(f)}


def megatron_parameters(f):
    """Parameters of the network that the flags describe."""
    def n(name, default=0):
        return int(f.get(name, default))

    h, heads, bias = n("--hidden-size"), n("--num-attention-heads"), "--disable-bias-linear" not in f
    norm = h if f["--normalization"] == "RMSNorm" else 2 * h
    gates = 3 if ("--swiglu" in f or "--quick-geglu" in f) else 2
    if "--multi-latent-attention" in f:
        q, kv = n("--q-lora-rank"), n("--kv-lora-rank")
        nope, rope, value = n("--qk-head-dim"), n("--qk-pos-emb-head-dim"), n("--v-head-dim")
        wide = heads * (nope + rope)
        attention = (h * q + q + q * wide) if q else h * wide
        attention += h * (kv + rope) + kv + kv * heads * (nope + value) + heads * value * h
    else:
        d, groups = n("--kv-channels"), n("--num-query-groups", heads)
        rows = (heads + 2 * groups) * d
        attention = h * rows + heads * d * h + (rows if bias or "--add-qkv-bias" in f else 0)
        attention += h if bias else 0
        attention += 2 * d if "--qk-layernorm" in f else 0
        attention += heads if "--softmax-type" in f else 0

    def mlp(width, biased):
        return gates * h * width + ((gates - 1) * width + h if biased else 0)

    dense = mlp(n("--ffn-hidden-size"), bias)
    layers, experts = n("--num-layers"), n("--num-experts")
    sparse = 0
    if experts:
        shared = n("--moe-shared-expert-intermediate-size")
        sparse = (h + 1 if bias else h) * experts + experts * mlp(n("--moe-ffn-hidden-size"), bias)
        sparse += (mlp(shared, bias) if shared else 0)
        sparse += h if "--moe-shared-expert-gate" in f else 0
        sparse += experts if "--moe-router-enable-expert-bias" in f else 0
    pattern = f.get("--moe-layer-freq", "1")
    match = re.fullmatch(r"\(\[0\]\*(\d+)\+\[1\]\*(\d+)\)", pattern)
    if not experts:
        sparse_layers = 0
    elif match:
        sparse_layers = int(match[2])
        assert int(match[1]) + sparse_layers == layers
    else:
        sparse_layers = layers // int(pattern)
    vocabulary = n("--vocab-size") * h
    total = vocabulary * (2 if "--untie-embeddings-and-output-weights" in f else 1)
    total += layers * (attention + 2 * norm) + sparse_layers * sparse
    total += (layers - sparse_layers) * dense + norm
    if f["--position-embedding-type"] == "learned_absolute":
        total += n("--max-position-embeddings") * h
    # A prediction module: two norms, the projection of both, a layer, a norm.
    total += n("--mtp-num-layers") * (3 * norm + 2 * h * h + attention + 2 * norm
                                      + (sparse if experts else dense))
    return total


def hybrid_stages(pattern, stages):
    """Letters of every rank and model chunk, and those of a prediction module, as Megatron-LM's own
    hybrid_layer_allocation.py takes a pattern apart (parse_hybrid_pattern, select_pipeline_segment)."""
    main, *modules = pattern.split("/")
    assert len(set(modules)) <= 1, "all modules are equal"
    for letters, known in ((main, "MG*D+-E|"), *((module, "MG*D+-E") for module in modules)):
        assert set(letters) <= set(known), letters
        assert not ("*" in letters and set("D+") & set(letters)), "attention beside latent attention"
    segments = main.split("|")
    if len(segments) == 1:
        assert len(main) % stages == 0
        size = len(main) // stages
        segments = [main[i:i + size] for i in range(0, len(main), size)]
    assert len(segments) % stages == 0
    return [segments[rank::stages] for rank in range(stages)], modules


def hybrid_parameters(f):
    """Parameters of the network that a pattern and its flags describe."""
    def n(name, default=0):
        return int(f.get(name, default))

    h, heads = n("--hidden-size"), n("--num-attention-heads")
    gates = 3 if "--swiglu" in f else 2
    size, groups = n("--kv-channels"), n("--num-query-groups", heads)
    gated = 2 if "--attention-output-gate" in f else 1
    inner, states = n("--mamba-num-heads") * n("--mamba-head-dim"), 2 * n("--mamba-num-groups") * n("--mamba-state-dim")
    values = n("--linear-num-value-heads") * n("--linear-value-head-dim")
    keys = n("--linear-num-key-heads") * n("--linear-key-head-dim")
    shared, experts = n("--moe-shared-expert-intermediate-size"), n("--num-experts")
    layer = {
        "*": h * (heads * gated + 2 * groups) * size + heads * size * h + (2 * size if "--qk-layernorm" in f else 0),
        "M": h * (2 * inner + states + n("--mamba-num-heads")) + 5 * (inner + states) + 3 * n("--mamba-num-heads") + inner + inner * h,
        "G": h * (2 * keys + 2 * values + 2 * n("--linear-num-value-heads")) + n("--linear-conv-kernel-dim") * (2 * keys + values)
             + 2 * n("--linear-num-value-heads") + n("--linear-value-head-dim") + values * h,
        "-": gates * h * n("--ffn-hidden-size"),
        "E": experts * (h + gates * h * n("--moe-ffn-hidden-size")) + gates * h * shared
             + (h if "--moe-shared-expert-gate" in f else 0) + (experts if "--moe-router-enable-expert-bias" in f else 0)}
    main = f["--hybrid-layer-pattern"].split("/")[0].replace("|", "")
    vocabulary = n("--vocab-size") * h * (2 if "--untie-embeddings-and-output-weights" in f else 1)
    return vocabulary + h + sum(layer[letter] + h for letter in main)


# ---------------------------------------------------------------- DeepSpeed

DEEPSPEED = """train_batch_size train_micro_batch_size_per_gpu gradient_accumulation_steps
  bf16.enabled fp16.enabled zero_optimization.stage zero_optimization.overlap_comm
  zero_optimization.offload_optimizer.device zero_optimization.offload_optimizer.pin_memory
  zero_optimization.offload_param.device zero_optimization.offload_param.pin_memory
  activation_checkpointing.cpu_checkpointing
  data_types.grad_accum_dtype sequence_parallel_size plansearch""".split()


def read_deepspeed(text, world):
    c = flat(json.loads(text))
    check_known(c, DEEPSPEED)
    assert not (c["bf16.enabled"] and c["fp16.enabled"])
    cp = c.get("sequence_parallel_size", 1)
    dp = world // cp
    assert c["train_batch_size"] == dp * (c["train_micro_batch_size_per_gpu"] *
                                          c["gradient_accumulation_steps"])
    return {"dp": dp, "cp": cp, "cp_kind": "ulysses" if cp > 1 else "ring", "gpus": world,
            "zero": c["zero_optimization.stage"], "batch": c["train_batch_size"],
            "micro_batch": c["train_micro_batch_size_per_gpu"],
            "micro_batches": c["gradient_accumulation_steps"],
            "precision": "bf16" if c["bf16.enabled"] else "fp16" if c["fp16.enabled"] else "fp32",
            **script_settings(c["plansearch"])}


def script_settings(header):
    """What the header leaves to the training script."""
    line = next((line for line in header if line.startswith("set in the training script: ")), "")
    pairs = (item.split(" ", 1) for item in line.removeprefix("set in the training script: ")
             .split(", ")) if line else ()
    return {key: int(value) if value.isdigit() else value for key, value in pairs}


MEGATRON_DEEPSPEED = """--deepspeed --zero-stage --tensor-model-parallel-size --sequence-parallel
  --pipeline-model-parallel-size --no-pipeline-parallel --ds-sequence-parallel-size
  --micro-batch-size --global-batch-size --seq-length --recompute-granularity --recompute-method
  --deepspeed-activation-checkpointing --bf16 --fp16 --optimizer --use-flash-attn-v2 --num-layers
  --hidden-size --ffn-hidden-size --num-attention-heads --num-key-value-heads --kv-channels
  --max-position-embeddings --use-rotary-position-embeddings --normalization --swiglu
  --squared-relu --disable-bias-linear --untie-embeddings-and-output-weights --hidden-dropout
  --attention-dropout --deepspeed_config""".split()


def read_megatron_deepspeed(words, environment, world, config):
    f = flags_of(words, MEGATRON_DEEPSPEED)
    tp, pp = int(f["--tensor-model-parallel-size"]), int(f["--pipeline-model-parallel-size"])
    cp = int(f.get("--ds-sequence-parallel-size", 1))
    dp = world // (tp * pp * cp)
    full = f.get("--recompute-granularity") == "full"
    assert ("--deepspeed-activation-checkpointing" in f) == full == ("--recompute-method" in f)
    assert ("--no-pipeline-parallel" in f) == (pp == 1)
    if tp > 1:
        assert environment["CUDA_DEVICE_MAX_CONNECTIONS"] == "1"
    batch, micro_batch = int(f["--global-batch-size"]), int(f["--micro-batch-size"])
    json_file = read_deepspeed(config, dp)
    for key in ("zero", "batch", "micro_batch", "micro_batches", "precision"):
        values = {"zero": int(f["--zero-stage"]), "batch": batch, "micro_batch": micro_batch,
                  "micro_batches": batch // dp // micro_batch,
                  "precision": "bf16" if "--bf16" in f else "fp16" if "--fp16" in f else "fp32"}
        assert json_file[key] == values[key], (key, json_file, values)
    return {"dp": dp, "pp": pp, "tp": tp, "cp": cp, "cp_kind": "ulysses" if cp > 1 else "ring",
            "zero": int(f["--zero-stage"]), "sp": "--sequence-parallel" in f, "gpus": world,
            "micro_batch": micro_batch, "micro_batches": batch // dp // micro_batch, "batch": batch,
            "recompute": f.get("--recompute-granularity", "none"), "seq_len": int(f["--seq-length"]),
            "precision": json_file["precision"], "optimizer": f["--optimizer"]}


# ---------------------------------------------------------------- AxoNN

AXONN = """--row-tensor-model-parallel-size --column-tensor-model-parallel-size
  --depth-tensor-model-parallel-size --pipeline-model-parallel-size --overlap-axonn-comm
  --overlap-axonn-reduce-scatter --overlap-axonn-all-gather --micro-batch-size --global-batch-size
  --seq-length --recompute-granularity --recompute-method --bf16 --fp16 --optimizer --use-flash-attn
  --num-layers --hidden-size --ffn-hidden-size --num-attention-heads --kv-channels
  --group-query-attention --num-query-groups --max-position-embeddings --position-embedding-type
  --normalization --swiglu --squared-relu --untie-embeddings-and-output-weights --hidden-dropout
  --attention-dropout""".split()


def read_axonn(words, environment, world):
    f = flags_of(words, AXONN)
    rows, columns, depth = (int(f[f"--{axis}-tensor-model-parallel-size"]) for axis in ("row", "column", "depth"))
    pp = int(f["--pipeline-model-parallel-size"])
    dp = world // (rows * columns * depth * pp)
    assert environment["CUDA_DEVICE_MAX_CONNECTIONS"] == "1"
    assert ("--recompute-method" in f) == ("--recompute-granularity" in f)
    # The depth axis gets sequences of its own.
    batch, micro_batch = int(f["--global-batch-size"]), int(f["--micro-batch-size"])
    assert micro_batch % depth == 0 and batch % (dp * micro_batch) == 0
    assert ("--overlap-axonn-comm" in f) == (rows * columns * depth > 1)
    assert ("--overlap-axonn-all-gather" in f) == ("--overlap-axonn-reduce-scatter" in f) == (depth > 1)
    return {"tp_x": columns, "tp_y": rows, "tp_z": depth, "pp": pp, "dp": dp, "gpus": world, "cp": 1,
            "cp_kind": "ring", "zero": 0, "micro_batch": micro_batch // depth, "batch": batch,
            "micro_batches": batch // dp // micro_batch, "seq_len": int(f["--seq-length"]),
            "recompute": f.get("--recompute-granularity", "none"),
            "precision": "bf16" if "--bf16" in f else "fp16" if "--fp16" in f else "fp32",
            "attention": "flash" if "--use-flash-attn" in f else "unfused", "optimizer": f["--optimizer"]}


# ---------------------------------------------------------------- torchtitan

TITAN_SCHEDULES = {"GPipe": "gpipe", "1F1B": "1f1b", "Interleaved1F1B": "interleaved",
                   "LoopedBFS": "breadth-first", "ZBVZeroBubble": "zb-v", "DualPipeV": "dualpipe-v"}
TITAN = """--module --config --training.max_context_length
  --training.num_tokens_per_microbatch_per_dp_rank --training.num_tokens_per_train_step
  --training.mixed_precision_param --training.disable_cuda_graphs --training.enable_cpu_offload --parallelism.data_parallel_replicate_degree
  --parallelism.data_parallel_shard_degree --parallelism.fsdp_reshard_after_forward
  --parallelism.tensor_parallel_degree --parallelism.enable_sequence_parallel
  --parallelism.no_enable_sequence_parallel --parallelism.context_parallel_degree
  --parallelism.expert_parallel_degree --parallelism.pipeline_parallel_degree
  --parallelism.pipeline_parallel_schedule --parallelism.num_pp_microbatches
  --parallelism.pipeline_parallel_layers_per_stage --compile.enable
  --compile.enable_async_tensor_parallel activation-checkpoint:none
  activation-checkpoint:selective activation-checkpoint:full""".split()


def read_torchtitan(words, world):
    f = flags_of(words, TITAN)
    p = {name.removeprefix("--parallelism."): value for name, value in f.items()}
    replicas = int(p["data_parallel_replicate_degree"])
    shards = int(p["data_parallel_shard_degree"])
    tp, cp, pp = (int(p[f"{kind}_parallel_degree"]) for kind in ("tensor", "context", "pipeline"))
    dp = replicas * shards
    assert dp * tp * cp * pp == world
    assert [w for w in words if w.startswith("activation-checkpoint:")] == words[-1:]
    seq_len = int(f["--training.max_context_length"])
    micro_batch = int(f["--training.num_tokens_per_microbatch_per_dp_rank"]) // seq_len
    batch = int(f["--training.num_tokens_per_train_step"]) // seq_len
    micro_batches = batch // (dp * micro_batch)
    result = {"dp": dp, "tp": tp, "cp": cp, "pp": pp, "gpus": world, "seq_len": seq_len,
              "zero": 2 if p["fsdp_reshard_after_forward"] == "never" else 3, "cp_kind": "ring",
              "shard_group": shards if replicas > 1 else 0, "micro_batch": micro_batch,
              "batch": batch, "micro_batches": micro_batches,
              "sp": "enable_sequence_parallel" in p, "ep": int(p.get("expert_parallel_degree", 1)),
              "recompute": words[-1].split(":")[1],
              "precision": {"bfloat16": "bf16", "float32": "fp32"}[
                  f["--training.mixed_precision_param"]]}
    if pp > 1:
        assert int(p["num_pp_microbatches"]) == micro_batches
        result["schedule"] = TITAN_SCHEDULES[p["pipeline_parallel_schedule"]]
        result["layers_per_stage"] = int(p.get("pipeline_parallel_layers_per_stage", 0))
    return result


TITAN_TOML = """model.name model.flavor training.enable_cpu_offload training.seq_len training.local_batch_size
  training.global_batch_size training.mixed_precision_param
  parallelism.data_parallel_replicate_degree parallelism.data_parallel_shard_degree
  parallelism.fsdp_reshard_after_forward parallelism.tensor_parallel_degree
  parallelism.context_parallel_degree parallelism.context_parallel_rotate_method
  parallelism.expert_parallel_degree parallelism.pipeline_parallel_degree
  parallelism.pipeline_parallel_schedule parallelism.pipeline_parallel_microbatch_size
  parallelism.module_fqns_per_model_part activation_checkpoint.mode
  activation_checkpoint.selective_ac_option compile.enable
  parallelism.enable_async_tensor_parallel""".split()


def read_torchtitan_toml(text, world):
    c = flat(tomllib.loads(text))
    check_known(c, TITAN_TOML)
    p = {name.removeprefix("parallelism."): value for name, value in c.items()}
    replicas, shards = p["data_parallel_replicate_degree"], p["data_parallel_shard_degree"]
    tp, cp, pp = (p[f"{kind}_parallel_degree"] for kind in ("tensor", "context", "pipeline"))
    dp = replicas * shards
    assert dp * tp * cp * pp == world
    local, batch = c["training.local_batch_size"], c["training.global_batch_size"]
    micro_batch = p.get("pipeline_parallel_microbatch_size", local)
    recompute = c["activation_checkpoint.mode"]
    if recompute == "selective":
        assert c["activation_checkpoint.selective_ac_option"] == "op"
    assert p.get("context_parallel_rotate_method", "alltoall") == "alltoall"
    result = {"dp": dp, "tp": tp, "cp": cp, "pp": pp, "gpus": world, "cp_kind": "ring",
              "seq_len": c["training.seq_len"], "micro_batch": micro_batch, "batch": batch,
              "micro_batches": batch // (dp * micro_batch), "recompute": recompute,
              "zero": 2 if p["fsdp_reshard_after_forward"] == "never" else 3,
              "shard_group": shards if replicas > 1 else 0, "ep": p.get("expert_parallel_degree", 1),
              "precision": {"bfloat16": "bf16", "float32": "fp32"}[
                  c["training.mixed_precision_param"]]}
    if pp > 1:
        # One pass of a pipeline is one step: no accumulation beside it.
        assert local == micro_batch * result["micro_batches"]
        stages = p["module_fqns_per_model_part"]
        assert stages[0][0] == "tok_embeddings" and stages[-1][-2:] == ["norm", "output"]
        names = [name for stage in stages for name in stage if name.startswith("layers.")]
        assert names == [f"layers.{i}" for i in range(len(names))]
        result["schedule"] = TITAN_SCHEDULES[p["pipeline_parallel_schedule"]]
        result["vpp"] = len(stages) // pp
        result["layers"] = [sum(name.startswith("layers.") for name in stage) for stage in stages]
    return result


# ---------------------------------------------------------------- nanotron

NANOTRON = """general.project general.run general.seed parallelism.dp parallelism.pp
  parallelism.pp_engine parallelism.tp parallelism.tp_mode
  parallelism.tp_linear_async_communication parallelism.context_parallel_size
  parallelism.expert_parallel_size parallelism.recompute_layer tokens.sequence_length
  tokens.micro_batch_size tokens.batch_accumulation_per_replica tokens.train_steps
  optimizer.zero_stage optimizer.accumulate_grad_in_fp32 optimizer.optimizer_factory.name
  optimizer.optimizer_factory.adam_beta1 optimizer.optimizer_factory.adam_beta2
  optimizer.optimizer_factory.adam_eps optimizer.optimizer_factory.torch_adam_is_fused
  optimizer.weight_decay optimizer.clip_grad optimizer.learning_rate_scheduler.learning_rate
  optimizer.learning_rate_scheduler.lr_warmup_steps
  optimizer.learning_rate_scheduler.lr_warmup_style
  optimizer.learning_rate_scheduler.lr_decay_style data_stages model.dtype model.init_method.std
  model.make_vocab_size_divisible_by""".split()
NANOTRON_MODEL = """is_llama_config is_qwen2_config _attn_implementation attention_bias hidden_act
  hidden_size intermediate_size max_position_embeddings num_attention_heads num_key_value_heads
  num_hidden_layers tie_word_embeddings vocab_size rope_theta rms_norm_eps""".split()


def read_nanotron(text, world):
    c = flat(yaml_of(text))
    check_known(c, NANOTRON + [f"model.model_config.{name}" for name in NANOTRON_MODEL])
    m = {name.removeprefix("model.model_config."): value for name, value in c.items()}
    dp, pp, tp = (c[f"parallelism.{kind}"] for kind in ("dp", "pp", "tp"))
    cp = c["parallelism.context_parallel_size"]
    assert dp * pp * tp * cp == world
    assert ("is_llama_config" in m) != ("is_qwen2_config" in m)
    assert m["_attn_implementation"] == ("ring_flash_triton" if cp > 1 else "flash_attention_2")
    spread = c["parallelism.tp_mode"] == "REDUCE_SCATTER"
    assert spread or not c["parallelism.tp_linear_async_communication"]
    micro_batch = c["tokens.micro_batch_size"]
    micro_batches = c["tokens.batch_accumulation_per_replica"]
    h, heads, groups = m["hidden_size"], m["num_attention_heads"], m["num_key_value_heads"]
    d = h // heads
    layer = 2 * h * h + 2 * h * groups * d + 3 * h * m["intermediate_size"] + 2 * h
    layer += (heads + 2 * groups) * d if m["attention_bias"] else 0
    parameters = m["vocab_size"] * h * (1 if m["tie_word_embeddings"] else 2)
    parameters += m["num_hidden_layers"] * layer + h
    return {"dp": dp, "pp": pp, "tp": tp, "cp": cp, "cp_kind": "ring", "gpus": world,
            "ep": c["parallelism.expert_parallel_size"], "zero": c["optimizer.zero_stage"],
            "sp": spread, "micro_batch": micro_batch, "micro_batches": micro_batches,
            "batch": dp * micro_batch * micro_batches, "seq_len": c["tokens.sequence_length"],
            "recompute": "full" if c["parallelism.recompute_layer"] else "none",
            "schedule": {"1f1b": "1f1b", "afab": "gpipe"}[c["parallelism.pp_engine"]],
            "precision": {"bfloat16": "bf16", "float32": "fp32"}[c["model.dtype"]],
            "optimizer": {"adamW": "adam", "sgd": "sgd"}[c["optimizer.optimizer_factory.name"]],
            "parameters": parameters}


# ---------------------------------------------------------------- accelerate

ACCELERATE = """compute_environment distributed_type mixed_precision num_machines num_processes
  machine_rank rdzv_backend same_network main_training_function fsdp_config.fsdp_version
  fsdp_config.fsdp_reshard_after_forward fsdp_config.fsdp_auto_wrap_policy
  fsdp_config.fsdp_activation_checkpointing fsdp_config.fsdp_offload_params
  fsdp_config.fsdp_cpu_ram_efficient_loading fsdp_config.fsdp_state_dict_type
  parallelism_config.parallelism_config_dp_replicate_size
  parallelism_config.parallelism_config_dp_shard_size parallelism_config.parallelism_config_tp_size
  parallelism_config.parallelism_config_cp_size parallelism_config.parallelism_config_cp_backend
  parallelism_config.parallelism_config_cp_comm_strategy""".split()


def read_accelerate(text, world):
    c = flat(yaml_of(text))
    check_known(c, ACCELERATE)
    p = {name.removeprefix("parallelism_config.parallelism_config_"): value
         for name, value in c.items()}
    replicas, shards, tp, cp = p["dp_replicate_size"], p["dp_shard_size"], p["tp_size"], p["cp_size"]
    assert replicas * shards * tp * cp == c["num_processes"] == world
    assert c["distributed_type"] == "FSDP" and c["fsdp_config.fsdp_version"] == 2
    header = [line.removeprefix("# ") for line in text.splitlines() if line.startswith("# ")]
    return {"dp": replicas * shards, "tp": tp, "cp": cp, "cp_kind": "ring", "gpus": world,
            "shard_group": shards if replicas > 1 else 0,
            "zero": 3 if c["fsdp_config.fsdp_reshard_after_forward"] else 2,
            "recompute": "full" if c["fsdp_config.fsdp_activation_checkpointing"] else "none",
            "precision": c["mixed_precision"].replace("no", "fp32"), **script_settings(header)}


def read_alpa(text):
    """The calls of the module, by class: {"PipeshardParallel": {"num_micro_batches": 8, ...}, "init": ...}."""
    def recorder(name, known):
        def call(**arguments):
            if set(arguments) != set(known.split()):
                raise Unknown(f"{name}{sorted(arguments)}")
            calls[name] = arguments
            return arguments
        return call

    calls = {}
    alpa = types.SimpleNamespace(**{name: recorder(name, known) for name, known in {
        "init": "cluster num_nodes num_devices_per_node", "AutoShardingOption": "prefer_reduce_scatter",
        "ManualLayerOption": "remat_layer", "PipeshardParallel": "num_micro_batches pipeline_schedule default_auto_sharding_option "
        "layer_option stage_option", "ManualStageOption": "forward_stage_layer_ids submesh_physical_shapes submesh_logical_shapes "
        "submesh_autosharding_option_dicts"}.items()})
    nodes = []  # one joins whenever somebody asks

    def joined():
        nodes.append({"Alive": True})
        return nodes

    stand_ins = {"alpa": alpa, "ray": types.SimpleNamespace(init=recorder("ray.init", "address namespace"), nodes=joined),
                 "time": types.SimpleNamespace(sleep=lambda _: None)}
    with mock.patch.dict(sys.modules, stand_ins):
        members = {}
        exec(compile(text, "alpa_plan.py", "exec"), members)
    assert members["parallel_method"] is calls["PipeshardParallel"]
    assert len(nodes) == calls["init"]["num_nodes"]
    return calls
