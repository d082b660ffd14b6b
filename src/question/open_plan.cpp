// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/names.hpp"
#include "plansearch/error.hpp"
#include "question/resolve_plan.hpp"

namespace plansearch {
namespace {

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

}  // namespace

PlanRequest with_constraints(PlanRequest asked, const std::string& names) {
  for (const std::string& name : words_of(names, ",")) {
    const io::Document file = io::Document::read(constraint_file(name));
    io::PlanDocument read = io::read_plan_document(file.root());
    if (read.stages || read.assign || read.placements) {
      throw InputError(
          file.root().where(), "a constraint that lists stages, assigns or places",
          "constraints decide settings, degrees, transforms, blocks on all devices and "
          "rules of the order, for any network; --plan takes whole plans");
    }
    add_shared(read, asked);
    asked.request = completed(asked.request, read.question);
    if (!read.transform) continue;
    if (!asked.transform) asked.transform.emplace();
    append(asked.transform->entries, read.transform->entries);
    append(asked.transform->places, read.transform->places);
  }
  return asked;
}

std::vector<OpenQuestion> open_questions(const PlanRequest& given) {
  if (given.stages || given.assign) {
    const auto& where = given.stages ? given.stages->place : given.assign->order.place;
    throw InputError(where.where, "the stages are listed here: nothing is left to search",
                     "plansearch predict --plan prices it; leave out what is to be found");
  }
  ResolvedQuestion question = load_problem(given.request);
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
  if (given.transform) {
    auto made = alternatives_of(given.transform->entries);
    if (const auto* fault = std::get_if<EntryFault>(&made)) {
      throw InputError(given.transform->where(*fault), fault->message, fault->hint);
    }
    alternatives = std::get<std::vector<TransformAlternative>>(std::move(made));
  }
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
  ResolvedQuestion again = resolve_question(request, asked.files);
  again.shared_blocks = asked.shared_blocks;
  if (asked.placements) {
    place_in_all({names_of(*asked.placements, *asked.problem.network), {}, {}, {}}, again);
  }
  return again;
}

}  // namespace plansearch
