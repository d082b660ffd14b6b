# SPDX-License-Identifier: Apache-2.0
# spack repo create mine && mkdir -p mine/packages/plansearch && cp packaging/spack/package.py mine/packages/plansearch/
# spack repo add mine && spack dev-build -d . plansearch@main
from spack.package import *


class Plansearch(CMakePackage):
    """Which parallel plan to train a large neural network with, how long a step takes, whether it fits in memory, and why."""

    license("Apache-2.0")
    version("main", branch="main")

    variant("python", default=False, description="Build the Python module")
    variant("static", default=False, description="Link the executable statically")

    depends_on("cxx", type="build")
    depends_on("cmake@3.25:", type="build")
    depends_on("ninja", type="build")
    depends_on("cli11@2.1:", type="build")
    depends_on("boost@1.74:+graph", type="build")
    depends_on("eigen@3.4:", type="build")
    depends_on("nlohmann-json@3.11:", type="build")
    depends_on("fmt@9:")
    depends_on("yaml-cpp@0.7:")
    depends_on("sqlite@3.34:")
    depends_on("zlib-api")
    depends_on("yaml-cpp~shared", when="+static")
    depends_on("py-pybind11@2.10:", type="build", when="+python")
    extends("python", when="+python")

    conflicts("%gcc@:10", msg="plansearch is written in C++20")
    generator("ninja")

    def cmake_args(self):
        return [
            self.define("PLANSEARCH_BUILD_TESTS", False),
            self.define_from_variant("PLANSEARCH_PYTHON", "python"),
            self.define_from_variant("PLANSEARCH_STATIC", "static"),
        ]
