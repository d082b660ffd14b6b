// SPDX-License-Identifier: Apache-2.0
// A CUDA that computes nothing and keeps time by a rule: what the CUDA back end asks of the driver,
// the runtime, cuBLASLt, NCCL and NVML, so that it can be run from end to end without a GPU.
// Arguments are as those libraries declare them. Every stream has its own clock; nothing slows
// anything down.
//
//   FAKE_GPUS       names of the devices, separated by commas (default: one H100)
//   FAKE_SLOW       this device takes twice as long
//   FAKE_THROTTLE   mask of reasons that NVML reports
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <string>
#include <vector>

namespace {

constexpr double kLaunch = 2e-6;
constexpr double kFlops = 500e12;
constexpr double kMemory = 2.5e12;
constexpr double kHost = 50e9;
constexpr double kLink = 300e9;

struct Stream {
  double now = 0.0;
};
struct Event {
  double at = 0.0;
};
struct Matrix {
  std::uint64_t rows = 1;
  std::uint64_t columns = 1;
  int batch = 1;
};
struct Product {
  int turned[2] = {0, 0};
};
struct Graph {
  double seconds = 0.0;
};

int current = 0;
std::uintptr_t next_address = std::uintptr_t{1} << 40U;
Stream default_stream;

std::vector<std::string> names() {
  const char* text = std::getenv("FAKE_GPUS");
  std::stringstream list(text == nullptr ? "NVIDIA H100 80GB HBM3" : text);
  std::vector<std::string> all;
  for (std::string name; std::getline(list, name, ',');) all.push_back(name);
  return all;
}

double slowness() {
  const char* slow = std::getenv("FAKE_SLOW");
  return slow != nullptr && std::atoi(slow) == current ? 2.0 : 1.0;
}

void spend(void* stream, double seconds) {
  auto* own = stream == nullptr ? &default_stream : static_cast<Stream*>(stream);
  own->now += (kLaunch + seconds) * slowness();
}

bool on_device(const void* address) {
  return reinterpret_cast<std::uintptr_t>(address) >= (std::uintptr_t{1} << 40U) &&
         reinterpret_cast<std::uintptr_t>(address) < (std::uintptr_t{1} << 45U);
}

void write(char* text, unsigned size, const std::string& value) {
  std::strncpy(text, value.c_str(), size - 1);
  text[size - 1] = '\0';
}

}  // namespace

extern "C" {

// --- driver
int cuDeviceGetName(char* name, int size, int device) {
  write(name, static_cast<unsigned>(size), names().at(static_cast<std::size_t>(device)));
  return 0;
}
int cuModuleLoadData(void** module, const void* /*code*/) {
  *module = &default_stream;
  return 0;
}
int cuModuleGetFunction(void** function, void* /*module*/, const char* name) {
  *function = new std::string(name);
  return 0;
}
int cuLaunchKernel(void* function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                   unsigned, void* stream, void** arguments, void**) {
  double seconds = 0.0;
  if (arguments != nullptr) {
    const bool norm = *static_cast<std::string*>(function) == "pass_norm";
    const auto count = *static_cast<unsigned long long*>(arguments[2]);
    seconds = (norm ? 8.0 : 12.0) * static_cast<double>(count) / kMemory;
  }
  spend(stream, seconds);
  return 0;
}

// --- runtime
int cudaGetDeviceCount(int* count) {
  *count = static_cast<int>(names().size());
  return 0;
}
int cudaSetDevice(int device) {
  current = device;
  return device < static_cast<int>(names().size()) ? 0 : 101;
}
int cudaDeviceGetAttribute(int* value, int which, int /*device*/) {
  *value = which == 75 ? 9 : which == 76 ? 0 : which == 16 ? 132 : which == 38 ? 50 << 20 : 0;
  return 0;
}
int cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  *total = std::size_t{80} << 30U;
  *free = std::size_t{78} << 30U;
  return 0;
}
int cudaDeviceGetPCIBusId(char* id, int size, int device) {
  write(id, static_cast<unsigned>(size), "0000:0" + std::to_string(device) + ":00.0");
  return 0;
}
int cudaDriverGetVersion(int* version) {
  *version = 13000;
  return 0;
}
int cudaRuntimeGetVersion(int* version) {
  *version = 13000;
  return 0;
}
const char* cudaGetErrorString(int) {
  return "a fake error";
}
int cudaMalloc(void** address, std::size_t bytes) {
  *address = reinterpret_cast<void*>(next_address);
  next_address += (bytes + 4095) / 4096 * 4096;
  return 0;
}
int cudaFree(void*) {
  return 0;
}
int cudaMallocHost(void** address, std::size_t bytes) {
  *address = std::malloc(bytes);
  return 0;
}
int cudaFreeHost(void* address) {
  std::free(address);
  return 0;
}
int cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, int /*kind*/, void* stream) {
  const bool inside = on_device(to) && on_device(from);
  spend(stream, static_cast<double>(bytes) * (inside ? 2.0 / kMemory : 1.0 / kHost));
  return 0;
}
int cudaStreamSynchronize(void*) {
  return 0;
}
int cudaStreamCreateWithFlags(void** stream, unsigned) {
  *stream = new Stream();
  return 0;
}
int cudaStreamDestroy(void* stream) {
  delete static_cast<Stream*>(stream);
  return 0;
}
int cudaEventCreate(void** event) {
  *event = new Event();
  return 0;
}
int cudaEventDestroy(void* event) {
  delete static_cast<Event*>(event);
  return 0;
}
int cudaEventRecord(void* event, void* stream) {
  static_cast<Event*>(event)->at =
      stream == nullptr ? default_stream.now : static_cast<Stream*>(stream)->now;
  return 0;
}
int cudaEventSynchronize(void*) {
  return 0;
}
int cudaEventElapsedTime(float* milliseconds, void* begin, void* end) {
  *milliseconds =
      static_cast<float>(1e3 * (static_cast<Event*>(end)->at - static_cast<Event*>(begin)->at));
  return 0;
}
int cudaStreamBeginCapture(void* stream, int) {
  static_cast<Stream*>(stream)->now = 0.0;
  return 0;
}
int cudaStreamEndCapture(void* stream, void** graph) {
  *graph = new Graph{static_cast<Stream*>(stream)->now * 0.5};  // half as long as one by one
  return 0;
}
int cudaGraphInstantiateWithFlags(void** made, void* graph, unsigned long long) {
  *made = new Graph(*static_cast<Graph*>(graph));
  return 0;
}
int cudaGraphLaunch(void* graph, void* stream) {
  static_cast<Stream*>(stream)->now += static_cast<Graph*>(graph)->seconds;
  return 0;
}
int cudaGraphDestroy(void* graph) {
  delete static_cast<Graph*>(graph);
  return 0;
}
int cudaGraphExecDestroy(void* graph) {
  delete static_cast<Graph*>(graph);
  return 0;
}

// --- cuBLASLt
int cublasLtCreate(void** handle) {
  *handle = &default_stream;
  return 0;
}
std::size_t cublasLtGetVersion() {
  return 130100;
}
int cublasLtMatmulDescCreate(void** product, int, int) {
  *product = new Product();
  return 0;
}
int cublasLtMatmulDescDestroy(void* product) {
  delete static_cast<Product*>(product);
  return 0;
}
int cublasLtMatmulDescSetAttribute(void* product, int which, const void* value, std::size_t) {
  if (which == 3 || which == 4) {  // TRANSA, TRANSB
    std::memcpy(&static_cast<Product*>(product)->turned[which - 3], value, sizeof(int));
  }
  return 0;
}
int cublasLtMatrixLayoutCreate(void** layout, int, std::uint64_t rows, std::uint64_t columns,
                               std::int64_t) {
  *layout = new Matrix{rows, columns, 1};
  return 0;
}
int cublasLtMatrixLayoutDestroy(void* layout) {
  delete static_cast<Matrix*>(layout);
  return 0;
}
int cublasLtMatrixLayoutSetAttribute(void* layout, int which, const void* value, std::size_t) {
  if (which == 5) std::memcpy(&static_cast<Matrix*>(layout)->batch, value, sizeof(int));
  return 0;
}
int cublasLtMatmulPreferenceCreate(void** preference) {
  *preference = &default_stream;
  return 0;
}
int cublasLtMatmulPreferenceDestroy(void*) {
  return 0;
}
int cublasLtMatmulPreferenceSetAttribute(void*, int, const void*, std::size_t) {
  return 0;
}
/// The operands must fit each other and the result, as the library insists.
int cublasLtMatmulAlgoGetHeuristic(void*, void* product, void* a, void* b, void* c, void*, void*,
                                   int, void*, int* count) {
  const auto* description = static_cast<Product*>(product);
  const auto* first = static_cast<Matrix*>(a);
  const auto* second = static_cast<Matrix*>(b);
  const auto* result = static_cast<Matrix*>(c);
  const bool turn_a = description->turned[0] != 0;
  const bool turn_b = description->turned[1] != 0;
  const bool fits =
      (turn_a ? first->rows : first->columns) == (turn_b ? second->columns : second->rows) &&
      (turn_a ? first->columns : first->rows) == result->rows &&
      (turn_b ? second->rows : second->columns) == result->columns;
  *count = fits ? 1 : 0;
  return fits ? 0 : 7;
}
int cublasLtMatmul(void*, void* product, const void*, const void*, void* a, const void*, void*,
                   const void*, const void*, void*, void*, void* c, const void*, void*, std::size_t,
                   void* stream) {
  const auto* first = static_cast<Matrix*>(a);
  const auto* result = static_cast<Matrix*>(c);
  const bool turned = static_cast<Product*>(product)->turned[0] != 0;
  const double depth = static_cast<double>(turned ? first->rows : first->columns);
  spend(stream,
        2.0 * result->batch * static_cast<double>(result->rows * result->columns) * depth / kFlops);
  return 0;
}

// --- NCCL
struct FakeId {
  char bytes[128];
};
int ncclGetVersion(int* version) {
  *version = 22809;
  return 0;
}
const char* ncclGetErrorString(int) {
  return "a fake error";
}
int ncclGetUniqueId(FakeId* id) {
  std::memset(id, 7, sizeof *id);
  return 0;
}
int ncclCommInitRank(void** comm, int ranks, FakeId id, int rank) {
  if (rank < 0 || rank >= ranks || id.bytes[127] != 7) return 5;
  *comm = new int(ranks);
  return 0;
}
int ncclCommDestroy(void* comm) {
  delete static_cast<int*>(comm);
  return 0;
}
int ncclGroupStart() {
  return 0;
}
int ncclGroupEnd() {
  return 0;
}
static int message(std::size_t count, double passes, const void* comm, void* stream) {
  const double ranks = *static_cast<const int*>(comm);
  spend(stream, 8e-6 + passes * 4.0 * static_cast<double>(count) * (ranks - 1.0) / ranks / kLink);
  return 0;
}
int ncclAllReduce(const void*, void*, std::size_t count, int, int, void* comm, void* stream) {
  return message(count, 2.0, comm, stream);
}
int ncclAllGather(const void*, void*, std::size_t part, int, void* comm, void* stream) {
  return message(part * static_cast<std::size_t>(*static_cast<int*>(comm)), 1.0, comm, stream);
}
int ncclReduceScatter(const void*, void*, std::size_t part, int, int, void* comm, void* stream) {
  return message(part * static_cast<std::size_t>(*static_cast<int*>(comm)), 1.0, comm, stream);
}
int ncclBroadcast(const void*, void*, std::size_t count, int, int, void* comm, void* stream) {
  return message(count, 1.0, comm, stream);
}
int ncclSend(const void*, std::size_t count, int, int, void* comm, void* stream) {
  return message(count, 1.0, comm, stream);
}
int ncclRecv(void*, std::size_t, int, int, void*, void*) {
  return 0;
}

// --- cuDNN: every graph is taken, and takes as long as a hundred launches
static void* attention_stream = nullptr;
std::size_t cudnnGetVersion() {
  return 91900;
}
const char* cudnnGetErrorString(int) {
  return "a fake error";
}
int cudnnCreate(void** handle) {
  *handle = &attention_stream;
  return 0;
}
int cudnnDestroy(void*) {
  return 0;
}
int cudnnSetStream(void*, void* stream) {
  attention_stream = stream;
  return 0;
}
int cudnnBackendCreateDescriptor(int type, void** descriptor) {
  *descriptor = new int(type);
  return 0;
}
int cudnnBackendDestroyDescriptor(void* descriptor) {
  delete static_cast<int*>(descriptor);
  return 0;
}
int cudnnBackendSetAttribute(void*, int, int, std::int64_t count, const void* values) {
  return count > 0 && values != nullptr ? 0 : 2000;
}
/// One engine; a workspace of a megabyte.
int cudnnBackendGetAttribute(void*, int /*name*/, int type, std::int64_t, std::int64_t* count,
                             void* values) {
  constexpr int kInteger = 3;
  *count = 1;
  if (type == kInteger) *static_cast<std::int64_t*>(values) = 1 << 20;
  return 0;
}
int cudnnBackendFinalize(void*) {
  return 0;
}
int cudnnBackendExecute(void*, void*, void*) {
  spend(attention_stream, 100.0 * kLaunch);
  return 0;
}

// --- NVML
int nvmlInit_v2() {
  return 0;
}
int nvmlShutdown() {
  return 0;
}
int nvmlSystemGetDriverVersion(char* text, unsigned size) {
  write(text, size, "580.00 (fake)");
  return 0;
}
int nvmlDeviceGetHandleByPciBusId_v2(const char* id, void** device) {
  *device = reinterpret_cast<void*>(static_cast<std::uintptr_t>(id[6] - '0' + 1));
  return 0;
}
int nvmlDeviceGetName(void* device, char* text, unsigned size) {
  write(text, size, names().at(reinterpret_cast<std::uintptr_t>(device) - 1));
  return 0;
}
int nvmlDeviceGetUUID(void* device, char* text, unsigned size) {
  write(text, size, "GPU-fake-" + std::to_string(reinterpret_cast<std::uintptr_t>(device) - 1));
  return 0;
}
int nvmlDeviceGetClockInfo(void*, int kind, unsigned* value) {
  *value = kind == 1 ? 1755 : 2619;
  return 0;
}
int nvmlDeviceGetMaxClockInfo(void*, int, unsigned* value) {
  *value = 1980;
  return 0;
}
int nvmlDeviceGetPowerUsage(void*, unsigned* value) {
  *value = 650000;
  return 0;
}
int nvmlDeviceGetEnforcedPowerLimit(void*, unsigned* value) {
  *value = 700000;
  return 0;
}
int nvmlDeviceGetTemperature(void*, int, unsigned* value) {
  *value = 55;
  return 0;
}
int nvmlDeviceGetCurrentClocksThrottleReasons(void*, unsigned long long* mask) {
  const char* text = std::getenv("FAKE_THROTTLE");
  *mask = text == nullptr ? 0 : std::strtoull(text, nullptr, 0);
  return 0;
}
int nvmlDeviceGetTopologyCommonAncestor(void*, void*, int* level) {
  *level = 50;
  return 0;
}
int nvmlDeviceGetNvLinkState(void*, unsigned link, int* active) {
  *active = link < 18 ? 1 : 0;
  return link < 18 ? 0 : 2;
}

}  // extern "C"
