// SPDX-License-Identifier: Apache-2.0
#include "options.hpp"

#include <CLI/CLI.hpp>

namespace plansearch::cli {
namespace {

void add_question(CLI::App& app, Options& o) {
  app.add_option("--hw", o.hardware, "hardware profile: a shipped name or a file")
      ->type_name("NAME|FILE");
  app.add_option("--model", o.model, "model: a shipped name, a file, or a Hugging Face config.json")
      ->type_name("NAME|FILE");
  app.add_option("--gpus", o.gpus, "number of accelerators (default: a ladder of sizes)");
  app.add_option("--nodes", o.nodes, "number of nodes, instead of --gpus");
  app.add_option("--batch", o.batch, "sequences per optimizer step");
  app.add_option("--seq-len", o.seq_len, "tokens per sequence");
  app.add_option("--precision", o.precision, "fp32, fp16, bf16, fp8, mxfp8 or nvfp4");
  app.add_option("--optimizer", o.optimizer, "adam, sgd, adafactor or muon");
  app.add_option("--attention", o.attention, "flash or unfused");
  app.add_option("--framework", o.framework, "training framework (default: megatron)");
  app.add_option("--rank-order", o.rank_order, "axes, fastest first, such as tp-cp-ep-dp-pp");
  app.add_option("--overlap", o.overlap, "what is hidden: all, none, or a list such as grad,param");
  app.add_option("--mem-reserve", o.mem_reserve, "memory to keep free, such as \"2 GiB\"");
}

void add_degrees(CLI::App& app, DegreeOptions& d) {
  app.add_option("--dp", d.dp, "data-parallel degree");
  app.add_option("--pp", d.pp, "pipeline stages");
  app.add_option("--vpp", d.vpp, "model chunks per stage");
  app.add_option("--tp", d.tp, "tensor-parallel degree, as in Megatron");
  app.add_option("--tp-x", d.tp_x, "tensor axis that contracts (forward all-reduce)");
  app.add_option("--tp-y", d.tp_y, "tensor axis of outputs (backward all-reduce)");
  app.add_option("--tp-z", d.tp_z, "tensor axis that shards weights and batch");
  app.add_option("--cp", d.cp, "context-parallel degree");
  app.add_option("--cp-kind", d.cp_kind, "ring or ulysses");
  app.add_option("--ep", d.ep, "expert-parallel degree, spans dp x cp x tp");
  app.add_option("--etp", d.etp, "tensor-parallel degree inside an expert");
  app.add_option("--zero", d.zero, "0: nothing, 1: optimizer, 2: gradients, 3: parameters");
  app.add_option("--shard-group", d.shard_group, "ranks that share one ZeRO copy (hybrid shard)");
  app.add_option("--sp", d.sp, "sequence parallelism with tp, 0 or 1");
  app.add_option("--micro-batch", d.micro_batch, "sequences per device and micro-batch");
  app.add_option("--recompute", d.recompute, "none, selective or full");
  app.add_option("--schedule", d.schedule, "gpipe, 1f1b or interleaved");
}

void add_output(CLI::App& app, Options& o) {
  app.add_option("--format", o.format, "table, json, jsonl or csv");
  app.add_option("--out", o.out, "write to a file instead of standard output");
  app.add_option("--threads", o.threads, "0: all cores; the answer does not depend on it");
  app.add_option("--color", o.color, "auto, always or never");
  app.add_flag("--quiet", o.quiet, "no progress and no messages");
}

void add_search(CLI::App& app, Options& o) {
  app.add_option("--target", o.target, "as --framework, and only plans it accepts");
  app.add_option("--space", o.space, "plans to look at (default: what the framework can run)");
  app.add_option("--top", o.top, "plans to show");
  app.add_option("--time-limit", o.time_limit_s, "seconds; the answer says when it was cut short");
  app.add_flag("--exhaustive", o.exhaustive, "price every plan, prune nothing");
}

}  // namespace

void build_command_line(CLI::App& app, Options& o) {
  app.require_subcommand(0, 1);
  app.set_version_flag("--version", std::string("plansearch 0.1.0"));
  add_question(app, o);
  add_degrees(app, o.degrees);
  add_output(app, o);
  add_search(app, o);
  app.fallthrough();

  const auto command = [&](const char* name, const char* help, Command value) {
    CLI::App* sub = app.add_subcommand(name, help);
    sub->fallthrough();
    sub->callback([&o, value] { o.command = value; });
    return sub;
  };
  command("search", "rank plans (the default command)", Command::Search);
  command("predict", "step time and memory of one given plan", Command::Predict)
      ->add_option("--plan", o.plan, "plan document or result.json#RANK");
  CLI::App* validate = command("validate", "predict every measured row of a table and report errors",
                               Command::Validate);
  validate->add_option("table", o.argument, "CSV of measured runs, kernels or collectives")
      ->required();
  validate->add_option("--by", o.group_by, "summarise by these columns")->delimiter(',');
  validate->add_option("--suspect", o.suspects, "CSV (id, why) of rows to report apart");
  command("explain", "why this plan, what bounds it, against the runner-up", Command::Explain)
      ->add_option("plan", o.plan, "plan document or result.json#RANK")
      ->required();
  command("list", "shipped hw, models, frameworks or schedules", Command::List)
      ->add_option("what", o.argument, "hw, models, frameworks or schedules")
      ->required();
  command("bench", "evaluations per second and the search signature", Command::Bench);
  command("completion", "shell completion script", Command::Completion)
      ->add_option("shell", o.argument, "bash, zsh or fish")
      ->required();
}

}  // namespace plansearch::cli
