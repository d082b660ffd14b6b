// SPDX-License-Identifier: Apache-2.0
// Logs of training programs: the lines of every format, other jobs, and the steady part of a run. The lines are our own,
// in the forms that the sources in frameworks/logs/formats.yaml print.
#include "io/logs/training_log.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <array>
#include <cmath>
#include <fstream>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "answer/diagnose.hpp"
#include "base/names.hpp"
#include "plansearch/error.hpp"
#include "plansearch/shipped_data.hpp"
#include "support/source_directory.hpp"

namespace plansearch::training_log_test {
namespace {

const io::LogFormats& formats() {
  static const io::LogFormats all = log_formats(shipped_data());
  return all;
}

io::TrainingLog read(const std::string& text, const io::LoggedJob& job = {8, 64, 4096}) {
  return io::parse_training_log(text, "train.log", formats(), job);
}

std::string lines(int count, const std::function<std::string(int)>& line) {
  std::string text;
  for (int i = 1; i <= count; ++i) text += line(i) + "\n";
  return text;
}

double median_of(const io::TrainingLog& log) {
  return step_times(steady_steps(log.times).steps).median.value();
}

std::vector<io::RankStep> run(int count, const std::function<double(int)>& time) {
  std::vector<io::RankStep> steps;
  for (int i = 1; i <= count; ++i) steps.push_back({i, 0, Seconds(time(i))});
  return steps;
}

/// A line that ends inside the time of its step.
std::string cut(const std::string& line) {
  const std::string_view before = "(ms): ";
  return line.substr(0, line.find(before) + before.size() + 2);
}

struct Example {
  const char* format;
  double step;
  std::function<std::string(int)> line;
};

/// "{i}" and "{h}" by their values, "\\r" and "\\x1b" by their characters.
std::string filled(std::string line, int i) {
  const std::array<std::pair<std::string, std::string>, 4> kWords{
      {{"{i}", fmt::format("{}", i)},
       {"{h}", fmt::format("{}:{:02}", i / 2, 30 * (i % 2))},
       {"\\r", "\r"},
       {"\\x1b", "\x1b"}}};
  for (const auto& [word, value] : kWords) {
    for (auto at = line.find(word); at != line.npos; at = line.find(word)) {
      line.replace(at, word.size(), value);
    }
  }
  return line;
}

std::vector<Example> megatron_and_deepspeed() {
  return {
      {"megatron", 5.5,
       [](int i) {
         return fmt::format(
             " [2026-01-01 00:00:{:02}] iteration {:8}/     500 | consumed samples: {} | elapsed "
             "time per iteration (ms): 5500.0 | learning rate: 1.0E-05 | global batch size:    64 "
             "|",
             i, i, 64 * i);
       }},
      {"megatron-bridge", 2.25,
       [](int) { return "x/0 Step Time : 2.25s GPU utilization: 640.1MODEL_TFLOP/s/GPU"; }},
      {"nemo", 8.192,
       [](int i) {
         return fmt::format(
             "0: Training epoch 0, iteration {}/99 | lr: 1e-05 | global_batch_size: 64 | "
             "global_step: {} | train_step_timing in s: 8.192 | tokens_per_sec_per_gpu: 4.0e+03",
             i, i);
       }},
      {"deepspeed", 4.0,
       [](int i) {
         return fmt::format(
             "[2026-01-01 00:00:00,1] [INFO] [timer.py:260:stop] epoch=0/micro_step={}/"
             "global_step={}, RunningAvgSamplesPerSec=15.0, CurrSamplesPerSec=16.0, "
             "MemAllocated=4.3GB, MaxMemAllocated=38.5GB",
             4 * i, i);
       }},
      {"deepspeed-pipeline", 4.0,
       [](int i) {
         return fmt::format("steps: {} loss: 7.5 iter time (s): 4.000 samples/sec: 16.0", 10 * i);
       }},
  };
}

std::vector<Example> pretraining() {
  return {
      {"torchtitan", 64 * 4096 / (8 * 5762.0),
       [](int i) {
         return fmt::format(
             "\x1b[32m[rank0]:\x1b[0m[titan] 2026-01-01 00:00:00,1 - root - INFO - \x1b[31mstep: "
             "{:2}  \x1b[32mloss:  6.1  \x1b[33mmemory: 49.66GiB(52.28%)  \x1b[34mtps: 5,762  "
             "\x1b[36mtflops: 339.16  \x1b[35mmfu: 34.29%\x1b[39m",
             10 * i);
       }},
      {"nanotron", 11.5,
       [](int i) {
         return fmt::format(
             "01/01/2026 00:00:00 [INFO|DP=0|PP=0|TP=0]: iteration: {} / 900 | consumed_tokens: "
             "1.2G | elapsed_time_per_iteration_ms: 11.5K | tokens_per_sec: 22.8K | "
             "tokens_per_sec_per_gpu: 2.85K | global_batch_size: 64 | lm_loss: 2.3 | "
             "model_tflops_per_gpu: 38.3 |",
             i);
       }},
      {"maxtext", 5.658,
       [](int i) {
         return fmt::format("completed step: {}, seconds: {}, TFLOP/s/device: 135.1, loss: 11.7",
                            i - 1,
                            i == 1   ? 44.9
                            : i == 2 ? 0.319
                                     : 5.658);
       }},
  };
}

std::vector<Example> fine_tuning() {
  return {
      {"verl", 30.5,
       [](int i) {
         return fmt::format(
             "step:{} - timing_s/gen:90.1 - timing_s/update_actor:np.float64(30.5) - "
             "timing_s/step:195.0 - perf/max_memory_allocated_gb:61.5",
             i);
       }},
      {"ms-swift", 4.0,
       [](int i) {
         return fmt::format(
             "{{'loss': 1.6, 'memory(GiB)': 5.15, 'train_speed(iter/s)': {:.6f}, 'epoch': 0.1, "
             "'global_step/max_steps': '{}/9060'}}",
             5.0 * i / (20.0 * i + 7.0), 5 * i);
       }},
      {"llama-factory", 3.0,
       [](int i) {
         return fmt::format(
             R"({{"current_steps": {}, "total_steps": 310, "elapsed_time": "{}:{:02}:{:02}"}})",
             20 * i, i / 60, i % 60, 5);
       }},
      {"hf-trainer", 4.62,
       [](int i) {
         return fmt::format("\r  5%|##   | {}/400 [{:02}:10<52:46,  4.62s/it]\r", i, i);
       }},
      {"hf-trainer-summary", 2.0,
       [](int) { return "{'train_runtime': 80.1, 'train_steps_per_second': 0.5, 'epoch': 3.0}"; }},
      {"nanochat", 0.99,
       [](int i) {
         return fmt::format("step {:05}/21400 (0.02%) | loss: 8.9 | dt: 990.00ms | tok/sec: 1 |",
                            i);
       }},
  };
}

const std::vector<Example>& examples() {
  static const std::vector<Example> all = [] {
    std::vector<Example> every = megatron_and_deepspeed();
    for (Example& example : pretraining()) every.push_back(std::move(example));
    for (Example& example : fine_tuning()) every.push_back(std::move(example));
    return every;
  }();
  return all;
}

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("a run that ran out of memory says so, with and without steps") {
    const std::string line = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB";
    const io::TrainingLog none = read("loading\n" + line + "\n");
    CHECK(none.out_of_memory == 2);
    CHECK(none.times.empty());
    const auto step = megatron_and_deepspeed().front().line;
    const io::TrainingLog some = read(lines(5, step) + line);
    CHECK(some.out_of_memory == 6);
    CHECK(some.times.size() == 5);
    CHECK_FALSE(read(lines(5, step)).out_of_memory);
    CHECK(io::is_training_log(line, formats()));
    CHECK(io::is_training_log(step(1), formats()));
    CHECK_FALSE(io::is_training_log("id,hw,gpus,model,step_time_s\n1,x,8,m,2.0\n", formats()));
  }

  TEST_CASE("every format of the table has an example, and is read from it") {
    std::vector<std::string> tried;
    for (const Example& example : examples()) {
      CAPTURE(example.format);
      const bool summary = std::string(example.format) == "hf-trainer-summary";
      const io::TrainingLog log = read(lines(summary ? 1 : 12, example.line));
      CHECK(log.format == example.format);
      CHECK(median_of(log) == doctest::Approx(example.step).epsilon(1e-3));
      CHECK(log.not_understood.empty());
      tried.emplace_back(example.format);
    }
    std::vector<std::string> known;
    for (const io::LogFormat& format : formats().formats) known.push_back(format.name);
    CHECK(tried == known);
  }

  TEST_CASE("a step of verl holds as many updates as its batch has mini-batches") {
    const auto verl = [](int i) {
      return fmt::format("step:{} - timing_s/gen:90.1 - timing_s/update_actor:32.0 - x:1", i);
    };
    const std::string dump =
        "(TaskRunner pid=3)   'ppo_mini_batch_size': 64,\n"
        "(TaskRunner pid=3)   'train_batch_size': 256,\n";
    CHECK(median_of(read(dump + lines(5, verl))) == doctest::Approx(8.0));
    CHECK(median_of(read(lines(5, verl))) == doctest::Approx(32.0));
  }

  TEST_CASE("retries of the allocator are counted, and what is printed of a step's size is known") {
    const Example titan = pretraining().front();
    const std::string warning =
        "[rank0]:[titan] 2026-01-01 00:00:00,1 - root - WARNING - 25 CUDA memory allocation "
        "retries.\n";
    CHECK(read(lines(5, titan.line) + warning).retries == 25);
    CHECK(read(lines(5, titan.line)).retries == 0);
    CHECK_FALSE(read(lines(5, titan.line)).says_batch);
    const std::string flush =
        "[2026-01-01 00:00:00,1] [WARNING] [stage3.py:2236:step] 3 pytorch allocator cache flushes "
        "since last step. this happens when\n";
    CHECK(read(flush + lines(5, megatron_and_deepspeed()[3].line)).retries == 3);
    const io::TrainingLog megatron = read(lines(5, megatron_and_deepspeed().front().line));
    CHECK(megatron.says_batch);
    CHECK_FALSE(megatron.says_length);
  }

  TEST_CASE("lines of public logs are read within a percent of what a person reads off") {
    std::ifstream file(PLANSEARCH_SOURCE_DIR "/tests/data/logs/published.tsv");
    int tried = 0;
    for (std::string row; std::getline(file, row);) {
      if (row.starts_with('#')) continue;
      const std::vector<std::string> cells = split(row, "\t");
      CAPTURE(cells.front());
      std::string text = "Loading weights\n";
      for (int i = 1; i <= 8; ++i) {
        for (std::size_t cell = 5; cell < cells.size(); ++cell)
          text += filled(cells[cell], i) + "\n";
      }
      const auto count = [&](std::size_t cell) { return std::stoll(cells[cell]); };
      const io::LoggedJob job{count(1), count(2), count(3)};
      ++tried;
      const double step = std::stod(cells[4]);
      if (step == 0.0) {
        CHECK_THROWS_AS(static_cast<void>(read(text, job)), InputError);
        continue;
      }
      const io::TrainingLog log = read(text, job);
      CHECK(median_of(log) == doctest::Approx(step).epsilon(0.01));
      CHECK(log.not_understood.empty());
    }
    CHECK(tried >= 30);
  }

  TEST_CASE("cut lines are named, and those of other programs passed over") {
    const Example& megatron = examples().front();
    std::string text = "Loading: 10%|#  | 1/9 [00:01<00:09, 1.00it/s]\n" + lines(6, megatron.line);
    text += cut(megatron.line(7)) + "\n" + megatron.line(8) + "\n";
    const io::TrainingLog log = read(text);
    CHECK(log.format == "megatron");
    CHECK(log.times.size() == 7);
    CHECK(log.not_understood == std::vector<std::int64_t>{8});
  }

  TEST_CASE("a bar of evaluation is not the bar of training") {
    const std::string text =
        lines(8, [](int i) { return fmt::format("| {}/90 [00:10<00:46,  5.00s/it]", i); }) +
        lines(20, [](int i) { return fmt::format("| {}/20 [00:10<00:46,  9.00it/s]", i); });
    CHECK(median_of(read(text)) == doctest::Approx(5.0));
  }

  TEST_CASE("logs without steps and logs of another job are refused with place and remedy") {
    const auto refusal = [](const std::string& text, const io::LoggedJob& job) {
      try {
        static_cast<void>(read(text, job));
      } catch (const InputError& error) {
        return fmt::format("{}: {} ({})", error.where().line, error.what(), error.hint());
      }
      return std::string("read");
    };
    const auto& all = examples();
    const io::LoggedJob job{8, 64, 4096};
    CHECK(refusal("", job).find("no training step") != std::string::npos);
    CHECK(refusal("nothing\nhere\n", job).find("--measured") != std::string::npos);
    CHECK(refusal("a\n" + cut(all[0].line(1)), job).starts_with("2: the line is like"));
    CHECK(refusal(lines(3, all[0].line), {8, 128, 4096}) ==
          "3: the log is of another job: 64 sequences a step, the plan has 128 (--batch 64, or the "
          "log of this plan)");
    CHECK(refusal(" > using world size: 16, x\n" + lines(3, all[0].line), job)
              .find("16 GPUs, the plan has 8") != std::string::npos);
    CHECK(refusal(lines(3, all[2].line), {8, 64, 8192}).find("tokens a step") != std::string::npos);
  }

  TEST_CASE("steps of warm-up and checkpoints are left out") {
    const SteadySteps steady = steady_steps(run(100, [](int i) {
      if (i <= 3) return 30.0 / i;
      return 2.0 + 0.01 * (i % 5) + (i % 20 == 0 ? 3.0 : 0.0);
    }));
    CHECK(steady.all == 100);
    CHECK(steady.warm_up == 3);
    CHECK(steady.apart == 5);
    CHECK(steady.apart_every == 20);
    CHECK_FALSE(steady.change.has_value());
    CHECK(step_times(steady.steps).median.value() == doctest::Approx(2.02));
  }

  TEST_CASE("a change of pace is told from a drift, and noise is neither") {
    const auto change = [](const std::function<double(int)>& time) {
      return steady_steps(run(200, time)).change;
    };
    const auto sudden = change([](int i) { return (i < 120 ? 2.0 : 2.5) + 0.01 * (i % 7); });
    REQUIRE(sudden.has_value());
    CHECK(sudden->sudden);
    CHECK(sudden->step == 120);
    CHECK(sudden->after / sudden->before == doctest::Approx(1.25).epsilon(0.01));
    const auto drift = change([](int i) { return 2.0 + 0.005 * i + 0.01 * (i % 7); });
    REQUIRE(drift.has_value());
    CHECK_FALSE(drift->sudden);
    CHECK_FALSE(change([](int i) { return 2.0 + 0.4 * std::sin(12.9898 * i); }).has_value());
  }

  TEST_CASE("a run that starts again goes on counting, and ranks are told apart") {
    const auto line = [](int rank, int step, double ms) {
      return fmt::format("[rank{}]: iteration {}/ 500 | elapsed time per iteration (ms): {} |\n",
                         rank, step, ms);
    };
    std::string text;
    for (int i = 1; i <= 20; ++i) text += line(0, i, 1000.0) + line(1, i, 1300.0);
    for (int i = 11; i <= 20; ++i) text += line(0, i, 1000.0) + line(1, i, 1300.0);
    const io::TrainingLog log = read(text);
    const SteadySteps steady = steady_steps(log.times);
    CHECK(steady.all == 30);
    const StepTimes times = step_times(steady.steps);
    CHECK(times.median.value() == doctest::Approx(1.3));
    CHECK(times.slowest_rank == 1);
  }
}

}  // namespace plansearch::training_log_test
