// DecodeCompressed, by zlib where the library was built with it.

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>

#include "abi/call.h"
#include "abi/string_tensor.h"
#include "operators/requirements.h"

#ifdef ONNX_SPARSE_ZLIB
#include <zlib.h>
#endif

namespace onnx_sparse {

#ifdef ONNX_SPARSE_ZLIB
namespace {

// How many bytes are read or decompressed at a time; also zlib counts in 32 bits.
constexpr size_t kPiece = size_t{1} << 15;

// How many bytes the strings of a run may have together: a few bytes can stand for a thousand times as many.
size_t most_bytes() {
  constexpr unsigned long long kMebibytes = 1024;
  const char* wanted = std::getenv("ONNX_SPARSE_DECOMPRESSED_MIB");
  const unsigned long long given = wanted == nullptr ? 0 : std::strtoull(wanted, nullptr, 10);
  return static_cast<size_t>(std::min(given == 0 ? kMebibytes : given, 1ULL << 40)) << 20;
}

// Bytes that are appended in pieces, whose memory is kept for the next string.
class Content {
 public:
  void clear() { size_ = 0; }
  size_t size() const { return size_; }

  // Memory for the next bytes, and how many of them there are.
  char* end() {
    if (size_ == pieces_.size() * kPiece) pieces_.push_back(std::unique_ptr<char[]>(new char[kPiece]));
    return pieces_[size_ / kPiece].get() + size_ % kPiece;
  }
  size_t left() const { return kPiece - size_ % kPiece; }
  void append(size_t count) { size_ += count; }

  void copy(char* to) const {
    for (size_t at = 0; at < size_; at += kPiece) {
      std::memcpy(to + at, pieces_[at / kPiece].get(), std::min(kPiece, size_ - at));
    }
  }

 private:
  std::vector<std::unique_ptr<char[]>> pieces_;
  size_t size_ = 0;
};

// A stream of zlib, which reads the format that it is made for.
class Stream {
 public:
  explicit Stream(bool gzip) {
    if (inflateInit2(&stream_, gzip ? MAX_WBITS + 16 : MAX_WBITS) != Z_OK) throw std::bad_alloc();
  }
  ~Stream() { inflateEnd(&stream_); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  // Appends what a text that is not empty stands for, and takes what has been read off it, until there are more bytes
  // than the most. Returns zlib's status.
  int read(std::string_view& text, Content& content, size_t most) {
    int status = inflateReset(&stream_);
    while (status == Z_OK && content.size() <= most) {
      const size_t given = std::min(text.size(), kPiece);
      stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
      stream_.avail_in = static_cast<uInt>(given);
      stream_.next_out = reinterpret_cast<Bytef*>(content.end());
      const size_t left = content.left();
      stream_.avail_out = static_cast<uInt>(left);
      status = inflate(&stream_, Z_NO_FLUSH);
      content.append(left - stream_.avail_out);
      text.remove_prefix(given - stream_.avail_in);
    }
    return status;
  }

 private:
  z_stream stream_{};
};

}  // namespace

void decode_compressed(const Call& call) {
  const Tensor& input = call.input(0);
  const Strings texts(call, input);
  const std::vector<int64_t> shape(input.dims, input.dims + input.rank);
  StringWriter output(call, call.allocate_value(0, shape, size_of(ORT_STRING), {"input", input}));
  const bool gzip = call.choice(0) == 1;
  const std::string format = gzip ? "GZIP" : "ZLIB";
  Stream stream(gzip);
  Content content;
  const size_t most = most_bytes();
  size_t total = 0;
  for (size_t i = 0; i < texts.size(); ++i) {
    content.clear();
    for (std::string_view text = texts[i]; !text.empty();) {
      const int status = stream.read(text, content, most - total);
      if (status == Z_MEM_ERROR) throw std::bad_alloc();
      if (content.size() > most - total) {
        throw InvalidArgument{"the strings decompress to more than " + std::to_string(most) + " bytes, up to " +
                              element_name("input", input, static_cast<int64_t>(i)) +
                              "; ONNX_SPARSE_DECOMPRESSED_MIB allows more"};
      }
      if (status != Z_STREAM_END) {
        const std::string name = element_name("input", input, static_cast<int64_t>(i));
        throw InvalidArgument{name + (status == Z_BUF_ERROR ? " ends inside its data of " : " has damaged data of ") +
                              format};
      }
      if (!gzip) break;
    }
    total += content.size();
    char* to = output.resize(i, content.size());
    if (to != nullptr) content.copy(to);
  }
  output.finish();
}

#else

void decode_compressed(const Call&) {
  throw InvalidArgument{
      "this native library was built without zlib; install zlib's headers (zlib1g-dev, zlib-devel, zlib) and build "
      "onnx_sparse again"};
}

#endif

}  // namespace onnx_sparse
