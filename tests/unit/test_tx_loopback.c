//  tests/unit/test_tx_loopback.c - the suite over the in-process transport

#include "tests/unit/tx_suite.h"

int
main (void)
{
    world_transport = "loopback";
    return cmocka_run_group_tests (suite_tests, NULL, NULL);
}
