// SPDX-License-Identifier: Apache-2.0
// Files as torch.distributed.pipelining writes them (_dump_csv of PipelineScheduleMulti,
// torch 2.15).
#include "io/plan/schedule_csv.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <thread>
#include <vector>

#include "plansearch/error.hpp"
#include "schedule/table.hpp"

namespace plansearch::io::schedule_csv_test {
namespace {

std::string message_of(std::string_view text) {
  try {
    static_cast<void>(parse_schedule(text, "orders.csv"));
  } catch (const InputError& error) {
    return error.formatted();
  }
  return "no error";
}

bool mentions(std::string_view text, std::string_view words) {
  const std::string message = message_of(text);
  INFO(message);
  return message.find(words) != std::string::npos;
}

TEST_SUITE("io") {
  TEST_CASE("export, then import: every schedule comes back") {
    for (const ScheduleId id : all_schedules()) {
      for (const int p : {2, 4}) {
        for (const int m : {4, 8, 16}) {
          const PipelineShape shape{id, p, m, schedule_row(id).chunks.fewest};
          if (fault_of(shape)) continue;
          const ComputeOrder order = order_of(shape);
          const std::string text = to_schedule_csv(order);
          const ComputeOrder back = parse_schedule(text, "orders.csv");
          INFO(to_text(id) << " p " << p << " m " << m);
          CHECK(to_schedule_csv(back) == text);
          const std::string lowered = to_lowered_csv(order);
          CHECK(parse_schedule(lowered, "orders.csv") == back);
          CHECK(to_lowered_csv(back) == lowered);
          // An order made for the case may turn out to have whole backwards only.
          if (!schedule_row(id).tuned) CHECK(back == order);
        }
      }
    }
  }

  TEST_CASE("a file of two stages, with idle cells") {
    const ComputeOrder order = parse_schedule("0F0,0F1,,0B0,0B1\r\n,1F0,1B0,1F1,1B1\n\n", "x.csv");
    CHECK(order == order_of({*find_schedule("1f1b"), 2, 2}));
  }

  TEST_CASE("overlapped and split backwards") {
    const ComputeOrder order = parse_schedule(
        "0F0,0F1,0I0,0W0,0B1\n"
        "1F0,(1F1;1B0)OVERLAP_F_B,1I1,1W1\n",
        "x.csv");
    CHECK(order.weight_gradients == WeightGradients::Separate);
    using enum Phase;
    CHECK(order.devices[0] == std::vector<ComputeStep>{{0, 0, Forward},
                                                       {0, 1, Forward},
                                                       {0, 0, Backward},
                                                       {0, 0, WeightGradient},
                                                       {0, 1, Backward},
                                                       {0, 1, WeightGradient, true}});
    CHECK(order.devices[1] == std::vector<ComputeStep>{{0, 0, Forward},
                                                       {0, 1, Forward},
                                                       {0, 0, Backward, true},
                                                       {0, 0, WeightGradient, true},
                                                       {0, 1, Backward},
                                                       {0, 1, WeightGradient}});
  }

  TEST_CASE("a lowered file: messages are checked, the order is the same") {
    const std::string lowered =
        "0UNSHARD,0F0,0SEND_F0,0WAIT_SEND_F0,0RECV_B0,0B0,0REDUCE_GRAD,0RESHARD\n"
        "1UNSHARD,1RECV_F0,1F0,1B0,1SEND_B0,1WAIT_SEND_B0,1REDUCE_GRAD,1RESHARD\n";
    CHECK(parse_schedule(lowered, "x.csv") == parse_schedule("0F0,0B0\n1F0,1B0\n", "x.csv"));
    CHECK(mentions("0F0,0SEND_F0,0B0\n1RECV_F0,1F0,1B0,1SEND_B0\n",
                   "orders.csv:1:14: error: the gradient of micro-batch 0 from stage 1 is not "
                   "received before"));
    CHECK(mentions("0F0,0RECV_B0,0B0\n1RECV_F0,1F0,1B0,1SEND_B0\n",
                   "the activation of micro-batch 0 from stage 0 is never sent"));
    CHECK(mentions("0SEND_F0,0F0,0RECV_B0,0B0\n1RECV_F0,1F0,1B0,1SEND_B0\n",
                   "orders.csv:1:1: error: SEND has nothing to send here"));
    CHECK(mentions("0F0,1SEND_F0,0B0\n1F0,1B0\n", "stage 1 is not on rank 0"));
  }

  // Two ranks in turn, an action each: 0F0 puts RECV into row 1, which runs 1F0; 0F1 puts the next,
  // then 1B0 puts 0RECV_B0 behind 0SEND_F1.
  TEST_CASE("lowered: a send behind its piece, a receive where the sender comes to it") {
    CHECK(to_lowered_csv(order_of({*find_schedule("1f1b"), 2, 2})) ==
          "0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1\n"
          "1RECV_F0,1F0,1RECV_F1,1B0,1SEND_B0,1F1,1B1,1SEND_B1\n");
    // Nothing is sent where a V turns: stages 1 and 2 share rank 1.
    PipelineShape snake{*find_schedule("hanayo"), 2, 1, 2};
    CHECK(to_lowered_csv(order_of(snake)) ==
          "0F0,0SEND_F0,3RECV_F0,3F0,3B0,3SEND_B0,0RECV_B0,0B0\n"
          "1RECV_F0,1F0,2F0,2SEND_F0,2RECV_B0,2B0,1B0,1SEND_B0\n");
  }

  TEST_CASE("wrong files say where and what") {
    CHECK(mentions("0F0,0X0\n", "orders.csv:1:5: error: '0X0' is not an action"));
    CHECK(mentions("0F0,0B0\n1F0,1B\n", "orders.csv:2:5: error: '1B' is not an action"));
    CHECK(mentions("0F0,(0F1;0B0)OVERLAP\n", "is not an action"));
    CHECK(mentions("0F0,(0B0;0F1)OVERLAP_F_B\n", "is not an action"));
    CHECK(mentions("0F99999999999\n", "is not an action"));
    CHECK(mentions("", "a schedule without a row"));
    CHECK(mentions("0UNSHARD\n", "a schedule that computes nothing"));
    CHECK(mentions("0F0,0B0\n0F1,0B1\n",
                   "orders.csv:2:1: error: stage 0 runs on rank 0 and on rank 1"));
    CHECK(mentions("0F0,0B0\n2F0,2B0\n", "stage 1 runs nowhere"));
    CHECK(mentions("0F0,1F0,1B0,0B0\n2F0,2B0\n", "rank 0 holds 2 stages; 2 ranks share 3"));
    CHECK(mentions("0F0,0F1,0B0\n1F0,1B0,1F1,1B1\n", "B1 of chunk 0 on device 0 is missing"));
    CHECK(mentions("0F0,0B0,0F1,0B1\n1F0,1F1,1B0,1B1\n", "the order waits for itself"));
  }

  TEST_CASE("a file is a schedule of its own") {
    const auto mine = [](std::string_view text) {
      return given_schedule("mine.csv", parse_schedule(text, "x"));
    };
    const ScheduleId id = mine("0F0,0B0\n1F0,1B0\n");
    CHECK(mine("0F0,0B0\n1F0,1B0\n") == id);
    CHECK(mine("0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n") != id);
    CHECK_FALSE(find_schedule("mine.csv"));
    CHECK(is_schedule(id));
    CHECK_FALSE(is_schedule(static_cast<ScheduleId>(255)));
    CHECK(to_text(id) == "mine.csv");
    CHECK_FALSE(fault_of({id, 2, 1}));
    CHECK(to_text(id, *fault_of({id, 4, 1})) == "mine.csv takes 2 pipeline stages, not 4");
    CHECK(to_text(id, *fault_of({id, 2, 8})) == "mine.csv takes 1 micro-batch, not 8");
    for (const ScheduleId listed : all_schedules()) CHECK(listed != id);
  }

  TEST_CASE("orders become schedules while other threads look rows up") {
    const ComputeOrder order = parse_schedule("0F0,0B0\n1F0,1B0\n", "x");
    constexpr int kNames = 20;
    std::vector<std::vector<ScheduleId>> found(4);
    std::vector<std::thread> threads;
    for (std::vector<ScheduleId>& ids : found) {
      threads.emplace_back([&] {
        for (int i = 0; i < kNames; ++i) {
          const std::string name = fmt::format("threads-{}.csv", i);
          ids.push_back(given_schedule(name, order));
          for (const ScheduleId id : ids) {
            if (*schedule_row(id).given != order) ids.clear();
          }
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (const std::vector<ScheduleId>& ids : found) CHECK(ids == found.front());
    CHECK(found.front().size() == kNames);
    CHECK(to_text(found.front()[kNames - 1]) == "threads-19.csv");
  }
}

}  // namespace
}  // namespace plansearch::io::schedule_csv_test
