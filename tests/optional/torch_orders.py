#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Orders of torch.distributed.pipelining against ours, action by action.

usage: torch_orders.py PLANSEARCH     skipped (77) where torch is not installed

Compared: ScheduleLoopedBFS, ScheduleInterleaved1F1B, ScheduleInterleavedZeroBubble, ScheduleZBVZeroBubble and
ScheduleDualPipeV. Differences that are known, and why:
- InterleavedZeroBubble with one chunk is ZB-H1 on every rank but that it writes a whole backward (B) as I, W.
- ZBVZeroBubble writes I and W in the same sequence as ours; idle cells are left out of the comparison.
Every file that torch makes is also read back by us: `schedule FILE --format csv` must give the same actions.
"""
import csv
import io
import pathlib
import subprocess
import sys
import tempfile

try:
    import torch
    from torch.distributed.pipelining import schedules as S
except ImportError:
    sys.exit(77)

PLANSEARCH = sys.argv[1]


class Stage:
    """As much of a pipeline stage as the orders ask for."""

    def __init__(self, rank, index, ranks, stages):
        self.stage_index, self.num_stages, self.group_size, self.group_rank = index, stages, ranks, rank


def bare(cls, ranks, micro_batches, chunks, rank, stages):
    schedule = object.__new__(cls)
    schedule.pp_group_size, schedule.n_local_stages, schedule._n_microbatches = ranks, chunks, micro_batches
    schedule.rank, schedule._num_stages, schedule.num_stages = rank, ranks * chunks, ranks * chunks
    schedule._stages = [Stage(rank, index, ranks, ranks * chunks) for index in stages]
    schedule.number_of_rounds = max(1, micro_batches // ranks)
    schedule.microbatches_per_round = micro_batches // schedule.number_of_rounds
    return schedule


def theirs(cls, ranks, micro_batches, chunks):
    rows = []
    for rank in range(ranks):
        stages = [rank + ranks * c for c in range(chunks)]
        actions = bare(cls, ranks, micro_batches, chunks, rank, stages)._calculate_single_rank_operations(rank)
        rows.append([str(action) for action in actions if action is not None])
    return rows


def ours(*arguments):
    done = subprocess.run([PLANSEARCH, "schedule", *map(str, arguments), "--times", "1,1,1", "--format", "csv"],
                          capture_output=True, text=True)
    if done.returncode != 0:
        return done.stderr.strip()
    return list(csv.reader(io.StringIO(done.stdout)))


def read_back(rows):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "torch.csv")
        with path.open("w", newline="") as file:
            csv.writer(file).writerows(rows)
        return ours(path)


def whole(rows):
    """I directly followed by W of the same piece is a whole backward."""
    result = []
    for row in rows:
        joined = []
        for action in row:
            if joined and "W" in action and joined[-1] == action.replace("W", "I"):
                joined[-1] = action.replace("W", "B")
            else:
                joined.append(action)
        result.append(joined)
    return result


CASES = [
    ("breadth-first", S.ScheduleLoopedBFS, lambda p, v: v >= 2, lambda p, m, v: True),
    ("interleaved", S.ScheduleInterleaved1F1B, lambda p, v: v >= 2, lambda p, m, v: m % p == 0),
    ("zb-h1", S.ScheduleInterleavedZeroBubble, lambda p, v: v == 1, lambda p, m, v: m % p == 0),
    ("zb-v", S.ScheduleZBVZeroBubble, lambda p, v: v == 2, lambda p, m, v: m >= 2 * p - 1),
    ("dualpipe-v", S.ScheduleDualPipeV, lambda p, v: v == 2, lambda p, m, v: m >= 2 * p),
]


def main():
    compared = different = 0
    for name, cls, takes, legal in CASES:
        for ranks in (2, 3, 4, 8):
            for chunks in (1, 2, 3):
                for micro_batches in (ranks, 2 * ranks, 2 * ranks + 1, 4 * ranks):
                    if not takes(ranks, chunks) or not legal(ranks, micro_batches, chunks):
                        continue
                    expected = theirs(cls, ranks, micro_batches, chunks)
                    found = ours(name, "--stages", ranks, "--micro-batches", micro_batches, "--chunks", chunks)
                    compared += 1
                    if found != expected and whole(found) != whole(expected):
                        different += 1
                        print(f"{name} p {ranks} m {micro_batches} v {chunks}:")
                        for rank, (a, b) in enumerate(zip(expected, found)):
                            if a != b:
                                print(f"  rank {rank}\n    torch {' '.join(a)}\n    ours  {' '.join(b)}")
                                break
                    again = read_back(expected)
                    if whole(again) != whole(expected):
                        different += 1
                        print(f"{name} p {ranks} m {micro_batches} v {chunks} read back: {again}")
    print(f"torch {torch.__version__}: {compared} orders compared, {different} different")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
