/* SPDX-License-Identifier: Apache-2.0 */
/* Writes JSON; see json.h. */
#include "bench/json.h"

#include <math.h>

static void
put_text(FILE *file, const char *text)
{
    fputc('"', file);
    for (; *text != '\0'; text++) {
        const unsigned char c = (unsigned char)*text;

        if (c == '"' || c == '\\') {
            fprintf(file, "\\%c", c);
        } else if (c < 0x20) {
            fprintf(file, "\\u%04x", c);
        } else {
            fputc(c, file);
        }
    }
    fputc('"', file);
}

static void
new_line(const struct bench_json *json)
{
    if (json->flat == 0) {
        fprintf(json->file, "\n%*s", 2 * json->depth, "");
    }
}

static void
start_value(struct bench_json *json, const char *key)
{
    if (json->filled) {
        fputs(json->flat != 0 ? ", " : ",", json->file);
    }
    if (json->depth > 0) {
        new_line(json);
    }
    if (key != NULL) {
        put_text(json->file, key);
        fputs(": ", json->file);
    }
    json->filled = true;
}

void
bench_json_open(struct bench_json *json, const char *key, char bracket)
{
    start_value(json, key);
    fputc(bracket, json->file);
    json->depth++;
    json->filled = false;
}

void
bench_json_open_flat(struct bench_json *json, const char *key, char bracket)
{
    bench_json_open(json, key, bracket);
    json->flat = json->depth;
}

void
bench_json_close(struct bench_json *json, char bracket)
{
    const bool was_flat = json->flat != 0;

    if (json->flat == json->depth) {
        json->flat = 0;
    }
    json->depth--;
    if (json->filled && !was_flat) {
        new_line(json);
    }
    fputc(bracket, json->file);
    json->filled = true;
    if (json->depth == 0) {
        fputc('\n', json->file);
    }
}

void
bench_json_text(struct bench_json *json, const char *key, const char *value)
{
    start_value(json, key);
    put_text(json->file, value);
}

void
bench_json_number(struct bench_json *json, const char *key, double value)
{
    start_value(json, key);
    if (isfinite(value)) {
        fprintf(json->file, "%.10g", value);
    } else {
        fputs("null", json->file);
    }
}

void
bench_json_bool(struct bench_json *json, const char *key, bool value)
{
    start_value(json, key);
    fputs(value ? "true" : "false", json->file);
}
