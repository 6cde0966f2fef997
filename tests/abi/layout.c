/* The layout as a C11 compiler sees it. */
#include "abi/layout.h"

#include "abi/layout_in_c.h"

const layout_row* layout_in_c(size_t* rows) {
  *rows = sizeof kLayout / sizeof kLayout[0];
  return kLayout;
}

const constant_row* constants_in_c(size_t* rows) {
  *rows = sizeof kConstants / sizeof kConstants[0];
  return kConstants;
}
