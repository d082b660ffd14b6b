// SPDX-License-Identifier: Apache-2.0
// Messages of bytes over TCP.
#pragma once

#include <optional>
#include <string>

#include "io/document/file.hpp"

namespace plansearch::calibrate {

/// Waits on every address of this machine; throws Unmeasurable where the port is taken.
[[nodiscard]] io::Descriptor listen_on(int port);
/// Not valid after so many seconds without anybody.
[[nodiscard]] io::Descriptor accept_within(const io::Descriptor& listening, double seconds);
/// Tries for so many seconds; not valid: nobody answered.
[[nodiscard]] io::Descriptor connect_within(const std::string& host, int port, double seconds);

/// False: the other side is gone.
[[nodiscard]] bool send_text(const io::Descriptor& socket, const std::string& text);
/// Nothing: the other side is gone. At most 64 MiB.
[[nodiscard]] std::optional<std::string> receive_text(const io::Descriptor& socket);

}  // namespace plansearch::calibrate
