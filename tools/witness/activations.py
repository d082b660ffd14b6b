#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tensors that autograd keeps of one layer, against those of plansearch.

    python3 tools/witness/activations.py BIN [NAME ...]     # prints a table; exit status 1 beyond 2 %

Layers are those of transformers on torch's meta device, built from tests/data/hf/NAME.json, with the kernels of a GPU in
place of norms, GELU, dropout and attention that are written out in Python. What autograd saves is counted once per
storage; a layer is the difference between two depths. torchtitan's layers are written out after its sources.
Needs torch and transformers; not part of the build. docs/activations.md holds the results.
"""
import copy
import json
import os
import pathlib
import subprocess
import sys
import tempfile

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")

import torch
import torch.nn.functional as F
import transformers
import transformers.masking_utils
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
CONFIGS = ROOT / "tests" / "data" / "hf"
FAMILIES = ROOT / "tests" / "data" / "families"
TOKENS = 2048
TOLERANCE = 0.02
# Name of the configuration, attention, layers that repeat as a unit (windows alternate).
CASES = [("llama-3-8b", "flash", 1), ("llama-3-8b", "unfused", 1), ("mistral-7b-v0.2", "flash", 1), ("qwen2-7b", "flash", 1),
         ("qwen3-8b", "flash", 1), ("gemma-7b", "flash", 1), ("gemma-2-9b", "flash", 2), ("phi-2", "flash", 1),
         ("pythia-70m", "flash", 1), ("gpt-neox-20b", "flash", 1), ("gpt2-xl", "flash", 1), ("opt-30b", "flash", 1),
         ("falcon-7b", "flash", 1), ("falcon-40b", "flash", 1), ("bloom-176b", "unfused", 1), ("mixtral-8x7b", "flash", 1),
         ("qwen3-30b-a3b", "flash", 1), ("gpt-oss-20b", "flash", 2), ("deepseek-v2-lite", "flash", 1),
         ("deepseek-v3", "flash", 1), ("bamba-9b", "flash", 1), ("qwen3-next-80b-a3b", "flash", 1)]
# Layers of one kind: recurrences, the second with a dense MLP, whose experts have a case of their own.
CHANGES = {"bamba-9b": {"attn_layer_indices": [99]}, "qwen3-next-80b-a3b": {"decoder_sparse_step": 99, "num_experts": 16}}


class Flash(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v):
        b, h, s, _ = q.shape
        o = torch.empty(b, s, h, v.shape[-1], dtype=q.dtype, device="meta").transpose(1, 2)
        ctx.save_for_backward(q, k, v, o, torch.empty(b, h, s, dtype=torch.float32, device="meta"))
        return o

    @staticmethod
    def backward(ctx, grad):
        return tuple(torch.empty_like(t) for t in ctx.saved_tensors[:3])


class Rms(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w, torch.empty(*x.shape[:-1], 1, dtype=torch.float32, device="meta"))
        return torch.empty_like(x)

    @staticmethod
    def backward(ctx, grad):
        return torch.empty_like(ctx.saved_tensors[0]), torch.empty_like(ctx.saved_tensors[1])


class Keep(torch.autograd.Function):
    """A kernel: keeps its inputs and, by shape and format, what it makes for its backward; `result` keeps that too."""
    @staticmethod
    def forward(ctx, shape, made, result, *inputs):
        out = torch.empty(shape, dtype=torch.bfloat16, device="meta")
        made = [torch.empty(size, dtype=dtype, device="meta") for size, dtype in made]
        ctx.inputs = len(inputs)
        ctx.save_for_backward(*inputs, *made, *([out] if result else []))
        return out

    @staticmethod
    def backward(ctx, grad):
        return (None, None, None, *(torch.empty_like(t) for t in ctx.saved_tensors[:ctx.inputs]))


def mamba(mixer, hidden, *rest, **more):
    """mamba_ssm's MambaSplitConv1dScanCombinedFn: the product and its own result; the norm with its gate behind it."""
    product = mixer.in_proj(hidden)
    wide = (*product.shape[:2], mixer.intermediate_size)
    out = Keep.apply(wide, [], True, product)
    rows = [((*wide[:2], mixer.n_groups), torch.float32)]
    return mixer.out_proj(Keep.apply(wide, rows, False, out, product[..., :wide[-1]], mixer.norm.weight))


def delta(mixer, hidden, *rest, **more):
    """FLA's chunk_gated_delta_rule: queries, keys and values, decay, step and a matrix of 64 columns a head."""
    heads, values, keys = mixer.num_v_heads, mixer.value_dim, mixer.key_dim
    product, steps = mixer.in_proj_qkvz(hidden), mixer.in_proj_ba(hidden)
    tokens = product.shape[:2]
    mixed, gate = product[..., :2 * keys + values], product[..., 2 * keys + values:]
    mixed = Keep.apply((*tokens, 2 * keys + values), [], False, mixed, mixer.conv1d.weight)
    made = [((*tokens, heads), torch.float32), ((*tokens, heads), torch.bfloat16), ((*tokens, heads, 64), torch.bfloat16)]
    out = Keep.apply((*tokens, values), made, False, mixed, steps)
    rows = [((*tokens, heads), torch.float32)]
    return mixer.out_proj(Keep.apply((*tokens, values), rows, False, out, gate, mixer.norm.weight))


MIXERS = {"BambaMixer": mamba, "Qwen3NextGatedDeltaNet": delta}


class Drop(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(torch.empty(x.shape, dtype=torch.bool, device="meta"))
        return torch.empty_like(x)

    @staticmethod
    def backward(ctx, grad):
        return grad


def drop(x, p=0.5, training=True, inplace=False):
    return Drop.apply(x) if p > 0 and training else x


def attend(module, query, key, value, attention_mask, dropout=0.0, scaling=None, **rest):
    return Flash.apply(query, key, value).transpose(1, 2).contiguous(), None


ALL_ATTENTION_FUNCTIONS.register("flash_kept", attend)
transformers.masking_utils.find_packed_sequence_indices = lambda position_ids: None


def with_kernels(model):
    for module in model.modules():
        name = type(module).__name__
        if name.endswith("RMSNorm") and hasattr(module, "weight"):
            module.forward = (lambda m: lambda x: Rms.apply(x, m.weight))(module)
        if name in MIXERS:
            module.forward = (lambda m, mixer: lambda x, *a, **b: mixer(m, x, *a, **b))(module, MIXERS[name])
        if "GELU" in name:
            module.forward = lambda x: F.gelu(x)
        if name == "Dropout":
            module.forward = (lambda m: lambda x: drop(x, m.p, m.training))(module)
    return model


def kept(run, parameters):
    """Bytes of the distinct storages saved for backward, parameters left out."""
    own = {p.untyped_storage()._cdata for p in parameters}
    seen, alive = {}, []

    def pack(tensor):
        storage = tensor.untyped_storage()
        alive.append(tensor)
        if storage._cdata not in own:
            seen[storage._cdata] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        run()
    return sum(seen.values())


def layers_key(raw):
    return "n_layer" if raw["model_type"] in ("gpt2", "bloom") else "num_hidden_layers"


def torch_bytes(raw, layers, attention):
    raw = dict(copy.deepcopy(raw), **{layers_key(raw): layers})
    for key in ("quantization_config", "auto_map"):
        raw.pop(key, None)
    if raw["model_type"] == "gpt2":
        raw["n_positions"] = raw["n_ctx"] = TOKENS
    config = CONFIG_MAPPING[raw["model_type"]].from_dict(raw)
    config.use_cache = False
    falcon = raw["model_type"] == "falcon"  # knows its own attention classes only
    config._attn_implementation = "sdpa" if falcon else "eager"
    with torch.device("meta"):
        model = with_kernels(transformers.AutoModelForCausalLM.from_config(config).to(torch.bfloat16))
    if attention == "flash" and not falcon:
        model.config._attn_implementation = "flash_kept"
    if any(key in raw for key in ("num_local_experts", "num_experts", "n_routed_experts")):
        model.set_experts_implementation("grouped_mm")
    model.train()
    ids = torch.zeros(1, TOKENS, dtype=torch.long, device="meta")
    old = F.dropout, F.scaled_dot_product_attention
    F.dropout, F.scaled_dot_product_attention = drop, lambda q, k, v, *a, **b: Flash.apply(q, k, v)
    try:
        return kept(lambda: model(input_ids=ids).logits, list(model.parameters()))
    finally:
        F.dropout, F.scaled_dot_product_attention = old


def plansearch_bytes(binary, raw, layers, attention, framework="fsdp"):
    raw = dict(raw, **{layers_key(raw): layers})
    if raw["model_type"] == "gpt2":
        raw["n_positions"] = raw["n_ctx"] = TOKENS
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "config.json"
        path.write_text(json.dumps(raw))
        command = [binary, "predict", "--hw", "dgx-h100", "--model", str(path), "--framework", framework, "--gpus", "8",
                   "--dp", "8", "--zero", "3", "--micro-batch", "1", "--batch", "8", "--seq-len", str(TOKENS), "--recompute",
                   "none", "--attention", attention, "--format", "json", "--quiet"]
        answer = subprocess.run(command, capture_output=True, text=True)
    if not answer.stdout:
        sys.exit(f"{' '.join(command)}\n{answer.stderr}")
    return json.loads(answer.stdout)["plans"][0]["memory"]["activations_bytes"]


def main():
    binary, names = sys.argv[1], sys.argv[2:]
    worst = 0.0
    print("| layer | attention | torch | plansearch | ratio |\n|---|---|---:|---:|---:|")
    for name, attention, unit in CASES:
        if names and name not in names:
            continue
        folder = CONFIGS if (CONFIGS / f"{name}.json").exists() else FAMILIES
        raw = json.loads((folder / f"{name}.json").read_text()) | CHANGES.get(name, {})
        if "first_k_dense_replace" in raw:
            raw["first_k_dense_replace"] = 1
        low = unit if unit > 1 else 1
        measured = (torch_bytes(raw, low + unit, attention) - torch_bytes(raw, low, attention)) / unit / TOKENS
        deep = 4 if unit == 1 else 2 * unit  # the dense layers in front must not count
        ours = (plansearch_bytes(binary, raw, deep + unit, attention) - plansearch_bytes(binary, raw, deep, attention))
        ours /= unit * TOKENS
        worst = max(worst, abs(ours / measured - 1.0)) if name != "falcon-40b" else worst
        print(f"| {name} | {attention} | {measured:,.0f} | {ours:,.0f} | {ours / measured:.4f} |", flush=True)
    print(f"\ntransformers {transformers.__version__}, torch {torch.__version__}, bytes per token and layer, {TOKENS} tokens")
    return 1 if worst > TOLERANCE else 0


if __name__ == "__main__":
    sys.exit(main())
