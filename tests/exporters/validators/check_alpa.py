# SPDX-License-Identifier: Apache-2.0
"""Alpa's own PipeshardParallel, ManualStageOption and get_sliced_virtual_submeshes on exported methods: submeshes
cut from the cluster, layers dealt out to stages, options of each stage, what cluster_layers_and_slice_mesh asserts.

Stood in for: JAX, Ray, and everything of alpa that needs them."""

import dataclasses
import importlib.util
import sys
from types import ModuleType, SimpleNamespace

import validator
from stand_in import stand_in

ROOT = validator.checkout("PLANSEARCH_ALPA", "alpa/pipeline_parallel/stage_construction.py")
np = validator.need("numpy")
stand_in("jax", "jaxlib", "ray", "cupy", "flax", "optax", "numba", "tqdm", "pulp")
STARTED = SimpleNamespace(nodes=1, devices=1)


def package(name):
    module = ModuleType(name)
    module.__path__ = [str(ROOT / name.replace(".", "/"))]
    sys.modules[name] = module
    return module


def load(name):
    """A module of alpa by its file; all others of its package are stood in for."""
    spec = importlib.util.spec_from_file_location(name, ROOT / f"{name.replace('.', '/')}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


@dataclasses.dataclass
class Mesh:
    """VirtualPhysicalMesh: hosts and devices of each."""
    hosts: tuple
    devices: tuple
    launched_physical_mesh_group = None

    num_hosts = property(lambda self: len(self.hosts))
    num_devices_per_host = property(lambda self: len(self.devices[0]))
    num_devices = property(lambda self: self.num_hosts * self.num_devices_per_host)
    shape = property(lambda self: (self.num_hosts, self.num_devices_per_host))

    def slice_2d(self, hosts, devices):
        return Mesh(tuple(self.hosts[h] for h in hosts), tuple(tuple(d) for d in devices))


alpa = package("alpa")
package("alpa.pipeline_parallel")
package("alpa.shard_parallel")
for other in ("alpa.device_mesh", "alpa.timer", "alpa.util", "alpa.create_state_parallel", "alpa.follow_parallel", "alpa.parallel_plan",
              "alpa.pipeline_parallel.computation", "alpa.pipeline_parallel.stage_profiling", "alpa.pipeline_parallel.layer_stats",
              "alpa.pipeline_parallel.primitive_def", "alpa.pipeline_parallel.compile_executable", "alpa.pipeline_parallel.local_pipeline",
              "alpa.shard_parallel.compile_executable", "alpa.shard_parallel.manual_sharding", "alpa.shard_parallel.auto_sharding"):
    if other in sys.modules:
        continue
    module = ModuleType(other)
    module.__getattr__ = lambda member: type(member, (), {}) if member[:2] != "__" else None
    sys.modules[other] = module
sys.modules["alpa.util"].maybe_numba_jit = lambda function: function
load("alpa.global_env")
source = (ROOT / "alpa/shard_parallel/auto_sharding.py").read_text()
first = source.index("@dataclasses.dataclass\nclass AutoShardingOption")
scope = {"dataclasses": dataclasses, "Optional": __import__("typing").Optional}
exec(source[first:source.index("\nclass LogicalDeviceMesh")], scope)  # the rest of the file needs XLA
alpa.AutoShardingOption = sys.modules["alpa.shard_parallel.auto_sharding"].AutoShardingOption = scope["AutoShardingOption"]
layers = load("alpa.pipeline_parallel.layer_construction")
stages = load("alpa.pipeline_parallel.stage_construction")
methods = load("alpa.parallel_method")
alpa.ManualLayerOption, alpa.ManualStageOption = layers.ManualLayerOption, stages.ManualStageOption
alpa.PipeshardParallel = methods.PipeshardParallel
SCHEDULES = (ROOT / "alpa/pipeline_parallel/schedules.py").read_text()


def init(cluster, num_nodes, num_devices_per_node):
    assert cluster == "ray"
    STARTED.nodes, STARTED.devices = num_nodes, num_devices_per_node


alpa.init = init
sys.modules["ray"] = SimpleNamespace(init=lambda **_: None, nodes=lambda: [{"Alive": True}] * 10**6)


def check(case):
    members = {}
    exec(compile(case["config"], "alpa_plan.py", "exec"), members)
    method = members["parallel_method"]
    assert isinstance(method, methods.PipeshardParallel) and isinstance(method.stage_option, stages.ManualStageOption)
    option = method.stage_option
    assert STARTED.nodes * STARTED.devices == case["world"]
    assert [i for ids in option.forward_stage_layer_ids for i in ids] == list(range(case["layers"]))
    assert f'pipeline_schedule["{method.pipeline_schedule}"] = ' in SCHEDULES
    cluster = Mesh(tuple(range(STARTED.nodes)), (tuple(range(STARTED.devices)),) * STARTED.nodes)
    meshes = stages.get_sliced_virtual_submeshes(cluster, option.submesh_physical_shapes)
    used = [(host, device) for mesh in meshes for host, devices in zip(mesh.hosts, mesh.devices) for device in devices]
    assert len(set(used)) == len(used) == case["world"]
    for mesh, shape, options in zip(meshes, option.submesh_logical_shapes, option.submesh_autosharding_option_dicts, strict=True):
        assert np.prod(shape) == mesh.num_devices
        assert dataclasses.replace(method.as_option, **options).force_batch_dim_to_mesh_dim == 0
    data, operator = option.submesh_logical_shapes[0]
    return {"pp": len(meshes), "dp": int(data), "tp": int(operator), "micro_batches": method.num_micro_batches,
            "zero": int(method.as_option.prefer_reduce_scatter)}


validator.run(check, f"alpa {validator.commit(ROOT)}")
