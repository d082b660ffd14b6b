#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Parameters of every test configuration, and forward FLOPs of its first layers, by transformers and torch,
against plansearch.

Optional: needs torch and transformers (requirements.txt). README.md beside this file says how to run it."""
import argparse
import copy
import csv
import datetime
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import warnings

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
warnings.filterwarnings("ignore")

ROOT = pathlib.Path(__file__).resolve().parents[2]
FAMILIES = ROOT / "tests/data/families"
COUNTS = FAMILIES / "counts.csv"
PAGE = ROOT / "docs/models_recounted.md"
COLUMNS = ["config", "model_type", "class", "parameters", "sequence", "layers", "forward_flops", "date", "transformers", "torch"]
# Class by which a family is counted, where it is not AutoModelForCausalLM; models/families says so too.
CLASSES = {"bert": "BertModel", "vit": "ViTForImageClassification", "t5": "T5ForConditionalGeneration",
           "mt5": "MT5ForConditionalGeneration", "mbart": "MBartForConditionalGeneration",
           "bart": "BartForConditionalGeneration", "roberta": "RobertaForMaskedLM",
           "xlm-roberta": "XLMRobertaForMaskedLM", "modernbert": "ModernBertForMaskedLM",
           "distilbert": "DistilBertForMaskedLM", "whisper": "WhisperForConditionalGeneration"}
ALIAS = {"kimi_k2": "deepseek_v3", "mimo": "qwen2"}  # code that lies beside its checkpoint: the same network


def text_part(raw):
    raw = copy.deepcopy(raw)
    inner = raw.pop("text_config", None)
    if inner is not None:
        inner.setdefault("model_type", raw["model_type"] + "_text")
        if "tie_word_embeddings" in raw:
            inner["tie_word_embeddings"] = raw["tie_word_embeddings"]
        raw = inner
    if "model_type" in raw:
        raw["model_type"] = ALIAS.get(raw["model_type"], raw["model_type"])
    if "attn_type_list" in raw:  # MiniMax's own name
        raw["layer_types"] = ["full_attention" if full else "linear_attention" for full in raw["attn_type_list"]]
    for key in ("quantization_config", "auto_map", "compression_config", "torch_dtype", "dtype"):
        raw.pop(key, None)
    return raw


def shorten(config, layers):
    """The first layers of every stack, as many as there are: enough for every pattern, and torch is quick."""
    for key in ("num_hidden_layers", "num_decoder_layers", "decoder_layers"):
        if getattr(config, key, None):
            setattr(config, key, min(layers, getattr(config, key)))
    if getattr(config, "layer_types", None):
        config.layer_types = config.layer_types[:layers]


def build(raw, layers=None):
    import torch
    import transformers
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING
    if "_class_name" in raw:
        import diffusers
        with torch.device("meta"):
            return getattr(diffusers, raw["_class_name"]).from_config(raw)
    if raw["model_type"] == "step3p5":
        from transformers.models.step3p7 import modeling_step3p7  # noqa: F401 - has no automatic class
        from transformers.models.step3p7.configuration_step3p7 import Step3p7TextConfig
        return build_vl(raw, Step3p7TextConfig(**{k: v for k, v in raw.items() if k != "model_type"}))
    config = CONFIG_MAPPING[raw["model_type"]].from_dict(raw)
    if layers is not None:
        shorten(config, layers)
    if raw["model_type"] in ("qwen3_vl_text", "qwen3_vl_moe_text", "qwen2_5_vl_text", "qwen2_vl_text"):
        return build_vl(raw, config)
    name = CLASSES.get(raw["model_type"])
    error = None
    for attention in ("sdpa", "eager"):
        config._attn_implementation = attention
        try:
            with torch.device("meta"):
                if name is None:
                    return transformers.AutoModelForCausalLM.from_config(config)
                model = getattr(transformers, name)(config)
                if raw["model_type"] in ("t5", "mt5") and not raw.get("tie_word_embeddings", True):
                    # transformers 5 ties every head of the family; the published checkpoints of v1.1 and mT5 have their own.
                    model.lm_head = torch.nn.Linear(config.d_model, config.vocab_size, bias=False)
                return model
        except ValueError as problem:
            error = problem
    raise error


def build_vl(raw, config):
    """The language part of a vision-language network: its text model and a head."""
    import torch
    import transformers
    name = type(config).__name__.replace("TextConfig", "TextModel")
    module = sys.modules[type(config).__module__.replace("configuration_", "modeling_")] if not hasattr(transformers, name) else transformers
    with torch.device("meta"):
        model = torch.nn.Module()
        model.text = getattr(module, name)(config)
        if not raw.get("tie_word_embeddings", False):
            model.lm_head = torch.nn.Linear(config.hidden_size, config.vocab_size, bias=False)
    model.config = config
    model.forward_of = lambda ids: model.lm_head(model.text(input_ids=ids).last_hidden_state)
    return model


def parameters(model):
    """Trained and balancing parameters, tied ones once."""
    extra = sum(b.numel() for n, b in model.named_buffers() if "correction_bias" in n)
    return sum(p.numel() for p in model.parameters()) + extra


def visible(config, s):
    """Share of the s x s pairs that mask and windows leave, mean over the layers."""
    causal = config.model_type not in ("bert", "vit", "roberta", "xlm-roberta", "distilbert", "modernbert")
    full = (s + 1) / (2 * s) if causal else 1.0
    if config.model_type == "modernbert":
        half = config.local_attention // 2
        window = sum(min(i, half) + 1 + min(s - 1 - i, half) for i in range(s)) / s**2
    else:
        width = getattr(config, "sliding_window", None) or getattr(config, "attention_chunk_size", None)
        if not width or width >= s:
            return full
        window = sum(min(i + 1, width) for i in range(s)) / s**2
    kinds = getattr(config, "layer_types", None) or ["sliding_attention"] * config.num_hidden_layers
    return sum(full if k == "full_attention" else window for k in kinds) / len(kinds)


def forward_flops(model, raw, s):
    """FLOPs of the forward pass of a sequence of s tokens; None where torch cannot run the pass without values."""
    import torch
    import transformers.masking_utils as masks
    from torch.utils.flop_counter import FlopCounterMode
    masks.find_packed_sequence_indices = lambda position_ids: None  # it looks at values

    def grouped(a, b, *rest, out_shape=None, **kwargs):
        return 2 * a[0] * a[1] * b[-1]

    custom = {torch.ops.aten._grouped_mm: grouped} if hasattr(torch.ops.aten, "_grouped_mm") else {}
    kind = raw["model_type"]
    if hasattr(model, "set_experts_implementation") and any("expert" in k for k in raw):
        model.set_experts_implementation("grouped_mm")
    if hasattr(model.config, "use_cache"):
        model.config.use_cache = False
    with torch.device("meta"):
        ids = torch.zeros(1, s, dtype=torch.long)
        inputs = {"input_ids": ids}
        if kind == "vit":
            inputs = {"pixel_values": torch.empty(1, 3, raw["image_size"], raw["image_size"])}
        elif model.config.is_encoder_decoder:
            inputs["decoder_input_ids"] = torch.zeros(1, s, dtype=torch.long)
    counter = FlopCounterMode(display=False, custom_mapping=custom)
    with counter:
        model.forward_of(ids) if hasattr(model, "forward_of") else model(**inputs)
    attention = linear = 0
    for operator, count in counter.get_flop_counts()["Global"].items():
        core = any(word in str(operator) for word in ("bmm", "_scaled_dot_product", "flash"))
        attention, linear = (attention + count, linear) if core else (attention, linear + count)
    share = (2 + (s + 1) / (2 * s)) / 3 if model.config.is_encoder_decoder else visible(model.config, s)
    return round(linear + attention * share)


def ours(binary, path):
    command = [binary, "predict", "--hw", "dgx-h100", "--model", str(path), "--gpus", "1", "--framework", "fsdp", "--batch", "1",
               "--format", "json", "--quiet"]
    run = subprocess.run(command, capture_output=True, text=True)
    if run.returncode not in (0, 3) or not run.stdout.strip():
        return None, run.stderr.strip()
    return json.loads(run.stdout)["question"]["parameters"], ""


def sequence_of(raw):
    if raw.get("model_type") in ("vit", "whisper", None):
        return None
    longest = next((raw[k] for k in ("max_position_embeddings", "n_positions", "max_seq_len", "seq_length") if k in raw), 2048)
    return min(longest, 512 if raw["model_type"] in CLASSES else 2048)


LAYERS = 6  # of the FLOPs


def recount(binary, path, recorded, flops):
    import torch
    import transformers
    raw = text_part(json.loads(path.read_text()))
    s = sequence_of(raw)
    row = {"config": path.stem, "model_type": raw.get("model_type") or raw["_class_name"], "sequence": s or "", "layers": LAYERS, "forward_flops": "",
           "date": recorded["date"], "transformers": transformers.__version__, "torch": torch.__version__.split("+")[0]}
    model = build(raw)
    row["class"] = type(model).__name__ if hasattr(model, "base_model_prefix") or "_class_name" in raw else "text model and head"
    row["parameters"] = parameters(model)
    # transformers runs every expert on every token of Llama 4, and BertModel has no logits.
    if flops and raw["model_type"] not in ("llama4_text", "bert"):
        try:
            row["forward_flops"] = forward_flops(build(raw, LAYERS), raw, s or 0)
        except Exception as problem:  # noqa: BLE001 - a pass that asks a meta tensor for values
            row["why"] = f"{type(problem).__name__}: {str(problem)[:90]}"
    count, error = ours(binary, path)
    print(f"{'ok ' if count == row['parameters'] else 'DIF'} {path.stem:28s} {raw['model_type']:18s} {row['parameters']} ours {count} "
          f"forward FLOPs of {LAYERS} layers {row['forward_flops']} {row.get('why', '')} {error[:300]}", flush=True)
    return row, count == row["parameters"]


def page(rows):
    """The table of docs/models_recounted.md, from the recorded counts alone."""
    first = rows[0]
    worked = any(r["forward_flops"] for r in rows)
    lines = ["# Networks recounted", "",
             f"Recorded {first['date']} with transformers {first['transformers']} and torch {first['torch']} on the meta device by",
             "`tools/witness/recount.py` (optional, not part of the build). Unit tests compare the reader of Hugging Face",
             "configurations with these numbers. `switch-` are switches inside a family."]
    if worked:
        lines += [f"Forward FLOPs are those of one sequence through the first {LAYERS} layers (of each stack) and the head, equal to 1 in",
                  "10,000; torch counts square attention, which is scaled to what mask and windows leave. None: torch cannot run the",
                  "pass without values; Llama 4, where transformers runs every expert on every token; BERT, counted without its logits;",
                  "networks with recurrences, whose chunks torch runs otherwise, and those of diffusers."]
    lines += ["", "| configuration | `model_type` | counted as | parameters, ours = torch's |" + (" tokens | forward FLOPs |" if worked else ""),
              "|---|---|---|---:|" + ("---:|---:|" if worked else "")]
    for r in rows:
        work = f"{float(r['forward_flops']):.6e}" if r["forward_flops"] else ""
        more = f" {r['sequence']} | {work} |" if worked else ""
        lines.append(f"| {r['config']} | {r['model_type']} | {r['class']} | {int(r['parameters']):,} |{more}")
    return "\n".join(lines) + "\n"


def unknown_keys(binary):
    """Fields of transformers' configuration classes that plansearch passes over."""
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING
    families = sorted(p.stem for p in (ROOT / "models/families").glob("*.yaml") if not p.stem.startswith("_"))
    found = 0
    for family in families:
        if family not in CONFIG_MAPPING or "text_config" in CONFIG_MAPPING[family].sub_configs:
            continue
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            json.dump({k: v for k, v in CONFIG_MAPPING[family]().to_dict().items()}, file)
            file.flush()
            run = subprocess.run([binary, "predict", "--hw", "dgx-h100", "--model", file.name, "--gpus", "1", "--framework", "fsdp",
                                  "--batch", "1", "--format", "json", "--quiet"], capture_output=True, text=True)
        if not run.stdout.strip():
            print(family, "refused:", run.stderr.strip().replace("\n", " ")[:300])
            continue
        passed = [x["value"] for x in json.loads(run.stdout)["question"]["settings"] if x["key"] == "passed_over"]
        found += len(passed)
        for keys in passed:
            print(family, "passes over:", keys)
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("binary")
    parser.add_argument("configs", nargs="*", help="only these (name without .json)")
    parser.add_argument("--write", action="store_true", help="record the counts and their page")
    parser.add_argument("--keys", action="store_true", help="keys of transformers that no family file knows")
    parser.add_argument("--no-flops", action="store_true")
    arguments = parser.parse_intermixed_args()
    if arguments.keys:
        return 1 if unknown_keys(arguments.binary) else 0
    paths = sorted(FAMILIES.glob("*.json")) + sorted((ROOT / "tests/data/hf").glob("*.json"))
    paths = [p for p in paths if not arguments.configs or p.stem in arguments.configs]
    stamp = {"date": datetime.date.today().isoformat()}
    rows, good = [], True
    for path in paths:
        try:
            row, same = recount(arguments.binary, path, stamp, not arguments.no_flops)
            rows.append(row)
        except Exception as problem:  # noqa: BLE001 - named, and the others go on
            print(f"ERR {path.stem:28s} {type(problem).__name__}: {problem}", flush=True)
            same = False
        good = good and same
    if arguments.write:
        recorded = {r["config"]: r for r in csv.DictReader(COUNTS.open())} if COUNTS.exists() else {}
        for row in rows:
            if arguments.no_flops and row["config"] in recorded:
                row["forward_flops"] = recorded[row["config"]]["forward_flops"]
            recorded[row["config"]] = row
        rows = sorted(recorded.values(), key=lambda row: row["config"]) if arguments.configs else rows
        with COUNTS.open("w", newline="") as file:
            writer = csv.DictWriter(file, COLUMNS, extrasaction="ignore", lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)
        PAGE.write_text(page(list(csv.DictReader(COUNTS.open()))))
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
