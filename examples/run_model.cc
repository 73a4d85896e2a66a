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

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <sstream>
#include <string>
#include <type_traits>
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
  OrtElementType type = ORT_UNDEFINED;
  std::vector<int64_t> dims;
  std::vector<char> data;
};

[[noreturn]] void refuse(const std::string& argument, const std::string& reason) {
  std::cerr << argument << ": " << reason << "\n";
  std::exit(2);
}

template <class T>
bool read(const std::string& item, T* result) {
  if constexpr (std::is_floating_point_v<T>) {  // a stream does not read nan and inf
    char* end = nullptr;
    const double value = std::strtod(item.c_str(), &end);
    *result = static_cast<T>(value);
    return !item.empty() && *end == '\0' && std::isinf(*result) == std::isinf(value);
  } else {
    std::conditional_t<sizeof(T) == 1, int, T> value{};  // a byte is a number, not a character
    std::istringstream stream(item);
    stream >> value;
    *result = static_cast<T>(value);
    const bool is_negative = std::is_unsigned_v<T> && item.find('-') != std::string::npos;
    return !stream.fail() && !is_negative && stream.peek() == EOF && static_cast<decltype(value)>(*result) == value;
  }
}

template <class T>
void append(NamedTensor& tensor, const std::string& text, const std::string& item) {
  T value{};
  if (!read(item, &value)) refuse(text, "'" + item + "' is not a value of its type");
  const char* bytes = reinterpret_cast<const char*>(&value);
  tensor.data.insert(tensor.data.end(), bytes, bytes + sizeof(T));
}

struct Reader {
  const char* name;
  OrtElementType type;
  void (*append)(NamedTensor&, const std::string&, const std::string&);
};

const Reader readers[] = {
    {"float", ORT_FLOAT, append<float>},      {"double", ORT_DOUBLE, append<double>},
    {"int8", ORT_INT8, append<int8_t>},       {"int16", ORT_INT16, append<int16_t>},
    {"int32", ORT_INT32, append<int32_t>},    {"int64", ORT_INT64, append<int64_t>},
    {"uint8", ORT_UINT8, append<uint8_t>},    {"uint16", ORT_UINT16, append<uint16_t>},
    {"uint32", ORT_UINT32, append<uint32_t>}, {"uint64", ORT_UINT64, append<uint64_t>},
    {"bool", ORT_BOOL, append<bool>},
};

// Reads "name:type:dims=values": "data:float:3,2=1,2,3,4,5,6", "num_segments:int64:=4".
NamedTensor parse(const std::string& text) {
  NamedTensor tensor;
  std::istringstream stream(text);
  std::string type, dims, item;
  if (!std::getline(stream, tensor.name, ':') || !std::getline(stream, type, ':') ||
      text.find('=') == std::string::npos) {
    refuse(text, "expected NAME:TYPE:DIMS=VALUES");
  }
  std::getline(stream, dims, '=');
  const Reader* reader = nullptr;
  for (const Reader& each : readers) {
    if (type == each.name) reader = &each;
  }
  if (reader == nullptr) refuse(text, "this example reads float, double, int8 to uint64 and bool, not '" + type + "'");
  NamedTensor sizes;
  std::istringstream listed(dims);
  size_t count = 1, found = 0;
  while (std::getline(listed, item, ',')) {
    append<uint32_t>(sizes, text, item);
    tensor.dims.push_back(std::stoll(item));
    count *= static_cast<size_t>(tensor.dims.back());
  }
  for (; std::getline(stream, item, ','); ++found) reader->append(tensor, text, item);
  if (found != count) refuse(text, std::to_string(found) + " values; the shape has " + std::to_string(count));
  tensor.type = reader->type;
  return tensor;
}

OrtValue* to_value(const OrtMemoryInfo* memory, NamedTensor& tensor) {
  OrtValue* value = nullptr;
  check(api->CreateTensorWithDataAsOrtValue(memory, tensor.data.data(), tensor.data.size(), tensor.dims.data(),
                                            tensor.dims.size(), tensor.type, &value));
  return value;
}

// The value of a half float, whose exponent has some bits, and whose fraction has the others.
double half(uint16_t bits, int fraction_bits) {
  const int bias = (1 << (14 - fraction_bits)) - 1, exponent = (bits & 0x7fff) >> fraction_bits;
  const int fraction = bits & ((1 << fraction_bits) - 1), one = 1 << fraction_bits;
  const double sign = bits >> 15 ? -1 : 1;
  if (exponent == 2 * bias + 1) return fraction ? std::nan("") : sign * HUGE_VAL;
  if (exponent == 0) return sign * std::ldexp(fraction, 1 - bias - fraction_bits);
  return sign * std::ldexp(one + fraction, exponent - bias - fraction_bits);
}

void print_strings(OrtValue* value, size_t count) {
  size_t size = 0;
  check(api->GetStringTensorDataLength(value, &size));
  std::string bytes(size, '\0');
  std::vector<size_t> begins(count + 1, size);
  check(api->GetStringTensorContent(value, bytes.data(), size, begins.data(), count));
  for (size_t i = 0; i < count; ++i) std::cout << " '" << bytes.substr(begins[i], begins[i + 1] - begins[i]) << "'";
}

void print_number(OrtElementType type, const void* data, int64_t i) {
  std::cout << ' ';
  switch (type) {
    case ORT_FLOAT:
      std::cout << static_cast<const float*>(data)[i];
      break;
    case ORT_DOUBLE:
      std::cout << static_cast<const double*>(data)[i];
      break;
    case ORT_INT8:
      std::cout << +static_cast<const int8_t*>(data)[i];
      break;
    case ORT_INT16:
      std::cout << static_cast<const int16_t*>(data)[i];
      break;
    case ORT_INT32:
      std::cout << static_cast<const int32_t*>(data)[i];
      break;
    case ORT_INT64:
      std::cout << static_cast<const int64_t*>(data)[i];
      break;
    case ORT_UINT8:
      std::cout << +static_cast<const uint8_t*>(data)[i];
      break;
    case ORT_UINT16:
      std::cout << static_cast<const uint16_t*>(data)[i];
      break;
    case ORT_UINT32:
      std::cout << static_cast<const uint32_t*>(data)[i];
      break;
    case ORT_UINT64:
      std::cout << static_cast<const uint64_t*>(data)[i];
      break;
    case ORT_BOOL:
      std::cout << static_cast<const bool*>(data)[i];
      break;
    case ORT_FLOAT16:
      std::cout << half(static_cast<const uint16_t*>(data)[i], 10);
      break;
    case ORT_BFLOAT16:
      std::cout << half(static_cast<const uint16_t*>(data)[i], 7);
      break;
    default:
      std::cout << "(type " << type << ")";
  }
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
  int64_t size = 1;
  std::cout << name << " [";
  for (size_t axis = 0; axis < rank; ++axis) {
    std::cout << (axis ? "," : "") << dims[axis];
    size *= dims[axis];
  }
  std::cout << "]";
  if (type == ORT_STRING) {
    print_strings(value, static_cast<size_t>(size));
  } else {
    void* data = nullptr;
    check(api->GetTensorMutableData(value, &data));
    for (int64_t i = 0; i < size; ++i) print_number(type, data, i);
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
    inputs.push_back(to_value(memory, tensor));
  }
  std::vector<OrtValue*> outputs(output_names.size(), nullptr);
  check(api->Run(session, nullptr, input_names.data(), inputs.data(), inputs.size(), output_names.data(),
                 output_names.size(), outputs.data()));
  for (size_t i = 0; i < outputs.size(); ++i) print(output_names[i], outputs[i]);
  return 0;  // the end of the process frees all that was created
}
