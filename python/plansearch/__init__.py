# SPDX-License-Identifier: Apache-2.0
"""Which parallel plan to train a large network with, how long a step takes, and why.

    import plansearch

    answer = plansearch.search(hw="perlmutter", model="gpt2-xl", gpus=64)
    answer.best.step_time            # 7.418 s, a float with a unit
    answer.best.config.tp            # 2
    answer.to_dataframe()            # all plans, one row each

Settings and degrees are those of the command line, with underscores: `--micro-batch 4` is
`micro_batch=4`. Lists (`tp=[1, 2, 4]`) and ranges (`pp="2..8"`) are as there. Answers are the same,
byte for byte: `answer.text` is what `plansearch ... --format json` prints.
"""

from __future__ import annotations

import os as _os
from pathlib import Path as _Path

_data = _Path(__file__).parent / "share" / "plansearch"
if _data.is_dir():  # installed from a wheel; a module of a source tree finds its own
    _os.environ.setdefault("PLANSEARCH_DATA", str(_data))

from .answer import Answer, Record  # noqa: E402
from .commands import (  # noqa: E402
    Imported,
    Question,
    capacity,
    compare,
    diagnose,
    explain,
    export,
    fits,
    import_,
    list,
    predict,
    reproduce,
    search,
    show,
    sweep,
    validate,
    version,
)
from .errors import InputError, NotExpressible, PlansearchError, Stopped  # noqa: E402
from .quantity import Quantity  # noqa: E402

__version__ = version()
__all__ = [
    "Answer",
    "Imported",
    "InputError",
    "NotExpressible",
    "PlansearchError",
    "Quantity",
    "Question",
    "Record",
    "Stopped",
    "capacity",
    "compare",
    "diagnose",
    "explain",
    "export",
    "fits",
    "import_",
    "list",
    "predict",
    "reproduce",
    "search",
    "show",
    "sweep",
    "validate",
]
