include(CMakePackageConfigHelpers)

install(TARGETS tessera tessera_static EXPORT tesseraTargets
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(FILES include/tessera/tessera.h include/tessera/tensor.hpp include/tessera/tessera.hpp
  include/tessera/cache.hpp
  ${generated_dir}/tessera/version.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/tessera)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/tessera)
install(EXPORT tesseraTargets NAMESPACE tessera:: DESTINATION ${package_dir})
configure_package_config_file(cmake/tesseraConfig.cmake.in generated/tesseraConfig.cmake
  INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(${generated_dir}/tesseraConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${generated_dir}/tesseraConfig.cmake ${generated_dir}/tesseraConfigVersion.cmake
  DESTINATION ${package_dir})

# The prefix follows the file, so that an installed tree may be moved.
cmake_path(RELATIVE_PATH CMAKE_INSTALL_PREFIX
  BASE_DIRECTORY ${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_LIBDIR}/pkgconfig OUTPUT_VARIABLE pc_up)
configure_file(cmake/tessera.pc.in generated/tessera.pc @ONLY)
install(FILES ${generated_dir}/tessera.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

if(NOT TARGET tessera_cli)
  return()
endif()
install(TARGETS tessera_cli RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
if(EXISTS ${PROJECT_SOURCE_DIR}/tools/tessera/completion.bash)
  install(FILES tools/tessera/completion.bash RENAME tessera
    DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
endif()
find_program(HELP2MAN_PROGRAM help2man)
if(HELP2MAN_PROGRAM AND NOT TESSERA_SANITIZE AND NOT CMAKE_CROSSCOMPILING)
  set(man_page ${generated_dir}/tessera.1)
  add_custom_command(OUTPUT ${man_page} DEPENDS tessera_cli VERBATIM
    COMMAND ${HELP2MAN_PROGRAM} --no-info --name "exact attention from the command line"
            --output=${man_page} $<TARGET_FILE:tessera_cli>)
  add_custom_target(man ALL DEPENDS ${man_page})
  install(FILES ${man_page} DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
endif()
