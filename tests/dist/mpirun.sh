#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# mpirun.sh EXIT_CODE RANKS TEXT PROGRAM [ARGS]: runs PROGRAM under mpirun and passes if mpirun
# returns EXIT_CODE and the output contains TEXT (a fixed string, may be empty).
# mpirun.sh same RANKS.. -- PROGRAM [ARGS]: runs it once per number of ranks (in quotes, "1 2 3")
# and passes if each run returns 0 and all write the same, non-empty standard output.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1

launch() { # RANKS PROGRAM [ARGS]
    ranks=$1
    shift
    mpirun -np "$ranks" --oversubscribe --bind-to none --mca mpi_yield_when_idle 1 \
        --mca odls_base_sigkill_timeout 0 "$@"
}

if [ "$1" = same ]; then
    counts=$2 first=
    shift 2
    for n in $counts; do
        if ! out=$(launch "$n" "$@"); then
            echo "FAILED: $n ranks did not end well" && exit 1
        fi
        echo "$n ranks: $out"
        if [ -z "$out" ] || [ "$out" != "${first:-$out}" ]; then
            echo "FAILED: $n ranks wrote something else" && exit 1
        fi
        first=$out
    done
    exit 0
fi

expected=$1 ranks=$2 text=$3
shift 3
out=$(launch "$ranks" "$@" 2>&1)
code=$?
echo "$out"
if [ "$code" -ne "$expected" ]; then
    echo "FAILED: mpirun returned $code, not $expected" && exit 1
fi
case $out in
*"$text"*) echo "mpirun returned $code as expected" ;;
*) echo "FAILED: the output lacks '$text'" && exit 1 ;;
esac
