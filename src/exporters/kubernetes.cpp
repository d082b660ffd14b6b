// SPDX-License-Identifier: Apache-2.0
// Source: kubeflow/training-operator@5fa872ff (v1) pkg/apis/kubeflow.org/v1/pytorch_types.go:
// PyTorchJob (the container is called "pytorch"); pkg/controller.v1/pytorch/envvar.go: setPodEnv
// (MASTER_ADDR, MASTER_PORT, RANK by replica: 0 the master, 1 + index a worker).
#include <fmt/format.h>

#include "exporters/shell.hpp"

namespace plansearch::exporters {
namespace {

/// Kubernetes replaces $(NAME) in arguments and reads $$ as one $.
std::string without_expansion(std::string_view text) {
  std::string result;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool expands =
        text[i] == '$' && i + 1 < text.size() && (text[i + 1] == '(' || text[i + 1] == '$');
    result += expands ? "$$" : std::string(1, text[i]);
  }
  return result;
}

std::string_view resource_of(const ExportRequest& h) {
  const std::string& name = h.problem.cluster->accelerator.name;
  if (name.starts_with("mi")) return "amd.com/gpu";
  if (name.starts_with("gaudi")) return "habana.ai/gaudi";
  if (name.starts_with("tpu")) return "google.com/tpu";
  return "nvidia.com/gpu";
}

Value replicas_of(const ExportRequest& h, int count, const std::string& script) {
  Value limits = Value::object();
  limits[std::string(resource_of(h))] = h.gpus_per_node();
  Value container{{"name", "pytorch"},
                  {"image", h.job.image.empty() ? std::string("IMAGE") : h.job.image},
                  {"command", {"bash", "-c"}},
                  {"args", Value::array({script})},
                  {"resources", {{"limits", limits}}},
                  {"volumeMounts", Value::array({{{"name", "shm"}, {"mountPath", "/dev/shm"}}})}};
  Value pod{{"containers", Value::array({container})},
            {"volumes", Value::array({{{"name", "shm"}, {"emptyDir", {{"medium", "Memory"}}}}})}};
  return {{"replicas", count},
          {"restartPolicy", "OnFailure"},
          {"template", {{"spec", std::move(pod)}}}};
}

}  // namespace

std::string kubernetes_job(const ExportRequest& h, const std::vector<std::string>& header,
                           const std::string& script) {
  const std::string safe = without_expansion("export NODE_RANK=\"${RANK:-0}\"\n" + script);
  Value replicas{{"Master", replicas_of(h, 1, safe)}};
  if (h.nodes() > 1) replicas["Worker"] = replicas_of(h, h.nodes() - 1, safe);
  std::vector<std::string> lines = header;
  lines.emplace_back(
      "add what your cluster asks for: namespace, volumes of data, network devices, and an image "
      "with the framework");
  return write_yaml(lines, {{"apiVersion", Value("kubeflow.org/v1")},
                            {"kind", Value("PyTorchJob")},
                            {"metadata", {{"name", fmt::format("plan-{}", h.identity)}}},
                            {"spec",
                             {{"runPolicy", {{"cleanPodPolicy", "None"}}},
                              {"pytorchReplicaSpecs", std::move(replicas)}}}});
}

}  // namespace plansearch::exporters
