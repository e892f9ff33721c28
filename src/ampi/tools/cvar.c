/* SPDX-License-Identifier: Apache-2.0 */
/* Control variables: the settings. One may be written at any time, the others before MPI_Init(). */
#include "ampi/tools/tools.h"

#include <string.h>

#include "ampi/process.h"
#include "base/alloc.h"
#include "base/config/config.h"

enum form { FORM_bool, FORM_int, FORM_size };

struct cvar {
    const char *name, *about;
    enum form form;
    size_t offset;
    struct {
        int64_t min, max;
    } limits;
};

#define SETTING(setting, type, text, help, member, ...)                                \
    {.name = "TELPHER_" #setting,                                                      \
     .about = help,                                                                    \
     .form = FORM_##type,                                                              \
     .offset = offsetof(struct tp_ampi_settings, member),                              \
     .limits = {__VA_ARGS__}},
static const struct cvar cvars[] = {
#include "base/settings/ampi.def"
};
#undef SETTING

struct telpher_mpi_t_cvar {
    const struct cvar *cvar;
};

int
tp_ampi_cvar_count(void)
{
    return (int)TP_ARRAY_LEN(cvars);
}

/* This one is used at each start of a collective; others when the process starts. */
static bool
is_dynamic(const struct cvar *cvar)
{
    return cvar->offset == offsetof(struct tp_ampi_settings, collectives);
}

int
PMPI_T_cvar_get_num(int *count)
{
    tp_ampi_tools_give(count, tp_ampi_cvar_count());
    return tp_ampi_tools_check();
}
TP_MPI_NAME(T_cvar_get_num);

static int
check_index(int index)
{
    int error = tp_ampi_tools_check();

    return error != MPI_SUCCESS                         ? error
           : index < 0 || index >= tp_ampi_cvar_count() ? MPI_T_ERR_INVALID_INDEX
                                                        : MPI_SUCCESS;
}

int
PMPI_T_cvar_get_info(int index, char *name, int *name_length, int *verbosity,
                     MPI_Datatype *type, MPI_T_enum *enumtype, char *about,
                     int *about_length, int *bind, int *scope)
{
    int error = check_index(index);
    const struct cvar *cvar = &cvars[error == MPI_SUCCESS ? index : 0];

    if (error != MPI_SUCCESS) {
        return error;
    }
    tp_ampi_tools_text(cvar->name, name, name_length);
    tp_ampi_tools_text(cvar->about, about, about_length);
    tp_ampi_tools_give(verbosity, MPI_T_VERBOSITY_USER_BASIC);
    tp_ampi_tools_give(bind, MPI_T_BIND_NO_OBJECT);
    tp_ampi_tools_give(scope,
                       is_dynamic(cvar) ? MPI_T_SCOPE_LOCAL : MPI_T_SCOPE_READONLY);
    if (type != NULL) {
        *type = cvar->form == FORM_size ? MPI_UNSIGNED_LONG : MPI_INT;
    }
    if (enumtype != NULL) {
        *enumtype = cvar->form == FORM_bool ? tp_ampi_tools_switch() : MPI_T_ENUM_NULL;
    }
    return MPI_SUCCESS;
}
TP_MPI_NAME(T_cvar_get_info);

int
PMPI_T_cvar_get_index(const char *name, int *index)
{
    int error = tp_ampi_tools_check();

    for (int i = 0; error == MPI_SUCCESS && i < tp_ampi_cvar_count(); i++) {
        if (strcmp(name, cvars[i].name) == 0) {
            tp_ampi_tools_give(index, i);
            return MPI_SUCCESS;
        }
    }
    return error != MPI_SUCCESS ? error : MPI_T_ERR_INVALID_NAME;
}
TP_MPI_NAME(T_cvar_get_index);

int
PMPI_T_cvar_handle_alloc(int index, void *object, MPI_T_cvar_handle *ret, int *count)
{
    int error = check_index(index);
    struct telpher_mpi_t_cvar *handle;

    (void)object;
    if (error != MPI_SUCCESS) {
        return error;
    }
    handle = tp_zalloc(sizeof(*handle), "MPI control variable");
    if (handle == NULL) {
        return MPI_T_ERR_OUT_OF_HANDLES;
    }
    handle->cvar = &cvars[index];
    *ret = handle;
    *count = 1;
    return MPI_SUCCESS;
}
TP_MPI_NAME(T_cvar_handle_alloc);

int
PMPI_T_cvar_handle_free(MPI_T_cvar_handle *handle)
{
    int error = tp_ampi_tools_check();

    if (error != MPI_SUCCESS || *handle == MPI_T_CVAR_HANDLE_NULL) {
        return error != MPI_SUCCESS ? error : MPI_T_ERR_INVALID_HANDLE;
    }
    tp_free(*handle);
    *handle = MPI_T_CVAR_HANDLE_NULL;
    return MPI_SUCCESS;
}
TP_MPI_NAME(T_cvar_handle_free);

int
PMPI_T_cvar_read(MPI_T_cvar_handle handle, void *value)
{
    int error = tp_ampi_tools_check();
    const char *at;

    if (error != MPI_SUCCESS || handle == MPI_T_CVAR_HANDLE_NULL) {
        return error != MPI_SUCCESS ? error : MPI_T_ERR_INVALID_HANDLE;
    }
    at = (const char *)&tp_ampi.settings + handle->cvar->offset;
    switch (handle->cvar->form) {
    case FORM_bool:
        *(int *)value = *(const bool *)at;
        break;
    case FORM_int:
        memcpy(value, at, sizeof(int));
        break;
    case FORM_size:
        memcpy(value, at, sizeof(size_t));
        break;
    }
    return MPI_SUCCESS;
}
TP_MPI_NAME(T_cvar_read);

static bool
write_number(const struct cvar *cvar, const void *value)
{
    char *at = (char *)&tp_ampi.settings + cvar->offset;
    int number = 0;
    size_t size = 0;

    memcpy(cvar->form == FORM_size ? (void *)&size : (void *)&number, value,
           cvar->form == FORM_size ? sizeof(size) : sizeof(number));
    switch (cvar->form) {
    case FORM_bool:
        if (number != 0 && number != 1) {
            return false;
        }
        *(bool *)at = number != 0;
        return true;
    case FORM_int:
        if (number < cvar->limits.min || number > cvar->limits.max) {
            return false;
        }
        memcpy(at, &number, sizeof(number));
        return true;
    default:
        if (size < (size_t)cvar->limits.min || size > (size_t)cvar->limits.max) {
            return false;
        }
        memcpy(at, &size, sizeof(size));
        return true;
    }
}

int
PMPI_T_cvar_write(MPI_T_cvar_handle handle, const void *value)
{
    int error = tp_ampi_tools_check();

    if (error != MPI_SUCCESS || handle == MPI_T_CVAR_HANDLE_NULL) {
        return error != MPI_SUCCESS ? error : MPI_T_ERR_INVALID_HANDLE;
    }
    if (!is_dynamic(handle->cvar) && (tp_ampi.ctx != NULL || tp_ampi.over)) {
        return MPI_T_ERR_CVAR_SET_NEVER;
    }
    tp_ampi_enter();
    error = write_number(handle->cvar, value) ? MPI_SUCCESS : MPI_T_ERR_INVALID;
    if (error == MPI_SUCCESS && tp_ampi.ctx != NULL) {
        tp_ampi_limit_collectives();
    }
    tp_ampi_leave();
    return error;
}
TP_MPI_NAME(T_cvar_write);
