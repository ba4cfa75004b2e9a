/*
 * accel: run a training loop written in C, C++ or Fortran on one core, on a
 * node or on a cluster, in full or mixed precision. See accel(7).
 */
#ifndef ACCEL_H
#define ACCEL_H

#include <accel/base.h>
#include <accel/ckpt.h>
#include <accel/comm.h>
#include <accel/dataset.h>
#include <accel/job.h>
#include <accel/loader.h>
#include <accel/model.h>
#include <accel/optim.h>
#include <accel/progress.h>
#include <accel/rng.h>
#include <accel/settings.h>
#include <accel/topo.h>
#include <accel/train.h>
#include <accel/version.h>

#endif
