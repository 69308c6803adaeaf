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
    "cx3-40g",
    "cx4lx-10g",
    "cx4lx-25g",
    "cx5-100g",
    "cx6-200g",
    "cx7-400g",
];

/// Name and text of each host profile.
pub(super) const HOSTS: &[(&str, &str)] = files![
    "hosts/":
    "xeon-6240r",
];

/// The text of `name` in `files`.
pub(super) fn find(files: &[(&str, &'static str)], name: &str) -> Option<&'static str> {
    let found = files.iter().find(|(known, _)| *known == name);
    found.map(|&(_, text)| text)
}
