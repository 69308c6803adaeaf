//! The measured tables of `sim/lab/reference`, which are part of the binary.

use super::csv::Csv;
use super::{Table, table_csv};

/// A file of `sim/lab/reference`.
macro_rules! file {
    ($($part:literal),+) => {
        include_str!(concat!("../../reference/", $($part,)+ ".csv"))
    };
}

/// Names and files of perftest's tables; a name is the file's without `perftest_`.
macro_rules! perftest_tables {
    ($($name:literal),* $(,)?) => {
        &[$(($name, file!("perftest_", $name))),*]
    };
}

const PERFTEST: &[(&str, &str)] = perftest_tables![
    "aws_efa_srd_send_bw_partial",
    "aws_efa_srd_send_lat",
    "bf2_100g_roce_arm_send_bw",
    "cx3_qdr40_ib_read_bw",
    "cx3_qdr40_ib_send_bw",
    "cx3_qdr40_ib_write_bw",
    "cx3_qdr40_ib_write_lat",
    "cx4_edr100_ib_direct_mtu256_send_lat",
    "cx4_edr100_ib_direct_send_lat",
    "cx4_edr100_ib_ud_direct_send_bw",
    "cx4_edr100_ib_ud_direct_send_lat",
    "cx4lx_10g_roce_send_bw",
    "cx4lx_25g_roce_send_bw",
    "cx5_edr100_ib_gpumem_send_lat",
    "cx5_edr100_ib_ud_send_bw",
    "cx5_edr100_ib_ud_send_lat",
    "cx5_edr100_ib_vf_send_bw",
    "cx5_edr100_ib_vf_send_lat",
    "cx6_hdr200_ib_mt4123_write_bw",
    "cx6_hdr200_ib_write_bw",
    "cx6_hdr200_ib_write_lat",
    "cx7_400g_gke_a3ultra_gpumem_write_bw_partial",
    "cx7_400g_gke_a3ultra_write_bw_partial",
    "edr100_ib_send_bw_qemu",
    "edr100_ib_write_bw_k8s",
    "fdr56_ib_read_bw",
    "hdr200_ib_aks_read_bw",
    "hdr200_ib_aks_write_bw",
    "hdr200_ib_loopback_write_bw_partial",
    "hdr200_ib_remote_numa_write_bw",
    "ionic_400g_roce_gpumem_write_bw",
    "mlx4_qdr40_ib_lat",
    "mlx4_qdr40_ib_read_bw",
    "mlx4_qdr40_ib_send_bw",
    "mlx4_qdr40_ib_write_bw",
    "mlx5_100g_roce_egx_write_bw",
    "mlx5_100g_roce_mtu1024_write_bw_gpumem",
    "mlx5_200g_roce_mtu4096_write_bw",
    "nonmlx_100g_roce_mtu4096_send_bw",
    "softroce_1g_read_bw_after_patch",
    "softroce_1g_read_bw_before_patch",
    "softroce_loopback_write_lat",
    "thor2_400g_roce_own_write_bw",
];

/// Files of other shapes than perftest's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Other {
    /// Targets of the model, and their tolerances.
    ValidationTargets,
    /// READs of ConnectX-3 against the number of QPs.
    QpScaling,
    /// READs and WRITEs of ConnectX-6 against threads, doorbells and depth.
    ThreadScaling,
    /// UDP goodput of a 100G FPGA design against the size of the payload.
    FpgaUdp,
    /// Efficiency of go-back-N and of selective repeat, by formula.
    LossAnalytic,
    /// DMA bandwidth against the size of a transfer.
    PcieBandwidthSize,
    /// DMA bandwidth against the size of the window of host memory.
    PcieBandwidthWindow,
    /// DMA latency against the size of a transfer.
    PcieLatencySize,
    /// DMA latency against the size of the window of host memory.
    PcieLatencyWindow,
    /// DMA bandwidth by formula.
    PcieFormula,
    /// Goodput that headers leave of a RoCEv2 link, by formula.
    RoceLimits,
}

impl Other {
    fn text(self) -> &'static str {
        match self {
            Self::ValidationTargets => file!("validation_targets"),
            Self::QpScaling => file!("fasst_qp_scaling_cx3"),
            Self::ThreadScaling => file!("smart_cx6_scaling"),
            Self::FpgaUdp => file!("fpga_vnx_u280_100g_udp_throughput"),
            Self::LossAnalytic => file!("gbn_vs_sr_analytic"),
            Self::PcieBandwidthSize => file!("pcie_bench_bw_vs_size"),
            Self::PcieBandwidthWindow => file!("pcie_bench_bw_vs_window"),
            Self::PcieLatencySize => file!("pcie_bench_latency_vs_size"),
            Self::PcieLatencyWindow => file!("pcie_bench_latency_vs_window"),
            Self::PcieFormula => file!("pcie_effective_bw_model"),
            Self::RoceLimits => file!("roce_goodput_limits"),
        }
    }

    /// Reads the file.
    pub fn csv(self) -> Csv {
        Csv::parse(self.text()).expect("the tests have read it")
    }
}

/// Returns every table of perftest, by name.
pub fn tables() -> Vec<Table> {
    let files = PERFTEST.iter();
    files.flat_map(|(name, text)| read(name, text)).collect()
}

/// Returns the tables that `name` names: a file (`mlx4_qdr40_ib_lat`) or one table of it
/// (`mlx4_qdr40_ib_lat:read`). Empty if there is none.
pub fn find(name: &str) -> Vec<Table> {
    let name = name.strip_prefix("perftest_").unwrap_or(name);
    let name = name.strip_suffix(".csv").unwrap_or(name);
    let file = name.split(':').next().unwrap_or(name);
    let found = PERFTEST.iter().find(|(known, _)| *known == file);
    let tables = found.map_or(Vec::new(), |(known, text)| read(known, text));
    let matches = |table: &Table| name == file || table.name == name;
    tables.into_iter().filter(matches).collect()
}

fn read(name: &str, text: &str) -> Vec<Table> {
    table_csv::parse(name, text).expect("the tests have read it")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reference::{Rows, Verb};

    #[test]
    fn every_file_is_read_and_agrees_with_itself() {
        let tables = tables();
        assert!(tables.len() > PERFTEST.len(), "{} tables", tables.len());
        for table in &tables {
            assert!(!table.sizes().is_empty(), "{} is empty", table.name);
            assert_eq!(table.warnings, [""; 0], "{}", table.name);
            assert!(
                table.points().iter().all(|(_, value)| *value > 0.0),
                "{}",
                table.name
            );
        }
    }

    #[test]
    fn what_one_table_says() {
        let table = find("cx6_hdr200_ib_write_lat").remove(0);
        assert_eq!(table.setup.max_inline_bytes, Some(220));
        assert_eq!(table.setup.link_gbps, Some(200.0));
        assert_eq!(table.points()[22], (8 << 20, 345.55));
        assert_eq!(find("mlx4_qdr40_ib_lat").len(), 3);
        let read = find("perftest_mlx4_qdr40_ib_lat.csv:read");
        assert!(read.is_empty() || read[0].setup.verb == Verb::Read);
        assert_eq!(find("mlx4_qdr40_ib_lat:read")[0].setup.verb, Verb::Read);
        assert!(find("no_such_table").is_empty());
        let Rows::Bandwidth(rows) = &find("cx4lx_25g_roce_send_bw")[0].rows else {
            panic!("bandwidth");
        };
        assert_eq!(rows.len(), 23);
    }

    #[test]
    fn other_files_are_read() {
        use Other::*;
        for file in [
            ValidationTargets,
            QpScaling,
            ThreadScaling,
            FpgaUdp,
            LossAnalytic,
            PcieBandwidthSize,
            PcieBandwidthWindow,
            PcieLatencySize,
            PcieLatencyWindow,
            PcieFormula,
            RoceLimits,
        ] {
            assert!(file.csv().rows.len() > 10, "{file:?}");
        }
    }
}
