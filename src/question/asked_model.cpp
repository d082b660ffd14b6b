// SPDX-License-Identifier: Apache-2.0
#include "question/asked_model.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/units.hpp"
#include "plansearch/error.hpp"
#include "question/usual_software.hpp"
#include "report/plan_cells.hpp"
#include "workload/operator_traits.hpp"

namespace plansearch {

std::optional<std::string> change_of_length(const ModelDescription& model,
                                            std::optional<std::int64_t> seq_len) {
  const std::int64_t own = model.training.seq_len;
  if (!model.graph || seq_len.value_or(own) == own) return std::nullopt;
  return fmt::format("model.seq_len={}", *seq_len);
}

std::int64_t tokens_of(const Network& network) {
  std::int64_t tokens = 1;
  for (const Dimension& dimension : network.dimensions) {
    if (dimension.role == DimRole::Sequence) tokens = std::max(tokens, dimension.extent);
  }
  return tokens;
}

Images asked_images(const ModelDescription& model, const ProblemRequest& request,
                    AttentionKind attention, std::int64_t tokens,
                    std::vector<SettingReport>& settings) {
  const std::string& text = *request.images;
  if (!model.tower) {
    throw InputError({},
                     fmt::format("--images: {} has no vision tower that is described", model.name),
                     "docs/models.md lists the towers that are");
  }
  if (attention != AttentionKind::Fused) {
    throw InputError({}, "--images: attention of a tower is one kernel, and it is unfused here",
                     "use --attention flash, on a machine with rates of such a kernel");
  }
  const std::size_t comma = text.find(',');
  const auto count = parse_as<std::int64_t>(text.substr(0, comma));
  const std::string word = comma == std::string::npos ? "" : text.substr(comma + 1);
  if (!count || *count < 1 ||
      !(comma == std::string::npos || word == "frozen" || word == "trained")) {
    throw InputError({}, fmt::format("--images: '{}' is not a number of images", text),
                     "write 4, 4,frozen or 4,trained");
  }
  const std::int64_t each = tokens_of_image(*model.tower->network);
  if (*count > tokens / each) {
    throw InputError({},
                     fmt::format("--images {}: each takes {} tokens, and a sequence has {}", *count,
                                 each, tokens),
                     "use fewer images, or a longer --seq-len");
  }
  const std::string& program = request.target.empty() ? request.framework : request.target;
  const bool frozen = word == "frozen" || model.training.lora.has_value() ||
                      (word.empty() && freezes_towers(program));
  settings.push_back({"images", text, request.origin("images")});
  settings.push_back(
      {"tower",
       fmt::format("{} parameters on the first stage, {}; {} tokens an image",
                   count_text(static_cast<double>(parameter_count(*model.tower->network))),
                   frozen ? "frozen" : "trained", each),
       word.empty() ? "default" : request.origin("images")});
  return {*count, frozen};
}

std::string left_out_text(const ModelDescription& model, const std::vector<std::string>& parts) {
  if (!model.tower) return fmt::format("{}", fmt::join(parts, ", "));
  std::vector<std::string> named{
      fmt::format("its vision tower of {} parameters (--images)",
                  count_text(static_cast<double>(parameter_count(*model.tower->network))))};
  for (const std::string& part : parts) {
    if (part != "vision_config") named.push_back(part);
  }
  return fmt::format("{}", fmt::join(named, ", "));
}

void refuse_built(const ModelDescription& model, const ProblemRequest& request,
                  const Cluster& cluster) {
  if (request.attention) {
    throw InputError(
        {}, fmt::format("--attention: the graph file of {} lists its operators", model.name),
        "change them there");
  }
  if (cluster.accelerator.kernels.attention_forward) return;
  for (const Block& block : model.graph->blocks) {
    for (const Operator& op : block.operators) {
      if (traits(op).cost != CostClass::FusedAttention) continue;
      throw InputError({},
                       fmt::format("{} of {} is fused attention: no rates of such a kernel for {}",
                                   op.name, block.name, cluster.accelerator.name),
                       "write scores, softmax and context as operators of their own");
    }
  }
}

}  // namespace plansearch
