/*
 * Calls of libmlx5, against which this program is linked, on a device that is not a ConnectX. The
 * test `errors` checks the messages about them.
 */
#include "common.h"

#include <infiniband/mlx5dv.h>

int main(void)
{
	struct bench bench = { 0 };
	struct mlx5dv_context context = { 0 };
	struct mlx5dv_obj object = { 0 };
	struct ibv_qp_init_attr_ex attr = { .qp_type = IBV_QPT_DRIVER };
	struct ibv_device **list;
	uint32_t eqn;

	open_bench(&bench);
	list = ibv_get_device_list(NULL);
	NEED(list && list[0]);
	EQUAL(mlx5dv_is_supported(list[0]), 0);
	errno = 0;
	CHECK(!mlx5dv_open_device(list[0], NULL));
	EQUAL(errno, EOPNOTSUPP);
	EQUAL(mlx5dv_query_device(bench.context, &context), EOPNOTSUPP);
	CHECK(!mlx5dv_create_qp(bench.context, &attr, NULL));
	CHECK(!mlx5dv_devx_alloc_uar(bench.context, 0));
	CHECK(!mlx5dv_dr_domain_create(bench.context, MLX5DV_DR_DOMAIN_TYPE_NIC_RX));
	EQUAL(mlx5dv_devx_query_eqn(bench.context, 0, &eqn), EOPNOTSUPP);
	object.qp.in = bench.qp[0];
	EQUAL(mlx5dv_init_obj(&object, MLX5DV_OBJ_QP), EOPNOTSUPP);
	ibv_free_device_list(list);
	close_bench(&bench);
	return finish();
}
