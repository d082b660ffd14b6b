# SPDX-License-Identifier: Apache-2.0
"""What validators share: cases on standard input as JSON lines, verdicts on the output."""

import contextlib
import importlib
import io
import json
import os
import pathlib
import subprocess
import sys

NOT_FOUND = 77


def checkout(variable, file):
    """The folder an environment variable names; without it the validator is skipped."""
    root = os.environ.get(variable)
    if not root:
        print(f"skipped: {variable} names no checkout")
        sys.exit(NOT_FOUND)
    root = pathlib.Path(root).resolve()
    if not (root / file).is_file():
        sys.exit(f"{variable}: {root} has no {file}")
    return root


def need(name):
    """A package; without it the validator is skipped."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        print(f"skipped: {error}")
        sys.exit(NOT_FOUND)


def commit(root):
    result = subprocess.run(["git", "-C", root, "rev-parse", "--short", "HEAD"],
                            capture_output=True, text=True, check=False)
    return result.stdout.strip() or "unknown commit"


def run(check, version):
    """Each case accepted, with what the framework made of it, or refused with its words."""
    print(json.dumps({"version": version}))
    for line in sys.stdin:
        case = json.loads(line)
        heard = io.StringIO()
        try:
            with contextlib.redirect_stdout(heard), contextlib.redirect_stderr(heard):
                verdict = {"made": check(case)}
        except (Exception, SystemExit) as error:  # whatever a framework raises is its answer
            frame = error.__traceback__
            while frame.tb_next:
                frame = frame.tb_next
            where = f"{frame.tb_frame.f_code.co_filename}:{frame.tb_lineno}"
            words = str(error) or heard.getvalue()[-400:]
            verdict = {"refused": f"{type(error).__name__}: {words}", "where": where}
        print(json.dumps(verdict), flush=True)
