// SPDX-License-Identifier: Apache-2.0
#include "cli/options.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "answer/show.hpp"
#include "answer/write_page.hpp"
#include "base/units.hpp"
#include "cli/command_row.hpp"
#include "cli/commands.hpp"
#include "cli/option_kinds.hpp"
#include "io/plan/schedule_csv.hpp"
#include "plansearch/degree_table.hpp"
#include "plansearch/error.hpp"
#include "plansearch/setting_table.hpp"
#include "plansearch/space.hpp"

namespace plansearch::cli {
namespace {

/// "0|1|2|3"
std::string number_choices(int low, int high) {
  std::string text = fmt::format("{}", low);
  for (int value = low + 1; value <= high; ++value) text += fmt::format("|{}", value);
  return text;
}

/// The setting of one step, for commands that price one plan.
constexpr Setting kStepSetting = Setting::MemoryCap;

void add_question(CLI::App& app, Options& o) {
  app.option_defaults()->group("Question");
  for (const SettingRow& row : setting_table()) {
    if (row.setting == kStepSetting) continue;
    if (row.setting == Setting::Set) {
      add_set(app, o);
      continue;
    }
    add_setting(app, o, row.setting);
    if (row.setting == Setting::Gpus) {
      add_numbers(app, "--nodes", o.nodes, o.node_list, "number of nodes, instead of --gpus");
    }
    if (row.setting != Setting::Framework) continue;
    add_typed(app, "FRAMEWORK", "--target", o.target,
              "program that plans are exported to, and the framework unless --framework says "
              "another; a plan it cannot express is exit code 4");
  }
}

bool is_digit(char letter) {
  return letter >= '0' && letter <= '9';
}

/// Squares are placements of operators.
[[noreturn]] void refuse_squares(std::string_view flag, std::string_view text) {
  throw InputError({}, fmt::format("{} {}: squares of devices are not a degree", flag, text),
                   "search and predict take them, under --framework primepar or any");
}

/// A degree, its bounds where it is a number, and what it may be.
void add_degree(CLI::App& app, Options& o, Degree degree, std::string_view key,
                std::string_view help) {
  const DegreeRow& row = row_of(degree);
  const std::string flag = flag_of(key);
  const bool squares =
      degree == Degree::Temporal &&  // placements
      (app.get_parent() == nullptr || app.get_name() == "predict" || app.get_name() == "search");
  CLI::Option* option = app.add_option_function<std::string>(
      flag,
      [&o, degree, flag, squares](const std::string& text) {
        if (degree == Degree::Temporal && !text.empty() && is_digit(text.front())) {
          if (!squares) refuse_squares(flag, text);
          o.square = text;
          return;
        }
        read_degree(flag, text, degree, o.degrees, o.limits, io::parse_degree);
      },
      fmt::format("{}{}", help,
                  squares ? "; 2x2: linear operators over squares of the tensor group" : ""));
  constexpr int kFew = 9;
  option->type_name("N");
  if (row.high <= kFew) option->type_name(number_choices(row.low, row.high));
  if (row.kind == DegreeKind::Word)
    option->type_name(fmt::format("{}{}", fmt::join(row.words(), "|"), squares ? "|KxK" : ""));
  if (row.kind != DegreeKind::Number) return;
  const auto bound = [&](std::string_view side, void (DegreeLimits::*set)(Degree, int)) {
    const std::string name = fmt::format("--{}-{}", side, flag.substr(2));
    app.add_option_function<std::string>(
           name,
           [&o, degree, name, set](const std::string& text) {
             (o.limits.*set)(degree, read_degree_value(name, text, degree));
           },
           fmt::format("bound of {} in a search", flag))
        ->type_name("N")
        ->group("");
  };
  bound("min", &DegreeLimits::at_least);
  bound("max", &DegreeLimits::at_most);
}

void add_degrees(CLI::App& app, Options& o) {
  app.option_defaults()->group("Degrees of a plan");
  for (const DegreeRow& row : degree_table()) {
    if (row.degree == kTensorAlias.degree) {
      add_degree(app, o, row.degree, kTensorAlias.key, kTensorAlias.help);
    }
    add_degree(app, o, row.degree, row.key, row.help);
  }
}

Choices space_names() {
  Choices names;
  for (const NamedSpace& space : named_spaces()) names.emplace_back(space.name);
  return names;
}

void add_output(CLI::App& app, Options& o) {
  app.option_defaults()->group("Answer");
  restrict_to(app.add_option("--format", o.format, "format of the answer"),
              {"table", "json", "jsonl", "csv", "markdown"});
  add_typed(app, "FILE", "-o,--out", o.out, "file of the answer, instead of standard output");
  add_number(app, "--threads", o.threads, "threads; 0: all cores; the answer does not depend on it",
             {0, 4096});
  positive_number(add_typed(app, "SECONDS", "--time-limit", o.time_limit_s,
                            "limit on time; then the best so far is the answer, which says so"));
  add_typed(app, "BYTES", "--memory-limit", o.memory_limit,
            "limit on memory, such as \"8 GiB\" (default: half of the machine's)")
      ->check([](const std::string& text) {
        const auto bytes = parse_quantity<Bytes>(text);
        return bytes && *bytes > Bytes(0) ? std::string()
                                          : fmt::format("'{}' is not a memory size", text);
      });
  restrict_to(app.add_option("--color", o.color, "headers and errors in colour"),
              {"auto", "always", "never"});
  app.add_flag("-q,--quiet", o.quiet, "no progress and no messages");
}

void add_search(CLI::App& app, Options& o) {
  app.option_defaults()->group("Search");
  restrict_to(app.add_option("--space", o.space, "plans to search (default: framework)"),
              space_names());
  add_number(app, "--top", o.top, "plans to show", {1, 10000});
  app.add_flag("--exhaustive", o.exhaustive, "price every plan, prune nothing");
  CLI::Option* beyond = app.add_flag("--beyond", o.beyond,
                                     "list plans of every idea that the framework does not run");
  app.add_flag("--no-beyond", o.no_beyond, "look for no plan that the framework does not run")
      ->excludes(beyond);
  app.add_flag("--recipes", o.recipes, "list the published plans of this question, priced");
  app.add_flag("--pareto", o.pareto, "show the Pareto front over step time and memory");
  add_typed(app, "FILE", "--all", o.all, "write every priced plan to a .csv or .jsonl file");
}

void add_page(CLI::App& app, Options& o) {
  add_typed(app, "FILE", "--report", o.page, "write the answer as one HTML page, with pictures");
}

void add_plots(CLI::App& app, Options& o) {
  add_typed(app, "NAME=FILE", "--plot", o.plots,
            "a picture as SVG: ladder, step, memory, pareto, timeline, held, groups or "
            "sweep; several times")
      ->allow_extra_args(false)
      ->check(plot_problem);
}

void add_constraints(CLI::App& app, Options& o) {
  add_typed(
      app, "NAME[,NAME...]", "--constraints", o.constraints,
      "parts of a plan by name (constraints/*.yaml) or as plan documents; NAME#N: one variant");
}

void add_partial_plan(CLI::App& app, Options& o) {
  app.option_defaults()->group("Search");
  add_typed(app, "PLAN", "--plan", o.plan,
            "plan document that decides a part: the rest is searched");
  add_constraints(app, o);
}

void add_trace(CLI::App& app, Options& o) {
  add_typed(app, "FILE", "--trace", o.trace,
            "write one step as a trace for Perfetto or chrome://tracing");
  app.add_flag("--force", o.force, "write a trace of more than a million events");
}

/// Options of the price and the pictures of one step.
void add_step(CLI::App& app, Options& o) {
  add_setting(app, o, kStepSetting);
  app.add_flag("--timeline", o.timeline, "draw the whole step: work, messages, memory");
  add_page(app, o);
  add_plots(app, o);
  add_trace(app, o);
}

void add_schedule(CLI::App& app, Options& o) {
  ScheduleQuestion& q = o.schedule;
  app.add_option("name", q.name,
                 "as in plansearch list schedules, or a CSV of PyTorch's pipelining")
      ->type_name(fmt::format("{}|FILE", fmt::join(schedule_names(), "|")));
  add_typed(app, "FILE", "--blocks", o.ordering.blocks,
            "blocks on any devices: an order for them is searched (docs/orders.md)");
  add_number(app, "--stages", q.stages, "devices in a row", {1, 4096});
  add_number(app, "--micro-batches", q.micro_batches, "per step", {1, 1'000'000});
  add_number(app, "--chunks", q.chunks, "model chunks per device (default: the fewest it takes)",
             {1, 1024});
  add_number(app, "--waves", q.waves, "the same in waves there and back (hanayo)", {1, 512});
  add_typed(app, "A[,A...]", "--memory-cap", o.ordering.memory_cap,
            "micro-batches that a device may keep: zb-auto is made for it (default: stages), "
            "other orders are checked against it; of blocks an amount, or one for each device");
  add_number(app, "--group", q.group, "micro-batches that pass a chunk in a row (default: stages)",
             {1, 1'000'000});
  add_number(app, "--forwards", q.forwards,
             "passes of a micro-batch through all stages, of which the last is differentiated "
             "(default: 3 of 3f1b, else 1)",
             {1, 64});
  add_typed(app, "F,B[,W[,FB]]", "--times", q.times,
            "forward, input gradient, weight gradient of one stage (default: 1,1,1); a forward "
            "that overlaps a whole backward (default: F + B + W)");
  add_typed(app, "C", "--p2p", q.p2p, "transfer between two stages (default: 0)");
  app.add_flag("--lowered", q.lowered, "with --format csv: with sends and receives");
  add_trace(app, o);
}

void add_predict(CLI::App& app, Options& o) {
  add_typed(app, "PLAN", "plan,--plan", o.plan, "plan document or result.json#RANK");
  add_constraints(app, o);
  add_typed(app, "FILE", "--write-plan", o.write_plan, "write the plan as a plan document");
  add_typed(app, "FILE", "--write-stages", o.write_stages, "the same with its stages listed");
  add_typed(app, "FILE", "--write-primitives", o.write_primitives,
            "the same as transform, assign and order");
  add_step(app, o);
}

CLI::Option* add_time(CLI::App& app, const char* name, std::string& field, const char* help) {
  return add_typed(app, "TIME", name, field, help)->check([](const std::string& text) {
    const auto time = parse_quantity<Seconds>(text);
    return time && *time > Seconds(0)
               ? std::string()
               : fmt::format("'{}' is not a time above zero, such as 18.9s", text);
  });
}

void add_capacity(CLI::App& app, Options& o) {
  CapacityQuestion& q = o.capacity;
  add_page(app, o);
  add_typed(app, "TIME", "--deadline", q.deadline,
            "the job may take so long, such as 60d (a number by itself: days)");
  add_time(app, "--step-time", q.step_time, "a step may take so long: the fewest GPUs for it");
  add_typed(app, "AMOUNT", "--budget", q.budget,
            "it may cost so much: \"20000 node-hours\", \"2M GPU-hours\", \"5M$\", \"3 GWh\"");
  add_typed(app, "TIME", "--mtbf", q.mtbf,
            "between interruptions by one accelerator (default: of published jobs, the "
            "machine's own where it has any)");
  add_typed(app, "TIME", "--restart", q.restart,
            "from an interruption to the next step (default: of the machine's own published "
            "jobs, else 15min)");
  add_typed(app, "TIME", "--checkpoint-interval", q.checkpoint_interval,
            "of training between two checkpoints (default: the one that loses least)");
  add_typed(app, "RATE", "--storage", q.storage,
            "to shared storage, of every node at once (default: 1 GB/s, 2 TB/s of the site)");
  CLI::Option* price = add_typed(app, "NUMBER[,NUMBER...]", "--price", q.prices,
                                 "$ an hour of an accelerator, of all machines or of each "
                                 "(default: of the profile)");
  positive_number(price->delimiter(',')->allow_extra_args(false));
  app.add_flag("--sizes", q.all_sizes, "every size, not one or two of each machine");
  positive_number(add_typed(app, "WATT", "--host-power", q.host_power,
                            "watt of a node beside its accelerators: processors, cards, its "
                            "share of switches (default: none)"));
  positive_number(add_typed(app, "NUMBER", "--pue", q.pue,
                            "power of the whole site over that of the accelerators"));
  positive_number(add_typed(app, "NUMBER", "--tokens-per-parameter", q.tokens_per_parameter,
                            "of the model that the budget would train (default: 20)"));
}

void add_diagnose(CLI::App& app, Options& o) {
  add_typed(app, "FILE", "--log", o.log,
            "output of the training program, for the step time and more (docs/logs.md); - for a "
            "pipe");
  add_typed(app, "FILE", "--profile", o.profile,
            "trace of PyTorch's profiler, kernel summary of Nsight Systems, or times of steps");
  positive_number(add_typed(app, "NUMBER", "--profile-steps", o.profile_steps,
                            "steps that the profile covers, below 1 of a part of one "
                            "(default: as it says, else 1)"));
  add_typed(
      app, "AMOUNT", "--measured", o.measured,
      "step time of the run, such as 18.9s, or its pace: \"8500 tokens/s\", \"1060 "
      "tokens/s/GPU\", \"1.9 s/it\", \"12 samples/s\", \"310 TFLOP/s/GPU\", \"27% MFU\" (default: "
      "as the log or the profile says)");
  add_typed(app, "PLAN", "plan,--plan", o.plan, "plan document or result.json#RANK");
}

void add_explain(CLI::App& app, Options& o) {
  add_typed(app, "PLAN", "plan,--plan", o.plan,
            "plan document or result.json#RANK (default: search first)");
  add_typed(app, "PLAN", "other", o.rival, "the plan to set it against (default: the best other)");
  app.add_flag("--sensitivity", o.sensitivity,
               "every rate, bandwidth, time and size a tenth higher: what the step depends on");
  add_step(app, o);
}

void add_fits(CLI::App& app, Options& o) {
  app.add_option("name", o.model, "model: a name, an alias or a file, as of --model");
  const auto spelling = [&](const char* name, Setting setting, const char* type, const char* help) {
    app.add_option_function<std::string>(
           name, [&o, setting](const std::string& text) { row_of(setting).set(o, text); }, help)
        ->type_name(type)
        ->check(
            [setting](const std::string& text) { return setting_problem(row_of(setting), text); });
  };
  spelling("--method", Setting::Task, "TASK", "the same as --task");
  spelling("--on", Setting::Hardware, "HW", "the same as --hw: one machine, or those of the table");
  app.add_flag("--anyway", o.fits.anyway, "price what does not fit");
  app.add_flag("--no-cards", o.fits.no_cards, "the machine alone, without the table of cards");
}

void add_compare(CLI::App& app, Options& o) {
  add_typed(app, "PLAN", "plans", o.plans, "plan documents or result.json#RANK (default: search)");
}

void add_sweep(CLI::App& app, Options& o) {
  add_typed(app, "FILE", "questions", o.argument,
            "CSV with a question in every row, or YAML with a grid (docs/sweep.md)")
      ->required();
  add_typed(app, "SPACE", "--space", o.space, "plans to search (default: framework)");
  add_typed(app, "I/N", "--shard", o.shard,
            "answer a part of the questions: every N-th, from the I-th on");
  add_typed(app, "FILE", "--known", o.known,
            "answers of the same questions, as JSON lines: those of shards");
  add_plots(app, o);
}

void add_list(CLI::App& app, Options& o) {
  restrict_to(app.add_option("what", o.argument, "what to list")->required(), listing_names());
}

void add_show(CLI::App& app, Options& o) {
  restrict_to(app.add_option("what", o.argument, "what to show")->required(),
              {kShown.begin(), kShown.end()});
  app.add_option("name", o.shown, "a shipped name, an alias or a file");
  app.add_flag("--graph", o.graph, "of a model: write the network as a graph file");
  add_setting(app, o, Setting::Operators);
  add_set(app, o);
}

void add_completion(CLI::App& app, Options& o) {
  restrict_to(app.add_option("shell", o.argument, "which shell")->required(),
              {"bash", "zsh", "fish"});
}

/// Files that a search writes beside its answer.
void add_search_files(CLI::App& app, Options& o) {
  add_page(app, o);
  add_plots(app, o);
  add_trace(app, o);
}

void add_search_command(CLI::App& app, Options& o) {
  add_partial_plan(app, o);
  add_search_files(app, o);
}

void add_shared(CLI::App& app, Options& o, Shares shares) {
  if (shares != Shares::Output) {
    add_question(app, o);
    add_degrees(app, o);
  }
  if (shares == Shares::Search) add_search(app, o);
  add_output(app, o);
}

constexpr const char* kSeveralValues =
    "In a search degrees also take lists (--tp 1,2,4), ranges (--pp 2..8) and bounds\n"
    "(--min-pp 2, --max-pp 8); sizes and batches take lists and ranges of powers of\n"
    "two (--gpus 8,16,32, --batch 512..4096).";

/// The commands of the core, in the order of the help.
constexpr std::array kCommands{
    CommandRow{"search", "rank plans (the default command)", Shares::Search,
               bind_command<run_search, add_search_command>, true},
    CommandRow{"compare", "hardware, models, frameworks, batches (lists) or plans in one table",
               Shares::Search, bind_command<run_compare, add_compare>, true},
    CommandRow{"predict", "step time and memory of one given plan", Shares::Plan,
               bind_command<run_predict, add_predict>, true},
    CommandRow{"explain", "why this plan, what bounds it, against another", Shares::Search,
               bind_command<run_explain, add_explain>, true},
    CommandRow{"fits", "does it fit, and on how many of which card", Shares::Search,
               bind_command<run_fits, add_fits>, true},
    CommandRow{"capacity", "how many GPUs, how long, at what cost, failures included",
               Shares::Search, bind_command<run_capacity, add_capacity>, true},
    CommandRow{"diagnose", "is a measured step normal, and if not, what explains it", Shares::Plan,
               bind_command<run_diagnose, add_diagnose>, true},
    CommandRow{"sweep", "many questions from a file, one row of an answer each", Shares::Plan,
               bind_command<run_sweep, add_sweep>},
    CommandRow{"schedule", "one pipeline schedule by itself: grid, bubble, peaks", Shares::Output,
               bind_command<run_schedule, add_schedule>},
    CommandRow{"export", "a plan as configuration of a training framework", Shares::Plan,
               bind_command<run_export, add_export>},
    CommandRow{"list", "shipped hw, models, frameworks, schedules or exporters", Shares::Output,
               bind_command<run_list, add_list>, true},
    CommandRow{"show", "one hw, model or framework with the evidence of its numbers",
               Shares::Output, bind_command<run_show, add_show>, true},
    CommandRow{"completion", "shell completion script", Shares::Output,
               bind_command<run_completion, add_completion>}};

void add_command(CLI::App& app, Options& o, const CommandRow& row) {
  CLI::App* sub = app.add_subcommand(row.name, row.help);
  sub->option_defaults()->group("Options");
  if (row.shares == Shares::Search) sub->footer(kSeveralValues);
  const Command run = row.bind(*sub, o);
  add_shared(*sub, o, row.shares);
  sub->fallthrough(row.shares != Shares::Output);  // questions take any common option
  sub->callback([&o, &row, run] {
    o.row = &row;
    o.run = run;
  });
}

}  // namespace

void build_command_line(CLI::App& app, Options& o) {
  app.require_subcommand(0, 1);
  app.formatter(std::make_shared<HelpFormatter>());
  app.set_version_flag("--version", "plansearch " PLANSEARCH_VERSION);
  app.footer(kSeveralValues);
  add_shared(app, o, Shares::Search);
  app.option_defaults()->group("Search");
  add_search_command(app, o);
  o.row = &kCommands.front();
  o.run = run_search;
  for (const auto& rows : {std::span<const CommandRow>(kCommands), exchange_commands(),
                           evidence_commands(), measure_commands()}) {
    for (const CommandRow& row : rows) add_command(app, o, row);
  }
}

}  // namespace plansearch::cli
