/* SPDX-License-Identifier: Apache-2.0 */
/* Feeds every file of a corpus folder to a fuzz target once, so that each build tests what the fuzzer
 * has found. Fails on an empty or missing folder. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static int
replay_file(const char *dir, const char *name)
{
    char path[4096];
    uint8_t *data = NULL;
    FILE *file;
    long len;
    int rc = -1;

    snprintf(path, sizeof(path), "%s/%s", dir, name);
    file = fopen(path, "rb");
    if (file == NULL) {
        perror(path);
        return -1;
    }
    if (fseek(file, 0, SEEK_END) == 0 && (len = ftell(file)) >= 0 &&
        fseek(file, 0, SEEK_SET) == 0) {
        /* exactly len bytes: a sanitizer then sees the first byte read beyond */
        data = malloc(len > 0 ? (size_t)len : 1);
        if (data != NULL && fread(data, 1, (size_t)len, file) == (size_t)len) {
            LLVMFuzzerTestOneInput(data, (size_t)len);
            rc = 0;
        }
    }
    free(data);
    fclose(file);
    return rc;
}

int
main(int argc, char **argv)
{
    DIR *dir = argc == 2 ? opendir(argv[1]) : NULL;
    struct dirent *entry;
    unsigned count = 0, failed = 0;

    if (dir == NULL) {
        fprintf(stderr, "usage: %s CORPUS-FOLDER (which must exist)\n", argv[0]);
        return 2;
    }
    while ((entry = readdir(dir)) != NULL) {
        if (entry->d_name[0] == '.') {
            continue;
        }
        count++;
        failed += replay_file(argv[1], entry->d_name) != 0;
    }
    closedir(dir);
    printf("%u inputs replayed, %u unreadable\n", count, failed);
    return count == 0 || failed != 0;
}
