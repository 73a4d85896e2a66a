// The slice of ONNX Runtime's C ABI that the kernels use, declared by ourselves.
//
// ONNX Runtime's wheels ship no headers, and the ABI is stable: OrtApi is a table of function pointers that only grows
// at its end. The functions between those used here are counted, not declared. Version 18 of the table (ONNX Runtime
// 1.18) has all but the last, which is asked for where it is used; asking for the lowest version that is enough lets
// one library run on all later ones.

#pragma once

#include <cstddef>
#include <cstdint>

#if defined(_WIN32)
#define ORT_CALL __stdcall
#else
#define ORT_CALL
#endif

extern "C" {

struct OrtAllocator;
struct OrtCustomOpDomain;
struct OrtEnv;
struct OrtKernelContext;
struct OrtKernelInfo;
struct OrtMemoryInfo;
struct OrtRunOptions;
struct OrtSession;
struct OrtSessionOptions;
struct OrtShapeInferContext;
struct OrtStatus;
struct OrtTensorTypeAndShapeInfo;
struct OrtValue;

enum OrtErrorCode : int { ORT_OK = 0, ORT_FAIL = 1, ORT_INVALID_ARGUMENT = 2, ORT_RUNTIME_EXCEPTION = 6 };

// The numbers are those of ONNX's TensorProto.DataType.
enum OrtElementType : int {
  ORT_UNDEFINED = 0,
  ORT_FLOAT = 1,
  ORT_UINT8 = 2,
  ORT_INT8 = 3,
  ORT_UINT16 = 4,
  ORT_INT16 = 5,
  ORT_INT32 = 6,
  ORT_INT64 = 7,
  ORT_STRING = 8,
  ORT_BOOL = 9,
  ORT_FLOAT16 = 10,
  ORT_DOUBLE = 11,
  ORT_UINT32 = 12,
  ORT_UINT64 = 13,
  ORT_BFLOAT16 = 16,
};

enum OrtInputOutputCharacteristic : int { ORT_REQUIRED = 0, ORT_OPTIONAL = 1 };

enum OrtMemoryType : int { ORT_MEMORY_DEFAULT = 0 };

// ONNX Runtime's table of functions. The number in the name of an unused member is that of its first slot.
struct OrtApi {
  OrtStatus*(ORT_CALL* CreateStatus)(OrtErrorCode code, const char* message);
  OrtErrorCode(ORT_CALL* GetErrorCode)(const OrtStatus* status);
  const char*(ORT_CALL* GetErrorMessage)(const OrtStatus* status);
  OrtStatus*(ORT_CALL* CreateEnv)(int log_level, const char* log_id, OrtEnv** out);
  void* unused_4[3];
  OrtStatus*(ORT_CALL* CreateSession)(const OrtEnv* env, const char* path, const OrtSessionOptions* options,
                                      OrtSession** out);
  void* unused_8[1];
  OrtStatus*(ORT_CALL* Run)(OrtSession* session, const OrtRunOptions* options, const char* const* input_names,
                            const OrtValue* const* inputs, size_t input_count, const char* const* output_names,
                            size_t output_count, OrtValue** outputs);
  OrtStatus*(ORT_CALL* CreateSessionOptions)(OrtSessionOptions** options);
  void* unused_11[15];
  OrtStatus*(ORT_CALL* CreateCustomOpDomain)(const char* domain, OrtCustomOpDomain** out);
  OrtStatus*(ORT_CALL* CustomOpDomain_Add)(OrtCustomOpDomain* domain, const struct OrtCustomOp* op);
  OrtStatus*(ORT_CALL* AddCustomOpDomain)(OrtSessionOptions* options, OrtCustomOpDomain* domain);
  void* unused_29[20];
  OrtStatus*(ORT_CALL* CreateTensorWithDataAsOrtValue)(const OrtMemoryInfo* info, void* data, size_t bytes,
                                                       const int64_t* shape, size_t rank, OrtElementType type,
                                                       OrtValue** out);
  void* unused_50[1];
  OrtStatus*(ORT_CALL* GetTensorMutableData)(OrtValue* value, void** out);
  void* unused_52[1];
  OrtStatus*(ORT_CALL* GetStringTensorDataLength)(const OrtValue* value, size_t* out);
  OrtStatus*(ORT_CALL* GetStringTensorContent)(const OrtValue* value, void* characters, size_t size, size_t* offsets,
                                               size_t count);
  void* unused_55[5];
  OrtStatus*(ORT_CALL* GetTensorElementType)(const OrtTensorTypeAndShapeInfo* info, OrtElementType* out);
  OrtStatus*(ORT_CALL* GetDimensionsCount)(const OrtTensorTypeAndShapeInfo* info, size_t* out);
  OrtStatus*(ORT_CALL* GetDimensions)(const OrtTensorTypeAndShapeInfo* info, int64_t* dims, size_t rank);
  void* unused_63[2];
  OrtStatus*(ORT_CALL* GetTensorTypeAndShape)(const OrtValue* value, OrtTensorTypeAndShapeInfo** out);
  void* unused_66[3];
  OrtStatus*(ORT_CALL* CreateCpuMemoryInfo)(int allocator_type, int memory_type, OrtMemoryInfo** out);
  void* unused_70[17];
  OrtStatus*(ORT_CALL* KernelInfoGetAttribute_string)(const OrtKernelInfo* info, const char* name, char* out,
                                                      size_t* size);
  OrtStatus*(ORT_CALL* KernelContext_GetInputCount)(const OrtKernelContext* context, size_t* out);
  OrtStatus*(ORT_CALL* KernelContext_GetOutputCount)(const OrtKernelContext* context, size_t* out);
  OrtStatus*(ORT_CALL* KernelContext_GetInput)(const OrtKernelContext* context, size_t index, const OrtValue** out);
  OrtStatus*(ORT_CALL* KernelContext_GetOutput)(OrtKernelContext* context, size_t index, const int64_t* dims,
                                                size_t rank, OrtValue** out);
  void* unused_92[1];
  void(ORT_CALL* ReleaseStatus)(OrtStatus* status);
  void* unused_94[5];
  void(ORT_CALL* ReleaseTensorTypeAndShapeInfo)(OrtTensorTypeAndShapeInfo* info);
  void* unused_100[1];
  void(ORT_CALL* ReleaseCustomOpDomain)(OrtCustomOpDomain* domain);
  void* unused_102[28];
  OrtStatus*(ORT_CALL* AddSessionConfigEntry)(OrtSessionOptions* options, const char* key, const char* value);
  void* unused_131[101];
  OrtStatus*(ORT_CALL* KernelInfo_GetInputName)(const OrtKernelInfo* info, size_t index, char* out, size_t* size);
  void* unused_233[4];
  OrtStatus*(ORT_CALL* HasSessionConfigEntry)(const OrtSessionOptions* options, const char* key, int* out);
  OrtStatus*(ORT_CALL* GetSessionConfigEntry)(const OrtSessionOptions* options, const char* key, char* out,
                                              size_t* size);
  void* unused_239[10];
  OrtStatus*(ORT_CALL* KernelInfoGetConstantInput_tensor)(const OrtKernelInfo* info, size_t index, int* is_constant,
                                                          const OrtValue** out);
  void* unused_250[2];
  OrtStatus*(ORT_CALL* GetResizedStringTensorElementBuffer)(OrtValue* value, size_t index, size_t bytes, char** out);
  void* unused_253[21];
  OrtStatus*(ORT_CALL* KernelContext_ParallelFor)(const OrtKernelContext* context, void (*task)(void*, size_t),
                                                  size_t total, size_t batches, void* user_data);
  void* unused_275[139];
  // From version 24 on: the dimensions where the tensor has them.
  OrtStatus*(ORT_CALL* GetTensorElementTypeAndShapeDataReference)(const OrtValue* value, OrtElementType* type,
                                                                  const int64_t** dims, size_t* rank);
};

struct OrtApiBase {
  const OrtApi*(ORT_CALL* GetApi)(uint32_t version);
  const char*(ORT_CALL* GetVersionString)();
};

// The description of a custom operator for ONNX Runtime.
struct OrtCustomOp {
  uint32_t version;
  void*(ORT_CALL* CreateKernel)(const OrtCustomOp* op, const OrtApi* api, const OrtKernelInfo* info);
  const char*(ORT_CALL* GetName)(const OrtCustomOp* op);
  const char*(ORT_CALL* GetExecutionProviderType)(const OrtCustomOp* op);
  OrtElementType(ORT_CALL* GetInputType)(const OrtCustomOp* op, size_t index);
  size_t(ORT_CALL* GetInputTypeCount)(const OrtCustomOp* op);
  OrtElementType(ORT_CALL* GetOutputType)(const OrtCustomOp* op, size_t index);
  size_t(ORT_CALL* GetOutputTypeCount)(const OrtCustomOp* op);
  void(ORT_CALL* KernelCompute)(void* kernel, OrtKernelContext* context);
  void(ORT_CALL* KernelDestroy)(void* kernel);
  OrtInputOutputCharacteristic(ORT_CALL* GetInputCharacteristic)(const OrtCustomOp* op, size_t index);
  OrtInputOutputCharacteristic(ORT_CALL* GetOutputCharacteristic)(const OrtCustomOp* op, size_t index);
  OrtMemoryType(ORT_CALL* GetInputMemoryType)(const OrtCustomOp* op, size_t index);
  int(ORT_CALL* GetVariadicInputMinArity)(const OrtCustomOp* op);
  int(ORT_CALL* GetVariadicInputHomogeneity)(const OrtCustomOp* op);
  int(ORT_CALL* GetVariadicOutputMinArity)(const OrtCustomOp* op);
  int(ORT_CALL* GetVariadicOutputHomogeneity)(const OrtCustomOp* op);
  OrtStatus*(ORT_CALL* CreateKernelV2)(const OrtCustomOp* op, const OrtApi* api, const OrtKernelInfo* info, void** out);
  OrtStatus*(ORT_CALL* KernelComputeV2)(void* kernel, OrtKernelContext* context);
  OrtStatus*(ORT_CALL* InferOutputShapeFn)(const OrtCustomOp* op, OrtShapeInferContext* context);
  int(ORT_CALL* GetStartVersion)(const OrtCustomOp* op);
  int(ORT_CALL* GetEndVersion)(const OrtCustomOp* op);
  size_t(ORT_CALL* GetMayInplace)(int** inputs, int** outputs);
  void(ORT_CALL* ReleaseMayInplace)(int* inputs, int* outputs);
  size_t(ORT_CALL* GetAliasMap)(int** inputs, int** outputs);
  void(ORT_CALL* ReleaseAliasMap)(int* inputs, int* outputs);
};

}  // extern "C"

namespace onnx_sparse {

constexpr uint32_t kOrtApiVersion = 18;
// The version that has GetTensorElementTypeAndShapeDataReference.
constexpr uint32_t kShapeReferenceVersion = 24;

#define ORT_SLOT(function, slot) \
  static_assert(offsetof(OrtApi, function) == (slot) * sizeof(void*), #function " stands in slot " #slot)
ORT_SLOT(CreateStatus, 0);
ORT_SLOT(GetErrorCode, 1);
ORT_SLOT(GetErrorMessage, 2);
ORT_SLOT(CreateEnv, 3);
ORT_SLOT(CreateSession, 7);
ORT_SLOT(Run, 9);
ORT_SLOT(CreateSessionOptions, 10);
ORT_SLOT(CreateCustomOpDomain, 26);
ORT_SLOT(CustomOpDomain_Add, 27);
ORT_SLOT(AddCustomOpDomain, 28);
ORT_SLOT(CreateTensorWithDataAsOrtValue, 49);
ORT_SLOT(GetTensorMutableData, 51);
ORT_SLOT(GetStringTensorDataLength, 53);
ORT_SLOT(GetStringTensorContent, 54);
ORT_SLOT(GetTensorElementType, 60);
ORT_SLOT(GetDimensionsCount, 61);
ORT_SLOT(GetDimensions, 62);
ORT_SLOT(GetTensorTypeAndShape, 65);
ORT_SLOT(CreateCpuMemoryInfo, 69);
ORT_SLOT(KernelInfoGetAttribute_string, 87);
ORT_SLOT(KernelContext_GetInputCount, 88);
ORT_SLOT(KernelContext_GetOutputCount, 89);
ORT_SLOT(KernelContext_GetInput, 90);
ORT_SLOT(KernelContext_GetOutput, 91);
ORT_SLOT(ReleaseStatus, 93);
ORT_SLOT(ReleaseTensorTypeAndShapeInfo, 99);
ORT_SLOT(ReleaseCustomOpDomain, 101);
ORT_SLOT(AddSessionConfigEntry, 130);
ORT_SLOT(KernelInfo_GetInputName, 232);
ORT_SLOT(HasSessionConfigEntry, 237);
ORT_SLOT(GetSessionConfigEntry, 238);
ORT_SLOT(KernelInfoGetConstantInput_tensor, 249);
ORT_SLOT(GetResizedStringTensorElementBuffer, 252);
ORT_SLOT(KernelContext_ParallelFor, 274);
ORT_SLOT(GetTensorElementTypeAndShapeDataReference, 414);
#undef ORT_SLOT

#define ORT_MEMBER(member, position) \
  static_assert(offsetof(OrtCustomOp, member) == (position) * sizeof(void*), #member " is member " #position)
ORT_MEMBER(CreateKernel, 1);
ORT_MEMBER(KernelDestroy, 9);
ORT_MEMBER(CreateKernelV2, 17);
ORT_MEMBER(KernelComputeV2, 18);
ORT_MEMBER(InferOutputShapeFn, 19);
ORT_MEMBER(ReleaseAliasMap, 25);
#undef ORT_MEMBER

}  // namespace onnx_sparse
