// SPDX-License-Identifier: Apache-2.0
// The trace events of PyTorch's profiler: complete events (ph X) by category, read without keeping
// the document.
// Events of a timeline added up: what each kind takes by itself, when nothing ran, and when only
// messages did.

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "io/tables/kernel_profile/step_profile.hpp"
#include "plansearch/error.hpp"

namespace plansearch::io {

/// Microseconds of the trace's clock.
struct Span {
  double start = 0.0;
  double end = 0.0;
};

struct TimedEvent {
  Span span;
  int thread = 0;  ///< a stream, or a thread of the host
  ProfileTerm term = ProfileTerm::MemoryBound;
};

/// Terms, exposed, idle and span within `window`; events of one thread may lie inside one another,
/// and count by what those inside leave.
void add_up(std::vector<TimedEvent> events, Span window, StepProfile& profile);

namespace {

using Json = nlohmann::json;

struct RawEvent {
  std::string phase;
  std::string category;
  std::string name;
  std::string process;
  std::string thread;
  std::optional<double> start;
  std::optional<double> duration;
};

/// Events of a trace, by the place where they ran.
struct Collected {
  std::vector<TimedEvent> kernels;    ///< of a device
  std::vector<TimedEvent> operators;  ///< of a processor
  std::vector<Span> updates_on_device;
  std::vector<Span> updates_on_host;
  std::set<std::string> steps;
  std::vector<Span> step_spans;
  bool launches = false;  ///< the host launched kernels
  std::map<std::string, int> threads;
  std::size_t events = 0;
};

bool starts_with(std::string_view text, std::string_view with) {
  return text.substr(0, with.size()) == with;
}

[[noreturn]] void fail_event(const std::string& file, std::size_t number, const RawEvent& event,
                             const std::string& message) {
  throw InputError({file, 0, 0},
                   fmt::format("event {} ('{}'): {}", number, event.name.substr(0, 60), message),
                   "times are microseconds; export the trace again");
}

/// Calls that only issue messages, whose own events are on another thread.
bool issues_messages(std::string_view name) {
  return starts_with(name, "c10d::") || name == "record_param_comms";
}

void collect(const RawEvent& event, const std::string& file, Collected& all) {
  ++all.events;
  if (event.phase != "X") return;
  if (!event.start || !event.duration) fail_event(file, all.events, event, "has no ts or no dur");
  if (*event.duration < 0.0) {
    fail_event(file, all.events, event, fmt::format("its duration is {}", *event.duration));
  }
  const Span span{*event.start, *event.start + *event.duration};
  const auto timed = [&](ProfileTerm term) {
    const std::string key = event.process + '/' + event.thread;
    const int thread = all.threads.emplace(key, static_cast<int>(all.threads.size())).first->second;
    return TimedEvent{span, thread, term};
  };
  const std::string& category = event.category;
  if (category == "kernel" || category == "gpu_memset") {
    all.kernels.push_back(timed(term_of(event.name)));
  } else if (category == "gpu_memcpy") {
    all.kernels.push_back(timed(ProfileTerm::Copy));
  } else if (category == "cuda_runtime" || category == "hip_runtime" || category == "cuda_driver") {
    all.launches = true;
  } else if (category == "user_annotation" || category == "gpu_user_annotation") {
    if (starts_with(event.name, "ProfilerStep#")) {
      all.steps.insert(event.name);
      if (category == "user_annotation") all.step_spans.push_back(span);
    } else if (starts_with(event.name, "Optimizer.step")) {
      (category == "user_annotation" ? all.updates_on_host : all.updates_on_device).push_back(span);
    } else if (category == "user_annotation" && starts_with(event.name, "gloo:")) {
      all.operators.push_back(timed(term_of(event.name)));
    }
  } else if (category == "cpu_op" && !issues_messages(event.name)) {
    all.operators.push_back(timed(term_of(event.name)));
  }
}

/// Hands on every object of the list `traceEvents`, or of a list that is the whole document.
class EventReader : public nlohmann::json_sax<Json> {
 public:
  EventReader(std::string file, Collected& all) : file_(std::move(file)), all_(all) {}
  [[nodiscard]] bool found_list() const { return list_depth_ > 0; }

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t value) override {
    return number(static_cast<double>(value), std::to_string(value));
  }
  bool number_unsigned(number_unsigned_t value) override {
    return number(static_cast<double>(value), std::to_string(value));
  }
  bool number_float(number_float_t value, const string_t& text) override {
    return number(value, text);
  }
  bool string(string_t& value) override {
    if (!in_event()) return true;
    if (key_ == "ph") event_.phase = value;
    if (key_ == "cat") event_.category = value;
    if (key_ == "name") event_.name = value;
    if (key_ == "pid") event_.process = value;
    if (key_ == "tid") event_.thread = value;
    return true;
  }
  bool binary(binary_t&) override { return true; }
  bool start_object(std::size_t) override {
    ++depth_;
    if (in_event()) event_ = {};
    return true;
  }
  bool key(string_t& value) override {
    if (in_event() || depth_ == 1) key_ = value;
    return true;
  }
  bool end_object() override {
    if (in_event()) collect(event_, file_, all_);
    --depth_;
    return true;
  }
  bool start_array(std::size_t) override {
    ++depth_;
    if (depth_ == 1 || (depth_ == 2 && key_ == "traceEvents")) list_depth_ = depth_;
    return true;
  }
  bool end_array() override {
    if (depth_ == list_depth_) closed_ = true;
    --depth_;
    return true;
  }
  bool parse_error(std::size_t at, const std::string&,
                   const nlohmann::detail::exception&) override {
    throw InputError({file_, 0, 0}, fmt::format("no JSON behind byte {}", at),
                     "the profiler may have been stopped while it wrote; export the trace again");
  }

 private:
  [[nodiscard]] bool in_event() const {
    return list_depth_ > 0 && !closed_ && depth_ == list_depth_ + 1;
  }
  bool number(double value, const std::string& text) {
    if (!in_event()) return true;
    if (key_ == "ts") event_.start = value;
    if (key_ == "dur") event_.duration = value;
    if (key_ == "pid") event_.process = text;
    if (key_ == "tid") event_.thread = text;
    return true;
  }

  std::string file_;
  Collected& all_;
  RawEvent event_;
  std::string key_;
  int depth_ = 0;
  int list_depth_ = 0;
  bool closed_ = false;
};

/// Marks events inside a step of the optimizer as its own, except messages.
void mark_updates(const std::vector<Span>& updates, std::vector<TimedEvent>& events) {
  for (TimedEvent& event : events) {
    if (is_message(event.term)) continue;
    const double middle = 0.5 * (event.span.start + event.span.end);
    const bool inside = std::ranges::any_of(updates, [&](const Span& update) {
      return middle >= update.start && middle <= update.end;
    });
    if (inside) event.term = ProfileTerm::Optimizer;
  }
}

Span around(const std::vector<TimedEvent>& events, const std::vector<Span>& steps) {
  Span window{HUGE_VAL, -HUGE_VAL};
  const auto widen = [&](const Span& span) {
    window = {std::min(window.start, span.start), std::max(window.end, span.end)};
  };
  for (const TimedEvent& event : events) widen(event.span);
  for (const Span& step : steps) widen(step);
  return window;
}

constexpr double kMicrosecond = 1e-6;

/// Sorted, without overlaps.
std::vector<Span> merged(std::vector<Span> spans) {
  std::ranges::sort(spans, {}, &Span::start);
  std::vector<Span> out;
  for (const Span& span : spans) {
    if (!out.empty() && span.start <= out.back().end) {
      out.back().end = std::max(out.back().end, span.end);
    } else {
      out.push_back(span);
    }
  }
  return out;
}

double length(const std::vector<Span>& spans) {
  double sum = 0.0;
  for (const Span& span : spans) sum += span.end - span.start;
  return sum;
}

/// Every event less those that lie directly inside it.
void add_own_times(std::vector<TimedEvent>& events, StepProfile& profile) {
  std::ranges::stable_sort(events, [](const TimedEvent& a, const TimedEvent& b) {
    if (a.thread != b.thread) return a.thread < b.thread;
    if (a.span.start != b.span.start) return a.span.start < b.span.start;
    return a.span.end > b.span.end;
  });
  std::vector<const TimedEvent*> open;
  for (const TimedEvent& event : events) {
    while (!open.empty() &&
           (open.back()->thread != event.thread || open.back()->span.end <= event.span.start)) {
      open.pop_back();
    }
    const double time = event.span.end - event.span.start;
    TermTime& own = profile.at(event.term);
    own.time += Seconds(time * kMicrosecond);
    own.calls += 1.0;
    if (!open.empty()) {
      // Time beyond the end of the outer event is not inside it.
      const double inside = std::min(event.span.end, open.back()->span.end) - event.span.start;
      profile.at(open.back()->term).time -= Seconds(inside * kMicrosecond);
    }
    open.push_back(&event);
  }
}

}  // namespace

StepProfile read_chrome_trace(std::string_view text, const std::string& file) {
  Collected all;
  EventReader reader(file, all);
  Json::sax_parse(text, &reader);
  if (!reader.found_list()) {
    throw InputError({file, 0, 0}, "has no list of trace events",
                     "prof.export_chrome_trace of PyTorch's profiler writes one");
  }
  const bool device = !all.kernels.empty();
  if (!device && (all.launches || all.operators.empty())) {
    throw InputError({file, 0, 0},
                     all.launches ? "has launches of kernels, and no kernel"
                                  : fmt::format("has {} events, and no kernel", all.events),
                     "record with activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]");
  }
  StepProfile profile;
  if (!all.steps.empty()) profile.steps = static_cast<double>(all.steps.size());
  std::vector<TimedEvent>& events = device ? all.kernels : all.operators;
  mark_updates(device ? all.updates_on_device : all.updates_on_host, events);
  // Kernels lag behind the host, which only knows when it issued a step.
  const Span window = around(events, device ? std::vector<Span>{} : all.step_spans);
  add_up(std::move(events), window, profile);
  return profile;
}

// Computes: sums of a timeline of events, by term.
// Source: definition.
// Assumes: events of one thread are disjoint or nested.
// Units: microseconds in, seconds out.
// Checked by: tests/unit/io/kernel_profile_test.cpp

void add_up(std::vector<TimedEvent> events, Span window, StepProfile& profile) {
  std::vector<Span> any;
  std::vector<Span> computing;
  for (const TimedEvent& event : events) {
    any.push_back(event.span);
    if (!is_message(event.term)) computing.push_back(event.span);
  }
  const double busy = length(merged(std::move(any)));
  const double span = std::max(window.end - window.start, busy);
  profile.span = Seconds(span * kMicrosecond);
  profile.idle = Seconds((span - busy) * kMicrosecond);
  profile.exposed = Seconds((busy - length(merged(std::move(computing)))) * kMicrosecond);
  add_own_times(events, profile);
}

}  // namespace plansearch::io
