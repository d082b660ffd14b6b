// SPDX-License-Identifier: Apache-2.0
#include "measure/calibrate/processes/processes.hpp"

#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <thread>

#include "measure/calibrate/backend.hpp"

namespace plansearch::calibrate {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::uint32_t kLongest = 64U << 20U;

void set(int socket, int level, int option, int value) {
  static_cast<void>(::setsockopt(socket, level, option, &value, sizeof value));
}

bool send_all(int socket, const char* bytes, std::size_t count) {
  while (count > 0) {
    const ssize_t sent = ::send(socket, bytes, count, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return false;
    bytes += sent;
    count -= static_cast<std::size_t>(sent);
  }
  return true;
}

bool receive_all(int socket, char* bytes, std::size_t count) {
  while (count > 0) {
    const ssize_t got = ::recv(socket, bytes, count, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    bytes += got;
    count -= static_cast<std::size_t>(got);
  }
  return true;
}

int connect_once(const std::string& host, int port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found) != 0) return -1;
  int socket = -1;
  for (const addrinfo* address = found; address != nullptr; address = address->ai_next) {
    socket = ::socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (socket < 0) continue;
    if (::connect(socket, address->ai_addr, address->ai_addrlen) == 0) break;
    ::close(socket);
    socket = -1;
  }
  ::freeaddrinfo(found);
  return socket;
}

/// Below zero: errno says why.
int listen_at(int family, int port) {
  constexpr int kWaiting = 4096;
  const int socket = ::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (socket < 0) return socket;
  sockaddr_storage address{};
  socklen_t size = sizeof(sockaddr_in);
  const std::uint16_t number = htons(static_cast<std::uint16_t>(port));
  address.ss_family = static_cast<sa_family_t>(family);
  if (family == AF_INET6) {
    reinterpret_cast<sockaddr_in6*>(&address)->sin6_port = number;
    size = sizeof(sockaddr_in6);
    set(socket, IPPROTO_IPV6, IPV6_V6ONLY, 0);
  } else {
    reinterpret_cast<sockaddr_in*>(&address)->sin_port = number;
  }
  set(socket, SOL_SOCKET, SO_REUSEADDR, 1);
  if (::bind(socket, reinterpret_cast<const sockaddr*>(&address), size) == 0 &&
      ::listen(socket, kWaiting) == 0) {
    return socket;
  }
  const int reason = errno;
  ::close(socket);
  errno = reason;
  return -1;
}

}  // namespace

io::Descriptor listen_on(int port) {
  // IPv6 takes IPv4 too; a machine may have only the latter.
  int socket = listen_at(AF_INET6, port);
  if (socket < 0) socket = listen_at(AF_INET, port);
  if (socket < 0) {
    throw Unmeasurable{fmt::format("port {}: {}", port, std::strerror(errno)),
                       "name a free one with PLANSEARCH_PORT, the same for all processes"};
  }
  return io::Descriptor(socket);
}

io::Descriptor accept_within(const io::Descriptor& listening, double seconds) {
  pollfd waited{listening.get(), POLLIN, 0};
  constexpr double kMilli = 1e3;
  if (::poll(&waited, 1, static_cast<int>(kMilli * std::max(0.0, seconds))) <= 0) {
    return io::Descriptor(-1);
  }
  io::Descriptor socket(::accept4(listening.get(), nullptr, nullptr, SOCK_CLOEXEC));
  if (socket.valid()) set(socket.get(), IPPROTO_TCP, TCP_NODELAY, 1);
  return socket;
}

io::Descriptor connect_within(const std::string& host, int port, double seconds) {
  constexpr auto kPause = std::chrono::milliseconds(50);
  const auto begin = Clock::now();
  for (;;) {
    io::Descriptor socket(connect_once(host, port));
    if (socket.valid()) {
      set(socket.get(), IPPROTO_TCP, TCP_NODELAY, 1);
      return socket;
    }
    if (std::chrono::duration<double>(Clock::now() - begin).count() > seconds) return socket;
    std::this_thread::sleep_for(kPause);
  }
}

bool send_text(const io::Descriptor& socket, const std::string& text) {
  std::array<char, sizeof(std::uint32_t)> head{};
  const std::uint32_t size = htonl(static_cast<std::uint32_t>(text.size()));
  std::memcpy(head.data(), &size, sizeof size);
  return send_all(socket.get(), head.data(), head.size()) &&
         send_all(socket.get(), text.data(), text.size());
}

std::optional<std::string> receive_text(const io::Descriptor& socket) {
  std::uint32_t size = 0;
  if (!receive_all(socket.get(), reinterpret_cast<char*>(&size), sizeof size)) return std::nullopt;
  size = ntohl(size);
  if (size > kLongest) return std::nullopt;
  std::string text(size, '\0');
  if (!receive_all(socket.get(), text.data(), text.size())) return std::nullopt;
  return text;
}

}  // namespace plansearch::calibrate
