/* What a dataset is made of, for people. */
#include "dataset_priv.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static void list(FILE *to, const accel_dataset_t *d)
{
    for (size_t f = 0; f < d->nfields; f++)
        fprintf(to, "field %s of %zu %s\n", d->fields[f].name,
                d->fields[f].count, accel_dtype_name(d->fields[f].dtype));
    for (size_t i = 0; i < d->nfiles; i++)
        fprintf(to, "file %s of %" PRIu64 " bytes\n", ax_file_name(&d->file[i]),
                d->file[i].bytes);
    for (size_t p = 0; p < d->nparts; p++)
        list(to, d->parts[p]);
    fprintf(to, "%s with %" PRIu64 " samples\n",
            d->format ? d->format : "a dataset", d->samples);
}

char *ax_loader_list(const accel_loader_t *loader)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *to = open_memstream(&text, &bytes);

    if (!to)
        return NULL;
    list(to, loader->dataset);
    if (fclose(to) == 0)
        return text;
    free(text);
    return NULL;
}
