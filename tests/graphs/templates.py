# SPDX-License-Identifier: Apache-2.0
"""Parameters and forward FLOPs of networks that are described by templates, from the modules that build them.

Nothing here reads a graph or a family file: only sizes of published configurations (tests/data/families) and the Linear,
Conv, LayerNorm, RMSNorm and Embedding modules of diffusers, transformers and facebookresearch/DiT. Published counts
are those of checkpoints; `graph_test.py` compares all three.
"""
import json
import pathlib

CONFIGS = pathlib.Path(__file__).resolve().parents[1] / "data" / "families"


def linear(i, o, bias=True):
    return i * o + (o if bias else 0)


def embedder(i, d):
    """Two linear layers with an activation between them (TimestepEmbedding, PixArtAlphaTextProjection)."""
    return linear(i, d) + linear(d, d)


def flux(c):
    """FluxTransformer2DModel: double blocks of two streams, single blocks of the joined one."""
    size = c["attention_head_dim"]
    d = c["num_attention_heads"] * size
    total = linear(c["in_channels"], d) + linear(c["joint_attention_dim"], d) + embedder(256, d)
    total += embedder(c["pooled_projection_dim"], d) + (embedder(256, d) if c["guidance_embeds"] else 0)
    stream = linear(d, 6 * d) + 4 * linear(d, d) + 2 * size + linear(d, 4 * d) + linear(4 * d, d)
    single = linear(d, 3 * d) + linear(d, 4 * d) + 3 * linear(d, d) + 2 * size + linear(5 * d, d)
    return total + c["num_layers"] * 2 * stream + c["num_single_layers"] * single + linear(d, 2 * d) + linear(d, c["in_channels"])


def flux_flops(c, image, text):
    """Forward FLOPs of one sample: two a weight and token (modulations: a sample), four a pair, head and feature."""
    size = c["attention_head_dim"]
    d = c["num_attention_heads"] * size
    tokens = image + text
    weights = image * c["in_channels"] * d + text * c["joint_attention_dim"] * d + image * d * c["in_channels"]
    weights += c["num_layers"] * (tokens * 12 * d * d + 2 * 6 * d * d) + c["num_single_layers"] * (tokens * 12 * d * d + 3 * d * d)
    weights += (256 + c["pooled_projection_dim"]) * d + 2 * d * d + 2 * d * d
    return 2 * weights + 4 * tokens * tokens * d * (c["num_layers"] + c["num_single_layers"])


def qwen_image(c):
    """QwenImageTransformer2DModel: double blocks alone, a norm of the text, no vector of it; pixels in patches of four."""
    size = c["attention_head_dim"]
    d, text = c["num_attention_heads"] * size, c["joint_attention_dim"]
    stream = linear(d, 6 * d) + 4 * linear(d, d) + 2 * size + linear(d, 4 * d) + linear(4 * d, d)
    ends = linear(c["in_channels"], d) + text + linear(text, d) + embedder(256, d)
    return ends + c["num_layers"] * 2 * stream + linear(d, 2 * d) + linear(d, c["patch_size"] ** 2 * c["out_channels"])


def sd3(c):
    """SD3Transformer2DModel: joint blocks, the last of which hands out no text."""
    size, pixels = c["attention_head_dim"], c["patch_size"] ** 2
    d = c["num_attention_heads"] * size
    total = linear(c["in_channels"] * pixels, d) + linear(c["joint_attention_dim"], d) + embedder(256, d)
    total += embedder(c["pooled_projection_dim"], d) + linear(d, 2 * d) + linear(d, pixels * c["out_channels"])
    for layer in range(c["num_layers"]):
        last = layer + 1 == c["num_layers"]
        total += linear(d, 6 * d) + linear(d, 2 * d if last else 6 * d)          # norm1, norm1_context
        total += 6 * linear(d, d) + linear(d, d) * (1 if last else 2)            # q, k, v of both; to_out, to_add_out
        total += 4 * size if c.get("qk_norm") else 0
        total += (linear(d, 4 * d) + linear(4 * d, d)) * (1 if last else 2)
    return total


def wan(c):
    """WanTransformer3DModel: self attention, cross attention to the text, feed-forward; tables of shifts."""
    d, f = c["num_attention_heads"] * c["attention_head_dim"], c["ffn_dim"]
    pixels = c["patch_size"][0] * c["patch_size"][1] * c["patch_size"][2]
    total = linear(c["in_channels"] * pixels, d) + embedder(c["freq_dim"], d) + linear(d, 6 * d) + embedder(c["text_dim"], d)
    layer = 8 * linear(d, d) + 4 * d + 2 * d + linear(d, f) + linear(f, d) + 6 * d
    return total + c["num_layers"] * layer + linear(d, c["out_channels"] * pixels) + 2 * d


def whisper(c):
    """WhisperForConditionalGeneration: the fixed positions of the encoder count, the head is the word embedding."""
    d = c["d_model"]
    attention = 3 * linear(d, d) + linear(d, d, False)
    total = linear(3 * c["num_mel_bins"], d) + linear(3 * d, d) + c["max_source_positions"] * d + 2 * d
    total += c["encoder_layers"] * (attention + 4 * d + linear(d, c["encoder_ffn_dim"]) + linear(c["encoder_ffn_dim"], d))
    total += (c["vocab_size"] + c["max_target_positions"]) * d + 2 * d
    return total + c["decoder_layers"] * (2 * attention + 6 * d + linear(d, c["decoder_ffn_dim"]) + linear(c["decoder_ffn_dim"], d))


def dit_parts(c):
    d, pixels = c["num_attention_heads"] * c["attention_head_dim"], c["patch_size"] ** 2
    condition = embedder(256, d) + (c["num_embeds_ada_norm"] + 1) * d
    layer = 4 * linear(d, d) + linear(d, 4 * d) + linear(4 * d, d) + linear(d, 6 * d)
    ends = linear(c["in_channels"] * pixels, d) + linear(d, 2 * d) + linear(d, pixels * c["out_channels"])
    return condition, layer, ends, (c["sample_size"] // c["patch_size"]) ** 2 * d


def dit(c):
    """DiT of facebookresearch: one embedding of time and class, fixed positions among the parameters."""
    condition, layer, ends, positions = dit_parts(c)
    return condition + c["num_layers"] * layer + ends + positions


def dit_of_diffusers(c):
    """DiTTransformer2DModel: an embedding of time and class in every layer, positions as a buffer."""
    condition, layer, ends, _ = dit_parts(c)
    return c["num_layers"] * (condition + layer) + ends


def config(name):
    return json.loads((CONFIGS / f"{name}.json").read_text())


# Configuration: its count from modules, the count of the checkpoint (None: none published).
CONFIGURED = {
    "flux.1-schnell": (flux, 11891178560),
    "flux.1-dev": (flux, 11901408320),
    "qwen-image": (qwen_image, 20430401088),
    "sd3-medium": (sd3, 2028328000),
    "sd3.5-large": (sd3, 8056627520),
    "wan2.1-t2v-1.3b": (wan, 1418996800),
    "wan2.1-t2v-14b": (wan, 14288491584),
    "whisper-large-v3": (whisper, 1543490560),
    "whisper-large-v3-turbo": (whisper, 808878080),
    "whisper-tiny": (whisper, 37760640),
    "dit-xl-2-256": (dit_of_diffusers, None),
    "dit-xl-2-256-older": (dit_of_diffusers, None),
}
SHIPPED = {
    "flux.1-schnell": (flux, "flux.1-schnell", 11891178560),
    "qwen-image": (qwen_image, "qwen-image", 20430401088),
    "sd3-medium": (sd3, "sd3-medium", 2028328000),
    "wan2.1-t2v-1.3b": (wan, "wan2.1-t2v-1.3b", 1418996800),
    "whisper-large-v3": (whisper, "whisper-large-v3", 1543490560),
    "dit-xl-2": (dit, "dit-xl-2-256", 675129632),
}


def shown(ask, binary, *words):
    return {row["field"]: row["value"] for row in ask(binary, "show", "model", *words)["rows"]}


def check_templates(ask, binary):
    """Sentences about every count or FLOP that is not what the modules make."""
    cases = [(name, str(CONFIGS / f"{name}.json"), counted(config(name)), published)
             for name, (counted, published) in CONFIGURED.items()]
    cases += [(name, name, counted(config(of)), published) for name, (counted, of, published) in SHIPPED.items()]
    for name, model, counted, published in cases:
        if published is not None and counted != published:
            yield f"{name}: the modules make {counted} parameters, the checkpoint has {published}"
        if shown(ask, binary, model)["parameters"] != counted:
            yield f"{name}: show model says {shown(ask, binary, model)['parameters']} parameters, not {counted}"
    schnell = config("flux.1-schnell")
    for pixels, text in ((256, 256), (1024, 256), (512, 512)):
        image = (pixels // 16) ** 2
        wanted = 3 * flux_flops(schnell, image, text)
        found = shown(ask, binary, "flux.1-schnell", "--set", f"model.dims.pixels={pixels}; model.dims.text.extent={text}")
        if abs(found["flops_per_sample"] / wanted - 1) > 1e-9:
            yield f"flux.1-schnell, {pixels} pixels, {text} tokens: {found['flops_per_sample']} FLOP, counted {wanted}"
    if abs(3 * flux_flops(schnell, 256, 256) / 20.42e12 - 1) > 1e-3:
        yield "FLUX.1 [schnell] is not 20.42 TFLOP a sample"
