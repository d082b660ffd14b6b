#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The Python package answers as the command line does, and fails as Python programs expect."""

import argparse
import json
import pathlib
import pickle
import signal
import subprocess
import sys
import tempfile
import threading
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BINARY = ""

QUESTIONS = [
    ("search", {"hw": "perlmutter", "model": "gpt2-xl", "gpus": 64}),
    ("search", {"hw": "perlmutter", "model": "gpt2-xl"}),
    ("search", {"hw": "dgx-h100", "model": "llama3-8b", "gpus": 64, "tp": [1, 2, 4], "pp": "1..4", "top": 3}),
    ("search", {"hw": "rtx-4090-box", "model": "llama3-70b", "gpus": 8}),  # nothing fits: code 3
    ("predict", {"hw": "dgx-h100", "model": "llama3-8b", "gpus": 8, "tp": 8, "recompute": "full"}),
    ("predict", {"hw": "dgx-h100", "model": "llama3-8b", "gpus": 8, "lora_rank": 16, "framework": "fsdp"}),
    ("compare", {"hw": ["perlmutter", "dgx-h100"], "model": "gpt2-xl", "gpus": 64}),
    ("capacity", {"hw": "perlmutter:64", "model": "gpt2-xl", "tokens": "300B", "deadline": "1h"}),
    ("fits", {"model": "llama3.1-8b", "on": "rtx-4090", "method": "lora", "gpus": 1}),  # does not: code 3
    ("diagnose", {"hw": "dgx-h100", "model": "llama3-8b", "gpus": 8, "tp": 8, "measured": "90 s"}),
    ("explain", {"hw": "perlmutter", "model": "gpt2-xl", "gpus": 64}),
    ("predict", {"hw": "dgx-h100", "model": "llama3-8b", "gpus": 8, "tp": 8, "set": "tiers.nvlink.bandwidth=225GB/s"}),
]


def command(name, flags, *arguments):
    words = [BINARY, name, *arguments, "--format", "json"]
    for flag, value in flags.items():
        text = ",".join(map(str, value)) if isinstance(value, list) else str(value)
        words += ["--" + flag.replace("_", "-"), text]
    return subprocess.run(words, capture_output=True, text=True, check=False)


class Answers(unittest.TestCase):
    def test_every_command_answers_as_the_command_line(self):
        for name, flags in QUESTIONS:
            with self.subTest(name, flags=flags):
                answer = getattr(plansearch, name)(**flags)
                printed = command(name, flags)
                self.assertEqual(answer.text, printed.stdout)
                self.assertEqual(answer.code, printed.returncode)

    def test_hardware_and_model_may_stand_first(self):
        self.assertEqual(plansearch.search("perlmutter", "gpt2-xl", gpus=8).text,
                         plansearch.search(hw="perlmutter", model="gpt2-xl", gpus=8).text)
        self.assertEqual(plansearch.predict("dgx-h100", "llama3-8b", gpus=8).text,
                         plansearch.predict(hw="dgx-h100", model="llama3-8b", gpus=8).text)
        with self.assertRaisesRegex(TypeError, "hw is given twice"):
            plansearch.search("perlmutter", hw="perlmutter")

    def test_several_values_are_set(self):
        question = {"hw": "dgx-h100", "model": "llama3-8b", "gpus": 8, "tp": 8}
        both = plansearch.predict(**question, set=["tiers.nvlink.bandwidth=225GB/s", "framework.constants.host_launch=90us"])
        text = plansearch.predict(**question, set="tiers.nvlink.bandwidth=225GB/s; framework.constants.host_launch=90us")
        self.assertEqual(both.text, text.text)
        self.assertGreater(both.best.step_time, plansearch.predict(**question).best.step_time)
        explained = plansearch.explain(**question, sensitivity=True)
        self.assertIn("accelerator.peak.bf16", [row["key"] for row in explained["sensitivity"]["values"]])

    def test_a_sweep_goes_into_a_file(self):
        with tempfile.TemporaryDirectory() as folder:
            questions = pathlib.Path(folder, "q.csv")
            questions.write_text("gpus,tp\n8,8\n16,4\n")
            question = {"hw": "dgx-h100", "model": "llama3-8b", "batch": 64}
            out = pathlib.Path(folder, "r.jsonl")
            plansearch.sweep(questions, out=out, **question)
            rows = [json.loads(line) for line in out.read_text().splitlines()]
            best = plansearch.search(**question, gpus=16, tp=4)
            self.assertEqual(rows[1]["step_time_s"], best.best["step_time_s"])
            with self.assertRaises(plansearch.InputError):
                plansearch.sweep(questions, out=pathlib.Path(folder, "r.txt"), **question)

    def test_listings_and_files(self):
        self.assertEqual(plansearch.list("models").text, command("list", {}, "models").stdout)
        self.assertEqual(plansearch.show("hw", "perlmutter").text, command("show", {}, "hw", "perlmutter").stdout)

    def test_a_question_answers_as_predict(self):
        question = plansearch.Question(hw="dgx-h100", model="llama3-8b", gpus=64)
        for degrees in ({"tp": 8}, {"tp": 2, "pp": 4, "micro_batch": 2}, {"zero": 3, "recompute": "full"}):
            printed = command("predict", {"hw": "dgx-h100", "model": "llama3-8b", "gpus": 64, **degrees})
            self.assertEqual(question.predict(**degrees).text, printed.stdout)

    def test_plans_are_objects_with_units(self):
        answer = plansearch.search(hw="perlmutter", model="gpt2-xl", gpus=64)
        best = answer.best
        self.assertEqual(best, answer.rows[0])
        self.assertEqual(best.step_time.unit, "s")
        self.assertEqual(float(best.step_time), best["step_time_s"])
        self.assertEqual(best.memory.activations.unit, "B")
        self.assertEqual(best.config.gpus, 64)
        self.assertIn("step_time", dir(best))
        with self.assertRaisesRegex(AttributeError, "no step_tim; there are"):
            _ = best.step_tim
        copy = pickle.loads(pickle.dumps(best.step_time))
        self.assertEqual((copy, copy.unit), (best.step_time, "s"))

    def test_quantities_print_as_people_write_them(self):
        for value, unit, text in ((7.41834, "s", "7.418 s"), (0.0123, "s", "12.3 ms"), (85029615043, "B", "79.19 GiB"),
                                  (700, "W", "700 W"), (1.5e12, "FLOP", "1.5 TFLOP"), (0, "B", "0 B"),
                                  (1234.5, "USD", "1,234.50 USD")):
            self.assertEqual(str(plansearch.Quantity(value, unit)), text)

    def test_no_plan_is_an_answer(self):
        answer = plansearch.search(hw="rtx-4090-box", model="llama3-70b", gpus=8)
        self.assertEqual((answer.code, answer.best, answer.rows), (3, None, []))
        self.assertTrue(answer.nearest_misses)

    def test_tables(self):
        try:
            import pandas  # noqa: F401
        except ImportError:
            self.skipTest("pandas is not installed")
        answer = plansearch.search(hw="perlmutter", model="gpt2-xl", gpus=64)
        frame = answer.to_dataframe()
        self.assertEqual(len(frame), len(answer.plans))
        self.assertEqual(frame["config.tp"][0], answer.best.config.tp)
        self.assertEqual(frame["step.exposed_communication_s.data"][0],
                         answer.best["step"]["exposed_communication_s"]["data"])

    def test_plans_are_exported(self):
        with tempfile.TemporaryDirectory() as folder:
            plan = pathlib.Path(folder) / "plan.yaml"
            plansearch.predict(hw="dgx-h100", model="llama3-8b", gpus=8, tp=8, write_plan=plan)
            text = plansearch.export(plan, to="megatron")
            self.assertIn("--tensor-model-parallel-size 8", text)
            self.assertEqual(plansearch.predict(plan=plan).best.config.tp, 8)


class Imports(unittest.TestCase):
    def test_launch_files_are_plans(self):
        with tempfile.TemporaryDirectory() as folder:
            plan, script = pathlib.Path(folder) / "plan.yaml", pathlib.Path(folder) / "run.yaml"
            asked = {"hw": "dgx-h100", "gpus": 8}
            plansearch.predict(**asked, model="llama3-8b", framework="hf-trainer", zero=3, batch=64, seq_len=4096, micro_batch=1,
                               write_plan=plan)
            script.write_text(plansearch.export(plan, to="axolotl"))
            read = plansearch.import_(script, **asked)
            self.assertIn("learning_rate", " ".join(read.notes))
            back = pathlib.Path(folder) / "back.yaml"
            back.write_text(read.plan)
            self.assertEqual(plansearch.predict(plan=back).best.step_time, plansearch.predict(plan=plan).best.step_time)
            other = pathlib.Path(folder) / "other.yaml"
            other.write_text("learning_rate: 0.1\n")
            with self.assertRaisesRegex(plansearch.InputError, "no key of megatron"):
                plansearch.import_(other, from_="megatron", **asked)
            script = pathlib.Path(folder) / "run.sh"
            script.write_text("ARGS=(--tensor-model-parallel-size $TP --micro-batch-size 1 --num-layers 32)\n"
                              "torchrun --nproc-per-node 8 pretrain_gpt.py ${ARGS[@]}\n")
            with self.assertRaisesRegex(plansearch.InputError, "depends on [$]TP"):
                plansearch.import_(script, model="llama3-8b", **asked)
            read = plansearch.import_(script, model="llama3-8b", define={"TP": 4}, **asked)
            self.assertIn("tp: 4", read.plan)


class Failures(unittest.TestCase):
    def test_unknown_names_have_remedies(self):
        with self.assertRaises(plansearch.InputError) as caught:
            plansearch.search(hw="perlmuter", model="gpt2-xl")
        self.assertIn("perlmutter", caught.exception.remedy)
        self.assertIsInstance(caught.exception, ValueError)
        with self.assertRaisesRegex(plansearch.InputError, "micro-batch"):
            plansearch.search(hw="perlmutter", model="gpt2-xl", micro_bach=4)
        with self.assertRaisesRegex(plansearch.InputError, "batch is not a degree"):
            plansearch.Question(hw="perlmutter", model="gpt2-xl", gpus=4).predict(batch=4)

    def test_files_have_places(self):
        with tempfile.TemporaryDirectory() as folder:
            plan = pathlib.Path(folder) / "plan.yaml"
            plan.write_text("schema: plansearch/plan/v1\nmodel: gpt2-xl\nhardwear: perlmutter\n")
            with self.assertRaises(plansearch.InputError) as caught:
                plansearch.predict(plan=plan)
            self.assertEqual((caught.exception.file, caught.exception.line), (str(plan), 3))
            self.assertTrue(all(problem.message for problem in caught.exception.problems))

    def test_values_are_checked(self):
        with self.assertRaisesRegex(TypeError, "is not the value of a flag"):
            plansearch.search(hw="perlmutter", model=object())

    def test_targets_that_cannot_express_a_plan(self):
        with self.assertRaises(plansearch.NotExpressible):
            plansearch.predict(hw="perlmutter", model="llama3-8b", gpus=64, tp_x=2, tp_y=2, target="megatron")

    def test_time_limits(self):
        with self.assertRaisesRegex(plansearch.Stopped, "time limit"):
            plansearch.reproduce("primepar", time_limit=1e-6)
        cut = plansearch.search(**Threads.LONG, time_limit=0.1)
        self.assertIn("time limit", cut.remarks[-1])

    def test_hostile_names_are_only_names(self):
        for name in ("$(touch x)", "a\nb", "'; exit", "\x1b[31m", "-", "--top"):
            with self.assertRaises(plansearch.InputError):
                plansearch.search(hw=name, model="gpt2-xl")


class Threads(unittest.TestCase):
    LONG = {"hw": "dgx-h100", "model": "llama3-8b", "gpus": 128, "framework": "any", "exhaustive": True}

    def test_ctrl_c_ends_a_search(self):
        # Jobs in the background of a shell are started deaf to it.
        self.addCleanup(signal.signal, signal.SIGINT, signal.signal(signal.SIGINT, signal.default_int_handler))
        timer = threading.Timer(0.5, signal.raise_signal, [signal.SIGINT])
        timer.start()
        with self.assertRaises(KeyboardInterrupt):
            plansearch.search(**self.LONG)
        timer.join()

    def test_other_threads_go_on(self):
        ended = threading.Event()
        turns = 0

        def ask():
            plansearch.search(**self.LONG, time_limit=1.0)
            ended.set()

        asking = threading.Thread(target=ask)
        asking.start()
        while not ended.wait(0.01):
            turns += 1
        asking.join()
        self.assertGreater(turns, 5)

    def test_threads_share_a_question(self):
        question = plansearch.Question(hw="dgx-h100", model="llama3-8b", gpus=64)
        expected = {tp: question.predict(tp=tp).text for tp in (1, 2, 4, 8)}
        found = {}
        threads = [threading.Thread(target=lambda tp=tp: found.update({tp: question.predict(tp=tp).text}))
                   for tp in expected]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(found, expected)


class Types(unittest.TestCase):
    def test_arguments_are_those_of_the_help(self):
        done = subprocess.run([sys.executable, "-B", ROOT / "tools/python_settings.py", "--binary", BINARY], check=False,
                              capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)


def main():
    global BINARY, plansearch
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--binary", required=True)
    parser.add_argument("--package", required=True)
    asked, rest = parser.parse_known_args()
    BINARY = asked.binary
    if not list(pathlib.Path(asked.package).glob("plansearch/_core*.so")):
        print(f"skipped: {asked.package} has no module (-DPLANSEARCH_PYTHON=ON)")
        sys.exit(77)
    sys.path.insert(0, asked.package)
    import plansearch
    unittest.main(argv=[sys.argv[0], *rest])


if __name__ == "__main__":
    main()
