// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <filesystem>

#include "base/hash.hpp"
#include "base/names.hpp"
#include "base/ranges.hpp"
#include "base/units.hpp"
#include "io/document/document.hpp"
#include "io/document/file.hpp"
#include "plan/stages/gangs.hpp"
#include "plansearch/degree_table.hpp"
#include "plansearch/error.hpp"
#include "plansearch/setting_table.hpp"
#include "question/logged_plan.hpp"
#include "question/resolve_plan.hpp"
#include "question/training_task.hpp"

namespace plansearch {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view kResultSchema = "plansearch/result/v1";
constexpr std::string_view kPlanSchema = "plansearch/plan/v1";
/// Limits of answers, which hold many plans.
constexpr std::size_t kMostBytes = std::size_t{64} << 20U;
constexpr std::size_t kMostValues = 4'000'000;

struct PlanName {
  std::string file;
  std::size_t rank = 1;
};

bool is_file(const fs::path& path) {
  std::error_code error;
  return fs::is_regular_file(path, error);
}

PlanName split_rank(const std::string& text) {
  const std::size_t at = text.rfind('#');
  if (at == std::string::npos || is_file(text)) return {text, 1};
  const auto rank = parse_as<decltype(PlanName::rank)>(text.substr(at + 1));
  if (!rank || *rank == 0) {
    throw InputError({}, fmt::format("'{}': the part after # is not a rank", text),
                     "ranks count from 1, as in result.json#2");
  }
  return {text.substr(0, at), *rank};
}

/// Listed stages have degrees of their own.
void refuse_degrees(const ProblemRequest& request, const SourceLocation& where) {
  if (request.degrees.empty()) return;
  throw InputError(
      where,
      fmt::format("the stages are listed here, and {} is asked for", to_text(request.degrees)),
      "change the stages, or leave the degrees out");
}

/// The document of a plan or of plans; scripts and configurations of training programs are read by
/// another command.
io::Document read_saved(const std::string& file) {
  constexpr std::array<std::string_view, 5> kScripts{".toml", ".sh", ".bash", ".sbatch", ".slurm"};
  const auto refuse = [&](const SourceLocation& where, const char* why) {
    throw InputError(where, fmt::format("this is not a plan document: {}", why),
                     fmt::format("plansearch import {} --out plan.yaml reads launch files", file));
  };
  if (contains(kScripts, fs::path(file).extension().string()) && is_file(file))
    refuse({file, 1, 1}, "its name is that of a launch file");
  io::Document document = io::Document::read(file, {.size = kMostBytes, .values = kMostValues});
  if (!document.root().find("schema")) refuse(document.root().where(), "key 'schema' is missing");
  return document;
}

io::PlanDocument read_plan(const io::Node& root, std::size_t rank) {
  const io::Node schema = root.at("schema");
  const std::string name = schema.text();
  if (name == kResultSchema) return io::read_ranked_plan(root, rank);
  if (name == kPlanSchema) return io::read_plan_document(root);
  schema.fail(fmt::format("'{}' is not the schema of a plan", name),
              fmt::format("plans come from {} and {} files", kPlanSchema, kResultSchema));
}

/// Not a name with a dot in it.
bool reads_as_file(const fs::path& path) {
  constexpr std::array<std::string_view, 4> kExtensions{".yaml", ".json", ".pt2", ".onnx"};
  return path.has_parent_path() && contains(kExtensions, path.extension());
}

/// Paths are relative to the plan that names them; those of written answers to where they were
/// asked. Names of what ships have no folder.
void find_files(const fs::path& plan, const io::Node& root, ProblemRequest& question) {
  for (const SettingRow& row : setting_table()) {
    if (row.kind != SettingKind::Name) continue;
    const fs::path written(row.get(question).value_or(""));
    if (written.empty() || written.is_absolute()) continue;
    const fs::path beside = plan.parent_path() / written;
    const auto node = root.find(row.key);
    if (is_file(beside)) {
      row.set(question, beside.string());
    } else if (node && reads_as_file(written) && !is_file(written)) {
      node->fail(fmt::format("there is no file '{}'", beside.string()),
                 "paths are relative to the plan");
    }
  }
}

/// The file of a constraint: a path, or a shipped name.
std::filesystem::path constraint_file(const std::string& name) {
  if (name.find_first_of("./") != std::string::npos) return name;
  std::vector<std::string> known;
  for (const ShippedFile& file : shipped_data().constraints()) {
    if (canonical_name(file.name) == canonical_name(name)) return file.path;
    known.push_back(file.name);
  }
  std::string hint = did_you_mean(name, known);
  if (hint.empty())
    hint = fmt::format("shipped: {}; or a path of a plan file", fmt::join(known, ", "));
  throw InputError({}, fmt::format("no constraint '{}'", name), std::move(hint));
}

template <typename List>
void append(List& list, const List& more) {
  list.insert(list.end(), more.begin(), more.end());
}

std::vector<TransformAlternative> variants_of(const io::TransformDocument& transform) {
  auto made = alternatives_of(transform.entries);
  if (const auto* fault = std::get_if<EntryFault>(&made)) {
    throw InputError(transform.where(*fault), fault->message, fault->hint);
  }
  return std::get<std::vector<TransformAlternative>>(std::move(made));
}

/// Leaves one of the variants that the lists of pieces of a constraint make.
void take_variant(std::size_t number, const SourceLocation& where, io::PlanDocument& constraint) {
  std::vector<TransformAlternative> all(1);
  if (constraint.transform) all = variants_of(*constraint.transform);
  if (number > all.size()) {
    throw InputError(where, fmt::format("variant {} of {}", number, all.size()),
                     "lists of pieces make them, the last list fastest: NAME#1 to NAME#N");
  }
  if (!constraint.transform) return;
  constraint.transform->entries = std::move(all[number - 1].entries);
  if (constraint.transform->entries.empty()) constraint.transform.reset();
}

/// Blocks on all devices and rules of the order add up.
void add_shared(const io::PlanDocument& read, PlanRequest& asked) {
  if (read.shared) {
    if (!asked.shared) asked.shared.emplace();
    append(asked.shared->blocks, read.shared->blocks);
    append(asked.shared->places, read.shared->places);
  }
  if (!read.window) return;
  if (!asked.window) asked.window.emplace().place = read.window->place;
  append(asked.window->rules, read.window->rules);
}

/// The value of a setting, in the words of the answer.
const SettingReport* report_of(const ResolvedPlan& given, const SettingRow& row) {
  const auto& settings = given.asked.settings;
  const auto found = std::ranges::find(settings, row.key, &SettingReport::key);
  return found == settings.end() ? nullptr : &*found;
}

enum class Settings { Chosen, All };

/// The resolved question, with the settings that the user chose (or all there are) among those with
/// at least this effect.
ProblemRequest question_of(const ResolvedPlan& given, SettingEffect least, Settings which) {
  const Problem& problem = given.problem;
  const ProblemRequest asked = with_plain_optimizer(given.asked.request);
  ProblemRequest question;
  for (const SettingRow& row : setting_table()) {
    if (row.effect > least) continue;
    const SettingReport* report = row.kind == SettingKind::Name ? nullptr : report_of(given, row);
    auto value = row.get(asked);
    if (report != nullptr && (value || which == Settings::All)) value = report->value;
    if (value) row.set(question, *value);
  }
  question.framework = problem.framework->name;
  question.gpus = given.plan.devices();
  question.batch = problem.global_batch;
  question.seq_len = problem.seq_len;
  question.precision = to_text(problem.precision);
  if (question.lora_rank && !question.lora_targets) {
    question.lora_targets = report_of(given, row_of(Setting::LoraTargets))->value;
  }
  const ProblemFiles& files = given.asked.files;
  question.content_hashes = {{"hardware", hash_text(files.cluster->content_hash)},
                             {"model", hash_text(files.model->content_hash)}};
  return question;
}

std::optional<io::PlacementsDocument> placements_of(const ResolvedPlan& given) {
  const Transform& first = given.plan.transforms.front();
  if (!first.is_placed()) return std::nullopt;
  return io::PlacementsDocument{names_of(*first.placements, *given.problem.network), {}, {}, {}};
}

void add_shared(const ResolvedPlan& given, io::PlanDocument& document) {
  if (!given.shared.empty()) document.shared = io::SharedDocument{given.shared, {}};
  document.window = given.window;
}

/// The plan stage by stage, gangs on the stages beside them.
io::StagesDocument stages_of(const ResolvedPlan& given) {
  const Problem& problem = given.problem;
  io::StagesDocument stages = io::to_stages(without_gangs(given.plan, *problem.network),
                                            *problem.framework, *problem.network);
  if (given.plan.order.window) stages.schedule.reset();
  return stages;
}

void add_plan(const ResolvedPlan& given, io::PlanDocument& document) {
  if (given.degrees) {
    document.question.degrees = to_pinned(*given.degrees);
  } else {
    document.stages = stages_of(given);
  }
  document.placements = placements_of(given);
  add_shared(given, document);
}

}  // namespace

SavedPlans::SavedPlans(const std::string& file) : document_(read_saved(file)) {}

std::size_t SavedPlans::ranks() const {
  const auto plans = document_.root().find("plans");
  return plans ? plans->items().size() : 0;
}

PlanRequest SavedPlans::complete(const ProblemRequest& request, std::size_t rank) const {
  io::PlanDocument read = read_plan(document_.root(), rank);
  find_files(document_.file(), document_.root(), read.question);
  if (read.stages) refuse_degrees(request, read.stages->place.where);
  if (read.assign) refuse_degrees(request, read.assign->order.place.where);
  return {completed(request, read.question),
          std::move(read.stages),
          std::move(read.placements),
          std::move(read.transform),
          std::move(read.assign),
          std::move(read.shared),
          std::move(read.window),
          read.question.model};
}

PlanRequest complete_from_plan(const ProblemRequest& request, const std::string& plan) {
  if (plan.empty()) return {request, std::nullopt, std::nullopt, std::nullopt};
  const PlanName name = split_rank(plan);
  return SavedPlans(name.file).complete(request, name.rank);
}

PlanRequest plan_of_run(const ProblemRequest& typed, const std::string& plan,
                        const std::string& log, std::vector<std::string>& notes) {
  if (plan.empty() && !log.empty()) {
    if (auto logged = plan_in_log(log, typed, notes)) return *std::move(logged);
  }
  return complete_from_plan(typed, plan);
}

PlanRequest with_constraints(PlanRequest asked, const std::string& names) {
  for (const std::string& text : words_of(names, ",")) {
    const bool variant = text.find('#') != std::string::npos && !is_file(text);
    const PlanName name = split_rank(text);
    const io::Document file = io::Document::read(constraint_file(name.file));
    io::PlanDocument read = io::read_plan_document(file.root());
    if (read.stages || read.assign || read.placements) {
      throw InputError(
          file.root().where(), "a constraint that lists stages, assigns or places",
          "constraints decide settings, degrees, transforms, blocks on all devices and "
          "rules of the order, for any network; --plan takes whole plans");
    }
    if (variant) take_variant(name.rank, file.root().where(), read);
    add_shared(read, asked);
    asked.request = completed(asked.request, read.question);
    if (!read.transform) continue;
    if (!asked.transform) asked.transform.emplace();
    append(asked.transform->entries, read.transform->entries);
    read.transform->places.resize(read.transform->entries.size());
    append(asked.transform->places, read.transform->places);
  }
  return asked;
}

std::vector<OpenQuestion> open_questions(const PlanRequest& given) {
  return open_questions(given, load_problem(given.request));
}

std::vector<OpenQuestion> open_questions(const PlanRequest& given, ResolvedQuestion question) {
  if (given.stages || given.assign) {
    const auto& where = given.stages ? given.stages->place : given.assign->order.place;
    throw InputError(where.where, "the stages are listed here: nothing is left to search",
                     "plansearch predict --plan prices it; leave out what is to be found");
  }
  if (given.window) {
    throw InputError(given.window->place.where, "a search finds no order under rules of its own",
                     "plansearch predict --plan prices one plan under them");
  }
  if (given.shared) {
    if (const auto bad = no_shared_devices(*question.problem.framework)) {
      throw InputError(given.shared->places.front().where,
                       fmt::format("{}: {}", to_text(bad->obstacle), bad->detail),
                       legal_values_text(*bad));
    }
    check_shared(*given.shared, *question.problem.network);
    question.shared_blocks = given.shared->blocks;
  }
  std::vector<TransformAlternative> alternatives(1);
  if (given.transform) alternatives = variants_of(*given.transform);
  std::vector<OpenQuestion> questions;
  for (const TransformAlternative& one : alternatives) {
    PlanRequest asked = given;
    if (asked.transform) asked.transform->entries = one.entries;
    if (one.entries.empty()) asked.transform.reset();
    asked = without_primitives(std::move(asked), *question.problem.network);
    OpenQuestion& open = questions.emplace_back(OpenQuestion{question, one.words});
    open.asked.request = std::move(asked.request);
    if (asked.placements) place_in_all(*asked.placements, open.asked);
  }
  return questions;
}

ResolvedQuestion asked_again(const ResolvedQuestion& asked, const ProblemRequest& request) {
  const bool same = request.framework == asked.request.framework;
  ResolvedQuestion again =
      resolve_question(request, same ? asked.files : read_problem_files(request));
  again.shared_blocks = asked.shared_blocks;
  if (asked.placements) {
    place_in_all({names_of(*asked.placements, *asked.problem.network), {}, {}, {}}, again);
  }
  return again;
}

std::string plan_identity(const ResolvedPlan& given) {
  io::PlanDocument document{question_of(given, SettingEffect::Price, Settings::All), {}, {}};
  // The content of a file matters, not its name.
  document.question.hardware = document.question.model = "-";
  add_plan(given, document);
  return hash_text(content_hash(io::to_yaml(document)));
}

void write_plan_files(const ResolvedPlan& given, const PlanFiles& files) {
  io::PlanDocument document{question_of(given, SettingEffect::Room, Settings::Chosen), {}, {}};
  io::PlanDocument spelled = document;
  spelled.placements = placements_of(given);
  add_shared(given, spelled);
  io::PlanDocument primitives = spelled;
  spelled.stages = stages_of(given);
  add_plan(given, document);
  if (!files.primitives.empty()) {
    add_primitives(given, *spelled.stages, primitives);
    io::write_file(files.primitives, io::to_yaml(primitives));
  }
  if (!files.stages.empty()) io::write_file(files.stages, io::to_yaml(spelled));
  if (!files.plan.empty()) io::write_file(files.plan, io::to_yaml(document));
}

}  // namespace plansearch
