// SPDX-License-Identifier: Apache-2.0
#include "exporters/export_plan.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>

namespace plansearch::exporters {
namespace {

constexpr std::string_view kPlain =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_=+.,:/@%";
constexpr std::string_view kEndOfFile = "PLANSEARCH_END_OF_FILE";

/// A flag without a value is `true`; lists are words of their own.
std::string arguments_text(const Entry& entry) {
  const auto text = [](const Value& value) {
    return shell_word(value.is_string() ? value.get<std::string>() : value.dump());
  };
  const bool is_override =
      !entry.name.starts_with("-") && entry.name.find(':') == std::string::npos;
  if (is_override) return fmt::format("{}={}", entry.name, text(entry.value));
  if (entry.value == Value(true)) return entry.name;
  if (!entry.value.is_array()) return fmt::format("{} {}", entry.name, text(entry.value));
  std::string line = entry.name;
  for (const Value& item : entry.value) line += " " + text(item);
  return line;
}

/// How processes are numbered: those of a node are consecutive, nodes in the order of their list,
/// which is the order the plan's ranks were placed in.
struct Ranks {
  std::string_view nodes, node, address, port;
};

/// The command of a node, with the program and its arguments behind it.
std::string starter_text(Starter starter, const Ranks& r, int gpus, int gpus_per_node) {
  if (starter == Starter::Jax) {
    return fmt::format(
        "env NNODES={} NODE_RANK=\"{}\" JAX_COORDINATOR_IP=\"{}\" JAX_COORDINATOR_PORT=\"{}\" "
        "python3",
        r.nodes, r.node, r.address, r.port);
  }
  if (starter == Starter::Accelerate) {
    return fmt::format(
        "accelerate launch --config_file \"$PLAN_CONFIG\" --num_machines {} --num_processes {} "
        "--machine_rank \"{}\" --main_process_ip \"{}\" --main_process_port \"{}\"",
        r.nodes, gpus, r.node, r.address, r.port);
  }
  return fmt::format(
      "torchrun --nnodes {} --nproc-per-node {} --node-rank \"{}\" --master-addr \"{}\" "
      "--master-port \"{}\"",
      r.nodes, gpus_per_node, r.node, r.address, r.port);
}

/// The first node starts the cluster and the program; the others join until it has ended.
std::string ray_text(const Ranks& r, int gpus_per_node) {
  return fmt::format(
      "if [ \"{0}\" = 0 ]; then "
      "ray start --head --node-ip-address=\"{1}\" --port=\"{2}\" --num-gpus={3}; "
      "code=0; python3 \"$@\" || code=$?; ray stop; exit \"$code\"; "
      "else until ray start --address=\"{1}:{2}\" --num-gpus={3} --block; do sleep 5; done; fi",
      r.node, r.address, r.port, gpus_per_node);
}

/// A variable of a network's own software; what the site has set wins.
struct NetworkVariable {
  std::string_view tier, name, value;
};
// Slingshot: eth-cscs/cscs-docs@1690357c docs/software/communication/nccl_env_vars, and
// NERSC/nccl-ofi-plugin env_nccl.sh. EFA: aws/aws-ofi-nccl README.
constexpr std::array kNetworkVariables{
    NetworkVariable{"slingshot", "NCCL_NET", "AWS Libfabric"},
    NetworkVariable{"slingshot", "NCCL_NET_GDR_LEVEL", "PHB"},
    NetworkVariable{"slingshot", "FI_CXI_DEFAULT_CQ_SIZE", "131072"},
    NetworkVariable{"slingshot", "FI_CXI_DISABLE_HOST_REGISTER", "1"},
    NetworkVariable{"slingshot", "FI_CXI_RX_MATCH_MODE", "software"},
    NetworkVariable{"slingshot", "FI_MR_CACHE_MONITOR", "userfaultfd"},
    NetworkVariable{"efa", "FI_PROVIDER", "efa"},
};

bool has_gpus(const ExportRequest& h) {
  return !h.problem.cluster->accelerator.name.starts_with("tpu");
}

std::string network_text(const ExportRequest& h) {
  if (h.nodes() == 1 || !has_gpus(h)) return {};
  const std::string& tier = h.problem.cluster->tiers.back().name;
  std::string text = "export NCCL_DEBUG=\"${NCCL_DEBUG:-WARN}\"\n";
  for (const NetworkVariable& variable : kNetworkVariables) {
    if (variable.tier == tier)
      text += fmt::format("export {0}=\"${{{0}:-{1}}}\"\n", variable.name, variable.value);
  }
  return text;
}

std::string trial_text(const Exporter& exporter, const ExportRequest& request) {
  if (exporter.launch.trial == nullptr) return "TRAIN_ARGS=(\"$@\")\n";
  std::vector<std::string> words;
  for (const std::string& word : exporter.launch.trial(request)) words.push_back(shell_word(word));
  return fmt::format(
      "# Arguments of this script take the place of a short trial on artificial data.\n"
      "TRAIN_ARGS=(\"$@\")\n"
      "[ $# -gt 0 ] || TRAIN_ARGS=({})\n",
      fmt::join(words, " "));
}

std::string slurm_head(const ExportRequest& h, const std::vector<std::string>& header) {
  std::string asked;
  for (const std::string& line : h.job.sbatch) asked += fmt::format("#SBATCH --{}\n", line);
  return fmt::format(
      "#!/bin/bash\n"
      "#SBATCH --job-name=plan-{}\n"
      "#SBATCH --nodes={}\n"
      "#SBATCH --ntasks-per-node=1\n"
      "{}"
      "#SBATCH --distribution=block\n"
      "#SBATCH --exclusive\n"
      "#SBATCH --requeue\n"
      "#SBATCH --open-mode=append\n"
      "{}{}# Add what your site asks for{}: modules, container.\n"
      "set -euo pipefail\n"
      "[ \"$SLURM_JOB_NUM_NODES\" = {} ] || {{ echo \"the plan needs {} nodes\" >&2; exit 2; }}\n"
      "MASTER_ADDR=$(scontrol show hostnames \"$SLURM_JOB_NODELIST\" | sed -n 1p)\n"
      "export MASTER_ADDR MASTER_PORT=\"${{MASTER_PORT:-29500}}\"\n",
      h.identity, h.nodes(),
      has_gpus(h) ? fmt::format("#SBATCH --gpus-per-node={}\n", h.gpus_per_node()) : "", asked,
      shell_comments(header),
      asked.empty() ? " (--sbatch time=24:00:00, account, partition, constraint)" : "", h.nodes(),
      h.nodes());
}

std::string torchrun_head(const ExportRequest& h, const std::vector<std::string>& header) {
  const std::string rank =
      h.nodes() == 1
          ? std::string("NODE_RANK=0\nMASTER_ADDR=\"${MASTER_ADDR:-localhost}\"\n")
          : fmt::format(
                "# Run on each of the {} nodes, with NODE_RANK 0 to {} and the address of "
                "the first.\n: \"${{NODE_RANK:?}}\" \"${{MASTER_ADDR:?}}\"\n",
                h.nodes(), h.nodes() - 1);
  return fmt::format(
      "#!/bin/bash\n{}set -euo pipefail\n{}MASTER_PORT=\"${{MASTER_PORT:-29500}}\"\n",
      shell_comments(header), rank);
}

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

std::string shell_word(std::string_view text) {
  if (!text.empty() && text.find_first_not_of(kPlain) == std::string_view::npos)
    return std::string(text);
  // A path from a variable of the job: "$SCRATCH/run".
  const std::size_t name =
      text.starts_with('$') ? text.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZ_", 1) : 0;
  const std::string_view path = text.substr(std::min(name, text.size()));
  if (name > 1 && path.find_first_not_of(kPlain) == std::string_view::npos)
    return fmt::format("\"{}\"", text);
  std::string word = "'";
  for (const char c : text) c == '\'' ? word += "'\\''" : word += c;
  return word + "'";
}

std::string shell_array(std::string_view name, const Entries& entries) {
  std::string text = fmt::format("{}=(\n", name);
  for (const Entry& entry : entries) text += fmt::format("  {}\n", arguments_text(entry));
  return text + ")\n";
}

std::string shell_comments(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += fmt::format("# {}\n", line);
  return text;
}

std::string shell_file(std::string_view path, std::string_view text) {
  return fmt::format("cat > \"{}\" <<'{}'\n{}{}\n", path, kEndOfFile, text, kEndOfFile);
}

std::string environment_text(const Exporter& exporter, const ExportRequest& request) {
  std::string text;
  for (const Variable& variable : exporter.launch.environment) {
    const auto value = variable.value(request);
    if (!value) continue;
    text += value->empty() ? fmt::format("unset {}\n", variable.name)
                           : fmt::format("export {}={}\n", variable.name, shell_word(*value));
  }
  return text;
}

std::string launch_script(const Exporter& exporter, const ExportRequest& request, Launcher launcher,
                          const std::vector<std::string>& header, const std::string& body) {
  const Launch& launch = exporter.launch;
  const bool slurm = launcher == Launcher::Slurm;
  const std::string nodes = fmt::format("{}", request.nodes());
  const Ranks ranks{nodes, slurm ? "$SLURM_NODEID" : "$NODE_RANK", "$MASTER_ADDR", "$MASTER_PORT"};
  const bool ray = launch.starter == Starter::Ray;
  const std::string start =
      ray ? ray_text(ranks, request.gpus_per_node())
          : starter_text(launch.starter, ranks, request.problem.gpus, request.gpus_per_node());
  // Each node works out its own rank: the command is a script of one line for srun.
  const std::string line =
      fmt::format("bash -c '{}' start", ray ? start : fmt::format("exec {} \"$@\"", start));
  const std::string by_hand = ray ? fmt::format("exec {}", line) : fmt::format("exec {}", start);
  const std::string command =
      slurm ? fmt::format("srun --ntasks-per-node=1 --cpu-bind=none --distribution=block {}", line)
            : by_hand;
  const std::string ranks_known = ray && !slurm ? "export NODE_RANK MASTER_ADDR MASTER_PORT\n" : "";
  const std::string script = fmt::format(
      "{}{}{}{}\n{}{}TRAIN_SCRIPT=(${{TRAIN_SCRIPT:-{}}})\n\n{} \"${{TRAIN_SCRIPT[@]}}\" {}\n",
      slurm ? slurm_head(request, header) : torchrun_head(request, header), ranks_known,
      network_text(request), environment_text(exporter, request), body,
      trial_text(exporter, request), launch.program ? launch.program(request) : launch.script,
      command, launch.arguments);
  return launcher == Launcher::Kubernetes ? kubernetes_job(request, header, script) : script;
}

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
