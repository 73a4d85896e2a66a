#!/usr/bin/env bash
# Builds the native kernels so that faults show, and runs tests on them; fails on the first finding.
#
#   onnx_sparse/native/sanitize.sh address|thread [--build | --quick | --hostile COUNT | pytest arguments]
#
# address: AddressSanitizer and UndefinedBehaviorSanitizer, on the contract suite and the tests of the library, which
#          also counts what it allocates and its steps, and ends the process where a task allocates.
# thread:  ThreadSanitizer, on the tests that use several threads.
# --hostile: so many hostile indexes, JSON bodies, messages and regular expressions instead, of a seed of each day.
# Without arguments it takes a quarter of an hour, with --quick a few minutes. The package must be installed
# (pip install -e .), but for --build, which runs no test. The exit status is 77 where the compiler or the system cannot
# run programs with these sanitizers.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
kind=${1:?address or thread}
shift
build=$root/build/sanitize-$kind

case $kind in
  address) sanitizers=address,undefined runtime=libasan.so watch=ON ;;
  thread) sanitizers=thread runtime=libtsan.so watch=OFF ;;
  *) echo "unknown: $kind" >&2; exit 2 ;;
esac

probe=$(mktemp)
trap 'rm -f "$probe"' EXIT
if ! echo 'int main() {}' | "${CXX:-c++}" -fsanitize=$sanitizers -x c++ -o "$probe" - || ! "$probe"
then
  echo "programs with the $kind sanitizer cannot be built or run here" >&2
  exit 77
fi

cmake -S "$root/onnx_sparse/native" -B "$build" -DCMAKE_BUILD_TYPE=Debug -DONNX_SPARSE_SANITIZE=$sanitizers \
  -DONNX_SPARSE_WATCH_ALLOCATIONS=$watch -DCMAKE_COMPILE_WARNING_AS_ERROR=ON
cmake --build "$build" --parallel
[ "${1:-}" != --build ] || exit 0
export ONNX_SPARSE_LIBRARY=$build/libonnx_sparse_native.so

# Python itself is not instrumented, so the runtime must be there before the library is loaded, and memory that Python
# still holds when it exits is not our leak.
LD_PRELOAD=$("${CXX:-c++}" -print-file-name=$runtime)
# The C++ runtime goes with it: the sanitizer must find the exception functions that it intercepts.
LD_PRELOAD=$LD_PRELOAD:$("${CXX:-c++}" -print-file-name=libstdc++.so.6)
export LD_PRELOAD
export ASAN_OPTIONS=detect_leaks=0,allocator_may_return_null=1,abort_on_error=1
export UBSAN_OPTIONS=print_stacktrace=1,halt_on_error=1
# ONNX Runtime's own thread pool synchronizes in ways that ThreadSanitizer cannot see into.
export TSAN_OPTIONS=ignore_noninstrumented_modules=1,halt_on_error=1

cd "$root"
if [ "${1:-}" = --hostile ]; then
  cd tests
  export PYTHONMALLOC=malloc  # so that small objects are watched, too
  python -m native.hostile --count "${2:?how many}" --seed "$(date +%Y%m%d)"
  exit
fi
if [ $# -gt 0 ] && [ "$1" != --quick ]; then
  tests=("$@")
elif [ "$kind" = thread ]; then
  tests=(tests/native/test_threads.py)
  [ $# -gt 0 ] || tests+=(tests/torture/test_concurrency.py)
else
  tests=(-n auto --hypothesis-profile=few tests/native tests/contract/test_errors.py tests/contract/test_examples.py)
  if [ $# -gt 0 ]; then tests+=(-m "not slow"); else tests+=(tests/contract/test_semantics.py); fi
fi
chosen="native and not instruction_set and not tensorflows"
[ "$kind" = address ] || chosen+=" and not processes"  # ThreadSanitizer hangs in a fork of a process with threads
python -m pytest -q -p no:cacheprovider -k "$chosen" "${tests[@]}"
