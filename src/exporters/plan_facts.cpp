// SPDX-License-Identifier: Apache-2.0
// Facts of a plan, its question and its job, whatever the target.
#include <fmt/format.h>

#include "base/names.hpp"
#include "exporters/fact.hpp"
#include "plansearch/degree_table.hpp"

namespace plansearch::exporters {
namespace {

/// The value that is spelled by a word: another is wrong.
void set_word(R r, Degree degree, V v) {
  const auto value = parse_value(degree, text_in(v));
  if (!value) throw WrongValue(fmt::format("'{}' is not a {}", text_in(v), row_of(degree).key));
  set_degree(r.degrees, degree, *value);
  r.open.erase(degree);
}

Fact degree_fact(const DegreeRow& row) {
  const Setting setting = setting_of(row.degree);
  Fact fact{name_of(setting), {setting}};
  const Degree degree = row.degree;
  switch (row.kind) {
    case DegreeKind::Number:
      fact.write = [degree](H h) { return Value(degree_value(h.degrees, degree)); };
      fact.read = [degree, low = row.low](R r, V v) {
        set_degree(r.degrees, degree, count_in(v, low));
        r.open.erase(degree);
      };
      break;
    case DegreeKind::Switch:
      fact.write = [degree](H h) { return Value(degree_value(h.degrees, degree) != 0); };
      fact.read = [degree](R r, V v) { set_degree(r.degrees, degree, is_on(v) ? 1 : 0); };
      break;
    case DegreeKind::Word:
      fact.write = [degree](H h) {
        return Value(value_text(degree, degree_value(h.degrees, degree)));
      };
      fact.read = [degree](R r, V v) { set_word(r, degree, v); };
      break;
  }
  return fact;
}

/// A setting that the user chose; else nothing.
Fact setting_fact(const SettingRow& row) {
  const SettingRow* known = &row;
  return {std::string(row.key),
          {setting_of(row.setting)},
          [known](H h) {
            const auto text = known->get(h.chosen);
            return text ? Value(*text) : Value();
          },
          [known](R r, V v) {
            const std::string text = text_in(v);
            if (known->kind == SettingKind::Count && !setting_problem(*known, text).empty())
              throw WrongValue(setting_problem(*known, text));
            known->set(r.asked, text);
          }};
}

Fact overlap_fact(Overlap overlap) {
  const Setting setting = setting_of(overlap);
  return {name_of(setting),
          {setting},
          [overlap](H h) { return Value(h.overlaps(overlap)); },
          [overlap](R r, V v) { r.hide(overlap, is_on(v)); }};
}

// clang-format off
Facts degree_facts() {
  return {
      {"zero", {s(D::Zero)}, [](H h) { return Value(h.sharded() ? static_cast<int>(h.degrees.zero) : 0); },
       [](R r, V v) { r.degrees.zero = static_cast<ZeroStage>(whole_number(v, 0, 3)); }},
      {"cp_kind", {s(D::ContextKind)},
       [](H h) { return where(h.degrees.context > 1, to_text(h.degrees.context_kind)); },
       [](R r, V v) { set_word(r, D::ContextKind, v); }, true},
      // Exchanges of heads are another program's context parallelism.
      {"ulysses", {s(D::Context), s(D::ContextKind)}, [](H h) { return Value(h.degrees.context); },
       [](R r, V v) {
         r.degrees.context = count_in(v);
         r.degrees.context_kind = ContextKind::Ulysses;
       }},
      {"ep_of_experts", {s(D::Expert)}, [](H h) { return where(h.model().moe.has_value(), h.degrees.expert); },
       [](R r, V v) { r.degrees.expert = count_in(v); }},
      {"etp_of_experts", {s(D::ExpertTensor)},
       [](H h) { return where(h.model().moe.has_value(), h.degrees.expert_tensor); },
       [](R r, V v) { r.degrees.expert_tensor = count_in(v); }},
      {"cut_by_tensor", {}, [](H h) { return Value(h.degrees.tensor_out > 1); }},
      {"pipelined", {}, [](H h) { return Value(h.degrees.pipeline > 1); }},
      {"stages_of_pipeline", {s(D::Pipeline), s(D::Chunks)},
       [](H h) { return where(h.degrees.pipeline > 1, h.virtual_stages()); }},
      {"gradients_chosen_in_pipeline", {},
       [](H h) {
         return Value(h.degrees.pipeline > 1 && h.chosen.overlap &&
                      h.overlaps(Overlap::GradientReduction));
       }},
      {"one_stage", {}, [](H h) { return Value(h.degrees.pipeline == 1); }},
      {"sharded", {s(D::Zero)}, [](H h) { return Value(h.sharded()); }},
      {"keeps_nothing", {s(D::Zero)}, [](H h) { return Value(h.degrees.zero == ZeroStage::Parameters); },
       [](R r, V v) { r.degrees.zero = is_on(v) ? ZeroStage::Parameters : ZeroStage::Gradients; }},
      {"shard_ranks", {s(D::ShardGroup)}, [](H h) { return Value(h.shard_ranks()); }},
      {"shard_copies", {s(D::ShardGroup)},
       [](H h) { return Value(h.sharded() ? h.degrees.data / h.shard_ranks() : 1); }},
      {"full_recompute", {s(D::Recompute)}, [](H h) { return Value(h.degrees.recompute == Recompute::Full); },
       [](R r, V v) { r.degrees.recompute = is_on(v) ? Recompute::Full : Recompute::None; }},
      {"schedule_of_stages", {s(D::Schedule)},
       [](H h) { return where(h.degrees.pipeline > 1, value_of(s(D::Schedule), h)); },
       [](R r, V v) { set_word(r, D::Schedule, v); }, true},
      {"micro_batches", {S::MicroBatches}, [](H h) { return Value(h.degrees.micro_batches); },
       [](R r, V v) { r.degrees.micro_batches = count_in(v); }},
  };
}

Facts question_facts() {
  return {
      // World size, batch and micro-batch decide data parallelism and accumulation.
      {"batch", {S::GlobalBatch, S::MicroBatches, s(D::Data), S::Gpus},
       [](H h) { return Value(h.problem.global_batch); },
       [](R r, V v) { r.asked.batch = whole_number(v, 1, 1'000'000'000); }},
      {"seq_len", {S::SequenceLength}, [](H h) { return Value(h.problem.seq_len); },
       [](R r, V v) { r.asked.seq_len = whole_number(v, 1, 100'000'000); }},
      {"gpus", {S::Gpus}, [](H h) { return Value(h.problem.gpus); }, [](R r, V v) { r.asked.gpus = count_in(v); }},
      {"nodes", {S::Gpus}, [](H h) { return Value(h.nodes()); }},
      {"node_gpus", {S::Gpus}, [](H h) { return Value(h.gpus_per_node()); }},
      {"precision", {S::Precision}, [](H h) { return Value(to_text(h.problem.precision)); },
       [](R r, V v) { r.asked.precision = text_in(v); }},
      {"optimizer", {S::Optimizer}, [](H h) { return Value(h.optimizer); },
       [](R r, V v) { r.asked.optimizer = text_in(v); }},
      {"flash", {S::Attention}, [](H h) { return Value(h.attention == "flash"); },
       [](R r, V v) { if (is_on(v)) r.asked.attention = "flash"; }},
      {"unfused", {S::Attention}, [](H h) { return Value(h.attention == "unfused"); },
       [](R r, V v) { if (is_on(v)) r.asked.attention = "unfused"; }},
      {"bf16", {S::Precision}, [](H h) { return Value(h.problem.precision == DataType::Bf16); },
       [](R r, V v) { if (is_on(v)) r.asked.precision = "bf16"; }},
      {"fp16", {S::Precision}, [](H h) { return Value(h.problem.precision == DataType::Fp16); },
       [](R r, V v) { if (is_on(v)) r.asked.precision = "fp16"; }},
      // Formats of fewer bits stand beside bf16.
      {"wide_format", {S::Precision},
       [](H h) {
         const bool own = has_precision(h, {DataType::Fp16, DataType::Fp32});
         return Value(own ? to_text(h.problem.precision) : "bf16");
       },
       [](R r, V v) {
         const std::string word = text_in(v);
         r.asked.precision = word == "fp16" || word == "fp32" ? word : "bf16";
       }},
      {"packs", {chosen(plansearch::Setting::Packing)}, [](H h) { return Value(h.chosen.packing.has_value()); },
       [](R r, V v) {
         if (is_left_open(v) || !is_on(v)) return;
         r.notes.emplace_back(
             "sequences are packed: one document a sequence is priced unless --packing LENGTHS "
             "says how "
             "long documents are");
       }},
  };
}

Facts host_facts() {
  const std::vector<Setting> offload{s(D::Offload)};
  return {
      {"optimizer_on_host", offload, [](H h) { return Value(host_tensors(h.degrees.on_host).optimizer); },
       [](R r, V v) { if (is_on(v)) r.offload("optimizer"); }},
      {"parameters_on_host", offload, [](H h) { return Value(host_tensors(h.degrees.on_host).parameters); },
       [](R r, V v) { if (is_on(v)) r.offload("parameters"); }},
      {"activations_on_host", offload, [](H h) { return Value(host_tensors(h.degrees.on_host).activations); },
       [](R r, V v) { if (is_on(v)) r.offload("activations"); }},
      // FSDP's: all of a shard.
      {"shards_on_host", offload, [](H h) { return Value(host_tensors(h.degrees.on_host).parameters); },
       [](R r, V v) {
         if (!is_on(v)) return;
         r.offload("optimizer");
         r.offload("parameters");
       }},
      {"modules_on_host", offload,
       [](H h) {
         const LayerModules modules = host_tensors(h.degrees.on_host).modules;
         return modules.any() ? Value(words_of(to_text(modules, " "), " ")) : Value();
       }, [](R r, V v) { for (const std::string& word : texts_in(v)) r.offload(word); }},
      {"copies_to_host", {}, [](H h) { return Value(h.degrees.on_host != 0 || h.problem.framework->paged_states); }},
      {"any_module_on_host", offload, [](H h) { return Value(host_tensors(h.degrees.on_host).modules.any()); }},
  };
}

Facts job_facts() {
  return {
      {"network_name", {}, network_name, [](R r, V v) { r.named = text_in(v); }, false,
       true},
      {"training_steps", {}, training_steps},
      {"identity", {}, [](H h) { return Value(fmt::format("plan-{}", h.identity)); }},
      {"checkpoints", {S::Checkpoints}, checkpoint_folder, {}, false, true},
      {"checkpoint_steps", {S::Checkpoints}, checkpoint_steps},
      {"has_checkpoints", {S::Checkpoints}, [](H h) { return Value(!h.job.checkpoints.empty()); }},
  };
}
// clang-format on

}  // namespace

Facts plan_facts() {
  Facts facts = joined<Fact>({degree_facts(), question_facts(), host_facts(), job_facts()});
  for (const DegreeRow& row : degree_table()) facts.push_back(degree_fact(row));
  for (std::size_t k = 0; k < kOverlapCount; ++k)
    facts.push_back(overlap_fact(static_cast<Overlap>(k)));
  for (const SettingRow& row : setting_table()) facts.push_back(setting_fact(row));
  return facts;
}

}  // namespace plansearch::exporters
