#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How often `plansearch diagnose` finds a fault that was put in on purpose.

Every question is priced with one thing changed; that price, with the scatter of runs of one
laboratory (5 %, seeded), is the measured step of a diagnosis that does not know of the change.
Changes of less than a fifth are left out: they lie inside the interval of any prediction. The same
prices without a change have to be called normal.

With --logs the diagnosis reads a log: the step, its batch, the peak of memory (with a scatter of 5 %) and the FLOP/s, which
programs count by 10 % otherwise; a log that is refused because its batch is another one names the fault. With --profiles it
sees the parts of the step too, each with a scatter of 10 %, as a profiler would list them.

  tools/diagnosis.py BUILD/plansearch [--list] [--logs] [--profiles]
"""
import argparse
import json
import math
import pathlib
import random
import subprocess
import sys
import tempfile

QUESTIONS = [
    "--hw dgx-h100 --model llama3-70b --gpus 64 --tp 8 --pp 2 --dp 4 --batch 128 --micro-batch 1",
    "--hw dgx-h100 --model llama3-8b --gpus 8 --dp 8 --zero 1 --batch 128",
    "--hw selene --model gpt3-175b --gpus 1024 --tp 8 --pp 8 --dp 16 --batch 1536 --micro-batch 1",
    "--hw aws-p5 --model llama3-8b --gpus 64 --framework fsdp --dp 64 --batch 128",
    "--hw dgx-h100 --model llama3-8b --gpus 16 --framework torchtitan --tp 2 --dp 8 --batch 64 --precision fp8",
    "--hw dgx-h100 --model llama3.1-405b --gpus 512 --tp 8 --pp 16 --dp 4 --batch 256 --precision fp8 --micro-batch 1",
    "--hw perlmutter --model gpt2-xl --gpus 64 --dp 64 --batch 512",
    "--hw l40s --model llama3-8b --gpus 32 --framework fsdp --dp 32 --batch 64",
    "--hw dgx-h100 --model mixtral-8x7b --gpus 64 --tp 2 --pp 4 --dp 8 --ep 8 --batch 256 --micro-batch 1",
    "--hw dgx-b200 --model qwen2.5-32b --gpus 32 --tp 4 --dp 8 --batch 128 --precision fp8",
    "--hw gcp-a3-mega --model llama3-70b --gpus 128 --framework fsdp --dp 128 --batch 256 --recompute full",
    "--hw h100-vela-8x100g --model llama2-7b --gpus 64 --framework fsdp --dp 64 --batch 128",
    "--hw a100-4x100g-roce --model llama-13b --gpus 64 --framework fsdp --dp 64 --batch 128 --recompute full",
    "--hw azure-ndv4 --model opt-30b --gpus 64 --tp 8 --dp 8 --batch 128 --micro-batch 2",
    "--hw frontier --model gpt-neox-20b --gpus 64 --tp 8 --dp 8 --batch 128",
    "--hw alps --model llama3-70b --gpus 64 --tp 4 --pp 4 --dp 4 --batch 128 --micro-batch 1",
    "--hw dgx-h200 --model qwen3-30b-a3b --gpus 16 --dp 16 --ep 8 --batch 128",
    "--hw dgx-1-v100 --model gpt2-xl --gpus 32 --dp 32 --batch 256 --precision fp16",
    "--hw aws-p4d --model llama2-7b --gpus 32 --framework deepspeed --zero 3 --dp 32 --batch 64 --recompute full",
    "--hw mosaic-a100-40 --model mpt-7b --gpus 64 --framework fsdp --dp 64 --batch 256",
    "--hw dgx-h100 --model llama3-8b --gpus 32 --cp 4 --dp 8 --batch 32 --seq-len 32768 --recompute none",
    "--hw gb200-nvl72 --model llama3-70b --gpus 64 --tp 4 --dp 16 --batch 128 --precision fp8",
    "--hw azure-ndv5 --model mixtral-8x22b --gpus 128 --tp 4 --pp 4 --dp 8 --ep 8 --batch 256 --micro-batch 1",
    "--hw mi300x-8 --model llama3-70b --gpus 64 --tp 8 --dp 8 --batch 64 --recompute none",
    "--hw jean-zay-v100-32 --model gpt2-large --gpus 64 --dp 64 --batch 1024 --precision fp16",
    "--hw dgx-h100 --model qwen3-32b --gpus 64 --framework torchtitan --tp 8 --dp 8 --batch 64",
    "--hw dgx-h100 --model llama3.2-1b --gpus 8 --framework ddp --batch 64 --micro-batch 1 --seq-len 1024",
    "--hw dgx-h200 --model qwen3-30b-a3b --gpus 64 --dp 64 --ep 32 --batch 512 --routing real",
    "--hw dgx-h100 --model llama3-8b --gpus 32 --framework torchtitan --dp 32 --batch 128 --seq-len 2048 --micro-batch 1",
]
# Words of the cause, and what the run really has. Flags that are left out of the question where they are changed.
OPEN = ("--recompute", "--micro-batch", "--seq-len")
FAULTS = [
    ("full recomputation is on", "--recompute full"),
    ("memory-bound operators run eager", "--implementation eager"),
    ("attention is not fused", "--attention unfused"),
    ("gradient reduction hides under nothing", "--overlap grad=0"),
    ("gathering of parameters hides under nothing", "--overlap param=0"),
    ("tensor-parallel communication hides under nothing", "--overlap tensor=0"),
    ("is not active: products run in bf16", "--precision bf16"),
    ("micro-batches of", "--micro-batch 4"),
    ("attention runs FlashAttention 2", "--kernels flash2"),
    ("products run in fp8", "--precision fp8"),
    ("experts run one by one", "--set framework.constants.expert_launch=150us"),
    ("documents are far shorter", "--packing 700"),
    ("half the sequences", "--batch HALF"),
    ("a CUDA graph issues the step", "--cuda-graphs 1"),
    ("sequences of", "--seq-len HALF"),
    ("fp32 weights are cast", "--set framework.constants.accumulation_bytes=20"),
    ("tokens beyond an even share are dropped", "--routing real,_capacity_factor_1"),
    ("allocator runs full", "--set framework.constants.host_step=RETRIES"),
]


def ask(binary, *words):
    done = subprocess.run([binary, *words, "--format", "json", "--quiet"], capture_output=True, text=True)
    return json.loads(done.stdout) if done.returncode in (0, 3) and done.stdout else None


def without(question, flags):
    words = question.split()
    for flag in flags:
        if flag in words:
            at = words.index(flag)
            del words[at : at + 2]
    return words


def half_rate(binary, folder, hardware, tier):
    """A profile like `hardware` whose innermost (0) or second (1) tier has half its bandwidth."""
    rows = json.loads(
        subprocess.run([binary, "show", "hw", hardware, "--format", "json"], capture_output=True, text=True).stdout
    )["rows"]
    rates = [r for r in rows if r["section"].startswith("tier") and r["field"] in ("bandwidth", "nic_bandwidth")]
    names = list(dict.fromkeys(r["section"] for r in rows if r["section"].startswith("tier")))
    if len(names) <= tier:
        return None, None
    name = names[tier].split()[-1]
    rate = next((r for r in reversed(rates) if r["section"] == names[tier]), None)
    if rate is None:
        return None, None
    path = pathlib.Path(folder) / f"{hardware}-{name}.yaml"
    path.write_text(
        f"schema: plansearch/profile/v1\nname: {path.stem}\nlike: {hardware}\ntiers:\n"
        f"  - {{name: {name}, {rate['field']}: {rate['value'] / 2e9:.6g} GB/s}}\n"
    )
    return str(path), f"{name} at half its rate"


#: A kernel of every part, by the words of an answer.
KERNELS = {
    "matrix products": "gemm", "attention": "flash_fwd", "memory-bound": "elementwise", "optimizer": "multi_tensor_apply",
    "all-reduce": "ncclDevKernel_AllReduce", "all-gather": "ncclDevKernel_AllGather",
    "reduce-scatter": "ncclDevKernel_ReduceScatter", "all-to-all and sends": "ncclDevKernel_SendRecv",
}


def parts_of(binary, folder, question, noise):
    """A table of the kernels that the question is predicted to run."""
    empty = pathlib.Path(folder) / "empty.csv"
    empty.write_text("name,time_us,calls\nelementwise,1,1\n")
    answer = ask(binary, "diagnose", *question, "--measured", "1s", "--profile", str(empty))
    lines = [f"{KERNELS[part['part']]},{1e6 * part['predicted_s'] * math.exp(noise.gauss(0.0, 0.1)):.3f},1"
             for part in answer["profile"]["parts"] if part["part"] in KERNELS]
    path = pathlib.Path(folder) / "kernels.csv"
    path.write_text("\n".join(["name,time_us,calls", *lines]) + "\n")
    return ["--profile", str(path)]


def log_of(folder, seconds, answer, noise, retries=False):
    """What Megatron-LM prints of such a run, without its arguments."""
    plan = answer["plans"][0]
    rate = plan["model_tflops_per_gpu"] * plan["step_time_s"] / seconds * math.exp(noise.gauss(0.0, 0.1))
    allocated = plan["peak"]["allocated_bytes"] * math.exp(noise.gauss(0.0, 0.05)) / 2**20
    path = pathlib.Path(folder) / "train.log"
    full = f" max reserved: {answer['question']['memory_capacity_bytes'] * 0.96 / 2**20:.1f}\n - 25 CUDA memory allocation retries.\n"
    path.write_text("".join(
        f" iteration {i:8}/ 500 | elapsed time per iteration (ms): {1e3 * seconds:.6f} | throughput per GPU (TFLOP/s/GPU): {rate:.1f} | "
        f"global batch size: {answer['question']['global_batch']:5} |\n" for i in range(1, 9))
        + f"[Rank 0] (after 2 iterations) memory (MB) | allocated: 1.0 | max allocated: {allocated:.1f} | reserved: 1.0 |{full if retries else chr(10)}")
    return path


def diagnosed(binary, question, seconds, profile=(), log=None):
    measured = ["--log", str(log)] if log else ["--measured", f"{seconds:.9g}s"]
    answer = ask(binary, "diagnose", *question, *measured, *profile)
    if answer is None and log:
        return ["a step has half the sequences, as the log says"], False
    names = [cause["cause"] for cause in answer["causes"]]
    first = max([answer["normal"], answer["unknown"], *[c["likelihood"] for c in answer["causes"]]])
    return names, answer["normal"] == first


def altered(binary, folder, question, logs):
    """(words of the cause, the question as asked, the question as it ran)."""
    words_of = question.split()
    retries = 90 * ask(binary, "predict", *words_of)["plans"][0]["config"]["micro_batches"]
    for words, change in FAULTS:
        flag = change.split()[0]
        if "HALF" in change:
            change = change.replace("HALF", str(int(words_of[words_of.index(flag) + 1]) // 2))
        if change == "--kernels flash2" and "v100" in question:  # it needs Ampere
            continue
        if change == "--precision fp8" and "fp8" in question or "RETRIES" in change and not logs:
            continue
        change = change.replace("RETRIES", f"{retries}ms")
        asked = without(question, [flag] if flag in OPEN else [])
        yield words, asked, [*without(question, [flag]), *(word.replace("_c", " c").replace("_f", " f").replace("_1", " 1")
                                                          if flag == "--routing" else word for word in change.split())]
    hardware = question.split()[1]
    for tier in (0, 1):
        path, words = half_rate(binary, folder, hardware, tier)
        if path:
            yield words, question.split(), question.replace(f"--hw {hardware}", f"--hw {path}").split()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("binary")
    parser.add_argument("--list", action="store_true", help="every case with its rank")
    parser.add_argument("--logs", action="store_true", help="a log says the batch, memory and FLOP/s too")
    parser.add_argument("--profiles", action="store_true", help="the parts of the step are known too")
    options = parser.parse_args()
    noise = random.Random(1)
    cases, normal = [], []
    with tempfile.TemporaryDirectory() as folder:
        for question in QUESTIONS:
            right = ask(options.binary, "predict", *question.split())
            if "--seq-len" not in question:
                question += f" --seq-len {right['question']['seq_len']}"
            for _ in range(4):
                seconds = right["plans"][0]["step_time_s"] * math.exp(noise.gauss(0.0, 0.05))
                seen = parts_of(options.binary, folder, question.split(), noise) if options.profiles else []
                log = log_of(folder, seconds, right, noise) if options.logs else None
                normal.append(diagnosed(options.binary, question.split(), seconds, seen, log)[1])
            for words, asked, ran in altered(options.binary, folder, question, options.logs):
                base = ask(options.binary, "predict", *asked)
                run = ask(options.binary, "predict", *ran)
                if not base or not run or run["plans"][0]["memory_verdict"] != "fits":
                    continue
                ratio = run["plans"][0]["step_time_s"] / base["plans"][0]["step_time_s"]
                if abs(math.log(ratio)) < math.log(1.2):
                    continue
                seconds = run["plans"][0]["step_time_s"] * math.exp(noise.gauss(0.0, 0.05))
                seen = parts_of(options.binary, folder, ran, noise) if options.profiles else []
                log = log_of(folder, seconds, run, noise, "allocator" in words) if options.logs else None
                names, _ = diagnosed(options.binary, asked, seconds, seen, log)
                rank = next((i + 1 for i, name in enumerate(names) if words in name), 0)
                cases.append((rank, ratio, words, question))
    for rank, ratio, words, question in cases if options.list else []:
        print(f"{rank:2d}  {ratio:5.2f}x  {words}: {question}")
    first = sum(rank == 1 for rank, *_ in cases)
    three = sum(1 <= rank <= 3 for rank, *_ in cases)
    print(
        f"{len(cases)} faults: the true cause first in {100 * first / len(cases):.0f} %, among the first "
        f"three in {100 * three / len(cases):.0f} %; {len(normal)} runs without one: normal in "
        f"{100 * sum(normal) / len(normal):.0f} %"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
