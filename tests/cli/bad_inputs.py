# SPDX-License-Identifier: Apache-2.0
"""Bad inputs, one a row: arguments, files, exit code, words of the message. Every row gets an answer
on standard error, nothing on standard output and no file; cli_test.py runs them.

FILE in the arguments is the file of the row: a name and its text, or a shipped file in which one text
is replaced by another."""

QUESTION = "--hw perlmutter --model gpt2-xl --gpus 8"
MIXTURE = "predict --hw dgx-h100 --model qwen3-30b-a3b --gpus 64 --batch 512 --ep 8 --micro-batch 1"
PLAN = "schema: plansearch/plan/v1\nhardware: perlmutter\nmodel: gpt2-xl\ngpus: 8\n"
RUN = ("id,source,locator,hw,framework,known,gpus,model,mlp,attention,layers,hidden,ffn_hidden,heads,kv_heads,head_dim,vocab,seq_len,"
       "moe_experts,moe_topk,moe_ffn,precision,global_batch,micro_batch,tp,pp,vpp,dp,cp,ep,sp,zero,recompute,schedule,step_time_s,peak_mem_gib,mem_kind,oom,note")
GOOD_RUN = "a,,,perlmutter,megatron,,8,GPT,gelu,flash,4,1024,,16,,,,1024,,,,bf16,8,1,1,1,1,8,1,1,0,0,none,,1.0,,,0,"
LLAMA = ('{"model_type": "llama", "hidden_size": 4096, "intermediate_size": 11008, "num_attention_heads": 32, '
         '"num_hidden_layers": 32, "num_key_value_heads": 32, "vocab_size": 32000, '
         '"max_position_embeddings": 4096, "rms_norm_eps": 1e-5, "hidden_act": "silu"}')


def profile(old, new):
    return ("--model gpt2-xl --gpus 8 --hw FILE", "hardware_profiles/perlmutter.yaml", old, new)


def model(old, new):
    return ("--hw perlmutter --gpus 8 --model FILE", "models/gpt2-xl.yaml", old, new)


def hybrid(old, new):
    return ("show model FILE", "models/falcon-h1-0.5b.yaml", old, new)


def framework(old, new):
    return (QUESTION + " --framework FILE", "frameworks/megatron.yaml", old, new)


def config(old, new):
    return ("--hw perlmutter --gpus 8 --model FILE", "config.json", LLAMA.replace(old, new, 1))


def plan(lines):
    return ("predict --plan FILE", "plan.yaml", PLAN + lines)


def runs(*rows, header=RUN):
    return ("validate FILE", "runs.csv", "\n".join((header, *rows)) + "\n")


CASES = [
    # Quantities that no machine has, and none at all.
    (profile("200 Gbit/s", "4.9e-324 Gbit/s"), 2, ["nic_bandwidth", "not understood"]),
    (profile("200 Gbit/s", "1e-40 Gbit/s"), 2, ["nic_bandwidth"]),
    (profile("300 GB/s", "1e25 GB/s"), 2, ["bandwidth", "not understood"]),
    (profile("300 GB/s", "0 GB/s"), 2, ["above zero"]),
    (profile("300 GB/s", "300 GiB"), 2, ["a bandwidth such as"]),
    (profile("300 GB/s", "\"300\\e[31m GB/s\""), 2, ["control character", "\\x1b[31m"]),
    (profile("size: 6144", "size: 6143"), 2, ["changed.yaml:", "error:"]),
    (profile("size: 6144", "size: 99999999999999999999"), 2, ["out of range"]),
    (profile("size: 6144", "size: 6144.5"), 2, ["not a whole number"]),
    (profile("kind: dragonfly", "kind: [dragonfly]"), 2, ["expected a text, found a list"]),
    (profile("nics_per_node: 4", "nics_per_node: 0"), 2, ["nics_per_node"]),
    (profile("name: nvlink\n", "name: nvlink\n    name: again\n"), 2, ["changed.yaml:", "name"]),
    (profile("accelerator: a100-sxm4-40gb", "accelerator: a100-sxm4-40gv"), 2, ["a100-sxm4-40g"]),
    (profile("link: nvlink3-mesh", "link: ./changed.yaml"), 2, ["changed.yaml:"]),
    # Models.
    (model("layers: 48", "layers: 0"), 2, ["layers"]),
    (model("layers: 48", "layers: 1000000000"), 2, ["layers", "above the limit"]),
    (model("layers: 48", "layers: 9223372036854775808"), 2, ["out of range"]),
    (model("hidden: 1600", "hidden: -1600"), 2, ["hidden", "below the least value"]),
    (model("heads: 25", "heads: 24"), 2, ["heads"]),
    (model("vocab: 50257", "vocab: 1e5"), 2, ["not a whole number"]),
    (model("residual: 0.1", "residual: 1.5"), 2, ["residual"]),
    (model("residual: 0.1", "residual: .nan"), 2, ["residual"]),
    (model("parameters: 1557611200", "parameters: 1557611201"), 2, ["1557611200"]),
    (model("tied: true", "tied: maybe"), 2, ["neither true nor false"]),
    (model("activation: gelu", "activation: gelu9"), 2, ["unknown value 'gelu9'", "gelu"]),
    (model("schema: plansearch/model/v1", "schema: plansearch/model/v9"), 2, ["write schema"]),
    (hybrid("[attention+mamba]", "[null]"), 2, ["layer_mixers[0]: expected a text"]),
    (hybrid("[attention+mamba]", "[mamba+]"), 2, ["there is no part ''", "known: attention, mamba"]),
    (hybrid("[attention+mamba]", "[none+mamba]"), 2, ["there is no part 'none'", "known: attention, mamba"]),
    (("show model FILE", "models/glm-5.2.yaml", "keys: 2048, shared", "keys: 6144, shared"), 2,
     ["an index chooses 2048 keys, another 6144"]),
    (("show model FILE", "models/glm-5.2.yaml", "[attention, attention, attention, shared", "[shared, attention, attention, shared"), 2,
     ["the first layer with an index shares a choice"]),
    # Frameworks.
    (framework("sigma: 0.", "sigma: 10000000000.  #"), 2, ["above the limit 10000"]),
    (framework("sigma: 0.05", "sigma: 5000"), 2, ["no finite plans[0].step_time_p90_s"]),
    (framework("sigma: 0.", "sigma: -0."), 2, ["must not be negative"]),
    (framework("vocab_multiple: 128", "vocab_multiple: -1"), 2, ["vocab_multiple"]),
    (framework("schedules: [", "schedules: [zb-z9, "), 2, ["unknown schedule 'zb-z9'"]),
    # Configurations of Hugging Face.
    (config('"hidden_size": 4096', '"hidden_size": 0'), 2, ["hidden_size"]),
    (config('"hidden_size": 4096', '"hidden_size": "4096"'), 2, ["hidden_size"]),
    (config('"num_hidden_layers": 32', '"num_hidden_layers": 1e9'), 2, ["num_hidden_layers"]),
    (config('"num_key_value_heads": 32', '"num_key_value_heads": 5'), 2, ["config.json"]),
    (config('{"model_type"', '{"model_type": "llama", "model_type"'), 2, ["model_type"]),
    (config('"silu"', '"\\ud800"'), 2, ["half of a surrogate pair"]),
    (config('"llama"', '["llama"]'), 2, ["model_type"]),
    # Values set from the command line: the reader of the file judges them, at the place of the option.
    ((QUESTION + " --set tiers",), 2, ["--set tiers: no value", "write KEY=VALUE"]),
    ((QUESTION + " --set tiers.nvlnk.bandwidth=1GB/s",), 2, ["--set tiers.nvlnk.bandwidth=1GB/s: error", "did you mean nvlink"]),
    ((QUESTION + " --set tiers.nvlink.bandwidth=1e25GB/s",), 2, ["tiers[0].bandwidth", "not understood"]),
    ((QUESTION + " --set tiers.nvlink.bandwidth=0GB/s",), 2, ["above zero"]),
    ((QUESTION + " --set tiers.nvlink.bandwidth=5",), 2, ["missing unit"]),
    (("predict " + QUESTION + " --set tiers.nvlink.bandwidth=1..2GB/s",), 2, ["'1..2GB/s' is not understood"]),
    ((QUESTION + " --set accelerator.memory=1KiB",), 2, ["not plausible"]),
    ((QUESTION + " --set accelerator.kernels.attention.flash9.forward.launch=5us",), 2, ["--set accelerator.kernels", "missing"]),
    ((QUESTION + " --set name=x --set name=y",), 2, ["--set name=y: set twice"]),
    ((QUESTION + " --set model.heads=24",), 2, ["heads"]),
    ((QUESTION + " --set framework.vocab_multiple=-1",), 2, ["--set framework.vocab_multiple=-1: error", "vocab_multiple"]),
    ((QUESTION + " --set framework.constants.sigma=5000",), 2, ["no finite plans[0].step_time_p90_s"]),
    ((QUESTION + " --set price=\x1b",), 2, ["price"]),
    (("validate tests/data/validate/runs.csv --format markdown",), 2, ["--format markdown is for answers about plans"]),
    (("compare " + QUESTION + " --set accelerator.memory=1..1000:1GiB",), 2, ["more than 64 values"]),
    (("compare " + QUESTION + " --set accelerator.memory=40..4GiB",), 2, ["'40..4GiB' is not a range"]),
    # Plan documents and references to results.
    (plan("degrees: {dp: 0}\n"), 2, ["plan.yaml:5:", "dp"]),
    (plan("degrees: {tp: 3}\n"), 2, ["error:", "hint:"]),
    (plan("degrees: {dp: 99999999999}\n"), 2, ["plan.yaml:5:"]),
    (plan("degrees: {dp: 2147483647, pp: 2147483647}\n"), 2, ["error:"]),
    (plan("degrees: {schedule: zb-z9}\n"), 2, ["zb-z9"]),
    (plan("batch: -8\n"), 2, ["plan.yaml:5:", "batch"]),
    (plan("precision: bf17\n"), 2, ["plan.yaml:5:", "bf17"]),
    (plan("degrees: [dp, 8]\n"), 2, ["plan.yaml:5:"]),
    (plan("stages: []\n"), 2, ["key 'order' is missing"]),
    (("predict --plan FILE --model gpt2-xl", "plan.yaml", PLAN.replace("gpt2-xl", "llama3-8b") + "seq_len: 8192\n"), 2,
     ["the plan was written for llama3-8b, and this is gpt2-xl", "max_positions 1024 instead of 8192", "leave --model out"]),
    (("predict --plan FILE#0", "plan.yaml", PLAN), 2, ["the part after # is not a rank"]),
    (("predict --plan FILE#18446744073709551616", "plan.yaml", PLAN), 2, ["not a rank"]),
    (("predict --plan FILE", "result.json", '{"schema": "plansearch/result/v1", "plans": []}'), 2,
     ["no plan of rank 1"]),
    # Tables.
    (runs(GOOD_RUN.replace("GPT", "G\x1bPT")), 2, ["0x1b does not belong in a table"]),
    (runs(GOOD_RUN.replace(",1.0,", ",1e-310,")), 2, ["step_time_s", "not a number"]),
    (runs(GOOD_RUN.replace(",1.0,", ",nan,")), 2, ["step_time_s", "not a number"]),
    (runs(GOOD_RUN.replace(",1.0,", ",-1,")), 2, ["step_time_s", "not above 0"]),
    (runs(GOOD_RUN.replace(",4,1024,", ",4,1024.5,")), 2, ["hidden", "not a whole number"]),
    (runs(GOOD_RUN + ",more"), 2, ["40 cells where the header has 39"]),
    (runs('"' + GOOD_RUN), 2, ["this quote never closes"]),
    (runs(GOOD_RUN, header=RUN + ",id"), 2, ["column \"id\" appears twice"]),
    (("validate FILE", "matmul.csv", "gpu,dtype,m,n,k,time_us\nA100-SXM4-80GB,bf16,8192,8192,8192,1e300\n"), 2,
     ["time_us", "not a number"]),
    (("validate FILE", "matmul.csv", "gpu,dtype,m,n,k,time_us\nA100-SXM4-80GB,bf16,0,8192,8192,10\n"), 2, ["m"]),
    ((f"validate {'tests/data/validate/runs.csv'} --min-mfu nan",), 2, ["--min-mfu", "from 0 to 1"]),
    # Mixtures: what the framework or the library refuses, in its words.
    ((MIXTURE.replace("dgx-h100", "l40s") + " --zero 3 --dispatcher deepep",), 2, ["check_nvlink_connections", "all-to-all"]),
    ((MIXTURE + " --dispatcher deepep --framework fsdp",), 2, ["fsdp has no such dispatcher", "megatron"]),
    ((MIXTURE + " --pp 4 --vpp 2 --schedule interleaved-pairs --recompute full",), 2,
     ["transformer_config.py", "disable full recomputation"]),
    ((MIXTURE + " --pp 4 --vpp 2 --schedule interleaved-pairs --recompute selective --recompute-modules moe",), 2,
     ["transformer_config.py", "moe in recompute_modules"]),
    ((MIXTURE.replace("--ep 8", "--ep 1") + " --pp 4 --vpp 2 --schedule interleaved-pairs",), 2,
     ["only supported with expert model parallelism"]),
    ((MIXTURE + " --pp 4 --vpp 1 --schedule interleaved-pairs",), 2,
     ["at least 2 chunks per stage", "virtual_pipeline_model_parallel_size must be specified"]),
    ((MIXTURE + " --recompute selective --recompute-modules mla_up_proj",), 2,
     ["has no such module", "it has core_attn"]),
    ((MIXTURE + " --routing reel",), 2, ["none of balanced, auxiliary, real"]),
    ((MIXTURE + " --routing 0.5",), 2, ["1 or more"]),
    ((MIXTURE + " --framework fsdp --routing real,capacity_factor_2",), 2, ["is not a capacity factor"]),
    (("predict " + QUESTION + " --routing real",), 2, ["has no experts"]),
    (("show hw",), 2, ["its argument is missing"]),
    (("fits --on h100",), 2, ["--model is missing"]),
    (("fits gpt2-xl --method loro",), 2, ["--method", "none of pretrain", "did you mean lora"]),
    (("fits gpt2-xl --on nope --no-cards",), 2, ["unknown hardware profile"]),
    (("capacity " + QUESTION,), 2, ["--tokens is missing", "15.6T"]),
    (("capacity " + QUESTION + " --tokens 1T --budget 5",), 2, ["is not a budget", "node-hours"]),
    (("capacity " + QUESTION + " --tokens 1T --deadline soon",), 2, ["--deadline", "60d"]),
    (("capacity " + QUESTION + " --tokens 1T --mtbf never",), 2, ["--mtbf", "50000h"]),
    (("capacity " + QUESTION + " --tokens 1T --checkpoint-interval 0h",), 2, ["--checkpoint-interval", "30min"]),
    (("capacity " + QUESTION + " --tokens 1T --host-power -5",), 2, ["--host-power"]),
    (("capacity --hw perlmutter:64,dgx-h100:32 --model gpt2-xl --tokens 1T --gpus 128",), 2,
     ["every machine has a size of its own", "leave one of the two out"]),
    (("capacity --hw perlmutter:many --model gpt2-xl --tokens 1T",), 2, ["unknown hardware profile"]),
    # The command line.
    (("predict " + QUESTION + " --pp 65536 --cp 65536 --tp-x 65536 --tp-y 65536",), 2, ["legal values"]),
    (("predict " + QUESTION + " --pp 2147483647 --cp 2147483647 --tp 4",), 2, ["error:"]),
    ((QUESTION + " --mem-reserve 1e-40GiB",), 2, ["--mem-reserve"]),
    ((QUESTION + " --batch 9223372036854775807",), 2, ["error:"]),
    (("predict " + QUESTION + " --batch 9223372036854775800",), 2, ["error:"]),
    (("predict --hw perlmutter --model llama2-7b --gpus 4 --tp 4 --batch 214748364",), 2, ["64 bits"]),
    ((QUESTION + " --time-limit 1e-40",), 2, ["--time-limit"]),
    ((QUESTION + " --framework " + "\x1b[31m" * 500,), 2, ["bytes left out", "\\x1b[31m"]),
    (("schedule 1f1b --stages 2147483647 --micro-batches 2147483647 --times 1,1",), 2, ["error:"]),
    (("schedule interleaved --stages 4 --micro-batches 8 --chunks 2147483647 --times 999999999999,1",), 2,
     ["error:"]),
]
