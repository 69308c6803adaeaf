/*
 * A program that queries libmlx5 for the capabilities of a ConnectX beyond verbs, as perftest does
 * since release 24 if `vendor_part_id` is a ConnectX's. Run by client.rs with the expected part ID
 * in hexadecimal.
 */
#include <errno.h>
#include <infiniband/mlx5dv.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(condition) check((condition), #condition, __LINE__)

/* After the members that every release of the header has. */
enum { HEAD = offsetof(struct mlx5dv_context, comp_mask) + sizeof(uint64_t), UNTOUCHED = 0xa5 };

static int failures;

static void check(int condition, const char *text, int line)
{
	if (!condition) {
		printf("line %d: %s (errno %d)\n", line, text, errno);
		failures++;
	}
}

/* No capability is reported, and no field is written that the mask does not announce. */
static void check_no_claim(const struct mlx5dv_context *answer)
{
	const unsigned char *bytes = (const unsigned char *)answer;
	size_t i;

	CHECK(answer->version == 0);
	CHECK(answer->flags == 0);
	CHECK(answer->comp_mask == 0);
	for (i = HEAD; i < sizeof *answer; i++)
		if (bytes[i] != UNTOUCHED) {
			printf("byte %zu was written\n", i);
			failures++;
			break;
		}
}

/* libmlx5 itself refuses calls that need an mlx5 device, whatever the query has returned. */
static void check_refusals(struct ibv_context *context)
{
	struct ibv_qp_init_attr_ex attributes = { .qp_type = IBV_QPT_DRIVER };
	struct mlx5dv_qp_init_attr direct = { 0 };

	CHECK(!mlx5dv_is_supported(context->device));
	errno = 0;
	CHECK(!mlx5dv_create_qp(context, &attributes, &direct) && errno == EOPNOTSUPP);
}

int main(int count, char **words)
{
	unsigned long part_id = strtoul(count == 3 ? words[1] : "0", NULL, 16);
	int expected = atoi(count == 3 ? words[2] : "0");
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *context = list && list[0] ? ibv_open_device(list[0]) : NULL;
	struct mlx5dv_context answer;
	struct ibv_device_attr attributes;

	if (!context) {
		printf("no device\n");
		return 1;
	}
	CHECK(!ibv_query_device(context, &attributes) && attributes.vendor_part_id == part_id);

	memset(&answer, UNTOUCHED, sizeof answer);
	CHECK(mlx5dv_query_device(context, &answer) == expected);
	if (!expected)
		check_no_claim(&answer);
	CHECK(mlx5dv_query_device(context, NULL) == (expected ? expected : EINVAL));
	check_refusals(context);

	CHECK(!ibv_close_device(context));
	ibv_free_device_list(list);
	return failures != 0;
}
