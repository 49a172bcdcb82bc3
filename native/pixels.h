/* The sets of instructions that conversion of images is compiled for. */
#ifndef OPENRKNN_PIXELS_H
#define OPENRKNN_PIXELS_H

#include "openrknn.h"

void convert_plain(const openrknn_pixels *task);
void convert_avx2(const openrknn_pixels *task);

#endif
