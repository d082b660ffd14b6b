#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Everything that one machine with NVIDIA GPUs can measure: samples, the profile that follows, how far it is from today's times,
# attention and training steps of PyTorch (where it is installed) against what the profile predicts.
#
# usage: tools/calibrate_gpu.sh [FOLDER] [BUDGET]     (default: calibration, 30m)
#   several GPUs: every one of them by a process of its own, messages between them too
#   several nodes: srun or torchrun --no-python ... plansearch calibrate --backend cuda --out samples.jsonl, then this script
set -euo pipefail
folder=${1:-calibration}
budget=${2:-30m}
here=$(cd "$(dirname "$0")/.." && pwd)
binary=${PLANSEARCH:-$here/build/release/plansearch}
python=${PYTHON:-python3}
[[ -x $binary ]] || (cd "$here" && cmake --workflow --preset release)
mkdir -p "$folder"
nvidia-smi >"$folder/nvidia-smi.txt" 2>&1 || echo "no nvidia-smi: the samples hold what NVML says" >&2

# calibrate ARGUMENTS...: by as many processes as there are GPUs; the first one's exit code.
gpus=$( (nvidia-smi -L 2>/dev/null || true) | grep -c '^GPU' || true)
calibrate() {
  if ((gpus < 2)); then
    "$binary" calibrate --backend cuda "$@"
    return
  fi
  local rank others=()
  for ((rank = 1; rank < gpus; ++rank)); do
    RANK=$rank WORLD_SIZE=$gpus LOCAL_RANK=$rank LOCAL_WORLD_SIZE=$gpus MASTER_ADDR=localhost MASTER_PORT=29517 \
      "$binary" calibrate --backend cuda "$@" >/dev/null 2>"$folder/rank-$rank.txt" &
    others+=($!)
  done
  local code=0
  RANK=0 WORLD_SIZE=$gpus LOCAL_RANK=0 LOCAL_WORLD_SIZE=$gpus MASTER_ADDR=localhost MASTER_PORT=29517 \
    "$binary" calibrate --backend cuda "$@" || code=$?
  for other in "${others[@]}"; do wait "$other" || true; done
  return "$code"
}

# A point at which a GPU faults is kept as failed: the next run goes on behind it.
for attempt in 1 2 3 4; do
  code=0
  calibrate --models gpt2-xl,llama3-8b --budget "$budget" --out "$folder/samples.jsonl" || code=$?
  [[ $code == 3 && -s $folder/samples.jsonl && $attempt != 4 ]] || break
done
[[ $code == 0 ]] || exit "$code"
sources=("$folder/samples.jsonl")
torch=$("$python" -c 'import torch; print(int(torch.cuda.is_available()))' 2>/dev/null || echo 0)
# Fused attention as PyTorch runs it, where cuDNN could not be called.
if [[ $torch == 1 ]] && ! grep -q '"probe":"attention".*"time_us"' "$folder/samples.jsonl"; then
  name=$(head -1 "$folder/samples.jsonl" | "$python" -c 'import json, sys; print(json.loads(sys.stdin.read())["name"])')
  if "$python" "$here/tools/attention_times.py" --gpu "$name" --out "$folder/attention.csv"; then
    sources+=("$folder/attention.csv")
  fi
fi
"$binary" fit "${sources[@]}" --out "$folder/mine.yaml" --plot "$folder/fit.svg" | tee "$folder/fit.txt"
calibrate --check "$folder/mine.yaml" | tee "$folder/check.txt" || echo "the machine drifts while it is measured: see $folder/check.txt" >&2
if [[ $torch == 1 ]]; then
  "$python" "$here/tools/train_times.py" --hw mine.yaml --mixed fsdp,autocast --out "$folder/runs.csv"
  "$binary" validate "$folder/runs.csv" --site tuned | tee "$folder/validate.txt"
  echo "measured and predicted steps: $folder/validate.txt"
else
  echo "PyTorch with CUDA is not installed: no training steps were measured" >&2
  for model in gpt2 gpt2-medium gpt2-large gpt2-xl; do
    "$binary" predict --hw "$folder/mine.yaml" --model "$model" --gpus 1 --batch 8 --micro-batch 8 --format json \
      --out "$folder/$model.json" || echo "$model: no prediction on one GPU" >&2
  done
fi
echo "profile: $folder/mine.yaml; fit: $folder/fit.txt, $folder/fit.svg"
