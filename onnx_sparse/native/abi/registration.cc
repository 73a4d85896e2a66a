// RegisterCustomOps, which registers every operator with ONNX Runtime.
//
// An operator is registered once for each binding of the type variables of its outputs. From this, ONNX Runtime infers
// the outputs' element types in every version and for inputs of unknown rank; its inference function for custom
// operators can do neither. Type variables that only inputs have are left open and checked when the kernel runs, so
// that the message is the one that every backend gives.

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <limits>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <vector>

#include "abi/call.h"
#include "abi/exported.h"
#include "abi/operators.h"
#include "abi/unloading.h"
#include "loops/huge_pages.h"
#include "operators/keyed_tables.h"

namespace onnx_sparse {
namespace {

struct Entry {
  const Declaration& declaration;
  Compute compute;
};

// Every operator of the domain.
const Entry kOperators[] = {
#define ONNX_SPARSE_ENTRY(op, kernel) {declarations::k##op, kernel},
    ONNX_SPARSE_OPERATORS(ONNX_SPARSE_ENTRY)
#undef ONNX_SPARSE_ENTRY
};

// One node's kernel.
struct Kernel {
  Runtime runtime;
  const Entry& entry;
  Choices choices;
  std::shared_ptr<const void> prepared;
};

struct KnownRuntime {
  Runtime runtime;
  OrtCustomOpDomain* domain;
};

struct KnownRuntimes {
  std::mutex mutex;
  std::vector<KnownRuntime> known;
};

// Never destroyed: kernels outlive the end of the program.
KnownRuntimes& runtimes() {
  static auto& all = *new KnownRuntimes();
  return all;
}

Runtime runtime_of(const OrtApi& api) {
  auto& [mutex, known] = runtimes();
  const std::lock_guard<std::mutex> lock(mutex);
  for (const KnownRuntime& one : known) {
    if (&one.runtime.api == &api) return one.runtime;
  }
  return {api, false};
}

// Turns whatever is thrown into a status; nothing may be thrown across the ABI.
template <class Body>
OrtStatus* guarded(const OrtApi& api, const Declaration& op, const Body& body) noexcept {
  const auto failed = [&](OrtErrorCode code, const char* message, std::string_view attempt = "") {
    try {
      return api.CreateStatus(code, std::string(op.name).append(": ").append(attempt).append(message).c_str());
    } catch (...) {
      std::array<char, 100> text{};
      std::snprintf(text.data(), text.size(), "%s: out of memory", op.name.data());
      return api.CreateStatus(code, text.data());
    }
  };
  try {
    body();
    return nullptr;
  } catch (const InvalidArgument& error) {
    return failed(ORT_INVALID_ARGUMENT, error.message.c_str());
  } catch (const OrtFailure& failure) {
    OrtStatus* status = failure.status.get();
    return failed(api.GetErrorCode(status), api.GetErrorMessage(status), failure.attempt);
  } catch (const std::bad_alloc&) {
    return failed(ORT_INVALID_ARGUMENT, "out of memory");
  } catch (const std::exception& error) {
    return failed(ORT_RUNTIME_EXCEPTION, error.what());
  } catch (...) {
    return failed(ORT_RUNTIME_EXCEPTION, "an unknown exception");
  }
}

// What ONNX Runtime says when it is asked for the text of an attribute; nothing where it would give the text.
std::string refusal(const OrtApi& api, const OrtKernelInfo* info, const std::string& name, size_t* size) {
  const Status status(api.KernelInfoGetAttribute_string(info, name.c_str(), nullptr, size), {&api});
  return status == nullptr ? "" : api.GetErrorMessage(status.get());
}

// Whether a node lacks an attribute. ONNX Runtime has no code for that: it says of the attribute what it says of one
// that no node has.
bool is_absent(const OrtApi& api, const OrtKernelInfo* info, const std::string& name, const std::string& said) {
  const std::string nowhere = "onnx_sparse.nowhere";
  size_t size = 0;
  std::string absent = refusal(api, info, nowhere, &size);
  const size_t at = absent.find(nowhere);
  if (at != std::string::npos) absent.replace(at, nowhere.size(), name);
  return said == absent;
}

int read_attribute(const OrtApi& api, const OrtKernelInfo* info, const Attribute& declared) {
  const std::string name(declared.name);
  size_t size = 0;  // with the terminating zero
  const std::string refused = refusal(api, info, name, &size);
  if (!refused.empty()) {
    if (is_absent(api, info, name, refused)) return check_attribute(declared, nullptr);
    throw InvalidArgument{"attribute " + name + " is not a string; expected one of " +
                          std::string(declared.choices_text)};
  }
  std::string value(size, '\0');
  check_status(api, api.KernelInfoGetAttribute_string(info, name.c_str(), value.data(), &size));
  value.resize(size - 1);
  return check_attribute(declared, &value);
}

// An input of a node, if it is a constant; else a null tensor. Its dimensions are written to `dims` as in `tensor_of`.
Tensor constant_input(const Runtime& runtime, const OrtKernelInfo* info, size_t input, std::vector<int64_t>* dims) {
  int is_constant = 0;
  const OrtValue* value = nullptr;
  const Status failed(runtime.api.KernelInfoGetConstantInput_tensor(info, input, &is_constant, &value), {&runtime.api});
  if (failed != nullptr || is_constant == 0 || value == nullptr) return {};
  return tensor_of(runtime, value, dims);
}

// A table that is a constant is read for as long as the session lives.
void keep_in_huge_pages(const Tensor& constant) {
  if (!constant) return;
  const int64_t* const dims_end = constant.dims + constant.rank;
  if (constant.type == ORT_STRING || std::find(constant.dims, dims_end, 0) != dims_end) return;
  prefer_huge_pages(constant.data, static_cast<size_t>(constant.size()) * size_of(constant.type));
}

// The name of a node's input, which may be computed; empty where it has none.
std::string input_name(const OrtApi& api, const OrtKernelInfo* info, size_t input) {
  size_t size = 0;  // with the terminating zero
  const Status unknown(api.KernelInfo_GetInputName(info, input, nullptr, &size), {&api});
  if (unknown != nullptr || size <= 1) return "";
  std::string name(size, '\0');
  check_status(api, api.KernelInfo_GetInputName(info, input, name.data(), &size));
  name.resize(size - 1);
  return name;
}

using Constants = std::array<Tensor, declarations::kMostInputs>;

// What a kernel makes of its constants once; null for kernels that make nothing.
std::shared_ptr<const void> prepare(const Runtime& runtime, const OrtKernelInfo* info, const Entry& entry,
                                    const Constants& constants) {
  const bool text = entry.compute == find_strings;
  if (entry.compute != find_keys && !text) return nullptr;
  check_inputs(entry.declaration, constants.data());
  const size_t index = text ? 2 : 1;
  const std::string name = input_name(runtime.api, info, index);
  if (!constants[index] && !name.empty()) return nullptr;
  return prepare_keys(constants.data(), text, name);
}

// An operator with its outputs' type variables bound.
struct BoundOp : OrtCustomOp {
  explicit BoundOp(const Entry& e);

  OrtElementType type_of(std::string_view type, OrtElementType fixed) const {
    if (fixed != ORT_UNDEFINED) return fixed;
    for (size_t i = 0; i < entry.declaration.types.size(); ++i) {
      if (entry.declaration.types[i].name == type) return types[i];
    }
    return ORT_UNDEFINED;
  }

  const Entry& entry;
  // By type variable; undefined where it is left open.
  std::array<OrtElementType, declarations::kMostTypeVariables> types{};
};

const BoundOp& bound(const OrtCustomOp* op) { return *static_cast<const BoundOp*>(op); }

BoundOp::BoundOp(const Entry& e) : OrtCustomOp(), entry(e) {
  version = kOrtApiVersion;
  GetName = [](const OrtCustomOp* op) { return bound(op).entry.declaration.name.data(); };
  GetExecutionProviderType = [](const OrtCustomOp*) { return "CPUExecutionProvider"; };
  GetInputTypeCount = [](const OrtCustomOp* op) { return bound(op).entry.declaration.inputs.size(); };
  GetInputType = [](const OrtCustomOp* op, size_t index) {
    const Input& declared = bound(op).entry.declaration.inputs[index];
    return bound(op).type_of(declared.type, declared.fixed_type);
  };
  GetInputCharacteristic = [](const OrtCustomOp* op, size_t index) {
    return bound(op).entry.declaration.inputs[index].optional() ? ORT_OPTIONAL : ORT_REQUIRED;
  };
  GetInputMemoryType = [](const OrtCustomOp*, size_t) { return ORT_MEMORY_DEFAULT; };
  GetOutputTypeCount = [](const OrtCustomOp* op) { return bound(op).entry.declaration.outputs.size(); };
  GetOutputType = [](const OrtCustomOp* op, size_t index) {
    const Output& declared = bound(op).entry.declaration.outputs[index];
    return bound(op).type_of(declared.type, declared.fixed_type);
  };
  GetOutputCharacteristic = [](const OrtCustomOp* op, size_t index) {
    return bound(op).entry.declaration.outputs[index].optional ? ORT_OPTIONAL : ORT_REQUIRED;
  };
  const auto none = [](const OrtCustomOp*) { return 0; };
  GetVariadicInputMinArity = GetVariadicInputHomogeneity = none;
  GetVariadicOutputMinArity = GetVariadicOutputHomogeneity = none;
  GetStartVersion = [](const OrtCustomOp*) { return 1; };
  GetEndVersion = [](const OrtCustomOp*) { return std::numeric_limits<int>::max(); };
  CreateKernelV2 = [](const OrtCustomOp* op, const OrtApi* api, const OrtKernelInfo* info, void** out) noexcept {
    const Entry& made = bound(op).entry;
    return guarded(*api, made.declaration, [&] {
      Choices choices{};
      for (size_t i = 0; i < made.declaration.attributes.size(); ++i) {
        choices[i] = read_attribute(*api, info, made.declaration.attributes[i]);
      }
      const Runtime runtime = runtime_of(*api);
      Constants constants;
      std::array<std::vector<int64_t>, declarations::kMostInputs> dims;
      for (size_t i = 0; i < made.declaration.inputs.size(); ++i) {
        constants[i] = constant_input(runtime, info, i, &dims[i]);
        keep_in_huge_pages(constants[i]);
      }
      *out = new Kernel{runtime, made, choices, prepare(runtime, info, made, constants)};
    });
  };
  KernelComputeV2 = [](void* kernel, OrtKernelContext* context) noexcept {
    const auto& run = *static_cast<const Kernel*>(kernel);
    return guarded(run.runtime.api, run.entry.declaration, [&] {
      const Call call(run.runtime, context, run.entry.declaration, run.choices, run.prepared.get());
      run.entry.compute(call);
      call.finish();
    });
  };
  KernelDestroy = [](void* kernel) { delete static_cast<Kernel*>(kernel); };
}

using BoundOps = std::vector<std::unique_ptr<BoundOp>>;

void bind_from(size_t variable, BoundOp& op, BoundOps& all) {
  const List<TypeVariable>& variables = op.entry.declaration.types;
  if (variable == variables.size()) {
    all.push_back(std::make_unique<BoundOp>(op));
  } else if (!variables[variable].in_outputs) {
    bind_from(variable + 1, op, all);
  } else {
    for (const OrtElementType type : variables[variable].types) {
      op.types[variable] = type;
      bind_from(variable + 1, op, all);
    }
  }
}

BoundOps make_all() {
  BoundOps all;
  for (const Entry& entry : kOperators) {
    BoundOp op(entry);
    bind_from(0, op, all);
  }
  return all;
}

// The domain for one ONNX Runtime (a process may hold several). Sessions point into it, so it is never freed, and all
// session options share it.
OrtCustomOpDomain* domain_of(const OrtApi& api, bool has_shape_references) {
  static const auto& ops = *new BoundOps(make_all());
  auto& [mutex, known] = runtimes();
  const std::lock_guard<std::mutex> lock(mutex);
  for (const KnownRuntime& one : known) {
    if (&one.runtime.api == &api) return one.domain;
  }
  prevent_unloading();
  known.reserve(known.size() + 1);
  OrtCustomOpDomain* created = nullptr;
  check_status(api, api.CreateCustomOpDomain("onnx_sparse", &created));
  std::unique_ptr<OrtCustomOpDomain, void(ORT_CALL*)(OrtCustomOpDomain*)> domain(created, api.ReleaseCustomOpDomain);
  for (const auto& op : ops) check_status(api, api.CustomOpDomain_Add(created, op.get()));
  known.push_back({{api, has_shape_references}, domain.release()});
  return created;
}

// The entry of session options that holds their backend. ONNX Runtime refuses options with two libraries of one domain,
// so the second registration of this one does nothing.
constexpr const char* kBackendEntry = "onnx_sparse.backend";
constexpr const char* kBackend = "native";

// An entry of session options; empty where there is none.
std::string config_entry(const OrtApi& api, const OrtSessionOptions* options, const char* key) {
  int is_there = 0;
  check_status(api, api.HasSessionConfigEntry(options, key, &is_there));
  if (is_there == 0) return "";
  size_t size = 0;  // with the terminating zero
  check_status(api, api.GetSessionConfigEntry(options, key, nullptr, &size));
  std::string value(size, '\0');
  check_status(api, api.GetSessionConfigEntry(options, key, value.data(), &size));
  value.resize(size - 1);
  return value;
}

// Whether the version is that of shape references or a later one. ONNX Runtime writes to stderr when it is asked for a
// table that it does not have.
bool has_shape_references(const OrtApiBase& base) {
  const std::string version = base.GetVersionString();
  const size_t minor = version.find('.') + 1;
  return version.rfind("1.", 0) != 0 || std::strtoul(version.c_str() + minor, nullptr, 10) >= kShapeReferenceVersion;
}

}  // namespace
}  // namespace onnx_sparse

ONNX_SPARSE_EXPORT OrtStatus* ORT_CALL RegisterCustomOps(OrtSessionOptions* options, const OrtApiBase* base) noexcept {
  using namespace onnx_sparse;
  const OrtApi* api = base->GetApi(kOrtApiVersion);
  if (api == nullptr) {
    // Every version has the first slot, and a message needs no other.
    const OrtApi* oldest = base->GetApi(1);
    return oldest->CreateStatus(ORT_FAIL, "onnx_sparse needs ONNX Runtime 1.18 or later");
  }
  try {
    if (config_entry(*api, options, kBackendEntry) == kBackend) return nullptr;
    check_status(*api, api->AddCustomOpDomain(options, domain_of(*api, has_shape_references(*base))));
    return api->AddSessionConfigEntry(options, kBackendEntry, kBackend);
  } catch (OrtFailure& failure) {
    return failure.status.release();
  } catch (...) {
    return api->CreateStatus(ORT_FAIL, "onnx_sparse: out of memory");
  }
}
