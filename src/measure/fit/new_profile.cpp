// SPDX-License-Identifier: Apache-2.0

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "base/units.hpp"
#include "io/hardware/profile_reader.hpp"
#include "io/plan/plan_document.hpp"
#include "measure/fit/fit_profile.hpp"
#include "measure/fit/fit_tables.hpp"
#include "measure/fit/kernel_fit.hpp"

namespace plansearch {
namespace {

/// Nothing runs at its peak: what the fastest sample reached is this much below.
constexpr double kAbove = 1.1;
constexpr double kMicrosecond = 1e-6;
constexpr std::string_view kAboveFastest = "a tenth above the fastest sample";

/// The fastest of each class but for one in twenty, which may be a wild sample.
class Fastest {
 public:
  void add(const std::string& what, double rate) { rates_[what].push_back(rate); }
  [[nodiscard]] std::map<std::string, double> all() const {
    std::map<std::string, double> fastest;
    for (auto [what, rates] : rates_) {
      std::ranges::sort(rates);
      fastest[what] = kAbove * rates[(rates.size() - 1) - rates.size() / 20];
    }
    return fastest;
  }

 private:
  std::map<std::string, std::vector<double>> rates_;
};

double bus_bytes(const io::Sample& sample) {
  const double ranks = io::number_in(sample.cells, "ranks");
  const std::string kind = io::word_in(sample.cells, "collective");
  if (kind == "send_recv") return io::number_in(sample.cells, "bytes");
  return (kind == "all_reduce" ? 2.0 : 1.0) * (ranks - 1.0) / ranks *
         io::number_in(sample.cells, "bytes");
}

void read_sample(const io::Sample& sample, Fastest& products, Fastest& passes, Fastest& messages,
                 Fastest& copies) {
  const double time = sample.time_us.value() * kMicrosecond;
  if (sample.probe == "gemm" && parse_data_type(io::word_in(sample.cells, "dtype"))) {
    products.add(std::string(to_text(*parse_data_type(io::word_in(sample.cells, "dtype")))),
                 2.0 * io::number_in(sample.cells, "m") * io::number_in(sample.cells, "n") *
                     io::number_in(sample.cells, "k") / time);
  } else if (sample.probe == "stream") {
    passes.add("memory", io::number_in(sample.cells, "bytes") / time);
  } else if (sample.probe == "collective") {
    messages.add("link", bus_bytes(sample) / time);
  } else if (sample.probe == "host_copy") {
    copies.add(io::word_in(sample.cells, "direction"), io::number_in(sample.cells, "bytes") / time);
  }
}

/// The accelerator with fused attention whose 16-bit peak is nearest; empty for machines without
/// 16-bit products.
std::string nearest_accelerator(const std::map<std::string, double>& peaks,
                                const ShippedData& data) {
  auto own = peaks.find("bf16");
  if (own == peaks.end()) own = peaks.find("fp16");
  if (own == peaks.end()) return {};
  std::string nearest;
  double distance = 0.0;
  for (const ShippedFile& file : data.clusters()) {
    const Accelerator chip = data.cluster(file.name).accelerator;
    const auto peak = chip.peak_of(own->first == "bf16" ? DataType::Bf16 : DataType::Fp16);
    if (!peak || !chip.kernels.attention_backward) continue;
    const double off = std::abs(std::log(peak->value() / own->second));
    if (!nearest.empty() && off >= distance) continue;
    nearest = chip.name;
    distance = off;
  }
  return nearest;
}

void require_one_machine(const std::vector<io::SampleFile>& files) {
  for (const io::SampleFile& file : files) {
    if (file.machine.name == files.front().machine.name &&
        file.machine.multiprocessors == files.front().machine.multiprocessors) {
      continue;
    }
    throw FitRefusal{fmt::format("the samples mix machines: {} and {}", files.front().machine.name,
                                 file.machine.name),
                     "fit a profile to those of one at a time"};
  }
}

std::string rate_text(double rate) {
  return fmt::format("{:.5g} GB/s", rate * 1e-9);
}

/// Rates and starts of a processor before its own are known.
MatmulCurve usual_products() {
  MatmulCurve curve;
  curve.launch = Seconds(2e-6);
  curve.flop_efficiency = 0.9;
  curve.byte_efficiency = 0.8;
  curve.prologue_depth = 32.0;
  curve.unaligned_rows = 1.1;
  return curve;
}

StreamCurve usual_passes() {
  StreamCurve curve;
  curve.launch = Seconds(2e-6);
  curve.efficiency = 0.85;
  curve.graph_launch = Seconds(1e-6);
  return curve;
}

std::string datasheet_text(const NewMachine& machine) {
  std::vector<std::string> peaks;
  for (const auto& [format, rate] : machine.peaks) {
    peaks.push_back(fmt::format("{}: {:.5g} GFLOP/s", format, rate * 1e-9));
  }
  return fmt::format(
      "  name: {}\n  memory: {:.0f} B\n  memory_bandwidth: {}\n  l2_cache: {:.0f} B\n"
      "  multiprocessors: {}\n  peak: {{{}}}\n",
      io::in_quotes(machine.sampled.name), machine.sampled.memory_bytes,
      rate_text(machine.memory_rate), machine.sampled.cache_bytes, machine.sampled.multiprocessors,
      fmt::join(peaks, ", "));
}

std::string start_text(const NewMachine& machine) {
  if (!machine.shipped.empty()) {
    return fmt::format("accelerator:\n  like: {}\n", io::in_quotes(machine.shipped));
  }
  std::string text = "accelerator:\n" + datasheet_text(machine) + "  kernels:\n";
  if (!machine.donor.empty()) text += fmt::format("    like: {}\n", io::in_quotes(machine.donor));
  text += "    matmul:\n";
  for (const auto& [format, rate] : machine.peaks) {
    text += fmt::format("      {}: {}\n", format, matmul_keys(usual_products()));
  }
  return text + fmt::format("    stream: {}\n", stream_keys(usual_passes()));
}

std::string tier_head(const NewMachine& machine) {
  return fmt::format("  - name: node\n    kind: switch\n    size: {}\n    bandwidth: {}\n",
                     machine.sampled.accelerators, rate_text(machine.link_rate));
}

/// A fabric: samples of one node cannot show it.
std::string network_text(const NewMachine& machine, const std::string& fabric) {
  constexpr int kNodes = 64;
  return fmt::format(
      "  - name: network\n    kind: fat-tree\n    size: {}\n    nics_per_node: 1\n"
      "    nic_bandwidth: 10 Gbit/s\n{}    provenance:\n"
      "      - {{fields: [size, nics_per_node, nic_bandwidth], evidence: assumed, source: \"one "
      "node "
      "cannot tell: edit these\"}}\n",
      kNodes * machine.sampled.accelerators,
      fabric.empty() ? "    fabric: ethernet-tcp\n" : fabric);
}

std::string host_text(const NewMachine& machine) {
  if (machine.host_rates.size() < 2) return {};
  return fmt::format(
      "host: {{memory: {:.0f} B, memory_bandwidth: {}, to_device: {}, "
      "from_device: {}}}\n",
      machine.sampled.memory_bytes, rate_text(machine.memory_rate),
      rate_text(machine.host_rates.at("to_device") / kAbove),
      rate_text(machine.host_rates.at("from_device") / kAbove));
}

std::string head_text(const NewMachine& machine) {
  std::vector<std::string> facts;
  for (const auto& [name, fact] : machine.sampled.facts) facts.push_back(name + " " + fact);
  return fmt::format(
      "# written by plansearch fit\nschema: plansearch/profile/v1\nname: {}\ndescription: {}\n"
      "accelerators_per_node: {}\n",
      io::in_quotes(machine.name),
      io::in_quotes(fmt::format("{}, measured ({})", machine.sampled.name, fmt::join(facts, ", "))),
      machine.sampled.accelerators);
}

std::string accelerator_text(const NewMachine& machine, const KernelFit& fit) {
  std::string text = "accelerator:\n";
  if (machine.shipped.empty()) {
    text += datasheet_text(machine);
  } else {
    text += fmt::format("  like: {}\n  name: {}\n", io::in_quotes(machine.shipped),
                        io::in_quotes(machine.sampled.name));
  }
  text += kernels_section(fit, WrittenKeys::All, machine.donor) + concurrency_section(fit) +
          "  provenance:\n";
  if (machine.shipped.empty()) {
    text +=
        "    - " +
        evidence_entry("memory, l2_cache, multiprocessors", "measured", "what the system reports") +
        "    - " + evidence_entry("memory_bandwidth, peak", "assumed", kAboveFastest);
  }
  return text + kernels_provenance(fit, {});
}

}  // namespace

NewMachine new_machine(const std::string& name, const std::vector<io::SampleFile>& files,
                       const ShippedData& data) {
  require_one_machine(files);
  NewMachine machine;
  machine.name = name;
  machine.sampled = files.front().machine;
  machine.shipped = shipped_accelerator(machine.sampled.name, data).value_or("");
  Fastest products;
  Fastest passes;
  Fastest messages;
  Fastest copies;
  for (const io::SampleFile& file : files) {
    for (const io::Sample& sample : file.samples) {
      if (sample.time_us) read_sample(sample, products, passes, messages, copies);
    }
  }
  machine.peaks = products.all();
  machine.host_rates = copies.all();
  for (const auto& [what, rate] : passes.all()) machine.memory_rate = rate;
  for (const auto& [what, rate] : messages.all()) machine.link_rate = rate;
  if (!machine.shipped.empty()) return machine;
  if (machine.peaks.empty() || machine.memory_rate == 0.0) {
    throw FitRefusal{fmt::format("there is no sample of {}", machine.peaks.empty()
                                                                 ? "matrix products (gemm)"
                                                                 : "passes over memory (stream)"),
                     "measure them too, or name a profile that is like the machine with --base"};
  }
  machine.donor = nearest_accelerator(machine.peaks, data);
  return machine;
}

bool has_link(const NewMachine& machine) {
  return machine.sampled.accelerators > 1 && machine.link_rate > 0.0;
}

Cluster starting_cluster(const NewMachine& machine, const ShippedData& data) {
  std::string text = head_text(machine) + start_text(machine) + "tiers:\n";
  if (has_link(machine)) text += tier_head(machine);
  if (has_link(machine) && !machine.link.empty()) {
    text += fmt::format("    link: {}\n", io::in_quotes(machine.link));
  }
  text += network_text(machine, {});
  const std::vector<std::filesystem::path> directories{data.directory() / "hardware_profiles"};
  return io::parse_cluster(text, machine.name, directories);
}

std::string new_profile_text(const NewMachine& machine, const KernelFit& fit) {
  std::string text =
      head_text(machine) + software_section(fit) + accelerator_text(machine, fit) + "tiers:\n";
  if (has_link(machine)) {
    text += tier_head(machine) + link_lines(fit, "node", {}) + "    provenance:\n      - " +
            evidence_entry("size", "measured", "ranks of the samples") + "      - " +
            evidence_entry("bandwidth", "assumed", kAboveFastest);
  }
  return text + network_text(machine, link_lines(fit, "network", {})) + host_text(machine);
}

}  // namespace plansearch
