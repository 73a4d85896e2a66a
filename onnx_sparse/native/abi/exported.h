// What the library shows of itself to the programs that load it.

#pragma once

#if defined(_WIN32)
#define ONNX_SPARSE_API __declspec(dllexport)
#else
#define ONNX_SPARSE_API __attribute__((visibility("default")))
#endif
#define ONNX_SPARSE_EXPORT extern "C" ONNX_SPARSE_API

#include "onnx_sparse.h"
