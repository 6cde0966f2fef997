/* The tables of layout.h, compiled as C. */
#pragma once
#include "abi/layout.h"

#ifdef __cplusplus
extern "C" {
#endif
const layout_row* layout_in_c(size_t* rows);
const constant_row* constants_in_c(size_t* rows);
#ifdef __cplusplus
}
#endif
