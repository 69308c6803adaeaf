//! The preset that each measured table is compared with: the card, in the machine of the table.

/// Name of a table with its preset, or the reason why it has none.
pub type Pair = (&'static str, Result<&'static str, &'static str>);

/// A table that is not compared.
const SOFTWARE: &str = "software, not a card";
const OTHER_PROTOCOL: &str = "the model has no SRD";

/// All tables of perftest that are built in, by name.
pub const PAIRS: &[Pair] = &[
    ("aws_efa_srd_send_bw_partial", Err(OTHER_PROTOCOL)),
    ("aws_efa_srd_send_lat", Err(OTHER_PROTOCOL)),
    ("bf2_100g_roce_arm_send_bw", Ok("cx6dx-100g@bf2-arm")),
    ("cx3_qdr40_ib_read_bw", Ok("cx3-40g@xeon-qdr")),
    ("cx3_qdr40_ib_send_bw", Ok("cx3-40g@xeon-qdr")),
    ("cx3_qdr40_ib_write_bw", Ok("cx3-40g@xeon-qdr")),
    ("cx3_qdr40_ib_write_lat", Ok("cx3-40g@xeon-qdr")),
    (
        "cx4_edr100_ib_direct_mtu256_send_lat",
        Ok("cx4-100g@t630-e5"),
    ),
    ("cx4_edr100_ib_direct_send_lat", Ok("cx4-100g@t630-e5")),
    (
        "cx4_edr100_ib_ud_direct_send_bw",
        Ok("cx4-100g@edr-direct-e5"),
    ),
    (
        "cx4_edr100_ib_ud_direct_send_lat",
        Ok("cx4-100g@edr-direct-e5"),
    ),
    ("cx4lx_10g_roce_send_bw", Ok("cx4lx-10g")),
    ("cx4lx_25g_roce_send_bw", Ok("cx4lx-25g")),
    (
        "cx5_edr100_ib_gpumem_send_lat",
        Ok("cx5-100g@edr-xeon@gpu-on-switch"),
    ),
    ("cx5_edr100_ib_ud_send_bw", Ok("cx5-100g@edr-ud")),
    ("cx5_edr100_ib_ud_send_lat", Ok("cx5-100g@edr-ud")),
    ("cx5_edr100_ib_vf_send_bw", Ok("cx5-100g@azure-hc44rs")),
    ("cx5_edr100_ib_vf_send_lat", Ok("cx5-100g@azure-hc44rs")),
    ("cx6_hdr200_ib_mt4123_write_bw", Ok("cx6-200g@hdr-fast")),
    ("cx6_hdr200_ib_write_bw", Ok("cx6-200g@epyc-hdr")),
    ("cx6_hdr200_ib_write_lat", Ok("cx6-200g@epyc-hdr")),
    (
        "cx7_400g_gke_a3ultra_gpumem_write_bw_partial",
        Ok("cx7-400g@cloud-400g"),
    ),
    (
        "cx7_400g_gke_a3ultra_write_bw_partial",
        Ok("cx7-400g@cloud-400g-host"),
    ),
    ("edr100_ib_send_bw_qemu", Ok("cx5-100g@edr-xeon")),
    ("edr100_ib_write_bw_k8s", Ok("cx5-100g@edr-xeon")),
    ("fdr56_ib_read_bw", Ok("cx3-40g@fdr56")),
    ("hdr200_ib_aks_read_bw", Ok("cx6-200g@aks-hdr")),
    ("hdr200_ib_aks_write_bw", Ok("cx6-200g@aks-hdr")),
    (
        "hdr200_ib_loopback_write_bw_partial",
        Err("loopback, which the harness does not repeat"),
    ),
    (
        "hdr200_ib_remote_numa_write_bw",
        Ok("cx6-200g@epyc-hdr@epyc-2socket"),
    ),
    ("ionic_400g_roce_gpumem_write_bw", Ok("pollara-400g@mi355x")),
    ("mlx4_qdr40_ib_lat", Ok("cx3-40g@gen2-qdr")),
    ("mlx4_qdr40_ib_read_bw", Ok("cx3-40g@gen2-qdr")),
    ("mlx4_qdr40_ib_send_bw", Ok("cx3-40g@gen2-qdr")),
    ("mlx4_qdr40_ib_write_bw", Ok("cx3-40g@gen2-qdr")),
    ("mlx5_100g_roce_egx_write_bw", Ok("cx5-100g@egx-a100")),
    (
        "mlx5_100g_roce_mtu1024_write_bw_gpumem",
        Ok("cx5-100g@gpu-on-switch"),
    ),
    ("mlx5_200g_roce_mtu4096_write_bw", Ok("cx6-200g@roce200")),
    ("nonmlx_100g_roce_mtu4096_send_bw", Ok("cx5-100g@roce-350")),
    ("softroce_1g_read_bw_after_patch", Err(SOFTWARE)),
    ("softroce_1g_read_bw_before_patch", Err(SOFTWARE)),
    ("softroce_loopback_write_lat", Err(SOFTWARE)),
    (
        "thor2_400g_roce_own_write_bw",
        Ok("thor2-400g@roce-own-400g"),
    ),
];

#[cfg(test)]
mod tests {
    use ferroce_model::preset::Preset;

    use super::*;
    use crate::reference::builtin;

    /// Goal: a new table is either compared or listed with the reason. Method: the list is as long
    /// as the tables, each name finds one, and each preset loads.
    #[test]
    fn every_table_has_its_preset_or_a_reason() {
        let mut found = Vec::new();
        for (table, pair) in PAIRS {
            let tables = builtin::find(table);
            assert!(!tables.is_empty(), "no table is called {table}");
            found.extend(tables.into_iter().map(|table| table.name));
            match pair {
                Ok(preset) => {
                    Preset::load(preset).unwrap_or_else(|error| panic!("{table}: {error}"));
                }
                Err(reason) => assert!(!reason.is_empty(), "{table}"),
            }
        }
        let all: Vec<_> = builtin::tables().into_iter().map(|one| one.name).collect();
        assert_eq!(found, all);
    }
}
