// SPDX-License-Identifier: Apache-2.0
// Everything that serried offers to other programs, room by room.
#ifndef SERRIED_H
#define SERRIED_H

#include "kernels/base/clock.h"
#include "kernels/base/cpuid.h"
#include "kernels/base/dtype.h"
#include "kernels/base/file.h"
#include "kernels/base/hash.h"
#include "kernels/base/log.h"
#include "kernels/base/math.h"
#include "kernels/base/memory.h"
#include "kernels/base/options.h"
#include "kernels/base/pool.h"
#include "kernels/base/rng.h"
#include "kernels/base/status.h"
#include "kernels/base/text.h"

#endif
