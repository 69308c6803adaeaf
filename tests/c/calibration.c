/* A gettimeofday() that runs a hundred times as fast.
 *
 * perftest measures the frequency of the processor's time stamp counter with it, for each size anew:
 * 200 intervals, 0.2 s of a processor. Most of the time of a short test went there, and the figures
 * that come out are not what the tests of perftest check. The processor has no part in it that the
 * library under test could see. */
#include <sys/time.h>
#include <time.h>

static long long begin_ns;

int gettimeofday(struct timeval *restrict time, void *restrict zone)
{
    struct timespec real;

    (void)zone;
    clock_gettime(CLOCK_REALTIME, &real);
    long long now_ns = real.tv_sec * 1000000000LL + real.tv_nsec;
    if (!begin_ns)
        begin_ns = now_ns;
    now_ns += (now_ns - begin_ns) * 99;
    time->tv_sec = now_ns / 1000000000;
    time->tv_usec = now_ns % 1000000000 / 1000;
    return 0;
}
