"""The archive of the native library, in a folder without anything else: programs build and run, without Python."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import onnx
import onnxruntime as ort
import pytest
from contract.models import SEGMENT_SUM
from tools import run

import onnx_sparse

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]

PROGRAM = """\
#include <onnx_sparse.h>
#include <stdio.h>

int main(void) {
  printf("%s\\n", onnx_sparse_version());
  return 0;
}
"""

PROJECT = """\
cmake_minimum_required(VERSION 3.20)
project(consumer LANGUAGES C CXX)
find_package(onnx_sparse 0.1 REQUIRED)
foreach(language c cc)
  add_executable(of_${language} program.${language})
  target_link_libraries(of_${language} PRIVATE onnx_sparse::onnx_sparse)
endforeach()
target_compile_options(of_c PRIVATE -std=c99 -Wall -Wextra -Wpedantic -Werror)
target_compile_options(of_cc PRIVATE -Wall -Wextra -Wpedantic -Werror)
"""


def tools_of(folder: Path) -> dict[str, str]:
    """An environment with CMake and the system's compilers: the package of CMake has scripts in Python around it."""
    cmake = pytest.importorskip("cmake")
    return {"PATH": f"{cmake.CMAKE_BIN_DIR}:/usr/bin:/bin", "HOME": str(folder)}


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The archive, unpacked in a folder of its own, with ONNX Runtime's library beside it."""
    if run.version("onnxslim") is None:  # to compile the library takes minutes
        pytest.skip("not the environment of tests/tools/requirements.txt")
    if sys.platform != "linux":
        pytest.skip("needs Linux")
    build = tmp_path_factory.mktemp("build")
    source = ["-S", ROOT / "onnx_sparse" / "native", "-B", build, "-G", "Ninja"]
    subprocess.run(["cmake", *source], check=True)
    subprocess.run(["cmake", "--build", build], check=True)
    subprocess.run(["cpack", "--config", build / "CPackConfig.cmake", "-B", build], check=True)
    (packed,) = build.glob("onnx_sparse-native-linux-*.tar.gz")
    assert packed.name.endswith(f"-{onnx_sparse.__version__}.tar.gz")
    folder = tmp_path_factory.mktemp("fresh")
    with tarfile.open(packed) as file:
        file.extractall(folder, filter="data")
    shutil.rmtree(build)
    (runtime,) = (Path(ort.__file__).parent / "capi").glob("libonnxruntime.so*")
    shutil.copy(runtime, folder / "libonnxruntime.so")
    return folder / packed.name.removesuffix(".tar.gz")


def shell(command: str, folder: Path) -> str:
    """What a command prints that knows neither Python nor this environment."""
    environment = tools_of(folder)
    done = subprocess.run(command, shell=True, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_it_holds_what_a_program_needs_and_no_path_of_the_machine_that_built_it(archive: Path) -> None:
    files = {str(path.relative_to(archive)) for path in archive.rglob("*") if path.is_file()}
    assert files == {
        *{"LICENSE", "examples/CMakeLists.txt", "examples/run_model.cc"},
        *{"include/onnx_sparse.h", "include/onnx_sparse/ort_abi.h", "lib/libonnx_sparse_native.so"},
        *{f"lib/cmake/onnx_sparse/onnx_sparse-config{part}.cmake" for part in ("", "-release", "-version")},
        "lib/pkgconfig/onnx_sparse.pc",
    }
    for name in files:
        assert str(ROOT).encode() not in (archive / name).read_bytes(), name


def test_the_example_builds_and_runs(archive: Path) -> None:
    shell("cmake -S . -B build && cmake --build build", archive / "examples")
    onnx.save(SEGMENT_SUM, archive / "model.onnx")
    libraries = "../libonnxruntime.so lib/libonnx_sparse_native.so"
    inputs = "data:float:3,2=1,2,3,4,5,6 ids:int64:3=0,0,2"
    assert shell(f"examples/build/run_model {libraries} model.onnx {inputs} -- y", archive) == "y [3,2] 4 6 0 0 5 6\n"


def test_cmake_finds_it(archive: Path, tmp_path: Path) -> None:
    (tmp_path / "CMakeLists.txt").write_text(PROJECT)
    for name in ("program.c", "program.cc"):
        (tmp_path / name).write_text(PROGRAM)
    shell(f"cmake -S . -B build -D CMAKE_PREFIX_PATH={archive} && cmake --build build", tmp_path)
    for name in ("of_c", "of_cc"):
        assert shell(f"build/{name}", tmp_path) == f"{onnx_sparse.__version__}\n"


@pytest.mark.skipif(shutil.which("pkg-config") is None, reason="needs pkg-config")
def test_pkg_config_finds_it(archive: Path, tmp_path: Path) -> None:
    (tmp_path / "program.c").write_text(PROGRAM)
    path = f"PKG_CONFIG_PATH={archive / 'lib/pkgconfig'}"
    shell(f"{path} pkg-config --exact-version={onnx_sparse.__version__} onnx_sparse", tmp_path)
    shell(f"cc program.c $({path} pkg-config --cflags --libs onnx_sparse) -o program", tmp_path)
    assert shell(f"LD_LIBRARY_PATH={archive / 'lib'} ./program", tmp_path) == f"{onnx_sparse.__version__}\n"
