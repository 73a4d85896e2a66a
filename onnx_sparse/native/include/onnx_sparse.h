/* What the library onnx_sparse_native exports, for C99 and C++. ONNX Runtime's own headers may be included as well.

   A program that links to the library registers its operators with

       OrtStatus* status = RegisterCustomOps(session_options, OrtGetApiBase());

   A program that does not calls OrtApi::RegisterCustomOpsLibrary_V2(session_options, path_of_the_library). */

#ifndef ONNX_SPARSE_H
#define ONNX_SPARSE_H

#if !defined(ONNX_SPARSE_API)
#if defined(_WIN32)
#define ONNX_SPARSE_API __declspec(dllimport)
#else
#define ONNX_SPARSE_API
#endif
#endif

#if defined(_WIN32)
#define ONNX_SPARSE_CALL __stdcall
#else
#define ONNX_SPARSE_CALL
#endif

#if defined(__cplusplus)
#define ONNX_SPARSE_NOEXCEPT noexcept
extern "C" {
#else
#define ONNX_SPARSE_NOEXCEPT
#endif

/* ONNX Runtime's: a program gets them from OrtGetApiBase() and OrtApi::CreateSessionOptions. */
struct OrtApiBase;
struct OrtSessionOptions;
struct OrtStatus;

/* Registers the operators of the domain onnx_sparse with session options, once or more often. Needs ONNX Runtime 1.18
   or later. Returns null, or an error that the caller releases with OrtApi::ReleaseStatus. */
ONNX_SPARSE_API struct OrtStatus* ONNX_SPARSE_CALL
RegisterCustomOps(struct OrtSessionOptions* options, const struct OrtApiBase* base) ONNX_SPARSE_NOEXCEPT;

/* The version of the library: "0.1.0". The text lives as long as the program. */
ONNX_SPARSE_API const char* onnx_sparse_version(void) ONNX_SPARSE_NOEXCEPT;

/* JSON: the instruction set of the inner loops, how many rows ahead rows of some sizes in bytes are prefetched, and
   whether large memory is asked for in huge pages. The text lives as long as the program; null where there is no memory
   for it. */
ONNX_SPARSE_API const char* OnnxSparseSettings(void) ONNX_SPARSE_NOEXCEPT;

#if defined(__cplusplus)
}
#endif

#endif
