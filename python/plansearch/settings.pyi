# SPDX-License-Identifier: Apache-2.0
# Written by tools/python_settings.py; a test compares it with the help of the command line.
from collections.abc import Sequence
from os import PathLike
from typing import TypedDict

Numbers = int | str | Sequence[int]
Words = str | Sequence[str]
File = str | PathLike[str]

class Settings(TypedDict, total=False):
    """What is asked about."""

    hw: File | Words  # hardware profile: a shipped name or a file
    model: File | Words  # model: a shipped name, a file, or a Hugging Face config.json or its folder
    framework: File | Words  # training framework (default: megatron)
    target: File | Words  # program that plans are exported to, and the framework unless --framework says another; a plan it cannot express is exit code 4
    gpus: Numbers  # number of accelerators (default: a ladder of sizes)
    nodes: Numbers  # number of nodes, instead of --gpus
    batch: Numbers  # sequences per optimizer step: tokens over --seq-len
    seq_len: Numbers  # tokens per sequence
    task: Words  # training task; lora: adapters (of rank 16 unless said); qlora: the same, other weights in nf4; dpo: pairs of sequences, and a forward pass of a frozen reference (pretrain|sft|lora|qlora|dpo)
    packing: Words  # documents that share a sequence and see themselves alone: 512, 512x3+2048x1, exponential:512, lognormal:512:1.2, or a file of lengths
    images: Numbers  # images in a sequence, which the model's vision tower reads; 4,frozen or 4,trained says whether it is trained
    precision: Words  # number format of the matrix products (fp32|tf32|fp16|bf16|fp8|mxfp8|nvfp4)
    optimizer: Words  # optimizer; decides state memory (adam|adamw|adamw-8bit|paged-adamw|paged-adamw-8bit|sgd|lion|lion-8bit|adafactor|muon)
    attention: Words  # attention kernel: fused or unfused (flash|unfused)
    rank_order: Words  # order of the axes over ranks, fastest first, such as tp-cp-dp-pp
    overlap: Words  # communication overlapped with compute: all, none, or a list such as grad,param
    implementation: Words  # kernels of memory-bound operators (eager|fused|compiled|te)
    kernels: Words  # fused kernels, such as "flash2 fused-norm"; what is not named runs eagerly
    main_grads: Words  # format in which gradients are added up and reduced (bf16|fp16|fp32)
    fp8_recipe: Words  # scaling recipe of the inputs of fp8 products (tensorwise|rowwise|delayed|block|mxfp8)
    cuda_graphs: Numbers  # CUDA graphs; 1: a captured graph issues the kernels of a step (0|1)
    delay_wgrad: Numbers  # delayed weight gradients; 1: where an order joins forwards and backwards, they run while exchanges are on their way (0|1)
    optimizer_in_backward: Numbers  # optimizer in backward; 1: parameters are updated as gradients are made (0|1)
    paged_states: Numbers  # paged optimizer states; 1: those for which a device has no room leave for the host between updates (0|1)
    routing: Words  # routing of tokens to experts: balanced, auxiliary, real, or tokens of the fullest rank over the mean, such as 1.3
    lora_rank: Numbers  # rank of the adapters that are trained, all other weights frozen
    lora_targets: Words  # modules with an adapter, such as q,v or all-linear (default: q,v)
    base_precision: Words  # format in which weights beside adapters are kept (fp32|bf16|fp16|fp8|int8|nf4|int4)
    optimizer_states: Words  # format of the optimizer's moments (fp32|bf16|fp16|fp8|int8)
    tokens: float | str  # training tokens; adds days, GPU-hours, energy and price
    site: Words  # site factor on step time: typical (default), vendor or laboratory (typical of these), tuned (factor 1), or a measured laboratory
    mem_reserve: Words  # memory to keep free, such as "2 GiB"
    rollout: Words  # inference engine beside the trainer, as memory to keep free: util=0.6 or bytes, with tp=2, buffer=1 GiB, asleep
    mem_risk: float  # accepted risk of running out of memory (default: 0.1)
    passes: Words  # communication scheduling passes: all, none, or a list such as early-sends
    set: Words  # another value in a data file, such as tiers.nvlink.bandwidth=225GB/s, framework.KEY=VALUE or model.KEY=VALUE; several times, or between ';'
    family: File  # file that says how a Hugging Face configuration is read: --set model.family=FILE
    operators: File  # file of stubs, for unknown operators of an imported network

class Degrees(TypedDict, total=False):
    """Of a plan; searches take lists, and ranges as text."""

    dp: Numbers  # data-parallel degree
    pp: Numbers  # pipeline stages
    vpp: Numbers  # model chunks per stage
    tp_x: Numbers  # tensor axis that contracts (forward all-reduce)
    tp: Numbers  # tensor-parallel degree, as in Megatron
    tp_y: Numbers  # tensor axis of outputs (backward all-reduce)
    tp_z: Numbers  # tensor axis that shards weights and batch
    cp: Numbers  # context-parallel degree
    cp_kind: Words  # how attention is split over cp (ring|ulysses|all-gather)
    ep: Numbers  # expert-parallel degree, spans dp x cp x tp
    etp: Numbers  # tensor-parallel degree inside an expert
    zero: Numbers  # 0: nothing, 1: optimizer, 2: gradients, 3: parameters (0|1|2|3)
    shard_group: Numbers  # data ranks that share one ZeRO copy (hybrid shard); 0: all
    sp: Numbers  # sequence parallelism with tp (0|1)
    temporal: Words  # ring: gathers and scatters of sp in steps under products; 2x2: linear operators over squares of the tensor group (none|ring|KxK)
    micro_batch: Numbers  # sequences per device and micro-batch
    overdecompose: Numbers  # pieces of a micro-batch: messages of one run under kernels of another
    recompute: Words  # activations computed again in backward (none|selective|full)
    recompute_layers: Numbers  # layers of every chunk, its first ones, that full recomputation repeats; 0: all
    schedule: Words  # pipeline schedule (gpipe|1f1b|interleaved|zb-h1|zb-v|zb-h2|eager-1f1b|breadth-first|hanayo|v-half|v-min|chimera|dualpipe|dualpipe-v|zb-auto|interleaved-pairs|pairs|3f1b)
    recompute_modules: Words  # parts of a layer that selective recomputation runs again (own|fewest|core_attn|layernorm|mla_up_proj|mlp|moe|moe_act|shared_experts)
    dispatcher: Words  # how tokens reach their experts (own|all-to-all|all-gather|deepep|hybridep)
    offload: Words  # | mla_up_proj | mlp | moe | moe_act | shared_experts what lives in host memory: optimizer (states and update), parameters, activations, or modules such as core_attn (none|optimizer|parameters|activations|core_attn|layernorm)

class Search(Settings, Degrees, total=False):
    """A question with limits of its answer."""

    plan: Words  # plan document that decides a part: the rest is searched
    constraints: Words  # parts of a plan by name (constraints/*.yaml) or as plan documents; NAME#N: one variant
    report: File  # write the answer as one HTML page, with pictures
    plot: Words  # a picture as SVG: ladder, step, memory, pareto, timeline, held, groups or sweep; several times
    trace: File  # write one step as a trace for Perfetto or chrome://tracing
    force: bool  # write a trace of more than a million events
    space: Words  # plans to search (default: framework) (framework|degrees|megatron|data|grids|axonn|4d|layers|operators|primepar|temporal|full|uneven)
    top: Numbers  # plans to show
    exhaustive: bool  # price every plan, prune nothing
    beyond: bool  # list plans of every idea that the framework does not run
    no_beyond: bool  # look for no plan that the framework does not run
    recipes: bool  # list the published plans of this question, priced
    pareto: bool  # show the Pareto front over step time and memory
    all: File  # write every priced plan to a .csv or .jsonl file
    threads: Numbers  # threads; 0: all cores; the answer does not depend on it
    time_limit: float  # limit on time; then the best so far is the answer, which says so
    memory_limit: Words  # limit on memory, such as "8 GiB" (default: half of the machine's)
