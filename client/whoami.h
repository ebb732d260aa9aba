//  client/whoami.h - which rank am I, by configuration or launcher
//
//  Each field comes from the first source that has it: tutti_config_t,
//  TUTTI_*, torchrun, Open MPI, MPICH/PMI, Slurm. Slurm is last because
//  inside srun mpirun its numbers are the outer launcher's.

#ifndef TL_WHOAMI_H
#define TL_WHOAMI_H

#include "client/tutti.h"
#include "protocol/local.h"

typedef struct tl_whoami {
    tp_local_hello_t hello;
    char agent[108];  //  socket
    int op_timeout_ms;
    double scale;  //  defaults of a call
    int priority, timeout_ms;
    const char *source;  //  "TUTTI_*", "torchrun", ...
} tl_whoami_t;

//  TUTTI_EINVAL with a text that names the variable and its value.
tutti_err_t
tl_whoami (tl_whoami_t *self, const tutti_config_t *config);

#endif
