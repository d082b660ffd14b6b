// SPDX-License-Identifier: Apache-2.0
// Source: AI-Hypercomputer/maxtext@e591f30c src/maxtext/configs/base.yml (defaults),
// src/maxtext/utils/max_utils.py: fill_unspecified_mesh_axes, get_num_slices.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "exporters/maxtext_axes.hpp"
#include "exporters/readers.hpp"
#include "schedule/table.hpp"

namespace plansearch::exporters {
namespace {

constexpr std::size_t kAxisCount = kMeshAxes.size();

int said_or(const Reading& r, const std::string& key, int otherwise) {
  if (is_left_open(r.value(key))) return otherwise;
  return static_cast<int>(whole_number(r.value(key), -1, 10'000'000));
}

/// Sizes by axis, -1 for what is left; two axes of one meaning multiply.
std::array<int, kAxisCount> sizes_of(const Reading& r, const std::string& where, MeshAxis open) {
  std::array<int, kAxisCount> sizes{};
  for (std::size_t axis = 0; axis < kAxisCount; ++axis) {
    const int otherwise = axis == static_cast<std::size_t>(open) ? -1 : 1;
    sizes.at(axis) =
        said_or(r, fmt::format("{}_{}_parallelism", where, kMeshAxes.at(axis)), otherwise);
  }
  const auto also = [&](MeshAxis axis, const char* name) {
    int& size = sizes.at(static_cast<std::size_t>(axis));
    const int other = said_or(r, fmt::format("{}_{}_parallelism", where, name), 1);
    if (other > 1 && size > 0) size *= other;
  };
  also(MeshAxis::Fsdp, "fsdp_transpose");
  also(MeshAxis::Tensor, "tensor_sequence");
  also(MeshAxis::Tensor, "sequence");
  return sizes;
}

int product(const std::array<int, kAxisCount>& sizes) {
  int all = 1;
  for (const int size : sizes) all *= std::max(size, 1);
  return all;
}

/// The one axis that is -1 takes what is left of `devices`.
void fill(std::array<int, kAxisCount>& sizes, int devices, const char* where) {
  const int known = product(sizes);
  for (int& size : sizes) {
    if (size > 0) continue;
    if (size == 0 || devices % known != 0)
      throw Unsettled(fmt::format("{} axes of {} do not divide {} devices", where, known, devices),
                      "--gpus N, or another file");
    size = devices / known;
    return;
  }
}

std::array<int, kAxisCount> settle_mesh(Reading& r) {
  auto inside = sizes_of(r, "ici", MeshAxis::Fsdp);
  auto between = sizes_of(r, "dcn", MeshAxis::Data);
  const bool open = std::ranges::find(inside, -1) != inside.end();
  const bool open_between = std::ranges::find(between, -1) != between.end();
  const bool gpu = r.key_word("hardware").starts_with("gpu");
  int slices = said_or(r, "num_slices", -1);
  if (slices < 1) slices = product(between);
  if (open_between && gpu && r.gpus() > 0 && r.node_gpus > 0 && r.gpus() > r.node_gpus)
    slices = r.gpus() / r.node_gpus;
  if (!open && r.gpus() > 0 && r.gpus() % product(inside) == 0) slices = r.gpus() / product(inside);
  if (open && r.gpus() == 0) throw Unsettled("nothing says how many devices there are", "--gpus N");
  fill(between, slices, "dcn");
  if (open) fill(inside, r.gpus() / std::max(slices, 1), "ici");
  std::array<int, kAxisCount> sizes{};
  for (std::size_t axis = 0; axis < kAxisCount; ++axis)
    sizes.at(axis) = inside.at(axis) * between.at(axis);
  return sizes;
}

void settle_degrees(Reading& r) {
  const auto sizes = settle_mesh(r);
  const auto size = [&](MeshAxis axis) { return sizes.at(static_cast<std::size_t>(axis)); };
  PlanDegrees& d = r.degrees;
  d.expert = size(MeshAxis::Expert);
  d.tensor_out = size(MeshAxis::Tensor);
  d.context = size(MeshAxis::Context);
  d.pipeline = size(MeshAxis::Pipeline);
  const int group = size(MeshAxis::Fsdp) * d.expert;
  d.data = group * size(MeshAxis::Data);
  if (d.context == 1) d.context_kind = ContextKind::Ring;
  d.sequence_parallel = d.tensor_out > 1 ? SequenceParallel::On : SequenceParallel::Off;
  if (group > 1 || d.context > 1) {
    d.zero = ZeroStage::Parameters;
    if (group < d.data) d.shard_group = group;
  } else if (is_on(r.value("shard_optimizer_over_data"))) {
    d.zero = ZeroStage::Optimizer;
  }
  settle_ranks(r);
}

void settle_batches(Reading& r) {
  PlanDegrees& d = r.degrees;
  const int passes = said_or(r, "gradient_accumulation_steps", 1);
  const double each =
      r.says("per_device_batch_size") ? real_number(r.value("per_device_batch_size")) : 12.0;
  const double sequences = each * r.gpus();
  if (sequences < 1.0 || sequences > 1e9)
    throw Unsettled("per_device_batch_size leaves no whole sequence to a step", "another value");
  const auto forward = static_cast<std::int64_t>(std::llround(sequences));
  const int pieces = d.pipeline > 1 ? std::max(said_or(r, "num_pipeline_microbatches", -1), 1) : 1;
  d.micro_batches = passes * (d.pipeline > 1 && pieces == 1 ? d.pipeline : pieces);
  if (!r.asked.batch) r.asked.batch = forward * passes;
  const std::int64_t shares = std::int64_t{1} * d.data * d.micro_batches;
  if (*r.asked.batch % shares != 0)
    throw Unsettled(fmt::format("a batch of {} is not a whole number of sequences in {} parts on "
                                "{} data ranks",
                                *r.asked.batch, d.micro_batches, d.data),
                    "--batch N, or another file");
  d.micro_batch = static_cast<int>(*r.asked.batch / shares);
  settle_batch(r);
}

void settle_stages(Reading& r) {
  PlanDegrees& d = r.degrees;
  if (d.pipeline == 1) return;
  d.chunks = std::max(said_or(r, "num_pipeline_repeats", -1), 1);
  if (!r.says("num_pipeline_repeats") && r.model.layers > 0) {
    const int each = said_or(r, "num_layers_per_pipeline_stage", 1);
    d.chunks = static_cast<int>(std::max<std::int64_t>(r.model.layers / each / d.pipeline, 1));
  }
  d.schedule = find_schedule(d.chunks > 1 ? "breadth-first" : "gpipe").value();
}

void settle_policy(Reading& r) {
  const std::string policy = r.key_word("remat_policy", "full");
  r.degrees.recompute =
      policy == "full" || policy == "none" ? Recompute::Full : Recompute::Selective;
  if (policy != "full" && policy != "minimal")
    r.notes.push_back(fmt::format("remat_policy {} is priced as {}", policy,
                                  r.degrees.recompute == Recompute::Full ? "full" : "minimal"));
  const std::string format = r.key_word("dtype", "bfloat16");
  r.asked.precision = format == "float32" ? "fp32" : "bf16";
  if (r.key_word("quantization").find("fp8") != std::string::npos) r.asked.precision = "fp8";
}

void settle_model(Reading& r) {
  ModelDescription& m = r.model;
  if (!r.named.empty()) r.has_model = false;  // sizes beside a name repeat it
  const std::string block = r.key_word("decoder_block", "llama2");
  if (r.key_word("attention_type") != "mla") m.attention.latent.reset();
  if (block == "gpt3") {
    m.norm.kind = NormKind::LayerNorm;
    m.mlp.gated = false;
    m.mlp.activation = Activation::Gelu;
    m.mlp.bias = m.attention.query_key_value_bias = m.attention.output_bias = true;
    m.attention.positions = PositionKind::Learned;
    m.attention.kv_heads = m.attention.heads;
  } else if (r.has_model && block != "llama2" && block != "qwen2" && block != "qwen3" &&
             block != "qwen3_moe" && block != "mixtral" && block != "mistral" &&
             block != "deepseek") {
    throw Unsettled(fmt::format("decoder_block {} has no description here", block), "--model NAME");
  }
  if (is_on(r.value("attention_bias"))) m.attention.query_key_value_bias = true;
  if (is_on(r.value("use_qk_norm"))) m.attention.qk_norm = QkNorm::PerHead;
  if (m.moe) {
    m.moe->shared_width = m.moe->expert_width * said_or(r, "shared_experts", 0);
    if (m.moe->expert_width == 0) m.moe->expert_width = m.mlp.width;
    r.degrees.expert_tensor = r.degrees.tensor_out;
  }
}

}  // namespace

/// configs/base.yml.
void start_maxtext(Reading& r) {
  r.degrees.context_kind = ContextKind::AllGather;
  ModelDescription& m = r.model;
  m.hidden = 2048;
  m.layers = 16;
  m.mlp.width = 7168;
  m.mlp.gated = true;
  m.mlp.activation = Activation::Silu;
  m.norm.kind = NormKind::RmsNorm;
  m.attention.heads = m.attention.kv_heads = 16;
  m.attention.head_size = 128;
  m.attention.positions = PositionKind::Rotary;
  m.embedding.vocab = 32'000;
}

void settle_maxtext(Reading& r) {
  settle_degrees(r);
  settle_model(r);
  settle_stages(r);
  settle_policy(r);
  settle_batches(r);
}

}  // namespace plansearch::exporters
