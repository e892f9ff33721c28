/* SPDX-License-Identifier: Apache-2.0 */
/* Writes what a test sees of the platforms, and compares two such reports. */
#include "report.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { REPORT_MAX = 1 << 20 };

char *
report_take(const char *program)
{
    char command[1024], *text = malloc(REPORT_MAX);
    size_t len;
    FILE *pipe;

    snprintf(command, sizeof(command), "timeout 300 '%s' --report", program);
    pipe = popen(command, "r");
    if (text == NULL || pipe == NULL) {
        free(text);
        return NULL;
    }
    len = fread(text, 1, REPORT_MAX - 1, pipe);
    text[len] = '\0';
    if (pclose(pipe) != 0) {
        free(text);
        return NULL;
    }
    return text;
}

bool
report_same(const char *native, const char *ours)
{
    while (*native != '\0' && *ours != '\0') {
        size_t a = strcspn(native, "\n"), b = strcspn(ours, "\n");

        if (a != b || strncmp(native, ours, a) != 0) {
            break;
        }
        native += a + (native[a] != '\0');
        ours += b + (ours[b] != '\0');
    }
    if (*native == '\0' && *ours == '\0') {
        return true;
    }
    printf("native:  %.300s\n\nTelpher: %.300s\n", native, ours);
    return false;
}
