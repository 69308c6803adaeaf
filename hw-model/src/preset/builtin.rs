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
    "cx3-40g",
    "cx4lx-10g",
    "cx4lx-25g",
    "cx5-100g",
    "cx6-200g",
    "cx7-400g",
    "nfp-6000",
];

/// Name and text of each host profile.
pub(super) const HOSTS: &[(&str, &str)] = files![
    "hosts/":
    "apt-fdr",
    "azure-hc44rs",
    "broadwell-e5",
    "cloud-400g",
    "desktop-x8",
    "edr-direct-e5",
    "edr-ud",
    "edr-xeon",
    "epyc-hdr",
    "fdr56",
    "gen2-qdr",
    "gigabit",
    "haswell-e5",
    "haswell-e5-no-iommu",
    "ivybridge-e5",
    "k8s-1ghz",
    "mtu-4096",
    "remote-socket",
    "roce-350",
    "small-pages",
    "switched",
    "uar-per-thread",
    "xeon-6240r",
    "xeon-qdr",
];

/// The text of `name` in `files`.
pub(super) fn find(files: &[(&str, &'static str)], name: &str) -> Option<&'static str> {
    let found = files.iter().find(|(known, _)| *known == name);
    found.map(|&(_, text)| text)
}
