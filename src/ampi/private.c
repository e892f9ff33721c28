/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies of the program. Each is a memory file with the bytes of the executable, loaded by
 * dlopen(): a file of its own, so the loader maps it again, with its own data. Libraries are
 * shared by all copies. The loader refuses position-independent executables by a flag, which
 * the copy lacks.
 */
#include "ampi/private.h"

#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"

#define WHY "telpher-ampi: no virtual ranks: "

/* The executable's file, read once. */
static struct {
    uint8_t *bytes;
    size_t len;
} image;

static bool
read_image(void)
{
    int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    struct stat info;
    void *bytes = MAP_FAILED;

    if (image.bytes != NULL) {
        return true;
    }
    if (fd >= 0 && fstat(fd, &info) == 0 && info.st_size > (off_t)sizeof(ElfW(Ehdr))) {
        bytes = mmap(NULL, (size_t)info.st_size, PROT_READ | PROT_WRITE, MAP_PRIVATE,
                     fd, 0);
    }
    if (bytes == MAP_FAILED) {
        (void)fprintf(stderr, WHY "cannot read the program: %s\n", strerror(errno));
    } else {
        image.bytes = bytes;
        image.len = (size_t)info.st_size;
    }
    if (fd >= 0) {
        (void)close(fd);
    }
    return bytes != MAP_FAILED;
}

/* The program header of a type, NULL: there is none. */
static const ElfW(Phdr) * find_header(uint32_t type)
{
    const ElfW(Ehdr) *elf = (const void *)image.bytes;
    const ElfW(Phdr) *headers = (const void *)(image.bytes + elf->e_phoff);

    if (elf->e_phoff > image.len ||
        elf->e_phnum > (image.len - elf->e_phoff) / sizeof(*headers)) {
        return NULL;
    }
    for (unsigned i = 0; i < elf->e_phnum; i++) {
        if (headers[i].p_type == type) {
            return &headers[i];
        }
    }
    return NULL;
}

/* Lets the loader take the file for a library. */
static bool
clear_flag(void)
{
    const ElfW(Phdr) *header = find_header(PT_DYNAMIC);
    ElfW(Dyn) * dyn;

    if (header == NULL || header->p_offset > image.len ||
        header->p_filesz > image.len - header->p_offset) {
        return false;
    }
    dyn = (ElfW(Dyn) *)(void *)(image.bytes + header->p_offset);
    for (size_t i = 0; i < header->p_filesz / sizeof(*dyn); i++) {
        if (dyn[i].d_tag == DT_FLAGS_1) {
            dyn[i].d_un.d_val &= ~(ElfW(Xword))DF_1_PIE;
        }
    }
    return true;
}

tp_ampi_main
tp_ampi_private_first(void)
{
    tp_ampi_main main_fn;

    *(void **)&main_fn = dlsym(RTLD_DEFAULT, "main");
    return main_fn;
}

void *
tp_ampi_private_find(tp_ampi_main main_fn, const char *name)
{
    void *address, *library = NULL;
    Dl_info info;

    *(tp_ampi_main *)&address = main_fn;
    if (dladdr1(address, &info, &library, RTLD_DL_LINKMAP) == 0 || library == NULL) {
        return NULL;
    }
    return dlsym(library, name);
}

bool
tp_ampi_private_check(void)
{
    const ElfW(Phdr) * tls;

    if (!read_image()) {
        return false;
    }
    if (((const ElfW(Ehdr) *)(const void *)image.bytes)->e_type != ET_DYN ||
        !clear_flag()) {
        (void)fprintf(stderr,
                      WHY "the program is not position-independent: compile and "
                          "link it with telpher-mpicc\n");
        return false;
    }
    tls = find_header(PT_TLS);
    if (tls != NULL && tls->p_memsz != 0) {
        (void)fprintf(stderr,
                      WHY "thread-local variables of the program, %zu bytes, would "
                          "be shared by the ranks: telpher-mpicc --explain PROGRAM "
                          "names them\n",
                      (size_t)tls->p_memsz);
        return false;
    }
    return true;
}

static bool
write_all(int fd)
{
    for (size_t at = 0; at < image.len;) {
        ssize_t wrote = write(fd, image.bytes + at, image.len - at);

        if (wrote <= 0) {
            return false;
        }
        at += (size_t)wrote;
    }
    return true;
}

tp_ampi_main
tp_ampi_private_copy(unsigned rank)
{
    char name[64];
    int fd;
    void *library;
    tp_ampi_main main_fn = NULL;

    (void)snprintf(name, sizeof(name), "telpher-rank-%u", rank);
    fd = memfd_create(name, MFD_CLOEXEC);
    if (fd < 0 || !write_all(fd)) {
        (void)fprintf(stderr, WHY "cannot copy the program: %s\n", strerror(errno));
        if (fd >= 0) {
            (void)close(fd);
        }
        return NULL;
    }
    (void)snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
    /* the loader takes the same name for the same library, so the descriptor stays open */
    library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (library != NULL) {
        *(void **)&main_fn = dlsym(library, "main");
    }
    if (main_fn == NULL) {
        (void)fprintf(stderr, WHY "cannot load a copy of the program: %s\n", dlerror());
    }
    return main_fn;
}
