// SPDX-License-Identifier: Apache-2.0
// PrimePar, figure 9: the linear layers of an MLP under Megatron's cuts and in steps over squares.
#include <fmt/format.h>

#include "studies/reproduce/primepar.hpp"
#include "studies/reproduce/primepar_layers.hpp"

namespace plansearch {
namespace {

LayerQuestion mlp_question(const char* model, int gpus, std::int64_t batch) {
  LayerQuestion question;
  question.model = model;
  question.gpus = gpus;
  question.batch = batch;
  question.part = Part::Mlp;
  return question;
}

double ms(Seconds time) {
  return 1e3 * time.value();
}

/// {B,K,K}, {B,N,N} beside what the paper's planner found, {K,P2x2}, {N,P2x2}, and ours finds.
void add_timeline(const StudyContext& context, Figures& figures) {
  const LayerProblems problems(mlp_question("opt-175b", 8, 8), context.data);
  const auto megatron = layer_price(problems, {{2, 4}, {}});
  const auto best = fastest_layer(problems, sequence_plans(problems));
  if (!megatron || !best) return;
  const LayerPrice& primepar = best->price;
  const std::vector<std::string> words{best->plan.words};
  figures.add("timeline megatron products", ms(megatron->compute));
  figures.add("timeline megatron all-reduces", ms(megatron->collectives));
  figures.add("timeline products", ms(primepar.compute), words);
  figures.add("timeline all-reduces", ms(primepar.collectives), words);
  figures.add("timeline tiles", ms(primepar.tiles), words);
  figures.add("timeline redistribution", ms(primepar.redistribution), words);
  figures.add("timeline ratio", primepar.step / megatron->step);
}

void add_bar(const char* model, int gpus, int batch, const StudyContext& context,
             Figures& figures) {
  const LayerProblems problems(mlp_question(model, gpus, batch), context.data);
  const auto megatron = fastest_layer(problems, megatron_plans(gpus));
  const auto best = fastest_layer(problems, sequence_plans(problems));
  if (!megatron || !best) return;
  const LayerPrice& plain = megatron->price;
  const auto id = [&](const char* what) {
    return fmt::format("mlp {} {} {} {}", model, gpus, batch, what);
  };
  figures.add(id("collectives"), plain.collectives / plain.step, {to_text(megatron->plan)});
  figures.add(id("best"), best->price.step / plain.step, {to_text(best->plan)});
  figures.add(id("all-reduces"), best->price.collectives / plain.collectives);
  figures.add(id("tiles"), best->price.exposed_tiles / plain.step);
}

}  // namespace

void add_primepar_mlp(const StudyContext& context, PrimeparNodes nodes, Figures& figures) {
  const bool small = nodes == PrimeparNodes::UpToTwo;
  if (small) add_timeline(context, figures);
  for (const char* model : {"opt-175b", "llama2-70b"}) {
    for (const int batch : {8, 16}) add_bar(model, small ? 8 : 16, batch, context, figures);
  }
}

}  // namespace plansearch
