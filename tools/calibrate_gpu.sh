#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Everything that one machine with NVIDIA GPUs can measure, the profile that follows, how far it is from today's times, and
# the steps that it predicts.
#
# usage: tools/calibrate_gpu.sh [FOLDER] [BUDGET]     (default: calibration, 30m)
set -euo pipefail
folder=${1:-calibration}
budget=${2:-30m}
here=$(cd "$(dirname "$0")/.." && pwd)
binary=${PLANSEARCH:-$here/build/release/plansearch}
[[ -x $binary ]] || (cd "$here" && cmake --workflow --preset release)
mkdir -p "$folder"
nvidia-smi >"$folder/nvidia-smi.txt" 2>&1 || echo "no nvidia-smi: clocks and power are not recorded" >&2
"$binary" calibrate --backend cuda --models gpt2-xl,llama3-8b --budget "$budget" --out "$folder/samples.jsonl"
"$binary" fit "$folder/samples.jsonl" --out "$folder/mine.yaml" | tee "$folder/fit.txt"
"$binary" calibrate --backend cuda --check "$folder/mine.yaml" | tee "$folder/check.txt"
for model in gpt2 gpt2-medium gpt2-large gpt2-xl; do
  "$binary" predict --hw "$folder/mine.yaml" --model "$model" --gpus 1 --batch 8 --micro-batch 8 --format json \
    --out "$folder/$model.json" || echo "$model: no prediction on one GPU" >&2
done
echo "profile: $folder/mine.yaml; predicted steps: $folder/gpt2*.json"
