#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Puts classic mistakes back into the sources, one at a time, and shows which test catches each.

    python3 tools/mutations.py --build build/check [--only NAME] [--list]

The working tree is never touched: the sources are copied to BUILD/mutations, configured there with
the compiler and flags of BUILD, and every mistake is compiled into that copy. A mistake that no
test notices, a text that is no longer in its file and a mistake that does not compile are failures.
"""
import argparse
import pathlib
import shutil
import subprocess
import sys
import textwrap
import xml.etree.ElementTree as ElementTree
from typing import NamedTuple

ROOT = pathlib.Path(__file__).resolve().parent.parent
COPIED = ("CMakeLists.txt", "CMakePresets.json", "cmake", "src", "include", "search", "tests",
          "benchmarks", "tools", "models", "hardware_profiles", "frameworks", "docs", "validation")
KEPT_SETTINGS = ("CMAKE_BUILD_TYPE", "CMAKE_CXX_COMPILER", "CMAKE_CXX_COMPILER_LAUNCHER",
                 "CMAKE_CXX_FLAGS")
TIME_LIMIT_S = 600


class Mutation(NamedTuple):
    name: str
    mistake: str
    file: str
    old: str
    new: str


MUTATIONS = [
    Mutation("ring-factor", "a ring all-reduce sends everything once, not twice",
             "src/cost/collective/select.cpp",
             "      return 2.0 * (ranks - 1.0) / ranks;", "      return (ranks - 1.0) / ranks;"),
    Mutation("ring-share", "(p - 1)/p of the message written as p times the message",
             "src/cost/collective/select.cpp",
             "      return (ranks - 1.0) / ranks;", "      return ranks;"),
    Mutation("ring-whole", "(p - 1)/p of the message rounded up to the whole message",
             "src/cost/collective/select.cpp",
             "      return (ranks - 1.0) / ranks;", "      return 1.0;"),
    Mutation("sister-groups", "a group uses all cards of its node, its sister groups none",
             "src/cost/collective/links.cpp",
             "tier.bandwidth * span.local * line", "tier.bandwidth * span.local * span.sisters * line"),
    Mutation("group-gap", "the gaps of a group are ignored: its ranks are taken as neighbours",
             "src/cost/collective/place.cpp",
             "  const int domain = cluster.tiers[span.local_tier].size;",
             "  if (group.extents.size() > 1) {\n"
             "    return locate(cluster, {group.size(), group.extents[0].stride});\n"
             "  }\n"
             "  const int domain = cluster.tiers[span.local_tier].size;"),
    Mutation("all-to-all-inside", "an all-to-all over nodes never waits for its inner part",
             "src/cost/collective/all_to_all.cpp", "std::max(inside, outside)", "outside"),
    Mutation("gib-for-gb", "decimal gigabytes read as binary ones", "src/base/units.cpp",
             '                           {"GB", 1e9},\n                           {"TB", 1e12},',
             '                           {"GB", kKi* kKi* kKi},\n'
             '                           {"TB", 1e12},'),
    Mutation("bits-for-bytes", "a link's bits taken for bytes", "src/base/units.cpp",
             '{"Gbit/s", 0.125e9}', '{"Gbit/s", 1e9}'),
    Mutation("bound-tail", "weight gradients delay the last gradient's way out",
             "src/schedule/closed_form.cpp",
             "std::max<Ticks>(0, device.tail - jobs * device.postponed)", "device.tail"),
    Mutation("flow-shop", "the first micro-batch fills the pipeline twice",
             "src/schedule/pieces.hpp", "return sum + (jobs - 1) * longest", "return sum + jobs * longest"),
    Mutation("turning-point", "a V placement sends to itself where it turns",
             "src/schedule/pieces.hpp",
             "places_[boundary].device != places_[boundary + 1].device", "boundary + 1 > 0"),
    Mutation("dual-collective", "backward repeats the forward collective instead of its dual",
             "src/communication/derive_activations.cpp",
             "    demand.kind = step.kind;\n",
             "    demand.kind = step.kind;\n"
             "    if (phase == DemandPhase::InputGradient &&\n"
             "        step.kind == CommunicationKind::AllGather) {\n"
             "      demand.kind = CommunicationKind::ReduceScatter;\n"
             "    } else if (phase == DemandPhase::InputGradient &&\n"
             "               step.kind == CommunicationKind::ReduceScatter) {\n"
             "      demand.kind = CommunicationKind::AllGather;\n"
             "    }\n"),
    Mutation("second-gather", "ZeRO-3 gathers parameters for forward only",
             "src/communication/derive_parameters.cpp",
             "      demand.on_recompute = RecomputeGather::Shared;\n"
             "      demands_.push_back(demand);\n", ""),
    Mutation("weight-gradient-time", "backward of a linear layer computes the input gradient only",
             "src/evaluate/operator_time.cpp",
             "    if (trains(op)) time.backward += weight_gradient(type, shape);\n", ""),
    Mutation("weight-gradient-flops", "training counted as two forward passes, not three",
             "src/evaluate/plan_report.cpp",
             "forward * 3.0 / gpu_time", "forward * 2.0 / gpu_time"),
    Mutation("causal-half", "causal attention computes all pairs", "src/workload/attention.cpp",
             "  return (w * (w + 1.0) / 2.0 + (s - w) * w) / (s * s);",
             "  return 1.0 + 0.0 * w * s;"),
    Mutation("heads-over-tp", "attention heads are not divided by tensor parallelism",
             "src/communication/placement_rules.cpp",
             "      case DimRole::Head:\n      case DimRole::Ffn:",
             "      case DimRole::Head:\n        return {};\n      case DimRole::Ffn:"),
    Mutation("reduce-every-micro-batch", "gradients reduced for every micro-batch",
             "src/communication/tensor_policy.cpp",
             "rules.gradient_reduce[static_cast<std::size_t>(plan.zero)];",
             "rules.gradient_reduce[static_cast<std::size_t>(plan.zero) & 0U] == Scope::Step\n"
             "                           ? Scope::MicroBatch\n"
             "                           : Scope::Step;"),
    Mutation("in-flight", "1F1B keeps one micro-batch less than it has in flight",
             "src/schedule/activations.cpp",
             "std::min(shape.micro_batches * shape.chunks, warm_up(shape, rank) + 1)",
             "std::min(shape.micro_batches * shape.chunks, warm_up(shape, rank))"),
    Mutation("warm-up-order", "1F1B runs p - r forwards ahead instead of p - 1 - r",
             "src/schedule/orders/one_f_one_b.cpp",
             "std::min(shape.stages - 1 - device, shape.micro_batches)",
             "std::min(shape.stages - device, shape.micro_batches)"),
    Mutation("interleaved-warm-up", "interleaving warms up as 1F1B does, p - 1 - r per chunk",
             "src/schedule/orders/interleaved.cpp",
             "const int ahead = 2 * (shape.stages - 1 - device) +",
             "const int ahead = (shape.stages - 1 - device) +"),
    Mutation("interleaved-peak", "the peak of interleaving forgets the chunks before the last",
             "src/schedule/alternating.cpp",
             "2 * behind + (shape.chunks - 1) * shape.group_size()", "2 * behind"),
    Mutation("recompute-forward", "recomputed layers take no time", "src/evaluate/local_work.cpp",
             "      add(work.repeated[level], time.forward * share, time.forward_kernels * share);\n",
             "      add(work.repeated[level], Seconds(0), time.forward_kernels * share);\n"),
    Mutation("recompute-in-model-flops", "hardware FLOPs without the recomputed forward",
             "src/evaluate/plan_report.cpp",
             "forward * (3.0 + repeated) / gpu_time", "forward * (3.0 + 0.0 * repeated) / gpu_time"),
    Mutation("keeps-even-products", "recompute by operator keeps the products that it should repeat",
             "src/plan/recompute.cpp", "kept += ++count % 2", "kept += count++ % 2"),
    Mutation("capacity-top-k", "every token goes to one expert, whatever top-k says",
             "src/workload/experts.cpp",
             "static_cast<double>(tokens * moe.top_k)", "static_cast<double>(tokens)"),
    Mutation("tied-forgotten", "a tied embedding is not counted at all",
             "src/workload/network.cpp",
             "      } else if (seen.insert(parameter.shared_key).second) {\n"
             "        total += size;\n", "      } else if (seen.insert(parameter.shared_key).second) {\n"),
    Mutation("tied-twice", "a tied embedding is counted at both ends",
             "src/workload/network.cpp",
             "} else if (seen.insert(parameter.shared_key).second) {", "} else {"),
    Mutation("tied-on-one-device", "one device stores a tied embedding twice",
             "src/evaluate/step_model.cpp",
             "        if (std::find(seen.begin(), seen.end(), shared.key) != seen.end()) continue;\n",
             ""),
    Mutation("states-over-dp", "ZeRO-1 keeps whole optimizer states on every rank",
             "src/communication/tensor_policy.cpp",
             "const FlatCut states = cut(depth, shard, plan.zero, ZeroStage::Optimizer);",
             "const FlatCut states = cut(depth, shard, plan.zero, ZeroStage::Parameters);"),
    Mutation("update-over-dp", "every rank updates all parameters under ZeRO-1",
             "src/evaluate/class_profile.cpp",
             "  const double owners = pieces(policy.moment.storage, mesh);",
             "  const double owners = 1.0;"),
    Mutation("second-moment", "Adam with one moment", "src/evaluate/class_profile.cpp",
             "bytes.optimizer = kept(policy.master, mesh) + moments * kept(policy.moment, mesh);",
             "bytes.optimizer = kept(policy.master, mesh) + 0.5 * moments * kept(policy.moment, mesh);"),
    Mutation("micro-batches-once", "the work of one micro-batch taken for that of the step",
             "src/evaluate/step_model.cpp",
             "const auto repeats = static_cast<double>(view.plan.micro_batches);",
             "const auto repeats = static_cast<double>(view.plan.micro_batches > 0);"),
    Mutation("one-way-boundary", "gradients cross stage boundaries for free",
             "src/evaluate/step_model.cpp",
             "d.gradient_transfer.assign(stages - 1, transfer);",
             "d.gradient_transfer.assign(stages - 1, 0);"),
    Mutation("kv-heads", "grouped queries save as many keys and values as queries",
             "src/workload/attention.cpp",
             'block.dim("kv_heads", DimRole::KvHead, a.kv_heads)',
             'block.dim("kv_heads", DimRole::KvHead, a.heads)'),
    Mutation("p10-p90", "p10 and p90 swapped", "src/evaluate/interval.cpp",
             "return {std::exp(-spread), std::exp(spread + tail)};",
             "return {std::exp(spread + tail), std::exp(-spread)};"),
    Mutation("step-ring-share", "a ring passes the cards only with what is for other nodes",
             "src/cost/collective/fabric_ring.cpp",
             "const Seconds outside = moved / f.line;",
             "const Seconds outside = rounds * (s.nodes - 1.0) / s.nodes * call.size / f.line;"),
    Mutation("saved-as-gathered", "gathered inputs are kept as they are read, not as produced",
             "src/evaluate/block_memory.cpp",
             "for (const TensorId id : op.saved) bytes += element(id) * kept_elements(id);",
             "for (const TensorId id : op.saved) {\n"
             "      const auto index = static_cast<std::size_t>(&op - block_.operators.data());\n"
             "      bytes += element(id) * local_.sizes.tensor(index, id);\n"
             "    }"),
]


class Failed(Exception):
    """A sentence about what could not be done."""


def copy_changed(source, target):
    """Copies a file, or a folder as it is now; unchanged files keep their time."""
    if source.is_dir():
        target.mkdir(parents=True, exist_ok=True)
        names = {entry.name for entry in source.iterdir()}
        for entry in target.iterdir():
            if entry.name not in names:
                shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
        for entry in source.iterdir():
            copy_changed(entry, target / entry.name)
    elif not target.exists() or target.read_bytes() != source.read_bytes():
        shutil.copyfile(source, target)


def settings_of(build):
    cache = build / "CMakeCache.txt"
    if not cache.is_file():
        raise Failed(f"{build} is not a configured build; run: cmake --preset check")
    values = {}
    for line in cache.read_text().splitlines():
        key, colon, rest = line.partition(":")
        if colon and key in KEPT_SETTINGS:
            values[key] = rest.partition("=")[2]
    return [f"-D{key}={value}" for key, value in values.items() if value]


def run(command, limit=None):
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          timeout=limit, check=False)


class Copy:
    """A copy of the tree with a build of its own, at the same depth so that ccache helps."""

    def __init__(self, build, jobs):
        self.tree = build / "mutations"
        self.build = self.tree / "build" / "check"
        self.jobs = jobs
        for name in COPIED:
            if (ROOT / name).exists():
                self.tree.mkdir(parents=True, exist_ok=True)
                copy_changed(ROOT / name, self.tree / name)
        done = run(["cmake", "-G", "Ninja", "-S", str(self.tree), "-B", str(self.build),
                    "-DPLANSEARCH_BUILD_TESTS=ON", "-DPLANSEARCH_WERROR=OFF", *settings_of(build)])
        if done.returncode != 0:
            raise Failed("configuration failed:\n" + done.stdout[-2000:])

    def compile(self):
        done = run(["cmake", "--build", str(self.build), "--target", "plansearch_tests",
                    "-j", str(self.jobs)])
        return "" if done.returncode == 0 else done.stdout[-2000:]

    def failing_tests(self):
        """Names of the test cases that fail; a crash or a hang counts as one."""
        binary = self.build / "tests" / "plansearch_tests"
        try:
            done = subprocess.run([str(binary), "-r=xml"], stdout=subprocess.PIPE,
                                  stderr=subprocess.DEVNULL, timeout=TIME_LIMIT_S, check=False)
        except subprocess.TimeoutExpired:
            return ["(the tests do not end)"]
        if done.returncode == 0:
            return []
        try:
            report = ElementTree.fromstring(done.stdout)
        except ElementTree.ParseError:
            return [f"(the tests end with {done.returncode})"]
        failing = []
        for case in report.iter("TestCase"):
            result = case.find("OverallResultsAsserts")
            if result is not None and result.get("test_case_success") == "false":
                failing.append(case.get("name"))
        return failing or [f"(the tests end with {done.returncode})"]

    def catching_tests(self, mutation):
        path = self.tree / mutation.file
        original = path.read_text() if path.is_file() else ""
        if original.count(mutation.old) != 1:
            raise Failed(f"{mutation.file} holds the text {original.count(mutation.old)} times: "
                         "bring tools/mutations.py up to date")
        try:
            path.write_text(original.replace(mutation.old, mutation.new))
            problem = self.compile()
            if problem:
                raise Failed("does not compile:\n" + problem)
            return self.failing_tests()
        finally:
            path.write_text(original)


def shown(mutation, catchers):
    lines = textwrap.wrap(mutation.mistake, 50)
    more = f" (+{len(catchers) - 1})" if len(catchers) > 1 else ""
    lines[0] = f"{mutation.name:25} {lines[0]:51} {catchers[0]}{more}"
    return "\n".join([lines[0]] + [" " * 26 + line for line in lines[1:]])


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "check",
                        help="configured build whose compiler and flags to use")
    parser.add_argument("--only", action="append", metavar="NAME", help="may be repeated")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--list", action="store_true", help="print the mistakes and stop")
    arguments = parser.parse_args()
    chosen = [m for m in MUTATIONS if not arguments.only or m.name in arguments.only]
    if arguments.list or not chosen:
        for mutation in MUTATIONS:
            print(f"{mutation.name:25} {mutation.mistake}")
        return 0 if arguments.list else 2
    failures = 0
    try:
        copy = Copy(arguments.build.resolve(), arguments.jobs)
        problem = copy.compile() or ", ".join(copy.failing_tests())
        if problem:
            raise Failed("the unchanged sources are not green: " + problem)
    except Failed as reason:
        print(reason, file=sys.stderr)
        return 1
    for mutation in chosen:
        try:
            catchers = copy.catching_tests(mutation)
        except Failed as reason:
            catchers = []
            print(f"{mutation.name}: {reason}", file=sys.stderr)
        failures += not catchers
        print(shown(mutation, catchers or ["NOT CAUGHT"]), flush=True)
    print(f"{len(chosen) - failures} of {len(chosen)} mistakes caught")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
