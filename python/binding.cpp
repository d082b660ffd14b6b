// SPDX-License-Identifier: Apache-2.0
// The module plansearch._core: commands and questions for the package around it, which turns
// answers into objects. Everything runs without the interpreter's lock.
#include <fmt/format.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <chrono>
#include <exception>
#include <future>
#include <string>
#include <utility>
#include <vector>

#include "answer/make_report.hpp"
#include "base/names.hpp"
#include "cli/parse.hpp"
#include "cli/progress.hpp"
#include "plansearch/degree_table.hpp"
#include "plansearch/error.hpp"
#include "plansearch/evaluator.hpp"
#include "plansearch/load_problem.hpp"
#include "plansearch/report.hpp"
#include "plansearch/shipped_data.hpp"
#include "plansearch/stop_token.hpp"
#include "plansearch/switch_priors.hpp"
#include "question/resolve_plan.hpp"

namespace py = pybind11;

namespace plansearch::python {
namespace {

ProblemRequest read_request(std::vector<std::string> words) {
  words.insert(words.begin(), "predict");
  cli::Caller caller;
  return cli::parse_words(words, caller);
}

Degree degree_of(const std::string& key) {
  if (key == kTensorAlias.key) return kTensorAlias.degree;
  std::vector<std::string> keys{std::string(kTensorAlias.key)};
  for (const DegreeRow& row : degree_table()) {
    if (key == row.key) return row.degree;
    keys.emplace_back(row.key);
  }
  throw InputError({}, fmt::format("{} is not a degree", key),
                   fmt::format("settings belong to the question. {}", did_you_mean(key, keys)));
}

/// Pairs of a degree's key and its value as text, such as ("tp", "8").
using SpelledDegrees = std::vector<std::pair<std::string, std::string>>;

/// May be used by several threads at once.
class Question {
 public:
  /// The flags of `plansearch predict`; degrees among them hold for every plan.
  explicit Question(const std::vector<std::string>& words);

  /// The answer of `plansearch predict --format json` to these degrees and the question's own,
  /// without remedies where the plan does not fit. InputError for a plan that is not legal.
  [[nodiscard]] std::string predict(const SpelledDegrees& degrees) const;

 private:
  ProblemRequest request_;
  ProblemFiles files_;
  SwitchPriors priors_;  ///< of what degrees leave out
};

Question::Question(const std::vector<std::string>& words)
    : request_(read_request(words)),
      files_(read_problem_files(request_)),
      priors_(switch_priors(shipped_data())) {}

std::string Question::predict(const SpelledDegrees& degrees) const {
  PlanRequest asked{request_, {}};
  for (const auto& [key, value] : degrees) {
    const Degree degree = degree_of(key);
    asked.request.degrees.pin(degree, read_degree_value(flag_of(key), value, degree));
  }
  const ResolvedPlan given = resolve_plan(asked, files_);
  if (given.inexpressible) throw InputError({}, *given.inexpressible);
  const PlanEvaluator evaluator(given.problem);
  return render_prediction(predict_as_asked(given, evaluator, priors_), Format::Json, 0);
}

constexpr auto kSignalInterval = std::chrono::milliseconds(50);

struct Outcome {
  int code = 0;
  std::string answer;
  std::vector<std::string> remarks;
};

/// Runs a command on a thread of its own, so that this one sees Ctrl-C.
Outcome run(const std::vector<std::string>& words) {
  cli::Caller caller;
  int code = 0;
  {
    const py::gil_scoped_release unlocked;
    auto running = std::async(std::launch::async, [&] { return cli::run_words(words, caller); });
    bool interrupted = false;
    while (running.wait_for(kSignalInterval) != std::future_status::ready) {
      const py::gil_scoped_acquire locked;
      if (PyErr_CheckSignals() == 0) continue;
      caller.stop = true;
      interrupted = true;
      break;
    }
    if (interrupted) {
      running.wait();
      const py::gil_scoped_acquire locked;
      throw py::error_already_set();
    }
    code = running.get();
  }
  return {code, std::move(caller.answer), std::move(caller.remarks)};
}

/// Raises the package's own exception, with what each wrong input says.
void raise_input_error(const InputError& error) {
  const auto record = [](const InputError& one) {
    const SourceLocation& where = one.where();
    return py::make_tuple(std::string(one.what()), one.hint(), where.file, where.line,
                          where.column);
  };
  py::list all;
  if (const auto* several = dynamic_cast<const InputErrors*>(&error)) {
    for (const InputError& one : several->all()) all.append(record(one));
  } else {
    all.append(record(error));
  }
  const py::object type = py::module_::import("plansearch.errors").attr("InputError");
  const py::object raised = type(error.formatted(), all);
  PyErr_SetObject(type.ptr(), raised.ptr());
}

void translate(std::exception_ptr thrown) {
  try {
    if (thrown) std::rethrow_exception(thrown);
  } catch (const InputError& error) {
    raise_input_error(error);
  } catch (const Stopped& stopped) {
    const std::string why(cli::to_text(stopped.reason));
    const py::object type = py::module_::import("plansearch.errors").attr("Stopped");
    PyErr_SetObject(type.ptr(), type(why + " before there was an answer").ptr());
  }
}

}  // namespace

PYBIND11_MODULE(_core, module) {
  py::register_exception_translator(translate);
  module.def(
      "run",
      [](const std::vector<std::string>& words) {
        Outcome outcome = run(words);
        return py::make_tuple(outcome.code, std::move(outcome.answer), std::move(outcome.remarks));
      },
      py::arg("words"), "Runs a command line; returns its exit code, answer and remarks.");
  py::class_<Question>(module, "Question")
      .def(py::init<const std::vector<std::string>&>(), py::arg("words"),
           py::call_guard<py::gil_scoped_release>())
      .def("predict", &Question::predict, py::arg("degrees"),
           py::call_guard<py::gil_scoped_release>(), "The answer of predict as JSON.");
}

}  // namespace plansearch::python
