/* HDF5's setting up, its types and its errors. */
#include "h5.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Bulk begins at a page, so that it can be written past the page cache. */
#define ALIGN_FROM 65536
#define ALIGN_TO 4096

accel_status_t ax_h5_create(ax_h5_t *h5, const char *path)
{
    *h5 = (ax_h5_t){.file = H5I_INVALID_HID, .path = path};
    ax_hdf5_enter(&h5->visit);

    hid_t fapl = H5Pcreate(H5P_FILE_ACCESS);
    h5->links = H5Pcreate(H5P_LINK_CREATE);
    h5->text = H5Tcopy(H5T_C_S1);
    h5->scalar = H5Screate(H5S_SCALAR);
    if (fapl < 0 || h5->links < 0 || h5->text < 0 || h5->scalar < 0 ||
        H5Pset_libver_bounds(fapl, H5F_LIBVER_V110, H5F_LIBVER_V110) < 0 ||
        H5Pset_alignment(fapl, ALIGN_FROM, ALIGN_TO) < 0 ||
        H5Pset_fclose_degree(fapl, H5F_CLOSE_SEMI) < 0 ||
        H5Pset_create_intermediate_group(h5->links, 1) < 0 ||
        H5Pset_char_encoding(h5->links, H5T_CSET_UTF8) < 0 ||
        H5Tset_size(h5->text, H5T_VARIABLE) < 0 ||
        H5Tset_cset(h5->text, H5T_CSET_UTF8) < 0) {
        H5Pclose(fapl);
        return ax_h5_close(h5, ax_h5_fail(h5, "cannot set up HDF5"));
    }
#if H5_VERSION_GE(1, 10, 7)
    /* Nobody else knows the file's name yet, and locks fail on NFS. */
    H5Pset_file_locking(fapl, false, true);
#endif
    h5->file = H5Fcreate(path, H5F_ACC_EXCL, H5P_DEFAULT, fapl);
    accel_status_t st =
        h5->file < 0 ? ax_h5_fail(h5, "cannot create") : ACCEL_OK;
    H5Pclose(fapl);
    return st == ACCEL_OK ? st : ax_h5_close(h5, st);
}

accel_status_t ax_h5_close(ax_h5_t *h5, accel_status_t st)
{
    if (h5->scalar >= 0)
        H5Sclose(h5->scalar);
    if (h5->text >= 0)
        H5Tclose(h5->text);
    if (h5->links >= 0)
        H5Pclose(h5->links);
    /* SEMI: fails too when an object of ours was left open. */
    if (h5->file >= 0 && H5Fclose(h5->file) < 0 && st == ACCEL_OK)
        st = ax_h5_fail(h5, "cannot write");
    ax_hdf5_leave(&h5->visit);
    h5->file = H5I_INVALID_HID;
    return st;
}

struct cause {
    char text[128]; /* the innermost description */
    int err;        /* of the system call in it; 0: none */
};

/* HDF5 keeps errno inside its words, after names that may hold anything. */
static herr_t keep_cause(unsigned n, const H5E_error2_t *error, void *context)
{
    static const char key[] = "errno = ";
    struct cause *cause = context;
    const char *desc = error->desc ? error->desc : "";

    if (n == 0)
        snprintf(cause->text, sizeof cause->text, "%.*s",
                 (int)strcspn(desc, ":"), desc);
    for (const char *at = desc; (at = strstr(at, key)) && !cause->err;) {
        at += strlen(key);
        for (const char *d = at; *d >= '0' && *d <= '9' && d < at + 5; d++)
            cause->err = 10 * cause->err + (*d - '0');
    }
    return 0;
}

accel_status_t ax_h5_fail(const ax_h5_t *h5, const char *doing)
{
    struct cause cause = {.text = "HDF5 does not say why"};

    H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, keep_cause, &cause);
    if (cause.err)
        return ax_fail_sys(ACCEL_ERR_IO, cause.err, "ckpt: %s: %s", h5->path,
                           doing);
    return ax_fail(ACCEL_ERR_IO, "ckpt: %s: %s: %s", h5->path, doing,
                   cause.text);
}

/* f16 and bf16 are no types of HDF5 1.10's own, but of its kind. */
static hid_t small_float(size_t exponent_bits, size_t bias)
{
    hid_t type = H5Tcopy(H5T_IEEE_F32LE);
    size_t mantissa_bits = 15 - exponent_bits;

    /* Fields first: the size can shrink only around them. */
    if (H5Tset_fields(type, 15, mantissa_bits, exponent_bits, 0,
                      mantissa_bits) < 0 ||
        H5Tset_size(type, 2) < 0 || H5Tset_ebias(type, bias) < 0) {
        H5Tclose(type);
        return H5I_INVALID_HID;
    }
    return type;
}

hid_t ax_h5_type(accel_dtype_t dtype)
{
    switch (dtype) {
    case ACCEL_F64:
        return H5Tcopy(H5T_IEEE_F64LE);
    case ACCEL_F32:
        return H5Tcopy(H5T_IEEE_F32LE);
    case ACCEL_F16:
        return small_float(5, 15);
    case ACCEL_BF16:
        return small_float(8, 127);
    case ACCEL_I8:
        return H5Tcopy(H5T_STD_I8LE);
    case ACCEL_U8:
        return H5Tcopy(H5T_STD_U8LE);
    case ACCEL_I16:
        return H5Tcopy(H5T_STD_I16LE);
    case ACCEL_U16:
        return H5Tcopy(H5T_STD_U16LE);
    case ACCEL_I32:
        return H5Tcopy(H5T_STD_I32LE);
    case ACCEL_U32:
        return H5Tcopy(H5T_STD_U32LE);
    case ACCEL_I64:
        return H5Tcopy(H5T_STD_I64LE);
    case ACCEL_U64:
        return H5Tcopy(H5T_STD_U64LE);
    case ACCEL_DTYPE_NONE:
        break;
    }
    return H5I_INVALID_HID;
}

void ax_h5_drop(hid_t type, hid_t space, hid_t properties)
{
    if (properties >= 0)
        H5Pclose(properties);
    if (space >= 0)
        H5Sclose(space);
    if (type >= 0)
        H5Tclose(type);
}

const char *ax_h5_type_name(accel_dtype_t dtype)
{
    static const char *const names[] = {
#define TYPE_NAME(NAME, name, bytes) [ACCEL_##NAME] = #NAME,
        ACCEL_DTYPE_LIST(TYPE_NAME)
#undef TYPE_NAME
    };

    return names[dtype];
}

accel_status_t ax_h5_put_text(ax_h5_t *h5, hid_t object, const char *name,
                              const char *value)
{
    hid_t at = H5Acreate2(object, name, h5->text, h5->scalar, H5P_DEFAULT,
                          H5P_DEFAULT);

    if (at < 0)
        return ax_h5_fail(h5, "cannot add an attribute");
    herr_t wrong = H5Awrite(at, h5->text, &value);
    if (H5Aclose(at) < 0 || wrong < 0)
        return ax_h5_fail(h5, "cannot write an attribute");
    return ACCEL_OK;
}

accel_status_t ax_h5_put_numbers(ax_h5_t *h5, hid_t object, const char *name,
                                 int ndim, const hsize_t *shape,
                                 const uint64_t *values)
{
    hid_t space =
        ndim ? H5Screate_simple(ndim, shape, NULL) : H5Screate(H5S_SCALAR);
    hid_t at = space < 0 ? H5I_INVALID_HID
                         : H5Acreate2(object, name, H5T_STD_U64LE, space,
                                      H5P_DEFAULT, H5P_DEFAULT);
    accel_status_t st = ACCEL_OK;

    if (at < 0 || H5Awrite(at, H5T_NATIVE_UINT64, values) < 0)
        st = ax_h5_fail(h5, "cannot add an attribute");
    if (at >= 0)
        H5Aclose(at);
    if (space >= 0)
        H5Sclose(space);
    return st;
}

accel_status_t ax_h5_put_root(ax_h5_t *h5, const ax_manifest_t *m)
{
    uint64_t version = AX_CKPT_FORMAT, ranks = (uint64_t)m->ranks;
    const struct {
        const char *name, *text;
        const uint64_t *number;
    } all[] = {
        {"format", "accel-checkpoint", NULL},
        {"format_version", NULL, &version},
        {"uuid", m->uuid, NULL},
        {"step", NULL, &m->step},
        {"world_size", NULL, &ranks},
        {"created", m->created, NULL},
        {"writer", m->writer, NULL},
    };
    accel_status_t st = ACCEL_OK;

    for (size_t i = 0; st == ACCEL_OK && i < AX_ARRAY_SIZE(all); i++) {
        if (all[i].text)
            st = ax_h5_put_text(h5, h5->file, all[i].name, all[i].text);
        else
            st = ax_h5_put_numbers(h5, h5->file, all[i].name, 0, NULL,
                                   all[i].number);
    }
    return st;
}
