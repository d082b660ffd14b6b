// SPDX-License-Identifier: Apache-2.0
// Random questions over the shipped machines, models and frameworks, each with a legal plan.
#pragma once

#include <fmt/format.h>

#include <optional>
#include <random>
#include <string>
#include <vector>

#include "plansearch/error.hpp"
#include "plansearch/load_problem.hpp"
#include "unit/evaluate/random_plans.hpp"

namespace plansearch::test {

struct RandomQuestion {
  ProblemRequest request;
  ResolvedQuestion asked;
  Problem problem;  ///< with the plan's GPUs and batch
  PlanDegrees plan;

  [[nodiscard]] std::string text() const {
    return fmt::format("--hw {} --model {} --framework {} --gpus {} --batch {}: {}",
                       request.hardware, request.model, request.framework, problem.gpus,
                       problem.global_batch, describe(plan));
  }
};

inline std::vector<std::string> names_of(const std::vector<ShippedFile>& files) {
  std::vector<std::string> names;
  for (const ShippedFile& file : files) names.push_back(file.name);
  return names;
}

/// Draws machine, model, framework, size and plan; the same sequence on every platform.
class RandomQuestions {
 public:
  explicit RandomQuestions(std::uint32_t seed) : engine_(seed) {}

  [[nodiscard]] std::mt19937& engine() { return engine_; }
  [[nodiscard]] std::size_t machines() const { return hardware_.size(); }

  RandomQuestion next() {
    for (;;) {
      if (auto question = draw()) return *std::move(question);
    }
  }

 private:
  const std::string& any(const std::vector<std::string>& names) {
    return names[engine_() % names.size()];
  }

  std::optional<RandomQuestion> draw() {
    RandomQuestion question;
    question.request.hardware = any(hardware_);
    question.request.model = any(models_);
    question.request.framework = any(frameworks_);
    try {
      question.asked = load_problem(question.request);
    } catch (const InputError&) {
      return std::nullopt;  // such as a precision the machine lacks
    }
    const Cluster& cluster = *question.asked.problem.cluster;
    const int nodes = power_of_two(engine_, std::max(1, std::min(16, cluster.nodes())));
    question.problem = with_gpus(question.asked, nodes * cluster.accelerators_per_node);
    for (int attempt = 0; attempt < 40; ++attempt) {
      question.problem.global_batch =
          std::int64_t{1} * question.problem.gpus * power_of_two(engine_, 16);
      const PlanEvaluator evaluator(question.problem);
      if (const auto plan = random_plan(engine_, evaluator)) {
        question.plan = *plan;
        return question;
      }
    }
    return std::nullopt;
  }

  std::mt19937 engine_;
  std::vector<std::string> hardware_ = names_of(shipped_data().clusters());
  std::vector<std::string> models_ = names_of(shipped_data().models());
  std::vector<std::string> frameworks_ = names_of(shipped_data().frameworks());
};

}  // namespace plansearch::test
