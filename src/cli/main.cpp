// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <malloc.h>
#include <pthread.h>
#include <sys/resource.h>

#include <csignal>
#include <cstdlib>
#include <exception>
#include <new>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <variant>

#include "base/names.hpp"
#include "cli/commands.hpp"
#include "cli/output.hpp"
#include "cli/parse.hpp"
#include "cli/progress.hpp"
#include "plansearch/error.hpp"

namespace plansearch::cli {
namespace {

constexpr std::string_view kOutOfMemory =
    "error: out of memory\nhint: fewer --threads, a smaller space, or more memory\n";

/// Where no exception can be caught any more: one in a destructor, in the report of another, or in
/// functions of the C++ library that promise none and allocate (directory_iterator does).
[[noreturn]] void end_at_once() {
  try {
    if (const auto error = std::current_exception()) std::rethrow_exception(error);
    write_to_standard_error("error: ended by the C++ library, as it does without memory\n");
  } catch (const std::bad_alloc&) {
    write_to_standard_error(kOutOfMemory);
  } catch (...) {
    write_to_standard_error("error: internal: an error while reporting an error\n");
  }
  std::_Exit(kExitInternalError);
}

int run(int argc, char** argv) {
  Options options;
  try {
    auto parsed = parse_command_line(argc, argv);
    if (const Help* help = std::get_if<Help>(&parsed)) {
      Output(options).write(help->text);
      return kExitOk;
    }
    options = std::get<Options>(std::move(parsed));
    return run_command(options);
  } catch (const Stopped& stopped) {
    print_error(fmt::format("error: {} before there was an answer", to_text(stopped.reason)),
                options);
    return kExitInterrupted;
  } catch (const InputError& error) {
    print_error(error.formatted(), options);
    return kExitBadInput;
  } catch (const std::bad_alloc&) {
    write_to_standard_error(kOutOfMemory);
    return kExitInternalError;
  } catch (const std::system_error& error) {
    print_error(
        fmt::format("error: the system refuses: {}\nhint: fewer --threads, or higher limits",
                    printable(error.what())),
        options);
    return kExitInternalError;
  } catch (const std::exception& error) {
    print_error(
        fmt::format("error: internal: {}\nhint: this is a bug in plansearch, please report it",
                    printable(error.what())),
        options);
    return kExitInternalError;
  }
}

/// Where `ulimit -s` leaves less than the deepest calls take, the program runs on a thread: threads
/// get the stack that they ask for.
int run_with_stack(int argc, char** argv) {
  constexpr rlim_t kEnough = 1U << 20U;
  rlimit limit{};
  if (::getrlimit(RLIMIT_STACK, &limit) != 0 || limit.rlim_cur >= kEnough) return run(argc, argv);
  pthread_attr_t attributes;
  ::pthread_attr_init(&attributes);
  ::pthread_attr_setstacksize(&attributes, kEnough);
  ::pthread_setattr_default_np(&attributes);
  int code = kExitInternalError;
  std::thread program([&] { code = run(argc, argv); });
  sigset_t all;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_BLOCK, &all, nullptr);  // signals are for those who read and write
  program.join();
  return code;
}

/// Simulations allocate and free the same megabytes again and again: they stay with the program.
void keep_freed_memory() {
#ifdef __GLIBC__
  constexpr int kLargestInHeap = 32 << 20;  // as much as it takes
  constexpr int kKept = 256 << 20;
  ::mallopt(M_MMAP_THRESHOLD, kLargestInHeap);
  ::mallopt(M_TRIM_THRESHOLD, kKept);
#endif
}

}  // namespace
}  // namespace plansearch::cli

int main(int argc, char** argv) {
  std::set_terminate(plansearch::cli::end_at_once);
  plansearch::cli::keep_freed_memory();
  plansearch::cli::keep_standard_descriptors();
  plansearch::cli::install_signal_handlers();
  return plansearch::cli::run_with_stack(argc, argv);
}
