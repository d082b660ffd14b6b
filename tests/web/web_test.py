#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The page in headless Chromium: the answers of the command line, and what a reader does.

  python3 tests/web/web_test.py --binary build/release/plansearch --page build/web/page [--pictures FOLDER]

Needs the page (cmake --preset web), Chromium, its driver and python3-selenium; exits with 77 where one is missing.
"""

import argparse
import functools
import http.server
import json
import math
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import unittest

BINARY = PAGE = PICTURES = None
SKIPPED = 77

NETWORKS = ("llama3.1-8b", "qwen2.5-14b", "qwen2.5-3b", "mistral-7b", "mixtral-8x7b", "llama2-13b", "qwen3-4b")
MACHINES = ("h100", "rtx-4090", "l40s", "mi300x-8", "perlmutter", "tpu-v5e", "gb200")


def questions():
    """Fifty: searches and verdicts in rotation over networks, machines, tasks and sizes, and one of each other command."""
    asked = [
        "compare --hw h100,mi300x-8 --model llama3-8b --gpus 8",
        "predict --hw selene --model gpt3-175b --gpus 96 --tp 8 --pp 12 --batch 96 --recompute full",
        "capacity --hw h100 --model llama3-8b --gpus 8,64 --tokens 1T",
        "explain --hw perlmutter --model gpt2-xl --gpus 8 --no-beyond",
        "schedule zb-h1 --stages 4 --micro-batches 8 --times 1,1,1",
        "diagnose --hw dgx-h100 --model llama3-70b --gpus 64 --tp 8 --pp 2 --dp 4 --batch 128 --measured 24s",
        "show hw dgx-h100",
        "list schedules",
    ]
    tasks = ("pretrain", "lora", "qlora", "sft", "dpo")
    for i in range(21):
        model, machine = NETWORKS[i % 7], MACHINES[(i // 3 + i) % 7]
        task = "sft" if model == "mixtral-8x7b" or machine == "tpu-v5e" else tasks[i % 5]
        asked.append(f"fits {model} --on {machine} --method {task} --no-cards" + (f" --gpus {4 << i % 3}" if i % 2 else ""))
        asked.append(f"--hw {machine} --model {model} --gpus {8 << i % 2} --seq-len {2048 << i % 2} --no-beyond")
    return asked


def differences(own, other, where=""):
    """Places where two documents differ by more than rounding of the mathematical library."""
    if isinstance(own, dict) and isinstance(other, dict) and own.keys() == other.keys():
        return [found for key in own for found in differences(own[key], other[key], f"{where}.{key}")]
    if isinstance(own, list) and isinstance(other, list) and len(own) == len(other):
        return [found for i, pair in enumerate(zip(own, other)) for found in differences(*pair, f"{where}[{i}]")]
    if isinstance(own, float) and isinstance(other, (int, float)) and math.isclose(own, other, rel_tol=1e-9, abs_tol=1e-12):
        return []
    if isinstance(own, int) and isinstance(other, int) and abs(own - other) <= 1e-9 * abs(own):
        return []
    return [] if own == other else [f"{where}: {own} != {other}"]


class Quiet(http.server.SimpleHTTPRequestHandler):
    asked = []

    def log_message(self, *_):
        Quiet.asked.append(self.path)


def browser(width=1400, dark=False):
    from selenium import webdriver
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium")
    for flag in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", f"--window-size={width},1400", "--hide-scrollbars"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    made = webdriver.Chrome(service=webdriver.chrome.service.Service(shutil.which("chromedriver")), options=options)
    made.set_script_timeout(600)
    if dark:
        made.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": "dark"}]})
    made.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {"width": width, "height": 1400, "deviceScaleFactor": 1, "mobile": False})
    return made


class Page(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        serve = functools.partial(Quiet, directory=PAGE)
        cls.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), serve)
        threading.Thread(target=cls.server.serve_forever, daemon=True).start()
        cls.address = f"http://127.0.0.1:{cls.server.server_address[1]}/"
        cls.browser = browser()
        cls.open("")

    @classmethod
    def tearDownClass(cls):
        cls.browser.quit()
        cls.server.shutdown()

    @classmethod
    def open(cls, fragment, window=None):
        window = window or cls.browser
        window.get("about:blank")
        began = time.monotonic()
        window.get(cls.address + fragment)
        cls.wait("document.documentElement.dataset.ready === 'yes'", window)
        return time.monotonic() - began

    @classmethod
    def wait(cls, condition, window=None, seconds=300):
        end = time.monotonic() + seconds
        while not (window or cls.browser).execute_script(f"return {condition}"):
            if time.monotonic() > end:
                raise AssertionError(f"{condition} does not come true")
            time.sleep(0.05)

    def ask(self, arguments, read=()):
        return self.browser.execute_async_script(
            "const done = arguments[2]; run(arguments[0], arguments[1]).then(done)", list(arguments), list(read))

    def verdict(self, **fields):
        """Types into fields and asks; the verdict as it stands on the page."""
        self.browser.execute_script(
            "for (const [id, value] of Object.entries(arguments[0])) $(id).value = value; $('form').requestSubmit()", fields)
        self.wait("$('verdict').textContent !== '' && !$('ask').disabled")
        return self.browser.execute_script("return $('verdict').textContent")

    def test_fifty_questions_as_on_the_command_line(self):
        asked = questions()
        self.assertEqual(len(asked), 50)
        environment = {**os.environ, "COLUMNS": "140"}
        for question in asked:
            words = question.split()
            with self.subTest(question), tempfile.TemporaryDirectory() as folder:
                own = subprocess.run([BINARY, *words], capture_output=True, text=True, env=environment, check=False)
                page = self.ask(words)
                self.assertEqual(page["code"], own.returncode, page["err"])
                self.assertEqual(page["out"].rstrip("\n"), own.stdout.rstrip("\n"))
                out = pathlib.Path(folder, "answer.json")
                subprocess.run([BINARY, *words, "--format", "json", "--out", out], capture_output=True, check=False)
                answer = self.ask([*words, "--format", "json", "--out", "/a.json"], ["/a.json"])["files"]["/a.json"]
                self.assertEqual(differences(json.loads(out.read_text()), json.loads(answer))[:3], [])

    def test_a_verdict_without_a_request(self):
        self.open("")
        before = list(Quiet.asked)
        text = self.verdict(model="llama3.1-8b", method="lora", machine="rtx-4090", gpus="2")
        self.assertRegex(text, r"^fits on 2 x rtx-4090 \(rtx-4090-box\): [\d.]+ GiB free, .* tokens/s a GPU")
        self.wait("$('launcher').textContent.includes('torchrun') || $('launcher').textContent.includes('accelerate')")
        self.assertIn("plansearch fits llama3.1-8b --method lora --on rtx-4090 --gpus 2", self.browser.execute_script("return $('command').textContent"))
        self.assertIn("model=llama3.1-8b", self.browser.execute_script("return location.hash"))
        self.browser.execute_script("$('why').open = true")
        self.wait("$('page').srcdoc.includes('<html') && $('text').textContent.includes('plans in space') && !$('ask').disabled")
        self.browser.execute_script("$('cards').open = true")
        self.wait("$('matrix').rows.length > 30 && !$('ask').disabled")
        self.assertEqual(Quiet.asked, before)
        self.assertEqual([line["message"] for line in self.browser.get_log("browser")], [])

    def test_what_does_not_fit_and_what_is_wrong(self):
        self.open("")
        text = self.verdict(model="llama3.1-8b", method="lora", machine="rtx-4090", gpus="1")
        self.assertRegex(text, r"^does not fit on 1 x rtx-4090 \(rtx-4090-box\): .* GiB too much")
        self.browser.execute_script("$('anyway').click()")
        self.wait("$('verdict').textContent.includes('priced all the same')")
        self.assertIn("unknown hardware profile 'nope'", self.verdict(machine="nope"))
        wrong = '{"model_type": "llama", "num_hidden_layers": 2, "num_attention_heads": 8,\n "hidden_size": -3, "vocab_size": 100, "intermediate_size": 64}'
        self.browser.execute_script("ownModel = {name: 'config.json', text: arguments[0]}", wrong)
        self.assertRegex(self.verdict(model="config.json", machine="h100"), r"config\.json:2")

    def test_a_link_asks_and_a_search_can_be_stopped(self):
        self.open("#model=gpt2-xl&machine=h100&gpus=8")
        self.wait("$('verdict').textContent.startsWith('fits on 8 x h100-sxm5-80gb (dgx-h100)')")
        self.browser.execute_script("$('model').value = 'deepseek-v3'; $('gpus').value = '2048'; $('form').requestSubmit()")
        self.wait("!$('stop').hidden")
        began = time.monotonic()
        self.browser.execute_script("$('stop').click()")
        self.wait("$('status').textContent === 'stopped'")
        self.assertLess(time.monotonic() - began, 20)
        self.assertIn("fits on 1 x h100-sxm5-80gb", self.verdict(model="gpt2", gpus="1"))

    def test_widths_and_colours(self):
        for width in (400, 900, 1400):
            for dark in (False, True):
                with self.subTest(width=width, dark=dark):
                    window = browser(width, dark)
                    try:
                        self.open("#model=llama3.1-8b&method=lora&machine=h100&gpus=8&tokens=10B", window)
                        self.wait("$('verdict').textContent !== '' && $('launcher').textContent !== ''", window)
                        self.assertLessEqual(window.execute_script("return document.documentElement.scrollWidth"), width)
                        if PICTURES:
                            window.save_screenshot(str(PICTURES / f"page-{width}-{'dark' if dark else 'light'}.png"))
                    finally:
                        window.quit()


def main():
    global BINARY, PAGE, PICTURES
    parser = argparse.ArgumentParser()
    parser.add_argument("--binary", required=True, type=pathlib.Path)
    parser.add_argument("--page", required=True, type=pathlib.Path)
    parser.add_argument("--pictures", type=pathlib.Path)
    parser.add_argument("tests", nargs="*")
    arguments = parser.parse_args()
    BINARY, PAGE, PICTURES = arguments.binary.resolve(), arguments.page.resolve(), arguments.pictures
    try:
        import selenium  # noqa: F401
        missing = [name for name in ("chromium", "chromedriver") if shutil.which(name) is None]
    except ImportError:
        missing = ["python3-selenium"]
    if not (PAGE / "plansearch.wasm").exists():
        missing.append(f"{PAGE} (tools/web_libraries.sh; cmake --preset web; cmake --build --preset web)")
    if missing:
        print("not tested: " + ", ".join(missing) + " missing")
        return SKIPPED
    if PICTURES:
        PICTURES.mkdir(parents=True, exist_ok=True)
    return not unittest.main(argv=[sys.argv[0], *(f"Page.{name}" for name in arguments.tests)], exit=False).result.wasSuccessful()


if __name__ == "__main__":
    sys.exit(main())
