# SPDX-License-Identifier: Apache-2.0
"""The command `plansearch` of an installed package: the executable beside it."""

import os
import sys
from pathlib import Path


def main() -> None:
    executable = Path(__file__).parent / "bin" / "plansearch"
    if not executable.exists():
        sys.exit("plansearch: this package was not installed; run the executable of the build")
    os.execv(executable, ["plansearch", *sys.argv[1:]])


if __name__ == "__main__":
    main()
