# The native library inside the Python package, where tessera/_native.py looks. A wheel holds no
# links, so the file has no version in its name.
set_property(TARGET tessera PROPERTY VERSION)
set_property(TARGET tessera PROPERTY SOVERSION)
if(WIN32)
  set_property(TARGET tessera PROPERTY PREFIX "")  # tessera.dll
endif()
install(FILES $<TARGET_FILE:tessera> DESTINATION tessera/lib COMPONENT python)
