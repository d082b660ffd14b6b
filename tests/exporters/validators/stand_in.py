# SPDX-License-Identifier: Apache-2.0
"""Modules that a framework imports and its configuration does not need."""

import importlib.abc
import importlib.machinery
import importlib.util
import sys
from types import ModuleType
from unittest import mock


class StandIn(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Packages by name, with whatever is asked of them; those that are installed stay themselves."""

    def __init__(self, *packages):
        self.packages = tuple(name for name in packages if importlib.util.find_spec(name) is None)

    def find_spec(self, fullname, path=None, target=None):
        if fullname.split(".")[0] not in self.packages:
            return None
        return importlib.machinery.ModuleSpec(fullname, self, is_package=True)

    def create_module(self, spec):
        module = ModuleType(spec.name)
        module.__getattr__ = lambda member: mock.MagicMock(name=member) if member[:2] != "__" else None
        return module

    def exec_module(self, module):
        module.__version__ = "99.0"


def stand_in(*packages):
    sys.meta_path.append(StandIn(*packages))
