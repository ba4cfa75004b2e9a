/* "mp_abort R STATUS": rank R calls PMIx_Abort, the others sleep. */
#include <pmix.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    pmix_proc_t me;

    if (argc != 3)
        return 2;
    memset(&me, 0, sizeof me);
    if (PMIx_Init(&me, NULL, 0) != PMIX_SUCCESS)
        return 3;
    if ((int)me.rank == atoi(argv[1])) {
        PMIx_Abort(atoi(argv[2]), "on purpose", NULL, 0);
        _exit(0); /* what counts is the status of the abort */
    }
    sleep(60);
    return 4;
}
