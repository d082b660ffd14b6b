#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Orders of torch.distributed.pipelining against ours, action by action.

usage: torch_orders.py PLANSEARCH     skipped (77) where torch is not installed

Compared: ScheduleLoopedBFS, ScheduleInterleaved1F1B, ScheduleInterleavedZeroBubble, ScheduleZBVZeroBubble and
ScheduleDualPipeV: actions, makespans and peaks. Differences that are known, and why:
- InterleavedZeroBubble with one chunk is ZB-H1 on every rank but that it writes a whole backward (B) as I, W.
- InterleavedZeroBubble with more chunks has no name here: its files are read and timed beside ours.
- LoopedBFS with one chunk is GPipe that takes its backwards last first.
- ZBVZeroBubble writes I and W in the same sequence as ours; idle cells are left out of the comparison.
Every file that torch makes is also read back by us: `schedule FILE --format csv` must give the same actions.
"""
import csv
import io
import json
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


def timed(times, *arguments):
    """Makespan, span and peaks by rank; what is wrong instead where something is."""
    done = subprocess.run([PLANSEARCH, "schedule", *map(str, arguments), "--times", times, "--format", "json"],
                          capture_output=True, text=True)
    if done.returncode != 0:
        return done.stderr.strip()
    answer = json.loads(done.stdout)
    return answer["makespan"], answer["span"], answer["peak_activations"]


def written(rows, folder):
    path = pathlib.Path(folder, "torch.csv")
    with path.open("w", newline="") as file:
        csv.writer(file).writerows(rows)
    return path


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


def micro_batch_counts(ranks):
    return sorted({ranks, ranks + 1, 2 * ranks - 1, 2 * ranks, 2 * ranks + 1, 3 * ranks, 4 * ranks})


def rounds_divide(ranks, micro_batches):
    return micro_batches % max(1, micro_batches // ranks) == 0


def group_of(ranks, micro_batches):
    """Micro-batches that torch passes through a chunk in a row."""
    return micro_batches // max(1, micro_batches // ranks)


# Our name, theirs, chunks, which micro-batches both take.
CASES = [
    ("breadth-first", S.ScheduleLoopedBFS, (2, 3, 4), lambda p, m: True),
    ("interleaved", S.ScheduleInterleaved1F1B, (2, 3, 4), rounds_divide),
    ("zb-h1", S.ScheduleInterleavedZeroBubble, (1,), lambda p, m: True),
    ("zb-v", S.ScheduleZBVZeroBubble, (2,), lambda p, m: m >= 2 * p - 1),
    ("dualpipe-v", S.ScheduleDualPipeV, (2,), lambda p, m: m >= 2 * p),
]
TIMES = ("1,1,1", "10,12,8")


def differences(name, cls, ranks, chunks, micro_batches):
    expected = theirs(cls, ranks, micro_batches, chunks)
    asked = [name, "--stages", ranks, "--micro-batches", micro_batches]
    asked += ["--chunks", chunks] if chunks > 1 else []
    if name == "interleaved":
        asked += ["--group", group_of(ranks, micro_batches)]
    found = ours(*asked)
    if isinstance(found, str):
        return [found]
    lines = [f"rank {rank}\n    torch {' '.join(a)}\n    ours  {' '.join(b)}"
             for rank, (a, b) in enumerate(zip(whole(expected), whole(found))) if a != b]
    with tempfile.TemporaryDirectory() as folder:
        file = written(expected, folder)
        again = ours(file)
        if isinstance(again, str) or whole(again) != whole(expected):
            lines.append(f"read back: {again}")
        for times in TIMES:
            a, b = timed(times, file), timed(times, *asked)
            if a != b:
                lines.append(f"{times}: torch's file {a}, ours {b}")
    return lines


def zero_bubble_interleaved():
    """With several chunks, beside interleaved 1F1B and zb-auto with as much memory."""
    wrong = 0
    for ranks in (2, 4, 8):
        rows = theirs(S.ScheduleInterleavedZeroBubble, ranks, 4 * ranks, 2)
        shape = ["--stages", ranks, "--micro-batches", 4 * ranks, "--chunks", 2]
        with tempfile.TemporaryDirectory() as folder:
            file = written(rows, folder)
            for times in TIMES:
                makespan, _, peaks = timed(times, file)
                plain = timed(times, "interleaved", *shape)
                tuned = timed(times, "zb-auto", *shape, "--memory-cap", round(max(peaks) + 0.499))
                print(f"InterleavedZeroBubble p {ranks} m {4 * ranks} v 2, {times}: makespan {makespan:g}, peak "
                      f"{max(peaks):g}; interleaved {plain[0]:g}, {max(plain[2]):g}; zb-auto {tuned[0]:g}, "
                      f"{max(tuned[2]):g}")
                wrong += makespan >= plain[0] or tuned[0] > makespan
    return wrong


def main():
    compared = different = 0
    for name, cls, all_chunks, legal in CASES:
        for ranks in (2, 3, 4, 8):
            for chunks in all_chunks:
                for micro_batches in filter(lambda m: legal(ranks, m), micro_batch_counts(ranks)):
                    compared += 1
                    for line in differences(name, cls, ranks, chunks, micro_batches):
                        different += 1
                        print(f"{name} p {ranks} m {micro_batches} v {chunks}: {line}")
    different += zero_bubble_interleaved()
    print(f"torch {torch.__version__}: {compared} orders compared, {different} different")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
