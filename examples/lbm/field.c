/* SPDX-License-Identifier: Apache-2.0 */
/* The result of the flow example: a file of velocities, a comparison of two such files,
 * and a picture of the vorticity. Nothing here knows of OpenCL. */
#include "lbm.h"

#include <math.h>
#include <png.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char magic[8] = "LBMFLD1";

static bool
complain(const char *path, const char *what)
{
    fprintf(stderr, "lbm: %s: %s\n", path, what);
    return false;
}

static size_t
float_count(const struct lbm_field *field)
{
    return 2 * (size_t)field->width * (size_t)field->height;
}

bool
lbm_field_save(const struct lbm_field *field, const char *path)
{
    const int32_t size[2] = {field->width, field->height};
    FILE *file = fopen(path, "wb");
    bool written;

    if (file == NULL) {
        return complain(path, "cannot be created");
    }
    written =
        fwrite(magic, sizeof(magic), 1, file) == 1 &&
        fwrite(size, sizeof(size), 1, file) == 1 &&
        fwrite(field->u, sizeof(float), float_count(field), file) == float_count(field);
    written = fclose(file) == 0 && written;
    return written || complain(path, "cannot be written");
}

/* Gives the file's floats (to be freed), or NULL if it is no field of the same size. */
static float *
load(const struct lbm_field *like, const char *path)
{
    const size_t count = float_count(like);
    char head[8];
    int32_t size[2];
    FILE *file = fopen(path, "rb");
    float *u;

    if (file == NULL) {
        complain(path, "cannot be opened");
        return NULL;
    }
    u = malloc(count * sizeof(float));
    if (u == NULL || fread(head, sizeof(head), 1, file) != 1 ||
        memcmp(head, magic, sizeof(head)) != 0 ||
        fread(size, sizeof(size), 1, file) != 1 || size[0] != like->width ||
        size[1] != like->height || fread(u, sizeof(float), count, file) != count) {
        complain(path, "is no field of this size");
        free(u);
        u = NULL;
    }
    fclose(file);
    return u;
}

bool
lbm_field_compare(const struct lbm_field *field, const char *path, float relative,
                  float absolute)
{
    const size_t count = float_count(field);
    float *other = load(field, path);
    float largest = 0.0f;
    size_t worst = 0;
    size_t outside = 0;

    if (other == NULL) {
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        const float difference = fabsf(field->u[i] - other[i]);

        /* written so that NaN counts as different */
        outside += !(difference <= absolute + relative * fabsf(other[i]));
        if (!(difference <= largest)) {
            largest = difference;
            worst = i;
        }
    }
    if (memcmp(field->u, other, count * sizeof(float)) == 0) {
        printf("Compared with %s: equal bit for bit\n", path);
    } else {
        const size_t cell = worst / 2;
        const size_t height = (size_t)field->height;

        printf("Compared with %s: largest difference %g at (%zu, %zu): %g, not %g; "
               "%zu of %zu values outside the tolerance\n",
               path, largest, cell / height, cell % height, field->u[worst],
               other[worst], outside, count);
    }
    free(other);
    return outside == 0;
}

/* --- picture -------------------------------------------------------------------- */

enum { ZOOM = 2, COLOURS = 33 }; /* pixels a cell, entries of the map */

/* Clockwise vortices are blue, the others orange, still air is almost black. Equal
 * steps were mixed in Oklab, so that they look equal. */
static const png_byte colours[COLOURS][3] = {
    {224, 247, 255}, {201, 235, 254}, {178, 223, 253}, {154, 211, 251}, {131, 199, 250},
    {106, 187, 247}, {79, 174, 245},  {67, 155, 225},  {56, 136, 203},  {46, 118, 183},
    {37, 100, 162},  {27, 83, 143},   {22, 66, 118},   {19, 50, 89},    {16, 35, 62},
    {12, 22, 38},    {8, 10, 18},     {28, 18, 22},    {51, 25, 26},    {77, 32, 27},
    {105, 38, 27},   {131, 49, 28},   {153, 66, 32},   {175, 82, 37},   {198, 100, 42},
    {222, 118, 46},  {245, 137, 54},  {249, 155, 82},  {251, 172, 107}, {253, 190, 130},
    {255, 207, 153}, {255, 225, 176}, {255, 242, 199},
};

/* The colour of a value from -1 to 1; others get the colour of the nearer end. */
static void
colour_of(float value, float rgb[3])
{
    const float at = (fminf(fmaxf(value, -1.0f), 1.0f) + 1.0f) * 0.5f * (COLOURS - 1);
    const int i = at < COLOURS - 2 ? (int)at : COLOURS - 2;
    const float part = at - (float)i;

    for (int k = 0; k < 3; k++) {
        rgb[k] = (1 - part) * colours[i][k] + part * colours[i + 1][k];
    }
}

static int
clamp(int value, int least, int most)
{
    return value < least ? least : value > most ? most : value;
}

/* Vorticity by central differences; the border shows its nearest inner cell. */
static float
vorticity(const struct lbm_field *field, int column, int row)
{
    const int h = field->height;
    const int x = clamp(column, 1, field->width - 2);
    const int y = clamp(row, 1, h - 2);
    const float *u = field->u;

    return 0.5f * (u[2 * ((x + 1) * h + y) + 1] - u[2 * ((x - 1) * h + y) + 1] -
                   u[2 * (x * h + y + 1)] + u[2 * (x * h + y - 1)]);
}

static float
vorticity_between(const struct lbm_field *field, float x, float y)
{
    const int left = (int)floorf(x);
    const int low = (int)floorf(y);
    const float a = x - (float)left;
    const float b = y - (float)low;

    return (1 - b) * ((1 - a) * vorticity(field, left, low) +
                      a * vorticity(field, left + 1, low)) +
           b * ((1 - a) * vorticity(field, left, low + 1) +
                a * vorticity(field, left + 1, low + 1));
}

static void
paint_pixel(const struct lbm_field *field, const struct lbm_flow *flow, float x,
            float y, png_byte *pixel)
{
    const float strength = vorticity_between(field, x, y) * flow->radius / flow->speed;
    const float beyond = hypotf(x - flow->centre_x, y - flow->centre_y) - flow->radius;
    const float solid = fminf(fmaxf(0.5f - beyond * ZOOM, 0.0f), 1.0f);
    float rgb[3];

    /* the exponent lifts the faint vortices far downstream */
    colour_of(copysignf(powf(fabsf(strength) / 2.5f, 0.75f), strength), rgb);
    for (int k = 0; k < 3; k++) {
        pixel[k] = (png_byte)lroundf(rgb[k] + solid * (158.0f - rgb[k]));
    }
}

bool
lbm_picture_save(const struct lbm_field *field, const struct lbm_flow *flow,
                 const char *path)
{
    const int width = field->width * ZOOM;
    const int height = field->height * ZOOM;
    png_image image = {.version = PNG_IMAGE_VERSION,
                       .width = (png_uint_32)width,
                       .height = (png_uint_32)height,
                       .format = PNG_FORMAT_RGB};
    png_byte *pixels = malloc(3 * (size_t)width * (size_t)height);
    bool written;

    if (pixels == NULL) {
        return complain(path, "no memory for the picture");
    }
    for (int row = 0; row < height; row++) {
        for (int column = 0; column < width; column++) {
            const float x = ((float)column + 0.5f) / (float)ZOOM - 0.5f;
            const float y =
                (float)field->height - 0.5f - ((float)row + 0.5f) / (float)ZOOM;

            paint_pixel(field, flow, x, y,
                        pixels + 3 * ((size_t)row * (size_t)width + (size_t)column));
        }
    }
    written = png_image_write_to_file(&image, path, 0, pixels, 0, NULL) != 0;
    free(pixels);
    if (written) {
        printf("Picture: %s (%d x %d)\n", path, width, height);
    }
    return written || complain(path, image.message);
}
