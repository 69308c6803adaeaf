//! The presets and host profiles of the project.

macro_rules! files {
    ($folder:literal: $($name:literal),+ $(,)?) => {
        &[ $( ($name, include_str!(concat!("../../presets/", $folder, $name, ".toml"))) ),+ ]
    };
}

/// Name and text of each preset.
pub(super) const PRESETS: &[(&str, &str)] = files![
    "":
    "functional",
    "irdma-10g",
    "fpga-100g",
    "fpga-100g-u280",
    "connect-ib-56g",
    "cx3-40g",
    "cx4-100g",
    "cx4lx-10g",
    "cx4lx-25g",
    "cx5-100g",
    "cx6-200g",
    "cx6dx-100g",
    "e810-100g",
    "cx7-400g",
    "cx8-800g",
    "bf3-400g",
    "thor2-400g",
    "pollara-400g",
    "efa-100g",
    "nfp-6000",
];

/// Name and text of each host profile.
pub(super) const HOSTS: &[(&str, &str)] = files![
    "hosts/":
    "aks-hdr",
    "apt-fdr",
    "azure-hc44rs",
    "bf2-arm",
    "broadwell-e5",
    "cloud-400g",
    "cloud-400g-host",
    "desktop-x8",
    "dgx-h100",
    "edr-direct-e5",
    "edr-ud",
    "edr-xeon",
    "egx-a100",
    "emerald-rapids",
    "epyc-2socket",
    "epyc-hdr",
    "epyc-nps4",
    "fdr56",
    "gb10",
    "gen2-qdr",
    "gigabit",
    "gpu-on-switch",
    "haswell-e5",
    "haswell-e5-no-iommu",
    "hdr-fast",
    "ivybridge-e5",
    "k8s-1ghz",
    "mi355x",
    "mtu-4096",
    "remote-socket",
    "roce-350",
    "roce-own-400g",
    "roce200",
    "small-pages",
    "switched",
    "t630-e5",
    "uar-per-thread",
    "workstation-root-complex",
    "xeon-6240r",
    "xeon-8360y",
    "xeon-qdr",
];

/// Returns the text of `name` in `files`.
pub(super) fn find(files: &[(&str, &'static str)], name: &str) -> Option<&'static str> {
    let found = files.iter().find(|(known, _)| *known == name);
    found.map(|&(_, text)| text)
}
