// How long a call takes from C++ that looks up ten rows. small_calls.py compiles it and says what it is given:
//
//   small_calls ONNXRUNTIME ONNX_SPARSE ROUNDS CALLS MODEL ...
//
// Each model has the inputs emb_table [100, 16], indices [10], segment_ids [10] and num_segments, and a float output
// `output` of at most 1,600 elements, in memory that is given. The models take turns of so many calls. A line of the
// output has the nanoseconds of a call, one number for each model, in a round.

#include <dlfcn.h>

#include <chrono>
#include <cstdlib>
#include <iostream>
#include <vector>

#include "onnx_sparse/ort_abi.h"

namespace {

const OrtApi* api = nullptr;

void check(OrtStatus* status) {
  if (status == nullptr) return;
  std::cerr << api->GetErrorMessage(status) << "\n";
  std::exit(1);
}

template <class Function>
Function symbol(const char* library, const char* name) {
  void* handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
  void* found = handle == nullptr ? nullptr : dlsym(handle, name);
  if (found == nullptr) {
    std::cerr << dlerror() << "\n";
    std::exit(1);
  }
  return reinterpret_cast<Function>(found);
}

template <class T>
OrtValue* value_of(const OrtMemoryInfo* memory, std::vector<T>& data, OrtElementType type, std::vector<int64_t> dims) {
  OrtValue* value = nullptr;
  size_t bytes = sizeof(T);
  for (const int64_t dim : dims) bytes *= static_cast<size_t>(dim);
  check(api->CreateTensorWithDataAsOrtValue(memory, data.data(), bytes, dims.data(), dims.size(), type, &value));
  return value;
}

struct Model {
  OrtSession* session;
  OrtValue* output;
};

}  // namespace

int main(int count, char** arguments) {
  if (count < 6) return 2;
  using GetApiBase = const OrtApiBase* (*)();
  using RegisterCustomOps = OrtStatus* (*)(OrtSessionOptions*, const OrtApiBase*);
  const OrtApiBase* base = symbol<GetApiBase>(arguments[1], "OrtGetApiBase")();
  api = base->GetApi(onnx_sparse::kOrtApiVersion);
  OrtEnv* environment = nullptr;
  OrtSessionOptions* options = nullptr;
  OrtMemoryInfo* memory = nullptr;
  check(api->CreateEnv(3, "small_calls", &environment));
  check(api->CreateSessionOptions(&options));
  check(symbol<RegisterCustomOps>(arguments[2], "RegisterCustomOps")(options, base));
  check(api->CreateCpuMemoryInfo(0, 0, &memory));
  const int rounds = std::atoi(arguments[3]);
  const int calls = std::atoi(arguments[4]);

  std::vector<float> table(1600, 1.5f);
  std::vector<int64_t> indices{3, 14, 15, 92, 65, 35, 89, 79, 32, 38};
  std::vector<int64_t> ids{0, 0, 0, 1, 1, 1, 3, 3, 4, 4};
  std::vector<int64_t> segments{5};
  std::vector<float> result(1600);
  const char* const input_names[] = {"emb_table", "indices", "segment_ids", "num_segments"};
  const char* const output_names[] = {"output"};
  const OrtValue* const inputs[] = {value_of(memory, table, ORT_FLOAT, {100, 16}),
                                    value_of(memory, indices, ORT_INT64, {10}), value_of(memory, ids, ORT_INT64, {10}),
                                    value_of(memory, segments, ORT_INT64, {})};
  const auto run = [&](Model& model) {
    check(api->Run(model.session, nullptr, input_names, inputs, 4, output_names, 1, &model.output));
  };
  std::vector<Model> models;
  for (int i = 5; i < count; ++i) {
    // The first is a lookup, the others an Identity of the table.
    models.push_back({nullptr, value_of(memory, result, ORT_FLOAT, {i == 5 ? 5 : 100, 16})});
    check(api->CreateSession(environment, arguments[i], options, &models.back().session));
    run(models.back());
  }
  for (int round = 0; round < rounds; ++round) {
    for (Model& model : models) {
      const auto start = std::chrono::steady_clock::now();
      for (int call = 0; call < calls; ++call) run(model);
      const std::chrono::duration<double, std::nano> taken = std::chrono::steady_clock::now() - start;
      std::cout << taken.count() / calls << ' ';
    }
    std::cout << '\n';
  }
  return 0;
}
