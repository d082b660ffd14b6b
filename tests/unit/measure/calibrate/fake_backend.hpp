// SPDX-License-Identifier: Apache-2.0
// A device whose times a test decides.
#pragma once

#include <functional>

#include "measure/calibrate/backend.hpp"

namespace plansearch::test {

class FakeTrial final : public calibrate::Trial {
 public:
  explicit FakeTrial(std::function<double(int)> time) : time_(std::move(time)) {}
  double run(int calls) override { return time_(calls); }

 private:
  std::function<double(int)> time_;
};

class FakeBackend final : public calibrate::Backend {
 public:
  /// `time` gets the number of calls of a block and the bytes of one.
  explicit FakeBackend(std::function<double(int, double)> time) : time_(std::move(time)) {}

  [[nodiscard]] io::SampledMachine machine() const override {
    return {.backend = "fake", .name = "fake one"};
  }
  [[nodiscard]] double flop_rate() const override { return 1e9; }
  [[nodiscard]] double byte_rate() const override { return 1e9; }
  [[nodiscard]] std::vector<std::string> formats() const override { return {"fp32"}; }
  [[nodiscard]] std::optional<std::string> lacks(const calibrate::Probe& probe) const override {
    if (probe.name == "stream") return std::nullopt;
    return "not here";
  }
  [[nodiscard]] std::unique_ptr<calibrate::Trial> prepare(const calibrate::Point& point) override {
    return std::make_unique<FakeTrial>([this, bytes = point.number("bytes")](int calls) {
      const double time = time_(calls, bytes);
      clock_ += time;
      return time;
    });
  }
  [[nodiscard]] double now() const override { return clock_; }
  [[nodiscard]] std::optional<std::string> broken() override { return fault; }

  std::optional<std::string> fault;

 private:
  std::function<double(int, double)> time_;
  double clock_ = 0.0;
};

}  // namespace plansearch::test
