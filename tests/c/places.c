/*
 * More processes than the fabric has places open the device, one after the other, and are killed by
 * SIGKILL; then this process opens the device.
 */
#include "common.h"
#include <signal.h>
#include <sys/wait.h>

enum { PROCESSES = 260 };

int main(void)
{
	struct ibv_context *context;

	for (int i = 0; i < PROCESSES; i++) {
		int status = 0;
		pid_t child = fork();

		if (!child) {
			if (open_first_device())
				raise(SIGKILL);
			_exit(1);
		}
		NEED(waitpid(child, &status, 0) == child);
		NEED(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	}
	context = open_first_device();
	NEED(context);
	EQUAL(ibv_close_device(context), 0);
	return finish();
}
