# SPDX-License-Identifier: Apache-2.0
"""Packages that validators import and never compute with: any attribute, call or subclass of a
stand-in is there and does nothing. Lets a framework's own checks run without a GPU or PyTorch."""
import importlib
import importlib.abc
import importlib.machinery
import sys
import types
import typing


class Anything:
    """An attribute, function, class or value nobody looks into."""

    def __init__(self, name="anything"):
        self.__dict__["__name__"] = self.__dict__["__qualname__"] = name
        self.__dict__["__module__"] = name

    def __getattr__(self, name):
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        value = Anything(f"{self.__name__}.{name}")
        self.__dict__[name] = value
        return value

    def __call__(self, *args, **named):
        plain = len(args) == 1 and not named
        if plain and (isinstance(args[0], type) or callable(args[0]) and not isinstance(args[0], Anything)):
            return args[0]  # a decorator
        return Anything(self.__name__ + "()")

    def __mro_entries__(self, bases):
        return (object,) if all(isinstance(base, Anything) for base in bases) and self is bases[0] else ()

    def __instancecheck__(self, instance):
        return False

    def __subclasscheck__(self, kind):
        return False

    def __getitem__(self, key):
        return self

    def __iter__(self):
        return iter(())

    def __enter__(self):
        return self

    def __exit__(self, *ignored):
        return False

    def __or__(self, other):
        return typing.Any

    __ror__ = __or__

    def __bool__(self):
        return False

    def __str__(self):
        return self.__name__


class Module(types.ModuleType):
    def __getattr__(self, name):
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        value = Anything(f"{self.__name__}.{name}")
        setattr(self, name, value)
        return value


class BarePackage(types.ModuleType):
    """Its submodules are real, the classes its __init__ would have named are stand-ins."""

    def __getattr__(self, name):
        if not name[:1].isupper():
            raise AttributeError(name)
        return Anything(f"{self.__name__}.{name}")


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def __init__(self, roots):
        self.roots = roots

    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] not in self.roots:
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec):
        module = Module(spec.name)
        module.__version__ = "99.0"
        module.__path__ = []
        return module

    def exec_module(self, module):
        pass


def stand_in_for(*roots):
    """Imports of these packages find stand-ins from now on."""
    sys.meta_path.insert(0, Finder(set(roots)))
    for name in ("packaging", "packaging.version", "typing_extensions"):  # these do compute
        try:
            importlib.import_module(name)
        except ImportError:
            sys.modules[name] = importlib.import_module("pip._vendor." + name)
    if not hasattr(typing, "override"):  # Python 3.11
        typing.override = lambda function: function


def bare_package(name, path):
    """The package without what its __init__ would run."""
    module = BarePackage(name)
    module.__path__ = [str(path)]
    sys.modules[name] = module
    if "." in name:
        parent, leaf = name.rsplit(".", 1)
        setattr(sys.modules[parent], leaf, module)
    return module
