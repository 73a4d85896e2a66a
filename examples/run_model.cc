// Runs a model with nodes of the domain onnx_sparse in ONNX Runtime, without Python. It loads three files at run time:
// ONNX Runtime, the library of native kernels, and the model.
//
//   g++ -std=c++17 -I onnx_sparse/native/include examples/run_model.cc -ldl -o run_model
//   ./run_model libonnxruntime.so libonnx_sparse_native.so model.onnx
//       data:float:3,2=1,2,3,4,5,6 ids:int64:3=0,0,2 -- y                              (on one line)
//
// Next to this file, CMakeLists.txt builds it against the archive of the native library, which has the second file.
// pip puts the first under site-packages/onnxruntime/capi/; `python -c "import onnx_sparse;
// print(onnx_sparse.get_library_path())"` prints the path of the second. A program that has ONNX Runtime's own headers
// calls OrtApi::RegisterCustomOpsLibrary_V2 instead of the dlopen below; this one uses our own declarations.

#include <dlfcn.h>

#include <cstdlib>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

#include "onnx_sparse/ort_abi.h"

namespace {

const OrtApi* api = nullptr;

void check(OrtStatus* status) {
  if (status == nullptr) return;
  std::cerr << api->GetErrorMessage(status) << "\n";
  api->ReleaseStatus(status);
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

struct NamedTensor {
  std::string name;
  OrtElementType type;
  std::vector<int64_t> dims;
  std::vector<float> floats;
  std::vector<int64_t> integers;
};

// Reads "name:type:dims=values": "data:float:3,2=1,2,3,4,5,6", "num_segments:int64:=4".
NamedTensor parse(const std::string& text) {
  NamedTensor tensor;
  std::istringstream stream(text);
  std::string type, dims, item;
  std::getline(stream, tensor.name, ':');
  std::getline(stream, type, ':');
  std::getline(stream, dims, '=');
  tensor.type = type == "int64" ? ORT_INT64 : ORT_FLOAT;
  std::istringstream sizes(dims);
  while (std::getline(sizes, item, ',')) tensor.dims.push_back(std::stoll(item));
  while (std::getline(stream, item, ',')) {
    if (tensor.type == ORT_INT64) {
      tensor.integers.push_back(std::stoll(item));
    } else {
      tensor.floats.push_back(std::stof(item));
    }
  }
  return tensor;
}

template <class T>
OrtValue* to_value(const OrtMemoryInfo* memory, std::vector<T>& data, const NamedTensor& tensor) {
  OrtValue* value = nullptr;
  check(api->CreateTensorWithDataAsOrtValue(memory, data.data(), data.size() * sizeof(T), tensor.dims.data(),
                                            tensor.dims.size(), tensor.type, &value));
  return value;
}

void print(const std::string& name, OrtValue* value) {
  OrtTensorTypeAndShapeInfo* info = nullptr;
  check(api->GetTensorTypeAndShape(value, &info));
  OrtElementType type;
  size_t rank = 0;
  check(api->GetTensorElementType(info, &type));
  check(api->GetDimensionsCount(info, &rank));
  std::vector<int64_t> dims(rank);
  check(api->GetDimensions(info, dims.data(), rank));
  api->ReleaseTensorTypeAndShapeInfo(info);
  void* data = nullptr;
  check(api->GetTensorMutableData(value, &data));
  int64_t size = 1;
  std::cout << name << " [";
  for (size_t axis = 0; axis < rank; ++axis) {
    std::cout << (axis ? "," : "") << dims[axis];
    size *= dims[axis];
  }
  std::cout << "]";
  for (int64_t i = 0; i < size; ++i) {
    if (type == ORT_FLOAT) std::cout << ' ' << static_cast<float*>(data)[i];
    if (type == ORT_INT64) std::cout << ' ' << static_cast<int64_t*>(data)[i];
    if (type == ORT_BOOL) std::cout << ' ' << static_cast<bool*>(data)[i];
  }
  std::cout << "\n";
}

}  // namespace

int main(int count, char** arguments) {
  if (count < 5) {
    std::cerr << "usage: run_model ONNXRUNTIME ONNX_SPARSE MODEL NAME:TYPE:DIMS=VALUES ... -- OUTPUT ...\n";
    return 2;
  }
  using GetApiBase = const OrtApiBase* (*)();
  using RegisterCustomOps = OrtStatus* (*)(OrtSessionOptions*, const OrtApiBase*);
  const OrtApiBase* base = symbol<GetApiBase>(arguments[1], "OrtGetApiBase")();
  api = base->GetApi(onnx_sparse::kOrtApiVersion);
  OrtEnv* environment = nullptr;
  OrtSessionOptions* options = nullptr;
  OrtSession* session = nullptr;
  OrtMemoryInfo* memory = nullptr;
  check(api->CreateEnv(3, "run_model", &environment));
  check(api->CreateSessionOptions(&options));
  check(symbol<RegisterCustomOps>(arguments[2], "RegisterCustomOps")(options, base));
  check(api->CreateSession(environment, arguments[3], options, &session));
  check(api->CreateCpuMemoryInfo(0, 0, &memory));

  std::vector<NamedTensor> tensors;
  std::vector<const char*> output_names;
  bool outputs_follow = false;
  for (int i = 4; i < count; ++i) {
    if (std::string(arguments[i]) == "--") {
      outputs_follow = true;
    } else if (outputs_follow) {
      output_names.push_back(arguments[i]);
    } else {
      tensors.push_back(parse(arguments[i]));
    }
  }
  std::vector<const char*> input_names;
  std::vector<const OrtValue*> inputs;
  for (NamedTensor& tensor : tensors) {
    input_names.push_back(tensor.name.c_str());
    inputs.push_back(tensor.type == ORT_INT64 ? to_value(memory, tensor.integers, tensor)
                                              : to_value(memory, tensor.floats, tensor));
  }
  std::vector<OrtValue*> outputs(output_names.size(), nullptr);
  check(api->Run(session, nullptr, input_names.data(), inputs.data(), inputs.size(), output_names.data(),
                 output_names.size(), outputs.data()));
  for (size_t i = 0; i < outputs.size(); ++i) print(output_names[i], outputs[i]);
  return 0;  // the end of the process frees all that was created
}
