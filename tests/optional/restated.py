# SPDX-License-Identifier: Apache-2.0
"""What frameworks ask of a plan, restated from their sources and from nothing else of this repository.

Each function takes a plan (the `config` of a result, with the `layers` of its stages where they are
known), the model file and the question, and yields a sentence for every condition that does not hold.
"""


def facts(model, question):
    a = model.get("attention", {})
    heads = a.get("heads", 0)
    latent = "latent" in a
    window = a.get("window")
    experts = model.get("experts") or {}
    return {
        "heads": heads,
        "kv": 0 if latent else a.get("kv_heads", heads),
        "layers": model["layers"],
        "window": window is not None and window < question["seq_len"],
        "sinks": a.get("sinks", False),
        "bias": a.get("positions") == "relative",
        "experts": experts.get("count", 0),
        "expert_bias": experts.get("bias", False),
        "tied": model.get("embedding", {}).get("tied", False),
        "flash": all(s["value"] == "flash" for s in question["settings"] if s["key"] == "attention"),
    }


def common(p, f, q):
    if p["dp"] * p["tp"] * p["pp"] * p["cp"] != q["gpus"]:
        yield "degrees do not multiply to the world"
    if q["global_batch"] != p["micro_batch"] * p["micro_batches"] * p["dp"] * p["tp_z"]:
        yield "batch is not micro-batch x micro-batches x dp"
    if f["heads"] % p["tp_y"]:
        yield "heads % tp"
    if f["experts"] and f["experts"] % p["ep"] or not f["experts"] and p["ep"] * p["etp"] > 1:
        yield "experts % ep"
    if (p["dp"] * p["cp"] * p["tp"]) % (p["ep"] * p["etp"]):
        yield "ranks of a stage % (ep etp)"
    if "layers" in p and (sum(p["layers"]) != f["layers"] or len(p["layers"]) != p["pp"]):
        yield f"stages hold {p['layers']}, not {f['layers']} layers"
    if p["shard_group"] and p["dp"] % p["shard_group"]:
        yield "dp % shard group"


def megatron(p, f, q):
    """validate_args, TransformerConfig.__post_init__, MoELayer.forward, schedules, and Transformer
    Engine's attn_forward_func_with_cp, AttnFuncWithCPAndQKVOA2A, get_attention_backend."""
    tp, cp, pp, vpp, m = p["tp"], p["cp"], p["pp"], p["vpp"], p["micro_batches"]
    if p["tp_x"] * p["tp_z"] != 1:
        yield "two more tensor axes"
    if f["kv"] and f["kv"] % tp and tp % f["kv"]:
        yield "key/value heads neither multiple nor divisor of tp"
    if cp > 1 and q["seq_len"] % (2 * cp):
        yield "sequence % 2 cp"
    if p["sp"] and q["seq_len"] % (cp * tp):
        yield "sequence % (cp tp)"
    if f["experts"] and tp > 1 and not p["sp"]:
        yield "experts and tp without sp"
    if f["expert_bias"] and p["etp"] > 1:
        yield "experts with biases and etp"
    if vpp > 1 and (pp < 2 or m < pp or 0 < m % pp < pp):
        yield "interleaved groups"
    pairs = p["schedule"] in ("pairs", "interleaved-pairs")
    if p["schedule"] not in (("interleaved", "interleaved-pairs") if vpp > 1 else ("1f1b", "pairs")):
        yield "schedule"
    if pairs and (p["ep"] < 2 or pp > 1 and vpp < 2):
        yield "overlap_moe_expert_parallel_comm without experts or chunks"
    if pairs and (p["recompute"] == "full" or "moe" in p.get("recompute_modules", "").replace("+", ",").split(",")):
        yield "overlap_moe_expert_parallel_comm with experts that run again"
    if pairs and p.get("dispatcher") == "all-gather":
        yield "overlap_moe_expert_parallel_comm with gathered tokens"
    if p["zero"] > 1 and pp > 1:
        yield "FSDP with stages"
    if cp > 1 and not f["flash"]:
        yield "cp with unfused attention"
    if cp > 1 and p["cp_kind"] == "ring" and (f["window"] or f["sinks"]):
        yield "p2p with a window or sinks"
    if cp > 1 and p["cp_kind"] == "ulysses":
        per_rank = [max(1, heads // tp) for heads in (f["heads"], f["kv"]) if heads]
        if any(heads % cp or heads % 2 for heads in per_rank) or f["bias"]:
            yield "a2a heads of a tensor rank % cp"


def torchtitan(p, f, q):
    """ParallelDims, Decoder.update_from_config, Trainer.__init__, pipeline metadata, torch schedules."""
    tp, cp, pp, vpp, m = p["tp"], p["cp"], p["pp"], p["vpp"], p["micro_batches"]
    if f["kv"] and f["kv"] % tp:
        yield "key/value heads % tp"
    if q["seq_len"] * p["micro_batch"] % ((tp if p["sp"] else 1) * (2 * cp if cp > 1 else 1)):
        yield "tokens % (tp 2 cp)"
    if f["tied"] and pp > 1:
        yield "tied embeddings with stages"
    if p["etp"] > 1:
        yield "no expert tensor degree"
    if p["zero"] < 2 and p["dp"] * cp > 1:
        yield "FSDP2 shards"
    if cp > 1 and p["cp_kind"] != "ring":
        yield "no all-to-all"
    if pp > 1:
        if pp * vpp > f["layers"] + 2:
            yield "more stages than effective layers"
        single = p["schedule"] in ("1f1b", "gpipe")
        if single != (vpp == 1) or p["schedule"] in ("zb-v", "dualpipe-v") and vpp != 2:
            yield "chunks of the schedule"
        if p["schedule"] == "1f1b" and m < pp:
            yield "1F1B micro-batches"
        if p["schedule"] == "dualpipe-v" and m < 2 * pp:
            yield "DualPipeV micro-batches"
        if p["schedule"] == "interleaved" and m % max(1, m // pp):
            yield "rounds"


def deepspeed(p, f, q):
    if p["tp"] > 1 and q["framework"] == "deepspeed":
        yield "no tensor parallelism"
    if p["zero"] > 1 and p["pp"] > 1:
        yield "PipelineEngine with ZeRO 2 or 3"
    if p["zero"] > 2 and f["experts"]:
        yield "experts with ZeRO-3"
    if p["vpp"] > 1 or p["schedule"] != "1f1b":
        yield "TrainSchedule"
    if p["cp"] > 1:
        if p["cp_kind"] != "ulysses":
            yield "no ring"
        if p["pp"] > 1:
            yield "sequence parallelism with stages"
        if f["heads"] % p["cp"] or f["kv"] and f["kv"] % p["cp"] and p["cp"] % f["kv"]:
            yield "heads % cp"
        if q["seq_len"] % p["cp"]:
            yield "sequence % cp"
    if p["shard_group"] and p["shard_group"] < p["dp"] and p["zero"] < 3:
        yield "shard group below ZeRO-3"


def megatron_deepspeed(p, f, q):
    yield from deepspeed(p, f, q)
    if f["kv"] and f["kv"] % p["tp"]:
        yield "key/value heads % tp"
    if p["cp"] > 1 and p["tp"] * p["pp"] > 1:
        yield "sequence parallelism with tp or pp"
    if p["cp"] > 1 and f["kv"] != f["heads"]:
        yield "sequence parallelism of grouped heads"


def nanotron(p, f, q):
    """Config.__post_init__, ParallelContext, Llama attention, OneForwardOneBackward, trainer."""
    if f["kv"] and f["kv"] % p["tp"]:
        yield "key/value heads % tp"
    if p["cp"] > 1:
        yield "initialised with cp"
    if p["ep"] > 1:
        yield "ep is no factor of the world"
    if p["pp"] > 1 and p["schedule"] == "1f1b" and p["micro_batches"] < p["pp"] - 1:
        yield "1F1B micro-batches"
    if p["zero"] > 1 or p["vpp"] > 1 or p["schedule"] not in ("1f1b", "gpipe"):
        yield "ZeRO, chunks or schedule"


def maxtext(p, f, q):
    """MaxTextConfig validators, attention_op and max_utils on GPUs, jit shardings."""
    if p["pp"] > 1 and (f["layers"] % (p["pp"] * p["vpp"]) or p["micro_batches"] % p["pp"]):
        yield "layers or micro-batches % stages"
    if p["cp"] > 1:
        if p["cp_kind"] != "ring" or p["cp"] % 2 or q["seq_len"] % (2 * p["cp"]) or f["window"]:
            yield "context parallelism"
    if f["kv"] and f["kv"] % p["tp"]:
        yield "key/value heads % tp"
    if f["sinks"] and f["flash"]:
        yield "sinks"
    if q["precision"] == "fp8" and p["pp"] == 1 and p["micro_batches"] > 1:
        yield "fp8 accumulation"


FRAMEWORKS = {"megatron": megatron, "megatron-2026": megatron, "torchtitan": torchtitan, "deepspeed": deepspeed,
              "megatron-deepspeed": megatron_deepspeed, "nanotron": nanotron, "maxtext": maxtext}


def broken(config, model, question):
    f = facts(model, question)
    return list(common(config, f, question)) + list(FRAMEWORKS[question["framework"]](config, f, question))
