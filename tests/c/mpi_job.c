/*
 * An MPI job: a ping-pong between the first and the last rank, and a sum over all ranks, which is
 * checked. Rank 0 prints how long each takes.
 */
#include <mpi.h>
#include <stdio.h>
#include <string.h>

enum { ROUNDS = 50, WARM_UP = 10, MAX_BYTES = 8192, MAX_VALUES = 1024 };

static int rank, ranks;

static void ping_pong(int bytes)
{
	static char buffer[MAX_BYTES];
	int peer = rank == 0 ? ranks - 1 : 0;
	double begin = 0;

	MPI_Barrier(MPI_COMM_WORLD);
	if (rank != 0 && rank != ranks - 1)
		return;
	for (int round = 0; round < ROUNDS; round++) {
		if (round == WARM_UP)
			begin = MPI_Wtime();
		if (rank == 0)
			MPI_Send(buffer, bytes, MPI_CHAR, peer, 0, MPI_COMM_WORLD);
		MPI_Recv(buffer, bytes, MPI_CHAR, peer, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		if (rank != 0)
			MPI_Send(buffer, bytes, MPI_CHAR, peer, 0, MPI_COMM_WORLD);
	}
	if (rank == 0)
		printf("ping-pong %d bytes %.3f us\n", bytes,
		       (MPI_Wtime() - begin) * 1e6 / (2 * (ROUNDS - WARM_UP)));
}

/* Returns false if a sum is wrong. */
static int all_reduce(int count)
{
	static double own[MAX_VALUES], sum[MAX_VALUES];
	double begin = 0;

	for (int place = 0; place < count; place++)
		own[place] = rank + place;
	MPI_Barrier(MPI_COMM_WORLD);
	for (int round = 0; round < ROUNDS; round++) {
		if (round == WARM_UP)
			begin = MPI_Wtime();
		MPI_Allreduce(own, sum, count, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
	}
	if (rank == 0)
		printf("allreduce %d values %.3f us\n", count,
		       (MPI_Wtime() - begin) * 1e6 / (ROUNDS - WARM_UP));
	for (int place = 0; place < count; place++)
		if (sum[place] != ranks * (ranks - 1) / 2.0 + (double)ranks * place)
			return 0;
	return 1;
}

int main(int count, char **arguments)
{
	char name[MPI_MAX_PROCESSOR_NAME];
	int length, is_right = 1;

	MPI_Init(&count, &arguments);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	MPI_Get_processor_name(name, &length);
	if (rank == ranks - 1 && strcmp(name, "n0") == 0)
		fprintf(stderr, "the last rank is on the first host\n");
	for (int bytes = 8; bytes <= MAX_BYTES; bytes *= 32)
		ping_pong(bytes);
	for (int values = 1; values <= MAX_VALUES; values *= 32)
		is_right &= all_reduce(values);
	if (!is_right)
		fprintf(stderr, "rank %d: a sum is wrong\n", rank);
	MPI_Finalize();
	return !is_right;
}
