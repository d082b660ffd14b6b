// SPDX-License-Identifier: Apache-2.0
// Every process has two connections to the first: one for texts, one that only tells whether the
// other side is alive.
#include "measure/calibrate/processes/processes.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <poll.h>
#include <sys/socket.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <exception>
#include <optional>
#include <thread>
#include <utility>

#include "base/names.hpp"
#include "base/units.hpp"
#include "measure/calibrate/backend.hpp"

namespace plansearch::calibrate {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::string_view kGreeting = "plansearch calibrate 1";

/// Another process: its host, its connections.
struct Peer {
  int rank = 0;
  std::string host;
  std::optional<io::Descriptor> texts;
  std::optional<io::Descriptor> life;
  [[nodiscard]] std::string name() const { return fmt::format("rank {} ({})", rank, host); }
};

std::string text_of(double value) {
  std::string bytes(sizeof value, '\0');
  std::memcpy(bytes.data(), &value, sizeof value);
  return bytes;
}

double number_of(const std::string& bytes) {
  double value = 0.0;
  std::memcpy(&value, bytes.data(), std::min(bytes.size(), sizeof value));
  return value;
}

class StoreProcesses final : public Processes {
 public:
  StoreProcesses(Launch launch, std::vector<Peer> peers,
                 std::function<void(const std::string&)> on_loss)
      : launch_(std::move(launch)), peers_(std::move(peers)), on_loss_(std::move(on_loss)) {
    watcher_ = std::thread([this] { watch(); });
  }

  /// One that ends by an error says no farewell: the others must not wait for it.
  ~StoreProcesses() override {
    if (std::uncaught_exceptions() == 0) farewell();
    ended_ = true;
    watcher_.join();
  }

  [[nodiscard]] int rank() const override { return launch_.rank; }
  [[nodiscard]] int size() const override { return launch_.size; }
  [[nodiscard]] int size_of_node() const override { return launch_.size_of_node; }
  [[nodiscard]] int place_in_node() const override { return launch_.place_in_node; }
  [[nodiscard]] std::string launcher() const override { return launch_.launcher; }

  [[nodiscard]] double max(double value) override {
    return number_of(exchange(text_of(value), [](const std::vector<std::string>& all) {
      double largest = number_of(all.front());
      for (const std::string& text : all) largest = std::max(largest, number_of(text));
      return text_of(largest);
    }));
  }

  [[nodiscard]] std::vector<std::string> texts(const std::string& own) override {
    std::vector<std::string> all;
    if (rank() == 0) {
      for (const Peer& peer : peers_) all.push_back(received(peer));
      all.insert(all.begin(), own);
      for (const Peer& peer : peers_) {
        for (const std::string& text : all) send(peer, text);
      }
      return all;
    }
    send(peers_.front(), own);
    for (int other = 0; other < size(); ++other) all.push_back(received(peers_.front()));
    return all;
  }

  void wait_for_all() override {
    static_cast<void>(exchange({}, [](const std::vector<std::string>&) { return std::string(); }));
  }

 private:
  /// Answer that the first process makes of the texts of all.
  std::string exchange(std::string own,
                       std::string (*combined)(const std::vector<std::string>& all)) {
    if (rank() != 0) {
      send(peers_.front(), own);
      return received(peers_.front());
    }
    std::vector<std::string> all{std::move(own)};
    for (const Peer& peer : peers_) all.push_back(received(peer));
    const std::string result = combined(all);
    for (const Peer& peer : peers_) send(peer, result);
    return result;
  }

  [[noreturn]] static void lost(const Peer& peer) {
    throw ProcessLost{fmt::format("{} has ended", peer.name())};
  }

  static void send(const Peer& peer, const std::string& text) {
    if (!send_text(*peer.texts, text)) lost(peer);
  }

  static std::string received(const Peer& peer) {
    auto text = receive_text(*peer.texts);
    if (!text) lost(peer);
    return *std::move(text);
  }

  void farewell() {
    for (const Peer& peer : peers_) static_cast<void>(send_text(*peer.life, "farewell"));
  }

  /// A call into a library may wait for a process that is gone: only another thread can end that.
  void watch() {
    constexpr int kPause = 200;  // milliseconds
    std::vector<pollfd> waited;
    for (const Peer& peer : peers_) waited.push_back({peer.life->get(), POLLIN, 0});
    while (!ended_) {
      if (::poll(waited.data(), waited.size(), kPause) <= 0) continue;
      for (std::size_t i = 0; i < waited.size(); ++i) {
        if (waited[i].revents == 0) continue;
        const bool well = receive_text(*peers_[i].life).has_value();
        waited[i].fd = -1;  // poll leaves it out from now on
        if (!well && !ended_) on_loss_(fmt::format("{} has ended", peers_[i].name()));
      }
    }
  }

  Launch launch_;
  std::vector<Peer> peers_;  ///< of the first process all others, of the others the first
  std::function<void(const std::string&)> on_loss_;
  std::atomic<bool> ended_ = false;
  std::thread watcher_;
};

double seconds_left(Clock::time_point begin, double seconds) {
  return seconds - std::chrono::duration<double>(Clock::now() - begin).count();
}

/// First text of a connection: greeting, its use, rank, host.
std::string introduction(std::string_view use, int rank) {
  return fmt::format("{}\n{}\n{}\n{}", kGreeting, use, rank, own_host());
}

/// Strangers at the port are turned away.
void welcome(io::Descriptor socket, std::vector<Peer>& peers) {
  const auto text = receive_text(socket);
  if (!text) return;
  const std::vector<std::string> lines = split(*text, "\n");
  constexpr std::size_t kLines = 4;
  if (lines.size() != kLines || lines[0] != kGreeting) return;
  const auto rank = static_cast<std::size_t>(parse_number(lines[2]).value_or(0.0));
  if (rank < 1 || rank > peers.size()) return;
  Peer& peer = peers[rank - 1];
  peer.host = lines[3];
  auto& place = lines[1] == "life" ? peer.life : peer.texts;
  if (!place) place.emplace(std::move(socket));
}

std::vector<Peer> wait_for_others(const Launch& launch, double seconds) {
  const auto begin = Clock::now();
  const io::Descriptor listening = listen_on(launch.port);
  std::vector<Peer> peers(static_cast<std::size_t>(launch.size - 1));
  for (std::size_t i = 0; i < peers.size(); ++i) peers[i].rank = static_cast<int>(i) + 1;
  const auto missing = [&] {
    std::vector<int> ranks;
    for (const Peer& peer : peers) {
      if (!peer.texts || !peer.life) ranks.push_back(peer.rank);
    }
    return ranks;
  };
  while (!missing().empty()) {
    io::Descriptor socket = accept_within(listening, seconds_left(begin, seconds));
    if (!socket.valid()) {
      throw Unmeasurable{fmt::format("{} started {} processes, but ranks {} did not come to {}:{}",
                                     launch.launcher, launch.size, fmt::join(missing(), ", "),
                                     launch.host, launch.port),
                         "can every node reach that port? PLANSEARCH_PORT names another"};
    }
    welcome(std::move(socket), peers);
  }
  return peers;
}

std::vector<Peer> go_to_first(const Launch& launch, double seconds) {
  Peer first{0, launch.host, {}, {}};
  for (auto* place : {&first.texts, &first.life}) {
    io::Descriptor socket = connect_within(launch.host, launch.port, seconds);
    const std::string_view use = place == &first.life ? "life" : "texts";
    if (!socket.valid() || !send_text(socket, introduction(use, launch.rank))) {
      throw Unmeasurable{fmt::format("rank {} ({}): the first process does not answer at {}:{}",
                                     launch.rank, own_host(), launch.host, launch.port),
                         "can every node reach that port? PLANSEARCH_PORT names another"};
    }
    place->emplace(std::move(socket));
  }
  std::vector<Peer> peers;
  peers.push_back(std::move(first));
  return peers;
}

}  // namespace

std::unique_ptr<Processes> join_store(const Launch& launch,
                                      const std::function<void(const std::string&)>& on_loss,
                                      double seconds) {
  std::vector<Peer> peers =
      launch.rank == 0 ? wait_for_others(launch, seconds) : go_to_first(launch, seconds);
  return std::make_unique<StoreProcesses>(launch, std::move(peers), on_loss);
}

}  // namespace plansearch::calibrate
