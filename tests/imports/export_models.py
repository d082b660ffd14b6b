#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the exported programs that tests read: graphs of published networks without their weights.

Modules are built on the meta device, so nothing is stored but shapes. What torch.export.save writes is packed anew:
only the graph, deflated, without stack traces. Needs PyTorch (written with 2.15), transformers, diffusers, torchvision.

    tests/imports/export_models.py [DIRECTORY] [NAME ...]      default: tests/data/imports, all
"""
import io
import json
import pathlib
import sys
import zipfile

import torch


def gpt2(layers, hidden, heads, tokens, vocabulary, **more):
    from transformers import GPT2Config, GPT2LMHeadModel
    module = GPT2LMHeadModel(GPT2Config(n_embd=hidden, n_layer=layers, n_head=heads, n_positions=tokens,
                                        vocab_size=vocabulary, use_cache=False, **more))
    ids = torch.zeros(1, tokens, dtype=torch.long)
    return module, (ids,), {"labels": ids}


def gpt2_xl():
    """The published sizes; attention and GELU are one kernel each (the published GELU is seven)."""
    return gpt2(48, 1600, 25, 1024, 50257, attn_implementation="sdpa", activation_function="gelu_pytorch_tanh")


def gpt2_small_eager():
    """Two layers; attention and GELU written out."""
    return gpt2(2, 64, 4, 32, 128, attn_implementation="eager")


def llama_small():
    """Two layers; heads of keys and values shared by several of queries, rotation, RMS norms, gates."""
    from transformers import LlamaConfig, LlamaForCausalLM
    module = LlamaForCausalLM(LlamaConfig(hidden_size=64, intermediate_size=160, num_hidden_layers=2, vocab_size=128,
                                          num_attention_heads=8, num_key_value_heads=2, use_cache=False,
                                          max_position_embeddings=32, attn_implementation="sdpa"))
    ids = torch.zeros(1, 32, dtype=torch.long)
    return module, (ids,), {"labels": ids}


def sdxl_unet():
    """stabilityai/stable-diffusion-xl-base-1.0, unet/config.json."""
    from diffusers import UNet2DConditionModel
    module = UNet2DConditionModel(
        addition_embed_type="text_time", addition_embed_type_num_heads=64, addition_time_embed_dim=256,
        attention_head_dim=[5, 10, 20], block_out_channels=[320, 640, 1280], cross_attention_dim=2048,
        down_block_types=["DownBlock2D", "CrossAttnDownBlock2D", "CrossAttnDownBlock2D"],
        up_block_types=["CrossAttnUpBlock2D", "CrossAttnUpBlock2D", "UpBlock2D"],
        projection_class_embeddings_input_dim=2816, sample_size=128, transformer_layers_per_block=[1, 2, 10],
        use_linear_projection=True)
    added = {"text_embeds": torch.zeros(1, 1280), "time_ids": torch.zeros(1, 6)}
    return module, (torch.zeros(1, 4, 128, 128), torch.zeros(1), torch.zeros(1, 77, 2048)), {"added_cond_kwargs": added}


def wide_resnet50_2():
    """A batch of two: it is told from other dimensions by where it goes."""
    import torchvision
    return torchvision.models.wide_resnet50_2(), (torch.zeros(2, 3, 224, 224),), {}


MODELS = {f.__name__.replace("_", "-"): f for f in (gpt2_xl, gpt2_small_eager, llama_small, sdxl_unet, wide_resnet50_2)}


def graph_of(exported):
    """The one entry of the archive that says what is computed."""
    buffer = io.BytesIO()
    torch.export.save(exported, buffer)
    archive = zipfile.ZipFile(buffer)
    name = next(n for n in archive.namelist() if n.endswith("models/model.json"))
    program = json.loads(archive.read(name))
    for node in program["graph_module"]["graph"]["nodes"]:
        for key in ("stack_trace", "torch_fn"):
            node["metadata"].pop(key, None)
    return program


def pack(path, program, name="archive/models/model.json"):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        entry = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
        entry.compress_type = zipfile.ZIP_DEFLATED
        archive.writestr(entry, json.dumps(program, separators=(",", ":")))


def onnx_graph(module, args, path):
    """An ONNX graph whose initializers have shapes and no data; of metadata the module paths are left."""
    import onnx
    torch.onnx.export(module, args, dynamo=True, opset_version=20, optimize=False).save(path)
    model = onnx.shape_inference.infer_shapes(onnx.load(path), data_prop=True)
    for tensor in model.graph.initializer:
        if tensor.data_type == onnx.TensorProto.FLOAT:
            tensor.ClearField("raw_data")
            tensor.ClearField("float_data")
    for node in model.graph.node:
        kept = [p for p in node.metadata_props if p.key == "pkg.torch.onnx.name_scopes"]
        node.ClearField("doc_string")
        del node.metadata_props[:]
        node.metadata_props.extend(kept)
    for value in [*model.graph.value_info, *model.graph.input, *model.graph.output]:
        del value.metadata_props[:]
    for tensor in model.graph.initializer:
        del tensor.metadata_props[:]
    del model.graph.metadata_props[:]
    del model.functions[:]
    onnx.save(model, path)


def main():
    directory = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parents[1] / "data" / "imports")
    for name in sys.argv[2:] or ["wide-resnet50-2.onnx", *MODELS]:
        if name.endswith(".onnx"):
            module, args, _ = MODELS[name.removesuffix(".onnx")]()
            onnx_graph(module, args, directory / name)
            continue
        with torch.device("meta"):
            module, args, kwargs = MODELS[name]()
            program = graph_of(torch.export.export(module, args, kwargs, strict=False))
        pack(directory / f"{name}.pt2", program)
        print(name, sum(p.numel() for p in module.parameters()), "parameters",
              len(program["graph_module"]["graph"]["nodes"]), "operators")


if __name__ == "__main__":
    main()
