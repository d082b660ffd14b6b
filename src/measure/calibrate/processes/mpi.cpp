// SPDX-License-Identifier: Apache-2.0
#include "measure/calibrate/processes/processes.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <exception>
#include <map>

#include "base/units.hpp"
#include "measure/calibrate/backend.hpp"

namespace plansearch::calibrate {
namespace {

/// Handles of Open MPI are addresses.
using Handle = void*;

int number_of(const char* variable) {
  const char* text = std::getenv(variable);
  return text == nullptr ? 0 : static_cast<int>(parse_number(text).value_or(0.0));
}

}  // namespace

struct MpiProcesses::Library {
  SharedLibrary file{"libmpi.so.40",
                     {"libmpi.so.40"},
                     {"mpirun started this process, but libmpi.so.40 is not found",
                      "install Open MPI 4 or 5, or run without mpirun"}};
  int (*init)(int*, char***) = file["MPI_Init"];
  int (*finalize)() = file["MPI_Finalize"];
  int (*comm_rank)(Handle, int*) = file["MPI_Comm_rank"];
  int (*comm_size)(Handle, int*) = file["MPI_Comm_size"];
  int (*comm_split)(Handle, int, int, Handle*) = file["MPI_Comm_split"];
  int (*version)(char*, int*) = file["MPI_Get_library_version"];
  int (*barrier)(Handle) = file["MPI_Barrier"];
  int (*broadcast)(void*, int, Handle, int, Handle) = file["MPI_Bcast"];
  int (*all_reduce)(const void*, void*, int, Handle, Handle, Handle) = file["MPI_Allreduce"];
  int (*all_gather)(const void*, int, Handle, void*, int, Handle, Handle) = file["MPI_Allgather"];
  int (*reduce_scatter)(const void*, void*, int, Handle, Handle,
                        Handle) = file["MPI_Reduce_scatter_block"];
  int (*all_to_all)(const void*, int, Handle, void*, int, Handle, Handle) = file["MPI_Alltoall"];
  int (*send_receive)(const void*, int, Handle, int, int, void*, int, Handle, int, int, Handle,
                      void*) = file["MPI_Sendrecv"];
  Handle world = file["ompi_mpi_comm_world"];
  Handle one_float = file["ompi_mpi_float"];
  Handle one_double = file["ompi_mpi_double"];
  Handle one_byte = file["ompi_mpi_byte"];
  Handle sum = file["ompi_mpi_op_sum"];
  Handle largest = file["ompi_mpi_op_max"];
  std::map<MessageGroup, Handle> groups{};
  int rank = 0;
  int size = 1;

  Handle group_of(const MessageGroup& group) {
    const auto [found, fresh] = groups.emplace(group, nullptr);
    if (fresh) comm_split(world, place_of(rank, group).group, rank, &found->second);
    return found->second;
  }
};

std::unique_ptr<MpiProcesses> MpiProcesses::join() {
  if (number_of("OMPI_COMM_WORLD_SIZE") < 2) return nullptr;
  return std::unique_ptr<MpiProcesses>(new MpiProcesses(std::make_unique<Library>()));
}

MpiProcesses::MpiProcesses(std::unique_ptr<Library> library) : library_(std::move(library)) {
  library_->init(nullptr, nullptr);
  library_->comm_rank(library_->world, &library_->rank);
  library_->comm_size(library_->world, &library_->size);
}

/// A rank that ends by an error must not wait for the others: mpirun ends them.
MpiProcesses::~MpiProcesses() {
  if (std::uncaught_exceptions() == 0) library_->finalize();
}

int MpiProcesses::rank() const {
  return library_->rank;
}

int MpiProcesses::size() const {
  return library_->size;
}

int MpiProcesses::size_of_node() const {
  const int local = number_of("OMPI_COMM_WORLD_LOCAL_SIZE");
  return local > 0 ? local : size();
}

int MpiProcesses::place_in_node() const {
  return number_of("OMPI_COMM_WORLD_LOCAL_RANK");
}

std::string MpiProcesses::launcher() const {
  std::array<char, 4096> text{};
  int length = 0;
  library_->version(text.data(), &length);
  const std::string whole(text.data());
  return whole.substr(0, whole.find(','));
}

double MpiProcesses::max(double value) {
  double result = value;
  library_->all_reduce(&value, &result, 1, library_->one_double, library_->largest,
                       library_->world);
  return result;
}

/// All as long as the longest; how long each is goes in front.
std::vector<std::string> MpiProcesses::texts(const std::string& own) {
  const auto count = static_cast<std::size_t>(size());
  const auto length = static_cast<double>(own.size());
  std::vector<double> lengths(count);
  library_->all_gather(&length, 1, library_->one_double, lengths.data(), 1, library_->one_double,
                       library_->world);
  const auto longest = static_cast<std::size_t>(*std::ranges::max_element(lengths));
  std::string padded = own;
  padded.resize(longest);
  std::string all(longest * count, '\0');
  library_->all_gather(padded.data(), static_cast<int>(longest), library_->one_byte, all.data(),
                       static_cast<int>(longest), library_->one_byte, library_->world);
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < count; ++i) {
    texts.push_back(all.substr(i * longest, static_cast<std::size_t>(lengths[i])));
  }
  return texts;
}

void MpiProcesses::wait_for_all() {
  library_->barrier(library_->world);
}

bool MpiProcesses::communicate(const std::string& kind, const MessageGroup& group, float* from,
                               float* to, double bytes) {
  Library& mpi = *library_;
  const Handle comm = mpi.group_of(group);
  const GroupPlace own = place_of(rank(), group);
  if (group.alone && own.group != 0) return true;
  const auto count = static_cast<int>(bytes / sizeof(float));
  const int part = count / group.ranks;
  if (kind == "all_reduce") {
    mpi.all_reduce(from, to, count, mpi.one_float, mpi.sum, comm);
  } else if (kind == "all_gather") {
    mpi.all_gather(from, part, mpi.one_float, to, part, mpi.one_float, comm);
  } else if (kind == "reduce_scatter") {
    mpi.reduce_scatter(from, to, part, mpi.one_float, mpi.sum, comm);
  } else if (kind == "all_to_all") {
    mpi.all_to_all(from, part, mpi.one_float, to, part, mpi.one_float, comm);
  } else if (kind == "broadcast") {
    mpi.broadcast(from, count, mpi.one_float, 0, comm);
  } else if (kind == "send_recv") {
    mpi.send_receive(from, count, mpi.one_float, (own.place + 1) % group.ranks, 0, to, count,
                     mpi.one_float, (own.place + group.ranks - 1) % group.ranks, 0, comm, nullptr);
  } else {
    return false;
  }
  return true;
}

}  // namespace plansearch::calibrate
