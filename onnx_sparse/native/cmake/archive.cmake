# The archive for programs without Python: library, headers, license, example, and how CMake and pkg-config find them.
#
#   cmake -S onnx_sparse/native -B build && cmake --build build --parallel && cpack --config build/CPackConfig.cmake

include(CMakePackageConfigHelpers)

set(root ${CMAKE_CURRENT_SOURCE_DIR}/../..)
set(package lib/cmake/onnx_sparse)

set_target_properties(onnx_sparse_native PROPERTIES EXPORT_NAME onnx_sparse)
target_include_directories(onnx_sparse_native INTERFACE $<INSTALL_INTERFACE:include>)
install(TARGETS onnx_sparse_native EXPORT onnx_sparse LIBRARY DESTINATION lib ARCHIVE DESTINATION lib
        RUNTIME DESTINATION lib)
install(DIRECTORY include/ DESTINATION include)
install(FILES ${root}/LICENSE DESTINATION .)
install(FILES ${root}/examples/run_model.cc ${root}/examples/CMakeLists.txt DESTINATION examples)

install(EXPORT onnx_sparse NAMESPACE onnx_sparse:: FILE onnx_sparse-config.cmake DESTINATION ${package})
write_basic_package_version_file(${CMAKE_CURRENT_BINARY_DIR}/onnx_sparse-config-version.cmake
                                 COMPATIBILITY SameMinorVersion)
configure_file(cmake/onnx_sparse.pc.in onnx_sparse.pc @ONLY)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/onnx_sparse-config-version.cmake DESTINATION ${package})
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/onnx_sparse.pc DESTINATION lib/pkgconfig)

# Named as ONNX Runtime's own archives are.
string(TOLOWER ${CMAKE_SYSTEM_NAME} system)
string(REPLACE darwin osx system ${system})
string(REPLACE windows win system ${system})
string(TOLOWER ${CMAKE_SYSTEM_PROCESSOR} processor)
string(REGEX REPLACE "x86_64|amd64" x64 processor ${processor})
set(CPACK_PACKAGE_FILE_NAME onnx_sparse-native-${system}-${processor}-${version})
set(CPACK_GENERATOR TGZ)
set(CPACK_STRIP_FILES ON)
include(CPack)
